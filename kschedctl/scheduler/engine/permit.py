"""Permit: decide whether an assumed pod may be bound, or has to wait.

Upstream: RunPermitPlugins in pkg/scheduler/framework/runtime/framework.go (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from kschedctl.scheduler.engine.diagnosis import format_histogram
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.framework import SUCCESS, Code, PermitPlugin, PluginError, Status, offers
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

MAX_TIMEOUT_SECONDS = 15 * 60
"""Upstream's maximum for the time that a plugin makes a pod wait."""
TIMED_OUT = "rejected due to timeout after waiting {} at plugin {}"
WAITS_AT_PLUGIN = "one or more plugins asked to wait and no plugin rejected pod"


class PermitOutcome(NamedTuple):
    """The combined answer of the Permit plugins: Success, Wait, a rejection, or an error."""

    status: Status = SUCCESS
    plugin: str = ""
    """The plugin that rejected the pod or failed; empty if none did."""
    waiting: Mapping[str, int] = {}
    """Plugin that makes the pod wait -> its timeout in seconds."""

    @property
    def message(self) -> str:
        """The event's message for a pod that Permit rejects on its node, or the error."""
        reasons = self.status.reasons
        return format_histogram(1, Counter(reasons)) if self.status.rejected else ", ".join(reasons)


def run_permit(
    framework: FrameworkLike, info: PodInfo, view: Fork, row: int, plugin_names: frozenset[str] | None = None
) -> PermitOutcome:
    """Run the Permit plugins for a pod assumed on a row, in order, until one rejects the pod or fails.

    If some plugin makes the pod wait and none rejects it, the status is Wait. The outcome then has the timeout of each
    such plugin in seconds, at most MAX_TIMEOUT_SECONDS. With `plugin_names`, only these plugins run. A plugin's error
    is not raised but becomes the status.
    """
    latest_wait: Status | None = None
    seconds: dict[str, int] = {}
    for plugin in framework.plugins_at("permit"):
        is_selected = plugin_names is None or plugin.name in plugin_names
        if not is_selected or not offers(plugin, PermitPlugin):
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
            latest_wait = status
            seconds[plugin.name] = min(_get_timeout_seconds(plugin, info, view), MAX_TIMEOUT_SECONDS)

    # No plugin rejects the pod.
    if latest_wait is not None:
        return PermitOutcome(Status(Code.WAIT, (*latest_wait.reasons, WAITS_AT_PLUGIN)), waiting=seconds)
    return PermitOutcome()


def _get_timeout_seconds(plugin: PermitPlugin, info: PodInfo, view: Fork) -> int:
    """Return the number of seconds for which the plugin lets this pod wait.

    The attribute `permit_timeout` of the plugin is a number or a function of the pod. Without it, the maximum applies.
    """
    timeout = getattr(plugin, "permit_timeout", MAX_TIMEOUT_SECONDS)
    return int(timeout(info, view) if callable(timeout) else timeout)


def find_permit_rejection(framework: FrameworkLike, info: PodInfo, view: Fork, row: int) -> str:
    """Return the message if Permit rejects the pod on this row, otherwise an empty string.

    Raises PluginError if a plugin fails.
    """
    if not framework.plugins_at("permit"):
        return ""
    outcome = run_permit(framework, info, view, row)
    if outcome.status.code is Code.ERROR:
        raise PluginError(", ".join(outcome.status.reasons))
    return outcome.message if outcome.status.rejected else ""
