"""The `topology` command: what the loss of a node, zone or rack costs each workload, and whether spreading holds.

The analysis is section "topology" of the audit (`kschedctl/commands/audit/topology`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from kschedctl.api.ownership import Owner
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.topology import TopologyScope, build_topology_section
from kschedctl.commands.audit.topology.report import TopologySection
from kschedctl.commands.audit.topology.workload_topology import Workloads
from kschedctl.errors import UsageError
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.scheduler.scheduler import Scheduler

ANY_KIND = "Pod"
"""The kind of a workload that is named without a kind."""


def topology(
    cluster: Cluster,
    workloads: Sequence[Owner] = (),
    *,
    namespace: str = "",
    keys: Sequence[str] = (),
    progress: Progress = NO_PROGRESS,
) -> TopologySection:
    """Return the domains whose loss takes down a whole workload, and the violated spread constraints.

    `workloads` selects workloads by kind, namespace and name (kind `Pod` for any kind, an empty namespace for all
    namespaces), and `namespace` selects all workloads of a namespace. By default, all workloads with at least two pods
    on nodes are examined. `keys` are topology keys in addition to host name, zone and the keys in spread constraints.
    Raises UsageError if a selected workload or namespace has no pods to examine.

    >>> import kschedctl
    >>> topology(kschedctl.Cluster.from_objects([])).workloads
    0
    """
    audited = AuditedCluster(Scheduler(cluster), progress=progress)
    selected = _select_workloads(audited, workloads, namespace) if workloads or namespace else frozenset()
    return build_topology_section(audited, TopologyScope(tuple(keys), selected))


def _select_workloads(audited: AuditedCluster, references: Sequence[Owner], namespace: str) -> frozenset[Owner]:
    """Return the workloads in the namespace that match the references, or all of them without references.

    An empty namespace stands for all namespaces. Raises UsageError if a reference or the namespace has no workload.
    """
    owners_in_namespace = [
        owner for owner in Workloads.from_view(audited.scheduler.view).owners if namespace in ("", owner.namespace)
    ]
    owners: list[Owner] = []
    for workload in references:
        matches = list(_iter_matching_workloads(workload, owners_in_namespace))
        if not matches:
            message = f'no workload "{workload.name}" with two pods on nodes'
            raise UsageError(message, hint="kschedctl topology lists all")
        owners += matches
    if not owners_in_namespace:
        raise UsageError(f'namespace "{namespace}" has no workload with two pods on nodes')
    return frozenset(owners if references else owners_in_namespace)


def _iter_matching_workloads(reference: Owner, owners: Collection[Owner]) -> Iterator[Owner]:
    """Yield the workloads that match a reference.

    A reference of kind ANY_KIND matches any kind, and a reference without a namespace matches any namespace.
    """
    for owner in owners:
        has_kind = reference.kind in (ANY_KIND, owner.kind)
        if has_kind and owner.name == reference.name and reference.namespace in ("", owner.namespace):
            yield owner
