"""Event handling: the events that the scheduler makes of a changed object, and which plugins registered for them.

Upstream: pkg/scheduler/eventhandlers.go, pkg/scheduler/framework/events.go, buildQueueingHintMap in
pkg/scheduler/scheduler.go and EnqueueExtensions in pkg/scheduler/framework/runtime/framework.go (v1.36). For the labels
before 1.32: the same files in v1.31, and pkg/scheduler/internal/queue/events.go in v1.30.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Protocol, runtime_checkable

from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.api.objects import DeviceClass, Node, Pod, ResourceSlice
from kschedctl.api.pod_requests import Options, compute_pod_requests, parse_quantities
from kschedctl.scheduler.engine.extenders import NAME as EXTENDERS
from kschedctl.scheduler.framework import Plugin, offers
from kschedctl.scheduler.framework.events import (
    ASSIGNED_POD,
    NODE,
    POD,
    QUEUEING_HINTS,
    RESOURCES,
    UNSCHEDULABLE_POD,
    UPDATES_OF_PODS,
    ActionType,
    ChangedObject,
    ClusterEvent,
    ClusterEventWithHint,
    HintFunction,
    SkipPredicate,
    list_pre_checked_resources,
)
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.gang_scheduling import GangScheduling
from kschedctl.scheduler.plugins.helper.device_features import TAINT_RULES_GATE, Features
from kschedctl.scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
POD_DELETED = ClusterEvent(ASSIGNED_POD, ActionType.DELETE)
DELETED_NODE_IS_EVENT = ByVersion(
    "the deletion of a node can make the scheduler retry a rejected pod", (("", False), ("1.32", True))
)
REPORTED_AS_ANY_UPDATE = ByVersion(
    "plugins cannot tell the resizes of an assigned pod (with queueing hints on: all its updates) apart by kind",
    (("", False), ("1.31", True), ("1.32", False)),
)
LOST_NOMINATION_IS_DELETION = ByVersion(
    "a pod that loses its nomination is treated as deleted from the nominated node", (("", False), ("1.33", True))
)


class Occurrence(NamedTuple):
    """An event with the change that plugins see."""

    event: ClusterEvent
    change: ChangedObject
    itself: bool = False
    """True if the event can wake only the changed pod itself."""
    up_to_priority: int | None = None
    """The highest priority of pods that the event can wake, or None for all pods."""


class EventHandlers:
    """The event handlers of a scheduler.

    `actions` has, by kind, the actions for which some plugin registered. Nodes and pods are always watched. `served`
    has the schedulerNames of the profiles. `slices` and `classes` have the devices that taint rules may taint.
    """

    def __init__(
        self,
        actions: Mapping[str, ActionType],
        served: frozenset[str],
        gates: FeatureGates,
        requests: Options,
        *,
        slices: Sequence[ResourceSlice] = (),
        classes: Sequence[DeviceClass] = (),
    ) -> None:
        self.actions, self.served, self.gates, self.requests = actions, served, gates, requests
        self.slices, self.classes = slices, classes
        self.pre_checked = list_pre_checked_resources(gates)

    def list_occurrences(self, change: ChangedObject) -> list[Occurrence]:
        """Return the events that a change causes.

        An event for which no plugin registered is left out, except for pods and nodes. Some versions also ignore a new
        StorageClass that binds volumes immediately. A changed DeviceTaintRule causes an event for each ResourceSlice
        whose devices it taints.
        """
        if change.kind == POD:
            return list(self._iter_pod_events(change))
        if change.kind == NODE:
            return [Occurrence(event, change) for event in self._iter_node_events(change)]

        if change.kind == "DeviceTaintRule" and self.gates.enabled(TAINT_RULES_GATE.at(self.gates.release)):
            occurrences: list[Occurrence] = []
            for tainted_slice in self._iter_tainted_slices(change):
                occurrences += self.list_occurrences(tainted_slice)
            return occurrences

        action = _find_basic_action(change)
        registered_actions = self.actions.get(change.kind, ActionType(0))
        if not registered_actions & action or self._is_irrelevant_storage_class(change):
            return []
        return [Occurrence(self._build_event(RESOURCES[change.kind], action), change)]

    def _build_event(self, resource: str, action: ActionType, name: str = "") -> ClusterEvent:
        """Build an event with the label that it has in the replayed version. `name` is a special label."""
        return with_version_label(ClusterEvent(resource, action), self.gates.release, name)

    def _is_irrelevant_storage_class(self, change: ChangedObject) -> bool:
        """Return whether the change adds a StorageClass that does not wait for the first consumer.

        Only versions with pre-checks ignore such StorageClasses.
        """
        is_pre_checked = change.kind == "StorageClass" and change.kind in self.pre_checked
        is_added = change.new is not None and change.old is None
        return is_pre_checked and is_added and change.new.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER

    def _iter_tainted_slices(self, change: ChangedObject) -> Iterator[ChangedObject]:
        """Yield a change for each ResourceSlice whose taints differ because of the changed rule.

        A slice is left out if an expression of the rule, before or after the change, does not compile. Upstream:
        resourceslice/tracker.
        """
        from kschedctl.scheduler.plugins.dynamic_resources.devices import TaintRules  # noqa: PLC0415 - behind a gate

        features = Features.from_gates(self.gates)
        old_rules = [] if change.old is None else [change.old]
        new_rules = [] if change.new is None else [change.new]
        before_change = TaintRules(old_rules, self.classes, features)
        after_change = TaintRules(new_rules, self.classes, features)
        for resource_slice in self.slices:
            before = before_change.apply_to_slice(resource_slice)
            after = after_change.apply_to_slice(resource_slice)
            if before is not None and after is not None and before != after:
                yield ChangedObject("ResourceSlice", before, after)

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _iter_node_events(self, change: ChangedObject) -> Iterator[ClusterEvent]:
        """Yield the events of an added, updated or deleted node. Old versions have no event for a deleted node.

        An update causes one event per kind of change, unless the feature gate of this kind is off.
        """
        if change.new is None and not DELETED_NODE_IS_EVENT.at(self.gates.release):
            return
        if change.old is None or change.new is None:
            yield self._build_event(NODE, _find_basic_action(change))
            return
        for action, differs in NODE_CHANGES:
            gate = GATES.get(action)
            if (gate is None or self.gates.enabled(gate)) and differs(change):  # one update may cause several events
                # Uncordoning and other changes of taints are the same action, so only the name tells them apart.
                name = UNCORDONED if differs is _is_uncordoned else ""
                yield self._build_event(NODE, action, name)

    # -- pods ------------------------------------------------------------------------------------------------------

    def _iter_pod_events(self, change: ChangedObject) -> Iterator[Occurrence]:
        """Yield the events of an added, updated or deleted pod. A pod that has ended counts as deleted."""
        old = None if change.old is None or change.old.terminated else change.old
        new = None if change.new is None or change.new.terminated else change.new
        change = ChangedObject(POD, old, new, change.documents)
        if old is None and new is not None:
            if addition := self._build_pod_addition_event(change, new):
                yield addition
        elif new is None and old is not None:
            if deletion := self._build_pod_deletion_event(change, old):
                yield deletion
        elif old is not None and new is not None:
            yield from self._iter_pod_update_events(change, old, new)

    def _build_pod_addition_event(self, change: ChangedObject, pod: Pod) -> Occurrence | None:
        """Build the event of an added pod.

        Return None unless the pod has a node or, with gang scheduling, waits for this scheduler.
        """
        if pod.spec.node_name:
            return Occurrence(ClusterEvent(ASSIGNED_POD, ActionType.ADD), change)
        if self._is_responsible_for(pod) and self.gates.enabled(GangScheduling.gate):
            return Occurrence(ClusterEvent(UNSCHEDULABLE_POD, ActionType.ADD), change)
        return None

    def _build_pod_deletion_event(self, change: ChangedObject, pod: Pod) -> Occurrence | None:
        """Build the event of a deleted pod that had a node or, in newer versions, a nominated node of this scheduler.

        The loss of a nomination can wake only pods of at most the same priority. Return None for other pods.
        """
        loses_nomination = self._is_responsible_for(pod) and bool(pod.status.nominated_node_name)
        if pod.spec.node_name:
            return Occurrence(POD_DELETED, change)
        if loses_nomination and LOST_NOMINATION_IS_DELETION.at(self.gates.release):
            return Occurrence(POD_DELETED, change, up_to_priority=pod.spec.priority or 0)
        return None

    def _iter_pod_update_events(self, change: ChangedObject, old: Pod, new: Pod) -> Iterator[Occurrence]:
        """Yield the events of an updated pod.

        A pod that becomes bound counts as added, and a pod that loses its nomination also counts as deleted. A waiting
        pod of another scheduler causes no events.
        """
        if old.spec.node_name:
            for action in self.list_pod_actions(change):
                yield Occurrence(self._build_placed_pod_update_event(action), change)
        elif new.spec.node_name:
            if addition := self._build_pod_addition_event(ChangedObject(POD, old=None, new=new), new):
                yield addition
        elif self._is_responsible_for(old):
            # Versions with pre-checks label all updates of a waiting pod alike.
            name = OWN_UPDATE if UNSCHEDULABLE_POD in self.pre_checked else ""
            for action in self._list_waiting_pod_actions(change):
                yield Occurrence(self._build_event(UNSCHEDULABLE_POD, action, name), change, itself=True)
            nominated_node = old.status.nominated_node_name
            loses_nomination = bool(nominated_node) and nominated_node != new.status.nominated_node_name
            if loses_nomination:
                deletion = self._build_pod_deletion_event(ChangedObject(POD, old, new=None), old)
                if deletion:
                    yield deletion

    def _is_responsible_for(self, pod: Pod) -> bool:
        """Return whether a profile serves the pod."""
        return pod.spec.scheduler_name in self.served

    def list_pod_actions(self, change: ChangedObject) -> list[ActionType]:
        """Return the kinds of updates in a pod's change for which plugins can register in this version.

        If there are none, the update counts as the general UPDATE.
        """
        known_labels = UPDATES_OF_PODS.at(self.gates.release)
        action_types = []
        for action, differs in POD_CHANGES:
            is_enabled = action not in GATES or self.gates.enabled(GATES[action])
            if action.label in known_labels and is_enabled and differs(change, self.requests):
                action_types.append(action)
        return action_types or [ActionType.UPDATE]

    def _build_placed_pod_update_event(self, action: ActionType) -> ClusterEvent:
        """Build the event for an update of a pod on a node.

        In some versions the event is a general update, which reaches each plugin that registered for any kind of pod
        update. In these versions, a scale-down is always general. Other updates are general if the gate
        SchedulerQueueingHints is on.
        """
        is_version_with_general_updates = REPORTED_AS_ANY_UPDATE.at(self.gates.release)
        is_scale_down = action is ActionType.UPDATE_POD_SCALE_DOWN
        is_general = is_version_with_general_updates and (is_scale_down or self.gates.enabled(QUEUEING_HINTS))
        if not is_general:
            return self._build_event(ASSIGNED_POD, action)
        general_update = self._build_event(ASSIGNED_POD, ActionType.UPDATE)
        return general_update._replace(broad=True)  # a plugin need not have registered for all kinds of updates

    def _list_waiting_pod_actions(self, change: ChangedObject) -> list[ActionType]:
        """Return the kinds of updates in a waiting pod's change.

        Old versions without queueing hints do not distinguish updates.
        """
        is_old_version = NAMED_EACH.at(self.gates.release)
        if is_old_version and UNSCHEDULABLE_POD in self.pre_checked:
            return [ActionType.UPDATE]
        return self.list_pod_actions(change)


def _find_basic_action(change: ChangedObject) -> ActionType:
    """Return the action of the change: ADD, DELETE or UPDATE."""
    if change.old is None:
        return ActionType.ADD
    return ActionType.DELETE if change.new is None else ActionType.UPDATE


def _map_condition_statuses(node: Node) -> dict[str, str]:
    """Return the status of each of the node's conditions by type."""
    return {condition.type: condition.status for condition in node.status.conditions}


