"""GangScheduling, TopologyPlacementGenerator, PodGroupPodsCount and NodeResourcesFit's score of a placement against
upstream's tables (v1.36).

Upstream: plugins/{gangscheduling,topologyaware,podgrouppodscount,noderesources}.
"""

from __future__ import annotations

import numpy as np
import pytest
from golden_cases import Json
from plugin_cases import build_plugin_args, build_snapshot, drop_node_name, find_pod_info, parametrize_cases

from kschedctl.api.arrays import Position, Row
from kschedctl.api.objects import Pod
from kschedctl.cluster import convert_document
from kschedctl.scheduler.engine.pod_groups.placement import GroupPlacement, PodGroupAssignments, ProposedAssignment
from kschedctl.scheduler.engine.pod_groups.state import find_group_state, find_pod_group
from kschedctl.scheduler.framework import Code, PluginError, Status
from kschedctl.scheduler.plugins.gang_scheduling import GangScheduling
from kschedctl.scheduler.plugins.node_resources.fit import NodeResourcesFit, NodeResourcesFitArgs
from kschedctl.scheduler.plugins.topology_placement import PodGroupPodsCount, TopologyPlacementGenerator
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pods import get_group_key
from kschedctl.snapshot.snapshot import Settings

NODE = {"kind": "Node", "metadata": {"name": "n"}}
GROUP = {"kind": "PodGroup", "metadata": {"name": "pg1", "namespace": "default"}}
ANYBODYS = Settings(served_profiles=frozenset(("", "default-scheduler")))
"""Pods of the tables name no scheduler."""


def assume(view: Fork, keys: list[str]) -> None:
    for key in keys:
        position = view.pods.find_position(key)
        assert position is not None
        view.assume(position, Row(0))


def format_status(status: Status) -> Json:
    """Return the code and the reasons of a status."""
    return {"code": str(status.code), "reasons": list(status.reasons)}


def get_tried_or_released_pods(info: PodInfo, view: Fork, code: str) -> Json:
    """Return the pods of the gang that are tried because this one waits, or that wait no longer."""
    key = get_group_key(info.pod)
    group = None if key is None else find_pod_group(view, key)
    if key is None or group is None or group.spec.scheduling_policy.gang is None:
        return {"activatedPods": [], "allowedPods": None}
    state = find_group_state(view, key)
    waiting = code == Code.WAIT
    assumed = [p for p in state.scheduled.tolist() if not view.pods.objects[p].spec.node_name]
    return {
        "activatedPods": list_pod_names(view, state.unscheduled.tolist() if waiting else []),
        "allowedPods": None if waiting else list_pod_names(view, assumed),
    }


def list_pod_names(view: Fork, positions: list[int]) -> list[str]:
    return sorted(view.pods.objects[position].metadata.name for position in positions)


@parametrize_cases("gangscheduling", "gangflow")
def test_gang(case: Json) -> None:
    pod = case["pod"]
    view = build_snapshot({**case, "nodes": [NODE]}, ANYBODYS, more=[pod])
    info, plugin = find_pod_info(case, view), GangScheduling()
    found = {"preenqueue": format_status(plugin.pre_enqueue(info, view))}
    if "permit" in case["want"]:
        assume(view, [f"ns1/{name}" for name in case["podsWaitingOnPermit"]])
        assume(view, [info.pod.key])
        found["permit"] = format_status(plugin.permit(info, view, 0))
        found |= get_tried_or_released_pods(info, view, found["permit"]["code"])
    assert found == {key: case["want"][key] for key in found}


