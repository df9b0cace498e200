"""The command line of `kschedctl packing`."""

from __future__ import annotations

from typing import Annotated

import typer

from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import Answer
from kschedctl.cli.progress import show_progress
from kschedctl.cli.source import load_cluster
from kschedctl.commands import packing as library
from kschedctl.commands.audit.next_commands import build_next_commands
from kschedctl.commands.audit.options import DrawableFindingsOutput
from kschedctl.commands.audit.packing import DEFAULT_LIMITS
from kschedctl.errors import UsageError

EXAMPLES = (
    "kschedctl packing",
    "kschedctl packing --snapshot prod.ksnap --nodes 100",
    "kschedctl packing --demo --nodes 0 -o wide",
)


@with_options
def packing(
    *,
    source: Source,
    findings_output: DrawableFindingsOutput,
    nodes: Annotated[
        int,
        typer.Option(
            "--nodes",
            metavar="NUMBER",
            help="Maximum number of nodes to try to empty. 0 means all.  "
            f"[default: {DEFAULT_LIMITS.nodes}, or fewer if they run more than {DEFAULT_LIMITS.pods} pods in total]",
            show_default=False,
        ),
    ] = -1,
) -> Answer:
    """Which free capacity is stranded, and which nodes can be removed?

    Free capacity is stranded if neither a pending pod nor a pod that usually runs in the node's pool fits on the node,
    even when rules about other pods are ignored. To find removable nodes, simulates draining the nodes one at a
    time as kschedctl drain does, emptiest first. Another order might empty more nodes. Pending pods that fit are placed
    first, and a node is kept if other pending pods would fit on it once it is empty. Cordoned, nominated and
    control-plane nodes are not tried.
    """
    if nodes < -1:
        raise UsageError(f"--nodes {nodes}: must be a number of nodes, or 0 for all")
    cluster = load_cluster(source)
    with show_progress() as progress:
        section = library.packing(cluster, nodes=None if nodes == -1 else nodes, progress=progress)
        return findings_output.build_answer_with_exit_code(section, build_next_commands(source, section))
