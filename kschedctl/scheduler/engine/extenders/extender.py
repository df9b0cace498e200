"""One HTTP extender: its settings, the pods that it is interested in, its payloads, and the checks of its answers.

Upstream: HTTPExtender in pkg/scheduler/extender.go and staging/src/k8s.io/kube-scheduler/config/v1/types.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec
import numpy as np

from kschedctl.api.arrays import NO_ROW, Rows
from kschedctl.api.json_values import Json, JsonObject, field_at
from kschedctl.api.objects import Pod, Struct
from kschedctl.cluster import Gap
from kschedctl.scheduler.engine.extenders.answers import (
    ExtenderError,
    MetaVictims,
    parse_filter_result,
    parse_host_priorities,
    parse_node,
    parse_preemption_result,
)
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.framework.strict_decoding import GoDuration, Int64
from kschedctl.snapshot.nodes import NodeColumns
from kschedctl.text.printable import strip_url


class ExtenderManagedResource(Struct, frozen=True):
    """An extended resource that an extender manages."""

    name: str = ""
    ignored_by_scheduler: bool = False
    """Whether NodeResourcesFit ignores the resource."""


class ExtenderTLSConfig(Struct, frozen=True):
    """TLS settings for calls of an extender."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class Extender(Struct, frozen=True):
    """An HTTP extender."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: GoDuration = msgspec.field(default=GoDuration(0), name="httpTimeout")
    """In seconds; 0 means 5."""
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


CallExtender = Callable[[JsonObject, str, JsonObject], tuple[int, Json]]
"""(extender as in the configuration, verb, payload) -> (HTTP status, decoded body or None unless the status is 200).

Raises ExtenderError if the call fails and UnknownAnswerError if the answer cannot be known.
"""


@runtime_checkable
class CallWithFullPods(Protocol):
    """A CallExtender that sends some pods with more fields than plugins read."""

    @property
    def full_pods(self) -> JsonObject:
        """`namespace/name` -> the pod as JSON."""


NAME = "Extender"
"""The name that the scheduler's diagnosis gives to all extenders together."""
UNASKED = Gap("were not asked")


class UnknownAnswerError(Exception):
    """Raised if an extender's answer cannot be known. `str()` is the reason, to follow "Extenders …"."""


class OfferedNodes(NamedTuple):
    """Nodes that an extender is offered, in order."""

    names: tuple[str, ...]
    rows: Rows
    """NO_ROW for a node that the cluster does not have."""
    returned: tuple[JsonObject, ...] | None = None
    """The whole nodes as another extender returned them; None if they are the scheduler's own."""

    @classmethod
    def from_rows(cls, nodes: NodeColumns, rows: Rows) -> OfferedNodes:
        """Offer the scheduler's own nodes at these rows to an extender."""
        if np.array_equal(rows, nodes.rows):  # the usual case, handled without a step for each row
            return cls(tuple(nodes.names), rows)
        return cls(tuple(map(nodes.names.__getitem__, rows.tolist())), rows)


NOTHING_OFFERED = OfferedNodes((), np.empty(0, np.int64))


class FilterAnswer(NamedTuple):
    """An extender's filter answer, resolved to nodes."""

    remaining: OfferedNodes
    """The nodes that the extender leaves."""
    failed: Mapping[str, str]
    """Rejected node -> message."""
    unresolvable: Mapping[str, str]
    """Node rejected for good -> message."""