def _does_allocatable_differ(change: ChangedObject) -> bool:
    """Return whether the node's allocatable resources changed."""
    old_amounts = parse_quantities(change.old.status.allocatable)
    new_amounts = parse_quantities(change.new.status.allocatable)
    return old_amounts != new_amounts


def _is_uncordoned(change: ChangedObject) -> bool:
    """Return whether the node was cordoned before the change and is not afterwards."""
    return bool(change.old.spec.unschedulable) and not change.new.spec.unschedulable


GATES: Mapping[ActionType, str] = {
    ActionType.UPDATE_NODE_DECLARED_FEATURE: NodeDeclaredFeatures.gate,
    ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "DynamicResourceAllocation",
}
"""Changes that are detected only with a feature gate."""

NODE_CHANGES: tuple[tuple[ActionType, Callable[[ChangedObject], bool]], ...] = (
    (ActionType.UPDATE_NODE_TAINT, _is_uncordoned),
    (ActionType.UPDATE_NODE_ALLOCATABLE, _does_allocatable_differ),
    (ActionType.UPDATE_NODE_LABEL, lambda change: change.has_changed("metadata", "labels")),
    (ActionType.UPDATE_NODE_TAINT, lambda change: change.has_changed("spec", "taints")),
    (
        ActionType.UPDATE_NODE_CONDITION,
        lambda change: _map_condition_statuses(change.old) != _map_condition_statuses(change.new),
    ),
    (ActionType.UPDATE_NODE_ANNOTATION, lambda change: change.has_changed("metadata", "annotations")),
    (ActionType.UPDATE_NODE_DECLARED_FEATURE, lambda change: change.has_changed("status", "declared_features")),
)
"""Changes in upstream's order. Uncordoning counts as a change of taints, and so does removing the cordon's taint."""


