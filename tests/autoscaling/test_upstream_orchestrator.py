"""Check which pods make which node group grow against upstream's tables of whole scale-ups, under their names.

Upstream: core/scaleup/orchestrator/orchestrator_test.go (1.36). The choice that its tests give to the expander is made
by a priority here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

import kschedctl

Json = dict[str, Any]
NOW, BEFORE = "2026-06-01T12:00:00Z", "2026-06-01T10:00:00Z"
MI = 1024**2
GPU = "nvidia.com/gpu"
NONE: Mapping[str, Any] = MappingProxyType({})


class Machine(NamedTuple):
    """A node of a group, with CPU in millicores and memory in bytes."""

    group: str
    cpu: int
    memory: int
    gpu: int = 0


class PodRequest(NamedTuple):
    """A waiting pod, or one that runs on the machine with the index ``on``."""

    cpu: int
    memory: int = 0
    gpu: int = 0
    on: int = -1


class Case(NamedTuple):
    """A table row.

    ``wanted`` is the number of new nodes of the chosen group. ``fates`` are the indexes of triggering, remaining and
    awaiting pods. ``most`` and ``templates`` give the maximum and the template of groups, by default 1000 and none.
    ``sizes`` is the number of nodes of each option.
    """

    machines: list[Machine]
    running: list[PodRequest]
    waiting: list[PodRequest]
    chosen: str
    wanted: int
    fates: tuple[list[int], list[int], list[int]]
    options: Mapping[str, Any] = NONE
    most: Mapping[str, int] = NONE
    templates: Mapping[str, Machine] = NONE
    atomic: bool = False
    sizes: Mapping[str, int] = NONE
    why: str = ""


TWO = [Machine("ng1", 2000, 100 * MI), Machine("ng2", 4000, 1000 * MI)]
ONE_APART = [TWO[0], TWO[1]._replace(group="")]
HALF = [PodRequest(1000, on=0), PodRequest(3000, on=1)]
SMALL = [Machine("ng1", 900, 900)]
FULL = [PodRequest(900, 900, on=0)]
FRESH = Machine("ng2", 1000, 1000)
MIXED = [Machine("ng1", 500, 2000), Machine("ng2", 2000, 500)]
GPUS = [Machine("gpu-pool", 2000, 1000 * MI, 1), Machine("std-pool", 2000, 1000 * MI)]
BUSY = [PodRequest(2000, 1000 * MI, 1, on=0), PodRequest(2000, 1000 * MI, on=1)]
MANY_GPUS = [Machine(f"gpu-{count}-pool", 2000, 1000 * MI, count) for count in (1, 2, 4)]
ALL_BUSY = [PodRequest(2000, 1000 * MI, machine.gpu, on=at) for at, machine in enumerate([*MANY_GPUS, GPUS[1]])]
CORES, MEMORY = "cpu", "memory"


def limit(name: str, most: int) -> Json:
    return {"resourceLimits": {name: {"min": 0, "max": most}}}


CASES = {
    "TestScaleUpOK": Case(
        [Machine("ng1", 100, 100), Machine("ng2", 1000, 1000)],
        [PodRequest(80, on=0), PodRequest(800, on=1)],
        [PodRequest(500)],
        "ng2",
        1,
        ([0], [], []),
    ),
    "TestMixedScaleUp": Case(
        [Machine("ng1", 100, 1000), Machine("ng2", 1000, 100)],
        [
            PodRequest(80, 900, on=0),
            PodRequest(800, on=1),
        ],  # upstream the pods that wait are not asked whether they fit there
        [PodRequest(900), PodRequest(2000), PodRequest(0, 200)],
        "ng2",
        1,
        ([0], [1], [2]),
    ),
    "TestZeroOrMaxNodeScaling: Atomic ScaleUp OK": Case(
        SMALL,
        FULL,
        [PodRequest(1000, 1000)],
        "ng2",
        5,
        ([0], [], []),
        most={"ng1": 5, "ng2": 5},
        templates={"ng2": FRESH},
        atomic=True,
    ),
    "TestZeroOrMaxNodeScaling: Atomic ScaleUp with similar node groups": Case(
        SMALL,
        FULL,
        [PodRequest(1000, 1000)] * 4,
        "ng3",
        4,
        ([0, 1, 2, 3], [], []),
        most={"ng1": 5, "ng2": 5, "ng3": 4},
        templates={"ng2": FRESH, "ng3": FRESH},
        atomic=True,
    ),
    "TestZeroOrMaxNodeScaling: Atomic ScaleUp Mixed": Case(
        MIXED,
        [PodRequest(400, 1900, on=0), PodRequest(1900, 400, on=1)],
        [PodRequest(1000, 1000), PodRequest(2000, 2000), PodRequest(100, 1800)],
        "ng3",
        5,
        ([0], [1], [2]),
        most={"ng1": 5, "ng2": 5, "ng3": 5},
        templates={"ng3": FRESH},
        atomic=True,
    ),
    "TestZeroOrMaxNodeScaling: Atomic ScaleUp max cores limit hit": Case(
        SMALL,
        FULL,
        [PodRequest(1000, 1000)] * 2,
        "",
        0,
        ([], [0, 1], []),
        limit(CORES, 3),
        {"ng1": 5, "ng2": 3},
        {"ng2": FRESH},
        atomic=True,
        why='exceeded quota: "cluster-wide", resources: cpu',
    ),
    "TestZeroOrMaxNodeScaling: Atomic ScaleUp max memory limit hit": Case(
        SMALL,
        FULL,
        [PodRequest(1000, 1000)] * 2,
        "",
        0,
        ([], [0, 1], []),
        limit(MEMORY, 3000),
        {"ng1": 5, "ng2": 3},
        {"ng2": FRESH},
        atomic=True,
        why='exceeded quota: "cluster-wide", resources: memory',
    ),
    "TestZeroOrMaxNodeScaling: Atomic ScaleUp max nodes count limit hit": Case(
        SMALL * 2,
        [PodRequest(900, 900, on=0), PodRequest(900, 900, on=1)],
        [PodRequest(1000, 1000)] * 2,
        "",
        0,
        ([], [0, 1], []),
        {"maxNodesTotal": 5},
        {"ng1": 2, "ng2": 5},
        {"ng2": FRESH},
        atomic=True,
        why="atomic scale-up exceeds cluster node count limit",
    ),
    "TestScaleUpMaxCoresLimitHit": Case(TWO, HALF, [PodRequest(2000)] * 2, "ng1", 1, ([0, 1], [], []), limit(CORES, 9)),
    "TestScaleUpMaxCoresLimitHitWithNotAutoscaledGroup": Case(
        ONE_APART, HALF, [PodRequest(2000)] * 2, "ng1", 1, ([0, 1], [], []), limit(CORES, 9)
    ),
    "TestScaleUpMaxMemoryLimitHit": Case(
        TWO, HALF, [PodRequest(2000, 100 * MI)] * 3, "ng1", 2, ([0, 1, 2], [], []), limit(MEMORY, 1300 * MI)
    ),
    "TestScaleUpMaxMemoryLimitHitWithNotAutoscaledGroup": Case(
        ONE_APART, HALF, [PodRequest(2000, 100 * MI)] * 3, "ng1", 2, ([0, 1, 2], [], []), limit(MEMORY, 1300 * MI)
    ),
    "TestScaleUpTwoGroups": Case(
        [Machine("ng1", 1500, 1000 * MI), Machine("ng2", 1500, 1000 * MI)],
        [PodRequest(1400, on=0), PodRequest(1400, on=1)],
        [PodRequest(1400)] * 2,
        "ng1",
        1,
        ([0, 1], [], []),
        {"balanceSimilarNodeGroups": True},
        sizes={"ng1": 2, "ng2": 2},
    ),
    "TestScaleUpCapToMaxTotalNodesLimit": Case(
        TWO, HALF, [PodRequest(4000, 100 * MI)] * 3, "ng2", 1, ([0], [], []), {"maxNodesTotal": 3}
    ),
    "TestScaleUpCapToMaxTotalNodesLimitWithNotAutoscaledGroup": Case(
        [TWO[0]._replace(group=""), TWO[1]],
        HALF,
        [PodRequest(4000, 100 * MI)] * 3,
        "ng2",
        1,
        ([0], [], []),
        {"maxNodesTotal": 3},
    ),
    "TestWillConsiderGpuAndStandardPoolForPodWhichDoesNotRequireGpu": Case(
        GPUS, BUSY, [PodRequest(2000, 1000 * MI)], "std-pool", 1, ([0], [], []), {"maxNodesTotal": 100}
    ),
    "TestWillConsiderOnlyGpuPoolForPodWhichDoesRequiresGpu": Case(
        GPUS, BUSY, [PodRequest(2000, 1000 * MI, 1)], "gpu-pool", 1, ([0], [], []), {"maxNodesTotal": 100}
    ),
    "TestWillConsiderAllPoolsWhichFitTwoPodsRequiringGpus": Case(
        [*MANY_GPUS, GPUS[1]],
        ALL_BUSY,
        [PodRequest(1, MI, 1)] * 3,
        "gpu-1-pool",
        3,
        ([0, 1, 2], [], []),
        {"maxNodesTotal": 100},
    ),
    "TestNoScaleUpMaxCoresLimitHit": Case(
        [Machine("ng1", 2000, 100), Machine("ng2", 4000, 1000)],
        HALF,
        [PodRequest(2000)] * 2,
        "",
        0,
        ([], [0, 1], []),
        {"resourceLimits": {CORES: {"min": 0, "max": 7}, MEMORY: {"min": 0, "max": 1150}}},
        why='exceeded quota: "cluster-wide"',
    ),
}
OPTIONS = {
    "TestWillConsiderGpuAndStandardPoolForPodWhichDoesNotRequireGpu": {"std-pool": 1, "gpu-pool": 1},
    "TestWillConsiderOnlyGpuPoolForPodWhichDoesRequiresGpu": {"gpu-pool": 1},
    "TestWillConsiderAllPoolsWhichFitTwoPodsRequiringGpus": {"gpu-1-pool": 3, "gpu-2-pool": 2, "gpu-4-pool": 1},
}
"""The groups that could grow, and their numbers of new nodes, if upstream's table gives them."""


