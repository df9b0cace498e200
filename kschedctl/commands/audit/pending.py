"""Section "pending": every pending pod replayed and grouped by the cause for which it waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.gangs import find_gangs
from kschedctl.api.kinds import LEASE
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.api.times import format_age
from kschedctl.commands.audit.audited_cluster import NO_TIMES, AuditedCluster
from kschedctl.commands.audit.report import GateHolder, PendingSection, WaitingPods
from kschedctl.commands.explain.pending_report import LastWords
from kschedctl.commands.explain.pod_group_report import suggest_deadlock_end
from kschedctl.commands.explain.waiting import (
    LOOK_AT_SCHEDULER,
    POD_SCHEDULED,
    ReplayedCluster,
    WaitingPod,
    find_terminating_victims,
    find_unread_pods_doubt,
    is_retry_overdue,
    list_waiting_pods,
)
from kschedctl.replay.audit_rules import ERROR, NOTE, WARNING, AuditRule, build_verdict
from kschedctl.replay.unknown import MESSAGE, merge_unknown_kinds
from kschedctl.replay.waiting_elsewhere import find_objects_waiting_elsewhere, find_unread_waiting_kinds, get_namespace
from kschedctl.reports.findings import Finding
from kschedctl.reports.unknown import VERDICT, UnknownKind
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, WaitingState, describe_state_counts
from kschedctl.text.counts import agreeing, counted, first_few, spell_age


class Holder(NamedTuple):
    """The controller behind a scheduling gate."""

    name: str
    fix: str
    """A command or advice that shows what the gate waits for; NAMESPACE stands for the pod's namespace."""


KUEUE = Holder(
    "Kueue",
    "kubectl get workloads.kueue.x-k8s.io -n NAMESPACE shows what its workload waits for: quota, or admission checks",
)
HOLDERS: Mapping[str, Holder] = {
    "kueue.x-k8s.io/topology": Holder(
        "Kueue's topology-aware scheduling", "The workload is admitted; check the log of kueue-controller-manager"
    ),
    "kueue.x-k8s.io": KUEUE,
    "scheduling.volcano.sh": Holder(
        "Volcano's queue admission", "kubectl get podgroups.scheduling.volcano.sh,queues.scheduling.volcano.sh -A"
    ),
    "multiarch.openshift.io": Holder(
        "OpenShift's Multiarch Tuning Operator",
        "The operator reads the image's architectures: check deployment pod-placement-controller, and whether the "
        "image exists",
    ),
    "grove.io": Holder("the Grove operator", "kubectl get podgangs.scheduler.grove.io -n NAMESPACE"),
    "gke.io": Holder("GKE's topology-aware scheduler", "Check the topology scheduler's pod in kube-system"),
    "gke-gcsfuse": Holder(
        "GKE's Cloud Storage FUSE driver", "The driver scans the bucket of a volume: check the pod's events"
    ),
    "experimental.s3.csi.aws.com": Holder(
        "the Mountpoint for Amazon S3 CSI driver", "Check the log of s3-csi-controller"
    ),
    "agents.kruise.io": Holder("OpenKruise Agents", "Check the log of its manager"),
}
"""Holders by gate name or by the domain of the gate, from the holders' documentation and sources."""


def find_gate_holders(pod: Pod) -> tuple[GateHolder, ...]:
    """Return the scheduling gates of a pod with their holders.

    >>> from kschedctl.api.objects import PodMeta, PodSchedulingGate, PodSpec
    >>> spec = PodSpec(scheduling_gates=(PodSchedulingGate("kueue.x-k8s.io/admission"), PodSchedulingGate("mine")))
    >>> [(each.gate, each.holder) for each in find_gate_holders(Pod(PodMeta("p", "shop"), spec))]
    [('kueue.x-k8s.io/admission', 'Kueue'), ('mine', '')]
    """
    return tuple(_look_up_gate_holder(gate.name, pod.metadata.namespace) for gate in pod.spec.scheduling_gates)


def _look_up_gate_holder(gate: str, namespace: str) -> GateHolder:
    """Look up the holder of a gate by the gate's name, then by the gate's domain.

    An unknown holder is described by the domain, or left empty if the gate has no domain.
    """
    domain, slash, _ = gate.partition("/")
    holder = HOLDERS.get(gate) or HOLDERS.get(domain)
    if holder is not None:
        return GateHolder(gate=gate, holder=holder.name, fix=holder.fix.replace("NAMESPACE", namespace))
    return GateHolder(gate=gate, holder=f"a controller of {domain}" if slash else "")


