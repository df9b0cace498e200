"""Check stranded resources and removable nodes on small clusters with sums by hand."""

from __future__ import annotations

from typing import Any

import pytest

from kschedctl.cluster import Cluster
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.packing import DEFAULT_LIMITS, build_packing_section
from kschedctl.commands.audit.packing.emptying import TrialLimits
from kschedctl.commands.audit.packing.report import PackingSection
from kschedctl.commands.drain import drain_nodes
from kschedctl.scheduler.scheduler import Scheduler

Json = dict[str, Any]
GI = 1 << 30


def build_node(name: str, pool: str = "p", taints: list[Json] | None = None, **labels: str) -> Json:
    """Build a node with 4 CPUs, 8Gi and room for 10 pods."""
    spec = {"taints": taints} if taints else {}
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"example.com/pool": pool, "kubernetes.io/hostname": name, **labels}},
        "spec": spec,
        "status": status,
    }


def build_pods(
    app: str, number: int, node_name: str, cpu: str, memory: str = "", *, kind: str = "ReplicaSet"
) -> list[Json]:
    """Build pods of one owner, named after their node. Without a kind they have no owner."""
    requests = {"cpu": cpu} | ({"memory": memory} if memory else {})
    owners = [{"controller": True, "apiVersion": "apps/v1", "kind": kind, "name": app}] if kind else []
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]} if node_name else {}
    return [
        {
            "kind": "Pod",
            "metadata": {
                "name": f"{app}-{node_name or 'pending'}-{i}",
                "namespace": "d",
                "labels": {"app": app},
                "ownerReferences": owners,
            },
            "spec": {
                "nodeName": node_name,
                "containers": [{"name": "c", "image": "web", "resources": {"requests": requests}}],
            },
            "status": status,
        }
        for i in range(number)
    ]


def audit_packing(objects: list[Json], limits: TrialLimits = DEFAULT_LIMITS, complete: bool = True) -> PackingSection:
    cluster = Cluster.from_objects(objects, assume_complete=complete)
    return build_packing_section(AuditedCluster(Scheduler(cluster)), limits)


FAULT = [
    *(build_node("n1"), build_node("n2"), build_node("m1"), build_node("m2")),
    *build_pods("web", 4, "n1", "1", "1Gi"),  # no cpu is left, 4Gi are
    *build_pods("web", 3, "n2", "1", "1Gi"),  # 1 cpu and 5Gi are left: another one fits
    *build_pods("fat", 1, "m1", "1", "8Gi"),  # 3 cpus are left, no memory
    *build_pods("fat", 1, "m2", "1", "8Gi"),
]


def test_free_amount_beside_an_exhausted_resource_is_stranded() -> None:
    """7 of 16 CPUs are free, 6 of them on nodes without free memory.

    9 of 32 GiB are free, 4 of them without free CPUs.
    """
    found = audit_packing(FAULT)
    assert found.headline.startswith("86% of the free CPU and 44% of the free memory are stranded; ")
    (pool,) = found.pools
    assert (pool.pool, pool.nodes) == ("p", 4)
    assert [(r.resource, r.allocatable, r.requested, r.free, r.stranded) for r in pool.resources] == [
        ("cpu", 16_000, 9_000, 7_000, 6_000),
        ("memory", 32 * GI, 23 * GI, 9 * GI, 4 * GI),
    ]
    assert {(r.reason, r.nodes, tuple(r.free.items())) for r in found.stranded} == {
        ("Insufficient memory", 2, (("cpu", 6_000),)),
        ("Insufficient cpu", 1, (("memory", 4 * GI),)),
    }
    assert [(t.examples, t.pods, t.requests, t.fits_on) for t in found.typical] == [
        (("ReplicaSet d/web",), 7, {"cpu": 1_000, "memory": GI}, 1),
        (("ReplicaSet d/fat",), 2, {"cpu": 1_000, "memory": 8 * GI}, 0),
    ]


def test_pool_that_strands_a_tenth_is_a_finding() -> None:
    """6 of 16 CPUs and 4 of 32 GiB are stranded.

    As in the headline, the shares are those of the free 7 CPUs and 9 GiB.
    """
    found = audit_packing(FAULT)
    (stranded,) = [each for each in found.findings if each.rule == "audit-packing-stranded"]
    assert (stranded.severity, stranded.object) == ("warning", "Pool p")
    assert stranded.message.startswith("86% of its free CPU and 44% of its free memory are stranded on 3 of 4 nodes: ")
    assert found.state == "findings"


