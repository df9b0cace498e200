"""Check pools before and after the best node set, counted by hand, and the answer's form."""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl
from kschedctl.commands.size.page import build_page
from kschedctl.commands.size.report import NodeSizing, SizedShape, SizingAlternative
from kschedctl.render.page import Style
from kschedctl.render.plots.plot import Plot
from kschedctl.replay.parallel import Workers

Json = dict[str, Any]
ZONE, HOSTNAME, POOL = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "karpenter.sh/nodepool"


def build_node(name: str, pool: str, cpu: int) -> Json:
    offers = {"cpu": str(cpu), "memory": "16Gi", "pods": "20"}
    meta = {"name": name, "labels": {ZONE: "a", HOSTNAME: name, POOL: pool}}
    status = {"allocatable": offers, "capacity": offers}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


def build_pod(name: str, on: str, cpu: int = 1) -> Json:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    resources = {"requests": {"cpu": str(cpu), "memory": "1Gi"}}
    meta = {"name": name, "namespace": "default", "uid": name, "ownerReferences": [owner]}
    spec = {"nodeName": on, "containers": [{"name": "c", "image": "c", "resources": resources}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Running"}}


OBJECTS = [
    build_node("s1", "small", 4),
    build_node("s2", "small", 4),
    build_node("l1", "large", 2),
    build_pod("p1", "s1"),
    build_pod("p2", "s2"),
    build_pod("p3", "l1"),
]


@pytest.mark.parametrize("jobs", [1, 2])
def test_pools_before_and_after(jobs: int) -> None:
    """Three pods of 1 CPU and 1Gi, each on its own node, move to one node of 4 CPUs and 16Gi."""
    report = kschedctl.size(kschedctl.Cluster.from_objects(OBJECTS), workers=Workers(jobs))
    large, small = report.pools
    assert (large.pool, large.nodes_before, large.nodes_after, large.pods_before, large.pods_after) == (
        ("large", 1, 0, 1, 0)
    )
    assert (large.cpu_before, large.cpu_after, large.memory_before, large.memory_after) == (50, None, 6.25, None)
    assert (small.pool, small.nodes_before, small.nodes_after, small.pods_before, small.pods_after) == (
        ("small", 2, 1, 2, 3)
    )
    assert (small.cpu_before, small.cpu_after, small.memory_before, small.memory_after) == (25, 75, 6.25, 18.75)


def test_no_pools_before_without_nodes() -> None:
    types = [
        {
            "name": "t",
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": {"cpu": "4", "memory": "16Gi", "pods": "20"},
            "overhead": {"cpu": "0", "memory": "0"},
            "offerings": [{"Price": 1, "Available": True, "Requirements": []}],
        }
    ]
    pods = [item | {"spec": item["spec"] | {"nodeName": ""}} for item in OBJECTS if item["kind"] == "Pod"]
    report = kschedctl.size(kschedctl.Cluster.from_objects(pods), instance_types=types)
    assert (report.nodes, report.pools) == (1, ())
    report = kschedctl.size(kschedctl.Cluster.from_objects(OBJECTS), instance_types=types)
    assert [(pool.pool, pool.nodes_before, pool.nodes_after) for pool in report.pools] == [
        ("large", 1, 0),
        ("small", 2, 0),
        ("t", 0, 1),
    ]


def test_page_has_bars_of_pools() -> None:
    report = kschedctl.size(kschedctl.Cluster.from_objects(OBJECTS))
    plots = [block for block in build_page(report, Style(plots=True)) if isinstance(block, Plot)]
    assert [plot.title for plot in plots] == [
        "Nodes by pool, before and after",
        "Requested cpu by pool, before and after",
    ]


def test_replayed_sets_have_check_marks() -> None:
    sets = SizingAlternative("1 × s", 1, 1), SizingAlternative("1 × l, 1 × s", 2, 2)
    page = build_page(NodeSizing(1, 1, shapes=(SizedShape("s", 1, {}),), alternatives=sets), Style())
    assert all(text in repr(page) for text in ("1 × s", "1 × l, 1 × s"))


@pytest.mark.parametrize(
    ("refuted", "words"), [(1, "the only cheaper set does not take them"), (2, "none of 2 cheaper sets takes them")]
)
def test_number_of_insufficient_cheaper_sets(refuted: int, words: str) -> None:
    report = NodeSizing(3, 3, bound=2, cheapest=True, refuted=refuted)
    assert report.build_headline_parts() == (
        f"3 nodes can run 3 pods; their requests alone need at least 2 (50% above that; {words})",
    )
