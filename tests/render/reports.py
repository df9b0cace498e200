"""Reports built by hand, as a command would build them."""

from __future__ import annotations

from kschedctl.commands.capacity.report import Capacity, RoomLeft, ShapeCapacity
from kschedctl.commands.explain.pending_report import PendingGroup, PendingPod, PendingPods
from kschedctl.commands.explain.report import (
    Advice,
    CandidateReport,
    DeviceReport,
    Elimination,
    Explanation,
    NearestMiss,
    NodeGroup,
    NodeReport,
    PreemptionReport,
    PreFilterReport,
    Refusal,
    VictimReport,
    VolumesReport,
)
from kschedctl.reports.plugin_answers import StatusReport

HOSTILE = "\x1b[2J\x9b31m\u202egnp[bold]|`x` <img src=x> @ops #1 https://evil.example\nnew\tline\x07"

CPU = Refusal("NodeResourcesFit", "Insufficient cpu", "cpu: 2 requested, 1 free of 4")
TAINT = Refusal("TaintToleration", "node(s) had untolerated taint(s)", "taint gpu:NoSchedule is not tolerated")

UNSCHEDULABLE = Explanation(
    pod="shop/web",
    verdict="Unschedulable",
    headline="Insufficient cpu (all 3 candidate nodes, closest n3: cpu: 2 requested, 1 free of 4)",
    message="0/4 nodes are available: 3 Insufficient cpu, 1 node(s) had untolerated taint(s).",
    advice=(Advice("AskForLess", "Ask for less cpu"),),
    not_replayed=("plugin Custom",),
    eliminations=(
        Elimination("NodeResourcesFit", "Insufficient cpu", 3, 2, NearestMiss("n3", CPU.fact)),
        Elimination("TaintToleration", TAINT.reason, 1, 0, NearestMiss("n1", TAINT.fact)),
    ),
    nodes=(
        NodeReport("n3", "zone-b", "general", False, (CPU,)),
        NodeReport("n2", "zone-a", "general", False, (CPU,)),
        NodeReport("n1", "zone-a", "gpu", False, (TAINT, CPU)),
        NodeReport("n4", "zone-a", "gpu", False, (TAINT, CPU)),
    ),
    groups=(
        NodeGroup(2, ("general",), ("n3", "n2"), (CPU,)),
        NodeGroup(2, ("gpu",), ("n1", "n4"), (TAINT, CPU)),
    ),
    preemption=PreemptionReport(
        asked=True,
        eligible=True,
        candidates={
            "n2": CandidateReport(
                ("shop/old", "batch/job"),
                1,
                (
                    VictimReport("shop/old", 1000, "ReplicaSet/old", "2026-05-04T08:00:00Z", ("shop/old-budget",)),
                    VictimReport("batch/job", -5, "", None),
                ),
            ),
            "n3": CandidateReport(("shop/older",), 0, (VictimReport("shop/older", 0, "", None),)),
        },
        tied=("n3",),
        chosen="n3",
        decided_by="fewest PodDisruptionBudgets violated",
        unhelpful={"Preemption is not helpful for scheduling": 2},
    ),
)

SCHEDULABLE = Explanation(
    pod="shop/web",
    verdict="Schedulable",
    headline="on any of 2 tied nodes",
    feasible=("n1", "n2", "n3"),
    score={"NodeResourcesFit": {"n1": 50, "n2": 50, "n3": 10}, "TaintToleration": {"n1": 0, "n2": 0, "n3": 0}},
    normalized={
        "NodeResourcesFit": {"n1": 50, "n2": 50, "n3": 10},
        "TaintToleration": {"n1": 100, "n2": 100, "n3": 100},
    },
    weighted={
        "NodeResourcesFit": {"n1": 50, "n2": 50, "n3": 10},
        "TaintToleration": {"n1": 300, "n2": 300, "n3": 300},
    },
    weights={"NodeResourcesFit": 1, "TaintToleration": 3},
    total={"n1": 350, "n2": 350, "n3": 310},
    best=("n1", "n2"),
    nodes=tuple(NodeReport(name, "", "", True, (), total) for name, total in (("n1", 350), ("n2", 350), ("n3", 310))),
)

BINDING = Explanation(
    pod="shop/web",
    verdict="Schedulable",
    headline="on n2",
    feasible=("n0", "n1", "n2", "n3", "n4"),
    total={"n0": 300, "n1": 100, "n2": 400, "n3": 200, "n4": 500},
    best=("n4",),
    volumes={
        "n0": VolumesReport({}, ("shop/data",)),
        "n1": VolumesReport({}, ("shop/data",)),
        "n2": VolumesReport({"shop/data": "pv-7"}, ("shop/logs",)),
        "n3": VolumesReport({}, ("shop/data",)),
    },
    allocations={
        "n2": {"shop/gpu": (DeviceReport("r0", "gpu.example.com", "n2", "gpu-0", False, {"memory": "40Gi"}),)}
    },
)

