"""Find the fixes of one pod, including a pod that is not created yet."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from kschedctl.commands.explain.cycle_report import explain_pod
from kschedctl.commands.explain.fixes import check_in_queue, find_unheard_extenders, run_search, should_search_fixes
from kschedctl.commands.explain.one_pod import explain_target
from kschedctl.commands.explain.report import Explanation
from kschedctl.commands.remedies.creation_fixes import build_creation_remedies, prepend_creation_fix
from kschedctl.commands.remedies.report import Remedies, SearchReport
from kschedctl.fixes.document import build_remedy
from kschedctl.fixes.impossible import explain_impossible_fixes
from kschedctl.fixes.queue_checks import QueueChecks
from kschedctl.fixes.rollouts import Rollouts
from kschedctl.fixes.search import RemedyWishes
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.controllers.unreplayed_admission import has_mutating_hooks
from kschedctl.replay.shared_cluster import extender_notes
from kschedctl.replay.unknown import merge_unknown_kinds
from kschedctl.reports.not_created import NOT_CREATED
from kschedctl.reports.remedy import complete_first


def find_pod_remedies(
    asked: TargetPod, wishes: RemedyWishes = RemedyWishes(), progress: Callable[[int], None] = lambda _: None
) -> Remedies:
    """Return the fixes of a pod, or of the pod that represents a workload.

    `progress` is called for each set of changes that is tried.
    """
    not_created = asked.not_created
    if not_created is None or not_created.past:
        return _search_fixes(asked, explain_pod(asked.scheduler, asked.pod), wishes, progress)
    document = _search_fixes(asked, explain_target(asked), wishes, progress)
    if document.verdict == NOT_CREATED:
        return replace(document, remedies=tuple(build_creation_remedies(not_created, wishes)))
    document = prepend_creation_fix(document, not_created, wishes)
    if asked.never_created is None:
        return document
    undecided = document.undecided and has_mutating_hooks(asked.scheduler.cluster)
    return replace(document, verdict=NOT_CREATED, headline=not_created.headline, undecided=undecided)


def _search_fixes(
    asked: TargetPod, report: Explanation, wishes: RemedyWishes, progress: Callable[[int], None]
) -> Remedies:
    """Return the report of the pod, with scheduling fixes if it can be helped."""
    document = Remedies(
        pod=report.pod,
        verdict=report.verdict,
        headline=report.headline,
        stands_for=asked.note,
        not_replayed=report.not_replayed,
        ignored=report.ignored,
        unknown=report.unknown,
        undecided=report.undecided,
    )
    if not should_search_fixes(report, asked):
        return document
    search, ranking = run_search(asked, wishes, progress)
    rollouts = Rollouts(asked.workload)
    checked_fixes = check_in_queue(rollouts.iter_holding(ranking), QueueChecks(search.trials))
    return replace(
        document,
        remedies=complete_first(
            build_remedy(
                fix.ranked,
                search.trials.key,
                asked.workload,
                rollout=rollouts.replay(fix.ranked.trial),
                result=fix.result,
            )
            for fix in checked_fixes
        ),
        impossible=(*explain_impossible_fixes(search), *rollouts.iter_harmful()),
        extended=extender_notes(asked.scheduler),
        searched=SearchReport(wishes.max_changes, search.trials.replayed, search.exhausted),
        unknown=merge_unknown_kinds((document.unknown, find_unheard_extenders(fix.ranked for fix in checked_fixes))),
    )
