"""Small random clusters with pods that wait for room, and a naive search through all plans."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from random import Random

from small import Json, build_node, build_pod, build_spread

from kschedctl.cluster import Cluster
from kschedctl.scheduler.scheduler import Scheduler

MOST = 3
WANTED, OTHER = "wanted", "other"


def build_random_cluster(random: Random) -> list[Json]:
    """Build three or four nodes in two zones, up to nine pods of three workloads, and one or two waiting pods."""
    names = [f"n{number}" for number in range(random.choice((3, 3, 4)))]
    free = {name: random.choice((3, 4)) for name in names}
    objects = [build_node(name, random.choice("ab"), cpu=str(cpu)) for name, cpu in free.items()]
    for number in range(random.randint(5, 9)):
        name, cpu = random.choice(names), random.choice((1, 1, 2, 3))
        if free[name] >= cpu:
            free[name] -= cpu
            app = random.choice("abc")
            owner = {"kind": "ReplicaSet", "name": app} if random.random() < 0.85 else None
            more = _draw_anti_affinity(random, app) | {"priority": random.choice((0, 0, 3))}
            objects.append(_label_object(build_pod(f"p{number}", name, str(cpu), owner, **more), app))
    for app in "ab":
        if random.random() < 0.3:
            objects.append(_build_budget(app, random.choice((0, 1))))
    more = _draw_anti_affinity(random, "w") | (build_spread(app="a") if random.random() < 0.2 else {})
    waiting = build_pod(
        WANTED,
        "",
        str(max(free.values()) + random.choice((0, 1, 1, 1, 2))),
        {"kind": "ReplicaSet", "name": "w"},
        **more,
    )
    objects.append(_label_object(waiting, random.choice("aw")))
    if random.random() < 0.3:
        cpu, more = str(max(free.values()) + 1), _draw_anti_affinity(random, "w") | {"preemptionPolicy": "Never"}
        other = build_pod(OTHER, "", cpu, {"kind": "ReplicaSet", "name": "o"}, priority=random.choice((-1, 1)), **more)
        objects.append(_label_object(other, random.choice("ao")))
    return objects


def _draw_anti_affinity(random: Random, app: str) -> Json:
    """Draw anti-affinity by zone or node to pods of the workload, or none."""
    if random.random() > 0.15:
        return {}
    key = random.choice(("topology.kubernetes.io/zone", "kubernetes.io/hostname"))
    term = {"labelSelector": {"matchLabels": {"app": random.choice((app, "a"))}}, "topologyKey": key}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _label_object(made: Json, app: str) -> Json:
    made["metadata"]["labels"] = {"app": app}
    return made


def _build_budget(app: str, allowed: int) -> Json:
    """Build a PodDisruptionBudget of an app."""
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "d", "uid": app},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


class Naive:
    """A cluster as objects, changed by one step after the other; every question makes a scheduler of its own."""

    def __init__(self, objects: list[Json]) -> None:
        self.objects, self.known = objects, dict[object, list[str]]()
        self.pods = {o["metadata"]["name"]: o for o in objects if o["kind"] == "Pod"}
        self.start = {name: found["spec"].get("nodeName", "") for name, found in self.pods.items()}

    @cached_property
    def movable(self) -> list[str]:
        """Return the recreated pods that may be evicted, other than siblings of the wanted pod."""
        mine = self.pods[WANTED]["metadata"]["ownerReferences"]
        return [
            name
            for name, found in self.pods.items()
            if self.start[name] and found["metadata"].get("ownerReferences") not in (None, mine) and self._allowed(name)
        ]

    def _allowed(self, name: str) -> bool:
        """Return whether budgets allow the eviction. Earlier evictions have ended, so budgets are as at first."""
        app = self.pods[name]["metadata"]["labels"]["app"]
        budgets = [o for o in self.objects if o["kind"] == "PodDisruptionBudget" and o["metadata"]["name"] == app]
        return all(budget["status"]["disruptionsAllowed"] > 0 for budget in budgets)

    def targets(self, name: str, places: dict[str, str], cordoned: set[str]) -> list[str]:
        """Return the best nodes for a waiting pod, with the other pods in their places, and cache them."""
        key = name, tuple(places.items()), frozenset(cordoned)
        if key not in self.known:
            self.known[key] = self._targets(name, places, cordoned)
        return self.known[key]

    def _targets(self, name: str, places: dict[str, str], cordoned: set[str]) -> list[str]:
        """Return the best nodes for a waiting pod by a full cycle on a new cluster."""
        objects = []
        for found in self.objects:
            own = found["metadata"]["name"]
            if found["kind"] == "Node" and own in cordoned:
                taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
                objects.append({**found, "spec": {"unschedulable": True, "taints": [taint]}})
            elif found["kind"] == "Pod" and own != name:
                objects.append({**found, "spec": {**found["spec"], "nodeName": places[own]}})
            elif found["kind"] != "Pod":
                objects.append(found)
        asked = {**self.pods[name], "spec": {**self.pods[name]["spec"], "nodeName": ""}, "status": {}}
        scheduler = Scheduler(Cluster.from_objects([*objects, asked]))
        view = scheduler.view
        framework = scheduler.find_framework("default-scheduler")
        assert framework is not None
        cycle = scheduler.run_cycle(framework, view.build_stored_pod(view.pods.objects[view.pods.index[f"d/{name}"]]))
        return [view.nodes.names[row] for row in cycle.scores.best.tolist()] if cycle.schedulable else []

    def outcomes(self, plan: list[str], places: dict[str, str], last: str) -> Iterator[bool]:
        """Yield whether the wanted pod fits in the end, for each way to break ties and to order pods.

        A step that may fail yields False.
        """
        if not plan:
            for after in self._tried(places, set()):
                yield bool(after[WANTED])
            return
        name, *rest = plan
        cordoned = {last, self.start[name]}
        for before in self._tried(places, cordoned):
            gone = {**before, name: ""}
            for there in (gone, *(tried for tried in self._tried(gone, cordoned) if tried != gone)):
                targets = self.targets(name, there, cordoned)
                if not targets:
                    yield False
                for target in targets:
                    for after in self._tried({**there, name: target}, cordoned):
                        yield from self.outcomes(rest, after, last)

    def _tried(self, places: dict[str, str], cordoned: set[str]) -> Iterator[dict[str, str]]:
        """Yield the places after all waiting pods were tried until none fits any more."""
        for name in sorted(
            (name for name in (WANTED, OTHER) if name in places and not places[name]),
            key=lambda name: -self.pods[name]["spec"].get("priority", 0),
        ):
            if targets := self.targets(name, places, cordoned):
                for target in targets:
                    yield from self._tried({**places, name: target}, cordoned)
                return
        yield places

    def fewest(self) -> tuple[int | None, int | None, tuple[int, int] | None]:
        """Return the fewest moves that may suffice, the fewest that always do, and the least cost of these."""
        best: list[int | None] = [None, None]
        cost: tuple[int, int] | None = None
        for plan in self._plans([]):
            if best[1] is not None and len(plan) > best[1]:
                break
            outcomes = list(self.outcomes(plan, self.start, self.start[plan[-1]] if plan else ""))
            for place, holds in enumerate((any(outcomes), all(outcomes))):
                if holds and best[place] is None:
                    best[place] = len(plan)
            if all(outcomes) and plan:
                cost = min(cost or self.cost(plan), self.cost(plan))
        return best[0], best[1], cost

    def cost(self, plan: list[str]) -> tuple[int, int]:
        """Return the cost of a plan: whether a budget selects one of its pods, and the highest priority of its pods."""
        guarded = {o["metadata"]["name"] for o in self.objects if o["kind"] == "PodDisruptionBudget"}
        found = [self.pods[name] for name in plan]
        return (
            max(int(made["metadata"]["labels"]["app"] in guarded) for made in found),
            max(made["spec"].get("priority", 0) for made in found),
        )

    def _plans(self, _: list[str]) -> Iterator[list[str]]:
        """Yield all plans, the shortest first."""
        layer: list[list[str]] = [[]]
        for _length in range(MOST + 1):
            yield from layer
            layer = [[*plan, name] for plan in layer for name in self.movable if name not in plan]
