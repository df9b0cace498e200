"""``kschedctl wakes``: what makes the scheduler try a refused pod again?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from kschedctl.api.copying import replace
from kschedctl.cli import pods as found_pods
from kschedctl.cli import subjects
from kschedctl.cli.answer import Answer
from kschedctl.cli.inquiry import Inquiry, read_inquiry
from kschedctl.cli.options import Scope, Source, Untabled, with_options
from kschedctl.cli.references import are_pods
from kschedctl.cli.run_options import exit_code
from kschedctl.cli.source import in_context, load
from kschedctl.errors import UsageError
from kschedctl.reports.wakes import WakesOfMany, WakeUps, WakeUpsOfMany
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.sources.documents.files import shown
from kschedctl.sources.read import read_documents
from kschedctl.studies.controllers.asked_pod import AskedPod
from kschedctl.studies.controllers.workload_pods import is_waiting
from kschedctl.studies.waking.between import wakes_between
from kschedctl.studies.waking.changes import changes_of
from kschedctl.studies.waking.many import several, wake_ups_of_many, wakes_of_many, wakes_of_these
from kschedctl.studies.waking.wake_ups import never_created, wake_ups

EXAMPLES = (
    "kschedctl wakes shop/web-6d4cf56db6-h8s2k",
    "kschedctl wakes web -n shop --event node.yaml",
    "kschedctl wakes -A --event node.yaml --snapshot prod.ksnap",
    "kschedctl wakes -A --between monday.ksnap tuesday.ksnap",
)


@with_options
def wakes(
    *,
    source: Source,
    scope: Scope,
    view: Untabled,
    pods: Annotated[
        list[str] | None,
        typer.Argument(metavar="[POD]…", help="name, pod/name, namespace/name, or deploy/name, sts/name, job/name …"),
    ] = None,
    event: Annotated[
        str,
        typer.Option(
            "--event", metavar="FILE", help="Objects as applied, or events: {action, old, new}, or of a watch."
        ),
    ] = "",
    between: Annotated[
        tuple[str, str] | None,
        typer.Option("--between", metavar="FILE FILE", help="What of all that changed between two snapshots woke it."),
    ] = None,
) -> Answer:
    """What makes the scheduler try a refused pod again?

    A refused pod waits for an event that a plugin which refused it registered, and whose hint says that it may help.
    Lists these events. With --event: whether these changes, each by itself, wake the pod, or which pending pods of the
    namespace (-A: of all). With --between: which changes between two snapshots woke the pods that were pending in
    both; first come pods that fit in the later one and that nothing woke: they wait for the flush of unschedulable
    pods, after five minutes.
    """
    words = tuple(pods or ())
    if between is not None:
        if event or source.filename or source.demo or source.snapshot:
            raise UsageError("--between names both clusters", hint="leave --event, -f, --demo and --snapshot out")
        return _between(between, source, scope, words, view)
    inquiry = read_inquiry(source, scope.namespace, pods_alone=are_pods(words)).asking_for(scope.scheduler_name)
    asked = _asked(inquiry, source, scope, words)
    scope = in_context(scope, source, inquiry.cluster)
    report = _of_event(inquiry, asked, scope, event) if event else _wake_ups(inquiry, asked, scope)
    return view.answer(report, exit_code(_is_good(report), interrupted=False, undecided=report.undecided))


def _is_good(report: WakeUps | WakeUpsOfMany | WakesOfMany) -> bool:
    """Whether the scheduler sees all the pods; where changes were asked about, whether one of these wakes a pod."""
    match report:
        case WakesOfMany():
            return any(answer.woken for answer in report.answers)
        case WakeUpsOfMany():
            return all(pod.not_created is None for pod in report.pods)
        case _:
            return report.not_created is None


def _asked(inquiry: Inquiry, source: Source, scope: Scope, words: tuple[str, ...]) -> list[AskedPod] | None:
    """The pods that are named or stand in files; None for all that are pending."""
    if words:
        return subjects.named(inquiry, words, scope, source)
    asked_pods = subjects.of_files(inquiry, scope)
    if asked_pods is None:
        found_pods.check_namespace(inquiry.cluster, in_context(scope, source, inquiry.cluster))
    return asked_pods


def _wake_ups(inquiry: Inquiry, asked: Sequence[AskedPod] | None, scope: Scope) -> WakeUps | WakeUpsOfMany:
    if asked is None:
        waiting = found_pods.pending(inquiry.cluster, scope)
        return wake_ups_of_many(inquiry.scheduler, waiting, found_pods.describe(scope))
    reports = [replace(_of_one(asked_pod), stands_for=asked_pod.note) for asked_pod in asked]
    return reports[0] if len(reports) == 1 else several(reports)


def _of_one(asked: AskedPod) -> WakeUps:
    if lacking := asked.never_created:
        return never_created(asked.scheduler, asked.pod, lacking)
    return wake_ups(asked.scheduler, asked.pod)


def _of_event(inquiry: Inquiry, asked: Sequence[AskedPod] | None, scope: Scope, file: str) -> WakesOfMany:
    documents = read_documents(file)
    scheduler = asked[0].scheduler if asked else inquiry.scheduler
    changes = changes_of(documents, scheduler.view, where=shown(file))
    if asked is None:
        return wakes_of_many(scheduler, found_pods.pending(inquiry.cluster, scope), changes, found_pods.describe(scope))
    created = [asked_pod.pod for asked_pod in asked if asked_pod.never_created is None]
    lacking = tuple(found for asked_pod in asked if (found := asked_pod.never_created))
    return replace(wakes_of_these(scheduler, created, changes), not_created=lacking)


def _between(files: tuple[str, str], source: Source, scope: Scope, words: tuple[str, ...], view: Untabled) -> Answer:
    before, after = (Scheduler(load(replace(source, snapshot=[file]))) for file in files)
    if (moments := _moments(before, after)) and moments[0] > moments[1]:
        raise UsageError(f"{files[0]} was read at {moments[0]}, {files[1]} before", hint="name the earlier one first")
    keys = _keys(before, scope, words, replace(source, snapshot=[files[0]]))
    report = wakes_between(before, after, keys, files, ended=bool(words))
    missed = any(pod.missed for pod in report.pods)
    return view.answer(report, exit_code(not missed, interrupted=False, undecided=report.undecided))


def _moments(*several: Scheduler) -> list[str]:
    """When the live clusters were read; empty where that is not known of some."""
    pictures = [scheduler.cluster.provenance for scheduler in several]
    return [provenance.read_at for provenance in pictures if provenance and provenance.read_at] if all(pictures) else []


def _keys(before: Scheduler, scope: Scope, words: tuple[str, ...], source: Source) -> frozenset[str]:
    """The pods that are meant, by their keys. Raises UsageError for one that does not wait in the first snapshot."""
    inquiry, (file,) = Inquiry(before.cluster), source.snapshot
    if not words:
        return frozenset(pod.key for pod in found_pods.pending(before.cluster, scope))
    try:
        named = [asked_pod.pod for asked_pod in subjects.named(inquiry, words, scope, source)]
    except UsageError as error:
        raise UsageError(error.what, where=error.where or file, hint=error.hint) from None
    for pod in named:
        if not is_waiting(pod):
            raise UsageError(f'pod "{pod.key}" is not pending in {file}', hint="only pods that wait can be woken")
    return frozenset(pod.key for pod in named)
