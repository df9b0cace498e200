"""Texts that an anonymized snapshot keeps because they identify nobody: well-known keys and names, and some fields.

Keys of labels and taints, names of resources, and scheduling gates also have to be kept because plugins know them by
name and readers of the snapshot need them.
"""

from __future__ import annotations

from kschedctl.api import admission_hooks as hooks
from kschedctl.api import karpenter, queueing
from kschedctl.api import objects as api
from kschedctl.api.node_pools import POOL_NAMES
from kschedctl.api.resource_names import (
    ATTACHABLE_VOLUMES_PREFIX,
    CPU,
    DEVICE_CLASS_PREFIX,
    EPHEMERAL_STORAGE,
    HUGE_PAGES_PREFIX,
    MEMORY,
    PODS,
    QUOTA_PREFIX,
)

DOMAINS = {
    "kubernetes.io": "Kubernetes: hostname, topology, node conditions as taints, what controllers set",
    "k8s.io": "Kubernetes and its projects",
    "x-k8s.io": "projects of Kubernetes: scheduling.x-k8s.io/pod-group, kueue.x-k8s.io/pod-group-name",
    "amazonaws.com": "AWS: eks, vpc",
    "amazon.com": "AWS: aws.amazon.com/neuron",
    "aws.com": "AWS: topology.ebs.csi.aws.com/zone, by which volumes are placed",
    "k8s.aws": "AWS: karpenter.k8s.aws",
    "azure.com": "Azure: kubernetes.azure.com, topology.disk.csi.azure.com",
    "gke.io": "Google: topology.gke.io/zone, by which volumes are placed",
    "google.com": "Google: cloud.google.com, google.com/tpu",
    "openstack.org": "OpenStack: topology.cinder.csi.openstack.org/zone, by which volumes are placed",
    "karpenter.sh": "Karpenter",
    "amd.com": "devices: amd.com/gpu",
    "habana.ai": "devices: habana.ai/gaudi",
    "intel.com": "devices: gpu.intel.com/i915, qat.intel.com",
    "nvidia.com": "devices: nvidia.com/gpu",
    "volcano.sh": "Volcano: volcano.sh/task-spec",
}
"""Domain, including its subdomains -> its owner. Keys in these domains are kept, except in CUSTOM_NAME_DOMAINS."""

CUSTOM_NAME_DOMAINS = frozenset({"node-role.kubernetes.io", "node-restriction.kubernetes.io"})
"""Domains of Kubernetes in which users choose the names."""
COMMON_ROLES = frozenset({"control-plane", "master", "worker", "infra"})
"""Names in these domains that are in general use."""

BARE_KEYS = frozenset(
    {
        *(CPU, MEMORY, EPHEMERAL_STORAGE, PODS, "storage"),
        *("controller-revision-hash", "controller-uid", "job-name", "pod-template-generation", "pod-template-hash"),
        *("metadata.name", "metadata.namespace"),
        *POOL_NAMES,
    }
)
"""Well-known keys without a domain: resources, labels of controllers, fields of selectors, and labels of node pools."""
KEPT_PARTS = frozenset(POOL_NAMES)
"""Names that are kept after the slash of any domain, because they identify the label of a node pool."""

KEPT_VALUES = {"pod-security.kubernetes.io/enforce": frozenset({"privileged", "baseline", "restricted"})}
"""Label key -> its well-known values."""

RESOURCE_PREFIXES = (DEVICE_CLASS_PREFIX, ATTACHABLE_VOLUMES_PREFIX, QUOTA_PREFIX)
"""Prefixes of resources that the scheduler reads. The user chooses what follows."""


def is_well_known_key(key: str) -> bool:
    """Return whether the key of a label, taint or resource is well known and therefore kept.

    >>> is_well_known_key("topology.kubernetes.io/zone"), is_well_known_key("team")
    (True, False)
    """
    domain, slash, name = key.rpartition("/")
    if not slash:
        return key in BARE_KEYS or key.startswith(HUGE_PAGES_PREFIX)
    if domain in CUSTOM_NAME_DOMAINS:
        return name in COMMON_ROLES
    return is_well_known_domain(domain)


def is_well_known_domain(domain: str) -> bool:
    """Return whether the domain or one of its parent domains is in DOMAINS."""
    labels = domain.split(".")
    return any(".".join(labels[start:]) in DOMAINS for start in range(len(labels)))


