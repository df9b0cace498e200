"""Check what `failures` reports lost with nodes, zones and pools, the ranking, and equal answers from workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import numpy as np
import pytest
from small import HOSTNAME, ZONE, Json, build_node, build_pod, build_replica, build_spread

from kschedctl.cluster import Cluster
from kschedctl.commands.failures import Loss, failures, list_losses, simulate_failures, simulate_loss
from kschedctl.commands.failures.page import build_page
from kschedctl.errors import UsageError
from kschedctl.render.page import Style, find_plots
from kschedctl.render.renderers import RENDERERS
from kschedctl.replay.edits import is_recreated_elsewhere
from kschedctl.replay.parallel import Workers
from kschedctl.replay.shared_cluster import SharedCluster
from kschedctl.reports.placements import PendingLeftOut, PodCount, Spread
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation


def build_zones(pods: int, cpu: str = "1") -> list[Json]:
    """Build three zones of one node with four cores each."""
    nodes = [build_node(f"n{i}", zone) for i, zone in enumerate("abc")]
    return nodes + [build_replica(f"r{i}", f"n{i % 3}", cpu) for i in range(pods)]


def test_cluster_that_withstands_the_loss_of_a_zone() -> None:
    report = simulate_failures(Cluster.from_objects(build_zones(8)))
    assert report.safe
    assert {(f.name, f.displaced, f.unplaced) for f in report.failures} == {("a", 3, 0), ("b", 3, 0), ("c", 2, 0)}


def test_worst_failure_comes_first() -> None:
    report = simulate_failures(Cluster.from_objects(build_zones(10)))
    assert not report.safe
    assert [(f.name, f.displaced, f.unplaced) for f in report.failures] == [("a", 4, 2), ("b", 3, 2), ("c", 3, 2)]
    assert "2 Insufficient cpu" in report.failures[0].reasons[0].message


def test_pods_by_zone_and_node_before_and_after_the_worst_loss() -> None:
    """Four of ten pods are on n0 in zone a. The other two nodes have three each, and room for one more."""
    worst, *others = simulate_failures(Cluster.from_objects(build_zones(10))).failures
    assert worst.zones == (PodCount("a", 4, 0), PodCount("b", 3, 4), PodCount("c", 3, 4))
    assert set(worst.nodes_changed) == {PodCount("n0", 4, 0), PodCount("n1", 3, 4), PodCount("n2", 3, 4)}
    assert not any(other.zones or other.nodes_changed for other in others)


def test_daemon_set_pods_and_bare_pods() -> None:
    daemon = build_pod("agent", "n0", owner={"kind": "DaemonSet", "name": "agent"})
    report = simulate_failures(Cluster.from_objects([*build_zones(1), daemon, build_pod("alone", "n0")]), "node")
    worst = report.failures[0]
    assert (worst.name, worst.displaced, worst.lost, worst.unplaced, worst.ending) == ("n0", 1, 1, 0, 1)
    assert "not counted: DaemonSet, static and terminating pods" in RENDERERS["table"](report, Style())
    without_daemons = simulate_failures(Cluster.from_objects([*build_zones(1), build_pod("alone", "n0")]), "node")
    assert "Pods of DaemonSets" not in RENDERERS["table"](without_daemons, Style())


def test_lost_zone_is_no_domain() -> None:
    """Unlike after a drain, pods may be spread over the remaining zones only."""
    objects = [
        build_node("n0", "a"),
        build_node("n1", "b"),
        *(build_replica(f"r{i}", "n0", **build_spread()) for i in range(2)),
    ]
    (worst, _) = simulate_failures(Cluster.from_objects(objects)).failures
    assert (worst.displaced, worst.unplaced) == (2, 0)


def test_pairs() -> None:
    report = simulate_failures(Cluster.from_objects(build_zones(9)), "zone", pairs=True)
    assert [(f.name, f.displaced, f.unplaced) for f in report.failures] == [
        ("a + b", 6, 5),
        ("a + c", 6, 5),
        ("b + c", 6, 5),
    ]


def test_nodes_without_a_unit_are_named_with_pairs() -> None:
    outside = build_node("n9", "")
    outside["metadata"]["labels"].pop(ZONE)
    report = simulate_failures(Cluster.from_objects([*build_zones(3), outside]), "zone", pairs=True)
    assert (report.unit, report.single_unit, report.pairs) == ("pair of zones", "zone", True)
    text = RENDERERS["table"](report, Style())
    assert text.startswith("Any pair of zones can be lost")
    assert "1 node belongs to no zone: n9 (without a zone label" in text


def test_pods_bound_to_a_zone_by_their_volume() -> None:
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "d", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "v"},
    }
    expression = {"key": ZONE, "operator": "In", "values": ["a"]}
    terms = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    volume = {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {"nodeAffinity": terms}}
    mounted = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    worst = simulate_failures(
        Cluster.from_objects([*build_zones(0), claim, volume, build_replica("db", "n0", volumes=mounted)])
    ).failures[0]
    assert worst.unplaced == 1
    assert "2 node(s) didn't match PersistentVolume's node affinity" in worst.reasons[0].message
    volume_text = "volume v (claim d/c) can be used only from zone a, where n0 is the only node"
    assert worst.reasons[0].cause == f"{volume_text}, so the pod needs a node there"
    assert [(pinned.pod, pinned.local) for pinned in worst.pinned_volumes] == [("d/db", False)]

    # The label of a CSI driver, with the region beside it, names the zone, too
    expression["key"] = "topology.ebs.csi.aws.com/zone"
    terms["required"]["nodeSelectorTerms"][0]["matchExpressions"].append(
        {"key": "topology.kubernetes.io/region", "operator": "In", "values": ["r"]}
    )
    nodes = build_zones(0)
    for number, each in enumerate(nodes[:3]):
        each["metadata"]["labels"] |= {"topology.ebs.csi.aws.com/zone": "abc"[number]}
        each["metadata"]["labels"] |= {"topology.kubernetes.io/region": "r"}
    objects = [*nodes, claim, volume, build_replica("db", "n0", volumes=mounted)]
    assert "only from zone a, where" in simulate_failures(Cluster.from_objects(objects)).failures[0].reasons[0].cause

    # A volume that names a node can be used only there
    expression["key"], expression["values"] = HOSTNAME, ["n0"]
    del terms["required"]["nodeSelectorTerms"][0]["matchExpressions"][1]
    objects = [*build_zones(0), claim, volume, build_replica("db", "n0", volumes=mounted)]
    cause = simulate_failures(Cluster.from_objects(objects)).failures[0].reasons[0].cause
    assert cause.endswith("can be used only from n0, so the pod can run only there")


def test_pods_with_volumes_in_the_same_zone_are_one_group() -> None:
    terms = {
        "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}]}
    }
    objects = build_zones(0)
    for name in ("db-0", "db-1"):
        objects += [
            {
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": f"data-{name}",
                    "namespace": "d",
                    "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
                },
                "spec": {"volumeName": f"volume-{name}"},
            },
            {"kind": "PersistentVolume", "metadata": {"name": f"volume-{name}"}, "spec": {"nodeAffinity": terms}},
            build_replica(name, "n0", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": f"data-{name}"}}]),
        ]
    [group] = simulate_failures(Cluster.from_objects(objects)).failures[0].reasons
    assert set(group.pods) == {"d/db-0", "d/db-1"}
    place = "can be used only from zone a, where n0 is the only node"
    assert group.cause == f"bound volumes {place}, so a node is needed there"


def test_without_the_labels() -> None:
    with pytest.raises(UsageError, match="no node has a zone"):
        list_losses(Cluster.from_objects([{"kind": "Node", "metadata": {"name": "n"}}]), "zone")


def test_too_many_pairs() -> None:
    cluster = Cluster.from_objects([build_node(f"n{i}") for i in range(700)])
    with pytest.raises(UsageError, match="244,650 pairs of nodes are too many"):
        list_losses(cluster, "node", pairs=True)


def build_random_cluster(random: Random) -> list[Json]:
    nodes = [build_node(f"n{i}", random.choice("abc"), cpu=str(random.randint(2, 6))) for i in range(8)]

    def pods() -> Iterator[Json]:
        for i in range(24):
            extra = build_spread(skew=random.randint(1, 3)) if random.random() < 0.4 else {}
            yield build_replica(f"r{i}", f"n{random.randrange(8)}", random.choice(["500m", "1"]), **extra)

    return [*nodes, *pods()]


def test_loss_equals_a_cluster_without_the_nodes() -> None:
    """The columns of the whole cluster must give the result of a cluster without the nodes."""
    random = Random(7)
    for _ in range(15):
        objects = build_random_cluster(random)
        gone = {f"n{i}" for i in range(8) if random.random() < 0.4}
        if not 0 < len(gone) < 8:
            continue
        found = simulate_loss(SharedCluster(Cluster.from_objects(objects)), Loss("x", tuple(sorted(gone)), seed=1))
        left = [o for o in objects if o["metadata"]["name"] not in gone]
        for o in left:
            if o["kind"] == "Pod" and o["spec"]["nodeName"] in gone:
                o["spec"]["nodeName"], o["status"] = "", {}
        simulation = Simulation(Scheduler(Cluster.from_objects(left)), seed=1)
        pods = simulation.view.pods
        waiting = [
            int(p) for p in np.flatnonzero(simulation.view.node < 0) if is_recreated_elsewhere(pods.objects[int(p)])
        ]
        outcomes = simulation.run(waiting)
        assert found.displaced == len(waiting)
        assert found.unplaced == sum(outcome.row < 0 for outcome in outcomes)


def test_processes_give_the_same_results() -> None:
    cluster = Cluster.from_objects(build_random_cluster(Random(3)))
    alone = simulate_failures(cluster, "node")
    assert simulate_failures(cluster, "node", workers=Workers(2)).to_dict() == alone.to_dict()


class Recorder:
    """Record progress, and press Ctrl-C after some finished parts."""

    def __init__(self, interrupt_after: int = 0) -> None:
        self.interrupt_after = interrupt_after
        self.total = 0
        self.calls: list[int] = []

    def begin(self, what: str, total: int) -> Callable[[int], None]:
        self.total = total
        return self.done

    def done(self, number: int) -> None:
        self.calls.append(number)
        if self.interrupt_after and sum(self.calls) >= self.interrupt_after:
            raise KeyboardInterrupt


@pytest.mark.parametrize("processes", [1, 2])
def test_each_rescheduled_pod_counts_as_progress(processes: int) -> None:
    """Eight pods are rescheduled, and each of the three losses is summed up.

    With several runs, each of them replays all pods, and reports each pod once it is placed.
    """
    for runs in (1, 2):
        progress = Recorder()
        simulate_failures(
            Cluster.from_objects(build_zones(8)), runs=runs, workers=Workers(processes), progress=progress
        )
        assert (progress.total, sum(progress.calls)) == ((8 + 3) * runs, (8 + 3) * runs)
    assert processes > 1 or max(progress.calls) == 1


def test_interruption_keeps_the_losses_before_it() -> None:
    """The loss of zone a has three pods and its summary. Then two of the three pods of zone b are rescheduled."""
    report = simulate_failures(Cluster.from_objects(build_zones(8)), progress=Recorder(4 + 2))
    assert (report.interrupted, report.safe, [failure.name for failure in report.failures]) == (True, False, ["a"])
    assert str(report) == "Unknown whether any zone can be lost without disruption (interrupted after 1 of 3 failures)"


def test_pending_pods_are_not_counted() -> None:
    objects = [*build_zones(3), build_pod("waits", cpu="9"), build_replica("waits-too", cpu="9")]
    assert simulate_failures(Cluster.from_objects(objects)).safe


def test_nodes_without_a_unit_are_named() -> None:
    odd = build_node("odd")
    del odd["metadata"]["labels"][ZONE]
    report = simulate_failures(Cluster.from_objects([*build_zones(3), odd]))
    assert (report.outside, report.safe) == (("odd",), True)


def test_pairs_of_a_single_unit_are_an_error() -> None:
    with pytest.raises(UsageError, match="--pairs needs two nodes; there is only one"):
        simulate_failures(Cluster.from_objects([build_node("n1")]), "node", pairs=True)


@pytest.mark.parametrize(
    "label",
    [
        "cloud.google.com/gke-nodepool",
        "eks.amazonaws.com/nodegroup",
        "alpha.eksctl.io/nodegroup-name",
        "karpenter.sh/nodepool",
        "kubernetes.azure.com/agentpool",
        "doks.digitalocean.com/node-pool",
        "kops.k8s.io/instancegroup",
    ],
)
def test_pools_by_the_labels_of_providers(label: str) -> None:
    nodes = [{"kind": "Node", "metadata": {"name": f"n{i}", "labels": {label: f"p{i % 2}"}}} for i in range(3)]
    found = list_losses(Cluster.from_objects(nodes), "pool")
    assert [(loss.name, loss.nodes) for loss in found] == [("p0", ("n0", "n2")), ("p1", ("n1",))]


def test_victims_that_fit_nowhere_count() -> None:
    """n1 is full with a pod of low priority. The pod of n0 preempts it, and n2 is too small for it."""
    low, high = build_replica("low", "n1", "4"), build_replica("high", "n0", "4", priority=10)
    report = simulate_failures(
        Cluster.from_objects([build_node("n0"), build_node("n1"), build_node("n2", cpu="3"), low, high]), "node"
    )
    worst = report.failures[0]
    assert (worst.name, worst.displaced, worst.evicted, worst.unplaced) == ("n0", 1, 1, 1)
    assert worst.reasons[0].pods == ("d/low",)
    assert (worst.unplaced_displaced, worst.unplaced_evicted) == (0, 1)
    assert worst.reasons[0].evicted_from == {"d/low": "n1"}
    assert [(evicted.pod, evicted.by) for evicted in worst.evicted_pods] == [("d/low", "d/high")]
    assert "1 displaced pod gets another node, and 1 pod elsewhere is preempted and fits nowhere" in str(report)


def test_evicted_pods_of_other_nodes_are_counted_once() -> None:
    """Zone a loses two pods. One gets the room of low, and the other one fits nowhere, like low."""
    low, high = build_replica("low", "n1", "4"), build_replica("high", "n0", "4", priority=10)
    objects = [build_node("n0", "a", "10"), build_node("n1", "b"), low, high, build_replica("large", "n0", "6")]
    report = simulate_failures(Cluster.from_objects(objects))
    worst = report.failures[0]
    assert (worst.name, worst.displaced, worst.unplaced, worst.unplaced_displaced, worst.evicted) == ("a", 2, 2, 1, 1)
    consequences = "1 of its 2 displaced pods fits nowhere else, and 1 pod elsewhere is preempted and fits nowhere"
    assert worst.consequences == consequences
    plot, *_ = find_plots(build_page(report, Style(plots=True)))
    assert sum(dict(series.points)[plot.places.index("a")] for series in plot.series) == 2


def test_failure_that_loses_a_pod_for_good_is_not_safe() -> None:
    nodes = [build_node("n1"), build_node("n2")]
    report = simulate_failures(Cluster.from_objects([*nodes, build_pod("bare", "n1")]), "node")
    assert not report.safe
    assert str(report) == "1 of 2 nodes cannot be lost without disruption. The worst is n1: 1 pod is lost for good"
    assert simulate_failures(Cluster.from_objects([*nodes, build_replica("web", "n1")]), "node").safe


def test_preempted_pods_without_a_controller_are_lost() -> None:
    """Only the eviction of the bare pod on n1 makes room for the pod of n0."""
    objects = [
        build_node("n0", "a"),
        build_node("n1", "b"),
        build_pod("alone", "n1", "4"),
        build_replica("high", "n0", "4", priority=10),
    ]
    worst = simulate_failures(Cluster.from_objects(objects)).failures[0]
    assert (worst.lost, worst.lost_victims, worst.lost_pods, worst.unplaced) == (1, 1, ("d/alone",), 0)
    evicted = "1 pod elsewhere is preempted, and 1 pod is lost for good (preempted)"
    assert worst.consequences == f"1 displaced pod gets another node, {evicted}"


def test_preempted_terminating_pods_are_neither_evicted_nor_lost() -> None:
    """The pod of n0 gets the room of a pod that its controller has replaced already."""
    leaving = build_replica("leaving", "n1", "4")
    leaving["metadata"]["deletionTimestamp"] = "2026-05-06T09:12:00Z"
    objects = [build_node("n0", "a"), build_node("n1", "b"), leaving, build_replica("high", "n0", "4", priority=10)]
    worst = next(
        failure for failure in simulate_failures(Cluster.from_objects(objects)).failures if failure.name == "a"
    )
    assert (worst.evicted, worst.lost, worst.unplaced, worst.safe) == (0, 0, 0, True)


@pytest.mark.parametrize(("policy", "waits"), [(None, True), ("Ignore", True), ("Honor", False)])
def test_domains_of_nodes_that_are_not_deleted_yet_count_for_spreading(policy: str | None, waits: bool) -> None:
    """With n1 unreachable, zone a is empty, and zone b, which has 1 pod, may not get another.

    With n2 unreachable, zone b is empty and zone a has 2 pods already, so r1 waits. After the deletion, there is only
    one zone.
    """
    constraints = build_spread()
    if policy:
        constraints["topologySpreadConstraints"][0]["nodeTaintsPolicy"] = policy
    objects = [
        build_node("n1", "a"),
        build_node("n2", "b"),
        *(build_replica(f"r{i}", f"n{1 + i % 2}", **constraints) for i in range(3)),
    ]
    report = simulate_failures(Cluster.from_objects(objects))
    waiting = {failure.name: set(failure.waiting_until_deleted) for failure in report.failures}
    if not waits:
        assert waiting == {"a": set(), "b": set()}
        assert report.safe
        assert str(report).startswith("Any zone can be lost")
        return
    assert waiting == {"a": {"d/r0", "d/r2"}, "b": {"d/r1"}}
    assert not report.safe
    answer = "No zone can be lost without disruption. The worst is zone a: 2 pods wait until its Node is deleted"
    assert str(report) == answer == report.summary().headline
    text = "since spread constraints count domains of unreachable nodes as empty"
    assert any(text in warning for warning in report.summary().warnings)
    assert text in RENDERERS["table"](report, Style(width=500))
    assert [problem.object for problem in report.find_ci_gate_problems()] == ["Zone a", "Zone b"]


def test_stateful_set_recreates_no_pod_before_the_deletion() -> None:
    owner = {"kind": "StatefulSet", "name": "db"}
    members = [build_pod(f"db-{i}", f"n{1 + i}", owner=owner, **build_spread()) for i in range(2)]
    report = simulate_failures(Cluster.from_objects([build_node("n1", "a"), build_node("n2", "b"), *members]))
    assert [failure.waiting_until_deleted for failure in report.failures] == [(), ()]


def test_lost_pods_are_named_and_the_largest_group_comes_first() -> None:
    """No pod of zone a fits on n1: one pod of workload b, two of workload c, and a bare pod."""
    small = build_pod("b-0", "n0", "3", owner={"kind": "StatefulSet", "name": "b"})
    large = [build_pod(f"c-{i}", "n0", "3", owner={"kind": "StatefulSet", "name": "c"}) for i in range(2)]
    objects = [build_node("n0", "a", "16"), build_node("n1", "b", "1"), small, *large, build_pod("alone", "n0")]
    worst = simulate_failures(Cluster.from_objects(objects)).failures[0]
    assert [group.workload for group in worst.reasons] == ["StatefulSet d/c", "StatefulSet d/b"]
    assert worst.lost_pods == ("d/alone",)
    assert worst.consequences == "none of its 3 displaced pods fits elsewhere, and 1 pod is lost for good"


def test_several_runs_show_the_worst() -> None:
    """The first of two pods gets n1 or n2. The second one needs all of n2 and fits if the first got n1."""
    objects = [build_node("n0", cpu="8"), build_node("n1", cpu="2"), build_node("n2", cpu="2")]
    objects[2]["metadata"]["labels"]["disk"] = "ssd"
    large = build_replica("r2", "n0", "2", nodeSelector={"disk": "ssd"})
    cluster = Cluster.from_objects([*objects, build_replica("r1", "n0"), large])
    report = simulate_failures(cluster, "node", runs=16)
    worst = report.failures[0]
    assert (worst.name, worst.unplaced, worst.over_runs["unplaced"]) == ("n0", 1, Spread(0, 1))
    assert not report.safe
    assert simulate_failures(cluster, "node", runs=16, workers=Workers(2)).to_dict() == report.to_dict()


def test_order_in_which_pods_return_is_unknown() -> None:
    """n1 has room for the pod of 3 CPUs or the pod of 2, whichever comes first, and never for the pod of 5."""
    objects = [build_node("n0", cpu="16"), build_node("n1")]
    sized = [("a", "3"), ("b", "2"), ("c", "5")]
    pods = [build_pod(f"{name}-0", "n0", cpu, owner={"kind": "StatefulSet", "name": name}) for name, cpu in sized]
    worst = simulate_failures(Cluster.from_objects([*objects, *pods]), "node", runs=12).failures[0]
    assert (worst.name, worst.over_runs["unplaced"]) == ("n0", Spread(2, 2))
    either = {"StatefulSet d/a": Spread(0, 1), "StatefulSet d/b": Spread(0, 1)}
    assert worst.unplaced_over_runs == {**either, "StatefulSet d/c": Spread(1, 1)}
    assert worst.in_no_order == {"StatefulSet d/c": 1}


def test_failures_are_ranked_by_severity() -> None:
    """A pod that fits nowhere is worse than an evicted pod, a lost bare pod and a moved pod, in this order. n0: 7 cores
    fit nowhere else. n1: its pod gets 3 cores by evicting the bare pod of n2. n2: a bare pod is lost. n3: three pods
    find room elsewhere. n4 has only a DaemonSet pod."""
    daemon = build_pod("agent", "n4", "2", owner={"kind": "DaemonSet", "name": "agent"})
    report = simulate_failures(
        Cluster.from_objects(
            [
                *(build_node(f"n{i}", cpu="8" if i == 0 else "4") for i in range(5)),
                build_replica("huge", "n0", "7"),
                build_replica("urgent", "n1", "3", priority=100),
                build_pod("alone", "n2", "2"),
                *(build_replica(f"small-{i}", "n3") for i in range(3)),
                daemon,
            ]
        ),
        "node",
    )
    found = [(f.name, f.unplaced, f.evicted, f.lost, f.displaced) for f in report.failures]
    assert found == [
        ("n0", 1, 0, 0, 1),
        ("n1", 0, 1, 1, 1),
        ("n2", 0, 0, 1, 0),
        ("n3", 0, 0, 0, 3),
        ("n4", 0, 0, 0, 0),
    ]


def test_pending_pods_that_may_take_the_room_first_are_named() -> None:
    report = failures(Cluster.from_objects([*build_zones(3), build_pod("q", cpu="2"), build_pod("w", cpu="9")]))
    assert (report.pending_left_out.pods, report.pending_left_out.fitting) == (2, ("d/q",))
    text = "2 pending pods were left out of the simulation, but 1 of them fits now and may take the room first (d/q)"
    for output in ("table", "brief", "markdown", "html"):
        assert text in RENDERERS[output](report, Style(width=200))
    assert failures(Cluster.from_objects(build_zones(3))).pending_left_out.describe() == ()


def test_pending_pods_with_a_nominated_node_may_take_the_room() -> None:
    """The room is free once the terminating pod is gone. A cordoned node or one that does not exist promises none."""
    nominated, hopeless, gone = build_pod("q", cpu="3"), build_pod("w", cpu="3"), build_pod("x", cpu="3")
    for pod, node in ((nominated, "n0"), (hopeless, "n9"), (gone, "n8")):
        pod["status"] = {"nominatedNodeName": node}
    ending = [build_pod(f"end-{number}", f"n{number}", "3") for number in range(3)]
    for pod in ending:
        pod["metadata"]["deletionTimestamp"] = "2026-05-06T09:12:00Z"
    closed = build_node("n9", unschedulable=True)
    report = failures(Cluster.from_objects([*build_zones(3), closed, *ending, nominated, hopeless, gone]))
    assert report.pending_left_out == PendingLeftOut(3, (), ("d/q",))
    text = (
        "3 pending pods were left out of the simulation: none of them fits right now, but 1 of them has a nominated "
        "node and may take room on it before displaced pods do (d/q)"
    )
    for output in ("table", "brief", "markdown", "html"):
        assert text in RENDERERS[output](report, Style(width=240))


def test_answer_without_displaced_pods_is_not_safe() -> None:
    """No pod runs yet, since no node is ready. The answer says both instead of "every recreated pod gets a node"."""
    nodes = [build_node("n1", "a"), build_node("n2", "b")]
    for each in nodes:
        each["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    report = failures(Cluster.from_objects(nodes))
    assert report.build_headline_parts()[:2] == (
        "No zone has pods that its loss would displace",
        "(2 failures simulated)",
    )
    assert report.unready == ("n1", "n2")
    for output in ("table", "brief", "markdown", "html"):
        assert "2 nodes are not ready already" in RENDERERS[output](report, Style(width=200))
    assert failures(Cluster.from_objects(build_zones(3))).unready == ()


def test_waiting_pods_are_those_of_the_worst_loss() -> None:
    """After the loss of a zone, its replica waits until the nodes are deleted, since an empty domain counts for
    spreading."""
    replicas = [build_replica(f"r{i}", f"n{i % 3}", **build_spread()) for i in range(4)]
    report = simulate_failures(
        Cluster.from_objects([*(build_node(f"n{i}", zone) for i, zone in enumerate("abc")), *replicas])
    )
    worst, *others = report.failures
    assert worst.waiting_until_deleted
    (text,) = report.describe_waiting_pods()
    assert text.startswith("Until the lost nodes' Node objects are deleted, pods stay Pending, since ")
    for failure in (worst, *others):
        assert f"f {failure.name} is lost: {', '.join(failure.waiting_until_deleted)}" in text
