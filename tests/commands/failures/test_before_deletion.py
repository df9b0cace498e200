"""Check what `failures` says about the time in which lost nodes are unreachable, but still exist."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

import pytest
from small import HOSTNAME, ZONE, Json, build_budget, build_node, build_pod, build_replica, build_spread

from kschedctl.cluster import Cluster
from kschedctl.commands.failures import Loss, simulate_failures, simulate_loss
from kschedctl.commands.failures.page import build_page
from kschedctl.commands.failures.report import Failure, Failures
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.replay.settling import schedule_victims_until_stable
from kschedctl.replay.shared_cluster import SharedCluster
from kschedctl.reports.lost_nodes import LateReason, WaitingRule
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation

FOR_EVER = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
FIVE_MINUTES = FOR_EVER | {"tolerationSeconds": 300}


def build_affinity(kind: str, key: str = ZONE, app: str = "web") -> Json:
    """Build a required term of `podAffinity` or `podAntiAffinity` to the pods of an app."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def lose(objects: list[Json], name: str, unit: str = "zone") -> Failure:
    report = simulate_failures(Cluster.from_objects(objects), unit)
    return next(failure for failure in report.failures if failure.name == name)


def test_anti_affinity_to_a_terminating_pod_delays_its_replacement() -> None:
    """n1 and n2 are in one zone, which may have one pod: the pod of n1, until n1 is deleted."""
    apart = build_affinity("podAntiAffinity")
    objects = [build_node("n1"), build_node("n2"), build_replica("r1", "n1", **apart)]
    failure = lose(objects, "n1", "node")
    assert [(waiting.rule, waiting.pods) for waiting in failure.waiting_by_rule] == [(WaitingRule.AFFINITY, ("d/r1",))]
    assert (failure.unplaced, failure.waiting_until_deleted, failure.safe) == (0, ("d/r1",), False)
    text = RENDERERS["table"](simulate_failures(Cluster.from_objects(objects), "node"), Style(width=500))
    assert "Terminating on these nodes count for required pod affinity and anti-affinity" in text

    # By host name, and with a grace period of 0 seconds, nothing keeps the replacement from n2
    assert lose(
        [build_node("n1"), build_node("n2"), build_replica("r1", "n1", **build_affinity("podAntiAffinity", HOSTNAME))],
        "n1",
        "node",
    ).safe
    assert lose(
        [build_node("n1"), build_node("n2"), build_replica("r1", "n1", terminationGracePeriodSeconds=0, **apart)],
        "n1",
        "node",
    ).safe


def test_spread_constraint_is_named_if_it_only_keeps_a_pod_from_preempting() -> None:
    """Zone b is full: r1 gets its node only by preempting, which its spread constraint allows once n1 is deleted."""
    web = [build_replica(f"r{n}", f"n{n}", "2", priority=1, **build_spread()) for n in (1, 2)]
    low = build_pod("low", "n2", "2", {"kind": "Job", "name": "low"}, priority=0)
    failure = lose([build_node("n1", "a"), build_node("n2", "b"), *web, low], "a")
    assert [(waiting.rule, waiting.pods) for waiting in failure.waiting_by_rule] == [(WaitingRule.SPREAD, ("d/r1",))]


def test_anti_affinity_of_a_terminating_pod_keeps_others_away() -> None:
    """The StatefulSet's pod avoids the pods of web in its zone, even while it is terminating."""
    elsewhere = {"nodeSelector": {ZONE: "b"}, **build_affinity("podAntiAffinity")}
    alone = build_pod("alone-0", "n1", owner={"kind": "StatefulSet", "name": "alone"}, **elsewhere)
    alone["metadata"]["labels"] = {"app": "alone"}
    web = build_replica("r1", "n1", nodeSelector={ZONE: "a"})
    failure = lose([build_node("n1", cpu="8"), build_node("n2"), build_node("n3", "b"), web, alone], "n1", "node")
    assert failure.waiting_until_deleted == ("d/r1",)


def test_mutual_affinity_requires_the_zone_of_terminating_pods() -> None:
    """Without any pod of its kind, a pod may go anywhere.

    As long as its predecessors exist, it must go to their domain.
    """
    together = build_affinity("podAffinity")
    objects = [
        build_node("n1", "a"),
        build_node("n2", "b"),
        build_replica("r1", "n1", **together),
        build_replica("r2", "n1", **together),
    ]
    failure = lose(objects, "a")
    assert (failure.unplaced, set(failure.waiting_until_deleted)) == (0, {"d/r1", "d/r2"})


def build_claim_with_volume(mode: str, *, driver: str = "disk.csi", attach: bool = True) -> list[Json]:
    """Build a claim `c` with its volume, and the CSIDriver."""
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "d", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "v", "accessModes": [mode]},
    }
    source = {"driver": driver, "volumeHandle": "h"}
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {"csi": source, "accessModes": [mode], "claimRef": {"name": "c", "namespace": "d"}},
    }
    return [claim, volume, {"kind": "CSIDriver", "metadata": {"name": driver}, "spec": {"attachRequired": attach}}]


