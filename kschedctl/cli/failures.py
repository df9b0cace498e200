"""``kschedctl failures``: what would not fit any more if a node, a zone or a pool were lost?"""

from __future__ import annotations

from typing import Annotated

import typer

from kschedctl.cli.answer import Answer
from kschedctl.cli.options import Output, Source, with_options
from kschedctl.cli.progress import bars
from kschedctl.cli.run_options import Spread, exit_code
from kschedctl.cli.source import load
from kschedctl.errors import UsageError
from kschedctl.studies import failures as study


@with_options
def failures(
    *,
    source: Source,
    spread: Spread,
    result: Output,
    nodes: Annotated[bool, typer.Option("--nodes", help="Lose every node in turn.")] = False,
    zones: Annotated[bool, typer.Option("--zones", help="Lose every zone in turn (this is the default).")] = False,
    pools: Annotated[bool, typer.Option("--pools", help="Lose every node pool in turn.")] = False,
    pairs: Annotated[bool, typer.Option("--pairs", help="Lose two at once; alone: every two nodes.")] = False,
) -> Answer:
    """What would not fit any more if a node, a zone or a pool were lost?

    The pods that controllers make anew pass the scheduling queue on the nodes that are left. The worst losses come
    first. Exits with 0 when the cluster can do without any one of them.
    """
    chosen = [unit for unit, wanted in (("node", nodes), ("zone", zones), ("pool", pools)) if wanted]
    if len(chosen) > 1:
        raise UsageError("--nodes, --zones and --pools are different questions", hint="ask one of them")
    unit = chosen[0] if chosen else ("node" if pairs else "zone")
    with bars() as progress:
        report = study.failures(
            load(source), unit, pairs=pairs, seed=spread.seed, workers=spread.workers, progress=progress
        )
    return result.answer(report, exit_code(report.safe, report.interrupted))
