"""Which parts of dynamic resource allocation the feature gates switch on."""

from __future__ import annotations

from typing import NamedTuple

from kschedctl.api.kube_version import VERIFIED, ByVersion, KubeVersion
from kschedctl.scheduler.framework.feature_gates import FeatureGates

NEWER_ALLOCATOR: ByVersion[tuple[str, ...]] = ByVersion(
    "the features of which one makes DynamicResources run its newer allocator",
    (
        ("", ()),
        ("1.34", ("device_status", "binding_conditions", "consumable_capacity")),
        ("1.35", ("binding_conditions", "consumable_capacity")),
    ),
)
TAINT_RULES_GATE = ByVersion(
    "the feature gate with which DeviceTaintRules apply",
    (("", "DRADeviceTaints"), ("1.35", "DRADeviceTaintRules")),
    "EnableDeviceTaints, since then EnableDeviceTaintRules, in pkg/scheduler/scheduler.go",
)
LISTS_IN_CEL = ByVersion(
    "whether CEL selectors read attributes with several values while DRAListTypeAttributes is off",
    (("", False), ("1.37", True)),
    "#139395",
)
CHECKS_ADMIN_ACCESS = ByVersion(
    "whether adminAccess is an error while DRAAdminAccess is off", (("", False), ("1.32", True))
)


class Features(NamedTuple):
    """Upstream: AllocatorFeatures in plugins/dynamicresources/dynamicresources.go and plugins/feature (v1.36)."""

    admin_access: bool = True
    prioritized_list: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    device_taint_rules: bool = False
    binding_conditions: bool = True
    consumable_capacity: bool = True
    fractional_range: bool = False
    list_attributes: bool = False
    extended_resource: bool = True
    node_allocatable: bool = False
    workload_claims: bool = False
    device_status: bool = True
    release: KubeVersion = VERIFIED

    @classmethod
    def of(cls, gates: FeatureGates) -> Features:
        on = gates.enabled
        return cls(
            admin_access=on("DRAAdminAccess") or not CHECKS_ADMIN_ACCESS.at(gates.release),
            prioritized_list=on("DRAPrioritizedList"),
            partitionable_devices=on("DRAPartitionableDevices"),
            device_taints=on("DRADeviceTaints"),
            device_taint_rules=on(TAINT_RULES_GATE.at(gates.release)),
            binding_conditions=on("DRADeviceBindingConditions") and on("DRAResourceClaimDeviceStatus"),
            consumable_capacity=on("DRAConsumableCapacity"),
            fractional_range=on("DRAFractionalCapacityRange"),
            list_attributes=on("DRAListTypeAttributes"),
            extended_resource=on("DRAExtendedResource"),
            node_allocatable=on("DRANodeAllocatableResources"),
            workload_claims=on("DRAWorkloadResourceClaims"),
            device_status=on("DRAResourceClaimDeviceStatus"),
            release=gates.release,
        )

    @property
    def lists_in_cel(self) -> bool:
        """Whether CEL selectors read attributes with several values."""
        return self.list_attributes or LISTS_IN_CEL.at(self.release)

    @property
    def newer_allocator(self) -> bool:
        """Whether it runs the allocator that knows distinctAttribute and heeds requests for capacity.

        Upstream: NewAllocator in dynamic-resource-allocation/structured/allocator.go.
        """
        needed = NEWER_ALLOCATOR.at(self.release)
        return any(getattr(self, feature) for feature in needed)


DEFAULT_FEATURES = Features()
"""The features of kube-scheduler v1.36."""
