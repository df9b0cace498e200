"""Check NodeDeclaredFeatures against upstream's own table (plugins/nodedeclaredfeatures; v1.36)."""

from __future__ import annotations

import pytest
from hypothesis import given
from plugin_cases import build_snapshot, find_pod_info, parametrize_cases, run_filter
from small_clusters import UNRESOLVABLE, check_filter, clusters, many, some_of

from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.plugins.node_declared_features import NodeDeclaredFeatures


@parametrize_cases("nodedeclaredfeatures", "filter")
def test_filter(case):
    """The table puts its own features into the PreFilter state. None means that PreFilter did not run."""
    view = build_snapshot(case)
    info, plugin = find_pod_info(case, view), NodeDeclaredFeatures(case["pluginEnabled"])
    state = None if case.get("requiredFeatures") is None else frozenset(case["requiredFeatures"])
    wanted = case["want"]["filter"]
    if any(status["code"] == "Error" for status in wanted.values()):
        with pytest.raises(PluginError, match="not found"):
            run_filter(plugin, info, view, state)
    else:
        assert run_filter(plugin, info, view, state) == wanted


FEATURES = ["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"]


def rule(random):
    return {"action": random.choice(["Restart", "RestartAllContainers"])}


def pending(random):
    return {
        "containers": many(random, 2, lambda r: {"restartPolicyRules": many(r, 1, rule)}),
        **some_of(random, hostNetwork=random.random() < 0.5, hostUsers=random.random() < 0.5),
    }


def declaring(random):
    return {"status": {"declaredFeatures": random.sample(FEATURES, random.randint(0, 2))}}


@given(clusters(pending=pending, node=declaring))
def test_naive_filter(cluster):
    check_filter(NodeDeclaredFeatures(enabled=True), cluster, naive_filter)


def naive_filter(cluster, node, pods):
    spec, needed = cluster.pending["spec"], set()
    for container in spec["containers"]:
        if {"action": "RestartAllContainers"} in container["restartPolicyRules"]:
            needed.add(FEATURES[0])
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        needed.add(FEATURES[1])
    if needed <= set(node["status"]["declaredFeatures"]):
        return None
    return UNRESOLVABLE, ["node(s) didn't match Pod's required features"]
