"""Check which nodes can be removed against upstream's own tables, under their names.

Upstream (1.36): core/scaledown/eligibility/eligibility_test.go, unneeded/nodes_test.go, planner/planner_test.go and
simulator/utilization/info_test.go. Not here: rows of what only the running process knows (pods evicted a short time
ago, deletions under way, time limits, errors of the cloud), and of dynamic resources in a node's utilization, which a
flag switches on; "pods can schedule on eligible node, eligible", whose order of candidates no loop has, as nodes
without pods come first; the tables of core/scaledown/budgets and clusterstate, which begin with deletions and requests
of an earlier loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

import kschedctl
from kschedctl.reports.cluster_autoscaler import ScaleDown

Json = dict[str, Any]
NOW, LATER = "2020-12-18T17:00:00Z", "2020-12-18T16:50:00Z"
DISABLED = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
DELETED = [{"key": "ToBeDeletedByClusterAutoscaler", "value": "1608310770", "effect": "NoSchedule"}]
"""30 seconds before NOW."""


def build_node(name: str, cpu: int = 1000, memory: int = 10, *, ready: bool = True, **more: Any) -> Json:
    room = {"cpu": f"{cpu}m", "memory": str(memory), "pods": "100", **more.pop("offers", {})}
    room = {key: amount for key, amount in room.items() if amount != "-1"}
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": "2020-12-18T15:00:00Z"}
    metadata = {"name": name, "labels": more.pop("labels", {}), "annotations": more.pop("annotations", {})}
    status = {"capacity": room, "allocatable": room, "conditions": [condition]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": more, "status": status}


def build_pod(name: str, on: str, cpu: int = 100, memory: int = 0, kind: str = "ReplicaSet", **more: Any) -> Json:
    """Build a pod with ``cpu`` in millicores and ``memory`` in bytes."""
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "rs", "uid": kind, "controller": True}
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "ownerReferences": [owner],
        **more.pop("metadata", {}),
    }
    container = {"name": "c", "resources": build_requests(cpu, memory, **more.pop("also", {}))}
    spec = {"nodeName": on, "containers": [container], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def build_requests(cpu: int, memory: int, **also: str) -> Json:
    return {"requests": {"cpu": f"{cpu}m", "memory": str(memory), **also}}


def scale_down(nodes: list[Json], pods: list[Json], group: Json | None = None, **options: Any) -> ScaleDown:
    sets = [
        {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "rs", "namespace": "default", "uid": kind}}
        for kind in ("ReplicaSet", "DaemonSet")
    ]
    names = [each["metadata"]["name"] for each in nodes]
    groups = [{"id": "ng1", "min": 0, "max": 10, "target": len(names), "nodes": names, **(group or {})}]
    return kschedctl.scale_down(kschedctl.Cluster.from_objects([*nodes, *sets, *pods]), groups, options, now=NOW)


class EligibilityRow(NamedTuple):
    """A table row of eligible nodes. ``reasons`` belong to the nodes that are filtered out."""

    nodes: list[Json]
    pods: list[Json]
    reasons: Mapping[str, str] = MappingProxyType({})
    options: Mapping[str, Any] = MappingProxyType({})


BIG, SMALL = build_pod("bigPod", "regular", 600), build_pod("smallPod", "regular", 100)
DAEMON = build_pod("dsPod", "regular", 500, kind="DaemonSet")
REGULAR, DAEMONS_ASIDE = build_node("regular"), {"ignoreDaemonSetsUtilization": True}
BASE = {
    "regular node stays": EligibilityRow([REGULAR], []),
    "recently deleted node is filtered out": EligibilityRow(
        [REGULAR, build_node("justDeleted", taints=DELETED)], [], {"justDeleted": "CurrentlyBeingDeleted"}
    ),
    "marked no scale down is filtered out": EligibilityRow(
        [build_node("noScaleDown", annotations=DISABLED), REGULAR], [], {"noScaleDown": "ScaleDownDisabledAnnotation"}
    ),
    "highly utilized node is filtered out": EligibilityRow([REGULAR], [BIG], {"regular": "NotUnderutilized"}),
    "underutilized node stays": EligibilityRow([REGULAR], [SMALL]),
    "node is filtered out if utilization can't be calculated": EligibilityRow(
        [build_node("regular", 0, 0)], [SMALL], {"regular": "UnexpectedError"}
    ),
    "unready node stays": EligibilityRow([build_node("unready", ready=False)], []),
    "unready node is filtered oud when scale-down of unready is disabled": EligibilityRow(
        [build_node("unready", ready=False)],
        [],
        {"unready": "ScaleDownUnreadyDisabled"},
        {"scaleDownUnreadyEnabled": False},
    ),
}
ELIGIBILITY = {
    **{f"{name} [base]": row for name, row in BASE.items()},
    **{
        f"{name} [ignore-daemonsets=true]": row._replace(options={**row.options, **DAEMONS_ASIDE})
        for name, row in BASE.items()
    },
    "high utilization daemonsets node stays": EligibilityRow([REGULAR], [SMALL, DAEMON], {}, DAEMONS_ASIDE),
    "high utilization daemonsets node is filtered out, when IgnoreDaemonSets is disabled": EligibilityRow(
        [REGULAR], [SMALL, DAEMON], {"regular": "NotUnderutilized"}
    ),
    "only daemonsets pods on this node (threshold=0)": EligibilityRow(
        [REGULAR], [DAEMON], {}, {**DAEMONS_ASIDE, "scaleDownUtilizationThreshold": 0.0}
    ),
}
PLACED_LATER = ("NoPlaceToMovePods", "BlockedByPod", None)
"""The reasons that come from checks after eligibility, which the table's function does not make."""


