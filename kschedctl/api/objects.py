"""The Kubernetes objects that scheduling reads, as frozen structs with only the fields that kschedctl reads.

Names and meaning of the fields are those of the API (staging/src/k8s.io/api, v1.36). Everything else in a document is
ignored. Quantities, times and IntOrStrings keep the form in which they were printed.
"""

from __future__ import annotations

from typing import Annotated, Any, Protocol, TypeAlias

import msgspec

from kschedctl.api.decoding import convert_builtins

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""An integer of the API. Narrower types of the API are checked by validation."""

Resources = dict[str, str | int | float]
"""A ResourceList: quantities as printed, by resource name."""


ZERO_TIME = "0001-01-01T00:00:00Z"
"""Go's zero time, which the API server treats as unset."""


class Struct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """The base of all API structs: camelCase in documents, immutable, and without cycles.

    The garbage collector therefore does not track them.
    """


def _set_field_to_none(struct: Struct, field: str) -> None:
    """Set a field of a frozen struct to None."""
    msgspec.structs.force_setattr(struct, field, None)


# -- metadata and selectors ---------------------------------------------------------------------------------------


class OwnerReference(Struct, frozen=True):
    kind: str = ""
    name: str = ""
    api_version: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    generate_name: str = ""

    def __post_init__(self) -> None:
        if self.creation_timestamp == ZERO_TIME:
            _set_field_to_none(self, "creation_timestamp")


class PodAnnotations(Struct, frozen=True):
    """The annotations of a pod that scheduling or autoscaling reads."""

    group_name: str = msgspec.field(name="scheduling.k8s.io/group-name", default="")
    """Read by Volcano."""
    task_spec: str = msgspec.field(name="volcano.sh/task-spec", default="")
    """Read by Volcano."""
    pod_group_name: str = msgspec.field(name="kueue.x-k8s.io/pod-group-name", default="")
    """Read by Kueue."""
    pod_group_total_count: str = msgspec.field(name="kueue.x-k8s.io/pod-group-total-count", default="")
    """Read by Kueue."""
    pod_group_fast_admission: str = msgspec.field(name="kueue.x-k8s.io/pod-group-fast-admission", default="")
    """Read by Kueue."""
    required_topology: str | None = msgspec.field(name="kueue.x-k8s.io/podset-required-topology", default=None)
    """Read by Kueue, as are the other annotations of topologies."""
    preferred_topology: str | None = msgspec.field(name="kueue.x-k8s.io/podset-preferred-topology", default=None)
    unconstrained_topology: str | None = msgspec.field(
        name="kueue.x-k8s.io/podset-unconstrained-topology", default=None
    )
    slice_topology: str | None = msgspec.field(name="kueue.x-k8s.io/podset-slice-required-topology", default=None)
    slice_size: str | None = msgspec.field(name="kueue.x-k8s.io/podset-slice-size", default=None)
    slice_constraints: str | None = msgspec.field(
        name="kueue.x-k8s.io/podset-slice-required-topology-constraints", default=None
    )
    podset_group_name: str | None = msgspec.field(name="kueue.x-k8s.io/podset-group-name", default=None)
    mirror: str = msgspec.field(name="kubernetes.io/config.mirror", default="")
    """Read by the descheduler."""
    safe_to_evict: str = msgspec.field(name="cluster-autoscaler.kubernetes.io/safe-to-evict", default="")
    """Read by the Cluster Autoscaler."""
    safe_local_volumes: str = msgspec.field(
        name="cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes", default=""
    )
    """Read by the Cluster Autoscaler."""
    scale_up_delay: str = msgspec.field(name="cluster-autoscaler.kubernetes.io/pod-scale-up-delay", default="")
    """Read by the Cluster Autoscaler."""
    daemon_set_pod: str = msgspec.field(name="cluster-autoscaler.kubernetes.io/daemonset-pod", default="")
    """Read by the Cluster Autoscaler."""
    do_not_disrupt: str | None = msgspec.field(name="karpenter.sh/do-not-disrupt", default=None)
    """Read by Karpenter."""
    deletion_cost: str | None = msgspec.field(name="controller.kubernetes.io/pod-deletion-cost", default=None)
    """Read by Karpenter."""
    config_source: str = msgspec.field(name="kubernetes.io/config.source", default="api")
    """Read by the descheduler."""
    evict: str | None = msgspec.field(name="descheduler.alpha.kubernetes.io/evict", default=None)
    """Read by the descheduler."""
    prefers_no_eviction: str | None = msgspec.field(
        name="descheduler.alpha.kubernetes.io/prefer-no-eviction", default=None
    )
    """Read by the descheduler."""
    job_index_failure_count: str = msgspec.field(name="batch.kubernetes.io/job-index-failure-count", default="")
    """Read by the Job controller."""


