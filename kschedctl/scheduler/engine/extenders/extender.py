"""One HTTP extender: whether it is interested in a pod, what it is sent, and what is wrong with its answers.

Upstream: HTTPExtender in pkg/scheduler/extender.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec
import numpy as np

from kschedctl.api.arrays import NO_ROW, Rows
from kschedctl.api.json_values import Json, JsonObject, field_at
from kschedctl.api.objects import Pod
from kschedctl.cluster import Gap
from kschedctl.scheduler.engine.extenders.answers import (
    ExtenderError,
    MetaVictims,
    filter_result,
    host_priorities,
    node_of,
    preemption_result,
)
from kschedctl.scheduler.engine.extenders.settings import Extender
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.snapshot.nodes import NodeColumns
from kschedctl.text.urls import shown_url

CallExtender = Callable[[JsonObject, str, JsonObject], tuple[int, Json]]
"""(extender as in the configuration, verb, payload) -> (HTTP status, decoded body, None unless the status is 200).

Raises ExtenderError where the call fails, UnheardError where nobody knows what the answer would be.
"""


@runtime_checkable
class CallTellingMore(Protocol):
    """A CallExtender that sends more of some pods than plugins read."""

    @property
    def known(self) -> JsonObject:
        """Pods by ``namespace/name``."""


NAME = "Extender"
"""What the scheduler's diagnosis calls all of them."""
UNASKED = Gap("were not asked")


class UnheardError(Exception):
    """What an extender would have answered is not known. ``str()`` says why, after "Extenders …"."""


class Offered(NamedTuple):
    """Nodes as an extender is offered them, in order: their names and rows, NO_ROW for one that the cluster has not.

    ``returned``: the whole nodes in their place as an extender returned them; None where they are the scheduler's own.
    """

    names: tuple[str, ...]
    rows: Rows
    returned: tuple[JsonObject, ...] | None = None

    @classmethod
    def of(cls, nodes: NodeColumns, rows: Rows) -> Offered:
        """The scheduler's own."""
        if np.array_equal(rows, nodes.rows):  # the usual case, without a step for each
            return cls(tuple(nodes.names), rows)
        return cls(tuple(map(nodes.names.__getitem__, rows.tolist())), rows)


NOTHING_OFFERED = Offered((), np.empty(0, np.int64))


class FilterAnswer(NamedTuple):
    """The nodes that an extender leaves, and the messages for those that it names as refused, for good or not."""

    left: Offered
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


class HTTPExtender:
    """An extender of the configuration, called by ``call``; ``url`` names it in all that is said.

    ``document``: as in the configuration.
    """

    def __init__(self, settings: Extender, document: JsonObject, call: CallExtender | None = None) -> None:
        self.settings, self.document, self.call = settings, document, call
        self.url = shown_url(settings.url_prefix)
        self._managed = frozenset(resource.name for resource in settings.managed_resources)

    def is_interested(self, pod: Pod) -> bool:
        """Whether a container of the pod asks for a resource that it manages; one that manages none takes all pods."""
        if not self._managed:
            return True
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return any(self._managed.intersection((*c.resources.requests, *c.resources.limits)) for c in containers)

    def unknowns(self, pod: Pod) -> Iterator[Unknown]:
        """What an answer about a pod leans on as long as it is not asked."""
        if self.call is not None or not self.is_interested(pod):
            return
        effects = {
            Effect.NARROWS: self.settings.filter_verb,
            Effect.SCORES: self.settings.prioritize_verb,
            Effect.VICTIMS: self.settings.preempt_verb,
        }
        for effect, verb in effects.items():
            if verb:
                yield Unknown(Dependency(NAME, effect), UNASKED)

    def filter(self, pod: JsonObject, offered: Offered, nodes: NodeColumns) -> FilterAnswer:
        """Raises ExtenderError, UnheardError."""
        result = filter_result(self._send(self.settings.filter_verb, self._args(pod, offered, nodes)))
        if result.error:
            raise ExtenderError(result.error)
        if self.settings.node_cache_capable and result.node_names is not None:
            left = self._named(result.node_names, offered)
        elif result.nodes is not None:
            left = _believed(result.nodes, nodes)
        else:
            left = NOTHING_OFFERED
        return FilterAnswer(left, result.failed, result.unresolvable)

    def prioritize(self, pod: JsonObject, offered: Offered, nodes: NodeColumns) -> list[tuple[str, int]]:
        """Host and score, before it is weighted. Raises ExtenderError, UnheardError."""
        return host_priorities(self._send(self.settings.prioritize_verb, self._args(pod, offered, nodes)))

    def preempt(
        self, pod: JsonObject, victims: Mapping[str, tuple[list[dict[str, Json]], int]]
    ) -> dict[str, MetaVictims]:
        """``victims``: node -> the pods to evict, and how many budgets that breaks. Raises as ``filter`` does."""
        if self.settings.node_cache_capable:
            uids = {n: [{"UID": field_at(pod, "metadata", "uid")} for pod in pods] for n, (pods, _) in victims.items()}
            of_node: dict[str, list[dict[str, Json]]] = uids
        else:
            of_node = {n: pods for n, (pods, _) in victims.items()}
        sent = {n: {"Pods": pods, "NumPDBViolations": victims[n][1]} for n, pods in of_node.items()}
        name, other = "NodeNameToVictims", "NodeNameToMetaVictims"
        if self.settings.node_cache_capable:
            name, other = other, name
        return preemption_result(self._send(self.settings.preempt_verb, {"Pod": pod, name: sent, other: None}))

    def _args(self, pod: JsonObject, offered: Offered, nodes: NodeColumns) -> dict[str, Json]:
        """ExtenderArgs."""
        if self.settings.node_cache_capable:
            return {"Pod": pod, "Nodes": None, "NodeNames": list(offered.names)}
        items = offered.returned
        if items is None:
            items = tuple(msgspec.to_builtins(nodes.objects[row]) for row in offered.rows.tolist())
        return {"Pod": pod, "Nodes": {"metadata": {}, "items": list(items)}, "NodeNames": None}

    def _send(self, verb: str, payload: JsonObject) -> Json:
        if self.call is None:
            raise UnheardError(UNASKED.why)
        status, body = self.call(self.document, verb, payload)
        if status != 200:
            raise ExtenderError(f"failed {verb} with extender at URL {self.url.rstrip('/')}/{verb}, code {status}")
        return body

    def _named(self, names: Sequence[str], offered: Offered) -> Offered:
        place = {name: i for i, name in enumerate(offered.names)}
        for name in names:
            if name not in place:
                what = f'claims a filtered node "{name}" which is not found in the input node list'
                raise ExtenderError(f'extender "{self.url}" {what}')
        chosen = [place[name] for name in names]
        returned = None if offered.returned is None else tuple(offered.returned[i] for i in chosen)
        return Offered(tuple(names), offered.rows[chosen], returned)


def asks(extenders: Sequence[HTTPExtender], pod: Pod) -> bool:
    """Whether one of them is asked about the pod."""
    return bool(extenders) and any(extender.call is not None and extender.is_interested(pod) for extender in extenders)


def _believed(documents: Sequence[JsonObject], nodes: NodeColumns) -> Offered:
    """Whole nodes as they came, also ones that nobody has heard of."""
    names = tuple(node_of(document).metadata.name for document in documents)
    rows = np.array([nodes.index.get(name, NO_ROW) for name in names], np.int64)
    return Offered(names, rows, tuple(documents))
