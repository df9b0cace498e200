"""The command `kschedctl make-room`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypedDict

import typer

from kschedctl.cli import subjects
from kschedctl.cli.extender_options import Extending
from kschedctl.cli.inquiry import read_inquiry
from kschedctl.cli.manifests import read_manifests
from kschedctl.cli.options import PodArgument, Scope, Source, with_options
from kschedctl.cli.output_options import Answer, DrawnUntabled
from kschedctl.cli.progress import show_progress
from kschedctl.cli.references import are_all_pods
from kschedctl.cli.run_options import WorkOptions, choose_exit_code
from kschedctl.cli.source import EVICTION_KINDS
from kschedctl.commands import make_room as library
from kschedctl.commands.make_room.report import LARGEST_MAX_MOVES, MakeRoom
from kschedctl.commands.make_room.room import RoomCriteria
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.manifests import locate_errors
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.parallel import Progress, Workers
from kschedctl.reports.placements import describe_objects_without_pods
from kschedctl.scheduler.engine.extenders import CallExtender

EXAMPLES = (
    "kschedctl make-room ml/train-0",
    "kschedctl make-room deploy/web -n shop --keep tier=db",
    "kschedctl make-room -f train.yaml --pool gpu --max-moves 2 --jobs 4",
    "kschedctl make-room ml/train-0 --snapshot prod.ksnap -o json",
)


class SearchSettings(TypedDict):
    """Keyword arguments of the library functions that make room."""

    seed: int
    call_extender: CallExtender | None
    workers: Workers
    progress: Progress


@with_options
def make_room(
    *,
    source: Source,
    scope: Scope,
    view: DrawnUntabled,
    extending: Extending,
    work: WorkOptions,
    pods: PodArgument = None,
    max_moves: Annotated[
        int,
        typer.Option(
            "--max-moves",
            metavar="NUMBER",
            min=1,
            max=LARGEST_MAX_MOVES,
            help="Maximum number of pods to move for each pending pod.",
        ),
    ] = 3,
    keep: Annotated[
        str,
        typer.Option(
            "--keep", metavar="SELECTOR", help="Do not move pods that match this label selector, such as tier=db."
        ),
    ] = "",
    pool: Annotated[
        str,
        typer.Option("--pool", metavar="NAME", help="Move only pods on nodes of this pool.  [default: all pools]"),
    ] = "",
    seconds: Annotated[
        int | None,
        typer.Option(
            "--search-seconds",
            metavar="NUMBER",
            min=1,
            help="Time limit for the search, in seconds. By default, the number of replays is limited instead, so "
            "that the result does not depend on the machine.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="NUMBER", help="Random seed for choosing between nodes with equal scores.")
    ] = 0,
) -> Answer:
    """Which pods have to move so that these fit, in what order, and where does each go?

    Finds the fewest evictions and, among equal plans, the one with the pods of the lowest priorities. Only pods that a
    controller recreates are moved, one by one and within PodDisruptionBudgets. kube-scheduler has to place each pod
    elsewhere before the next one is evicted. Every step is replayed, with the nodes to be freed cordoned. Without a
    POD, makes room for all pods in the manifests given with -f. Nothing is executed.
    """
    criteria = RoomCriteria(max_moves=max_moves, keep=keep, pool=pool, seconds=seconds)
    with extending.open_caller() as call_extender, show_progress() as progress:
        settings = SearchSettings(seed=seed, call_extender=call_extender, workers=work.workers, progress=progress)
        commands: tuple[str, ...] = ()
        if pods:
            targets = _read_targets(source, scope, tuple(pods))
            report = library.make_room_for_waiting_pods(targets, criteria, **settings)
            if all(_is_in_cluster(target) for target in targets):
                commands = _suggest_commands(report, source, [*scope.to_cli_options(), *extending.to_cli_options()])
        else:
            report = _make_room_for_manifests(source, scope, criteria, settings)
    is_open = report.undecided or report.ended_at_limit
    return view.build_answer(report, choose_exit_code(report.fits, report.interrupted, is_open), {"": commands})


def _is_in_cluster(target: TargetPod) -> bool:
    """Return whether the target pod exists."""
    return target.scheduler.cluster.pod(target.pod.metadata.namespace, target.pod.metadata.name) is not None


def _suggest_commands(report: MakeRoom, source: Source, options: Sequence[str]) -> tuple[str, ...]:
    """Return the command to run next for pods of the cluster that get no room, or () if there is none.

    If new nodes are proposed, the command replays them. Otherwise, it searches for other fixes of the first pod without
    room. `options` are options about schedulers and extenders.
    """
    if not report.missing or report.interrupted:
        return ()
    if report.new_nodes is not None:
        steps = [{"addNodes": {"like": model, "count": report.new_nodes.count}} for model in report.new_nodes.like]
        return source.build_whatif_command({"steps": steps}, options=())
    return source.build_command("remedies", report.missing[0], options)


def _read_targets(source: Source, scope: Scope, words: tuple[str, ...]) -> list[TargetPod]:
    """Read the cluster and find the waiting pods that the command line names.

    Raises KschedctlError if the cluster cannot be read or a pod does not exist.
    """
    inquiry = read_inquiry(source, scope.namespace, pods_alone=are_all_pods(words), live=EVICTION_KINDS)
    inquiry = inquiry.with_scheduler_name(scope.scheduler_name)
    return subjects.find_named_targets(inquiry, words, scope, source)


def _make_room_for_manifests(
    source: Source, scope: Scope, criteria: RoomCriteria, settings: SearchSettings
) -> MakeRoom:
    """Make room for all pods of the manifests given with -f.

    Raises UsageError if there are no manifests or several clusters, and KschedctlError if the manifests are invalid.
    """
    if not source.filename:
        hint = "name one, or give manifests with -f"
        if scope.all_namespaces:
            hint += "; remedies -A finds changes for all pending pods"
        raise UsageError("no pod is named to make room for", hint=hint)
    if len(source.snapshot) > 1:
        raise UsageError("make-room takes one cluster", hint="pass only one --snapshot")
    (application,) = read_manifests(source, scope.namespace, EVICTION_KINDS).values()
    if application.without_pods:
        raise UsageError(f"no pod to make room for: {describe_objects_without_pods(application.without_pods)}")
    if not application.manifests:
        hint = "-f is for new pods, but these have a UID or a node: name one of them instead"
        raise UsageError("no workload among the manifests", where=", ".join(source.filename), hint=hint)
    with locate_errors(application.places):
        return library.make_room_for_manifests(
            application.cluster, application.manifests, criteria, written=application.written, **settings
        )
