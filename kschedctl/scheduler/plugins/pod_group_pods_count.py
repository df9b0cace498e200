"""PodGroupPodsCount plugin: prefers the placement in which most pods of a group get a node."""

from __future__ import annotations

from kschedctl.api.arrays import Scores
from kschedctl.api.objects import AnyGroup
from kschedctl.scheduler.engine.pod_groups.hierarchy import find_placed_pods
from kschedctl.scheduler.engine.pod_groups.placement import PodGroupAssignments
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE
from kschedctl.snapshot.fork import Fork

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
        return len(find_placed_pods(view, group)) + len(proposal.assignments)

    def normalize_placements(self, scores: Scores) -> Scores:
        """Scale the pod counts so that the largest becomes 100.

        Raises PluginError if no placement has any pod.
        """
        largest = int(scores.max(initial=0))
        if largest == 0:
            raise PluginError(NO_PODS_ASSIGNED)
        return scores * MAX_NODE_SCORE // largest
