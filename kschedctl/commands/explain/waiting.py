"""Find out why each pending pod waits, by replaying the pods alone and then one after another.

A pod that fits by itself may find no room once the pods ahead of it are placed. Only a pod that still fits then is
stuck.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, cast

from msgspec.structs import replace

from kschedctl.api.events import FAILED_SCHEDULING, SCHEDULED, count_occurrences, get_last_time, get_reporter
from kschedctl.api.gangs import GangProject, find_gangs
from kschedctl.api.objects import Condition, Event, Pod
from kschedctl.api.times import format_age, parse_nanoseconds, subtract_seconds
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.cycle_report import drop_unwritten_message, explain_pod
from kschedctl.commands.explain.headline import WAIT, get_cause_for_grouping
from kschedctl.commands.explain.pending_report import LastWords, TerminatingVictim
from kschedctl.commands.explain.pod_group_report import PodGroupReport
from kschedctl.commands.explain.report import Advice, Explanation, describe_rivals
from kschedctl.errors import InputError
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.replay.pending_pods import is_pending
from kschedctl.replay.placements import find_violated_budgets
from kschedctl.replay.settling import find_pods_still_pending
from kschedctl.reports.unknown import VERDICT, UnknownKind
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation


class ReplayedPods(NamedTuple):
    """Pods that look the same to the scheduler, and their common explanation."""

    pods: tuple[Pod, ...]
    explanation: Explanation


def replay_pods(scheduler: Scheduler, pods: Sequence[Pod], progress: Progress) -> tuple[ReplayedPods, ...]:
    """Explain each pod by replaying it alone, and return the pods in groups that share an explanation.

    Pods share an explanation if they look the same to the scheduler, have the same nominated node, and have the same
    rivals.
    """
    table = scheduler.view.pods
    pods_by_kind: dict[tuple[int, str], list[Pod]] = {}
    for pod in pods:
        info_code = table.get_info_number(table.index[pod.key])  # equal for pods that look the same to the scheduler
        pods_by_kind.setdefault((info_code, pod.status.nominated_node_name), []).append(pod)

    report_done = progress.begin("Replaying pending pods", len(pods))
    replays = []
    for equal_pods in pods_by_kind.values():
        explanation = drop_unwritten_message(
            explain_pod(scheduler, scheduler.view.build_stored_pod(equal_pods[0]), nodes=False)
        )
        replays += _split_by_rivals(scheduler, ReplayedPods(tuple(equal_pods), explanation))
        report_done(len(equal_pods))
    return tuple(replays)


def _split_by_rivals(scheduler: Scheduler, replayed: ReplayedPods) -> list[ReplayedPods]:
    """Split pods with the same explanation by their rivals, and add the rivals to the explanations.

    Rivals are waiting pods that will take the victims' room before the pod can. If no preemption is under way, the pods
    stay together.
    """
    preemption = replayed.explanation.preemption
    if preemption is None or not preemption.terminating:
        return [replayed]
    from kschedctl.commands.explain.preempted_room import mention_rivals_of_pods  # noqa: PLC0415 - only while pods terminate

    explanations = dict.fromkeys((pod.key for pod in replayed.pods), replayed.explanation)
    explanations_with_rivals = mention_rivals_of_pods(scheduler, replayed.pods, explanations)

    # Pods with the same rivals share one Explanation object
    pods_by_explanation: dict[int, list[Pod]] = {}
    for pod in replayed.pods:
        pods_by_explanation.setdefault(id(explanations_with_rivals[pod.key]), []).append(pod)
    return [ReplayedPods(tuple(pods), explanations_with_rivals[pods[0].key]) for pods in pods_by_explanation.values()]


T = TypeVar("T")


@dataclass(frozen=True)
class WaitingThresholds:
    """The times that pods may wait or terminate before something is wrong."""

    stuck_seconds: int = 60
    """The time after which a pod that fits was tried. It waits for a back-off of at most ten seconds, and for the
    cycles before its own.
    """
    flushed_seconds: int = 340
    """The time after which every rejected pod was tried again. The flush takes pods that were unschedulable for five
    minutes, runs twice a minute, and is followed by a back-off of at most ten seconds.
    """
    overdue_seconds: int = 60
    """The time that a pod may outlive its grace period. If it takes longer, a finalizer or an unresponsive kubelet
    is to blame.
    """


@dataclass(frozen=True, eq=False)
class ReplayedCluster:
    """A cluster at one moment, with explanations of all pending pods."""

    scheduler: Scheduler
    now: str = ""
    """The RFC 3339 time of the cluster, empty if unknown. Without it nothing is said about ages."""
    thresholds: WaitingThresholds = field(default_factory=WaitingThresholds)
    progress: Progress = NO_PROGRESS

    @property
    def cluster(self) -> Cluster:
        """The cluster of the scheduler."""
        return self.scheduler.cluster

    @cached_property
    def pending(self) -> tuple[Pod, ...]:
        """The pods that wait for a node, ordered by namespace and name."""
        return tuple(pod for pod in self.cluster.unbound_pods() if is_pending(pod))

    @cached_property
    def replay(self) -> tuple[ReplayedPods, ...]:
        """The explanations of all pending pods."""
        return replay_pods(self.scheduler, self.pending, self.progress)

    def compute_once(self, compute: Callable[[Any], T]) -> T:
        """Return `compute(self)`, computed once for all sections of an audit."""
        if compute not in self._computed:
            self._computed[compute] = compute(self)
        return cast(T, self._computed[compute])

    @cached_property
    def _computed(self) -> dict[Callable[[Any], object], object]:
        """The results of `compute_once` by function."""
        return {}

    def measure_seconds_since(self, time: str | None, until: str = "") -> float | None:
        """Return the seconds from `time` to `until`, or None if either RFC 3339 time is unknown or invalid.

        `until` defaults to the time of the cluster.
        """
        until = until or self.now
        if not time or not until:
            return None
        try:
            return (parse_nanoseconds(until) - parse_nanoseconds(time)) / 10**9
        except InputError:
            return None


# -- what the scheduler said, and what pods wait for ------------------------------------------------------------------


POD_SCHEDULED = "PodScheduled"
"""The condition type that says whether the pod has a node."""
SERIES_LAG_SECONDS = 1800
"""The interval at which a series of equal events is written: staging/src/k8s.io/client-go/tools/events (v1.36)."""


def group_failure_events(replayed_cluster: ReplayedCluster) -> Mapping[tuple[str, str], Sequence[Event]]:
    """Group the cluster's FailedScheduling events by the pod's namespace and name. A pod's newest event comes last."""
    by_pod: dict[tuple[str, str], list[Event]] = {}
    for event in replayed_cluster.cluster.events:
        if event.reason == FAILED_SCHEDULING:
            by_pod.setdefault((event.involved_object.namespace, event.involved_object.name), []).append(event)
    for events in by_pod.values():
        events.sort(key=get_last_time)
    return by_pod


