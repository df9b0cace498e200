"""Check where `drain` moves pods, what PDBs block, and which pods stay or are lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from small import Json, build_budget, build_node, build_pod, build_replica, build_spread

from kschedctl.api.node_health import NodeHealth
from kschedctl.cluster import Cluster
from kschedctl.commands.drain import drain, drain_nodes
from kschedctl.commands.drain.report import Drain
from kschedctl.commands.whatif import whatif
from kschedctl.errors import InputError
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.replay.parallel import Workers
from kschedctl.reports.placements import PodCount, Spread


def drain_given_nodes(objects: list[Json], *nodes: str) -> Drain:
    return drain_nodes(Cluster.from_objects(objects), nodes)


def test_pods_move_and_daemon_set_pods_stay() -> None:
    daemon = build_pod("agent-n1", "n1", owner={"kind": "DaemonSet", "name": "agent"})
    static = build_pod("etcd-n1", "n1", owner={"kind": "Node", "name": "n1"})
    report = drain_given_nodes(
        [
            build_node("n1", cpu="8"),
            build_node("n2"),
            daemon,
            static,
            build_replica("r1", "n1"),
            build_replica("r2", "n1"),
        ],
        "n1",
    )
    assert {(m.pod, m.source, m.target) for m in report.moved} == {("d/r1", "n1", "n2"), ("d/r2", "n1", "n2")}
    assert (report.staying, report.drained, report.safe) == (2, True, True)


def test_terminating_pods_and_pods_nominated_to_the_node_are_named() -> None:
    """kubectl drain waits for a pod that is being deleted, and its preemptor loses the room."""
    leaving, preemptor = build_replica("r1", "n1"), build_pod("p1", cpu="4")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-20T23:56:08Z"
    preemptor["status"] = {"phase": "Pending", "nominatedNodeName": "n1"}
    report = drain_given_nodes([build_node("n1", cpu="4"), build_node("n2"), leaving, preemptor], "n1")
    assert (report.terminating, report.nominated, report.moved) == (("d/r1",), ("d/p1",), ())
    _, verdict, outcomes = report.build_headline_parts()
    assert verdict == "can be drained, but 1 pending pod loses its nominated node (d/p1);"
    assert outcomes == "1 pod is still terminating (grace period ends 2026-11-20T23:56:08Z)"
    assert not report.safe
    assert "next: drain n1, but takes the nominated node of 1 pending pod (d/p1)" in RENDERERS["brief"](report, Style())
    assert "kubectl drain waits until these pods are" in RENDERERS["table"](report, Style(width=80))


STATEFUL_SET = {"kind": "StatefulSet", "name": "db"}


def build_unhealthy_node(name: str, ready: str, *taint_keys: str) -> Json:
    """Build a node with this status of its condition Ready, and with these NoExecute taints."""
    found = build_node(name, taints=[{"key": key, "effect": "NoExecute"} for key in taint_keys])
    found["status"]["conditions"] = [{"type": "Ready", "status": ready}]
    return found


def test_pods_of_an_unreachable_node_stay_terminating() -> None:
    """The StatefulSet replaces its pod only once the pod is gone. The ReplicaSet replaces its pod at once."""
    down = build_unhealthy_node("n1", "Unknown", "node.kubernetes.io/unreachable")
    pods = [build_pod("db-0", "n1", owner=STATEFUL_SET), build_replica("r1", "n1")]
    report = drain_given_nodes([down, build_node("n2"), *pods], "n1")
    [down_node] = report.down_nodes
    assert (down_node.node, down_node.health, down_node.pods) == ("n1", NodeHealth.UNREACHABLE, ("d/db-0", "d/r1"))
    assert down_node.not_replaced == ("d/db-0",)
    assert (report.drained, report.safe) == (False, False)
    nodes, verdict, sentence = report.build_headline_parts()
    assert (nodes, verdict) == ("n1", "cannot be drained:")
    assert sentence.startswith(
        "n1 is unreachable: its 2 pods stay Terminating until its kubelet returns, the pods are force-deleted, or "
        "the node is deleted or gets the out-of-service taint; d/db-0 gets no replacement until then; then 2 pods move"
    )
    assert "n1 is unreachable: its 2 pods stay Terminating" in RENDERERS["brief"](report, Style(width=500))
    assert {problem.rule for problem in report.find_ci_gate_problems()} == {"eviction-blocked"}


def test_other_nodes_that_are_not_ready_are_named_if_they_have_pods_to_replace() -> None:
    nodes = [
        build_node("n1"),
        build_node("n2"),
        build_unhealthy_node("n3", "Unknown"),
        build_unhealthy_node("n4", "False"),
    ]
    report = drain_given_nodes([*nodes, build_replica("r1", "n1"), build_replica("r3", "n3")], "n1")
    assert report.other_unready_nodes == ("n3",)
    text = "1 other node is not ready (n3): the replacements of its pods may take room first"
    for output in ("table", "brief"):
        assert text in RENDERERS[output](report, Style(width=200))


def test_terminating_pod_on_an_unreachable_node_is_not_safe_to_wait_for() -> None:
    leaving = build_replica("r1", "n1")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-20T23:56:08Z"
    report = drain_given_nodes([build_unhealthy_node("n1", "Unknown"), build_node("n2"), leaving], "n1")
    assert [down.pods for down in report.down_nodes] == [("d/r1",)]
    assert not report.safe


def test_pods_of_an_unready_node_may_stay_terminating() -> None:
    """The node's kubelet reports, and it ends pods if its container runtime works."""
    report = drain_given_nodes(
        [
            build_unhealthy_node("n1", "False", "node.kubernetes.io/not-ready"),
            build_node("n2"),
            build_replica("r1", "n1"),
        ],
        "n1",
    )
    assert (report.drained, report.safe) == (True, False)
    assert report.build_headline_parts()[1] == "can be drained, but pods may stay Terminating:"
    assert "n1 is not ready: its 1 pod may stay Terminating until it is ready again" in report.build_headline_parts()[2]


