"""Check NodeResourcesFit, NodeResourcesBalancedAllocation and their arithmetic against upstream's tables (v1.36)."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from plugin_cases import (
    answer,
    build_plugin_args,
    build_snapshot,
    compute_scores,
    find_pod_info,
    is_gate_enabled,
    parametrize_cases,
)
from small_clusters import (
    UNRESOLVABLE,
    UNSCHEDULABLE,
    check_filter,
    check_scores,
    draw_clusters,
    draw_many,
    draw_some,
    get_name,
)

from kschedctl.api.pod_requests import Options
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.dynamic_resources.device_backed import DeviceBackedResources
from kschedctl.scheduler.plugins.helper.resource_allocation import (
    DEFAULT_RESOURCES,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    compute_node_usage,
    get_demanded_amounts,
    interpolate_scores,
    list_pod_amounts,
)
from kschedctl.scheduler.plugins.node_resources.balanced_allocation import (
    NodeResourcesBalancedAllocation,
    NodeResourcesBalancedAllocationArgs,
)
from kschedctl.scheduler.plugins.node_resources.fit import NodeResourcesFit, NodeResourcesFitArgs
from kschedctl.snapshot.snapshot import Settings

SIDECARS_OFF = ["not allow pod with restartable init containers if sidecar containers is disabled"]
"""A gate that is locked on in v1.36."""
ZERO_WEIGHT = ["resource with zero weight"]
"""Cases with a weight of 0, which a document cannot express because 0 means an absent weight."""


def build_gates(case):
    return FeatureGates(overrides={"DRAExtendedResource": is_gate_enabled(case, "DRAExtendedResource")})


def fit(case):
    return NodeResourcesFit.make(build_plugin_args(case, NodeResourcesFitArgs), build_gates(case))


def build_plugin(case):
    if "BalancedAllocation" not in case["test"]:
        return fit(case)
    args = build_plugin_args(case, NodeResourcesBalancedAllocationArgs)
    return NodeResourcesBalancedAllocation.make(args, build_gates(case))


def build_options(case):
    return Options(dra_node_allocatable=is_gate_enabled(case, "DRANodeAllocatableResources", False))


@parametrize_cases("noderesources", "filter", left_out=SIDECARS_OFF)
def test_filter(case):
    view, want = build_snapshot(case), case["want"]
    found = answer(fit(case), find_pod_info(case, view), view)
    assert found == {part: want[part] for part in want if part != "insufficientResources"}


@parametrize_cases("noderesources", "isfit", left_out=["nil node"])
def test_fits(case):
    view = build_snapshot(case)
    (status,) = answer(fit(case), find_pod_info(case, view), view)["filter"].values()
    assert (status["code"] == "Success") == case["want"]["fits"]


@parametrize_cases("noderesources", "score", left_out=ZERO_WEIGHT)
def test_score(case):
    want = case["want"]
    if "argsError" in want:
        assert any(error.endswith(want["argsError"]) for error in fit(case).args.validate(build_gates(case)))
        return
    view = build_snapshot(case)
    found = compute_scores(build_plugin(case), find_pod_info(case, view), view)
    compared = want.keys() & {"prescore", "scores"}
    assert {part: found.get(part) for part in compared} == {part: want[part] for part in compared}


@parametrize_cases("noderesources", "score")
def test_score_without_pre_score(case):
    """A profile may run the plugins' Score without their PreScore."""
    if "scores" not in case["want"]:
        return
    view = build_snapshot(case)
    found = build_plugin(case).score(find_pod_info(case, view), view, None, np.arange(len(view.nodes)))
    assert dict(zip(view.nodes.names, found.tolist(), strict=True)) == case["want"]["scores"]


@parametrize_cases("noderesources", "podrequests-nonzero")
def test_amounts_to_score_with(case):
    view = build_snapshot(case)
    info = find_pod_info(case, view)
    found = list_pod_amounts(info, DEFAULT_RESOURCES, info.options, nonzero=True)
    assert dict(zip(("cpu", "memory"), found, strict=True)) == case["want"]["requests"]


@parametrize_cases("noderesources", "podrequests")
def test_requests(case):
    view, want = build_snapshot(case, Settings(requests=build_options(case))), case["want"]["resource"]
    requests = find_pod_info(case, view).requests
    assert (requests["cpu"], requests["memory"]) == (want["milliCPU"], want["memory"])


@parametrize_cases("noderesources", "allocatable-requested")
def test_usage_of_a_node(case):
    view = build_snapshot(case)
    asked = get_demanded_amounts([ResourceSpec(case["resource"])], [1], view)
    devices = partial(DeviceBackedResources, view, fit(case).features)
    found = compute_node_usage(asked, view, view.requested, np.arange(1), devices)
    assert {"allocatable": found.allocatable[0, 0], "requested": found.used[0, 0]} == case["want"]