def find_other_schedulers(replayed_cluster: ReplayedCluster) -> frozenset[str]:
    """Find the names of running schedulers that no profile of the configuration serves.

    Schedulers are recognized by the events that they write, by their leases, and by Volcano's PodGroups.
    """
    writers = {
        get_reporter(event)
        for event in replayed_cluster.cluster.events
        if event.reason in (SCHEDULED, FAILED_SCHEDULING)
    }
    leaders = {lease.metadata.name for lease in replayed_cluster.cluster.leases if lease.spec.holder_identity}
    names = writers | leaders | find_volcano_schedulers(replayed_cluster.cluster)
    return frozenset(names - replayed_cluster.scheduler.configuration.profiles.keys())


def was_rejected(pod: Pod) -> bool:
    """Return whether the pod's condition says that the scheduler tried the pod and found no node."""
    return _find_unscheduled_condition(pod) is not None


def find_last_message(pod: Pod, replayed_cluster: ReplayedCluster) -> LastWords | None:
    """Find the scheduler's last message about the pod, in an event or else in the pod's condition.

    Return None if there is neither.
    """
    if events := _find_failure_events(pod, replayed_cluster):
        time = get_last_time(events[-1])
        return LastWords(
            message=events[-1].message,
            at=time,
            age=format_age(time, replayed_cluster.now),
            source=f"event {FAILED_SCHEDULING}",
            attempts=sum(map(count_occurrences, events)),
        )
    condition = _find_unscheduled_condition(pod)
    if condition is None or not condition.message:
        return None
    time = condition.last_transition_time or ""
    return LastWords(
        message=condition.message,
        at=time,
        age=format_age(time, replayed_cluster.now),
        source=f"condition {POD_SCHEDULED}",
        attempts=1,
    )


