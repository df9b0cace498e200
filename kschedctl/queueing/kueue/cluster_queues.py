"""ClusterQueues and cohorts with the Workloads that hold quota, and the snapshot that a cycle works on.

Upstream: pkg/cache/scheduler/{cache,clusterqueue,clusterqueue_snapshot,snapshot}.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeVar

from kschedctl.api.labels import Selector, selector_from_api
from kschedctl.api.queueing import (
    AdmissionCheck,
    ClusterQueue,
    ClusterQueuePreemption,
    ClusterQueueSpec,
    Cohort,
    FlavorFungibility,
    ResourceFlavor,
)
from kschedctl.queueing.kueue.amounts import FlavorResource, Usage, saturate
from kschedctl.queueing.kueue.fair_share import parse_weight
from kschedctl.queueing.kueue.feature_gates import FeatureGates, Gate
from kschedctl.queueing.kueue.quota_tree import CohortNode, QuotaLimits, QuotaNode, parse_quotas
from kschedctl.queueing.kueue.topology.snapshot import TopologySnapshot
from kschedctl.queueing.kueue.workloads import WorkloadInfo, WorkloadUsage

NEVER = "Never"
"""The preemption policy that allows nothing."""
_NO_PREEMPTION = ClusterQueuePreemption(reclaim_within_cohort=NEVER, within_cluster_queue=NEVER)
_MAY_STOP_SEARCH, _TRY_NEXT_FLAVOR = "MayStopSearch", "TryNextFlavor"
_MULTIKUEUE, _PROVISIONING = "kueue.x-k8s.io/multikueue", "kueue.x-k8s.io/provisioning-request"


class ResourceGroup(NamedTuple):
    """Resources that get their flavor together."""

    resources: frozenset[str]
    flavors: tuple[str, ...]
    """In the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class ClusterQueueSettings:
    """The specification of a ClusterQueue, with defaults filled in."""

    name: str
    groups: tuple[ResourceGroup, ...]
    quotas: Mapping[FlavorResource, QuotaLimits]
    namespace_selector: Selector
    preemption: ClusterQueuePreemption
    fungibility: FlavorFungibility
    checks: Mapping[str, frozenset[str]]
    """The flavors for which each admission check is required."""
    is_stopped: bool
    is_strict: bool
    """Whether the queueing strategy is StrictFIFO."""
    weight: float

    def find_group(self, resource: str) -> ResourceGroup | None:
        """Return the resource group that covers a resource, or None."""
        return next((group for group in self.groups if resource in group.resources), None)

    @property
    def flavors(self) -> tuple[str, ...]:
        """Return all flavors, in order."""
        return tuple(flavor for group in self.groups for flavor in group.flavors)


def read_settings(queue: ClusterQueue) -> ClusterQueueSettings:
    """Read the specification of a ClusterQueue. Raises QuantityError or SelectorError."""
    spec = queue.spec
    groups = tuple(
        ResourceGroup(frozenset(group.covered_resources), tuple(flavor.name for flavor in group.flavors))
        for group in spec.resource_groups
    )
    fungibility = spec.flavor_fungibility or FlavorFungibility()
    return ClusterQueueSettings(
        queue.metadata.name,
        groups,
        parse_quotas(spec.resource_groups),
        selector_from_api(spec.namespace_selector),
        spec.preemption or _NO_PREEMPTION,
        FlavorFungibility(
            fungibility.when_can_borrow or _MAY_STOP_SEARCH,
            fungibility.when_can_preempt or _TRY_NEXT_FLAVOR,
            fungibility.preference,
        ),
        _read_checks(spec, frozenset(flavor for group in groups for flavor in group.flavors)),
        spec.stop_policy not in (None, "", "None"),
        spec.queueing_strategy == "StrictFIFO",
        parse_weight(spec.fair_sharing),
    )


def _read_checks(spec: ClusterQueueSpec, all_flavors: frozenset[str]) -> dict[str, frozenset[str]]:
    """Return the flavors for which each admission check is required."""
    checks = dict.fromkeys(spec.admission_checks, all_flavors)
    if spec.admission_checks_strategy is not None:
        for rule in spec.admission_checks_strategy.admission_checks:
            checks[rule.name] = frozenset(rule.on_flavors) or all_flavors
    return checks