@pytest.mark.parametrize("name", ELIGIBILITY)
def test_filter_out_unremovable(name: str) -> None:
    row = ELIGIBILITY[name]
    told = scale_down(row.nodes, row.pods, **row.options).nodes
    assert {n: told[n].reason for n in told if told[n].reason not in PLACED_LATER} == row.reasons
    assert {n for n in told if told[n].utilization is None} == {
        n for n, reason in row.reasons.items() if reason != "NotUnderutilized"
    }


def build_half_pods(on: str, *names: str, cpu: int = 500) -> list[Json]:
    return [build_pod(name, on, cpu, 1) for name in names]


PLANNED: dict[str, tuple[list[Json], list[Json], str, str]] = {
    "empty nodes, all eligible": ([build_node("n1"), build_node("n2"), build_node("n3")], [], "n1 n2 n3", "n1 n2 n3"),
    "empty nodes, some eligible": ([build_node("n1"), build_node("n2"), build_node("n3")], [], "n1 n2", "n1 n2"),
    "empty nodes, none eligible": ([build_node("n1"), build_node("n2"), build_node("n3")], [], "", ""),
    "single utilised node, not eligible": ([build_node("n1")], build_half_pods("n1", "p1"), "n1", ""),
    "pods cannot schedule on node undergoing deletion, not eligible": (
        *([build_node("n1"), build_node("n2", taints=DELETED)], build_half_pods("n1", "p1", "p2")),
        *("n1", ""),
    ),
    "pods can schedule on non-eligible node, eligible": (
        *([build_node("n1"), build_node("n2")], build_half_pods("n1", "p1", "p2")),
        *("n1", "n1"),
    ),
    "pods cannot schedule anywhere, not eligible": (
        [build_node("n1", 2000), build_node("n2"), build_node("n3", 500)],
        [*build_half_pods("n1", "p1", "p2", cpu=1000), *build_half_pods("n2", "p3", cpu=1000)],
        *("n1 n2", ""),
    ),
    "all pods from multiple nodes can schedule elsewhere, all eligible": (
        [build_node("n1"), build_node("n2"), build_node("n3", 2000)],
        [*build_half_pods("n1", "p1", "p2"), *build_half_pods("n2", "p3", "p4")],
        *("n1 n2", "n1 n2"),
    ),
    "some pods from multiple nodes can schedule elsewhere, some eligible": (
        [build_node("n1", 2000), build_node("n2"), build_node("n3")],
        [*build_half_pods("n1", "p1", "p2", cpu=1000), *build_half_pods("n2", "p3", "p4")],
        *("n1 n2", "n2"),
    ),
    "no pods from multiple nodes can schedule elsewhere, no eligible": (
        [build_node("n1"), build_node("n2"), build_node("n3", 500)],
        [*build_half_pods("n1", "p1", "p2"), *build_half_pods("n2", "p3", "p4")],
        *("n1 n2", ""),
    ),
}
"""Name -> nodes, pods, the eligible nodes (all others belong to no group), and the unneeded nodes."""


@pytest.mark.parametrize("name", PLANNED)
def test_update_cluster_state(name: str) -> None:
    nodes, pods, eligible, unneeded = PLANNED[name]
    members = eligible.split()
    report = scale_down(nodes, pods, {"nodes": members, "target": len(members)}, scaleDownUtilizationThreshold=1.0)
    assert list(report.unneeded) == unneeded.split()


AMOUNTS = {
    "Node group min size is not reached": (3, 2, 8, 3, 2),
    "Node group min size is reached for drain nodes": (3, 5, 8, 3, 4),
    "Node group min size is reached for empty and drain nodes": (3, 5, 3, 2, 0),
}
"""TestRemovableAt: empty nodes, nodes to drain, the target without the two being deleted; how many of both go."""


@pytest.mark.parametrize("name", AMOUNTS)
def test_removable_at(name: str) -> None:
    empty, drain, target, empty_go, drain_go = AMOUNTS[name]
    nodes = [build_node(f"{kind}-{at}") for kind, count in (("e", empty), ("d", drain)) for at in range(count)]
    pods = [build_pod(f"p-{at}", f"d-{at}", 1) for at in range(drain)]
    spare = build_node("spare", 10000)
    members = {"nodes": [each["metadata"]["name"] for each in nodes], "min": 1, "target": target}
    report = scale_down([*nodes, spare], pods, members)
    assert (len(report.to_delete.empty), len(report.to_delete.drain)) == (empty_go, drain_go)