@pytest.mark.parametrize(
    "down",
    [
        build_unhealthy_node("n1", "Unknown", "node.kubernetes.io/unreachable", "node.kubernetes.io/out-of-service"),
        build_unhealthy_node("n1", "True", "node.kubernetes.io/unreachable"),
    ],
)
def test_pods_of_a_node_out_of_service_or_with_a_working_kubelet_disappear(down: Json) -> None:
    """The taint manager removes the taint of a node that is ready again."""
    report = drain_given_nodes([down, build_node("n2"), build_replica("r1", "n1")], "n1")
    assert (report.down_nodes, report.safe) == ((), True)


def test_an_unreachable_node_without_pods_to_evict_is_safe_to_drain() -> None:
    daemon = build_pod("agent-n1", "n1", owner={"kind": "DaemonSet", "name": "agent"})
    assert drain_given_nodes([build_unhealthy_node("n1", "Unknown"), build_node("n2"), daemon], "n1").safe


def test_unready_nodes_do_not_count_as_free_room_after_a_drain() -> None:
    down = build_unhealthy_node("n3", "Unknown", "node.kubernetes.io/unreachable")
    report = drain_given_nodes([build_node("n1"), build_node("n2"), down, build_replica("r1", "n1")], "n1")
    assert next(room.allocatable for room in report.headroom if room.resource == "cpu") == 4000


def test_pending_pods_that_can_run_on_no_other_node_are_named() -> None:
    """A pod that selects the node is stranded; a pod that only lacks room, or that no node matches, is not."""
    here = build_pod("here", cpu="4", nodeSelector={"kubernetes.io/hostname": "n1"})
    nowhere = build_pod("nowhere", nodeSelector={"kubernetes.io/hostname": "n9"})
    large, tolerant = build_pod("large", cpu="4"), build_pod("tolerant", nodeSelector={"kubernetes.io/hostname": "n1"})
    tolerant["spec"]["tolerations"] = [{"operator": "Exists"}]
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_pod("full", "n2"),
        build_replica("r1", "n1"),
        here,
        nowhere,
        large,
        tolerant,
    ]
    report = drain_given_nodes(objects, "n1")
    assert report.stranded == ("d/here",)
    _, verdict, outcomes = report.build_headline_parts()
    assert verdict == "can be drained, but 1 pending pod can run nowhere else (d/here);"
    assert outcomes == "1 pod moves to another node"
    assert (report.drained, report.safe) == (True, False)
    assert [(problem.object, problem.message) for problem in report.find_ci_gate_problems()] == [
        ("Pod d/here", "can run only on a drained node")
    ]
    assert "Pending pods that cannot run on any other node" in RENDERERS["table"](report, Style(width=80))
    (fix,) = report.summary().fixes
    assert fix.but == (
        "leaves 1 pending pod without any node (d/here); "
        "leaves Deployment d/web without a running pod until its replacement runs"
    )
    assert "next: drain n1, but leaves 1 pending pod without any node (d/here)" in RENDERERS["brief"](report, Style())


def test_pending_pod_that_does_not_tolerate_the_node_is_not_stranded() -> None:
    tainted = build_node("n1", taints=[{"key": "dedicated", "effect": "NoSchedule"}])
    report = drain_given_nodes(
        [tainted, build_node("n2"), build_pod("p", nodeSelector={"kubernetes.io/hostname": "n1"})], "n1"
    )
    assert report.stranded == ()


def test_pods_are_counted_by_node_and_zone_before_and_after() -> None:
    """Two of three pods move from zone a to zone b, which has one. n3, which is in no zone, does not change."""
    daemon = build_pod("agent-n1", "n1", owner={"kind": "DaemonSet", "name": "agent"})
    nowhere = build_node("n3", taints=[{"key": "own", "effect": "NoSchedule"}])
    nowhere["metadata"]["labels"] = {}
    pods = [build_replica("r1", "n1"), build_replica("r2", "n1"), build_replica("r3", "n2"), build_pod("o", "n3")]
    report = drain_given_nodes([build_node("n1", "a"), build_node("n2", "b"), nowhere, daemon, *pods], "n1")
    assert report.zones == (PodCount("a", 3, 1), PodCount("b", 1, 3))
    assert set(report.nodes_changed) == {PodCount("n1", 3, 1), PodCount("n2", 1, 3)}


def test_free_room_excludes_drained_and_cordoned_nodes() -> None:
    """1 of 4 CPUs on n2 is free once r1 is there. The empty n1 and the cordoned n3 do not count."""
    objects = [build_node("n1", cpu="16"), build_node("n2"), build_node("n3", cpu="8", unschedulable=True)]
    report = drain_given_nodes([*objects, build_replica("r1", "n1", "1"), build_replica("r2", "n2", "2")], "n1")
    cpu = next(headroom for headroom in report.headroom if headroom.resource == "cpu")
    assert (cpu.allocatable, cpu.requested_before, cpu.requested_after) == (12_000, 2_000, 3_000)
    assert (cpu.largest_free_before, cpu.largest_free_after) == (2_000, 1_000)


def test_preempted_pod_without_a_controller_is_lost() -> None:
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_pod("alone", "n2", "4"),
        build_replica("high", "n1", "4", priority=10),
    ]
    report = drain_given_nodes(objects, "n1")
    assert (report.lost, report.lost_victims) == ((), ("d/alone",))
    assert "1 pod is lost: no controller recreates it" in str(report)
    assert "lost for good, since they are preempted: d/alone" in report.summary().warnings