CAUSES = {
    "stuck": "stuck although a node fits",
    "error": "with an error",
    "unserved": "with an unknown scheduler name",
    "gang": "waiting for the rest of the gang",
    "unschedulable": "unschedulable",
    "preemption": "waiting until preempted pods are gone",
    "permit": "waiting for a Permit plugin",
    "gated": "gated",
    "elsewhere": "of other schedulers",
    "crowded": "behind other pods",
    "backoff": "in back-off",
    "turn": "not yet tried by the scheduler",
}
"""The causes, the gravest first, as they are worded after a number."""
CAUSE_TITLES = {
    **CAUSES,
    "stuck": "still waits although a node fits",
    "error": "scheduling fails with an error",
    "unserved": "unknown scheduler name",
    "elsewhere": "left to another scheduler",
}
"""The causes as they are worded after the names of workloads."""

QUEUE = "pkg/scheduler/backend/queue/scheduling_queue.go"
STUCK = AuditRule(
    "audit-pending-stuck",
    ERROR,
    "A pod fits on a node now, but still waits",
    "The scheduler does not try it. It missed the event that should have woken the pod, or its queue is too long. "
    "Every rejected pod is tried again after five minutes, so a longer wait is a fault.",
    LOOK_AT_SCHEDULER,
    source=f"{QUEUE}, flushUnschedulableEntitiesLeftover",
)
FAILING = AuditRule(
    "audit-pending-error",
    ERROR,
    "Scheduling a pod fails with an error",
    "A plugin fails. The scheduler retries the pod, but cannot place it until what the plugin needs is there.",
    "Run explain to see what fails",
)
UNSERVED = AuditRule(
    "audit-pending-unserved",
    WARNING,
    "No known scheduler serves a pod",
    "No profile of this configuration has the pod's spec.schedulerName. Unless another scheduler runs under that "
    "name, the pod is never tried.",
    "Correct spec.schedulerName and recreate the pod, or run a scheduler of that name",
)
GANG = AuditRule(
    "audit-pending-gang",
    WARNING,
    "A gang does not fit or is incomplete",
    "Its pods are placed together or not at all.",
    "Run explain to see where its pods fit and which are missing",
)
UNSCHEDULABLE = AuditRule(
    "audit-pending-unschedulable",
    WARNING,
    "Pods fit on no node",
    "They wait until the cluster or the pods themselves change.",
    "The remedies command finds the smallest change that helps",
)
OVERDUE = AuditRule(
    "audit-pending-victim-overdue",
    WARNING,
    "Preemption waits for a pod that should be gone",
    "The victim's grace period is over, but it is still there: its kubelet does not respond, or it has a finalizer. "
    "The preempting pod cannot start until the victim is gone.",
    "Check the node's kubelet and the victim's metadata.finalizers",
)
GATED = AuditRule(
    "audit-pending-gated",
    NOTE,
    "Pods are held back before scheduling",
    "Until they are released, no scheduler tries them.",
    "Run wakes to see what the pod waits for",
)
NOT_ADMITTED = AuditRule(
    "audit-pending-not-admitted",
    WARNING,
    "A queue or a gang scheduler has not let a workload start",
    "Its pods do not exist or are held back, so kube-scheduler does not try them and a new node does not help.",
    "Run explain on the workload to see what it waits for, and which workloads hold that",
)
SUSPENDED = AuditRule(
    "audit-pending-suspended",
    NOTE,
    "A workload is suspended",
    "It has no pods until a user or a queue resumes it.",
    "Set spec.suspend to false to start it",
)
BYPASSES = AuditRule(
    "audit-pending-bypasses-scheduler",
    WARNING,
    "A pod with spec.nodeName has a claim that waits for the scheduler",
    "The claim binds only once kube-scheduler has chosen a node (WaitForFirstConsumer). Because kube-scheduler "
    "ignores pods with spec.nodeName, the pod does not start.",
    "Replace spec.nodeName by spec.nodeSelector kubernetes.io/hostname, and recreate the pod",
)
RULE_BY_CAUSE = {
    "stuck": STUCK,
    "error": FAILING,
    "unserved": UNSERVED,
    "gang": GANG,
    "gated": GATED,
    "unschedulable": UNSCHEDULABLE,
}
"""The rules about pods that wait, by the cause for which they wait. Other causes are no finding."""
RULE_BY_STATE = {
    WaitingState.NOT_ADMITTED: NOT_ADMITTED,
    WaitingState.SUSPENDED: SUSPENDED,
    WaitingState.BYPASSES_SCHEDULER: BYPASSES,
}
"""The rules about workloads that are held back before kube-scheduler sees a pod, by state."""


