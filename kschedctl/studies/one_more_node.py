"""Whether one more node, or as many as are taken away, would help: replayed before it is proposed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kschedctl.cluster import Cluster
from kschedctl.errors import KschedctlError
from kschedctl.reports.whatif import WhatIf
from kschedctl.studies.nodes import pool
from kschedctl.studies.whatif import whatif

MOST_TRIES = 3
"""Each costs about as much as the question whose answer it is about."""

Json = Mapping[str, Any]


def with_more_nodes(
    cluster: Cluster, step: Json, taken: Sequence[str], gone: bool, *, seed: int = 0, sampling: bool = False
) -> Json | None:
    """The scenario of the fewest more nodes, of those tried, after which the step leaves no pod without a node.

    ``taken``: the nodes that the step takes away; the new ones are like one of the same pool, which has to be another
    where they are ``gone``. None where nothing that was tried helps, or the answer leans on what was not read.
    """
    for count, like in _tries(cluster, taken, gone):
        scenario = {"steps": [{"addNodes": {"like": like, "count": count}}, step]}
        try:
            report = whatif(cluster, scenario, seed=seed, sampling=sampling)
        except (KschedctlError, KeyboardInterrupt):
            return None
        if report.interrupted or report.undecided:
            return None
        if helps(report):
            return scenario
    return None


def helps(report: WhatIf) -> bool:
    """Whether no pod waits for a node that did not wait before."""
    most = report.over_runs.get("NewlyPending")
    return not (most and most.most) and all(change.change != "NewlyPending" for change in report.changes)


def _tries(cluster: Cluster, taken: Sequence[str], gone: bool) -> Iterator[tuple[int, str]]:
    """How many, and like which: one, as many as are taken away, one more than these; of the pools that lose some."""
    names = frozenset(taken)
    models: dict[str, str] = {}
    lost = {pool(node) for node in cluster.nodes if node.metadata.name in names}
    for node in cluster.nodes:
        if pool(node) in lost and not node.spec.unschedulable and not (gone and node.metadata.name in names):
            models.setdefault(pool(node), node.metadata.name)
    tries = [(count, like) for count in dict.fromkeys((1, len(taken), len(taken) + 1)) for like in models.values()]
    yield from tries[:MOST_TRIES]
