"""What the next loop would take away, and why the other nodes stay.

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
from kschedctl.autoscaling.cluster_autoscaler.alone import Alone
from kschedctl.autoscaling.cluster_autoscaler.cluster_snapshot import ClusterSnapshot
from kschedctl.autoscaling.cluster_autoscaler.disruption_budgets import RemainingBudgets
from kschedctl.autoscaling.cluster_autoscaler.drainability import Drainability, moves
from kschedctl.autoscaling.cluster_autoscaler.limits import ResourceTracker
from kschedctl.autoscaling.cluster_autoscaler.loop import AutoscalerLoop
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscaledGroup, read_groups, read_options
from kschedctl.autoscaling.cluster_autoscaler.removal import Removal, Removals, blocking_pod, rows_of
from kschedctl.autoscaling.cluster_autoscaler.scale_up import ScaleUpRun, run
from kschedctl.autoscaling.cluster_autoscaler.utilization import Counted, has_gpu_label, utilization
from kschedctl.autoscaling.durations import nanoseconds
from kschedctl.autoscaling.progress import Begin, unseen
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
NONE_GO = RemovedNodes()
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
    begin: Begin = unseen,
) -> ScaleDown:
    """What the Cluster Autoscaler (release 1.36) would take away in its next loop. Raises InputError.

    The arguments are those of ``scale_up``.
    """
    groups, (flags, faults) = read_groups(node_groups), read_options(options or {})
    loop = AutoscalerLoop.begin(cluster, groups, flags, now, active_scale_ups or {})
    faults = (*groups.faults, *faults)
    each_alone = Alone(loop)
    alone = each_alone.all(begin)
    kept = each_alone.keepers(alone)
    up = run(loop)
    plan = Plan(loop, {increase.group.id: increase.new_size for increase in up.increases}) if up.begun else None
    if plan:
        plan.make()
    return replace(_report(up, plan, alone), kept=kept if plan else {}, faults=faults)


@dataclass(eq=False)
class Plan:
    """``grown``: group -> its target after the same loop had it grow."""

    loop: AutoscalerLoop
    grown: Mapping[str, int]
    candidates: list[Node] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    utilization: dict[str, Utilization] = field(default_factory=dict)
    removals: dict[str, Removal] = field(default_factory=dict)
    unneeded: list[Node] = field(default_factory=list)
    risky: set[str] = field(default_factory=set)
    to_delete: RemovedNodes = NONE_GO
    deleted_now: RemovedNodes = NONE_GO

    @cached_property
    def targets(self) -> dict[str, int]:
        return {group.id: self.grown.get(group.id, group.target) for group in self.loop.groups.all}

    @cached_property
    def rules(self) -> Drainability:
        loop = self.loop
        return Drainability(loop.cluster, loop.options, RemainingBudgets(loop.cluster.pod_disruption_budgets), loop.now)

    def group(self, node: Node) -> AutoscaledGroup | None:
        return self.loop.groups.of_node.get(node.metadata.name)

    def make(self) -> None:
        """Find the nodes that can go, and those of them that go now."""
        self.candidates = self._candidates()
        eligible = [node for node in self.candidates if self._is_eligible(node)]
        self._search(eligible)
        self.to_delete = self._removable()
        self.deleted_now = self._at_once()

    # -- candidates ----------------------------------------------------------------------------------------------

    def _nodes(self) -> list[Node]:
        return [node for node in self.loop.nodes if node.metadata.name not in self.loop.not_started]

    def _candidates(self) -> list[Node]:
        """The nodes of groups above their minimum: the empty ones first, and of these those that need not wait."""
        nodes = [node for node in self._nodes() if (g := self.group(node)) and self.targets[g.id] > g.min]
        return sorted(nodes, key=self._emptiness)

    def _emptiness(self, node: Node) -> tuple[bool, bool]:
        rules = Drainability(
            self.loop.cluster, self.loop.options, RemainingBudgets(()), self.loop.now, controllers=False
        )
        moved = moves(self._pods(self.loop.snapshot, node), rules)
        is_empty = not moved.blocking and not moved.pods
        return not is_empty, is_empty and bool(moved.awaited)

    def _pods(self, snapshot: ClusterSnapshot, node: Node) -> list[Pod]:
        return [self.loop.pod(position) for position in snapshot.on(self.loop.row(node.metadata.name))]

    def _is_eligible(self, node: Node) -> bool:
        reason = self._ineligible(node)
        if reason:
            self.reasons[node.metadata.name] = reason
        return not reason

    def _ineligible(self, node: Node) -> str:
        """Why a node is not looked at; empty: it is."""
        options, name, group = self.loop.options, node.metadata.name, self.group(node)
        if is_being_deleted(node, self.loop.now):
            return "CurrentlyBeingDeleted"
        if node.metadata.annotations.get(DISABLED) == "true":
            return "ScaleDownDisabledAnnotation"
        assert group is not None
        positions = self.loop.snapshot.on(self.loop.row(name))
        pods = [(self.loop.pod(position), self.loop.requests(position)) for position in positions]
        used = utilization(node, pods, Counted.of(options, group, self.loop.now), options)
        if used is None:
            return "UnexpectedError"
        if not options.scale_down_unready_enabled and not node_facts.readiness(node).ready:
            return "ScaleDownUnreadyDisabled"
        self.utilization[name] = used
        return "NotUnderutilized" if used.value > self._threshold(node, group) else ""

    def _threshold(self, node: Node, group: AutoscaledGroup) -> float:
        options, own = self.loop.options, group.options
        if has_gpu_label(node, options):
            threshold = own.scale_down_gpu_utilization_threshold
            return options.scale_down_gpu_utilization_threshold if threshold is None else threshold
        threshold = own.scale_down_utilization_threshold
        return options.scale_down_utilization_threshold if threshold is None else threshold

    # -- the search ----------------------------------------------------------------------------------------------

    def _search(self, eligible: Sequence[Node]) -> None:
        """Take one node after the other away, up to twice as many as go at once."""
        loop, most = self.loop, 2 * self.loop.options.max_scale_down_parallelism
        removals = Removals(loop.snapshot.fork(), self.rules, loop.pod)
        acceptable = rows_of(loop, self._nodes())
        counted = 0
        for node in eligible:
            name, row = node.metadata.name, loop.row(node.metadata.name)
            if counted >= most:
                return
            removal = self.removals[name] = removals.try_node(row, acceptable, keep=True)
            if removal.reason:
                self.reasons[name] = removal.reason
                continue
            acceptable[row] = False
            if not self.rules.budgets.allow_at_once(removal.moves.pods):
                self.risky.add(name)
            self.rules.budgets.gone(removal.moves.pods)
            self.unneeded.append(node)
            counted += not self._is_atomic(node)

    def _is_atomic(self, node: Node) -> bool:
        group = self.group(node)
        return group is not None and group.options.zero_or_max_node_scaling

    # -- what goes now -------------------------------------------------------------------------------------------

    def _removable(self) -> RemovedNodes:
        """The unneeded nodes that may go: by time, minimum, limits, as a whole group, and with nobody to wait for."""
        sizes, limits = dict(self.targets), self._least()
        drained = {node.metadata.name for node in self.unneeded if self.removals[node.metadata.name].moves.pods}
        ordered = sorted(self.unneeded, key=lambda node: node.metadata.name in drained)
        kept = [node for node in ordered if self._may_go(node, sizes, limits)]
        kept.sort(key=lambda node: (node.metadata.name in drained, node.metadata.name in self.risky))
        going = [node.metadata.name for node in self._whole_groups(kept) if not self._awaits(node)]
        empty = tuple(name for name in going if name not in drained)
        return RemovedNodes(empty, tuple(name for name in going if name in drained))

    def _least(self) -> ResourceTracker:
        """What is left above the least that the cluster must keep."""
        loop = self.loop
        nodes = [loop.snapshot.universe.nodes.objects[row] for row in loop.snapshot.order]
        return ResourceTracker.least(loop.options, nodes, {name: g.id for name, g in loop.groups.of_node.items()})

    def _may_go(self, node: Node, sizes: dict[str, int], limits: ResourceTracker) -> bool:
        reason = self._too_early(node)
        group = self.group(node)
        assert group is not None
        if not reason and sizes[group.id] <= group.min:
            reason = "NodeGroupMinSizeReached"
        if not reason and limits.exceeded(group.id, node, 1):
            reason = "MinimalResourceLimitExceeded"
        if reason:
            self.reasons[node.metadata.name] = reason
            return False
        limits.consume(group.id, node, 1)
        sizes[group.id] -= 1
        return True

    def _too_early(self, node: Node) -> str:
        """A loop that looks for the first time has found the node unneeded for no time at all."""
        options, group = self.loop.options, self.group(node)
        assert group is not None
        if node.metadata.annotations.get(DISABLED) == "true":
            return "ScaleDownDisabledAnnotation"
        ready = node_facts.readiness(node).ready
        own = group.options.scale_down_unneeded_time if ready else group.options.scale_down_unready_time
        given = options.scale_down_unneeded_time if ready else options.scale_down_unready_time
        if nanoseconds(given if own is None else own, f"nodeGroups.{group.id}.options") <= 0:
            return ""
        return "NotUnneededLongEnough" if ready else "NotUnreadyLongEnough"

    def _whole_groups(self, nodes: Iterable[Node]) -> list[Node]:
        """The nodes, those of groups that go as a whole last, and only if all of these go."""
        kept: list[Node] = []
        atomic: dict[str, list[Node]] = {}
        for node in nodes:
            group = self.group(node)
            if group and group.options.zero_or_max_node_scaling:
                atomic.setdefault(group.id, []).append(node)
            else:
                kept.append(node)
        for name, members in atomic.items():
            if len(members) in (self.targets[name], self._registered(name)):
                kept += members
            else:
                self.reasons.update({node.metadata.name: "AtomicScaleDownFailed" for node in members})
        return kept

    def _registered(self, group: str) -> int:
        return sum(1 for node in self.loop.nodes if (g := self.group(node)) and g.id == group)

    def _awaits(self, node: Node) -> bool:
        waits = bool(self.removals[node.metadata.name].moves.awaited)
        if waits:
            self.reasons[node.metadata.name] = "BlockedByOnCompletionPod"
        return waits

    def _at_once(self) -> RemovedNodes:
        """As many as go at the same time, whole groups first."""
        options = self.loop.options
        left, drains = options.max_scale_down_parallelism, options.max_drain_parallelism
        empty, drain = self._by_group(self.to_delete.empty), self._by_group(self.to_delete.drain)
        gone_empty: list[str] = []
        gone_drain: list[str] = []
        overflow = True
        whole = [name for name in dict.fromkeys((*empty, *drain)) if self._goes_whole(name)]
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

    def _by_group(self, names: Iterable[str]) -> dict[str, list[str]]:
        by_group: dict[str, list[str]] = {}
        for name in names:
            by_group.setdefault(self.loop.groups.of_node[name].id, []).append(name)
        return by_group

    def _goes_whole(self, group: str) -> bool:
        return next(g for g in self.loop.groups.all if g.id == group).options.zero_or_max_node_scaling


def is_being_deleted(node: Node, now: int) -> bool:
    """Whether the autoscaler marked the node a short time ago."""
    for taint in node.spec.taints:
        if taint.key == node_facts.TO_BE_DELETED and taint.value.isdigit():
            return now - int(taint.value) * 10**6 < DELETION_TIME
    return False


def _report(up: ScaleUpRun, plan: Plan | None, alone: Mapping[str, AloneRemoval]) -> ScaleDown:
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
        marked_since={node.metadata.name: since for node in plan.unneeded if (since := _marked_since(node))},
        nodes={node.metadata.name: _node(plan, node, alone) for node in plan.loop.nodes},
    )


def _node(plan: Plan, node: Node, alone: Mapping[str, AloneRemoval]) -> NodeRemoval:
    name, group = node.metadata.name, plan.group(node)
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
        blocking_pod(removal) if removal else None,
        plan.utilization.get(name),
        {pod: names[row] for pod, row in removal.placed.items()} if removal and unneeded else {},
        alone.get(name),
    )


def _marked_since(node: Node) -> str:
    """When the autoscaler marked the node as unneeded, by its taint; empty where it did not, or not with a time."""
    for taint in node.spec.taints:
        if taint.key == node_facts.DELETION_CANDIDATE and _SECONDS.fullmatch(taint.value):
            return datetime.fromtimestamp(int(taint.value), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return ""


def _keys(pods: Iterable[Pod]) -> tuple[str, ...]:
    return tuple(pod.key for pod in pods)
