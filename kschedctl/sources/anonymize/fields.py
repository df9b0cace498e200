"""Handlers for the fields of Kubernetes' objects that hold names, keys, label values or images."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from kschedctl.api import admission_hooks as hooks
from kschedctl.api import machines
from kschedctl.api import objects as api
from kschedctl.api.events import POD_CREATORS
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kinds import KINDS
from kschedctl.sources.anonymize.custom_resources import KARPENTER_FIELDS, QUEUE_AND_OPERATOR_FIELDS
from kschedctl.sources.anonymize.expressions import is_known_driver
from kschedctl.sources.anonymize.kept_texts import is_well_known_domain
from kschedctl.sources.anonymize.observed import (
    OBSERVED_FIELDS,
    anonymize_annotations,
    drop_unknown_container_reason,
    replace_kubelet_reason,
    replace_name_list,
    replace_unknown_setting,
)
from kschedctl.sources.anonymize.rewriter import (
    Handler,
    Rewriter,
    drop_text,
    replace_key,
    replace_keys,
    replace_labels,
    replace_names,
    replace_object_name,
    replace_requirement_values,
    replace_resource,
    replace_resources,
)

LATEST = "latest"
"""The default tag of an image."""
ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})
NODE_CONDITIONS = frozenset({"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})
"""Node conditions that Kubernetes itself sets. Nothing reads other conditions."""
_GENERATED_REQUEST = re.compile(r"container-\d+-request-\d+")
"""The names that the scheduler gives to device requests for extended resources."""
_EBS_VOLUME_ID = re.compile(r"(?:aws://([^/]*)/)?(.*/)?vol-([^/]*)")


def _replace_map_keys(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    """Replace the keys of a mapping, which are names, and keep its values."""
    return {rewriter.replace_name(key): item for key, item in value.items()}


def _replace_taint_value(rewriter: Rewriter, value: str, obj: api.Taint | api.Toleration) -> str:
    """Replace the value of a taint or toleration, according to its key."""
    return rewriter.replace_label_value(obj.key, value)


def _replace_image(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace an image's repository and tag separately, so that a missing tag can still be filled in.

    The tag ``latest`` is kept.
    """
    repository, colon, tag = value.rpartition(":")
    if not colon or "/" in tag:  # no tag: the colon, if any, belongs to a registry's port
        return rewriter.replace_name(value)
    return f"{rewriter.replace_name(repository)}:{tag if tag == LATEST else rewriter.replace_name(tag)}"


def _rewrite_images(
    rewriter: Rewriter, value: tuple[api.ContainerImage, ...], obj: object
) -> tuple[api.ContainerImage, ...]:
    """Rewrite a node's images, each distinct image only once."""
    return tuple([rewriter.rewrite_once(image) for image in value])


