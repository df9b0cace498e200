"""Report on a gang of Volcano, Kueue or scheduler-plugins: its pods, and whether they fit together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.arrays import NO_ROW, Position
from kschedctl.api.gangs import KUEUE_GATES, GangKey, GangProject, find_gangs, get_volcano_task
from kschedctl.api.objects import Pod, PodSpec, VolcanoPodGroup
from kschedctl.commands.explain.pod_group import (
    ERROR,
    GATED,
    INCOMPLETE,
    NOT_TRIED,
    PLACED,
    UNSCHEDULABLE,
    WAITS,
    CrossedGroupFields,
    build_pod_info,
    find_groups_waiting_for_each_other,
    find_pre_enqueue_rejection,
    format_group_keys,
    iter_pod_keys,
    iter_tried_member_reports,
    iter_victims,
    sort_by_priority_and_age,
)
from kschedctl.commands.explain.pod_group_report import GangTask, MemberReport, PodGroupReport
from kschedctl.scheduler.engine.pod_groups.cycle import GroupResult, PodGroupCycle
from kschedctl.scheduler.engine.pod_groups.deadlock import find_blocking_gangs
from kschedctl.scheduler.engine.pod_groups.gangs import (
    EndedPods,
    GangMinimum,
    find_ended_pods,
    find_gang_object,
    find_gang_plugin,
    find_gang_pods,
    get_gang_minimum,
)
from kschedctl.scheduler.engine.pod_groups.state import schedules_groups_together
from kschedctl.scheduler.engine.pod_groups.submission import MemberFailure, find_failed_members
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

TERMINATING, FAILED = "Terminating", "Failed"
FAILED_NAMED = 100
"""The number of failed pods that are named."""


class _IdleVerdict(NamedTuple):
    """The verdict on a waiting pod that will not be placed, and the reason."""

    verdict: str
    message: str = ""


class _Gang(NamedTuple):
    """A gang and its pods: those to try, those not to try, those with a node, and those that have ended."""

    key: GangKey
    terms: GangMinimum
    infos: Mapping[Position, PodInfo]
    """All pods that are waiting or assigned, by position."""
    tried: list[Position]
    """The pods that wait for a node and will be placed, in order."""
    idle: dict[Position, _IdleVerdict]
    """The waiting pods that will not be placed."""
    assigned: list[Position]
    """The pods that have a node."""
    ended: EndedPods
    """The pods that have ended."""
    bound_together: bool
    """True if the replayed scheduler waits for all pods of the gang."""

    @property
    def succeeded_count(self) -> int:
        """The number of succeeded pods that count toward the gang's size."""
        return 0 if self.key.project is GangProject.COSCHEDULING else len(self.ended.succeeded)

    @property
    def pod_count(self) -> int:
        """The number of pods that count toward the gang's size.

        Succeeded pods count, and terminating pods without a node do not. For Coscheduling, all terminating pods count,
        and succeeded pods do not.
        """
        if self.key.project is GangProject.COSCHEDULING:
            return len(self.infos)
        terminating_count = sum(idle.verdict == TERMINATING for idle in self.idle.values())
        return len(self.infos) - terminating_count + self.succeeded_count


class TriedGang(NamedTuple):
    """The report on a gang, and the reasons why its pods were not placed."""

    report: PodGroupReport
    failures: Mapping[str, MemberFailure] = {}
    """Pod -> why it is not bound; only for pods that were tried."""


def report_gang(scheduler: Scheduler, framework: Framework | None, pod: Pod) -> PodGroupReport | None:
    """Report on the pod's gang, or return None if the pod belongs to no gang of another project.

    `framework` is None if no profile serves the pod.
    """
    tried_gang = place_gang(scheduler, framework, pod)
    return tried_gang.report if tried_gang else None


