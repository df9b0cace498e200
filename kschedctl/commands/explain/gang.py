"""A pod's gang of another project: who is there, who is missing, and whether all would fit at once."""

from __future__ import annotations

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
    OtherGroups,
    by_age,
    crossed,
    gate_of,
    in_words,
    info_of,
    keys,
    tried_members,
    victims_of,
)
from kschedctl.commands.explain.pod_group_report import GangTask, MemberReport, PodGroupReport
from kschedctl.scheduler.engine.pod_groups.cycle import GroupResult, PodGroupCycle
from kschedctl.scheduler.engine.pod_groups.deadlock import deadlocked_with
from kschedctl.scheduler.engine.pod_groups.gangs import (
    EndedPods,
    GangTerms,
    ended_pods,
    gang_object,
    gang_plugin,
    gang_pods,
    gang_terms,
)
from kschedctl.scheduler.engine.pod_groups.state import placed_in_groups
from kschedctl.scheduler.engine.pod_groups.submission import MemberFailure, failed_members
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

TERMINATING, FAILED = "Terminating", "Failed"
MOST_FAILED = 100
"""So many pods that failed are named."""


class _Gang(NamedTuple):
    """``tried``: who waits for a node; ``idle``: who does not, with verdict and message; ``counted``: the positions of
    those that count as there. ``bound_together``: the scheduler that is replayed waits for all of them."""

    key: GangKey
    terms: GangTerms
    infos: Mapping[Position, PodInfo]
    tried: list[Position]
    idle: dict[Position, tuple[str, str]]
    assigned: list[Position]
    ended: EndedPods
    bound_together: bool

    @property
    def succeeded(self) -> int:
        """How many of its pods are done, where these count as if they had a node."""
        return 0 if self.key.project is GangProject.COSCHEDULING else len(self.ended.succeeded)

    @property
    def pods(self) -> int:
        """How many count as there."""
        leaving = (
            0 if self.key.project is GangProject.COSCHEDULING else sum(v == TERMINATING for v, _ in self.idle.values())
        )
        return len(self.infos) - leaving + self.succeeded


class TriedGang(NamedTuple):
    """``failures``: by pod, why it is not bound, where the pods were tried."""

    report: PodGroupReport
    failures: Mapping[str, MemberFailure] = {}


def gang_report(scheduler: Scheduler, framework: Framework | None, pod: Pod) -> PodGroupReport | None:
    """The gang of a pod as the API server holds it; ``framework``: the profile that serves it, None for none.

    None for a pod that is of no gang of another project.
    """
    tried = gang_attempt(scheduler, framework, pod)
    return tried and tried.report


def gang_attempt(scheduler: Scheduler, framework: Framework | None, pod: Pod) -> TriedGang | None:
    """The attempt to place a pod's gang, with what became of its pods."""
    key = next(iter(find_gangs(pod)), None)
    if key is None:
        return None
    if scheduler.view.pods.find_position(pod.key) is None:  # a manifest that is asked about
        scheduler = Scheduler(scheduler.cluster.with_objects({"Pod": [pod]}))
    stands_in = framework or scheduler.framework(next(iter(scheduler.configuration.profiles)))
    assert stands_in is not None
    gang = _gang(scheduler.view, key, pod, framework, stands_in)
    report = _of_object(scheduler.view, gang, _decided_by(key, pod, framework))
    if not gang.tried:
        return TriedGang(report)
    cycle = PodGroupCycle(stands_in, scheduler.view, key, gang.tried, gang.infos, topology_aware=False)
    result = cycle.run(post_filter=gang.bound_together)
    failed = _failures(scheduler.view, gang, result, stands_in)
    failures = {scheduler.view.pods.objects[position].key: failure for position, failure in failed.items()}
    report_now = _with_result(report, scheduler.view, gang, result, failed)
    if report_now.verdict != UNSCHEDULABLE:
        return TriedGang(report_now, failures)
    own_groups = placed_in_groups(scheduler.gates)
    others = deadlocked_with(cycle, lambda other: _fits(scheduler.view, gang, other), own_groups=own_groups)
    waits = crossed(cycle, result, own_groups=own_groups) if gang.bound_together else OtherGroups()
    return TriedGang(replace(report_now, deadlocked_with=in_words(others), **waits), failures)


def _gang(view: Fork, key: GangKey, pod: Pod, framework: Framework | None, stands_in: Framework) -> _Gang:
    pods = gang_pods(view, key)
    infos = {Position(position): info_of(view, Position(position), pod) for position in pods.waiting.tolist()}
    assigned = [Position(position) for position in pods.assigned.tolist()]
    plugin = gang_plugin(framework) if framework else None
    bound_together = plugin is not None and plugin.gang(pod) == key
    idle = dict(_idle(view, key, infos, framework if bound_together else None, stands_in))
    everyone = infos | {position: info_of(view, position, pod) for position in assigned}
    tried = by_age(infos, (info for info in infos if info not in idle))
    ended = ended_pods(view).get(key, EndedPods())
    return _Gang(key, gang_terms(view, key), everyone, tried, idle, assigned, ended, bound_together)


