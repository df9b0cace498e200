"""The in-tree plugins of kube-scheduler in default order, with the union of their fact types.

Only plugins in this list are replayed. Upstream: pkg/scheduler/framework/plugins/registry.go and
pkg/scheduler/apis/config/v1/default_plugins.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Union

from kschedctl.api.objects import Struct
from kschedctl.scheduler.framework.declaration import Declaration, PluginClass
from kschedctl.scheduler.framework.facts import Fact, Said
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.default_preemption import DefaultPreemption
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from kschedctl.scheduler.plugins.gang_scheduling import GangScheduling
from kschedctl.scheduler.plugins.image_locality import ImageLocality
from kschedctl.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kschedctl.scheduler.plugins.node_affinity import NodeAffinity
from kschedctl.scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from kschedctl.scheduler.plugins.node_name import NodeName
from kschedctl.scheduler.plugins.node_ports import NodePorts
from kschedctl.scheduler.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from kschedctl.scheduler.plugins.node_resources.fit import NodeResourcesFit
from kschedctl.scheduler.plugins.node_unschedulable import NodeUnschedulable
from kschedctl.scheduler.plugins.node_volume_limits.non_csi_limits import (
    AzureDiskLimits,
    CinderLimits,
    EBSLimits,
    GCEPDLimits,
)
from kschedctl.scheduler.plugins.node_volume_limits.plugin import NodeVolumeLimits
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.scheduler.plugins.priority_sort import PrioritySort
from kschedctl.scheduler.plugins.scheduling_gates import SchedulingGates
from kschedctl.scheduler.plugins.taint_toleration import TaintToleration
from kschedctl.scheduler.plugins.topology_placement import PodGroupPodsCount, TopologyPlacementGenerator
from kschedctl.scheduler.plugins.volume_binding.plugin import VolumeBinding
from kschedctl.scheduler.plugins.volume_restrictions import VolumeRestrictions
from kschedctl.scheduler.plugins.volume_zone import VolumeZone

PLUGINS: tuple[PluginClass | Declaration, ...] = (
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    EBSLimits,
    GCEPDLimits,
    NodeVolumeLimits,
    AzureDiskLimits,
    CinderLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    Declaration("DefaultBinder", frozenset({"bind"})),
    NodeDeclaredFeatures,
    GangScheduling,
    TopologyPlacementGenerator,
    PodGroupPodsCount,
)
"""The class of each plugin, or a declaration of one that is not replayed."""

IN_TREE: Mapping[str, Declaration] = {
    plugin.name: plugin if isinstance(plugin, Declaration) else Declaration.from_class(plugin) for plugin in PLUGINS
}
"""The declaration of each in-tree plugin of any version by name, in default order."""

REMOVED = frozenset(name for name, entry in IN_TREE.items() if entry.until is not None)
"""In-tree plugins that the newest version no longer has."""

ARGS: Mapping[str, type[Struct]] = {name: entry.args_type for name, entry in IN_TREE.items() if entry.args_type}
"""By plugin, the type of its arguments, if it has some."""


@cache
def get_args_types(minor: int) -> Mapping[str, type[Struct]]:
    """Return the argument types of a minor version's in-tree plugins, by plugin."""
    return {
        name: declaration.args_type for name, declaration in get_in_tree_plugins(minor).items() if declaration.args_type
    }


@cache
def get_in_tree_plugins(minor: int) -> Mapping[str, Declaration]:
    """Return the in-tree plugins of a minor version, in default order."""
    declarations = {name: entry.restrict_to_minor(minor) for name, entry in IN_TREE.items()}
    return {name: declaration for name, declaration in declarations.items() if declaration is not None}


def get_in_tree_plugins_for_gates(gates: FeatureGates) -> Mapping[str, Declaration]:
    """Return the in-tree plugins of the gates' version, in default order.

    If the gates mix versions, each plugin comes from the version that the mix assigns to it.
    """
    if gates.mix is None:
        return get_in_tree_plugins(gates.minor)
    plugins = {}
    for name in IN_TREE:
        minor = gates.release.version_for(f"plugin {name}").minor
        if name in get_in_tree_plugins(minor):
            plugins[name] = get_in_tree_plugins(minor)[name]
    return plugins


if TYPE_CHECKING:
    AnyFact = Fact
else:  # msgspec decodes a fact by its tag, for which it needs the union of all types
    AnyFact = Union[
        (Said, *(fact for declared in IN_TREE.values() if declared.plugin for fact in declared.plugin.facts))
    ]


def to_fact(explanation: Fact | str | None) -> AnyFact | None:
    """Convert a plugin's explanation to a fact, or to None if it is empty.

    Plugins of other packages may return text, which becomes a fact of the type Said.

    >>> to_fact("too loud"), to_fact(Said("too loud", nominated=True)), to_fact("")
    (Said(text='too loud', nominated=False), Said(text='too loud', nominated=True), None)
    """
    if isinstance(explanation, str):
        return Said(explanation) if explanation else None
    return explanation
