"""Check the audit's section about races: two schedulers on the same nodes, late kubelets, and neither."""

from __future__ import annotations

from typing import Any

import pytest

from kschedctl.cluster import Cluster
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.races import build_races_section, find_competing_schedulers
from kschedctl.commands.audit.races.report import RacesSection
from kschedctl.scheduler.scheduler import Scheduler

Json = dict[str, Any]


def build_node(name: str) -> Json:
    status = {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "30"}}
    return {"kind": "Node", "metadata": {"name": name}, "status": status}


def build_pod(name: str, node_name: str, scheduler: str = "default-scheduler", lag: int = 1) -> Json:
    """Build a pod that was created and bound in one second and started ``lag`` seconds later."""
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-05-06T08:00:00Z"}
    owner = {"controller": True, "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}
    created = {"creationTimestamp": "2026-05-06T08:00:00Z", "ownerReferences": [owner]}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "d", **created},
        "spec": {
            "nodeName": node_name,
            "schedulerName": scheduler,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}],
        },
        "status": {"phase": "Running", "startTime": f"2026-05-06T08:00:{lag:02}Z", "conditions": [bound]},
    }


def build_full_nodes(nodes: int, others_on: int = 0, lag: int = 1) -> list[Json]:
    """Build full nodes. On the first of them every second pod is scheduled by volcano."""
    pods = [
        build_pod(f"p{n}-{i}", f"n{n}", "volcano" if n < others_on and i % 2 else "default-scheduler", lag)
        for n in range(nodes)
        for i in range(30)
    ]
    return [*(build_node(f"n{n}") for n in range(nodes)), *pods]


def audit_races(objects: list[Json], complete: bool = True) -> RacesSection:
    return build_races_section(AuditedCluster(Scheduler(Cluster.from_objects(objects, assume_complete=complete))))


def test_one_scheduler_with_fast_kubelets_is_sound() -> None:
    found = audit_races(build_full_nodes(4))
    assert (found.state, found.findings, found.rivals) == ("sound", (), ())
    assert found.headline.startswith(
        "no pod can be double-booked, since kube-scheduler 1.36 never expires assumed pods (if it expired them after "
        "30s, 0% of pods would be double-booked: simulated with "
    )
    assert found.races is not None
    assert [result.double_booked for result in found.races.results] == [0, 0]
    assert found.races.assumptions.from_cluster
    assert (found.races.results[0].nodes, found.races.assumptions.pods_per_node) == (4, 30)
    assert found.races.assumptions.load == 1.0


def test_two_schedulers_on_the_same_nodes_are_a_finding() -> None:
    """Two of the four nodes have pods of both schedulers."""
    found = audit_races(build_full_nodes(4, others_on=2))
    (rival,) = found.findings
    assert (rival.rule, rival.severity, rival.object) == (
        "audit-races-several-schedulers",
        "warning",
        "Scheduler volcano",
    )
    assert "volcano and default-scheduler both have pods on 2 nodes (n0, n1)" in rival.message
    assert (found.state, found.rivals, found.shared_nodes) == ("findings", ("volcano",), 2)
    assert found.headline.startswith("2 schedulers share 2 nodes: ")


def test_schedulers_with_separate_nodes_do_not_race() -> None:
    objects = [build_node("n1"), build_node("n2"), build_pod("a", "n1"), build_pod("b", "n2", "volcano")]
    assert find_competing_schedulers(Scheduler(Cluster.from_objects(objects)).view) == ((), ())
    assert audit_races(objects).state == "sound"


@pytest.mark.parametrize(("lag", "rules"), [(5, []), (6, ["audit-races-slow-bindings"])])
def test_slow_kubelets_are_a_finding(lag: int, rules: list[str]) -> None:
    found = audit_races(build_full_nodes(1, lag=lag))
    assert [finding.rule for finding in found.findings] == rules
    assert found.races is not None
    assert found.races.assumptions.measured is not None
    assert found.races.assumptions.measured.p99 == lag


def test_cluster_without_pods_has_no_races() -> None:
    assert audit_races([build_node("n1")]).headline == "too few nodes or pods to simulate races"


def test_unread_kinds_make_the_answer_undecided() -> None:
    found = audit_races([{"kind": "NodeList", "items": [build_node("n1")]}, build_pod("a", "n1")], complete=False)
    assert (found.state, found.undecided) == ("unknown", True)
    assert {each.kind for each in found.unknown} == {"Pod"}
