"""Where the time of attempts goes, and what likely helps there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from kschedctl.commands.audit.latency.figures import BEFORE, total_time
from kschedctl.scheduler.registry.in_tree import IN_TREE
from kschedctl.sources.metrics.catalogue import ATTEMPTS, PERMIT, PLUGINS, POINTS
from kschedctl.sources.metrics.measured import Measured

PERMIT_WAIT, OUTSIDE = "WaitOnPermit", "outside of plugins"
BINDING = (PERMIT_WAIT, "PreBindPreFlight", "PreBind", "Bind", "PostBind")
WITHIN_OTHERS = ("PreFilterExtensionAddPod", "PreFilterExtensionRemovePod")
_NODES = "sampling tells what a lower percentageOfNodesToScore saves; parallelism uses more cores"
OF_POINTS: Mapping[str, str] = {
    "PreFilter": "what it computes of all pods, once an attempt: pods with affinity or spread make it long",
    "Filter": _NODES,
    "PostFilter": "preemption tries evictions on many nodes: spare it pods that cannot win, by preemptionPolicy: Never",
    "PreScore": "preferences between pods are computed for all nodes that fit: fewer of these",
    "Score": _NODES,
    "Reserve": "a plugin reserves volumes or devices",
    PERMIT_WAIT: "a Permit plugin makes pods wait, such as one for gangs: see what it waits for",
    "PreBind": "volumes are provisioned and attached, device claims written: look at the CSI and DRA drivers and the "
    "API server",
    "Bind": "look at the API server's latency for pods/binding, and at its webhooks",
    OUTSIDE: "look at extenders (config view), at CPU limits of the scheduler and at its cache's size",
}


class TimePart(NamedTuple):
    """``share``: of the time of all attempts; ``plugin``: the one that takes most at this point, ``of_point`` of it."""

    name: str
    share: float
    plugin: str = ""
    of_point: float = 0.0

    def told(self) -> str:
        """``Filter takes 61% of the time, 80% of that InterPodAffinity``."""
        of_plugin = f", of that {self.plugin} {self.of_point:.0%}" if self.plugin else ""
        takes = "is spent" if self.name == OUTSIDE else "takes"
        if self.name == OUTSIDE:
            return f"{self.share:.0%} of the time {takes} {self.name}"
        return f"{self.name} {takes} {self.share:.0%} of the time{of_plugin}"

    def lever(self) -> str:
        """What likely helps."""
        declared = IN_TREE.get(self.plugin) if self.of_point >= 0.5 else None
        known = declared.plugin.takes_less_time if declared and declared.plugin else ""
        return known or OF_POINTS.get(self.name, f"look at what {self.plugin or 'its plugins'} does at {self.name}")


def time_parts(measured: Measured) -> tuple[TimePart, ...]:
    """The parts of the time of attempts, the largest first; nothing where it is not known."""
    whole = total_time(measured, ATTEMPTS)
    if not whole:
        return ()
    seconds: dict[str, float] = defaultdict(float)
    for (point, _), histogram in measured.of(POINTS).items():
        if (point,) not in BEFORE and point not in WITHIN_OTHERS and histogram.total > 0:
            seconds[point] += histogram.total
    waited = total_time(measured, PERMIT)
    if waited:
        seconds[PERMIT_WAIT] = waited
    seconds[OUTSIDE] = max(whole - sum(seconds.values()), 0.0) if seconds else 0.0
    parts = [TimePart(point, spent / whole, *_foremost(measured, point)) for point, spent in seconds.items() if spent]
    return tuple(sorted(parts, key=lambda part: -part.share))


def _foremost(measured: Measured, point: str) -> tuple[str, float]:
    """The plugin that takes most of a point, and its share there, as far as plugins were timed."""
    seconds = {
        plugin: histogram.total
        for (plugin, at), histogram in measured.of(PLUGINS).items()
        if at == point and histogram.total > 0
    }
    if not seconds:
        return "", 0.0
    most = max(seconds, key=lambda plugin: (seconds[plugin], plugin))
    return most, seconds[most] / sum(seconds.values())
