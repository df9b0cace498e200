"""What the extenders are asked about one pod in one cycle, in order, and what came of it.

Upstream: findNodesThatPassExtenders and prioritizeNodes in pkg/scheduler/schedule_one.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from kschedctl.api.arrays import Rows, Scores
from kschedctl.api.json_values import Json, JsonObject
from kschedctl.api.kube_version import VERIFIED, ByVersion, KubeVersion
from kschedctl.api.objects import Pod
from kschedctl.cluster import Gap
from kschedctl.scheduler.engine.extenders.answers import ExtenderError, MetaVictims
from kschedctl.scheduler.engine.extenders.extender import NAME, FilterAnswer, HTTPExtender, Offered, UnheardError
from kschedctl.scheduler.framework import Code, PluginError, Status
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import NodeColumns

MAX_EXTENDER_PRIORITY = 10
AGGREGATED = ByVersion(
    "whether what extenders say of a node is added to what others said of it",
    (("", True), ("1.32", False)),
)
Answer = TypeVar("Answer")


class ExtenderCall(NamedTuple):
    """``nodes``: the names that were offered; ``full``: whole nodes were sent; ``error``: why there is no answer."""

    extender: str
    verb: str
    nodes: tuple[str, ...]
    full: bool = False
    error: str = ""


class Consultation:
    """The extenders that are interested in a pod.

    ``calls``: what they were asked. ``statuses``: what the diagnosis has of nodes from them; ``refusals``: by URL what
    each says of nodes. ``narrowed``: they left out nodes in the search for all. ``unknown``: what the answers lean on
    that nobody knows.
    """

    def __init__(self, extenders: Iterable[HTTPExtender], pod: Pod, release: KubeVersion = VERIFIED) -> None:
        self.extenders = tuple(e for e in extenders if e.call is not None and e.is_interested(pod))
        self.calls: list[ExtenderCall] = []
        self.statuses: dict[str, Status] = {}
        self.refusals: dict[str, dict[str, str]] = {}
        self.narrowed = False
        self.unknown: dict[Unknown, None] = {}
        self._pod, self._release = pod, release
        self._document: dict[str, Json] | None = None

    @property
    def pod(self) -> dict[str, Json]:
        """The pod as it is sent."""
        if self._document is None:
            self._document = msgspec.to_builtins(self._pod)
        return self._document

    # -- filter --------------------------------------------------------------------------------------------------

    def filter(self, view: Fork, rows: Rows) -> Offered:
        """What all of them leave of these rows, one after the other. Raises PluginError where one that counts fails."""
        offered = Offered.of(view.nodes, rows)
        for extender in self.extenders:
            if not len(offered.rows):
                break
            if not extender.settings.filter_verb:
                continue
            try:
                answer = self._asked(extender, extender.settings.filter_verb, offered, extender.filter, view.nodes)
            except ExtenderError as error:
                if extender.settings.ignorable:
                    continue
                raise PluginError(str(error)) from None
            except UnheardError as unheard:
                self._lean(Effect.NARROWS, unheard)
                continue
            self._told(extender, answer)
            offered = answer.left
        return offered

    def find(self, view: Fork, rows: Rows) -> Offered:
        """What the extenders leave of all rows that pass the plugins."""
        offered = self.filter(view, rows)
        self.narrowed = len(offered.rows) != len(rows)
        return offered

    def _told(self, extender: HTTPExtender, answer: FilterAnswer) -> None:
        """Note what is said of nodes; whoever is in both lists is refused for good."""
        for name, message in answer.unresolvable.items():
            self._note(extender, name, Code.UNRESOLVABLE, message)
        for name, message in answer.failed.items():
            if name not in answer.unresolvable:
                self._note(extender, name, Code.UNSCHEDULABLE, message)

    def _note(self, extender: HTTPExtender, name: str, code: Code, message: str) -> None:
        known = self.statuses.get(name) if AGGREGATED.at(self._release) else None
        if known is not None:
            code = Code.UNRESOLVABLE if Code.UNRESOLVABLE in (code, known.code) else code
        self.statuses[name] = Status(code, (*(known.reasons if known else ()), message))
        self.refusals.setdefault(extender.url, {})[name] = message

    # -- prioritize ----------------------------------------------------------------------------------------------

    def prioritize(self, view: Fork, offered: Offered) -> Iterator[tuple[str, Scores]]:
        """URL, and what it adds to the total of each of the nodes (F,). A failure is ignored; one node is just used."""
        for extender in self.extenders if len(offered.rows) > 1 else ():
            verb = extender.settings.prioritize_verb
            if not verb:
                continue
            try:
                answered = self._asked(extender, verb, offered, extender.prioritize, view.nodes)
            except ExtenderError:
                continue
            except UnheardError as unheard:
                self._lean(Effect.SCORES, unheard)
                continue
            totals: dict[str, int] = {}
            for host, score in answered:
                totals[host] = totals.get(host, 0) + score
            factor = extender.settings.weight * (MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY)
            scores = [_wrapped(totals.get(name, 0) * factor) for name in offered.names]
            yield extender.url, np.array(scores, np.int64)

    def _asked(
        self,
        extender: HTTPExtender,
        verb: str,
        offered: Offered,
        ask: Callable[[JsonObject, Offered, NodeColumns], Answer],
        nodes: NodeColumns,
    ) -> Answer:
        full = not extender.settings.node_cache_capable
        call = ExtenderCall(extender.url, verb, offered.names, full)
        return self._noted(call, lambda: ask(self.pod, offered, nodes))

    # -- preempt -------------------------------------------------------------------------------------------------

    def preempt(
        self, extender: HTTPExtender, victims: Mapping[str, tuple[list[dict[str, Json]], int]]
    ) -> dict[str, MetaVictims] | None:
        """What one of them makes of the victims on nodes; None where nobody knows. Raises ExtenderError."""
        call = ExtenderCall(extender.url, extender.settings.preempt_verb, tuple(victims))
        try:
            return self._noted(call, lambda: extender.preempt(self.pod, victims))
        except UnheardError as unheard:
            self._lean(Effect.VICTIMS, unheard)
            return None

    def _noted(self, call: ExtenderCall, ask: Callable[[], Answer]) -> Answer:
        try:
            answer = ask()
        except (ExtenderError, UnheardError) as error:
            self.calls.append(call._replace(error=str(error)))
            raise
        self.calls.append(call)
        return answer

    def _lean(self, effect: Effect, unheard: UnheardError) -> None:
        self.unknown[Unknown(Dependency(NAME, effect), Gap(str(unheard)))] = None


def _wrapped(value: int) -> int:
    """A number wrapped by Go's int64 arithmetic.

    >>> _wrapped(2**63)
    -9223372036854775808
    """
    return (value + 2**63) % 2**64 - 2**63
