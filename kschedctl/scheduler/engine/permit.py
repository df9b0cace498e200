"""Permit: whether a pod that was assumed on a node may be bound there, or has to wait.

Upstream: RunPermitPlugins in pkg/scheduler/framework/runtime/framework.go (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from kschedctl.scheduler.engine.messages import histogram
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.framework import SUCCESS, Code, PermitPlugin, PluginError, Status, offers
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

MOST_SECONDS = 15 * 60
"""No plugin makes a pod wait for longer."""
TIMED_OUT = "rejected due to timeout after waiting {} at plugin {}"
SOMEBODY_WAITS = "one or more plugins asked to wait and no plugin rejected pod"


class PermitOutcome(NamedTuple):
    """The framework's answer; ``plugin`` refused or failed, empty where none did.

    ``waiting``: the plugins that let the pod wait, and for how many seconds at the most.
    """

    status: Status = SUCCESS
    plugin: str = ""
    waiting: Mapping[str, int] = {}

    @property
    def message(self) -> str:
        """What is said of a pod that is refused on its node, the only one that counts then, or failed there."""
        reasons = self.status.reasons
        return histogram(1, Counter(reasons)) if self.status.rejected else ", ".join(reasons)


def run_permit(
    framework: FrameworkLike, info: PodInfo, view: Fork, row: int, of: frozenset[str] | None = None
) -> PermitOutcome:
    """Ask the plugins in order about a pod that is on that row of the view, until one refuses it or fails.

    ``of``: the names of those that are asked, None for all.
    """
    waiting: Status | None = None
    seconds: dict[str, int] = {}
    for plugin in framework.at("permit"):
        if not offers(plugin, PermitPlugin) or (of is not None and plugin.name not in of):
            continue
        try:
            status = plugin.permit(info, view, row)
        except PluginError as failure:
            return PermitOutcome(
                Status(Code.ERROR, (f'running Permit plugin "{plugin.name}": {failure}',)), plugin.name
            )
        if status.rejected:
            return PermitOutcome(status, plugin.name)
        if status.code is Code.WAIT:
            waiting = status
            seconds[plugin.name] = min(_timeout(plugin, info, view), MOST_SECONDS)
    if waiting is not None:
        return PermitOutcome(Status(Code.WAIT, (*waiting.reasons, SOMEBODY_WAITS)), waiting=seconds)
    return PermitOutcome()


def _timeout(plugin: PermitPlugin, info: PodInfo, view: Fork) -> int:
    """For how many seconds a pod waits: as the plugin says of all pods, or of this one."""
    said = getattr(plugin, "permit_timeout", MOST_SECONDS)
    return int(said(info, view) if callable(said) else said)


def permit_refusal(framework: FrameworkLike, info: PodInfo, view: Fork, row: int) -> str:
    """The message about a pod that is refused on its node, the only one that counts then; empty where it is not.

    Raises PluginError.
    """
    if not framework.at("permit"):
        return ""
    outcome = run_permit(framework, info, view, row)
    if outcome.status.code is Code.ERROR:
        raise PluginError(", ".join(outcome.status.reasons))
    return outcome.message if outcome.status.rejected else ""
