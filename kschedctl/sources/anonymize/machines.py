"""Machines and what owns them under pseudonyms: node groups with their sizes, and what their nodes have."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kschedctl.api import machines as api
from kschedctl.sources.anonymize.rewriter import Handler, Rewriter

LABELS, TAINTS = (f"capacity.cluster-autoscaler.kubernetes.io/{name}" for name in ("labels", "taints"))
_KEPT = re.compile(r"Machine(Set|Deployment|Pool)|true|false|\d+(\.\d+)?([KMGTPE]i?|m|k)?|(\d+(\.\d+)?([mun]?s|m|h))+")
"""Kinds, switches, quantities and durations."""


def node_group_annotation(rewriter: Rewriter, key: str, value: str) -> str:
    """An annotation that tells of a node group."""
    if key in (LABELS, TAINTS):
        return ",".join(_pair(rewriter, part) for part in value.split(","))
    return value if _KEPT.fullmatch(value) else rewriter.name(value)


def _pair(rewriter: Rewriter, text: str) -> str:
    """``key=value`` or ``key=value:effect``."""
    key, equals, rest = text.partition("=")
    value, colon, effect = rest.partition(":")
    return f"{rewriter.key(key)}{equals}{rewriter.label(key, value)}{colon}{effect}"


def _name(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.own_name(value)


def _names(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    return tuple(map(rewriter.name, value))


def _labels(rewriter: Rewriter, value: Mapping[str, str], obj: object) -> dict[str, str]:
    return {rewriter.key(key): rewriter.label(key, item) for key, item in value.items()}


MACHINE_FIELDS: dict[type, dict[str, Handler]] = {
    api.NodeReference: {"name": _name},
    api.NodeLabels: {"labels": _labels},
    api.MachineTemplateOwnerSpec: {"provider_id_list": _names},
}
