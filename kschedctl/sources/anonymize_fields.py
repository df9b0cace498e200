"""Which fields of which objects hold names, label values or images, and how each is put under a pseudonym."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from kschedctl.api import objects as api
from kschedctl.api.priority import SYSTEM_CLASSES
from kschedctl.api.resource_names import DEVICE_CLASS_PREFIX
from kschedctl.sources.anonymize_expressions import Expressions, is_known_driver
from kschedctl.sources.anonymize_labels import ZONE_DELIMITER, Numbers

Handler = Callable[["Rewriter", Any, Any], Any]

LATEST = "latest"
"""The tag that an image without one has."""
ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})
KEPT_NAMES = frozenset(c.metadata.name for c in SYSTEM_CLASSES)
NAMED_BY_ANNOTATION = frozenset({"volume.kubernetes.io/selected-node", "volume.beta.kubernetes.io/storage-class"})
FREE_TEXT = frozenset({"kschedctl/ignore"})
LONGEST_LABEL_VALUE = 63
INVALID = "?"
"""Makes no valid label value out of one: selectors that are refused for a value stay so."""
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_MADE_REQUEST = re.compile(r"container-\d+-request-\d+")
_EBS = re.compile(r"(?:aws://([^/]*)/)?(.*/)?vol-([^/]*)")


class Rewriter:
    """Puts objects under pseudonyms; ``name`` gives that of a text."""

    def __init__(self, name: Callable[[str], str], numbers: Numbers, expressions: Expressions) -> None:
        self.name, self.numbers, self.expressions = name, numbers, expressions

    def struct(self, obj: Any) -> Any:
        """The struct with all that is in it."""
        handlers = FIELDS.get(type(obj), {})
        changed = {}
        for field in obj.__struct_fields__:
            value = getattr(obj, field)
            if not value:
                continue
            made = handlers[field](self, value, obj) if field in handlers else self._inner(value)
            if made is not value:
                changed[field] = made
        return replace(obj, **changed) if changed else obj

    def _inner(self, value: Any) -> Any:
        if isinstance(value, api.Struct):
            return self.struct(value)
        if isinstance(value, tuple) and isinstance(value[0], api.Struct):
            return tuple([self.struct(item) for item in value])
        if isinstance(value, dict) and any(isinstance(item, api.Struct) for item in value.values()):
            return {key: self.struct(item) for key, item in value.items()}
        return value

    def label(self, key: str, value: str) -> str:
        """A value under a key of a label or taint."""
        rank = self.numbers.rank(key, value)
        if rank is not None:
            return rank
        made = ZONE_DELIMITER.join(map(self.name, value.split(ZONE_DELIMITER)))
        return made if _LABEL_VALUE.fullmatch(value) and len(value) <= LONGEST_LABEL_VALUE else f"{made}{INVALID}"


def _name(rewriter: Rewriter, value: str, obj: Any) -> str:
    return value if value in KEPT_NAMES else rewriter.name(value)


def _names(rewriter: Rewriter, value: tuple[str, ...], obj: Any) -> tuple[str, ...]:
    return tuple(map(rewriter.name, value))


def _keys(rewriter: Rewriter, value: Mapping[str, Any], obj: Any) -> dict[str, Any]:
    return {rewriter.name(key): item for key, item in value.items()}


def _labels(rewriter: Rewriter, value: Mapping[str, str], obj: Any) -> dict[str, str]:
    return {key: rewriter.label(key, item) for key, item in value.items()}


def _value(rewriter: Rewriter, value: str, obj: Any) -> str:
    return rewriter.label(obj.key, value)


def _values(rewriter: Rewriter, value: tuple[str, ...], obj: Any) -> tuple[str, ...]:
    return tuple(rewriter.label(obj.key, item) for item in value)


def _annotations(rewriter: Rewriter, value: Mapping[str, str], obj: Any) -> dict[str, str]:
    kept = {key: item for key, item in value.items() if key not in FREE_TEXT}
    return {key: rewriter.name(item) if key in NAMED_BY_ANNOTATION else item for key, item in kept.items()}


def _nothing(rewriter: Rewriter, value: str, obj: Any) -> str:
    return ""


def _image(rewriter: Rewriter, value: str, obj: Any) -> str:
    """Repository and tag each by itself, so that a missing tag can still be filled in."""
    repository, colon, tag = value.rpartition(":")
    if not colon or "/" in tag:
        return rewriter.name(value)
    return f"{rewriter.name(repository)}:{tag if tag == LATEST else rewriter.name(tag)}"


def _images(rewriter: Rewriter, value: tuple[str, ...], obj: Any) -> tuple[str, ...]:
    return tuple(_image(rewriter, item, obj) for item in value)


def _driver(rewriter: Rewriter, value: str, obj: Any) -> str:
    return value if is_known_driver(value) else rewriter.name(value)


def _metadata_of_driver(rewriter: Rewriter, value: api.ObjectMeta, obj: Any) -> api.ObjectMeta:
    made: api.ObjectMeta = rewriter.struct(value)
    return replace(made, name=_driver(rewriter, value.name, obj))


def _disk(rewriter: Rewriter, value: str, obj: Any) -> str:
    """``vol-1`` and ``aws://zone/vol-1`` are one volume in two ways of writing."""
    match = _EBS.fullmatch(value)
    if match is None:
        return f"aws://{rewriter.name(value)}" if value.startswith("aws://") else rewriter.name(value)
    zone, path, volume = match.groups()
    before = "" if zone is None else f"aws://{rewriter.name(zone)}/"
    return f"{before}{f'{rewriter.name(path)}/' if path else ''}vol-{rewriter.name(volume)}"