GATED = Explanation(
    pod="shop/web",
    verdict="Gated",
    headline="waiting for scheduling gates: [x]",
    queue={"SchedulingGates": StatusReport("UnschedulableAndUnresolvable", ("waiting for scheduling gates: [x]",))},
    pre_filter={
        "NodeAffinity": PreFilterReport("Success", (), tuple(f"n{i}" for i in range(10))),
        "NodePorts": PreFilterReport("Skip"),
        "VolumeBinding": PreFilterReport("UnschedulableAndUnresolvable", ("pod has unbound immediate claims",)),
    },
)

PENDING = PendingPods(
    scope="across all namespaces",
    groups=(
        PendingGroup(
            "Unschedulable",
            "Insufficient cpu",
            None,
            ("a/x", "a/y", "b/z"),
            "3d4h",
            ("Deployment a/web", "Pod b/z"),
            (
                PendingPod(
                    "a/x",
                    "Deployment a/web",
                    "Insufficient cpu (all 3 nodes)",
                    "0/3 …",
                    "",
                    "3d4h",
                    0,
                    " (all 3 nodes)",
                ),
                PendingPod(
                    "a/y", "Deployment a/web", "Insufficient cpu (all 3 nodes)", "0/3 …", "", "2h", 0, " (all 3 nodes)"
                ),
                PendingPod(
                    "b/z",
                    "Pod b/z",
                    "Insufficient cpu (n1, the only candidate node)",
                    "0/3 …",
                    "",
                    "5m",
                    0,
                    " (n1, the only candidate node)",
                ),
            ),
        ),
        PendingGroup(
            "Schedulable",
            "a node fits now",
            None,
            ("c/w",),
            "91m",
            ("Job c/w",),
            (PendingPod("c/w", "Job c/w", "on n1", None, "", "91m"),),
        ),
    ),
)

HOSTILE_REPORT = Explanation(
    pod=f"shop/{HOSTILE}",
    verdict="Unschedulable",
    headline=HOSTILE,
    message=HOSTILE,
    advice=(Advice(HOSTILE, HOSTILE, HOSTILE),),
    not_replayed=(HOSTILE,),
    queue={HOSTILE: StatusReport("Unschedulable", (HOSTILE,))},
    eliminations=(Elimination(HOSTILE, HOSTILE, 1, 1, NearestMiss(HOSTILE, HOSTILE)),),
    nodes=(NodeReport(HOSTILE, HOSTILE, HOSTILE, False, (Refusal(HOSTILE, HOSTILE, HOSTILE),)),),
    groups=(NodeGroup(2, (HOSTILE,), (HOSTILE,), (Refusal(HOSTILE, HOSTILE, HOSTILE),)),),
    weighted={HOSTILE: {HOSTILE: 1}},
    score={HOSTILE: {HOSTILE: 1}},
    normalized={HOSTILE: {HOSTILE: 1}},
    total={HOSTILE: 1},
    best=(HOSTILE,),
    feasible=(HOSTILE,),
    volumes={HOSTILE: VolumesReport({HOSTILE: HOSTILE}, (HOSTILE,))},
    allocations={HOSTILE: {HOSTILE: (DeviceReport(HOSTILE, HOSTILE, HOSTILE, HOSTILE, True, {HOSTILE: HOSTILE}),)}},
    preemption=PreemptionReport(
        asked=True,
        eligible=True,
        candidates={HOSTILE: CandidateReport((HOSTILE,), 1, (VictimReport(HOSTILE, 0, HOSTILE, None, (HOSTILE,)),))},
        tied=(HOSTILE,),
        chosen=HOSTILE,
        decided_by=HOSTILE,
        unhelpful={HOSTILE: 1},
    ),
)

HOSTILE_PENDING = PendingPods(
    HOSTILE,
    (
        PendingGroup(
            HOSTILE,
            HOSTILE,
            HOSTILE,
            (HOSTILE, "a/b"),
            HOSTILE,
            (HOSTILE,),
            (PendingPod(HOSTILE, HOSTILE, HOSTILE), PendingPod(HOSTILE, HOSTILE, "other")),
        ),
    ),
    not_replayed=(HOSTILE,),
)
HOSTILE_ROOM = Capacity(
    0,
    (
        ShapeCapacity(
            HOSTILE,
            3,
            False,
            {HOSTILE: 2, "n2": 1},
            {HOSTILE: {HOSTILE: 3}},
            curve=(RoomLeft(0, 2), RoomLeft(2, 1), RoomLeft(3, 0)),
        ),
    ),
)
"""With plots of both kinds."""
COMMANDS = {"": (HOSTILE,), HOSTILE: (HOSTILE,)}
