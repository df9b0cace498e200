"""Check the limit on a search for devices: upstream's steps are counted by hand or in a naive loop.

Upstream: allocateOne in structured/internal/incubating/allocator_incubating.go, Filter in
plugins/dynamicresources/dynamicresources.go (v1.34 to v1.36).
"""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import pytest

import kschedctl
from kschedctl.api.kube_version import KubeVersion
from kschedctl.scheduler.plugins.dynamic_resources import step_limit
from kschedctl.scheduler.plugins.dynamic_resources.step_limit import SearchTimeoutError, StepLimit
from kschedctl.scheduler.plugins.helper.device_features import Features

Json = dict[str, Any]
REFUSED, TIMED_OUT = "cannot allocate all claims", "timed out trying to allocate devices"


def build_cluster(devices: int, wanted: int, alike: bool = False, **spec: Any) -> list[Json]:
    found = [{"name": f"d{i}", "attributes": {"i": {"int": 0 if alike else i}}} for i in range(devices)]
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    request = {"name": "r", "exactly": {"deviceClassName": "c", "count": wanted}}
    pod = {"containers": [{"name": "c"}], "resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}
    return [
        {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1", "pods": "9"}}},
        {"kind": "DeviceClass", "metadata": {"name": "c"}, "spec": {}},
        {
            "kind": "ResourceSlice",
            "metadata": {"name": "s"},
            "spec": {"driver": "d.io", "nodeName": "n", "pool": pool, "devices": found},
        },
        {
            "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "d"},
            "spec": {"devices": {"requests": [request], **spec}},
        },
        {"kind": "Pod", "metadata": {"name": "p", "namespace": "d", "uid": "p"}, "spec": pod},
    ]


def explain_rejection(objects: list[Json], version: str = "1.36", **settings: Any) -> tuple[str, str]:
    """Return the verdict, and why DynamicResources rejects the node."""
    cluster = kschedctl.Cluster.from_objects(objects, kube_version=version, **settings)
    found = kschedctl.explain(cluster, "d/p").to_dict()
    reasons = found["filter"].get("n", {}).get("DynamicResources", {}).get("reasons", ())
    return found["verdict"], "".join(reasons)


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize(("devices", "want"), [(18, ("Unschedulable", REFUSED)), (23, ("Unschedulable", REFUSED))])
def test_request_for_more_devices_than_exist_is_rejected(devices: int, want: tuple[str, str], alike: bool) -> None:
    assert explain_rejection(build_cluster(devices, devices + 1, alike)) == want


def test_search_with_24_devices_times_out() -> None:
    """Upstream cannot try 2**24 sets within ten seconds.

    It tries all sets of 23 devices, and also of 24 devices if the gate is off.
    """
    assert explain_rejection(build_cluster(24, 25)) == ("Error", f"node n: {TIMED_OUT}")
    assert explain_rejection(build_cluster(24, 25), feature_gates={"DRASchedulerFilterTimeout": False}) == (
        "Unschedulable",
        REFUSED,
    )


def test_filter_timeout_of_the_configuration() -> None:
    def within(seconds: int) -> tuple[str, str]:
        args = {"name": "DynamicResources", "args": {"filterTimeout": f"{seconds}s"}}
        kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        return explain_rejection(build_cluster(22, 23), config={**kind, "profiles": [{"pluginConfig": [args]}]})

    assert within(1) == ("Error", f"node n: {TIMED_OUT}")
    assert within(0) == within(5) == ("Unschedulable", REFUSED)


@pytest.mark.parametrize(
    ("version", "devices", "want"),
    [
        ("1.35", 10, REFUSED),  # e * 10! = 9,864,101 sequences
        ("1.35", 11, TIMED_OUT),  # 108,505,112
        ("1.34", 11, TIMED_OUT),
        ("1.33", 11, REFUSED),  # it knows no timeout
    ],
)
def test_older_versions_try_devices_in_every_order(version: str, devices: int, want: str) -> None:
    gates = {"DynamicResourceAllocation": True} if version == "1.33" else {}
    assert explain_rejection(build_cluster(devices, devices + 1), version, feature_gates=gates) == (
        "Unschedulable",
        want,
    )


def test_stable_allocator_tries_devices_in_every_order_in_1_36() -> None:
    """Without these feature gates, kube-scheduler uses its stable allocator."""
    gates = {"DRAConsumableCapacity": False, "DRADeviceBindingConditions": False}
    assert explain_rejection(build_cluster(10, 11), feature_gates=gates) == ("Unschedulable", REFUSED)
    assert explain_rejection(build_cluster(11, 12), feature_gates=gates) == ("Error", f"node n: {TIMED_OUT}")


@pytest.mark.parametrize("devices", range(7))
def test_count_of_device_sequences(devices: int) -> None:
    """allocateOne is called once for each set of devices, or for each order of each set, including the empty set."""
    for version, ways in (("1.36", combinations), ("1.35", permutations)):
        limit = StepLimit(10, Features(release=KubeVersion.parse_supported(version)))
        assert limit.can_skip_search(devices, all_tried=True)
        assert limit.in_vain == sum(1 for size in range(devices + 1) for _ in ways(range(devices), size))


def test_search_with_a_constraint_counts_no_sequences() -> None:
    """A constraint may end upstream's search before all sets are tried, so nothing is added to the count."""
    limit = StepLimit(10, Features())
    assert limit.can_skip_search(23, all_tried=False)
    assert not limit.can_skip_search(24, all_tried=False)
    assert limit.in_vain == 0


def test_result_is_undecided_if_our_own_step_limit_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_limit, "MAX_STEPS", 100)
    limit = StepLimit(0, Features())
    for _ in range(100):
        limit.count_step()
    with pytest.raises(SearchTimeoutError) as caught:
        limit.count_step()
    assert not caught.value.upstream
    cluster = kschedctl.Cluster.from_objects(build_cluster(26, 27, constraints=[{"distinctAttribute": "d.io/i"}]))
    found = kschedctl.explain(cluster, "d/p").to_dict()
    assert (found["verdict"], found["undecided"]) == ("Error", True)
    assert [each["kind"] for each in found["unknown"]] == ["Device"]


def test_slice_with_two_node_selector_terms_cannot_be_allocated() -> None:
    """Upstream needs a single term for the claim's node selector, and fails only after it has found the devices."""
    objects = build_cluster(1, 1)
    of_slice = objects[2]["spec"]
    del of_slice["nodeName"]
    everywhere = {"matchExpressions": [{"key": "no-such-label", "operator": "DoesNotExist"}]}
    of_slice["nodeSelector"] = {"nodeSelectorTerms": [everywhere]}
    assert explain_rejection(objects) == ("Schedulable", "")
    of_slice["nodeSelector"] = {"nodeSelectorTerms": [everywhere, everywhere]}
    what = "create NodeSelector for claim c: unsupported ResourceSlice.NodeSelector with 2 terms"
    assert explain_rejection(objects) == ("Error", what)
    objects[3]["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2
    assert explain_rejection(objects) == ("Unschedulable", REFUSED)
