"""The answers of a scheduler's plugins to the questions of the queue: which events make a pod worth another attempt.

Old versions check first whether an event reaches the pod at all. Upstream: isPodWorthRequeuing, runPreEnqueuePlugins
and movePodsToActiveOrBackoffQueue in pkg/scheduler/backend/queue/scheduling_queue.go (v1.36). For the pre-checks:
preCheckForNode in pkg/scheduler/eventhandlers.go, and AssignedPodAdded, AssignedPodUpdated and
getUnschedulablePodsWithCrossTopologyTerm in the queue's scheduling_queue.go (v1.31, v1.32; in v1.30
getUnschedulablePodsWithMatchingAffinityTerm).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from kschedctl.api import resource_names as names
from kschedctl.api.arrays import Position
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.api.objects import Node, Pod
from kschedctl.api.tolerations import find_untolerated_taint
from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.engine.diagnosis import NO_REJECTORS, Rejectors, find_rejectors
from kschedctl.scheduler.engine.queued_pod import QueuedPod
from kschedctl.scheduler.event_handling import Occurrence, Registrations
from kschedctl.scheduler.framework import SUCCESS, PluginError, PreEnqueuePlugin, Status, offers
from kschedctl.scheduler.framework.events import (
    ASSIGNED_POD,
    NODE,
    ActionType,
    ChangedObject,
    ClusterEvent,
    HintFunction,
    QueueingHint,
)
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.scheduler.plugins.scheduling_gates import SchedulingGates
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.fork import Fork, is_same_pod
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.snapshot import compute_allocatable_amounts


class QueueingStrategy(StrEnum):
    """The reaction of the queue to an event: the pod stays, is tried again after its backoff, or is tried at once."""

    SKIP = "QueueSkip"
    AFTER_BACKOFF = "QueueAfterBackoff"
    IMMEDIATELY = "QueueImmediately"


SKIP, AFTER_BACKOFF = QueueingStrategy.SKIP, QueueingStrategy.AFTER_BACKOFF
GATE_DECIDES = ByVersion(
    "a gated pod is checked again only after events that the plugin gating it has registered for",
    (("", False), ("1.34", True)),
)


def collect_hints(
    registrations: Registrations, rejectors: Rejectors, info: PodInfo, occurrence: Occurrence, view: Fork
) -> dict[str, QueueingHint]:
    """Return the queueing hint of each plugin that rejected the pod, by plugin name.

    All plugins are called, whereas upstream stops at the first Queue. A hint function that fails counts as Queue.
    `view` is the state after the change, as HintFunction describes.
    """
    event = occurrence.event
    return {
        plugin: _combine_hints(registrations.find_hints(plugin, event), info, occurrence, view)
        for plugin in sorted(rejectors.all)
    }


def choose_queueing_strategy(
    registrations: Registrations,
    rejectors: Rejectors,
    info: PodInfo,
    occurrence: Occurrence,
    view: Fork,
    *,
    known_hints: Mapping[str, QueueingHint] | None = None,
    in_flight: bool = False,
) -> QueueingStrategy:
    """Return whether and how to requeue a rejected pod after an event.

    The hint functions of plugins are called unless `known_hints` has their answers. A pod without rejectors is always
    requeued.

    Some versions pre-check this kind of event first. In such a version, an update of the pod's own object requeues the
    pod unless only its status changed. Any other event must pass the pre-check, unless the pod was being tried when the
    event came (`in_flight`).
    """
    # Old versions check some events before they call hint functions.
    if occurrence.event.resource in registrations.pre_checked:
        if occurrence.itself:
            return AFTER_BACKOFF if is_pod_updated(occurrence.change) else SKIP
        if not in_flight and not passes_pre_check(info, rejectors, occurrence, view, registrations.gates):
            return SKIP

    if not rejectors.all:
        return AFTER_BACKOFF
    hints = collect_hints(registrations, rejectors, info, occurrence, view) if known_hints is None else known_hints
    plugins_that_queue = {plugin for plugin, hint in hints.items() if hint is QueueingHint.QUEUE}
    if plugins_that_queue & rejectors.pending:
        return QueueingStrategy.IMMEDIATELY
    return AFTER_BACKOFF if plugins_that_queue else SKIP


def may_requeue(registrations: Registrations, info: PodInfo, occurrence: Occurrence, view: Fork) -> bool:
    """Return whether an event could put a pod back into the queue, no matter which plugins rejected it.

    This is the case if a plugin registered for the event without a hint function, or if a hint function says Queue. In
    versions that pre-check the event, the event must also pass the pre-check, with all registered plugins as rejectors.
    """
    event = occurrence.event
    plugins = registrations.find_registered_plugins(event)
    if not plugins:
        return False
    if event.resource in registrations.pre_checked:
        # The pre-check depends on which plugins rejected the pod: assume all that registered for the event.
        all_registered = Rejectors(plugins)
        return choose_queueing_strategy(registrations, all_registered, info, occurrence, view) is not SKIP
    hints: list[HintFunction | None] = []
    for plugin in plugins:
        hints += registrations.find_hints(plugin, event)
    if None in hints:  # a plugin that registered without a hint function is always worth an attempt
        return True
    return any(_does_hint_say_queue(hint, info, occurrence, view) for hint in hints if hint is not None)


def does_event_concern_pod(
    registrations: Registrations, rejectors: Rejectors, info: PodInfo, occurrence: Occurrence, gating_plugin: str = ""
) -> bool:
    """Return whether an event concerns a rejected pod, so that the hint functions of its rejectors have to be called.

    An update of a waiting pod concerns only that pod. If a pod loses its nomination, this concerns only pods of at most
    the same priority. An event concerns a gated pod only if its gating plugin registered for the event. In versions
    before GATE_DECIDES, an event concerns a gated pod unless scheduling gates hold the pod back.
    """
    if occurrence.itself:
        return is_same_pod(occurrence.change.new, info.pod)
    if occurrence.up_to_priority is not None and info.priority > occurrence.up_to_priority:
        return False
    does_gating_plugin_decide = GATE_DECIDES.at(registrations.gates.release)
    if gating_plugin and not does_gating_plugin_decide:
        return SchedulingGates.name not in rejectors.unschedulable
    return not gating_plugin or is_registered(registrations, gating_plugin, occurrence.event)


def is_registered(registrations: Registrations, plugin: str, event: ClusterEvent) -> bool:
    """Return whether a plugin registered for an event."""
    return bool(registrations.find_hints(plugin, event))


def _combine_hints(
    hints: tuple[HintFunction | None, ...], info: PodInfo, occurrence: Occurrence, view: Fork
) -> QueueingHint:
    """Return Queue if any of a plugin's hint functions wants to requeue the pod after an event, otherwise Skip.

    None instead of a hint function counts as Queue. A plugin without hint functions did not register for the event, so
    NOT_REGISTERED is returned.
    """
    if not hints:
        return QueueingHint.NOT_REGISTERED
    is_worth = any(hint is None or _does_hint_say_queue(hint, info, occurrence, view) for hint in hints)
    return QueueingHint.QUEUE if is_worth else QueueingHint.SKIP


def _does_hint_say_queue(hint: HintFunction, info: PodInfo, occurrence: Occurrence, view: Fork) -> bool:
    """Return whether a hint function answers Queue. An error counts as Queue."""
    try:
        return hint(info, occurrence.change, view)
    except PluginError:
        return True


FREEING = (ActionType.DELETE, ActionType.UPDATE_POD_SCALE_DOWN)
"""Changes of pods on nodes that may free room for any other pod."""
RESIZE_GATE, RESIZE_IN_PROGRESS = "InPlacePodVerticalScaling", "InProgress"
REACHES_SPREAD = ByVersion(
    "any change to an assigned pod can make the scheduler retry pods in its namespace that PodTopologySpread rejected",
    (("", False), ("1.31", True)),
)
WHILE_RESIZED = ByVersion(
    "any update to a pod that is being resized counts as freeing resources", (("", True), ("1.31", False))
)


def passes_pre_check(
    info: PodInfo, rejectors: Rejectors, occurrence: Occurrence, view: Fork, gates: FeatureGates
) -> bool:
    """Return whether an event passes the pre-check of a pod, in versions with pre-checks.

    A node event passes if the node would admit the pod. An event about a pod on a node passes if that pod frees
    resources. The event also passes if that pod may matter to the waiting pod's affinity or topology spreading. All
    other events pass.
    """
    event, change = occurrence.event, occurrence.change
    if event.resource == NODE and change.new is not None:
        return admits_pod(change.new, info, view)
    is_about_placed_pod = event.resource == ASSIGNED_POD
    if not is_about_placed_pod or event.broad:
        return True
    if event.action in FREEING or _counts_as_freeing_room(change, gates):
        return True
    was_rejected_by_spread = PodTopologySpread.name in rejectors.unschedulable
    heeds_namespace = was_rejected_by_spread and REACHES_SPREAD.at(gates.release)
    return _may_affect_waiting_pod(change.new, info, view, heeds_namespace=heeds_namespace)


def _counts_as_freeing_room(change: ChangedObject, gates: FeatureGates) -> bool:
    """Return whether upstream treats a change as freeing resources because it updates a pod during its resize."""
    if change.old is None or change.new is None or change.new.status.resize != RESIZE_IN_PROGRESS:
        return False
    return gates.enabled(RESIZE_GATE) and WHILE_RESIZED.at(gates.release)


def is_pod_updated(change: ChangedObject) -> bool:
    """Return whether an update of a waiting pod changes more than the parts of its status that upstream ignores.

    Changes of the generated claims in the status count. Upstream: isPodUpdated.
    """
    old, new = change.old, change.new
    do_annotations_differ = change.documents is not None and change.has_changed("metadata", "annotations")
    return bool(
        old.metadata.labels != new.metadata.labels
        or do_annotations_differ
        or old.status.resource_claim_statuses != new.status.resource_claim_statuses
        or old.spec != new.spec
    )


def admits_pod(node: Node, info: PodInfo, view: Fork) -> bool:
    """Return whether the kubelet of a node would admit the pod in addition to the node's current pods.

    This is upstream's pre-check. The pre-check combines AdmissionCheck with a check of NoSchedule taints.
    """
    spec, metadata = info.spec, node.metadata
    if spec.node_name and spec.node_name != metadata.name:
        return False
    return (
        compile_required_node_affinity(spec).allows(metadata.labels, metadata.name)
        and find_untolerated_taint(node.spec.taints, spec.tolerations, {"NoSchedule"}) is None
        and _has_room(node, info, view)
    )


def _has_room(node: Node, info: PodInfo, view: Fork) -> bool:
    """Return whether the node has room for the pod's requests and host ports in addition to its current pods."""
    row = view.nodes.index.get(node.metadata.name)
    used = {}
    if row is not None:
        used = {name: int(view.requested[row, column]) for name, column in view.resources.items()}
    offer = compute_allocatable_amounts(node)
    for name, amount in {**info.incoming_requests, names.PODS: 1}.items():
        free = offer.get(name, 0) - used.get(name, 0)
        if amount > 0 and amount > free:
            return False

    pods_on_node = [] if row is None else view.pods_on(row)
    for position in pods_on_node:
        for taken in view.pods.get_info(position).host_ports:
            if any(taken.conflicts_with(wanted) for wanted in info.host_ports):
                return False
    return True