def build_pending_section(audited: AuditedCluster) -> PendingSection:
    """Build the section about pending pods and about workloads that are held back before scheduling."""
    waiting = audited.compute_once(list_waiting_pods)
    groups = _group_waiting_pods(waiting)
    elsewhere = find_objects_waiting_elsewhere(audited.cluster, namespace=None, now=audited.ages_end)

    findings = [finding for group in groups for finding in _iter_findings(group, audited)]
    pending_pod_groups = _find_pod_groups_of_pending_pods(audited)  # their pods have the findings
    findings += (
        _build_waiting_elsewhere_finding(entry, RULE_BY_STATE[entry.state])
        for entry in elsewhere
        if entry.state in RULE_BY_STATE and entry.resource not in pending_pod_groups
    )

    unknown = _collect_unknowns(waiting, elsewhere, audited)
    return PendingSection(
        title="Pending, by cause",
        headline=_build_headline(waiting, elsewhere),
        pods=len(waiting),
        waiting=tuple(_build_waiting_pods(group, audited) for group in groups),
        waiting_elsewhere=elsewhere,
        not_replayed=tuple(
            dict.fromkeys(part for replayed in audited.replay for part in replayed.explanation.not_replayed)
        ),
        **build_verdict((*RULE_BY_CAUSE.values(), OVERDUE, *RULE_BY_STATE.values()), findings, unknown),
    )


def _collect_unknowns(
    waiting: Sequence[WaitingPod], elsewhere: Sequence[WaitingElsewhere], audited: AuditedCluster
) -> list[UnknownKind]:
    """Collect the unknowns of the replay, of the waiting pods, and of the workloads that are held back elsewhere."""
    unknown = [
        *merge_unknown_kinds(replayed.explanation.unknown for replayed in audited.replay),
        *find_unread_pods_doubt(audited),
        *_iter_unknowns_of_stuck_pods(waiting, audited),
    ]
    if any(waiting_pod.cause == "unserved" for waiting_pod in waiting):
        unknown += _find_unread_scheduler_kinds(audited)
    unknown += find_unread_waiting_kinds(audited.cluster)
    if unchecked_resources := _report_unchecked_resources(elsewhere):
        unknown.append(unchecked_resources)
    return unknown


def _find_pod_groups_of_pending_pods(audited: ReplayedCluster) -> set[str]:
    """Return the PodGroups of pending pods as `PodGroup namespace/name`."""
    return {f"PodGroup {key.namespace}/{key.name}" for pod in audited.pending for key in find_gangs(pod)}


def _build_waiting_elsewhere_finding(entry: WaitingElsewhere, rule: AuditRule) -> Finding:
    """Build the finding that a workload is held back before scheduling.

    Its message ends with the workload's age and the messages of its conditions.
    """
    parts = [entry.headline]
    if entry.age:
        parts.append(f"pending for {spell_age(entry.age)}")
    parts += (condition.words for condition in entry.conditions if condition.message)
    return rule.build_finding(entry.resource, "; ".join(parts), namespace=get_namespace(entry))


def _report_unchecked_resources(elsewhere: Sequence[WaitingElsewhere]) -> UnknownKind | None:
    """Return an entry for the custom resources that were not checked, or None if all were checked.

    These are resources that request pods which do not exist yet.
    """
    headlines = [entry.headline for entry in elsewhere if entry.state is WaitingState.NOT_CHECKED]
    if not headlines:
        return None
    return UnknownKind("CustomResource", f"were not checked: {first_few(headlines)}", VERDICT)


