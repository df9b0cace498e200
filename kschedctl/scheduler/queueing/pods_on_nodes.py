"""The pods of a replay and their nodes: placement, eviction, reserved objects and nominations.

Upstream: assumeAndReserve and unreserveAndForget in pkg/scheduler/schedule_one.go, prepareCandidate in
pkg/scheduler/framework/preemption/executor.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from kschedctl.api.arrays import NO_ROW, Position, Row
from kschedctl.api.copying import replace
from kschedctl.api.objects import Pod, PodSpec, Volume
from kschedctl.cluster.recreation import recreate_pod
from kschedctl.scheduler.engine.preemption.budgets import get_budgets
from kschedctl.scheduler.engine.reserve import (
    NO_PRE_FILTER_RESULTS,
    find_reserve_plugins,
    has_backed_resources,
    release_objects,
    reserve_objects,
)
from kschedctl.scheduler.framework import SUCCESS, PreEnqueuePlugin, PreFilterResult, ReservePlugin, offers
from kschedctl.scheduler.framework.dependencies import Unknown
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


class Tied(Protocol):
    """The rows of equally good nodes in order. They are valid until pods move. Their number stays valid."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> int: ...

    def tolist(self) -> list[int]:
        """Return all rows as a list."""


class Choice(NamedTuple):
    """The node that a pod gets."""

    info: PodInfo
    """The pod."""
    row: Row
    tied: Tied
    """The rows that share the highest score, one of which was chosen."""
    feasible: int
    """Number of feasible nodes."""
    claim_results: Mapping[str, PreFilterResult]
    """Plugin -> PreFilter result, for plugins that read claims."""
    evaluated: int = 0
    """Number of nodes examined, if it is counted."""
    batched: bool = False
    """True if the node is the one that opportunistic batching suggests: the next best for an identical pod before."""


class IncomingPods:
    """The pods of a fork as they arrive in the queue.

    A pod that had a node arrives in the form in which its controller recreates it.
    """

    def __init__(self, view: Fork) -> None:
        self.view = view
        self._incoming: dict[int, PodInfo] = {}
        self._backed: dict[int | None, bool] = {}
        self._latest_position: Position | None = None
        self._latest_info: PodInfo | None = None

    def get_incoming_info(self, number: int) -> PodInfo:
        """Return the PodInfo of a distinct pod as it arrives, without a node.

        A pod that has no node in the snapshot keeps its stored PodInfo. Any other pod gets a new PodInfo.
        """
        info = self._incoming.get(number)
        if info is None:
            info = self.view.pods.infos[number]
            if info.spec.node_name:
                info = self.view.pods.get_recreated_info(number)
            self._incoming[number] = info
        return info

    def build_arriving_info(self, position: Position) -> PodInfo:
        """Return the PodInfo of one pod as it arrives, without a node.

        Identical pods share a PodInfo, except pods for which a device claim with their name is created. Such a pod gets
        a PodInfo of its own, which is cached until the next such pod.
        """
        info = self.get_incoming_info(self.view.pods.get_info_number(position))
        has_backed = self._backed.get(info.alike)
        if has_backed is None:
            has_backed = has_backed_resources(info, self.view)
            self._backed[info.alike] = has_backed
        if not has_backed:
            return info
        if self._latest_info is None or self._latest_position != position:
            pod = self.view.with_clone_name(position, self.build_stored_pod(position))
            self._latest_position = position
            self._latest_info = PodInfo(pod, info.options, info.number, info.alike)
        return self._latest_info

    def build_waiting_pod(self, position: Position) -> Pod:
        """Return the pod as it is queued now, with its current nominatedNodeName.

        A stored nomination to a node that does not exist is kept.
        """
        pod = self.view.with_clone_name(position, self.build_stored_pod(position))
        stored_name = pod.status.nominated_node_name
        row = self.view.get_nominated_row(position)
        if row != NO_ROW:
            current_name = self.view.nodes.names[row]
        elif stored_name in self.view.nodes.index:
            current_name = ""  # the stored nomination was cleared
        else:
            return pod  # it has no nomination, or one to a missing node, which has no row in the view
        if current_name == stored_name:
            return pod
        return replace(pod, status=replace(pod.status, nominated_node_name=current_name))

    def build_stored_pod(self, position: Position) -> Pod:
        """Return the pod as the API server stores it when it arrives."""
        pod: Pod = self.view.pods.objects[position]
        return self.view.build_stored_pod(recreate_pod(pod, self.view.cluster) if pod.spec.node_name else pod)


