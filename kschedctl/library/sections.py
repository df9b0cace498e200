"""``packing``, ``priorities`` and ``topology``: sections of the audit by themselves, with what can be asked of each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TypeVar

from kschedctl.api.copying import replace
from kschedctl.api.ownership import Owner
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.library.cluster import moment_of
from kschedctl.reports.audit.packing import PackingSection
from kschedctl.reports.audit.priorities import PrioritiesSection
from kschedctl.reports.audit.section import Section
from kschedctl.reports.audit.topology import TopologySection
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.audit.audited_cluster import AuditedCluster, Thresholds
from kschedctl.studies.audit.packing import USUAL, packing_section
from kschedctl.studies.audit.priorities import priorities_section
from kschedctl.studies.audit.topology import TopologyScope, topology_section
from kschedctl.studies.basics.parallel import UNSEEN, Progress
from kschedctl.studies.packing.emptying import Limits
from kschedctl.studies.priorities.growth import PriorityLimits
from kschedctl.studies.workload_topology import Workloads
from kschedctl.text.version import VERSION

OfKind = TypeVar("OfKind", bound=Section)
ANY = "Pod"
"""The kind of a workload that is named without one."""


def packing(cluster: Cluster, *, nodes: int | None = None, progress: Progress = UNSEEN) -> PackingSection:
    """Which free capacity is stranded, and which nodes could go?

    ``nodes``: how many to try to empty, 0 for all; else a few, as far as few pods move.

    >>> import kschedctl
    >>> packing(kschedctl.Cluster.from_objects([{"kind": "Node", "metadata": {"name": "n1"}}])).state
    'sound'
    """
    limits = USUAL if nodes is None else Limits(nodes, pods=0)
    return signed(packing_section(AuditedCluster(Scheduler(cluster), progress=progress), limits))


def priorities(
    cluster: Cluster, limits: PriorityLimits | None = None, *, now: str = "", progress: Progress = UNSEEN
) -> PrioritiesSection:
    """Who outranks whom, who starves, and who would be evicted first?

    ``limits``: by how many pods which tier grows, and how long pods wait until they starve. ``now``: the RFC 3339 time
    of the cluster; when it was read. Raises UsageError where there is no such tier.

    >>> import kschedctl
    >>> priorities(kschedctl.Cluster.from_objects([])).findings
    ()
    """
    thresholds = Thresholds(priorities=limits or PriorityLimits())
    audited = AuditedCluster(Scheduler(cluster), now or moment_of(cluster), thresholds, progress=progress)
    return signed(priorities_section(audited))


def topology(
    cluster: Cluster,
    workloads: Sequence[Owner] = (),
    *,
    namespace: str = "",
    keys: Sequence[str] = (),
    progress: Progress = UNSEEN,
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
    return signed(topology_section(audited, TopologyScope(tuple(keys), chosen)))


def signed(section: OfKind) -> OfKind:
    """With the version of the program that made it."""
    return replace(section, tool_version=VERSION)


def _chosen(audited: AuditedCluster, meant: Sequence[Owner], namespace: str) -> frozenset[Owner]:
    """Workloads that are named, or all of the namespace. Raises UsageError for what is not there."""
    known = [owner for owner in Workloads.of_view(audited.scheduler.view).owners if namespace in ("", owner.namespace)]
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
