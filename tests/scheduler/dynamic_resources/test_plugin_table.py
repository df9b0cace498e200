"""DynamicResources against upstream's own table (plugins/dynamicresources; v1.36)."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import numpy as np
from msgspec.structs import replace
from plugin_cases import (
    build_snapshot,
    compute_scores,
    find_pod_info,
    is_gate_enabled,
    parametrize_cases,
    run_filter,
    run_pre_filter,
    show_status,
)

from kschedctl.api.objects import AllocationResult, ResourceClaim, ResourceClaimStatus
from kschedctl.api.pod_requests import Options
from kschedctl.scheduler.engine.cycle import FilterOutcome, PreFilterOutcome
from kschedctl.scheduler.framework import PluginVerdict, Status
from kschedctl.scheduler.framework.strict_decoding import GoDuration
from kschedctl.scheduler.plugins.dynamic_resources.evaluation import score_alternatives
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources, DynamicResourcesArgs
from kschedctl.scheduler.plugins.helper.device_features import DEFAULT_FEATURES, Features
from kschedctl.snapshot.delta import NO_CHANGE
from kschedctl.snapshot.snapshot import Settings

LEFT_OUT = {
    "DRA-disabled": "without DynamicResourceAllocation no profile has the plugin",
    "exhausted-resources-in-flight-claim": "allocations that are not written yet are in no snapshot",
    "other-resources-in-flight-claim": "the same",
    "timeout": "upstream's clock is stopped there",
    "prebind-fail-with-binding-timeout": "the devices were allocated just before the table ran",
}
GATES = {
    "admin_access": "DRAAdminAccess",
    "prioritized_list": "DRAPrioritizedList",
    "partitionable_devices": "DRAPartitionableDevices",
    "device_taints": "DRADeviceTaints",
    "consumable_capacity": "DRAConsumableCapacity",
    "extended_resource": "DRAExtendedResource",
    "node_allocatable": "DRANodeAllocatableResources",
    "workload_claims": "DRAWorkloadResourceClaims",
}


@parametrize_cases("dynamicresources", "dra", left_out=LEFT_OUT)
def test_plugin(case):
    pod_level = is_gate_enabled(case, "PodLevelResources", default=False)
    view = build_snapshot(case, Settings(Options(pod_level=pod_level)))
    plugin, info, want = build_plugin(case), find_pod_info(case, view), case["want"]
    assert show_status(plugin.pre_enqueue(info, view)) == want["preenqueue"]
    if "prefilter" not in want:
        return
    status, state = run_pre_filter(plugin, info, view)
    assert status == want["prefilter"]
    found = run_filter(plugin, info, view, state) if "filter" in want and status["code"] == "Success" else {}
    assert {node: found.get(node, {"code": "Success", "reasons": []}) for node in want.get("filter", {})} == want.get(
        "filter", {}
    )
    if "scores" in want:
        found = compute_scores(plugin, info, view, want["scores"])
        assert {part: found[part] for part in ("rawScores", "scores")} == {p: want[p] for p in ("rawScores", "scores")}
    if "postfilter" in want:
        assert show_status(plugin.post_filter(finish_cycle(plugin, info, view)).status) == want["postfilter"]


@parametrize_cases("dynamicresources", "computescore", left_out=["more-claims-than-allocations"])  # cannot happen here
def test_score(case):
    claims = [msgspec.convert(document, ResourceClaim) for document in case["objects"]]
    results = iter(case.get("allocationResults") or ())
    allocated = [
        claim if claim.status.allocation else replace(claim, status=ResourceClaimStatus(convert_result(next(results))))
        for claim in claims
    ]
    assert sum(map(score_alternatives, allocated)) == case["want"]["score"]


def convert_result(document):
    return msgspec.convert(document, AllocationResult)


@parametrize_cases("dynamicresources", "normalizescore")
def test_normalize(case):
    raw = {entry["node"]: entry["score"] for entry in case.get("rawScores", ())}
    plugin = DynamicResources(DynamicResourcesArgs(), DEFAULT_FEATURES)
    normalized = plugin.normalize(None, np.array(list(raw.values()), np.int64)).tolist()
    assert dict(zip(raw, normalized, strict=True)) == case["want"].get("scores", {})


def build_plugin(case):
    binding = is_gate_enabled(case, "DRADeviceBindingConditions", False) and is_gate_enabled(
        case, "DRAResourceClaimDeviceStatus", False
    )
    features = Features(
        binding_conditions=binding, **{name: is_gate_enabled(case, g, False) for name, g in GATES.items()}
    )
    given = case.get("args", {}).get("bindingTimeout")
    timeout = GoDuration.parse(given) if given else GoDuration(600)
    return DynamicResources(DynamicResourcesArgs(binding_timeout=timeout), features)


def finish_cycle(plugin, info, view):
    """Run a cycle with this plugin only."""
    result = plugin.pre_filter(info, view)
    status = result.status if result.status.rejected else Status()
    outcome = PreFilterOutcome({plugin.name: result}, status, plugin.name, reached=(plugin.name,))
    everywhere = np.ones(len(view.nodes), np.bool_)
    verdicts = {}
    if result.state is not None:
        rejections = plugin.filter(info, view, result.state, NO_CHANGE)
        verdicts[plugin.name] = PluginVerdict.from_rejections(rejections, len(view.nodes))
    first = np.where(everywhere, 0, -1)
    found = FilterOutcome(tuple(verdicts), verdicts, {}, first, ~everywhere)
    return SimpleNamespace(pre_filter=outcome, filter=found, considered=everywhere, info=info, view=view)
