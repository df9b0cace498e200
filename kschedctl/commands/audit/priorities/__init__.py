"""Section "priorities": priority tiers, starving pods, the victims of a growing tier, and exposed pods behind Services.

`tiers` has the tiers as arrays, `preemptions` finds pods that were, may be or would be preempted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.columns import NO_TIME
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.api.times import format_age, parse_microseconds
from kschedctl.commands.audit.audited_cluster import NO_TIMES, AuditedCluster
from kschedctl.commands.audit.priorities.preemptions import (
    Growth,
    find_exposed_workloads,
    find_preempted_workloads,
    grow_tier,
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
from kschedctl.text.amounts import spell_age
from kschedctl.text.counts import agreeing, counted


class _UnschedulablePod(NamedTuple):
    """A pod that waits for room."""

    seconds: float
    """The time for which it has waited."""
    pod: Pod
    explanation: Explanation


def find_starving_pods(audited: AuditedCluster, tiers: Tiers) -> tuple[StarvingPods, ...]:
    """Return the pods that wait for room longer than the threshold, grouped by workload, longest wait first.

    Pods that match no node do not starve, since preemption cannot help them. Pods of the lowest tier starve only if
    pods of higher tiers started meanwhile. Without the time of the cluster nothing is returned.
    """
    threshold = audited.thresholds.priorities.starving_seconds
    groups: dict[tuple[str, int], list[_UnschedulablePod]] = {}
    for unschedulable in _iter_unschedulable_pods(audited):
        if unschedulable.seconds > threshold:
            pod = unschedulable.pod
            tier = int(tiers.tier_by_pod[tiers.pods.index[pod.key]])
            groups.setdefault((str(find_owner(pod)), tier), []).append(unschedulable)

    reports = (_build_starving_pods(workload, tier, pods, audited, tiers) for (workload, tier), pods in groups.items())
    starving_reports = [report for report in reports if report.lower_pods or report.higher_started]
    return tuple(sorted(starving_reports, key=lambda report: (-report.seconds, report.workload)))


def _iter_unschedulable_pods(audited: AuditedCluster) -> Iterator[_UnschedulablePod]:
    """Yield the unschedulable pods of known age, if preemption could make room for them on some node."""
    for replayed in audited.replay:
        if replayed.explanation.verdict == "Unschedulable" and describe_preemption(replayed.explanation):
            for pod in replayed.pods:
                seconds = audited.measure_seconds_since(pod.metadata.creation_timestamp)
                if seconds is not None:
                    yield _UnschedulablePod(seconds, pod, replayed.explanation)


def describe_preemption(explanation: Explanation) -> str:
    """Describe what preemption does for an unschedulable pod, or why it does nothing.

    The text is empty if the only reason is that no eviction helps on any node.
    """
    preemption = explanation.preemption
    if preemption is None:
        return "is not tried"
    if preemption.terminating:
        return f"waits for {counted(len(preemption.terminating), 'victim')} to terminate"
    if not preemption.eligible or preemption.why:
        return preemption.why
    if preemption.candidates:
        return f"makes room on {counted(len(preemption.candidates), 'node')}"
    other_reasons = {reason: nodes for reason, nodes in preemption.unhelpful.items() if reason != NOT_HELPFUL}
    return ", ".join(f"{reason} on {counted(nodes, 'node')}" for reason, nodes in other_reasons.items())


def _build_starving_pods(
    workload: str, tier: int, pods: Sequence[_UnschedulablePod], audited: AuditedCluster, tiers: Tiers
) -> StarvingPods:
    """Build the report about the waiting pods of a workload, and about pods of other tiers that run meanwhile."""
    longest_first = sorted(pods, key=lambda unschedulable: -unschedulable.seconds)
    oldest = longest_first[0]
    created = oldest.pod.metadata.creation_timestamp or ""
    # tiers are numbered from the highest
    is_lower = tiers.running & (tiers.tier_by_pod > tier)
    is_higher = tiers.running & (tiers.tier_by_pod < tier)
    started_since = (tiers.pods.start > parse_microseconds(created)) & (tiers.pods.start != NO_TIME)
    return StarvingPods(
        workload=workload,
        tier=tiers.names[tier],
        priority=int(tiers.priorities[tier]),
        pods=tuple(unschedulable.pod.key for unschedulable in longest_first),
        seconds=oldest.seconds,
        age=format_age(created, audited.now),
        why=oldest.explanation.headline,
        preemption=describe_preemption(oldest.explanation),
        lower_pods=int(np.count_nonzero(is_lower)),
        lower_started=int(np.count_nonzero(is_lower & started_since)),
        higher_started=int(np.count_nonzero(is_higher & started_since)),
    )


TITLE = "Priorities and starvation"
STARVING = AuditRule(
    "audit-priorities-starving",
    WARNING,
    "Pods wait long while pods of lower priority run",
    "Priority does not help them: they may not preempt, no eviction makes room for them, or others go first.",
    "Run explain to see why evictions do not help",
)
OVERTAKEN = AuditRule(
    "audit-priorities-overtaken",
    NOTE,
    "Pods of the lowest tier wait long",
    "Whatever comes in a tier above goes first: without room of their own they may never run.",
    "Give their tier its own capacity, or those above a pool or a quota; run remedies for what helps now",
)
PREEMPTED = AuditRule(
    "audit-priorities-preempted",
    WARNING,
    "Pods are preempted again and again",
    "Each starts, is evicted for a pod of a higher tier, is recreated and waits: work is started and lost.",
    "Give the tier its own capacity, those above a quota, or the workload a higher class; make its work resumable",
)
VICTIMS = AuditRule(
    "audit-priorities-victims",
    NOTE,
    "If the tier grows, pods of other tiers are evicted",
    "There is room for it only by evictions; each victim stops within its grace period.",
    "Keep room for it: more nodes, or placeholder pods of negative priority that may be evicted first",
)
EXPOSED = AuditRule(
    "audit-priorities-exposed",
    NOTE,
    "Pods that serve users may be evicted for others",
    "A pod of a higher tier may evict them where it finds no room, and break budgets if nothing else helps.",
    "Give what serves users the higher class, or the tiers above preemptionPolicy: Never",
)
RULES = (STARVING, OVERTAKEN, PREEMPTED, VICTIMS, EXPOSED)


def build_priorities_section(audited: AuditedCluster) -> PrioritiesSection:
    """Build the section about the priority tiers, starvation and preemption."""
    limits = audited.thresholds.priorities
    tiers = Tiers(audited.scheduler.view)
    growth = grow_tier(audited.scheduler, tiers, limits, audited.progress.begin("Growing a tier", limits.grow))
    starving = find_starving_pods(audited, tiers)
    exposed = find_exposed_workloads(tiers)
    preempted = find_preempted_workloads(tiers)
    findings = [
        *_iter_starving_findings(starving),
        *_iter_preempted_findings(preempted),
        *_iter_growth_findings(growth),
        *_iter_exposed_findings(exposed),
    ]
    return PrioritiesSection(
        title=TITLE,
        headline=_build_headline(tiers, growth.tier, growth.victims, starving, exposed),
        tiers=tiers.build_reports(),
        nothing_judged=not len(tiers.priorities),
        grown=growth.tier,
        victims=growth.victims,
        starving=starving,
        preempted=preempted,
        exposed=exposed,
        **build_verdict(RULES, findings, _find_unknowns(audited, growth, has_several_tiers=len(tiers.priorities) > 1)),
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
    """Yield a finding for each workload with starving pods. Its message begins with the cause.

    The rule depends on whether pods of lower tiers run, or only pods of higher tiers started meanwhile.
    """
    for starving in starving_pods:
        age = spell_age(starving.age)
        oldest = "" if len(starving.pods) == 1 else "the oldest "
        waiting = f"{counted(len(starving.pods), 'pod')} of tier {starving.tier}, {oldest}pending for {age}"
        if starving.lower_pods:
            rule = STARVING
            others = _describe_lower_pods(starving.lower_pods, starving.lower_started)
        else:
            rule = OVERTAKEN
            others = f"{counted(starving.higher_started, 'higher-tier pod')} started since then"
        message = f"{starving.why}; preemption: {starving.preemption}; {waiting}; {others}"
        yield _build_object_finding(rule, starving.workload, message)


def _describe_lower_pods(pods: int, started_since: int) -> str:
    """Describe how many pods of lower tiers are running, and how many of them started during the wait."""
    if pods == 1:
        return f"1 lower-tier pod is running, which started {'since' if started_since else 'before'} then"
    started = f"{started_since:,}" if started_since else "none"
    return f"{pods:,} lower-tier pods are running, {started} of which started since then"


def _iter_preempted_findings(workloads: Sequence[PreemptedWorkload]) -> Iterator[Finding]:
    """Yield findings about workloads with more preemptions than pods, which shows that replacements were preempted."""
    for workload in workloads:
        if workload.times > max(workload.pods, 1):
            last = f", last at {workload.last}" if workload.last else ""
            preemptions = f"{counted(workload.times, 'preemption')} known from events{last}"
            message = f"{preemptions}; it has {counted(workload.pods, 'pod')}"
            yield _build_object_finding(PREEMPTED, workload.workload, message)


def _iter_growth_findings(growth: Growth) -> Iterator[Finding]:
    """Yield a warning for each victim of growth behind a Service, and one note about all other victims.

    Without a grown tier there are no findings.
    """
    tier = growth.tier
    if tier is None:
        return
    cause = f"{counted(tier.asked, 'more pod')} like {tier.like}, of tier {tier.tier},"
    for victim in growth.victims:
        if victim.services:
            evicted = f"{_format_evicted_pods([victim])}, behind Service {', '.join(victim.services)}"
            message = f"{cause} would preempt {evicted}{_format_violated_budgets(victim)}"
            yield _build_object_finding(VICTIMS, victim.workload, message, severity=WARNING)
    other_victims = [victim for victim in growth.victims if not victim.services]
    if other_victims:
        workloads = f"{counted(len(other_victims), 'workload')}, first {other_victims[0].workload}"
        further = "also " if len(other_victims) < len(growth.victims) else ""
        message = f"{cause} would {further}preempt {_format_evicted_pods(other_victims)} of {workloads}"
        yield _build_object_finding(VICTIMS, _format_tier_object(tier.tier), message)


def _format_evicted_pods(workloads: Sequence[EvictedWorkload]) -> str:
    """Return the number of evicted pods, and how many of them find no other node, as text."""
    pods = [pod for workload in workloads for pod in workload.pods]
    lost = sum(pod.fate != EvictionFate.MOVED for pod in pods)
    return counted(len(pods), "pod") + (f" ({lost:,} without another node)" if lost else "")


def _format_violated_budgets(evicted_workload: EvictedWorkload) -> str:
    """Return the PDBs of the evicted pods, or that there are none, as the end of a sentence."""
    budgets = sorted({name for pod in evicted_workload.pods for name in pod.budgets})
    return f", under PodDisruptionBudget {', '.join(budgets)}" if budgets else ", under no PodDisruptionBudget"


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
        message = (
            f"{exposed_pods} of {counted(len(workloads), 'workload')} behind Services may be evicted for "
            f"{counted(first.pods_above, 'pod')} of {', '.join(first.tiers_above)}{jobs_text}; "
            f"{unprotected:,} of these workloads without a PodDisruptionBudget"
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
    _, _, full_name = object_.partition(" ")
    namespace, slash, _ = full_name.partition("/")
    return rule.build_finding(
        object_, message, namespace=namespace if slash else "", severity=severity or rule.severity
    )


def _build_headline(
    tiers: Tiers,
    tier: GrownTier | None,
    victims: Sequence[EvictedWorkload],
    starving: Sequence[StarvingPods],
    exposed: Sequence[ExposedWorkload],
) -> str:
    """Return the numbers of tiers, of starving pods, of pods preempted by growth, and of exposed pods, as text.

    `tier` is the tier that was grown, if any, and `victims` are the workloads that would lose pods. Nothing is said
    about starving or exposed pods if there are none.
    """
    parts = [counted(len(tiers.priorities), "tier")]
    starving_count = sum(len(starving_pods.pods) for starving_pods in starving if starving_pods.lower_pods)
    if starving_count:
        parts.append(f"{counted(starving_count, 'pod')} starving")
    if tier is not None:
        evicted = sum(len(victim.pods) for victim in victims)
        evicted_text = counted(evicted, "pod") if evicted else "no pod"
        added_text = f"{counted(tier.asked, 'more pod')} of {_format_tier_name(tier.tier)}"
        outcome = f"{added_text} would preempt {evicted_text}"
        if tier.placed < tier.asked:
            of_asked = f" of the {tier.asked:,}" if tier.asked > 1 else ""
            finders = f"{tier.placed or 'none'}{of_asked} {agreeing(tier.placed or 1, 'finds', 'find')} a node"
            outcome += f"{'; ' if evicted else ': '}{finders}"
        parts.append(outcome)
    if exposed:
        parts.append(f"{counted(sum(workload.pods for workload in exposed), 'pod')} behind Services may be evicted")
    return "; ".join(parts)
