"""Quantities at and beyond the end of int64, where kube-scheduler's arithmetic wraps."""

from __future__ import annotations

import pytest
from command_line import Run, Write, build_node, build_pod

INT64_MAX = "9223372036854775807"


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_make_room_for_the_largest_int64(run: Run, write: Write) -> None:
    """As a float, the shortage would be 2**63, which does not fit an int64."""
    device = {"resources": {"requests": {"example.com/gpu": INT64_MAX}, "limits": {"example.com/gpu": INT64_MAX}}}
    large = build_pod("large", containers=[{"name": "c", "image": "web", **device}])
    small = build_pod(
        "small", containers=[{"name": "c", "image": "web", "resources": {"limits": {"example.com/gpu": "1"}}}]
    )
    small["spec"]["nodeName"] = "n1"
    with_device = build_node("n1")
    with_device["status"]["allocatable"]["example.com/gpu"] = "1"
    outcome = run(
        "make-room", "large", "-f", write(with_device, build_node("n2"), small, large), "--search-seconds", "1"
    )
    assert outcome.code == 1, outcome.err


def test_audit_of_a_node_whose_allocatable_amount_wraps(run: Run, write: Write) -> None:
    """In thousandths of a CPU, the amount wraps to -1000. A pod without a CPU request does not overcommit the node."""
    outcome = run("audit", "-f", write(build_node("n1", cpu=INT64_MAX), build_pod("idle", cpu="0", nodeName="n1")))
    assert outcome.code in (0, 1), outcome.err