class PodMeta(Struct, frozen=True):
    """The ObjectMeta of a pod, with the annotations of PodAnnotations only."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    generate_name: str = ""
    annotations: PodAnnotations = PodAnnotations()

    def __post_init__(self) -> None:
        if self.creation_timestamp == ZERO_TIME:
            _set_field_to_none(self, "creation_timestamp")


class SelectorRequirement(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class LabelSelector(Struct, frozen=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[SelectorRequirement, ...] = ()


class NodeSelectorTerm(Struct, frozen=True):
    match_expressions: tuple[SelectorRequirement, ...] = ()
    match_fields: tuple[SelectorRequirement, ...] = ()


class NodeSelector(Struct, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class TopologySelectorRequirement(Struct, frozen=True):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Struct, frozen=True):
    match_label_expressions: tuple[TopologySelectorRequirement, ...] = ()


class TypedObjectReference(Struct, frozen=True):
    api_group: str | None = None
    kind: str = ""
    name: str = ""
    namespace: str | None = None
    uid: str = ""


# -- pods ---------------------------------------------------------------------------------------------------------


class PreferredSchedulingTerm(Struct, frozen=True):
    weight: Int64 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Struct, frozen=True):
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct, frozen=True):
    weight: Int64 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Struct, frozen=True):
    """A PodAffinity or PodAntiAffinity, which have the same fields."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Struct, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class TopologySpreadConstraint(Struct, frozen=True):
    max_skew: Int64 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int64 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class ContainerPort(Struct, frozen=True):
    container_port: Int64 = 0
    host_port: Int64 = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class ContainerResourceClaim(Struct, frozen=True):
    name: str = ""
    request: str = ""


class ResourceRequirements(Struct, frozen=True):
    requests: Resources = {}
    limits: Resources = {}
    claims: tuple[ContainerResourceClaim, ...] = ()


class ContainerRestartRule(Struct, frozen=True):
    action: str = ""


