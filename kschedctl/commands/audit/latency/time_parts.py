"""The parts of the time of scheduling attempts, and what likely makes each shorter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from kschedctl.commands.audit.latency.figures import POINTS_OUTSIDE_ATTEMPTS, sum_seconds
from kschedctl.scheduler.registry.in_tree import IN_TREE
from kschedctl.sources.metrics.catalogue import ATTEMPTS, PERMIT, PLUGINS, POINTS
from kschedctl.sources.metrics.measured import MetricsReading

PERMIT_WAIT, OUTSIDE = "WaitOnPermit", "outside of plugins"
BINDING = (PERMIT_WAIT, "PreBindPreFlight", "PreBind", "Bind", "PostBind")
NESTED_POINTS = ("PreFilterExtensionAddPod", "PreFilterExtensionRemovePod")
_FEWER_NODES_ADVICE = "sampling tells what a lower percentageOfNodesToScore saves; parallelism uses more cores"
ADVICE_BY_POINT: Mapping[str, str] = {
    "PreFilter": "what it computes of all pods, once an attempt: pods with affinity or spread make it long",
    "Filter": _FEWER_NODES_ADVICE,
    "PostFilter": "preemption tries evictions on many nodes: spare it pods that cannot win, by preemptionPolicy: Never",
    "PreScore": "preferences between pods are computed for all nodes that fit: fewer of these",
    "Score": _FEWER_NODES_ADVICE,
    "Reserve": "a plugin reserves volumes or devices",
    PERMIT_WAIT: "a Permit plugin makes pods wait, such as one for gangs: see what it waits for",
    "PreBind": "volumes are provisioned and attached, device claims written: look at the CSI and DRA drivers and the "
    "API server",
    "Bind": "look at the API server's latency for pods/binding, and at its webhooks",
    OUTSIDE: "look at extenders (config view), at CPU limits of the scheduler and at its cache's size",
}


class TimePart(NamedTuple):
    """A part of the time of all attempts."""

    name: str
    """The extension point, or `OUTSIDE`."""
    share: float
    """The share of the time of all attempts (0 to 1)."""
    plugin: str = ""
    """The plugin that takes most of the time at this point."""
    plugin_share: float = 0.0
    """The share of this plugin in the time of the point."""

    def describe(self) -> str:
        """Return a sentence such as `Filter takes 61% of the time, of that InterPodAffinity 80%`."""
        of_plugin = f", of that {self.plugin} {self.plugin_share:.0%}" if self.plugin else ""
        takes = "is spent" if self.name == OUTSIDE else "takes"
        if self.name == OUTSIDE:
            return f"{self.share:.0%} of the time {takes} {self.name}"
        return f"{self.name} {takes} {self.share:.0%} of the time{of_plugin}"

    def find_advice(self) -> str:
        """Return what likely makes this part shorter."""
        declared = IN_TREE.get(self.plugin) if self.plugin_share >= 0.5 else None
        advice = declared.plugin.takes_less_time if declared and declared.plugin else ""
        return advice or ADVICE_BY_POINT.get(
            self.name, f"look at what {self.plugin or 'its plugins'} does at {self.name}"
        )


def split_attempt_time(measured: MetricsReading) -> tuple[TimePart, ...]:
    """Return the parts of the time of attempts, the largest first, or () if the time is unknown."""
    attempts_seconds = sum_seconds(measured, ATTEMPTS)
    if not attempts_seconds:
        return ()
    seconds: dict[str, float] = defaultdict(float)
    for (point, _), histogram in measured.of(POINTS).items():
        if (point,) not in POINTS_OUTSIDE_ATTEMPTS and point not in NESTED_POINTS and histogram.total > 0:
            seconds[point] += histogram.total
    permit_seconds = sum_seconds(measured, PERMIT)
    if permit_seconds:
        seconds[PERMIT_WAIT] = permit_seconds
    seconds[OUTSIDE] = max(attempts_seconds - sum(seconds.values()), 0.0) if seconds else 0.0
    parts = [
        TimePart(point, spent / attempts_seconds, *_find_slowest_plugin(measured, point))
        for point, spent in seconds.items()
        if spent
    ]
    return tuple(sorted(parts, key=lambda part: -part.share))


def _find_slowest_plugin(measured: MetricsReading, point: str) -> tuple[str, float]:
    """Return the plugin that takes most of the time at a point and its share, or ("", 0.0) if no plugin was timed."""
    seconds = {
        plugin: histogram.total
        for (plugin, at), histogram in measured.of(PLUGINS).items()
        if at == point and histogram.total > 0
    }
    if not seconds:
        return "", 0.0
    slowest = max(seconds, key=lambda plugin: (seconds[plugin], plugin))
    return slowest, seconds[slowest] / sum(seconds.values())
