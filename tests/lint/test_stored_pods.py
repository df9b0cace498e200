"""Check that pods of a cluster are linted as written: additions of the API server and controllers are not reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kschedctl.api.defaults import merge_affinity_label_keys, merge_spread_label_keys
from kschedctl.api.objects import Pod
from kschedctl.cluster import Cluster, Gap
from kschedctl.lint.context import LintContext
from kschedctl.lint.engine import choose_rules, lint
from kschedctl.lint.objects.stored_pods import to_written_spec
from kschedctl.reports.findings import Finding

NODES = [
    {
        "kind": "Node",
        "metadata": {
            "name": f"{zone}{i}",
            "labels": {"kubernetes.io/hostname": f"{zone}{i}", "topology.kubernetes.io/zone": zone},
        },
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
    }
    for zone in "abc"
    for i in range(2)
]
HASH = {"key": "pod-template-hash", "operator": "In", "values": ["5d8"]}


def make_pod(name: str, owner: str, node: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return a running pod."""
    kind, _, controller = owner.partition("/")
    labels = {"app": "web", **({"pod-template-hash": "5d8"} if kind == "ReplicaSet" else {})}
    owners = [{"kind": kind, "name": controller, "controller": True}]
    requests = {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "labels": labels, "ownerReferences": owners, **metadata},
        "spec": {"nodeName": node, "containers": [{"name": "web", **requests}], **spec},
        "status": {"phase": "Running"},
    }


def lint_cluster(*objects: dict[str, Any], rules: str = "*") -> list[Finding]:
    """Return the findings of rules in a cluster."""
    cluster = Cluster.from_objects([*NODES, *objects])
    return list(lint(LintContext.from_cluster(cluster), choose_rules(rules.split(","), ())).findings)


MERGED: dict[str, dict[str, Any]] = {
    "spread": {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}, "matchExpressions": [HASH]},
                "matchLabelKeys": ["pod-template-hash"],
            }
            for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
        ]
    },
    "affinity to each other": {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "topology.kubernetes.io/zone",
                        "labelSelector": {"matchLabels": {"app": "web"}, "matchExpressions": [HASH]},
                        "matchLabelKeys": ["pod-template-hash"],
                    }
                ]
            }
        }
    },
}


@pytest.mark.parametrize("spec", MERGED.values(), ids=MERGED)
def test_merged_label_keys_are_no_overlap(spec: dict[str, Any]) -> None:
    pods = [make_pod(f"web-5d8-{i}", "ReplicaSet/web-5d8", f"{'abc'[i % 3]}{i % 2}", spec) for i in range(3)]
    assert lint_cluster(*pods, rules="ts-mlk-*,ts-selector-*,ts-cross-namespace,af-*") == []


@pytest.mark.parametrize("part", MERGED)
def test_additions_of_the_api_server_are_removed(part: str) -> None:
    merged = Cluster.from_objects([make_pod("web-5d8-0", "ReplicaSet/web-5d8", "a0", MERGED[part])]).pods[0]
    written = Pod(merged.metadata, to_written_spec(merged))
    again = merge_spread_label_keys(merge_affinity_label_keys(written))
    assert written.spec != merged.spec
    assert again.spec.affinity == merged.spec.affinity
    assert again.spec.topology_spread_constraints == merged.spec.topology_spread_constraints


def test_claims_of_a_stateful_set_are_not_shared() -> None:
    def spec(i: int) -> dict[str, Any]:
        return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-db-{i}"}}]}

    claims = [
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": f"data-db-{i}", "namespace": "shop"},
            "spec": {"accessModes": ["ReadWriteOnce"]},
        }
        for i in range(3)
    ]
    pods = [make_pod(f"db-{i}", "StatefulSet/db", f"{'abc'[i]}0", spec(i)) for i in range(3)]
    assert lint_cluster(*claims, *pods, rules="vl-*") == []


def test_terminating_pods_are_no_replicas() -> None:
    staying = make_pod("web-5d8-0", "ReplicaSet/web-5d8", "a0", {})
    leaving = make_pod("web-5d8-1", "ReplicaSet/web-5d8", "b0", {}, deletionTimestamp="2026-01-01T00:00:00Z")
    second = make_pod("web-5d8-1", "ReplicaSet/web-5d8", "b0", {})
    assert lint_cluster(staying, leaving, rules="pdb-missing,ts-missing") == []
    assert {f.rule for f in lint_cluster(staying, second, rules="pdb-missing,ts-missing")} == {
        "pdb-missing",
        "ts-missing",
    }


@pytest.mark.parametrize("bound", [True, False])
def test_scheduler_that_bound_pods_exists(bound: bool) -> None:
    pods = [make_pod(f"web-5d8-{i}", "ReplicaSet/web-5d8", "", {"schedulerName": "volcano"}) for i in range(2)]
    pods[0]["spec"]["nodeName"] = "a0" if bound else ""
    assert bool(lint_cluster(*pods, rules="sc-unknown-scheduler")) is not bound


ABSENT = {
    "pc-missing": ("PriorityClass", {"priorityClassName": "gone"}),
    "pc-deleted-in-use": ("PriorityClass", {"priorityClassName": "gone"}),
    "pdb-missing": ("PodDisruptionBudget", {}),
    "sc-unknown-scheduler": ("Pod", {"schedulerName": "volcano", "nodeName": ""}),
    "dra-no-device": ("ResourceClaim", {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}),
}


