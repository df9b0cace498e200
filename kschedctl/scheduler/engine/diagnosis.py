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
    """The names of the plugins that rejected a pod.

    The scheduling queue calls their queueing hints to decide whether an event can help the pod.
    """

    unschedulable: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    """Plugins that returned Pending: they wait for a certain event, after which the pod does not back off."""

    @property
    def all(self) -> frozenset[str]:
        """All plugins that rejected the pod."""
        return self.unschedulable | self.pending


NO_REJECTORS = Rejectors()


def find_rejectors(cycle: Cycle) -> Rejectors:
    """Return the plugins that rejected the pod in a cycle.

    No plugin is returned if the pod is schedulable or the cycle ended with an error.
    """
    if cycle.error is not None or cycle.schedulable:
        return NO_REJECTORS
    return Rejectors(cycle.rejecting_plugins)


class PostFilterOutcome(msgspec.Struct, frozen=True):
    """The combined answer of the PostFilter plugins.

    Success means that the pod may fit later, or that no plugin ran.
    """

    status: Status = SUCCESS
    results: Mapping[str, PostFilterResult] = msgspec.field(default_factory=dict)
    """Plugin that was run -> its result."""
    plugin: str = ""
    """The plugin that gave a rejection: the deciding one, or the first that rejected."""

    @property
    def nominated_node(self) -> str:
        """The name of the node on which the pod may fit later, or an empty string."""
        return next((result.nominated_node for result in self.results.values() if result.nominated_node), "")

    @property
    def message(self) -> str:
        """The text that the scheduler appends to the FailedScheduling message."""
        return ", ".join(self.status.reasons)


def run_post_filter(cycle: Cycle) -> PostFilterOutcome:
    """Run the PostFilter plugins in order until one succeeds, fails, or rejects the pod for good.

    If every plugin rejects the pod only for now, the outcome lists the reasons of all plugins and names the first
    plugin. A plugin's error is not raised but becomes the status. If no plugin runs, as in a cluster without nodes, the
    outcome is Success without a nominated node.
    """
    results: dict[str, PostFilterResult] = {}
    plugins = cycle.framework.plugins_at("postFilter") if len(cycle.view.nodes) else []
    for plugin in plugins:
        if not offers(plugin, PostFilterPlugin):
            continue
        try:
            result = plugin.post_filter(cycle)
        except PluginError as failure:
            return PostFilterOutcome(Status(Code.ERROR, (str(failure),)), results, plugin.name)
        results[plugin.name] = result
        if result.status.code is Code.SUCCESS:
            return PostFilterOutcome(result.status, results)
        if result.status.code in (Code.UNRESOLVABLE, Code.ERROR):
            return PostFilterOutcome(result.status, results, plugin.name)

    # No plugin decided.
    if not results:
        return PostFilterOutcome()
    reasons: list[str] = []
    for result in results.values():
        reasons += result.status.reasons
    first_plugin = next(iter(results))
    return PostFilterOutcome(Status(Code.UNSCHEDULABLE, tuple(reasons)), results, first_plugin)


ABSENT_COUNT = ByVersion(
    "the message about a rejected pod also counts nodes that PreFilter plugins excluded",
    (("", True), ("1.30.2", False), ("1.32", True)),
    "#125306, #126022",
)


def build_fit_error(cycle: Cycle, post_filter: str = "") -> str:
    """Return upstream's message for a pod that fits on no node.

    The message has the reasons of PreFilter if it rejected the pod, otherwise the number of nodes for each reason.
    `post_filter` is the message of PostFilter, which is appended unless it is empty. In a placement without nodes, the
    message is only NO_NODES.
    """
    nodes = cycle.view.nodes_in_placement
    if nodes == 0:
        return NO_NODES
    if cycle.pre_filter.status.rejected:
        message = format_pre_filter_rejection(nodes, cycle.pre_filter.status)
    else:
        message = format_histogram(nodes, count_nodes_by_reason(cycle))
    return f"{message} {post_filter}" if post_filter else message


def format_pre_filter_rejection(nodes: int, status: Status) -> str:
    """Return the message for a pod that a PreFilter plugin rejects before any node is examined.

    >>> from kschedctl.scheduler.framework import Code
    >>> format_pre_filter_rejection(12, Status(Code.UNRESOLVABLE, ("pod has unbound claims",)))
    '0/12 nodes are available: pod has unbound claims.'
    """
    return f"0/{nodes} nodes are available: {', '.join(status.reasons)}."


def format_histogram(nodes: int, counts: Mapping[str, int]) -> str:
    """Return the message that lists the number of nodes per reason, sorted as text like in upstream.

    >>> format_histogram(12, {"Insufficient cpu": 9, "node(s) were unschedulable": 12})
    '0/12 nodes are available: 12 node(s) were unschedulable, 9 Insufficient cpu.'
    """
    reasons = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f"0/{nodes} nodes are available:" + (f" {', '.join(reasons)}." if reasons else "")


def count_nodes_by_reason(cycle: Cycle) -> Counter[str]:
    """Count the nodes by the reason why they are not feasible, as the event's message does.

    A node that an extender rejected is counted only under the extender's reasons. Nodes that were not examined share
    one status, and some versions do not count them.
    """
    has_extender_status = np.zeros(len(cycle.considered), np.bool_)
    has_extender_status[list(cycle.extender_statuses)] = True
    node_counts = cycle.filter.count_nodes_by_reason(cycle.considered & ~has_extender_status)
    for status in cycle.consultation.statuses.values():
        node_counts.update(status.reasons)
    unexamined = _count_unexamined_nodes(cycle, has_extender_status)
    if unexamined > 0 and ABSENT_COUNT.at(cycle.framework.release):
        node_counts.update(dict.fromkeys(cycle.build_unexamined_status().reasons, unexamined))
    return node_counts


def _count_unexamined_nodes(cycle: Cycle, has_extender_status: Bools) -> int:
    """Count the nodes that upstream did not examine because PreFilter plugins left them out.

    If extenders were called, every node that has no status of its own is counted. Like upstream, this subtracts the
    statuses that extenders gave to nodes that do not exist.
    """
    excluded_count = int((cycle.view.in_placement & ~cycle.considered).sum())
    if excluded_count == 0 or not cycle.consultation.calls:
        return excluded_count
    is_rejected_by_filter = cycle.considered & ~cycle.filter.passing
    with_own_status = int((has_extender_status | is_rejected_by_filter).sum())
    # The consultation has the statuses of all names that extenders gave, the cycle only those of existing nodes
    statuses_of_unknown_nodes = len(cycle.consultation.statuses) - len(cycle.extender_statuses)
    return cycle.view.nodes_in_placement - with_own_status - statuses_of_unknown_nodes
