"""Handlers for the custom resources of Karpenter, Kueue, Volcano, and operators that create pods."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from msgspec.structs import replace

from kschedctl.api import karpenter as api
from kschedctl.api import operated_pod_sets, operator_resources, queueing
from kschedctl.api.json_values import JsonObject, array_at, field_at, object_at, objects_at, text_at
from kschedctl.api.objects import Condition, ConfigMap
from kschedctl.sources.anonymize.rewriter import (
    Handler,
    Rewriter,
    drop_text,
    replace_key,
    replace_labels,
    replace_object_name,
    replace_object_names,
    replace_requirement_values,
    replace_resource,
    replace_resource_names,
    replace_resources,
)

ZONE = "topology.kubernetes.io/zone"
KARPENTER_CONDITIONS = frozenset(
    ("Ready", "Launched", "Registered", "Initialized", "Consolidatable", "Drifted", "Empty", "InstanceTerminating")
)
"""Conditions that Karpenter itself sets and that kschedctl reads."""


def _replace_optional_resources(
    rewriter: Rewriter, value: JsonObject | None, obj: object
) -> Mapping[str, object] | None:
    """Replace the names of resources in a map that may be None, and keep their amounts."""
    return value and {rewriter.replace_resource(name): amount for name, amount in value.items()}


def _replace_zone(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace a zone in the same way as the value of the nodes' zone label."""
    return rewriter.replace_label_value(ZONE, value)


def _filter_karpenter_conditions(
    rewriter: Rewriter, value: tuple[Condition, ...], obj: object
) -> tuple[Condition, ...]:
    """Drop the conditions that Karpenter does not set, and the reasons and messages of all others."""
    conditions = (condition for condition in value if condition.type in KARPENTER_CONDITIONS)
    return tuple(replace(condition, reason="", message="") for condition in conditions)


KARPENTER_FIELDS: dict[type, dict[str, Handler]] = {
    api.RequirementWithMinValues: {"key": replace_key, "values": replace_requirement_values},
    api.NodeClassReference: {"name": replace_object_name},
    api.ClaimedResources: {"requests": _replace_optional_resources},
    api.NodeClaimStatus: {
        "node_name": replace_object_name,
        "provider_id": replace_object_name,
        "capacity": _replace_optional_resources,
        "allocatable": _replace_optional_resources,
        "conditions": _filter_karpenter_conditions,
    },
    api.NodePoolSpec: {"limits": _replace_optional_resources},
    api.NodePoolStatus: {"resources": _replace_optional_resources, "conditions": _filter_karpenter_conditions},
    api.NodeOverlaySpec: {"capacity": _replace_optional_resources},
    api.NodeClassSubnet: {"zone": _replace_zone},
    api.NodeClassStatus: {"conditions": _filter_karpenter_conditions},
}


KNOWN_PHASES = frozenset({"Running", "Ready", "Pending", "Suspended", "Failed", "Completed", "COMPLETED", "FAILED"})
"""Phases that many operators use. Other phases are left out, because they may contain anything."""


def _replace_assigned_flavors(rewriter: Rewriter, value: Mapping[str, str], obj: object) -> dict[str, str]:
    """Replace the names of resources and of the flavors that are assigned to them."""
    return {rewriter.replace_resource(name): rewriter.replace_name(flavor) for name, flavor in value.items()}


def _replace_topology_assignment(
    rewriter: Rewriter, value: queueing.TopologyAssignment, obj: object
) -> queueing.TopologyAssignment:
    """Replace the label keys of a topology's levels, and the label values of the assigned domains."""
    domains = []
    for domain in value.list_domains():
        keys_and_values = zip(value.levels, domain.values, strict=False)  # a domain may have too few values
        replaced_values = tuple(rewriter.replace_label_value(key, label) for key, label in keys_and_values)
        domains.append(queueing.TopologyDomainAssignment(replaced_values, domain.count))
    return queueing.TopologyAssignment(tuple(map(rewriter.replace_key, value.levels)), tuple(domains))


