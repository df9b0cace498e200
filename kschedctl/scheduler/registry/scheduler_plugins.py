"""The plugins of kubernetes-sigs/scheduler-plugins, which a profile can only name in a build that contains them.

Upstream: cmd/scheduler/main.go of kubernetes-sigs/scheduler-plugins.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping

from kschedctl.scheduler.framework.declaration import Declaration, PluginClass
from kschedctl.scheduler.registry.third_party import find_third_party_plugins
from kschedctl.scheduler.scheduler_plugins.capacity_scheduling import CapacityScheduling
from kschedctl.scheduler.scheduler_plugins.coscheduling import Coscheduling
from kschedctl.scheduler.scheduler_plugins.node_resource_topology_match import NodeResourceTopologyMatch
from kschedctl.scheduler.scheduler_plugins.node_resources_allocatable import NodeResourcesAllocatable

REPLAYED: tuple[PluginClass, ...] = (
    CapacityScheduling,
    Coscheduling,
    NodeResourcesAllocatable,
    NodeResourceTopologyMatch,
)
"""The replayed plugins. None of them runs unless a profile names it."""

_POINTS = {
    "LoadVariationRiskBalancing": "score",
    "LowRiskOverCommitment": "preScore score",
    "TargetLoadPacking": "score",
    "Peaks": "score",
    "NetworkOverhead": "preFilter filter score",
    "TopologicalSort": "queueSort",
    "NodeMetadata": "score",
    "PreemptionToleration": "postFilter",
    "SySched": "score",
    "PodState": "score",
    "QOSSort": "queueSort",
}
"""Plugins that are not replayed -> where they run. Some look at the load of nodes, which nobody recorded."""

SCHEDULER_PLUGINS: Mapping[str, Declaration] = {
    **{plugin.name: Declaration.from_class(plugin) for plugin in REPLAYED},
    **{name: Declaration(name, frozenset(points.split())) for name, points in _POINTS.items()},
}


def find_registered_plugins(*, other_builds: bool) -> Mapping[str, Declaration]:
    """Return the plugins of installed packages and, with `other_builds`, those of scheduler-plugins.

    A package's plugin takes precedence over one of the same name here. Raises ConfigurationError.
    """
    own = find_third_party_plugins()
    return ChainMap(own, SCHEDULER_PLUGINS) if other_builds else own  # type: ignore[arg-type]  # nothing is written
