"""Workload-aware preemption: room made for a whole group, by evicting pods and groups of lower priority anywhere.

Upstream: pkg/scheduler/framework/preemption/{podgrouppreemption,types}.go and runWorkloadAwarePreemption in
pkg/scheduler/schedule_one_podgroup.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Position, Row
from kschedctl.api.objects import PodGroup
from kschedctl.api.priority import priority_class
from kschedctl.scheduler.engine.pod_groups.cycle import GroupResult, PodGroupCycle
from kschedctl.scheduler.engine.pod_groups.state import NO_MEMBERS, find_pod_group, is_unread
from kschedctl.scheduler.engine.preemption.budgets import budgets
from kschedctl.scheduler.engine.preemption.evaluator import DEFAULT_PREEMPTION, NEVER
from kschedctl.scheduler.framework import SUCCESS, Code, Status
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pods import GroupKey, group_key

NOT_REGISTERED = "default preemption plugin is not registered, workload aware preemption is disabled"
CONSTRAINED = "workload aware preemption is not supported for pod groups with scheduling constraints"
NO_VICTIMS = "No preemption victims found for incoming preemptor"
NO_GROUP = 'failed to get pod group object: podgroup.scheduling.k8s.io "{}" not found'


class Victim(NamedTuple):
    """Pods that go together. ``grouped``: they are of a group; ``start``: when the first of them started."""

    pods: tuple[Position, ...]
    priority: int
    grouped: bool
    start: int

    @property
    def importance(self) -> tuple[int, bool, int, int]:
        """The most important is the smallest; among equals the order stays."""
        size = len(self.pods) if self.grouped else 0
        return (-self.priority, not self.grouped, -size, self.start)


def preempt_for_group(cycle: PodGroupCycle, result: GroupResult) -> GroupResult:
    """The result of a group that does not fit, with what evicting others could do for it, if it is known."""
    if is_unread(cycle.view, cycle.key):
        return result
    status, victims = _preempt(cycle)
    if status.code is Code.SUCCESS:
        return replace(result, waiting_on_preemption=True, victims=victims)
    if status.code is Code.ERROR:
        return replace(result, status=status)
    reasons = (*result.status.reasons, ", ".join(status.reasons))
    return replace(result, status=Status(result.status.code, reasons))


def _preempt(cycle: PodGroupCycle) -> tuple[Status, tuple[Position, ...]]:
    if not any(plugin.name == DEFAULT_PREEMPTION for plugin in cycle.framework.at("postFilter")):
        return Status(Code.UNSCHEDULABLE, (NOT_REGISTERED,)), ()
    group = find_pod_group(cycle.view, cycle.key)
    if group is None:
        return Status(Code.ERROR, (NO_GROUP.format(cycle.key[1]),)), ()
    constraints = group.spec.scheduling_constraints
    if constraints is not None and constraints.topology:
        return Status(Code.UNSCHEDULABLE, (CONSTRAINED,)), ()
    if any(cycle.infos[member].spec.preemption_policy == "Never" for member in cycle.members):
        return Status(Code.UNSCHEDULABLE, (NEVER,)), ()
    potential = victims_below(cycle.view, group_priority(group, cycle.view))
    if not potential:
        return Status(Code.UNRESOLVABLE, (NO_VICTIMS,)), ()
    return _select(cycle, potential)


def _select(cycle: PodGroupCycle, potential: list[Victim]) -> tuple[Status, tuple[Position, ...]]:
    """Take all away, and put back those that the group leaves room for: first whom a budget protects."""
    view = cycle.view.fork()
    view.group_since = len(view.trail)
    for position in _pods(potential):
        view.forget(position)
    status = cycle.run(view, post_filter=False).status
    if status.code is not Code.SUCCESS:
        return status, ()
    ordered = sorted(potential, key=lambda victim: victim.importance)
    violating = budgets(cycle.view).violated_by(victim.pods for victim in ordered)
    protected = [victim for victim, breaks in zip(ordered, violating, strict=True) if breaks]
    others = [victim for victim, breaks in zip(ordered, violating, strict=True) if not breaks]
    gone = [victim for victim in (*protected, *others) if not _reprieved(cycle, view, victim)]
    return SUCCESS, tuple(_pods(sorted(gone, key=lambda victim: victim.importance)))


def _reprieved(cycle: PodGroupCycle, view: Fork, victim: Victim) -> bool:
    """Whether the group fits beside the victim, which then stays where it is."""
    for position in victim.pods:
        view.assume(position, Row(int(cycle.view.node[position])))
    if cycle.run(view, post_filter=False).placed:
        return True
    for position in victim.pods:
        view.forget(position)
    return False


def _pods(victims: Iterable[Victim]) -> Iterator[Position]:
    return (position for victim in victims for position in victim.pods)


def group_priority(group: PodGroup, view: Fork) -> int:
    """The group's own; 0 for one that says nothing of it."""
    if group.spec.priority is not None or not group.spec.priority_class_name:
        return group.spec.priority or 0
    class_ = priority_class(group.spec.priority_class_name, view.cluster.priority_classes)
    return class_.value if class_ else 0


def victims_below(view: Fork, priority: int) -> list[Victim]:
    """The pods of lower priority that have a node, and the groups that go as a whole, node after node.

    Upstream takes a group's start from the first of its pods that it meets.
    """
    together = _groups_disrupted_together(view)
    victims: dict[GroupKey | Position, Victim] = {}
    for position in _by_node(view, priority, together):
        info = view.pods.infos[view.pods.info[position]]
        key = group_key(info.pod)
        unit: GroupKey | Position = key if key in together else position
        if unit in victims:
            victims[unit] = victims[unit]._replace(pods=(*victims[unit].pods, position))
        else:
            own = together.get(key, info.priority) if key else info.priority
            victims[unit] = Victim((position,), own, key is not None, int(view.pods.start[position]))
    return list(victims.values())


def _groups_disrupted_together(view: Fork) -> dict[GroupKey, int]:
    """The groups that go as a whole, with their priority."""
    groups = (group for group in view.objects.of("PodGroup") if group.spec.disrupted_together)
    return {(group.metadata.namespace, group.metadata.name): group_priority(group, view) for group in groups}


def _by_node(view: Fork, priority: int, together: Mapping[GroupKey, int]) -> list[Position]:
    """The pods that have a node and go, node after node, on each as they came there."""
    goes = (view.pods.priority < priority)[view.pods.info]
    for key, of_group in together.items():
        goes[view.pods.by_group.get(key, NO_MEMBERS)] = of_group < priority
    placed = np.flatnonzero(goes & (view.node >= 0))
    positions: list[Position] = placed[np.lexsort((view.arrivals.place[placed], view.node[placed]))].tolist()
    return positions
