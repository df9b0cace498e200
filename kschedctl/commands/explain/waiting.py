"""Why each pending pod waits, in a word: what its replay says, and those that fit tried once more, one after the other.

A pod that fits by itself may find no room once the pods before it had their turn: only what still fits then is stuck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, cast

from msgspec.structs import replace

from kschedctl.api.ages import format_age
from kschedctl.api.gangs import GangProject, find_gangs
from kschedctl.api.objects import Condition, Event, Pod
from kschedctl.api.observed.events import FAILED_SCHEDULING, SCHEDULED, count_occurrences, get_reporter, last_seen
from kschedctl.api.times import parse_nanoseconds, subtract_seconds
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.cycle_report import drop_unwritten_message, explain_pod
from kschedctl.commands.explain.group_headline import describe_group_failure
from kschedctl.commands.explain.headline import WAIT, find_shared_cause
from kschedctl.commands.explain.pod_group_report import PodGroupReport
from kschedctl.commands.explain.report import Advice, Explanation
from kschedctl.commands.explain.waiting_report import LastWords, TerminatingVictim
from kschedctl.errors import InputError
from kschedctl.replay.controllers.workload_pods import is_pending
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.reports.unknown import VERDICT, UnknownKind
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation

CONDITION, EVENT = "PodScheduled", "FailedScheduling"
SERIES_LAG_SECONDS = 1800
"""How seldom a series of events that are alike is written: staging/src/k8s.io/client-go/tools/events (v1.36)."""


def refusals(audited: ReplayedCluster) -> Mapping[tuple[str, str], Sequence[Event]]:
    """Namespace and name of a pod -> the events of its refusals, the newest last."""
    by_pod: dict[tuple[str, str], list[Event]] = {}
    for event in audited.cluster.events:
        if event.reason == FAILED_SCHEDULING:
            by_pod.setdefault((event.involved_object.namespace, event.involved_object.name), []).append(event)
    for events in by_pod.values():
        events.sort(key=last_seen)
    return by_pod


def other_schedulers(audited: ReplayedCluster) -> frozenset[str]:
    """The names under which schedulers are at work that are no profiles of this one: they write events, lead, or have
    PodGroups of their own."""
    writers = {
        get_reporter(event) for event in audited.cluster.events if event.reason in (SCHEDULED, FAILED_SCHEDULING)
    }
    leaders = {lease.metadata.name for lease in audited.cluster.leases if lease.spec.holder_identity}
    names = writers | leaders | schedulers_of_gangs(audited.cluster)
    return frozenset(names - audited.scheduler.configuration.profiles.keys())


def was_refused(pod: Pod) -> bool:
    """Whether the scheduler tried it, in vain."""
    return _condition(pod) is not None


def last_words(pod: Pod, audited: ReplayedCluster) -> LastWords | None:
    """None where nothing is known to have been said."""
    if events := _events(pod, audited):
        at, attempts = last_seen(events[-1]), sum(map(count_occurrences, events))
        message = events[-1].message
        return LastWords(
            message=message, at=at, age=format_age(at, audited.now), source=f"event {EVENT}", attempts=attempts
        )
    condition = _condition(pod)
    if condition is None or not condition.message:
        return None
    at = condition.last_transition_time or ""
    return LastWords(
        message=condition.message, at=at, age=format_age(at, audited.now), source=f"condition {CONDITION}", attempts=1
    )


def untried_seconds(pod: Pod, audited: ReplayedCluster) -> float | None:
    """For how long nobody tried it, for certain: since its last refusal, or since it was made; None: not known."""
    if events := _events(pod, audited):
        seconds = audited.seconds_since(last_seen(events[-1]))
        return seconds - SERIES_LAG_SECONDS if seconds is not None and events[-1].series else seconds
    return None if was_refused(pod) else audited.seconds_since(pod.metadata.creation_timestamp)


def _events(pod: Pod, audited: ReplayedCluster) -> Sequence[Event]:
    """The events about a pod, without those of an earlier pod of its name."""
    events = audited.once(refusals).get((pod.metadata.namespace, pod.metadata.name), ())
    return [event for event in events if not pod.metadata.uid or event.involved_object.uid in ("", pod.metadata.uid)]


def _condition(pod: Pod) -> Condition | None:
    return next(
        (
            condition
            for condition in pod.status.conditions
            if condition.type == CONDITION and condition.status == "False"
        ),
        None,
    )


LOOK_AT_SCHEDULER = (
    "Look at the scheduler's log, its leader, its watches and its queue lengths (scheduler_pending_pods)"
)
"""What to do about a pod that fits and that kube-scheduler does not try."""
DEFAULT_GRACE_SECONDS = 30
FITS, CROWDED = "a node fits now", "fits by itself, but not beside the pods that are tried before it"


class WaitingPod(NamedTuple):
    """A pod that waits: ``cause`` in a word (WaitingPods has them), the ``reason`` that others may share, and what its
    replay says. ``node``: where it would go now; ``said``: what the scheduler last told of it."""

    pod: Pod
    cause: str
    reason: str
    explanation: Explanation
    node: str = ""
    said: LastWords | None = None


def waiting_pods(audited: ReplayedCluster) -> tuple[WaitingPod, ...]:
    """All that wait, those alike one after the other."""
    nodes = _in_turn(audited)
    return tuple(_waiting(pod, alike.explanation, audited, nodes) for alike in audited.replay for pod in alike.pods)


def _in_turn(audited: ReplayedCluster) -> Mapping[str, str]:
    """The pods that fit, tried in the order of the queue without preemption: pod -> node, for those that get one."""
    fitting = [
        pod.key for replayed in audited.replay if replayed.explanation.verdict == "Schedulable" for pod in replayed.pods
    ]
    if not fitting:
        return {}
    simulation = Simulation(audited.scheduler, preemption=False)
    pods, names = simulation.view.pods, simulation.view.nodes.names
    outcomes = simulation.schedule([pods.index[key] for key in fitting])
    return {pods.objects[outcome.position].key: names[outcome.row] for outcome in outcomes if outcome.row >= 0}


def _waiting(pod: Pod, report: Explanation, audited: ReplayedCluster, nodes: Mapping[str, str]) -> WaitingPod:
    said = last_words(pod, audited)
    if permits := [", ".join(answer.reasons) for answer in report.permit.values() if answer.code == WAIT]:
        return WaitingPod(pod, "permit", "; ".join(dict.fromkeys(permits)), report, "", said)
    if report.verdict == "Schedulable" and not (report.pod_group and describe_group_failure(report.pod_group, report)):
        return WaitingPod(pod, *_fitting(pod, said, audited, nodes), report, nodes.get(pod.key, ""), said)
    return WaitingPod(pod, *_refused(pod, report, audited), report, "", said)


def _not_ours(name: str, report: Explanation, audited: ReplayedCluster) -> tuple[str, str]:
    if name not in audited.once(other_schedulers):
        return "unserved", f'no profile serves scheduler name "{name}"'
    if report.pod_group and report.pod_group.decided_by:
        return ("gang" if _is_stuck(report.pod_group) else "elsewhere"), report.headline
    return "elsewhere", f"scheduler {name} has it, which is not this one"


def _refused(pod: Pod, report: Explanation, audited: ReplayedCluster) -> tuple[str, str]:
    if report.verdict == "NotResponsible":
        return _not_ours(pod.spec.scheduler_name, report, audited)
    if report.pod_group and (of_group := describe_group_failure(report.pod_group, report)):
        return ("gang" if _is_stuck(report.pod_group) or not report.pod_group.decided_by else "gated"), of_group
    if report.verdict == "Gated":
        gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        return "gated", f"scheduling gates: {gates}" if gates else report.headline
    if report.verdict == "Error":
        return "error", report.message or report.headline
    under_way = report.preemption is not None and report.preemption.terminating
    return ("preemption" if under_way else "unschedulable"), find_shared_cause(report)


def _is_stuck(group: PodGroupReport) -> bool:
    """Whether it waits for more than its turn, whoever decides about it."""
    return bool(group.missing or group.deadlocked_with)


def _fitting(pod: Pod, said: LastWords | None, audited: ReplayedCluster, nodes: Mapping[str, str]) -> tuple[str, str]:
    if pod.key not in nodes:
        return "crowded", CROWDED
    tried = audited.seconds_since(said.at) if said else None
    if tried is not None and tried < audited.scheduler.configuration.pod_max_backoff_seconds:
        return "backoff", FITS
    waits = audited.seconds_since(pod.metadata.creation_timestamp)
    just_came = waits is not None and waits < audited.thresholds.stuck_seconds
    return ("turn" if just_came else "stuck"), FITS


def unread_pods(audited: ReplayedCluster) -> tuple[UnknownKind, ...]:
    """What the answer that no other pods wait leans on: having read all pods."""
    gap = audited.cluster.gap("Pod")
    return (UnknownKind("Pod", gap.why, VERDICT),) if gap else ()


def is_left_alone(waiting: WaitingPod, audited: ReplayedCluster) -> bool:
    """Whether for certain nobody tried it for longer than any refused pod is left alone."""
    seconds = untried_seconds(waiting.pod, audited)
    return seconds is not None and seconds > audited.thresholds.flushed_seconds


def victims_of(report: Explanation, audited: ReplayedCluster) -> tuple[TerminatingVictim, ...]:
    """The pods that leave so that this one may come."""
    if report.preemption is None:
        return ()
    pods = (audited.cluster.pod(*key.split("/", 1)) for key in report.preemption.terminating)
    return tuple(_victim(pod, audited) for pod in pods if pod is not None)


def _victim(pod: Pod, audited: ReplayedCluster) -> TerminatingVictim:
    """Whoever is asked to go has its grace period from then on: metadata.deletionTimestamp is the end of it."""
    due = pod.metadata.deletion_timestamp or ""
    seconds = audited.seconds_since(due)
    late = seconds is not None and seconds > audited.thresholds.overdue_seconds
    grace = pod.spec.termination_grace_period_seconds
    return TerminatingVictim(
        pod=pod.key,
        node=pod.spec.node_name,
        asked=subtract_seconds(due, DEFAULT_GRACE_SECONDS if grace is None else grace) if seconds is not None else "",
        due=due,
        overdue=format_age(due, audited.now) if late else "",
    )


def schedulers_of_gangs(cluster: Cluster) -> frozenset[str]:
    """The names that pods of Volcano's PodGroups give: whoever made these runs a scheduler for them."""
    groups = {(group.metadata.namespace, group.metadata.name) for group in cluster.volcano_pod_groups}
    templates = cluster.pods.drop_terminated().templates if groups else ()
    return frozenset(pod.spec.scheduler_name for pod in templates if groups & set(_named(pod)))


