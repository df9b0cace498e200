"""Pods that wait too long while others run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kschedctl.api.columns import NO_TIME
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import owner_of
from kschedctl.api.times import microseconds
from kschedctl.reports.audit.priorities import StarvingPods
from kschedctl.reports.explanation import Explanation
from kschedctl.scheduler.engine.preemption.dry_run import NOT_HELPFUL
from kschedctl.studies.ages import age
from kschedctl.studies.audit.ground import Ground
from kschedctl.studies.priorities.tiers import Tiers
from kschedctl.studies.priorities.words import counted


def starving(ground: Ground, tiers: Tiers) -> tuple[StarvingPods, ...]:
    """By workload, the longest wait first: those that wait for room for longer than the threshold.

    Those that no eviction helps anywhere, as they match no node, do not starve, nor do those of the lowest tier before
    which nobody came. Nothing where no times are known.
    """
    after = ground.thresholds.priorities.starving_seconds
    groups: dict[tuple[str, int], list[tuple[float, Pod, Explanation]]] = {}
    for pod, explanation in _refused(ground):
        seconds = ground.seconds_since(pod.metadata.creation_timestamp)
        if seconds is not None and seconds > after:
            tier = int(tiers.of_pod[tiers.pods.index[pod.key]])
            groups.setdefault((str(owner_of(pod)), tier), []).append((seconds, pod, explanation))
    reports = (_report(ground, tiers, workload, tier, waiting) for (workload, tier), waiting in groups.items())
    found = (each for each in reports if each.lower_pods or each.higher_started)
    return tuple(sorted(found, key=lambda each: (-each.seconds, each.workload)))


def _refused(ground: Ground) -> Iterator[tuple[Pod, Explanation]]:
    for alike in ground.replay:
        if alike.explanation.verdict == "Unschedulable" and of_preemption(alike.explanation):
            yield from ((pod, alike.explanation) for pod in alike.pods)


def of_preemption(explanation: Explanation) -> str:
    """What comes of preemption for a pod that fits nowhere; empty where no eviction helps on any node."""
    found = explanation.preemption
    if found is None:
        return "is not tried"
    if found.terminating:
        return f"waits for {counted(len(found.terminating), 'victim')} to go"
    if not found.eligible or found.why:
        return found.why
    if found.candidates:
        return f"makes room on {counted(len(found.candidates), 'node')}"
    hopeless = {reason: nodes for reason, nodes in found.unhelpful.items() if reason != NOT_HELPFUL}
    return ", ".join(f"{reason} on {counted(nodes, 'node')}" for reason, nodes in hopeless.items())


def _report(
    ground: Ground, tiers: Tiers, workload: str, tier: int, waiting: list[tuple[float, Pod, Explanation]]
) -> StarvingPods:
    waiting.sort(key=lambda each: -each[0])
    seconds, oldest, explanation = waiting[0]
    created = oldest.metadata.creation_timestamp or ""
    lower, higher = tiers.running & (tiers.of_pod > tier), tiers.running & (tiers.of_pod < tier)
    since = (tiers.pods.start > microseconds(created)) & (tiers.pods.start != NO_TIME)
    return StarvingPods(
        workload=workload,
        tier=tiers.names[tier],
        priority=int(tiers.values[tier]),
        pods=tuple(pod.key for _, pod, _ in waiting),
        seconds=seconds,
        age=age(created, ground.now),
        why=explanation.headline,
        preemption=of_preemption(explanation),
        lower_pods=int(np.count_nonzero(lower)),
        lower_started=int(np.count_nonzero(lower & since)),
        higher_started=int(np.count_nonzero(higher & since)),
    )
