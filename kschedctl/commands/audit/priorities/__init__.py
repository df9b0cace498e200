"""Section "priorities": priority tiers, starving pods, the victims of a growing tier, and exposed pods behind Services.

`tiers` has the tiers as arrays, `preemptions` finds pods that were, may be or would be preempted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.columns import NO_TIME
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.api.times import format_age, parse_microseconds
from kschedctl.commands.audit.audited_cluster import NO_TIMES, AuditedCluster
from kschedctl.commands.audit.priorities.preemptions import (
    Growth,
    find_exposed_workloads,
    find_preempted_workloads,
    simulate_tier_growth,
)
from kschedctl.commands.audit.priorities.report import (
    EvictedWorkload,
    ExposedWorkload,
    GrownTier,
    PreemptedWorkload,
    PrioritiesSection,
    StarvingPods,
)
from kschedctl.commands.audit.priorities.tiers import Tiers
from kschedctl.commands.explain.report import Explanation
from kschedctl.replay.audit_rules import NOTE, WARNING, AuditRule, build_verdict
from kschedctl.replay.unknown import merge_unknown_kinds
from kschedctl.reports.findings import Finding
from kschedctl.reports.placements import EvictionFate
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.engine.preemption.dry_run import NOT_HELPFUL
from kschedctl.text.counts import agreeing, counted, first_few, join_words, spell_age


class _UnschedulablePod(NamedTuple):
    """A pod that waits for room."""

    seconds: float
    """The time for which it has waited."""
    pod: Pod
    explanation: Explanation


def find_starving_pods(audited: AuditedCluster, tiers: Tiers) -> tuple[StarvingPods, ...]:
    """Return the pods that have waited for room longer than the threshold, grouped by workload, longest wait first.

    Pods that match no node do not starve, since preemption cannot help them. A workload is left out if no pods of lower
    tiers run and no pods of higher tiers have started since its pods were created. If the time of the cluster is
    unknown, waits end today.
    """
    threshold = audited.thresholds.priorities.starving_seconds
    groups: dict[tuple[str, int], list[_UnschedulablePod]] = {}
    for unschedulable in _iter_pods_that_preemption_may_help(audited):
        if unschedulable.seconds > threshold:
            pod = unschedulable.pod
            tier = int(tiers.tier_by_pod[tiers.pods.index[pod.key]])
            groups.setdefault((str(find_owner(pod)), tier), []).append(unschedulable)

    reports = (_build_starving_pods(workload, tier, pods, audited, tiers) for (workload, tier), pods in groups.items())
    starving_reports = [report for report in reports if report.lower_pods or report.higher_started]
    return tuple(sorted(starving_reports, key=lambda report: (-report.seconds, report.workload)))


def _iter_pods_that_preemption_may_help(audited: AuditedCluster) -> Iterator[_UnschedulablePod]:
    """Yield the unschedulable pods, except those for which evicting pods would help on no node.

    Pods whose age is unknown are left out.
    """
    for replayed in audited.replay:
        # There is no description if evicting pods would help on no node
        if replayed.explanation.verdict == "Unschedulable" and describe_preemption(replayed.explanation):
            for pod in replayed.pods:
                seconds = audited.measure_seconds_since(pod.metadata.creation_timestamp, audited.ages_end)
                if seconds is not None:
                    yield _UnschedulablePod(seconds, pod, replayed.explanation)


def describe_preemption(explanation: Explanation) -> str:
    """Describe what preemption does for an unschedulable pod, or why it does not help, as a predicate of "preemption".

    Return "" if preemption is useless because evicting pods would help on no node, or if it is not allowed for an
    unknown reason.
    """
    preemption = explanation.preemption
    if preemption is None:
        return "is not tried"
    if preemption.terminating:
        return f"waits for {counted(len(preemption.terminating), 'victim')} to terminate"
    if preemption.why:
        return f"does not help: {preemption.why}"
    if not preemption.eligible:
        return ""
    if preemption.candidates:
        return f"makes room on {counted(len(preemption.candidates), 'node')}"
    other_reasons = {reason: nodes for reason, nodes in preemption.unhelpful.items() if reason != NOT_HELPFUL}
    reasons = "; ".join(f"{counted(nodes, 'node')}: {reason}" for reason, nodes in other_reasons.items())
    return f"does not help ({reasons})" if reasons else ""


def _build_starving_pods(
    workload: str, tier: int, pods: Sequence[_UnschedulablePod], audited: AuditedCluster, tiers: Tiers
) -> StarvingPods:
    """Build the report about the waiting pods of a workload.

    It counts the pods of lower tiers that run, and the pods of other tiers that started since the oldest pod was
    created.
    """
    longest_first = sorted(pods, key=lambda unschedulable: -unschedulable.seconds)
    oldest = longest_first[0]
    created = oldest.pod.metadata.creation_timestamp or ""
    # tiers are numbered from the highest
    is_lower = tiers.running & (tiers.tier_by_pod > tier)
    is_higher = tiers.running & (tiers.tier_by_pod < tier)
    has_started_since = (tiers.pods.start > parse_microseconds(created)) & (tiers.pods.start != NO_TIME)
    return StarvingPods(
        workload=workload,
        tier=tiers.names[tier],
        priority=int(tiers.priorities[tier]),
        pods=tuple(unschedulable.pod.key for unschedulable in longest_first),
        seconds=oldest.seconds,
        age=format_age(created, audited.ages_end),
        why=oldest.explanation.headline,
        preemption=describe_preemption(oldest.explanation),
        lower_pods=int(np.count_nonzero(is_lower)),
        lower_started=int(np.count_nonzero(is_lower & has_started_since)),
        higher_started=int(np.count_nonzero(is_higher & has_started_since)),
    )


TITLE = "Priority tiers"
STARVING = AuditRule(
    "audit-priorities-starving",
    WARNING,
    "Pods wait long while pods of lower priority run",
    "Their priority does not help: they may not preempt, no eviction makes room for them, or other pods go first.",
    "Run explain to see why preemption does not help",
)
OVERTAKEN = AuditRule(
    "audit-priorities-overtaken",
    NOTE,
    "Pods of the lowest tier wait long",
    "Pods of higher tiers always go first, so without capacity of its own the lowest tier may never run.",
    "Give the tier its own capacity, or give higher tiers their own pool or a quota; run remedies to see "
    "what helps now",
)
PREEMPTED = AuditRule(
    "audit-priorities-preempted",
    WARNING,
    "Pods are preempted again and again",
    "Each pod starts, is evicted for a pod of a higher tier, is recreated and waits again, so its work is lost.",
    "Give the tier its own capacity, higher tiers a quota, or the workload a higher PriorityClass; make its work "
    "resumable",
)
VICTIMS = AuditRule(
    "audit-priorities-victims",
    NOTE,
    "If the tier grows, pods of other tiers are evicted",
    "More pods of the tier fit only if others are evicted. Each victim stops within its grace period.",
    "Reserve room for the tier: add nodes, or placeholder pods with a negative priority that are evicted first",
)
EXPOSED = AuditRule(
    "audit-priorities-exposed",
    NOTE,
    "Pods that serve users can be preempted by pods of higher tiers",
    "If a pod of a higher tier finds no room, the scheduler may preempt them, even against their disruption "
    "budgets if nothing else helps.",
    "Give pods that serve users the higher PriorityClass, or set preemptionPolicy: Never for higher tiers",
)
RULES = (STARVING, OVERTAKEN, PREEMPTED, VICTIMS, EXPOSED)


def build_priorities_section(audited: AuditedCluster) -> PrioritiesSection:
    """Build the section about the priority tiers, starvation and preemption."""
    limits = audited.thresholds.priorities
    tiers = Tiers(audited.scheduler.view)
    growth = simulate_tier_growth(
        audited.scheduler, tiers, limits, audited.progress.begin("Growing a tier", limits.grow)
    )
    # If the cluster's time is unknown, waits are measured until today. These pods are listed apart, without findings
    starving_pods = find_starving_pods(audited, tiers)
    is_time_known = bool(audited.now)
    starving = starving_pods if is_time_known else ()
    starving_as_of_today = () if is_time_known else starving_pods
    exposed = find_exposed_workloads(tiers)
    preempted = find_preempted_workloads(tiers)
    unknowns = _find_unknowns(audited, growth, has_several_tiers=len(tiers.priorities) > 1)
    findings = [
        *_iter_starving_findings(starving),
        *_iter_preempted_findings(preempted),
        *_iter_growth_findings(growth),
        *_iter_exposed_findings(exposed),
    ]
    return PrioritiesSection(
        title=TITLE,
        headline=_build_headline(tiers, growth, starving, exposed, unknowns),
        tiers=tiers.build_reports(),
        nothing_judged=not len(tiers.priorities),
        grown=growth.tier,
        victims=growth.victims,
        starving=starving,
        starving_as_of_today=starving_as_of_today,
        preempted=preempted,
        exposed=exposed,
        **build_verdict(RULES, findings, unknowns),
    )


def _find_unknowns(audited: AuditedCluster, growth: Growth, has_several_tiers: bool) -> tuple[UnknownKind, ...]:
    """Return the unread data on which the section depends.

    Events matter only if there are several tiers, since no pod is preempted within one tier. The cluster's time matters
    only if pods are unschedulable.
    """
    unread = list(audited.iter_unread_kinds("Pod", "Service"))
    if has_several_tiers:
        unread += audited.iter_unread_kinds("Event")
    if not audited.now and any(replayed.explanation.verdict == "Unschedulable" for replayed in audited.replay):
        unread.append(NO_TIMES)
    return merge_unknown_kinds([growth.unknown, unread])


def _iter_starving_findings(starving_pods: Sequence[StarvingPods]) -> Iterator[Finding]:
    """Yield a finding for each tier and cause of starvation.

    The finding's object is the workload that has waited longest. The message begins with the number of pods of all
    workloads with this cause. The rule depends on whether pods of lower tiers run, or only pods of higher tiers
    have started since.
    """
    by_cause: dict[tuple[object, ...], list[StarvingPods]] = {}
    for starving in starving_pods:
        cause = starving.tier, starving.why, starving.preemption, bool(starving.lower_pods)
        by_cause.setdefault(cause, []).append(starving)
    for reports in by_cause.values():
        oldest = reports[0]
        pending_text = "this pod was" if sum(len(starving.pods) for starving in reports) == 1 else "the oldest was"
        if oldest.lower_pods:
            rule = STARVING
            other_pods_text = _describe_running_lower_tier_pods(oldest.lower_pods, oldest.lower_started, pending_text)
        else:
            rule = OVERTAKEN
            other_pods_text = (
                f"{counted(oldest.higher_started, 'higher-tier pod')} started while {pending_text} pending"
            )
        message = f"{_describe_starving_pods(reports)}: {oldest.why}. Preemption {oldest.preemption}. {other_pods_text}"
        yield _build_object_finding(rule, oldest.workload, message)


def _describe_starving_pods(reports: Sequence[StarvingPods]) -> str:
    """Describe the tier, number and age of the pods that starve for one cause.

    `reports` has the workload with the longest wait first. The other workloads are named.
    """
    pod_count = sum(len(starving.pods) for starving in reports)
    pods = f"{counted(pod_count, 'pod')} {_describe_tier(reports[0].tier)}"
    has_been = "has been pending" if pod_count == 1 else "are pending, the oldest"
    waiting = f"{pods} {has_been} for {spell_age(reports[0].age)}"
    other_workloads = [starving.workload for starving in reports[1:]]
    return f"{waiting} (also {first_few(other_workloads)})" if other_workloads else waiting


def _describe_tier(name: str) -> str:
    """Return the tier of pods as text. A tier without a PriorityClass has its priority as name.

    >>> _describe_tier("high"), _describe_tier("-10")
    ('of tier high', 'of priority -10')
    """
    return f"of priority {name}" if name.removeprefix("-").isdecimal() else f"of tier {name}"


def _describe_running_lower_tier_pods(pods: int, started_since: int, pending_text: str) -> str:
    """Describe how many pods of lower tiers are running, and how many of them started during the wait.

    `pods` is the number of running pods, and `started_since` of them started during the wait. `pending_text` is the
    subject and the verb that come before "pending", such as "this pod was".
    """
    if pods == 1:
        when = f"while {pending_text} pending" if started_since else "earlier"
        return f"1 lower-tier pod is running (it started {when})"
    started = f"{started_since:,}" if started_since else "none"
    return f"{pods:,} lower-tier pods are running ({started} started while {pending_text} pending)"


def _iter_preempted_findings(workloads: Sequence[PreemptedWorkload]) -> Iterator[Finding]:
    """Yield a finding for each workload with more preemptions than pods.

    In this case, replacements of preempted pods were preempted as well.
    """
    for workload in workloads:
        if workload.times > max(workload.pods, 1):
            last = f", last at {workload.last}" if workload.last else ""
            preemptions = f"{counted(workload.times, 'preemption')} known from events{last}"
            message = f"{preemptions}; it has {counted(workload.pods, 'pod')}"
            yield _build_object_finding(PREEMPTED, workload.workload, message)


def _iter_growth_findings(growth: Growth) -> Iterator[Finding]:
    """Yield a warning for each workload behind a Service that loses pods, and one note about all other victims.

    Nothing is yielded if no tier grew.
    """
    tier = growth.tier
    if tier is None:
        return
    more_pods = f"{counted(tier.asked, 'more pod')} {_describe_tier(tier.tier)} like {tier.like}"
    cause = f"if {more_pods} arrived, {agreeing(tier.asked, 'it', 'they')}"
    for victim in growth.victims:
        if victim.services:
            homeless = _format_unplaced_pods([victim])
            services = f"{agreeing(len(victim.services), 'Service', 'Services')} {join_words(victim.services)}"
            evicted = f"{counted(len(victim.pods), 'pod')} behind {services}{homeless}"
            message = f"{cause} would preempt {evicted}{_format_violated_budgets(victim)}"
            yield _build_object_finding(VICTIMS, victim.workload, message, severity=WARNING)
    other_victims = [victim for victim in growth.victims if not victim.services]
    if other_victims:
        first_workload = other_victims[0].workload
        workloads = first_workload
        if len(other_victims) > 1:
            workloads = f"{counted(len(other_victims), 'workload')}, including {first_workload}"
        has_service_victims = len(other_victims) < len(growth.victims)
        evicted = f"{counted(sum(len(victim.pods) for victim in other_victims), 'pod')} of {workloads}"
        would = "would also" if has_service_victims else "would"
        message = f"{cause} {would} preempt {evicted}{_format_unplaced_pods(other_victims)}"
        yield _build_object_finding(VICTIMS, _format_tier_object(tier.tier), message)


def _format_unplaced_pods(workloads: Sequence[EvictedWorkload]) -> str:
    """Return, in parentheses, how many of the evicted pods fit on no other node, or "" if all fit elsewhere."""
    pods = [pod for workload in workloads for pod in workload.pods]
    unplaced_count = sum(pod.fate in (EvictionFate.PENDING, EvictionFate.LOST) for pod in pods)
    if not unplaced_count:
        return ""
    if unplaced_count == len(pods):
        return f" ({agreeing(unplaced_count, 'which fits nowhere else', 'none of which fits elsewhere')})"
    return f" ({unplaced_count:,} of which {agreeing(unplaced_count, 'fits', 'fit')} nowhere else)"


def _format_violated_budgets(evicted_workload: EvictedWorkload) -> str:
    """Return the PDBs of the evicted pods, or that there are none, as the end of a sentence."""
    budgets = sorted({name for pod in evicted_workload.pods for name in pod.budgets})
    if not budgets:
        return ", covered by no PodDisruptionBudget"
    noun = agreeing(len(budgets), "PodDisruptionBudget", "PodDisruptionBudgets")
    return f", covered by {noun} {join_words(budgets)}"


def _iter_exposed_findings(exposed_workloads: Sequence[ExposedWorkload]) -> Iterator[Finding]:
    """Yield one finding for each tier with exposed workloads: a warning if Jobs may preempt them, otherwise a note."""
    by_tier: dict[str, list[ExposedWorkload]] = {}
    for exposed_workload in exposed_workloads:
        by_tier.setdefault(exposed_workload.tier, []).append(exposed_workload)
    for tier, workloads in by_tier.items():
        first = workloads[0]  # all workloads of a tier have the same pods above them
        exposed_pods = counted(sum(workload.pods for workload in workloads), "pod")
        jobs_text = f", {first.jobs_above:,} of them from Jobs" if first.jobs_above else ""
        unprotected = sum(not workload.budgets for workload in workloads)
        if unprotected:
            budgets_text = f"{unprotected:,} of these workloads {agreeing(unprotected, 'has', 'have')} no"
        else:
            budgets_text = agreeing(len(workloads), "the workload has a", "all of these workloads have a")
        message = (
            f"{exposed_pods} of {counted(len(workloads), 'workload')} behind Services can be preempted by "
            f"{counted(first.pods_above, 'pod')} of {join_words(first.tiers_above)}{jobs_text}; {budgets_text} "
            "PodDisruptionBudget"
        )
        severity = WARNING if first.jobs_above else NOTE
        yield _build_object_finding(EXPOSED, _format_tier_object(tier), message, severity=severity)


def _format_tier_object(tier: str) -> str:
    """Return the tier as the object of a finding."""
    return f"Priority {tier}" if _is_priority_value(tier) else f"PriorityClass {tier}"


def _format_tier_name(tier: str) -> str:
    """Return the name of the tier for use in a sentence."""
    return f"priority {tier}" if _is_priority_value(tier) else f"PriorityClass {tier}"


def _is_priority_value(tier: str) -> bool:
    """Return whether the name of a tier is a priority value, as for tiers without a PriorityClass."""
    return tier.lstrip("-").isdecimal()


def _build_object_finding(rule: AuditRule, object_: str, message: str, *, severity: str = "") -> Finding:
    """Build a finding about an object, given as ``Kind name`` or ``Kind namespace/name``."""
    namespace = Owner.parse(object_).namespace
    return rule.build_finding(object_, message, namespace=namespace, severity=severity or rule.severity)


def _build_headline(
    tiers: Tiers,
    growth: Growth,
    starving: Sequence[StarvingPods],
    exposed: Sequence[ExposedWorkload],
    unknowns: Iterable[UnknownKind],
) -> str:
    """Summarize the numbers of tiers, of starving pods, of pods preempted by growth, and of exposed pods.

    The summary also says if past preemptions or waiting times are unknown, because Events or the time of the cluster
    are among the `unknowns`.

    Nothing is said about starving or exposed pods if there are none.
    """
    if not len(tiers.priorities):
        return "no pods, so there are no tiers"
    tier_count = len(tiers.priorities)
    parts = ["all pods have the same priority" if tier_count == 1 else f"{tier_count:,} tiers"]
    starving_count = sum(len(starving_pods.pods) for starving_pods in starving if starving_pods.lower_pods)
    if starving_count:
        parts.append(
            f"{counted(starving_count, 'pod is', 'pods are')} starving (pending while pods of lower tiers run)"
        )
    unknown_kinds = {unknown.kind for unknown in unknowns}
    missing_facts = [
        fact
        for kind, fact in (("Event", "past preemptions"), (NO_TIMES.kind, "waiting times"))
        if kind in unknown_kinds
    ]
    if missing_facts:
        parts.append(f"unknown: {join_words(missing_facts)}")
    if exposed:
        exposed_pods = counted(sum(workload.pods for workload in exposed), "pod")
        parts.append(f"higher tiers can preempt {exposed_pods} behind Services")
    facts = "; ".join(parts)
    if growth.tier is None:
        return facts
    evicted_count = sum(len(victim.pods) for victim in growth.victims)
    return f"{facts}. {_describe_tier_growth(growth.tier, evicted_count)}"


def _describe_tier_growth(tier: GrownTier, evicted_count: int) -> str:
    """Describe how many of the additional pods of a tier would get a node, and how many pods would be preempted."""
    condition = f"If {counted(tier.asked, 'more pod')} like {tier.like} ({_format_tier_name(tier.tier)}) arrived"
    if tier.asked == 1:
        placed = "it would get a node" if tier.placed else "it would get no node"
    elif tier.placed >= tier.asked:
        placed = "all would get a node"
    else:
        placed = f"{tier.placed:,} would get a node" if tier.placed else "none would get a node"
    evicted = f"{counted(evicted_count, 'pod')} would be preempted" if evicted_count else "no pod would be preempted"
    creation = f" ({tier.creation_clause})" if tier.creation_clause else ""
    return f"{condition}, {placed} and {evicted}{creation}"
