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
    "the reason for features that a node does not declare",
    (
        ("", "node declared features check failed - unsatisfied requirements: {}"),
        ("1.36", "node(s) didn't match Pod's required features"),
    ),
    "#136042",
)


INFERRED_FEATURES: ByVersion[frozenset[str]] = ByVersion(
    "the features that a pod's spec may need",
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

    def words(self) -> str:
        return f"not declared: {', '.join(self.features)}"


class NodeDeclaredFeatures(DeclaredPlugin[frozenset[str], None]):
    """Plugin that rejects nodes that do not declare a feature that the pod's spec requires.

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
        return cls(gates.enabled("NodeDeclaredFeatures"), gates.release)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[frozenset[str]]:
        """Collect the features that the pod requires, or skip Filter if there are none."""
        required = find_required_features(info.spec) & self.inferred_features
        return PreFilterResult(state=required) if self.enabled and required else PRE_FILTER_SKIP

    def filter(self, info: PodInfo, view: Fork, state: frozenset[str] | None, delta: Delta) -> Iterator[Rejection]:
        """Yield a rejection for each reason, with the nodes that lack required features."""
        if not self.enabled:
            return
        required = require_state(state, 'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found')
        feature_sets, set_of_node = view.nodes.declared_features
        missing_features = [tuple(sorted(required - set(features))) for features in feature_sets]
        reasons = [self.reason.format(", ".join(missing)) if missing else "" for missing in missing_features]
        for reason in dict.fromkeys(filter(None, reasons)):
            rejected = np.array([text == reason for text in reasons], np.bool_)[set_of_node]
            yield Rejection(
                rejected, Code.UNRESOLVABLE, reason, lambda row: FeaturesNotDeclared(missing_features[set_of_node[row]])
            )

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events after which a rejected pod may become schedulable, with their hints."""
        if self.enabled:
            actions = ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
            yield ClusterEventWithHint(NODE, actions, self._is_schedulable_after_node_change)
            yield ClusterEventWithHint(POD, ActionType.UPDATE, self._is_schedulable_after_pod_update)

    def _is_schedulable_after_node_change(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """Return whether the node is new or declares different features than before."""
        return change.old is None or change.differs("status", "declared_features")

    def _is_schedulable_after_pod_update(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """Return whether the pod itself was updated and now requires different features."""
        if not is_same_pod(change.new, info.pod):
            return False
        old, new = (find_required_features(pod.spec) & self.inferred_features for pod in (change.old, change.new))
        return old != new

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change that moves a rejected pod back to the queue."""
        required = (
            join_words(sorted(find_required_features(info.spec) & self.inferred_features)) or "what the pod needs"
        )
        yield WakeTrigger(NODE, ADD, f"a node is added (the pod needs one that declares {required})")
        yield WakeTrigger(
            NODE, ActionType.UPDATE_NODE_DECLARED_FEATURE, f"a node declares other features (needed: {required})"
        )
        yield WakeTrigger(POD, UPDATE, "the features that the pod needs change")

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        return {"features": sorted(find_required_features(info.spec) & self.inferred_features)}


def find_required_features(spec: PodSpec) -> frozenset[str]:
    """Return the features, of all supported versions, that the kubelet must declare to run the pod."""
    required = set()
    rules = (rule for c in (*spec.containers, *spec.init_containers) for rule in c.restart_policy_rules)
    if any(rule.action == "RestartAllContainers" for rule in rules):
        required.add(RESTART_ALL)
    if spec.host_network and spec.host_users is False:
        required.add(HOST_NETWORK)
    return frozenset(required)
