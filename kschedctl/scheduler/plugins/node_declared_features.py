"""NodeDeclaredFeatures: features of the kubelet that the pod relies on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from kschedctl.api.objects import PodSpec
from kschedctl.scheduler.configuration.feature_gates import FeatureGates
from kschedctl.scheduler.declaration import DeclaredPlugin
from kschedctl.scheduler.facts import FeaturesNotDeclared
from kschedctl.scheduler.framework import PRE_FILTER_SKIP, Code, PreFilterResult, Reads, Rejection, required_state
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

REASON = "node(s) didn't match Pod's required features"


class NodeDeclaredFeatures(DeclaredPlugin):
    """Rejects nodes that do not declare a feature which the pod's spec needs.

    Upstream: pkg/scheduler/framework/plugins/nodedeclaredfeatures and component-helpers/nodedeclaredfeatures (v1.36).
    """

    name = "NodeDeclaredFeatures"
    gate = "NodeDeclaredFeatures"
    reads = Reads.NODES

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled

    @classmethod
    def make(cls, args: None, gates: FeatureGates) -> Self:
        return cls(gates.enabled("NodeDeclaredFeatures"))

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult:
        needed = required_features(info.spec)
        return PreFilterResult(state=needed) if self.enabled and needed else PRE_FILTER_SKIP

    def filter(self, info: PodInfo, view: Fork, state: Any, delta: Delta) -> Iterator[Rejection]:
        if not self.enabled:
            return
        needed = required_state(state, 'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found')
        declared, which = view.nodes.declared_features
        lacking = np.array([not needed <= set(features) for features in declared], np.bool_)
        yield Rejection(
            lacking[which],
            Code.UNRESOLVABLE,
            REASON,
            lambda row: FeaturesNotDeclared(tuple(sorted(needed - set(declared[which[row]])))),
        )


def required_features(spec: PodSpec) -> frozenset[str]:
    """The features that a pod cannot be started without."""
    needed = set()
    rules = (rule for c in (*spec.containers, *spec.init_containers) for rule in c.restart_policy_rules)
    if any(rule.action == "RestartAllContainers" for rule in rules):
        needed.add("RestartAllContainersOnContainerExits")
    if spec.host_network and spec.host_users is False:
        needed.add("UserNamespacesHostNetworkSupport")
    return frozenset(needed)
