"""The command `kschedctl explain`: its options, the pods it explains, and the commands it suggests next."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
import typer

from kschedctl.api.copying import replace
from kschedctl.cli import references, subjects
from kschedctl.cli.autoscaler_options import Autoscalers, KarpenterInput, NodeGroupInput
from kschedctl.cli.extender_options import Extending, collect_pod_extras
from kschedctl.cli.inquiry import Inquiry, read_inquiry
from kschedctl.cli.kueue_options import KueueInput
from kschedctl.cli.options import PodsArgument, Scope, Source, with_options
from kschedctl.cli.output_options import Answer, DrawnView, Places, View
from kschedctl.cli.references import are_all_pods, build_workload_arguments
from kschedctl.cli.run_options import Sampled, choose_exit_code
from kschedctl.cli.source import (
    AUTOSCALED_KINDS,
    CREATION_FAILURE_KINDS,
    HELD_BACK_KINDS,
    LiveKinds,
    get_cluster_time,
    has_read_time,
    with_context_namespace,
)
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.named_elsewhere import (
    build_waiting_objects_report,
    expand_pod_groups,
    find_new_resources,
    report_new_resources,
)
from kschedctl.commands.explain.pending_report import PendingPods
from kschedctl.commands.explain.report import FINE, Explanation, Explanations
from kschedctl.errors import UsageError
from kschedctl.fixes.supposing import apply_suppositions
from kschedctl.render.page import Commands, names
from kschedctl.replay.controllers.target_pod import TargetPod, change_priority, describe_priority_change
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.waiting_elsewhere import has_unadmitted, has_unchecked_objects
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.scheduler import Scheduler


@dataclass(frozen=True)
class Supposed:
    """The changes to the pod that the question assumes."""

    priority: Annotated[
        int | None,
        typer.Option(
            "--as-if-priority",
            metavar="NUMBER",
            help="Replay the pod with this priority. Same as --as-if priority=NUMBER.",
        ),
    ] = None
    priority_class: Annotated[
        str,
        typer.Option(
            "--as-if-priority-class",
            metavar="NAME",
            help="Replay the pod with this PriorityClass. Same as --as-if class=NAME.",
        ),
    ] = ""
    words: Annotated[
        list[str],
        typer.Option(
            "--as-if",
            metavar="NAME=VALUE",
            help="Replay the pod with one change: priority=NUMBER, class=PRIORITYCLASS, cpu=QUANTITY, "
            "memory=QUANTITY, tolerate=KEY[=VALUE][:EFFECT], or node=NODE to add a copy of NODE. Repeatable.",
        ),
    ] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.priority is not None or self.priority_class or self.words)

    @property
    def description(self) -> str:
        """The changes in the form of --as-if, or "" if nothing is changed."""
        return " ".join(filter(None, (describe_priority_change(self.priority, self.priority_class), *self.words)))

    def apply_to(self, target: TargetPod) -> TargetPod:
        """Apply the assumed changes to the target pod.

        Raises UsageError if a change is not understood, and InputError if a value is invalid.
        """
        target = target._replace(pod=change_priority(target, self.priority, self.priority_class))
        return apply_suppositions(target, " ".join(self.words))


EXAMPLES = (
    "kschedctl explain shop/web-6d4cf56db6-h8s2k",
    "kschedctl explain deploy/web -n shop --as-if-priority-class shop-critical",
    "kschedctl explain web --as-if cpu=500m --as-if tolerate=gpu",
    "kschedctl explain -A",
    "helm template web ./web | kschedctl explain -f - -n shop",
    "kubectl get nodes,pods -A -o json | kschedctl explain web -f - -o json",
    "kschedctl explain web --call-extenders --record-extenders said.json",
    "kschedctl explain web --snapshot x.ksnap --extender-answers said.json",
)

log = logging.getLogger(__name__)


@with_options
def explain(
    *,
    source: Source,
    scope: Scope,
    view: DrawnView,
    extending: Extending,
    sampled: Sampled,
    supposed: Supposed,
    karpenter: KarpenterInput,
    node_groups: NodeGroupInput,
    kueue: KueueInput,
    pods: PodsArgument = None,
    no_remedies: Annotated[bool, typer.Option("--no-remedies", help="Do not search for fixes.")] = False,
    watch: Annotated[
        bool,
        typer.Option(
            "-w", "--watch", help="Watch the live cluster and print the answer again whenever the answer changes."
        ),
    ] = False,
) -> Answer | int:
    """Why is this pod Pending? Replays kube-scheduler's scheduling cycle for it.

    For a workload (deploy/NAME), explains its pending pods, or one more replica if none is pending. With -f, explains
    the manifests in the files as if they were created now. The cluster is the one in the files if they contain nodes,
    otherwise the one given by --snapshot or --demo, otherwise the live one. Without a pod, workload or -f, explains
    every pending pod of the namespace (-A: of all namespaces), grouped by cause. HTTP extenders are called only with
    --call-extenders; otherwise the answer says what they might change. Extenders receive the fields that plugins read,
    and the annotations and volumes of a named pod, but never its environment variables.
    """
    if pods and scope.selector:
        raise UsageError("POD and -l cannot be combined", hint="use only one of them")
    with extending.open_caller() as call_extender:
        question = _Question(
            source=source,
            scope=scope,
            pods=pods or (),
            supposed=supposed,
            autoscalers=Autoscalers(source, karpenter, node_groups),
            # A watched summary is rebuilt at each change, so that searching for fixes would take too long
            remedies=not (no_remedies or (watch and not pods)),
            call_extender=call_extender,
            sampled=sampled.sampling_start,
            extender_arguments=extending.to_cli_options(),
            in_full=view.max_matrices,
        )

        def build_answer(inquiry: Inquiry) -> Answer:
            """Build the answer about the inquiry's cluster, with the commands to run next."""
            report = question.build_report(inquiry)
            commands = question.build_next_commands(report, inquiry.cluster)
            if view.output.name == "name":  # prints only names, without caveats
                _log_caveats(report)
            return _build_answer(report, view, commands, inquiry.places)

        if watch:
            from kschedctl.commands.explain.watching import watch_cluster  # noqa: PLC0415 - needs a live cluster

            name = view.output.name
            return watch_cluster(
                source, scope, name, lambda cluster: build_answer(Inquiry(kueue.apply_to(cluster))), question.live_kinds
            )
        pods_alone = are_all_pods(question.pods)
        inquiry = read_inquiry(source, scope.namespace, pods_alone=pods_alone, live=question.live_kinds)
        return build_answer(replace(inquiry, cluster=kueue.apply_to(inquiry.cluster)))