@parametrize_cases("noderesources", "brokenlinear")
def test_broken_linear(case):
    points = [(point["utilization"], point["score"]) for point in case["points"]]
    at = np.array([value["p"] for value in case["want"]["values"]], np.int64)
    assert interpolate_scores(points, at).tolist() == [value["value"] for value in case["want"]["values"]]


# -- random clusters ----------------------------------------------------------------------------------------------

GPU, IGNORED = "example.com/gpu", "example.com/ignored"
MIB = 1 << 20


def draw_container(random):
    requests = draw_some(
        random,
        cpu=f"{random.randint(0, 2000)}m",
        memory=f"{random.randint(0, 900)}Mi",
        **{"ephemeral-storage": str(random.randint(0, 3)), GPU: str(random.randint(0, 2)), IGNORED: "1"},
    )
    return {"resources": {"requests": requests}}


def draw_requesting_pod(random):
    return {"containers": draw_many(random, 2, draw_container), "initContainers": draw_many(random, 1, draw_container)}


def draw_offering_node(random):
    allocatable = draw_some(
        random,
        memory=f"{random.randint(0, 2000)}Mi",
        **{"ephemeral-storage": str(random.randint(0, 5)), GPU: str(random.randint(0, 4))},
    )
    allocatable |= {"pods": str(random.randint(1, 5)), "cpu": str(random.randint(1, 4))}
    return {"status": {"allocatable": allocatable}}


SCORED = (ResourceSpec("cpu", 2), ResourceSpec("memory", 3), ResourceSpec(GPU, 5), ResourceSpec("ephemeral-storage", 1))
POINTS = [(0, 10), (30, 0), (75, 7), (100, 0)]
SHAPE = RequestedToCapacityRatioParam(tuple(UtilizationShapePoint(*point) for point in POINTS))


def parse_amount(resource, text):
    """Parse an amount in millicores, bytes or pieces."""
    if text.endswith("m"):
        return int(text[:-1])
    number = int(text[:-2]) * MIB if text.endswith("Mi") else int(text)
    return number * 1000 if resource == "cpu" else number


def compute_request(pod, resource, default=0):
    """Return the request of the containers together or of the largest init container, or the default."""

    def of(container):
        requests = container["resources"]["requests"]
        return parse_amount(resource, requests[resource]) if resource in requests else default

    containers, init = pod["spec"]["containers"], pod["spec"]["initContainers"]
    return max([sum(map(of, containers)), *map(of, init)])


def get_allocatable(node, resource):
    return parse_amount(resource, node["status"]["allocatable"].get(resource, "0"))


def list_pods_on(node, pods):
    return [pod for pod in pods if pod["spec"]["nodeName"] == get_name(node)]


def build_fit_plugin(**strategy):
    args = NodeResourcesFitArgs((IGNORED,), (), ScoringStrategy(**strategy) if strategy else ScoringStrategy())
    return NodeResourcesFit.make(args, FeatureGates())


@given(draw_clusters(pending=draw_requesting_pod, running=draw_requesting_pod, node=draw_offering_node))
def test_naive_filter(cluster):
    check_filter(build_fit_plugin(), cluster, filter_naively)


@given(draw_clusters(pending=draw_requesting_pod, running=draw_requesting_pod, node=draw_offering_node, changing=True))
def test_naive_filter_under_changes(cluster):
    check_filter(build_fit_plugin(), cluster, filter_naively)


@pytest.mark.parametrize(("memory", "helps"), [(2**33, True), (2**63 + 5, False)], ids=["ordinary", "beyond int64"])
def test_evictions_can_only_help(memory, helps):
    nodes = [{"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "5", "memory": "1"}}}]
    spec = {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"memory": str(memory)}}}]}
    pods = [{"kind": "Pod", "metadata": {"name": "p", "namespace": "a"}, "spec": spec}]
    assert build_fit_plugin().can_evictions_only_help(build_snapshot({"nodes": nodes, "pods": pods})) is helps


def filter_naively(cluster, node, pods):
    here, reasons, hopeless = list_pods_on(node, pods), [], False
    if len(here) + 1 > get_allocatable(node, "pods"):
        reasons.append("Too many pods")
    for resource in ("cpu", "memory", "ephemeral-storage", GPU):
        request, capacity = compute_request(cluster.pending, resource), get_allocatable(node, resource)
        if request and request > capacity - sum(compute_request(pod, resource) for pod in here):
            reasons.append(f"Insufficient {resource}")
            hopeless |= request > capacity
    return (UNRESOLVABLE if hopeless else UNSCHEDULABLE, reasons) if reasons else None


