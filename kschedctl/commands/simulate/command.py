"""The command ``kschedctl simulate``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_options
from typing import Annotated, NamedTuple

import typer
from msgspec.structs import replace

from kschedctl.autoscaling.growth import Autoscaler
from kschedctl.cli.autoscaler_options import (
    AUTOSCALER_STATUS_KINDS,
    KARPENTER_KINDS,
    KarpenterInput,
    NodeGroupInput,
)
from kschedctl.cli.extender_options import Extending
from kschedctl.cli.kueue_options import KueueInput
from kschedctl.cli.manifests import Application, Namespace, read_manifests
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import Answer, Drawn, FailOn
from kschedctl.cli.run_options import RunChoices, RunOptions, answer_about_subjects
from kschedctl.cli.source import (
    AUTOSCALED_KINDS,
    HELD_BACK_KINDS,
    NOTHING_MORE,
    LiveKinds,
    get_cluster_time,
    load_clusters,
)
from kschedctl.cluster import Cluster
from kschedctl.commands import simulate as study
from kschedctl.commands.simulate.following_report import FollowedRollout
from kschedctl.commands.simulate.report import SimulationReport
from kschedctl.commands.simulate.stepwise import follow_rollout
from kschedctl.errors import UsageError
from kschedctl.fixes.new_node import build_autoscaler
from kschedctl.replay.controllers.manifests import locate_errors
from kschedctl.replay.parallel import Progress, Workers
from kschedctl.replay.waiting_elsewhere import find_objects_waiting_elsewhere
from kschedctl.reports.waiting_elsewhere import has_unadmitted
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.sources.documents.files import STDIN
from kschedctl.sources.read import read_documents

EXAMPLES = (
    "helm template web ./web | kschedctl simulate -f - -n shop",
    "kschedctl simulate -f web.yaml --rollout",
    "kschedctl simulate --pending",
    "kschedctl simulate -f web.yaml --autoscale --node-groups groups.yaml",
    "kschedctl simulate -f state.json -f web.yaml --runs 20",
    "kschedctl simulate -f web.yaml --call-extenders",
    "kubectl get events -n shop -o json | kschedctl simulate --follow -",
)


class SimulateSettings(RunChoices):
    """The arguments of `simulate` that options give."""

    rollout: bool
    pending: bool
    in_full: int


@dataclass(frozen=True)
class SimulateOptions:
    """Options for the pods that arrive and how they arrive."""

    rollout: Annotated[
        bool,
        typer.Option(
            "--rollout",
            help="Replace the old pods of existing workloads step by step, within maxSurge and maxUnavailable.",
        ),
    ] = False
    autoscale: Annotated[
        bool,
        typer.Option(
            "--autoscale",
            help="Also simulate the nodes that Cluster Autoscaler or Karpenter would add for pods that do not fit.",
        ),
    ] = False
    pending: Annotated[
        bool, typer.Option("--pending", help="Also schedule the pods that are already pending in the cluster.")
    ] = False
    follow: Annotated[
        str | None,
        typer.Option(
            "--follow",
            metavar="EVENTS",
            help="Compare kschedctl's placements with those of a real rollout. EVENTS is a file with the output of "
            "kubectl get events -o json, or - (stdin).",
        ),
    ] = None

    max_new_pending: Annotated[
        int,
        typer.Option(
            "--max-new-pending",
            metavar="NUMBER",
            min=0,
            help="Exit with 1 if more than this many pods end up without a node. Simulated pods count, and so do "
            "running pods that they preempt. Pods that were pending before count only without -f.",
        ),
    ] = 0
    max_evictions: Annotated[
        int | None,
        typer.Option(
            "--max-evictions",
            metavar="NUMBER",
            min=0,
            help="Exit with 1 if more than this many pods are evicted.  [default: no limit]",
        ),
    ] = None
    fail_on: Annotated[
        FailOn,
        typer.Option(
            "--fail-on",
            metavar="|".join(FailOn),
            help="Exit with 1 if there are findings of this severity or higher. Evictions are warnings.",
        ),
    ] = FailOn.ERROR

    def is_acceptable(self, report: SimulationReport) -> bool:
        """Return whether all pods are created, and unplaced and evicted pods stay within the limits in every run.

        Running pods that are evicted and get no other node count as unplaced. Pods for which an autoscaler adds nodes,
        and pods that waited before the manifests were applied, do not. With `--fail-on never`, the result is always
        True.
        """
        if self.fail_on is FailOn.NEVER:
            return True
        if report.not_created or report.stuck_rollouts or has_unadmitted(report.waiting_elsewhere):
            return False

        max_evicted = self.max_evictions
        if max_evicted is None and self.fail_on is not FailOn.ERROR:  # any eviction is a warning
            max_evicted = 0
        has_too_many_evicted = max_evicted is not None and _count_evicted_pods(report) > max_evicted
        return _count_unplaced_pods(report) <= self.max_new_pending and not has_too_many_evicted

    def build_snapshot_settings(self, run: RunChoices, in_full: int) -> SimulateSettings:
        """Combine these options with the run's options to the arguments of the library function `simulate`."""
        return {**run, "rollout": self.rollout, "pending": self.pending, "in_full": in_full}

    def read_applications(self, source: Source, run: RunOptions, namespace: str | None) -> dict[str, Application]:
        """Read the manifests and the clusters to apply them to, keyed by cluster name.

        With --pending or --autoscale, there may be no files. Then only the clusters are read. Raises UsageError if
        --autoscale is combined with --runs, or if there is nothing to apply to one of the clusters. Raises
        KschedctlError if an input cannot be read.
        """
        manifests_optional = self.pending or self.autoscale
        if self.autoscale and run.runs != 1:
            raise UsageError("--autoscale shows one possible run, so --runs has no effect: leave it out")
        applications = _read_manifests_and_clusters(
            source,
            namespace,
            manifests_optional=manifests_optional,
            live_kinds=_list_live_kinds(autoscale=self.autoscale),
        )
        has_nothing_to_apply = any(not _has_something_to_apply(application) for application in applications.values())
        if has_nothing_to_apply and not manifests_optional:
            hint = "objects with a UID or a node count as part of the cluster: remove metadata.uid to apply them"
            raise UsageError("no workload among the manifests", where=", ".join(source.filename), hint=hint)
        return applications

    def build_autoscaler(
        self, cluster: Cluster, source: Source, node_groups: NodeGroupInput, karpenter: KarpenterInput
    ) -> Autoscaler | None:
        """Build the autoscaler if `--autoscale` is set, otherwise return None.

        Raises InputError if the node groups or instance types are invalid, and UsageError if no autoscaler is known.
        """
        if not self.autoscale:
            return None
        now = get_cluster_time(cluster, source)
        return build_autoscaler(
            cluster, now, node_groups.read_groups(), karpenter.read_types(), karpenter.parse_settings()
        )

    def validate_follow(self, run: RunOptions) -> None:
        """Raise UsageError for options that cannot be combined with `--follow`."""
        if self.rollout or self.pending or self.autoscale or run.runs != 1:
            excluded_options = "--rollout, --pending, --autoscale and --runs"
            raise UsageError(f"--follow repeats a real rollout: leave out {excluded_options}")