def _address(rewriter: Rewriter, value: str, obj: Any) -> str:
    return value if value in ANY_ADDRESS else rewriter.name(value)


def _resources(rewriter: Rewriter, value: Mapping[str, Any], obj: Any) -> dict[str, Any]:
    return {_resource(rewriter, key, obj): item for key, item in value.items()}


def _resource(rewriter: Rewriter, value: str, obj: Any) -> str:
    """A resource that is called after a DeviceClass."""
    if not value.startswith(DEVICE_CLASS_PREFIX):
        return value
    return DEVICE_CLASS_PREFIX + rewriter.name(value.removeprefix(DEVICE_CLASS_PREFIX))


def _request(rewriter: Rewriter, value: str, obj: Any) -> str:
    """``request`` or ``request/alternative``; those that the scheduler makes have names with a meaning."""
    if _MADE_REQUEST.fullmatch(value):
        return value
    return "/".join(map(rewriter.name, value.split("/")))


def _requests(rewriter: Rewriter, value: tuple[str, ...], obj: Any) -> tuple[str, ...]:
    return tuple(_request(rewriter, item, obj) for item in value)


def _qualified(rewriter: Rewriter, value: str, obj: Any) -> str:
    return rewriter.expressions.qualified(value, rewriter.name)


def _expression(rewriter: Rewriter, value: str, obj: Any) -> str:
    return rewriter.expressions.expression(value, rewriter.name)


def _attributes(rewriter: Rewriter, value: Mapping[str, api.DeviceAttribute], obj: Any) -> dict[str, Any]:
    expressions, name = rewriter.expressions, rewriter.name
    return {_qualified(rewriter, k, obj): expressions.attribute(k, item, name) for k, item in value.items()}


def _capacities(rewriter: Rewriter, value: Mapping[str, Any], obj: Any) -> dict[str, Any]:
    return {_qualified(rewriter, key, obj): item for key, item in value.items()}


def _device_driver(rewriter: Rewriter, value: str, obj: Any) -> str:
    return rewriter.expressions.driver(value, rewriter.name)


def _mapping(rewriter: Rewriter, value: Mapping[str, Any], obj: Any) -> dict[str, Any]:
    """What is not typed: the names in it, and no messages."""
    return {key: _untyped(rewriter, key, item) for key, item in value.items() if key != "message"}


def _untyped(rewriter: Rewriter, key: str, value: Any) -> Any:
    if isinstance(value, str):
        return rewriter.name(value) if key.lower().endswith("name") else value
    if isinstance(value, Mapping):
        return _mapping(rewriter, value, None)
    return [_untyped(rewriter, key, item) for item in value] if isinstance(value, list | tuple) else value


