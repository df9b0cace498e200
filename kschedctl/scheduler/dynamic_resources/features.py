"""Which parts of dynamic resource allocation the feature gates switch on."""

from __future__ import annotations

from typing import NamedTuple

from kschedctl.scheduler.configuration.feature_gates import FeatureGates


class Features(NamedTuple):
    """Upstream: AllocatorFeatures in plugins/dynamicresources/dynamicresources.go and plugins/feature (v1.36)."""

    admin_access: bool = True
    prioritized_list: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    device_taint_rules: bool = False
    binding_conditions: bool = True
    consumable_capacity: bool = True
    list_attributes: bool = False
    extended_resource: bool = True
    node_allocatable: bool = False
    workload_claims: bool = False

    @classmethod
    def of(cls, gates: FeatureGates) -> Features:
        on = gates.enabled
        return cls(
            admin_access=on("DRAAdminAccess"),
            prioritized_list=on("DRAPrioritizedList"),
            partitionable_devices=on("DRAPartitionableDevices"),
            device_taints=on("DRADeviceTaints"),
            device_taint_rules=on("DRADeviceTaintRules"),
            binding_conditions=on("DRADeviceBindingConditions") and on("DRAResourceClaimDeviceStatus"),
            consumable_capacity=on("DRAConsumableCapacity"),
            list_attributes=on("DRAListTypeAttributes"),
            extended_resource=on("DRAExtendedResource"),
            node_allocatable=on("DRANodeAllocatableResources"),
            workload_claims=on("DRAWorkloadResourceClaims"),
        )

    @property
    def stable_allocator(self) -> bool:
        """Without these two the scheduler runs its older allocator, which knows no distinctAttribute."""
        return not (self.binding_conditions or self.consumable_capacity)


DEFAULT_FEATURES = Features()
"""Those of kube-scheduler v1.36."""