def test_pod_with_a_local_volume_can_run_only_on_its_node() -> None:
    """Every form names the volume and says that its data stays on the node."""
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "d", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "v"},
    }
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
    terms = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    volume_spec = {"nodeAffinity": terms, "local": {"path": "/data"}}
    volume = {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": volume_spec}
    mounted = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    report = drain_given_nodes(
        [build_node("n1"), build_node("n2"), claim, volume, build_replica("db", "n1", volumes=mounted)], "n1"
    )
    cause = "volume v (claim d/c) is local to n1, so the pod can run only there"
    assert [group.cause for group in report.unplaced] == [cause]
    lost_data = "the data of local volume v (d/db) is lost if n1 is deleted"
    assert report.summary().warnings[0] == lost_data
    assert lost_data in " ".join(RENDERERS["table"](report, Style()).split())
    for width in (45, 80):  # the headline and the caveats have to be cut
        doubtful = replace(
            report, not_replayed=("x " * 99,), delayed=(), lost=("d/a", "d/b"), without_controller=("d/a",)
        )
        assert lost_data in " ".join(RENDERERS["brief"](doubtful, Style(width=width)).split())


def test_drained_node_takes_no_pod_back() -> None:
    report = drain_given_nodes([build_node("n1"), build_node("n2", cpu="500m"), build_replica("r1", "n1")], "n1")
    (group,) = report.unplaced
    assert group.pods == ("d/r1",)
    assert group.message.startswith("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.")
    assert (report.drained, report.safe) == (True, False)


def test_pod_that_tolerates_the_cordon_returns() -> None:
    """Only the drained node has room for it. If another node has room as well, the drained node is the emptier one."""
    back = build_replica("r1", "n1", "2", tolerations=[{"operator": "Exists"}])
    report = drain_given_nodes([build_node("n1"), build_node("n2", cpu="500m"), back], "n1")
    assert (report.returned, report.moved, report.unplaced) == (("d/r1",), (), ())
    assert (report.drained, report.safe) == (False, False)
    assert report.build_headline_parts()[2] == "1 pod comes back: it tolerates the cordon"
    assert "Come back to the nodes" in RENDERERS["table"](report, Style(width=80))
    report = drain_given_nodes([build_node("n1"), build_node("n2", cpu="500m"), build_node("n3", cpu="64"), back], "n1")
    assert ([moved.target for moved in report.moved], report.safe) == (["n3"], True)
    report = drain_given_nodes(
        [build_node("n1"), build_node("n2", cpu="500m"), build_node("n3", cpu="64"), back], "n1", "n3"
    )
    assert (report.returned, report.safe) == (("d/r1",), False)


def test_cordoned_node_still_counts_for_spreading() -> None:
    """Zone a stays empty, so zone b may have at most one pod."""
    objects = [
        build_node("n1", "a"),
        build_node("n2", "b"),
        *(build_replica(f"r{i}", "n1", **build_spread()) for i in range(2)),
    ]
    report = drain_given_nodes(objects, "n1")
    assert len(report.moved) == 1
    assert "1 node(s) didn't match pod topology spread constraints" in report.unplaced[0].message


def test_budget_recovers_once_the_replacement_runs() -> None:
    objects = [build_node("n1"), build_node("n2"), build_budget(1), *(build_replica(f"r{i}", "n1") for i in range(4))]
    report = drain_given_nodes(objects, "n1")
    assert len(report.moved) == 4
    assert not report.blocked


def test_budget_is_used_up_by_a_pod_without_a_replacement() -> None:
    """Two of four pods fit elsewhere.

    The third one stays pending and uses up the budget, so the fourth may not be evicted.
    """
    objects = [
        build_node("n1"),
        build_node("n2", cpu="2"),
        build_budget(1),
        *(build_replica(f"r{i}", "n1") for i in range(4)),
    ]
    report = drain_given_nodes(objects, "n1")
    assert (len(report.moved), sum(len(g.pods) for g in report.unplaced), len(report.blocked)) == (2, 1, 1)
    used_up = "PodDisruptionBudget d/b is used up by d/r2, which was evicted earlier and has no new node"
    assert report.blocked[0].why == used_up
    assert (report.drained, report.safe) == (False, False)


def test_brief_form_says_once_why_replicas_cannot_be_evicted() -> None:
    objects = [build_node("n1"), build_node("n2"), build_budget(0), *(build_replica(f"r{i}", "n1") for i in range(3))]
    report = drain_given_nodes(objects, "n1")
    (why,) = {pod.why for pod in report.blocked}
    assert [(pods.pods, pods.such_as, pods.why) for pods in report.summary().pods] == [(3, "d/r0", why)]
    assert RENDERERS["brief"](report, Style(width=200)).count(why) == 1


def test_unhealthy_pods_are_evicted_if_the_budget_allows_it() -> None:
    sick = build_replica("r1", "n1")
    sick["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    always = build_budget(0)
    always["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
    assert len(drain_given_nodes([build_node("n1"), build_node("n2"), build_budget(0), sick], "n1").blocked) == 1
    assert len(drain_given_nodes([build_node("n1"), build_node("n2"), always, sick], "n1").moved) == 1


def test_pod_of_two_budgets_cannot_be_evicted() -> None:
    second = build_budget(5)
    second["metadata"] = {"name": "c", "namespace": "d"}
    report = drain_given_nodes(
        [build_node("n1"), build_node("n2"), build_budget(5), second, build_replica("r1", "n1")], "n1"
    )
    assert "more than one PodDisruptionBudget" in report.blocked[0].why


def test_bare_pod_is_lost() -> None:
    report = drain_given_nodes([build_node("n1"), build_node("n2"), build_pod("alone", "n1")], "n1")
    assert (report.lost, report.moved) == (("d/alone",), ())
    assert (report.drained, report.safe) == (True, False)


def test_lost_pods_are_a_cost_and_named_first() -> None:
    """kubectl drain rejects them without --force (unreplicatedFilter in pkg/drain/filters.go)."""
    bare = [build_pod(f"alone-{i:02}", "n1", "10m") for i in range(31)]
    report = drain_given_nodes(
        [build_node("n1", pods="50"), build_node("n2", pods="50"), *bare, build_replica("r1", "n1")], "n1"
    )
    shown = RENDERERS["table"](report, Style())
    assert shown.startswith(
        "n1 can be drained, but 31 pods are lost: no controller recreates them; 1 pod moves to another"
    )
    assert shown.index("Lost: ") < shown.index("Pods that move")
    assert shown.count("d/alone-") == 25


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"maxUnavailable": 0}, "its maxUnavailable is 0"),
        ({"maxUnavailable": "0%"}, "its maxUnavailable is 0%"),
        ({"minAvailable": "100%"}, "its minAvailable is 100%"),
    ],
)
def test_budget_that_never_allows_an_eviction(spec: Json, reason: str) -> None:
    """It allows none even if all pods are healthy, so waiting does not help."""
    strict = build_budget_with_status(0, 2, 3)
    strict["spec"] |= spec
    report = drain_given_nodes(
        [build_node("n1"), build_node("n2"), strict, build_replica("r1", "n1"), build_unready_replica("r2")], "n1"
    )
    assert report.blocked[0].why == f"PodDisruptionBudget d/b never allows an eviction: {reason}"
    headline = report.summary().headline
    assert headline.startswith(f"n1 cannot be drained: {report.blocked[0].why} (d/r1")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_bare_pod_is_no_loss(phase: str) -> None:
    """kubectl drain deletes it without --force (unreplicatedFilter)."""
    ended = build_pod("done", "n1")
    ended["status"] = {"phase": phase}
    report = drain_given_nodes([build_node("n1"), build_node("n2"), ended], "n1")
    assert (report.lost, report.safe) == ((), True)