class QueueStatus(Enum):
    """Whether a ClusterQueue admits Workloads."""

    UNKNOWN = ""
    """It was never initialized, since its cohorts form a circle."""
    ACTIVE = "active"
    PENDING = "pending"


class Readiness(NamedTuple):
    """The condition Active of a ClusterQueue."""

    status: bool
    reason: str
    message: str


class ReferencedObjects(NamedTuple):
    """The objects that ClusterQueues refer to."""

    flavors: Mapping[str, ResourceFlavor]
    checks: Mapping[str, AdmissionCheck]
    topologies: frozenset[str]
    """The names of the Topologies."""


class CachedQueue:
    """A ClusterQueue with the Workloads that hold its quota."""

    def __init__(self, settings: ClusterQueueSettings) -> None:
        self.settings = settings
        self.node = QuotaNode(settings.name, settings.quotas, settings.weight)
        self.workloads: dict[str, WorkloadInfo] = {}
        self.admitted_usage: Usage = {}
        self.admitted_count = 0
        self.generation = 1
        """Grows whenever quota is released."""
        self.status = QueueStatus.UNKNOWN
        self.topology_flavors: dict[str, str] = {}
        """The Topology of each flavor that has one."""
        self.problems: list[tuple[str, str]] = []
        """Reasons and messages why the queue is inactive."""
        self.provisioning_flavors: frozenset[str] = frozenset()
        """Flavors that need a ProvisioningRequest."""
        self.uses_multikueue = False

    @property
    def name(self) -> str:
        """Return the name of the ClusterQueue."""
        return self.settings.name

    @property
    def is_topology_only(self) -> bool:
        """Return whether all flavors have a topology."""
        return all(flavor in self.topology_flavors for flavor in self.settings.flavors)

    @property
    def readiness(self) -> Readiness:
        """Return the condition Active."""
        is_active = self.status == QueueStatus.ACTIVE
        if self.status == QueueStatus.PENDING:
            messages = ", ".join(message for _, message in self.problems)
            return Readiness(False, self.problems[0][0], f"Can't admit new workloads: {messages}.")
        return Readiness(is_active, "Ready", "Can admit new workloads")

    def update_status(self, inventory: ReferencedObjects, gates: FeatureGates) -> None:
        """Look up what the queue refers to, and decide whether it is active. Upstream: inactiveReason."""
        flavors = self.settings.flavors
        self.topology_flavors = {
            name: topology
            for name in flavors
            if name in inventory.flavors and (topology := inventory.flavors[name].spec.topology_name) is not None
        }
        self.problems = [("Stopped", "is stopped")] if self.settings.is_stopped else []
        if missing := [name for name in flavors if name not in inventory.flavors]:
            self.problems.append(("FlavorNotFound", f"references missing ResourceFlavor(s): {','.join(missing)}"))
        self._find_check_problems(inventory)
        if Gate.TOPOLOGY_AWARE_SCHEDULING in gates and not self.uses_multikueue:
            for flavor, topology in sorted(self.topology_flavors.items()):
                if topology not in inventory.topologies:
                    message = f'there is no Topology "{topology}" for TAS flavor "{flavor}"'
                    self.problems.append(("TopologyNotFound", message))
        self.status = QueueStatus.PENDING if self.problems else QueueStatus.ACTIVE

    def _find_check_problems(self, inventory: ReferencedObjects) -> None:
        """Look up the admission checks, and record what is wrong with them."""
        checks = self.settings.checks
        by_controller: dict[str, list[str]] = {}
        for name in sorted(checks):
            if name in inventory.checks:
                by_controller.setdefault(inventory.checks[name].spec.controller_name, []).append(name)
        multikueue = by_controller.get(_MULTIKUEUE, [])
        provisioning = by_controller.get(_PROVISIONING, [])
        self.uses_multikueue = bool(multikueue)
        self.provisioning_flavors = frozenset(flavor for name in provisioning for flavor in checks[name])
        missing = [name for name in sorted(checks) if name not in inventory.checks]
        inactive = [
            name for name in sorted(checks) if name in inventory.checks and not _is_active(inventory.checks[name])
        ]
        all_flavors = frozenset(self.settings.flavors)
        per_flavor = [name for name in multikueue if checks[name] != all_flavors]
        found = (
            (missing, "AdmissionCheckNotFound", f"references missing AdmissionCheck(s): {','.join(missing)}"),
            (inactive, "AdmissionCheckInactive", f"references inactive AdmissionCheck(s): {','.join(inactive)}"),
            (
                len(multikueue) > 1,
                "MultipleMultiKueueAdmissionChecks",
                "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: "
                + ",".join(multikueue),
            ),
            (
                per_flavor,
                "MultiKueueAdmissionCheckAppliedPerFlavor",
                f"Cannot specify MultiKueue AdmissionCheck per flavor, found: {','.join(per_flavor)}",
            ),
            (
                multikueue and provisioning,
                "MultiKueueWithProvisioningRequest",
                "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found: "
                f"{','.join(multikueue)}, {','.join(provisioning)}",
            ),
        )
        self.problems += [(reason, message) for applies, reason, message in found if applies]

    def add(self, info: WorkloadInfo, gates: FeatureGates) -> None:
        """Count a Workload that holds quota, instead of an older state of it."""
        key = info.workload.key
        if key in self.workloads:
            self.remove(key, gates)
        self.workloads[key] = info
        self._count(info, 1, gates)

    def remove(self, key: str, gates: FeatureGates) -> None:
        """Stop counting a Workload."""
        info = self.workloads.pop(key, None)
        if info is not None:
            self._count(info, -1, gates)
            self.generation += 1

    def _count(self, info: WorkloadInfo, sign: int, gates: FeatureGates) -> None:
        """Add or subtract a Workload's usage."""
        usage = info.compute_usage(gates).quota
        change = self.node.add_usage if sign > 0 else self.node.remove_usage
        for key, amount in usage.items():
            change(key, amount)
        if info.workload.is_admitted:
            self.admitted_count += sign
            for key, amount in usage.items():
                self.admitted_usage[key] = saturate(self.admitted_usage.get(key, 0) + sign * amount)