def build_node(name: str, machine: Machine) -> Json:
    offers = {"cpu": f"{machine.cpu}m", "memory": str(machine.memory), "pods": "100"}
    offers |= {GPU: str(machine.gpu)} if machine.gpu else {}
    taints = [{"key": GPU, "value": "present", "effect": "NoSchedule"}] if machine.gpu else []
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": BEFORE}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {"taints": taints},
        "status": {"capacity": offers, "allocatable": offers, "conditions": [ready]},
    }


def build_pod(name: str, asked: PodRequest, on: str) -> Json:
    requests = {"cpu": f"{asked.cpu}m", "memory": str(asked.memory)} | ({GPU: str(asked.gpu)} if asked.gpu else {})
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "creationTimestamp": BEFORE},
        "spec": {
            "nodeName": on,
            "tolerations": [{"key": GPU, "operator": "Exists"}],
            "containers": [{"name": "c", "resources": {"requests": requests, "limits": requests}}],
        },
        "status": {"phase": "Running"} if on else {"phase": "Pending", "conditions": [refused]},
    }


def build_groups(case: Case, names: list[str]) -> list[Json]:
    members: dict[str, list[str]] = {name: [] for name in case.templates}
    for name, machine in zip(names, case.machines, strict=True):
        if machine.group:
            members.setdefault(machine.group, []).append(name)
    template = {name: build_node(f"of-{name}", machine) for name, machine in case.templates.items()}
    own = {"zeroOrMaxNodeScaling": True} if case.atomic else {}
    return [
        {
            "id": name,
            "min": 0,
            "max": case.most.get(name, 1000),
            "target": len(nodes),
            "nodes": nodes,
            "template": template.get(name),
            "options": own,
        }
        for name, nodes in sorted(members.items())
    ]


