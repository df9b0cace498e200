"""The diagnosis of a pod that fits nowhere: the plugins that rejected it, PostFilter's answer and the event's message.

Upstream: Diagnosis and FitError in pkg/scheduler/framework/types.go, findNodesThatFitPod in
pkg/scheduler/schedule_one.go and RunPostFilterPlugins in pkg/scheduler/framework/runtime/framework.go (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.kube_version import ByVersion
from kschedctl.scheduler.engine.cycle import NO_NODES, Cycle
from kschedctl.scheduler.framework import SUCCESS, Code, PluginError, PostFilterPlugin, PostFilterResult, Status, offers


class Rejectors(NamedTuple):
    """The plugins that rejected a pod."""

    unschedulable: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    """Plugins that wait for an event of their own, after which the pod does not back off."""

    @property
    def all(self) -> frozenset[str]:
        """All plugins that rejected the pod."""
        return self.unschedulable | self.pending


NO_REJECTORS = Rejectors()


def find_rejectors(cycle: Cycle) -> Rejectors:
    """Return the plugins that reject in a finished cycle; none after an error or if the pod is schedulable."""
    if cycle.error is not None or cycle.schedulable:
        return NO_REJECTORS
    return Rejectors(cycle.unschedulable_plugins)


class PostFilterOutcome(msgspec.Struct, frozen=True):
    """The combined answer of the PostFilter plugins; Success means that the pod may fit later."""

    status: Status = SUCCESS
    results: Mapping[str, PostFilterResult] = msgspec.field(default_factory=dict)
    """Plugin that was asked -> its answer."""
    plugin: str = ""
    """The plugin that gave a rejection: the deciding one, or the first that rejected."""

    @property
    def nominated_node(self) -> str:
        """The node on which the pod may fit later; empty if there is none."""
        return next((result.nominated_node for result in self.results.values() if result.nominated_node), "")

    @property
    def message(self) -> str:
        """What the scheduler appends to its FailedScheduling message."""
        return ", ".join(self.status.reasons)


def run_post_filter(cycle: Cycle) -> PostFilterOutcome:
    """Ask the plugins in order until one succeeds, fails, or rejects for good; with no nodes, none is asked."""
    results: dict[str, PostFilterResult] = {}
    plugins = cycle.framework.plugins_at("postFilter") if len(cycle.view.nodes) else []
    for plugin in plugins:
        if not offers(plugin, PostFilterPlugin):
            continue
        try:
            result = results[plugin.name] = plugin.post_filter(cycle)
        except PluginError as failure:
            return PostFilterOutcome(Status(Code.ERROR, (str(failure),)), results, plugin.name)
        if result.status.code in (Code.SUCCESS, Code.UNRESOLVABLE, Code.ERROR):
            return PostFilterOutcome(result.status, results, "" if result.status.code is Code.SUCCESS else plugin.name)
    reasons = tuple(reason for result in results.values() for reason in result.status.reasons)
    return PostFilterOutcome(
        Status(Code.UNSCHEDULABLE, reasons) if results else SUCCESS, results, next(iter(results), "")
    )


ABSENT_COUNT = ByVersion(
    "whether the message counts nodes that PreFilter plugins left out",
    (("", True), ("1.30.2", False), ("1.32", True)),
    "#125306, #126022",
)


def fit_error(cycle: Cycle, post_filter: str = "") -> str:
    """Return why the pod fits no node, in upstream's words; `post_filter` is the message of the PostFilter plugins."""
    nodes = cycle.view.nodes_in_placement
    if nodes == 0:
        return NO_NODES
    if cycle.pre_filter.status.rejected:
        message = format_pre_filter_rejection(nodes, cycle.pre_filter.status)
    else:
        message = format_histogram(nodes, count_reasons(cycle))
    return f"{message} {post_filter}" if post_filter else message


def format_pre_filter_rejection(nodes: int, status: Status) -> str:
    """Return the message for a pod that a PreFilter plugin rejects, so that no node is examined.

    >>> from kschedctl.scheduler.framework import Code
    >>> format_pre_filter_rejection(12, Status(Code.UNRESOLVABLE, ("pod has unbound claims",)))
    '0/12 nodes are available: pod has unbound claims.'
    """
    return f"0/{nodes} nodes are available: {', '.join(status.reasons)}."


def format_histogram(nodes: int, counts: Mapping[str, int]) -> str:
    """Return the message with the number of nodes per reason, sorted as strings.

    >>> format_histogram(12, {"Insufficient cpu": 9, "node(s) were unschedulable": 12})
    '0/12 nodes are available: 12 node(s) were unschedulable, 9 Insufficient cpu.'
    """
    reasons = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f"0/{nodes} nodes are available:" + (f" {', '.join(reasons)}." if reasons else "")


def count_reasons(cycle: Cycle) -> Counter[str]:
    """Count, for each reason, the nodes for which upstream reports it; nodes not examined share one reason."""
    by_extenders = np.zeros(len(cycle.considered), np.bool_)
    by_extenders[list(cycle.extender_statuses)] = True
    counts = cycle.filter.reason_counts(cycle.considered & ~by_extenders)
    for status in cycle.consultation.statuses.values():
        counts.update(status.reasons)
    absent = _count_absent(cycle, by_extenders)
    if absent > 0 and ABSENT_COUNT.at(cycle.framework.release):
        counts.update(dict.fromkeys(cycle.absent_status().reasons, absent))
    return counts


def _count_absent(cycle: Cycle, by_extenders: Bools) -> int:
    """Count the nodes that have the status of nodes that PreFilter plugins left out.

    Since v1.32 these are all nodes minus those with a status of their own. Extenders may give a status to nodes that do
    not exist.
    """
    left_out = int((cycle.view.in_placement & ~cycle.considered).sum())
    if not left_out or not cycle.consultation.calls:
        return left_out
    own = int((by_extenders | (cycle.considered & ~cycle.filter.passing)).sum())
    return cycle.view.nodes_in_placement - own - (len(cycle.consultation.statuses) - len(cycle.extender_statuses))