def _is_active(check: AdmissionCheck) -> bool:
    """Return whether an AdmissionCheck's controller is ready."""
    return any(c.type == "Active" and c.status == "True" for c in check.status.conditions)


class QueueSnapshot:
    """A ClusterQueue in the snapshot of a cycle, on which decisions are tried out."""

    __slots__ = ("cached", "generation", "initial_workloads", "node", "settings", "topologies", "workloads")

    def __init__(self, cached: CachedQueue, node: QuotaNode, topologies: dict[str, TopologySnapshot]) -> None:
        self.cached = cached
        self.settings = cached.settings
        self.node = node
        self.workloads = dict(cached.workloads)
        self.initial_workloads = tuple(cached.workloads.values())
        """The Workloads at the start of the cycle, in the order in which they got quota."""
        self.generation = cached.generation
        self.topologies = topologies
        """The topology of each flavor that has one."""

    @property
    def name(self) -> str:
        """Return the name of the ClusterQueue."""
        return self.settings.name

    @property
    def path(self) -> str:
        """Return the names from the root cohort to the queue: ``/root/team/queue``."""
        names = [self.name, *(cohort.name for cohort in self.node.iter_ancestors())]
        return "/" + "/".join(reversed(names))

    def compute_available(self, key: FlavorResource) -> int:
        """Return how much more of a resource can be used, 0 if too much is in use."""
        return max(0, self.node.compute_available(key))

    def add_usage(self, usage: WorkloadUsage, *, with_topology: bool = True) -> None:
        """Count quota and, unless the caller does not look at it, room in the topology as used."""
        for key, amount in usage.quota.items():
            self.node.add_usage(key, amount)
        if with_topology:
            self._change_topology_usage(usage, 1)

    def remove_usage(self, usage: WorkloadUsage, *, with_topology: bool = True) -> None:
        """Undo ``add_usage`` with the same arguments."""
        for key, amount in usage.quota.items():
            self.node.remove_usage(key, amount)
        if with_topology:
            self._change_topology_usage(usage, -1)

    def _change_topology_usage(self, usage: WorkloadUsage, sign: int) -> None:
        """Add or remove pods in topology domains."""
        for flavor, domains in usage.topology.items():
            topology = self.topologies.get(flavor)
            if topology is not None:
                topology.change_usage(domains, sign)

    def fits_quota(self, usage: WorkloadUsage) -> bool:
        """Return whether there is quota for an additional usage."""
        return not any(self.compute_available(key) < amount for key, amount in usage.quota.items())

    def fits_topology(self, usage: WorkloadUsage) -> bool:
        """Return whether there is room in the topology for an additional usage."""
        return all(self.topologies[flavor].has_room_for(domains) for flavor, domains in usage.topology.items())


