"""The kinds of objects that plugins read, and so what to read from a cluster."""

from __future__ import annotations

from collections.abc import Iterable

from kschedctl.api.objects import PodSpec
from kschedctl.scheduler.framework.declaration import Declaration
from kschedctl.scheduler.framework.feature_gates import GATE_STAGES, FeatureGates

ALWAYS_READ = ("Node", "Pod", "Namespace", "PriorityClass")
"""Kinds that are read for every answer."""

READ_FOR_NEW_PODS = ("RuntimeClass", "ResourceClaimTemplate")
"""Kinds that are read if pods may be created; their content becomes part of new pods."""


def list_kinds_read(plugins: Iterable[Declaration], gates: FeatureGates) -> tuple[str, ...]:
    """Return the kinds that the plugins read, starting with those that every answer needs."""
    kinds = list(ALWAYS_READ)
    for plugin in plugins:
        kinds += plugin.kinds
        gated = ((kind, gate.at(gates.release)) for kind, gate in plugin.gated_kinds.items())
        kinds += (kind for kind, gate in gated if gate in GATE_STAGES and gates.enabled(gate))
    return tuple(dict.fromkeys(kinds))


def find_needless_kinds(plugins: Iterable[Declaration], specs: Iterable[PodSpec]) -> dict[str, str]:
    """Return the kinds that cannot affect any answer about these pods, each with the reason.

    `specs` are all pods of the cluster, also the running ones, since a displaced pod may have to be placed again.
    """
    plugin_list, pod_specs = list(plugins), list(specs)
    traits = {plugin.kinds_matter_to for plugin in plugin_list if plugin.kinds_matter_to is not None}
    absent = {trait for trait in traits if not any(map(trait.has_trait, pod_specs))}
    needed: set[str] = set()
    reason_by_kind: dict[str, str] = {}
    for plugin in plugin_list:
        trait = plugin.kinds_matter_to
        if trait in absent:
            reason_by_kind.update(dict.fromkeys(plugin.all_kinds, trait.absence_reason))
        else:
            needed.update(plugin.all_kinds)
    return {kind: reason for kind, reason in reason_by_kind.items() if kind not in needed}
