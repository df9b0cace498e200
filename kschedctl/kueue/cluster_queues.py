"""ClusterQueues and cohorts with the Workloads that hold quota, and the snapshot that a cycle works on.

Upstream: pkg/cache/scheduler/{cache,clusterqueue,clusterqueue_snapshot,snapshot}.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from kschedctl.kueue.amounts import FlavorResource, Usage, saturate
from kschedctl.kueue.feature_gates import FeatureGates, Gate
from kschedctl.kueue.quota_tree import CohortNode, QuotaLimits, QuotaNode, parse_quotas, parse_weight
from kschedctl.kueue.topology.snapshot import TopologySnapshot
from kschedctl.kueue.workloads import WorkloadInfo, WorkloadUsage

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
    """True if the queueing strategy is StrictFIFO."""
    weight: float

    def find_resource_group(self, resource: str) -> ResourceGroup | None:
        """Return the resource group that covers a resource, or None."""
        return next((group for group in self.groups if resource in group.resources), None)

    @property
    def flavors(self) -> tuple[str, ...]:
        """The flavors of all resource groups, in order."""
        return tuple(flavor for group in self.groups for flavor in group.flavors)


def read_queue_settings(queue: ClusterQueue) -> ClusterQueueSettings:
    """Read the spec of a ClusterQueue and fill in defaults.

    Raises QuantityError or SelectorError if a quantity or selector is invalid.
    """
    spec = queue.spec
    groups = tuple(
        ResourceGroup(frozenset(group.covered_resources), tuple(flavor.name for flavor in group.flavors))
        for group in spec.resource_groups
    )
    fungibility = spec.flavor_fungibility or FlavorFungibility()
    return ClusterQueueSettings(
        name=queue.metadata.name,
        groups=groups,
        quotas=parse_quotas(spec.resource_groups),
        namespace_selector=selector_from_api(spec.namespace_selector),
        preemption=spec.preemption or _NO_PREEMPTION,
        fungibility=FlavorFungibility(
            when_can_borrow=fungibility.when_can_borrow or _MAY_STOP_SEARCH,
            when_can_preempt=fungibility.when_can_preempt or _TRY_NEXT_FLAVOR,
            preference=fungibility.preference,
        ),
        checks=_read_admission_checks(spec, frozenset(flavor for group in groups for flavor in group.flavors)),
        is_stopped=spec.stop_policy not in (None, "", "None"),
        is_strict=spec.queueing_strategy == "StrictFIFO",
        weight=parse_weight(spec.fair_sharing),
    )


def _read_admission_checks(spec: ClusterQueueSpec, all_flavors: frozenset[str]) -> dict[str, frozenset[str]]:
    """Return the admission checks of a ClusterQueue, each with the flavors for which it is required.

    A check without a list of flavors is required for all flavors of the queue.
    """
    checks = dict.fromkeys(spec.admission_checks, all_flavors)
    if spec.admission_checks_strategy is not None:
        for rule in spec.admission_checks_strategy.admission_checks:
            checks[rule.name] = frozenset(rule.on_flavors) or all_flavors
    return checks


class QueueStatus(Enum):
    """The status that decides whether a ClusterQueue admits Workloads."""

    UNKNOWN = ""
    """It was never initialized, since its cohorts form a circle."""
    ACTIVE = "active"
    PENDING = "pending"


class QueueProblem(NamedTuple):
    """The reason why a ClusterQueue is not active."""

    reason: str
    message: str


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
        self.topology_by_flavor: dict[str, str] = {}
        """The Topology of each flavor that has one."""
        self.problems: list[QueueProblem] = []
        """Reasons and messages why the queue is inactive."""
        self.provisioning_flavors: frozenset[str] = frozenset()
        """Flavors that need a ProvisioningRequest."""
        self.uses_multikueue = False

    @property
    def name(self) -> str:
        """The name of the ClusterQueue."""
        return self.settings.name

    @property
    def is_topology_only(self) -> bool:
        """True if all flavors have a topology."""
        return all(flavor in self.topology_by_flavor for flavor in self.settings.flavors)

    @property
    def readiness(self) -> Readiness:
        """The queue's condition Active. If the queue is not active, its message lists the problems."""
        if self.status == QueueStatus.PENDING:
            messages = ", ".join(problem.message for problem in self.problems)
            return Readiness(
                status=False, reason=self.problems[0].reason, message=f"Can't admit new workloads: {messages}."
            )
        return Readiness(status=self.status == QueueStatus.ACTIVE, reason="Ready", message="Can admit new workloads")

    def resolve_references(self, inventory: ReferencedObjects, gates: FeatureGates) -> None:
        """Look up the objects that the queue refers to, and set its topologies, its problems and its status.

        The queue is active if it has no problems, and otherwise pending. Upstream: inactiveReason.
        """
        flavors = self.settings.flavors
        self.topology_by_flavor = {}
        for name in flavors:
            flavor_object = inventory.flavors.get(name)
            if flavor_object is not None and flavor_object.spec.topology_name is not None:
                self.topology_by_flavor[name] = flavor_object.spec.topology_name

        self.problems = [QueueProblem("Stopped", "is stopped")] if self.settings.is_stopped else []
        if missing := [name for name in flavors if name not in inventory.flavors]:
            message = f"references missing ResourceFlavor(s): {','.join(missing)}"
            self.problems.append(QueueProblem("FlavorNotFound", message))
        self.problems += self._resolve_admission_checks(inventory)
        # With MultiKueue, the worker clusters have the topologies
        if Gate.TOPOLOGY_AWARE_SCHEDULING in gates and not self.uses_multikueue:
            for flavor, topology in sorted(self.topology_by_flavor.items()):
                if topology not in inventory.topologies:
                    message = f'there is no Topology "{topology}" for TAS flavor "{flavor}"'
                    self.problems.append(QueueProblem("TopologyNotFound", message))
        self.status = QueueStatus.PENDING if self.problems else QueueStatus.ACTIVE

    def _resolve_admission_checks(self, inventory: ReferencedObjects) -> list[QueueProblem]:
        """Look up the queue's admission checks, and return the problem of each misconfiguration.

        Sets `uses_multikueue`, and `provisioning_flavors` to the flavors whose checks are ProvisioningRequests.
        """
        checks = self.settings.checks
        existing = [name for name in sorted(checks) if name in inventory.checks]
        controllers = {name: inventory.checks[name].spec.controller_name for name in existing}
        multikueue = [name for name in existing if controllers[name] == _MULTIKUEUE]
        provisioning = [name for name in existing if controllers[name] == _PROVISIONING]
        self.uses_multikueue = bool(multikueue)
        self.provisioning_flavors = frozenset(flavor for name in provisioning for flavor in checks[name])

        problems = []
        if missing := [name for name in sorted(checks) if name not in inventory.checks]:
            message = f"references missing AdmissionCheck(s): {','.join(missing)}"
            problems.append(QueueProblem("AdmissionCheckNotFound", message))
        if inactive := [name for name in existing if not _is_check_active(inventory.checks[name])]:
            message = f"references inactive AdmissionCheck(s): {','.join(inactive)}"
            problems.append(QueueProblem("AdmissionCheckInactive", message))
        return [*problems, *self._iter_multikueue_problems(multikueue, provisioning)]

    def _iter_multikueue_problems(
        self, multikueue: Sequence[str], provisioning: Sequence[str]
    ) -> Iterator[QueueProblem]:
        """Yield the problem of each misuse of MultiKueue's admission checks.

        A queue may have at most one MultiKueue check. It must apply to all flavors, and it rules out
        ProvisioningRequest checks. ``multikueue`` and ``provisioning`` are the names of the queue's existing checks of
        these two kinds.
        """
        multikueue_names = ",".join(multikueue)
        if len(multikueue) > 1:
            message = (
                f"Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: {multikueue_names}"
            )
            yield QueueProblem("MultipleMultiKueueAdmissionChecks", message)
        all_flavors = frozenset(self.settings.flavors)
        if per_flavor := [name for name in multikueue if self.settings.checks[name] != all_flavors]:
            message = f"Cannot specify MultiKueue AdmissionCheck per flavor, found: {','.join(per_flavor)}"
            yield QueueProblem("MultiKueueAdmissionCheckAppliedPerFlavor", message)
        if multikueue and provisioning:
            message = (
                "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found: "
                f"{multikueue_names}, {','.join(provisioning)}"
            )
            yield QueueProblem("MultiKueueWithProvisioningRequest", message)

    def add_workload(self, info: WorkloadInfo, gates: FeatureGates) -> None:
        """Add a Workload that holds quota, with its usage. It replaces an older state of the same Workload."""
        key = info.workload.key
        if key in self.workloads:
            self.remove_workload(key, gates)
        self.workloads[key] = info
        self._change_usage(info, gates, sign=1)

    def remove_workload(self, key: str, gates: FeatureGates) -> None:
        """Remove a Workload and release its quota. Nothing happens if the queue does not contain it."""
        info = self.workloads.pop(key, None)
        if info is not None:
            self._change_usage(info, gates, sign=-1)
            self.generation += 1

    def _change_usage(self, info: WorkloadInfo, gates: FeatureGates, *, sign: int) -> None:
        """Add the usage of a Workload to the queue and its cohorts, or subtract it if ``sign`` is -1.

        If the Workload is admitted, the admitted usage changes as well.
        """
        usage = info.compute_usage(gates).quota
        change = self.node.add_usage if sign > 0 else self.node.remove_usage
        for key, amount in usage.items():
            change(key, amount)
        if info.workload.is_admitted:
            self.admitted_count += sign
            for key, amount in usage.items():
                self.admitted_usage[key] = saturate(self.admitted_usage.get(key, 0) + sign * amount)


