"""Which fields keep their texts in a snapshot under pseudonyms: what nobody is known by."""

from __future__ import annotations

from kschedctl.api import objects as api

KEPT: dict[type, str] = {
    api.ObjectMeta: "creation_timestamp deletion_timestamp",
    api.PodMeta: "creation_timestamp deletion_timestamp",
    api.PodAnnotations: "pod_group_total_count pod_group_fast_admission",
    api.SelectorRequirement: "operator",
    api.Toleration: "operator effect",
    api.TopologySpreadConstraint: "when_unsatisfiable node_affinity_policy node_taints_policy",
    api.ContainerPort: "protocol",
    api.ContainerRestartRule: "action",
    api.Container: "restart_policy",
    api.AzureDiskVolumeSource: "kind",
    api.PodSpec: "preemption_policy",
    api.Condition: "type status reason last_transition_time",
    api.PodStatus: "phase start_time",
    api.Taint: "effect",
    api.NodeStatus: "declared_features",
    api.PodDisruptionBudgetSpec: "min_available max_unavailable unhealthy_pod_eviction_policy",
    api.PriorityClass: "preemption_policy",
    api.PersistentVolumeClaimSpec: "access_modes volume_mode",
    api.PhaseStatus: "phase",
    api.PersistentVolumeSpec: "capacity access_modes volume_mode",
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
    api.PodGroupSpec: "disruption_mode",
    api.ZoneResource: "available",
    api.TopologyZone: "name type",
    api.TopologyAttribute: "name value",
    api.NodeResourceTopology: "topology_policies",
}
"""Struct -> its fields with texts that stay: conditions, modes, quantities, times."""