def test_room_of_terminating_pods_is_taken_without_an_eviction() -> None:
    """Their controller has replaced them already, so the drain costs no pod."""
    leaving = build_replica("leaving", "n2", "3")
    leaving["metadata"]["deletionTimestamp"] = "2026-05-06T09:12:00Z"
    report = drain_given_nodes(
        [build_node("n1"), build_node("n2"), leaving, build_replica("high", "n1", "3", priority=10)], "n1"
    )
    assert [(evicted.pod, evicted.fate) for evicted in report.evicted] == [("d/leaving", "Deleted")]
    assert (report.safe, report.evicted_elsewhere, report.lost_victims) == (True, (), ())
    brief = report.summary()
    assert (brief.victims, brief.figures["evicted"], brief.figures["lost"]) == ((), 0, 0)
    assert brief.warnings == (
        "leaves Deployment d/web without a running pod until its replacement runs",
        "waits until d/leaving, already terminating, is gone",
    )


def test_budget_used_up_by_the_drain() -> None:
    """The budget allows one disruption. r1 fits nowhere else, so r2 can no longer be evicted."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_replica("r1", "n1", "4"),
        build_replica("r2", "n2", "4"),
        build_budget(1),
    ]
    report = drain_given_nodes(objects, "n1", "n2")
    why = "PodDisruptionBudget d/b is used up by d/r1, which was evicted earlier and has no new node"
    assert [(blocked.pod, blocked.why) for blocked in report.blocked] == [("d/r2", why)]
    assert report.summary().headline == f"n1 and n2 cannot be drained: {why} (d/r2)"

    # A budget that allows none from the start says how many healthy pods it needs
    objects[-1] = build_budget(0)
    assert "allows no disruption now" in drain_given_nodes(objects, "n1", "n2").blocked[0].why


def test_blocked_drain_says_what_kubectl_does_and_what_to_change() -> None:
    """The budget needs one healthy pod. Another replica of the pod fits on n2, unless the pod selects n1."""
    web = {"kind": "ReplicaSet", "name": "web-5f"}
    minimum = build_budget(0)
    minimum["spec"].pop("maxUnavailable", None)
    minimum["spec"]["minAvailable"] = 1
    other = build_pod("other", "n1", owner=web)
    other["metadata"]["labels"] = {}
    report = drain_given_nodes([build_node("n1"), build_node("n2"), build_replica("r1", "n1"), other, minimum], "n1")
    (kubectl,) = report.describe_blocked_kubectl_drain()
    assert kubectl == (
        "kubectl drain would cordon n1, evict 1 other pod, and then retry forever, unless --timeout is set"
    )
    (fix,) = report.budget_fixes
    assert fix.startswith("PodDisruptionBudget d/b: Run one more replica than the budget requires")
    assert kubectl in RENDERERS["table"](report, Style())
    assert f"next: {fix[:60]}" in RENDERERS["brief"](report, Style(width=200))

    bound = build_replica("r1", "n1", nodeSelector={"kubernetes.io/hostname": "n1"})
    (fix,) = drain_given_nodes([build_node("n1"), build_node("n2"), bound, minimum], "n1").budget_fixes
    assert fix.startswith("PodDisruptionBudget d/b: Lower the budget's minAvailable, or scale the workload to 0")


def test_kubectl_drain_never_comes_to_the_nodes_after_a_blocked_one() -> None:
    """kubectl drains n1, then n2, where the budget of r2 allows no eviction."""
    owner = {"kind": "ReplicaSet", "name": "free"}
    free = [build_pod(f"free-{node}-{i}", node, owner=owner) for node in ("n1", "n2", "n3") for i in range(2)]
    for pod in free:
        pod["metadata"]["labels"] = {}
    nodes = [build_node(f"n{i}") for i in range(1, 5)]
    report = drain_given_nodes([*nodes, build_replica("r2", "n2"), *free, build_budget(0)], "n1", "n2", "n3")
    assert report.describe_blocked_kubectl_drain() == (
        "kubectl drain would cordon n1, n2 and n3, evict 4 other pods, and then retry forever on n2, unless --timeout "
        "is set, and never come to n3",
    )


def test_drain_of_a_pod_with_two_budgets_ends_with_an_error() -> None:
    second = build_budget(1)
    second["metadata"] = {**second["metadata"], "name": "second"}
    report = drain_given_nodes(
        [build_node("n1"), build_node("n2"), build_replica("r1", "n1"), build_budget(1), second], "n1"
    )
    assert report.describe_blocked_kubectl_drain() == (
        "kubectl drain would cordon n1, evict no pod, and then end with an error",
    )
    assert "Change the selectors so that only one budget selects each pod" in report.budget_fixes[0]


def test_command_has_the_options_that_kubectl_requires() -> None:
    """kubectl's filters require options for DaemonSet pods, emptyDir volumes and pods without a controller."""
    nodes = [build_node("n1"), build_node("n2")]
    daemon = build_pod("agent-n1", "n1", owner={"kind": "DaemonSet", "name": "agent"})
    static = build_pod("etcd-n1", "n1", owner={"kind": "Node", "name": "n1"})
    caching = build_replica("r1", "n1", volumes=[{"name": "cache", "emptyDir": {}}])
    bare = build_pod("bare", "n1")
    assert drain_given_nodes([*nodes, static, build_replica("r1", "n1")], "n1").commands == ("kubectl drain n1",)
    assert drain_given_nodes([*nodes, daemon], "n1").commands == ("kubectl drain n1 --ignore-daemonsets",)
    assert drain_given_nodes([*nodes, caching], "n1").commands == ("kubectl drain n1 --delete-emptydir-data",)
    assert drain_given_nodes([*nodes, bare], "n1").commands == ("kubectl drain n1 --force",)
    bare["metadata"]["deletionTimestamp"] = "2026-05-06T09:12:00Z"
    assert drain_given_nodes([*nodes, bare], "n1").commands == ("kubectl drain n1 --force",)
    report = drain_given_nodes([*nodes, daemon, static, caching, build_pod("alone", "n1")], "n1")
    assert report.commands == ("kubectl drain n1 --ignore-daemonsets --delete-emptydir-data --force",)
    assert report.commands[0] in RENDERERS["table"](report, Style())
    assert "next: drain n1, but loses d/alone for good; deletes emptyDir data of d/r1" in RENDERERS["brief"](
        report, Style()
    )
    assert drain_given_nodes([*nodes, build_budget(0), build_replica("r1", "n1")], "n1").commands == ()


