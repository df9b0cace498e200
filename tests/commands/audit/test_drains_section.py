"""Check the audit's section about nodes that cannot be drained, because budgets deny the eviction of their pods."""

from __future__ import annotations

from typing import Any

import pytest
from command_line import build_node, build_pod

import kschedctl
from kschedctl.commands.audit.report import DrainsSection

Json = dict[str, Any]


def build_budget(name: str, app: str, **spec: object) -> Json:
    selector = {"matchLabels": {"app": app}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": selector, **spec},
    }


def build_running_pod(name: str, node_name: str, app: str = "", ready: str = "True") -> Json:
    running = build_pod(name, nodeName=node_name)
    running["metadata"]["labels"] = {"app": app or name}
    running["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
    return running


def build_section(*objects: Json) -> DrainsSection:
    cluster = kschedctl.Cluster.from_objects([build_node("n1"), build_node("n2"), build_node("n3"), *objects])
    (section,) = kschedctl.audit(cluster, ["drains"]).sections
    assert isinstance(section, DrainsSection)
    return section


def test_budget_that_never_allows_an_eviction() -> None:
    pods = [build_running_pod(f"db-{number}", f"n{number}", "db") for number in (1, 2)]
    section = build_section(*pods, build_budget("db", "db", maxUnavailable=0))
    (finding,) = section.findings
    assert section.headline == "2 of 3 nodes cannot be drained now because of 1 PodDisruptionBudget"
    assert (finding.rule, finding.object) == ("audit-drains-never", "PodDisruptionBudget default/db")
    assert finding.message == (
        "never allows an eviction: its maxUnavailable is 0, so 2 pods on n1 and n2 cannot be evicted"
    )


def test_an_unhealthy_pod_uses_up_the_budget() -> None:
    pods = [build_running_pod("web-1", "n1", "web"), build_running_pod("web-2", "n2", "web", ready="False")]
    section = build_section(*pods, build_budget("web", "web", maxUnavailable=1))
    (finding,) = section.findings
    assert finding.rule == "audit-drains-now"
    assert "default/web-2 on n2 is not Ready, which uses up the budget" in finding.message
    (blocked,) = section.blocked
    # The unhealthy pod itself may be evicted, because enough others are healthy
    assert (blocked.pods, blocked.nodes) == (("default/web-1",), ("n1",))


@pytest.mark.parametrize(("selected", "helps"), [({}, True), ({"kubernetes.io/hostname": "n1"}, False)])
def test_one_more_replica_is_proposed_only_if_another_node_has_room_for_it(selected: Json, helps: bool) -> None:
    running = build_running_pod("web", "n1")
    running["spec"]["nodeSelector"] = selected
    section = build_section(running, build_budget("web", "web", minAvailable=1))
    (finding,) = section.findings
    assert finding.fix.startswith("Run one more replica" if helps else "Lower the budget's minAvailable, or scale")
    assert finding.fix.endswith("no node other than n1 can take it") is not helps
    assert section.blocked[0].fix == finding.fix


def test_one_more_replica_is_no_advice_for_a_budget_that_counts_unavailable_pods() -> None:
    pods = [build_running_pod("web-1", "n1", "web"), build_running_pod("web-2", "n2", "web", ready="False")]
    (finding,) = build_section(*pods, build_budget("web", "web", maxUnavailable=1)).findings
    assert finding.fix.startswith("Repair default/web-2, which is not Ready, or raise the budget's maxUnavailable")


def test_two_budgets_for_the_same_pod() -> None:
    section = build_section(
        build_running_pod("web", "n1"), build_budget("one", "web", maxUnavailable=1), build_budget("two", "web")
    )
    (finding,) = section.findings
    assert finding.rule == "audit-drains-overlap"
    assert finding.message == (
        "selects pods that default/two also selects, which the eviction API does not support, so "
        "1 pod on n1 cannot be evicted"
    )


@pytest.mark.parametrize("kind", ["DaemonSet", "Node"])
def test_pods_that_stay_in_a_drain_do_not_block_it(kind: str) -> None:
    agent = build_running_pod("agent", "n1")
    agent["metadata"]["ownerReferences"] = [{"kind": kind, "name": "x", "uid": "x", "controller": True}]
    section = build_section(agent, build_budget("agent", "agent", maxUnavailable=0))
    assert (section.state, section.blocked) == ("sound", ())


def test_budgets_that_allow_evictions_are_sound() -> None:
    pods = [build_running_pod(f"web-{number}", f"n{number}", "web") for number in (1, 2)]
    section = build_section(*pods, build_budget("web", "web", maxUnavailable=1))
    assert (section.state, section.headline) == ("sound", "no drain is blocked now, with 1 PodDisruptionBudget")


@pytest.mark.parametrize(("status", "adjective"), [("False", "not ready"), ("Unknown", "unreachable")])
def test_unready_node_with_pods_is_an_error(status: str, adjective: str) -> None:
    """n4 has a pod to evict. n5 has only a DaemonSet pod, so it is no finding."""
    down = [build_node("n4"), build_node("n5")]
    for each in down:
        each["status"]["conditions"] = [{"type": "Ready", "status": status}]
    agent = build_running_pod("agent", "n5")
    agent["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "x", "uid": "x", "controller": True}]
    section = build_section(*down, build_running_pod("web", "n4"), agent)
    (finding,) = section.findings
    assert (finding.rule, finding.severity, finding.object) == ("audit-drains-unready-node", "error", "Node n4")
    assert finding.message == f"is {adjective} and has 1 pod: default/web"
    assert section.headline == "n4 is not ready but has pods; there are no PodDisruptionBudgets"
    assert [unready.node for unready in section.unready] == ["n4"]
    assert not section.is_not_judged


def test_nothing_is_judged_without_budgets() -> None:
    assert build_section().is_not_judged


def test_unread_budgets_leave_the_answer_open() -> None:
    cluster = kschedctl.Cluster.from_objects([build_node("n1")], assume_complete=False)
    (section,) = kschedctl.audit(cluster, ["drains"]).sections
    assert (section.state, section.undecided) == ("unknown", True)


@pytest.mark.parametrize(("node_count", "helps"), [(3, True), (2, False)])
def test_one_more_replica_with_a_claim_needs_a_node_besides_those_of_the_other_replicas(
    node_count: int, helps: bool
) -> None:
    """The replicas keep away from each other, and each has a claim with a volume on its node."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
    pods, storage = [], []
    for number in (1, 2):
        running = build_running_pod(f"db-{number}", f"n{number}", "db")
        running["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        running["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}}]
        pods.append(running)
        on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"n{number}"]}
        volume_spec = {
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
            "local": {"path": "/data"},
            "claimRef": {"namespace": "default", "name": f"data-{number}"},
        }
        storage += [
            {"kind": "PersistentVolume", "metadata": {"name": f"v{number}"}, "spec": volume_spec},
            {
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": f"data-{number}",
                    "namespace": "default",
                    "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
                },
                "spec": {"volumeName": f"v{number}"},
            },
        ]
    nodes = [build_node(f"n{number}") for number in range(1, node_count + 1)]
    budget = build_budget("db", "db", minAvailable=2)
    (section,) = kschedctl.audit(kschedctl.Cluster.from_objects([*nodes, *pods, *storage, budget]), ["drains"]).sections
    (finding,) = section.findings
    assert finding.fix.startswith("Run one more replica" if helps else "Lower the budget's minAvailable during")