def measure_seconds_since_try(pod: Pod, replayed_cluster: ReplayedCluster) -> float | None:
    """Return a lower bound on the seconds since the scheduler last tried the pod, or None if that is unknown.

    For a pod that was never tried, return the seconds since its creation.
    """
    if events := _find_failure_events(pod, replayed_cluster):
        seconds = replayed_cluster.measure_seconds_since(get_last_time(events[-1]))
        if seconds is not None and events[-1].series:
            return seconds - SERIES_LAG_SECONDS  # the series may have gone on since it was last written
        return seconds
    if was_rejected(pod):  # at an unknown time, since the condition has the time of the first rejection
        return None
    return replayed_cluster.measure_seconds_since(pod.metadata.creation_timestamp)


def _find_failure_events(pod: Pod, replayed_cluster: ReplayedCluster) -> Sequence[Event]:
    """Find the pod's FailedScheduling events, except those about an earlier pod of the same name."""
    events = replayed_cluster.compute_once(group_failure_events).get((pod.metadata.namespace, pod.metadata.name), ())
    return [event for event in events if not pod.metadata.uid or event.involved_object.uid in ("", pod.metadata.uid)]


def _find_unscheduled_condition(pod: Pod) -> Condition | None:
    """Return the pod's condition PodScheduled=False, or None if it does not have it."""
    for condition in pod.status.conditions:
        if condition.type == POD_SCHEDULED and condition.status == "False":
            return condition
    return None


LOOK_AT_SCHEDULER = (
    "Check that the scheduler is running and holds its leader lease (kubectl get lease -n kube-system), "
    "and read its log"
)
"""Advice about a pod that fits but that kube-scheduler does not try."""
DEFAULT_GRACE_SECONDS = 30
MAX_PODS_REPLAYED = 200
"""If more pods wait, they are not replayed with preemption to explain several of them."""
FITS = "a node fits now"
CROWDED = "fits by itself, but not together with the pods ahead of it"


class WaitCause(NamedTuple):
    """The cause of a pod's wait."""

    cause: str
    """One of the words that WaitingPods lists."""
    reason: str
    """The reason as a phrase, which several pods may share."""


class WaitingPod(NamedTuple):
    """A pending pod, and why it waits."""

    pod: Pod
    cause: str
    """The cause as one of the words that WaitingPods lists."""
    reason: str
    """The reason as a phrase, which several pods may share."""
    explanation: Explanation
    node: str = ""
    """The node on which the pod would be placed now."""
    last_message: LastWords | None = None
    """The scheduler's last message about the pod."""


def list_waiting_pods(replayed_cluster: ReplayedCluster) -> tuple[WaitingPod, ...]:
    """Return all pending pods, each with the reason why it waits.

    Pods that look the same to the scheduler are adjacent.
    """
    node_by_pod = find_node_by_waiting_pod(replayed_cluster.scheduler)
    return tuple(
        _build_waiting_pod(pod, replayed.explanation, replayed_cluster, node_by_pod)
        for replayed in replayed_cluster.replay
        for pod in replayed.pods
    )


def find_node_by_waiting_pod(scheduler: Scheduler) -> Mapping[str, str]:
    """Place all waiting pods one after another in the order of the queue, without preemption.

    Return the name of the node of each pod that finds one, in the order of placement. The result is cached. Raises
    KeyboardInterrupt if the user interrupts.
    """

    def place_waiting_pods() -> dict[str, str]:
        """Place the pods in a new simulation."""
        simulation = Simulation(scheduler, preemption=False)
        pods, names = simulation.view.pods, simulation.view.nodes.names
        outcomes = simulation.schedule_or_raise_interrupt(find_pods_still_pending(simulation))
        placed = (outcome for outcome in outcomes if outcome.is_placed)
        return {pods.objects[outcome.position].key: names[outcome.row] for outcome in placed}

    return scheduler.view.memo(find_node_by_waiting_pod, place_waiting_pods)


