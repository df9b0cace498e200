"""The extension points of the scheduling framework, and the points at which a plugin runs.

Upstream: pkg/scheduler/framework/runtime/framework.go (v1.36: getExtensionPoints).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ExtensionPoint(NamedTuple):
    """Upstream's interface for an extension point, and the methods that implement it here."""

    interface: str
    methods: tuple[str, ...] = ()
    """Empty for a point that is not replayed; plugins declare in `points` that they run there."""


EXTENSION_POINTS: Mapping[str, ExtensionPoint] = {
    "preFilter": ExtensionPoint("PreFilterPlugin", ("pre_filter",)),
    "filter": ExtensionPoint("FilterPlugin", ("filter",)),
    "postFilter": ExtensionPoint("PostFilterPlugin", ("post_filter",)),
    "reserve": ExtensionPoint("ReservePlugin", ("reserve", "release", "reservation")),
    "preScore": ExtensionPoint("PreScorePlugin", ("pre_score",)),
    "score": ExtensionPoint("ScorePlugin", ("score", "normalize")),
    "preBind": ExtensionPoint("PreBindPlugin"),
    "bind": ExtensionPoint("BindPlugin"),
    "postBind": ExtensionPoint("PostBindPlugin"),
    "permit": ExtensionPoint("PermitPlugin", ("permit",)),
    "preEnqueue": ExtensionPoint("PreEnqueuePlugin", ("pre_enqueue",)),
    "queueSort": ExtensionPoint("QueueSortPlugin"),
    "placementGenerate": ExtensionPoint("PlacementGeneratePlugin"),
    "placementScore": ExtensionPoint("PlacementScorePlugin"),
}
"""Name in a configuration -> extension point, in the order in which upstream sets them up."""


def find_extension_points(plugin: object) -> frozenset[str]:
    """Return the extension points whose methods a plugin, or its class, has."""
    return frozenset(
        name
        for name, point in EXTENSION_POINTS.items()
        if point.methods and all(callable(getattr(plugin, method, None)) for method in point.methods)
    )
