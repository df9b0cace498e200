"""Check the causes for which Karpenter keeps a node: an unready pod, a soft constraint, no NodePool that launches
nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

import kschedctl
from kschedctl.commands.consolidate.autoscalers import WITHOUT_CLAIM, extract_karpenter_verdicts
from kschedctl.reports.karpenter import Disruption, NodeFate

FIELD = Path(__file__).parent.parent / "field"
TYPES = json.loads((FIELD / "types.json").read_text())
NOW = "2026-01-02T00:00:00Z"
Json = dict[str, Any]


def build_objects() -> list[Json]:
    """Build nodes k1 and k2 of NodePool base with a dns pod on each, which prefer to spread over zones."""
    items: list[Json] = yaml.safe_load((FIELD / "12-karpenter-soft-spread-blocks" / "in.yaml").read_text())["items"]
    return items


def disrupt(items: list[Json], **options: Any) -> Disruption:
    cluster = kschedctl.Cluster.from_objects(items, assume_complete=True)
    return kschedctl.disrupt(cluster, TYPES, options, now=NOW)


def find_fate(report: Disruption, node: str) -> NodeFate:
    return next(fate for fate in report.fates if fate.node == node)


def test_soft_constraint_that_keeps_a_node_is_named() -> None:
    """k1 stays with any constraint: app-1-1 fits on no other node, and the type of k1 is the cheapest for it."""
    report = disrupt(build_objects())
    kept = find_fate(report, "k2").soft_constraints
    assert kept is not None
    assert kept.pods == {"kube-system/dns-1-2": ("ScheduleAnyway spread over topology.kubernetes.io/zone",)}
    assert kept.otherwise == "delete"
    assert find_fate(report, "k1").soft_constraints is None


def test_ignored_soft_constraints_are_not_mentioned() -> None:
    report = disrupt(build_objects(), preferencePolicy="Ignore")
    assert find_fate(report, "k2").fate == "delete"
    assert all(fate.soft_constraints is None for fate in report.fates)


def test_nodes_of_a_pool_without_a_claim_are_named() -> None:
    """Karpenter manages a node only through its NodeClaim, whatever NodePool its label names."""
    claims = [each for each in build_objects() if each["kind"] == "NodeClaim"]
    items = [each for each in build_objects() if each not in claims]
    report = disrupt(items)
    assert (report.fates, report.without_claim) == ((), {"k1": "base", "k2": "base"})
    assert str(report) == "Karpenter would remove no node: the data has no NodeClaim of k1, k2, so they were not judged"
    assert extract_karpenter_verdicts(report).describe_node("k1") == WITHOUT_CLAIM
    assert disrupt(build_objects()).without_claim == {}

    # Nodes without the label are nodes of others
    others = [each for each in items if each["kind"] != "Node"]
    assert str(disrupt(others)) == "Karpenter would remove no node: no node has a NodeClaim in the data"


def test_unready_pod_that_exhausts_a_pdb_is_named() -> None:
    items = build_objects()
    sick = next(each for each in items if each["metadata"]["name"] == "dns-1-1")
    sick["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "dns", "namespace": "kube-system"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"k8s-app": "dns"}}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 2},
    }
    kept = find_fate(disrupt([*items, budget]), "k2")
    assert kept.why == "Pdb prevents pod evictions (PodDisruptionBudget=[kube-system/dns])"
    assert kept.unhealthy == ("kube-system/dns-1-1",)
    assert kept.cause == "kube-system/dns-1-1 on k1 is not Ready, which uses up the budget"


def test_without_a_ready_node_pool_the_round_ends_with_an_error() -> None:
    """NewScheduler fails in provisioner.go.

    Multi-node consolidation then returns the error, while single-node consolidation goes on.
    """
    items = build_objects()
    pool = next(each for each in items if each["kind"] == "NodePool")
    pool["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    pool["spec"]["disruption"]["budgets"] = [{"nodes": "100%"}]  # so that both nodes may go at once
    report = disrupt(items)
    assert report.multi.error == "creating scheduler, no nodepools found"
    assert report.single.error == ""
    assert report.drift.error == ""  # no candidate has drifted
    assert "no nodepools found" in find_fate(report, "k2").why


def test_claim_with_relaxed_min_values_is_annotated() -> None:
    """No instance type has the user's own label, so 0 of the 2 required values are left."""
    items = [each for each in build_objects() if each["kind"] in ("NodePool", "EC2NodeClass")]
    pool = next(each for each in items if each["kind"] == "NodePool")
    own = {"key": "example.com/team", "operator": "In", "values": ["a", "b"], "minValues": 2}
    pool["spec"]["template"]["spec"]["requirements"].append(own)
    waiting = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
        },
    }
    cluster = kschedctl.Cluster.from_objects([*items, waiting], assume_complete=True)
    (claim,) = kschedctl.provision(cluster, TYPES, {"minValuesPolicy": "BestEffort"}, now=NOW).new_node_claims
    assert claim.annotations["karpenter.sh/nodeclaim-min-values-relaxed"] == "true"