def mention_rivals_of_fitting_pods(
    scheduler: Scheduler, explanations: Mapping[str, Explanation]
) -> dict[str, Explanation]:
    """Return the explanations by pod, with the rivals of pods that fit by themselves but get no node in the queue.

    Pods that share an explanation also share the returned one. If extenders are called, or if no other pod waits, no
    rivals are mentioned, since nothing is replayed.
    """
    updated = dict(explanations)
    fitting_pods = [key for key, report in explanations.items() if _is_placed_alone(report)]
    if not fitting_pods or scheduler.call_extender is not None:
        return updated
    waiting_pods = {pod.key for pod in scheduler.cluster.unbound_pods() if is_pending(pod)}
    if len(waiting_pods) < 2:
        return updated
    node_by_pod = find_node_by_waiting_pod(scheduler)
    crowded_reports: dict[int, Explanation] = {}
    for key in fitting_pods:
        if key in node_by_pod or key not in waiting_pods:
            continue
        report = explanations[key]
        if id(report) not in crowded_reports:
            crowded_reports[id(report)] = _add_rivals(report, node_by_pod)
        updated[key] = crowded_reports[id(report)]
    return updated


def mention_rivals_and_next_node(scheduler: Scheduler, report: Explanation) -> Explanation:
    """Return a pod's explanation with its rivals, and with the node and victims that it gets behind the rivals.

    The node is found by scheduling all waiting pods with preemption. There are no rivals if the pod then gets a node
    that is feasible now, without preempting others.
    """
    crowded_report = mention_rivals_of_fitting_pods(scheduler, {report.pod: report})[report.pod]
    if not crowded_report.rivals:
        return report
    return _add_node_after_rivals(scheduler, report.pod, report, crowded_report)


def mention_rivals_and_next_nodes(
    scheduler: Scheduler, explanations: Mapping[str, Explanation]
) -> dict[str, Explanation]:
    """Return the explanations by pod as `mention_rivals_and_next_node` does for one pod.

    Pods that share an explanation also share the returned one if they get the same node by preempting the same pods. If
    more than MAX_PODS_REPLAYED pods wait, only the rivals are mentioned, since a replay with preemption takes longer.
    """
    crowded_reports = mention_rivals_of_fitting_pods(scheduler, explanations)
    crowded_pods = [key for key, report in explanations.items() if crowded_reports[key] is not report]
    waiting_count = sum(is_pending(pod) for pod in scheduler.cluster.unbound_pods())
    if not crowded_pods or waiting_count > MAX_PODS_REPLAYED:
        return crowded_reports
    from kschedctl.fixes.queue_replay import replay_queue_without_fix  # noqa: PLC0415 - only if pods have rivals

    run = replay_queue_without_fix(scheduler)
    shared_reports: dict[tuple[int, str, tuple[str, ...]], Explanation] = {}
    updated = dict(crowded_reports)
    for key in crowded_pods:
        report = explanations[key]
        group = id(report), run.node_by_pod.get(key, ""), run.victims_by_pod.get(key, ())
        if group not in shared_reports:
            shared_reports[group] = _add_node_after_rivals(scheduler, key, report, crowded_reports[key])
        updated[key] = shared_reports[group]
    return updated


def _add_node_after_rivals(
    scheduler: Scheduler, pod: str, report: Explanation, crowded_report: Explanation
) -> Explanation:
    """Return the explanation of a pod with the node and the victims that it gets behind its rivals.

    `crowded_report` is the explanation with the rivals. It is returned if the pod gets no node. Return `report` if the
    pod gets a node that is feasible now, without preempting others. `pod` is the key of the pod.
    """
    from kschedctl.fixes.queue_replay import replay_queue_without_fix  # noqa: PLC0415 - only if the pod has rivals

    run = replay_queue_without_fix(scheduler)
    node = run.node_by_pod.get(pod)
    if node is None:
        return crowded_report
    victims = run.victims_by_pod.get(pod, ())
    feasible = frozenset(report.feasible)
    if node in feasible and not victims:
        return report

    # List pods that are placed even without preemption first, in the order of the queue
    placed_pods = dict.fromkeys((*find_node_by_waiting_pod(scheduler), *run.node_by_pod))
    rivals = tuple(key for key in placed_pods if run.node_by_pod.get(key) in feasible and key != pod)
    evicted_for_pod = [eviction for eviction in run.evicted if eviction.by == pod]
    budgets = {budget for eviction in evicted_for_pod for budget in eviction.budgets}
    workloads = {eviction.workload for eviction in evicted_for_pod}
    updated = replace(
        report,
        rivals=rivals or crowded_report.rivals,
        node_after_rivals=node,
        victims_after_rivals=victims,
        budgets_violated_after_rivals=tuple(
            name for name in find_violated_budgets(scheduler.cluster, run.evicted) if name in budgets
        ),
        failed_jobs_after_rivals=tuple(job for job in run.failed_jobs if job.job in workloads),
    )
    return replace(updated, headline=f"{report.headline}, but {updated.rivals_clause}")


