"""One attempt at a pod, as far as it decides what can wake the pod afterwards: PreEnqueue, PreFilter and Filter.

Upstream: runPreEnqueuePlugins in pkg/scheduler/backend/queue/scheduling_queue.go (v1.36).
"""

from __future__ import annotations

from typing import NamedTuple

from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.engine.rejectors import NONE, Rejectors, rejectors_of
from kschedctl.scheduler.framework import SUCCESS, PreEnqueuePlugin, Status, offers
from kschedctl.scheduler.scheduler import Framework
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


class Attempt(NamedTuple):
    """What came of it. ``gating_plugin``: PreEnqueue refused, with ``gate``, and there is no ``cycle``."""

    rejectors: Rejectors = NONE
    gating_plugin: str = ""
    gate: Status = SUCCESS
    cycle: Cycle | None = None


def attempt(framework: Framework, info: PodInfo, view: Fork) -> Attempt:
    """Try a pod once, without PostFilter."""
    plugin, status = gating_plugin(framework, info, view)
    if plugin:
        return Attempt(Rejectors(frozenset({plugin})), plugin, status)
    cycle = run_cycle(framework, info, view)
    return Attempt(rejectors_of(cycle), cycle=cycle)


def gating_plugin(framework: Framework, info: PodInfo, view: Fork, first: str = "") -> tuple[str, Status]:
    """The first plugin that keeps the pod out of the queue, and what it says; empty where none does.

    ``first`` is asked before all others: the one that did so until now.
    """
    plugins = sorted(framework.at("preEnqueue"), key=lambda plugin: (plugin.name != first, plugin.name))
    for plugin in plugins:
        if offers(plugin, PreEnqueuePlugin):
            status = plugin.pre_enqueue(info, view)
            if status.rejected:
                return plugin.name, status
    return "", SUCCESS
