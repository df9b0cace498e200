"""The command ``kschedctl failures``."""

from __future__ import annotations

from typing import Annotated

import typer

from kschedctl.cli.extender_options import Extending
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import Answer, Drawn
from kschedctl.cli.run_options import RunOptions, answer_about_subjects
from kschedctl.cli.source import LoadedSource, load_clusters
from kschedctl.commands import failures as library
from kschedctl.commands.failures.report import Failures
from kschedctl.errors import UsageError
from kschedctl.replay.parallel import Progress, Workers

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
    nodes: Annotated[bool, typer.Option("--nodes", help="Simulate the loss of each node in turn.")] = False,
    zones: Annotated[
        bool, typer.Option("--zones", help="Simulate the loss of each zone in turn. This is the default.")
    ] = False,
    pools: Annotated[bool, typer.Option("--pools", help="Simulate the loss of each node pool in turn.")] = False,
    pairs: Annotated[
        bool,
        typer.Option(
            "--pairs",
            help="Simulate the loss of two nodes at a time. With --zones or --pools: of two zones or pools at a time.",
        ),
    ] = False,
) -> Answer:
    """What would no longer fit if a node, a zone or a pool were lost?

    The lost nodes are deleted, and pods that controllers recreate pass the scheduling queue on the remaining nodes. The
    time before the deletion is checked, too: until then, deleted pods stay Terminating on the unreachable nodes, still
    count for pod affinity and claims, and are not replaced by StatefulSets. PodDisruptionBudgets do not protect against
    failures. Pods that are already pending are not simulated, but the answer names those that may take the room first.
    Pods without a controller are lost, and so are all pods of a Job that fails because too many of its pods are lost.

    The worst losses come first. Exits with 0 if the cluster survives each loss. With --runs, pods are recreated in
    several orders, with the pods of Jobs last.
    """
    units = [unit for unit, is_chosen in (("node", nodes), ("zone", zones), ("pool", pools)) if is_chosen]
    if len(units) > 1:
        raise UsageError("--nodes, --zones and --pools cannot be combined", hint="choose one of them")
    default_unit = "node" if pairs else "zone"
    unit = units[0] if units else default_unit
    options = run.options()

    def ask(loaded: LoadedSource, workers: Workers, progress: Progress) -> Failures:
        """Simulate the failures in one cluster."""
        return library.failures(loaded.cluster, unit, pairs=pairs, workers=workers, progress=progress, **options)

    with extending.open_caller() as call_extender:
        options["call_extender"] = call_extender
        replay_options = [*run.to_cli_options(), *extending.to_cli_options()]

        def suggest_commands(loaded: LoadedSource, report: Failures) -> tuple[str, ...]:
            """Return a `whatif` command that adds enough nodes for the worst failure or, failing that, repeats it."""
            if report.remedy is None and (not report.failures or report.failures[0].safe):
                return ()
            scenario = report.remedy or {"steps": [library.build_worst_step(report)]}
            return loaded.source.build_whatif_command(scenario, replay_options)

        return answer_about_subjects(
            run, result, load_clusters(source), ask, lambda report: report.safe, suggest_commands=suggest_commands
        )