def _is_placed_alone(report: Explanation) -> bool:
    """Return whether the pod gets a node by itself, and neither its group nor a Permit plugin makes it wait there."""
    if report.verdict != "Schedulable" or any(answer.code == WAIT for answer in report.permit.values()):
        return False
    return not report.group_failure


def _add_rivals(report: Explanation, node_by_pod: Mapping[str, str]) -> Explanation:
    """Return the explanation of a pod that gets no node in the queue, with its rivals.

    The rivals are the pods that get the nodes on which the pod fits. If there are none, all pods that get a node are.
    """
    nodes = frozenset(report.feasible)
    rivals = tuple(key for key, node in node_by_pod.items() if node in nodes) or tuple(node_by_pod)
    return replace(report, rivals=rivals, headline=f"{report.headline}, but {describe_rivals(rivals)}")


def _build_waiting_pod(
    pod: Pod, report: Explanation, replayed_cluster: ReplayedCluster, node_by_pod: Mapping[str, str]
) -> WaitingPod:
    """Build the report on a waiting pod: the kind of cause, its explanation, and the scheduler's last message.

    `node_by_pod` has the nodes that pods get when they are placed one after another.
    """
    last_message = find_last_message(pod, replayed_cluster)
    permit_reasons = [", ".join(answer.reasons) for answer in report.permit.values() if answer.code == WAIT]
    node = ""
    if permit_reasons:
        wait = WaitCause("permit", "; ".join(dict.fromkeys(permit_reasons)))
    elif report.verdict == "Schedulable" and not report.group_failure:
        wait = _get_fitting_cause(pod, last_message, replayed_cluster, node_by_pod)
        node = node_by_pod.get(pod.key, "")
    else:
        wait = _get_rejection_cause(pod, report, replayed_cluster)
    return WaitingPod(pod, wait.cause, wait.reason, report, node=node, last_message=last_message)


def _get_other_scheduler_cause(name: str, report: Explanation, replayed_cluster: ReplayedCluster) -> WaitCause:
    """Return why a pod waits whose schedulerName, `name`, no profile has.

    The cause is "unserved" if no scheduler with this name is known to run. It is "gang" if the pod's group, which that
    scheduler handles, misses pods or is deadlocked. Otherwise it is "elsewhere": the scheduler has not placed the pod
    yet.
    """
    if name not in replayed_cluster.compute_once(find_other_schedulers):
        return WaitCause("unserved", f'no scheduler profile is named "{name}"')
    if report.pod_group and report.pod_group.decided_by:
        cause = "gang" if _is_group_stuck(report.pod_group) else "elsewhere"
        return WaitCause(cause, report.headline)
    return WaitCause("elsewhere", f"another scheduler, {name}, places it")


def _get_rejection_cause(pod: Pod, report: Explanation, replayed_cluster: ReplayedCluster) -> WaitCause:
    """Return why a pod waits if it cannot be scheduled, alone or with its group.

    Another scheduler, a failing pod group, gates, an error, and victims that are still terminating each have their own
    cause. Otherwise the pod is unschedulable.
    """
    if report.verdict == "NotResponsible":
        return _get_other_scheduler_cause(pod.spec.scheduler_name, report, replayed_cluster)
    if report.pod_group and report.group_failure:
        other_project_decides = report.pod_group.decided_by and not _is_group_stuck(report.pod_group)
        return WaitCause("gated" if other_project_decides else "gang", report.group_failure)
    if report.verdict == "Gated":
        gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        return WaitCause("gated", f"scheduling gates: {gates}" if gates else report.headline)
    if report.verdict == "Error":
        return WaitCause("error", report.message or report.headline)
    under_way = report.preemption is not None and report.preemption.terminating
    return WaitCause(("preemption" if under_way else "unschedulable"), get_cause_for_grouping(report))


def _is_group_stuck(group: PodGroupReport) -> bool:
    """Return whether the group misses pods or is deadlocked."""
    return bool(group.missing or group.deadlocked_with)


