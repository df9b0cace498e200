"""Section "priorities": priority tiers, starving pods, the victims of a growing tier, and exposed pods behind Services.

`tiers` has the tiers as arrays, `preemptions` finds pods that were, may be or would be preempted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from kschedctl.reports.unknown import VERDICT, UnknownKind
from kschedctl.scheduler.engine.preemption.dry_run import NOT_HELPFUL
from kschedctl.text.counts import agreeing, counted


def find_starving_pods(audited: AuditedCluster, tiers: Tiers) -> tuple[StarvingPods, ...]:
    """Return the pods that wait for room longer than the threshold, by workload, longest wait first.

    Pods that match no node do not starve, since preemption cannot help them. Pods of the lowest tier starve only if
    pods of higher tiers started meanwhile. Without the time of the cluster nothing is returned.
    """
    threshold = audited.thresholds.priorities.starving_seconds
    groups: dict[tuple[str, int], list[tuple[float, Pod, Explanation]]] = {}
    for pod, explanation in _iter_unschedulable_pods(audited):
        seconds = audited.seconds_since(pod.metadata.creation_timestamp)
        if seconds is not None and seconds > threshold:
            tier = int(tiers.tier_by_pod[tiers.pods.index[pod.key]])
            groups.setdefault((str(find_owner(pod)), tier), []).append((seconds, pod, explanation))
    reports = (
        _build_starving_pods(audited, tiers, workload, tier, waiting) for (workload, tier), waiting in groups.items()
    )
    starving_reports = (report for report in reports if report.lower_pods or report.higher_started)
    return tuple(sorted(starving_reports, key=lambda starving_pods: (-starving_pods.seconds, starving_pods.workload)))


def _iter_unschedulable_pods(audited: AuditedCluster) -> Iterator[tuple[Pod, Explanation]]:
    """Yield the unschedulable pods for which preemption could make room on some node."""
    for replayed in audited.replay:
        if replayed.explanation.verdict == "Unschedulable" and describe_preemption(replayed.explanation):
            yield from ((pod, replayed.explanation) for pod in replayed.pods)


def describe_preemption(explanation: Explanation) -> str:
    """Return what preemption can do for an unschedulable pod, empty if no eviction helps on any node."""
    preemption = explanation.preemption
    if preemption is None:
        return "is not tried"
    if preemption.terminating:
        return f"waits for {counted(len(preemption.terminating), 'victim')} to go"
    if not preemption.eligible or preemption.why:
        return preemption.why
    if preemption.candidates:
        return f"makes room on {counted(len(preemption.candidates), 'node')}"
    other_reasons = {reason: nodes for reason, nodes in preemption.unhelpful.items() if reason != NOT_HELPFUL}
    return ", ".join(f"{reason} on {counted(nodes, 'node')}" for reason, nodes in other_reasons.items())


def _build_starving_pods(
    audited: AuditedCluster, tiers: Tiers, workload: str, tier: int, waiting: list[tuple[float, Pod, Explanation]]
) -> StarvingPods:
    """Build the report about the waiting pods of a workload. `waiting` has the seconds, the pod and its explanation."""
    waiting.sort(key=lambda waiter: -waiter[0])
    seconds, oldest, explanation = waiting[0]
    created = oldest.metadata.creation_timestamp or ""
    is_lower, is_higher = tiers.running & (tiers.tier_by_pod > tier), tiers.running & (tiers.tier_by_pod < tier)
    started_since = (tiers.pods.start > parse_microseconds(created)) & (tiers.pods.start != NO_TIME)
    return StarvingPods(
        workload=workload,
        tier=tiers.names[tier],
        priority=int(tiers.priorities[tier]),
        pods=tuple(pod.key for _, pod, _ in waiting),
        seconds=seconds,
        age=format_age(created, audited.now),
        why=explanation.headline,
        preemption=describe_preemption(explanation),
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
    "Keep room for it: more nodes, or pods of a negative priority that may go first",
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
    starving, exposed = find_starving_pods(audited, tiers), find_exposed_workloads(tiers)
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
        grown=growth.tier,
        victims=growth.victims,
        starving=starving,
        preempted=preempted,
        exposed=exposed,
        **build_verdict(RULES, findings, _find_unknowns(audited, growth, len(tiers.priorities) > 1)),
    )


def _find_unknowns(audited: AuditedCluster, growth: Growth, has_several_tiers: bool) -> tuple[UnknownKind, ...]:
    """Return the unread data that the section depends on. Events matter only if there are several tiers."""
    gaps = ((kind, audited.cluster.gap(kind)) for kind in ("Pod", "Service"))
    missing = [UnknownKind(kind, gap.why, VERDICT) for kind, gap in gaps if gap]
    events = audited.cluster.gap("Event")
    if events and has_several_tiers:  # nobody is preempted within one tier
        missing.append(UnknownKind("Event", events.why, VERDICT))
    if not audited.now and any(replayed.explanation.verdict == "Unschedulable" for replayed in audited.replay):
        missing.append(NO_TIMES)
    return merge_unknown_kinds([growth.unknown, missing])


def _iter_starving_findings(starving_pods: Sequence[StarvingPods]) -> Iterator[Finding]:
    """Yield findings about starving pods."""
    for pod in starving_pods:
        rule = STARVING if pod.lower_pods else OVERTAKEN
        waits = f"{counted(len(pod.pods), 'pod')} of tier {pod.tier}, the oldest waits for {pod.age}"
        if pod.lower_pods:
            comparison = f"{pod.lower_pods:,} of lower tiers run, {pod.lower_started:,} of them started since"
        else:
            comparison = f"{pod.higher_started:,} of tiers above started since"
        message = f"{waits}; {comparison}: {pod.why}; preemption: {pod.preemption}"
        yield _build_finding(rule, pod.workload, message)


def _iter_preempted_findings(workloads: Sequence[PreemptedWorkload]) -> Iterator[Finding]:
    """Yield findings about workloads with more preemptions than pods, which shows that replacements were preempted."""
    for workload in workloads:
        if workload.times > max(workload.pods, 1):
            last = f", last at {workload.last}" if workload.last else ""
            message = (
                f"{counted(workload.times, 'preemption')} that events tell of{last}; it has "
                f"{counted(workload.pods, 'pod')}"
            )
            yield _build_finding(PREEMPTED, workload.workload, message)


def _iter_growth_findings(growth: Growth) -> Iterator[Finding]:
    """Yield a warning for each victim behind a Service, and a note about all other victims."""
    tier, other_victims = growth.tier, [victim for victim in growth.victims if not victim.services]
    if tier is None:
        return
    growth_text = f"{counted(tier.asked, 'more pod')} like {tier.like}, of tier {tier.tier}"
    for victim in growth.victims:
        if victim.services:
            behind = ", ".join(victim.services)
            evicted = f"{_format_evicted_pods([victim])}, behind Service {behind}"
            message = f"{growth_text}, evict {evicted}{_format_violated_budgets(victim)}"
            yield _build_finding(VICTIMS, victim.workload, message, severity=WARNING)
    if other_victims:
        workloads = f"{counted(len(other_victims), 'workload')}, first {other_victims[0].workload}"
        yield _build_finding(
            VICTIMS,
            _format_tier_object(tier.tier),
            f"{growth_text}, evict {_format_evicted_pods(other_victims)} of {workloads}",
        )


def _format_evicted_pods(workloads: Sequence[EvictedWorkload]) -> str:
    """Return the number of evicted pods, and how many of them find no other node, as text."""
    pods = [pod for workload in workloads for pod in workload.pods]
    lost = sum(pod.fate != EvictionFate.MOVED for pod in pods)
    return counted(len(pods), "pod") + (f" ({lost:,} without another node)" if lost else "")


def _format_violated_budgets(evicted_workload: EvictedWorkload) -> str:
    """Return the PDBs of the evicted pods as text."""
    budgets = sorted({name for pod in evicted_workload.pods for name in pod.budgets})
    return f", under PodDisruptionBudget {', '.join(budgets)}" if budgets else ", under no PodDisruptionBudget"


def _iter_exposed_findings(exposed_workloads: Sequence[ExposedWorkload]) -> Iterator[Finding]:
    """Yield one finding for each tier with exposed workloads. The workloads themselves are evidence."""
    by_tier: dict[str, list[ExposedWorkload]] = {}
    for exposed_workload in exposed_workloads:
        by_tier.setdefault(exposed_workload.tier, []).append(exposed_workload)
    for tier, workloads in by_tier.items():
        first, pods = workloads[0], sum(workload.pods for workload in workloads)
        jobs = f", {first.jobs_above:,} of them of Jobs" if first.jobs_above else ""
        unprotected = sum(not workload.budgets for workload in workloads)
        message = (
            f"{counted(pods, 'pod')} of {counted(len(workloads), 'workload')} behind Services may be evicted for "
            f"{counted(first.pods_above, 'pod')} of {', '.join(first.tiers_above)}{jobs}; "
            f"{unprotected:,} of these workloads without a PodDisruptionBudget"
        )
        yield _build_finding(
            EXPOSED, _format_tier_object(tier), message, severity=WARNING if first.jobs_above else NOTE
        )


def _format_tier_object(tier: str) -> str:
    """Return the tier as the object of a finding."""
    return f"Priority {tier}" if _is_priority_value(tier) else f"PriorityClass {tier}"


def _format_tier_name(tier: str) -> str:
    """Return the name of the tier for use in a sentence."""
    return f"priority {tier}" if _is_priority_value(tier) else tier


def _is_priority_value(tier: str) -> bool:
    """Return whether the name of a tier is a priority value, which is so for tiers without a PriorityClass."""
    return tier.lstrip("-").isdecimal()


def _build_finding(rule: AuditRule, object_: str, message: str, fix: str = "", *, severity: str = "") -> Finding:
    """Build a finding about an object, whose name may contain the namespace."""
    namespace, slash, _ = object_.partition(" ")[2].partition("/")
    return rule.build_finding(
        object_, message, fix, namespace=namespace if slash else "", severity=severity or rule.severity
    )


def _build_headline(
    tiers: Tiers,
    tier: GrownTier | None,
    victims: Sequence[EvictedWorkload],
    starving: Sequence[StarvingPods],
    exposed: Sequence[ExposedWorkload],
) -> str:
    """Return the number of tiers, of starving pods and of victims, as text."""
    parts = [counted(len(tiers.priorities), "tier")]
    if starving_count := sum(len(starving_pods.pods) for starving_pods in starving if starving_pods.lower_pods):
        parts.append(f"{starving_count:,} starved")
    if tier is not None:
        evicted = sum(len(victim.pods) for victim in victims)
        parts.append(
            f"{tier.asked:,} more of {_format_tier_name(tier.tier)} {agreeing(tier.asked, 'evicts', 'evict')} "
            f"{f'{evicted:,}' if evicted else 'nobody'}"
        )
    if exposed:
        parts.append(f"{sum(workload.pods for workload in exposed):,} behind Services may go")
    return "; ".join(parts)