def _replace_check_controller(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the name of an admission check's controller unless it is Kueue's own."""
    return value if value.startswith("kueue.x-k8s.io/") else rewriter.replace_object_name(value)


def _drop_unknown_phase(rewriter: Rewriter, value: str, obj: object) -> str:
    """Drop a phase that is not in KNOWN_PHASES, because operators may write anything.

    Return "" in place of a phase that is dropped.
    """
    return value if value in KNOWN_PHASES else ""


def _replace_api_version(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the group in an apiVersion, ``group/version``, unless it is well known."""
    group, slash, version = value.partition("/")
    return f"{rewriter.replace_domain(group)}{slash}{version}"


_KEPT_CONFIGURATION = ("featureGates", "fairSharing", "manageJobsWithoutQueueName")
"""The fields of Kueue's Configuration that an admission depends on and that contain no names."""


def anonymize_kueue_configuration(config_map: ConfigMap, rewriter: Rewriter) -> ConfigMap:
    """Return Kueue's ConfigMap with only the settings that affect admission, and with resources renamed.

    The selector for the namespaces with managed jobs is left out. A ConfigMap with several entries or unreadable YAML
    counts as an empty Configuration.
    """
    import yaml  # noqa: PLC0415 - few clusters have such a ConfigMap

    key = ""
    configuration = None
    if len(config_map.data) == 1:
        ((key, text),) = config_map.data.items()
        with suppress(yaml.YAMLError):
            configuration = yaml.safe_load(text)

    settings = {field: value for field in _KEPT_CONFIGURATION if (value := field_at(configuration, field)) is not None}
    frameworks = array_at(configuration, "integrations", "frameworks")
    settings["integrations"] = {"frameworks": list(frameworks)} if frameworks else {}
    settings["resources"] = _rewrite_resource_settings(object_at(configuration, "resources"), rewriter)

    # Name and namespace are well known, and Kueue's ConfigMap is recognized by them
    metadata = rewriter.rewrite_struct(config_map).metadata
    metadata = replace(metadata, name=config_map.metadata.name, namespace=config_map.metadata.namespace)
    return ConfigMap(metadata, {key: yaml.safe_dump({"kind": "Configuration", **settings})})


def _rewrite_resource_settings(settings: JsonObject, rewriter: Rewriter) -> dict[str, object]:
    """Replace the names of resources in the ``resources`` of Kueue's Configuration.

    Only the excluded prefixes, the quota check strategy and the transformations are returned.
    """
    rewritten: dict[str, object] = {}
    if prefixes := array_at(settings, "excludeResourcePrefixes"):
        rewritten["excludeResourcePrefixes"] = [rewriter.replace_resource(str(prefix)) for prefix in prefixes]
    if "quotaCheckStrategy" in settings:
        rewritten["quotaCheckStrategy"] = settings["quotaCheckStrategy"]
    if transformations := objects_at(settings, "transformations"):
        rewritten["transformations"] = [
            _rewrite_transformation(transformation, rewriter) for transformation in transformations
        ]
    return rewritten


def _rewrite_transformation(transformation: JsonObject, rewriter: Rewriter) -> dict[str, object]:
    """Replace the names of resources in a transformation of Kueue's Configuration: its input, outputs and factor."""
    outputs = object_at(transformation, "outputs")
    rewritten = {
        **transformation,
        "input": rewriter.replace_resource(text_at(transformation, "input")),
        "outputs": {rewriter.replace_resource(name): amount for name, amount in outputs.items()},
    }
    if factor := text_at(transformation, "multiplyBy"):
        rewritten["multiplyBy"] = rewriter.replace_resource(factor)
    return rewritten


_OPERATOR_FIELDS: dict[str, Handler] = {"phase": _drop_unknown_phase, "message": drop_text}

QUEUE_AND_OPERATOR_FIELDS: dict[type, dict[str, Handler]] = {
    queueing.KueuePodSet: {"name": replace_object_name},
    queueing.SliceConstraint: {"topology": replace_key},
    queueing.TopologyRequest: {
        "required": replace_key,
        "preferred": replace_key,
        "pod_set_group_name": replace_object_name,
        "pod_set_slice_required_topology": replace_key,
    },
    queueing.WorkloadPriorityClassRef: {"name": replace_object_name},
    queueing.KueueWorkloadSpec: {"queue_name": replace_object_name, "priority_class_name": replace_object_name},
    queueing.TopologyDomainAssignment: {"values": replace_object_names},
    queueing.TopologyLevelParts: {
        "prefix": replace_object_name,
        "suffix": replace_object_name,
        "roots": replace_object_names,
    },
    queueing.TopologyLevelValues: {"universal": replace_object_name},
    queueing.TopologyAssignment: {"levels": replace_object_names},
    queueing.ReclaimablePod: {"name": replace_object_name},
    queueing.UnhealthyNode: {"name": replace_object_name},
    queueing.PreemptionGate: {"name": replace_object_name},
    queueing.KueuePodSetAssignment: {
        "name": replace_object_name,
        "flavors": _replace_assigned_flavors,
        "resource_usage": replace_resources,
        "topology_assignment": _replace_topology_assignment,
    },
    queueing.KueueAdmission: {"cluster_queue": replace_object_name},
    queueing.KueueAdmissionCheckState: {"name": replace_object_name, "message": drop_text},
    queueing.KueueResourceQuota: {"name": replace_resource},
    queueing.KueueFlavorQuotas: {"name": replace_object_name},
    queueing.KueueResourceGroup: {"covered_resources": replace_resource_names},
    queueing.AdmissionCheckRule: {"name": replace_object_name, "on_flavors": replace_object_names},
    queueing.ClusterQueueSpec: {
        "cohort": replace_object_name,
        "cohort_name": replace_object_name,
        "admission_checks": replace_object_names,
    },
    queueing.CohortSpec: {"parent_name": replace_object_name},
    queueing.ResourceFlavorSpec: {"node_labels": replace_labels, "topology_name": replace_object_name},
    queueing.AdmissionCheckSpec: {"controller_name": _replace_check_controller},
    queueing.TopologyLevel: {"node_label": replace_key},
    queueing.KueueResourceUsage: {"name": replace_resource},
    queueing.KueueFlavorUsage: {"name": replace_object_name},
    queueing.LocalQueueSpec: {"cluster_queue": replace_object_name},
    queueing.VolcanoQueueSpec: {"capability": replace_resources},
    queueing.VolcanoQueueStatus: {"allocated": replace_resources},
    queueing.VolcanoTask: {"name": replace_object_name},
    queueing.VolcanoJobSpec: {"queue": replace_object_name},
    queueing.VolcanoJobState: {"reason": drop_text, "message": drop_text},
    operated_pod_sets.OperatedPodSet: {"name": replace_object_name},
    operated_pod_sets.OperatedPodSets: {"priority_class_name": replace_object_name, "problem": drop_text},
    operator_resources.OperatorResource: _OPERATOR_FIELDS,
    operator_resources.CustomResource: {
        **_OPERATOR_FIELDS,
        "api_version": _replace_api_version,
        "resource_kind": replace_object_name,
    },
}
"""Struct -> its fields with names, for objects of batch queues and operators."""
