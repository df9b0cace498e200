"""The command `kschedctl queues`."""

from __future__ import annotations

from typing import Annotated

import typer

from kschedctl.cli.kueue_options import KUEUE_KINDS, KueueInput
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import Answer, Tabled
from kschedctl.cli.run_options import choose_exit_code
from kschedctl.cli.source import get_cluster_time, load_cluster
from kschedctl.commands import queues as library

EXAMPLES = (
    "kschedctl queues",
    "kschedctl queues research --snapshot prod.ksnap",
    "kschedctl queues -o json",
    "kschedctl queues --kueue-config kueue-manager-config.yaml",
)


@with_options
def queues(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME...]", help="ClusterQueues or cohorts to show.", show_default=False),
    ] = None,
    *,
    source: Source,
    view: Tabled,
    kueue: KueueInput,
) -> Answer:
    """Who uses the quota of Kueue's queues, and what is each pending Workload waiting for?

    Replays Kueue's admission until nothing changes. Shows the waiting Workloads in the order in which they are tried,
    with the flavors that they would get and the Workloads that they would preempt. Also shows the ClusterQueues, why
    some of them admit nothing, and the quotas of the ClusterQueues and their cohorts.
    """
    cluster = kueue.apply_to(load_cluster(source, live=KUEUE_KINDS))
    report = library.queues(cluster, names or (), now=get_cluster_time(cluster, source))
    return view.build_answer(report, choose_exit_code(good=True, interrupted=False, undecided=report.undecided))