class _Question(msgspec.Struct, frozen=True):
    """The question on the command line: the pods to explain, the assumptions, and the level of detail."""

    source: Source
    scope: Scope
    pods: Sequence[str]
    """The words of the command line that name pods or workloads; empty for all pending pods, or those of the files."""
    supposed: Supposed
    autoscalers: Autoscalers
    remedies: bool
    """True to search for fixes."""
    call_extender: CallExtender | None
    sampled: SampledFrom | None
    extender_arguments: Sequence[str] = ()
    """The options about extenders, repeated in suggested commands."""
    in_full: int = 0
    """The number of kinds of pending pods that are explained node by node."""

    @property
    def live_kinds(self) -> LiveKinds:
        """The kinds of objects to read from a live cluster beyond what scheduling needs.

        For workloads and for all pending pods, these include what explains why pods were not created.
        """
        only_pods = self.pods and are_all_pods(self.pods)
        kinds = AUTOSCALED_KINDS if only_pods else CREATION_FAILURE_KINDS.union(HELD_BACK_KINDS)
        return kinds.union(self.autoscalers.live)

    def build_report(self, inquiry: Inquiry) -> Explanation | Explanations | PendingPods:
        """Build the report that answers the question.

        It is about the named pods and objects, else about the manifests in the files, else about all pending pods.
        Raises KschedctlError, for example if a named pod does not exist.
        """
        now = get_cluster_time(inquiry.cluster, self.source)
        inquiry = replace(inquiry, call_extender=self.call_extender, sampled=self.sampled, now=now)
        inquiry = inquiry.with_scheduler_name(self.scope.scheduler_name)

        # Named on the command line
        if self.pods:
            words = expand_pod_groups(inquiry, self.pods, self.scope, self.source)
            if waiting_elsewhere := build_waiting_objects_report(
                inquiry, words, self.scope, self.source, now, remedies=self.remedies
            ):
                return waiting_elsewhere
            return self._explain_targets(subjects.find_named_targets(inquiry, words, self.scope, self.source), inquiry)

        # In the files
        if targets := subjects.find_targets_in_files(inquiry, self.scope):
            return self._add_new_resources(self._explain_targets(targets, inquiry), inquiry)
        has_scope = self.scope.namespace or self.scope.all_namespaces or self.scope.selector
        files_are_whole_cluster = not inquiry.has_outer_cluster
        asks_about_pending_pods = files_are_whole_cluster and has_scope
        if not asks_about_pending_pods:
            new_resources = report_new_resources(
                inquiry.cluster, now, queued_only=files_are_whole_cluster, remedies=self.remedies
            )
            if new_resources:
                return new_resources

        # All pending pods
        if self.supposed:
            raise UsageError("--as-if, --as-if-priority and --as-if-priority-class need a POD")
        scope = with_context_namespace(self.scope, self.source, inquiry.cluster)
        if not inquiry.manifests:
            references.require_existing_namespace(inquiry.cluster, scope)
        return self._report_pending_or_missing_pods(inquiry, scope)

    def _explain_targets(self, targets: Sequence[TargetPod], inquiry: Inquiry) -> Explanation | Explanations:
        """Explain all targets, and combine the explanations if there are several.

        If extenders are called, the pod fields that only they read are collected first.
        """
        from kschedctl.commands.explain import cycle_report, one_pod  # noqa: PLC0415 - not for a summary of no pods

        collect_pod_extras(self.call_extender, targets, inquiry, self.source)
        reports = []
        for target in targets:
            report = one_pod.explain_in_cluster(
                self.supposed.apply_to(target),
                self.autoscalers.predict_new_node,
                self.autoscalers.find_fixes,
                remedies=self.remedies,
                now=inquiry.now,
                as_if=self.supposed.description,
            )
            reports.append(cycle_report.drop_unwritten_message(report))
        return reports[0] if len(reports) == 1 else one_pod.combine_explanations(reports)

    def _add_new_resources(self, report: Explanation | Explanations, inquiry: Inquiry) -> Explanation | Explanations:
        """Add the manifests' objects that wait for another controller to the report.

        Nothing is added if a label selector limits the pods. An unchecked object makes the report undecided, unless
        some pod certainly fails.
        """
        waiting = () if self.scope.selector else find_new_resources(inquiry.cluster, inquiry.now)
        if not waiting:
            return report
        from kschedctl.commands.explain.one_pod import combine_explanations  # noqa: PLC0415 - not for a summary of no pods

        explanations = combine_explanations([report]) if isinstance(report, Explanation) else report
        # If some pod certainly does not fit, the answer is clear whatever happens to the waiting objects
        is_certainly_not_fine = not is_everything_fine(report) and not report.undecided
        undecided = not is_certainly_not_fine and (report.undecided or has_unchecked_objects(waiting))
        return replace(explanations, waiting_elsewhere=waiting, undecided=undecided)

    def _report_pending_or_missing_pods(
        self, inquiry: Inquiry, scope: Scope
    ) -> Explanation | Explanations | PendingPods:
        """Report all pending pods. If there are none, explain the missing pods of workloads in the files.

        One pod is explained for each workload that has no pods yet. If pods are pending, or could not be created, these
        workloads are only named in a log message. For all pods of all namespaces, and if fixes are searched for, the
        report includes the nodes that an autoscaler would add.
        """
        report = summarize_pending_pods(inquiry.scheduler, self.source, scope, self.in_full)
        workloads = subjects.find_workloads_without_pods(inquiry, scope)
        if workloads and not (report.groups or report.not_created):
            return self._explain_targets(subjects.build_targets(inquiry, workloads), inquiry)
        if workloads:
            log.warning(
                "note: not explained unless you name them: %s",
                names([f"{kind} {namespace}/{name}" for kind, namespace, name in workloads]),
            )
        if self.remedies and self.scope.all_namespaces and not scope.selector:
            from kschedctl.commands.explain.pending_pods import add_node_growth  # noqa: PLC0415 - not for a named pod

            return add_node_growth(report, lambda: self.autoscalers.simulate_growth(inquiry.cluster))
        return report

    def build_next_commands(self, report: Explanation | Explanations | PendingPods, cluster: Cluster) -> Commands:
        """Build the commands to suggest, keyed by pod or workload.

        An explanation that rests on assumptions (--as-if, or a sampled search) gets no commands. If several pods are
        explained, only those that are in the cluster get commands.
        """
        options = [*self.scope.to_cli_options(), *self.extender_arguments]
        node_groups = self.autoscalers.node_groups.to_cli_options()
        if isinstance(report, PendingPods):
            return build_commands_for_pending_pods(
                self.source, report, [*options, *node_groups, *self.autoscalers.karpenter.to_cli_options()]
            )
        if self.supposed or self.sampled:
            return {}

        # A single explanation of a named pod or workload: its command has the same words
        explanations = report.explanations if isinstance(report, Explanations) else (report,)
        if self.pods and len(explanations) == 1:
            command = _choose_next_command(explanations[0])
            if not command:
                return {}
            if command == "remedies":
                options += [*node_groups, *self.autoscalers.karpenter.to_cli_options()]
            if explanations[0].rivals:  # only room for all waiting pods helps
                return {explanations[0].pod: self.source.build_command(command, "-A", options=options)}
            namespace = self.scope.to_namespace_arguments()
            return {explanations[0].pod: self.source.build_command(command, self.pods, namespace, options)}

        # Pods with a node need no command, and pods of manifests are not in the cluster
        commands = {}
        for explanation in explanations:
            command = _choose_next_command(explanation)
            is_in_cluster = cluster.pod(*explanation.pod.split("/", 1)) is not None
            if command and is_in_cluster:
                commands[explanation.pod] = self.source.build_command(command, explanation.pod, options)
        return commands