def _replace_image_names(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    """Replace the names of a node's image."""
    return tuple(_replace_image(rewriter, name, obj) for name in value)


def _replace_driver(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the name of a volume driver unless it is well known."""
    return value if is_known_driver(value) else rewriter.replace_name(value)


def _rewrite_driver_metadata(rewriter: Rewriter, value: api.ObjectMeta, obj: object) -> api.ObjectMeta:
    """Rewrite the metadata of a CSIDriver, but keep its name if the driver is well known."""
    rewritten: api.ObjectMeta = rewriter.rewrite_struct(value)
    return replace(rewritten, name=_replace_driver(rewriter, value.name, obj))


def _replace_ebs_volume_id(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the parts of an EBS volume's ID, so that ``vol-1`` and ``aws://zone/vol-1`` stay the same volume.

    An ID in any other form is replaced entirely, except for the prefix ``aws://``.
    """
    match = _EBS_VOLUME_ID.fullmatch(value)
    if match is None:
        return f"aws://{rewriter.replace_name(value)}" if value.startswith("aws://") else rewriter.replace_name(value)
    zone, path, volume = match.groups()
    zone_prefix = "" if zone is None else f"aws://{rewriter.replace_name(zone)}/"
    path_prefix = f"{rewriter.replace_name(path)}/" if path else ""
    return f"{zone_prefix}{path_prefix}vol-{rewriter.replace_name(volume)}"


def _replace_ip_address(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace an IP address unless it stands for all addresses."""
    return value if value in ANY_ADDRESS else rewriter.replace_name(value)


def _replace_device_request(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the parts of ``request`` or ``request/alternative``, except names that the scheduler generates."""
    if _GENERATED_REQUEST.fullmatch(value):
        return value
    return "/".join(map(rewriter.replace_name, value.split("/")))


def _replace_device_requests(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    """Replace the names of the device requests in a list."""
    return tuple(_replace_device_request(rewriter, item, obj) for item in value)


def _replace_qualified_name(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the domain in the name of a device attribute if the domain belongs to a driver."""
    return rewriter.expressions.replace_qualified_name(value, rewriter.replace_name)


def _rewrite_expression(rewriter: Rewriter, value: str, obj: object) -> str:
    """Remove the comments of a CEL expression, and replace the texts in it that may be replaced."""
    return rewriter.expressions.rewrite_expression(value, rewriter.replace_name)


def _replace_attributes(rewriter: Rewriter, value: Mapping[str, api.DeviceAttribute], obj: object) -> dict[str, object]:
    """Replace the names of device attributes, and their string values unless an expression computes with them."""
    return {
        _replace_qualified_name(rewriter, key, obj): rewriter.expressions.replace_attribute_strings(
            key, attribute, rewriter.replace_name
        )
        for key, attribute in value.items()
    }


def _replace_capacities(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    """Replace the names of device capacities, and keep their amounts."""
    return {_replace_qualified_name(rewriter, key, obj): amount for key, amount in value.items()}


def _replace_device_driver(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the name of a device driver unless a CEL expression computes with drivers."""
    return rewriter.expressions.replace_driver(value, rewriter.replace_name)


def _replace_resource_mappings(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    """Replace the node's resources in a device's mappings, and rewrite the mapping of each resource."""
    return {rewriter.replace_resource(name): rewriter.rewrite_struct(mapping) for name, mapping in value.items()}


REASONS = frozenset(
    ["Deferred", "Infeasible", "PreemptionByScheduler", "SchedulingGated", "TooManyReplicas", "Unschedulable"]
)
"""Well-known reasons in a pod's conditions that kschedctl or its users read."""


def _drop_unknown_reason(rewriter: Rewriter, value: str, obj: object) -> str:
    """Drop the reason of a condition unless it is well known, because other reasons may contain anything.

    Return "" in place of a dropped reason.
    """
    return value if value in REASONS else ""


def _filter_node_conditions(
    rewriter: Rewriter, value: tuple[api.Condition, ...], obj: object
) -> tuple[api.Condition, ...]:
    """Drop the node conditions that Kubernetes does not set, and the reasons and messages of all others."""
    conditions = (condition for condition in value if condition.type in NODE_CONDITIONS)
    return tuple(replace(condition, reason="", message="") for condition in conditions)


def _replace_device_conditions(
    rewriter: Rewriter, value: tuple[api.Condition, ...], obj: object
) -> tuple[api.Condition, ...]:
    """Replace the types of device conditions, which drivers choose, and drop their reasons and messages."""
    return tuple(replace(c, type=rewriter.replace_name(c.type), reason="", message="") for c in value)


def _replace_referenced_kind(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the kind or plural name in a reference unless its API group is Kubernetes' own or well known."""
    return value if _is_kubernetes_group(_get_api_group(obj)) else rewriter.replace_name(value)


def _replace_api_group(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the group in ``group`` or ``group/version`` unless it is Kubernetes' own or well known."""
    group, slash, version = value.partition("/")
    return value if _is_kubernetes_group(_get_api_group(obj)) else f"{rewriter.replace_domain(group)}{slash}{version}"


def _get_api_group(obj: Any) -> str:
    """Return the API group in a reference to an object, or "" for the core group."""
    if isinstance(obj, api.OwnerReference):
        group, slash, _ = obj.api_version.partition("/")
        return group if slash else ""
    return obj.api_group or ""


def _is_kubernetes_group(group: str) -> bool:
    """Return whether the API group is Kubernetes' own, which may have no dot, or well known."""
    return "." not in group or is_well_known_domain(group)


def _replace_match_fields(rewriter: Rewriter, value: tuple[api.SelectorRequirement, ...], obj: object) -> object:
    """Replace the node names in matchFields, which can only refer to ``metadata.name``."""
    return tuple(
        replace(requirement, values=replace_names(rewriter, requirement.values or (), obj)) for requirement in value
    )


def _replace_document_texts(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    """Replace every string in an untyped document, and drop its field ``conditions``."""
    return {key: _replace_nested_texts(rewriter, item) for key, item in value.items() if key != "conditions"}


def _replace_nested_texts(rewriter: Rewriter, value: object) -> object:
    """Replace every string in an untyped value, but keep numbers, booleans and the keys of mappings."""
    match value:
        case str():
            return rewriter.replace_name(value)
        case Mapping():
            return {key: _replace_nested_texts(rewriter, item) for key, item in value.items()}
        case list() | tuple():
            return [_replace_nested_texts(rewriter, item) for item in value]
    return value


def _map_name_fields(*fields: str) -> dict[str, Handler]:
    """Map each field to the handler for names of objects."""
    return dict.fromkeys(fields, replace_object_name)


_META: dict[str, Handler] = {
    **_map_name_fields("name", "namespace", "uid", "generate_name"),
    "labels": replace_labels,
    "annotations": anonymize_annotations,
}
_CLAIM_CLASS = _map_name_fields("storage_class_name", "volume_attributes_class_name")
_CLAIM_REFERENCE = _map_name_fields("name", "resource_claim_name", "resource_claim_template_name")
_DEVICE_REQUEST: dict[str, Handler] = {"name": _replace_device_request, "device_class_name": replace_object_name}

_WELL_KNOWN_RESOURCES = frozenset(("*", "cronjobs", *(kind.plural for kind in KINDS.values())))
"""Plural names in webhook rules that are kept. ``*`` matches every resource."""


def _replace_api_groups(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    """Replace the API groups of a webhook's rule, except Kubernetes' own and well-known groups."""
    return tuple(group if _is_kubernetes_group(group) else rewriter.replace_domain(group) for group in value)


def _replace_rule_resources(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    """Replace the resources of a webhook's rule, such as ``pods`` or ``pods/status``, except well-known resources."""
    return tuple(_replace_rule_resource(rewriter, resource) for resource in value)


def _replace_rule_resource(rewriter: Rewriter, text: str) -> str:
    """Replace the resource in ``resource`` or ``resource/subresource`` unless it is well known."""
    resource, slash, subresource = text.partition("/")
    if resource in _WELL_KNOWN_RESOURCES:
        return text
    return f"{rewriter.replace_name(resource)}{slash}{subresource}"


def _replace_scaled_kind(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the kind of the object that an autoscaler scales unless it is one of Kubernetes' own."""
    return value if value in POD_CREATORS else rewriter.replace_name(value)


_CLASS_INFIX = ".storageclass.storage.k8s.io/"
"""The text between the name of a StorageClass and the resource whose use in this class is limited."""
_STANDARD_QUOTA_NAMES = frozenset(
    (
        *("pods", "services", "services.loadbalancers", "services.nodeports", "secrets", "configmaps"),
        *("persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "requests.storage"),
        *(f"{part}.{name}" for part in ("requests", "limits") for name in ("cpu", "memory", "ephemeral-storage")),
    )
)


def _replace_quota_names(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    """Replace the names of the resources that a quota limits, and keep the amounts."""
    return {_replace_quota_name(rewriter, key): amount for key, amount in value.items()}


def _replace_quota_name(rewriter: Rewriter, key: str) -> str:
    """Replace the resource or the StorageClass in the name of a quota.

    Standard resources and object counts, such as ``count/pods``, are kept.
    """
    class_name, infix, resource = key.partition(_CLASS_INFIX)
    if infix:
        return f"{rewriter.replace_name(class_name)}{infix}{resource}"
    return key if key.startswith("count/") or key in _STANDARD_QUOTA_NAMES else rewriter.replace_resource(key)


_EVICTION_ANNOTATIONS = (
    "daemon_set_pod",
    "do_not_disrupt",
    "deletion_cost",
    "config_source",
    "evict",
    "prefers_no_eviction",
)

FIELDS: dict[type, dict[str, Handler]] = {
    api.OwnerReference: {
        "name": replace_object_name,
        "uid": replace_object_name,
        "kind": _replace_referenced_kind,
        "api_version": _replace_api_group,
    },
    api.ObjectMeta: _META,
    api.PodDisruptionBudgetMeta: _META,
    api.PodMeta: {field: handler for field, handler in _META.items() if field != "annotations"},
    api.PodAnnotations: {
        **_map_name_fields("group_name", "task_spec", "pod_group_name", "podset_group_name", "mirror"),
        **dict.fromkeys(("required_topology", "preferred_topology", "slice_topology"), replace_key),
        "slice_constraints": lambda rewriter, value, obj: None,
        "safe_to_evict": replace_unknown_setting,
        "safe_local_volumes": replace_name_list,
        "scale_up_delay": replace_unknown_setting,
        **dict.fromkeys(_EVICTION_ANNOTATIONS, replace_unknown_setting),
    },
    api.SelectorRequirement: {"key": replace_key, "values": replace_requirement_values},
    api.ResourceQuotaSpec: {"hard": _replace_quota_names},
    api.ResourceQuotaStatus: {"hard": _replace_quota_names, "used": _replace_quota_names},
    api.LimitRangeItem: dict.fromkeys(
        ("max", "min", "default", "default_request", "max_limit_request_ratio"), replace_resources
    ),
    machines.NodeReference: {"name": replace_object_name},
    machines.NodeLabels: {"labels": replace_labels},
    machines.MachineTemplateOwnerSpec: {"provider_id_list": replace_names},
    api.ConfigMap: {"data": lambda rewriter, value, obj: {}},
    api.NodeSelectorTerm: {"match_fields": _replace_match_fields},
    api.LabelSelector: {"match_labels": replace_labels},
    api.TopologySelectorRequirement: {"key": replace_key, "values": replace_requirement_values},
    api.TypedObjectReference: {
        **_map_name_fields("name", "namespace", "uid"),
        "kind": _replace_referenced_kind,
        "api_group": _replace_api_group,
    },
    api.PodAffinityTerm: {
        "namespaces": replace_names,
        "topology_key": replace_key,
        "match_label_keys": replace_keys,
        "mismatch_label_keys": replace_keys,
    },
    api.Toleration: {"key": replace_key, "value": _replace_taint_value},
    api.TopologySpreadConstraint: {"topology_key": replace_key, "match_label_keys": replace_keys},
    api.ContainerPort: {"host_ip": _replace_ip_address},
    api.ContainerResourceClaim: {"name": replace_object_name, "request": _replace_device_request},
    api.ResourceRequirements: {"requests": replace_resources, "limits": replace_resources},
    api.Container: {"name": replace_object_name, "image": _replace_image},
    api.PersistentVolumeClaimVolumeSource: {"claim_name": replace_object_name},
    api.GCEPersistentDiskVolumeSource: {"pd_name": replace_object_name},
    api.AWSElasticBlockStoreVolumeSource: {"volume_id": _replace_ebs_volume_id},
    api.ISCSIVolumeSource: {"iqn": replace_object_name},
    api.RBDVolumeSource: {"monitors": replace_names, "image": replace_object_name, "pool": replace_object_name},
    api.AzureDiskVolumeSource: {"disk_uri": replace_object_name, "disk_name": replace_object_name},
    api.CinderVolumeSource: {"volume_id": replace_object_name},
    api.NamedVolumeSource: {"volume_path": replace_object_name, "volume_id": replace_object_name},
    api.ImageVolumeSource: {"reference": _replace_image},
    api.CSIVolumeSource: {"driver": _replace_driver},
    api.HostPathVolumeSource: {"path": replace_object_name},
    api.Volume: {"name": replace_object_name},
    api.PodResourceClaim: _CLAIM_REFERENCE,
    api.PodSchedulingGate: {"name": replace_key},
    api.PodSchedulingGroup: {"pod_group_name": replace_object_name},
    api.PodSpec: {
        "node_name": replace_object_name,
        "node_selector": replace_labels,
        "priority_class_name": replace_object_name,
        "runtime_class_name": replace_object_name,
        "scheduler_name": replace_object_name,
        "overhead": replace_resources,
    },
    api.Condition: {"reason": _drop_unknown_reason, "message": drop_text},
    api.ContainerStatus: {"name": replace_object_name, "allocated_resources": replace_resources},
    api.ContainerStateWaiting: {"reason": drop_unknown_container_reason},
    api.ContainerStateTerminated: {"reason": drop_unknown_container_reason},
    api.PodResourceClaimStatus: _map_name_fields("name", "resource_claim_name"),
    api.ContainerExtendedResourceRequest: {
        "container_name": replace_object_name,
        "resource_name": replace_resource,
        "request_name": _replace_device_request,
    },
    api.PodExtendedResourceClaimStatus: {"resource_claim_name": replace_object_name},
    api.NodeAllocatableResourceClaimStatus: {
        "resource_claim_name": replace_object_name,
        "resources": replace_resources,
    },
    api.PodStatus: {
        "nominated_node_name": replace_object_name,
        "reason": replace_kubelet_reason,
        "message": drop_text,
        "allocated_resources": replace_resources,
    },
    api.Taint: {"key": replace_key, "value": _replace_taint_value},
    api.ContainerImage: {"names": _replace_image_names},
    api.NodeSpec: {"provider_id": replace_object_name},
    api.NodeStatus: {
        "images": _rewrite_images,
        "allocatable": replace_resources,
        "capacity": replace_resources,
        "conditions": _filter_node_conditions,
    },
    api.ServiceSpec: {"selector": replace_labels},
    api.ReplicationControllerSpec: {"selector": replace_labels},
    api.PodDisruptionBudgetStatus: {"disrupted_pods": _replace_map_keys},
    api.PriorityClass: {"description": drop_text},
    api.RuntimeClassOverhead: {"pod_fixed": replace_resources},
    api.RuntimeClassScheduling: {"node_selector": replace_labels},
    api.PersistentVolumeClaimSpec: {"volume_name": replace_object_name, **_CLAIM_CLASS},
    api.CSIPersistentVolumeSource: {"driver": _replace_driver, "volume_handle": replace_object_name},
    api.PersistentVolumeSpec: _CLAIM_CLASS,
    api.StorageClass: {"provisioner": _replace_driver},
    api.CSINodeDriver: {"name": _replace_driver, "node_id": replace_object_name, "topology_keys": replace_keys},
    api.CSIDriver: {"metadata": _rewrite_driver_metadata},
    api.CSIStorageCapacity: {"storage_class_name": replace_object_name},
    api.VolumeAttachmentSource: {"persistent_volume_name": replace_object_name},
    api.VolumeAttachmentSpec: {"attacher": _replace_driver, "node_name": replace_object_name},
    api.CELDeviceSelector: {"expression": _rewrite_expression},
    api.DeviceToleration: {"key": replace_key, "value": _replace_taint_value},
    api.CapacityRequirements: {"requests": _replace_capacities},
    api.ExactDeviceRequest: {"device_class_name": replace_object_name},
    api.DeviceSubRequest: _DEVICE_REQUEST,
    api.DeviceRequest: _DEVICE_REQUEST,
    api.DeviceConstraint: {
        "requests": _replace_device_requests,
        "match_attribute": _replace_qualified_name,
        "distinct_attribute": _replace_qualified_name,
    },
    api.DeviceRequestAllocationResult: {
        "request": _replace_device_request,
        "driver": _replace_device_driver,
        "pool": replace_object_name,
        "device": replace_object_name,
        "share_id": replace_object_name,
        "consumed_capacity": _replace_capacities,
        "binding_conditions": replace_names,
        "binding_failure_conditions": replace_names,
    },
    api.ResourceClaimConsumerReference: {
        **_map_name_fields("name", "uid"),
        "resource": _replace_referenced_kind,
        "api_group": _replace_api_group,
    },
    api.AllocatedDeviceStatus: {
        "driver": _replace_device_driver,
        "pool": replace_object_name,
        "device": replace_object_name,
        "share_id": replace_object_name,
        "conditions": _replace_device_conditions,
    },
    api.DeviceClassSpec: {"extended_resource_name": replace_resource},
    api.CounterSet: {"name": replace_object_name, "counters": _replace_map_keys},
    api.DeviceCounterConsumption: {"counter_set": replace_object_name, "counters": _replace_map_keys},
    api.DeviceTaint: {"key": replace_key, "value": _replace_taint_value},
    api.NodeAllocatableResourceMapping: {"capacity_key": _replace_qualified_name},
    api.Device: {
        "name": replace_object_name,
        "attributes": _replace_attributes,
        "capacity": _replace_capacities,
        "node_name": replace_object_name,
        "binding_conditions": replace_names,
        "binding_failure_conditions": replace_names,
        "node_allocatable_resource_mappings": _replace_resource_mappings,
        "basic": _replace_document_texts,  # empty in every slice that was read, since reading moves its fields
    },
    api.ResourcePool: {"name": replace_object_name},
    api.ResourceSliceSpec: {"driver": _replace_device_driver, "node_name": replace_object_name},
    api.DeviceTaintSelector: {
        "device_class_name": replace_object_name,
        "driver": _replace_device_driver,
        "pool": replace_object_name,
        "device": replace_object_name,
    },
    api.TopologyConstraint: {"key": replace_key},
    api.PodGroupResourceClaim: _CLAIM_REFERENCE,
    api.PodGroupResourceClaimStatus: _map_name_fields("name", "resource_claim_name"),
    api.WorkloadPodGroupTemplateReference: _map_name_fields("workload_name", "pod_group_template_name"),
    api.WorkloadReference: _map_name_fields("workload_name", "template_name"),
    api.PodGroupSpec: _map_name_fields("parent_composite_pod_group_name", "priority_class_name"),
    api.CompositePodGroupSpec: _map_name_fields("parent_composite_pod_group_name", "priority_class_name"),
    api.CoschedulingPodGroupSpec: {"min_resources": replace_resources},
    api.VolcanoPodGroupSpec: {
        "min_task_member": _replace_map_keys,
        "min_resources": replace_resources,
        "queue": replace_object_name,
    },
    api.ZoneResource: {"name": replace_resource},
    api.ElasticQuotaSpec: {"min": replace_resources, "max": replace_resources},
    **OBSERVED_FIELDS,
    **KARPENTER_FIELDS,
    api.LocalObjectReference: {"name": replace_object_name},
    api.ScopeSelectorTerm: {"values": replace_names},
    api.ScaleTargetReference: {"name": replace_object_name, "kind": _replace_scaled_kind},
    hooks.Webhook: {"name": replace_object_name},
    hooks.HookRule: {
        "api_groups": _replace_api_groups,
        "resources": _replace_rule_resources,
        "resource_names": replace_names,
    },
    hooks.PolicyBindingSpec: {"policy_name": replace_object_name},
    **QUEUE_AND_OPERATOR_FIELDS,
}
"""Struct -> its fields that are rewritten, with their handlers. kept_texts.py lists the texts that are kept."""
