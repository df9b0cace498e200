"""Which plugin of a profile asked for which events.

Upstream: buildQueueingHintMap in pkg/scheduler/scheduler.go and EnqueueExtensions in
pkg/scheduler/framework/runtime/framework.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, runtime_checkable

from kschedctl.scheduler.engine.extenders.extender import NAME as EXTENDERS
from kschedctl.scheduler.framework import Plugin, offers
from kschedctl.scheduler.framework.events import (
    NODE,
    QUEUEING_HINTS,
    RESOURCES,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    HintFunction,
    SkipPredicate,
    pre_checked_resources,
)
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

NOT_UNROLLED = {
    **dict.fromkeys(("VolumeAttachment", "ResourceSlice"), ""),
    **dict.fromkeys(("CoschedulingPodGroup", "ElasticQuota", "NodeResourceTopology"), ""),
    "PodGroup": "GenericWorkload",
    "CompositePodGroup": "CompositePodGroup",
}
"""Kinds that are no part of everything, unless with a feature gate."""
REFUSING_POINTS = ("preEnqueue", "preFilter", "filter", "reserve", "permit")
"""The extension points at which a plugin can refuse a pod."""


@runtime_checkable
class EnqueueExtensions(Plugin, Protocol):
    def events_to_register(self, gates: FeatureGates) -> Iterable[ClusterEventWithHint]:
        """The events that may make a pod schedulable which the plugin refused, each with its hint."""


class Registrations:
    """What the plugins of a profile asked for: plugin -> the events, with the hints that count.

    A plugin that could refuse pods and says nothing is told of everything, and so are extenders, which cannot say.
    ``hinted``: the hints count. ``pre_checked_resources``: as of the function of that name.
    """

    def __init__(self, plugins: Iterable[Plugin], gates: FeatureGates, *, extended: bool = False) -> None:
        self.gates, self.hinted, self.pre_checked = gates, gates.enabled(QUEUEING_HINTS), pre_checked_resources(gates)
        extenders = {EXTENDERS: tuple(everything(gates))} if extended else {}
        self.by_plugin: Mapping[str, tuple[ClusterEventWithHint, ...]] = {
            **extenders,
            **{plugin.name: tuple(self._of(plugin)) for plugin in plugins},
        }
        self._told: dict[tuple[str, ClusterEvent], tuple[HintFunction | None, ...]] = {}
        self._spares: dict[ClusterEvent, tuple[SkipPredicate, ...] | None] = {}
        self._asking: dict[ClusterEvent, frozenset[str]] = {}

    def _of(self, plugin: Plugin) -> Iterator[ClusterEventWithHint]:
        if not offers(plugin, EnqueueExtensions):
            yield from everything(self.gates)
            return
        asked = list(plugin.events_to_register(self.gates))
        hinted = self.hinted and self.gates.minor >= getattr(plugin, "hints_since", 0)
        yield from (registration if hinted else registration._replace(hint=None) for registration in asked)
        of_nodes = ActionType(0)
        for event in asked:
            of_nodes |= event.action if event.kind == NODE else ActionType(0)
        if of_nodes & ActionType.ADD and not of_nodes & ActionType.UPDATE_NODE_TAINT:
            yield ClusterEventWithHint(NODE, ActionType.UPDATE_NODE_TAINT)

    def hints(self, plugin: str, event: ClusterEvent) -> tuple[HintFunction | None, ...]:
        """The hints of a plugin that an event calls for; None is one that always says Queue."""
        key = plugin, event
        if key not in self._told:
            asked = self.by_plugin.get(plugin, ())
            self._told[key] = tuple(registration.hint for registration in asked if registration.event.covers(event))
        return self._told[key]

    def spares(self, info: PodInfo, event: ClusterEvent, view: Fork) -> bool:
        """Whether the hints of all plugins say no for the pod to every change that is such an event."""
        if event not in self._spares:
            heard = [r for asked in self.by_plugin.values() for r in asked if r.event.covers(event)]
            known = tuple(r.spares for r in heard if r.hint is not None and r.spares is not None)
            self._spares[event] = known if len(known) == len(heard) else None
        known_spares = self._spares[event]
        return known_spares is not None and all(spares(info, event.action, view) for spares in known_spares)

    def asking(self, event: ClusterEvent) -> frozenset[str]:
        """The plugins that asked for an event."""
        if event not in self._asking:
            self._asking[event] = frozenset(plugin for plugin in self.by_plugin if self.hints(plugin, event))
        return self._asking[event]


def union_of_actions(several: Iterable[Registrations]) -> Mapping[str, ActionType]:
    """Kind -> what some plugin asked for. Upstream: unionedGVKs."""
    action_types: dict[str, ActionType] = {}
    for event in (
        registration
        for registrations in several
        for asked in registrations.by_plugin.values()
        for registration in asked
    ):
        action_types[event.kind] = action_types.get(event.kind, ActionType(0)) | event.action
    return action_types


def everything(gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
    """What extenders, and plugins that do not say what they want, are told of. Upstream: UnrollWildCardResource."""
    for kind in RESOURCES:
        gate = NOT_UNROLLED.get(kind)
        if gate is None or (gate and gates.enabled(gate)):
            yield ClusterEventWithHint(kind, ActionType.ALL)