def _choose_next_command(report: Explanation) -> str:
    """Return `wakes` for a gated pod without fixes, "" for a pod that needs no fix, otherwise `remedies`.

    A pod that gets a node and can run there needs no fix, even if other pods of its workload evict running pods. It
    needs a fix if waiting pods take its room first, if its workload fails to create pods, or if fixes were found.
    """
    if report.is_fine and not report.rivals and not _list_creation_failures(report) and not report.remedies:
        return ""
    return "wakes" if report.verdict == "Gated" and not report.remedies else "remedies"


def build_commands_for_pending_pods(source: Source, report: PendingPods, options: Iterable[str] = ()) -> Commands:
    """Build the commands that explain pending pods, keyed by each group's first pod.

    Workloads whose pods could not be created have a command under their name. The key "" has the command to suggest
    first. If pods are pending only outside the scope, the first command covers all namespaces. If no pod is pending
    anywhere, the first command is empty.
    """
    options = list(options)
    workloads = {
        not_created.workload: source.build_command(
            "explain", *build_workload_arguments(not_created.workload), options=options
        )
        for not_created in report.not_created
    }
    groups = {group.pods[0]: source.build_command("explain", group.pods[0], options) for group in report.groups}
    if groups:
        return {"": next(iter(groups.values())), **groups, **workloads}
    return {"": source.build_command("explain", "-A") if report.elsewhere else (), **workloads}


