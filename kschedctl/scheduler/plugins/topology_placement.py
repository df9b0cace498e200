"""TopologyPlacementGenerator and PodGroupPodsCount: plugins that propose and score placements of a pod group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kschedctl.api.arrays import Scores
from kschedctl.api.objects import AnyGroup
from kschedctl.scheduler.engine.pod_groups.hierarchy import find_placed_pods
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.framework.declaration import IS_GROUPED, DeclaredPlugin
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE
from kschedctl.snapshot.fork import Fork

if TYPE_CHECKING:
    from kschedctl.scheduler.engine.pod_groups.placement import GroupPlacement, PodGroupAssignments

UNKNOWN_DOMAIN = "cannot determine domain for already scheduled pods: "


class TopologyPlacementGenerator(DeclaredPlugin):
    """Plugin that generates a placement of a pod group for each domain of the topology in the group's constraint.

    If pods of the group already run, the only placement is their domain.

    Upstream: pkg/scheduler/framework/plugins/topologyaware (v1.36, v1.37).
    """

    name = "TopologyPlacementGenerator"
    points = ("placementGenerate",)
    gate = "TopologyAwareWorkloadScheduling"
    since = 36
    kinds = ("PodGroup",)
    kinds_matter_to = IS_GROUPED

    def generate_placements(self, group: AnyGroup, view: Fork, parent: GroupPlacement) -> list[GroupPlacement]:
        """Return a placement for each topology domain within the parent placement, sorted by the domain's name.

        A group with running pods gets only the placement for their domain. A group without a topology constraint gets
        only the parent placement. Only the group's first topology constraint counts. Raises PluginError if the group's
        running pods are in no domain or in several.
        """
        from kschedctl.scheduler.engine.pod_groups.placement import GroupPlacement  # noqa: PLC0415 - only with PodGroups

        constraints = group.spec.scheduling_constraints
        if constraints is None or not constraints.topology:
            return [parent]
        key = constraints.topology[0].key  # upstream uses only the first one
        column = view.nodes.label(key)
        required_domain = _find_domain_of_running_pods(group, view, key)
        codes = column.codes[parent.rows]
        has_label = codes >= 0
        placements = []
        for code in np.unique(codes[has_label]).tolist():
            domain = column.values[code]
            if required_domain in (None, domain):
                placements.append(GroupPlacement(domain, parent.rows[codes == code]))
        return sorted(placements, key=lambda placement: placement.name)


def _find_domain_of_running_pods(group: AnyGroup, view: Fork, key: str) -> str | None:
    """Return the topology domain, by the label `key`, of the group's running pods, or None if no pod runs.

    Raises PluginError if the node of a pod is missing or lacks the label, or if the pods are in several domains.
    """
    column = view.nodes.label(key)
    domain = ""
    running_positions = find_placed_pods(view, group).tolist()
    for position in running_positions:
        pod = view.pods.objects[position]
        row = int(view.node[position])
        if row < 0:
            problem = f'nodeinfo not found for node name "{pod.spec.node_name}"'
            raise PluginError(f"{UNKNOWN_DOMAIN}getting node for pod {pod.key}: {problem}")
        if column.codes[row] < 0:
            raise PluginError(f"{UNKNOWN_DOMAIN}no topology domain found for pod {pod.key}")
        value = column.values[column.codes[row]]
        if domain not in ("", value):
            raise PluginError(f"{UNKNOWN_DOMAIN}more than 1 domain found for pod group: {domain}, {value}")
        domain = value
    return domain if running_positions else None


NO_PODS_ASSIGNED = "no pods from pod group are assigned to any of the candidate placements"


class PodGroupPodsCount(DeclaredPlugin):
    """Plugin that scores placements by the number of running and newly placed pods, normalized to 100 for the largest.

    Upstream: pkg/scheduler/framework/plugins/podgrouppodscount (v1.36, v1.37).
    """

    name = "PodGroupPodsCount"
    points = ("placementScore",)
    default_weight = 1
    gate = "TopologyAwareWorkloadScheduling"
    since = 36

    def score_placement(self, group: AnyGroup, view: Fork, proposal: PodGroupAssignments) -> int:
        """Return the number of the group's running pods plus the number of pods that the proposal places."""
        return len(find_placed_pods(view, group)) + len(proposal.assignments)

    def normalize_placements(self, scores: Scores) -> Scores:
        """Scale the pod counts of the placements so that the largest becomes 100.

        Raises PluginError if all counts are 0.
        """
        largest = int(scores.max(initial=0))
        if largest == 0:
            raise PluginError(NO_PODS_ASSIGNED)
        return scores * MAX_NODE_SCORE // largest
