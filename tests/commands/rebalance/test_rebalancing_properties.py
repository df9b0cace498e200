"""Check that rebalancing random clusters loses no pod, overfills no node and violates no PDB.

Each step is replayed from scratch, on a cluster made anew.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from random import Random
from typing import Any

import pytest

import kschedctl
from kschedctl.cluster import Cluster
from kschedctl.scheduler.scheduler import Scheduler

Json = dict[str, Any]
NOW = "2026-06-01T12:00:00Z"
ZONE, CPU = "topology.kubernetes.io/zone", 8
PLUGINS = {
    "deschedule": [
        {"name": "RemovePodsViolatingInterPodAntiAffinity", "args": {}},
        {"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 86400}},
    ],
    "balance": [
        {"name": "RemoveDuplicates", "args": {}},
        {"name": "RemovePodsViolatingTopologySpreadConstraint", "args": {}},
        {"name": "LowNodeUtilization", "args": {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 60}}},
        {"name": "HighNodeUtilization", "args": {"thresholds": {"cpu": 20}}},
    ],
}


class World:
    """Some nodes in zones, and workloads whose pods are anywhere; each may have a budget, spread or repel its own."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.nodes = [f"n{number}" for number in range(self.random.randint(3, 6))]
        self.used: Counter[str] = Counter()
        self.where: dict[str, str] = {}
        self.cpu: dict[str, int] = {}
        self.least: dict[str, int] = {}
        self.objects: list[Json] = [self.node(name, at) for at, name in enumerate(self.nodes)]
        for number in range(self.random.randint(2, 5)):
            self.add_workload(f"w{number}")

    def node(self, name: str, at: int) -> Json:
        offers = {"cpu": str(CPU), "memory": "64Gi", "pods": "30"}
        labels = {ZONE: "abc"[at % 3], "kubernetes.io/hostname": name}
        status = {"allocatable": offers, "capacity": offers}
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}

    def add_workload(self, name: str) -> None:
        cpu, selector = self.random.choice((1, 1, 2)), {"matchLabels": {"app": name}}
        spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        repel = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        wish = self.random.choice(("spread", "repel", "nothing"))
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [repel]}}
        count = self.random.randint(1, 5)
        for number in range(count):
            room = [node for node in self.nodes if self.used[node] + cpu <= CPU]
            if not room:
                count = number
                break
            self.add_pod(
                f"{name}-{number}",
                name,
                self.random.choice(room),
                cpu,
                topologySpreadConstraints=[spread] if wish == "spread" else [],
                affinity=apart if wish == "repel" else {},
            )
        if count and self.random.random() < 0.6:
            self.least[name] = max(count - self.random.randint(0, 2), 0)
            spec = {"selector": selector, "minAvailable": self.least[name]}
            meta = {"name": name, "namespace": "default"}
            self.objects.append(
                {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}
            )

    def add_pod(self, name: str, workload: str, node: str, cpu: int, **spec: Any) -> None:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": workload, "uid": workload, "controller": True}
        created = self.random.choice(("2026-05-01T00:00:00Z", "2026-06-01T11:00:00Z"))
        meta = {
            "name": name,
            "namespace": "default",
            "uid": name,
            "labels": {"app": workload},
            "ownerReferences": [owner],
        }
        container = {"name": "c", "image": workload, "resources": {"requests": {"cpu": str(cpu)}}}
        ready = {"phase": "Running", "startTime": created, "conditions": [{"type": "Ready", "status": "True"}]}
        self.objects.append(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {**meta, "creationTimestamp": created},
                "spec": {"nodeName": node, "containers": [container], **spec},
                "status": ready,
            }
        )
        self.where[name], self.cpu[name] = node, cpu
        self.used[node] += cpu

    def policy(self) -> Json:
        point = self.random.choice(list(PLUGINS))
        configs = self.random.sample(PLUGINS[point], self.random.randint(1, len(PLUGINS[point])))
        names = {"enabled": [config["name"] for config in configs]}
        profile = {"name": "p", "pluginConfig": configs, "plugins": {point: names}}
        return {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile]}


def find_best_nodes(world: World, name: str, where: dict[str, str]) -> list[str]:
    """Return the best nodes for the replacement of an evicted pod, which may still be there."""
    (evicted,) = (made for made in world.objects if made["kind"] == "Pod" and made["metadata"]["name"] == name)
    meta = {**evicted["metadata"], "name": "leaving", "uid": "leaving", "deletionTimestamp": NOW}
    leaving = {**evicted, "metadata": meta, "spec": {**evicted["spec"], "nodeName": where[name]}}
    return find_fitting_nodes(world, name, where, leaving) or find_fitting_nodes(world, name, where)


def find_fitting_nodes(world: World, name: str, where: dict[str, str], *more: Json) -> list[str]:
    """Return the best nodes for a waiting pod, with the other pods in their places."""
    objects = [*more, *(made for made in world.objects if made["kind"] != "Pod")]
    for made in (made for made in world.objects if made["kind"] == "Pod"):
        own = made["metadata"]["name"]
        node, status = ("", {}) if own == name else (where[own], made["status"])
        objects.append({**made, "spec": {**made["spec"], "nodeName": node}, "status": status})
    scheduler = Scheduler(Cluster.from_objects(objects))
    view, framework = scheduler.view, scheduler.find_framework("default-scheduler")
    assert framework is not None
    pod = view.pods.objects[view.pods.index[f"default/{name}"]]
    cycle = scheduler.run_cycle(framework, view.build_stored_pod(pod))
    return [view.nodes.names[row] for row in cycle.scores.best.tolist()] if cycle.schedulable else []


def replay_steps(seed: int) -> int:
    """Replay the steps and return how many there are."""
    world = World(seed)
    report = kschedctl.rebalance(Cluster.from_objects(world.objects), world.policy(), rounds=4, now=NOW)
    assert not report.not_replayed
    where = dict(world.where)
    counts = Counter(name.rpartition("-")[0] for name in where)
    for number, steps in groupby(report.steps, lambda step: step.round):
        away = Counter[str]()
        for step in steps:
            name = step.pod.removeprefix("default/")
            workload = name.rpartition("-")[0]
            away[workload] += 1
            assert counts[workload] - away[workload] >= world.least.get(workload, 0), f"the budget, in round {number}"
            assert step.budgets == ((f"default/{workload}",) if workload in world.least else ())
            assert where[name] == step.source
            best = find_best_nodes(world, name, where)
            assert step.target in best
            assert step.tied == len(best)
            where[name] = step.target
            used = Counter[str]()
            for other, node in where.items():
                used[node] += world.cpu[other]
            assert max(used.values()) <= CPU, "the node"
    assert sum(entry.evicted for entry in report.rounds) == len(report.steps)
    assert report.quiet == (report.rounds[-1].evicted == 0)
    return len(report.steps)


@pytest.mark.parametrize("share", range(4))
def test_every_step_is_safe(share: int) -> None:
    assert sum(replay_steps(seed) for seed in range(share * 30, share * 30 + 30)) > 10
