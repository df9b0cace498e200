"""The extension points of the scheduling framework, and how to tell at which of them a plugin runs.

Upstream: pkg/scheduler/framework/runtime/framework.go (v1.36: getExtensionPoints).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ExtensionPoint(NamedTuple):
    """Upstream's name of the interface of the plugins that run there, and the methods that make a class of ours one.

    Without methods it is a point that is not replayed: a plugin says itself that it runs there.
    """

    interface: str
    methods: tuple[str, ...] = ()


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
"""In the order in which they are set up, by the names that a configuration has for them."""


def points_by_methods(plugin: object) -> frozenset[str]:
    """The points at which a plugin runs by the methods that it, or its class, has."""
    return frozenset(
        name
        for name, point in EXTENSION_POINTS.items()
        if point.methods and all(callable(getattr(plugin, method, None)) for method in point.methods)
    )
