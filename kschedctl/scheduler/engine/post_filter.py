"""PostFilter: ask plugins what can be done for a pod without feasible nodes.

Upstream: RunPostFilterPlugins in pkg/scheduler/framework/runtime/framework.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework import SUCCESS, Code, PluginError, PostFilterPlugin, PostFilterResult, Status, offers


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
