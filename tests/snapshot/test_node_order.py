"""Check the order of nodes against upstream's own table (backend/cache/node_tree; v1.36)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from plugin_cases import parametrize_cases

from kschedctl.api.objects import Node, ObjectMeta
from kschedctl.cluster import convert_document
from kschedctl.snapshot.nodes import BETA_ZONE, REGION, ZONE, get_region_and_zone, interleave_zones


def list_in_order(documents):
    nodes = [convert_document({"kind": "Node", **document}) for document in documents]
    return [node.metadata.name for node in interleave_zones(nodes)]


@parametrize_cases("nodetree", "nodeorder")
def test_upstream_orders(case):
    assert list_in_order(case.get("nodes", ())) == case["want"]["order"]


@parametrize_cases("nodetree", "nodeorder-ops")
def test_order_of_remaining_nodes(case):
    """Nodes that were added and removed leave no trace."""
    added, removed, left = iter(case["nodesToAdd"]), iter(case.get("nodesToRemove") or ()), []
    for operation in case["operations"]:
        if operation == "add":
            left.append(next(added))
        else:
            name = next(removed)["metadata"]["name"]
            left = [node for node in left if node["metadata"]["name"] != name]
    assert list_in_order(left) == case["want"]["order"]


def test_deprecated_labels_count_first():
    labels = {ZONE: "new", BETA_ZONE: "old", REGION: "r"}
    assert get_region_and_zone(Node(ObjectMeta("n", labels=labels))) == ("r", "old")


@given(st.lists(st.sampled_from(["", "a", "b", "c"])))
def test_round_robin(zones):
    """Each round takes the next node of every zone that still has one.

    Zones are in order of their first appearance.
    """
    nodes = [Node(ObjectMeta(str(i), labels={ZONE: zone} if zone else {})) for i, zone in enumerate(zones)]
    waiting = {zone: [i for i, other in enumerate(zones) if other == zone] for zone in dict.fromkeys(zones)}
    expected = []
    while any(waiting.values()):
        expected += [queue.pop(0) for queue in waiting.values() if queue]
    assert [int(node.metadata.name) for node in interleave_zones(nodes)] == expected