def test_moved_pods_preempt_on_other_nodes() -> None:
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_replica("low", "n2", "3"),
        build_replica("high", "n1", "3", priority=10),
    ]
    report = drain_given_nodes(objects, "n1")
    assert [(m.pod, m.target) for m in report.moved] == [("d/high", "n2")]
    assert [(e.pod, e.by) for e in report.evicted] == [("d/low", "d/high")]
    assert not report.safe


def test_nodes_are_drained_together() -> None:
    """n2 is cordoned from the beginning, so no pod moves there first."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_node("n3"),
        build_replica("r1", "n1"),
        build_replica("r2", "n2"),
    ]
    assert {m.target for m in drain_given_nodes(objects, "n1", "n2").moved} == {"n3"}


def build_budget_with_status(allowed: int, healthy: int, desired: int) -> Json:
    found = build_budget(allowed)
    found["status"] = {"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired}
    return found


def build_unready_replica(name: str, **spec: Any) -> Json:
    found = build_replica(name, "n1", **spec)
    found["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    return found


def test_budget_shows_its_shortage() -> None:
    report = drain_given_nodes(
        [build_node("n1"), build_node("n2"), build_budget_with_status(0, 2, 3), build_replica("r1", "n1")], "n1"
    )
    why = "PodDisruptionBudget d/b allows no disruption now: it needs 3 healthy pods and has 2"
    assert [(b.pod, b.why, b.budgets) for b in report.blocked] == [("d/r1", why, ("d/b",))]


@pytest.mark.parametrize(
    ("healthy", "desired", "moves"), [(2, 2, True), (1, 2, False), (0, 0, False)], ids=["enough", "few", "none wanted"]
)
def test_unhealthy_pods_are_evicted_while_healthy_pods_suffice(healthy: int, desired: int, moves: bool) -> None:
    """IfHealthyBudget in eviction.go requires currentHealthy >= desiredHealthy and desiredHealthy > 0."""
    report = drain_given_nodes(
        [
            build_node("n1"),
            build_node("n2"),
            build_budget_with_status(0, healthy, desired),
            build_unready_replica("r1"),
        ],
        "n1",
    )
    assert (len(report.moved), len(report.blocked)) == (int(moves), int(not moves))


@pytest.mark.parametrize(("observed", "sick_too"), [(1, False), (2, True)])
def test_budget_with_an_outdated_status_allows_nothing(observed: int, sick_too: bool) -> None:
    """eviction.go denies evictions if observedGeneration < generation. The rule for unready pods comes before."""
    changed = build_budget_with_status(1, 2, 1)
    changed["metadata"]["generation"] = 2
    changed["status"]["observedGeneration"] = observed
    report = drain_given_nodes(
        [build_node("n1"), build_node("n2"), changed, build_replica("r1", "n1"), build_unready_replica("r2")], "n1"
    )
    assert {moved.pod for moved in report.moved} == ({"d/r1", "d/r2"} if sick_too else {"d/r2"})
    if not sick_too:
        assert "d/b was changed, and its status is not up to date yet" in report.blocked[0].why


def test_replacement_of_an_unhealthy_pod_allows_another_eviction() -> None:
    """Two healthy pods are needed and two exist. Once the third runs again, one may be evicted."""
    objects = [build_node("n1"), build_node("n2"), build_node("n3"), build_budget_with_status(0, 2, 2)]
    report = drain_given_nodes(
        [*objects, build_replica("r1", "n1"), build_unready_replica("r2"), build_replica("r3", "n3")], "n1"
    )
    assert {moved.pod for moved in report.moved} == {"d/r1", "d/r2"}


def test_shortage_is_made_up_first() -> None:
    """Two healthy pods are needed and one exists.

    The unhealthy pod is evicted (AlwaysAllow), and its replacement is the second.
    """
    always = build_budget_with_status(0, 1, 2)
    always["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
    report = drain_given_nodes(
        [build_node("n1"), build_node("n2"), always, build_replica("r1", "n1"), build_unready_replica("r2")], "n1"
    )
    assert [moved.pod for moved in report.moved] == ["d/r2"]
    assert report.blocked[0].why.endswith("it needs 2 healthy pods and has 2")


def test_terminating_pod_uses_up_no_budget() -> None:
    leaving = build_replica("r1", "n1")
    leaving["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    report = drain_given_nodes(
        [build_node("n1"), build_node("n2", cpu="1"), build_budget(1), leaving, build_replica("r2", "n1")], "n1"
    )
    assert [moved.pod for moved in report.moved] == ["d/r2"]
    assert (report.lost, report.blocked) == ((), ())


def test_victims_are_rescheduled() -> None:
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_node("n3", cpu="3", taints=[{"key": "k", "effect": "NoSchedule"}]),
    ]
    tolerant = {"tolerations": [{"key": "k", "operator": "Exists"}]}
    low, high = build_replica("low", "n2", "3", **tolerant), build_replica("high", "n1", "4", priority=10)
    report = drain_given_nodes([*objects, low, high], "n1")
    assert {(m.pod, m.source, m.target) for m in report.moved} == {("d/high", "n1", "n2"), ("d/low", "n2", "n3")}
    assert [(e.pod, e.fate, e.target) for e in report.evicted] == [("d/low", "Moved", "n3")]
    assert report.build_headline_parts()[2] == "1 pod moves to another node, and 1 pod elsewhere is preempted and moves"
    report = drain_given_nodes([*objects[:2], low, high], "n1")
    _, verdict, outcomes = report.build_headline_parts()
    assert verdict == "can be drained, but 1 pod elsewhere is preempted and fits nowhere;"
    assert outcomes == "1 pod moves to another node"
    assert report.unplaced[0].evicted_from == {"d/low": "n2"}
    assert [(e.pod, e.fate) for e in report.evicted] == [("d/low", "Pending")]
    assert [group.pods for group in report.unplaced] == [("d/low",)]


def test_runs() -> None:
    """The first of two pods gets either node. The second one needs all of n3 and fits if the first got n2."""
    ties = [build_node("n1", cpu="8"), build_node("n2", cpu="2"), build_node("n3", cpu="2")]
    ties[2]["metadata"]["labels"]["disk"] = "ssd"
    large = build_replica("r2", "n1", "2", nodeSelector={"disk": "ssd"})
    cluster = Cluster.from_objects([*ties, build_replica("r1", "n1", "1"), large])
    report = drain_nodes(cluster, ["n1"], runs=16)
    assert (report.runs, report.over_runs["moved"], report.over_runs["unplaced"]) == (16, Spread(1, 2), Spread(0, 1))
    assert not report.safe
    assert drain_nodes(cluster, ["n1"], runs=16, workers=Workers(2)).to_dict() == report.to_dict()


class Interrupting:
    """The user presses Ctrl-C after the second pod."""

    def begin(self, what: str, total: int) -> Callable[[int], None]:
        seen = iter(range(total))

        def done(number: int) -> None:
            if next(seen) == 1:
                raise KeyboardInterrupt

        return done


def test_interrupted_drain_names_what_was_not_tried() -> None:
    objects = [build_node("n1"), build_node("n2"), *(build_replica(f"r{i}", "n1") for i in range(4))]
    report = drain_nodes(Cluster.from_objects(objects), ["n1"], progress=Interrupting())
    assert (len(report.moved), report.untried, report.blocked) == (2, 2, ())
    assert (report.interrupted, report.drained, report.safe) == (True, False, False)


@pytest.mark.parametrize(
    ("spec", "moved"),
    [
        ({"maxUnavailable": 0}, 0),
        ({"maxUnavailable": "1%"}, 3),  # rounded up to 1, and each successor runs before the next one goes
        ({"minAvailable": 3}, 0),
        ({"minAvailable": "50%"}, 3),  # 2 of 3
        ({"minAvailable": "67%"}, 0),  # 3 of 3
        ({}, 0),
    ],
    ids=str,
)
def test_budget_of_a_manifest_gets_a_status(spec: Json, moved: int) -> None:
    """No controller has counted its three pods yet, which are all healthy.

    Percentages of both fields are rounded up.
    """
    new = build_budget(0)
    new["spec"] |= spec
    del new["status"]
    report = drain_given_nodes(
        [build_node("n1"), build_node("n2"), new, *(build_replica(f"r{i}", "n1") for i in range(3))], "n1"
    )
    assert (len(report.moved), len(report.blocked)) == (moved, 3 - moved)


def test_empty_selector_covers_the_whole_namespace() -> None:
    """This holds for evictions. In kube-scheduler's preemption, an empty selector selects no pods."""
    every = build_budget_with_status(0, 1, 1)
    every["spec"]["selector"] = {}
    unlabelled = build_replica("r1", "n1")
    unlabelled["metadata"]["labels"] = {}
    report = drain_given_nodes([build_node("n1"), build_node("n2"), every, unlabelled], "n1")
    assert report.blocked[0].budgets == ("d/b",)