def iter_usage_naively(cluster, node, nonzero):
    """Yield resources of interest with the amounts used with the pod, used without it, and offered."""
    defaults = {"cpu": 100, "memory": 200 * MIB} if nonzero else {}
    for spec in SCORED:
        request = compute_request(cluster.pending, spec.name, defaults.get(spec.name, 0))
        capacity = get_allocatable(node, spec.name)
        if capacity and not (spec.name == GPU and not request):
            used = sum(
                compute_request(pod, spec.name, defaults.get(spec.name, 0)) for pod in list_pods_on(node, cluster.pods)
            )
            yield spec, used + request, used, capacity


def score_least_allocated(used, capacity):
    return 0 if used > capacity else (capacity - used) * 100 // capacity


def score_most_allocated(used, capacity):
    return min(used, capacity) * 100 // capacity


def score_ratio(used, capacity):
    """Interpolate between two points in integers that are truncated towards zero."""
    percent = 100 if used > capacity else used * 100 // capacity
    points = [(x, 10 * y) for x, y in POINTS]
    for (x0, y0), (x1, y1) in pairwise(points):
        if percent <= x1:
            return y0 + math.trunc((y1 - y0) * (percent - x0) / (x1 - x0))
    return points[-1][1]


@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"])
@given(cluster=draw_clusters(pending=draw_requesting_pod, running=draw_requesting_pod, node=draw_offering_node))
def test_naive_scores(strategy, cluster):
    shape = SHAPE if strategy == "RequestedToCapacityRatio" else None
    check_scores(
        build_fit_plugin(type=strategy, resources=SCORED, requested_to_capacity_ratio=shape), cluster, NAIVE[strategy]
    )


def make_weighted_scorer(rate, ignore_zero, rounded):
    def scores_of(cluster):
        found = {}
        for node in cluster.nodes:
            rated = [
                (s.weight, rate(used, capacity)) for s, used, _, capacity in iter_usage_naively(cluster, node, True)
            ]
            rated = [(weight, score) for weight, score in rated if score or not ignore_zero]
            total, weights = sum(weight * score for weight, score in rated), sum(weight for weight, _ in rated)
            found[get_name(node)] = rounded(total / weights) if weights else 0
        chosen = {name: found[name] for name in cluster.feasible}
        return chosen, chosen

    return scores_of


NAIVE = {
    "LeastAllocated": make_weighted_scorer(score_least_allocated, False, math.floor),
    "MostAllocated": make_weighted_scorer(score_most_allocated, False, math.floor),
    "RequestedToCapacityRatio": make_weighted_scorer(score_ratio, True, lambda mean: math.floor(mean + 0.5)),
}


@given(draw_clusters(pending=draw_requesting_pod, running=draw_requesting_pod, node=draw_offering_node))
def test_naive_balance(cluster):
    args = NodeResourcesBalancedAllocationArgs(SCORED)
    check_scores(NodeResourcesBalancedAllocation.make(args, FeatureGates()), cluster, score_balance_naively)


def score_balance_naively(cluster):
    """Score 50 if the pod makes utilizations as uneven as possible, and 100 if it evens them out."""
    if not any(compute_request(cluster.pending, spec.name) for spec in SCORED):
        return None
    found = {}
    for node in cluster.nodes:
        usage = list(iter_usage_naively(cluster, node, False))
        after = compute_evenness([used / capacity for _, used, _, capacity in usage])
        before = compute_evenness([used / capacity for _, _, used, capacity in usage])
        found[get_name(node)] = 50 + (50 + after - before) // 2
    chosen = {name: found[name] for name in cluster.feasible}
    return chosen, chosen


def compute_evenness(fractions):
    fractions = [min(fraction, 1.0) for fraction in fractions]
    if len(fractions) < 2:
        return 100
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    else:
        mean = sum(fractions) / len(fractions)
        deviation = math.sqrt(sum((fraction - mean) * (fraction - mean) for fraction in fractions) / len(fractions))
    return int((1 - deviation) * 100)


def test_overcommitted_node_counts_as_full():
    """Three of two cores are requested and the pod adds one, which counts as 100 % before and after.

    Memory rises from half to all. By hand: after 1.0 and 1.0, no deviation, 100; before 1.0 and 0.5, a deviation of
    0.25, 75; 50 + (50 + 25) // 2.
    """

    def wanting(name, cpu, node_name=""):
        container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
        metadata = {"name": name, "namespace": "d"}
        return {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": node_name, "containers": [container]}}

    offered = {"cpu": "2", "memory": "2Gi", "pods": "9"}
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": offered}}
    view = build_snapshot({"nodes": [node], "pods": [wanting("there", "3", "n"), wanting("coming", "1")]})
    balanced = NodeResourcesBalancedAllocation.make(
        NodeResourcesBalancedAllocationArgs(DEFAULT_RESOURCES), FeatureGates()
    )
    coming = next(info for info in view.pods.infos if not info.spec.node_name)
    assert balanced.score(coming, view, None, np.array([0])).tolist() == [87]
