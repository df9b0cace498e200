"""Handlers for the custom resources of Karpenter, Kueue, Volcano, and operators that create pods."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from kschedctl.api import karpenter as api
from kschedctl.api import operated_pod_sets, operator_resources, queueing
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Condition
from kschedctl.sources.anonymize.rewriter import Handler, Rewriter

ZONE = "topology.kubernetes.io/zone"
KARPENTER_CONDITIONS = frozenset(
    ("Ready", "Launched", "Registered", "Initialized", "Consolidatable", "Drifted", "Empty", "InstanceTerminating")
)
"""Conditions that Karpenter itself sets, as far as anything reads them."""


def _replace_name(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.object_name(value)


def _replace_key(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.key(value)


def _replace_values(rewriter: Rewriter, value: tuple[str, ...], obj: api.RequirementWithMinValues) -> tuple[str, ...]:
    """Replace the values of a requirement, according to its key."""
    return tuple(rewriter.label(obj.key, item) for item in value)


def _replace_optional_resources(
    rewriter: Rewriter, value: JsonObject | None, obj: object
) -> Mapping[str, object] | None:
    return value and {rewriter.resource(name): amount for name, amount in value.items()}


def _replace_zone(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.label(ZONE, value)


def _filter_conditions(rewriter: Rewriter, value: tuple[Condition, ...], obj: object) -> tuple[Condition, ...]:
    """Keep the conditions that Karpenter sets, without reason and message."""
    kept = (condition for condition in value if condition.type in KARPENTER_CONDITIONS)
    return tuple(replace(condition, reason="", message="") for condition in kept)


KARPENTER_FIELDS: dict[type, dict[str, Handler]] = {
    api.RequirementWithMinValues: {"key": _replace_key, "values": _replace_values},
    api.NodeClassReference: {"name": _replace_name},
    api.ClaimedResources: {"requests": _replace_optional_resources},
    api.NodeClaimStatus: {
        "node_name": _replace_name,
        "provider_id": _replace_name,
        "capacity": _replace_optional_resources,
        "allocatable": _replace_optional_resources,
        "conditions": _filter_conditions,
    },
    api.NodePoolSpec: {"limits": _replace_optional_resources},
    api.NodePoolStatus: {"resources": _replace_optional_resources, "conditions": _filter_conditions},
    api.NodeOverlaySpec: {"capacity": _replace_optional_resources},
    api.NodeClassSubnet: {"zone": _replace_zone},
    api.NodeClassStatus: {"conditions": _filter_conditions},
}


KNOWN_PHASES = frozenset({"Running", "Ready", "Pending", "Suspended", "Failed", "Completed", "COMPLETED", "FAILED"})
"""Phases that many operators use. Other phases are left out, because they may contain anything."""


def _replace_resource_names(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    return tuple(map(rewriter.resource, value))


def _replace_resource(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.resource(value)


def _replace_resources(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    return {rewriter.resource(name): amount for name, amount in value.items()}


def _replace_flavors(rewriter: Rewriter, value: Mapping[str, str], obj: object) -> dict[str, str]:
    """Replace resources and their flavors."""
    return {rewriter.resource(name): rewriter.name(flavor) for name, flavor in value.items()}


def _replace_labels(rewriter: Rewriter, value: Mapping[str, str], obj: object) -> dict[str, str]:
    return {rewriter.key(key): rewriter.label(key, item) for key, item in value.items()}


def _replace_names(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    return tuple(map(rewriter.object_name, value))


def _replace_placement(
    rewriter: Rewriter, value: queueing.TopologyAssignment, obj: object
) -> queueing.TopologyAssignment:
    """Replace the labels of a topology's levels, and the values of the domains."""
    domains = [
        queueing.TopologyDomainAssignment(
            tuple(rewriter.label(key, item) for key, item in zip(value.levels, domain.values, strict=False)),
            domain.count,
        )
        for domain in value.list_domains()
    ]
    return queueing.TopologyAssignment(tuple(map(rewriter.key, value.levels)), tuple(domains))


