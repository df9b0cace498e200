"""The in-tree plugins, each made from its arguments and the feature gates: the one list of what is replayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kschedctl.scheduler.configuration.feature_gates import FeatureGates
from kschedctl.scheduler.dynamic_resources.features import Features
from kschedctl.scheduler.framework import (
    FilterPlugin,
    Plugin,
    PostFilterPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    offers,
)
from kschedctl.scheduler.plugins.default_preemption import DefaultPreemption
from kschedctl.scheduler.plugins.dynamic_resources import DynamicResources
from kschedctl.scheduler.plugins.image_locality import ImageLocality
from kschedctl.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from kschedctl.scheduler.plugins.node_affinity import NodeAffinity
from kschedctl.scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from kschedctl.scheduler.plugins.node_name import NodeName
from kschedctl.scheduler.plugins.node_ports import NodePorts
from kschedctl.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from kschedctl.scheduler.plugins.node_resources_fit import NodeResourcesFit
from kschedctl.scheduler.plugins.node_unschedulable import NodeUnschedulable
from kschedctl.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from kschedctl.scheduler.plugins.pod_topology_spread import PodTopologySpread
from kschedctl.scheduler.plugins.scheduling_gates import SchedulingGates
from kschedctl.scheduler.plugins.taint_toleration import TaintToleration
from kschedctl.scheduler.plugins.volume_binding import VolumeBinding
from kschedctl.scheduler.plugins.volume_restrictions import VolumeRestrictions
from kschedctl.scheduler.plugins.volume_zone import VolumeZone

Factory = Callable[[Any, FeatureGates], Plugin]

PLUGINS: Mapping[str, Factory] = {
    "SchedulingGates": lambda args, gates: SchedulingGates(),
    "NodeUnschedulable": lambda args, gates: NodeUnschedulable(gates.enabled("TaintTolerationComparisonOperators")),
    "NodeName": lambda args, gates: NodeName(),
    "TaintToleration": lambda args, gates: TaintToleration(gates.enabled("TaintTolerationComparisonOperators")),
    "NodeAffinity": lambda args, gates: NodeAffinity(args.added_affinity),
    "NodePorts": lambda args, gates: NodePorts(),
    "NodeResourcesFit": lambda args, gates: NodeResourcesFit(args, Features.of(gates)),
    "VolumeRestrictions": lambda args, gates: VolumeRestrictions(),
    "NodeVolumeLimits": lambda args, gates: NodeVolumeLimits(gates.enabled("VolumeLimitScaling")),
    "VolumeBinding": lambda args, gates: VolumeBinding(
        args.shape if gates.enabled("StorageCapacityScoring") else None, gates.enabled("VolumeAttributesClass")
    ),
    "VolumeZone": lambda args, gates: VolumeZone(),
    "PodTopologySpread": lambda args, gates: PodTopologySpread(
        args,
        match_label_keys=gates.enabled("MatchLabelKeysInPodTopologySpread"),
        inclusion_policies=gates.enabled("NodeInclusionPolicyInPodTopologySpread"),
        comparison_operators=gates.enabled("TaintTolerationComparisonOperators"),
    ),
    "InterPodAffinity": lambda args, gates: InterPodAffinity(args, as_documented=gates.minor < 34),
    "DynamicResources": lambda args, gates: DynamicResources(args, Features.of(gates)),
    "DefaultPreemption": lambda args, gates: DefaultPreemption(args),
    "NodeResourcesBalancedAllocation": lambda args, gates: NodeResourcesBalancedAllocation(args, Features.of(gates)),
    "ImageLocality": lambda args, gates: ImageLocality(),
    "NodeDeclaredFeatures": lambda args, gates: NodeDeclaredFeatures(gates.enabled("NodeDeclaredFeatures")),
}

POINTS: Mapping[str, type] = {
    "preEnqueue": PreEnqueuePlugin,
    "preFilter": PreFilterPlugin,
    "filter": FilterPlugin,
    "postFilter": PostFilterPlugin,
    "preScore": PreScorePlugin,
    "score": ScorePlugin,
}
"""Extension point -> the protocol of the plugins that run there."""


def extension_points(plugin: object) -> frozenset[str]:
    """The points at which a plugin runs, by the methods that it has."""
    return frozenset(point for point, protocol in POINTS.items() if offers(plugin, protocol))
