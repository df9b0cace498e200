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


def cluster_of(devices: int, wanted: int, alike: bool = False, **spec: Any) -> list[Json]:
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
def test_more_devices_than_there_are_are_refused(devices: int, want: tuple[str, str], alike: bool) -> None:
    assert explain_rejection(cluster_of(devices, devices + 1, alike)) == want


def test_sets_of_24_devices_are_too_many_to_try() -> None:
    """2**24 sets are more than ten seconds hold; of one device less, or while the gate is off, they are all tried."""
    assert explain_rejection(cluster_of(24, 25)) == ("Error", f"node n: {TIMED_OUT}")
    assert explain_rejection(cluster_of(24, 25), feature_gates={"DRASchedulerFilterTimeout": False}) == (
        "Unschedulable",
        REFUSED,
    )


def test_the_configuration_says_how_long() -> None:
    def within(seconds: int) -> tuple[str, str]:
        args = {"name": "DynamicResources", "args": {"filterTimeout": f"{seconds}s"}}
        kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        return explain_rejection(cluster_of(22, 23), config={**kind, "profiles": [{"pluginConfig": [args]}]})

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
def test_older_versions_try_any_order(version: str, devices: int, want: str) -> None:
    gates = {"DynamicResourceAllocation": True} if version == "1.33" else {}
    assert explain_rejection(cluster_of(devices, devices + 1), version, feature_gates=gates) == ("Unschedulable", want)


def test_the_older_allocator_tries_any_order_in_1_36_too() -> None:
    """Without these features kube-scheduler takes its stable one."""
    gates = {"DRAConsumableCapacity": False, "DRADeviceBindingConditions": False}
    assert explain_rejection(cluster_of(10, 11), feature_gates=gates) == ("Unschedulable", REFUSED)
    assert explain_rejection(cluster_of(11, 12), feature_gates=gates) == ("Error", f"node n: {TIMED_OUT}")


@pytest.mark.parametrize("devices", range(7))
def test_sequences_are_counted_as_they_are_tried(devices: int) -> None:
    """One for each set, or each order of each set, the empty one included: that many times allocateOne is called."""
    for version, ways in (("1.36", combinations), ("1.35", permutations)):
        limit = StepLimit(10, Features(release=KubeVersion.parse_supported(version)))
        assert limit.can_skip_search(devices, all_tried=True)
        assert limit.in_vain == sum(1 for size in range(devices + 1) for _ in ways(range(devices), size))


def test_a_constraint_may_end_the_search_sooner() -> None:
    """Upstream does not try all sets then, so that nothing is counted, and many devices are tried to see."""
    limit = StepLimit(10, Features())
    assert limit.can_skip_search(23, all_tried=False)
    assert not limit.can_skip_search(24, all_tried=False)
    assert limit.in_vain == 0


def test_what_is_not_decided_here_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_limit, "MAX_STEPS", 100)
    limit = StepLimit(0, Features())
    for _ in range(100):
        limit.count_step()
    with pytest.raises(SearchTimeoutError) as caught:
        limit.count_step()
    assert not caught.value.upstream
    cluster = kschedctl.Cluster.from_objects(cluster_of(26, 27, constraints=[{"distinctAttribute": "d.io/i"}]))
    found = kschedctl.explain(cluster, "d/p").to_dict()
    assert (found["verdict"], found["undecided"]) == ("Error", True)
    assert [each["kind"] for each in found["unknown"]] == ["Device"]


def test_a_slice_for_nodes_of_two_kinds_cannot_be_allocated_from() -> None:
    """Upstream wants a single term to write it into the claim, and finds out when it has found the devices."""
    objects = cluster_of(1, 1)
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
