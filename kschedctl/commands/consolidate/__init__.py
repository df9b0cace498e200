"""`consolidate`: which nodes could be removed, and why must the others stay?

Read `plan`, which drains node after node, then `safety` for the conditions that must hold, and `autoscalers` for the
comparison with Karpenter and the Cluster Autoscaler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kschedctl.api.json_values import JsonObject
from kschedctl.cluster import Cluster
from kschedctl.commands.consolidate.autoscalers import (
    NO_AUTOSCALER,
    AutoscalerVerdicts,
    extract_cluster_autoscaler_verdicts,
    extract_karpenter_verdicts,
    find_prices,
)
from kschedctl.commands.consolidate.plan import ConsolidationCriteria, find_removable_nodes
from kschedctl.commands.consolidate.report import NodeConsolidation
from kschedctl.commands.simulate import prepare_simulation
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, Workers
from kschedctl.reports.cluster_autoscaler import ScaleDown
from kschedctl.reports.karpenter import Disruption
from kschedctl.text.deprecation import accept_old_names


@accept_old_names(wishes="criteria")
def consolidate(
    cluster: Cluster,
    criteria: ConsolidationCriteria = ConsolidationCriteria(),
    *,
    headroom_for: Sequence[JsonObject] = (),
    instance_types: Sequence[JsonObject] = (),
    autoscaler: Disruption | ScaleDown | None = None,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> NodeConsolidation:
    """Find the nodes that could be removed because their pods fit elsewhere, and the reasons that keep the other nodes.

    `headroom_for` are manifests (dicts) whose pods must still fit. `instance_types` are in the format of kwok's
    instance_types.json and give hourly prices. `autoscaler` is the answer of `disrupt` or `scale_down`, shown beside
    each node. Raises UsageError for an unknown pool, and InputError for invalid manifests or instance types.

    >>> import kschedctl
    >>> nodes = [{"kind": "Node", "metadata": {"name": name}} for name in ("n1", "n2")]
    >>> str(consolidate(kschedctl.Cluster.from_objects(nodes)))
    '1 of 2 nodes can be removed'
    """
    prices = find_prices(cluster.nodes, instance_types)
    if headroom_for:
        prepared = prepare_simulation(cluster, headroom_for)
        cluster = prepared.remove_old_pods()
        criteria = replace(criteria, headroom_for=tuple(prepared.workload_by_pod))
    verdicts = _extract_verdicts(autoscaler)
    return find_removable_nodes(cluster, criteria, prices=prices, verdicts=verdicts, workers=workers, progress=progress)


def _extract_verdicts(report: Disruption | ScaleDown | None) -> AutoscalerVerdicts:
    """Return an autoscaler's verdicts on the nodes, which are empty without a report."""
    if report is None:
        return NO_AUTOSCALER
    if isinstance(report, Disruption):
        return extract_karpenter_verdicts(report)
    return extract_cluster_autoscaler_verdicts(report)