REASONS: dict[str, tuple[Json, Json, Json]] = {
    "ScaleDownDisabledAnnotation": (build_node("n", annotations=DISABLED), {}, {}),
    "NotUnneededLongEnough": (build_node("n"), {}, {"scaleDownUnneededTime": "15m"}),
    "NotUnreadyLongEnough": (build_node("n", ready=False), {}, {"scaleDownUnreadyTime": "15m"}),
    "NotAutoscaled": (build_node("n"), {"nodes": []}, {}),
    "NodeGroupMinSizeReached": (build_node("n"), {"min": 1}, {}),
    "MinimalResourceLimitExceeded": (build_node("n"), {}, {"resourceLimits": {"cpu": {"min": 1}}}),
}
SILENT = {"NotAutoscaled", "NodeGroupMinSizeReached"}
"""Rows whose node is at the group's minimum or in no group: in a whole loop such a node is not a candidate."""


@pytest.mark.parametrize("name", REASONS)
def test_removable_at_unremovable_reasons(name: str) -> None:
    only, group, options = REASONS[name]
    report = scale_down([only], [], group, **options)
    assert (report.to_delete.empty, report.to_delete.drain) == ((), ())
    told = report.nodes["n"]
    assert (told.state, told.reason) == (("notCandidate", None) if name in SILENT else (told.state, name))


DS_ASIDE: Json = {"ignoreDaemonSetsUtilization": True}
MIRROR_ASIDE: Json = {"ignoreMirrorPodsUtilization": True}
PODS: dict[str, Json] = {
    "p1": {},
    "p1 again": {},
    "p2": {"cpu": 0, "memory": 0},
    "p-init": {
        "initContainers": [
            {"name": "side", "restartPolicy": "Always", "resources": build_requests(50, 100000)},
            {"name": "once", "resources": build_requests(5, 100)},
        ]
    },
    "p-large-init": {"initContainers": [{"name": "once", "resources": build_requests(50000, 100000000)}]},
    "p3": {"kind": "DaemonSet"},
    "p4": {
        "kind": "CustomDaemonSet",
        "metadata": {"annotations": {"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"}},
    },
    "podTerminated": {"metadata": {"deletionTimestamp": LATER}},
    "mirror": {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}},
    "gpu_pod": {"also": {"nvidia.com/gpu": "1"}, "memory": 200000},
}
GPU_LABEL = {"cloud.google.com/gke-accelerator": "TEST"}
NODE1 = build_node("n", 2000, 2000000)
UTILIZATION: dict[str, tuple[Json, tuple[str, ...], Json, float | None]] = {
    "requests of cpu and memory": (NODE1, ("p1", "p1 again", "p2"), {}, 2 / 10),
    "no memory": (build_node("n", 2000, -1), ("p1", "p1 again", "p2"), {}, None),
    "init containers": (NODE1, ("p1", "p-init", "p-large-init"), {}, 50.25),
    "DaemonSets aside": (NODE1, ("p1", "p1 again", "p2", "p3", "p4"), DS_ASIDE, 2.5 / 10),
    "DaemonSets count": (NODE1, ("p1", "p2", "p3"), {}, 2 / 10),
    "terminated": (NODE1, ("p1", "p1 again", "p2", "podTerminated"), {}, 2 / 10),
    "mirrors aside": (NODE1, ("p1", "p1 again", "p2", "mirror"), MIRROR_ASIDE, 2 / 9),
    "mirrors count": (NODE1, ("p1", "p2", "mirror"), {}, 2 / 10),
    "both aside": (NODE1, ("p1", "mirror", "p3"), {**DS_ASIDE, **MIRROR_ASIDE}, 1 / 8),
    "GPU": (
        build_node("n", 2000, 2000000, labels=GPU_LABEL, offers={"nvidia.com/gpu": "1"}),
        *(("p1", "p1 again", "gpu_pod"), {}, 1.0),
    ),
    "Node with Unready GPU": (build_node("n", 2000, 2000000, labels=GPU_LABEL), ("p1", "p1 again"), {}, 0.0),
}
"""TestCalculate, whose rows have no names: the node, the pods, flags, and the utilization that decides."""


@pytest.mark.parametrize("name", UTILIZATION)
def test_calculate(name: str) -> None:
    on, names, options, expected = UTILIZATION[name]
    pods = [build_pod(each.replace(" ", "-"), "n", **{"cpu": 100, "memory": 200000, **PODS[each]}) for each in names]
    told = scale_down([on], pods, **options).nodes["n"].utilization
    assert (told.value if told else None) == (expected if expected is None else pytest.approx(expected))
