"""Scale-down: the nodes that the next loop would remove, and the reasons why other nodes stay.

Upstream: core/scaledown/planner/planner.go, eligibility/eligibility.go, unneeded/nodes.go, budgets/budgets.go and
processors/nodes/scale_down_set_processor.go (1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Node, Pod
from kschedctl.autoscaling.cluster_autoscaler import nodes as node_facts
from kschedctl.autoscaling.cluster_autoscaler.cluster_snapshot import ClusterSnapshot
from kschedctl.autoscaling.cluster_autoscaler.drainability import Drainability, RemainingBudgets, build_drain_plan
from kschedctl.autoscaling.cluster_autoscaler.loop import AutoscalerLoop
from kschedctl.autoscaling.cluster_autoscaler.nodes import ResourceTracker
from kschedctl.autoscaling.cluster_autoscaler.options import (
    AutoscaledGroup,
    read_autoscaled_groups,
    read_autoscaler_options,
)
from kschedctl.autoscaling.cluster_autoscaler.pods import is_expendable
from kschedctl.autoscaling.cluster_autoscaler.removal import (
    Removal,
    RemovalSimulator,
    SingleRemovals,
    UtilizationRules,
    build_blocking_pod_report,
    build_row_mask,
    compute_utilization,
    has_gpu_label,
)
from kschedctl.autoscaling.cluster_autoscaler.scale_up import ScaleUpRun, run_scale_up_loop
from kschedctl.autoscaling.growth import Begin, ignore_progress
from kschedctl.cel.library.times import parse_go_duration
from kschedctl.cluster import Cluster
from kschedctl.reports.cluster_autoscaler import (
    AloneRemoval,
    NodeRemoval,
    RemovedNodes,
    ScaleDown,
    Utilization,
)

DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
DELETION_TIME = 5 * 60 * 10**6
NO_NODES = RemovedNodes()
_SECONDS = re.compile("[0-9]{1,10}")
"""Seconds of Unix time, as utils/taints/taints.go writes them."""
NOT_CANDIDATE, UNNEEDED, UNREMOVABLE, NOT_EVALUATED = "notCandidate", "unneeded", "unremovable", "notEvaluated"


def scale_down(
    cluster: Cluster,
    node_groups: Sequence[JsonObject],
    options: Mapping[str, object] | None = None,
    *,
    now: str,
    active_scale_ups: Mapping[str, int] | None = None,
    begin: Begin = ignore_progress,
) -> ScaleDown:
    """Replay the scale-down in the next loop of the Cluster Autoscaler (release 1.36).

    ``node_groups`` have id, min, max, target, nodes, template and options. ``options`` are the flags, and ``now`` is an
    RFC 3339 time. ``active_scale_ups`` are the numbers of requested nodes of each group that do not exist yet.
    ``begin`` reports the progress of the trial removals. Invalid groups and options are left out and reported as
    ``faults``. Raises InputError for an invalid ``now``.
    """
    groups = read_autoscaled_groups(node_groups)
    flags, option_faults = read_autoscaler_options(options or {})
    faults = (*groups.errors, *option_faults)
    loop = AutoscalerLoop.from_cluster(cluster, groups, flags, now, active_scale_ups or {})

    # before the scale-up, which places waiting pods on the nodes of the loop's snapshot
    single_removals = SingleRemovals(loop)
    removal_by_node = single_removals.try_all_removals(begin)
    blocking_pods = single_removals.find_blocking_pods(removal_by_node)

    scale_up_run = run_scale_up_loop(loop)
    if not scale_up_run.begun:
        return replace(
            _build_scale_down_report(scale_up_run, plan=None, single_removals=removal_by_node), faults=faults
        )
    plan = ScaleDownPlan(loop, {increase.group.id: increase.new_size for increase in scale_up_run.increases})
    plan.plan_removals()
    return replace(_build_scale_down_report(scale_up_run, plan, removal_by_node), kept=blocking_pods, faults=faults)


@dataclass(eq=False)
class ScaleDownPlan:
    """The nodes that one loop removes, with the reasons why others stay."""

    loop: AutoscalerLoop
    grown: Mapping[str, int]
    """Group -> new target, for groups that grew in the same loop."""
    candidates: list[Node] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    """Node -> why it stays."""
    utilization: dict[str, Utilization] = field(default_factory=dict)
    removals: dict[str, Removal] = field(default_factory=dict)
    unneeded: list[Node] = field(default_factory=list)
    risky: set[str] = field(default_factory=set)
    """Nodes whose pods the PodDisruptionBudgets do not allow to be evicted at once."""
    to_delete: RemovedNodes = NO_NODES
    """Nodes that may be removed."""
    deleted_now: RemovedNodes = NO_NODES
    """Nodes that are removed in this loop."""

    @cached_property
    def targets(self) -> dict[str, int]:
        """The target size of each group, after any scale-up of the same loop."""
        return {group.id: self.grown.get(group.id, group.target) for group in self.loop.groups.all}

    @cached_property
    def rules(self) -> Drainability:
        """The drainability rules, which also count evictions against PodDisruptionBudgets."""
        loop = self.loop
        return Drainability(loop.cluster, loop.options, RemainingBudgets(loop.cluster.pod_disruption_budgets), loop.now)

    def find_group(self, node: Node) -> AutoscaledGroup | None:
        """Return the node's group, or None if the node is in no group."""
        return self.loop.groups.of_node.get(node.metadata.name)

    def plan_removals(self) -> None:
        """Find the nodes that may be removed, and choose the nodes to remove in this loop.

        The results are stored in four attributes, each a part of the one before. `candidates` are considered,
        `unneeded` could be removed, `to_delete` may be removed now, and `deleted_now` are removed in this loop.
        """
        self.candidates = self._find_removal_candidates()
        eligible = [node for node in self.candidates if self._is_eligible_for_removal(node)]
        self._record_unneeded_nodes(eligible)
        self.to_delete = self._choose_nodes_to_delete()
        self.deleted_now = self._choose_nodes_to_delete_now()

    # -- candidates -----------------------------------------------------------------------------------------------

    def _list_started_nodes(self) -> list[Node]:
        """Return the nodes that have started, whether or not they are ready now."""
        return [node for node in self.loop.nodes if node.metadata.name not in self.loop.not_started]

    def _find_removal_candidates(self) -> list[Node]:
        """Return the started nodes of groups that are larger than their minimum size, empty nodes first."""
        nodes = []
        for node in self._list_started_nodes():
            group = self.find_group(node)
            if group and self.targets[group.id] > group.min:
                nodes.append(node)
        return sorted(nodes, key=self._build_emptiness_key)

    def _build_emptiness_key(self, node: Node) -> tuple[bool, bool]:
        """Build the key that sorts empty nodes first, then nodes that only wait for pods to end, then other nodes.

        As in upstream, PodDisruptionBudgets and controllers are ignored here.
        """
        rules = Drainability(
            self.loop.cluster, self.loop.options, RemainingBudgets(()), self.loop.now, checks_controllers=False
        )
        drain_plan = build_drain_plan(self._list_node_pods(self.loop.snapshot, node), rules)
        has_moving_pods = bool(drain_plan.blocking or drain_plan.pods)
        only_waits_for_pods = not has_moving_pods and bool(drain_plan.awaited)
        return has_moving_pods, only_waits_for_pods

    def _list_node_pods(self, snapshot: ClusterSnapshot, node: Node) -> list[Pod]:
        """Return the pods on a node of the snapshot."""
        return [
            self.loop.get_pod(position) for position in snapshot.get_pods_on(self.loop.get_node_row(node.metadata.name))
        ]

    def _is_eligible_for_removal(self, node: Node) -> bool:
        """Return whether the node may be considered for removal. If not, record the reason."""
        reason = self._find_ineligibility_reason(node)
        if reason:
            self.reasons[node.metadata.name] = reason
        return not reason

    def _find_ineligibility_reason(self, node: Node) -> str:
        """Return why the node is not considered for removal, or "" if it is considered.

        The node's utilization is recorded unless a reason other than the utilization excludes the node.
        """
        options = self.loop.options
        name = node.metadata.name
        group = self.find_group(node)
        if is_being_deleted(node, self.loop.now):
            return "CurrentlyBeingDeleted"
        if node.metadata.annotations.get(DISABLED) == "true":
            return "ScaleDownDisabledAnnotation"
        assert group is not None  # every candidate for removal belongs to a group
        positions = self.loop.snapshot.get_pods_on(self.loop.get_node_row(name))
        pods = [(self.loop.get_pod(position), self.loop.get_pod_requests(position)) for position in positions]
        utilization = compute_utilization(
            node, pods, UtilizationRules.for_group(options, group, self.loop.now), options
        )
        if utilization is None:
            # as upstream, which cannot compute the utilization of a node without CPU or memory
            return "UnexpectedError"
        if not options.scale_down_unready_enabled and not node_facts.get_readiness(node).ready:
            return "ScaleDownUnreadyDisabled"
        self.utilization[name] = utilization
        return "NotUnderutilized" if utilization.value > self._get_utilization_threshold(node, group) else ""

    def _get_utilization_threshold(self, node: Node, group: AutoscaledGroup) -> float:
        """Return the highest utilization at which a node of the group may be removed.

        The group's own threshold takes precedence over the flag. GPU nodes have separate thresholds.
        """
        options = self.loop.options
        if has_gpu_label(node, options):
            group_threshold = group.options.scale_down_gpu_utilization_threshold
            threshold = options.scale_down_gpu_utilization_threshold
        else:
            group_threshold = group.options.scale_down_utilization_threshold
            threshold = options.scale_down_utilization_threshold
        return threshold if group_threshold is None else group_threshold

    def collect_utilization_thresholds(self) -> dict[str, float]:
        """Return the utilization threshold of each node whose utilization was examined, by the node's name."""
        groups = self.loop.groups.of_node
        return {
            node.metadata.name: self._get_utilization_threshold(node, groups[node.metadata.name])
            for node in self.candidates
            if node.metadata.name in self.utilization
        }

    def collect_binding_minimum_sizes(self) -> dict[str, int]:
        """Return, by node name, the group's minimum size for each started node of a group that may not shrink.

        A group may not shrink if its target size is not above its minimum size.
        """
        groups = self.loop.groups.of_node
        started_groups = {node.metadata.name: groups.get(node.metadata.name) for node in self._list_started_nodes()}
        return {
            name: group.min for name, group in started_groups.items() if group and self.targets[group.id] <= group.min
        }

    # -- trial removals -------------------------------------------------------------------------------------------

    def _record_unneeded_nodes(self, eligible: Sequence[Node]) -> None:
        """Try to remove the eligible nodes one by one. Record the unneeded nodes, and the reasons why other nodes stay.

        The evictions are charged to the PodDisruptionBudgets. A node is recorded as risky if the budgets do not allow
        its pods to be evicted at the same time. The trials end when there are twice as many unneeded nodes as may be
        removed in parallel, not counting atomic groups.
        """
        loop = self.loop
        max_unneeded = 2 * self.loop.options.max_scale_down_parallelism
        removals = RemovalSimulator(loop.snapshot.fork(), self.rules, loop.get_pod)
        acceptable = build_row_mask(loop, self._list_started_nodes())
        nonatomic_count = 0
        for node in eligible:
            if nonatomic_count >= max_unneeded:
                return
            name = node.metadata.name
            row = loop.get_node_row(name)
            removal = removals.try_node_removal(row, acceptable, keep=True)
            self.removals[name] = removal
            if removal.reason:
                self.reasons[name] = removal.reason
                continue
            acceptable[row] = False  # later pods do not move to a removed node
            if not self.rules.budgets.can_evict_simultaneously(removal.moves.pods):
                self.risky.add(name)
            self.rules.budgets.charge_evictions(removal.moves.pods)
            self.unneeded.append(node)
            if not self._is_in_atomic_group(node):
                nonatomic_count += 1

    def _is_in_atomic_group(self, node: Node) -> bool:
        """Return whether the node's group can only be removed as a whole."""
        group = self.find_group(node)
        return group is not None and group.options.zero_or_max_node_scaling

    # -- the choice of nodes to remove ----------------------------------------------------------------------------

    def _choose_nodes_to_delete(self) -> RemovedNodes:
        """Choose the unneeded nodes that may be removed, and record why the other nodes stay.

        A node stays if it has not been unneeded long enough, if its removal would violate a minimum, or if the removal
        has to wait for pods. Atomic groups are removed as a whole.
        """
        sizes = dict(self.targets)
        limits = self._build_spare_resource_tracker()
        drained = {node.metadata.name for node in self.unneeded if self.removals[node.metadata.name].moves.pods}

        # Every reservation charges `sizes` and `limits`. Empty nodes are charged before other nodes.
        empty_nodes_first = sorted(self.unneeded, key=lambda node: node.metadata.name in drained)
        allowed = [node for node in empty_nodes_first if self._reserve_removal(node, sizes, limits)]

        # Only now move the risky nodes behind the others of their kind, because reservations ignore the risk.
        allowed.sort(key=lambda node: (node.metadata.name in drained, node.metadata.name in self.risky))
        removable = self._drop_nodes_waiting_for_pods(self._move_atomic_groups_last(allowed))
        empty = tuple(name for name in removable if name not in drained)
        return RemovedNodes(empty, tuple(name for name in removable if name in drained))

    def _build_spare_resource_tracker(self) -> ResourceTracker:
        """Build the tracker of how much of each resource can be removed before the cluster's minimum is reached."""
        loop = self.loop
        nodes = [loop.snapshot.universe.nodes.objects[row] for row in loop.snapshot.order]
        group_by_node = {node_name: group.id for node_name, group in loop.groups.of_node.items()}
        return ResourceTracker.build_scale_down_tracker(loop.options, nodes, group_by_node)

    def _reserve_removal(self, node: Node, sizes: dict[str, int], limits: ResourceTracker) -> bool:
        """Return whether the node may be removed now. If so, charge the removal to ``sizes`` and ``limits``.

        ``sizes`` are the groups' sizes, and ``limits`` are the resources above their minimum. If the node may not be
        removed, record the reason.
        """
        reason = self._find_removal_wait_reason(node)
        group = self.find_group(node)
        assert group is not None
        if not reason and sizes[group.id] <= group.min:
            reason = "NodeGroupMinSizeReached"
        if not reason and limits.find_exceeded_limits(group.id, node, count=1):
            reason = "MinimalResourceLimitExceeded"
        if reason:
            self.reasons[node.metadata.name] = reason
            return False
        limits.charge_nodes(group.id, node, count=1)
        sizes[group.id] -= 1
        return True

    def _find_removal_wait_reason(self, node: Node) -> str:
        """Return why the node's removal has to wait, or "" if it does not.

        This is the autoscaler's first loop, so it has not waited for any node yet, and any configured waiting time
        applies.
        """
        options = self.loop.options
        group = self.find_group(node)
        assert group is not None
        if node.metadata.annotations.get(DISABLED) == "true":
            return "ScaleDownDisabledAnnotation"
        ready = node_facts.get_readiness(node).ready
        wait = group.options.scale_down_unneeded_time if ready else group.options.scale_down_unready_time
        if wait is None:
            wait = options.scale_down_unneeded_time if ready else options.scale_down_unready_time
        if parse_go_duration(wait, f"nodeGroups.{group.id}.options") <= 0:
            return ""
        return "NotUnneededLongEnough" if ready else "NotUnreadyLongEnough"

    def _move_atomic_groups_last(self, nodes: Iterable[Node]) -> list[Node]:
        """Return the nodes, with the nodes of atomic groups at the end.

        Atomic groups that cannot be removed as a whole are left out, and the reason is recorded for their nodes.
        """
        ordered: list[Node] = []
        atomic: dict[str, list[Node]] = {}
        for node in nodes:
            group = self.find_group(node)
            if group and group.options.zero_or_max_node_scaling:
                atomic.setdefault(group.id, []).append(node)
            else:
                ordered.append(node)
        for name, members in atomic.items():
            is_complete = len(members) in (self.targets[name], self._count_existing_nodes(name))
            if is_complete:
                ordered += members
            else:
                self.reasons.update({node.metadata.name: "AtomicScaleDownFailed" for node in members})
        return ordered

    def _count_existing_nodes(self, group: str) -> int:
        """Return the number of existing nodes in a group."""
        groups = (self.find_group(node) for node in self.loop.nodes)
        return sum(1 for node_group in groups if node_group and node_group.id == group)

    def _drop_nodes_waiting_for_pods(self, nodes: Iterable[Node]) -> list[str]:
        """Return the names of the nodes that can be removed without waiting for a pod to complete.

        For each of the other nodes, the reason why it stays is recorded.
        """
        removable = []
        for node in nodes:
            name = node.metadata.name
            if self.removals[name].moves.awaited:
                self.reasons[name] = "BlockedByOnCompletionPod"
            else:
                removable.append(name)
        return removable

    def _choose_nodes_to_delete_now(self) -> RemovedNodes:
        """Return the nodes to remove now, as many as may be removed and drained in parallel, atomic groups first.

        An atomic group is removed as a whole or not at all, and only the first may exceed the limits. Nodes of other
        groups follow one by one, empty nodes first.
        """
        options = self.loop.options
        remaining = options.max_scale_down_parallelism
        remaining_drains = options.max_drain_parallelism
        empty_by_group = self._group_names_by_node_group(self.to_delete.empty)
        drained_by_group = self._group_names_by_node_group(self.to_delete.drain)
        group_names = dict.fromkeys((*empty_by_group, *drained_by_group))
        atomic_groups = [name for name in group_names if self._is_atomic_group(name)]
        chosen_empty: list[str] = []
        chosen_drained: list[str] = []

        # As in upstream, the first atomic group may exceed what remains, unless nothing remains.
        for name in atomic_groups:
            empty_nodes = empty_by_group.get(name, [])
            drained_nodes = drained_by_group.get(name, [])
            size = len(empty_nodes) + len(drained_nodes)
            # Groups without empty nodes come last. As in upstream, draining them is limited by both numbers.
            if not empty_nodes:
                remaining_drains = min(remaining, remaining_drains)
            exceeds = remaining < size or remaining_drains < len(drained_nodes)
            is_used_up = remaining <= 0 or (drained_nodes and remaining_drains <= 0)
            is_first = not chosen_empty and not chosen_drained
            if exceeds and (is_used_up or not is_first):
                break
            chosen_empty += empty_nodes
            chosen_drained += drained_nodes
            remaining -= size
            remaining_drains -= len(drained_nodes)

        # Nodes of other groups are taken one by one.
        other_empty = [node for name, nodes in empty_by_group.items() if name not in atomic_groups for node in nodes]
        other_drained = [
            node for name, nodes in drained_by_group.items() if name not in atomic_groups for node in nodes
        ]
        other_empty = other_empty[: max(remaining, 0)]
        remaining_drains = min(remaining - len(other_empty), remaining_drains)
        other_drained = other_drained[: max(remaining_drains, 0)]
        return RemovedNodes((*chosen_empty, *other_empty), (*chosen_drained, *other_drained))

    def _group_names_by_node_group(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Group the names of nodes by their node group."""
        by_group: dict[str, list[str]] = {}
        for name in names:
            by_group.setdefault(self.loop.groups.of_node[name].id, []).append(name)
        return by_group

    def _is_atomic_group(self, group: str) -> bool:
        """Return whether the group can only be removed as a whole."""
        (node_group,) = (candidate for candidate in self.loop.groups.all if candidate.id == group)
        return node_group.options.zero_or_max_node_scaling


def is_being_deleted(node: Node, now: int) -> bool:
    """Return whether a taint shows that the autoscaler began to delete the node less than DELETION_TIME ago."""
    for taint in node.spec.taints:
        if taint.key == node_facts.TO_BE_DELETED and taint.value.isdigit():
            return now - int(taint.value) * 10**6 < DELETION_TIME
    return False


def _build_scale_down_report(
    scale_up_run: ScaleUpRun, plan: ScaleDownPlan | None, single_removals: Mapping[str, AloneRemoval]
) -> ScaleDown:
    """Build the report of the loop's scale-up and of its plan to scale down, if it has one.

    ``single_removals`` maps each node's name to the result of removing this node only.
    """
    growth = scale_up_run.build_report()
    report = ScaleDown(
        growth.unschedulable, growth.filtered_out, growth.upcoming, growth.cluster_healthy, increases=growth.increases
    )
    if plan is None:
        return report
    marked_since = {node.metadata.name: _find_marked_since(node) for node in plan.unneeded}
    options = scale_up_run.loop.options
    pods_on_nodes = (pod.key for pod in scale_up_run.filtered_out if not is_expendable(pod, options))
    return replace(
        report,
        planned=True,
        pending_on_nodes=tuple(sorted(pods_on_nodes)),
        candidates=tuple(node.metadata.name for node in plan.candidates),
        unneeded=tuple(node.metadata.name for node in plan.unneeded),
        to_delete=plan.to_delete,
        deleted_now=plan.deleted_now,
        marked_since={name: since for name, since in marked_since.items() if since},
        nodes={node.metadata.name: _build_node_report(plan, node, single_removals) for node in plan.loop.nodes},
        thresholds=plan.collect_utilization_thresholds(),
        minimums=plan.collect_binding_minimum_sizes(),
        cordoned=tuple(node.metadata.name for node in plan.loop.nodes if node.spec.unschedulable),
    )


def _build_node_report(plan: ScaleDownPlan, node: Node, single_removals: Mapping[str, AloneRemoval]) -> NodeRemoval:
    """Build the report entry of one node: its state in the plan, the reason, and the result of removing only it."""
    name = node.metadata.name
    group = plan.find_group(node)
    removal = plan.removals.get(name)
    node_names = plan.loop.snapshot.universe.nodes.names
    is_candidate = any(candidate.metadata.name == name for candidate in plan.candidates)
    moves = {}
    if not is_candidate:
        state = NOT_CANDIDATE
    elif removal is not None and not removal.reason:
        state = UNNEEDED
        moves = {pod: node_names[row] for pod, row in removal.placed.items()}
    elif name in plan.reasons:
        state = UNREMOVABLE
    else:
        state = NOT_EVALUATED
    return NodeRemoval(
        group=group.id if group else "",
        candidate=is_candidate,
        state=state,
        reason=plan.reasons.get(name),
        blocking_pod=build_blocking_pod_report(removal) if removal else None,
        utilization=plan.utilization.get(name),
        moves=moves,
        alone=single_removals.get(name),
    )


def _find_marked_since(node: Node) -> str:
    """Return the RFC 3339 time at which the node was marked as unneeded.

    The time is the value of the autoscaler's taint. Return "" if the node has no such taint, or if the value is
    malformed.
    """
    for taint in node.spec.taints:
        if taint.key == node_facts.DELETION_CANDIDATE and _SECONDS.fullmatch(taint.value):
            return datetime.fromtimestamp(int(taint.value), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return ""