def _count_unplaced_pods(report: SimulationReport) -> int:
    """Return the number of pods without a node, in the worst run.

    In a single run without an autoscaler, running pods that lose their node count as well.
    """
    if report.variation or report.growth:
        return report.most_unplaced
    return report.most_unplaced + report.new_homeless_pods


def _count_evicted_pods(report: SimulationReport) -> int:
    """Return the number of pods that are evicted, in the worst run, or in the only run also after new nodes came."""
    return report.variation.evicted.most if report.variation else len(report.list_pods_evicted_for_new_pods())


def _list_live_kinds(*, autoscale: bool) -> LiveKinds:
    """Return the kinds to read from a live cluster in addition to those that the scheduler needs.

    Objects of these kinds hold pods back or change the number of replicas. With `autoscale`, the kinds that describe
    node groups and node pools are added.
    """
    kinds = HELD_BACK_KINDS.union(AUTOSCALED_KINDS)
    return kinds.union(AUTOSCALER_STATUS_KINDS).union(KARPENTER_KINDS) if autoscale else kinds


def _has_something_to_apply(application: Application) -> bool:
    """Return whether the files hold new objects, or custom resources whose operators would create pods."""
    if application.manifests or application.without_pods:
        return True
    return any(not entry.exists for entry in find_objects_waiting_elsewhere(application.cluster))


