"""Run the printed commands of fixes of NodePools and NodeClasses, and replay."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

import kschedctl
from kschedctl.fixes.new_node import simulate_node_growth
from kschedctl.fixes.search import RemedyCriteria
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.reports.remedy import Remedy

Json = dict[str, Any]
NOW = "2026-06-01T12:00:00Z"
OS, ZONE = "kubernetes.io/os", "topology.kubernetes.io/zone"


def build_node_class(*zones: str) -> Json:
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "std"},
        "status": {"subnets": [{"zone": zone} for zone in zones], "conditions": [{"type": "Ready", "status": "True"}]},
    }


def build_pool(*requirements: Json, **labels: str) -> Json:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "std"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"nodeClassRef": reference, "requirements": list(requirements)},
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "base"},
        "spec": {"template": template},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def build_node() -> Json:
    """Build a full node of the pool, which shows one instance type."""
    labels = {
        OS: "linux",
        ZONE: "b",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": "k1",
        "node.kubernetes.io/instance-type": "m.large",
        "karpenter.sh/nodepool": "base",
        "karpenter.sh/capacity-type": "on-demand",
        "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true",
    }
    room = {"cpu": "2", "memory": "8Gi", "pods": "58"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "k1", "labels": labels},
        "spec": {"providerID": "aws:///b/i-1"},
        "status": {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def build_pod(**spec: Any) -> Json:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "d"},
        "spec": {"containers": [container], **spec},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    }


def list_offered_fixes(*documents: Json) -> list[Remedy]:
    report = kschedctl.explain(kschedctl.Cluster.from_objects(list(documents)), "d/web", remedies=True, now=NOW)
    return list(report.remedies)


def test_missing_label_of_the_pool_is_the_first_fix() -> None:
    objects = [build_node_class("b"), build_pool(), build_node(), build_pod(nodeSelector={"team": "shop"})]
    first, *others = list_offered_fixes(*objects)
    assert (first.summary, first.kinds, first.step) == (
        "Add the label team=shop to NodePool base, whose nodes lack it",
        ("ChangeNodePool",),
        "correction",
    )
    assert "DropSelector" in [kind for each in others for kind in each.kinds]
    words = shlex.split(first.commands[0])
    assert words[:-1] == ["kubectl", "patch", "nodepools.karpenter.sh", "base", "--type=merge", "-p"]
    labels = json.loads(words[-1])["spec"]["template"]["metadata"]["labels"]
    cluster = kschedctl.Cluster.from_objects([objects[0], build_pool(**labels), *objects[2:]])
    after = kschedctl.explain(cluster, "d/web", now=NOW).new_node
    assert after is not None
    assert after.would_launch


def test_pool_of_another_operating_system_gets_no_label() -> None:
    linux = {"key": OS, "operator": "In", "values": ["linux"]}
    windows = [{"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}]
    asked = build_pod(nodeSelector={"team": "shop"}, tolerations=windows)
    assert list_offered_fixes(build_node_class("b"), build_pool(linux), build_node(), asked) == []


def test_node_class_gets_a_subnet_in_the_zone_of_the_pod() -> None:
    first, *_ = list_offered_fixes(
        build_node_class("b", "c"), build_pool(), build_node(), build_pod(nodeSelector={ZONE: "a"})
    )
    assert first.kinds == ("ChangeNodeClass",)
    assert first.summary == "Give EC2NodeClass std a subnet in a: the subnets that it selects are in b and c"


@pytest.mark.parametrize("zones", [("a", "b"), ()])
def test_class_with_that_subnet_or_unknown_subnets_needs_none(zones: tuple[str, ...]) -> None:
    kinds = [
        each.kinds
        for each in list_offered_fixes(
            build_node_class(*zones), build_pool(), build_node(), build_pod(nodeSelector={ZONE: "a"})
        )
    ]
    assert ("ChangeNodeClass",) not in kinds


def test_label_is_no_fix_if_more_is_missing() -> None:
    asked = build_pod(nodeSelector={"team": "shop"})
    asked["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "9"
    assert ("ChangeNodePool",) not in [
        each.kinds for each in list_offered_fixes(build_node_class("b"), build_pool(), build_node(), asked)
    ]


def test_fixes_are_of_the_requested_kinds() -> None:
    objects = [build_node_class("b"), build_pool(), build_node(), build_pod(nodeSelector={"team": "shop"})]
    cluster = kschedctl.Cluster.from_objects(objects)
    only = kschedctl.remedies(cluster, "d/web", RemedyCriteria(only=frozenset({"ChangeNodePool"})))
    assert [each.kinds for each in only.remedies] == [("ChangeNodePool",)]
    without = kschedctl.remedies(cluster, "d/web", RemedyCriteria(without=frozenset({"ChangeNodePool"})))
    assert ("ChangeNodePool",) not in [each.kinds for each in without.remedies]


def build_limited_pool(cpu: str) -> Json:
    base = build_pool()
    base["spec"]["limits"] = {"cpu": cpu}
    return base


def build_filling_pod() -> Json:
    """Build a pod that requests both CPUs of the node."""
    filler = build_pod(nodeName="k1")
    filler["metadata"]["name"] = "filler"
    filler["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    filler["status"] = {"phase": "Running"}
    return filler


def test_limit_is_raised_by_the_smallest_fitting_type() -> None:
    """The only instance type has 2 CPUs, and so has the existing node.

    A limit of 3 leaves 1, so one more node needs a limit of 4.
    """
    objects = [build_node_class("b"), build_node(), build_filling_pod(), build_pod()]
    fixes = [
        each for each in list_offered_fixes(build_limited_pool("3"), *objects) if each.kinds == ("ChangeNodePool",)
    ]
    assert [each.summary for each in fixes] == ["Raise the limit of NodePool base: cpu from 3 to 4"]
    assert json.loads(shlex.split(fixes[0].commands[0])[-1]) == {"spec": {"limits": {"cpu": "4"}}}
    for cpu, launches in (("3", False), ("4", True)):
        answer = kschedctl.explain(
            kschedctl.Cluster.from_objects([build_limited_pool(cpu), *objects]), "d/web", now=NOW
        ).new_node
        assert answer is not None
        assert answer.would_launch == launches


def test_limit_is_not_raised_if_it_is_not_the_only_obstacle() -> None:
    asked = build_pod(nodeSelector={"team": "shop"})
    assert [
        each
        for each in list_offered_fixes(
            build_limited_pool("3"), build_node_class("b"), build_node(), build_filling_pod(), asked
        )
        if "limit" in each.summary
    ] == []


def test_nodes_launched_in_earlier_runs_count_for_the_limit() -> None:
    """A limit of 6 CPUs leaves room for 2 more nodes of 2 CPUs, regardless of how often Karpenter runs."""
    pods = [build_pod() for _ in range(5)]
    for number, each in enumerate(pods):
        each["metadata"]["name"] = f"web-{number}"
        each["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1500m"
    cluster = kschedctl.Cluster.from_objects(
        [build_limited_pool("6"), build_node_class("b"), build_node(), build_filling_pod(), *pods]
    )
    growth = simulate_node_growth(cluster, NOW)
    assert growth is not None
    assert (growth.nodes, growth.unplaced_count) == (2, 3)


def test_pod_that_gets_a_new_node_needs_no_fix() -> None:
    cluster = kschedctl.Cluster.from_objects(
        [build_pool(), build_node_class("b"), build_node(), build_filling_pod(), build_pod()]
    )
    report = kschedctl.explain(cluster, "d/web", now=NOW)
    assert "new node: Yes, by Karpenter. Only the instance type" in " ".join(report.summary().warnings)
    assert "No fix was found" not in RENDERERS["table"](report, Style())
