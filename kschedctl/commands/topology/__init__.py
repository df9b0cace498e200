"""``topology``: what does losing a node, zone or rack cost each workload, and does spreading hold?

The analysis is the audit's section, ``kschedctl/commands/audit/topology``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from kschedctl.api.ownership import Owner
from kschedctl.cluster import Cluster
from kschedctl.commands.audit import with_tool_version
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.topology.report import TopologySection
from kschedctl.commands.audit.topology.section import TopologyScope, build_topology_section
from kschedctl.commands.audit.topology.workload_topology import Workloads
from kschedctl.errors import UsageError
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.scheduler.scheduler import Scheduler

ANY = "Pod"
"""The kind of a workload that is named without one."""


def topology(
    cluster: Cluster,
    workloads: Sequence[Owner] = (),
    *,
    namespace: str = "",
    keys: Sequence[str] = (),
    progress: Progress = NO_PROGRESS,
) -> TopologySection:
    """Which node, zone or rack takes a whole workload with it, and do spread constraints still hold?

    Of all workloads with two pods on nodes, or of these (kind, namespace, name; the kind ``Pod`` stands for any, no
    namespace for all), or of one ``namespace``. ``keys``: topology keys besides hosts, zones and those of constraints.
    Raises UsageError for what is not there.

    >>> import kschedctl
    >>> topology(kschedctl.Cluster.from_objects([])).workloads
    0
    """
    audited = AuditedCluster(Scheduler(cluster), progress=progress)
    chosen = _chosen(audited, workloads, namespace) if workloads or namespace else frozenset()
    return with_tool_version(build_topology_section(audited, TopologyScope(tuple(keys), chosen)))


def _chosen(audited: AuditedCluster, meant: Sequence[Owner], namespace: str) -> frozenset[Owner]:
    """Workloads that are named, or all of the namespace. Raises UsageError for what is not there."""
    known = [
        owner for owner in Workloads.from_view(audited.scheduler.view).owners if namespace in ("", owner.namespace)
    ]
    owners: list[Owner] = []
    for workload in meant:
        named = list(_named(workload, known))
        if not named:
            what = f'no workload "{workload.name}" with two pods on nodes'
            raise UsageError(what, hint="kschedctl topology looks at all")
        owners += named
    if not known:
        raise UsageError(f'namespace "{namespace}" has no workload with two pods on nodes')
    return frozenset(owners if meant else known)


def _named(workload: Owner, known: Collection[Owner]) -> Iterator[Owner]:
    for owner in known:
        of_kind = workload.kind in (ANY, owner.kind)
        if of_kind and owner.name == workload.name and workload.namespace in ("", owner.namespace):
            yield owner