_META: dict[str, Handler] = {
    "name": _name,
    "namespace": _name,
    "uid": _name,
    "labels": _labels,
    "annotations": _annotations,
    "generate_name": _name,
}
_CLAIM_CLASS: dict[str, Handler] = {"storage_class_name": _name, "volume_attributes_class_name": _name}
_DEVICE_REQUEST: dict[str, Handler] = {"name": _request, "device_class_name": _name}

FIELDS: dict[type, dict[str, Handler]] = {
    api.OwnerReference: {"name": _name, "uid": _name},
    api.ObjectMeta: _META,
    api.PodMeta: {field: handler for field, handler in _META.items() if field != "annotations"},
    api.SelectorRequirement: {"values": _values},
    api.LabelSelector: {"match_labels": _labels},
    api.TopologySelectorRequirement: {"values": _values},
    api.TypedObjectReference: {"name": _name, "namespace": _name, "uid": _name},
    api.PodAffinityTerm: {"namespaces": _names},
    api.Toleration: {"value": _value},
    api.ContainerPort: {"host_ip": _address},
    api.ContainerResourceClaim: {"name": _name, "request": _request},
    api.ResourceRequirements: {"requests": _resources, "limits": _resources},
    api.Container: {"name": _name, "image": _image},
    api.PersistentVolumeClaimVolumeSource: {"claim_name": _name},
    api.GCEPersistentDiskVolumeSource: {"pd_name": _name},
    api.AWSElasticBlockStoreVolumeSource: {"volume_id": _disk},
    api.ISCSIVolumeSource: {"iqn": _name},
    api.RBDVolumeSource: {"monitors": _names, "image": _name, "pool": _name},
    api.AzureDiskVolumeSource: {"disk_uri": _name, "disk_name": _name},
    api.CinderVolumeSource: {"volume_id": _name},
    api.NamedVolumeSource: {"volume_path": _name, "volume_id": _name},
    api.ImageVolumeSource: {"reference": _image},
    api.Volume: {"name": _name},
    api.PodResourceClaim: {"name": _name, "resource_claim_name": _name, "resource_claim_template_name": _name},
    api.PodSchedulingGroup: {"pod_group_name": _name},
    api.PodSpec: {
        "node_name": _name,
        "node_selector": _labels,
        "priority_class_name": _name,
        "overhead": _resources,
    },
    api.Condition: {"message": _nothing},
    api.ContainerStatus: {"name": _name, "allocated_resources": _resources},
    api.PodResourceClaimStatus: {"name": _name, "resource_claim_name": _name},
    api.ContainerExtendedResourceRequest: {
        "container_name": _name,
        "resource_name": _resource,
        "request_name": _request,
    },
    api.PodExtendedResourceClaimStatus: {"resource_claim_name": _name},
    api.NodeAllocatableResourceClaimStatus: {"resource_claim_name": _name, "resources": _resources},
    api.PodStatus: {"nominated_node_name": _name, "allocated_resources": _resources},
    api.Taint: {"value": _value},
    api.ContainerImage: {"names": _images},
    api.NodeSpec: {"provider_id": _name},
    api.NodeStatus: {"allocatable": _resources, "capacity": _resources},
    api.ServiceSpec: {"selector": _labels},
    api.ReplicationControllerSpec: {"selector": _labels},
    api.PodDisruptionBudgetStatus: {"disrupted_pods": _keys},
    api.PriorityClass: {"description": _nothing},
    api.RuntimeClassOverhead: {"pod_fixed": _resources},
    api.RuntimeClassScheduling: {"node_selector": _labels},
    api.PersistentVolumeClaimSpec: {"volume_name": _name, **_CLAIM_CLASS},
    api.CSIPersistentVolumeSource: {"driver": _driver, "volume_handle": _name},
    api.PersistentVolumeSpec: _CLAIM_CLASS,
    api.StorageClass: {"provisioner": _driver},
    api.CSINodeDriver: {"name": _driver, "node_id": _name},
    api.CSIDriver: {"metadata": _metadata_of_driver},
    api.CSIStorageCapacity: {"storage_class_name": _name},
    api.VolumeAttachmentSource: {"persistent_volume_name": _name},
    api.VolumeAttachmentSpec: {"attacher": _driver, "node_name": _name},
    api.CELDeviceSelector: {"expression": _expression},
    api.DeviceToleration: {"value": _value},
    api.CapacityRequirements: {"requests": _capacities},
    api.ExactDeviceRequest: {"device_class_name": _name},
    api.DeviceSubRequest: _DEVICE_REQUEST,
    api.DeviceRequest: _DEVICE_REQUEST,
    api.DeviceConstraint: {
        "requests": _requests,
        "match_attribute": _qualified,
        "distinct_attribute": _qualified,
    },
    api.DeviceRequestAllocationResult: {
        "request": _request,
        "driver": _device_driver,
        "pool": _name,
        "device": _name,
        "share_id": _name,
        "consumed_capacity": _capacities,
    },
    api.ResourceClaimConsumerReference: {"name": _name, "uid": _name},
    api.AllocatedDeviceStatus: {"driver": _device_driver, "pool": _name, "device": _name, "share_id": _name},
    api.CounterSet: {"name": _name},
    api.DeviceCounterConsumption: {"counter_set": _name},
    api.DeviceTaint: {"value": _value},
    api.NodeAllocatableResourceMapping: {"capacity_key": _qualified},
    api.Device: {
        "name": _name,
        "attributes": _attributes,
        "capacity": _capacities,
        "node_name": _name,
    },
    api.ResourcePool: {"name": _name},
    api.ResourceSliceSpec: {"driver": _device_driver, "node_name": _name},
    api.DeviceTaintSelector: {"driver": _device_driver, "pool": _name, "device": _name},
    api.PodGroup: {"spec": _mapping, "status": _mapping},
}
"""Struct -> its fields that are put under pseudonyms. The texts in other fields stay: KEPT says which those are."""

