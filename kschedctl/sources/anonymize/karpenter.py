"""Handlers for NodePools, NodeClaims, NodeOverlays and node classes."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from kschedctl.api import karpenter as api
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


def _replace_resources(rewriter: Rewriter, value: JsonObject | None, obj: object) -> Mapping[str, object] | None:
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
    api.ClaimedResources: {"requests": _replace_resources},
    api.NodeClaimStatus: {
        "node_name": _replace_name,
        "provider_id": _replace_name,
        "capacity": _replace_resources,
        "allocatable": _replace_resources,
        "conditions": _filter_conditions,
    },
    api.NodePoolSpec: {"limits": _replace_resources},
    api.NodePoolStatus: {"resources": _replace_resources, "conditions": _filter_conditions},
    api.NodeOverlaySpec: {"capacity": _replace_resources},
    api.NodeClassSubnet: {"zone": _replace_zone},
    api.NodeClassStatus: {"conditions": _filter_conditions},
}