def test_budget_without_a_number_is_an_error() -> None:
    new = build_budget(0)
    new["spec"]["minAvailable"] = "most"
    del new["status"]
    with pytest.raises(InputError, match=r'^PodDisruptionBudget d/b: expected a number or a percentage, not "most"$'):
        drain_given_nodes([build_node("n1"), new, build_replica("r1", "n1")], "n1")


# -- in which order pods come back --------------------------------------------------------------------------------


def build_job_pod(name: str, cpu: str = "1") -> Json:
    return build_pod(name, "n1", cpu, owner={"kind": "Job", "name": "once", "apiVersion": "batch/v1"})


def build_stateful_pod(name: str, owner: str, cpu: str) -> Json:
    return build_pod(name, "n1", cpu, owner={"kind": "StatefulSet", "name": owner})


def test_pods_that_fit_in_no_order_and_in_some_orders() -> None:
    """n2 has 4 CPUs. It takes the pod of 3 or the pod of 2, and never the pod of 5."""
    sized = {"a": "3", "b": "2", "c": "5"}
    pods = [build_stateful_pod(f"{name}-0", name, cpu) for name, cpu in sized.items()]
    report = drain_nodes(Cluster.from_objects([build_node("n1", cpu="16"), build_node("n2"), *pods]), ["n1"], runs=16)
    assert report.unplaced_over_runs == {
        "StatefulSet d/b": Spread(0, 1),
        "StatefulSet d/c": Spread(1, 1),
        "StatefulSet d/a": Spread(0, 1),
    }
    assert report.in_no_order == {"StatefulSet d/c": 1}
    text = RENDERERS["table"](report, Style())
    assert "Without a node, of 16 orders in which pods may come back" in text
    rows = {line.split()[1]: line.split()[2:] for line in text.splitlines() if line.startswith("  StatefulSet d/")}
    assert rows == {"d/b": ["1"], "d/c": ["1"], "d/a": ["1"]}