def _may_affect_waiting_pod(pod: Pod, info: PodInfo, view: Fork, *, heeds_namespace: bool) -> bool:
    """Return whether a pod may change whether the waiting pod `info` can be scheduled.

    This is the case if the pod matches a required affinity term of the waiting pod. If `heeds_namespace` is true, it is
    enough that both pods are in the same namespace.
    """
    metadata = pod.metadata
    if heeds_namespace and metadata.namespace == info.namespace:
        return True
    namespace_labels = view.namespace_labels.get(metadata.namespace, {})
    return any(term.matches(metadata.namespace, metadata.labels, namespace_labels) for term in info.required_affinity)


class QueuePlugins:
    """The plugins of all profiles as the queue calls them. `info` returns a pod's current PodInfo."""

    def __init__(self, scheduler: Scheduler, view: Fork, info: Callable[[Position], PodInfo]) -> None:
        self._scheduler, self._view, self._get_info = scheduler, view, info
        self._has_registered_rejector: dict[tuple[Rejectors, ClusterEvent], bool] = {}
        self._has_registered_plugin: dict[ClusterEvent, bool] = {}

    def run_pre_enqueue(self, pod: QueuedPod) -> tuple[str, Status]:
        """Return the name and the status of the plugin that keeps a pod out of the active queue.

        Return ("", SUCCESS) if no plugin does, or if no profile serves the pod.
        """
        info = self._get_info(pod.position)
        framework, _ = self._scheduler.find_framework_for(info, self._view)
        if framework is None:
            return "", SUCCESS
        return find_gating_plugin(framework, info, self._view, pod.gating_plugin)

    def find_gating_plugin(self, pod: QueuedPod) -> str:
        """Return the name of the plugin that keeps a pod out of the active queue, or "" if no plugin does."""
        plugin, _ = self.run_pre_enqueue(pod)
        return plugin

    def is_any_rejector_registered(self, rejectors: Rejectors, event: ClusterEvent) -> bool:
        """Return whether one of the plugins that rejected a pod registered for the event in some profile.

        The answer is cached.
        """
        key = rejectors, event
        if key not in self._has_registered_rejector:
            self._has_registered_rejector[key] = any(
                registrations.find_hints(plugin, event)
                for registrations in self._iter_registrations()
                for plugin in rejectors.all
            )
        return self._has_registered_rejector[key]

    def is_any_plugin_registered(self, event: ClusterEvent) -> bool:
        """Return whether any plugin of any profile registered for this kind of event. The answer is cached."""
        if event not in self._has_registered_plugin:
            self._has_registered_plugin[event] = any(
                registrations.find_hints(plugin, event)
                for registrations in self._iter_registrations()
                for plugin in registrations.by_plugin
            )
        return self._has_registered_plugin[event]

    def _iter_registrations(self) -> Iterator[Registrations]:
        """Yield the registrations of each profile."""
        return map(self._scheduler.get_registrations, self._scheduler.configuration.profiles)

    def is_concerned(self, pod: QueuedPod, occurrence: Occurrence) -> bool:
        """Return whether an event concerns the pod, so that the queueing hints of its rejectors have to be called."""
        info = self._get_info(pod.position)
        registrations = self._scheduler.get_registrations(info.spec.scheduler_name)
        return does_event_concern_pod(registrations, pod.rejectors, info, occurrence, pod.gating_plugin)

    def choose_queueing_strategy(
        self, pod: QueuedPod, occurrence: Occurrence, in_flight: bool = False
    ) -> QueueingStrategy:
        """Return whether and how to requeue a rejected pod after an event.

        `in_flight` says whether the event came while the pod was being tried.
        """
        info = self._get_info(pod.position)
        registrations = self._scheduler.get_registrations(info.spec.scheduler_name)
        return choose_queueing_strategy(registrations, pod.rejectors, info, occurrence, self._view, in_flight=in_flight)