def _named(pod: Pod) -> Iterator[tuple[str, str]]:
    return ((key.namespace, key.name) for key in find_gangs(pod) if key.project is GangProject.VOLCANO)


ABOUT_RETRIES = frozenset({"AwaitRetry", "CheckScheduler"})
"""The kinds of advice that say when a pod that fits is tried again, without looking at the other pods or the time."""


def with_audited_retries(report: Explanation, scheduler: Scheduler, now: str) -> Explanation:
    """Replace the advice on a pod that fits by what the audit finds at the time ``now`` (RFC 3339, empty if unknown).

    The report stays as it is if the audit does not contradict it.
    """
    if scheduler.call_extender is not None:  # which the replay of all pending pods would call once more
        return report
    if report.verdict != "Schedulable" or not any(advice.kind in ABOUT_RETRIES for advice in report.advice):
        return report
    audited = ReplayedCluster(scheduler, now)
    waiting = next((pod for pod in audited.once(waiting_pods) if pod.pod.key == report.pod), None)
    found = waiting and _find_advice(waiting, audited)
    if not found:
        return report
    others = (advice for advice in report.advice if advice.kind not in ABOUT_RETRIES)
    return replace(report, advice=(found, *others))


def _find_advice(waiting: WaitingPod, audited: ReplayedCluster) -> Advice | None:
    """Return what to do about a pod that has no turn or gets no room; None for a pod that only waits for its turn."""
    if waiting.cause == "crowded":
        return Advice("AwaitRoom", f"It {CROWDED}: it waits until there is room for all of them")
    seconds = untried_seconds(waiting.pod, audited)
    if waiting.cause == "stuck" and seconds is not None and is_left_alone(waiting, audited):
        text = f"It fits now, but was not tried for {seconds / 60:.0f} min, though refused pods are tried after 5 min"
        return Advice("CheckScheduler", f"{text}. {LOOK_AT_SCHEDULER}")
    return None