@pytest.mark.parametrize(("rule", "case"), ABSENT.items(), ids=ABSENT)
def test_unreadable_kinds_are_not_called_missing(rule: str, case: tuple[str, dict[str, Any]]) -> None:
    kind, spec = case
    known = {"kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 5}
    pods = [make_pod(f"web-5d8-{i}", "ReplicaSet/web-5d8", "a0", spec) for i in range(2)]
    cluster = Cluster.from_objects([*NODES, *pods, known])
    rules = choose_rules([rule], ())
    assert lint(LintContext.from_cluster(cluster), rules).findings
    assert (
        lint(
            LintContext.from_cluster(replace(cluster, gaps={kind: Gap("could not be read: forbidden")})), rules
        ).findings
        == ()
    )


def test_classes_are_not_called_missing_in_a_dump_without_classes() -> None:
    pods = [make_pod("web-5d8-0", "ReplicaSet/web-5d8", "a0", {"priorityClassName": "gold"})]
    assert lint_cluster(*pods, rules="pc-missing,pc-deleted-in-use") == []


def test_only_workloads_that_lack_pods_are_reported_as_fragmented() -> None:
    full = {"containers": [{"name": "web", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}]}
    names = (f"{zone}{i}" for zone in "abc" for i in range(2))
    pods = [make_pod(f"web-5d8-{i}", "ReplicaSet/web-5d8", name, full) for i, name in enumerate(names)]
    assert lint_cluster(*pods, rules="rq-fragmented") == []
    assert [
        f.rule
        for f in lint_cluster(*pods, make_pod("web-5d8-9", "ReplicaSet/web-5d8", "", full), rules="rq-fragmented")
    ]


def test_owner_of_an_object_is_named() -> None:
    """A database's operator would revert a change of its StatefulSet."""
    operator = {"kind": "Postgres", "name": "db", "controller": True}
    owned = {"name": "db", "namespace": "shop", "ownerReferences": [operator]}
    stateful_set = {"kind": "StatefulSet", "metadata": owned, "spec": {"replicas": 1}}
    selector = {"matchLabels": {"app": "web"}}
    budget = {"kind": "PodDisruptionBudget", "metadata": owned, "spec": {"maxUnavailable": 0, "selector": selector}}
    bare = {"containers": [{"name": "web"}]}
    objects = (make_pod("db-0", "StatefulSet/db", "a0", bare), make_pod("web-1", "ReplicaSet/web-5d8", "a1", bare))
    findings = lint_cluster(*objects, stateful_set, budget, rules="rq-missing,pdb-zero-disruptions")
    assert {(f.object, f.owner) for f in findings} == {
        ("StatefulSet shop/db", "Postgres shop/db"),
        ("PodDisruptionBudget shop/db", "Postgres shop/db"),
        ("Deployment shop/web", ""),
    }
    assert {f.path for f in findings if f.rule == "rq-missing"} == {"spec.template.spec.containers[0]"}
    (told,) = (f.fix for f in findings if f.object == "StatefulSet shop/db")
    assert told.endswith(", in Postgres shop/db, which creates this StatefulSet")


def make_quota(**hard: str) -> dict[str, Any]:
    """Return a ResourceQuota of the namespace."""
    return {"kind": "ResourceQuota", "metadata": {"name": "team", "namespace": "shop"}, "spec": {"hard": hard}}


def make_deployment(name: str, replicas: int) -> dict[str, Any]:
    """Return a stored Deployment with pods of 1 CPU."""
    containers = [{"name": "web", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers}}
    return {
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop", "uid": name},
        "spec": {"replicas": replicas, "template": template},
    }


def test_quotas_of_a_cluster_are_checked() -> None:
    """The replicas of the Deployments count, because a quota keeps them from having pods."""
    pods = [make_pod(f"web-5d8-{i}", "ReplicaSet/web-5d8", "a0", {}) for i in range(2)]
    quota = make_quota(pods="4")

    def list_quota_messages(*objects: dict[str, Any]) -> list[str]:
        return [finding.message for finding in lint_cluster(*pods, quota, *objects, rules="rq-quota-exceeded")]

    assert list_quota_messages() == []
    assert list_quota_messages(make_deployment("web", 4)) == []
    assert list_quota_messages(make_deployment("web", 5)) == [
        "Deployment shop/web needs 5 pods, but the quota allows only 4"
    ]
    assert list_quota_messages(make_deployment("web", 2), make_deployment("api", 3)) == [
        "Deployment shop/web and Deployment shop/api need 5 pods, but the quota allows only 4"
    ]


def test_limits_of_a_namespace_concern_only_pods_that_are_still_created() -> None:
    """Pods without a controller, and claims, were admitted before the limits existed."""
    limits = [{"type": "Container", "max": {"cpu": "500m"}}, {"type": "PersistentVolumeClaim", "max": {"storage": "1"}}]
    limit_range = {"kind": "LimitRange", "metadata": {"name": "small", "namespace": "shop"}, "spec": {"limits": limits}}
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "shop"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    bare = make_pod("bare", "/", "a0", {})
    bare["metadata"]["ownerReferences"] = []
    objects = (limit_range, make_quota(**{"limits.memory": "9Gi"}), claim, bare)
    rules = "rq-quota,rq-limit-range"
    assert lint_cluster(*objects, rules=rules) == []
    controlled = make_pod("web-5d8-0", "ReplicaSet/web-5d8", "a0", {})
    findings = lint_cluster(*objects, controlled, rules=rules)
    assert {(finding.rule, finding.object) for finding in findings} == {
        ("rq-quota", "Deployment shop/web"),
        ("rq-limit-range", "Deployment shop/web"),
    }
