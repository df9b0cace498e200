"""Check which nodes are sampled for successive pods, beyond the golden cases."""

from __future__ import annotations

from typing import Any

import kschedctl

Json = dict[str, Any]


def build_pod(name: str, *, labels: Json | None = None, **spec: Any) -> Json:
    metadata = {"name": name, "namespace": "d", "uid": name, **(labels or {})}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "c"}], **spec}}


def test_pods_that_are_not_tried_do_not_advance_the_index() -> None:
    """PreEnqueue keeps gated pods out of the queue, and ScheduleOne skips terminating pods.

    Neither searches for nodes.
    """
    node: Json = {"kind": "Node", "status": {"allocatable": {"pods": "9"}}}
    nodes = [{**node, "metadata": {"name": f"n{number:03}"}} for number in range(150)]
    idle = [
        build_pod("gated", schedulingGates=[{"name": "wait"}]),
        build_pod("other", schedulerName="mine"),
        build_pod("leaving", labels={"deletionTimestamp": "2024-01-01T00:00:00Z"}),
        build_pod("placed", nodeName="n007"),
    ]
    names = ["first", "gated", "other", "leaving", "placed", "last"]
    cluster = kschedctl.Cluster.from_objects([*nodes, *idle, build_pod("first"), build_pod("last")])
    steps = kschedctl.sampling(cluster, [f"d/{name}" for name in names]).steps
    assert [(step.start, step.next) for step in steps] == [(0, 100), *[(100, 100)] * 4, (100, 50)]
    assert [bool(step.unscheduled) for step in steps] == [False, True, True, True, True, False]
