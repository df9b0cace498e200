"""Search for the smallest changes that let a pod schedule, and verify each by replay."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from kschedctl.api.objects import Pod
from kschedctl.commands.explain.advice import RAISE_PRIORITY, add_rollout_limits_to_advice
from kschedctl.commands.explain.report import Advice, Explanation
from kschedctl.fixes.document import build_remedy
from kschedctl.fixes.impossible import explain_impossible_fixes, explain_too_large_requests
from kschedctl.fixes.proposals import iter_fixes_at_node, iter_node_independent_fixes
from kschedctl.fixes.queue_checks import QueueChecks
from kschedctl.fixes.ranking import CheckedFix, RankedFix, Rollouts, move_holding_fixes_forward, rank_trials
from kschedctl.fixes.search import RemedyCriteria, RemedySearch, count_affordable_replays
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.trials import Trials, build_stored_pod
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.pending_pods import is_pending
from kschedctl.replay.unknown import REMEDIES, merge_unknown_kinds, summarize_unknowns
from kschedctl.reports.remedy import Remedy, sort_incomplete_and_costly_fixes_last
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.framework.dependencies import Effect
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from kschedctl.scheduler.scheduler import Scheduler

FIXABLE_VERDICTS = ("Unschedulable", "NotResponsible")
"""The verdicts on pods that changes may help."""
FIXES_SHOWN = 7
"""The number of fixes in an explanation."""
FEWEST_CHECKED = 10
"""The number of fixes in a full list that are checked with all waiting pods, however many pods wait."""
CHECK_BUDGET = 2000
"""The cycles that may be replayed to check more fixes than that: about a second."""


def check_first_fixes_in_queue(ranking: Iterable[RankedFix], checks: QueueChecks, count: int) -> list[CheckedFix]:
    """Check the first `count` ranked fixes by replaying them with all waiting pods.

    Return the checked fixes, working ones first. If none of them works, more fixes are checked until one works, which
    then replaces the last one.
    """
    fixes: list[CheckedFix] = []
    some_fix_works = False
    for ranked_fix in ranking:
        if len(fixes) >= count and some_fix_works:
            break
        fix = checks.find_best_variant(ranked_fix)
        some_fix_works = some_fix_works or not fix.fails
        if len(fixes) < count or not fix.fails:
            fixes.append(fix)
    return move_holding_fixes_forward(fixes)[:count]


def check_all_fixes_in_queue(
    ranking: Iterable[RankedFix], checks: QueueChecks, on_checked: Callable[[int], None]
) -> list[CheckedFix]:
    """Check ranked fixes by replaying them with all waiting pods, and return all of them, working ones first.

    Once the affordable number of fixes is checked and one of them works, the other fixes stay unchecked. `on_checked`
    is called with 1 after each check.
    """
    affordable = count_affordable_checks(checks.trials.scheduler)
    fixes: list[CheckedFix] = []
    some_fix_works = False
    for ranked_fix in ranking:
        if len(fixes) >= affordable and some_fix_works:
            fixes.append(CheckedFix(ranked_fix, result=None))
            continue
        fix = checks.find_best_variant(ranked_fix)
        on_checked(1)
        some_fix_works = some_fix_works or not fix.fails
        fixes.append(fix)
    return move_holding_fixes_forward(fixes)


def count_affordable_checks(scheduler: Scheduler) -> int:
    """Return how many fixes can be checked with all waiting pods: the more pods and nodes, the fewer."""
    waiting = sum(map(is_pending, scheduler.cluster.unbound_pods()))
    cycles = count_affordable_replays(CHECK_BUDGET, len(scheduler.view.nodes))
    return max(cycles // max(waiting, 1), FEWEST_CHECKED)


def find_uncalled_extenders(best: Iterable[RankedFix]) -> tuple[UnknownKind, ...]:
    """Return the uncalled extenders that might reject the nodes on which fixes make the pod fit."""
    uncalled_extenders = (extender for candidate in best for extender in candidate.trial.uncalled_extenders)
    return summarize_unknowns(uncalled_extenders, {Effect.NARROWS: REMEDIES})


def add_fixes(report: Explanation, target: TargetPod) -> Explanation:
    """Add the best fixes to an explanation, and the reasons why other kinds of fixes cannot help.

    Advice that the fixes make wrong or needless is changed or dropped. Return the explanation unchanged if no change
    could help. Raises KeyboardInterrupt if the user interrupts the search.
    """
    if not should_search_fixes(report, target):
        return report
    search, ranking = search_fixes(target, RemedyCriteria(smallest=True))
    if search.interrupted:
        raise KeyboardInterrupt
    rollouts = Rollouts(target.workload)
    harmless_fixes = rollouts.iter_harmless_fixes(ranking)
    checks = QueueChecks(search.trials, for_all_replicas=target.pending_replicas > 1)
    best = check_first_fixes_in_queue(harmless_fixes, checks, count=FIXES_SHOWN)
    remedies = []
    for fix in best:
        rollout = rollouts.replay(fix.ranked.trial)
        remedies.append(
            build_remedy(fix.ranked, search.trials.key, target.workload, rollout=rollout, result=fix.result)
        )
    shown = sort_incomplete_and_costly_fixes_last(remedies)

    # Why other kinds of fixes cannot help
    new_node = report.new_node
    new_node_helps = new_node is not None and any(pool.takes or pool.would_take for pool in new_node.pools)
    if shown:
        impossible = explain_too_large_requests(search.trials.base, fits_new_machine=new_node_helps)
    else:
        impossible = (*explain_impossible_fixes(search), *rollouts.iter_harmful())

    unknown = merge_unknown_kinds((report.unknown, find_uncalled_extenders(fix.ranked for fix in best)))
    advice = _adapt_advice_to_fixes(report.advice, shown, rollouts)
    return replace(report, remedies=shown, impossible=impossible, unknown=unknown, advice=advice)


def _adapt_advice_to_fixes(
    advice: tuple[Advice, ...], fixes: Iterable[Remedy], rollouts: Rollouts
) -> tuple[Advice, ...]:
    """Return the advice without what a fix says better, and with the rollout limits that its changes need.

    The advice to raise the priority is dropped if a fix names a sufficient PriorityClass.
    """
    if any(FixKind.USE_PRIORITY_CLASS in fix.kinds for fix in fixes):
        advice = tuple(entry for entry in advice if entry.kind != RAISE_PRIORITY)
    max_unavailable = rollouts.find_sufficient_max_unavailable(FixKind.SOFTEN_ANTI_AFFINITY)
    if max_unavailable is not None:
        advice = tuple(add_rollout_limits_to_advice(entry, max_unavailable) for entry in advice)
    return advice


def should_search_fixes(report: Explanation, target: TargetPod) -> bool:
    """Return whether a change could make the pod run, so that it is worth searching for fixes.

    A pod that is being deleted needs no fix. No fix is known for a pod that fits but waits at Permit or for the rest of
    its group, for a gang that another project's scheduler places, and for gates other than missing device claims.
    """
    if report.pod_group is not None:
        waits_for_group = bool(report.feasible)  # a node would take this pod, so the other members are what it lacks
        is_placed_by_other_project = bool(report.pod_group.decided_by)
        if waits_for_group or is_placed_by_other_project:
            return False

    gates = {name for name, status in report.queue.items() if status.code != Code.SUCCESS}
    is_gated_by_claims_only = report.verdict == "Gated" and gates == {DynamicResources.name}
    has_fixable_verdict = report.verdict in FIXABLE_VERDICTS or is_gated_by_claims_only
    is_being_deleted = target.pod.metadata.deletion_timestamp is not None
    return has_fixable_verdict and not report.permit and not is_being_deleted


def search_fixes(
    target: TargetPod,
    criteria: RemedyCriteria,
    progress: Callable[[int], None] = lambda _: None,
    *,
    deadline: float = math.inf,
) -> tuple[RemedySearch, list[RankedFix]]:
    """Search for fixes, and return the search and the fixes, best first.

    If the target's workload has no pods yet, all of its replicas are pending, and fixes are checked with all of them.
    `progress` is called with 1 for each set of changes that is tried. The search ends at the `deadline` by the
    monotonic clock.
    """
    if target.workload is not None:
        from kschedctl.replay.controllers.other_replicas import add_other_replicas  # noqa: PLC0415 - not for a pod

        target = add_other_replicas(target)
    search = RemedySearch(
        Trials(target.scheduler, choose_pod_to_change(target)),
        iter_fixes_at_node,
        iter_node_independent_fixes,
        criteria,
        deadline=deadline,
        progress=progress,
    )
    return search, rank_trials(search.run())


def choose_pod_to_change(target: TargetPod) -> Pod:
    """Return the pod of the manifest or of the cluster, so that fixes change that object.

    If the question changed the pod's spec, for example by --as-if, return the changed pod.
    """
    meta, view = target.pod.metadata, target.scheduler.view
    for pod in (target.workload, target.scheduler.cluster.pod(meta.namespace, meta.name)):
        if isinstance(pod, Pod) and build_stored_pod(pod, view).spec == target.pod.spec:
            return pod
    return target.pod
