"""The command ``kschedctl size``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from kschedctl.cli.autoscaler_options import POOL_KINDS, InstanceTypeInput
from kschedctl.cli.manifests import Application, read_manifests
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import Answer, DrawnUntabled
from kschedctl.cli.progress import show_progress
from kschedctl.cli.run_options import WorkOptions, choose_exit_code
from kschedctl.cli.source import CREATION_LIMIT_KINDS, LiveKinds, load_cluster
from kschedctl.commands import size as library
from kschedctl.commands.size.sizing import SizingCriteria
from kschedctl.commands.whatif.scenario_file import ScenarioFile, read_scenario
from kschedctl.errors import ClusterError, UsageError
from kschedctl.replay.controllers.manifests import locate_errors

EXAMPLES = (
    "kschedctl size",
    "kschedctl size --instance-types types.json --scale 1.5",
    "kschedctl size --scenario growth.yaml",
    "kschedctl size --instance-types types.json -f nodepools.yaml -f prod/",
    "kschedctl size -f apps/ --assume-complete --instance-types types.json",
    "kschedctl size --pools --instance-types types.json --jobs 4",
    "kschedctl size -f apps/ --snapshot prod.ksnap --keep-zone-loss",
)
SIZING_KINDS = LiveKinds(("DaemonSet",)).union(POOL_KINDS).union(CREATION_LIMIT_KINDS)


@dataclass(frozen=True)
class SizeOptions:
    """Options for the pods that have to fit and the nodes that can be bought."""

    scale: Annotated[
        float,
        typer.Option(
            "--scale",
            metavar="FACTOR",
            min=1,
            help="Multiply the number of pods of each workload by this factor, such as 1.5.",
        ),
    ] = 1
    scenario: Annotated[
        str,
        typer.Option(
            "--scenario",
            metavar="SCENARIO",
            help="Changes to simulate before sizing, in the format of whatif: a file, - (stdin) or JSON text.",
            show_default=False,
        ),
    ] = ""
    by_nodes: Annotated[bool, typer.Option("--by-nodes", help="Minimize the number of nodes instead of the price.")] = (
        False
    )
    keep_zone_loss: Annotated[
        bool, typer.Option("--keep-zone-loss", help="Choose nodes so that all pods still fit if any one zone is lost.")
    ] = False
    pool_label: Annotated[
        str,
        typer.Option(
            "--pool-label",
            metavar="KEY",
            help="Node label that holds the name of the node's pool.  [default: well-known labels]",
        ),
    ] = ""
    pools: Annotated[
        bool,
        typer.Option(
            "--pools", help="Use nodes like those of the existing pools, with the prices in the --instance-types file."
        ),
    ] = False
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--node-label",
            metavar="KEY=VALUE",
            help="Label for the nodes built from --instance-types. Repeatable.",
            show_default=False,
        ),
    ] = None
    seconds: Annotated[
        int | None,
        typer.Option(
            "--search-seconds",
            metavar="NUMBER",
            min=1,
            help="Time limit for the search, in seconds. By default, the number of replays is limited instead, so "
            "that the result does not depend on the machine.",
        ),
    ] = None

    def parse_node_labels(self) -> dict[str, str]:
        """Parse the values of --node-label, KEY=VALUE, into labels. Raises UsageError for a value of another form."""
        labels = {}
        for text in self.labels or ():
            key, equals, value = text.partition("=")
            if not key or not equals:
                raise UsageError(f"--node-label {key}{equals}: not KEY=VALUE")
            labels[key] = value
        return labels

    def build_criteria(self) -> SizingCriteria:
        """Build the requirements for a set of nodes from these options."""
        return SizingCriteria(self.by_nodes, self.keep_zone_loss, self.scale, self.seconds)


@with_options
def size(
    *, source: Source, view: DrawnUntabled, instance_types: InstanceTypeInput, sizes: SizeOptions, work: WorkOptions
) -> Answer:
    """Which nodes would you need if you built the cluster from scratch?

    Finds the cheapest set of nodes for all pods of the cluster and of the manifests given with -f, and a lower bound.
    If prices are unknown, finds the smallest set. Nodes are like those of the cluster's pools, or of the types in
    --instance-types. Karpenter's NodePools, if there are any, restrict these types. Every set is replayed with all
    pods, including DaemonSets and volumes. If scipy is installed (pip install 'kschedctl[solver]'), a solver proposes
    the first sets and finds a better lower bound.
    """
    types = instance_types.read_types() or ()
    criteria = sizes.build_criteria()
    workers = work.workers
    application = _read_input(source)
    steps = read_scenario(sizes.scenario) if sizes.scenario else ScenarioFile()
    with locate_errors(application.places), show_progress() as progress:
        report = library.size(
            application.cluster,
            application.manifests,
            criteria,
            instance_types=types,
            pool_label=sizes.pool_label,
            pools=sizes.pools,
            node_labels=sizes.parse_node_labels(),
            written=application.written,
            scenario=steps.scenario,
            read=steps.read,
            where=steps.where,
            workers=workers,
            progress=progress,
        )
    return view.build_answer(report, choose_exit_code(report.good, report.interrupted, report.undecided))


def _read_input(source: Source) -> Application:
    """Read the cluster, and the manifests given with -f that are to be applied to it.

    Raises UsageError if several snapshots are named, and KschedctlError if the input cannot be read.
    """
    if not source.filename:
        return Application(source, load_cluster(source, live=SIZING_KINDS), manifests=[], places={})
    if len(source.snapshot) > 1:
        raise UsageError("only one cluster can be sized", hint="pass only one --snapshot")
    try:
        (application,) = read_manifests(source, None, SIZING_KINDS).values()
    except ClusterError as error:
        hint = f"{error.hint}; --assume-complete if the files are the whole cluster"
        raise ClusterError(error.what, where=error.where, hint=hint) from None
    return application
