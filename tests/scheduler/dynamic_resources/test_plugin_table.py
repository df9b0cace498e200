"""DynamicResources against upstream's own table (plugins/dynamicresources; v1.36)."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import numpy as np
from msgspec.structs import replace
from plugin_cases import cases, filtered, gate, pod_info, pre_filter, scores, shown, snapshot

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


@cases("dynamicresources", "dra", left_out=LEFT_OUT)
def test_plugin(case):
    pod_level = gate(case, "PodLevelResources", default=False)
    view = snapshot(case, Settings(Options(pod_level=pod_level)))
    plugin, info, want = plugin_of(case), pod_info(case, view), case["want"]
    assert shown(plugin.pre_enqueue(info, view)) == want["preenqueue"]
    if "prefilter" not in want:
        return
    status, state = pre_filter(plugin, info, view)
    assert status == want["prefilter"]
    found = filtered(plugin, info, view, state) if "filter" in want and status["code"] == "Success" else {}
    assert {node: found.get(node, {"code": "Success", "reasons": []}) for node in want.get("filter", {})} == want.get(
        "filter", {}
    )
    if "scores" in want:
        found = scores(plugin, info, view, want["scores"])
        assert {part: found[part] for part in ("rawScores", "scores")} == {p: want[p] for p in ("rawScores", "scores")}
    if "postfilter" in want:
        assert shown(plugin.post_filter(finished(plugin, info, view)).status) == want["postfilter"]


@cases("dynamicresources", "computescore", left_out=["more-claims-than-allocations"])  # cannot happen here
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


@cases("dynamicresources", "normalizescore")
def test_normalize(case):
    raw = {entry["node"]: entry["score"] for entry in case.get("rawScores", ())}
    plugin = DynamicResources(DynamicResourcesArgs(), DEFAULT_FEATURES)
    normalized = plugin.normalize(None, np.array(list(raw.values()), np.int64)).tolist()
    assert dict(zip(raw, normalized, strict=True)) == case["want"].get("scores", {})


def plugin_of(case):
    binding = gate(case, "DRADeviceBindingConditions", False) and gate(case, "DRAResourceClaimDeviceStatus", False)
    features = Features(binding_conditions=binding, **{name: gate(case, g, False) for name, g in GATES.items()})
    given = case.get("args", {}).get("bindingTimeout")
    timeout = GoDuration.parse(given) if given else GoDuration(600)
    return DynamicResources(DynamicResourcesArgs(binding_timeout=timeout), features)


def finished(plugin, info, view):
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