def _iter_unknowns_of_stuck_pods(waiting: Sequence[WaitingPod], audited: AuditedCluster) -> Iterator[UnknownKind]:
    """Yield the missing inputs that would show for how long stuck pods have not been tried.

    These are the current time and the Events. A pod is stuck if it fits on a node but is not scheduled. Nothing is
    yielded if no pod is stuck.
    """
    if not any(waiting_pod.cause == "stuck" for waiting_pod in waiting):
        return
    if not audited.now:
        yield NO_TIMES
    if gap := audited.cluster.find_gap("Event"):
        yield UnknownKind("Event", gap.why, MESSAGE)


def _find_unread_scheduler_kinds(audited: AuditedCluster) -> list[UnknownKind]:
    """Return the unread kinds by which other schedulers would be recognized."""
    gaps = {kind: audited.cluster.find_gap(kind) for kind in (LEASE, "Event")}
    return [UnknownKind(kind, gap.why, VERDICT) for kind, gap in gaps.items() if gap]


def _group_waiting_pods(waiting: Iterable[WaitingPod]) -> list[list[WaitingPod]]:
    """Group pods by cause and reason, and stuck pods also by workload, oldest pod first.

    The groups are ordered by the gravity of the cause, then by size.
    """
    groups: dict[tuple[str, str, str], list[WaitingPod]] = {}
    for waiting_pod in waiting:
        workload = str(find_owner(waiting_pod.pod)) if waiting_pod.cause == "stuck" else ""
        groups.setdefault((waiting_pod.cause, waiting_pod.reason, workload), []).append(waiting_pod)
    for group in groups.values():
        group.sort(key=_get_age_sort_key)
    order = tuple(CAUSES)
    return sorted(groups.values(), key=lambda group: (order.index(group[0].cause), -len(group)))


def _get_age_sort_key(waiting_pod: WaitingPod) -> tuple[bool, str]:
    """Return a sort key that puts the oldest pods first and pods of unknown age last."""
    created = waiting_pod.pod.metadata.creation_timestamp or ""
    return not created, created


def _build_waiting_pods(group: Sequence[WaitingPod], audited: AuditedCluster) -> WaitingPods:
    """Build the report about a group of pods with the same cause. The first pod is the example."""
    first = group[0]
    victims = {
        victim.pod: victim
        for waiting_pod in group
        for victim in find_terminating_victims(waiting_pod.explanation, audited)
    }
    return WaitingPods(
        cause=first.cause,
        reason=first.reason,
        pods=tuple(waiting.pod.key for waiting in group),
        workloads=tuple(dict.fromkeys(str(find_owner(waiting.pod)) for waiting in group)),
        age=format_age(first.pod.metadata.creation_timestamp, audited.ages_end),
        example=_describe_waiting_pod(first),
        last_said=first.last_message,
        gates=find_gate_holders(first.pod) if first.cause == "gated" else (),
        victims=tuple(victims.values()),
    )


def _describe_waiting_pod(waiting: WaitingPod) -> str:
    """Describe in one line why a pod waits: its gates, its workload's state, or the scheduler's verdict."""
    if waiting.cause == "gated" and waiting.pod.spec.scheduling_gates:
        gates = (f"{gate.gate} ({gate.holder or 'owner unknown'})" for gate in find_gate_holders(waiting.pod))
        return f"held back by {', '.join(gates)}"
    if waiting.cause == "elsewhere":
        return waiting.reason
    return f"fits on {waiting.node} now" if waiting.node else waiting.explanation.headline_with_preemption


def _iter_findings(group: Sequence[WaitingPod], audited: AuditedCluster) -> Iterator[Finding]:
    """Yield the finding about a group of waiting pods, and findings about overdue victims of preemption.

    Some causes have no rule, and so no finding about the group.
    """
    first = group[0]
    rule = RULE_BY_CAUSE.get(first.cause)
    if rule is not None:
        description = f"{_describe_waiting_pod(first)}{_describe_other_waiting_pods(group)}"
        yield rule.build_finding(
            f"Pod {first.pod.key}",
            "; ".join((description, *_iter_waiting_clauses(first, audited))),
            _choose_fix(first, rule),
            namespace=first.pod.metadata.namespace,
            severity=_choose_severity(group, rule, audited),
        )
    for waiting_pod in group:
        for victim in find_terminating_victims(waiting_pod.explanation, audited):
            if victim.overdue:
                namespace, _, _ = victim.pod.partition("/")
                due = f"should have left {victim.node} by {victim.due} ({spell_age(victim.overdue)} ago)"
                message = f"preempted for {first.pod.key}: {due}, but is still there"
                yield OVERDUE.build_finding(f"Pod {victim.pod}", message, namespace=namespace)


