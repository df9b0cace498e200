"""NodePools, NodeClaims and NodeOverlays under pseudonyms."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from kschedctl.api import karpenter as api
from kschedctl.api import node_classes
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Condition
from kschedctl.sources.anonymize.rewriter import Handler, Rewriter

ZONE = "topology.kubernetes.io/zone"
OWN_CONDITIONS = frozenset(
    ("Ready", "Launched", "Registered", "Initialized", "Consolidatable", "Drifted", "Empty", "InstanceTerminating")
)
"""Labels that Karpenter itself sets, as far as anything reads them."""


def _name(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.own_name(value)


def _key(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.key(value)


def _values(rewriter: Rewriter, value: tuple[str, ...], obj: api.RequirementWithMinValues) -> tuple[str, ...]:
    return tuple(rewriter.label(obj.key, item) for item in value)


def _resources(rewriter: Rewriter, value: JsonObject | None, obj: object) -> Mapping[str, object] | None:
    return value and {rewriter.resource(name): amount for name, amount in value.items()}


def _zone(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.label(ZONE, value)


def _conditions(rewriter: Rewriter, value: tuple[Condition, ...], obj: object) -> tuple[Condition, ...]:
    kept = (condition for condition in value if condition.type in OWN_CONDITIONS)
    return tuple(replace(condition, reason="", message="") for condition in kept)


KARPENTER_FIELDS: dict[type, dict[str, Handler]] = {
    api.RequirementWithMinValues: {"key": _key, "values": _values},
    api.NodeClassReference: {"name": _name},
    api.ClaimedResources: {"requests": _resources},
    api.NodeClaimStatus: {
        "node_name": _name,
        "provider_id": _name,
        "capacity": _resources,
        "allocatable": _resources,
        "conditions": _conditions,
    },
    api.NodePoolSpec: {"limits": _resources},
    api.NodePoolStatus: {"resources": _resources, "conditions": _conditions},
    api.NodeOverlaySpec: {"capacity": _resources},
    node_classes.NodeClassSubnet: {"zone": _zone},
    node_classes.NodeClassStatus: {"conditions": _conditions},
}