def _build_answer(
    report: Explanation | Explanations | PendingPods, view: View, commands: Commands, places: Places
) -> Answer:
    """Build the answer with its exit code."""
    code = choose_exit_code(is_everything_fine(report), interrupted=False, undecided=report.undecided)
    return view.build_answer(report, code, commands, places)


def _log_caveats(report: Explanation | Explanations | PendingPods) -> None:
    """Log which workloads fail to create pods, what is not replayed yet, and what of the configuration is ignored."""
    for not_created in _list_creation_failures(report):
        log.warning("not created: %s: %s", not_created.workload, not_created.headline)
    for text in report.not_replayed:
        log.warning("not replayed: %s", text)
    if report.ignored:
        log.warning("ignored: %s", "; ".join(report.ignored))


def _list_creation_failures(report: Explanation | Explanations | PendingPods) -> Sequence[NotCreated]:
    """Return the workloads that currently fail to create pods, or () if none does."""
    match report:
        case Explanation():
            return (report.not_created,) if report.not_created and not report.not_created.past else ()
        case Explanations():
            return [failure for explanation in report.explanations for failure in _list_creation_failures(explanation)]
    return report.not_created


def is_everything_fine(report: Explanation | Explanations | PendingPods) -> bool:
    """Return whether every pod has or would get a node, and no workload waits to create its pods.

    A workload waits if creating its pods fails, or if a queue has not admitted it. If a workload evicts running pods
    that get no other node, return False. Return True if nothing is pending.
    """
    match report:
        case Explanation():
            return report.is_fine and not report.leaves_victims_without_node and not _list_creation_failures(report)
        case Explanations():
            return all(map(is_everything_fine, report.explanations))
    waits = report.not_created or has_unadmitted(report.waiting_elsewhere)
    return all(group.verdict in FINE for group in report.groups) and not waits


def summarize_pending_pods(scheduler: Scheduler, source: Source, scope: Scope, in_full: int = 0) -> PendingPods:
    """Report the pending pods of the scope by cause, and the workloads that fail to create pods.

    Only the first `in_full` kinds of pods are explained node by node.
    """
    from kschedctl.commands.explain.pending_pods import report_pending_pods  # noqa: PLC0415 - not for a named pod

    now = get_cluster_time(scheduler.cluster, source)
    report = report_pending_pods(scheduler, references.get_scope_namespace(scope), scope.selector, now, in_full)
    return replace(report, aged_until_now=not has_read_time(scheduler.cluster, source))
