"""Check that failures with a certain outcome are reported as a replay of all their pods reports them."""

from __future__ import annotations

from random import Random

import pytest
from small import HOSTNAME, ZONE, Json, build_node, build_replica, build_spread

from kschedctl.api.copying import replace
from kschedctl.cluster import Cluster
from kschedctl.commands.failures import Loss, list_losses, simulate_failures, simulate_loss
from kschedctl.commands.failures.report import Failure
from kschedctl.replay import certain_fits
from kschedctl.replay.shared_cluster import SharedCluster

CLAIM = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]}
CHOICES = 8


def build_term(kind: str, key: str, app: str) -> Json:
    """Build a required term of `podAffinity` or `podAntiAffinity` to the pods of an app."""
    terms = [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def build_spread_constraints(*keys: str) -> Json:
    """Build hard constraints with these topology keys for the pods of the app `even`."""
    return {"topologySpreadConstraints": [build_spread(key, "even")["topologySpreadConstraints"][0] for key in keys]}


def build_cluster(random: Random) -> list[Json]:
    """Build twelve nodes in three zones, and pods of several kinds, some of which fit on few nodes."""
    nodes = [build_node(f"n{i}", "abc"[i % 3]) for i in range(12)]
    kinds = (
        ("plain", {}),
        ("even", build_spread_constraints(ZONE)),
        ("even", build_spread_constraints(ZONE, HOSTNAME)),
        ("apart", build_term("podAntiAffinity", HOSTNAME, "apart")),
        ("rare", build_term("podAntiAffinity", ZONE, "apart")),
        ("together", build_term("podAffinity", ZONE, "together")),
        ("stateful", CLAIM),
        ("foreign", {"schedulerName": "other"}),
    )
    assert len(kinds) == CHOICES
    pods = []
    for number in range(random.randrange(8, 34)):
        app, fields = kinds[min(random.randrange(CHOICES), random.randrange(CHOICES))]
        row = random.randrange(12)
        one = build_replica(f"r{number}", f"n{row}", random.choice(("100m", "500m", "1500m")), **fields)
        one["metadata"]["labels"] = {"app": app}
        pods.append(one)
    return nodes + pods


def drop_places(failure: Failure) -> Failure:
    """Return the failure without what the worst failure alone reports."""
    return replace(failure, zones=(), nodes_changed=())


def test_certain_outcomes_are_those_of_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = [
        (SharedCluster(cluster), loss)
        for cluster in (Cluster.from_objects(build_cluster(Random(seed))) for seed in range(40))
        for loss in list_losses(cluster, "node")
    ]
    failures = [simulate_loss(shared, loss) for shared, loss in losses]
    with_places = [simulate_loss(shared, replace(loss, needs_places=True)) for shared, loss in losses]
    monkeypatch.setattr(certain_fits.FitProver, "is_applicable", False)
    replayed = [simulate_loss(shared, loss) for shared, loss in losses]
    assert with_places == replayed
    assert list(map(drop_places, failures)) == list(map(drop_places, replayed))
    certain = [failure for failure in failures if failure.displaced and not failure.nodes_changed]
    assert len(certain) > 100  # otherwise the test would compare replays


def build_full_zones(random: Random) -> list[Json]:
    """Build nodes in three zones with many pods of a few apps, which fill the nodes to different degrees."""
    cpu = random.choice(("3", "5", "8", "12"))
    nodes = [build_node(f"n{i}", "abc"[i % 3], cpu=cpu, pods=random.choice(("12", "40"))) for i in range(9)]
    soft = {**build_spread(ZONE, "soft")["topologySpreadConstraints"][0], "whenUnsatisfiable": "ScheduleAnyway"}
    pods = []
    for app in range(8):
        name = f"app{app}"
        fields = random.choice(
            (
                {},
                build_spread(ZONE, name, skew=random.choice((1, 2, 5))),
                build_spread(ZONE, name) | {"priority": 5},
                build_spread(HOSTNAME, name, skew=3),
                {"topologySpreadConstraints": [soft]},
                build_term("podAntiAffinity", HOSTNAME, name),
                build_term("podAffinity", ZONE, "app0"),
                {"nodeSelector": {ZONE: random.choice("ab")}},
                {"priority": random.choice((-5, 5))},
                {"schedulerName": "other", "priority": 10},
            )
        )
        requests = random.choice(("100m", "250m", "600m"))
        for number in range(random.randrange(1, 14)):
            one = build_replica(f"{name}-{number}", f"n{random.randrange(9)}", requests, **fields)
            one["metadata"]["labels"] = {"app": name}
            pods.append(one)
    return nodes + pods


def test_replays_that_stop_early_find_the_same_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay stops once the untried pods surely fit. Pods that spreading surely keeps out are found without one."""
    monkeypatch.setattr(certain_fits, "MIN_PODS_BETWEEN_PROOFS", 1)
    losses = [
        (SharedCluster(cluster), loss)
        for cluster in (Cluster.from_objects(build_full_zones(Random(seed))) for seed in range(40))
        for loss in list_losses(cluster, "zone")
    ]
    failures = [simulate_loss(shared, loss) for shared, loss in losses]
    monkeypatch.setattr(certain_fits.FitProver, "is_applicable", False)
    replayed = [simulate_loss(shared, loss) for shared, loss in losses]
    assert list(map(drop_places, failures)) == list(map(drop_places, replayed))

    # Otherwise the test would compare replays.
    stopped = [failure for failure in failures if failure.displaced and not failure.nodes_changed]
    assert len(stopped) > 40
    assert sum(bool(failure.waiting_until_deleted) for failure in stopped) > 10


def test_worst_failure_has_the_placements_of_its_pods() -> None:
    nodes = [build_node(f"n{i}", "a") for i in range(6)]
    cluster = Cluster.from_objects(
        [*nodes, build_replica("r0", "n0"), build_replica("r1", "n0"), build_replica("r2", "n1")]
    )
    loss = Loss("n0", ("n0",))
    shared = SharedCluster(cluster)
    assert not simulate_loss(shared, loss).nodes_changed
    worst = simulate_failures(cluster, "node").failures[0]
    assert worst == simulate_loss(shared, replace(loss, needs_places=True))
    assert sum(count.after - count.before for count in worst.nodes_changed) == 0


def test_pods_that_may_take_each_others_last_nodes_are_replayed() -> None:
    """Each of the two pods fits on the other node, but not both."""
    objects = [
        build_node("n0", "a"),
        build_node("n1", "a"),
        build_replica("r0", "n0", "3"),
        build_replica("r1", "n0", "3"),
    ]
    (failure,) = [f for f in simulate_failures(Cluster.from_objects(objects), "node").failures if f.name == "n0"]
    assert (failure.displaced, failure.unplaced) == (2, 1)
