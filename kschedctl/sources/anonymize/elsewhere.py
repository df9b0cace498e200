"""Handlers for objects of Kueue and Volcano, and for custom resources whose operators create pods."""

from __future__ import annotations

from collections.abc import Mapping

from kschedctl.api import operator_resources, queueing
from kschedctl.api.json_values import JsonObject
from kschedctl.sources.anonymize.rewriter import Handler, Rewriter

KNOWN_PHASES = frozenset({"Running", "Ready", "Pending", "Suspended", "Failed", "Completed", "COMPLETED", "FAILED"})
"""Phases that many operators use. Other phases are left out, because they may contain anything."""


def _replace_name(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.object_name(value)


def _replace_resource_names(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    return tuple(map(rewriter.resource, value))


def _replace_resource(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.resource(value)


def _replace_resources(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    return {rewriter.resource(name): amount for name, amount in value.items()}


def _replace_flavors(rewriter: Rewriter, value: Mapping[str, str], obj: object) -> dict[str, str]:
    """Replace resources and their flavors."""
    return {rewriter.resource(name): rewriter.name(flavor) for name, flavor in value.items()}


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
    queueing.KueueWorkloadSpec: {"queue_name": _replace_name},
    queueing.KueuePodSetAssignment: {
        "name": _replace_name,
        "flavors": _replace_flavors,
        "resource_usage": _replace_resources,
    },
    queueing.KueueAdmission: {"cluster_queue": _replace_name},
    queueing.KueueAdmissionCheckState: {"name": _replace_name, "message": _drop_text},
    queueing.KueueResourceQuota: {"name": _replace_resource},
    queueing.KueueFlavorQuotas: {"name": _replace_name},
    queueing.KueueResourceGroup: {"covered_resources": _replace_resource_names},
    queueing.ClusterQueueSpec: {"cohort": _replace_name, "cohort_name": _replace_name},
    queueing.KueueResourceUsage: {"name": _replace_resource},
    queueing.KueueFlavorUsage: {"name": _replace_name},
    queueing.LocalQueueSpec: {"cluster_queue": _replace_name},
    queueing.VolcanoQueueSpec: {"capability": _replace_resources},
    queueing.VolcanoQueueStatus: {"allocated": _replace_resources},
    queueing.VolcanoTask: {"name": _replace_name},
    queueing.VolcanoJobSpec: {"queue": _replace_name},
    queueing.VolcanoJobState: {"reason": _drop_text, "message": _drop_text},
    operator_resources.OperatorResource: _OPERATED,
    operator_resources.CustomResource: {
        **_OPERATED,
        "api_version": _replace_api_version,
        "resource_kind": _replace_name,
    },
}
"""Struct -> its fields with names, for objects of batch queues and operators."""