MOUNTED = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}


def test_claim_for_one_pod_stays_in_use() -> None:
    failure = lose(
        [
            build_node("n1"),
            build_node("n2"),
            *build_claim_with_volume("ReadWriteOncePod"),
            build_replica("r1", "n1", **MOUNTED),
        ],
        "n1",
        "node",
    )
    assert [(waiting.rule, waiting.pods) for waiting in failure.waiting_by_rule] == [
        (WaitingRule.CLAIM_IN_USE, ("d/r1",))
    ]
    assert failure.late == 0


@pytest.mark.parametrize(
    ("mode", "attach", "late"),
    [("ReadWriteOnce", True, 1), ("ReadWriteOnce", False, 0), ("ReadWriteMany", True, 0)],
)
def test_volume_for_one_node_stays_attached_to_the_lost_node(mode: str, attach: bool, late: int) -> None:
    objects = [
        build_node("n1"),
        build_node("n2"),
        *build_claim_with_volume(mode, attach=attach),
        build_replica("r1", "n1", **MOUNTED),
    ]
    failure = lose(objects, "n1", "node")
    assert (failure.unplaced, failure.waiting_until_deleted, failure.late) == (0, (), late)
    if late:
        assert [(group.reason, group.pods) for group in failure.late_pods] == [(LateReason.VOLUME_ATTACHED, ("d/r1",))]
        assert failure.consequences == "1 pod runs again only after the lost node's Node object is deleted"
        assert "d/r1 gets another node, but starts only after the lost nodes' Node objects are deleted" in _render(
            objects, "node"
        )


def _render(objects: list[Json], unit: str = "zone") -> str:
    return RENDERERS["table"](simulate_failures(Cluster.from_objects(objects), unit), Style(width=500))


STATEFUL_SET, JOB = {"kind": "StatefulSet", "name": "db"}, {"kind": "Job", "name": "batch"}


@pytest.mark.parametrize(
    ("owner", "spec", "reason"),
    [
        (STATEFUL_SET, {}, LateReason.CONTROLLER_WAITS),
        (STATEFUL_SET, {"terminationGracePeriodSeconds": 0}, None),
        (STATEFUL_SET, {"tolerations": [FIVE_MINUTES]}, LateReason.CONTROLLER_WAITS),
        (JOB, {}, LateReason.CONTROLLER_WAITS),
        (None, {}, None),
        (None, {"tolerations": [FIVE_MINUTES]}, None),
        (None, {"tolerations": [FOR_EVER]}, LateReason.NOT_DELETED),
        (None, {"tolerations": [{"operator": "Exists"}]}, LateReason.NOT_DELETED),
        (None, {"tolerations": [FIVE_MINUTES, FOR_EVER]}, None),
    ],
)
def test_pods_that_are_not_replaced_before_the_deletion(
    owner: Json | None, spec: dict[str, Any], reason: LateReason | None
) -> None:
    """If several tolerations match the taint, taint eviction uses the first."""
    job = {
        "kind": "Job",
        "metadata": {"name": "batch", "namespace": "d"},
        "spec": {"podReplacementPolicy": "Failed", "template": {"spec": {"containers": [{"name": "c"}]}}},
    }
    lost = build_pod("p-0", "n1", owner=owner, **spec) if owner else build_replica("p-0", "n1", **spec)
    report = simulate_failures(Cluster.from_objects([build_node("n1"), build_node("n2"), job, lost]), "node")
    worst = report.failures[0]
    assert (worst.name, worst.safe, worst.waiting_until_deleted) == ("n1", True, ())
    assert [(group.reason, group.pods) for group in worst.late_pods] == ([(reason, ("d/p-0",))] if reason else [])
    if reason:
        assert str(report).endswith(
            "The worst is n1: 1 pod runs again only after the lost node's Node object is deleted"
        )
        assert any("d/p-0 gets no replacement until" in text for text in report.summary().warnings)
    assert build_page(report, Style())


def test_no_pod_is_deleted_if_most_nodes_of_a_small_zone_are_down() -> None:
    """In node_lifecycle_controller.go, this takes more than two nodes and at least 55 % of a zone of up to 50 nodes."""

    def late_pods(lost: int, remaining: int, other_zones: int = 1) -> list[LateReason]:
        nodes = [build_node(f"old-{i}") for i in range(lost)] + [
            build_node(f"new-{i}", pods="90") for i in range(remaining)
        ]
        nodes += [build_node(f"other-{i}", "b", pods="90") for i in range(other_zones)]
        for each in nodes:
            each["metadata"]["labels"]["cloud.google.com/gke-nodepool"] = each["metadata"]["name"].partition("-")[0]
        report = simulate_failures(Cluster.from_objects([*nodes, build_replica("r", "old-0", "100m")]), "pool")
        failure = next(each for each in report.failures if each.name == "old")
        return [group.reason for group in failure.late_pods]

    assert late_pods(3, 2) == [LateReason.EVICTIONS_STOPPED]
    assert late_pods(3, 3) == []  # half of the zone
    assert late_pods(2, 1) == []  # no more than two nodes
    assert late_pods(3, 0) == []  # the whole zone, of two
    assert late_pods(30, 21) == []  # a large zone


