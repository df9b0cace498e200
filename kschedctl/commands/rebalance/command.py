"""The command ``kschedctl rebalance``."""

from __future__ import annotations

from typing import Annotated

import typer

from kschedctl.api.json_values import JsonObject
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import Answer, DrawnUntabled
from kschedctl.cli.progress import show_progress
from kschedctl.cli.run_options import choose_exit_code
from kschedctl.cli.source import EVICTION_KINDS, get_cluster_time, load_cluster
from kschedctl.commands import rebalance as library
from kschedctl.errors import InputError
from kschedctl.sources.read import read_objects

EXAMPLES = (
    "kschedctl rebalance",
    "kschedctl rebalance --policy policy.yaml",
    "kschedctl rebalance --policy policy.yaml --rounds 3 -o json",
)


@with_options
def rebalance(
    *,
    source: Source,
    view: DrawnUntabled,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="FILE",
            help="Replay the descheduler with the DeschedulerPolicy (descheduler/v1alpha2) in this file.",
        ),
    ] = "",
    rounds: Annotated[
        int,
        typer.Option("--rounds", metavar="NUMBER", min=1, help="Maximum number of descheduler rounds to replay."),
    ] = 10,
    seed: Annotated[
        int, typer.Option("--seed", metavar="NUMBER", help="Random seed for choosing between nodes with equal scores.")
    ] = 0,
) -> Answer:
    """What would the descheduler (v0.36) evict, where would the pods go, would it loop, and which PodDisruptionBudgets
    would stop it?

    The descheduler's plugins run in rounds. kube-scheduler places the replacement of each evicted pod while the old pod
    is still terminating and before the next eviction. The next round sees the result. Evictions that would lose a pod
    or leave it without a node are reported but not carried out. Without --policy, a built-in policy evicts pods that
    violate taints, required node affinity, pod anti-affinity or spread constraints. Plugins that are not replayed are
    reported.
    """
    document = _read_policy(policy) if policy else None
    cluster = load_cluster(source, live=EVICTION_KINDS)
    now = get_cluster_time(cluster, source)
    with show_progress() as progress:
        report = library.rebalance(cluster, document, name=policy, rounds=rounds, seed=seed, now=now, progress=progress)
    good = report.quiet and not report.unsafe
    return view.build_answer(report, choose_exit_code(good, report.interrupted, report.undecided))


def _read_policy(path: str) -> JsonObject:
    """Read a policy from a file.

    Raises InputError if the file cannot be read or does not contain exactly one document.
    """
    documents = read_objects(path)
    if len(documents) != 1:
        raise InputError(f"expected one DeschedulerPolicy, found {len(documents)} documents", where=path)
    return documents[0]