class Attempt(NamedTuple):
    """The result of trying a pod once, without PostFilter."""

    rejectors: Rejectors = NO_REJECTORS
    gating_plugin: str = ""
    """The PreEnqueue plugin that rejected the pod, in which case there is no `cycle`."""
    gate: Status = SUCCESS
    """The status of the gating plugin."""
    cycle: Cycle | None = None


def try_without_post_filter(framework: Framework, info: PodInfo, view: Fork) -> Attempt:
    """Try a pod once, from PreEnqueue to Filter, without running PostFilter.

    If a PreEnqueue plugin rejects the pod, no cycle is run.
    """
    plugin, status = find_gating_plugin(framework, info, view)
    if plugin:
        return Attempt(Rejectors(frozenset({plugin})), plugin, status)
    cycle = run_cycle(framework, info, view)
    return Attempt(find_rejectors(cycle), cycle=cycle)


def find_gating_plugin(framework: Framework, info: PodInfo, view: Fork, first: str = "") -> tuple[str, Status]:
    """Return the name and the status of the first PreEnqueue plugin that keeps the pod out of the active queue.

    Return ("", SUCCESS) if no plugin does. The plugin named `first` runs first, followed by all other plugins by name.
    """
    plugins = sorted(framework.plugins_at("preEnqueue"), key=lambda plugin: (plugin.name != first, plugin.name))
    for plugin in plugins:
        if offers(plugin, PreEnqueuePlugin):
            status = plugin.pre_enqueue(info, view)
            if status.rejected:
                return plugin.name, status
    return "", SUCCESS
