"""Replay each step of a `consolidate` plan from scratch, one full cycle per move.

The manifests are carried along by hand: the node cordoned, one pod deleted as its budget allows, its successor placed.
"""

from __future__ import annotations

from copy import deepcopy

import pytest
from small import Json
from test_consolidate import build_constrained_cluster, consolidate_nodes

from kschedctl.cluster import Cluster
from kschedctl.commands.consolidate.report import NodeConsolidation
from kschedctl.scheduler.scheduler import Scheduler

CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def cordon(node: Json) -> None:
    node["spec"]["unschedulable"] = True
    node["spec"].setdefault("taints", []).append(CORDON)


def may_go(pod: Json, budgets: list[Json]) -> bool:
    """Return whether every budget that selects the pod allows one disruption at a time."""
    mine = [b for b in budgets if b["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()]
    return all(budget["status"]["disruptionsAllowed"] > 0 for budget in mine)


def find_best_nodes(objects: list[Json], name: str) -> list[str]:
    """Return the nodes on which kube-scheduler may place a waiting pod, by a full cycle."""
    scheduler = Scheduler(Cluster.from_objects(objects))
    framework, waiting = scheduler.find_framework("default-scheduler"), scheduler.cluster.pod("d", name)
    assert framework is not None
    assert waiting is not None
    return [scheduler.view.nodes.names[row] for row in scheduler.run_cycle(framework, waiting).scores.best.tolist()]


def apply_plan(objects: list[Json], report: NodeConsolidation) -> list[Json]:
    """Return the manifests after the plan. Fail if a step breaks a budget or a pod gets another node, or none."""
    by_name = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    budgets = [each for each in objects if each["kind"] == "PodDisruptionBudget"]
    for step in report.removable:
        cordon(by_name["Node", step.node])
        for move in step.moves:
            pod = by_name["Pod", move.pod.removeprefix("d/")]
            assert pod["spec"]["nodeName"] == step.node
            assert pod["metadata"].get("ownerReferences"), "somebody makes it again"
            assert may_go(pod, budgets)
            del pod["spec"]["nodeName"]
            pod["status"] = {}
            best = find_best_nodes(objects, pod["metadata"]["name"])
            assert move.target in best
            assert move.tied == len(best)
            pod["spec"]["nodeName"] = move.target
            pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        assert step.node not in {each["spec"].get("nodeName") for each in objects if each["kind"] == "Pod"}
    return objects


@pytest.mark.parametrize("share", range(3))
def test_each_step_holds_from_scratch(share: int) -> None:
    moves = 0
    for seed in range(200 + share * 25, 225 + share * 25):
        objects = [
            each for each in build_constrained_cluster(seed) if each["kind"] != "Pod" or each["spec"]["nodeName"]
        ]
        report = consolidate_nodes(objects)
        after = apply_plan(deepcopy(objects), report)
        assert all(each["spec"]["nodeName"] for each in after if each["kind"] == "Pod"), "nothing waits"
        moves += sum(len(step.moves) for step in report.removable)
    assert moves > 15
