"""Priorities: the tiers in use, who starves, who would have to go first, and whom of those that serve users."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kschedctl.api.ages import format_age
from kschedctl.api.columns import NO_TIME
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.api.times import parse_microseconds
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.priorities.evictions import exposed, preempted
from kschedctl.commands.audit.priorities.growth import Growth, grown
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


def starving(audited: AuditedCluster, tiers: Tiers) -> tuple[StarvingPods, ...]:
    """By workload, the longest wait first: those that wait for room for longer than the threshold.

    Those that no eviction helps anywhere, as they match no node, do not starve, nor do those of the lowest tier before
    which nobody came. Nothing where no times are known.
    """
    after = audited.thresholds.priorities.starving_seconds
    groups: dict[tuple[str, int], list[tuple[float, Pod, Explanation]]] = {}
    for pod, explanation in _refused(audited):
        seconds = audited.seconds_since(pod.metadata.creation_timestamp)
        if seconds is not None and seconds > after:
            tier = int(tiers.of_pod[tiers.pods.index[pod.key]])
            groups.setdefault((str(find_owner(pod)), tier), []).append((seconds, pod, explanation))
    reports = (_report(audited, tiers, workload, tier, waiting) for (workload, tier), waiting in groups.items())
    starved = (report for report in reports if report.lower_pods or report.higher_started)
    return tuple(sorted(starved, key=lambda starving_pods: (-starving_pods.seconds, starving_pods.workload)))


def _refused(audited: AuditedCluster) -> Iterator[tuple[Pod, Explanation]]:
    for alike in audited.replay:
        if alike.explanation.verdict == "Unschedulable" and of_preemption(alike.explanation):
            yield from ((pod, alike.explanation) for pod in alike.pods)


def of_preemption(explanation: Explanation) -> str:
    """What comes of preemption for a pod that fits nowhere; empty where no eviction helps on any node."""
    preemption = explanation.preemption
    if preemption is None:
        return "is not tried"
    if preemption.terminating:
        return f"waits for {counted(len(preemption.terminating), 'victim')} to go"
    if not preemption.eligible or preemption.why:
        return preemption.why
    if preemption.candidates:
        return f"makes room on {counted(len(preemption.candidates), 'node')}"
    hopeless = {reason: nodes for reason, nodes in preemption.unhelpful.items() if reason != NOT_HELPFUL}
    return ", ".join(f"{reason} on {counted(nodes, 'node')}" for reason, nodes in hopeless.items())


def _report(
    audited: AuditedCluster, tiers: Tiers, workload: str, tier: int, waiting: list[tuple[float, Pod, Explanation]]
) -> StarvingPods:
    waiting.sort(key=lambda waiter: -waiter[0])
    seconds, oldest, explanation = waiting[0]
    created = oldest.metadata.creation_timestamp or ""
    lower, higher = tiers.running & (tiers.of_pod > tier), tiers.running & (tiers.of_pod < tier)
    since = (tiers.pods.start > parse_microseconds(created)) & (tiers.pods.start != NO_TIME)
    return StarvingPods(
        workload=workload,
        tier=tiers.names[tier],
        priority=int(tiers.values[tier]),
        pods=tuple(pod.key for _, pod, _ in waiting),
        seconds=seconds,
        age=format_age(created, audited.now),
        why=explanation.headline,
        preemption=of_preemption(explanation),
        lower_pods=int(np.count_nonzero(lower)),
        lower_started=int(np.count_nonzero(lower & since)),
        higher_started=int(np.count_nonzero(higher & since)),
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
NO_TIMES = UnknownKind("Age", "are not known without the time of the reading: --now TIME", VERDICT)


def priorities_section(audited: AuditedCluster) -> PrioritiesSection:
    """The tiers, and what follows from them."""
    limits = audited.thresholds.priorities
    tiers = Tiers(audited.scheduler.view)
    growth = grown(audited.scheduler, tiers, limits, audited.progress.begin("Growing a tier", limits.grow))
    waiting, facing = starving(audited, tiers), exposed(tiers)
    lost = preempted(tiers)
    findings = [*_of_starving(waiting), *_of_preempted(lost), *_of_growth(growth), *_of_exposed(facing)]
    return PrioritiesSection(
        title=TITLE,
        headline=_headline(tiers, growth.tier, growth.victims, waiting, facing),
        tiers=tiers.report(),
        grown=growth.tier,
        victims=growth.victims,
        starving=waiting,
        preempted=lost,
        exposed=facing,
        **build_verdict(RULES, findings, _unknown(audited, growth, len(tiers.values) > 1)),
    )


def _unknown(audited: AuditedCluster, growth: Growth, several: bool) -> tuple[UnknownKind, ...]:
    gaps = ((kind, audited.cluster.gap(kind)) for kind in ("Pod", "Service"))
    missing = [UnknownKind(kind, gap.why, VERDICT) for kind, gap in gaps if gap]
    events = audited.cluster.gap("Event")
    if events and several:  # nobody is preempted within one tier
        missing.append(UnknownKind("Event", events.why, VERDICT))
    if not audited.now and any(replayed.explanation.verdict == "Unschedulable" for replayed in audited.replay):
        missing.append(NO_TIMES)
    return merge_unknown_kinds([growth.unknown, missing])


def _of_starving(starving_pods: Sequence[StarvingPods]) -> Iterator[Finding]:
    for pod in starving_pods:
        rule = STARVING if pod.lower_pods else OVERTAKEN
        waits = f"{counted(len(pod.pods), 'pod')} of tier {pod.tier}, the oldest waits for {pod.age}"
        if pod.lower_pods:
            others = f"{pod.lower_pods:,} of lower tiers run, {pod.lower_started:,} of them started since"
        else:
            others = f"{pod.higher_started:,} of tiers above started since"
        message = f"{waits}; {others}: {pod.why}; preemption: {pod.preemption}"
        yield _about(rule, pod.workload, message)


def _of_preempted(workloads: Sequence[PreemptedWorkload]) -> Iterator[Finding]:
    """Where more pods went than there are, so that some of them were in place of others that went."""
    for workload in workloads:
        if workload.times > max(workload.pods, 1):
            last = f", last at {workload.last}" if workload.last else ""
            message = (
                f"{counted(workload.times, 'preemption')} that events tell of{last}; it has "
                f"{counted(workload.pods, 'pod')}"
            )
            yield _about(PREEMPTED, workload.workload, message)


def _of_growth(growth: Growth) -> Iterator[Finding]:
    """A warning for each workload that serves users, a note for all others together."""
    tier, others = growth.tier, [victim for victim in growth.victims if not victim.services]
    if tier is None:
        return
    grows = f"{counted(tier.asked, 'more pod')} like {tier.like}, of tier {tier.tier}"
    for victim in growth.victims:
        if victim.services:
            behind = ", ".join(victim.services)
            message = f"{grows}, evict {_gone([victim])}, behind Service {behind}{_broken(victim)}"
            yield _about(VICTIMS, victim.workload, message, severity=WARNING)
    if others:
        workloads = f"{counted(len(others), 'workload')}, first {others[0].workload}"
        yield _about(VICTIMS, _object(tier.tier), f"{grows}, evict {_gone(others)} of {workloads}")


def _gone(workloads: Sequence[EvictedWorkload]) -> str:
    pods = [pod for workload in workloads for pod in workload.pods]
    lost = sum(pod.fate != EvictionFate.MOVED for pod in pods)
    return counted(len(pods), "pod") + (f" ({lost:,} without another node)" if lost else "")


def _broken(evicted_workload: EvictedWorkload) -> str:
    budgets = sorted({name for pod in evicted_workload.pods for name in pod.budgets})
    return f", under PodDisruptionBudget {', '.join(budgets)}" if budgets else ", under no PodDisruptionBudget"


def _of_exposed(exposed_workloads: Sequence[ExposedWorkload]) -> Iterator[Finding]:
    """One a tier of them: the workloads are the section's evidence."""
    by_tier: dict[str, list[ExposedWorkload]] = {}
    for exposed_workload in exposed_workloads:
        by_tier.setdefault(exposed_workload.tier, []).append(exposed_workload)
    for tier, workloads in by_tier.items():
        first, pods = workloads[0], sum(workload.pods for workload in workloads)
        jobs = f", {first.jobs_above:,} of them of Jobs" if first.jobs_above else ""
        bare = sum(not workload.budgets for workload in workloads)
        message = (
            f"{counted(pods, 'pod')} of {counted(len(workloads), 'workload')} behind Services may be evicted for "
            f"{counted(first.pods_above, 'pod')} of {', '.join(first.tiers_above)}{jobs}; "
            f"{bare:,} of these workloads without a PodDisruptionBudget"
        )
        yield _about(EXPOSED, _object(tier), message, severity=WARNING if first.jobs_above else NOTE)


