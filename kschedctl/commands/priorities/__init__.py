"""The `priorities` command: priority tiers, starving pods, and the pods that would be preempted first.

The analysis is section "priorities" of the audit (`kschedctl/commands/audit/priorities`).
"""

from __future__ import annotations

from kschedctl.cluster import Cluster
from kschedctl.commands.audit.audited_cluster import AuditedCluster, PriorityLimits, Thresholds
from kschedctl.commands.audit.priorities import build_priorities_section
from kschedctl.commands.audit.priorities.report import PrioritiesSection
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.scheduler.scheduler import Scheduler


def priorities(
    cluster: Cluster, limits: PriorityLimits | None = None, *, now: str = "", progress: Progress = NO_PROGRESS
) -> PrioritiesSection:
    """Return the priority tiers, the starving pods, and the pods that would be preempted first.

    `limits` sets which tier grows and by how many pods, and how long a pod must have been pending to count as starving.
    `now` is the RFC 3339 time of the cluster and defaults to the time at which it was read. If neither is known, no pod
    counts as starving, and the section says that ages are unknown. Raises UsageError for an unknown tier.

    >>> import kschedctl
    >>> priorities(kschedctl.Cluster.from_objects([])).findings
    ()
    """
    thresholds = Thresholds(priorities=limits or PriorityLimits())
    if not now and cluster.provenance:
        now = cluster.provenance.read_at
    audited = AuditedCluster(Scheduler(cluster), now, thresholds, progress=progress)
    return build_priorities_section(audited)