def _is_scaled_down(change: ChangedObject, options: Options) -> bool:
    """Return whether a request became smaller or was removed, not counting requests that devices provide."""
    options = options._replace(pod_level=True, dra_node_allocatable=False)
    old, new = compute_pod_requests(change.old, options), compute_pod_requests(change.new, options)
    return any(name not in new or new[name].milli_value() < amount.milli_value() for name, amount in old.items())


def _are_gates_removed(change: ChangedObject, options: Options) -> bool:
    """Return whether the last scheduling gate was removed."""
    return bool(change.old.spec.scheduling_gates) and not change.new.spec.scheduling_gates


def _are_claims_generated(change: ChangedObject, options: Options) -> bool:
    """Return whether the claims in the pod's status changed, which happens when claims are generated for it.

    `options` is not used.
    """
    old, new = change.old.status, change.new.status
    if old.resource_claim_statuses != new.resource_claim_statuses:
        return True
    return bool(old.extended_resource_claim_status != new.extended_resource_claim_status)


def _do_tolerations_differ(change: ChangedObject, options: Options) -> bool:
    """Return whether the number of tolerations changed.

    The API only allows tolerations to be added.
    """
    return len(change.old.spec.tolerations) != len(change.new.spec.tolerations)


POD_CHANGES: tuple[tuple[ActionType, Callable[[ChangedObject, Options], bool]], ...] = (
    (ActionType.UPDATE_POD_LABEL, lambda change, options: change.has_changed("metadata", "labels")),
    (ActionType.UPDATE_POD_SCALE_DOWN, _is_scaled_down),
    (ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, _are_gates_removed),
    (ActionType.UPDATE_POD_TOLERATION, _do_tolerations_differ),
    (ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM, _are_claims_generated),
)
"""Kinds of pod updates, each with the function that detects it, in upstream's order."""


