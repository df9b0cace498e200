"""The events that the plugins of a profile registered for.

Upstream: buildQueueingHintMap in pkg/scheduler/scheduler.go and EnqueueExtensions in
pkg/scheduler/framework/runtime/framework.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
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
    list_pre_checked_resources,
)
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

NOT_IN_WILDCARD = {
    **dict.fromkeys(("VolumeAttachment", "ResourceSlice"), ""),
    **dict.fromkeys(("CoschedulingPodGroup", "ElasticQuota", "NodeResourceTopology"), ""),
    "PodGroup": "GenericWorkload",
    "CompositePodGroup": "CompositePodGroup",
}
"""Kinds that a wildcard registration does not include, unless with the named feature gate."""
REJECTING_POINTS = ("preEnqueue", "preFilter", "filter", "reserve", "permit")
"""The extension points at which a plugin can reject a pod."""


@runtime_checkable
class EnqueueExtensions(Plugin, Protocol):
    """A plugin that registers for cluster events."""

    def events_to_register(self, gates: FeatureGates) -> Iterable[ClusterEventWithHint]:
        """Return the events that may make a rejected pod schedulable, each with its hint."""


class Registrations:
    """The registrations of a profile's plugins: the events of each plugin, with the hints that count.

    A plugin that can reject pods but registers for nothing hears of everything, and so do extenders. `hinted` is
    whether hints count. `pre_checked` has the resources whose events the queue checks itself.
    """

    def __init__(self, plugins: Iterable[Plugin], gates: FeatureGates, *, extended: bool = False) -> None:
        self.gates = gates
        self.hinted = gates.enabled(QUEUEING_HINTS)
        self.pre_checked = list_pre_checked_resources(gates)
        extenders = {EXTENDERS: tuple(iter_wildcard_events(gates))} if extended else {}
        self.by_plugin: Mapping[str, tuple[ClusterEventWithHint, ...]] = {
            **extenders,
            **{plugin.name: tuple(self._iter_registrations(plugin)) for plugin in plugins},
        }
        self._told: dict[tuple[str, ClusterEvent], tuple[HintFunction | None, ...]] = {}
        self._spares: dict[ClusterEvent, tuple[SkipPredicate, ...] | None] = {}
        self._asking: dict[ClusterEvent, frozenset[str]] = {}

    def _iter_registrations(self, plugin: Plugin) -> Iterator[ClusterEventWithHint]:
        """Yield a plugin's registrations, with the hints that count and one that upstream adds for nodes."""
        if not offers(plugin, EnqueueExtensions):
            yield from iter_wildcard_events(self.gates)
            return
        registered = list(plugin.events_to_register(self.gates))
        hinted = self.hinted and self.gates.minor >= getattr(plugin, "hints_since", 0)
        yield from (registration if hinted else registration._replace(hint=None) for registration in registered)
        node_actions = ActionType(0)
        for event in registered:
            node_actions |= event.action if event.kind == NODE else ActionType(0)
        if node_actions & ActionType.ADD and not node_actions & ActionType.UPDATE_NODE_TAINT:
            yield ClusterEventWithHint(NODE, ActionType.UPDATE_NODE_TAINT)

    def find_hints(self, plugin: str, event: ClusterEvent) -> tuple[HintFunction | None, ...]:
        """Return a plugin's hint functions for an event, in which None stands for one that always answers Queue."""
        key = plugin, event
        if key not in self._told:
            registered = self.by_plugin.get(plugin, ())
            self._told[key] = tuple(
                registration.hint for registration in registered if registration.event.covers(event)
            )
        return self._told[key]

    def do_all_hints_skip(self, info: PodInfo, event: ClusterEvent, view: Fork) -> bool:
        """Return whether the hints of all plugins are Skip for the pod and every change with such an event."""
        if event not in self._spares:
            covering = [r for plugin_events in self.by_plugin.values() for r in plugin_events if r.event.covers(event)]
            predicates = tuple(r.spares for r in covering if r.hint is not None and r.spares is not None)
            self._spares[event] = predicates if len(predicates) == len(covering) else None
        event_predicates = self._spares[event]
        return event_predicates is not None and all(spares(info, event.action, view) for spares in event_predicates)

    def find_registered_plugins(self, event: ClusterEvent) -> frozenset[str]:
        """Return the plugins that registered for an event."""
        if event not in self._asking:
            self._asking[event] = frozenset(plugin for plugin in self.by_plugin if self.find_hints(plugin, event))
        return self._asking[event]


def collect_actions(registrations_by_profile: Iterable[Registrations]) -> Mapping[str, ActionType]:
    """Return, by kind, all actions for which some plugin registered. Upstream: unionedGVKs."""
    action_types: dict[str, ActionType] = {}
    for registrations in registrations_by_profile:
        for event in chain.from_iterable(registrations.by_plugin.values()):
            action_types[event.kind] = action_types.get(event.kind, ActionType(0)) | event.action
    return action_types


def iter_wildcard_events(gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
    """Yield the events of a wildcard registration. Upstream: UnrollWildCardResource."""
    for kind in RESOURCES:
        gate = NOT_IN_WILDCARD.get(kind)
        if gate is None or (gate and gates.enabled(gate)):
            yield ClusterEventWithHint(kind, ActionType.ALL)
