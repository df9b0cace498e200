"""Handlers for annotations, of which only those that something reads are kept."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kschedctl.api.noise import NODE_GROUP_ANNOTATIONS, is_kept_annotation
from kschedctl.scheduler.plugins.helper.volumes.csi_migration import MIGRATED_PLUGINS
from kschedctl.sources.anonymize.expressions import is_known_driver
from kschedctl.sources.anonymize.rewriter import Rewriter

KEPT_ANNOTATION_VALUES = frozenset({"true", "false", "yes"})
FREE_TEXT = frozenset({"kschedctl/ignore"})
LABELS, TAINTS = (f"capacity.cluster-autoscaler.kubernetes.io/{name}" for name in ("labels", "taints"))
_NODE_GROUP_VALUE = re.compile(
    r"Machine(Set|Deployment|Pool)|true|false|\d+(\.\d+)?([KMGTPE]i?|m|k)?|(\d+(\.\d+)?([mun]?s|m|h))+"
)
"""Values in annotations of node groups that are kept: kinds, switches, quantities and durations."""
_SETTING = re.compile(r"true|false|on-completion|api|file|http|(?:[0-9.]+(?:ns|us|ms|s|m|h))*|-?[0-9]+")
"""Values of pods' annotations that autoscalers and the descheduler understand, and that are kept."""


def replace_setting(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the value of an annotation unless it is a setting that autoscalers or the descheduler understand."""
    return value if _SETTING.fullmatch(value) else rewriter.name(value)


def replace_name_list(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace each name in a comma-separated list. Blanks count as part of a name."""
    return ",".join(name and rewriter.object_name(name) for name in value.split(","))


def filter_annotations(rewriter: Rewriter, value: Mapping[str, str], obj: object) -> dict[str, str]:
    """Keep only the annotations that something reads, and replace the names in their values."""
    kept = {key: item for key, item in value.items() if is_kept_annotation(key) and key not in FREE_TEXT}
    return {key: _replace_annotation_value(rewriter, key, item) for key, item in kept.items()}


def _replace_annotation_value(rewriter: Rewriter, key: str, value: str) -> str:
    """Replace the names in the value of a kept annotation."""
    if key == MIGRATED_PLUGINS:
        return ",".join(name for name in value.split(",") if is_known_driver(name))
    if key in (LABELS, TAINTS):
        return ",".join(_replace_pair(rewriter, part) for part in value.split(","))
    if key.startswith(NODE_GROUP_ANNOTATIONS) and _NODE_GROUP_VALUE.fullmatch(value):
        return value
    return value if value in KEPT_ANNOTATION_VALUES else rewriter.name(value)


def _replace_pair(rewriter: Rewriter, text: str) -> str:
    """Replace the key and value of ``key=value`` or ``key=value:effect``."""
    key, equals, rest = text.partition("=")
    value, colon, effect = rest.partition(":")
    return f"{rewriter.key(key)}{equals}{rewriter.label(key, value)}{colon}{effect}"
