"""The search for fixes of one pod, including a pod whose creation the API server denies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.commands.explain.cycle_report import explain_pod
from kschedctl.commands.explain.fixes import (
    check_all_fixes_in_queue,
    count_affordable_checks,
    find_uncalled_extenders,
    search_fixes,
    should_search_fixes,
)
from kschedctl.commands.explain.new_pods import choose_replica
from kschedctl.commands.explain.one_pod import explain_target
from kschedctl.commands.explain.preempted_room import mention_rivals
from kschedctl.commands.explain.report import Explanation
from kschedctl.commands.explain.waiting import mention_rivals_and_next_node
from kschedctl.commands.remedies.report import Remedies, SearchReport
from kschedctl.fixes.document import build_remedy
from kschedctl.fixes.impossible import explain_impossible_fixes
from kschedctl.fixes.queue_checks import QueueChecks
from kschedctl.fixes.ranking import CheckedFix, RankedFix, Rollouts, move_smallest_fix_first
from kschedctl.fixes.rollout_results import RolloutResult
from kschedctl.fixes.search import RemedyCriteria, RemedySearch
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.controllers.unreplayed_admission import has_mutating_hooks
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.replay.shared_cluster import build_extender_notes
from kschedctl.replay.unknown import merge_unknown_kinds
from kschedctl.reports.not_created import NOT_CREATED, CreationFix, NotCreated
from kschedctl.reports.remedy import Remedy, sort_incomplete_and_costly_fixes_last
from kschedctl.text.counts import capitalize


def find_pod_remedies(
    target: TargetPod,
    criteria: RemedyCriteria = RemedyCriteria(),
    advance: Callable[[int], None] = lambda _: None,
    *,
    progress: Progress = NO_PROGRESS,
) -> Remedies:
    """Return the fixes of a pod, or of the pod that represents a workload.

    If the API server denies the pod, fixes of the denial come before the scheduling fixes. If it denies all pods of the
    workload, the verdict is NotCreated. `advance` is called for each set of changes that is tried. If the user
    interrupts, the report has the fixes so far.
    """
    not_created = target.not_created
    if not_created is None or not_created.past:  # the pod is created now
        target, report = _explain_created_pod(target)
        return _build_remedies_document(target, report, criteria, advance, progress)

    # The creation fails, so that a fix of the creation is needed first.
    document = _build_remedies_document(target, explain_target(target), criteria, advance, progress)
    if document.verdict == NOT_CREATED:
        return replace(document, remedies=tuple(build_creation_remedies(not_created, criteria)))
    document = prepend_creation_fix(document, not_created, criteria)
    some_pods_are_created = target.never_created is None
    if some_pods_are_created:  # the verdict is that on the created pods
        return document
    # No pod is created, whatever scheduling would answer, unless a webhook changes the pod
    undecided = document.undecided and has_mutating_hooks(target.scheduler.cluster)
    return replace(document, verdict=NOT_CREATED, headline=not_created.headline, undecided=undecided)


def _explain_created_pod(target: TargetPod) -> tuple[TargetPod, Explanation]:
    """Choose the replica that stands for the workload, and explain it.

    The explanation also mentions the waiting pods that would take its room before it. If the replica fits, they are
    mentioned only if it is a pod of the cluster.
    """
    target, replicas = choose_replica(target)
    report = replace(explain_pod(target.scheduler, target.pod), replicas=replicas)
    report = mention_rivals(target.scheduler, target.pod, report)
    stored = target.scheduler.cluster.pod(target.pod.metadata.namespace, target.pod.metadata.name)
    is_as_stored = stored is not None and target.scheduler.view.build_stored_pod(stored) == target.pod
    if is_as_stored:  # only the pods of the cluster are replayed in the queue
        report = mention_rivals_and_next_node(target.scheduler, report)
    return target, report


def _build_remedies_document(
    target: TargetPod,
    report: Explanation,
    criteria: RemedyCriteria,
    advance: Callable[[int], None],
    progress: Progress,
) -> Remedies:
    """Build the pod's remedies document from its explanation.

    Scheduling fixes are searched for if changes can help the pod. `advance` is called for each set of changes that is
    tried. Fixes whose rollout would do harm are explained among the impossible ones.
    """
    document = Remedies(
        pod=report.pod,
        verdict=report.verdict,
        headline=report.headline_with_preemption,
        preempts=report.preemption.chosen_victims if report.preemption is not None else (),
        preempts_instead=report.preemption.victims_on_tied_nodes if report.preemption is not None else (),
        stands_for=target.note,
        rivals=report.rivals,
        replicas=report.replicas,
        not_replayed=report.not_replayed,
        ignored=report.ignored,
        unknown=report.unknown,
        undecided=report.undecided,
    )
    if not should_search_fixes(report, target):
        return document

    on_tried = progress.begin("trying remedies", 0)

    def count_tried_sets(number: int) -> None:
        """Count tried sets of changes."""
        advance(number)
        on_tried(number)

    deadline = time.monotonic() + criteria.seconds
    search, ranking = search_fixes(target, criteria, count_tried_sets, deadline=deadline)
    rollouts = Rollouts(target.workload)
    checks = QueueChecks(search.trials, for_all_replicas=target.pending_replicas > 1)
    checked = _check_fixes(search, checks, ranking, rollouts, progress)
    remedies = [
        build_remedy(fix.ranked, search.trials.key, target.workload, rollout=rollout_result, result=fix.result)
        for fix, rollout_result in zip(checked.fixes, checked.rollout_results, strict=True)
    ]
    uncalled_extenders = find_uncalled_extenders(fix.ranked for fix in checked.fixes)
    return replace(
        document,
        remedies=sort_incomplete_and_costly_fixes_last(remedies),
        impossible=(*explain_impossible_fixes(search), *rollouts.iter_harmful()),
        extended=build_extender_notes(target.scheduler),
        searched=SearchReport(
            criteria.max_changes,
            search.trials.replayed,
            search.is_exhaustive,
            restricted=criteria.is_restricted,
            stopped_after=criteria.seconds if search.timed_out else 0,
        ),
        unknown=merge_unknown_kinds((document.unknown, uncalled_extenders)),
        interrupted=checked.interrupted,
    )


class _CheckedFixes(NamedTuple):
    """Fixes, as far as they were checked before the user interrupted."""

    fixes: Sequence[CheckedFix]
    rollout_results: Sequence[RolloutResult | None]
    """The result of each fix's rollout, or None if nothing is rolled out or the user interrupted."""
    interrupted: bool


