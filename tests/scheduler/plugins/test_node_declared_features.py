"""Check NodeDeclaredFeatures against upstream's own table (plugins/nodedeclaredfeatures; v1.36)."""

from __future__ import annotations

import pytest
from hypothesis import given
from plugin_cases import build_snapshot, find_pod_info, parametrize_cases, run_filter
from small_clusters import UNRESOLVABLE, check_filter, draw_clusters, draw_many, draw_some

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


def draw_rule(random):
    return {"action": random.choice(["Restart", "RestartAllContainers"])}


def draw_pending_pod(random):
    return {
        "containers": draw_many(random, 2, lambda r: {"restartPolicyRules": draw_many(r, 1, draw_rule)}),
        **draw_some(random, hostNetwork=random.random() < 0.5, hostUsers=random.random() < 0.5),
    }


def draw_declaring_node(random):
    return {"status": {"declaredFeatures": random.sample(FEATURES, random.randint(0, 2))}}


@given(draw_clusters(pending=draw_pending_pod, node=draw_declaring_node))
def test_naive_filter(cluster):
    check_filter(NodeDeclaredFeatures(enabled=True), cluster, filter_naively)


def filter_naively(cluster, node, pods):
    spec, needed = cluster.pending["spec"], set()
    for container in spec["containers"]:
        if {"action": "RestartAllContainers"} in container["restartPolicyRules"]:
            needed.add(FEATURES[0])
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        needed.add(FEATURES[1])
    if needed <= set(node["status"]["declaredFeatures"]):
        return None
    return UNRESOLVABLE, ["node(s) didn't match Pod's required features"]
