"""Check that invalid node groups and flags get one clear line each."""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl
from kschedctl.autoscaling.cluster_autoscaler.scale_up import scale_up

NOW = "2026-06-01T12:00:00Z"
BAD: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    "two of one name": ([{"id": "a"}, {"id": "a"}], {}, 'nodeGroups[1]: two node groups have the id "a"'),
    "a node in two": (
        [{"id": "a", "nodes": ["n"]}, {"id": "b", "nodes": ["n"]}],
        {},
        'nodeGroups[1]: node "n" is in two groups: "a" and "b"',
    ),
    "more at least than at most": ([{"id": "a", "min": 3, "max": 1}], {}, "nodeGroups[0]: min 3 is above max 1"),
    "no number": ([{"id": "a", "max": "many"}], {}, "nodeGroups[0]: Expected `int`, got `str` - at `$.max`"),
    "no flag": ([], {"maxNodesTotal": "x"}, "options: Expected `int`, got `str` - at `$.maxNodesTotal`"),
}


@pytest.mark.parametrize("name", BAD)
def test_faults_are_one_clear_line(name: str) -> None:
    """The valid group is still answered."""
    groups, options, said = BAD[name]
    for ask in (kschedctl.scale_up, kschedctl.scale_down):
        report = ask(kschedctl.Cluster.from_objects([]), [*groups, {"id": "sound"}], options, now=NOW)
        assert report.faults == (said,)


def build_pod(name: str, **spec: Any) -> dict[str, Any]:
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    metadata = {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": "2026-06-01T11:00:00Z"}
    status = {"phase": "Pending", "conditions": [refused]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [], **spec},
        "status": status,
    }


TEMPLATE = {"metadata": {"name": "t"}, "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}
GROUP = {"id": "a", "max": 3, "template": TEMPLATE}


def test_unknown_expander() -> None:
    """The default expander is used."""
    cluster = kschedctl.Cluster.from_objects([build_pod("p")])
    found = kschedctl.scale_up(cluster, [GROUP], {"expander": "most-spots", "maxNodesTotal": 9}, now=NOW)
    assert len(found.faults) == 1
    assert found.faults[0].startswith('options.expander: unknown expander "most-spots"')
    assert [(each.group, each.target) for each in found.increases] == [("a", 1)]


def test_node_of_two_groups_belongs_to_the_first() -> None:
    groups = [{"id": "a", "max": 3, "nodes": ["n"]}, {"id": "b", "max": 3, "nodes": ["n", "m"]}]
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in ("n", "m")]
    found = kschedctl.scale_down(kschedctl.Cluster.from_objects(nodes), groups, now=NOW)
    assert {name: each.group for name, each in found.nodes.items()} == {"n": "a", "m": "b"}


def test_empty_cluster_scales_from_zero() -> None:
    found = kschedctl.scale_up(kschedctl.Cluster.from_objects([build_pod("p")]), [GROUP], now=NOW)
    assert [(each.group, each.source, each.target) for each in found.increases] == [("a", 0, 1)]


def test_group_without_any_template_is_skipped() -> None:
    found = scale_up(kschedctl.Cluster.from_objects([build_pod("p")]), [{"id": "a", "max": 3}], now=NOW)
    assert found.remaining["shop/p"].message == "pod didn't trigger scale-up: 1 not ready for scale-up"


def test_taint_repels_the_pod_from_every_new_node() -> None:
    tainted = {**TEMPLATE, "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}
    found = kschedctl.scale_up(
        kschedctl.Cluster.from_objects([build_pod("p")]), [{**GROUP, "template": tainted}], now=NOW
    )
    assert found.result == "ScaleUpNoOptionsAvailable"
    assert found.remaining["shop/p"].rejected["a"].plugin == "TaintToleration"