class HTTPExtender:
    """An extender of the configuration.

    `call` makes HTTP calls, and is None if the extender is not asked. `url` identifies the extender in messages, and
    `document` is the extender as in the configuration.
    """

    def __init__(self, settings: Extender, document: JsonObject, call: CallExtender | None = None) -> None:
        self.settings, self.document, self.call = settings, document, call
        self.url = strip_url(settings.url_prefix)
        self._managed = frozenset(resource.name for resource in settings.managed_resources)

    def is_interested(self, pod: Pod) -> bool:
        """Return whether the pod requests a resource that the extender manages.

        An extender without managed resources is interested in every pod.
        """
        if not self._managed:
            return True
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return any(self._managed.intersection((*c.resources.requests, *c.resources.limits)) for c in containers)

    def find_unknowns(self, pod: Pod) -> Iterator[Unknown]:
        """Yield what remains unknown about the pod because this extender is not called."""
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

    def filter(self, pod: JsonObject, offered: OfferedNodes, nodes: NodeColumns) -> FilterAnswer:
        """Ask the extender which of the offered nodes remain. Raises ExtenderError or UnknownAnswerError."""
        result = parse_filter_result(self._call_verb(self.settings.filter_verb, self._build_args(pod, offered, nodes)))
        if result.error:
            raise ExtenderError(result.error)
        if self.settings.node_cache_capable and result.node_names is not None:
            remaining = self._resolve_names(result.node_names, offered)
        elif result.nodes is not None:
            remaining = _resolve_nodes(result.nodes, nodes)
        else:
            remaining = NOTHING_OFFERED
        return FilterAnswer(remaining, result.failed, result.unresolvable)

    def prioritize(self, pod: JsonObject, offered: OfferedNodes, nodes: NodeColumns) -> list[tuple[str, int]]:
        """Ask the extender for the unweighted score of each offered node, by name.

        Raises ExtenderError or UnknownAnswerError.
        """
        return parse_host_priorities(
            self._call_verb(self.settings.prioritize_verb, self._build_args(pod, offered, nodes))
        )

    def preempt(
        self, pod: JsonObject, victims: Mapping[str, tuple[list[dict[str, Json]], int]]
    ) -> dict[str, MetaVictims]:
        """Ask the extender which victims to evict on each node, and return its answer by node name.

        `victims` maps each node to its pods to evict and the number of PDB violations. Raises ExtenderError or
        UnknownAnswerError.
        """
        sends_uids = self.settings.node_cache_capable
        by_node = {}
        for node, (pods, violations) in victims.items():
            sent = [{"UID": field_at(victim, "metadata", "uid")} for victim in pods] if sends_uids else pods
            by_node[node] = {"Pods": sent, "NumPDBViolations": violations}
        payload = {
            "Pod": pod,
            "NodeNameToVictims": None if sends_uids else by_node,
            "NodeNameToMetaVictims": by_node if sends_uids else None,
        }
        return parse_preemption_result(self._call_verb(self.settings.preempt_verb, payload))

    def _build_args(self, pod: JsonObject, offered: OfferedNodes, nodes: NodeColumns) -> dict[str, Json]:
        """Build the payload of the filter and prioritize verbs, upstream's ExtenderArgs."""
        if self.settings.node_cache_capable:
            return {"Pod": pod, "Nodes": None, "NodeNames": list(offered.names)}
        items = offered.returned
        if items is None:
            items = tuple(msgspec.to_builtins(nodes.objects[row]) for row in offered.rows.tolist())
        return {"Pod": pod, "Nodes": {"metadata": {}, "items": list(items)}, "NodeNames": None}

    def _call_verb(self, verb: str, payload: JsonObject) -> Json:
        """Call a verb and return the decoded body. Raises ExtenderError or UnknownAnswerError."""
        if self.call is None:
            raise UnknownAnswerError(UNASKED.why)
        status, body = self.call(self.document, verb, payload)
        if status != 200:
            raise ExtenderError(f"failed {verb} with extender at URL {self.url.rstrip('/')}/{verb}, code {status}")
        return body

    def _resolve_names(self, names: Sequence[str], offered: OfferedNodes) -> OfferedNodes:
        """Return the offered nodes with these names. Raises ExtenderError for a name that was not offered."""
        index_by_name = {name: i for i, name in enumerate(offered.names)}
        for name in names:
            if name not in index_by_name:
                complaint = f'claims a filtered node "{name}" which is not found in the input node list'
                raise ExtenderError(f'extender "{self.url}" {complaint}')
        chosen = [index_by_name[name] for name in names]
        returned = None if offered.returned is None else tuple(offered.returned[i] for i in chosen)
        return OfferedNodes(tuple(names), offered.rows[chosen], returned)


def is_any_extender_called(extenders: Sequence[HTTPExtender], pod: Pod) -> bool:
    """Return whether some extender is called about the pod."""
    return bool(extenders) and any(extender.call is not None and extender.is_interested(pod) for extender in extenders)


def _resolve_nodes(documents: Sequence[JsonObject], nodes: NodeColumns) -> OfferedNodes:
    """Convert returned node objects to offered nodes, including nodes that the cluster does not have."""
    names = tuple(parse_node(document).metadata.name for document in documents)
    rows = np.array([nodes.index.get(name, NO_ROW) for name in names], np.int64)
    return OfferedNodes(names, rows, tuple(documents))
