"""Annotations under pseudonyms: those that something reads."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kschedctl.api.observed.noise import NODE_GROUP_ANNOTATIONS, is_kept_annotation
from kschedctl.scheduler.plugins.helper.volumes.csi_migration import MIGRATED_PLUGINS
from kschedctl.sources.anonymize.expressions import is_known_driver
from kschedctl.sources.anonymize.rewriter import Rewriter

KEPT_ANNOTATION_VALUES = frozenset({"true", "false", "yes"})
FREE_TEXT = frozenset({"kschedctl/ignore"})
LABELS, TAINTS = (f"capacity.cluster-autoscaler.kubernetes.io/{name}" for name in ("labels", "taints"))
_OF_A_GROUP = re.compile(
    r"Machine(Set|Deployment|Pool)|true|false|\d+(\.\d+)?([KMGTPE]i?|m|k)?|(\d+(\.\d+)?([mun]?s|m|h))+"
)
"""What annotations tell of a node group: kinds, switches, quantities and durations."""
_SETTING = re.compile(r"true|false|on-completion|api|file|http|(?:[0-9.]+(?:ns|us|ms|s|m|h))*|-?[0-9]+")
"""What autoscalers, and the descheduler, understand of a pod's annotations."""


def setting(rewriter: Rewriter, value: str, obj: object) -> str:
    return value if _SETTING.fullmatch(value) else rewriter.name(value)


def list_of_names(rewriter: Rewriter, value: str, obj: object) -> str:
    """With commas, between which blanks count."""
    return ",".join(name and rewriter.own_name(name) for name in value.split(","))


def kept_annotations(rewriter: Rewriter, value: Mapping[str, str], obj: object) -> dict[str, str]:
    """The annotations that are kept."""
    kept = {key: item for key, item in value.items() if is_kept_annotation(key) and key not in FREE_TEXT}
    return {key: _annotation(rewriter, key, item) for key, item in kept.items()}


def _annotation(rewriter: Rewriter, key: str, value: str) -> str:
    if key == MIGRATED_PLUGINS:
        return ",".join(name for name in value.split(",") if is_known_driver(name))
    if key in (LABELS, TAINTS):
        return ",".join(_pair(rewriter, part) for part in value.split(","))
    if key.startswith(NODE_GROUP_ANNOTATIONS) and _OF_A_GROUP.fullmatch(value):
        return value
    return value if value in KEPT_ANNOTATION_VALUES else rewriter.name(value)


def _pair(rewriter: Rewriter, text: str) -> str:
    """``key=value`` or ``key=value:effect``."""
    key, equals, rest = text.partition("=")
    value, colon, effect = rest.partition(":")
    return f"{rewriter.key(key)}{equals}{rewriter.label(key, value)}{colon}{effect}"
