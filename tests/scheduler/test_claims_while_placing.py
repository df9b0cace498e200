"""Check that pods with claims get the answers of a full cycle on the current cluster while others come and go."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kschedctl.cluster import Cluster
from kschedctl.replay.settling import build_resulting_cluster
from kschedctl.scheduler.engine.cycle import run_cycle
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation import placement
from kschedctl.scheduler.simulation.simulation import Simulation

Json = dict[str, Any]
DRIVER = "gpu.example.com"
GB = {"requests": {"storage": "1Gi"}}


@pytest.fixture(autouse=True, scope="module")
def no_full_cycles() -> Iterator[None]:
    """Let even the first pods of a kind get cached answers, which are then compared with full cycles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placement, "FULL_CYCLES_PER_KIND", 0)
        yield


def build_object(kind: str, name: str, spec: Json, **rest: Any) -> Json:
    return {"kind": kind, "metadata": {"name": name, "namespace": "d", "uid": name}, "spec": spec, **rest}


def build_nodes(random: Random) -> list[Json]:
    found = []
    for i in range(random.randint(2, 5)):
        status = {"allocatable": {"cpu": str(random.randint(2, 6)), "memory": "8Gi", "pods": "10"}}
        labels = {"zone": random.choice("ab")}
        found.append({"kind": "Node", "metadata": {"name": f"n{i}", "labels": labels}, "spec": {}, "status": status})
        drivers = [{"name": "csi.example.com", "nodeID": f"n{i}", "allocatable": {"count": random.randint(1, 3)}}]
        found.append(build_object("CSINode", f"n{i}", {"drivers": drivers}))
    return found


def draw_devices(random: Random, names: list[str]) -> list[Json]:
    """Draw devices of single nodes, of all nodes of a zone, and with shared counters."""
    found = [build_object("DeviceClass", "gpu", {"extendedResourceName": "example.com/gpu"})]
    for name in names:
        found.append(build_resource_slice(random, f"of-{name}", {"nodeName": name}))
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    found.append(build_resource_slice(random, "of-zone", {"nodeSelector": {"nodeSelectorTerms": [term]}}))
    counters = [{"name": "set", "counters": {"memory": {"value": str(random.randint(1, 4))}}}]
    pool = {"name": "split", "generation": 1, "resourceSliceCount": 2}
    found.append(
        build_object("ResourceSlice", "counters", {"driver": DRIVER, "pool": pool, "sharedCounters": counters})
    )
    takes = {"consumesCounters": [{"counterSet": "set", "counters": {"memory": {"value": "1"}}}]}
    parts = [build_device(random, i) | takes for i in range(3)]
    spec = {"driver": DRIVER, "allNodes": True, "pool": pool, "devices": parts}
    return [*found, build_object("ResourceSlice", "parts", spec)] if random.random() < 0.5 else found


def build_resource_slice(random: Random, name: str, where: Json) -> Json:
    return build_slice(name, [build_device(random, i) for i in range(random.randint(0, 3))], where)


def build_slice(name: str, devices: list[Json], where: Json) -> Json:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return build_object("ResourceSlice", name, {"driver": DRIVER, "pool": pool, "devices": devices, **where})


def build_device(random: Random, i: int) -> Json:
    found: Json = {"name": f"gpu-{i}", "attributes": {"model": {"string": random.choice("ML")}}}
    if random.random() < 0.3:
        found |= {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "4Gi"}}}
    return found


def request(random: Random) -> Json:
    chosen = {"cel": {"expression": f'device.attributes["{DRIVER}"].model == "{random.choice("ML")}"'}}
    exact: Json = {"deviceClassName": "gpu", "count": random.choice([1, 1, 2])}
    kind = random.random()
    if kind < 0.4:
        return {"name": "r", "exactly": exact | {"selectors": [chosen]}}
    if kind < 0.6:
        first = {"name": "one", **exact, "selectors": [chosen]}
        return {"name": "r", "firstAvailable": [first, {"name": "other", **exact}]}
    if kind < 0.7:
        return {"name": "r", "exactly": exact | {"capacity": {"requests": {"memory": "2Gi"}}}}
    return {"name": "r", "exactly": exact}