class Container(Struct, frozen=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()


class PersistentVolumeClaimVolumeSource(Struct, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class PersistentVolumeClaimTemplate(Struct, frozen=True):
    spec: PersistentVolumeClaimSpec | None = None


class EphemeralVolumeSource(Struct, frozen=True):
    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class GCEPersistentDiskVolumeSource(Struct, frozen=True):
    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(Struct, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class ISCSIVolumeSource(Struct, frozen=True):
    iqn: str = ""
    read_only: bool = False


class RBDVolumeSource(Struct, frozen=True):
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class AzureDiskVolumeSource(Struct, frozen=True):
    disk_uri: str = msgspec.field(default="", name="diskURI")
    disk_name: str = ""
    kind: str | None = None


class CinderVolumeSource(Struct, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class NamedVolumeSource(Struct, frozen=True):
    """An inline source of which only the presence or the volume's path matters (vSphere, portworx, azureFile)."""

    volume_path: str = ""
    volume_id: str = msgspec.field(default="", name="volumeID")


class CSIVolumeSource(Struct, frozen=True):
    driver: str = ""


class ImageVolumeSource(Struct, frozen=True):
    reference: str = ""


class EmptyDirVolumeSource(Struct, frozen=True):
    medium: str = ""
    size_limit: str | int | float | None = None


class HostPathVolumeSource(Struct, frozen=True):
    path: str = ""
    type: str = ""


class Volume(Struct, frozen=True):
    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: NamedVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    vsphere_volume: NamedVolumeSource | None = None
    portworx_volume: NamedVolumeSource | None = None
    image: ImageVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None


class PodSchedulingGate(Struct, frozen=True):
    name: str = ""


class PodResourceClaim(Struct, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(Struct, frozen=True):
    pod_group_name: str | None = None


class PodOS(Struct, frozen=True):
    name: str = ""


class PodSpec(Struct, frozen=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduler_name: str = ""
    priority: Int64 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    overhead: Resources = {}
    resources: ResourceRequirements | None = None
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    host_network: bool = False
    host_users: bool | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: Int64 | None = None
    scheduling_group: PodSchedulingGroup | None = None
    runtime_class_name: str | None = None
    os: PodOS | None = None


class Condition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None

    def __post_init__(self) -> None:
        if self.last_transition_time == ZERO_TIME:
            _set_field_to_none(self, "last_transition_time")


class ContainerStateWaiting(Struct, frozen=True):
    reason: str = ""


class ContainerStateTerminated(Struct, frozen=True):
    exit_code: Int64 = 0
    reason: str = ""


class ContainerState(Struct, frozen=True):
    """The state of a container. A running one is neither waiting nor terminated."""

    waiting: ContainerStateWaiting | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Struct, frozen=True):
    name: str = ""
    restart_count: Int64 = 0
    state: ContainerState = ContainerState()
    resources: ResourceRequirements | None = None
    allocated_resources: Resources = {}


class PodResourceClaimStatus(Struct, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Struct, frozen=True):
    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(Struct, frozen=True):
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class NodeAllocatableResourceClaimStatus(Struct, frozen=True):
    resource_claim_name: str = ""
    resources: Resources = {}


class PodStatus(Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: Resources = {}
    resize: str = ""


class Pod(Struct, frozen=True):
    metadata: PodMeta = PodMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def key(self) -> str:
        """The pod's ``namespace/name``."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def terminated(self) -> bool:
        """Return whether the pod has succeeded or failed, so that it uses no resources and is not scheduled."""
        return self.status.phase in ("Succeeded", "Failed")


# -- nodes --------------------------------------------------------------------------------------------------------


class Taint(Struct, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""

    def __str__(self) -> str:
        """Return the taint in kubectl's format: ``gpu=true:NoSchedule``."""
        label = f"{self.key}={self.value}" if self.value else self.key
        return f"{label}:{self.effect}"


class ContainerImage(Struct, frozen=True):
    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeSpec(Struct, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(default="", name="providerID")


class NodeStatus(Struct, frozen=True):
    allocatable: Resources = {}
    capacity: Resources = {}
    images: tuple[ContainerImage, ...] = ()
    conditions: tuple[Condition, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# -- workloads, services, policies --------------------------------------------------------------------------------


class NamespaceStatus(Struct, frozen=True):
    phase: str = ""


class Namespace(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    status: NamespaceStatus = NamespaceStatus()


class ServiceSpec(Struct, frozen=True):
    selector: dict[str, str] = {}


class Service(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class PodTemplateSpec(Struct, frozen=True):
    metadata: PodMeta = PodMeta()
    spec: PodSpec = PodSpec()


class ReplicationControllerSpec(Struct, frozen=True):
    replicas: Int64 | None = None
    selector: dict[str, str] = {}
    template: PodTemplateSpec | None = None


class WorkloadStatus(Struct, frozen=True):
    """A controller's report on its pods."""

    updated_replicas: Int64 | None = None
    desired_number_scheduled: Int64 | None = None
    """The number of pods that a DaemonSet wants."""
    conditions: tuple[Condition, ...] = ()


class ReplicationController(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: WorkloadStatus = WorkloadStatus()


class StatefulSetOrdinals(Struct, frozen=True):
    start: int = 0


class ClaimRetentionPolicy(Struct, frozen=True):
    """The fate of the claims of a StatefulSet's pods."""

    when_scaled: str = "Retain"
    """Retain, or Delete if the claims of removed replicas are deleted."""


class WorkloadSpec(Struct, frozen=True):
    """The spec of a ReplicaSet, StatefulSet, Deployment or DaemonSet. Some fields exist in only one of these kinds."""

    replicas: Int64 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    paused: bool = False
    pod_management_policy: str = ""
    ordinals: StatefulSetOrdinals = StatefulSetOrdinals()
    persistent_volume_claim_retention_policy: ClaimRetentionPolicy = ClaimRetentionPolicy()


class StoredWorkload(Struct, frozen=True):
    """A ReplicaSet, StatefulSet, Deployment or DaemonSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class PodFailureCondition(Struct, frozen=True):
    type: str = ""
    status: str = "True"


class PodFailureRule(Struct, frozen=True):
    action: str = ""
    on_pod_conditions: tuple[PodFailureCondition, ...] = ()


class PodFailurePolicy(Struct, frozen=True):
    rules: tuple[PodFailureRule, ...] = ()


class StoredJobSpec(Struct, frozen=True):
    parallelism: Int64 | None = None
    completions: Int64 | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    backoff_limit: Int64 | None = None
    backoff_limit_per_index: Int64 | None = None
    max_failed_indexes: Int64 | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    pod_replacement_policy: str | None = None


class StoredJobStatus(Struct, frozen=True):
    succeeded: Int64 | None = None
    failed: Int64 | None = None
    failed_indexes: str = ""
    conditions: tuple[Condition, ...] = ()


class StoredJob(Struct, frozen=True):
    """A Job."""

    metadata: ObjectMeta = ObjectMeta()
    spec: StoredJobSpec = StoredJobSpec()
    status: StoredJobStatus = StoredJobStatus()


class ScaleTargetReference(Struct, frozen=True):
    kind: str = ""
    name: str = ""


class StoredAutoscalerSpec(Struct, frozen=True):
    scale_target_ref: ScaleTargetReference = ScaleTargetReference()
    min_replicas: Int64 | None = None
    max_replicas: Int64 = 0


class StoredAutoscalerStatus(Struct, frozen=True):
    desired_replicas: Int64 = 0
    conditions: tuple[Condition, ...] = ()


class StoredAutoscaler(Struct, frozen=True):
    """A HorizontalPodAutoscaler without its metrics."""

    metadata: ObjectMeta = ObjectMeta()
    spec: StoredAutoscalerSpec = StoredAutoscalerSpec()
    status: StoredAutoscalerStatus = StoredAutoscalerStatus()


class ScopeSelectorTerm(Struct, frozen=True):
    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(Struct, frozen=True):
    match_expressions: tuple[ScopeSelectorTerm, ...] = ()


class ResourceQuotaSpec(Struct, frozen=True):
    hard: Resources = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector = ScopeSelector()


class ResourceQuotaStatus(Struct, frozen=True):
    hard: Resources = {}
    used: Resources = {}


class ResourceQuota(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class LimitRangeItem(Struct, frozen=True):
    type: str = ""
    max: Resources = {}
    min: Resources = {}
    default: Resources = {}
    default_request: Resources = {}
    max_limit_request_ratio: Resources = {}


class LimitRangeSpec(Struct, frozen=True):
    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: LimitRangeSpec = LimitRangeSpec()


class LocalObjectReference(Struct, frozen=True):
    name: str = ""


class ServiceAccount(Struct, frozen=True):
    """A ServiceAccount. Of the secrets that it grants only the names are read."""

    metadata: ObjectMeta = ObjectMeta()
    secrets: tuple[LocalObjectReference, ...] = ()
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    automount_service_account_token: bool | None = None


class ConfigMap(Struct, frozen=True):
    """A ConfigMap with the status or settings of an autoscaler, or with the settings of Kueue."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}


class PodDisruptionBudgetSpec(Struct, frozen=True):
    selector: LabelSelector | None = None
    min_available: Int64 | str | None = None
    max_unavailable: Int64 | str | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetMeta(ObjectMeta, frozen=True):
    generation: Int64 = 0


class PodDisruptionBudgetStatus(Struct, frozen=True):
    current_healthy: Int64 = 0
    desired_healthy: Int64 = 0
    disruptions_allowed: Int64 = 0
    disrupted_pods: dict[str, str | None] = {}
    observed_generation: Int64 = 0


class PodDisruptionBudget(Struct, frozen=True):
    metadata: PodDisruptionBudgetMeta = PodDisruptionBudgetMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PriorityClass(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    value: Int64 = 0
    global_default: bool = False
    preemption_policy: str | None = None
    description: str = ""


class RuntimeClassOverhead(Struct, frozen=True):
    pod_fixed: Resources = {}


class RuntimeClassScheduling(Struct, frozen=True):
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    overhead: RuntimeClassOverhead | None = None
    scheduling: RuntimeClassScheduling | None = None


# -- storage ------------------------------------------------------------------------------------------------------


class VolumeResourceRequirements(Struct, frozen=True):
    requests: Resources = {}


class PersistentVolumeClaimSpec(Struct, frozen=True):
    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PhaseStatus(Struct, frozen=True):
    phase: str = ""


class PersistentVolumeClaim(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PhaseStatus = PhaseStatus()


class CSIPersistentVolumeSource(Struct, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class NodeVolumeSource(Struct, frozen=True):
    """A source on one node. Only its presence is read."""


class VolumeNodeAffinity(Struct, frozen=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Struct, frozen=True):
    capacity: Resources = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: TypedObjectReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None
    csi: CSIPersistentVolumeSource | None = None
    local: NodeVolumeSource | None = None
    host_path: NodeVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: NamedVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    vsphere_volume: NamedVolumeSource | None = None
    portworx_volume: NamedVolumeSource | None = None


class PersistentVolume(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PhaseStatus = PhaseStatus()


class StorageClass(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Struct, frozen=True):
    count: Int64 | None = None


class CSINodeDriver(Struct, frozen=True):
    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Struct, frozen=True):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Struct, frozen=True):
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None
    attach_required: bool | None = None


class CSIDriver(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None


class VolumeAttachmentSource(Struct, frozen=True):
    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpec | None = None


class VolumeAttachmentSpec(Struct, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


# -- devices (resource.k8s.io/v1) ---------------------------------------------------------------------------------


class CELDeviceSelector(Struct, frozen=True):
    expression: str = ""


class DeviceSelector(Struct, frozen=True):
    cel: CELDeviceSelector | None = None


class DeviceToleration(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class CapacityRequirements(Struct, frozen=True):
    requests: Resources = {}


class ExactDeviceRequest(Struct, frozen=True):
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(Struct, frozen=True):
    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Struct, frozen=True):
    """A request for devices. v1beta1 has the fields after ``first_available`` where v1 has ``exactly``."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None

    def __post_init__(self) -> None:
        if self.device_class_name and self.exactly is None:
            fields = ExactDeviceRequest.__struct_fields__
            exactly = ExactDeviceRequest(**{field: getattr(self, field) for field in fields})
            msgspec.structs.force_setattr(self, "exactly", exactly)


class DeviceConstraint(Struct, frozen=True):
    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(Struct, frozen=True):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()


class ResourceClaimSpec(Struct, frozen=True):
    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Struct, frozen=True):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: Resources = {}
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()


class DeviceAllocationResult(Struct, frozen=True):
    results: tuple[DeviceRequestAllocationResult, ...] = ()


class AllocationResult(Struct, frozen=True):
    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumerReference(Struct, frozen=True):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(Struct, frozen=True):
    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()


class ResourceClaimStatus(Struct, frozen=True):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassSpec(Struct, frozen=True):
    selectors: tuple[DeviceSelector, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceAttribute(Struct, frozen=True):
    """The value of a device attribute. Exactly one of the fields is set."""

    int_: Int64 | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None
    ints: tuple[Int64, ...] | None = None
    bools: tuple[bool, ...] | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


class CapacityRequestPolicyRange(Struct, frozen=True):
    min: str | int | float | None = None
    max: str | int | float | None = None
    step: str | int | float | None = None


class CapacityRequestPolicy(Struct, frozen=True):
    default: str | int | float | None = None
    valid_values: tuple[str | int | float, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Struct, frozen=True):
    value: str | int | float = "0"
    request_policy: CapacityRequestPolicy | None = None


class Counter(Struct, frozen=True):
    value: str | int | float = "0"


class CounterSet(Struct, frozen=True):
    name: str = ""
    counters: dict[str, Counter] = {}


class DeviceCounterConsumption(Struct, frozen=True):
    counter_set: str = ""
    counters: dict[str, Counter] = {}


class DeviceTaint(Taint, frozen=True):
    time_added: str | None = None


class NodeAllocatableResourceMapping(Struct, frozen=True):
    capacity_key: str | None = None
    allocation_multiplier: str | int | float | None = None


class Device(Struct, frozen=True):
    """A device. v1beta1 and v1alpha3 have all fields but the name in ``basic``, from where they are copied."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None
    node_allocatable_resource_mappings: dict[str, NodeAllocatableResourceMapping] = {}
    basic: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.basic is not None:
            capacity = {name: _wrap_capacity(amount) for name, amount in (self.basic.get("capacity") or {}).items()}
            basic = convert_builtins(self.basic | {"capacity": capacity}, Device)
            for field in self.__struct_fields__[1:]:  # all but the name
                msgspec.structs.force_setattr(self, field, getattr(basic, field))


def _wrap_capacity(amount: object) -> object:
    """Return a capacity as an object. v1alpha3 has a plain quantity."""
    return amount if isinstance(amount, dict) else {"value": amount}


class ResourcePool(Struct, frozen=True):
    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class ResourceSliceSpec(Struct, frozen=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceTaintSelector(Struct, frozen=True):
    """The devices that a taint rule applies to. ``device_class_name`` and ``selectors`` were removed in 1.35."""

    device_class_name: str | None = None
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    selectors: tuple[DeviceSelector, ...] = ()


class DeviceTaintRuleSpec(Struct, frozen=True):
    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()


class TopologyConstraint(Struct, frozen=True):
    key: str = ""


class PodGroupSchedulingConstraints(Struct, frozen=True):
    topology: tuple[TopologyConstraint, ...] = ()


class GangSchedulingPolicy(Struct, frozen=True):
    min_count: Int64 = 0


class BasicSchedulingPolicy(Struct, frozen=True):
    """The policy by which pods are placed one by one. It has no fields."""


class PodGroupSchedulingPolicy(Struct, frozen=True):
    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class PodGroupResourceClaim(Struct, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class WorkloadPodGroupTemplateReference(Struct, frozen=True):
    workload_name: str = ""
    pod_group_template_name: str = ""


class PodGroupTemplateReference(Struct, frozen=True):
    workload: WorkloadPodGroupTemplateReference | None = None


class WorkloadReference(Struct, frozen=True):
    workload_name: str = ""
    template_name: str = ""


class SingleDisruptionMode(Struct, frozen=True):
    """The mode in which pods of the group are evicted one by one. It has no fields."""


class AllDisruptionMode(Struct, frozen=True):
    """The mode in which all pods of the group are evicted together. It has no fields."""


class DisruptionMode(Struct, frozen=True):
    single: SingleDisruptionMode | None = None
    all: AllDisruptionMode | None = None


class PodGroupSpec(Struct, frozen=True):
    """The spec of a PodGroup.

    ``pod_group_template_ref`` and a string in ``disruption_mode`` belong to v1alpha2, which was removed in 1.37.
    """

    parent_composite_pod_group_name: str | None = None
    workload_ref: WorkloadReference | None = None
    pod_group_template_ref: PodGroupTemplateReference | None = None
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    disruption_mode: str | DisruptionMode | None = None
    priority_class_name: str = ""
    priority: Int64 | None = None
    preemption_policy: str | None = None

    @property
    def is_disrupted_together(self) -> bool:
        """Return whether all pods of the group are evicted together."""
        mode = self.disruption_mode
        return mode.all is not None if isinstance(mode, DisruptionMode) else mode == "PodGroup"


class PodGroupResourceClaimStatus(Struct, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None


class PodGroupStatus(Struct, frozen=True):
    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodGroupResourceClaimStatus, ...] = ()


class PodGroup(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class CompositeGangSchedulingPolicy(Struct, frozen=True):
    min_group_count: Int64 = 0


class CompositePodGroupSchedulingPolicy(Struct, frozen=True):
    basic: BasicSchedulingPolicy | None = None
    gang: CompositeGangSchedulingPolicy | None = None


class CompositePodGroupSpec(Struct, frozen=True):
    """The spec of a group of groups. The member groups name it as their parent."""

    parent_composite_pod_group_name: str | None = None
    workload_ref: WorkloadReference | None = None
    scheduling_policy: CompositePodGroupSchedulingPolicy = CompositePodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: Int64 | None = None
    preemption_policy: str | None = None

    @property
    def is_disrupted_together(self) -> bool:
        """Return whether all pods of the groups are evicted together."""
        return self.disruption_mode is not None and self.disruption_mode.all is not None


class CompositePodGroupStatus(Struct, frozen=True):
    conditions: tuple[Condition, ...] = ()


class CompositePodGroup(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CompositePodGroupSpec = CompositePodGroupSpec()
    status: CompositePodGroupStatus = CompositePodGroupStatus()


AnyGroup: TypeAlias = PodGroup | CompositePodGroup


class CoschedulingPodGroupSpec(Struct, frozen=True):
    min_member: Int64 = 0
    min_resources: Resources | None = None
    schedule_timeout_seconds: Int64 | None = None


class CoschedulingPodGroup(Struct, frozen=True):
    """A PodGroup of kubernetes-sigs/scheduler-plugins."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CoschedulingPodGroupSpec = CoschedulingPodGroupSpec()
    status: PhaseStatus = PhaseStatus()


class VolcanoPodGroupSpec(Struct, frozen=True):
    """The spec of a Volcano PodGroup."""

    min_member: Int64 = 0
    min_task_member: dict[str, Int64] = {}
    """The number of pods of each task that have to run."""
    min_resources: Resources | None = None
    queue: str = ""


class VolcanoPodGroupStatus(Struct, frozen=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class VolcanoPodGroup(Struct, frozen=True):
    """A PodGroup of Volcano."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolcanoPodGroupSpec = VolcanoPodGroupSpec()
    status: VolcanoPodGroupStatus = VolcanoPodGroupStatus()


class ElasticQuotaSpec(Struct, frozen=True):
    """The bounds of a namespace's resource usage."""

    min: Resources | None = None
    """The guaranteed amounts; None means zero."""
    max: Resources | None = None
    """The most that may be used; None means no limit."""


class ElasticQuota(Struct, frozen=True):
    """An ElasticQuota of kubernetes-sigs/scheduler-plugins."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ElasticQuotaSpec = ElasticQuotaSpec()


class ZoneResource(Struct, frozen=True):
    """A resource of a NUMA node."""

    name: str = ""
    available: str | int | float = 0
    """The amount that is not in use."""


class ZoneCost(Struct, frozen=True):
    """The distance of a zone from another one or from itself."""

    name: str = ""
    """The other zone."""
    value: int = 0


class TopologyZone(Struct, frozen=True):
    """A zone of a node's topology. NUMA nodes have the type Node and names like ``node-0``."""

    name: str = ""
    type: str = ""
    costs: tuple[ZoneCost, ...] = ()
    resources: tuple[ZoneResource, ...] = ()


class TopologyAttribute(Struct, frozen=True):
    name: str = ""
    value: str = ""


class NodeResourceTopology(Struct, frozen=True):
    """The NUMA zones of a node, as an exporter of topology.node.k8s.io publishes them under the node's name."""

    metadata: ObjectMeta = ObjectMeta()
    topology_policies: tuple[str, ...] = ()
    zones: tuple[TopologyZone, ...] = ()
    attributes: tuple[TopologyAttribute, ...] = ()


# -- what tells how scheduling went ---------------------------------------------------------------------------------


class RecordMeta(Struct, frozen=True):
    """The ObjectMeta of objects that are rewritten constantly or exist in large numbers."""

    name: str = ""
    namespace: str = ""
    creation_timestamp: str | None = None

    def __post_init__(self) -> None:
        if self.creation_timestamp == ZERO_TIME:
            _set_field_to_none(self, "creation_timestamp")


class ObjectReference(Struct, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventSource(Struct, frozen=True):
    component: str = ""
    host: str = ""


class EventSeries(Struct, frozen=True):
    count: Int64 = 0
    last_observed_time: str | None = None


class Event(Struct, frozen=True):
    """An event of core/v1. Fields that have other names in events.k8s.io/v1 are copied to core/v1's fields."""

    metadata: RecordMeta = RecordMeta()
    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    reporting_component: str = ""
    reporting_instance: str = ""
    count: Int64 = 0
    series: EventSeries | None = None
    event_time: str | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    regarding: ObjectReference | None = None
    note: str = ""
    deprecated_source: EventSource | None = None
    deprecated_count: Int64 = 0
    deprecated_first_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None
    reporting_controller: str = ""

    def __post_init__(self) -> None:
        for newer, field, none in _NEWER_EVENT_FIELDS:
            if elements := getattr(self, newer):
                msgspec.structs.force_setattr(self, field, elements)
                msgspec.structs.force_setattr(self, newer, none)
        for field in ("event_time", "first_timestamp", "last_timestamp"):
            if getattr(self, field) == ZERO_TIME:
                _set_field_to_none(self, field)


_NEWER_EVENT_FIELDS: tuple[tuple[str, str, object], ...] = (
    ("regarding", "involved_object", None),
    ("note", "message", ""),
    ("deprecated_source", "source", None),
    ("deprecated_count", "count", 0),
    ("deprecated_first_timestamp", "first_timestamp", None),
    ("deprecated_last_timestamp", "last_timestamp", None),
    ("reporting_controller", "reporting_component", ""),
)
"""Each field of events.k8s.io/v1 with the one of core/v1 and its empty value."""


class LeaseSpec(Struct, frozen=True):
    holder_identity: str = ""
    lease_duration_seconds: Int64 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int64 | None = None


class Lease(Struct, frozen=True):
    metadata: RecordMeta = RecordMeta()
    spec: LeaseSpec = LeaseSpec()


class AnyMeta(Protocol):
    """The metadata fields of objects of every kind."""

    @property
    def name(self) -> str:
        """The name of the object."""
        ...

    @property
    def namespace(self) -> str:
        """The namespace of the object, or "" if it has none."""
        ...

    @property
    def uid(self) -> str:
        """The UID of the object, or "" if no API server stored it."""
        ...

    @property
    def creation_timestamp(self) -> str | None:
        """The RFC 3339 time at which the object was created, or None."""
        ...


class ApiObject(Protocol):
    """An API object of any kind."""

    @property
    def metadata(self) -> AnyMeta:
        """The metadata of the object."""
        ...


def get_object_key(obj: ApiObject) -> tuple[str, str]:
    """Return the object's namespace and name, which identify it among objects of its kind."""
    return obj.metadata.namespace, obj.metadata.name
