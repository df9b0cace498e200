"""PodGroupPodsCount: the placement in which most pods of a group have a node is best."""

from __future__ import annotations

from kschedctl.api.arrays import Scores
from kschedctl.api.objects import AnyGroup
from kschedctl.scheduler.engine.pod_groups.hierarchy import scheduled_below
from kschedctl.scheduler.engine.pod_groups.placement import PodGroupAssignments
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE
from kschedctl.snapshot.fork import Fork

NOBODY = "no pods from pod group are assigned to any of the candidate placements"


class PodGroupPodsCount(DeclaredPlugin):
    """Counts the pods that run and those that would be placed, 100 for the most.

    Upstream: pkg/scheduler/framework/plugins/podgrouppodscount (v1.36, v1.37).
    """

    name = "PodGroupPodsCount"
    points = ("placementScore",)
    default_weight = 1
    gate = "TopologyAwareWorkloadScheduling"
    since = 36

    def score_placement(self, group: AnyGroup, view: Fork, proposal: PodGroupAssignments) -> int:
        return len(scheduled_below(view, group)) + len(proposal.assignments)

    def normalize_placements(self, scores: Scores) -> Scores:
        largest = int(scores.max(initial=0))
        if largest == 0:
            raise PluginError(NOBODY)
        return scores * MAX_NODE_SCORE // largest