def build_volumes(random: Random) -> list[Json]:
    found: list[Json] = []
    for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("csi", "csi.example.com")):
        mode = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        found.append({"kind": "StorageClass", "metadata": {"name": name}, **mode})
    for i in range(4):
        access = random.choice(["ReadWriteOnce", "ReadWriteOncePod"])
        spec = {"accessModes": [access], "resources": GB, "storageClassName": random.choice(["local", "csi"])}
        found.append(build_object("PersistentVolumeClaim", f"v{i}", spec))
    for i in range(3):
        at = {"key": "zone", "operator": "In", "values": [random.choice("ab")]}
        spec = {"capacity": {"storage": f"{random.randint(1, 2)}Gi"}, "storageClassName": "local"}
        spec |= {"accessModes": ["ReadWriteOnce", "ReadWriteOncePod"]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [at]}]}}
        labels = {"topology.kubernetes.io/zone": "x"} if random.random() < 0.3 else {}
        volume = build_object("PersistentVolume", f"pv{i}", spec, status={"phase": "Available"})
        found.append(volume | {"metadata": {"name": f"pv{i}", "labels": labels}})
    return found


def build_pods(random: Random) -> list[Json]:
    """Draw pods with claims of templates, with a shared claim, with volumes, and with an extended resource."""
    templates = [{"devices": {"requests": [request(random)]}} for _ in range(2)]
    common = build_object("ResourceClaim", "common", {"devices": {"requests": [request(random)]}})
    found = [common]
    for i in range(random.randint(4, 10)):
        name, spec = f"p{i:02}", {"containers": [build_container(random)]}
        kind = random.random()
        status: Json = {}
        if kind < 0.55:
            claim = build_object("ResourceClaim", f"c{i}", random.choice(templates))
            claim["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": name, "uid": name, "controller": True}]
            found.append(claim)
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
            status["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": f"c{i}"}]
        elif kind < 0.65:
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "common"}]
        elif kind < 0.75:
            spec["containers"] = [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]
        elif kind < 0.95:
            claims = random.sample(range(4), random.randint(1, 2))
            spec["volumes"] = [{"name": f"v{k}", "persistentVolumeClaim": {"claimName": f"v{k}"}} for k in claims]
        found.append(build_object("Pod", name, spec, status=status))
    return found


def build_container(random: Random) -> Json:
    return {"name": "c", "resources": {"requests": {"cpu": random.choice(["500m", "1"])}}}


def build_objects(random: Random) -> list[Json]:
    found = build_nodes(random)
    names = [o["metadata"]["name"] for o in found if o["kind"] == "Node"]
    return [*found, *draw_devices(random, names), *build_volumes(random), *build_pods(random)]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_answers_equal_those_of_a_freshly_read_cluster(seed: int) -> None:
    random = Random(seed)
    simulation = Simulation(Scheduler(Cluster.from_objects(build_objects(random))), seed=seed)
    view = simulation.view
    for _ in range(25):
        position = random.randrange(len(view.pods))
        if view.node[position] >= 0:
            simulation.remove([position])
            simulation.gone.discard(position)
            continue
        expected = evaluate_afresh(simulation, position)
        assert evaluate(simulation, position) == expected
        if isinstance(expected, tuple) and expected[1]:
            simulation.bind(position, view.nodes.index[random.choice(sorted(expected[1]))])


def evaluate(simulation: Simulation, position: int) -> tuple[int, set[str]] | str:
    """Return the number of feasible nodes with the best ones, or the error."""
    framework = simulation.scheduler.find_framework("default-scheduler")
    assert framework is not None
    try:
        choice = simulation.placements.choose_node(framework, position)
    except PluginError as error:
        return str(error)
    if choice is None:
        return 0, set()
    return choice.feasible, {simulation.view.nodes.names[row] for row in choice.tied.tolist()}


def evaluate_afresh(simulation: Simulation, position: int) -> tuple[int, set[str]] | str:
    """Return the number of feasible nodes with the best ones, or the error, by a full cycle on the current cluster."""
    scheduler = Scheduler(build_resulting_cluster(simulation))
    framework, view = scheduler.find_framework("default-scheduler"), scheduler.view
    assert framework is not None
    number = view.pods.info[view.pods.index[simulation.view.pods.objects[position].key]]
    cycle = run_cycle(framework, view.pods.infos[number], view)
    if cycle.error is not None:
        return cycle.error
    return len(cycle.feasible), {view.nodes.names[row] for row in cycle.scores.best.tolist()}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_shared_message_is_true_of_each_similar_pod(seed: int) -> None:
    """For each unschedulable pod, a cycle of its own finds no node, and gives the same message."""
    simulation = Simulation(Scheduler(Cluster.from_objects(build_objects(Random(seed)))), seed=seed)
    outcomes = simulation.run(range(len(simulation.view.pods)))
    for outcome in outcomes:
        if outcome.verdict == "Unschedulable":
            assert evaluate_afresh(simulation, outcome.position) == (0, set())
            assert outcome.message == simulation.build_message(outcome.position)


