"""``kschedctl drain``: where would the pods of these nodes go?"""

from __future__ import annotations

from typing import Annotated

import typer

from kschedctl.cli.answer import Answer
from kschedctl.cli.options import Output, Source, with_options
from kschedctl.cli.progress import bars
from kschedctl.cli.run_options import exit_code
from kschedctl.cli.source import load
from kschedctl.errors import UsageError
from kschedctl.studies import drain as study
from kschedctl.studies.nodes import find_nodes


@with_options
def drain(
    *,
    source: Source,
    result: Output,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="[NODE]…", help="The nodes to drain.")] = None,
    selector: Annotated[
        str, typer.Option("-l", "--selector", metavar="SELECTOR", help="Drain the nodes with such labels.")
    ] = "",
    seed: Annotated[int, typer.Option("--seed", metavar="NUMBER", help="Decides between nodes that are equal.")] = 0,
    sampling: Annotated[
        bool, typer.Option("--sampling", help="Look at as many nodes as kube-scheduler does, not at all of them.")
    ] = False,
) -> Answer:
    """Where would the pods of these nodes go, and what keeps them from being drained?

    The nodes are cordoned and their pods evicted one by one, as far as PodDisruptionBudgets allow; each is placed anew
    before the next one goes. Pods of DaemonSets stay. Exits with 0 when all of them get another node.
    """
    if not nodes and not selector:
        raise UsageError("no node to drain", hint="name nodes, or choose them with -l")
    cluster = load(source)
    chosen = find_nodes(cluster, nodes or (), selector)
    with bars() as progress:
        report = study.drain(cluster, chosen, seed=seed, sampling=sampling, progress=progress)
    return result.answer(report, exit_code(report.safe, report.interrupted))
