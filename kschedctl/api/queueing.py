"""Objects by which Kueue and Volcano decide when a workload may start, limited to the fields that an analysis reads.

Upstream: apis/kueue/v1beta1 and v1beta2 of kubernetes-sigs/kueue, pkg/apis/scheduling/v1beta1 and
pkg/apis/batch/v1alpha1 of volcano-sh/apis. Where v1beta2 renamed a field of Kueue, both names are read.
"""

from __future__ import annotations

from enum import StrEnum

from kschedctl.api.objects import (
    Condition,
    Int64,
    LabelSelector,
    ObjectMeta,
    PodTemplateSpec,
    Resources,
    Struct,
    Taint,
    Toleration,
)


class KueueRelease(StrEnum):
    """A release of Kueue that can be replayed."""

    V0_19 = "0.19"
    """0.19.2."""
    V0_20 = "0.20"
    """The development branch after 0.19."""


QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""The label of a job or a pod that names its LocalQueue."""

Amount = str | int | float
"""A quantity as it is written in a document."""


class SliceConstraint(Struct, frozen=True):
    """Slices of a pod set that must each stay within one topology domain."""

    topology: str = ""
    """The label of the level."""
    size: Int64 = 0
    """The number of pods in a slice."""


class TopologyRequest(Struct, frozen=True):
    """The placement of a pod set in a topology that its workload requests."""

    required: str | None = None
    """The level at which all pods must share a domain."""
    preferred: str | None = None
    """The level at which the pods should share a domain."""
    unconstrained: bool | None = None
    """True if any domains with room will do."""
    pod_set_group_name: str | None = None
    """The pod sets with this name are placed together."""
    pod_set_slice_required_topology: str | None = None
    pod_set_slice_size: Int64 | None = None
    podset_slice_required_topology_constraints: tuple[SliceConstraint, ...] = ()


class KueuePodSet(Struct, frozen=True):
    """The pods of a Kueue Workload that share a template."""

    name: str = "main"
    count: Int64 = 1
    min_count: Int64 | None = None
    """The fewest pods with which the Workload may be admitted partially."""
    template: PodTemplateSpec = PodTemplateSpec()
    topology_request: TopologyRequest | None = None


class WorkloadPriorityClassRef(Struct, frozen=True):
    group: str = ""
    kind: str = ""
    name: str = ""


class PreemptionGate(Struct, frozen=True):
    name: str = ""


class KueueWorkloadSpec(Struct, frozen=True):
    queue_name: str = ""
    active: bool | None = None
    priority: Int64 | None = None
    priority_class_ref: WorkloadPriorityClassRef | None = None
    priority_class_name: str = ""
    """Replaced by ``priority_class_ref`` in v1beta2."""
    priority_class_source: str = ""
    """Replaced by ``priority_class_ref`` in v1beta2."""
    pod_sets: tuple[KueuePodSet, ...] = ()
    preemption_gates: tuple[PreemptionGate, ...] = ()


class TopologyDomainAssignment(Struct, frozen=True):
    """A domain and the number of pods in it (v1beta1)."""

    values: tuple[str, ...] = ()
    count: Int64 = 0


class TopologyLevelParts(Struct, frozen=True):
    """The values of a level, each the prefix, a root and the suffix."""

    prefix: str | None = None
    suffix: str | None = None
    roots: tuple[str, ...] = ()


class TopologyLevelValues(Struct, frozen=True):
    """The value of a level in each domain of a slice."""

    universal: str | None = None
    """The value in all domains."""
    individual: TopologyLevelParts | None = None

    def get_value(self, index: int) -> str:
        """Return the value of the level in the domain at this index, or "" if it has none.

        Either all domains share one value, or each value consists of a common prefix, the domain's root and a common
        suffix.
        """
        parts = self.individual
        if parts is None:
            return self.universal or ""
        root = parts.roots[index] if index < len(parts.roots) else ""
        return f"{parts.prefix or ''}{root}{parts.suffix or ''}"


class TopologyPodCounts(Struct, frozen=True):
    """The number of pods in each domain of a slice."""

    universal: Int64 | None = None
    """The number in all domains."""
    individual: tuple[Int64, ...] = ()

    def get_count(self, index: int) -> int:
        """Return the number in the domain at an index, or 0 if there is none."""
        if self.universal is not None:
            return self.universal
        return self.individual[index] if index < len(self.individual) else 0


class TopologyAssignmentSlice(Struct, frozen=True):
    """Some of the domains of a topology assignment, column by column (v1beta2)."""

    domain_count: Int64 = 0
    values_per_level: tuple[TopologyLevelValues, ...] = ()
    pod_counts: TopologyPodCounts = TopologyPodCounts()


class TopologyAssignment(Struct, frozen=True):
    """The domains to which the pods of a pod set are assigned."""

    levels: tuple[str, ...] = ()
    domains: tuple[TopologyDomainAssignment, ...] = ()
    """Filled by v1beta1."""
    slices: tuple[TopologyAssignmentSlice, ...] = ()
    """Filled by v1beta2."""

    def list_domains(self) -> tuple[TopologyDomainAssignment, ...]:
        """Return the assigned domains, both from the older API version's list and from the newer one's slices."""
        domains = list(self.domains)
        for part in self.slices:
            for index in range(part.domain_count):
                values = tuple(level.get_value(index) for level in part.values_per_level)
                domains.append(TopologyDomainAssignment(values, part.pod_counts.get_count(index)))
        return tuple(domains)


class KueuePodSetAssignment(Struct, frozen=True):
    """The flavors and the topology domains that Kueue assigned to one pod set."""

    name: str = "main"
    flavors: dict[str, str] = {}
    """The chosen flavor of each resource."""
    resource_usage: Resources = {}
    """The quota that the pod set reserves."""
    count: Int64 | None = None
    topology_assignment: TopologyAssignment | None = None
    delayed_topology_request: str | None = None


class KueueAdmission(Struct, frozen=True):
    cluster_queue: str = ""
    pod_set_assignments: tuple[KueuePodSetAssignment, ...] = ()


class KueueAdmissionCheckState(Struct, frozen=True):
    name: str = ""
    state: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ReclaimablePod(Struct, frozen=True):
    """The number of pods of a pod set that have ended and do not need their quota any longer."""

    name: str = ""
    count: Int64 = 0


class RequeueState(Struct, frozen=True):
    """The state of a Workload's backoff after an eviction."""

    count: Int64 | None = None
    requeue_at: str | None = None


