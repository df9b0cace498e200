"""NodeResourcesFit, NodeResourcesBalancedAllocation and their arithmetic against upstream's tables (v1.36).

Upstream: pkg/scheduler/framework/plugins/noderesources and plugins/helper/shape_score.go.
"""

from __future__ import annotations

import numpy as np
from plugin_cases import answer, cases, gate, pod_info, scores, snapshot, typed_args

from kschedctl.api.pod_requests import Options
from kschedctl.scheduler.feature_gates import FeatureGates
from kschedctl.scheduler.plugin_args import (
    DEFAULT_RESOURCES,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
)
from kschedctl.scheduler.plugin_args_validation import args_errors
from kschedctl.scheduler.registry import PLUGINS
from kschedctl.scheduler.resource_allocation import Usage, broken_linear, pod_amounts
from kschedctl.snapshot.snapshot import Settings

DEVICES = [
    "include DRA resource on a node for balanced resource allocation",
    "include DRA resource on a node for balanced resource allocation if PreScore not called",
    "extended resource backed by DRA",
    "extended resource was backed by Device Plugin (Allocatable: 0)",
    "test case for ScoringStrategy LeastAllocated with Extended resources",
    "test case for ScoringStrategy LeastAllocated with Extended resources if PreScore is not called",
]
"""Extended resources that a DeviceClass stands for."""
SIDECARS_OFF = ["not allow pod with restartable init containers if sidecar containers is disabled"]
"""A gate that is locked on in v1.36."""
ZERO_WEIGHT = ["resource with zero weight"]
"""In a document a weight of 0 is an absent one."""


def gates(case):
    return FeatureGates(overrides={"DRAExtendedResource": gate(case, "DRAExtendedResource")})


def fit(case):
    return PLUGINS["NodeResourcesFit"](typed_args(case, NodeResourcesFitArgs), gates(case))


def plugin(case):
    if "BalancedAllocation" not in case["test"]:
        return fit(case)
    args = typed_args(case, NodeResourcesBalancedAllocationArgs)
    return PLUGINS["NodeResourcesBalancedAllocation"](args, gates(case))


def options(case):
    return Options(dra_node_allocatable=gate(case, "DRANodeAllocatableResources", False))


@cases("noderesources", "filter", left_out=DEVICES + SIDECARS_OFF)
def test_filter(case):
    view, want = snapshot(case), case["want"]
    found = answer(fit(case), pod_info(case, view), view)
    assert found == {part: want[part] for part in want if part != "insufficientResources"}


@cases("noderesources", "isfit", left_out=["nil node"])
def test_fits(case):
    view = snapshot(case)
    (status,) = answer(fit(case), pod_info(case, view), view)["filter"].values()
    assert (status["code"] == "Success") == case["want"]["fits"]


@cases("noderesources", "score", left_out=DEVICES + ZERO_WEIGHT)
def test_score(case):
    want = case["want"]
    if "argsError" in want:
        assert any(error.endswith(want["argsError"]) for error in args_errors(fit(case).args, gates(case)))
        return
    view = snapshot(case)
    found = scores(plugin(case), pod_info(case, view), view)
    compared = want.keys() & {"prescore", "scores"}
    assert {part: found.get(part) for part in compared} == {part: want[part] for part in compared}


@cases("noderesources", "score", left_out=DEVICES)
def test_score_without_pre_score(case):
    """A profile may score with the plugins and not run their PreScore."""
    if "scores" not in case["want"]:
        return
    view = snapshot(case)
    found = plugin(case).score(pod_info(case, view), view, None, np.arange(len(view.nodes)))
    assert dict(zip(view.nodes.names, found.tolist(), strict=True)) == case["want"]["scores"]


@cases("noderesources", "podrequests-nonzero")
def test_amounts_to_score_with(case):
    view = snapshot(case)
    info = pod_info(case, view)
    found = pod_amounts(info, DEFAULT_RESOURCES, info.options, nonzero=True)
    assert dict(zip(("cpu", "memory"), found, strict=True)) == case["want"]["requests"]


@cases("noderesources", "podrequests")
def test_requests(case):
    view, want = snapshot(case, Settings(requests=options(case))), case["want"]["resource"]
    requests = pod_info(case, view).requests
    assert (requests["cpu"], requests["memory"]) == (want["milliCPU"], want["memory"])


@cases("noderesources", "allocatable-requested")
def test_usage_of_a_node(case):
    if case["name"].startswith("DRA-backed") and case["want"] != {"allocatable": 0, "requested": 0}:
        return  # devices
    view = snapshot(case)
    column = Usage(view, view.requested, view.requests).of(case["resource"])
    assert {"allocatable": column.allocatable[0], "requested": column.used[0]} == case["want"]


@cases("noderesources", "brokenlinear")
def test_broken_linear(case):
    points = [(point["utilization"], point["score"]) for point in case["points"]]
    at = np.array([value["p"] for value in case["want"]["values"]], np.int64)
    assert broken_linear(points, at).tolist() == [value["value"] for value in case["want"]["values"]]