class ReplayedPods(NamedTuple):
    """Pods that are alike in all that scheduling reads, and what kube-scheduler says of each of them."""

    pods: tuple[Pod, ...]
    explanation: Explanation


def replayed(scheduler: Scheduler, pods: Sequence[Pod], progress: Progress) -> tuple[ReplayedPods, ...]:
    """The pods of the cluster by what they share, in the order of the first of each."""
    columns = scheduler.view.pods
    alike: dict[tuple[int, str], list[Pod]] = {}
    for pod in pods:
        key = int(columns.info[columns.index[pod.key]]), pod.status.nominated_node_name
        alike.setdefault(key, []).append(pod)
    done, replays = progress.begin("Replaying pending pods", len(pods)), []
    for same in alike.values():
        explanation = drop_unwritten_message(explain_pod(scheduler, scheduler.view.stored(same[0]), nodes=False))
        replays.append(ReplayedPods(tuple(same), explanation))
        done(len(same))
    return tuple(replays)


T = TypeVar("T")


@dataclass(frozen=True)
class WaitingThresholds:
    """How long pods may wait, or take to leave, before something is wrong."""

    stuck_seconds: int = 60
    """A pod that fits is tried within its back-off, of ten seconds at most, and the cycles before its own."""
    flushed_seconds: int = 340
    """By then every refused pod was tried again: the flush of the unschedulable pods takes those that are in there for
    five minutes, and runs twice a minute; then they back off for ten seconds at most."""
    overdue_seconds: int = 60
    """What leaves is gone soon after its grace period, unless its kubelet does not answer or a finalizer holds it."""


