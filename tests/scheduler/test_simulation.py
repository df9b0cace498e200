"""Compare simulations with a chain of single explanations on small random clusters."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from small_clusters import HOSTNAME, Json, draw_some

import kschedctl
from kschedctl.api.arrays import Position
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.report import Explanation
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import UNSCHEDULABLE, Outcome
from kschedctl.scheduler.simulation.simulation import Simulation

APPS = ["x", "y"]
ZONE = "zone"


# -- random clusters ----------------------------------------------------------------------------------------------


def build_node(random: Random, name: str) -> Json:
    allocatable = {"cpu": str(random.randint(2, 6)), "memory": "8Gi", "pods": str(random.choice([3, 5, 10]))}
    taints = [{"key": "spot", "effect": random.choice(["NoSchedule", "PreferNoSchedule"])}]
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {ZONE: random.choice("ab"), HOSTNAME: name}},
        "spec": {"taints": taints} if random.random() < 0.2 else {},
        "status": {"allocatable": allocatable},
    }


def build_pod(random: Random, name: str, spec: Json, app: str) -> Json:
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "d", "labels": {"app": app}}, "spec": spec}


def build_template(random: Random, app: str, volumes: bool) -> Json:
    """Draw the spec of all pods of a template."""
    ports = [{"containerPort": 80, "hostPort": random.choice([80, 81])}] if random.random() < 0.15 else []
    requests = {"cpu": random.choice(["500m", "1", "2"]), **draw_some(random, memory="1Gi")}
    spec: Json = {"containers": [{"name": "c", "resources": {"requests": requests}, "ports": ports}]}
    spec["priority"] = random.choice([0, 0, 0, 10, 20])
    if random.random() < 0.4:
        spec["topologySpreadConstraints"] = [build_spread(random) for _ in range(random.randint(1, 2))]
    affinity = draw_some(random, podAffinity=draw_terms(random), podAntiAffinity=draw_terms(random))
    if affinity and random.random() < 0.6:
        spec["affinity"] = affinity
    if random.random() < 0.3:
        spec["tolerations"] = [{"key": "spot", "operator": "Exists"}]
    if random.random() < 0.1:
        spec["preemptionPolicy"] = "Never"
    if volumes and random.random() < 0.5:
        spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": random.choice(["c1", "c2", "c3"])}}]
    return spec


def build_spread(random: Random) -> Json:
    return {
        "maxSkew": random.randint(1, 2),
        "topologyKey": random.choice([ZONE, HOSTNAME]),
        "whenUnsatisfiable": random.choice(["DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": {"matchLabels": {"app": random.choice(APPS)}},
    }


def draw_terms(random: Random) -> Json:
    term = {
        "topologyKey": random.choice([ZONE, HOSTNAME]),
        "labelSelector": {"matchLabels": {"app": random.choice(APPS)}},
    }
    if random.random() < 0.5:
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": random.randint(1, 9), "podAffinityTerm": term}]
    }


def draw_storage(random: Random) -> list[Json]:
    """Draw claims of a class that waits for its first consumer, and local volumes for them."""
    classes = [
        {"kind": "StorageClass", "metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner"},
        {"kind": "StorageClass", "metadata": {"name": "csi"}, "provisioner": "csi.example.com"},
    ]
    for found in classes:
        found["volumeBindingMode"] = "WaitForFirstConsumer"
    size = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    claims = [
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "d"},
            "spec": {**size, "storageClassName": random.choice(["local", "local", "csi"])},
        }
        for name in ("c1", "c2", "c3")
    ]
    volumes = []
    for i in range(random.randint(1, 3)):
        expression = {"key": ZONE, "operator": "In", "values": [random.choice("ab")]}
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
        spec = {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
        volumes.append({"kind": "PersistentVolume", "metadata": {"name": f"pv{i}"}, "spec": spec})
        volumes[-1] |= {"spec": {**spec, "nodeAffinity": affinity}, "status": {"phase": "Available"}}
    return [*classes, *claims, *volumes]


def draw_objects(random: Random) -> tuple[list[Json], list[str]]:
    """Draw the objects of a cluster, and the keys of the pods to schedule."""
    volumes = random.random() < 0.4
    nodes = [build_node(random, f"n{i}") for i in range(random.randint(1, 6))]
    kinds = [(app, build_template(random, app, volumes)) for app in (random.choice(APPS) for _ in range(3))]
    running, pending = [], []
    for i in range(random.randint(0, 8)):
        app, spec = random.choice(kinds)
        spec = {key: part for key, part in spec.items() if key != "volumes"}
        spec["nodeName"] = random.choice(nodes)["metadata"]["name"]
        running.append(build_pod(random, f"r{i}", {**spec, "priority": 0}, app))
    for i in range(random.randint(1, 12)):
        app, spec = random.choice(kinds)
        pending.append(build_pod(random, f"p{i:02}", spec, app))
    budgets = []
    if random.random() < 0.3:
        meta = {"name": "b", "namespace": "d"}
        selector = {"selector": {"matchLabels": {"app": "x"}}}
        allowed = {"disruptionsAllowed": random.randint(0, 2)}
        budgets = [{"kind": "PodDisruptionBudget", "metadata": meta, "spec": selector, "status": allowed}]
    keys = [f"d/{p['metadata']['name']}" for p in pending]
    return [*nodes, *running, *pending, *budgets, *(draw_storage(random) if volumes else [])], keys


def get_key(document: Json) -> str:
    return f"{document['metadata'].get('namespace')}/{document['metadata']['name']}"


# -- the chain ----------------------------------------------------------------------------------------------------


class Chain:
    """A chain of single explanations, between which pods move as in the simulation.

    ``running`` has the pods of each node in the order in which kube-scheduler lists them, where the last one takes the
    place of a removed one.
    """

    def __init__(self, simulation: Simulation, documents: list[Json]) -> None:
        self.simulation, self.documents = simulation, documents
        self.node: dict[str, str] = {}
        self.gone: set[str] = set()
        self.running: dict[str, list[str]] = {}
        for document in documents:
            if bound := document.get("spec", {}).get("nodeName"):
                self.running.setdefault(bound, []).append(get_key(document))

    def explain(self, key: str) -> Explanation:
        turns = self._turns()
        documents = [self._now(document, turns) for document in self.documents if not self._is_gone(document)]
        cluster = Cluster.from_objects(documents)
        now = self.simulation.view.cluster
        claims = {"PersistentVolumeClaim": now.persistent_volume_claims, "PersistentVolume": now.persistent_volumes}
        budgets = {"PodDisruptionBudget": now.pod_disruption_budgets}
        return kschedctl.explain(cluster.with_objects({**claims, **budgets}), key)

    def follow(self, outcome: Outcome) -> None:
        """Check one outcome and apply it."""
        names, pods = self.simulation.view.nodes.names, self.simulation.view.pods.objects
        key, node = pods[outcome.position].key, self.running.setdefault(names[outcome.row], [])
        for victim in (pods[position].key for position in outcome.victims):
            node[node.index(victim)] = node[-1]
            node.pop()
            self.gone.add(victim)
        node.append(key)
        self.node[key] = names[outcome.row]

    def _turns(self) -> dict[str, int]:
        """Return the position of each pod in the queue.

        Pods that never started go in the order in which they are listed, pods placed here in reverse. An explanation
        treats all as never started and lists them by name.
        """
        turns: dict[str, int] = {}
        for node in self.running.values():
            came = [key for key in node if key in self.node]
            for key in [*reversed(came), *(key for key in node if key not in self.node)]:
                turns[key] = len(turns)
        return turns

    def _is_gone(self, document: Json) -> bool:
        return document["kind"] == "Pod" and get_key(document) in self.gone

    def _now(self, document: Json, turns: dict[str, int]) -> Json:
        """Return the pod on its node, under a name that gives it its position there."""
        if document["kind"] != "Pod" or get_key(document) not in turns:
            return document
        bound = self.node.get(get_key(document)) or document["spec"]["nodeName"]
        meta = {**document["metadata"], "name": f"{turns[get_key(document)]:03}-{document['metadata']['name']}"}
        return {**document, "metadata": meta, "spec": {**document["spec"], "nodeName": bound}}


def check(explained: Explanation, outcome: Outcome | None, simulation: Simulation) -> None:
    view = simulation.view
    if outcome is None:
        assert explained.verdict == "Unschedulable"
        assert not explained.preemption or not explained.preemption.tied or not explained.preemption.asked
        return
    node_name = view.nodes.names[outcome.row]
    if outcome.victims:
        assert explained.verdict == "Unschedulable"
        assert explained.preemption is not None
        assert node_name in explained.preemption.tied
        victims = {view.pods.objects[position].metadata.name for position in outcome.victims}
        found = explained.preemption.candidates[node_name].victims
        assert {key.partition("-")[2] for key in found} == victims
    else:
        assert explained.verdict == "Schedulable"
        assert (len(explained.feasible), len(explained.best)) == (outcome.feasible, outcome.tied)
        assert node_name in explained.best


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_copies_get_the_nodes_that_single_attempts_find(seed: int, preemption: bool) -> None:
    random = Random(seed)
    documents, keys = draw_objects(random)
    scheduler = Scheduler(Cluster.from_objects(documents))
    key = random.choice(keys)

    def build_simulation() -> tuple[Simulation, list[Position]]:
        simulation = Simulation(scheduler, seed=seed, preemption=preemption)
        position = simulation.view.pods.index[key]
        return simulation, [position, *simulation.view.add_clones(position, 30)]

    simulation, positions = build_simulation()
    expected = []
    for position in positions:
        expected.append(simulation.attempt_pod(position) or Outcome(position, UNSCHEDULABLE))
        if expected[-1].row < 0:
            break
    copying, positions = build_simulation()
    assert list(copying.attempt_copies(positions)) == expected
    assert copying.view.node.tolist() == simulation.view.node.tolist()
    assert copying.view.requested.tolist() == simulation.view.requested.tolist()


@given(st.integers(0, 2**32 - 1))
def test_simulation_is_a_chain_of_explanations(seed: int) -> None:
    random = Random(seed)
    documents, keys = draw_objects(random)
    simulation = Simulation(Scheduler(Cluster.from_objects(documents)), seed=seed)
    chain = Chain(simulation, documents)
    waiting = simulation.sort_for_queue([simulation.view.pods.index[key] for key in keys])
    explained: dict[str, Explanation] = {}
    moved = True
    while waiting and moved:
        again, moved = [], False
        for position in waiting:
            key = simulation.view.pods.objects[position].key
            explained[key] = chain.explain(key)
            outcome = simulation.attempt_pod(position)
            check(explained[key], outcome, simulation)
            if outcome is None:
                again.append(position)
            else:
                chain.follow(outcome)
                moved = True
        waiting = again
    rest = simulation.run(waiting)
    assert [outcome.message for outcome in rest] == [
        explained[simulation.view.pods.objects[position].key].message for position in waiting
    ]


def test_run_is_the_same_with_the_same_seed() -> None:
    documents, keys = draw_objects(Random(5))
    assert simulate_pods(documents, keys, 3) == simulate_pods(documents, keys, 3)


def simulate_pods(documents: list[Json], keys: list[str], seed: int) -> list[Any]:
    simulation = Simulation(Scheduler(Cluster.from_objects(documents)), seed=seed)
    return simulation.run([simulation.view.pods.index[key] for key in keys])


def test_unknown_spread_key_rejects_every_node_each_time() -> None:
    """From the fourth attempt on nodes are ranked in groups, which are rebuilt each time because another pod comes in
    between."""
    node: Json = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "9", "pods": "9"}}}
    pods: list[Json] = [
        {"kind": "Pod", "metadata": {"name": f"p{i}", "namespace": "d"}, "spec": {"containers": [{"name": "c"}]}}
        for i in range(6)
    ]
    rack: Json = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
    pods[0]["spec"]["topologySpreadConstraints"] = [rack]
    simulation = Simulation(Scheduler(Cluster.from_objects([node, *pods])))
    index = simulation.view.pods.index
    for other in range(1, 6):
        assert simulation.attempt_pod(index["d/p0"]) is None
        placed = simulation.attempt_pod(index[f"d/p{other}"])
        assert placed is not None
        assert placed.row == 0