def test_pod_that_does_not_exist_yet_counts_for_its_gang() -> None:
    pod = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"schedulingGroup": {"podGroupName": "pg1"}}}
    group = {**GROUP, "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}}
    view = build_snapshot({"objects": [group]}, ANYBODYS)
    info = find_pod_info({"pod": {"kind": "Pod", **pod}}, view)
    assert GangScheduling().pre_enqueue(info, view).code is Code.SUCCESS
    assert GangScheduling().pre_enqueue(info, build_snapshot({}, ANYBODYS)).code is Code.UNRESOLVABLE


@parametrize_cases("topologyplacement", "generateplacements")
def test_placements(case: Json) -> None:
    view = build_snapshot(case, ANYBODYS)
    rows = np.array([view.nodes.index[name] for name in case["placementNodes"]])
    (group,) = view.objects.of("PodGroup")
    try:
        parent = GroupPlacement(case["initialPlacementName"], rows)
        found = TopologyPlacementGenerator().generate_placements(group, view, parent)
        status = {"code": "Success", "reasons": []}
    except PluginError as failure:
        found, status = [], {"code": "Error", "reasons": [str(failure)]}
    placements = {name: [view.nodes.names[row] for row in rows.tolist()] for name, rows in found}
    assert {"placements": placements, "status": status} == case["want"]


@parametrize_cases("podgrouppodscount", "placementscore")
def test_pods_count(case: Json) -> None:
    nodes = [{"kind": "Node", "metadata": {"name": f"node{i}"}} for i in range(1, 4)]
    assumed = [{"kind": "Pod", **pod} for pod in case["assumedPods"] or ()]
    view = build_snapshot({**case, "nodes": nodes, "objects": [GROUP]}, ANYBODYS, more=map(drop_node_name, assumed))
    for pod in assumed:
        position = view.pods.find_position(f"default/{pod['metadata']['name']}")
        view.assume(Position(position or 0), Row(view.nodes.index[pod["spec"]["nodeName"]]))
    assert (
        PodGroupPodsCount().score_placement(group_of(view), view, build_proposal(view, list_proposed(case)))
        == case["want"]["score"]
    )


@parametrize_cases("podgrouppodscount", "normalizeplacementscore")
def test_normalized_pods_count(case: Json) -> None:
    scores = np.array([each["Score"] for each in case["scores"]])
    if "status" in case["want"]:
        with pytest.raises(PluginError, match=case["want"]["status"]["reasons"][0]):
            PodGroupPodsCount().normalize_placements(scores)
    else:
        wanted = [each["Score"] for each in case["want"]["scores"]]
        assert PodGroupPodsCount().normalize_placements(scores).tolist() == wanted


@parametrize_cases("noderesources", "placementscore")
def test_fullness_of_a_placement(case: Json) -> None:
    view = build_snapshot({**case, "objects": [GROUP]}, ANYBODYS)
    pods = {pod["metadata"]["uid"]: pod for pod in case["podGroupPods"]}
    placed = [(pods[uid], node) for uid, node in case["podGroupAssignments"].items()]
    plugin = NodeResourcesFit(build_plugin_args(case, NodeResourcesFitArgs))
    rows = np.array([view.nodes.index[name] for name in case["placementNodes"]])
    assert plugin.score_placement(group_of(view), view, build_proposal(view, placed, rows)) == case["want"]["score"]
    assert plugin.normalize_placements(np.array([3])).tolist() == [3]


def list_proposed(case: Json) -> list[tuple[Json, str]]:
    return [(each["pod"], each["node"]) for each in case["proposedAssignments"]]


def group_of(view: Fork):
    group = find_pod_group(view, ("default", "pg1"))
    assert group is not None
    return group


def build_proposal(view: Fork, placed: list[tuple[Json, str]], rows: np.ndarray | None = None) -> PodGroupAssignments:
    """Propose these pods on these nodes, in a placement of some rows or of all."""
    found = []
    for pod, node in placed:
        typed = convert_document({"kind": "Pod", **pod})
        assert isinstance(typed, Pod)
        found.append(ProposedAssignment(PodInfo(typed, view.settings.requests), view.nodes.index[node]))
    return PodGroupAssignments(GroupPlacement("", np.arange(len(view.nodes)) if rows is None else rows), tuple(found))