@with_options
def simulate(
    *,
    source: Source,
    run: RunOptions,
    result: Drawn,
    extending: Extending,
    manner: SimulateOptions,
    node_groups: NodeGroupInput,
    karpenter: KarpenterInput,
    kueue: KueueInput,
    namespace: Namespace = None,
) -> Answer:
    """Where would the pods of these manifests go? Applies them to a copy of the cluster.

    The pods that controllers create for the workloads pass the scheduling queue one by one, with preemption. The
    cluster is the one in the files if they contain nodes, otherwise the one given by --snapshot or --demo, otherwise
    the live one. With --pending and without -f, nothing is applied, and the answer shows where the pending pods would
    go now. With --autoscale, node groups grow, or Karpenter launches nodes, until nothing changes; pending pods are
    included. With --follow, each pod in the Scheduled events is replayed at the time when it was scheduled. The answer
    shows which pods kube-scheduler placed differently, and why. The cluster may have been read before or after the
    rollout.
    """
    if manner.follow is not None:
        manner.validate_follow(run)
        with extending.open_caller() as call:
            following = _prepare_following(manner.follow, source, run, namespace, call)
            return answer_about_subjects(run, result, following.applications, following.ask, following.is_acceptable)
    applications = {
        name: application._replace(cluster=kueue.apply_to(application.cluster))
        for name, application in manner.read_applications(source, run, namespace).items()
    }
    # All clusters get the same manifests, so any application has the places of these in the files.
    places = next(iter(applications.values())).places

    def build_autoscaler(cluster: Cluster) -> Autoscaler | None:
        """Build the autoscaler of --autoscale for a cluster."""
        return manner.build_autoscaler(cluster, source, node_groups, karpenter)

    run_choices = run.options()
    with extending.open_caller() as call_extender:
        settings = manner.build_snapshot_settings({**run_choices, "call_extender": call_extender}, result.max_matrices)

        def suggest_commands(application: Application, report: SimulationReport) -> Sequence[str]:
            """Return the commands to run next."""
            return tuple(_suggest_commands(report, application.source, namespace, extending, settings))

        return answer_about_subjects(
            run,
            result,
            applications,
            ask=_build_simulation_question(settings, build_autoscaler),
            is_good=manner.is_acceptable,
            suggest_commands=suggest_commands,
            places=places,
        )


def _build_simulation_question(
    options: SimulateSettings, build_autoscaler: Callable[[Cluster], Autoscaler | None]
) -> Callable[[Application, Workers, Progress], SimulationReport]:
    """Return a function that simulates the application of manifests to one cluster with these options."""

    def ask(application: Application, workers: Workers, progress: Progress) -> SimulationReport:
        """Simulate applying the manifests of an application to its cluster."""
        with locate_errors(application.places):
            report = study.simulate(
                application.cluster,
                application.manifests,
                written=application.written,
                workers=workers,
                progress=progress,
                autoscaler=build_autoscaler(application.cluster),
                **options,
            )
        return replace(
            report,
            missing_namespaces=dict(application.missing_namespaces),
            without_pods=application.without_pods,
        )

    return ask


def _read_manifests_and_clusters(
    source: Source, namespace: str | None, manifests_optional: bool, live_kinds: LiveKinds = NOTHING_MORE
) -> dict[str, Application]:
    """Read the manifests and the clusters to apply them to, keyed by cluster name.

    If there are no files and `manifests_optional` is True, only the clusters are read. Raises UsageError if a namespace
    is given without manifests, and KschedctlError if an input cannot be read.
    """
    if source.filename or not manifests_optional:
        return read_manifests(source, namespace, live_kinds)
    if namespace:
        raise UsageError(
            "-n needs manifests, and none are given", hint="leave it out to schedule the pods of all namespaces"
        )
    return {
        name: Application(*source_and_cluster, manifests=[], places={})
        for name, source_and_cluster in load_clusters(source, live_kinds).items()
    }