class UnhealthyNode(Struct, frozen=True):
    name: str = ""


class KueueWorkloadStatus(Struct, frozen=True):
    admission: KueueAdmission | None = None
    admission_checks: tuple[KueueAdmissionCheckState, ...] = ()
    conditions: tuple[Condition, ...] = ()
    reclaimable_pods: tuple[ReclaimablePod, ...] = ()
    requeue_state: RequeueState | None = None
    unhealthy_nodes: tuple[UnhealthyNode, ...] = ()


class KueueWorkload(Struct, frozen=True):
    """A Workload of Kueue. Its pods start once quota is reserved for all of them."""

    metadata: ObjectMeta = ObjectMeta()
    spec: KueueWorkloadSpec = KueueWorkloadSpec()
    status: KueueWorkloadStatus = KueueWorkloadStatus()


class KueueResourceQuota(Struct, frozen=True):
    name: str = ""
    nominal_quota: Amount = 0
    borrowing_limit: Amount | None = None
    """The most that may be borrowed from the cohort; None means no limit."""
    lending_limit: Amount | None = None
    """The most that may be lent to the cohort; None means all of it."""


class KueueFlavorQuotas(Struct, frozen=True):
    name: str = ""
    resources: tuple[KueueResourceQuota, ...] = ()


class KueueResourceGroup(Struct, frozen=True):
    """Resources that get their flavor together."""

    covered_resources: tuple[str, ...] = ()
    flavors: tuple[KueueFlavorQuotas, ...] = ()


class FlavorFungibility(Struct, frozen=True):
    """The conditions for trying the next flavor instead of borrowing or preempting in this one."""

    when_can_borrow: str = ""
    when_can_preempt: str = ""
    preference: str | None = None


class BorrowWithinCohort(Struct, frozen=True):
    policy: str = ""
    max_priority_threshold: Int64 | None = None


class ClusterQueuePreemption(Struct, frozen=True):
    """The Workloads that a ClusterQueue may preempt for the Workloads in its queue."""

    reclaim_within_cohort: str = ""
    borrow_within_cohort: BorrowWithinCohort | None = None
    within_cluster_queue: str = ""


class AdmissionCheckRule(Struct, frozen=True):
    """An AdmissionCheck and the flavors for which it is required. Without any, it is required for all flavors."""

    name: str = ""
    on_flavors: tuple[str, ...] = ()


class AdmissionChecksStrategy(Struct, frozen=True):
    admission_checks: tuple[AdmissionCheckRule, ...] = ()


class FairSharing(Struct, frozen=True):
    weight: Amount | None = None


