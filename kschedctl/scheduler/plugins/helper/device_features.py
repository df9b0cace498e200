"""The feature gates of dynamic resource allocation, resolved for one version."""

from __future__ import annotations

from typing import NamedTuple

from kschedctl.api.kube_version import VERIFIED, ByVersion, KubeVersion
from kschedctl.scheduler.framework.feature_gates import FeatureGates

NEWER_ALLOCATOR: ByVersion[tuple[str, ...]] = ByVersion(
    "feature gates that each enable the newer device allocator",
    (
        ("", ()),
        ("1.34", ("DRAResourceClaimDeviceStatus", "DRADeviceBindingConditions", "DRAConsumableCapacity")),
        ("1.35", ("DRADeviceBindingConditions", "DRAConsumableCapacity")),
    ),
)
TAINT_RULES_GATE = ByVersion(
    "feature gate for DeviceTaintRules",
    (("", "DRADeviceTaints"), ("1.35", "DRADeviceTaintRules")),
    "pkg/scheduler/scheduler.go (EnableDeviceTaints, EnableDeviceTaintRules since 1.35)",
)
LISTS_IN_CEL = ByVersion(
    "CEL selectors can read list-type attributes even if the gate DRAListTypeAttributes is off",
    (("", False), ("1.37", True)),
    "#139395",
)
CHECKS_ADMIN_ACCESS = ByVersion(
    "adminAccess is an error while the gate DRAAdminAccess is off", (("", False), ("1.32", True))
)


class Features(NamedTuple):
    """Parts of dynamic resource allocation that the feature gates enable.

    Upstream: AllocatorFeatures in plugins/dynamicresources/dynamicresources.go and plugins/feature (v1.36).
    """

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
    def from_gates(cls, gates: FeatureGates) -> Features:
        """Build the features that the feature gates of a version enable."""
        enabled = gates.enabled
        return cls(
            admin_access=enabled("DRAAdminAccess") or not CHECKS_ADMIN_ACCESS.at(gates.release),
            prioritized_list=enabled("DRAPrioritizedList"),
            partitionable_devices=enabled("DRAPartitionableDevices"),
            device_taints=enabled("DRADeviceTaints"),
            device_taint_rules=enabled(TAINT_RULES_GATE.at(gates.release)),
            binding_conditions=enabled("DRADeviceBindingConditions") and enabled("DRAResourceClaimDeviceStatus"),
            consumable_capacity=enabled("DRAConsumableCapacity"),
            fractional_range=enabled("DRAFractionalCapacityRange"),
            list_attributes=enabled("DRAListTypeAttributes"),
            extended_resource=enabled("DRAExtendedResource"),
            node_allocatable=enabled("DRANodeAllocatableResources"),
            workload_claims=enabled("DRAWorkloadResourceClaims"),
            device_status=enabled("DRAResourceClaimDeviceStatus"),
            release=gates.release,
        )

    @property
    def lists_in_cel(self) -> bool:
        """True if CEL selectors can read attributes with several values."""
        return self.list_attributes or LISTS_IN_CEL.at(self.release)

    @property
    def uses_newer_allocator(self) -> bool:
        """True if the feature gates select kube-scheduler's newer device allocator.

        Only the newer allocator supports distinctAttribute and checks capacity requests.

        Upstream: NewAllocator in dynamic-resource-allocation/structured/allocator.go.
        """
        is_on = {
            "DRAResourceClaimDeviceStatus": self.device_status,
            "DRADeviceBindingConditions": self.binding_conditions,
            "DRAConsumableCapacity": self.consumable_capacity,
        }
        return any(is_on[gate] for gate in NEWER_ALLOCATOR.at(self.release))


DEFAULT_FEATURES = Features()
"""The features of kube-scheduler v1.36."""