def _choose_severity(group: Sequence[WaitingPod], rule: AuditRule, audited: AuditedCluster) -> str:
    """Return the severity of the finding about a group of waiting pods.

    The finding is a note if unread data could change it. The severity of a finding about stuck pods depends on whether
    a retry is overdue, and is a note if this is unknown. All other findings have the severity of their rule.
    """
    first = group[0].explanation
    if rule is UNSERVED:  # a scheduler that was not read may serve the pods
        return NOTE if _find_unread_scheduler_kinds(audited) else rule.severity
    # A gang that is deadlocked with another gang stays so, whatever was not read
    is_deadlocked = first.pod_group is not None and bool(first.pod_group.deadlocked_with)
    if first.undecided and not is_deadlocked:
        return NOTE
    if rule is not STUCK:
        return rule.severity
    if not audited.now:  # without the time of the cluster, no retry is known to be overdue
        return NOTE
    # Until the retry is overdue, a change may just have made room
    return ERROR if any(is_retry_overdue(waiting, audited) for waiting in group) else WARNING


def _iter_waiting_clauses(first: WaitingPod, audited: AuditedCluster) -> Iterator[str]:
    """Yield how long a pod has waited, and for a stuck pod the scheduler's last message about it."""
    age = format_age(first.pod.metadata.creation_timestamp, audited.ages_end)
    if age:
        yield f"pending for {spell_age(age)}{audited.ages_note}"
    if first.cause == "stuck" and first.last_message:
        yield f"{_introduce_last_message(first.last_message)}: {first.last_message.message}"


def _introduce_last_message(last_words: LastWords) -> str:
    """Return the words before the scheduler's last message: how often or for how long it rejected the pod, and when.

    A condition has the time of the first rejection, because later rejections change only the condition's message.
    """
    is_from_condition = last_words.source == f"condition {POD_SCHEDULED}"
    if is_from_condition:
        rejected_text = f"rejected for {spell_age(last_words.age)}, " if last_words.age else ""
        return f"{rejected_text}the scheduler last said"
    attempts_text = f"rejected at least {last_words.attempts:,} times, " if last_words.attempts > 1 else ""
    age_text = f" {spell_age(last_words.age)} ago" if last_words.age else ""
    return f"{attempts_text}the scheduler last said{age_text}"


def _choose_fix(pod: WaitingPod, rule: AuditRule) -> str:
    """Return how to end the deadlock of the pod's gang or how to remove its gates, otherwise the rule's fix.

    If no way to remove the gates is known, the fix says whom to ask.
    """
    pod_group = pod.explanation.pod_group
    if pod_group and pod_group.deadlocked_with:
        return suggest_deadlock_end(pod_group)
    gates = find_gate_holders(pod.pod) if rule is GATED else ()
    fixes = [gate.fix for gate in gates if gate.fix]
    if fixes:
        return "; ".join(dict.fromkeys(fixes))
    if gates:
        return f"Ask the owner of {', '.join(gate.gate for gate in gates)}: only its controller removes the gate"
    return rule.fix


def _describe_other_waiting_pods(group: Sequence[WaitingPod]) -> str:
    """Return how many more pods the group has, as a clause that is empty if there are none.

    They may need other amounts than the first pod, which the text before the clause describes.
    """
    other_count = len(group) - 1
    waits = agreeing(other_count, "waits", "wait")
    return f"; {counted(other_count, 'other pod')} {waits} for the same reason" if other_count else ""


def _build_headline(waiting: Sequence[WaitingPod], elsewhere: Sequence[WaitingElsewhere]) -> str:
    """Summarize the pending pods by cause, and the workloads held back before scheduling."""
    elsewhere_text = describe_state_counts(elsewhere)
    if not waiting:
        return f"no pod is pending; {elsewhere_text}" if elsewhere_text else "nothing is pending"
    count_by_cause = Counter(waiting_pod.cause for waiting_pod in waiting)
    counts_text = ", ".join(
        f"{count_by_cause[cause]:,} {words}" for cause, words in CAUSES.items() if count_by_cause[cause]
    )
    headline = f"{counted(len(waiting), 'pod')} pending: {counts_text}"
    return f"{headline}; {elsewhere_text}" if elsewhere_text else headline