def _object(tier: str) -> str:
    return f"Priority {tier}" if _is_value(tier) else f"PriorityClass {tier}"


def _named(tier: str) -> str:
    return f"priority {tier}" if _is_value(tier) else tier


def _is_value(tier: str) -> bool:
    """A tier without a class is known by its value."""
    return tier.lstrip("-").isdecimal()


def _about(rule: AuditRule, object_: str, message: str, fix: str = "", *, severity: str = "") -> Finding:
    namespace, slash, _ = object_.partition(" ")[2].partition("/")
    return rule.build_finding(
        object_, message, fix, namespace=namespace if slash else "", severity=severity or rule.severity
    )


def _headline(
    tiers: Tiers,
    tier: GrownTier | None,
    victims: Sequence[EvictedWorkload],
    waiting: Sequence[StarvingPods],
    facing: Sequence[ExposedWorkload],
) -> str:
    said = [counted(len(tiers.values), "tier")]
    if starved := sum(len(starving_pods.pods) for starving_pods in waiting if starving_pods.lower_pods):
        said.append(f"{starved:,} {agreeing(starved, 'starves', 'starve')}")
    if tier is not None:
        evicted = sum(len(victim.pods) for victim in victims)
        said.append(
            f"{tier.asked:,} more of {_named(tier.tier)} {agreeing(tier.asked, 'evicts', 'evict')} "
            f"{f'{evicted:,}' if evicted else 'nobody'}"
        )
    if facing:
        said.append(f"{sum(workload.pods for workload in facing):,} behind Services may go")
    return "; ".join(said)