def _idle(
    view: Fork, key: GangKey, infos: Mapping[Position, PodInfo], framework: Framework | None, stands_in: Framework
) -> Iterator[tuple[Position, tuple[str, str]]]:
    """Who is not tried, and why; Kueue's own gates hold nobody back here."""
    for position, info in infos.items():
        gates = {gate.name for gate in info.spec.scheduling_gates}
        status = gate_of(stands_in, info, view)
        if info.terminating:
            yield position, (TERMINATING, "")
        elif framework is not None and info.spec.scheduler_name != framework.profile.scheduler_name:
            yield position, (NOT_TRIED, f"scheduler {info.spec.scheduler_name} places it")
        elif status is not None and not (key.project is GangProject.KUEUE and gates and gates <= KUEUE_GATES):
            yield position, (GATED, ", ".join(status.reasons))


def _decided_by(key: GangKey, pod: Pod, framework: Framework | None) -> str:
    """Who decides by rules of its own whether and when the pod is placed."""
    if key.project is GangProject.VOLCANO and framework is None:
        return str(key.project)
    return str(key.project) if key.project is GangProject.KUEUE and _held_back(pod.spec) else ""


def _held_back(spec: PodSpec) -> bool:
    return any(gate.name in KUEUE_GATES for gate in spec.scheduling_gates)


def _of_object(view: Fork, gang: _Gang, decided_by: str) -> PodGroupReport:
    """What is known without a replay."""
    described, least = gang_object(view, gang.key), gang.terms.least or 0
    volcano = described if isinstance(described, VolcanoPodGroup) else None
    known = gang.terms.least is not None
    policy = ("gang" if gang.bound_together or decided_by else "basic") if known else ""
    return PodGroupReport(
        name=f"{gang.key.namespace}/{gang.key.name}",
        verdict=INCOMPLETE,
        policy=policy,
        min_count=least,
        pods=gang.pods,
        scheduled=len(gang.assigned) + gang.succeeded,
        missing=max(least - gang.pods, 0),
        members=(*_idle_members(view, gang), *_failed_members(view, gang)),
        project=str(gang.key.project),
        decided_by=decided_by,
        held_back=sum(_held_back(info.spec) for info in gang.infos.values())
        if gang.key.project is GangProject.KUEUE
        else 0,
        fitting=len(gang.assigned) + gang.succeeded,
        ended=len(gang.ended.succeeded),
        problem=gang.terms.problem,
        queue=volcano.spec.queue if volcano else "",
        phase=volcano.status.phase if volcano else "",
    )


def _idle_members(view: Fork, gang: _Gang) -> Iterator[MemberReport]:
    for position, (verdict, message) in gang.idle.items():
        yield MemberReport(view.pods.objects[position].key, verdict, message=message)


def _failed_members(view: Fork, gang: _Gang) -> Iterator[MemberReport]:
    names = view.cluster.pods.names
    for row in gang.ended.failed[:MOST_FAILED].tolist():
        yield MemberReport(f"{gang.key.namespace}/{names[row]}", FAILED)


def _failures(view: Fork, gang: _Gang, result: GroupResult, framework: Framework) -> dict[Position, MemberFailure]:
    plugin = gang_plugin(framework) if gang.bound_together else None
    return (plugin.failures if plugin else failed_members)(result, gang.tried, view)


def _with_result(
    report: PodGroupReport, view: Fork, gang: _Gang, result: GroupResult, failed: Mapping[Position, MemberFailure]
) -> PodGroupReport:
    placed = [member for member in result.members if member.row != NO_ROW]
    return replace(
        report,
        verdict=_verdict(report, view, gang, result),
        fitting=report.fitting + len(placed),
        message=result.message if result.status.code is Code.ERROR else "",
        members=(*tried_members(view, gang.tried, result, failed), *report.members),
        victims=tuple(keys(view, victims_of(result))),
        tasks=tuple(_tasks(view, gang, result)),
    )


def _verdict(report: PodGroupReport, view: Fork, gang: _Gang, result: GroupResult) -> str:
    if result.status.code is Code.ERROR:
        return ERROR
    if result.waiting_on_preemption:
        return WAITS
    return INCOMPLETE if report.missing else PLACED if _fits(view, gang, result) else UNSCHEDULABLE


def _fits(view: Fork, gang: _Gang, result: GroupResult) -> bool:
    """Whether as many get a node at once as have to; where nobody knows how many, all of them."""
    if gang.bound_together:
        return result.placed
    placed = sum(member.placed for member in result.members)
    if gang.terms.least is None:
        return placed == len(gang.tried)
    enough = len(gang.assigned) + gang.succeeded + placed >= gang.terms.least
    return enough and all(task.fitting >= task.least for task in _tasks(view, gang, result))


def _tasks(view: Fork, gang: _Gang, result: GroupResult) -> Iterator[GangTask]:
    """Volcano's tasks that have to have some pods, in the order of the object."""
    tasks = {position: get_volcano_task(info.pod) for position, info in gang.infos.items()}
    there = {*gang.assigned, *(member.position for member in result.members if member.placed)}
    table = view.cluster.pods
    done = [get_volcano_task(table.templates[table.template[row]]) for row in gang.ended.succeeded.tolist()]
    for name, least in gang.terms.tasks.items():
        own = [position for position, task in tasks.items() if task == name]
        yield GangTask(name, least, len(own) + done.count(name), len(there & {*own}) + done.count(name))