KEPT: dict[type, str] = {
    api.OwnerReference: "kind api_version",
    api.ObjectMeta: "creation_timestamp deletion_timestamp",
    api.PodMeta: "creation_timestamp deletion_timestamp",
    api.SelectorRequirement: "key operator",
    api.TopologySelectorRequirement: "key",
    api.TypedObjectReference: "api_group kind",
    api.PodAffinityTerm: "topology_key match_label_keys mismatch_label_keys",
    api.Toleration: "key operator effect",
    api.TopologySpreadConstraint: (
        "topology_key when_unsatisfiable node_affinity_policy node_taints_policy match_label_keys"
    ),
    api.ContainerPort: "protocol",
    api.ContainerRestartRule: "action",
    api.Container: "restart_policy",
    api.AzureDiskVolumeSource: "kind",
    api.PodSchedulingGate: "name",
    api.PodSpec: "scheduler_name preemption_policy",
    api.Condition: "type status reason last_transition_time",
    api.PodStatus: "phase start_time",
    api.Taint: "key effect",
    api.NodeStatus: "declared_features",
    api.PodDisruptionBudgetSpec: "min_available max_unavailable unhealthy_pod_eviction_policy",
    api.PriorityClass: "preemption_policy",
    api.PersistentVolumeClaimSpec: "access_modes volume_mode",
    api.PhaseStatus: "phase",
    api.PersistentVolumeSpec: "capacity access_modes volume_mode",
    api.VolumeResourceRequirements: "requests",
    api.StorageClass: "volume_binding_mode",
    api.CSINodeDriver: "topology_keys",
    api.CSIStorageCapacity: "capacity maximum_volume_size",
    api.DeviceToleration: "key operator effect",
    api.ExactDeviceRequest: "allocation_mode",
    api.DeviceSubRequest: "allocation_mode",
    api.DeviceRequest: "allocation_mode",
    api.DeviceRequestAllocationResult: "binding_conditions binding_failure_conditions",
    api.AllocationResult: "allocation_timestamp",
    api.ResourceClaimConsumerReference: "api_group resource",
    api.DeviceClassSpec: "extended_resource_name",
    api.DeviceAttribute: "string version strings versions",
    api.CapacityRequestPolicyRange: "min max step",
    api.CapacityRequestPolicy: "default valid_values",
    api.DeviceCapacity: "value",
    api.Counter: "value",
    api.DeviceTaint: "key effect time_added",
    api.NodeAllocatableResourceMapping: "allocation_multiplier",
    api.Device: "binding_conditions binding_failure_conditions node_allocatable_resource_mappings",
    api.CounterSet: "counters",
    api.DeviceCounterConsumption: "counters",
}
"""Struct -> its fields with texts that stay: keys, kinds, conditions, modes, quantities, times."""
