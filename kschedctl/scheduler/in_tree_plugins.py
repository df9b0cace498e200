"""The plugins that are part of kube-scheduler: where each one runs, and which ones a profile has by default.

Upstream: pkg/scheduler/framework/plugins (v1.36: registry.go and the interfaces that each plugin implements),
pkg/scheduler/framework/runtime/framework.go (extension points) and pkg/scheduler/apis/config/v1/default_plugins.go.
"""

from __future__ import annotations

EXTENSION_POINTS: dict[str, str] = {
    "preFilter": "PreFilterPlugin",
    "filter": "FilterPlugin",
    "postFilter": "PostFilterPlugin",
    "reserve": "ReservePlugin",
    "preScore": "PreScorePlugin",
    "score": "ScorePlugin",
    "preBind": "PreBindPlugin",
    "bind": "BindPlugin",
    "postBind": "PostBindPlugin",
    "permit": "PermitPlugin",
    "preEnqueue": "PreEnqueuePlugin",
    "queueSort": "QueueSortPlugin",
    "placementGenerate": "PlacementGeneratePlugin",
    "placementScore": "PlacementScorePlugin",
}
"""Extension point -> the interface that a plugin implements to run there, in the order in which they are set up."""

_IN_TREE = {
    "DefaultBinder": "bind",
    "DefaultPreemption": "preEnqueue postFilter",
    "DynamicResources": "preEnqueue preFilter filter postFilter score reserve preBind",
    "GangScheduling": "preEnqueue permit",
    "ImageLocality": "score",
    "InterPodAffinity": "preFilter filter preScore score",
    "NodeAffinity": "preFilter filter preScore score",
    "NodeDeclaredFeatures": "preFilter filter",
    "NodeName": "filter",
    "NodePorts": "preFilter filter",
    "NodeResourcesBalancedAllocation": "preScore score",
    "NodeResourcesFit": "preFilter filter preScore score placementScore",
    "NodeUnschedulable": "filter",
    "NodeVolumeLimits": "preFilter filter",
    "PodGroupPodsCount": "placementScore",
    "PodTopologySpread": "preFilter filter preScore score",
    "PrioritySort": "queueSort",
    "SchedulingGates": "preEnqueue",
    "TaintToleration": "filter preScore score",
    "TopologyPlacementGenerator": "placementGenerate",
    "VolumeBinding": "preFilter filter reserve preBind preScore score",
    "VolumeRestrictions": "preFilter filter",
    "VolumeZone": "preFilter filter",
}
IN_TREE = {name: frozenset(points.split()) for name, points in _IN_TREE.items()}
"""In-tree plugin -> the extension points that it implements."""

FORMER_PLUGINS = frozenset(
    {
        *("NodeLabel", "NodePreferAvoidPods", "ServiceAffinity", "SelectorSpread", "NodeResourcesLeastAllocated"),
        *("NodeResourcesMostAllocated", "RequestedToCapacityRatio"),
        *("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"),
    }
)
"""Plugins that were in-tree in earlier versions: who enables one of them means kube-scheduler's own, which is gone."""

DEFAULT_PLUGINS: dict[str, int | None] = {
    "SchedulingGates": None,
    "PrioritySort": None,
    "NodeUnschedulable": None,
    "NodeName": None,
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodePorts": None,
    "NodeResourcesFit": 1,
    "VolumeRestrictions": None,
    "NodeVolumeLimits": None,
    "VolumeBinding": None,
    "VolumeZone": None,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "DefaultPreemption": None,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "DefaultBinder": None,
    "NodeDeclaredFeatures": None,
    "GangScheduling": None,
    "TopologyPlacementGenerator": None,
    "PodGroupPodsCount": 1,
}
"""The default plugins in order, with their weights."""

GATED_PLUGINS: dict[str, str] = {
    "DynamicResources": "DynamicResourceAllocation",
    "NodeDeclaredFeatures": "NodeDeclaredFeatures",
    "GangScheduling": "GangScheduling",
    "TopologyPlacementGenerator": "TopologyAwareWorkloadScheduling",
    "PodGroupPodsCount": "TopologyAwareWorkloadScheduling",
}
"""Default plugin -> the feature gate without which it is no default."""