def place_gang(scheduler: Scheduler, framework: Framework | None, pod: Pod) -> TriedGang | None:
    """Try to place the pod's gang, and return its report with the reasons why single pods failed.

    Return None if the pod belongs to no gang. If no profile serves the pod (`framework` is None), the gang is tried
    with the first profile. If no pod can be tried, only the state of the gang is reported. An unschedulable gang is
    checked for a deadlock with other gangs.
    """
    key = next(iter(find_gangs(pod)), None)
    if key is None:
        return None
    if scheduler.view.pods.find_position(pod.key) is None:  # the pod comes from a manifest
        scheduler = Scheduler(scheduler.cluster.with_objects({"Pod": [pod]}))

    first_profile = next(iter(scheduler.configuration.profiles))
    used_framework = framework or scheduler.find_framework(first_profile)
    assert used_framework is not None
    gang = _collect_gang(scheduler.view, key, pod, framework, used_framework)
    report = _report_unplaced_gang(scheduler.view, gang, _find_unreplayed_placing_project(key, pod, framework))
    return _place_gang_pods(scheduler, used_framework, gang, report) if gang.tried else TriedGang(report)


def _place_gang_pods(
    scheduler: Scheduler, framework: Framework, gang: _Gang, report_before: PodGroupReport
) -> TriedGang:
    """Try to place the gang's pods, and return `report_before` with the result.

    An unschedulable gang is checked for a deadlock with other gangs.
    """
    view = scheduler.view
    cycle = PodGroupCycle(framework, view, gang.key, gang.tried, gang.infos, topology_aware=False)
    result = cycle.run(post_filter=gang.bound_together)
    failed = _find_member_failures(view, gang, result, framework)
    failures = {view.pods.objects[position].key: failure for position, failure in failed.items()}
    report = _add_placement_result(report_before, view, gang, result, failed)
    if report.verdict == UNSCHEDULABLE:
        report = _add_deadlock(report, scheduler, gang, cycle, result)
    return TriedGang(report, failures)


def _add_deadlock(
    report: PodGroupReport, scheduler: Scheduler, gang: _Gang, cycle: PodGroupCycle, result: GroupResult
) -> PodGroupReport:
    """Add to the report the partly placed gangs that block this gang, or the gangs that wait for one another at Permit.

    Only a gang whose pods are bound together can wait at Permit.
    """
    includes_pod_groups = schedules_groups_together(scheduler.gates)

    def is_placed(other_result: GroupResult) -> bool:
        """Return whether the gang is placed in a trial without another gang."""
        return _is_gang_placed(scheduler.view, gang, other_result)

    deadlocked = find_blocking_gangs(cycle, is_placed, includes_pod_groups=includes_pod_groups)
    waits = CrossedGroupFields()
    if gang.bound_together:
        waits = find_groups_waiting_for_each_other(cycle, result, includes_pod_groups=includes_pod_groups)
    return replace(report, deadlocked_with=format_group_keys(deadlocked), **waits)


def _collect_gang(view: Fork, key: GangKey, pod: Pod, framework: Framework | None, any_framework: Framework) -> _Gang:
    """Collect the pods of a gang: those to try, those not to try, those with a node, and those that have ended.

    `framework` is None if no profile serves the pod. `any_framework` provides the PreEnqueue plugins even then.
    """
    pods = find_gang_pods(view, key)
    waiting = [Position(position) for position in pods.waiting.tolist()]
    assigned = [Position(position) for position in pods.assigned.tolist()]
    waiting_infos = {position: build_pod_info(view, position, pod) for position in waiting}
    assigned_infos = {position: build_pod_info(view, position, pod) for position in assigned}

    plugin = find_gang_plugin(framework) if framework else None
    is_bound_together = plugin is not None and plugin.find_gang(pod) == key
    binding_framework = framework if is_bound_together else None
    idle = dict(_iter_pods_not_tried(view, key, waiting_infos, binding_framework, any_framework))
    tried = sort_by_priority_and_age(waiting_infos, (position for position in waiting_infos if position not in idle))
    ended = find_ended_pods(view).get(key, EndedPods())
    return _Gang(
        key,
        get_gang_minimum(view, key),
        infos=waiting_infos | assigned_infos,
        tried=tried,
        idle=idle,
        assigned=assigned,
        ended=ended,
        bound_together=is_bound_together,
    )


