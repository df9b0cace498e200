"""Which fields of which objects hold names, keys, label values or images, and how each is put under a pseudonym."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from kschedctl.api import machines
from kschedctl.api import objects as api
from kschedctl.api.json_values import JsonObject
from kschedctl.sources.anonymize.admission import ADMISSION_FIELDS
from kschedctl.sources.anonymize.annotations import kept_annotations, list_of_names, setting
from kschedctl.sources.anonymize.elsewhere import ELSEWHERE_FIELDS
from kschedctl.sources.anonymize.expressions import is_known_driver
from kschedctl.sources.anonymize.karpenter import KARPENTER_FIELDS
from kschedctl.sources.anonymize.keys import is_well_known_domain
from kschedctl.sources.anonymize.observed import OBSERVED_FIELDS, container_reason, reason_under_pseudonym
from kschedctl.sources.anonymize.quotas import counted
from kschedctl.sources.anonymize.rewriter import Handler, Rewriter

LATEST = "latest"
"""The tag that an image without one has."""
ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})
NODE_CONDITIONS = frozenset({"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})
"""The conditions of a node that Kubernetes itself sets; nothing reads others."""
_MADE_REQUEST = re.compile(r"container-\d+-request-\d+")
_EBS = re.compile(r"(?:aws://([^/]*)/)?(.*/)?vol-([^/]*)")


def _name(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.own_name(value)


def _names(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    return tuple(map(rewriter.name, value))


def _keys(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    return {rewriter.name(key): item for key, item in value.items()}


def _key(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.key(value)


def _key_list(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    return tuple(map(rewriter.key, value))


def _labels(rewriter: Rewriter, value: Mapping[str, str], obj: object) -> dict[str, str]:
    return {rewriter.key(key): rewriter.label(key, item) for key, item in value.items()}


def _value(rewriter: Rewriter, value: str, obj: api.Taint | api.Toleration) -> str:
    return rewriter.label(obj.key, value)


def _values(
    rewriter: Rewriter, value: tuple[str, ...], obj: api.SelectorRequirement | api.TopologySelectorRequirement
) -> tuple[str, ...]:
    return tuple(rewriter.label(obj.key, item) for item in value)


def _nothing(rewriter: Rewriter, value: str, obj: object) -> str:
    return ""


def _image(rewriter: Rewriter, value: str, obj: object) -> str:
    """Repository and tag each by itself, so that a missing tag can still be filled in."""
    repository, colon, tag = value.rpartition(":")
    if not colon or "/" in tag:
        return rewriter.name(value)
    return f"{rewriter.name(repository)}:{tag if tag == LATEST else rewriter.name(tag)}"


def _images(rewriter: Rewriter, value: tuple[api.ContainerImage, ...], obj: object) -> tuple[api.ContainerImage, ...]:
    """The images on a node under pseudonyms; most are on many nodes."""
    return tuple([rewriter.once(image) for image in value])


def _image_names(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    return tuple(_image(rewriter, name, obj) for name in value)


def _driver(rewriter: Rewriter, value: str, obj: object) -> str:
    return value if is_known_driver(value) else rewriter.name(value)


def _metadata_of_driver(rewriter: Rewriter, value: api.ObjectMeta, obj: object) -> api.ObjectMeta:
    made: api.ObjectMeta = rewriter.struct(value)
    return replace(made, name=_driver(rewriter, value.name, obj))


def _disk(rewriter: Rewriter, value: str, obj: object) -> str:
    """``vol-1`` and ``aws://zone/vol-1`` are one volume in two ways of writing."""
    match = _EBS.fullmatch(value)
    if match is None:
        return f"aws://{rewriter.name(value)}" if value.startswith("aws://") else rewriter.name(value)
    zone, path, volume = match.groups()
    before = "" if zone is None else f"aws://{rewriter.name(zone)}/"
    return f"{before}{f'{rewriter.name(path)}/' if path else ''}vol-{rewriter.name(volume)}"


def _address(rewriter: Rewriter, value: str, obj: object) -> str:
    return value if value in ANY_ADDRESS else rewriter.name(value)


