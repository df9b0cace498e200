"""The command ``kschedctl size``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from kschedctl.cli.answer import Answer
from kschedctl.cli.autoscaler_options import POOL_KINDS, InstanceTypeInput
from kschedctl.cli.manifests import Application, read_manifests
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import DrawnUntabled
from kschedctl.cli.progress import show_progress
from kschedctl.cli.run_options import WorkOptions, choose_exit_code
from kschedctl.cli.source import CREATION_LIMIT_KINDS, LiveKinds, load_cluster
from kschedctl.commands import size as library
from kschedctl.commands.size.sizing import SizingWishes
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
        float, typer.Option("--scale", metavar="FACTOR", min=1, help="So many times the pods of each workload.")
    ] = 1
    scenario: Annotated[
        str,
        typer.Option(
            "--scenario",
            metavar="SCENARIO",
            help="Steps to take before, as those of whatif: a file, - for stdin, or the JSON itself.",
            show_default=False,
        ),
    ] = ""
    by_nodes: Annotated[bool, typer.Option("--by-nodes", help="The fewest nodes, though prices are known.")] = False
    keep_zone_loss: Annotated[
        bool, typer.Option("--keep-zone-loss", help="All pods get nodes after the loss of any zone, too.")
    ] = False
    pool_label: Annotated[
        str, typer.Option("--pool-label", metavar="KEY", help="The node label that names a node's pool.")
    ] = ""
    pools: Annotated[
        bool, typer.Option("--pools", help="Nodes like those of the pools, for what --instance-types says they cost.")
    ] = False
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--node-label", metavar="KEY=VALUE", help="A label that nodes of --instance-types get.", show_default=False
        ),
    ] = None
    seconds: Annotated[
        int, typer.Option("--search-seconds", metavar="NUMBER", min=1, help="Longest time to try more sets of nodes.")
    ] = 60

    def parse_node_labels(self) -> dict[str, str]:
        """Parse the values of --node-label. Raises UsageError."""
        pairs = [text.partition("=") for text in self.labels or ()]
        if invalid := next((key + equals for key, equals, _ in pairs if not (key and equals)), None):
            raise UsageError(f"--node-label {invalid}: not KEY=VALUE")
        return {key: value for key, _, value in pairs}

    def build_wishes(self) -> SizingWishes:
        """Return the wishes that these options express."""
        return SizingWishes(self.by_nodes, self.keep_zone_loss, self.scale, self.seconds)


@with_options
def size(
    *, source: Source, view: DrawnUntabled, instance_types: InstanceTypeInput, sizes: SizeOptions, work: WorkOptions
) -> Answer:
    """Which nodes would all workloads need, had they to be bought anew?

    Finds the cheapest set of nodes that takes all pods of the cluster, and of the manifests of -f, or the smallest
    where prices are not known, and tells what is needed at least. What can be bought are nodes like those of the
    cluster's pools, or --instance-types, by Karpenter's NodePools where there are any. Every set is replayed with all
    pods, DaemonSets and volumes included. With scipy (pip install 'kschedctl[solver]') a solver proposes the first
    sets, and tells better what is needed at least.
    """
    types = instance_types.read_types() or ()
    wishes = sizes.build_wishes()
    workers = work.workers
    application = _read_input(source)
    steps = read_scenario(sizes.scenario) if sizes.scenario else ScenarioFile()
    with locate_errors(application.places), show_progress() as shown:
        report = library.size(
            application.cluster,
            application.manifests,
            wishes,
            instance_types=types,
            pool_label=sizes.pool_label,
            pools=sizes.pools,
            node_labels=sizes.parse_node_labels(),
            written=application.written,
            scenario=steps.scenario,
            read=steps.read,
            where=steps.where,
            workers=workers,
            progress=shown,
        )
    return view.answer(report, choose_exit_code(report.good, report.interrupted, report.undecided))


def _read_input(source: Source) -> Application:
    """Read one cluster and the manifests to apply to it. Raises KschedctlError."""
    if not source.filename:
        return Application(source, load_cluster(source, live=SIZING_KINDS), [], {})
    if len(source.snapshot) > 1:
        raise UsageError("one cluster is sized", hint="name one --snapshot")
    try:
        (application,) = read_manifests(source, None, SIZING_KINDS).values()
    except ClusterError as error:
        whole = "--assume-complete where the files are all that there is"
        raise ClusterError(error.what, where=error.where, hint=f"{error.hint}; {whole}") from None
    return application
