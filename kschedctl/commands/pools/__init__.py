"""``pools``: which node pools are there, and what is free on their nodes?

Read ``pool_reports``, then ``pool_groups`` for the node groups of Cluster Autoscaler.
"""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.api.json_values import JsonObject
from kschedctl.autoscaling.node_groups.discovery import UserGroups
from kschedctl.cluster import Cluster
from kschedctl.commands.pools import pool_reports
from kschedctl.commands.pools.pool_groups import PoolGroups
from kschedctl.commands.pools.report import NodePools
from kschedctl.fixes.new_node import get_node_groups, has_any_node_groups
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.sources.cluster import get_read_time


def pools(
    cluster: Cluster,
    groups: Sequence[JsonObject] = (),
    *,
    pool_label: str = "",
    where: str = "",
    now: str = "",
) -> NodePools:
    """The node pools by name, what their nodes are like, what is free on them, and how many pods wait for more.

    ``groups``, ``pool_label``, ``where``: as for ``scale_up``. ``now``: the RFC 3339 time for the budgets of
    Karpenter's NodePools; when the cluster was read. Raises InputError.

    >>> cluster = Cluster.from_objects([{"kind": "Node", "metadata": {"name": "n1"}}])
    >>> str(pools(cluster, now="2026-01-01T00:00:00Z"))
    '1 pool, 1 node 0 pending pods'
    """
    given, now = UserGroups(groups, {}, pool_label, where), now or get_read_time(cluster)
    found = PoolGroups(cluster, get_node_groups(cluster, given), now) if has_any_node_groups(cluster, given) else None
    return pool_reports.report_pools(Scheduler(cluster), now, found)
