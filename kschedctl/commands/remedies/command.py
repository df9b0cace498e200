"""Command line of `kschedctl remedies`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, TypeVar

import typer
from msgspec import structs

from kschedctl.cli import references as found_pods
from kschedctl.cli import subjects
from kschedctl.cli.autoscaler_options import Autoscalers, KarpenterInput, NodeGroupInput
from kschedctl.cli.extender_options import Extending, collect_pod_extras
from kschedctl.cli.inquiry import Inquiry, read_inquiry
from kschedctl.cli.options import PodArgument, Scope, Source, with_options
from kschedctl.cli.output_options import (
    SCHEDULES,
    TABLE,
    UNDECIDED,
    Answer,
    Output,
    OutputFormat,
    declare_output_option,
)
from kschedctl.cli.progress import show_progress
from kschedctl.cli.references import are_all_pods
from kschedctl.cli.run_options import choose_exit_code
from kschedctl.cli.source import (
    AUTOSCALED_KINDS,
    CREATION_FAILURE_KINDS,
    HELD_BACK_KINDS,
    LiveKinds,
    get_cluster_time,
    with_context_namespace,
)
from kschedctl.commands.explain.named_elsewhere import (
    add_kueue_fixes,
    build_waiting_objects_report,
    find_new_resources,
    report_new_resources,
)
from kschedctl.commands.explain.report import FINE
from kschedctl.commands.remedies import find_manifest_remedies, find_remedies_with_room, pending_remedies
from kschedctl.commands.remedies.report import Remedies, RemediesOfMany
from kschedctl.errors import UsageError
from kschedctl.fixes.search import MAX_SEARCH_SECONDS, RemedyCriteria
from kschedctl.fixes.trial.fix_kinds import FixKind, PoolFixKind
from kschedctl.replay.controllers.creation_fix_steps import StepKind
from kschedctl.replay.controllers.manifests import locate_errors
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.waiting_elsewhere import find_objects_waiting_elsewhere
from kschedctl.reports.waiting_elsewhere import (
    WaitingElsewhere,
    find_unadmitted_objects,
    has_unadmitted,
    has_unchecked_objects,
)

EXAMPLES = (
    "kschedctl remedies shop/web-6d4cf56db6-h8s2k",
    "kschedctl remedies deploy/web -n shop --by author -o patch",
    "kschedctl remedies web -n shop --without Tolerate,DropSelector",
    "kschedctl remedies -A",
    "helm template web ./web | kschedctl remedies -f - -n shop",
)


AnyRemedies = TypeVar("AnyRemedies", Remedies, RemediesOfMany)


class Maker(StrEnum):
    """The person who makes a change."""

    AUTHOR = "author"
    OPERATOR = "operator"


@dataclass(frozen=True)
class RemediesOutput(Output):
    """The output formats of remedies."""

    output: Annotated[
        OutputFormat, declare_output_option("table", "wide", "json", "yaml", "markdown", "html", "patch")
    ] = TABLE


@with_options
def remedies(
    *,
    source: Source,
    scope: Scope,
    view: RemediesOutput,
    extending: Extending,
    node_groups: NodeGroupInput,
    karpenter: KarpenterInput,
    pods: PodArgument = None,
    max_changes: Annotated[
        int,
        typer.Option("--max-changes", metavar="NUMBER", min=1, max=3, help="Maximum number of changes per fix."),
    ] = 3,
    by: Annotated[
        Maker | None,
        typer.Option(
            "--by",
            metavar="author|operator",
            help="Suggest only changes that the app team (author) or the platform team (operator) can make.",
        ),
    ] = None,
    only: Annotated[
        str,
        typer.Option(
            "--only",
            metavar="KIND,…",
            help="Suggest only these kinds of changes, such as Tolerate,AddNode (-o json shows the kinds of each "
            "fix).  [default: all]",
        ),
    ] = "",
    without: Annotated[
        str,
        typer.Option(
            "--without",
            metavar="KIND,…",
            help="Do not suggest these kinds of changes, such as Tolerate,AddNode (-o json shows the kinds of each "
            "fix).",
        ),
    ] = "",
    seconds: Annotated[
        int,
        typer.Option(
            "--search-seconds",
            metavar="NUMBER",
            min=1,
            help="Time limit for the search, in seconds. Usually the search ends earlier, at a fixed number of "
            "replays, so that the result does not depend on the machine.",
        ),
    ] = int(MAX_SEARCH_SECONDS),
) -> Answer:
    """What are the smallest changes that would let this pod schedule? Each is verified by replay.

    The changes concern the pod's manifest, nodes, and pods in its way. Changes that keep the workload as it is come
    first. Changes that give up a guarantee or lose something come last. No fix contains an unnecessary change. Nothing
    is executed. Without a POD, finds the few changes that would let most of the pending pods in the namespace schedule
    (-A: in all namespaces).
    """
    criteria = RemedyCriteria(
        max_changes,
        by=by or "",
        only=_parse_change_kinds(only, "--only"),
        without=_parse_change_kinds(without, "--without"),
        seconds=seconds,
    )
    pod_arguments = tuple(pods or ())
    autoscaler_kinds = Autoscalers(source, karpenter, node_groups).live
    with extending.open_caller() as call_extender:
        inquiry = _read_inquiry(source, scope, pod_arguments, autoscaler_kinds)
        inquiry = replace(inquiry, call_extender=call_extender)

        # Objects that wait before kube-scheduler sees their pods.
        queued_report = _find_fixes_of_queued_objects(inquiry, pod_arguments, scope, source)
        if queued_report:
            code = choose_exit_code(good=False, interrupted=False, undecided=queued_report.undecided)
            return view.build_answer(queued_report, code)

        # A single pod, or a workload with one representative pod.
        targets = _find_target_pods(inquiry, source, scope, pod_arguments)
        if len(targets) == 1:
            collect_pod_extras(call_extender, targets, inquiry, source)
            now = get_cluster_time(inquiry.cluster, source)
            pod_report, code = _build_pod_report_and_exit_code(targets[0], criteria, now, node_groups, karpenter)
            if not pod_arguments:
                pod_report, code = _add_new_resources(pod_report, code, inquiry)
            suggestion = _suggest_command_after_pod_report(pod_report, criteria, pod_arguments, source, scope)
            return view.build_answer(pod_report, code, {"": suggestion} if suggestion else {})
        if pod_arguments:
            hint = "name one of them, or none for all of them"
            raise UsageError(f"the names refer to {len(targets):,} different pods", hint=hint)

        # Many pods: of the workloads in the files, or all pending pods in the scope.
        if any(target.workload is not None for target in targets):
            manifest_report, code = _find_manifest_fixes(inquiry, criteria)
            manifest_report, code = _add_new_resources(manifest_report, code, inquiry)
            return view.build_answer(manifest_report, code)
        searched_scope = with_context_namespace(scope, source, inquiry.cluster)
        report, code = _build_pending_report_and_exit_code(inquiry, searched_scope, criteria)
        next_commands = {}
        if report.elsewhere:
            next_commands[""] = source.build_command("remedies", "-A")
        elif report.waiting and not report.chosen and criteria.is_restricted:
            next_commands[""] = source.build_command("remedies", _list_scope_options(scope))
        return view.build_answer(report, code, next_commands)


def _list_scope_options(scope: Scope) -> list[str]:
    """Return the command-line options that select the same pods."""
    selector = ["-l", scope.selector] if scope.selector else []
    return [*scope.to_namespace_arguments(), *selector, *scope.to_cli_options()]


def _read_inquiry(source: Source, scope: Scope, pod_arguments: tuple[str, ...], autoscaler_kinds: LiveKinds) -> Inquiry:
    """Read the cluster, and the pods and manifests that the arguments name.

    If some argument is not the name of a pod, or there is no argument, the kinds that explain missing pods are read as
    well, and the result has the cluster's time. `autoscaler_kinds` are always read.
    """
    pods_alone = are_all_pods(pod_arguments)  # also true without arguments
    names_only_pods = bool(pod_arguments) and pods_alone
    live_kinds = AUTOSCALED_KINDS if names_only_pods else CREATION_FAILURE_KINDS.union(HELD_BACK_KINDS)
    live_kinds = live_kinds.union(autoscaler_kinds)
    inquiry = read_inquiry(source, scope.namespace, pods_alone=pods_alone, live=live_kinds)
    now = "" if names_only_pods else get_cluster_time(inquiry.cluster, source)
    return replace(inquiry, now=now).with_scheduler_name(scope.scheduler_name)


def _find_fixes_of_queued_objects(
    inquiry: Inquiry, words: tuple[str, ...], scope: Scope, source: Source
) -> RemediesOfMany | None:
    """Return the fixes of objects that wait before kube-scheduler sees their pods, such as Workloads of Kueue.

    With `words`, these are the objects that they name. Without words, they are the objects in files that contain
    neither pods nor workloads. The result is None if there are no such objects, or if the user asks for the fixes of
    pods. Raises UsageError if a named object does not exist.
    """
    report = None
    selects_pods = bool(inquiry.targets or scope.namespace or scope.all_namespaces or scope.selector)
    if words and not are_all_pods(words):
        report = build_waiting_objects_report(inquiry, words, scope, source, inquiry.now, remedies=True)
    elif not words and not selects_pods:
        report = report_new_resources(inquiry.cluster, inquiry.now, queued_only=True, remedies=True)
    if report is None:
        return None
    return RemediesOfMany(
        scope="for a node yet",
        waiting=0,
        cleared=0,
        waiting_elsewhere=report.waiting_elsewhere,
        unknown=report.unknown,
        undecided=report.undecided,
    )


def _find_target_pods(
    inquiry: Inquiry, source: Source, scope: Scope, pod_arguments: tuple[str, ...]
) -> list[TargetPod]:
    """Return the pods to find fixes for: the named pods, the pods of the files, or all pending pods of the scope."""
    if pod_arguments:
        return subjects.find_named_targets(inquiry, pod_arguments, scope, source)
    if targets_in_files := subjects.find_targets_in_files(inquiry, scope):
        return targets_in_files
    scope = with_context_namespace(scope, source, inquiry.cluster)
    found_pods.require_existing_namespace(inquiry.cluster, scope)
    waiting = found_pods.find_pending_in_scope(inquiry.cluster, scope)
    return [TargetPod(inquiry.scheduler, inquiry.scheduler.view.build_stored_pod(pod)) for pod in waiting]


def _suggest_command_after_pod_report(
    report: Remedies, criteria: RemedyCriteria, pod_arguments: tuple[str, ...], source: Source, scope: Scope
) -> str | tuple[str, ...]:
    """Return the command that may help further with the pod of the report, or "" if there is none."""
    if report.rivals:  # only room for all waiting pods helps
        return source.build_command("remedies", "-A", options=scope.to_cli_options())
    if report.lacks_fixes and criteria.is_restricted:
        next_command = "remedies"
    elif report.searched is None and not report.remedies and report.verdict not in FINE:
        next_command = "explain"
    else:
        return ""
    return source.build_command(next_command, *pod_arguments, _list_scope_options(scope))


def _build_pod_report_and_exit_code(
    target: TargetPod, criteria: RemedyCriteria, now: str, node_groups: NodeGroupInput, karpenter: KarpenterInput
) -> tuple[Remedies, int]:
    """Return the report of the fixes for one pod, and the exit code.

    The report also has fixes for what else the pod waits for, such as admission by Kueue. The result is not good if the
    pod waits for admission or if its workload evicts running pods for good, whatever the verdict on the pod. `now` is
    the RFC 3339 time of the cluster.
    """
    with show_progress() as progress:
        report = find_remedies_with_room(
            target,
            criteria,
            progress=progress,
            now=now,
            user_groups=node_groups.read_groups(),
            types=karpenter.read_types(),
            settings=karpenter.parse_settings(),
        )
    manifests = () if target.workload is None else (target.workload,)
    waiting = add_kueue_fixes(target.scheduler.cluster, target.waiting_elsewhere, now, manifests)
    if waiting:
        report = structs.replace(report, waiting_elsewhere=waiting)
    evicts_for_good = report.replicas is not None and bool(report.replicas.victims_without_node)
    is_good = report.verdict in FINE and not evicts_for_good and not has_unadmitted(waiting)
    return report, choose_exit_code(is_good, interrupted=report.interrupted, undecided=report.undecided)


def _add_new_resources(report: AnyRemedies, code: int, inquiry: Inquiry) -> tuple[AnyRemedies, int]:
    """Return the report with the files' objects whose pods kube-scheduler does not see yet, and the exit code.

    If `code` is success, but some of these objects were not checked, the exit code becomes UNDECIDED.
    """
    waiting = _merge_new_resources(inquiry, report.waiting_elsewhere)
    undecided = report.undecided or (code == SCHEDULES and has_unchecked_objects(waiting))
    report = structs.replace(report, waiting_elsewhere=waiting, undecided=undecided)
    if undecided and code == SCHEDULES:
        code = UNDECIDED
    return report, code


def _merge_new_resources(inquiry: Inquiry, reported: tuple[WaitingElsewhere, ...]) -> tuple[WaitingElsewhere, ...]:
    """Return the files' objects that wait before kube-scheduler sees their pods, and then the reported objects.

    Workloads of Kueue among the files' objects come with fixes. Reported objects that the files also have are left out.
    """
    entries = find_new_resources(inquiry.cluster, inquiry.now) if inquiry.targets else ()
    entries = add_kueue_fixes(inquiry.cluster, entries, inquiry.now)
    titles = {entry.resource for entry in entries}
    return (*entries, *(entry for entry in reported if entry.resource not in titles))


def _build_pending_report_and_exit_code(
    inquiry: Inquiry, scope: Scope, criteria: RemedyCriteria
) -> tuple[RemediesOfMany, int]:
    """Return the report of the fixes for all waiting pods in the scope, and the exit code.

    Unless the scope selects pods by labels, objects that wait for admission (by Kueue, for example) are reported as
    well.
    """
    namespace = found_pods.get_scope_namespace(scope)
    with show_progress() as progress:
        report = pending_remedies(
            inquiry.cluster,
            namespace or "",
            criteria,
            selector=scope.selector or "",
            now=inquiry.now,
            call_extender=inquiry.call_extender,
            progress=progress,
        )
    if not scope.selector:  # the selector is about labels of pods
        waiting = find_objects_waiting_elsewhere(inquiry.cluster, namespace, inquiry.now)
        unadmitted = add_kueue_fixes(inquiry.cluster, tuple(find_unadmitted_objects(waiting)), inquiry.now)
        report = structs.replace(report, waiting_elsewhere=unadmitted)
    is_good = not report.waiting and not report.waiting_elsewhere
    return report, choose_exit_code(is_good, interrupted=report.interrupted, undecided=report.undecided)


def _find_manifest_fixes(inquiry: Inquiry, criteria: RemedyCriteria) -> tuple[RemediesOfMany, int]:
    """Return the fixes of the pods of all workloads in the files, applied together, and the exit code."""
    manifests = [inquiry.manifests[key] for key in inquiry.targets if key in inquiry.manifests]
    written = {key: inquiry.written[key].document for key in inquiry.targets if key in inquiry.written}
    with show_progress() as progress, locate_errors(inquiry.places):
        report = find_manifest_remedies(
            inquiry.cluster,
            manifests,
            criteria,
            written=written,
            call_extender=inquiry.call_extender,
            progress=progress,
        )
    all_schedule = not report.waiting and not report.not_created
    return report, choose_exit_code(all_schedule, interrupted=report.interrupted, undecided=report.undecided)


def _parse_change_kinds(text: str, option_name: str) -> frozenset[str]:
    """Parse a comma-separated list of kinds of changes, ignoring case. Raises UsageError for an unknown kind."""
    kinds = sorted({*FixKind, *StepKind, *PoolFixKind})
    kinds_by_name = {kind.lower(): kind for kind in kinds}
    names = [word.strip() for word in text.split(",") if word.strip()]
    for word in names:
        if word.lower() not in kinds_by_name:
            raise UsageError(f'{option_name}: "{word}" is not a kind of change', hint=f"kinds: {', '.join(kinds)}")
    return frozenset(kinds_by_name[word.lower()] for word in names)