def _get_fitting_cause(
    pod: Pod, last_message: LastWords | None, replayed_cluster: ReplayedCluster, node_by_pod: Mapping[str, str]
) -> WaitCause:
    """Return why a pod waits although it fits on a node.

    Other pods take the room first (crowded), the pod was tried recently (backoff), it is too young to have been tried
    (turn), or it is stuck. `node_by_pod` has the pods that find a node if all waiting pods are placed one after
    another.
    """
    if pod.key not in node_by_pod:
        return WaitCause("crowded", CROWDED)
    seconds_since_try = replayed_cluster.measure_seconds_since(last_message.at) if last_message else None
    if (
        seconds_since_try is not None
        and seconds_since_try < replayed_cluster.scheduler.configuration.pod_max_backoff_seconds
    ):
        return WaitCause("backoff", FITS)
    age_seconds = replayed_cluster.measure_seconds_since(pod.metadata.creation_timestamp)
    is_recent = age_seconds is not None and age_seconds < replayed_cluster.thresholds.stuck_seconds
    return WaitCause(("turn" if is_recent else "stuck"), FITS)


def find_unread_pods_doubt(replayed_cluster: ReplayedCluster) -> tuple[UnknownKind, ...]:
    """Return the doubt that further pods may be pending if not all pods were read, otherwise ()."""
    gap = replayed_cluster.cluster.find_gap("Pod")
    return (UnknownKind("Pod", gap.why, VERDICT),) if gap else ()


def is_retry_overdue(waiting: WaitingPod, replayed_cluster: ReplayedCluster) -> bool:
    """Return whether the pod has waited longer for a retry than the scheduler lets any rejected pod wait."""
    seconds = measure_seconds_since_try(waiting.pod, replayed_cluster)
    return seconds is not None and seconds > replayed_cluster.thresholds.flushed_seconds


def find_terminating_victims(report: Explanation, replayed_cluster: ReplayedCluster) -> tuple[TerminatingVictim, ...]:
    """Find the pods that are terminating to make room for the explained pod. Return () if there was no preemption."""
    if report.preemption is None:
        return ()
    pods = (replayed_cluster.cluster.pod(*key.split("/", 1)) for key in report.preemption.terminating)
    return tuple(_report_terminating_victim(pod, replayed_cluster) for pod in pods if pod is not None)


def _report_terminating_victim(pod: Pod, replayed_cluster: ReplayedCluster) -> TerminatingVictim:
    """Report when a terminating victim's deletion was requested, when it is due, and for how long it is overdue.

    The deletion is due at metadata.deletionTimestamp, which is the end of the grace period. If the current time is
    unknown or the timestamp is invalid, the time of the request is empty and the victim is not overdue.
    """
    due = pod.metadata.deletion_timestamp or ""
    seconds_past_due = replayed_cluster.measure_seconds_since(due)
    is_late = seconds_past_due is not None and seconds_past_due > replayed_cluster.thresholds.overdue_seconds
    has_valid_due_time = seconds_past_due is not None
    grace = pod.spec.termination_grace_period_seconds
    if grace is None:
        grace = DEFAULT_GRACE_SECONDS
    return TerminatingVictim(
        pod=pod.key,
        node=pod.spec.node_name,
        asked=subtract_seconds(due, grace) if has_valid_due_time else "",
        due=due,
        overdue=format_age(due, replayed_cluster.now) if is_late else "",
    )


def find_volcano_schedulers(cluster: Cluster) -> frozenset[str]:
    """Return the scheduler names in the pods of Volcano's PodGroups.

    PodGroups of Volcano exist only where it runs, so these schedulers run even if no event or lease shows it.
    """
    groups = {(group.metadata.namespace, group.metadata.name) for group in cluster.volcano_pod_groups}
    if not groups:
        return frozenset()
    templates = cluster.pods.drop_terminated().templates
    return frozenset(pod.spec.scheduler_name for pod in templates if groups & _list_volcano_group_keys(pod))


def _list_volcano_group_keys(pod: Pod) -> set[tuple[str, str]]:
    """Return the namespace and name of each Volcano PodGroup that the pod refers to."""
    return {(key.namespace, key.name) for key in find_gangs(pod) if key.project is GangProject.VOLCANO}


# -- advice on retries ------------------------------------------------------------------------------------------------


ABOUT_RETRIES = frozenset({"AwaitRetry", "CheckScheduler"})
"""The kinds of advice that say when a pod that fits is tried again, without looking at the other pods or the time."""