NAMED_EACH = ByVersion("each kind of event has its own name in logs and metrics", (("", True), ("1.32", False)))
UNCORDONED, OWN_UPDATE = "NodeSpecUnschedulableChange", "PodUpdate"
"""The labels of events that differ from others by their name alone."""
_NAMES: Mapping[tuple[str, ActionType], str] = {
    (NODE, ActionType.UPDATE_NODE_ALLOCATABLE): "NodeAllocatableChange",
    (NODE, ActionType.UPDATE_NODE_LABEL): "NodeLabelChange",
    (NODE, ActionType.UPDATE_NODE_TAINT): "NodeTaintChange",
    (NODE, ActionType.UPDATE_NODE_CONDITION): "NodeConditionChange",
    (NODE, ActionType.UPDATE_NODE_ANNOTATION): "NodeAnnotationChange",
    (ASSIGNED_POD, ActionType.UPDATE_POD_LABEL): "PodLabelChange",
    (UNSCHEDULABLE_POD, ActionType.UPDATE_POD_LABEL): "PodLabelChange",
    (UNSCHEDULABLE_POD, ActionType.UPDATE_POD_SCALE_DOWN): "PodRequestScaledDown",
    (UNSCHEDULABLE_POD, ActionType.UPDATE): "AssignedPodUpdate",
}
_SHORT = {"PersistentVolume": "Pv", "PersistentVolumeClaim": "Pvc"}


