"""The `packing` command: free capacity that no pod can use, and nodes that can be removed.

The analysis is section "packing" of the audit (`kschedctl/commands/audit/packing`).
"""

from __future__ import annotations

from kschedctl.cluster import Cluster
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.packing import DEFAULT_LIMITS, build_packing_section
from kschedctl.commands.audit.packing.emptying import TrialLimits
from kschedctl.commands.audit.packing.report import PackingSection
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.scheduler.scheduler import Scheduler


def packing(cluster: Cluster, *, nodes: int | None = None, progress: Progress = NO_PROGRESS) -> PackingSection:
    """Return which free capacity is stranded, and which nodes can be removed.

    `nodes` is the number of nodes to try to empty, or 0 for all. By default, up to DEFAULT_LIMITS.nodes nodes are
    tried, and fewer if many pods have to move.

    >>> import kschedctl
    >>> packing(kschedctl.Cluster.from_objects([{"kind": "Node", "metadata": {"name": "n1"}}])).state
    'sound'
    """
    limits = DEFAULT_LIMITS if nodes is None else TrialLimits(nodes, pods=0)
    return build_packing_section(AuditedCluster(Scheduler(cluster), progress=progress), limits)