@pytest.mark.parametrize("is_exclusive", [True, False])
def test_larger_nodes_are_no_advice_for_pods_that_need_a_node_each(is_exclusive: bool) -> None:
    databases = [*build_pods("db", 1, "n1", "3"), *build_pods("db", 1, "n2", "3")]
    if is_exclusive:
        term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
        for pod in databases:
            anti_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            pod["spec"]["affinity"] = {"podAntiAffinity": anti_affinity}
    found = audit_packing([build_node("n1"), build_node("n2"), *databases])
    (stranded,) = [each for each in found.findings if each.rule == "audit-packing-stranded"]
    assert ("rules about other pods" in stranded.message) is is_exclusive
    assert stranded.fix.startswith("Use smaller nodes" if is_exclusive else "Use nodes with more CPU")


def test_pending_pods_that_could_use_stranded_capacity_count() -> None:
    """The pod requests no memory and fits beside the pods that use it all."""
    found = audit_packing([*FAULT, *build_pods("thin", 1, "", "1")])
    assert {(r.reason, r.nodes) for r in found.stranded} == {("Insufficient cpu", 1)}
    assert [(t.pending, t.fits_on) for t in found.typical] == [(False, 1), (False, 0), (True, 3)]


def test_cluster_with_room_for_its_pods_strands_nothing() -> None:
    found = audit_packing(
        [
            build_node("n1"),
            build_node("n2"),
            *build_pods("web", 2, "n1", "1", "1Gi"),
            *build_pods("web", 2, "n2", "1", "1Gi"),
        ]
    )
    assert (found.state, found.stranded, found.undecided) == ("sound", (), False)
    assert found.headline == "1 of 2 nodes checked can be removed; no free capacity is stranded"


def test_node_that_took_pods_cannot_be_emptied() -> None:
    """2 of 4 CPUs are used on each node. Each can take the other's pods, but is then full."""
    found = audit_packing(
        [
            build_node("n1"),
            build_node("n2"),
            *build_pods("web", 2, "n1", "1", "1Gi"),
            *build_pods("web", 2, "n2", "1", "1Gi"),
        ]
    )
    (emptied,), (kept,) = found.emptied, found.kept
    assert (emptied.moved, emptied.saves) == (2, {"cpu": 4_000, "memory": 8 * GI})
    assert {emptied.node, kept.node} == {"n1", "n2"}
    assert kept.why.endswith("0/2 nodes are available: 2 node(s) were unschedulable")
    assert [(s.pool, s.nodes, s.empty, s.saves) for s in found.savings] == [("p", 1, 0, emptied.saves)]
    (spare,) = found.findings
    assert (spare.rule, spare.severity) == ("audit-packing-spare-nodes", "note")
    assert spare.message == f"node {emptied.node} can be emptied by moving 2 pods"


def test_nodes_are_emptied_one_after_the_other() -> None:
    """Three pods of 1 CPU on three nodes of 4 CPUs need one node."""
    found = audit_packing(
        [build_node(n) for n in ("a", "b", "c")] + [p for n in ("a", "b", "c") for p in build_pods("web", 1, n, "1")]
    )
    assert (len(found.emptied), len(found.kept), found.tried, found.candidates) == (2, 1, 3, 3)
    assert found.savings[0].saves == {"cpu": 8_000, "memory": 16 * GI}


@pytest.mark.parametrize(
    ("kind", "budgeted", "why"),
    [("ReplicaSet", True, "allows no disruption now"), ("", False, "no controller recreates it")],
)
def test_reasons_why_a_node_stays(kind: str, budgeted: bool, why: str) -> None:
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "d", "uid": "b"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1},
        "status": {"disruptionsAllowed": 0},
    }
    found = audit_packing(
        [
            build_node("n1"),
            build_node("n2"),
            *build_pods("web", 1, "n1", "1", kind=kind),
            *([budget] if budgeted else []),
        ]
    )
    assert [each.node for each in found.kept] == ["n1"]
    assert why in found.kept[0].why
    assert found.empty == ("n2",)
    assert [(s.nodes, s.empty) for s in found.savings] == [(1, 1)]


