"""The command `kschedctl drain`."""

from __future__ import annotations

from typing import Annotated

import typer

from kschedctl.cli.extender_options import Extending
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import Answer, Drawn
from kschedctl.cli.references import parse_kind
from kschedctl.cli.run_options import RunOptions, answer_about_subjects
from kschedctl.cli.source import KUEUE_QUOTA_KINDS, LoadedSource, load_clusters
from kschedctl.commands import drain as library
from kschedctl.commands.drain.report import Drain
from kschedctl.errors import UsageError
from kschedctl.replay.parallel import Progress, Workers

EXAMPLES = (
    "kschedctl drain general-a1",
    "kschedctl drain -l pool=general --snapshot prod.ksnap --runs 20",
)


@with_options
def drain(
    *,
    source: Source,
    run: RunOptions,
    result: Drawn,
    extending: Extending,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="[NODE]…", help="Names of the nodes to drain.")] = None,
    selector: Annotated[
        str,
        typer.Option(
            "-l",
            "--selector",
            metavar="SELECTOR",
            help="Drain the nodes that match this label selector, such as pool=spot.",
        ),
    ] = "",
) -> Answer:
    """Where would the pods of these nodes go, and what blocks the drain?

    All of the nodes are cordoned first. Then their pods are evicted one by one, as far as PodDisruptionBudgets allow.
    Each pod is placed elsewhere before the next one is evicted. As with kubectl drain --ignore-daemonsets
    --delete-emptydir-data --force, DaemonSet and static pods stay. Pods without a controller are lost, and so are all
    pods of a Job that fails because too many of its pods are evicted. Pods that are already pending are not simulated,
    but the answer names those that may take the room first.

    Exits with 0 if every evicted pod gets another node, none is lost, no pending pod loses its nominated or only node,
    and the nodes are ready. If a node's kubelet does not respond, evicted pods stay Terminating. With --runs, all runs
    except the first evict pods in parallel and recreate them in random order. The answer then shows which pods fit in
    none of the runs, and which only in some.
    """
    if not nodes and not selector:
        raise UsageError("no node to drain", hint="name the nodes, or select them with -l")
    names = _strip_kind(nodes or [])
    options = run.options()

    def answer_source(loaded: LoadedSource, workers: Workers, progress: Progress) -> Drain:
        """Answer for one cluster."""
        return library.drain(loaded.cluster, names, selector=selector, workers=workers, progress=progress, **options)

    with extending.open_caller() as call_extender:
        options["call_extender"] = call_extender
        replay_options = [*run.to_cli_options(), *extending.to_cli_options()]

        def suggest_commands(loaded: LoadedSource, report: Drain) -> tuple[str, ...]:
            """Return the command with which to go on.

            The command replays a safe order of nodes, finds a node for a pod that uses up a budget, adds enough nodes,
            or includes the pending pods. Return () if none of these helps.
            """
            if report.drain_first:
                order = (*report.drain_first, *report.nodes)
                return loaded.source.build_command("drain", order, options=replay_options)
            if report.unfit_in_budgets:
                pod = report.unfit_in_budgets[0]
                return loaded.source.build_command("remedies", pod, options=extending.to_cli_options())
            scenario = report.remedy
            if scenario is None and report.pending_left_out.may_take_room:
                scenario = {"steps": [{"drain": {"nodes": list(report.nodes)}}]}
            return () if scenario is None else loaded.source.build_whatif_command(scenario, replay_options)

        return answer_about_subjects(
            run,
            result,
            load_clusters(source, KUEUE_QUOTA_KINDS),
            answer_source,
            lambda report: report.safe,
            suggest_commands=suggest_commands,
        )


def _strip_kind(words: list[str]) -> list[str]:
    """Return the node names without a leading kind, as in `drain node n1`. A single word is always a name."""
    has_kind = len(words) > 1 and parse_kind(words[0]) == "Node"
    return words[1:] if has_kind else words