def _iter_pods_not_tried(
    view: Fork, key: GangKey, infos: Mapping[Position, PodInfo], framework: Framework | None, any_framework: Framework
) -> Iterator[tuple[Position, _IdleVerdict]]:
    """Yield the position of each waiting pod that is not tried with the gang, and the reason as a verdict.

    A pod is not tried if it is terminating or rejected at PreEnqueue. Pods that only Kueue's own gates hold back are
    tried. If `framework` is not None, pods of other scheduler profiles are not tried either.

    `framework` is the framework whose gang plugin binds the pods together, or None if no plugin does. `any_framework`
    only runs the PreEnqueue plugins.
    """
    for position, info in infos.items():
        gates = {gate.name for gate in info.spec.scheduling_gates}
        only_kueue_gates_it = key.project is GangProject.KUEUE and bool(gates) and gates <= KUEUE_GATES
        status = find_pre_enqueue_rejection(any_framework, info, view)
        if info.terminating:
            yield position, _IdleVerdict(TERMINATING)
        elif framework is not None and info.spec.scheduler_name != framework.profile.scheduler_name:
            yield position, _IdleVerdict(NOT_TRIED, f"scheduler {info.spec.scheduler_name} places it")
        elif status is not None and not only_kueue_gates_it:
            yield position, _IdleVerdict(GATED, ", ".join(status.reasons))


def _find_unreplayed_placing_project(key: GangKey, pod: Pod, framework: Framework | None) -> str:
    """Return the project whose own rules place the gang, if these are not replayed, otherwise an empty string.

    Volcano places the gang if no profile of kube-scheduler does (`framework` is None), and Kueue as long as its gate
    holds back the gang's `pod`.
    """
    is_left_to_volcano = key.project is GangProject.VOLCANO and framework is None
    is_left_to_kueue = key.project is GangProject.KUEUE and _has_kueue_gate(pod.spec)
    return str(key.project) if is_left_to_volcano or is_left_to_kueue else ""


def _has_kueue_gate(spec: PodSpec) -> bool:
    """Return whether the pod has a scheduling gate of Kueue."""
    return any(gate.name in KUEUE_GATES for gate in spec.scheduling_gates)


def _report_unplaced_gang(view: Fork, gang: _Gang, decided_by: str) -> PodGroupReport:
    """Report on the gang before any of its pods is placed. Succeeded pods count as if they had a node.

    `decided_by` is the project that places the gang by rules that are not replayed, or "".
    """
    gang_resource = find_gang_object(view, gang.key)
    volcano = gang_resource if isinstance(gang_resource, VolcanoPodGroup) else None
    least = gang.terms.least or 0
    with_node = len(gang.assigned) + gang.succeeded_count
    held_back = 0
    if gang.key.project is GangProject.KUEUE:
        held_back = sum(_has_kueue_gate(info.spec) for info in gang.infos.values())
    policy = ""  # unknown, as is the number of pods that the gang requires
    if gang.terms.least is not None:
        policy = "gang" if gang.bound_together or decided_by else "basic"
    return PodGroupReport(
        name=f"{gang.key.namespace}/{gang.key.name}",
        verdict=INCOMPLETE,
        policy=policy,
        min_count=least,
        pods=gang.pod_count,
        scheduled=with_node,
        missing=max(least - gang.pod_count, 0),
        members=(*_iter_idle_members(view, gang), *_iter_failed_members(view, gang)),
        project=str(gang.key.project),
        decided_by=decided_by,
        held_back=held_back,
        fitting=with_node,
        ended=len(gang.ended.succeeded),
        problem=gang.terms.problem,
        queue=volcano.spec.queue if volcano else "",
        phase=volcano.status.phase if volcano else "",
    )