KEPT_FIELDS: dict[type, str] = {
    api.ObjectMeta: "creation_timestamp deletion_timestamp",
    api.PodDisruptionBudgetMeta: "creation_timestamp deletion_timestamp",
    api.PodMeta: "creation_timestamp deletion_timestamp",
    api.PodAnnotations: (
        "pod_group_total_count pod_group_fast_admission unconstrained_topology slice_size job_index_failure_count"
    ),
    api.SelectorRequirement: "operator",
    api.Toleration: "operator effect",
    api.PodOS: "name",
    api.TopologySpreadConstraint: "when_unsatisfiable node_affinity_policy node_taints_policy",
    api.ContainerPort: "protocol",
    api.ContainerRestartRule: "action",
    api.Container: "restart_policy",
    api.AzureDiskVolumeSource: "kind",
    api.EmptyDirVolumeSource: "medium size_limit",
    api.HostPathVolumeSource: "type",
    api.PodSpec: "preemption_policy restart_policy",
    api.Condition: "type status last_transition_time",
    api.PodStatus: "phase start_time resize",
    api.Taint: "effect",
    api.NodeStatus: "declared_features",
    api.ClaimRetentionPolicy: "when_scaled",
    api.WorkloadSpec: "pod_management_policy",
    api.StoredJobSpec: "completion_mode pod_replacement_policy",
    api.StoredJobStatus: "failed_indexes",
    api.PodFailureRule: "action",
    api.PodFailureCondition: "type status",
    api.PodDisruptionBudgetSpec: "min_available max_unavailable unhealthy_pod_eviction_policy",
    api.PriorityClass: "preemption_policy",
    api.PersistentVolumeClaimSpec: "access_modes volume_mode",
    api.PhaseStatus: "phase",
    api.NamespaceStatus: "phase",
    api.ScopeSelectorTerm: "scope_name operator",
    api.ResourceQuotaSpec: "scopes",
    api.LimitRangeItem: "type",
    api.PersistentVolumeSpec: "capacity access_modes volume_mode persistent_volume_reclaim_policy",
    api.VolumeResourceRequirements: "requests",
    api.StorageClass: "volume_binding_mode",
    api.CSIStorageCapacity: "capacity maximum_volume_size",
    api.DeviceToleration: "operator effect",
    api.ExactDeviceRequest: "allocation_mode",
    api.DeviceSubRequest: "allocation_mode",
    api.DeviceRequest: "allocation_mode",
    api.AllocationResult: "allocation_timestamp",
    api.DeviceAttribute: "string version strings versions",
    api.CapacityRequestPolicyRange: "min max step",
    api.CapacityRequestPolicy: "default valid_values",
    api.DeviceCapacity: "value",
    api.Counter: "value",
    api.DeviceTaint: "effect time_added",
    api.NodeAllocatableResourceMapping: "allocation_multiplier",
    api.PodGroupSpec: "disruption_mode preemption_policy",
    api.CompositePodGroupSpec: "preemption_policy",
    api.ZoneResource: "available",
    api.ZoneCost: "name",
    api.TopologyZone: "name type",
    api.TopologyAttribute: "name value",
    api.NodeResourceTopology: "topology_policies",
    api.RecordMeta: "creation_timestamp",
    api.ObjectReference: "kind",
    api.EventSeries: "last_observed_time",
    api.Event: "type event_time first_timestamp last_timestamp deprecated_first_timestamp deprecated_last_timestamp",
    api.LeaseSpec: "acquire_time renew_time",
    hooks.HookRule: "operations api_versions scope",
    hooks.PolicyBindingSpec: "validation_actions",
    karpenter.RequirementWithMinValues: "operator",
    karpenter.NodeClassReference: "api_version group kind",
    karpenter.NodeClaimSpec: "termination_grace_period expire_after",
    karpenter.NodeClaimStatus: "last_pod_event_time",
    karpenter.DisruptionBudget: "nodes reasons schedule duration",
    karpenter.PoolDisruption: "consolidate_after consolidation_policy expire_after",
    karpenter.NodeOverlaySpec: "price price_adjustment",
    karpenter.BlockDevice: "volume_size",
    karpenter.EphemeralStorage: "size",
    karpenter.NodeClassSpec: "instance_store_policy",
    api.VolcanoPodGroupStatus: "phase",
    queueing.WorkloadPriorityClassRef: "group kind",
    queueing.KueueWorkloadSpec: "priority_class_source",
    queueing.KueuePodSetAssignment: "delayed_topology_request",
    queueing.KueueAdmissionCheckState: "state last_transition_time",
    queueing.RequeueState: "requeue_at",
    queueing.KueueResourceQuota: "nominal_quota borrowing_limit lending_limit",
    queueing.FlavorFungibility: "when_can_borrow when_can_preempt preference",
    queueing.BorrowWithinCohort: "policy",
    queueing.ClusterQueuePreemption: "reclaim_within_cohort within_cluster_queue",
    queueing.FairSharing: "weight",
    queueing.ClusterQueueSpec: "stop_policy queueing_strategy",
    queueing.KueueResourceUsage: "total",
    queueing.LocalQueueSpec: "stop_policy",
    queueing.VolcanoQueueStatus: "state",
    queueing.VolcanoJobState: "phase",
}
"""Struct -> its fields with texts that are kept: conditions, modes, quantities and times."""