def build_priority_map(chosen: str) -> Json:
    meta = {"name": "cluster-autoscaler-priority-expander", "namespace": "kube-system"}
    text = f"10:\n- ^{chosen}$\n1:\n- .*\n"
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"priorities": text}}


@pytest.mark.parametrize("name", CASES)
def test_whole_scale_ups(name: str) -> None:
    case = CASES[name]
    names = [f"n{at + 1}" for at in range(len(case.machines))]
    objects = [build_node(own, machine) for own, machine in zip(names, case.machines, strict=True)]
    objects.append(build_priority_map(case.chosen))
    objects += [build_pod(f"old-{at}", asked, names[asked.on]) for at, asked in enumerate(case.running)]
    objects += [build_pod(f"new-{at}", asked, "") for at, asked in enumerate(case.waiting)]
    options = {"expander": "priority", **case.options}
    report = kschedctl.scale_up(kschedctl.Cluster.from_objects(objects), build_groups(case, names), options, now=NOW)
    assert not report.faults
    grown = {increase.group: increase.target - increase.source for increase in report.increases}
    if case.sizes:
        assert {i.group: i.target for i in report.increases} == case.sizes
    else:
        assert grown == ({case.chosen: case.wanted} if case.wanted else {})
    triggered, remaining, awaiting = ([f"default/new-{at}" for at in some] for some in case.fates)
    assert set(triggered) <= set(report.triggered)
    assert set(report.remaining) == set(remaining)
    assert set(report.awaiting) == set(awaiting)
    for told in report.remaining.values():
        assert case.why in (told.message or "")
    if name in OPTIONS:
        assert {option.group: option.nodes for option in report.options} == OPTIONS[name]
