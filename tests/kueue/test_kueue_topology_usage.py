"""Check that topology usage in columns equals the sum over pods."""

from __future__ import annotations

import numpy as np
from kueue_objects import build_node

from kschedctl.api.objects import ObjectMeta
from kschedctl.api.queueing import ResourceFlavor, Topology, TopologyLevel, TopologySpec
from kschedctl.cluster import Cluster
from kschedctl.kueue.topology.snapshot import TopologySnapshot
from kschedctl.kueue.topology.tree import HOSTNAME, PodsOutside, TopologyTree, build_topology_tree
from kschedctl.kueue.workloads import DomainRequests

_TOPOLOGY = Topology(ObjectMeta("t"), TopologySpec((TopologyLevel(HOSTNAME),)))


def _build_cluster(*pods: dict[str, object]) -> Cluster:
    """Build two ready nodes with 4 GPUs each, and pods."""
    nodes = [build_node(name, 4) for name in ("a", "b")]
    for node in nodes:
        node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]  # type: ignore[index]
    return Cluster.from_objects([*nodes, *pods])


def _build_tree(cluster: Cluster) -> TopologyTree:
    """Build the tree with the nodes as its only level."""
    return build_topology_tree(ResourceFlavor(ObjectMeta("f")), _TOPOLOGY, cluster.nodes, ("pods",))


def _build_pod(name: str, node: str, gpus: str, phase: str = "Running", **labels: str) -> dict[str, object]:
    """Build a pod on a node."""
    container = {"name": "c", "resources": {"requests": {"nvidia.com/gpu": gpus}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ai", "uid": name, "labels": labels},
        "spec": {"nodeName": node, "containers": [container]} if node else {"containers": [container]},
        "status": {"phase": phase},
    }


def _get_gpus(tree: TopologyTree, amounts: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> list[int]:
    """Return the amounts of GPUs on both nodes."""
    gpus: list[int] = amounts[tree.resources.index("nvidia.com/gpu")].tolist()
    return gpus


def test_running_pods_outside_kueue_take_room() -> None:
    cluster = _build_cluster(
        _build_pod("one", "a", "1"),
        _build_pod("two", "a", "2"),
        _build_pod("ended", "a", "1", phase="Succeeded"),
        _build_pod("placed", "b", "1", **{"kueue.x-k8s.io/tas": "true"}),
        _build_pod("unbound", "", "1", phase="Pending"),
        _build_pod("elsewhere", "gone", "1"),
    )
    tree = _build_tree(cluster)
    assert _get_gpus(tree, PodsOutside(cluster.pods).compute_free_capacity(tree)) == [1, 4]
    assert _get_gpus(tree, tree.capacity) == [4, 4]


def test_absurd_requests_end_at_the_limits_of_int64() -> None:
    pods = (_build_pod(f"p{number}", "a", str(2**62)) for number in range(4))
    cluster = _build_cluster(*pods)
    tree = _build_tree(cluster)
    assert _get_gpus(tree, PodsOutside(cluster.pods).compute_free_capacity(tree)) == [-(2**63), 4]


def test_usage_is_added_and_removed_again() -> None:
    cluster = _build_cluster()
    tree = _build_tree(cluster)
    snapshot = TopologySnapshot(tree, tree.capacity, (), frozenset())
    two_of_three = [DomainRequests(("a",), {"nvidia.com/gpu": 1}, 2), DomainRequests(("gone",), {"cpu": 1}, 1)]
    twice = [DomainRequests(("a",), {"nvidia.com/gpu": 1}, 1), DomainRequests(("a",), {"nvidia.com/gpu": 1}, 1)]
    three_more = [DomainRequests(("a",), {"nvidia.com/gpu": 1}, 3)]
    assert snapshot.has_room_for(three_more)
    snapshot.change_usage(two_of_three, 1)
    assert not snapshot.has_room_for(three_more)
    snapshot.change_usage(twice, 1)
    assert not snapshot.has_room_for([DomainRequests(("a",), {"nvidia.com/gpu": 1}, 1)])
    snapshot.change_usage(two_of_three, -1)
    snapshot.change_usage(twice, -1)
    assert snapshot.has_room_for(three_more)


def test_huge_usage_stays_within_int64() -> None:
    cluster = _build_cluster()
    tree = _build_tree(cluster)
    snapshot = TopologySnapshot(tree, tree.capacity, (), frozenset())
    small, huge = [DomainRequests(("a",), {"nvidia.com/gpu": 1}, 1)], [DomainRequests(("b",), {"cpu": 2**62}, 4)]
    snapshot.change_usage(small, 1)
    snapshot.change_usage(huge, 1)
    snapshot.change_usage(huge, 1)
    assert not snapshot.has_room_for([DomainRequests(("b",), {"cpu": 1}, 1)])
    snapshot.change_usage(small, -1)
    assert snapshot.has_room_for([DomainRequests(("a",), {"nvidia.com/gpu": 1}, 4)])