def with_version_label(event: ClusterEvent, release: KubeVersion, name: str = "") -> ClusterEvent:
    """Return the event with the label that it has in this version.

    `name` is a special label, which distinguishes the event from others with the same resource and action.

    >>> with_version_label(ClusterEvent("storage.k8s.io/CSINode", ActionType.ADD), KubeVersion.parse("1.31")).label
    'CSINodeAdd'
    """
    if not NAMED_EACH.at(release):
        return event
    label = name or _NAMES.get((event.resource, event.action))
    if not label:
        label = f"{_shorten_resource(event.resource)}{event.action.label}"
    return event._replace(custom_label=label)


def _shorten_resource(resource: str) -> str:
    """Return the name of a resource without its API group, as labels of old versions have it.

    A resource of an unknown kind, such as `noderesourcetopologies.v1alpha1.example.com`, keeps its plural, capitalized.
    """
    if "/" not in resource and "." in resource:
        plural, _, _ = resource.partition(".")
        return plural.title()
    _, _, kind = resource.rpartition("/")
    return _SHORT.get(kind, kind)


NOT_IN_WILDCARD = {
    **dict.fromkeys(("VolumeAttachment", "ResourceSlice"), ""),
    **dict.fromkeys(("CoschedulingPodGroup", "ElasticQuota", "NodeResourceTopology"), ""),
    "PodGroup": "GenericWorkload",
    "CompositePodGroup": "CompositePodGroup",
}
"""Kinds that a wildcard registration includes only with the named feature gate, or never if there is no name."""
REJECTING_POINTS = ("preEnqueue", "preFilter", "filter", "reserve", "permit")
"""The extension points at which a plugin can reject a pod."""


@runtime_checkable
class EnqueueExtensions(Plugin, Protocol):
    """A plugin that registers for cluster events."""

    def events_to_register(self, gates: FeatureGates) -> Iterable[ClusterEventWithHint]:
        """Return the events that may make a rejected pod schedulable, each with its hint."""