def test_dependence_on_another_pod_proves_nothing() -> None:
    """``near`` requires ``seed`` in its domain, which gets another node in every tried order."""
    term = {"labelSelector": {"matchLabels": {"app": "seed"}}, "topologyKey": "kubernetes.io/hostname"}
    beside = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    near, seed = build_stateful_pod("near-0", "near", "3"), build_stateful_pod("seed-0", "seed", "3")
    near["spec"]["affinity"], seed["metadata"]["labels"] = beside, {"app": "seed"}
    report = drain_nodes(
        Cluster.from_objects([build_node("n1", cpu="16"), build_node("n2"), near, seed]), ["n1"], runs=4
    )
    assert report.unplaced_over_runs == {"StatefulSet d/near": Spread(1, 1)}
    assert report.in_no_order == {}


def test_possible_preemption_proves_nothing() -> None:
    """``big`` could preempt ``low`` on n2, as long as no pod of its priority is there."""
    low = build_pod("low", "n2", "4", owner={"kind": "StatefulSet", "name": "low"})
    big, same = build_stateful_pod("big-0", "big", "3"), build_stateful_pod("same-0", "same", "3")
    low["spec"]["priority"], big["spec"]["priority"], same["spec"]["priority"] = -1, 5, 5
    report = drain_nodes(
        Cluster.from_objects([build_node("n1", cpu="16"), build_node("n2"), low, big, same]), ["n1"], runs=6
    )
    assert sum(report.unplaced_over_runs[f"StatefulSet d/{name}"].most for name in ("big", "same")) == 2
    assert report.in_no_order == {}


def test_pods_of_jobs_come_last() -> None:
    """The Job's pod is first by name. Its back-off gives the only place to the other pod in every second run."""
    pods = [build_job_pod("a"), build_stateful_pod("b-0", "b", "1")]
    cluster = Cluster.from_objects([build_node("n1"), build_node("n2", cpu="1"), *pods])
    assert [moved.pod for moved in drain_nodes(cluster, ["n1"]).moved] == ["d/a"]
    for seed in range(1, 9):
        report = drain_nodes(cluster, ["n1"], seed=0, runs=seed + 1)
        assert report.unplaced_over_runs == {"Job d/once": Spread(0, 1), "StatefulSet d/b": Spread(0, 1)}


def test_parallel_evictions_share_the_budget() -> None:
    """One disruption is allowed at a time. All four pods are evicted in turn, whatever the order of their return."""
    objects = [build_node("n1"), build_node("n2"), build_budget(1), *(build_replica(f"r{i}", "n1") for i in range(4))]
    report = drain_nodes(Cluster.from_objects(objects), ["n1"], runs=8)
    assert (report.safe, report.over_runs["moved"], report.over_runs["blocked"]) == (True, Spread(4, 4), Spread(0, 0))


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ({"maxUnavailable": 0}, "its maxUnavailable is 0"),
        ({"maxUnavailable": "0%"}, "its maxUnavailable is 0%"),
        ({"minAvailable": "100%"}, "its minAvailable is 100%"),
    ],
)
def test_budget_that_never_allows_evictions_is_not_blamed_on_unhealthy_pods(spec: dict[str, Any], cause: str) -> None:
    """If the pending pod ran, both pods would be healthy, and still no eviction would be allowed."""
    pdb = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "d", "uid": "b"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
        "status": {"currentHealthy": 1, "desiredHealthy": 2},
    }
    pods = [build_replica("a", "n1"), build_replica("b", "")]
    for each in pods:
        each["metadata"]["labels"] = {"app": "web"}
    (blocked,) = drain_given_nodes([build_node("n1"), pdb, *pods], "n1").blocked
    assert blocked.why == f"PodDisruptionBudget d/web never allows an eviction: {cause}"
    assert blocked.unhealthy == ()


def test_pending_pods_that_may_take_the_room_first_are_named() -> None:
    """Only one of r1 and the pending pod fits on n2; w needs a larger node."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_replica("r1", "n1", "3"),
        build_pod("q", cpu="2", priority=10),
        build_pod("w", cpu="9"),
    ]
    report = drain(Cluster.from_objects(objects), ["n1"])
    assert report.moved
    assert (report.pending_left_out.pods, report.pending_left_out.fitting) == (2, ("d/q",))
    text = "2 pending pods were left out of the simulation, but 1 of them fits now and may take the room first (d/q)"
    for output in ("table", "brief", "markdown", "html"):
        assert text in RENDERERS[output](report, Style(width=200))
    steps = {"steps": [{"drain": {"nodes": ["n1"]}}]}
    assert [change.pod for change in whatif(Cluster.from_objects(objects), steps).changes] == ["d/r1"]

    harmless = drain(Cluster.from_objects([*objects[:3], objects[-1]]), ["n1"])
    assert "1 pending pod was left out of the simulation: it does not fit even now" in RENDERERS["table"](
        harmless, Style()
    )
    assert "left out" not in RENDERERS["brief"](harmless, Style())


def test_pending_pods_that_only_preempt_do_not_fit_now() -> None:
    """Pod `s` fits on n2. Pod `p` gets a node only by preempting `low` there."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_replica("r1", "n1"),
        build_replica("low", "n2", "3", priority=-10),
        build_pod("s", cpu="1", priority=10),
        build_pod("p", cpu="3"),
    ]
    left_out = drain(Cluster.from_objects(objects), ["n1"]).pending_left_out
    assert (left_out.fitting, left_out.preempting) == (("d/s",), ("d/p",))
    assert left_out.may_take_room
    assert left_out.describe() == (
        "2 pending pods were left out of the simulation, but 1 of them fits now and may take the room first (d/s), "
        "and 1 of them gets a node by preemption (d/p)",
    )
    (text,) = drain(Cluster.from_objects([*objects[:4], objects[-1]]), ["n1"]).pending_left_out.describe()
    assert text == (
        "1 pending pod was left out of the simulation: it does not fit right now, but it gets a node by preemption "
        "(d/p)"
    )