@dataclass(frozen=True, eq=False)
class ReplayedCluster:
    """A cluster at a moment, with all pending pods replayed."""

    scheduler: Scheduler
    now: str = ""
    """The RFC 3339 time of the cluster, empty if unknown: then nothing is said about ages."""
    thresholds: WaitingThresholds = field(default_factory=WaitingThresholds)
    progress: Progress = NO_PROGRESS

    @property
    def cluster(self) -> Cluster:
        return self.scheduler.cluster

    @cached_property
    def pending(self) -> tuple[Pod, ...]:
        """The pods that wait for a node, in order of namespace and name."""
        return tuple(pod for pod in self.cluster.unbound_pods() if is_pending(pod))

    @cached_property
    def replay(self) -> tuple[ReplayedPods, ...]:
        """All pending pods replayed, those alike in all that scheduling reads together."""
        return replayed(self.scheduler, self.pending, self.progress)

    def once(self, make: Callable[[Any], T]) -> T:
        """What several sections make of it, made once: ``audited.once(waiting_pods)``."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast(T, self._made[make])

    @cached_property
    def _made(self) -> dict[Callable[[Any], object], object]:
        return {}

    def seconds_since(self, time: str | None) -> float | None:
        """How long ago that was; None where it, or now, is not known or no time."""
        if not time or not self.now:
            return None
        try:
            return (parse_nanoseconds(self.now) - parse_nanoseconds(time)) / 10**9
        except InputError:
            return None