class PodsOnNodes:
    """The pods of a fork of a scheduler's snapshot, and their moves. Positions index `view.pods`.

    `gone` has the pods that left for good and do not wait for another node. `unknown` has what the answers about pods
    so far depend on that was not read.
    """

    def __init__(self, scheduler: Scheduler, incoming: IncomingPods, unknown: dict[Unknown, None]) -> None:
        self.scheduler, self.view, self.unknown = scheduler, incoming.view, unknown
        self.build_arriving_info = incoming.build_arriving_info
        self._get_incoming_info = incoming.get_incoming_info
        self.budgets = get_budgets(self.view)
        self.nominations = Nominations(self.view)
        self.profiles = ServingProfiles(scheduler, self.view, unknown)
        self.gone: set[Position] = set()
        self.preempted = False
        """True if some pods were preempted."""
        self.taken_back = 0
        """Number of moves that were undone."""
        self._reserving: dict[int | None, list[ReservePlugin]] = {}

    @property
    def move_count(self) -> int:
        """Number of moves that were not undone."""
        return len(self.view.trail) - self.taken_back

    def get_shared_incoming_info(self, position: Position) -> PodInfo:
        """Return the PodInfo of a pod as it arrives, which equal pods share."""
        return self._get_incoming_info(self.view.pods.get_info_number(position))

    def find_framework(self, position: Position) -> Framework | None:
        """Return the profile that serves a pod, or None if no profile does."""
        return self.profiles.find_framework(self.get_shared_incoming_info(position))

    def get_required_framework(self, position: Position) -> Framework:
        """Return the profile that serves a pod. Raises KeyError if there is none."""
        framework = self.find_framework(position)
        if framework is None:
            raise KeyError(position)
        return framework

    def bind(
        self, position: Position, row: Row, pre_filter_results: Mapping[str, PreFilterResult] = NO_PRE_FILTER_RESULTS
    ) -> None:
        """Put a pod on a node, reserve its volumes and devices, and use up its nomination.

        `pre_filter_results` has PreFilter results that were already computed for the pod, by plugin name. Raises
        PluginError if a plugin fails, in which case the pod is not placed.
        """
        # Which plugins reserve something is the same for identical pods.
        info = self.build_arriving_info(position)
        plugins = self._reserving.get(info.alike)
        if plugins is None:
            framework = self.get_required_framework(position)
            plugins = find_reserve_plugins(framework, info.spec)
            self._reserving[info.alike] = plugins

        if plugins:
            # A pod with a PodInfo of its own is reserved under the name after which its claims are named.
            has_shared_info = info is self.get_shared_incoming_info(position)
            pod = self.view.pods.objects[position] if has_shared_info else info.pod
            reserve_objects(plugins, info, pod, self.view, row, pre_filter_results=pre_filter_results)
        self.nominations.consume(position)
        self.view.assume(position, row)

    def take_back(self, position: Position) -> None:
        """Undo the placement of a pod, release what was reserved for it, and count both moves in `taken_back`."""
        self.view.forget(position)
        self.release_reserved_objects([position])
        self.taken_back += 2  # the placement and its undoing

    def evict(self, positions: Sequence[Position]) -> None:
        """Take pods off their nodes for good, and use up disruptions of their PDBs."""
        self.budgets.record_evicted_pods(positions)
        self.remove(positions)

    def remove(self, positions: Sequence[Position]) -> None:
        """Take pods off their nodes for good, regardless of PDBs, and release what was reserved for them."""
        for position in positions:
            self.view.forget(position)
        self.release_reserved_objects(positions)
        self.gone.update(positions)

    def release_reserved_objects(self, positions: Sequence[Position]) -> None:
        """Release what was reserved for pods that no longer have a node.

        The Reserve plugins of all profiles release what they may have reserved.
        """
        numbers = {self.view.pods.get_info_number(position) for position in positions}
        specs = [self.view.pods.infos[number].spec for number in numbers]
        plugins: dict[str, ReservePlugin] = {}
        for name in self.scheduler.configuration.profiles:
            framework = self.scheduler.find_framework(name)
            if framework is not None:
                plugins |= {plugin.name: plugin for plugin in find_reserve_plugins(framework, *specs)}
        if plugins:
            release_objects(plugins.values(), self.view, positions)


