"""NodeDeclaredFeatures: features of the kubelet that the pod relies on."""

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
    required_state,
)
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.events import NODE, POD, ActionType, ChangedObject, ClusterEventWithHint
from kschedctl.scheduler.framework.facts import Fact
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.waking import ADD, UPDATE, WakeTrigger, join_words
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork, same_pod
from kschedctl.snapshot.pod_info import PodInfo

RESTART_ALL, HOST_NETWORK = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"
MOUNT_OPTIONS = "VolumeBindMountOptions"
"""Needed by pods with bindMountOptions, which are not read: without the gate, alpha in 1.37, no pod has any."""
REASON = ByVersion(
    "the reason for features that a node does not declare",
    (
        ("", "node declared features check failed - unsatisfied requirements: {}"),
        ("1.36", "node(s) didn't match Pod's required features"),
    ),
    "#136042",
)


INFERRED: ByVersion[frozenset[str]] = ByVersion(
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
    """Rejects nodes that do not declare a feature which the pod's spec needs.

    Upstream: pkg/scheduler/framework/plugins/nodedeclaredfeatures and component-helpers/nodedeclaredfeatures (v1.36).
    """

    name = "NodeDeclaredFeatures"
    facts = (FeaturesNotDeclared,)
    changed = (
        REASON,
        INFERRED,
    )
    needs_state: ClassVar[Mapping[str, str]] = {"filter": "preFilter"}
    gate = "NodeDeclaredFeatures"
    since = 35
    reads = Reads.NODES

    def __init__(self, enabled: bool, version: KubeVersion = VERIFIED) -> None:
        self.enabled, self.reason = enabled, REASON.at(version)
        self.inferred = INFERRED.at(version)

    @classmethod
    def make(cls, args: None, gates: FeatureGates) -> Self:
        return cls(gates.enabled("NodeDeclaredFeatures"), gates.release)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[frozenset[str]]:
        needed = required_features(info.spec) & self.inferred
        return PreFilterResult(state=needed) if self.enabled and needed else PRE_FILTER_SKIP

    def filter(self, info: PodInfo, view: Fork, state: frozenset[str] | None, delta: Delta) -> Iterator[Rejection]:
        if not self.enabled:
            return
        needed = required_state(state, 'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found')
        declared, which = view.nodes.declared_features
        lacking = [tuple(sorted(needed - set(features))) for features in declared]
        reasons = [self.reason.format(", ".join(missing)) if missing else "" for missing in lacking]
        for reason in dict.fromkeys(filter(None, reasons)):
            refused = np.array([text == reason for text in reasons], np.bool_)[which]
            yield Rejection(refused, Code.UNRESOLVABLE, reason, lambda row: FeaturesNotDeclared(lacking[which[row]]))

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        if self.enabled:
            actions = ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
            yield ClusterEventWithHint(NODE, actions, self._after_node_change)
            yield ClusterEventWithHint(POD, ActionType.UPDATE, self._after_pod_update)

    def _after_node_change(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """A node that is new or declares other features."""
        return change.old is None or change.differs("status", "declared_features")

    def _after_pod_update(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """The pod itself, when it comes to need other features."""
        if not same_pod(change.new, info.pod):
            return False
        old, new = (required_features(pod.spec) & self.inferred for pod in (change.old, change.new))
        return old != new

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        needed = join_words(sorted(required_features(info.spec) & self.inferred)) or "what the pod needs"
        yield WakeTrigger(NODE, ADD, f"a node is added (the pod needs one that declares {needed})")
        yield WakeTrigger(
            NODE, ActionType.UPDATE_NODE_DECLARED_FEATURE, f"a node declares other features (needed: {needed})"
        )
        yield WakeTrigger(POD, UPDATE, "the features that the pod needs change")

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        return {"features": sorted(required_features(info.spec) & self.inferred)}


def required_features(spec: PodSpec) -> frozenset[str]:
    """The features that a pod cannot be started without, as far as any version knows."""
    needed = set()
    rules = (rule for c in (*spec.containers, *spec.init_containers) for rule in c.restart_policy_rules)
    if any(rule.action == "RestartAllContainers" for rule in rules):
        needed.add(RESTART_ALL)
    if spec.host_network and spec.host_users is False:
        needed.add(HOST_NETWORK)
    return frozenset(needed)