class Registrations:
    """The events for which a profile's plugins are registered, with the queueing hints that count.

    A plugin that can reject pods but registers for no events is notified of all events. So are the extenders, which the
    profile has if `extended` is True.
    """

    def __init__(self, plugins: Iterable[Plugin], gates: FeatureGates, *, extended: bool = False) -> None:
        self.gates = gates
        self.hinted = gates.enabled(QUEUEING_HINTS)
        """True if queueing hints count."""
        self.pre_checked = list_pre_checked_resources(gates)
        """The resources whose events the queue checks itself."""
        self.by_plugin: dict[str, tuple[ClusterEventWithHint, ...]] = {}
        """The registrations of each plugin, and those of extenders under EXTENDERS."""
        if extended:
            self.by_plugin[EXTENDERS] = tuple(iter_wildcard_events(gates))
        for plugin in plugins:
            self.by_plugin[plugin.name] = tuple(self._iter_registrations(plugin))
        # Caches
        self._hints: dict[tuple[str, ClusterEvent], tuple[HintFunction | None, ...]] = {}
        self._skip_predicates: dict[ClusterEvent, tuple[SkipPredicate, ...] | None] = {}
        self._plugins_by_event: dict[ClusterEvent, frozenset[str]] = {}

    def _iter_registrations(self, plugin: Plugin) -> Iterator[ClusterEventWithHint]:
        """Yield a plugin's registrations, without hints if this version ignores hints.

        A plugin that registers no events gets a wildcard registration. As in upstream, a plugin that registers for
        added nodes is also registered for changed taints, because a new node may start with taints.
        """
        if not offers(plugin, EnqueueExtensions):
            yield from iter_wildcard_events(self.gates)
            return
        node_actions = ActionType(0)
        uses_hints = self.hinted and self.gates.minor >= getattr(plugin, "hints_since", 0)
        for registration in plugin.events_to_register(self.gates):
            yield registration if uses_hints else registration._replace(hint=None)
            if registration.kind == NODE:
                node_actions |= registration.action
        if node_actions & ActionType.ADD and not node_actions & ActionType.UPDATE_NODE_TAINT:
            yield ClusterEventWithHint(NODE, ActionType.UPDATE_NODE_TAINT)

    def find_hints(self, plugin: str, event: ClusterEvent) -> tuple[HintFunction | None, ...]:
        """Return a plugin's hint functions for an event, or () if the plugin did not register for the event.

        A registration without a hint function is returned as None, which counts as Queue. The result is cached.
        """
        key = plugin, event
        if key not in self._hints:
            registered = self.by_plugin.get(plugin, ())
            self._hints[key] = tuple(
                registration.hint for registration in registered if registration.event.covers(event)
            )
        return self._hints[key]

    def do_all_hints_skip(self, info: PodInfo, event: ClusterEvent, view: Fork) -> bool:
        """Return whether all plugins' hints for the pod are Skip, no matter which change causes this event.

        Return False if this is unknown for some plugin.
        """
        if event not in self._skip_predicates:
            self._skip_predicates[event] = self._find_skip_predicates(event)
        predicates = self._skip_predicates[event]
        return predicates is not None and all(always_skips(info, event.action, view) for always_skips in predicates)

    def _find_skip_predicates(self, event: ClusterEvent) -> tuple[SkipPredicate, ...] | None:
        """Return the skip predicates of all registrations for an event, or None if a registration has none."""
        predicates = []
        for registration in chain.from_iterable(self.by_plugin.values()):
            if not registration.event.covers(event):
                continue
            if registration.hint is None or registration.always_skips is None:
                return None
            predicates.append(registration.always_skips)
        return tuple(predicates)

    def find_registered_plugins(self, event: ClusterEvent) -> frozenset[str]:
        """Return the names of the plugins that registered for the event, from a cache if possible."""
        if event not in self._plugins_by_event:
            registered = frozenset(plugin for plugin in self.by_plugin if self.find_hints(plugin, event))
            self._plugins_by_event[event] = registered
        return self._plugins_by_event[event]


def collect_actions(registrations_by_profile: Iterable[Registrations]) -> Mapping[str, ActionType]:
    """Return, by kind, all actions for which some plugin of any profile registered. Upstream: unionedGVKs."""
    action_types: dict[str, ActionType] = {}
    for registrations in registrations_by_profile:
        for event in chain.from_iterable(registrations.by_plugin.values()):
            action_types[event.kind] = action_types.get(event.kind, ActionType(0)) | event.action
    return action_types


def iter_wildcard_events(gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
    """Yield the events of a wildcard registration, with all actions of each kind.

    Of the kinds in NOT_IN_WILDCARD, only those with an enabled feature gate are included. Upstream:
    UnrollWildCardResource.
    """
    for kind in RESOURCES:
        if kind in NOT_IN_WILDCARD:
            gate = NOT_IN_WILDCARD[kind]
            is_included = bool(gate) and gates.enabled(gate)
            if not is_included:
                continue
        yield ClusterEventWithHint(kind, ActionType.ALL)