def _iter_idle_members(view: Fork, gang: _Gang) -> Iterator[MemberReport]:
    """Yield a report on each waiting pod that will not be placed."""
    for position, idle in gang.idle.items():
        yield MemberReport(view.pods.objects[position].key, idle.verdict, message=idle.message)


def _iter_failed_members(view: Fork, gang: _Gang) -> Iterator[MemberReport]:
    """Yield a report on each failed pod, up to a limit."""
    names = view.cluster.pods.names
    for row in gang.ended.failed[:FAILED_NAMED].tolist():
        yield MemberReport(f"{gang.key.namespace}/{names[row]}", FAILED)


def _find_member_failures(
    view: Fork, gang: _Gang, result: GroupResult, framework: Framework
) -> dict[Position, MemberFailure]:
    """Return why tried pods were not placed, by position.

    If the gang is bound together, the plugin that binds it finds the reasons.
    """
    plugin = find_gang_plugin(framework) if gang.bound_together else None
    if plugin:
        return plugin.find_member_failures(result, gang.tried, view)
    return find_failed_members(result, gang.tried, view)


def _add_placement_result(
    report: PodGroupReport, view: Fork, gang: _Gang, result: GroupResult, failed: Mapping[Position, MemberFailure]
) -> PodGroupReport:
    """Add the result of placing the gang to the report: the verdict, the tried members, victims and Volcano's tasks."""
    placed = [member for member in result.members if member.row != NO_ROW]
    return replace(
        report,
        verdict=_get_gang_verdict(report, view, gang, result),
        fitting=report.fitting + len(placed),
        message=result.message if result.status.code is Code.ERROR else "",
        members=(*iter_tried_member_reports(view, gang.tried, result, failed), *report.members),
        victims=tuple(iter_pod_keys(view, iter_victims(result))),
        tasks=tuple(_iter_task_reports(view, gang, result)),
    )


def _get_gang_verdict(report: PodGroupReport, view: Fork, gang: _Gang, result: GroupResult) -> str:
    """Return the verdict on a gang after the attempt to place it.

    An error or a wait for preemption takes precedence over missing pods.
    """
    if result.status.code is Code.ERROR:
        return ERROR
    if result.waiting_on_preemption:
        return WAITS
    if report.missing:
        return INCOMPLETE
    return PLACED if _is_gang_placed(view, gang, result) else UNSCHEDULABLE


def _is_gang_placed(view: Fork, gang: _Gang, result: GroupResult) -> bool:
    """Return whether enough of the gang's pods get a node, and enough pods of each of its Volcano tasks.

    If the required number of pods is unknown, all tried pods need a node. For a gang whose pods are bound together, the
    result of the cycle decides.
    """
    if gang.bound_together:
        return result.placed
    placed = sum(member.placed for member in result.members)
    if gang.terms.least is None:
        return placed == len(gang.tried)
    is_enough = len(gang.assigned) + gang.succeeded_count + placed >= gang.terms.least
    return is_enough and all(task.fitting >= task.least for task in _iter_task_reports(view, gang, result))


def _iter_task_reports(view: Fork, gang: _Gang, result: GroupResult) -> Iterator[GangTask]:
    """Yield a report on each Volcano task that requires a minimum number of pods. Succeeded pods count as fitting."""
    task_by_position = {position: get_volcano_task(info.pod) for position, info in gang.infos.items()}
    positions_with_node = {*gang.assigned, *(member.position for member in result.members if member.placed)}
    table = view.cluster.pods
    succeeded_pods = (table.get_template(row) for row in gang.ended.succeeded.tolist())
    succeeded_by_task = Counter(map(get_volcano_task, succeeded_pods))
    for name, least in gang.terms.tasks.items():
        positions = {position for position, task in task_by_position.items() if task == name}
        succeeded = succeeded_by_task[name]
        fitting = len(positions_with_node & positions) + succeeded
        yield GangTask(name, least, pods=len(positions) + succeeded, fitting=fitting)