def test_one_cycle_explains_similar_unschedulable_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a device for one of four pods with a claim each. Two other claims request two devices."""
    found = [
        {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "9", "pods": "9"}}},
        build_object("DeviceClass", "gpu", {}),
        build_slice("n", [{"name": "gpu-0"}], {"nodeName": "n"}),
    ]
    for i in range(6):
        exact = {"deviceClassName": "gpu", "count": 1 if i < 4 else 2}
        found.append(
            build_object("ResourceClaim", f"c{i}", {"devices": {"requests": [{"name": "r", "exactly": exact}]}})
        )
        spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": f"c{i}"}], "containers": [{"name": "c"}]}
        found.append(build_object("Pod", f"p{i}", spec))
    simulation = Simulation(Scheduler(Cluster.from_objects(found)))
    asked: list[int] = []
    placements, cycle = simulation.placements, simulation.placements.run_cycle
    monkeypatch.setattr(placements, "run_cycle", lambda profile, pod: asked.append(pod) or cycle(profile, pod))
    outcomes = simulation.run(range(6))
    assert [outcome.verdict for outcome in outcomes] == ["Scheduled", *["Unschedulable"] * 5]
    assert asked == [1, 4]
    assert all("0/1 nodes are available: 1 cannot allocate all claims." in each.message for each in outcomes[1:])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_clones_have_their_own_devices(seed: int) -> None:
    """Clones of a pod whose extended resources are backed by devices get the same answers as pods with other names.

    Some nodes offer the resource by a device plugin, and others have devices for it, or use those of their zone.
    """
    random = Random(seed)
    cluster = build_nodes(random)
    names = [each["metadata"]["name"] for each in cluster if each["kind"] == "Node"]
    for each in cluster:
        if each["kind"] == "Node" and random.random() < 0.3:
            each["status"]["allocatable"]["example.com/gpu"] = "2"
    cluster += draw_devices(random, names)
    requests = {"cpu": "100m", "example.com/gpu": random.choice(["1", "1", "2"])}
    spec = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    others = [build_object("Pod", f"p{i}", spec) for i in range(random.randint(2, 7))]
    by_name = Simulation(Scheduler(Cluster.from_objects([*cluster, *others])), seed=seed)
    cloned = Simulation(Scheduler(Cluster.from_objects([*cluster, others[0]])), seed=seed)
    for position, copy in enumerate([0, *cloned.view.add_clones(0, len(others) - 1)]):
        expected = evaluate_afresh(by_name, position)
        assert evaluate(cloned, copy) == expected
        if isinstance(expected, tuple) and expected[1]:
            row = by_name.view.nodes.index[random.choice(sorted(expected[1]))]
            by_name.bind(position, row)
            cloned.bind(copy, row)


def test_missing_class_is_reported_after_an_allocated_claim() -> None:
    """Of two similar pods, the class of the allocated claim is not looked up, but that of the other is."""
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    cluster: list[Json] = [{"kind": "Node", "metadata": {"name": "n0"}, "spec": {}, "status": status}]
    cluster.append(build_slice("of-n0", [{"name": "gpu-0"}, {"name": "gpu-1"}], {"nodeName": "n0"}))
    wants = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gone"}}]}}
    held = {"devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "of-n0", "device": "gpu-0"}]}}
    cluster.append(build_object("ResourceClaim", "a", wants, status={"allocation": held}))
    cluster.append(build_object("ResourceClaim", "b", wants))
    for name in ("a", "b"):
        claims = [{"name": "gpu", "resourceClaimName": name}]
        template = {"containers": [{"name": "c"}], "resourceClaims": claims}
        cluster.append(build_object("Pod", f"p-{name}", template))
    scheduler = Scheduler(Cluster.from_objects(cluster))
    view = scheduler.view
    first, second = (view.pods.infos[view.pods.info[view.pods.index[f"d/p-{name}"]]] for name in ("a", "b"))
    assert first.alike == second.alike
    simulation = Simulation(scheduler)
    outcomes = {outcome.position: outcome for outcome in simulation.run(range(2))}
    assert outcomes[view.pods.index["d/p-a"]].verdict == "Scheduled"
    assert "device class gone does not exist" in outcomes[view.pods.index["d/p-b"]].message