def test_violated_budgets_are_warned_about() -> None:
    """Pod `r1` moves to n2 and preempts `low`, whose budget allows no disruption. Then `low` returns or waits."""
    budget = build_budget(0, "low")
    low = build_replica("low", "n2", "3", priority=-10)
    low["metadata"]["labels"] = {"app": "low"}
    report = drain_given_nodes([build_node("n1"), build_node("n2"), build_replica("r1", "n1", "3"), low, budget], "n1")
    assert report.violated_budgets == {"d/b": 0}
    warning = "violates PodDisruptionBudget d/b: it allows 0 disruptions now, and preemption evicts 1 pod"
    assert warning in report.summary().warnings
    assert f"V{warning[1:]}." in RENDERERS["table"](report, Style(width=200))
    assert warning in RENDERERS["brief"](report, Style(width=200))


def test_preempted_pods_count_neither_as_moved_nor_as_evicted_by_kubectl() -> None:
    """Pod `r1` preempts `low` on n2, which moves to n3. The budget keeps `r2` on n1."""
    objects = [build_node("n1"), build_node("n2"), build_node("n3", cpu="2"), build_budget(0)]
    kept = build_replica("r2", "n1")
    moving = build_pod("r1", "n1", cpu="3", owner={"kind": "ReplicaSet", "name": "big"})
    low = build_pod("low", "n2", cpu="2", owner={"kind": "ReplicaSet", "name": "low"}, priority=-10)
    for pod in (moving, low):
        pod["metadata"]["labels"] = {}
    report = drain_given_nodes([*objects, kept, moving, low], "n1")
    assert {pod.pod for pod in report.moved} == {"d/r1", "d/low"}
    (kubectl,) = report.describe_blocked_kubectl_drain()
    assert "evict 1 other pod, " in kubectl
    figures = report.summary().figures
    assert (figures["moved"], figures["movedEvicted"], figures["returnedEvicted"]) == (1, 1, 0)


ZONE = "topology.kubernetes.io/zone"


def test_new_nodes_are_modelled_on_nodes_of_the_drained_zone() -> None:
    """Both nodes belong to one pool, and the pod can run only in zone b."""
    bound = build_replica("r1", "n2", nodeSelector={ZONE: "b"})
    nodes = [build_node("n1", "a"), build_node("n2", "b")]
    report = drain(Cluster.from_objects([*nodes, bound]), ["n2"])
    assert report.remedy == {"steps": [{"addNodes": {"like": "n2", "count": 1}}, {"drain": {"nodes": ["n2"]}}]}


def test_new_nodes_do_not_help_a_drain_that_a_budget_blocks() -> None:
    """Each of the two nodes is full, so the other pod would fit on a new node."""
    other = build_pod("other", "n1", cpu="3", owner={"kind": "ReplicaSet", "name": "other"})
    other["metadata"]["labels"] = {}
    objects = [build_node("n1"), build_node("n2", cpu="1"), build_replica("r1", "n1"), other, build_budget(0)]
    report = drain(Cluster.from_objects(objects), ["n1"])
    assert [group.pods for group in report.unplaced] == [("d/other",)]
    assert (len(report.blocked), report.remedy) == (1, None)


def test_advice_on_a_used_up_budget_begins_with_its_pending_pod() -> None:
    """The budget requires one of two healthy pods, and the other pod is pending."""
    minimum = build_budget(0)
    minimum["spec"].pop("maxUnavailable", None)
    minimum["spec"]["minAvailable"] = 1
    waiting = build_replica("r2", "", nodeSelector={"kubernetes.io/hostname": "n9"})
    bound = build_replica("r1", "n1", nodeSelector={"kubernetes.io/hostname": "n1"})
    report = drain_given_nodes([build_node("n1"), build_node("n2"), bound, waiting, minimum], "n1")
    assert report.waiting_in_budgets == ("d/r2",)
    (fix,) = report.budget_fixes
    assert fix.startswith("PodDisruptionBudget d/b: Get d/r2 a node, or lower the budget's minAvailable during the ")


def test_blocked_pods_that_would_fit_nowhere_else_are_named_before_the_advice_to_loosen_their_budget() -> None:
    """The pod r1 can run only on n1, and r2 on n2 as well."""
    bound = build_replica("r1", "n1", nodeSelector={"kubernetes.io/hostname": "n1"})
    objects = [build_node("n1"), build_node("n2"), bound, build_replica("r2", "n1"), build_budget(0)]
    report = drain(Cluster.from_objects(objects), ["n1"])
    assert [pod.pod for pod in report.blocked] == ["d/r1", "d/r2"]
    assert [group.pods for group in report.unplaced_without_budgets] == [("d/r1",)]
    table = RENDERERS["table"](report, Style())
    assert 0 < table.index("Would fit nowhere else even if the budgets allowed") < table.index("To drain it anyway")
    warning = "even if the budgets allowed the eviction of d/r1, no other node could take it"
    assert warning in RENDERERS["brief"](report, Style(width=200))
    assert warning in report.summary().warnings

    movable = [build_node("n1"), build_node("n2"), build_replica("r2", "n1"), build_budget(0)]
    assert drain(Cluster.from_objects(movable), ["n1"]).unplaced_without_budgets == ()


def test_pod_that_fits_now_is_no_reason_to_look_for_a_fix_for_it() -> None:
    """The budget requires one of two healthy pods. The other pod is pending and fits on n2."""
    minimum = build_budget(0)
    minimum["spec"].pop("maxUnavailable", None)
    minimum["spec"]["minAvailable"] = 1
    objects = [build_node("n1"), build_node("n2"), build_replica("r1", "n1"), build_replica("r2", ""), minimum]
    report = drain(Cluster.from_objects(objects), ["n1"])
    assert (report.waiting_in_budgets, report.unfit_in_budgets) == (("d/r2",), ())
    (fix,) = report.budget_fixes
    assert fix.startswith("PodDisruptionBudget d/b: Get d/r2 a node, or lower the budget's minAvailable")


def test_brief_form_names_lost_pods_first() -> None:
    objects = [build_node("n1"), build_node("n2"), build_replica("r1", "n1"), build_pod("alone", "n1"), build_budget(0)]
    objects[3]["metadata"]["labels"] = {}
    brief = RENDERERS["brief"](drain_given_nodes(objects, "n1"), Style(width=200))
    assert 0 < brief.index("d/alone") < brief.index("kubectl drain would cordon")