def add_rivals_for_room(report: Explanation, replayed_cluster: ReplayedCluster) -> Explanation:
    """Add the waiting pods that would take the pod's room first, and replace retry advice that no longer holds.

    Return the explanation unchanged if the pod is not schedulable, or if extenders are called.
    """
    calls_extenders = replayed_cluster.scheduler.call_extender is not None
    if calls_extenders:  # replaying all pending pods would call them again
        return report
    report = mention_rivals_and_next_node(replayed_cluster.scheduler, report)
    is_about_retries = any(advice.kind in ABOUT_RETRIES for advice in report.advice)
    if report.verdict != "Schedulable" or not (is_about_retries or report.rivals):
        return report
    correction = _find_corrected_retry_advice(report, replayed_cluster)
    if correction is None:
        return report
    other_advice = (advice for advice in report.advice if advice.kind not in ABOUT_RETRIES)
    return replace(report, advice=(correction, *other_advice))


def _find_corrected_retry_advice(report: Explanation, replayed_cluster: ReplayedCluster) -> Advice | None:
    """Return the advice that replaces the advice on retries of a fitting pod, or None if that advice holds."""
    if report.node_after_rivals:
        return _build_advice_on_node_after_rivals(report)
    waiting = _find_waiting_pod(report, replayed_cluster)
    if waiting is None:
        return None
    is_placed_with_preemption = waiting.cause == "crowded" and not report.rivals
    return None if is_placed_with_preemption else _find_waiting_advice(waiting, replayed_cluster)


def _find_waiting_pod(report: Explanation, replayed_cluster: ReplayedCluster) -> WaitingPod | None:
    """Return the waiting pod that the explanation is about, and why it waits, or None if it does not wait for a node.

    The other waiting pods are placed ahead of it, but not explained.
    """
    namespace, _, name = report.pod.rpartition("/")
    pod = replayed_cluster.cluster.pod(namespace, name)
    if pod is None or not is_pending(pod):
        return None
    return _build_waiting_pod(pod, report, replayed_cluster, find_node_by_waiting_pod(replayed_cluster.scheduler))


def _build_advice_on_node_after_rivals(report: Explanation) -> Advice:
    """Build advice for a pod whose room rivals take first and that gets another node, possibly by preempting others."""
    hint = " once the pods ahead of it are scheduled"
    if report.victims_after_rivals:
        hint = ". To avoid that, make room for it and for the pods ahead of it"
    return Advice("AwaitRoom", f"It {report.outcome_after_rivals}{hint}")


def drop_retry_advice(report: Explanation) -> Explanation:
    """Drop the advice on retries, for an explanation of a pod that differs from the one in the cluster."""
    return replace(report, advice=tuple(advice for advice in report.advice if advice.kind not in ABOUT_RETRIES))


def _find_waiting_advice(waiting: WaitingPod, replayed_cluster: ReplayedCluster) -> Advice | None:
    """Return advice for a waiting pod that fits on a node, or None if the advice on its retry need not change.

    There is advice if other pods crowd out the pod. A stuck pod gets advice if its retry is overdue, or if no event
    says when it was last tried.
    """
    if waiting.cause == "crowded":
        text = (
            "It waits until there is room for it and for the pods ahead of it: remedies -A finds room for all of them"
        )
        return Advice("AwaitRoom", text)
    if waiting.cause != "stuck":
        return None
    is_read_time_unknown = not replayed_cluster.cluster.provenance  # files do not say when the cluster was read

    seconds = measure_seconds_since_try(waiting.pod, replayed_cluster)
    if seconds is not None:
        if not is_retry_overdue(waiting, replayed_cluster):
            return None
        text = (
            f"It fits now, but has not been tried for {seconds / 60:.0f} min, although rejected pods are retried "
            "after 5 min"
        )
        if is_read_time_unknown:
            text += f" (as of {replayed_cluster.now[:10]}; the files do not say when the cluster was read)"
        return Advice("CheckScheduler", f"{text}. {LOOK_AT_SCHEDULER}")

    age = format_age(waiting.pod.metadata.creation_timestamp, replayed_cluster.now)
    if not age:
        return None
    waited = f"has waited for {age}"
    if is_read_time_unknown:
        waited = f"had been waiting for {age} as of {replayed_cluster.now[:10]}"
    basis = ", judged by the objects that were read" if waiting.explanation.undecided else ""
    text = f"The pod fits on a node now{basis}. It {waited}, and no event says when it was last tried"
    return Advice("AwaitRetry", f"{text}. If it is still Pending in 5 min, run audit to find out why")
