"""The calls of extenders about one pod in one cycle, and their results.

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
from kschedctl.scheduler.engine.extenders.extender import (
    NAME,
    FilterAnswer,
    HTTPExtender,
    OfferedNodes,
    UnknownAnswerError,
)
from kschedctl.scheduler.framework import Code, PluginError, Status
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import NodeColumns

MAX_EXTENDER_PRIORITY = 10
AGGREGATED = ByVersion(
    "an extender's reason for a node is added to earlier reasons",
    (("", True), ("1.32", False)),
)
Answer = TypeVar("Answer")


class ExtenderCall(NamedTuple):
    """One call of an extender."""

    extender: str
    verb: str
    nodes: tuple[str, ...]
    """Names of the nodes that were sent."""
    full: bool = False
    """Whether whole nodes were sent."""
    error: str = ""
    """Why there is no answer; empty if there is one."""


class Consultation:
    """The calls of the extenders that are interested in a pod, with their results.

    `calls` are the calls so far. `statuses` has the status of each node to which an extender gave a message, and
    `refusals` the messages by extender URL and node. `narrowed` is whether extenders dropped nodes in a search of all
    nodes. `unknown` has what the answers depend on because an extender could not be called.
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
        """The pod as it is sent to extenders."""
        if self._document is None:
            self._document = msgspec.to_builtins(self._pod)
        return self._document

    # -- filter --------------------------------------------------------------------------------------------------

    def filter(self, view: Fork, rows: Rows) -> OfferedNodes:
        """Return the nodes at these rows that remain after all extenders filtered them in order.

        Raises PluginError if an extender fails that is not ignorable.
        """
        offered = OfferedNodes.from_rows(view.nodes, rows)
        for extender in self.extenders:
            if not len(offered.rows):
                break
            if not extender.settings.filter_verb:
                continue
            try:
                answer = self._call_with_nodes(
                    extender, extender.settings.filter_verb, offered, extender.filter, view.nodes
                )
            except ExtenderError as error:
                if extender.settings.ignorable:
                    continue
                raise PluginError(str(error)) from None
            except UnknownAnswerError as unheard:
                self._record_unknown(Effect.NARROWS, unheard)
                continue
            self._record_answer(extender, answer)
            offered = answer.remaining
        return offered

    def filter_all(self, view: Fork, rows: Rows) -> OfferedNodes:
        """Return the nodes that extenders leave of all rows that pass the plugins, and set `narrowed`."""
        offered = self.filter(view, rows)
        self.narrowed = len(offered.rows) != len(rows)
        return offered

    def _record_answer(self, extender: HTTPExtender, answer: FilterAnswer) -> None:
        """Record the messages that an extender gave about nodes. A node in both of its lists is unresolvable."""
        for name, message in answer.unresolvable.items():
            self._record_status(extender, name, Code.UNRESOLVABLE, message)
        for name, message in answer.failed.items():
            if name not in answer.unresolvable:
                self._record_status(extender, name, Code.UNSCHEDULABLE, message)

    def _record_status(self, extender: HTTPExtender, name: str, code: Code, message: str) -> None:
        """Record the status that an extender's message gives a node."""
        earlier = self.statuses.get(name) if AGGREGATED.at(self._release) else None
        if earlier is not None:
            code = Code.UNRESOLVABLE if Code.UNRESOLVABLE in (code, earlier.code) else code
        self.statuses[name] = Status(code, (*(earlier.reasons if earlier else ()), message))
        self.refusals.setdefault(extender.url, {})[name] = message

    # -- prioritize ----------------------------------------------------------------------------------------------

    def prioritize(self, view: Fork, offered: OfferedNodes) -> Iterator[tuple[str, Scores]]:
        """Yield each scoring extender's URL with what it adds to the total score of each node, (F,).

        Failing extenders are ignored, and a single node is not scored.
        """
        if len(offered.rows) < 2:
            return
        for extender in self.extenders:
            verb = extender.settings.prioritize_verb
            if not verb:
                continue
            try:
                priorities = self._call_with_nodes(extender, verb, offered, extender.prioritize, view.nodes)
            except ExtenderError:
                continue
            except UnknownAnswerError as error:
                self._record_unknown(Effect.SCORES, error)
                continue
            totals: dict[str, int] = {}
            for host, score in priorities:
                totals[host] = totals.get(host, 0) + score
            factor = extender.settings.weight * (MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY)
            scores = [_wrap_int64(totals.get(name, 0) * factor) for name in offered.names]
            yield extender.url, np.array(scores, np.int64)

    def _call_with_nodes(
        self,
        extender: HTTPExtender,
        verb: str,
        offered: OfferedNodes,
        make_call: Callable[[JsonObject, OfferedNodes, NodeColumns], Answer],
        nodes: NodeColumns,
    ) -> Answer:
        """Call a verb that takes nodes, and record the call."""
        full = not extender.settings.node_cache_capable
        call = ExtenderCall(extender.url, verb, offered.names, full)
        return self._record_call(call, lambda: make_call(self.pod, offered, nodes))

    # -- preempt -------------------------------------------------------------------------------------------------

    def preempt(
        self, extender: HTTPExtender, victims: Mapping[str, tuple[list[dict[str, Json]], int]]
    ) -> dict[str, MetaVictims] | None:
        """Return the victims that an extender chooses by node, or None if it cannot be called. Raises ExtenderError."""
        call = ExtenderCall(extender.url, extender.settings.preempt_verb, tuple(victims))
        try:
            return self._record_call(call, lambda: extender.preempt(self.pod, victims))
        except UnknownAnswerError as error:
            self._record_unknown(Effect.VICTIMS, error)
            return None

    def _record_call(self, call: ExtenderCall, make_call: Callable[[], Answer]) -> Answer:
        """Make a call and record it, even if it fails."""
        try:
            answer = make_call()
        except (ExtenderError, UnknownAnswerError) as error:
            self.calls.append(call._replace(error=str(error)))
            raise
        self.calls.append(call)
        return answer

    def _record_unknown(self, effect: Effect, error: UnknownAnswerError) -> None:
        """Record that the answer depends on an extender that could not be called."""
        self.unknown[Unknown(Dependency(NAME, effect), Gap(str(error)))] = None


def _wrap_int64(value: int) -> int:
    """Wrap a number around as Go's int64 arithmetic does.

    >>> _wrap_int64(2**63)
    -9223372036854775808
    """
    return (value + 2**63) % 2**64 - 2**63
