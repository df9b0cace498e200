"""The command ``failures``: what would no longer fit if a node, a zone or a pool failed?

Read ``losses``, which removes each node, zone or pool in turn and reschedules its pods.
"""

from __future__ import annotations

from msgspec.structs import replace

from kschedctl.api.json_values import JsonObject
from kschedctl.cluster import Cluster
from kschedctl.commands.failures import losses
from kschedctl.commands.failures.report import Failures
from kschedctl.commands.whatif.one_more_node import find_sufficient_nodes
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, Workers
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom, SearchOptions


def failures(
    cluster: Cluster,
    unit: str = "zone",
    *,
    pairs: bool = False,
    seed: int = 0,
    runs: int = 1,
    sampling: SampledFrom | None = None,
    call_extender: CallExtender | None = None,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> Failures:
    """Find what would no longer fit if any one ``unit`` (node, zone or pool) failed.

    With ``pairs``, any two units fail at once. The report's ``remedy`` is a scenario with enough nodes to withstand the
    worst failure. The other arguments are as for ``drain``. Raises UsageError if there is no such unit, and
    ConfigurationError if the scheduler's configuration is invalid.

    >>> zones = [{"topology.kubernetes.io/zone": zone} for zone in ("a", "b")]
    >>> nodes = [{"kind": "Node", "metadata": {"name": f"n{i}", "labels": zone}} for i, zone in enumerate(zones)]
    >>> str(failures(Cluster.from_objects(nodes), "zone"))
    'Any zone can be lost: every recreated pod gets a node (2 failures simulated)'
    """
    options = SearchOptions(seed=seed, sampling=sampling, call_extender=call_extender)
    report = losses.simulate_failures(
        cluster, unit, pairs=pairs, runs=runs, workers=workers, progress=progress, **options
    )
    return replace(report, remedy=_find_scenario_with_enough_nodes(report, cluster, options))


def _find_scenario_with_enough_nodes(report: Failures, cluster: Cluster, options: SearchOptions) -> JsonObject | None:
    """Return a what-if scenario that adds enough nodes to withstand the worst failure, and then repeats the failure.

    The new nodes are like the remaining nodes of the same pools. The result is None if the worst failure leaves no pod
    without a node, if new nodes do not help, or after an interruption.
    """
    worst = report.failures[0] if report.failures else None
    if worst is None or not worst.unplaced or report.interrupted:
        return None
    can_be_named = report.unit in ("zone", "pool")  # a pair is given by its nodes
    step = {"fail": {report.unit: worst.name} if can_be_named else {"nodes": list(worst.nodes)}}
    return find_sufficient_nodes(cluster, step, worst.nodes, worst.reasons, options, deletes_nodes=True)