def _is_check_active(check: AdmissionCheck) -> bool:
    """Return whether the condition Active of an AdmissionCheck is true, which its controller sets."""
    return any(condition.type == "Active" and condition.status == "True" for condition in check.status.conditions)


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
        """The name of the ClusterQueue."""
        return self.settings.name

    @property
    def path(self) -> str:
        """The names of the cohorts from the root down and of the queue, as in ``/root/team/queue``."""
        names = [self.name, *(cohort.name for cohort in self.node.iter_ancestors())]
        return "/" + "/".join(reversed(names))

    def compute_available_quota(self, key: FlavorResource) -> int:
        """Return how much more of a resource the queue can use, including borrowed quota. It is never negative."""
        return max(0, self.node.compute_available_quota(key))

    def add_usage(self, usage: WorkloadUsage, *, with_topology: bool = True) -> None:
        """Count a Workload's usage against the quota and, with ``with_topology``, against its topology domains."""
        for key, amount in usage.quota.items():
            self.node.add_usage(key, amount)
        if with_topology:
            self._change_topology_usage(usage, sign=1)

    def remove_usage(self, usage: WorkloadUsage, *, with_topology: bool = True) -> None:
        """Subtract a usage that was counted by ``add_usage`` with the same arguments."""
        for key, amount in usage.quota.items():
            self.node.remove_usage(key, amount)
        if with_topology:
            self._change_topology_usage(usage, sign=-1)

    def _change_topology_usage(self, usage: WorkloadUsage, *, sign: int) -> None:
        """Add pods to topology domains, or remove them if ``sign`` is -1. Flavors without a topology are ignored."""
        for flavor, domains in usage.topology.items():
            topology = self.topologies.get(flavor)
            if topology is not None:
                topology.change_usage(domains, sign)

    def fits_quota(self, usage: WorkloadUsage) -> bool:
        """Return whether the queue has enough available quota for an additional usage."""
        return not any(self.compute_available_quota(key) < amount for key, amount in usage.quota.items())

    def fits_topology(self, usage: WorkloadUsage) -> bool:
        """Return whether the topology domains of an additional usage have enough room for its pods."""
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

        Unless ``with_topology`` is set, the Workload keeps its room in the topology. This saves time if nothing looks
        at the topology before the Workload is added again.
        """
        queue = self.queues[info.cluster_queue]
        queue.workloads.pop(info.workload.key, None)
        queue.remove_usage(info.compute_usage(self.gates), with_topology=with_topology)

    def add_workload(self, info: WorkloadInfo, *, with_topology: bool = True) -> None:
        """Put a Workload and its usage back that ``remove_workload`` took out with the same arguments."""
        queue = self.queues[info.cluster_queue]
        queue.workloads[info.workload.key] = info
        queue.add_usage(info.compute_usage(self.gates), with_topology=with_topology)

    def remove_usage(self, infos: Iterable[WorkloadInfo], *, with_topology: bool = True) -> None:
        """Take the usage of Workloads out of the snapshot, but keep the Workloads in their queues.

        Unless ``with_topology`` is set, the Workloads keep their room in the topology.
        """
        for info in infos:
            usage = info.compute_usage(self.gates)
            self.queues[info.cluster_queue].remove_usage(usage, with_topology=with_topology)

    def add_usage(self, infos: Iterable[WorkloadInfo], *, with_topology: bool = True) -> None:
        """Put the usage of Workloads back that ``remove_usage`` took out with the same arguments."""
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
    cohorts_with_cyclic_parents: frozenset[str] = frozenset()
    """The cohorts whose ancestors form a circle."""
    _queue_of_workload: dict[str, str] = field(default_factory=dict)

    def is_queue_active(self, name: str) -> bool:
        """Return whether the ClusterQueue exists and admits Workloads."""
        queue = self.queues.get(name)
        return queue is not None and queue.status == QueueStatus.ACTIVE

    def update_workload(self, info: WorkloadInfo) -> bool:
        """Add a Workload with quota to its ClusterQueue, or remove it if it has no quota, has ended or is inactive.

        Return whether the Workload is now in a ClusterQueue. A Workload that moved to another ClusterQueue is removed
        from the former one. If its ClusterQueue does not exist, nothing changes and the result is False.
        """
        workload = info.workload
        if not (workload.has_quota and workload.active and not workload.is_finished):
            self.remove_workload(workload.key)
            return False
        name = workload.admission.cluster_queue if workload.admission else ""
        if name not in self.queues:
            return False
        previous = self._queue_of_workload.get(workload.key)
        if previous is not None and previous != name:
            self.queues[previous].remove_workload(workload.key, self.gates)
        self._queue_of_workload[workload.key] = name
        self.queues[name].add_workload(info, self.gates)
        return True

    def remove_workload(self, key: str) -> None:
        """Remove a Workload from the ClusterQueue whose quota it holds. Nothing happens if it holds no quota."""
        name = self._queue_of_workload.pop(key, None)
        if name is not None:
            self.queues[name].remove_workload(key, self.gates)

    def build_snapshot(self, topologies: Mapping[str, TopologySnapshot]) -> CycleSnapshot:
        """Copy the active ClusterQueues and their cohorts. ``topologies`` maps a flavor to its topology.

        Queues that are not active, and queues below cohorts whose chain of parents has a cycle, are only listed as
        inactive.
        """
        cohorts = self._copy_cohorts()
        queues = {}
        inactive = set()
        for name, queue in self.queues.items():
            parent = queue.node.parent
            is_below_cycle = parent is not None and parent.name in self.cohorts_with_cyclic_parents
            if queue.status != QueueStatus.ACTIVE or is_below_cycle:
                inactive.add(name)
                continue
            node = _copy_quota(QuotaNode(name, queue.node.quotas, queue.node.weight), queue.node)
            if parent is not None:
                node.parent = cohorts[parent.name]
                cohorts[parent.name].queues.append(node)
            queue_topologies = {
                flavor: topologies[flavor] for flavor in queue.topology_by_flavor if flavor in topologies
            }
            queues[name] = QueueSnapshot(queue, node, queue_topologies)
        return CycleSnapshot(queues, frozenset(inactive), self.inventory.flavors, self.gates)

    def _copy_cohorts(self) -> dict[str, CohortNode]:
        """Return copies of the cohorts by name, linked to their parents but not to ClusterQueues.

        Cohorts whose chain of parents has a cycle are left out.
        """
        copies = {
            name: _copy_quota(CohortNode(name, cohort.quotas, cohort.weight), cohort)
            for name, cohort in self.cohorts.items()
            if name not in self.cohorts_with_cyclic_parents
        }
        for name, copy in copies.items():
            parent = self.cohorts[name].parent
            if parent is not None:
                copy.parent = copies[parent.name]
                copies[parent.name].cohorts.append(copy)
        return copies


NodeT = TypeVar("NodeT", bound=QuotaNode)


def _copy_quota(copy: NodeT, node: QuotaNode) -> NodeT:
    """Copy the quota and the usage of ``node`` to the new node ``copy``, and return the new node."""
    copy.subtree_quota = node.subtree_quota
    copy.usage = dict(node.usage)
    return copy


def build_empty_queue_cache(
    queues: Sequence[ClusterQueue], cohorts: Iterable[Cohort], inventory: ReferencedObjects, gates: FeatureGates
) -> QueueCache:
    """Build the tree of cohorts and ClusterQueues, without Workloads.

    A cohort that only exists as a name in a ClusterQueue or another cohort is created without quota. Cohorts whose
    parents form a cycle are reported in the cache's ``problems``, as upstream reports them when it adds objects one by
    one. Raises QuantityError or SelectorError if a quantity or selector is invalid.
    """
    cache = QueueCache(gates, inventory)
    cohort_by_queue = {queue.metadata.name: queue.spec.cohort_name or queue.spec.cohort or "" for queue in queues}
    _add_cohorts(cache, cohorts, cohort_by_queue.values())
    for queue in queues:
        cached = CachedQueue(read_queue_settings(queue))
        cache.queues[cached.name] = cached
        cohort_name = cohort_by_queue[cached.name]
        if cohort_name:
            cohort_node = cache.cohorts[cohort_name]
            cached.node.parent = cohort_node
            cohort_node.queues.append(cached.node)
        if cohort_name in cache.cohorts_with_cyclic_parents:
            cache.problems.append(f"ClusterQueue {cached.name}: cohort has a cycle")
        else:
            cached.resolve_references(inventory, gates)

    # The quota of the trees, which starts at their roots
    for name, node in cache.cohorts.items():
        if node.parent is None and name not in cache.cohorts_with_cyclic_parents:
            node.recompute_subtree()
    return cache


def _add_cohorts(cache: QueueCache, cohorts: Iterable[Cohort], queue_cohort_names: Iterable[str]) -> None:
    """Add the cohorts to the cache and link them to their parents. Cohorts that exist only as names get no quota.

    ``queue_cohort_names`` has the name of each ClusterQueue's cohort, or "" for a ClusterQueue without one. Cohorts
    whose parents form a cycle are stored in ``cohorts_with_cyclic_parents``. The cohort that completes a cycle when it
    is added is also reported in the cache's ``problems``.
    """
    # Add the cohorts with their quotas. As upstream, each is checked for a cycle among the cohorts added so far.
    parents: dict[str, str] = {}
    for cohort in cohorts:
        name = cohort.metadata.name
        quotas = parse_quotas(cohort.spec.resource_groups)
        cache.cohorts[name] = CohortNode(name, quotas, weight=parse_weight(cohort.spec.fair_sharing))
        if cohort.spec.parent_name:
            parents[name] = cohort.spec.parent_name
        if has_cyclic_parents(name, parents):
            cache.problems.append(f"Cohort {name}: cohort has a cycle")

    # Add the cohorts that exist only as names
    for name in (*parents.values(), *queue_cohort_names):
        if name and name not in cache.cohorts:
            cache.cohorts[name] = CohortNode(name, quotas={})

    # Link the cohorts to their parents
    cache.cohorts_with_cyclic_parents = frozenset(name for name in cache.cohorts if has_cyclic_parents(name, parents))
    for name, parent in sorted(parents.items()):
        child, parent_node = cache.cohorts[name], cache.cohorts[parent]
        child.parent = parent_node
        parent_node.cohorts.append(child)


def has_cyclic_parents(name: str, parents: Mapping[str, str]) -> bool:
    """Return whether a cohort's chain of parents has a cycle. ``parents`` maps cohorts to their parents, by name."""
    seen = set()
    while name in parents:
        if name in seen:
            return True
        seen.add(name)
        name = parents[name]
    return False