def test_budgets_count_the_lost_pods_as_unhealthy() -> None:
    """The budget of `web` allows one disruption. The loss of n0 uses it up, so preemption evicts the other pod."""
    guarded, other = build_replica("a-guarded", "n1", "4"), build_replica("other", "n2", "4")
    other["metadata"]["labels"]["app"] = "other"
    high = build_replica("high", "n0", "4", priority=10)
    high["metadata"]["labels"]["app"] = "high"
    nodes = [build_node("n0", cpu="8"), build_node("n1"), build_node("n2")]
    for names in (("n1", "n2"), ("n2", "n1")):
        guarded["spec"]["nodeName"], other["spec"]["nodeName"] = names
        objects = [*nodes, deepcopy(guarded), deepcopy(other), high, build_replica("lost", "n0", "1"), build_budget(1)]
        report = simulate_failures(Cluster.from_objects(objects), "node")
        failure = next(each for each in report.failures if each.name == "n0")
        assert {pod.pod for pod in failure.evicted_pods} == {"d/other"}


def build_random_cluster(random: Random) -> list[Json]:
    """Build eight nodes in three zones, with pods that are kept apart, together or spread, and some in StatefulSets."""
    nodes = [build_node(f"n{i}", random.choice("abc"), cpu=str(random.randint(3, 6))) for i in range(8)]
    pods = []
    for i in range(16):
        app = random.choice("xyz")
        choices: list[Json] = [
            {},
            build_spread(app=app),
            build_affinity("podAntiAffinity", app=app),
            build_affinity("podAntiAffinity", HOSTNAME, app),
            build_affinity("podAffinity", app=app),
            {"tolerations": [FOR_EVER]},
            {"terminationGracePeriodSeconds": 0},
        ]
        owner = random.choice(({"kind": "ReplicaSet", "name": app}, {"kind": "StatefulSet", "name": app}))
        made = build_pod(f"p{i}", f"n{random.randrange(8)}", "500m", owner=owner, **random.choice(choices))
        made["metadata"]["labels"] = {"app": app}
        pods.append(made)
    return [*nodes, *pods]


def build_state_before_deletion(objects: list[Json], lost: set[str]) -> tuple[list[Json], list[str]]:
    """Build the objects as they are once the pods of lost nodes are deleted, and the names of the new pods."""
    state, new = [], []
    for each in deepcopy(objects):
        if each["kind"] == "Node" and each["metadata"]["name"] in lost:
            taint = {"key": "node.kubernetes.io/unreachable"}
            each["spec"]["taints"] = [taint | {"effect": effect} for effect in ("NoSchedule", "NoExecute")]
        state.append(each)
        if each["kind"] != "Pod" or each["spec"]["nodeName"] not in lost:
            continue
        if each["spec"].get("tolerations"):
            continue
        successor = deepcopy(each)
        successor["spec"]["nodeName"], successor["status"] = "", {}
        has_grace = each["spec"].get("terminationGracePeriodSeconds") != 0
        is_early = each["metadata"]["ownerReferences"][0]["kind"] != "StatefulSet" or not has_grace
        if is_early:
            state.append(successor)
            new.append(each["metadata"]["name"])
        if has_grace:
            each["metadata"] |= {"name": f"{each['metadata']['name']}.old", "uid": f"{each['metadata']['uid']}.old"}
            each["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        else:
            state.remove(each)
    return state, new


def test_waiting_pods_fit_nowhere_beside_terminating_pods() -> None:
    """The columns with stand-ins must give the result of a cluster in its state before the deletion."""
    random = Random(5)
    waiting_count = 0
    for _ in range(100):
        objects = build_random_cluster(random)
        lost = set(random.sample([f"n{i}" for i in range(8)], random.randint(1, 2)))
        failure = simulate_loss(SharedCluster(Cluster.from_objects(objects)), Loss("lost", tuple(sorted(lost))))
        state, new = build_state_before_deletion(objects, lost)
        simulation = Simulation(Scheduler(Cluster.from_objects(state)))
        index = simulation.view.pods.index
        outcomes = schedule_victims_until_stable(
            simulation, simulation.schedule(sorted(index[f"d/{name}"] for name in new))
        )
        unplaced = {simulation.view.pods.objects[o.position].key for o in outcomes if o.row < 0}
        unplaced_later = {key for group in failure.reasons for key in group.pods}
        assert set(failure.waiting_until_deleted) == unplaced - unplaced_later
        waiting_count += len(failure.waiting_until_deleted)
    assert waiting_count > 5


def test_less_severe_failures_only_count_their_late_pods() -> None:
    pods = [build_pod(f"db-{i}", f"n{i % 2}", owner=STATEFUL_SET) for i in range(3)]
    report: Failures = simulate_failures(Cluster.from_objects([build_node("n0"), build_node("n1"), *pods]), "node")
    assert [(each.late, len(each.late_pods)) for each in report.failures] == [(2, 1), (1, 0)]