def test_answer_says_that_not_all_nodes_were_tried() -> None:
    objects = [build_node(f"n{i}") for i in range(5)] + [
        p for i in range(5) for p in build_pods("web", 1, f"n{i}", "4", kind="")
    ]
    found = audit_packing(objects, TrialLimits(nodes=2, pods=0))
    assert (found.tried, found.candidates, len(found.emptied)) == (2, 5, 0)
    assert "none of the 2 nodes checked can be removed" in found.headline
    assert audit_packing(objects, TrialLimits(nodes=0, pods=3)).tried == 3
    assert audit_packing(objects, TrialLimits(nodes=0, pods=0)).tried == 5


def test_nodes_for_pending_pods_are_not_spare() -> None:
    """4 CPUs are used on two nodes of 4. One node would be spare without the pending pod of 2 CPUs."""
    objects = [build_node("n1"), build_node("n2"), *build_pods("web", 2, "n1", "1"), *build_pods("web", 2, "n2", "1")]
    assert len(audit_packing(objects).emptied) == 1
    found = audit_packing([*objects, *build_pods("next", 1, "", "2")])
    assert (found.tried, found.emptied) == (2, ())


def test_nominated_node_is_not_spare() -> None:
    """Its victim is terminating, but still exists."""
    victim, preempting = build_pods("low", 1, "n2", "4")[0], build_pods("high", 1, "", "4")[0]
    victim["metadata"]["deletionTimestamp"] = "2026-05-06T09:12:00Z"
    preempting["status"] = {"nominatedNodeName": "n2"}
    objects = [build_node("n1"), build_node("n2"), *build_pods("web", 4, "n1", "1"), victim, preempting]
    assert [each.node for each in audit_packing(objects).kept] == ["n1"]


def test_fullest_nodes_come_last() -> None:
    objects = [
        build_node("a"),
        build_node("b"),
        build_node("c"),
        *build_pods("web", 3, "a", "1"),
        *build_pods("web", 1, "b", "1"),
        *build_pods("web", 2, "c", "1"),
    ]
    assert [each.node for each in audit_packing(objects, TrialLimits(nodes=1, pods=0)).emptied] == ["b"]


def test_cordoned_and_control_plane_nodes_are_no_workers() -> None:
    control = build_node("cp", **{"node-role.kubernetes.io/control-plane": ""})
    cordoned = build_node("n2")
    cordoned["spec"] = {"unschedulable": True}
    daemon = build_pods("agent", 1, "n1", "1", kind="DaemonSet")
    found = audit_packing([control, cordoned, build_node("n1"), *build_pods("web", 1, "n2", "1"), *daemon])
    assert [(pool.pool, pool.nodes) for pool in found.pools] == [("p", 1)]
    assert (found.empty, found.candidates) == (("n1",), 0)


def test_unread_kinds_make_the_answer_undecided() -> None:
    found = audit_packing(
        [{"kind": "NodeList", "items": [build_node("n1")]}, *build_pods("web", 1, "n1", "1")], complete=False
    )
    assert found.undecided
    assert "Pod" in {each.kind for each in found.unknown}


def test_drain_finds_an_emptied_node_safe() -> None:
    found = audit_packing(FAULT)
    cluster = Cluster.from_objects(FAULT)
    assert all(not drain_nodes(cluster, [each.node]).safe for each in found.kept)
    assert [each.node for each in found.emptied] == []
    room = [*FAULT, build_node("n3"), *build_pods("web", 1, "n3", "1", "1Gi")]
    first = audit_packing(room).emptied[0].node
    assert drain_nodes(Cluster.from_objects(room), [first]).safe


def test_empty_nodes_take_no_pods_of_emptied_nodes() -> None:
    """Pods of 3 and 2 cpus on nodes of 4: with the empty node gone, neither fits beside the other."""
    found = audit_packing(
        [
            build_node("a"),
            build_node("b"),
            build_node("c"),
            *build_pods("x", 1, "a", "3"),
            *build_pods("y", 1, "b", "2"),
        ]
    )
    assert (found.empty, found.emptied) == (("c",), ())
    assert [(s.nodes, s.empty, s.empty_nodes, s.saves) for s in found.savings] == [
        (1, 1, ("c",), {"cpu": 4_000, "memory": 8 * GI})
    ]
    assert found.headline.startswith("1 of 3 nodes is empty; none of the 2 others checked can be removed; ")
    assert found.findings[-1].message == "1 of 3 nodes runs nothing that would have to move: c"


