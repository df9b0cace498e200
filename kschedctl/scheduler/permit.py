"""Permit: whether a pod that was assumed on a node may be bound there, or has to wait.

Upstream: RunPermitPlugins in pkg/scheduler/framework/runtime/framework.go (v1.36).
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from kschedctl.scheduler.cycle import FrameworkLike
from kschedctl.scheduler.framework import SUCCESS, Code, PermitPlugin, PluginError, Status, offers
from kschedctl.scheduler.messages import histogram
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

SOMEBODY_WAITS = "one or more plugins asked to wait and no plugin rejected pod"


class PermitOutcome(NamedTuple):
    """The framework's answer; ``plugin`` refused or failed, empty where none did."""

    status: Status = SUCCESS
    plugin: str = ""


def run_permit(framework: FrameworkLike, info: PodInfo, view: Fork, row: int) -> PermitOutcome:
    """Ask the plugins in order about a pod that is on that row of the view, until one refuses it or fails."""
    waiting: Status | None = None
    for plugin in framework.at("permit"):
        if not offers(plugin, PermitPlugin):
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
    if waiting is not None:
        return PermitOutcome(Status(Code.WAIT, (*waiting.reasons, SOMEBODY_WAITS)))
    return PermitOutcome()


def permit_refusal(framework: FrameworkLike, info: PodInfo, view: Fork, row: int) -> str:
    """The message about a pod that is refused on its node, the only one that counts then; empty where it is not.

    Raises PluginError.
    """
    if not framework.at("permit"):
        return ""
    status = run_permit(framework, info, view, row).status
    if status.code is Code.ERROR:
        raise PluginError(", ".join(status.reasons))
    return histogram(1, Counter(status.reasons)) if status.rejected else ""