@dataclass(slots=True)
class CycleSnapshot:
    """All active ClusterQueues at the start of a cycle."""

    queues: dict[str, QueueSnapshot]
    inactive: frozenset[str]
    flavors: Mapping[str, ResourceFlavor]
    gates: FeatureGates

    def remove_workload(self, info: WorkloadInfo, *, with_topology: bool = True) -> None:
        """Take a Workload and its usage out of the snapshot.

        Without ``with_topology`` it keeps its room in the topology, which saves time if nobody looks at that before
        the Workload is added again.
        """
        queue = self.queues[info.cluster_queue]
        queue.workloads.pop(info.workload.key, None)
        queue.remove_usage(info.compute_usage(self.gates), with_topology=with_topology)

    def add_workload(self, info: WorkloadInfo, *, with_topology: bool = True) -> None:
        """Undo ``remove_workload`` with the same arguments."""
        queue = self.queues[info.cluster_queue]
        queue.workloads[info.workload.key] = info
        queue.add_usage(info.compute_usage(self.gates), with_topology=with_topology)

    def remove_usage(self, infos: Iterable[WorkloadInfo], *, with_topology: bool = True) -> None:
        """Take the usage of Workloads out of the snapshot, but not the Workloads."""
        for info in infos:
            usage = info.compute_usage(self.gates)
            self.queues[info.cluster_queue].remove_usage(usage, with_topology=with_topology)

    def add_usage(self, infos: Iterable[WorkloadInfo], *, with_topology: bool = True) -> None:
        """Undo ``remove_usage`` with the same arguments."""
        for info in infos:
            usage = info.compute_usage(self.gates)
            self.queues[info.cluster_queue].add_usage(usage, with_topology=with_topology)


@dataclass(slots=True)
class QueueCache:
    """All ClusterQueues and cohorts."""

    gates: FeatureGates
    inventory: ReferencedObjects
    queues: dict[str, CachedQueue] = field(default_factory=dict)
    cohorts: dict[str, CohortNode] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """Objects that could not be added, and why."""
    cohorts_in_circle: frozenset[str] = frozenset()
    """The cohorts whose ancestors form a circle."""
    _queue_of_workload: dict[str, str] = field(default_factory=dict)

    def is_active(self, name: str) -> bool:
        """Return whether the ClusterQueue exists and admits Workloads."""
        queue = self.queues.get(name)
        return queue is not None and queue.status == QueueStatus.ACTIVE

    def add_or_update(self, info: WorkloadInfo) -> bool:
        """Count a Workload if it holds quota, else stop counting it. Return whether it is counted now."""
        workload = info.workload
        if not (workload.has_quota and workload.active and not workload.is_finished):
            self.remove(workload.key)
            return False
        name = workload.admission.cluster_queue if workload.admission else ""
        if name not in self.queues:
            return False
        previous = self._queue_of_workload.get(workload.key)
        if previous is not None and previous != name:
            self.queues[previous].remove(workload.key, self.gates)
        self._queue_of_workload[workload.key] = name
        self.queues[name].add(info, self.gates)
        return True

    def remove(self, key: str) -> None:
        """Stop counting a Workload."""
        name = self._queue_of_workload.pop(key, None)
        if name is not None:
            self.queues[name].remove(key, self.gates)

    def snapshot(self, topologies: Mapping[str, TopologySnapshot]) -> CycleSnapshot:
        """Copy the active ClusterQueues with their cohorts. ``topologies`` are those of the flavors."""
        cohorts = {
            name: _copy_node(CohortNode(name, cohort.quotas, cohort.weight), cohort)
            for name, cohort in self.cohorts.items()
            if name not in self.cohorts_in_circle
        }
        for name, cohort in self.cohorts.items():
            if name in cohorts and cohort.parent is not None:
                cohorts[name].parent = cohorts[cohort.parent.name]
                cohorts[cohort.parent.name].cohorts.append(cohorts[name])
        queues = {}
        inactive = set()
        for name, queue in self.queues.items():
            parent = queue.node.parent
            is_in_circle = parent is not None and parent.name in self.cohorts_in_circle
            if queue.status != QueueStatus.ACTIVE or is_in_circle:
                inactive.add(name)
                continue
            node = _copy_node(QuotaNode(name, queue.node.quotas, queue.node.weight), queue.node)
            if parent is not None:
                node.parent = cohorts[parent.name]
                cohorts[parent.name].queues.append(node)
            own = {flavor: topologies[flavor] for flavor in queue.topology_flavors if flavor in topologies}
            queues[name] = QueueSnapshot(queue, node, own)
        return CycleSnapshot(queues, frozenset(inactive), self.inventory.flavors, self.gates)


