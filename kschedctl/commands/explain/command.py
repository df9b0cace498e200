"""``kschedctl explain``: why is this pod Pending, or why are all of these?"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from kschedctl.api.copying import replace
from kschedctl.cli import pods as found_pods
from kschedctl.cli import subjects
from kschedctl.cli.answer import Answer
from kschedctl.cli.inquiry import Inquiry, read_inquiry
from kschedctl.cli.next_commands import build_command
from kschedctl.cli.option_groups.autoscalers import Autoscalers
from kschedctl.cli.option_groups.drawn import DrawnView
from kschedctl.cli.option_groups.extending import Extending
from kschedctl.cli.option_groups.karpenter import KarpenterInput
from kschedctl.cli.option_groups.node_groups import NodeGroupInput
from kschedctl.cli.option_groups.whole_pods import collect_pod_extras
from kschedctl.cli.options import Places, Scope, Source, View, with_options
from kschedctl.cli.references import name_only_pods
from kschedctl.cli.run_options import Sampled, choose_exit_code
from kschedctl.cli.source import (
    CREATION_FAILURE_KINDS,
    HELD_BACK_KINDS,
    NOTHING_MORE,
    LiveKinds,
    get_cluster_time,
    with_context_namespace,
)
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.named_elsewhere import (
    find_new_resources,
    pods_of_groups,
    report_named_elsewhere,
    report_new_resources,
)
from kschedctl.commands.explain.next_commands import about_explained, about_pending, telling_more
from kschedctl.commands.explain.pending_pods import pending_in, with_growth
from kschedctl.commands.explain.pending_report import PendingPods
from kschedctl.commands.explain.report import FINE, Explanation
from kschedctl.commands.explain.reports import Explanations
from kschedctl.commands.explain.supposed_options import Supposed
from kschedctl.commands.explain.watching import watched
from kschedctl.errors import UsageError
from kschedctl.render.page import Commands, names
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.waiting_elsewhere import is_not_admitted, is_not_checked
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.scheduler import Scheduler

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
    pods: Annotated[
        list[str] | None,
        typer.Argument(metavar="[POD]…", help="name, pod/name, namespace/name, or deploy/name, sts/name, job/name …"),
    ] = None,
    no_remedies: Annotated[
        bool, typer.Option("--no-remedies", help="Do not search for the changes that would let it schedule.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("-w", "--watch", help="Keep watching the live cluster; answer again when it changes.")
    ] = False,
) -> Answer | int:
    """Why is this pod Pending? Replays kube-scheduler's scheduling cycle for it.

    For a workload (deploy/NAME) it explains the pending pods, or one more replica if none is pending; with -f, the
    manifests in the files, as if created now in the cluster: that of the files if they hold nodes, else --snapshot,
    --demo or the live one. Without either, every pending pod of the namespace (-A: of all), grouped by cause.
    HTTP extenders are called only with --call-extenders; otherwise the answer says what they might change. They get
    what plugins read, and the annotations and volumes of a named pod, never its environment.
    """
    if pods and scope.selector:
        raise UsageError("-l chooses among many pods, POD is one", hint="leave one of them out")
    with extending.open_caller() as call_extender:
        started, more, kinds = sampled.sampled_from, extending.arguments(), view.max_matrices
        scalers = Autoscalers(source, karpenter, node_groups)
        searches = not (no_remedies or (watch and not pods))  # what takes long is not done again at each change
        question = _Question(
            source, scope, pods or (), supposed, scalers, searches, call_extender, started, more, kinds
        )
        return _ask(question, view, watch)


def _ask(question: _Question, view: View, watch: bool) -> Answer | int:
    def answer(inquiry: Inquiry) -> Answer:
        report = question.report(inquiry)
        return _answer(report, view, question.following(report, inquiry.cluster), inquiry.places)

    if watch:
        name = view.output.name
        return watched(question.source, question.scope, name, lambda cluster: answer(Inquiry(cluster)), question.live)
    pods_alone, namespace = name_only_pods(question.words), question.scope.namespace
    return answer(read_inquiry(question.source, namespace, pods_alone=pods_alone, live=question.live))


class _Question(msgspec.Struct, frozen=True):
    """What the command line asks."""

    source: Source
    scope: Scope
    words: Sequence[str]
    supposed: Supposed
    scalers: Autoscalers
    remedies: bool
    call_extender: CallExtender | None
    sampled: SampledFrom | None
    more: Sequence[str] = ()
    in_full: int = 0

    @property
    def live(self) -> LiveKinds:
        """What else to read of a live cluster: of workloads, and of all that lacks pods, why these were not created."""
        only_pods = self.words and name_only_pods(self.words)
        of_pods = NOTHING_MORE if only_pods else CREATION_FAILURE_KINDS.union(HELD_BACK_KINDS)
        return of_pods.union(self.scalers.live)

    def report(self, inquiry: Inquiry) -> Explanation | Explanations | PendingPods:
        """What is to be said of this cluster. Raises KschedctlError."""
        now = get_cluster_time(inquiry.cluster, self.source)
        inquiry = replace(inquiry, call_extender=self.call_extender, sampled=self.sampled, now=now)
        inquiry = inquiry.with_scheduler_name(self.scope.scheduler_name)
        if self.words:
            words = pods_of_groups(inquiry, self.words, self.scope, self.source)
            if elsewhere := report_named_elsewhere(inquiry, words, self.scope, self.source, now):
                return elsewhere
            return self._explained(subjects.find_named_targets(inquiry, words, self.scope, self.source), inquiry)
        if of_files := subjects.find_targets_in_files(inquiry, self.scope):
            return self._with_new_resources(self._explained(of_files, inquiry), inquiry)
        if inquiry.has_outer_cluster and (of_operators := report_new_resources(inquiry.cluster, now)):
            return of_operators
        if self.supposed:
            raise UsageError("--as-if, --as-if-priority and --as-if-priority-class need a POD")
        scope = with_context_namespace(self.scope, self.source, inquiry.cluster)
        if not inquiry.manifests:
            found_pods.check_namespace(inquiry.cluster, scope)
        return self._pending(inquiry, scope)

    def following(self, report: Explanation | Explanations | PendingPods, cluster: Cluster) -> Commands:
        """What to try after a summary, or for more remedies than an explanation has."""
        options, groups = [*self.scope.arguments(), *self.more], self.scalers.node_groups.arguments()
        if isinstance(report, PendingPods):
            return about_pending(self.source, report, [*options, *groups, *self.scalers.karpenter.arguments()])
        if self.supposed or self.sampled:
            return {}
        explained = report.explanations if isinstance(report, Explanations) else (report,)
        if self.words and len(explained) == 1:
            command = telling_more(explained[0])
            options += groups if command == "remedies" else ()
            namespace = self.scope.namespace_arguments()
            return {explained[0].pod: build_command(self.source, command, self.words, namespace, options)}
        return about_explained(self.source, cluster, explained, options)

    def _explained(self, asked_pods: Sequence[TargetPod], inquiry: Inquiry) -> Explanation | Explanations:
        from kschedctl.commands.explain.one_pod import explained_together  # noqa: PLC0415 - not for a summary of no pods

        collect_pod_extras(self.call_extender, asked_pods, inquiry, self.source)
        return explained_together([self._one(asked_pod, inquiry.now) for asked_pod in asked_pods])

    def _with_new_resources(self, report: Explanation | Explanations, inquiry: Inquiry) -> Explanation | Explanations:
        """Return the report with what else of the files waits elsewhere, which makes a good verdict undecided."""
        waiting = () if self.scope.selector else find_new_resources(inquiry.cluster, inquiry.now)
        if not waiting:
            return report
        from kschedctl.commands.explain.attempt import explanations  # noqa: PLC0415 - not for a summary of no pods

        several = explanations([report]) if isinstance(report, Explanation) else report
        certain = not fine(report) and not report.undecided
        undecided = not certain and (report.undecided or is_not_checked(waiting))
        return replace(several, waiting_elsewhere=waiting, undecided=undecided)

    def _one(self, asked: TargetPod, now: str) -> Explanation:
        from kschedctl.commands.explain.one_pod import explained  # noqa: PLC0415

        asked = self.supposed.of(asked)
        return explained(asked, self.scalers.find_new_node, self.scalers.find_fixes, remedies=self.remedies, now=now)

    def _pending(self, inquiry: Inquiry, scope: Scope) -> Explanation | Explanations | PendingPods:
        """All that are pending; where none is, a pod of each workload that the files hold and that has none."""
        report = summary(inquiry.scheduler, self.source, scope, self.in_full)
        others = subjects.find_workloads_without_pods(inquiry, scope)
        if others and (report.groups or report.not_created):
            log.warning(
                "note: not explained: %s: name them to have them explained",
                names([f"{kind} {n}/{name}" for kind, n, name in others]),
            )
        elif others:
            return self._explained(subjects.build_targets(inquiry, others), inquiry)
        all_of_them = self.remedies and self.scope.all_namespaces and not scope.selector
        return with_growth(report, lambda: self.scalers.find_growth(inquiry.cluster)) if all_of_them else report


def _answer(report: Explanation | Explanations | PendingPods, view: View, commands: Commands, places: Places) -> Answer:
    if view.output.name == "name":  # the names alone: what the other forms say goes to stderr
        for lacking in _not_created(report):
            log.warning("not created: %s: %s", lacking.workload, lacking.headline)
        for what in report.not_replayed:
            log.warning("not replayed yet: %s", what)
        if report.ignored:
            log.warning("ignored: %s", "; ".join(report.ignored))
    return view.answer(
        report, choose_exit_code(fine(report), interrupted=False, undecided=report.undecided), commands, places
    )


def _not_created(report: Explanation | Explanations | PendingPods) -> Sequence[NotCreated]:
    """Workloads that lack pods."""
    match report:
        case Explanation():
            return (report.not_created,) if report.not_created and not report.not_created.past else ()
        case Explanations():
            return [lacking for explanation in report.explanations for lacking in _not_created(explanation)]
    return report.not_created


def fine(report: Explanation | Explanations | PendingPods) -> bool:
    """Whether the pod, or each of the pods by itself, has a node or would get one; also when nothing is pending.

    Not so where a workload lacks pods that could not be created.
    """
    match report:
        case Explanation():
            return report.verdict in FINE and not (_not_created(report) or report.claims_without_scheduler)
        case Explanations():
            return all(map(fine, report.explanations))
    waits = report.not_created or is_not_admitted(report.waiting_elsewhere)
    return all(group.verdict in FINE for group in report.groups) and not waits


def summary(scheduler: Scheduler, source: Source, scope: Scope, in_full: int = 0) -> PendingPods:
    """All pending pods of the scope, grouped by cause, and the workloads of it that lack pods nobody could create."""
    now = get_cluster_time(scheduler.cluster, source)
    return pending_in(scheduler, found_pods.namespace_of_scope(scope), scope.selector, now, in_full)