def _check_fixes(
    search: RemedySearch,
    checks: QueueChecks,
    ranking: Sequence[RankedFix],
    rollouts: Rollouts,
    progress: Progress,
) -> _CheckedFixes:
    """Check the ranked fixes of a search against rollouts and against the other waiting pods.

    Fixes whose rollout does harm are left out, and `rollouts` can list them afterwards. If the search or the check is
    interrupted, the result has all ranked fixes unchecked.
    """
    fixes = [CheckedFix(fix, result=None) for fix in ranking]
    if search.interrupted:
        return _CheckedFixes(fixes, [None] * len(fixes), interrupted=True)
    on_checked = progress.begin(
        "checking remedies", min(len(ranking), count_affordable_checks(search.trials.scheduler))
    )
    try:
        harmless_fixes = rollouts.iter_harmless_fixes(ranking)
        in_queue = check_all_fixes_in_queue(harmless_fixes, checks, on_checked)
        fixes = move_smallest_fix_first(in_queue)
        return _CheckedFixes(fixes, [rollouts.replay(fix.ranked.trial) for fix in fixes], interrupted=False)
    except KeyboardInterrupt:
        return _CheckedFixes(fixes, [None] * len(fixes), interrupted=True)


def build_creation_remedies(not_created: NotCreated, criteria: RemedyCriteria) -> list[Remedy]:
    """Return the creation fixes that the user wants and after which the pod is not only created, but also scheduled.

    Fixes that the author of the manifest can make come before all others. Within each of these two groups, fixes that
    give up nothing come first.
    """
    sufficient_fixes = [fix for fix in not_created.fixes if fix.gets_pod_scheduled and meets_criteria(fix, criteria)]

    def get_rank(remedy: Remedy) -> tuple[int, int]:
        """Return the sort key of a fix, smallest for the best."""
        return 0 if remedy.by == "author" else 1, 1 if remedy.weakens else 0

    return sorted(map(build_creation_remedy, sufficient_fixes), key=get_rank)


def meets_criteria(fix: CreationFix, criteria: RemedyCriteria) -> bool:
    """Return whether the fix has few enough changes, all of kinds and by persons that the criteria allow."""
    return len(fix.kinds) <= criteria.max_changes and all(criteria.considers(kind, fix.by) for kind in fix.kinds)


def build_creation_remedy(fix: CreationFix) -> Remedy:
    """Return a fix of a pod's failed creation in the form of a remedy, whose summary starts with a capital letter."""
    return Remedy(
        summary=capitalize(fix.what),
        by=fix.by,
        weakens=fix.weakens or None,
        opens=fix.opens,
        commands=fix.commands,
        edits=fix.edits,
        changes=fix.changes,
        kinds=fix.kinds,
        owner=fix.owner,
        owner_patch=fix.owner_patch,
        restarts=fix.restarts,
        costs=fix.costs,
    )


def prepend_creation_fix(report: Remedies, not_created: NotCreated, criteria: RemedyCriteria) -> Remedies:
    """Put a creation fix before each scheduling fix in the report of an uncreated pod.

    This is the first creation fix that neither changes the pod nor weakens anything. Without one, no fixes remain.
    Scheduling fixes that change the pod are left out, because the API server might reject the changed pod. So are
    combinations with too many changes. Creation fixes after which the pod still waits are explained among the
    impossible fixes.
    """
    creation_fix = next((fix for fix in not_created.fixes if not fix.owner and not fix.weakens), None)
    combined_fixes: list[Remedy] = []
    if creation_fix is not None:
        combined_fixes = [
            _combine_creation_and_scheduling_fix(creation_fix, remedy) for remedy in report.remedies if not remedy.owner
        ]
    small_fixes = tuple(remedy for remedy in combined_fixes if len(remedy.kinds) <= criteria.max_changes)
    impossible = (*_explain_insufficient_fixes(not_created.fixes), *report.impossible)
    return replace(report, remedies=small_fixes, impossible=impossible)


def _combine_creation_and_scheduling_fix(fix: CreationFix, remedy: Remedy) -> Remedy:
    """Return a remedy that applies the creation fix and then the scheduling fix, both by the operator."""
    return replace(
        remedy,
        summary=f"{capitalize(fix.what)}, and {remedy.summary[:1].lower()}{remedy.summary[1:]}",
        by="operator",
        commands=(*fix.commands, *remedy.commands),
        changes=(*fix.changes, *remedy.changes),
        kinds=(*fix.kinds, *remedy.kinds),
    )


def _explain_insufficient_fixes(fixes: Sequence[CreationFix]) -> Iterator[str]:
    """Yield a line for each creation fix after which the pod is created but still waits, with the reason."""
    for fix in fixes:
        if not fix.gets_pod_scheduled:
            yield f"{fix.what}: the pod is then created but waits: {fix.then}"
