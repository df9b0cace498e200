"""Check how a fix names the nodes on which the pod then fits."""

from __future__ import annotations

from typing import Any

import pytest

from kschedctl.reports.remedy import Remedy


def create_node(name: str) -> dict[str, Any]:
    return {"create": {"kind": "Node", "metadata": {"name": name}}}


@pytest.mark.parametrize(
    ("opens", "added", "destination"),
    [
        (("w1",), (), "w1"),
        (("w1", "w2"), (), "w1 and w2"),
        (("w1", "w2", "w3", "w4"), (), "4 nodes, such as w1, w2 and w3"),
        (("w1-more-0",), ("w1-more-0",), "the new node"),
        (("w1-more-0", "w1-more-1"), ("w1-more-0", "w1-more-1"), "one of the 2 new nodes"),
        (("w1-more-1",), ("w1-more-0", "w1-more-1"), "one of the 2 new nodes"),
        (("w7", "w1-more-0"), ("w1-more-0",), "w7 or the new node"),
    ],
)
def test_added_nodes_are_counted_and_not_named(
    opens: tuple[str, ...], added: tuple[str, ...], destination: str
) -> None:
    remedy = Remedy("Add nodes", "operator", None, opens, (), tuple(map(create_node, added)))
    assert remedy.destination == destination
