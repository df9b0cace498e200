"""The command `kschedctl wakes`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from kschedctl.api.copying import replace
from kschedctl.cli import references as found_pods
from kschedctl.cli import subjects
from kschedctl.cli.inquiry import Inquiry, read_inquiry
from kschedctl.cli.options import PodsArgument, Scope, Source, with_options
from kschedctl.cli.output_options import Answer, Untabled
from kschedctl.cli.progress import show_progress
from kschedctl.cli.references import are_all_pods
from kschedctl.cli.run_options import choose_exit_code
from kschedctl.cli.source import load_cluster, with_context_namespace
from kschedctl.cluster import Cluster
from kschedctl.commands import wakes as library
from kschedctl.commands.wakes.report import WakesOfMany, WakeUps, WakeUpsOfMany
from kschedctl.errors import UsageError
from kschedctl.render.page import Commands
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.sources.documents.files import format_file_path
from kschedctl.sources.read import read_documents

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
    pods: PodsArgument = None,
    event: Annotated[
        str,
        typer.Option(
            "--event",
            metavar="FILE",
            help="Show which of the changes in this file make the scheduler retry pods. The file contains changed "
            "objects, watch events, or objects with the fields action, old and new.",
        ),
    ] = "",
    between: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--between",
            metavar="FILE FILE",
            help="Show which changes between two snapshots made the scheduler retry pods. Name the older snapshot "
            "first.",
        ),
    ] = None,
) -> Answer:
    """What makes the scheduler retry a rejected pod?

    The scheduler retries a rejected pod after an event that may help the pod. A plugin that rejected the pod has to be
    registered for the event, and the plugin's queueing hint must not rule the event out. Lists these events. With
    --event, shows for each change in the file whether it would wake the pod on its own. If no pod is named, shows which
    pending pods of the namespace the change wakes (-A: of all namespaces). With --between, shows which changes between
    two snapshots woke the pods that are pending in both. Pods that fit in the later snapshot but were not woken come
    first. They wait until the scheduler flushes unschedulable pods, after five minutes.
    """
    words = tuple(pods or ())
    names_other_cluster = bool(source.filename or source.demo or source.snapshot)
    if between is not None:
        if event or names_other_cluster:
            raise UsageError(
                "--between already names both clusters", hint="leave out --event, -f, --demo and --snapshot"
            )
        return _answer_between_snapshots(between, source, scope, words, view)
    inquiry = read_inquiry(source, scope.namespace, pods_alone=are_all_pods(words)).with_scheduler_name(
        scope.scheduler_name
    )
    targets = _find_target_pods(inquiry, source, scope, words)
    scope = with_context_namespace(scope, source, inquiry.cluster)
    report: WakeUps | WakeUpsOfMany | WakesOfMany
    if event:
        report = _report_effects_of_changes(inquiry, targets, scope, event)
    else:
        report = _report_wake_ups(inquiry, targets, scope)
    commands = _suggest_commands(report, inquiry.cluster, source, scope)
    return view.build_answer(report, _choose_exit_code(report), commands)


def _choose_exit_code(report: WakeUps | WakeUpsOfMany | WakesOfMany) -> int:
    """Return the exit code for a report."""
    # The report on one pod without changes is never partial
    interrupted = not isinstance(report, WakeUps) and report.interrupted
    return choose_exit_code(_is_command_successful(report), interrupted, report.undecided)


def _suggest_commands(
    report: WakeUps | WakeUpsOfMany | WakesOfMany, cluster: Cluster, source: Source, scope: Scope
) -> Commands:
    """Return the command to run next, under the key "".

    For several pods, the command lists the changes that wake the first rejected pod. For a pod that fits, the command
    explains why the pod still waits. Pods that are not in the cluster and effects of given changes have no command.
    """
    match report:
        case WakeUpsOfMany():
            command, pods = "wakes", [pod.pod for pod in report.pods if pod.rejectors]
        case WakeUps() if not report.queue and report.not_created is None:
            command, pods = "explain", [report.pod]
        case _:
            return {}
    stored = next((pod for pod in pods if cluster.pod(*pod.split("/", 1)) is not None), None)
    if stored is None:
        return {}
    return {"": source.build_command(command, stored, options=scope.to_cli_options())}


def _is_command_successful(report: WakeUps | WakeUpsOfMany | WakesOfMany) -> bool:
    """Return whether the command should exit with 0.

    If changes were given, one of them must wake a pod. Otherwise it must be possible to create all pods.
    """
    match report:
        case WakesOfMany():  # the effects of given changes
            return any(answer.woken for answer in report.answers)
        case WakeUpsOfMany():  # what would wake several pods
            return all(pod.not_created is None for pod in report.pods)
        case _:  # what would wake one pod
            return report.not_created is None


def _find_target_pods(inquiry: Inquiry, source: Source, scope: Scope, words: tuple[str, ...]) -> list[TargetPod] | None:
    """Find the pods named on the command line or defined in the files.

    Return None if neither names pods, which means all pending pods. Raises UsageError for an unknown pod or namespace.
    """
    if words:
        return subjects.find_named_targets(inquiry, words, scope, source)
    targets = subjects.find_targets_in_files(inquiry, scope)
    if targets is None:
        found_pods.require_existing_namespace(inquiry.cluster, with_context_namespace(scope, source, inquiry.cluster))
    return targets


def _report_wake_ups(inquiry: Inquiry, targets: Sequence[TargetPod] | None, scope: Scope) -> WakeUps | WakeUpsOfMany:
    """Report what would wake the target pods, or all pending pods if `targets` is None."""
    if targets is None:
        namespace = found_pods.get_scope_namespace(scope) or ""
        with show_progress() as progress:
            return library.pending_wake_ups(
                inquiry.cluster, namespace, selector=scope.selector or "", progress=progress
            )
    return library.find_wake_ups_of_targets(targets)


def _report_effects_of_changes(
    inquiry: Inquiry, targets: Sequence[TargetPod] | None, scope: Scope, file: str
) -> WakesOfMany:
    """Report which of the target pods the changes in `file` wake.

    If `targets` is None, report this for all pending pods in `scope`.
    """
    documents, path = read_documents(file), format_file_path(file)
    if targets is not None:
        return library.replay_changes_for_targets(targets, documents, where=path)
    namespace = found_pods.get_scope_namespace(scope) or ""
    selector = scope.selector or ""
    return library.wakes_by(inquiry.cluster, documents, namespace=namespace, selector=selector, where=path)


def _answer_between_snapshots(
    files: tuple[str, str], source: Source, scope: Scope, words: tuple[str, ...], view: Untabled
) -> Answer:
    """Compare the snapshots in two files, and answer which pods the changes woke and which pods were missed.

    The exit code says whether a pod was missed. `words` limit the pods.
    """
    before, after = (load_cluster(replace(source, snapshot=[file])) for file in files)
    keys = _find_pod_keys(before, scope, words, replace(source, snapshot=[files[0]]))
    namespace = found_pods.get_scope_namespace(scope) or ""
    selector = scope.selector or ""
    report = library.wakes_between(before, after, keys, namespace=namespace, selector=selector, names=files)
    has_missed_pods = any(pod.missed for pod in report.pods)
    return view.build_answer(
        report, choose_exit_code(not has_missed_pods, interrupted=False, undecided=report.undecided)
    )


def _find_pod_keys(before: Cluster, scope: Scope, words: tuple[str, ...], source: Source) -> list[str]:
    """Return the keys of the pods that the command line names, or [] if it names none.

    Raises UsageError if a pod is not in the snapshot.
    """
    if not words:
        return []
    try:
        targets = subjects.find_named_targets(Inquiry(before), words, scope, source)
    except UsageError as error:
        (file,) = source.snapshot
        raise UsageError(error.what, where=error.where or file, hint=error.hint) from None
    return [target.pod.key for target in targets]