def test_node_is_kept_if_a_pending_pod_fits_once_it_is_empty() -> None:
    """The pending pod needs a whole node, which is free once the two pods are on one node."""
    running = [*build_pods("web", 1, "n1", "1"), *build_pods("web", 1, "n2", "1")]
    found = audit_packing([build_node("n1"), build_node("n2"), *running, *build_pods("big", 1, "", "4")])
    assert (found.emptied, found.savings) == ((), ())
    assert [(kept.lets_run, kept.why) for kept in found.kept] == 2 * [
        (("d/big-pending-0",), "1 pending pod fits on it once its 1 pod has moved: d/big-pending-0")
    ]
    assert "none of the 2 nodes checked can be removed (kept for pending pods: n1, n2)" in found.headline

    bigger = audit_packing([build_node("n1"), build_node("n2"), *running, *build_pods("big", 1, "", "5")])
    assert len(bigger.emptied) == 1


def test_pending_daemon_set_pods_keep_no_node() -> None:
    """It needs this node only as long as the node exists."""
    running = [*build_pods("web", 1, "n1", "1"), *build_pods("web", 1, "n2", "1")]
    found = audit_packing(
        [build_node("n1"), build_node("n2"), *running, *build_pods("agent", 1, "", "4", kind="DaemonSet")]
    )
    assert len(found.emptied) == 1


def test_removable_nodes_depend_on_workloads_of_other_schedulers() -> None:
    (waiting,) = build_pods("train", 1, "", "1")
    waiting["spec"]["schedulerName"] = "volcano"
    found = audit_packing([build_node("n1"), build_node("n2"), waiting])
    assert found.waiting_workloads == ("Pod d/train-pending-0",)
    condition = ", unless Pod d/train-pending-0 needs the capacity (not placed by kube-scheduler)"
    assert condition in found.headline
    assert found.findings[-1].fix.startswith(f"Drain and remove it{condition}")
    assert audit_packing([build_node("n1"), *build_pods("train", 1, "", "9")]).waiting_workloads == ()


def test_the_last_ready_node_is_not_removable() -> None:
    """If nothing runs anywhere, one of the empty nodes stays. A node whose pods would all move stays, too."""
    unready = build_node("n0")
    unready["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    found = audit_packing([unready, build_node("n1"), build_node("n2")])
    assert (found.empty, [each.nodes for each in found.savings]) == (("n1", "n2"), [1])
    assert found.headline.startswith("2 of 2 nodes are empty, but n2 has to stay as the last ready node")
    found = audit_packing([unready, build_node("n1")])
    assert (found.savings, found.findings) == ((), ())
    found = audit_packing(
        [unready, build_node("n1"), *build_pods("web", 1, "n1", "1")]
    )  # n0 is not tainted yet and takes the pod
    assert [each.why for each in found.kept] == ["it is the last ready node"]


def test_no_node_is_called_empty_if_pods_were_not_read() -> None:
    found = audit_packing([build_node("n1"), build_node("n2")], complete=False)
    assert (found.empty, found.savings, found.findings, found.state) == ((), (), (), "unknown")
    assert found.headline == "unknown which of 2 nodes can be removed"


def test_rules_about_other_pods_strand_no_capacity() -> None:
    """Only one pod of this app may be on a node, but pods of another app fit there."""
    running = build_pods("one", 1, "n1", "1")
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "one"}}}
    running[0]["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert audit_packing([build_node("n1"), *running]).stranded == ()
    running[0]["spec"]["nodeSelector"] = {"gone": "true"}
    assert [room.nodes for room in audit_packing([build_node("n1"), *running]).stranded] == [1]


@pytest.mark.parametrize(("pool_nodes", "may_be_removed"), [(1, False), (2, True)])
def test_removing_stranded_nodes_is_advised_only_if_they_can_be_emptied(pool_nodes: int, may_be_removed: bool) -> None:
    """Pods of the pool are kept off by its new taint, but the pod of the other pool tolerates it and can move."""
    tainted = build_node("t", "q", taints=[{"key": "gone", "effect": "NoSchedule"}])
    other = [build_node(f"n{i}") for i in range(pool_nodes - 1)]
    found = audit_packing(
        [tainted, *other, *build_pods("web", 1, "t", "1"), *(p for n in other for p in build_pods("x", 1, "n0", "1"))]
    )
    stranded = [each for each in found.findings if each.object == "Pool q" and each.rule == "audit-packing-stranded"]
    assert [("or remove the nodes" in each.fix) for each in stranded] == [may_be_removed]


NOT_INITIALIZED = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}


