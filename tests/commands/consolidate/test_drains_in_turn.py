"""Check that drains that share a simulation decide as if alone, and that a failed drain leaves no traces.

By themselves they are run on clusters that are cordoned for them, none of which knows of another.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from small import HOSTNAME, ZONE, Json, build_budget, build_node, build_pod, build_spread

from kschedctl.api.arrays import Row
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.packing.drains_in_turn import DrainsInTurn
from kschedctl.replay.edits import cordon_node
from kschedctl.replay.node_drain import NodeDrain, iter_moved_pods
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

CORDONED = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}


def drain_one_by_one(scheduler: Scheduler, names: list[str]) -> tuple[list[tuple[str, list[object]]], Fork]:
    """Return the nodes that whole drains empty, with the moves of their pods, and the cluster afterwards."""
    went, view = list[tuple[str, list[object]]](), scheduler.view
    for row, name in enumerate(names):
        changed = view.with_changes(view.cluster, {Row(row): cordon_node(view.nodes.objects[row])})
        whole = NodeDrain(Simulation(scheduler, changed), [name])
        whole.run()
        unplaced = any(outcome.row < 0 for outcome in whole.outcomes.values())
        back = any(outcome.row == row for outcome in whole.outcomes.values())
        if not (whole.report_blocked_pods() or whole.lost or unplaced or whole.preemptions or back):
            went.append((name, list(iter_moved_pods(whole))))
            view = whole.simulation.view
    return went, view


def build_varied_cluster(seed: int) -> list[Json]:
    """Build different nodes, and pods that depend on cordons, claims, budgets, priorities or other pods."""
    random = Random(seed)
    names = [f"n{number}" for number in range(random.randint(3, 7))]
    objects = [build_node(name, random.choice("ab"), random.choice(("2", "3", "4"))) for name in names]
    kinds = [draw_workload(app, random) for app in "abcd"]
    for number in range(random.randint(6, 20)):
        app, cpu, spec = random.choice(kinds)
        owner = {"kind": "ReplicaSet", "name": app} if random.random() < 0.97 else None
        placed = build_pod(f"p{number}", random.choice(names), cpu, owner, **spec)
        placed["metadata"]["labels"] = {"app": app}
        if random.random() < 0.1:
            placed["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        if random.random() < 0.15:
            objects += build_storage(placed, number, random.choice(names), bound=random.random() < 0.5)
        objects.append(placed)
    if random.random() < 0.5:
        objects.append(build_budget(random.choice((1, 2, 3)), random.choice("abcd")))
    return objects


def draw_workload(app: str, random: Random) -> tuple[str, str, Json]:
    """Return the name, CPU and other spec fields of a workload."""
    spec: Json = {}
    if random.random() < 0.4:
        spec |= build_spread(random.choice((ZONE, HOSTNAME)), app)
        constraint = spec["topologySpreadConstraints"][0]
        constraint["whenUnsatisfiable"] = random.choice(("DoNotSchedule", "ScheduleAnyway"))
        constraint["nodeTaintsPolicy"] = random.choice(("Ignore", "Ignore", "Honor"))
    if random.random() < 0.4:
        kind = random.choice(("podAffinity", "podAntiAffinity"))
        term = {"labelSelector": {"matchLabels": {"app": random.choice("abcd")}}, "topologyKey": HOSTNAME}
        spec["affinity"] = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if random.random() < 0.2:
        spec["priority"] = random.choice((-10, 10))
    if random.random() < 0.15:
        spec["tolerations"] = [CORDONED]
    return app, random.choice(("200m", "500m", "1", "1500m")), spec


def build_storage(placed: Json, number: int, home: str, *, bound: bool) -> list[Json]:
    """Build a claim for a pod, and the disks of a node, of which the pod has one or gets one with its node."""
    claim = f"data-{number}"
    placed["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    here = {"key": HOSTNAME, "operator": "In", "values": [home]}
    size = {"storage": "1Gi"}
    shared = {"capacity": size, "accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    volume: Json = {
        "kind": "PersistentVolume",
        "metadata": {"name": f"pv-{number}"},
        "spec": {**shared, "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}},
        "status": {"phase": "Available"},
    }
    asked = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local", "resources": {"requests": size}}
    made: Json = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim, "namespace": "d", "uid": f"uid-{claim}"},
        "spec": asked,
        "status": {"phase": "Pending"},
    }
    if bound:
        made["spec"]["volumeName"] = f"pv-{number}"
        made["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        made["status"]["phase"] = volume["status"]["phase"] = "Bound"
        volume["spec"]["claimRef"] = {"name": claim, "namespace": "d", "uid": f"uid-{claim}"}
    waits = {
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    return [waits, volume, made]


@pytest.mark.parametrize("share", range(4))
def test_shared_simulation_equals_separate_drains(share: int) -> None:
    """The nodes, the moves and the numbers of ties are the same, and in the end every pod and claim is in the same
    place."""
    went = stayed = shared = 0
    for seed in range(share * 30, share * 30 + 30):
        scheduler = Scheduler(Cluster.from_objects(build_varied_cluster(seed)))
        names = list(scheduler.view.nodes.names)
        expected, after = drain_one_by_one(scheduler, names)
        drains = DrainsInTurn(scheduler, scheduler.view)
        emptied = []
        for row, name in enumerate(names):
            simulation = drains.simulation
            trial = drains.drain_node(Row(row))
            shared += simulation is drains.simulation and len(trial.moved) > 0
            if trial.why:
                stayed += 1
            else:
                emptied.append((name, list(trial.moved)))
        assert emptied == expected, seed
        assert np.array_equal(drains.view.node, after.node), seed
        assert np.array_equal(drains.view.requested, after.requested), seed
        assert drains.view.cluster.persistent_volume_claims == after.cluster.persistent_volume_claims, seed
        assert drains.view.cluster.persistent_volumes == after.cluster.persistent_volumes, seed
        went += len(emptied)
    assert min(went, stayed, shared) > 20


@pytest.mark.parametrize("share", range(2))
def test_reverted_drain_leaves_no_trace(share: int) -> None:
    """After a removable node is put back, later drains have the same results."""
    put_back = 0
    for seed in range(share * 25, share * 25 + 25):
        scheduler = Scheduler(Cluster.from_objects(build_varied_cluster(seed)))
        rows = [Row(row) for row in range(len(scheduler.view.nodes))]
        untouched = DrainsInTurn(scheduler, scheduler.view)
        expected = [untouched.drain_node(row)[:2] for row in rows[1:]]
        drains = DrainsInTurn(scheduler, scheduler.view)
        if not drains.drain_node(rows[0]).why:
            drains.undo()
            put_back += 1
        assert np.array_equal(drains.view.node, scheduler.view.node), seed
        assert drains.view.cluster.persistent_volumes == scheduler.cluster.persistent_volumes
        assert [drains.drain_node(row)[:2] for row in rows[1:]] == expected, seed
    assert put_back > 5


def test_pod_that_tolerates_cordons_keeps_its_node() -> None:
    """Only its own node has room, and takes it again although it is cordoned."""
    tolerant = build_pod("t", "n1", "3", {"kind": "ReplicaSet", "name": "t"}, tolerations=[CORDONED])
    scheduler = Scheduler(Cluster.from_objects([build_node("n1"), build_node("n2", cpu="2"), tolerant]))
    trial = DrainsInTurn(scheduler, scheduler.view).drain_node(scheduler.view.nodes.index["n1"])
    assert (trial.pod, trial.why) == ("d/t", "d/t would come back: it tolerates the taint of cordoned nodes")


@pytest.mark.parametrize("mode", ["Immediate", "WaitForFirstConsumer"])
def test_pod_with_an_unbound_claim_keeps_its_node(mode: str) -> None:
    """The reason, in the scheduler's words, is known before any drain.

    A claim that waits for the pod's node keeps no pod.
    """
    placed = build_pod("p", "n1", "1", {"kind": "ReplicaSet", "name": "p"})
    other = build_pod("other", "n1", "1", {"kind": "ReplicaSet", "name": "other"})
    waits, volume, claim = build_storage(placed, 0, "n2", bound=False)
    waits["volumeBindingMode"] = mode
    nodes = [build_node("n1"), build_node("n2"), build_node("n3")]
    scheduler = Scheduler(Cluster.from_objects([*nodes, placed, other, waits, volume, claim]))
    drains = DrainsInTurn(scheduler, scheduler.view)
    trial = drains.drain_node(scheduler.view.nodes.index["n1"])
    if mode == "WaitForFirstConsumer":
        assert (trial.pod, trial.why, len(trial.moved)) == ("", "", 2)
        return
    words = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims"
    assert (trial.pod, trial.why, trial.moved) == ("d/p", f"d/p: {words}", ())
    cordoned = scheduler.view.with_changes(scheduler.cluster, {Row(0): cordon_node(scheduler.view.nodes.objects[0])})
    whole = NodeDrain(Simulation(scheduler, cordoned), ["n1"])
    whole.run()
    assert [o.message.split(". ")[0] for o in whole.outcomes.values() if o.row < 0] == [words]
