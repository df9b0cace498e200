"""Facts about a cluster for rules: which nodes a workload may use, topology domains, free room, and replays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import msgspec
import numpy as np

from kschedctl.api.arrays import Amounts, Bools, Position, Row, Rows
from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.api.objects import ObjectMeta, Pod, PodMeta, PodResourceClaim, PodSpec, ResourceClaim, ResourceClaimSpec
from kschedctl.api.ownership import ADDED_LABELS, Owner, find_owner
from kschedctl.api.pod_table import NO_PODS, PodSelection
from kschedctl.api.resource_names import is_counted
from kschedctl.api.tolerations import UNSCHEDULABLE_TAINT, is_tolerated
from kschedctl.cluster import Cluster
from kschedctl.lint.objects.subject import join_names
from kschedctl.lint.objects.workload import Workload
from kschedctl.scheduler.engine.cycle import Cycle, FilterOutcome, run_cycle
from kschedctl.scheduler.framework import PluginError, PluginVerdict
from kschedctl.scheduler.framework.declaration import PluginClass
from kschedctl.scheduler.framework.dependencies import Effect
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from kschedctl.scheduler.plugins.node_affinity import NodeAffinity
from kschedctl.scheduler.plugins.node_name import NodeName
from kschedctl.scheduler.plugins.node_resources.fit import NodeResourcesFit
from kschedctl.scheduler.plugins.node_unschedulable import NodeUnschedulable
from kschedctl.scheduler.plugins.taint_toleration import TaintToleration
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.scheduler.simulation.outcome import SCHEDULED, Outcome
from kschedctl.scheduler.simulation.outcome import UNSCHEDULABLE as NO_NODE
from kschedctl.scheduler.simulation.placement import Placements
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import match_tolerations
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.text.printable import describe_node_reasons

NODE_PLUGINS = (NodeAffinity, TaintToleration, NodeUnschedulable, NodeName)
"""Plugins that reject a node for its own properties, whatever runs there."""
AUTOSCALER_NAMES = ("cluster-autoscaler", "karpenter")
"""Names that the pods of node autoscalers contain."""
KARPENTER_LABEL = "karpenter.sh/nodepool"
"""A label of nodes that Karpenter created."""
_encode = msgspec.msgpack.Encoder().encode


class ClusterFacts:
    """Cached facts about a cluster of N nodes in the scheduler's order. Do not write to its masks, which are (N,)."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._masks: dict[bytes, Bools] = {}
        self._requests: dict[Workload, Amounts] = {}
        self._node_rows_by_owner: dict[Owner, list[Row]] = {}
        self._unoffered: dict[Workload, list[str]] = {}

    @cached_property
    def scheduler(self) -> Scheduler:
        """A scheduler on the cluster with all its pods."""
        return Scheduler(self.cluster)

    @cached_property
    def scheduler_with_fixed_pods(self) -> Scheduler:
        """A scheduler on the cluster with only the pods that cannot move: DaemonSet and static pods."""
        fixed = self.cluster.pods.filter_by_template(lambda pod: find_owner(pod).kind in ("DaemonSet", "Node"))
        return Scheduler(replace(self.cluster, pods=fixed))

    @property
    def view(self) -> Fork:
        """The cluster's nodes and pods."""
        return self.scheduler.view

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.view.nodes)

    def get_selected_nodes(self, workload: Workload) -> Bools:
        """Return a mask (N,) of the nodes that the workload's nodeSelector and required node affinity allow.

        Masks are cached and shared by workloads with equal conditions.
        """
        spec = workload.spec
        key = _encode((spec.node_selector, spec.affinity.node_affinity if spec.affinity else None))
        if key not in self._masks:
            self._masks[key] = self.view.nodes.match_required_affinity(compile_required_node_affinity(spec))
        return self._masks[key]

    def get_tolerated_nodes(self, workload: Workload) -> Bools:
        """Return a mask (N,) of the nodes whose taints and cordon the workload tolerates.

        Masks are cached and shared by workloads with equal tolerations.
        """
        tolerations = workload.spec.tolerations
        key = _encode(("tolerations", tolerations))
        if key not in self._masks:
            nodes = self.view.nodes
            tolerates_cordon = is_tolerated(tolerations, UNSCHEDULABLE_TAINT)
            self._masks[key] = match_tolerations(nodes, tolerations) & (tolerates_cordon | ~nodes.unschedulable)
        return self._masks[key]

    def get_eligible_nodes(self, workload: Workload) -> Bools:
        """Return a mask of the nodes that the workload may use by labels, taints and cordons."""
        return self.get_selected_nodes(workload) & self.get_tolerated_nodes(workload)

    def count_domains(self, key: str, nodes: Bools) -> int:
        """Return the number of distinct values of a label on the nodes of a mask."""
        codes = self.view.nodes.label(key).codes[nodes]
        return len(np.unique(codes[codes >= 0]))

    def format_unusable_domains(self, key: str, nodes: Bools, usable: Bools, limit: int = 3) -> str:
        """Return the values of a label that occur on ``nodes`` but on no ``usable`` node, as in ``a, b and 12 more``.

        ``nodes`` and ``usable`` are masks (N,). At most ``limit`` values are named.
        """
        column = self.view.nodes.label(key)
        codes = np.setdiff1d(column.codes[nodes], column.codes[usable])
        present_codes = codes[codes >= 0]  # -1 stands for nodes without the label
        return join_names([column.values[code] for code in present_codes.tolist()], limit)

    def get_nodes_with_label(self, key: str) -> Bools:
        """Return a mask of the nodes that have a label."""
        return self.view.nodes.label(key).present

    def pick_row_per_domain(self, key: str, nodes: Bools) -> Rows:
        """Return, for each value of the label ``key``, the row of the first node in the mask that has this value.

        Nodes without the label are left out.
        """
        codes = self.view.nodes.label(key).codes
        rows = np.flatnonzero(nodes & (codes >= 0))
        _, first_index = np.unique(codes[rows], return_index=True)
        return rows[first_index]

    def format_node_names(self, mask: Bools, limit: int = 3) -> str:
        """Return the names of the nodes of a mask, as in ``a, b, c and 12 more``."""
        return join_names([self.view.nodes.names[row] for row in np.flatnonzero(mask).tolist()], limit)

    # -- room ----------------------------------------------------------------------------------------------------

    @cached_property
    def pods_by_owner(self) -> Mapping[Owner, PodSelection]:
        """The pods of each controller, without terminated pods."""
        return self.cluster.pods.pods_by_owner

    def list_node_rows_of_pods(self, workload: Workload) -> list[Row]:
        """Return the row of the node of each bound pod of the workload.

        Pods that are being deleted, or whose node is unknown, are left out. The result is cached.
        """
        if workload.owner not in self._node_rows_by_owner:
            self._node_rows_by_owner[workload.owner] = self._find_node_rows_of_pods(workload.owner)
        return self._node_rows_by_owner[workload.owner]

    def _find_node_rows_of_pods(self, owner: Owner) -> list[Row]:
        """Find the row of the node of each bound pod of an owner, without pods that are being deleted."""
        pods = self.pods_by_owner.get(owner)
        if pods is None:
            return []
        row_by_name = self.view.nodes.index
        staying_pods = pods.select(lambda template: template.metadata.deletion_timestamp is None)
        return [row_by_name[name] for name in staying_pods.list_node_names() if name in row_by_name]

    @cached_property
    def offered_resources(self) -> frozenset[str]:
        """The resources of which some node has any."""
        view = self.view
        return frozenset(name for name, column in view.resources.items() if view.allocatable[:, column].any())

    @cached_property
    def free_amounts(self) -> Amounts:
        """The free amounts on each node, (N, R)."""
        free: Amounts = self.view.allocatable - self.view.requested
        return free

    def get_requests(self, workload: Workload) -> Amounts:
        """Return the requests of one pod of the workload, (R,), with 1 in the column of pods.

        Resources that no node has are left out. The result is cached.
        """
        if workload not in self._requests:
            amounts = self._build_pod_info(workload, self.view).requests
            known_amounts = {name: amount for name, amount in amounts.items() if name in self.view.resources}
            requests = self.view.build_matrix([known_amounts])[0]
            requests[self.view.resources["pods"]] = 1
            self._requests[workload] = requests
        return self._requests[workload]

    def get_nodes_with_room(self, workload: Workload) -> Bools:
        """Return a mask (N,) of the nodes with enough free resources for one pod of the workload.

        No node has enough if the workload requests a resource that no node offers. Masks are cached and shared by
        workloads with equal requests.
        """
        if self.list_unoffered_resources(workload):
            return np.zeros(len(self), np.bool_)
        requests = self.get_requests(workload)
        key = b"room" + requests.tobytes()
        if key not in self._masks:
            self._masks[key] = find_rows_with_room(self.free_amounts, requests)
        return self._masks[key]

    def list_unoffered_resources(self, workload: Workload) -> list[str]:
        """Return the sorted names of the resources that the workload requests but no node offers."""
        if workload not in self._unoffered:
            amounts = self._build_pod_info(workload, self.view).requests
            self._unoffered[workload] = sorted(
                name
                for name, amount in amounts.items()
                if amount and name not in self.offered_resources and is_counted(name)
            )
        return self._unoffered[workload]

    def has_node_autoscaler(self) -> bool:
        """Return whether a Cluster Autoscaler or Karpenter seems to run."""
        if self.get_nodes_with_label(KARPENTER_LABEL).any():
            return True
        return any(name in owner.name for owner in self.pods_by_owner for name in AUTOSCALER_NAMES)

    # -- replays -------------------------------------------------------------------------------------------------

    def find_framework(self, workload: Workload) -> Framework | None:
        """Find the profile that schedules the workload, without the plugins whose data is missing.

        Returns None if no profile schedules the workload. Also returns None if the missing data could make more nodes
        feasible, because a replay would then prove nothing.
        """
        pod_info = self._build_pod_info(workload, self.view)
        framework, plugins_without_data = self.scheduler.find_framework_for(pod_info, self.view)
        if any(plugin.dependency.effect in (Effect.EITHER, Effect.ADMITS) for plugin in plugins_without_data):
            return None
        return framework

    def replay_cycle(self, workload: Workload, view: Fork | None = None) -> Cycle | None:
        """Run a scheduling cycle for one pod of the workload on ``view``, by default the cluster as it is.

        Returns None if `find_framework` finds no profile for the workload.
        """
        framework = self.find_framework(workload)
        if framework is None:
            return None
        view = view or self.view
        return run_cycle(framework, self._build_pod_info(workload, view), view)

    def find_nodes_rejected_by(self, workload: Workload, plugin: PluginClass) -> Bools:
        """Replay a scheduling cycle and return a mask (N,) of the nodes that the plugin rejects.

        All entries are False if the cycle cannot be replayed, ends with an error or does not run the plugin.
        """
        cycle = self.replay_cycle(workload)
        if cycle is None or cycle.error is not None or plugin.name not in cycle.filter.verdicts:
            return np.zeros(len(self), np.bool_)
        return cycle.filter.verdicts[plugin.name].rejected

    def is_always_rejected_by(self, workload: Workload, plugins: Iterable[PluginClass] = ()) -> bool:
        """Return whether the plugins reject the workload's pods even in a cluster without movable pods.

        Movable pods are all except static pods and pods of DaemonSets. The plugins reject the pods if one of them
        rejects them in PreFilter, or if together they reject all nodes. The result is False without plugins, if no
        profile schedules the workload, or if the replay fails.
        """
        cycle = self.replay_cycle(workload, self.scheduler_with_fixed_pods.view)
        if cycle is None or cycle.error is not None or len(cycle.feasible):
            return False
        names = {plugin.name for plugin in plugins}
        rejected = np.zeros(len(self), np.bool_)
        for name in names & cycle.filter.verdicts.keys():
            rejected |= cycle.filter.verdicts[name].rejected
        return cycle.pre_filter.plugin in names or bool(rejected.all())

    def lacks_devices(self, workload: Workload, specs: Mapping[str, ResourceClaimSpec]) -> bool:
        """Return whether no node has the devices that the workload's claims need, even if all devices were free.

        ``specs`` maps the names of the claims in the pod to their specs. All other fields of the pod are ignored.
        Returns False if no profile schedules the workload, or if the replay fails.
        """
        framework = self.find_framework(workload)
        if framework is None:
            return False

        # A cluster with nothing but the claims, and a pod with nothing but references to them.
        namespace, names = workload.namespace, sorted(specs)
        claims = tuple(ResourceClaim(ObjectMeta(name, namespace, f"lint-{name}"), specs[name]) for name in names)
        view = Fork.from_cluster(replace(self.cluster, pods=NO_PODS, resource_claims=claims), self.view.settings)
        references = tuple(PodResourceClaim(name, name) for name in names)
        spec = PodSpec(resource_claims=references, scheduler_name=workload.spec.scheduler_name)
        pod = Pod(PodMeta(workload.pod.metadata.name, namespace), spec)

        stored_pod = view.merge_label_keys(view.build_stored_pod(pod))
        cycle = run_cycle(framework, PodInfo(stored_pod, view.settings.requests), view)
        verdict = cycle.filter.verdicts.get(DynamicResources.name)
        return cycle.error is None and verdict is not None and bool(verdict.rejected.all())

    def is_cluster_full_after_placing(self, workload: Workload, rows: Rows) -> bool:
        """Return whether no node has room for another pod of the workload once each node in `rows` runs one.

        Other pods are ignored, except static pods and pods of DaemonSets. Returns False if no profile schedules the
        workload, or if the replay fails.
        """
        framework = self.find_framework(workload)
        if framework is None:
            return False
        view, positions = self._fork_with_pods(workload, len(rows))
        for position, row in zip(positions, map(Row, rows.tolist()), strict=True):
            view.assume(position, row)
        pod_without_references = strip_references(workload.pod)  # a missing claim, for instance, would reject all nodes
        another_pod = view.merge_label_keys(view.build_stored_pod(pod_without_references))
        cycle = run_cycle(framework, PodInfo(another_pod, view.settings.requests), view)
        return cycle.error is None and not len(cycle.feasible)

    def count_placeable_pods(self, workload: Workload, count: int) -> int:
        """Count how many of ``count`` pods of the workload can be placed one after the other, without movable pods.

        Returns ``count`` if no profile schedules the workload.
        """
        return count if self.find_framework(workload) is None else len(self.place_without_movable_pods(workload, count))

    def place_without_movable_pods(self, workload: Workload, count: int) -> list[Row]:
        """Place up to ``count`` pods of the workload one after the other, without movable pods in the cluster.

        Movable pods are all except static pods and pods of DaemonSets. Stops at the first pod that finds no node or for
        which a plugin fails. Returns the row of each placed pod's node. The list is empty if no profile schedules the
        workload.
        """
        framework = self.find_framework(workload)
        if framework is None:
            return []
        view, positions = self._fork_with_pods(workload, count)
        placements = Placements(view)
        rows: list[Row] = []
        for position in positions:
            try:
                choice = placements.choose_node(framework, position)
            except PluginError:
                break
            if choice is None:
                break
            rows.append(Row(choice.tied[0]))  # the first of equally good nodes, not a random one
            view.assume(position, rows[-1])
        return rows

    def count_fitting_pods_beside_fixed_pods(self, workload: Workload) -> Amounts:
        """Return how many pods of the workload fit on each node by their requests, as counts (N,).

        Only static pods and pods of DaemonSets count as occupying the nodes. All counts are 0 if the workload requests
        a resource that no node offers.
        """
        view = self.scheduler_with_fixed_pods.view
        if self.list_unoffered_resources(workload):
            return np.zeros(len(self), np.int64)
        amounts = self._build_pod_info(workload, view).requests
        offered_amounts = {name: amount for name, amount in amounts.items() if name in view.resources}
        (requests,) = view.build_matrix([offered_amounts])
        requests[view.resources["pods"]] = 1  # the pod itself
        requested = requests > 0
        free = view.allocatable[:, requested] - view.requested[:, requested]
        counts: Amounts = np.maximum(free // requests[requested], 0).min(axis=1)
        return counts

    def _build_pod_info(self, workload: Workload, view: Fork) -> PodInfo:
        """Build the PodInfo of one pod of the workload.

        References of a manifest's pod to other objects are left out, as the objects may be created together with it.
        """
        pod = strip_references(workload.pod) if workload.subject.document else workload.pod
        return PodInfo(view.merge_label_keys(view.build_stored_pod(pod)), view.settings.requests)

    def _fork_with_pods(self, workload: Workload, count: int) -> tuple[Fork, list[Position]]:
        """Return a fork without movable pods but with ``count`` pending pods of the workload, and their positions.

        Volumes, claims and gates are left out, as the objects they refer to may be created together with the workload.
        """
        scheduler = self.scheduler_with_fixed_pods
        pod = scheduler.view.merge_label_keys(scheduler.view.build_stored_pod(strip_references(workload.pod)))
        metadata = msgspec.structs.replace(pod.metadata, name=f"{pod.metadata.name}-lint")
        pod = msgspec.structs.replace(pod, metadata=metadata)
        cluster = scheduler.cluster.with_objects({"Pod": [pod]})
        view = Fork.from_cluster(cluster, scheduler.view.settings, nodes=scheduler.view.nodes)
        first = view.pods.index[pod.key]
        copies = view.add_clones(first, max(count - 1, 0))
        return view, [first, *copies][:count]  # none at all if the count is 0


def find_rows_with_room(amounts: Amounts, requests: Amounts) -> Bools:
    """Return a mask (N,) of the rows of (N, R) that have room for the requests (R,).

    A resource that is not requested may be overcommitted.
    """
    room: Bools = ((amounts >= requests) | (requests == 0)).all(axis=1)
    return room


def strip_references(pod: Pod) -> Pod:
    """Return the pod without volumes, resource claims and scheduling gates."""
    spec = msgspec.structs.replace(pod.spec, volumes=(), resource_claims=(), scheduling_gates=())
    return msgspec.structs.replace(pod, spec=spec)


MAX_PLACED = 1000
"""The maximum number of pods of a workload that are placed. A workload with room for them counts as placed."""


class PlacementResult(NamedTuple):
    """The number of a workload's pods that found a node, and the reason why the next one did not."""

    number: int
    """The number of pods that found a node."""
    shortage: str = ""
    """The reason why usable nodes do not take the next pod, or "" if none rejects it only for its requests."""
    preempts: bool = False
    """True if the next pod could be placed by preemption."""


def place_additional_pods(facts: ClusterFacts, pod_counts: Mapping[Workload, int]) -> dict[Workload, PlacementResult]:
    """Place the given number of additional pods of each workload, at most `MAX_PLACED`. Each workload is placed alone.

    The pods are placed without their volumes, claims and gates, because the objects that these refer to may be created
    together with the workload. Workloads that no profile schedules are missing from the result.
    """
    workloads = [workload for workload in pod_counts if facts.find_framework(workload) is not None]
    if not workloads:
        return {}
    pods = [_build_controller_pod(workload, number) for number, workload in enumerate(workloads)]
    scheduler = Scheduler(facts.cluster.with_objects({"Pod": pods}))
    return {
        workload: _place_pod_copies(
            scheduler, pod.key, min(pod_counts[workload], MAX_PLACED), facts.get_eligible_nodes(workload)
        )
        for workload, pod in zip(workloads, pods, strict=True)
    }


def _build_controller_pod(workload: Workload, number: int) -> Pod:
    """Build a pod with the labels that the workload's controller adds, under an unused name that ends with ``number``.

    References to volumes, claims and gates are left out.
    """
    pod = strip_references(workload.pod)
    labels = {**pod.metadata.labels, **dict.fromkeys(ADDED_LABELS.get(workload.kind, ()), "lint")}
    meta = msgspec.structs.replace(pod.metadata, name=f"{pod.metadata.name}~lint-{number}", labels=labels)
    return msgspec.structs.replace(pod, metadata=meta)


def _place_pod_copies(scheduler: Scheduler, pod_key: str, count: int, eligible: Bools) -> PlacementResult:
    """Place ``count`` copies of a pending pod, one after the other, until a copy finds no node.

    ``eligible`` is the mask (N,) of the nodes that the pod may use by labels, taints and cordons. If an attempt has any
    outcome other than success or no node, such as an error, all copies count as placed.
    """
    simulation = Simulation(scheduler, preemption=False)
    view = simulation.view
    first = view.pods.index[pod_key]
    for placed, position in enumerate([first, *view.add_clones(first, count - 1)]):
        outcome = simulation.attempt_pod(position) or Outcome(position, NO_NODE)  # None if no node fits
        if outcome.verdict == NO_NODE:
            return _build_placement_result(simulation, position, placed, eligible)
        if outcome.verdict != SCHEDULED:
            break
    return PlacementResult(count)


def _build_placement_result(
    simulation: Simulation, position: Position, placed: int, eligible: Bools
) -> PlacementResult:
    """Build the result after ``placed`` pods, with the reasons why the pod at ``position`` finds no node.

    The result says whether that pod would preempt others. A scheduling cycle that ends with an error gives no reasons.
    """
    cycle = simulation.run_cycle(position)
    if cycle.error is not None:
        return PlacementResult(placed)
    preempting = Simulation(simulation.scheduler, simulation.view)  # preemption is on by default
    outcome = preempting.attempt_pod(position)
    return PlacementResult(
        placed, _describe_resource_shortage(cycle, eligible), preempts=outcome is not None and bool(outcome.victims)
    )


def _describe_resource_shortage(cycle: Cycle, eligible: Bools) -> str:
    """Describe why the eligible nodes do not take the pod, as in ``of 7 usable nodes, 4 lack CPU, 3 are full of pods``.

    Nodes that lack only resources come first. They include nodes where the resources are reserved for nominated pods.
    Each remaining node is counted once, for the first plugin that rejects it. Returns "" if no node lacks only
    resources, because more room would not help then. Also returns "" if NodeResourcesFit does not run, or if PreFilter
    rejects the pod.
    """
    outcome = cycle.filter
    if NodeResourcesFit.name not in outcome.verdicts or cycle.pre_filter.status.rejected:
        return ""
    fit_verdict = outcome.verdicts[NodeResourcesFit.name]
    other_verdicts = [verdict for name, verdict in outcome.verdicts.items() if name != NodeResourcesFit.name]
    rejected_by_others = np.zeros(len(eligible), np.bool_)
    for verdict in other_verdicts:
        rejected_by_others |= verdict.rejected
    passes_others = cycle.considered & ~rejected_by_others

    # Nodes that lack only resources, with and without the room that is reserved for nominated pods
    lacks_only_resources = passes_others & fit_verdict.rejected
    has_only_reserved_room = eligible & passes_others & ~fit_verdict.rejected & outcome.by_nominated
    reserved_groups = _group_by_reserving_plugin(outcome, has_only_reserved_room)
    reserved_resources = reserved_groups.pop(NodeResourcesFit.name, [])
    resource_groups = _merge_equal_reasons([*_group_by_reasons(fit_verdict, lacks_only_resources), *reserved_resources])
    if not resource_groups:
        return ""

    # Count each remaining node for the first plugin that rejects it
    other_groups = []
    unexplained = eligible & cycle.considered & ~lacks_only_resources & ~has_only_reserved_room
    for verdict in other_verdicts:
        other_groups += _group_by_reasons(verdict, unexplained)
        unexplained = unexplained & ~verdict.rejected
    all_groups = _merge_equal_reasons(chain(resource_groups, other_groups, *reserved_groups.values()))
    return describe_node_reasons(all_groups, int(eligible.sum()), "usable node")


def _group_by_reserving_plugin(
    outcome: FilterOutcome, has_only_reserved_room: Bools
) -> dict[str, list[tuple[int, list[str]]]]:
    """Group the nodes whose room is reserved for nominated pods by the plugin that rejects them, then by reasons.

    `has_only_reserved_room` is a mask (N,) of these nodes. Each counts for the plugin that upstream reports for it.
    """
    return {
        name: _group_by_reasons(verdict, has_only_reserved_room & (outcome.first == outcome.order.index(name)))
        for name, verdict in outcome.with_nominated.items()
    }


def _merge_equal_reasons(groups: Iterable[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    """Add up the numbers of nodes of groups with the same reasons. Groups stay in the order of their first reasons."""
    counts: Counter[tuple[str, ...]] = Counter()
    for number, reasons in groups:
        counts[tuple(reasons)] += number
    return [(number, list(reasons)) for reasons, number in counts.items()]


def _group_by_reasons(verdict: PluginVerdict, nodes: Bools) -> list[tuple[int, list[str]]]:
    """Group the nodes of a mask (N,) by all reasons for which a plugin rejects them, the largest group first.

    Return the number of nodes and the reasons of each group. The list is empty if the plugin rejects none of the nodes.
    """
    rejections = verdict.rejections
    if not rejections:
        return []
    masks = np.stack([rejection.mask & nodes for rejection in rejections])
    combinations, counts = np.unique(masks, axis=1, return_counts=True)
    groups: list[tuple[int, list[str]]] = []
    for combination, count in zip(combinations.T.tolist(), counts.tolist(), strict=True):
        reasons = [rejection.reason for rejection, applies in zip(rejections, combination, strict=True) if applies]
        if reasons:
            groups.append((count, reasons))
    return sorted(groups, key=lambda group: -group[0])
