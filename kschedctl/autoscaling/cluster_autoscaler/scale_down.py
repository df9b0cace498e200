"""Scale-down: which nodes the next loop would remove, and why the other nodes stay.

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
from kschedctl.autoscaling.cluster_autoscaler.alone import SingleRemovals
from kschedctl.autoscaling.cluster_autoscaler.cluster_snapshot import ClusterSnapshot
from kschedctl.autoscaling.cluster_autoscaler.disruption_budgets import RemainingBudgets
from kschedctl.autoscaling.cluster_autoscaler.drainability import Drainability, moves
from kschedctl.autoscaling.cluster_autoscaler.limits import ResourceTracker
from kschedctl.autoscaling.cluster_autoscaler.loop import AutoscalerLoop
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscaledGroup, read_groups, read_options
from kschedctl.autoscaling.cluster_autoscaler.removal import Removal, RemovalSimulator, mask_rows, report_blocking_pod
from kschedctl.autoscaling.cluster_autoscaler.scale_up import ScaleUpRun, run_loop
from kschedctl.autoscaling.cluster_autoscaler.utilization import UtilizationRules, compute_utilization, has_gpu_label
from kschedctl.autoscaling.durations import parse_go_duration
from kschedctl.autoscaling.progress import Begin, ignore_progress
from kschedctl.cluster import Cluster
from kschedctl.reports.scale_down import (
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
    """Return what the Cluster Autoscaler (release 1.36) would remove in its next loop. Raises InputError.

    The arguments are those of ``scale_up``.
    """
    groups, (flags, faults) = read_groups(node_groups), read_options(options or {})
    loop = AutoscalerLoop.begin(cluster, groups, flags, now, active_scale_ups or {})
    faults = (*groups.errors, *faults)
    each_alone = SingleRemovals(loop)
    alone = each_alone.try_all(begin)
    kept = each_alone.find_keepers(alone)
    up = run_loop(loop)
    plan = (
        ScaleDownPlan(loop, {increase.group.id: increase.new_size for increase in up.increases}) if up.begun else None
    )
    if plan:
        plan.build()
    return replace(_build_report(up, plan, alone), kept=kept if plan else {}, faults=faults)


@dataclass(eq=False)
class ScaleDownPlan:
    """The plan of one loop."""

    loop: AutoscalerLoop
    grown: Mapping[str, int]
    """The target of groups that grew in the same loop."""
    candidates: list[Node] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    utilization: dict[str, Utilization] = field(default_factory=dict)
    removals: dict[str, Removal] = field(default_factory=dict)
    unneeded: list[Node] = field(default_factory=list)
    risky: set[str] = field(default_factory=set)
    to_delete: RemovedNodes = NO_NODES
    deleted_now: RemovedNodes = NO_NODES

    @cached_property
    def targets(self) -> dict[str, int]:
        return {group.id: self.grown.get(group.id, group.target) for group in self.loop.groups.all}

    @cached_property
    def rules(self) -> Drainability:
        loop = self.loop
        return Drainability(loop.cluster, loop.options, RemainingBudgets(loop.cluster.pod_disruption_budgets), loop.now)

    def find_group(self, node: Node) -> AutoscaledGroup | None:
        return self.loop.groups.of_node.get(node.metadata.name)

    def build(self) -> None:
        """Find the nodes that can be removed, and those that are removed now."""
        self.candidates = self._find_candidates()
        eligible = [node for node in self.candidates if self._is_eligible(node)]
        self._find_removable(eligible)
        self.to_delete = self._choose_removable()
        self.deleted_now = self._limit_parallelism()

    # -- candidates ----------------------------------------------------------------------------------------------

    def _started_nodes(self) -> list[Node]:
        return [node for node in self.loop.nodes if node.metadata.name not in self.loop.not_started]

    def _find_candidates(self) -> list[Node]:
        """Return the nodes of groups above their minimum, empty ones first, and of these those that need not wait."""
        nodes = [node for node in self._started_nodes() if (g := self.find_group(node)) and self.targets[g.id] > g.min]
        return sorted(nodes, key=self._emptiness_key)

    def _emptiness_key(self, node: Node) -> tuple[bool, bool]:
        """Return a sort key: empty nodes first, and of these nodes without pods to wait for."""
        rules = Drainability(
            self.loop.cluster, self.loop.options, RemainingBudgets(()), self.loop.now, controllers=False
        )
        moved = moves(self._list_pods(self.loop.snapshot, node), rules)
        is_empty = not moved.blocking and not moved.pods
        return not is_empty, is_empty and bool(moved.awaited)

    def _list_pods(self, snapshot: ClusterSnapshot, node: Node) -> list[Pod]:
        return [self.loop.get_pod(position) for position in snapshot.pods_on(self.loop.get_row(node.metadata.name))]

    def _is_eligible(self, node: Node) -> bool:
        """Return whether a node is considered, and record the reason if not."""
        reason = self._find_ineligibility(node)
        if reason:
            self.reasons[node.metadata.name] = reason
        return not reason

    def _find_ineligibility(self, node: Node) -> str:
        """Return why a node is not considered, or ""."""
        options, name, group = self.loop.options, node.metadata.name, self.find_group(node)
        if is_being_deleted(node, self.loop.now):
            return "CurrentlyBeingDeleted"
        if node.metadata.annotations.get(DISABLED) == "true":
            return "ScaleDownDisabledAnnotation"
        assert group is not None
        positions = self.loop.snapshot.pods_on(self.loop.get_row(name))
        pods = [(self.loop.get_pod(position), self.loop.get_requests(position)) for position in positions]
        used = compute_utilization(node, pods, UtilizationRules.for_group(options, group, self.loop.now), options)
        if used is None:
            return "UnexpectedError"
        if not options.scale_down_unready_enabled and not node_facts.get_readiness(node).ready:
            return "ScaleDownUnreadyDisabled"
        self.utilization[name] = used
        return "NotUnderutilized" if used.value > self._get_threshold(node, group) else ""

    def _get_threshold(self, node: Node, group: AutoscaledGroup) -> float:
        """Return the utilization below which a node may be removed: the group's, else the flag's."""
        options, own = self.loop.options, group.options
        if has_gpu_label(node, options):
            threshold = own.scale_down_gpu_utilization_threshold
            return options.scale_down_gpu_utilization_threshold if threshold is None else threshold
        threshold = own.scale_down_utilization_threshold
        return options.scale_down_utilization_threshold if threshold is None else threshold

    # -- the search ----------------------------------------------------------------------------------------------

    def _find_removable(self, eligible: Sequence[Node]) -> None:
        """Remove one node after the other, up to twice as many as can go at once."""
        loop, most = self.loop, 2 * self.loop.options.max_scale_down_parallelism
        removals = RemovalSimulator(loop.snapshot.fork(), self.rules, loop.get_pod)
        acceptable = mask_rows(loop, self._started_nodes())
        counted = 0
        for node in eligible:
            name, row = node.metadata.name, loop.get_row(node.metadata.name)
            if counted >= most:
                return
            removal = self.removals[name] = removals.try_node(row, acceptable, keep=True)
            if removal.reason:
                self.reasons[name] = removal.reason
                continue
            acceptable[row] = False
            if not self.rules.budgets.allow_at_once(removal.moves.pods):
                self.risky.add(name)
            self.rules.budgets.count_evictions(removal.moves.pods)
            self.unneeded.append(node)
            counted += not self._is_atomic(node)

    def _is_atomic(self, node: Node) -> bool:
        group = self.find_group(node)
        return group is not None and group.options.zero_or_max_node_scaling

    # -- what goes now -------------------------------------------------------------------------------------------

    def _choose_removable(self) -> RemovedNodes:
        """Return the unneeded nodes that may go: by time, minimum, limits, as a whole group, and without pods to
        wait for.
        """
        sizes, limits = dict(self.targets), self._track_minimum()
        drained = {node.metadata.name for node in self.unneeded if self.removals[node.metadata.name].moves.pods}
        ordered = sorted(self.unneeded, key=lambda node: node.metadata.name in drained)
        kept = [node for node in ordered if self._check_limits(node, sizes, limits)]
        kept.sort(key=lambda node: (node.metadata.name in drained, node.metadata.name in self.risky))
        going = [node.metadata.name for node in self._sort_atomic_groups(kept) if not self._must_wait(node)]
        empty = tuple(name for name in going if name not in drained)
        return RemovedNodes(empty, tuple(name for name in going if name in drained))

    def _track_minimum(self) -> ResourceTracker:
        """Return what is above the minimum that the cluster must keep."""
        loop = self.loop
        nodes = [loop.snapshot.universe.nodes.objects[row] for row in loop.snapshot.order]
        return ResourceTracker.above_minimum(
            loop.options, nodes, {name: g.id for name, g in loop.groups.of_node.items()}
        )

    def _check_limits(self, node: Node, sizes: dict[str, int], limits: ResourceTracker) -> bool:
        """Return whether time, minimum, and limits allow a removal; count it, or record the reason."""
        reason = self._find_too_early(node)
        group = self.find_group(node)
        assert group is not None
        if not reason and sizes[group.id] <= group.min:
            reason = "NodeGroupMinSizeReached"
        if not reason and limits.find_exceeded(group.id, node, 1):
            reason = "MinimalResourceLimitExceeded"
        if reason:
            self.reasons[node.metadata.name] = reason
            return False
        limits.consume(group.id, node, 1)
        sizes[group.id] -= 1
        return True

    def _find_too_early(self, node: Node) -> str:
        """Return why a node may not go yet. In the first loop nodes have been unneeded for no time at all."""
        options, group = self.loop.options, self.find_group(node)
        assert group is not None
        if node.metadata.annotations.get(DISABLED) == "true":
            return "ScaleDownDisabledAnnotation"
        ready = node_facts.get_readiness(node).ready
        own = group.options.scale_down_unneeded_time if ready else group.options.scale_down_unready_time
        given = options.scale_down_unneeded_time if ready else options.scale_down_unready_time
        if parse_go_duration(given if own is None else own, f"nodeGroups.{group.id}.options") <= 0:
            return ""
        return "NotUnneededLongEnough" if ready else "NotUnreadyLongEnough"

    def _sort_atomic_groups(self, nodes: Iterable[Node]) -> list[Node]:
        """Return the nodes, those of atomic groups last and only if the whole group goes."""
        kept: list[Node] = []
        atomic: dict[str, list[Node]] = {}
        for node in nodes:
            group = self.find_group(node)
            if group and group.options.zero_or_max_node_scaling:
                atomic.setdefault(group.id, []).append(node)
            else:
                kept.append(node)
        for name, members in atomic.items():
            if len(members) in (self.targets[name], self._count_registered(name)):
                kept += members
            else:
                self.reasons.update({node.metadata.name: "AtomicScaleDownFailed" for node in members})
        return kept

    def _count_registered(self, group: str) -> int:
        return sum(1 for node in self.loop.nodes if (g := self.find_group(node)) and g.id == group)

    def _must_wait(self, node: Node) -> bool:
        """Return whether the node's removal waits for pods to end, and record that as the reason."""
        waits = bool(self.removals[node.metadata.name].moves.awaited)
        if waits:
            self.reasons[node.metadata.name] = "BlockedByOnCompletionPod"
        return waits

    def _limit_parallelism(self) -> RemovedNodes:
        """Return as many nodes as go at the same time, atomic groups first."""
        options = self.loop.options
        left, drains = options.max_scale_down_parallelism, options.max_drain_parallelism
        empty, drain = self._group_names(self.to_delete.empty), self._group_names(self.to_delete.drain)
        gone_empty: list[str] = []
        gone_drain: list[str] = []
        overflow = True
        whole = [name for name in dict.fromkeys((*empty, *drain)) if self._is_atomic_group(name)]
        for name in whole:
            first, then = empty.pop(name, []), drain.pop(name, [])
            if not first:
                drains = min(left, drains)
            too_many = left < len(first) + len(then) or drains < len(then)
            if too_many and (left <= 0 or (then and drains <= 0) or not overflow):
                break
            gone_empty += first
            gone_drain += then
            left, drains, overflow = left - len(first) - len(then), drains - len(then), False
        for name in whole:
            empty.pop(name, None)
            drain.pop(name, None)
        singles = [name for names in empty.values() for name in names][: max(left, 0)]
        left -= len(singles)
        drained = [name for names in drain.values() for name in names][: max(min(left, drains), 0)]
        return RemovedNodes((*gone_empty, *singles), (*gone_drain, *drained))

    def _group_names(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Group names of nodes by node group."""
        by_group: dict[str, list[str]] = {}
        for name in names:
            by_group.setdefault(self.loop.groups.of_node[name].id, []).append(name)
        return by_group

    def _is_atomic_group(self, group: str) -> bool:
        return next(g for g in self.loop.groups.all if g.id == group).options.zero_or_max_node_scaling


def is_being_deleted(node: Node, now: int) -> bool:
    """Return whether the autoscaler marked the node for deletion recently."""
    for taint in node.spec.taints:
        if taint.key == node_facts.TO_BE_DELETED and taint.value.isdigit():
            return now - int(taint.value) * 10**6 < DELETION_TIME
    return False


def _build_report(up: ScaleUpRun, plan: ScaleDownPlan | None, alone: Mapping[str, AloneRemoval]) -> ScaleDown:
    """Build the report of the loop."""
    growth = up.report()
    report = ScaleDown(
        growth.unschedulable, growth.filtered_out, growth.upcoming, growth.cluster_healthy, increases=growth.increases
    )
    if plan is None:
        return report
    return replace(
        report,
        planned=True,
        candidates=tuple(node.metadata.name for node in plan.candidates),
        unneeded=tuple(node.metadata.name for node in plan.unneeded),
        to_delete=plan.to_delete,
        deleted_now=plan.deleted_now,
        marked_since={node.metadata.name: since for node in plan.unneeded if (since := _find_marked_since(node))},
        nodes={node.metadata.name: _build_node_report(plan, node, alone) for node in plan.loop.nodes},
    )


def _build_node_report(plan: ScaleDownPlan, node: Node, alone: Mapping[str, AloneRemoval]) -> NodeRemoval:
    """Build the report of a node."""
    name, group = node.metadata.name, plan.find_group(node)
    removal = plan.removals.get(name)
    names = plan.loop.snapshot.universe.nodes.names
    unneeded = removal is not None and not removal.reason
    candidate = any(candidate.metadata.name == name for candidate in plan.candidates)
    state = UNNEEDED if unneeded else UNREMOVABLE if name in plan.reasons else NOT_EVALUATED
    return NodeRemoval(
        group.id if group else "",
        candidate,
        state if candidate else NOT_CANDIDATE,
        plan.reasons.get(name),
        report_blocking_pod(removal) if removal else None,
        plan.utilization.get(name),
        {pod: names[row] for pod, row in removal.placed.items()} if removal and unneeded else {},
        alone.get(name),
    )


def _find_marked_since(node: Node) -> str:
    """Return when the autoscaler marked the node as unneeded according to its taint, or ""."""
    for taint in node.spec.taints:
        if taint.key == node_facts.DELETION_CANDIDATE and _SECONDS.fullmatch(taint.value):
            return datetime.fromtimestamp(int(taint.value), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return ""


def _list_keys(pods: Iterable[Pod]) -> tuple[str, ...]:
    return tuple(pod.key for pod in pods)