NodeT = TypeVar("NodeT", bound=QuotaNode)


def _copy_node(copy: NodeT, node: QuotaNode) -> NodeT:
    """Give a new node the quota and a copy of the usage of another."""
    copy.subtree_quota = node.subtree_quota
    copy.usage = dict(node.usage)
    return copy


def build_cache(
    queues: Sequence[ClusterQueue], cohorts: Iterable[Cohort], inventory: ReferencedObjects, gates: FeatureGates
) -> QueueCache:
    """Build the tree of cohorts and ClusterQueues, without Workloads. Raises QuantityError or SelectorError.

    A ClusterQueue may name a cohort that has no object. Circles are reported as ``problems``, as upstream does when
    the objects are added one by one.
    """
    cache = QueueCache(gates, inventory)
    parents: dict[str, str] = {}
    for cohort in cohorts:
        name, parent = cohort.metadata.name, cohort.spec.parent_name
        quotas, weight = parse_quotas(cohort.spec.resource_groups), parse_weight(cohort.spec.fair_sharing)
        cache.cohorts[name] = CohortNode(name, quotas, weight)
        if parent:
            parents[name] = parent
        if is_cohort_in_circle(name, parents):
            cache.problems.append(f"Cohort {name}: cohort has a cycle")
    settings = [read_settings(queue) for queue in queues]
    cohort_names = {queue.metadata.name: queue.spec.cohort_name or queue.spec.cohort for queue in queues}
    for name in (*parents.values(), *cohort_names.values()):
        if name and name not in cache.cohorts:
            cache.cohorts[name] = CohortNode(name, {})
    cache.cohorts_in_circle = frozenset(name for name in cache.cohorts if is_cohort_in_circle(name, parents))
    for name in sorted(parents):
        child, parent_node = cache.cohorts[name], cache.cohorts[parents[name]]
        child.parent = parent_node
        parent_node.cohorts.append(child)
    for queue_settings in settings:
        queue = CachedQueue(queue_settings)
        cache.queues[queue.name] = queue
        cohort_name = cohort_names[queue.name]
        if cohort_name:
            queue.node.parent = cache.cohorts[cohort_name]
            cache.cohorts[cohort_name].queues.append(queue.node)
        if cohort_name in cache.cohorts_in_circle:
            cache.problems.append(f"ClusterQueue {queue.name}: cohort has a cycle")
        else:
            queue.update_status(inventory, gates)
    for name, node in cache.cohorts.items():
        if node.parent is None and name not in cache.cohorts_in_circle:
            node.sum_subtree()
    return cache


def is_cohort_in_circle(name: str, parents: Mapping[str, str]) -> bool:
    """Return whether following the parents of a cohort never ends."""
    seen = set()
    while name in parents:
        if name in seen:
            return True
        seen.add(name)
        name = parents[name]
    return False
