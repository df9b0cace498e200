"""The command `drain`: where would the pods of these nodes go, and what blocks the drain?

`runs` drains with one or several seeds. The eviction of a node's pods is in `kschedctl/replay/node_drain.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kschedctl.api.json_values import JsonObject
from kschedctl.cluster import Cluster
from kschedctl.commands.drain import runs as draining
from kschedctl.commands.drain.report import Drain
from kschedctl.commands.whatif.one_more_node import find_sufficient_nodes
from kschedctl.replay.edits import find_nodes
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, Workers
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom, SearchOptions


def drain(
    cluster: Cluster,
    nodes: Sequence[str] = (),
    *,
    selector: str = "",
    seed: int = 0,
    runs: int = 1,
    sampling: SampledFrom | None = None,
    call_extender: CallExtender | None = None,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> Drain:
    """Find where the pods of these nodes would go, and what blocks the drain.

    The report's `remedy` is a scenario for `whatif` with additional nodes, with which the drain leaves no pod without a
    node.

    Raises UsageError for unknown nodes, and ConfigurationError.

    >>> import kschedctl
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "9"}}}
    >>> kschedctl.drain(kschedctl.Cluster.from_objects([node]), ["n1"]).safe
    True
    """
    node_names = find_nodes(cluster, list(nodes), selector)
    options = SearchOptions(seed=seed, sampling=sampling, call_extender=call_extender)
    report = draining.drain_nodes(cluster, node_names, runs=runs, workers=workers, progress=progress, **options)
    if not report.unplaced or report.interrupted:
        return report
    step: JsonObject = {"drain": {"nodes": node_names}}
    return replace(
        report, remedy=find_sufficient_nodes(cluster, step, node_names, report.unplaced, options, deletes_nodes=False)
    )