class ClusterQueueSpec(Struct, frozen=True):
    """The quota, the cohort and the policies of a ClusterQueue."""

    resource_groups: tuple[KueueResourceGroup, ...] = ()
    cohort: str = ""
    """The name of ``cohort_name`` in v1beta1."""
    cohort_name: str = ""
    queueing_strategy: str = "BestEffortFIFO"
    namespace_selector: LabelSelector | None = None
    flavor_fungibility: FlavorFungibility | None = None
    preemption: ClusterQueuePreemption | None = None
    admission_checks: tuple[str, ...] = ()
    """Replaced by ``admission_checks_strategy`` in v1beta2."""
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    stop_policy: str | None = None
    fair_sharing: FairSharing | None = None


class KueueResourceUsage(Struct, frozen=True):
    name: str = ""
    total: Amount = 0


class KueueFlavorUsage(Struct, frozen=True):
    name: str = ""
    resources: tuple[KueueResourceUsage, ...] = ()


class ClusterQueueStatus(Struct, frozen=True):
    flavors_reservation: tuple[KueueFlavorUsage, ...] = ()
    conditions: tuple[Condition, ...] = ()


class ClusterQueue(Struct, frozen=True):
    """A ClusterQueue of Kueue, which holds quota."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()


class CohortSpec(Struct, frozen=True):
    parent_name: str = ""
    resource_groups: tuple[KueueResourceGroup, ...] = ()
    fair_sharing: FairSharing | None = None


class Cohort(Struct, frozen=True):
    """A Cohort of Kueue: a group of ClusterQueues and other cohorts that lend quota to each other."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CohortSpec = CohortSpec()


class ResourceFlavorSpec(Struct, frozen=True):
    node_labels: dict[str, str] = {}
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    """Tolerations that pods get if the flavor is assigned to them."""
    topology_name: str | None = None


class ResourceFlavor(Struct, frozen=True):
    """A ResourceFlavor of Kueue: a kind of nodes that has quota of its own."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceFlavorSpec = ResourceFlavorSpec()


class WorkloadPriorityClass(Struct, frozen=True):
    """A WorkloadPriorityClass of Kueue."""

    metadata: ObjectMeta = ObjectMeta()
    value: Int64 = 0


class AdmissionCheckSpec(Struct, frozen=True):
    controller_name: str = ""


class AdmissionCheckStatus(Struct, frozen=True):
    conditions: tuple[Condition, ...] = ()


class AdmissionCheck(Struct, frozen=True):
    """An AdmissionCheck of Kueue: a controller that must agree before a Workload is admitted."""

    metadata: ObjectMeta = ObjectMeta()
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: AdmissionCheckStatus = AdmissionCheckStatus()


class TopologyLevel(Struct, frozen=True):
    node_label: str = ""


class TopologySpec(Struct, frozen=True):
    levels: tuple[TopologyLevel, ...] = ()
    """The levels from the widest to the narrowest."""


class Topology(Struct, frozen=True):
    """A Topology of Kueue: the node labels that say where in a data center a node is."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TopologySpec = TopologySpec()


class LocalQueueSpec(Struct, frozen=True):
    cluster_queue: str = ""
    stop_policy: str | None = None


class LocalQueueStatus(Struct, frozen=True):
    conditions: tuple[Condition, ...] = ()


class LocalQueue(Struct, frozen=True):
    """A LocalQueue of Kueue, through which a namespace uses a ClusterQueue."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LocalQueueSpec = LocalQueueSpec()
    status: LocalQueueStatus = LocalQueueStatus()


class VolcanoQueueSpec(Struct, frozen=True):
    capability: Resources = {}
    """The most that the queue's PodGroups may use together."""


class VolcanoQueueStatus(Struct, frozen=True):
    state: str = ""
    allocated: Resources = {}


class VolcanoQueue(Struct, frozen=True):
    """A Queue of Volcano."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolcanoQueueSpec = VolcanoQueueSpec()
    status: VolcanoQueueStatus = VolcanoQueueStatus()


class VolcanoTask(Struct, frozen=True):
    """The pods of a Volcano Job that share a template."""

    name: str = ""
    replicas: Int64 = 1
    template: PodTemplateSpec = PodTemplateSpec()


class VolcanoJobSpec(Struct, frozen=True):
    queue: str = ""
    min_available: Int64 = 0
    tasks: tuple[VolcanoTask, ...] = ()


class VolcanoJobState(Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""


class VolcanoJobStatus(Struct, frozen=True):
    state: VolcanoJobState = VolcanoJobState()


class VolcanoJob(Struct, frozen=True):
    """A Job of Volcano."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolcanoJobSpec = VolcanoJobSpec()
    status: VolcanoJobStatus = VolcanoJobStatus()
