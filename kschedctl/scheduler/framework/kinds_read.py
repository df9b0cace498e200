"""Which kinds of objects plugins look at: what to read of a cluster."""

from __future__ import annotations

from collections.abc import Iterable

from kschedctl.api.objects import PodSpec
from kschedctl.scheduler.framework.declaration import Declaration
from kschedctl.scheduler.framework.feature_gates import SPECS, FeatureGates

ALWAYS = ("Node", "Pod", "Namespace", "PriorityClass")
"""Read for every answer. Without nodes and pods there is none."""

OF_NEW_PODS = ("RuntimeClass", "ResourceClaimTemplate")
"""Read where pods may be created: what becomes a part of them then."""


def kinds_of(plugins: Iterable[Declaration], gates: FeatureGates) -> tuple[str, ...]:
    """The kinds that these plugins look at, those first that every answer needs."""
    kinds = list(ALWAYS)
    for plugin in plugins:
        kinds += plugin.kinds
        gated = ((kind, gate.at(gates.release)) for kind, gate in plugin.gated_kinds.items())
        kinds += (kind for kind, gate in gated if gate in SPECS and gates.enabled(gate))
    return tuple(dict.fromkeys(kinds))


def needless(plugins: Iterable[Declaration], specs: Iterable[PodSpec]) -> dict[str, str]:
    """The kinds that no answer about these pods can lean on, in a cluster that has no others, and why that is so.

    All of its pods count, also those that run: one whose place is made free may be placed somewhere else.
    """
    readers, distinct = list(plugins), list(specs)
    traits = {plugin.kinds_matter_to for plugin in readers if plugin.kinds_matter_to is not None}
    absent = {trait for trait in traits if not any(map(trait.of, distinct))}
    needed: set[str] = set()
    unread: dict[str, str] = {}
    for plugin in readers:
        trait = plugin.kinds_matter_to
        if trait in absent:
            unread.update(dict.fromkeys(plugin.all_kinds, trait.none))
        else:
            needed.update(plugin.all_kinds)
    return {kind: why for kind, why in unread.items() if kind not in needed}
