"""Check requests beyond int64: quantities may be numbers of any size."""

from __future__ import annotations

from small import build_node, build_pod

import kschedctl
from kschedctl.scheduler.scheduler import Scheduler


def test_large_requests_distinguish_pods() -> None:
    """The requests are 10**30 and 10**31 bytes, which wrap to int64 as in Go."""
    pods = [build_pod(name) for name in "abc"]
    for each, memory in zip(pods, (10**30, 10**30, 10**31), strict=True):
        each["spec"]["containers"][0]["resources"] = {"requests": {"memory": memory}}
    view = Scheduler(kschedctl.Cluster.from_objects([build_node("n1"), *pods])).view
    assert view.pods.info.tolist() == [0, 0, 1]
    assert view.requests[:, view.resources["memory"]].tolist() == [wrap_to_int64(10**30), wrap_to_int64(10**31)]


def wrap_to_int64(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63
