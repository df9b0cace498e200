"""Handlers for the fields of Kubernetes' objects that hold names, keys, label values or images."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from kschedctl.api import machines
from kschedctl.api import objects as api
from kschedctl.api.json_values import JsonObject
from kschedctl.sources.anonymize.admission import ADMISSION_FIELDS, replace_quota_names
from kschedctl.sources.anonymize.custom_resources import ELSEWHERE_FIELDS, KARPENTER_FIELDS
from kschedctl.sources.anonymize.expressions import is_known_driver
from kschedctl.sources.anonymize.kept_texts import is_well_known_domain
from kschedctl.sources.anonymize.observed import (
    OBSERVED_FIELDS,
    drop_unknown_container_reason,
    filter_annotations,
    replace_name_list,
    replace_reason,
    replace_setting,
)
from kschedctl.sources.anonymize.rewriter import Handler, Rewriter

LATEST = "latest"
"""The default tag of an image."""
ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})
NODE_CONDITIONS = frozenset({"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})
"""Node conditions that Kubernetes itself sets. Nothing reads other conditions."""
_MADE_REQUEST = re.compile(r"container-\d+-request-\d+")
_EBS = re.compile(r"(?:aws://([^/]*)/)?(.*/)?vol-([^/]*)")


def _replace_name(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the name of an object."""
    return rewriter.object_name(value)