@pytest.mark.parametrize("taint", [NOT_INITIALIZED, NOT_READY])
def test_unready_node_is_neither_stranded_nor_removable(taint: Json) -> None:
    """It is empty only since no pod can run there, so that removing it would be wrong."""
    found = audit_packing([build_node("n1", taints=[taint]), *build_pods("web", 1, "", "1")])
    assert (found.findings, found.empty, found.stranded, found.pools) == ((), (), (), ())
    assert found.headline == "no worker node is ready: 1 node is left out as not ready or not initialized"

    found = audit_packing([build_node("n1", taints=[taint]), build_node("n2"), *build_pods("web", 1, "n2", "1")])
    assert (found.empty, found.candidates) == ((), 1)
    assert found.headline.endswith("; 1 node is left out as not ready or not initialized")


def test_pool_that_no_pod_may_use_is_one_finding() -> None:
    """Its nodes are empty and take no pod: nothing runs out there, so that other node sizes would not help."""
    taint = {"key": "team", "value": "x", "effect": "NoSchedule"}
    unused = [build_node("u1", "unused", [taint]), build_node("u2", "unused", [taint])]
    found = audit_packing([*unused, build_node("n1"), *build_pods("web", 4, "n1", "1")])
    (finding,) = [each for each in found.findings if each.object == "Pool unused"]
    assert (finding.rule, finding.severity) == ("audit-packing-unused-pool", "warning")
    assert finding.message.startswith("unused: its 2 nodes run nothing that would have to move, and no pod ")
    assert finding.fix.startswith("Remove the pool, or change the selectors")
    assert found.headline.startswith("2 of 3 nodes are empty; the only other node checked cannot be removed; ")


def test_less_than_one_percent_is_not_a_finding() -> None:
    """0.03 of 4 CPUs and no memory are stranded, which is 0.75 %."""
    found = audit_packing([build_node("n1"), *build_pods("web", 1, "n1", "3970m", "8Gi")])
    assert [each.rule for each in found.findings if each.rule == "audit-packing-stranded"] == []
    assert found.headline.startswith("100% of the free CPU is stranded; ")


def test_spare_nodes_name_the_data_and_the_preferences_that_their_drains_disregard() -> None:
    """Node n1 is emptied: one of its pods has an emptyDir, the other asks Karpenter not to disrupt it."""
    scratch, careful = build_pods("a", 2, "n1", "500m")
    scratch["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    careful["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    report = audit_packing([build_node("n1"), build_node("n2"), scratch, careful, *build_pods("b", 1, "n2", "2500m")])
    (emptied,) = report.emptied
    assert (emptied.loses_data, emptied.ask_to_stay) == (("d/a-n1-0",), ("d/a-n1-1",))
    (finding,) = [finding for finding in report.findings if finding.rule == "audit-packing-spare-nodes"]
    assert finding.message == (
        "node n1 can be emptied by moving 2 pods, but this deletes the emptyDir data of d/a-n1-0 and "
        "evicts d/a-n1-1, whose annotations ask not to be evicted and "
        "leaves ReplicaSet d/a without a running pod until its replacement runs"
    )


def test_an_empty_node_is_kept_if_a_pending_pod_can_run_nowhere_else() -> None:
    """Both nodes are empty. The pending pod selects n1, where a DaemonSet leaves too little room for it."""
    agent = build_pods("agent", 1, "n1", "2", kind="DaemonSet")
    (big,) = build_pods("big", 1, "", "3")
    big["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n1"}
    report = audit_packing([build_node("n1"), build_node("n2"), *agent, big])
    assert report.empty == ("n2",)
    why = "1 pending pod waits for room here and cannot run on any other node: d/big-pending-0"
    assert [(kept.node, kept.why, kept.lets_run) for kept in report.kept] == [("n1", why, ("d/big-pending-0",))]
    assert (report.tried, report.candidates) == (1, 1)
