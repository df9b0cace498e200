"""Objects of Kueue and Volcano, and custom resources whose operators create pods, under pseudonyms."""

from __future__ import annotations

from collections.abc import Mapping

from kschedctl.api import operator_resources, queueing
from kschedctl.api.json_values import JsonObject
from kschedctl.sources.anonymize.rewriter import Handler, Rewriter

KNOWN_PHASES = frozenset({"Running", "Ready", "Pending", "Suspended", "Failed", "Completed", "COMPLETED", "FAILED"})
"""The words for a phase that many operators use; another one may hold anything."""


def _name(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.own_name(value)


def _names(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    return tuple(map(rewriter.resource, value))


def _resource(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.resource(value)


def _resources(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    return {rewriter.resource(name): amount for name, amount in value.items()}


def _flavors(rewriter: Rewriter, value: Mapping[str, str], obj: object) -> dict[str, str]:
    return {rewriter.resource(name): rewriter.name(flavor) for name, flavor in value.items()}


def _nothing(rewriter: Rewriter, value: str, obj: object) -> str:
    return ""


def _phase(rewriter: Rewriter, value: str, obj: object) -> str:
    return value if value in KNOWN_PHASES else ""


def _api_version(rewriter: Rewriter, value: str, obj: object) -> str:
    group, slash, version = value.partition("/")
    return f"{rewriter.domain(group)}{slash}{version}"


_OPERATED: dict[str, Handler] = {"phase": _phase, "message": _nothing}

ELSEWHERE_FIELDS: dict[type, dict[str, Handler]] = {
    queueing.KueuePodSet: {"name": _name},
    queueing.KueueWorkloadSpec: {"queue_name": _name},
    queueing.KueuePodSetAssignment: {"name": _name, "flavors": _flavors, "resource_usage": _resources},
    queueing.KueueAdmission: {"cluster_queue": _name},
    queueing.KueueAdmissionCheckState: {"name": _name, "message": _nothing},
    queueing.KueueResourceQuota: {"name": _resource},
    queueing.KueueFlavorQuotas: {"name": _name},
    queueing.KueueResourceGroup: {"covered_resources": _names},
    queueing.ClusterQueueSpec: {"cohort": _name, "cohort_name": _name},
    queueing.KueueResourceUsage: {"name": _resource},
    queueing.KueueFlavorUsage: {"name": _name},
    queueing.LocalQueueSpec: {"cluster_queue": _name},
    queueing.VolcanoQueueSpec: {"capability": _resources},
    queueing.VolcanoQueueStatus: {"allocated": _resources},
    queueing.VolcanoTask: {"name": _name},
    queueing.VolcanoJobSpec: {"queue": _name},
    queueing.VolcanoJobState: {"reason": _nothing, "message": _nothing},
    operator_resources.OperatorResource: _OPERATED,
    operator_resources.CustomResource: {**_OPERATED, "api_version": _api_version, "resource_kind": _name},
}
"""Which fields of what holds pods back elsewhere hold names."""
