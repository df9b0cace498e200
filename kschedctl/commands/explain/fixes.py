"""What would let this pod schedule? The smallest changes, each replayed before it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from kschedctl.api.objects import Pod
from kschedctl.commands.explain.report import Explanation
from kschedctl.fixes.catalogue import against, everywhere
from kschedctl.fixes.document import remedy_of
from kschedctl.fixes.impossible import impossible, too_large
from kschedctl.fixes.queue_checks import QueueChecks
from kschedctl.fixes.ranking import CheckedFix, Ranked, holding_first, ranked
from kschedctl.fixes.rollouts import Rollouts
from kschedctl.fixes.search import RemedySearch, RemedyWishes
from kschedctl.fixes.trial.trials import Trials, held
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.unknown import REMEDIES, merge_unknown_kinds, summarize_unknowns
from kschedctl.reports.remedy import complete_first
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.framework.dependencies import Effect
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources

HELPED = ("Unschedulable", "NotResponsible")
"""The verdicts on pods that changes may help; another one says for itself why there is nothing to do."""
SHOWN = 7
"""So many of the best go with an explanation."""
CHECKED = 10
"""The number of fixes in a full list that are checked with all waiting pods."""


def check_in_queue(ranking: Iterable[Ranked], checks: QueueChecks, count: int | None = None) -> list[CheckedFix]:
    """Check ranked fixes with all waiting pods, and return the first ``count`` of them, those first that hold.

    If none of the first ones holds, the following ones are checked until one does. Without a ``count`` all are
    returned, the later ones unchecked.
    """
    fixes: list[CheckedFix] = []
    for candidate in ranking:
        enough = len(fixes) >= (count or CHECKED) and not all(fix.fails for fix in fixes)
        if enough and count is not None:
            break
        fix = CheckedFix(candidate, None) if enough else checks.best_variant(candidate)
        if count is None or len(fixes) < count or not fix.fails:
            fixes.append(fix)
    return holding_first(fixes)[:count]


def unheard(best: Iterable[Ranked]) -> tuple[UnknownKind, ...]:
    """The extenders that might reject what the remedies make fit."""
    return summarize_unknowns(
        (unknown for candidate in best for unknown in candidate.trial.unheard), {Effect.NARROWS: REMEDIES}
    )


def with_remedies(report: Explanation, asked: TargetPod) -> Explanation:
    """An explanation with the best of the smallest remedies, and why kinds of them cannot exist."""
    if not may_help(report, asked):
        return report
    search, ranking = searched(asked, RemedyWishes(smallest=True))
    rollouts = Rollouts(asked.workload)
    best = check_in_queue(rollouts.holding(ranking), QueueChecks(search.trials), SHOWN)
    shown = complete_first(
        remedy_of(
            fix.ranked, search.trials.key, asked.workload, rolled=rollouts.of(fix.ranked.trial), result=fix.result
        )
        for fix in best
    )
    new_node = report.new_node
    new_machine = new_node is not None and any(pool.takes or pool.would_take for pool in new_node.pools)
    lines = (
        too_large(search.trials.base, new_machine=new_machine) if shown else (*impossible(search), *rollouts.refused())
    )
    unknown = merge_unknown_kinds((report.unknown, unheard(fix.ranked for fix in best)))
    return replace(report, remedies=shown, impossible=lines, unknown=unknown)


def may_help(report: Explanation, asked: TargetPod) -> bool:
    """Whether changes are looked for: also where only claims for devices that are not there hold the pod back.

    Not for a pod that fits by itself, and that its group holds back, nor for one of another project's gang: changes are
    replayed for the pod alone.
    """
    if report.pod_group is not None and (report.feasible or report.pod_group.decided_by):
        return False
    gates = {name for name, status in report.queue.items() if status.code != Code.SUCCESS}
    helped = report.verdict in HELPED or (report.verdict == "Gated" and gates == {DynamicResources.name})
    return helped and not report.permit and asked.pod.metadata.deletion_timestamp is None


def searched(
    asked: TargetPod, wishes: RemedyWishes, progress: Callable[[int], None] = lambda _: None
) -> tuple[RemedySearch, list[Ranked]]:
    """The search when it is over, and what it found in order."""
    search = RemedySearch(Trials(asked.scheduler, as_read(asked)), against, everywhere, wishes, progress=progress)
    return search, ranked(search.run())


def as_read(asked: TargetPod) -> Pod:
    """The pod as it stands in the cluster or its manifest; one asked about as if it were otherwise is that."""
    meta, view = asked.pod.metadata, asked.scheduler.view
    for pod in (asked.workload, asked.scheduler.cluster.pod(meta.namespace, meta.name)):
        if isinstance(pod, Pod) and held(pod, view).spec == asked.pod.spec:
            return pod
    return asked.pod
