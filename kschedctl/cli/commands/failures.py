"""``kschedctl failures``: what would no longer fit if a node, a zone or a pool were lost?"""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec.structs import replace

from kschedctl.api.json_values import JsonObject
from kschedctl.cli.answer import Answer
from kschedctl.cli.asking import answer
from kschedctl.cli.option_groups.drawn import Drawn
from kschedctl.cli.option_groups.extending import Extending
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.run_options import RunChoices, RunOptions
from kschedctl.cli.source import Asked, clusters
from kschedctl.cli.try_next import after_remedy
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.reports.failures import Failures
from kschedctl.studies import failures as study
from kschedctl.studies.basics.parallel import Progress, Workers
from kschedctl.studies.one_more_node import with_more_nodes

EXAMPLES = (
    "kschedctl failures --zones",
    "kschedctl failures --nodes --snapshot prod.ksnap -o json",
    "kschedctl failures --zones -o svg > losses.svg",
)


@with_options
def failures(
    *,
    source: Source,
    run: RunOptions,
    result: Drawn,
    extending: Extending,
    nodes: Annotated[bool, typer.Option("--nodes", help="Lose every node in turn.")] = False,
    zones: Annotated[bool, typer.Option("--zones", help="Lose every zone in turn (this is the default).")] = False,
    pools: Annotated[bool, typer.Option("--pools", help="Lose every node pool in turn.")] = False,
    pairs: Annotated[bool, typer.Option("--pairs", help="Lose two at once; alone: every two nodes.")] = False,
) -> Answer:
    """What would no longer fit if a node, a zone or a pool were lost?

    The pods that controllers recreate pass the scheduling queue on the remaining nodes; PodDisruptionBudgets do not
    protect against failures. Pods that are already pending do not count. Worst losses first. Exits with 0 if the
    cluster survives the loss of any one. With --runs, pods come back in several orders, those of Jobs last.
    """
    chosen = [unit for unit, wanted in (("node", nodes), ("zone", zones), ("pool", pools)) if wanted]
    if len(chosen) > 1:
        raise UsageError("--nodes, --zones and --pools are different questions", hint="ask one of them")
    unit = chosen[0] if chosen else ("node" if pairs else "zone")
    options = run.options()

    def ask(asked: Asked, workers: Workers, progress: Progress) -> Failures:
        report = study.failures(asked.cluster, unit, pairs=pairs, workers=workers, progress=progress, **options)
        return replace(report, remedy=_remedy(report, asked.cluster, options))

    with extending.calling() as options["call_extender"]:
        following = after_remedy(run, extending.arguments())
        return answer(run, result, clusters(source), ask, lambda report: report.safe, following=following)


def _remedy(report: Failures, cluster: Cluster, options: RunChoices) -> JsonObject | None:
    """The worst loss with more nodes like those that are left of the same pools, if that is enough."""
    worst = report.failures[0] if report.failures else None
    if worst is None or not worst.unplaced or report.interrupted:
        return None
    lost = {report.unit: worst.name} if report.unit in ("zone", "pool") else {"nodes": list(worst.nodes)}
    return with_more_nodes(cluster, {"fail": lost}, worst.nodes, worst.reasons, options, gone=True)
