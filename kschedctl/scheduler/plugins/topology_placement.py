"""TopologyPlacementGenerator: a group with a topology constraint is placed in one domain of that topology."""

from __future__ import annotations

import numpy as np

from kschedctl.api.objects import AnyGroup
from kschedctl.scheduler.engine.pod_groups.hierarchy import scheduled_below
from kschedctl.scheduler.engine.pod_groups.placement import GroupPlacement
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.pod_traits import IS_GROUPED
from kschedctl.snapshot.fork import Fork

UNKNOWN = "cannot determine domain for already scheduled pods: "


class TopologyPlacementGenerator(DeclaredPlugin):
    """A placement for each value that the constraint's label has on the nodes; where pods of the group run, theirs.

    Upstream: pkg/scheduler/framework/plugins/topologyaware (v1.36, v1.37).
    """

    name = "TopologyPlacementGenerator"
    points = ("placementGenerate",)
    gate = "TopologyAwareWorkloadScheduling"
    since = 36
    kinds = ("PodGroup",)
    kinds_matter_to = IS_GROUPED

    def generate_placements(self, group: AnyGroup, view: Fork, parent: GroupPlacement) -> list[GroupPlacement]:
        """Raises PluginError when the pods that run are in no domain, or in several."""
        constraints = group.spec.scheduling_constraints
        if constraints is None or not constraints.topology:
            return [parent]
        column = view.nodes.label(constraints.topology[0].key)
        required = _domain_of_scheduled(group, view, constraints.topology[0].key)
        codes = column.codes[parent.rows]
        domains = np.unique(codes[codes >= 0]).tolist()
        placements = [GroupPlacement(column.values[code], parent.rows[codes == code]) for code in domains]
        return sorted(
            (placement for placement in placements if required in (None, placement.name)),
            key=lambda placement: placement.name,
        )


def _domain_of_scheduled(group: AnyGroup, view: Fork, key: str) -> str | None:
    """Where the pods of the group are that have a node, None where none has. Raises PluginError."""
    column, domain = view.nodes.label(key), ""
    scheduled = scheduled_below(view, group).tolist()
    for position in scheduled:
        pod, row = view.pods.objects[position], int(view.node[position])
        if row < 0:
            what = f'nodeinfo not found for node name "{pod.spec.node_name}"'
            raise PluginError(f"{UNKNOWN}getting node for pod {pod.key}: {what}")
        if column.codes[row] < 0:
            raise PluginError(f"{UNKNOWN}no topology domain found for pod {pod.key}")
        value = column.values[column.codes[row]]
        if domain not in ("", value):
            raise PluginError(f"{UNKNOWN}more than 1 domain found for pod group: {domain}, {value}")
        domain = value
    return domain if scheduled else None
