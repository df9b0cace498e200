"""NodeDeclaredFeatures plugin: rejects nodes whose kubelet does not declare the features that the pod requires."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

import numpy as np

from kschedctl.api.kube_version import VERIFIED, ByVersion, KubeVersion
from kschedctl.api.objects import PodSpec
from kschedctl.scheduler.framework import (
    PRE_FILTER_SKIP,
    Code,
    Fragment,
    PreFilterResult,
    Reads,
    Rejection,
    require_state,
)
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.events import (
    ADD,
    NODE,
    POD,
    UPDATE,
    ActionType,
    ChangedObject,
    ClusterEventWithHint,
    WakeTrigger,
    join_words,
)
from kschedctl.scheduler.framework.facts import Fact
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork, is_same_pod
from kschedctl.snapshot.pod_info import PodInfo

RESTART_ALL, HOST_NETWORK = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"
MOUNT_OPTIONS = "VolumeBindMountOptions"
"""Needed by pods with bindMountOptions. These are not read, because without the gate (alpha in 1.37) no pod has any."""
REASON = ByVersion(
    "rejection reason when a node does not declare a required feature",
    (
        ("", "node declared features check failed - unsatisfied requirements: {}"),
        ("1.36", "node(s) didn't match Pod's required features"),
    ),
    "#136042",
)


INFERRED_FEATURES: ByVersion[frozenset[str]] = ByVersion(
    "declared features that a pod's spec can require",
    (
        ("", frozenset({RESTART_ALL})),
        ("1.36", frozenset({RESTART_ALL, HOST_NETWORK})),
        ("1.37", frozenset({RESTART_ALL, HOST_NETWORK, MOUNT_OPTIONS})),
    ),
    "component-helpers/nodedeclaredfeatures/features/registry.go",
)


class FeaturesNotDeclared(Fact, frozen=True):
    """Features that the pod needs and the node's kubelet does not declare."""

    features: tuple[str, ...]

    def describe(self) -> str:
        """List the missing features."""
        return f"the node does not declare {', '.join(self.features)}"


class NodeDeclaredFeatures(DeclaredPlugin[frozenset[str], None]):
    """Plugin that rejects nodes that lack a declared feature required by the pod's spec.

    Upstream: pkg/scheduler/framework/plugins/nodedeclaredfeatures and component-helpers/nodedeclaredfeatures (v1.36).
    """

    name = "NodeDeclaredFeatures"
    facts = (FeaturesNotDeclared,)
    changed = (
        REASON,
        INFERRED_FEATURES,
    )
    needs_state: ClassVar[Mapping[str, str]] = {"filter": "preFilter"}
    gate = "NodeDeclaredFeatures"
    since = 35
    reads = Reads.NODES

    def __init__(self, enabled: bool, version: KubeVersion = VERIFIED) -> None:
        self.enabled = enabled
        self.reason = REASON.at(version)
        self.inferred_features = INFERRED_FEATURES.at(version)

    @classmethod
    def make(cls, args: None, gates: FeatureGates) -> Self:
        """Build the plugin for the feature gates and their version. It does nothing without its own gate."""
        return cls(gates.enabled("NodeDeclaredFeatures"), gates.release)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[frozenset[str]]:
        """Return the features that the pod requires as the state for Filter.

        Filter is skipped if the pod requires no features or the plugin's gate is off.
        """
        required = self._find_inferred_features(info.spec)
        if not self.enabled or not required:
            return PRE_FILTER_SKIP
        return PreFilterResult(state=required)

    def _find_inferred_features(self, spec: PodSpec) -> frozenset[str]:
        """Return the features that the pod requires and that this version infers from the spec."""
        return find_required_features(spec) & self.inferred_features

    def filter(self, info: PodInfo, view: Fork, state: frozenset[str] | None, delta: Delta) -> Iterator[Rejection]:
        """Yield rejections, one per reason, of the nodes that do not declare all required features.

        Versions before 1.36 name the missing features in the reason. Newer versions have a single reason. Nothing is
        yielded if the plugin's gate is off.
        """
        if not self.enabled:
            return
        required = require_state(state, 'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found')
        feature_sets, set_of_node = view.nodes.declared_features
        missing_by_set = [tuple(sorted(required - set(features))) for features in feature_sets]
        # The reason is empty for a set that lacks no feature.
        reason_by_set = [self.reason.format(", ".join(missing)) if missing else "" for missing in missing_by_set]

        def build_fact(row: int) -> FeaturesNotDeclared:
            return FeaturesNotDeclared(missing_by_set[set_of_node[row]])

        for reason in dict.fromkeys(filter(None, reason_by_set)):
            has_reason = np.array([text == reason for text in reason_by_set], np.bool_)
            yield Rejection(has_reason[set_of_node], Code.UNRESOLVABLE, reason, build_fact)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events after which a rejected pod may become schedulable, with their hints."""
        if self.enabled:
            actions = ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
            yield ClusterEventWithHint(NODE, actions, self._is_schedulable_after_node_change)
            yield ClusterEventWithHint(POD, ActionType.UPDATE, self._is_schedulable_after_pod_update)

    def _is_schedulable_after_node_change(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """Return whether the node is new or declares different features than before."""
        return change.old is None or change.has_changed("status", "declared_features")

    def _is_schedulable_after_pod_update(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """Return whether the pod itself was updated and now requires different features."""
        if not is_same_pod(change.new, info.pod):
            return False
        return self._find_inferred_features(change.old.spec) != self._find_inferred_features(change.new.spec)

    def iter_waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change that moves a rejected pod back to the queue."""
        required = join_words(sorted(self._find_inferred_features(info.spec))) or "what the pod needs"
        yield WakeTrigger(NODE, ADD, f"a node is added (the pod needs one that declares {required})")
        other_features = f"a node declares other features (needed: {required})"
        yield WakeTrigger(NODE, ActionType.UPDATE_NODE_DECLARED_FEATURE, other_features)
        yield WakeTrigger(POD, UPDATE, "the features that the pod needs change")

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        """Return the sorted features that the pod requires as part of its signature."""
        return {"features": sorted(self._find_inferred_features(info.spec))}


def find_required_features(spec: PodSpec) -> frozenset[str]:
    """Return the features that a kubelet must declare to run the pod.

    Features that only newer versions of kube-scheduler know are included.
    """
    required = set()
    for container in (*spec.containers, *spec.init_containers):
        if any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules):
            required.add(RESTART_ALL)
    if spec.host_network and spec.host_users is False:
        required.add(HOST_NETWORK)
    return frozenset(required)