def _replace_controller(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the name of an admission check's controller, unless it is one of Kueue's own."""
    return value if value.startswith("kueue.x-k8s.io/") else rewriter.object_name(value)


def _drop_text(rewriter: Rewriter, value: str, obj: object) -> str:
    return ""


def _drop_unknown_phase(rewriter: Rewriter, value: str, obj: object) -> str:
    return value if value in KNOWN_PHASES else ""


def _replace_api_version(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the group of an API version."""
    group, slash, version = value.partition("/")
    return f"{rewriter.domain(group)}{slash}{version}"


_OPERATED: dict[str, Handler] = {"phase": _drop_unknown_phase, "message": _drop_text}

ELSEWHERE_FIELDS: dict[type, dict[str, Handler]] = {
    queueing.KueuePodSet: {"name": _replace_name},
    queueing.SliceConstraint: {"topology": _replace_key},
    queueing.TopologyRequest: {
        "required": _replace_key,
        "preferred": _replace_key,
        "pod_set_group_name": _replace_name,
        "pod_set_slice_required_topology": _replace_key,
    },
    queueing.WorkloadPriorityClassRef: {"name": _replace_name},
    queueing.KueueWorkloadSpec: {"queue_name": _replace_name, "priority_class_name": _replace_name},
    queueing.TopologyDomainAssignment: {"values": _replace_names},
    queueing.TopologyLevelParts: {"prefix": _replace_name, "suffix": _replace_name, "roots": _replace_names},
    queueing.TopologyLevelValues: {"universal": _replace_name},
    queueing.TopologyAssignment: {"levels": _replace_names},
    queueing.ReclaimablePod: {"name": _replace_name},
    queueing.UnhealthyNode: {"name": _replace_name},
    queueing.KueuePodSetAssignment: {
        "name": _replace_name,
        "flavors": _replace_flavors,
        "resource_usage": _replace_resources,
        "topology_assignment": _replace_placement,
    },
    queueing.KueueAdmission: {"cluster_queue": _replace_name},
    queueing.KueueAdmissionCheckState: {"name": _replace_name, "message": _drop_text},
    queueing.KueueResourceQuota: {"name": _replace_resource},
    queueing.KueueFlavorQuotas: {"name": _replace_name},
    queueing.KueueResourceGroup: {"covered_resources": _replace_resource_names},
    queueing.AdmissionCheckRule: {"name": _replace_name, "on_flavors": _replace_names},
    queueing.ClusterQueueSpec: {
        "cohort": _replace_name,
        "cohort_name": _replace_name,
        "admission_checks": _replace_names,
    },
    queueing.CohortSpec: {"parent_name": _replace_name},
    queueing.ResourceFlavorSpec: {"node_labels": _replace_labels, "topology_name": _replace_name},
    queueing.AdmissionCheckSpec: {"controller_name": _replace_controller},
    queueing.TopologyLevel: {"node_label": _replace_key},
    queueing.KueueResourceUsage: {"name": _replace_resource},
    queueing.KueueFlavorUsage: {"name": _replace_name},
    queueing.LocalQueueSpec: {"cluster_queue": _replace_name},
    queueing.VolcanoQueueSpec: {"capability": _replace_resources},
    queueing.VolcanoQueueStatus: {"allocated": _replace_resources},
    queueing.VolcanoTask: {"name": _replace_name},
    queueing.VolcanoJobSpec: {"queue": _replace_name},
    queueing.VolcanoJobState: {"reason": _drop_text, "message": _drop_text},
    operated_pod_sets.OperatedPodSet: {"name": _replace_name},
    operated_pod_sets.OperatedPodSets: {"priority_class_name": _replace_name, "problem": _drop_text},
    operator_resources.OperatorResource: _OPERATED,
    operator_resources.CustomResource: {
        **_OPERATED,
        "api_version": _replace_api_version,
        "resource_kind": _replace_name,
    },
}
"""Struct -> its fields with names, for objects of batch queues and operators."""
