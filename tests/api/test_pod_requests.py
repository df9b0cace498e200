"""Check pod requests against upstream's own tables (component-helpers/resource, scheduler/framework/types; v1.36)."""

from __future__ import annotations

import pytest
from plugin_cases import is_gate_enabled, parametrize_cases

from kschedctl.api.defaults import apply_pod_defaults
from kschedctl.api.kube_version import KubeVersion
from kschedctl.api.pod_requests import (
    COMPARED_REQUESTS,
    Options,
    aggregate_container_limits,
    aggregate_container_requests,
    compute_pod_requests,
    has_pod_level_requests,
)
from kschedctl.api.quantity import parse_quantity
from kschedctl.cluster import convert_document
from kschedctl.snapshot.pod_info import PodInfo

UNITS = {"milliCPU": "cpu", "memory": "memory", "ephemeralStorage": "ephemeral-storage"}


def build_options(case):
    given = case["options"]
    return Options(
        use_status=given["useStatusResources"],
        pod_level=not given["skipPodLevelResources"],
        pod_level_resize=given["inPlacePodLevelResourcesVerticalScalingEnabled"],
        overhead=not given["excludeOverhead"],
        dra_node_allocatable=given["useDRANodeAllocatableResourceClaimStatus"],
        non_missing={
            name: parse_quantity(text) for name, text in (given.get("nonMissingContainerRequests") or {}).items()
        },
    )


def parse_quantities(resources):
    return {name: parse_quantity(text) for name, text in (resources or {}).items()}


@parametrize_cases("podresources", "podrequests", "podrequests+limits")
def test_requests(case):
    assert compute_pod_requests(convert_document(case["pod"]), build_options(case)) == parse_quantities(
        case["want"]["requests"]
    )


@parametrize_cases("podresources", "aggregate-container-requests+limits")
def test_requests_and_limits_of_containers(case):
    pod, want = convert_document(case["pod"]), case["want"]
    assert aggregate_container_requests(pod, build_options(case)) == parse_quantities(want["requests"])
    if not case["options"]["useStatusResources"]:
        assert aggregate_container_limits(pod.spec.containers, pod.spec.init_containers) == parse_quantities(
            want["limits"]
        )


@parametrize_cases("podresources", "ispodlevelresourcesset")
def test_pod_level_resources_set(case):
    """Upstream also looks at limits, from which the API server has made requests here."""
    assert has_pod_level_requests(apply_pod_defaults(convert_document(case["pod"]))) == case["want"]["set"]


@parametrize_cases("podresources", "scheduler-podresource")
def test_amounts_of_resources(case):
    gates = Options(
        pod_level=is_gate_enabled(case, "PodLevelResources"),
        pod_level_resize=is_gate_enabled(case, "InPlacePodLevelResourcesVerticalScaling"),
        dra_node_allocatable=is_gate_enabled(case, "DRANodeAllocatableResources", False),
    )
    info, want = PodInfo(convert_document(case["pod"]), gates), case["want"]
    amounts = {UNITS[unit]: amount for unit, amount in want["resource"].items() if unit in UNITS}
    amounts |= want["resource"]["scalar"] or {}
    assert {name: info.requests.get(name, 0) for name in amounts} == amounts
    assert set(info.requests) <= set(amounts)
    assert info.nonzero_requests.get("cpu", 0) == want["non0CPU"]
    assert info.nonzero_requests.get("memory", 0) == want["non0Mem"]


@pytest.mark.parametrize(
    ("containers", "infeasible", "want"),
    [
        pytest.param([("4", "", "2")], True, "2", id="resized, infeasible"),
        pytest.param([("6", "4", "2")], True, "4", id="resized, infeasible & in-progress"),
        pytest.param([("4", "", "2")], False, "4", id="resized, no resize status"),
        pytest.param(
            [("1", "2", ""), ("2", "1", "")],
            False,
            "3",
            id="aggregate request resolves max of sums instead of sum of maxes",
        ),
    ],
)
def test_requests_since_1_37(containers, infeasible, want):
    """The names are those of upstream's own table (TestPodResourceRequests, v1.37.0-beta.0).

    Each container has its requested, allocated and actual CPU.
    """
    specs = [{"name": str(i), "resources": {"requests": {"cpu": cpu}}} for i, (cpu, _, _) in enumerate(containers)]
    statuses = [
        {
            "name": str(i),
            "allocatedResources": build_cpu_amounts(promised),
            "resources": {"requests": build_cpu_amounts(actual)},
        }
        for i, (_, promised, actual) in enumerate(containers)
    ]
    conditions = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}] if infeasible else []
    status = {"containerStatuses": statuses, "conditions": conditions}
    pod = convert_document({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": specs}, "status": status})
    assert compute_pod_requests(pod, Options(compared_requests=COMPARED_REQUESTS.at(KubeVersion(37)))) == {
        "cpu": parse_quantity(want)
    }
    assert compute_pod_requests(pod, Options()) == {"cpu": parse_quantity("4" if len(containers) > 1 else want)}


def build_cpu_amounts(amount):
    return {"cpu": amount} if amount else {}
