"""Replay every step of every `make-room` plan from scratch on a new cluster.

Each eviction is within its budget, the pod comes to one of the nodes that are best then, and nobody is without a node
but those that waited.

With KSCHEDCTL_MANY=300 in the environment on so many random clusters.
"""

from __future__ import annotations

import os
import re
from random import Random

import pytest
from naive_cluster import OTHER, WANTED, Naive
from small import Json, build_node, build_pod

from kschedctl.cluster import Cluster
from kschedctl.commands.make_room import find_room
from kschedctl.commands.make_room.report import MakeRoom
from kschedctl.commands.make_room.room import RoomCriteria

CLUSTERS = int(os.environ.get("KSCHEDCTL_MANY", "60"))
EVICTION = re.compile(r"/namespaces/d/pods/(\S+)/eviction")


def build_guarded_cluster(random: Random) -> list[Json]:
    """Build three to five nodes, of which two or three should be emptied. Workloads may have a budget."""
    names = [f"n{number}" for number in range(random.randint(3, 5))]
    free = {name: random.choice((4, 6)) for name in names}
    objects = [build_node(name, random.choice("ab"), cpu=str(cpu)) for name, cpu in free.items()]
    counts = dict.fromkeys("abc", 0)
    for number in range(random.randint(6, 12)):
        name, cpu, app = random.choice(names), random.choice((1, 1, 2)), random.choice("abc")
        if free[name] >= cpu:
            free[name], counts[app] = free[name] - cpu, counts[app] + 1
            made = build_pod(f"p{number}", name, str(cpu), {"kind": "ReplicaSet", "name": app})
            made["metadata"]["labels"] = {"app": app}
            objects.append(made)
    objects += [_build_budget(app, random.randint(max(count - 1, 0), count)) for app, count in counts.items() if count]
    waiting = build_pod(
        WANTED, "", str(max(free.values()) + random.choice((1, 1, 2, 3))), {"kind": "ReplicaSet", "name": "w"}
    )
    waiting["metadata"]["labels"] = {"app": "w"}
    return [*objects, waiting]


def _build_budget(app: str, least: int) -> Json:
    """Build a budget without a status, as a manifest has it, for this many healthy pods."""
    spec = {"selector": {"matchLabels": {"app": app}}, "minAvailable": least}
    return {"kind": "PodDisruptionBudget", "metadata": {"name": app, "namespace": "d"}, "spec": spec}


def replay(objects: list[Json], report: MakeRoom) -> int:
    """Type the commands one after the other; how many of the evictions a budget had a say in."""
    naive, cordoned, moves, guarded = Naive(objects), set[str](), iter(report.moves), 0
    places = dict(naive.start)
    least = {o["metadata"]["name"]: o["spec"]["minAvailable"] for o in objects if o["kind"] == "PodDisruptionBudget"}
    for command in report.commands:
        if eviction := EVICTION.search(command):
            name, move = eviction.group(1), next(moves)
            app = naive.pods[name]["metadata"]["labels"]["app"]
            running = sum(
                bool(places[other]) and made["metadata"]["labels"]["app"] == app for other, made in naive.pods.items()
            )
            assert (move.pod, move.source) == (f"d/{name}", places[name])
            assert running - 1 >= least.get(app, 0), "the budget"
            guarded += app in least
            places[name] = ""
            best = naive.targets(name, places, cordoned)
            assert move.target in best, "kube-scheduler goes elsewhere"
            assert move.tied == len(best)
            places[name] = move.target
            assert not [other for other, at in places.items() if not at and other not in (WANTED, OTHER)]
        elif not command.startswith(("kubectl wait", "kubectl rollout status", "echo")):
            _, word, name = command.split()
            (cordoned.add if word == "cordon" else cordoned.remove)(name)
    assert not cordoned
    assert next(moves, None) is None
    assert naive.targets(WANTED, places, set()), "no room"
    return guarded


@pytest.mark.parametrize("share", range(4))
def test_every_step_is_safe(share: int) -> None:
    plans, guarded = 0, 0
    for seed in range(share, CLUSTERS, 4):
        objects = build_guarded_cluster(Random(seed))
        report = find_room(Cluster.from_objects(objects), [f"d/{WANTED}"], RoomCriteria(3))
        if report.fits:
            guarded += replay(objects, report)
            plans += len(report.moves) > 0
    assert plans >= CLUSTERS / 30
    assert guarded >= CLUSTERS / 60