class ServingProfiles:
    """The profiles that serve the pods of a view. `unknown` collects unread objects on which the choice depends."""

    def __init__(self, scheduler: Scheduler, view: Fork, unknown: dict[Unknown, None]) -> None:
        self.scheduler, self.view, self.unknown = scheduler, view, unknown
        self._frameworks: dict[int | None, Framework | None] = {}
        self._gates: dict[Framework, list[PreEnqueuePlugin]] = {}

    def find_framework(self, info: PodInfo) -> Framework | None:
        """Return the profile for a pod, or None if no profile serves it.

        If the choice depends on objects that were not read, they are added to `unknown`.
        """
        has_unread_objects = bool(self.view.objects.gaps)
        # Unread objects may matter to only some of a set of otherwise identical pods.
        key = info.number if has_unread_objects else info.alike
        if key not in self._frameworks:
            self._frameworks[key], unknown = self._find_framework_and_unknowns(info, key)
            self.unknown.update(dict.fromkeys(unknown))
        return self._frameworks[key]

    def _find_framework_and_unknowns(
        self, info: PodInfo, key: int | None
    ) -> tuple[Framework | None, tuple[Unknown, ...]]:
        """Return the profile for a pod, or None, and the unread objects on which the choice depends.

        `key` is equal for pods with equal results. Forks that only leave out nodes share the result, unless the pod has
        claims or disks, because the result may then depend on the nodes.
        """
        parent = self.view.part_of
        may_depend_on_nodes = bool(info.spec.resource_claims) or has_disks(info.spec)
        if parent is not None and key is not None and not may_depend_on_nodes:
            answer = parent.find_answer(
                (self.scheduler, key), lambda whole_view: self.scheduler.find_framework_for(info, whole_view)
            )
            if answer is not None:
                return answer
        return self.scheduler.find_framework_for(info, self.view)

    def format_not_served(self, info: PodInfo) -> str:
        """Return the message for a pod that no profile serves."""
        served = ", ".join(self.scheduler.configuration.profiles)
        return f'no scheduler profile is named "{info.spec.scheduler_name}" (profiles: {served})'

    def find_gate_message(self, framework: Framework, info: PodInfo) -> str:
        """Return why a PreEnqueue plugin keeps the pod out of the active queue, or "" if no plugin does."""
        plugins = self._gates.get(framework)
        if plugins is None:
            plugins = [p for p in framework.plugins_at("preEnqueue") if offers(p, PreEnqueuePlugin)]
            self._gates[framework] = plugins
        for plugin in plugins:
            status = plugin.pre_enqueue(info, self.view)
            if status is not SUCCESS and status.rejected:
                return ", ".join(status.reasons)
        return ""


def has_disks(spec: PodSpec) -> bool:
    """Return whether the pod has a volume other than those that kubelets make from nothing or from API objects."""
    # A volume with another source differs from its copy with only these sources.
    return any(
        volume != Volume(volume.name, empty_dir=volume.empty_dir, host_path=volume.host_path) for volume in spec.volumes
    )


def list_lower_priority_nominees(view: Fork, row: Row, priority: int) -> list[Position]:
    """Return the pods of lower priority that are nominated for the node in this row.

    Upstream: getLowerPriorityNominatedPods.
    """
    rows, positions = view.nominations
    nominated = positions[rows == row]
    priorities = view.pods.get_priorities(nominated)
    lower: list[Position] = nominated[priorities < priority].tolist()
    return lower


class Nominations:
    """The nominations of a fork's pods.

    `lost` has the pods that lost their nomination without being placed, and `before_loss` is called just before.
    """

    def __init__(self, view: Fork) -> None:
        self.view = view
        self.lost: list[Position] = []
        self.before_loss: Callable[[Position], None] | None = None

    def nominate(self, position: Position, row: Row) -> None:
        """Nominate the node on which the pod preempted others, and clear nominations of less important pods for it."""
        self._clear_lower_priority_nominations(position, row)
        self._change_nomination(position, row)

    def nominate_group(self, nominated: Mapping[Position, Row | None], preempting: Mapping[Position, Row]) -> None:
        """Set the nominations of a group's pods.

        `nominated` maps a pod to the row of its nominated node, or to None if its current nomination stays.
        `preempting` maps a pod to the row on which it tried to preempt. Less important pods lose their nominations for
        these rows, even if the preemption failed.
        """
        for position, row in preempting.items():
            self._clear_lower_priority_nominations(position, row)
        for position, nominated_row in nominated.items():
            if nominated_row is not None:
                self._change_nomination(position, nominated_row)

    def clear(self, position: Position) -> None:
        """Clear the pod's nomination."""
        self._change_nomination(position, NO_ROW)

    def consume(self, position: Position) -> None:
        """Remove the nomination of a pod that is placed, without recording it as lost."""
        if self.view.get_nominated_row(position) != NO_ROW:
            self.view.nominate(position, NO_ROW)

    def record_loss(self, position: Position) -> None:
        """Record that the pod lost its nomination without being placed. Call `before_loss` first, if it is set."""
        if self.before_loss:
            self.before_loss(position)
        self.lost.append(position)

    def _clear_lower_priority_nominations(self, position: Position, row: Row) -> None:
        """Clear the nominations of pods of lower priority for the node."""
        priority = self.view.pods.get_priority(position)
        for outranked in list_lower_priority_nominees(self.view, row, priority):
            self.clear(outranked)

    def _change_nomination(self, position: Position, row: Row) -> None:
        """Nominate the pod for `row`, and record the loss if it was nominated for another node."""
        previous = self.view.get_nominated_row(position)
        if previous not in (row, NO_ROW):
            self.record_loss(position)
        if previous != row:
            self.view.nominate(position, row)