def _replace_names(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    return tuple(map(rewriter.name, value))


def _replace_map_keys(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    return {rewriter.name(key): item for key, item in value.items()}


def _replace_key(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.key(value)


def _replace_keys(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    return tuple(map(rewriter.key, value))


def _replace_labels(rewriter: Rewriter, value: Mapping[str, str], obj: object) -> dict[str, str]:
    """Replace the keys and values of labels."""
    return {rewriter.key(key): rewriter.label(key, item) for key, item in value.items()}


def _replace_value(rewriter: Rewriter, value: str, obj: api.Taint | api.Toleration) -> str:
    """Replace the value of a taint or toleration, according to its key."""
    return rewriter.label(obj.key, value)


def _replace_values(
    rewriter: Rewriter, value: tuple[str, ...], obj: api.SelectorRequirement | api.TopologySelectorRequirement
) -> tuple[str, ...]:
    """Replace the values of a requirement, according to its key."""
    return tuple(rewriter.label(obj.key, item) for item in value)


def _drop_text(rewriter: Rewriter, value: str, obj: object) -> str:
    """Drop a text."""
    return ""


def _replace_image(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace repository and tag separately, so that a missing tag can still be filled in."""
    repository, colon, tag = value.rpartition(":")
    if not colon or "/" in tag:
        return rewriter.name(value)
    return f"{rewriter.name(repository)}:{tag if tag == LATEST else rewriter.name(tag)}"


def _rewrite_images(
    rewriter: Rewriter, value: tuple[api.ContainerImage, ...], obj: object
) -> tuple[api.ContainerImage, ...]:
    """Rewrite a node's images, each distinct image only once."""
    return tuple([rewriter.rewrite_once(image) for image in value])


def _replace_image_names(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    return tuple(_replace_image(rewriter, name, obj) for name in value)


def _replace_driver(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the name of a volume driver unless it is well known."""
    return value if is_known_driver(value) else rewriter.name(value)


def _rewrite_driver_metadata(rewriter: Rewriter, value: api.ObjectMeta, obj: object) -> api.ObjectMeta:
    """Rewrite the metadata of a CSIDriver, whose name is that of a driver."""
    rewritten: api.ObjectMeta = rewriter.rewrite_struct(value)
    return replace(rewritten, name=_replace_driver(rewriter, value.name, obj))


def _replace_disk(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the parts of an EBS volume's id, so that ``vol-1`` and ``aws://zone/vol-1`` remain the same volume."""
    match = _EBS.fullmatch(value)
    if match is None:
        return f"aws://{rewriter.name(value)}" if value.startswith("aws://") else rewriter.name(value)
    zone, path, volume = match.groups()
    zone_prefix = "" if zone is None else f"aws://{rewriter.name(zone)}/"
    return f"{zone_prefix}{f'{rewriter.name(path)}/' if path else ''}vol-{rewriter.name(volume)}"


def _replace_address(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace an IP address unless it stands for all addresses."""
    return value if value in ANY_ADDRESS else rewriter.name(value)


def _replace_resources(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    return {rewriter.resource(key): item for key, item in value.items()}


def _replace_resource(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.resource(value)


def _replace_request(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the parts of ``request`` or ``request/alternative``, except names that the scheduler generates."""
    if _MADE_REQUEST.fullmatch(value):
        return value
    return "/".join(map(rewriter.name, value.split("/")))


def _replace_requests(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    return tuple(_replace_request(rewriter, item, obj) for item in value)


def _replace_qualified_name(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the domain of an attribute if it is a driver's."""
    return rewriter.expressions.replace_qualified_name(value, rewriter.name)


def _rewrite_expression(rewriter: Rewriter, value: str, obj: object) -> str:
    """Rewrite a CEL expression with pseudonyms."""
    return rewriter.expressions.rewrite_expression(value, rewriter.name)


def _replace_attributes(rewriter: Rewriter, value: Mapping[str, api.DeviceAttribute], obj: object) -> dict[str, object]:
    """Replace the names of device attributes, and their texts if no expression computes with them."""
    expressions, name = rewriter.expressions, rewriter.name
    return {
        _replace_qualified_name(rewriter, k, obj): expressions.replace_attribute(k, item, name)
        for k, item in value.items()
    }


def _replace_capacities(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    return {_replace_qualified_name(rewriter, key, obj): item for key, item in value.items()}


def _replace_device_driver(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.expressions.replace_driver(value, rewriter.name)


def _replace_mappings(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    """Replace resources in a device's mappings to allocatable resources of the node."""
    return {rewriter.resource(key): rewriter.rewrite_struct(item) for key, item in value.items()}


REASONS = frozenset(
    ["Deferred", "Infeasible", "PreemptionByScheduler", "SchedulingGated", "TooManyReplicas", "Unschedulable"]
)
"""Well-known reasons of a pod's conditions that something reads or that people would miss."""


def _drop_unknown_reason(rewriter: Rewriter, value: str, obj: object) -> str:
    """Drop the reason of a condition unless it is well known, because others may contain anything."""
    return value if value in REASONS else ""


def _filter_node_conditions(
    rewriter: Rewriter, value: tuple[api.Condition, ...], obj: object
) -> tuple[api.Condition, ...]:
    """Keep the node conditions that Kubernetes sets, without reason and message."""
    conditions = (condition for condition in value if condition.type in NODE_CONDITIONS)
    return tuple(replace(condition, reason="", message="") for condition in conditions)


def _replace_device_conditions(
    rewriter: Rewriter, value: tuple[api.Condition, ...], obj: object
) -> tuple[api.Condition, ...]:
    """Replace the types of device conditions, and drop reasons and messages."""
    return tuple(replace(c, type=rewriter.name(c.type), reason="", message="") for c in value)


def _replace_kind(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the kind or plural name of an object unless its API group is Kubernetes' own."""
    return value if _is_kubernetes_group(_get_api_group(obj)) else rewriter.name(value)


def _replace_api_group(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the group in ``group`` or ``group/version`` unless it is Kubernetes' own."""
    group, slash, version = value.partition("/")
    return value if _is_kubernetes_group(_get_api_group(obj)) else f"{rewriter.domain(group)}{slash}{version}"


def _get_api_group(obj: Any) -> str:
    """Return the API group that a reference names."""
    if isinstance(obj, api.OwnerReference):
        group, slash, _ = obj.api_version.partition("/")
        return group if slash else ""
    return obj.api_group or ""


def _is_kubernetes_group(group: str) -> bool:
    """Return whether the API group is Kubernetes' own or well known."""
    return "." not in group or is_well_known_domain(group)


def _replace_match_fields(rewriter: Rewriter, value: tuple[api.SelectorRequirement, ...], obj: object) -> object:
    """Replace the node names in matchFields, which can only refer to ``metadata.name``."""
    return tuple(
        replace(requirement, values=_replace_names(rewriter, requirement.values or (), obj)) for requirement in value
    )


def _replace_texts(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    """Replace every text in an untyped document, and drop its conditions."""
    return {key: _replace_nested_texts(rewriter, item) for key, item in value.items() if key != "conditions"}


def _replace_nested_texts(rewriter: Rewriter, value: object) -> object:
    """Replace every text in an untyped value."""
    match value:
        case str():
            return rewriter.name(value)
        case Mapping():
            return {key: _replace_nested_texts(rewriter, item) for key, item in value.items()}
        case list() | tuple():
            return [_replace_nested_texts(rewriter, item) for item in value]
    return value


def _map_name_fields(*fields: str) -> dict[str, Handler]:
    """Map fields that hold names to their handler."""
    return dict.fromkeys(fields, _replace_name)


_META: dict[str, Handler] = {
    **_map_name_fields("name", "namespace", "uid", "generate_name"),
    "labels": _replace_labels,
    "annotations": filter_annotations,
}
_CLAIM_CLASS = _map_name_fields("storage_class_name", "volume_attributes_class_name")
_CLAIM_REFERENCE = _map_name_fields("name", "resource_claim_name", "resource_claim_template_name")
_DEVICE_REQUEST: dict[str, Handler] = {"name": _replace_request, "device_class_name": _replace_name}

OF_EVICTIONS = ("daemon_set_pod", "do_not_disrupt", "deletion_cost", "config_source", "evict", "prefers_no_eviction")

FIELDS: dict[type, dict[str, Handler]] = {
    api.OwnerReference: {
        "name": _replace_name,
        "uid": _replace_name,
        "kind": _replace_kind,
        "api_version": _replace_api_group,
    },
    api.ObjectMeta: _META,
    api.PodDisruptionBudgetMeta: _META,
    api.PodMeta: {field: handler for field, handler in _META.items() if field != "annotations"},
    api.PodAnnotations: {
        **_map_name_fields("group_name", "task_spec", "pod_group_name", "podset_group_name", "mirror"),
        **dict.fromkeys(("required_topology", "preferred_topology", "slice_topology"), _replace_key),
        "slice_constraints": lambda rewriter, value, obj: None,
        "safe_to_evict": replace_setting,
        "safe_local_volumes": replace_name_list,
        "scale_up_delay": replace_setting,
        **dict.fromkeys(OF_EVICTIONS, replace_setting),
    },
    api.SelectorRequirement: {"key": _replace_key, "values": _replace_values},
    api.ResourceQuotaSpec: {"hard": replace_quota_names},
    api.ResourceQuotaStatus: {"hard": replace_quota_names, "used": replace_quota_names},
    api.LimitRangeItem: dict.fromkeys(
        ("max", "min", "default", "default_request", "max_limit_request_ratio"), _replace_resources
    ),
    machines.NodeReference: {"name": _replace_name},
    machines.NodeLabels: {"labels": _replace_labels},
    machines.MachineTemplateOwnerSpec: {"provider_id_list": _replace_names},
    api.ConfigMap: {"data": lambda rewriter, value, obj: {}},
    api.NodeSelectorTerm: {"match_fields": _replace_match_fields},
    api.LabelSelector: {"match_labels": _replace_labels},
    api.TopologySelectorRequirement: {"key": _replace_key, "values": _replace_values},
    api.TypedObjectReference: {
        **_map_name_fields("name", "namespace", "uid"),
        "kind": _replace_kind,
        "api_group": _replace_api_group,
    },
    api.PodAffinityTerm: {
        "namespaces": _replace_names,
        "topology_key": _replace_key,
        "match_label_keys": _replace_keys,
        "mismatch_label_keys": _replace_keys,
    },
    api.Toleration: {"key": _replace_key, "value": _replace_value},
    api.TopologySpreadConstraint: {"topology_key": _replace_key, "match_label_keys": _replace_keys},
    api.ContainerPort: {"host_ip": _replace_address},
    api.ContainerResourceClaim: {"name": _replace_name, "request": _replace_request},
    api.ResourceRequirements: {"requests": _replace_resources, "limits": _replace_resources},
    api.Container: {"name": _replace_name, "image": _replace_image},
    api.PersistentVolumeClaimVolumeSource: {"claim_name": _replace_name},
    api.GCEPersistentDiskVolumeSource: {"pd_name": _replace_name},
    api.AWSElasticBlockStoreVolumeSource: {"volume_id": _replace_disk},
    api.ISCSIVolumeSource: {"iqn": _replace_name},
    api.RBDVolumeSource: {"monitors": _replace_names, "image": _replace_name, "pool": _replace_name},
    api.AzureDiskVolumeSource: {"disk_uri": _replace_name, "disk_name": _replace_name},
    api.CinderVolumeSource: {"volume_id": _replace_name},
    api.NamedVolumeSource: {"volume_path": _replace_name, "volume_id": _replace_name},
    api.ImageVolumeSource: {"reference": _replace_image},
    api.CSIVolumeSource: {"driver": _replace_driver},
    api.HostPathVolumeSource: {"path": _replace_name},
    api.Volume: {"name": _replace_name},
    api.PodResourceClaim: _CLAIM_REFERENCE,
    api.PodSchedulingGate: {"name": _replace_key},
    api.PodSchedulingGroup: {"pod_group_name": _replace_name},
    api.PodSpec: {
        "node_name": _replace_name,
        "node_selector": _replace_labels,
        "priority_class_name": _replace_name,
        "runtime_class_name": _replace_name,
        "scheduler_name": _replace_name,
        "overhead": _replace_resources,
    },
    api.Condition: {"reason": _drop_unknown_reason, "message": _drop_text},
    api.ContainerStatus: {"name": _replace_name, "allocated_resources": _replace_resources},
    api.ContainerStateWaiting: {"reason": drop_unknown_container_reason},
    api.ContainerStateTerminated: {"reason": drop_unknown_container_reason},
    api.PodResourceClaimStatus: _map_name_fields("name", "resource_claim_name"),
    api.ContainerExtendedResourceRequest: {
        "container_name": _replace_name,
        "resource_name": _replace_resource,
        "request_name": _replace_request,
    },
    api.PodExtendedResourceClaimStatus: {"resource_claim_name": _replace_name},
    api.NodeAllocatableResourceClaimStatus: {"resource_claim_name": _replace_name, "resources": _replace_resources},
    api.PodStatus: {
        "nominated_node_name": _replace_name,
        "reason": replace_reason,
        "message": _drop_text,
        "allocated_resources": _replace_resources,
    },
    api.Taint: {"key": _replace_key, "value": _replace_value},
    api.ContainerImage: {"names": _replace_image_names},
    api.NodeSpec: {"provider_id": _replace_name},
    api.NodeStatus: {
        "images": _rewrite_images,
        "allocatable": _replace_resources,
        "capacity": _replace_resources,
        "conditions": _filter_node_conditions,
    },
    api.ServiceSpec: {"selector": _replace_labels},
    api.ReplicationControllerSpec: {"selector": _replace_labels},
    api.PodDisruptionBudgetStatus: {"disrupted_pods": _replace_map_keys},
    api.PriorityClass: {"description": _drop_text},
    api.RuntimeClassOverhead: {"pod_fixed": _replace_resources},
    api.RuntimeClassScheduling: {"node_selector": _replace_labels},
    api.PersistentVolumeClaimSpec: {"volume_name": _replace_name, **_CLAIM_CLASS},
    api.CSIPersistentVolumeSource: {"driver": _replace_driver, "volume_handle": _replace_name},
    api.PersistentVolumeSpec: _CLAIM_CLASS,
    api.StorageClass: {"provisioner": _replace_driver},
    api.CSINodeDriver: {"name": _replace_driver, "node_id": _replace_name, "topology_keys": _replace_keys},
    api.CSIDriver: {"metadata": _rewrite_driver_metadata},
    api.CSIStorageCapacity: {"storage_class_name": _replace_name},
    api.VolumeAttachmentSource: {"persistent_volume_name": _replace_name},
    api.VolumeAttachmentSpec: {"attacher": _replace_driver, "node_name": _replace_name},
    api.CELDeviceSelector: {"expression": _rewrite_expression},
    api.DeviceToleration: {"key": _replace_key, "value": _replace_value},
    api.CapacityRequirements: {"requests": _replace_capacities},
    api.ExactDeviceRequest: {"device_class_name": _replace_name},
    api.DeviceSubRequest: _DEVICE_REQUEST,
    api.DeviceRequest: _DEVICE_REQUEST,
    api.DeviceConstraint: {
        "requests": _replace_requests,
        "match_attribute": _replace_qualified_name,
        "distinct_attribute": _replace_qualified_name,
    },
    api.DeviceRequestAllocationResult: {
        "request": _replace_request,
        "driver": _replace_device_driver,
        "pool": _replace_name,
        "device": _replace_name,
        "share_id": _replace_name,
        "consumed_capacity": _replace_capacities,
        "binding_conditions": _replace_names,
        "binding_failure_conditions": _replace_names,
    },
    api.ResourceClaimConsumerReference: {
        **_map_name_fields("name", "uid"),
        "resource": _replace_kind,
        "api_group": _replace_api_group,
    },
    api.AllocatedDeviceStatus: {
        "driver": _replace_device_driver,
        "pool": _replace_name,
        "device": _replace_name,
        "share_id": _replace_name,
        "conditions": _replace_device_conditions,
    },
    api.DeviceClassSpec: {"extended_resource_name": _replace_resource},
    api.CounterSet: {"name": _replace_name, "counters": _replace_map_keys},
    api.DeviceCounterConsumption: {"counter_set": _replace_name, "counters": _replace_map_keys},
    api.DeviceTaint: {"key": _replace_key, "value": _replace_value},
    api.NodeAllocatableResourceMapping: {"capacity_key": _replace_qualified_name},
    api.Device: {
        "name": _replace_name,
        "attributes": _replace_attributes,
        "capacity": _replace_capacities,
        "node_name": _replace_name,
        "binding_conditions": _replace_names,
        "binding_failure_conditions": _replace_names,
        "node_allocatable_resource_mappings": _replace_mappings,
        "basic": _replace_texts,  # none is left once a slice is read
    },
    api.ResourcePool: {"name": _replace_name},
    api.ResourceSliceSpec: {"driver": _replace_device_driver, "node_name": _replace_name},
    api.DeviceTaintSelector: {
        "device_class_name": _replace_name,
        "driver": _replace_device_driver,
        "pool": _replace_name,
        "device": _replace_name,
    },
    api.TopologyConstraint: {"key": _replace_key},
    api.PodGroupResourceClaim: _CLAIM_REFERENCE,
    api.PodGroupResourceClaimStatus: _map_name_fields("name", "resource_claim_name"),
    api.WorkloadPodGroupTemplateReference: _map_name_fields("workload_name", "pod_group_template_name"),
    api.WorkloadReference: _map_name_fields("workload_name", "template_name"),
    api.PodGroupSpec: _map_name_fields("parent_composite_pod_group_name", "priority_class_name"),
    api.CompositePodGroupSpec: _map_name_fields("parent_composite_pod_group_name", "priority_class_name"),
    api.CoschedulingPodGroupSpec: {"min_resources": _replace_resources},
    api.VolcanoPodGroupSpec: {
        "min_task_member": _replace_map_keys,
        "min_resources": _replace_resources,
        "queue": _replace_name,
    },
    api.ZoneResource: {"name": _replace_resource},
    api.ElasticQuotaSpec: {"min": _replace_resources, "max": _replace_resources},
    **OBSERVED_FIELDS,
    **KARPENTER_FIELDS,
    **ADMISSION_FIELDS,
    **ELSEWHERE_FIELDS,
}
"""Struct -> its fields that are rewritten, with their handlers. kept_texts.py lists the texts that are kept."""
