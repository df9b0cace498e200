"""The command line of `kschedctl topology`."""

from __future__ import annotations

from typing import Annotated

import typer

from kschedctl.api.ownership import Owner
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import Answer
from kschedctl.cli.progress import show_progress
from kschedctl.cli.references import parse_references
from kschedctl.cli.source import load_cluster
from kschedctl.commands import topology as library
from kschedctl.commands.audit.options import FindingsOutput

EXAMPLES = (
    "kschedctl topology",
    "kschedctl topology deploy/web -n shop",
    "kschedctl topology --key topology.example.com/rack --snapshot prod.ksnap",
    "kschedctl topology --demo -o json",
)


@with_options
def topology(
    *,
    source: Source,
    findings_output: FindingsOutput,
    workloads: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORKLOAD]…", help="Workload: NAME, NAMESPACE/NAME, deploy/NAME, sts/NAME, …  [default: all]"
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "-n", "--namespace", metavar="NAME", help="Namespace of the workloads.  [default: all namespaces]"
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="LABEL",
            help="Also check the domains of this node label. Hosts, zones and the topology keys of constraints are "
            "always checked. Repeatable.",
        ),
    ] = None,
) -> Answer:
    """Which workloads would the loss of a single node, zone or rack take down, and do the spread constraints hold?

    Lists workloads with two or more pods on nodes whose pods all share one node, zone or other domain, although there
    are others. Also lists topology spread constraints that no longer hold, counted as in kube-scheduler. With a
    WORKLOAD, shows its skew now and after the loss of each domain, and how many pods could not be placed again.
    """
    references = [Owner(*reference) for reference in parse_references(tuple(workloads or ()))]
    cluster = load_cluster(source)
    with show_progress() as progress:
        section = library.topology(cluster, references, namespace=namespace or "", keys=key or (), progress=progress)
        return findings_output.build_answer_with_exit_code(section)