def _resources(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    return {rewriter.resource(key): item for key, item in value.items()}


def _resource(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.resource(value)


def _request(rewriter: Rewriter, value: str, obj: object) -> str:
    """``request`` or ``request/alternative``; those that the scheduler makes have names with a meaning."""
    if _MADE_REQUEST.fullmatch(value):
        return value
    return "/".join(map(rewriter.name, value.split("/")))


def _requests(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    return tuple(_request(rewriter, item, obj) for item in value)


def _qualified(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.expressions.qualified(value, rewriter.name)


def _expression(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.expressions.expression(value, rewriter.name)


def _attributes(rewriter: Rewriter, value: Mapping[str, api.DeviceAttribute], obj: object) -> dict[str, object]:
    expressions, name = rewriter.expressions, rewriter.name
    return {_qualified(rewriter, k, obj): expressions.attribute(k, item, name) for k, item in value.items()}


def _capacities(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    return {_qualified(rewriter, key, obj): item for key, item in value.items()}


def _device_driver(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.expressions.driver(value, rewriter.name)


def _mapped(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    """Resources under pseudonyms, with how much of them a device is worth."""
    return {rewriter.resource(key): rewriter.struct(item) for key, item in value.items()}


REASONS = frozenset(
    ["Deferred", "Infeasible", "PreemptionByScheduler", "SchedulingGated", "TooManyReplicas", "Unschedulable"]
)
"""The reasons of a pod's conditions that everybody has and that something reads, or a person would miss."""


def _reason(rewriter: Rewriter, value: str, obj: object) -> str:
    """Whoever writes a condition chooses the words: those that are not Kubernetes' may tell anything."""
    return value if value in REASONS else ""


def _node_conditions(rewriter: Rewriter, value: tuple[api.Condition, ...], obj: object) -> tuple[api.Condition, ...]:
    conditions = (condition for condition in value if condition.type in NODE_CONDITIONS)
    return tuple(replace(condition, reason="", message="") for condition in conditions)


def _device_conditions(rewriter: Rewriter, value: tuple[api.Condition, ...], obj: object) -> tuple[api.Condition, ...]:
    return tuple(replace(c, type=rewriter.name(c.type), reason="", message="") for c in value)


def _kind(rewriter: Rewriter, value: str, obj: object) -> str:
    """The kind, or plural, of an object, unless it is one of Kubernetes' own."""
    return value if _is_own_group(_group_of(obj)) else rewriter.name(value)


def _api_group(rewriter: Rewriter, value: str, obj: object) -> str:
    """``group`` or ``group/version``."""
    group, slash, version = value.partition("/")
    return value if _is_own_group(_group_of(obj)) else f"{rewriter.domain(group)}{slash}{version}"


def _group_of(obj: Any) -> str:
    if isinstance(obj, api.OwnerReference):
        group, slash, _ = obj.api_version.partition("/")
        return group if slash else ""
    return obj.api_group or ""


def _is_own_group(group: str) -> bool:
    return "." not in group or is_well_known_domain(group)


def _match_fields(rewriter: Rewriter, value: tuple[api.SelectorRequirement, ...], obj: object) -> object:
    """``metadata.name`` of nodes, all that there is."""
    return tuple(replace(requirement, values=_names(rewriter, requirement.values or (), obj)) for requirement in value)


def _document(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    """What is not typed: every text in it, and no conditions."""
    return {key: _untyped(rewriter, item) for key, item in value.items() if key != "conditions"}


def _untyped(rewriter: Rewriter, value: object) -> object:
    match value:
        case str():
            return rewriter.name(value)
        case Mapping():
            return {key: _untyped(rewriter, item) for key, item in value.items()}
        case list() | tuple():
            return [_untyped(rewriter, item) for item in value]
    return value


def _named(*fields: str) -> dict[str, Handler]:
    """Fields that hold names."""
    return dict.fromkeys(fields, _name)


_META: dict[str, Handler] = {
    **_named("name", "namespace", "uid", "generate_name"),
    "labels": _labels,
    "annotations": kept_annotations,
}
_CLAIM_CLASS = _named("storage_class_name", "volume_attributes_class_name")
_CLAIM_REFERENCE = _named("name", "resource_claim_name", "resource_claim_template_name")
_DEVICE_REQUEST: dict[str, Handler] = {"name": _request, "device_class_name": _name}

OF_EVICTIONS = ("daemon_set_pod", "do_not_disrupt", "deletion_cost", "config_source", "evict", "prefers_no_eviction")

FIELDS: dict[type, dict[str, Handler]] = {
    api.OwnerReference: {"name": _name, "uid": _name, "kind": _kind, "api_version": _api_group},
    api.ObjectMeta: _META,
    api.PodDisruptionBudgetMeta: _META,
    api.PodMeta: {field: handler for field, handler in _META.items() if field != "annotations"},
    api.PodAnnotations: {
        **_named("group_name", "task_spec", "pod_group_name", "mirror"),
        "safe_to_evict": setting,
        "safe_local_volumes": list_of_names,
        "scale_up_delay": setting,
        **dict.fromkeys(OF_EVICTIONS, setting),
    },
    api.SelectorRequirement: {"key": _key, "values": _values},
    api.ResourceQuotaSpec: {"hard": counted},
    api.ResourceQuotaStatus: {"hard": counted, "used": counted},
    api.LimitRangeItem: dict.fromkeys(
        ("max", "min", "default", "default_request", "max_limit_request_ratio"), _resources
    ),
    machines.NodeReference: {"name": _name},
    machines.NodeLabels: {"labels": _labels},
    machines.MachineTemplateOwnerSpec: {"provider_id_list": _names},
    api.ConfigMap: {"data": lambda rewriter, value, obj: {}},
    api.NodeSelectorTerm: {"match_fields": _match_fields},
    api.LabelSelector: {"match_labels": _labels},
    api.TopologySelectorRequirement: {"key": _key, "values": _values},
    api.TypedObjectReference: {**_named("name", "namespace", "uid"), "kind": _kind, "api_group": _api_group},
    api.PodAffinityTerm: {
        "namespaces": _names,
        "topology_key": _key,
        "match_label_keys": _key_list,
        "mismatch_label_keys": _key_list,
    },
    api.Toleration: {"key": _key, "value": _value},
    api.TopologySpreadConstraint: {"topology_key": _key, "match_label_keys": _key_list},
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
    api.CSIVolumeSource: {"driver": _driver},
    api.HostPathVolumeSource: {"path": _name},
    api.Volume: {"name": _name},
    api.PodResourceClaim: _CLAIM_REFERENCE,
    api.PodSchedulingGate: {"name": _key},
    api.PodSchedulingGroup: {"pod_group_name": _name},
    api.PodSpec: {
        "node_name": _name,
        "node_selector": _labels,
        "priority_class_name": _name,
        "runtime_class_name": _name,
        "scheduler_name": _name,
        "overhead": _resources,
    },
    api.Condition: {"reason": _reason, "message": _nothing},
    api.ContainerStatus: {"name": _name, "allocated_resources": _resources},
    api.ContainerStateWaiting: {"reason": container_reason},
    api.ContainerStateTerminated: {"reason": container_reason},
    api.PodResourceClaimStatus: _named("name", "resource_claim_name"),
    api.ContainerExtendedResourceRequest: {
        "container_name": _name,
        "resource_name": _resource,
        "request_name": _request,
    },
    api.PodExtendedResourceClaimStatus: {"resource_claim_name": _name},
    api.NodeAllocatableResourceClaimStatus: {"resource_claim_name": _name, "resources": _resources},
    api.PodStatus: {
        "nominated_node_name": _name,
        "reason": reason_under_pseudonym,
        "message": _nothing,
        "allocated_resources": _resources,
    },
    api.Taint: {"key": _key, "value": _value},
    api.ContainerImage: {"names": _image_names},
    api.NodeSpec: {"provider_id": _name},
    api.NodeStatus: {
        "images": _images,
        "allocatable": _resources,
        "capacity": _resources,
        "conditions": _node_conditions,
    },
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
    api.CSINodeDriver: {"name": _driver, "node_id": _name, "topology_keys": _key_list},
    api.CSIDriver: {"metadata": _metadata_of_driver},
    api.CSIStorageCapacity: {"storage_class_name": _name},
    api.VolumeAttachmentSource: {"persistent_volume_name": _name},
    api.VolumeAttachmentSpec: {"attacher": _driver, "node_name": _name},
    api.CELDeviceSelector: {"expression": _expression},
    api.DeviceToleration: {"key": _key, "value": _value},
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
        "binding_conditions": _names,
        "binding_failure_conditions": _names,
    },
    api.ResourceClaimConsumerReference: {**_named("name", "uid"), "resource": _kind, "api_group": _api_group},
    api.AllocatedDeviceStatus: {
        "driver": _device_driver,
        "pool": _name,
        "device": _name,
        "share_id": _name,
        "conditions": _device_conditions,
    },
    api.DeviceClassSpec: {"extended_resource_name": _resource},
    api.CounterSet: {"name": _name, "counters": _keys},
    api.DeviceCounterConsumption: {"counter_set": _name, "counters": _keys},
    api.DeviceTaint: {"key": _key, "value": _value},
    api.NodeAllocatableResourceMapping: {"capacity_key": _qualified},
    api.Device: {
        "name": _name,
        "attributes": _attributes,
        "capacity": _capacities,
        "node_name": _name,
        "binding_conditions": _names,
        "binding_failure_conditions": _names,
        "node_allocatable_resource_mappings": _mapped,
        "basic": _document,  # none is left once a slice is read
    },
    api.ResourcePool: {"name": _name},
    api.ResourceSliceSpec: {"driver": _device_driver, "node_name": _name},
    api.DeviceTaintSelector: {"device_class_name": _name, "driver": _device_driver, "pool": _name, "device": _name},
    api.TopologyConstraint: {"key": _key},
    api.PodGroupResourceClaim: _CLAIM_REFERENCE,
    api.PodGroupResourceClaimStatus: _named("name", "resource_claim_name"),
    api.WorkloadPodGroupTemplateReference: _named("workload_name", "pod_group_template_name"),
    api.WorkloadReference: _named("workload_name", "template_name"),
    api.PodGroupSpec: _named("parent_composite_pod_group_name", "priority_class_name"),
    api.CompositePodGroupSpec: _named("parent_composite_pod_group_name", "priority_class_name"),
    api.CoschedulingPodGroupSpec: {"min_resources": _resources},
    api.VolcanoPodGroupSpec: {"min_task_member": _keys, "min_resources": _resources, "queue": _name},
    api.ZoneResource: {"name": _resource},
    api.ElasticQuotaSpec: {"min": _resources, "max": _resources},
    **OBSERVED_FIELDS,
    **KARPENTER_FIELDS,
    **ADMISSION_FIELDS,
    **ELSEWHERE_FIELDS,
}
"""Struct -> its fields that are put under pseudonyms. The texts in other fields stay: kept_fields.py has them."""