class _Following(NamedTuple):
    """A rollout to follow."""

    applications: dict[str, Application]
    """The clusters by name, with the manifests to apply to them."""
    ask: Callable[[Application, Workers, Progress], FollowedRollout]
    """Follows the rollout in the cluster of an application."""
    is_acceptable: Callable[[FollowedRollout], bool]
    """Returns whether the command should exit with 0."""


def _prepare_following(
    events: str, source: Source, run: RunOptions, namespace: str | None, call_extender: CallExtender | None
) -> _Following:
    """Read the events, the manifests and the clusters, and build the function that follows the rollout in a cluster.

    Raises UsageError if standard input is both the events and the manifests, and KschedctlError if an input cannot be
    read.
    """
    if events == STDIN and STDIN in source.filename:
        raise UsageError("standard input cannot be both the manifests and the events")
    documents = read_documents(events)
    applications = _read_manifests_and_clusters(source, namespace, manifests_optional=True)

    def ask(application: Application, workers: Workers, progress: Progress) -> FollowedRollout:
        """Follow the rollout in the cluster of an application."""
        with locate_errors(application.places):
            return follow_rollout(
                application.cluster,
                documents,
                application.manifests,
                sampling=run.sampling_start,
                call_extender=call_extender,
                where=events,
                progress=progress,
            )

    return _Following(applications, ask, lambda report: not report.otherwise)


def _suggest_commands(
    report: SimulationReport,
    source: Source,
    namespace: str | None,
    extending: Extending,
    settings: SimulateSettings,
) -> Iterator[str]:
    """Yield up to two commands to run next.

    If pods do not fit or cannot be created, the first command says what would help. If only pods that waited before do
    not fit, it explains these. The second command repeats the simulation with ``--rollout`` if old pods are replaced at
    once, or with ``--pending`` if waiting pods were left out and some pods were scheduled. Options that the simulation
    already had are kept.
    """
    options = [*(["-n", namespace] if namespace else []), *extending.to_cli_options()]
    has_manifests = bool(report.workloads or report.not_created)
    if report.new_pending_pods or report.not_created:
        scope = [] if has_manifests else ["-A"]  # without manifests, all waiting pods were simulated
        yield from source.build_command("remedies", *scope, options=options)
    elif report.still_waiting:
        yield from _suggest_explaining_waiting_pods(report.still_waiting, source, extending)

    further_options = _list_options_of_next_simulation(report, settings)
    if further_options:
        yield from source.build_command("simulate", options=[*options, *further_options])


def _list_options_of_next_simulation(report: SimulationReport, settings: SimulateSettings) -> list[str]:
    """Return the options with which to repeat the simulation, or [] if it need not be repeated.

    The options include those that this simulation already had.
    """
    has_scheduled_pods = report.placed + report.unplaced > 0
    waiting_pods_may_come_first = bool(report.left_out) and has_scheduled_pods
    if not (waiting_pods_may_come_first or report.replaces_at_once):
        return []
    options = []
    if report.left_out or settings["pending"]:
        options.append("--pending")
    if report.replaces_at_once or settings["rollout"]:
        options.append("--rollout")
    return options


def _suggest_explaining_waiting_pods(
    still_waiting: Sequence[str], source: Source, extending: Extending
) -> tuple[str, ...]:
    """Return the command that explains why pods of the cluster still wait.

    If the cluster comes from a snapshot or the demo, the command explains all pending pods, without the files.
    Otherwise, it explains only the first waiting pod, since `explain -A` would be about the manifests in the files.
    """
    extender_options = extending.to_cli_options()
    if source.demo or source.snapshot:
        return replace_options(source, filename=[]).build_command("explain", "-A", options=extender_options)
    return source.build_command("explain", still_waiting[0], options=extender_options)
