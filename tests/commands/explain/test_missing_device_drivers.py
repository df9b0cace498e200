"""Check the advice on a DRA driver that publishes no devices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import kschedctl
from kschedctl.cluster import Gap

Json = dict[str, Any]


def build_cluster(*expressions: str, drivers: tuple[str, ...] = ()) -> kschedctl.Cluster:
    """Build a cluster with a pod that asks for one device, and with one ResourceSlice for each of these drivers."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    objects: list[Json] = [
        {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "10"}}},
        {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"selectors": selectors}},
        {
            "kind": "ResourceClaim",
            "metadata": {"name": "gpu", "namespace": "d"},
            "spec": {"devices": {"requests": [request]}},
        },
        {
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "d"},
            "spec": {"containers": [{"name": "c", "image": "c"}], "resourceClaims": claims},
        },
    ]
    for driver in drivers:
        pool = {"name": driver, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "nodeName": "n2", "pool": pool, "devices": [{"name": "a"}]}
        objects.append({"kind": "ResourceSlice", "metadata": {"name": driver}, "spec": spec})
    return kschedctl.Cluster.from_objects(objects)


def get_first_advice(cluster: kschedctl.Cluster) -> str:
    advice = kschedctl.explain(cluster, "d/p").advice
    return advice[0].text if advice else ""


NAMED = "No node publishes devices of driver gpu.example.com (DeviceClass gpu): check its DaemonSet"
UNNAMED = "No node publishes devices (DeviceClass gpu): check the DaemonSet of its driver"


@pytest.mark.parametrize(
    ("expressions", "drivers", "text"),
    [
        (['device.driver == "gpu.example.com"'], (), NAMED),
        (["device.driver == 'gpu.example.com' && device.attributes['x'].y == 'z'"], ("nic.example.com",), NAMED),
        (["'model' in device.attributes['gpu.example.com']"], (), UNNAMED),
        ([], (), UNNAMED),
    ],
)
def test_driver_without_published_devices_is_named_first(
    expressions: list[str], drivers: tuple[str, ...], text: str
) -> None:
    assert get_first_advice(build_cluster(*expressions, drivers=drivers)) == text


@pytest.mark.parametrize(
    "expression",
    ['device.driver == "gpu.example.com"', 'device.driver == "a" || device.driver == "gpu.example.com"'],
)
def test_driver_with_devices_on_other_nodes_is_not_blamed(expression: str) -> None:
    cluster = build_cluster(expression, drivers=("gpu.example.com",))
    assert not get_first_advice(cluster).startswith("No node publishes")


def test_nothing_is_claimed_if_slices_were_not_read() -> None:
    cluster = build_cluster('device.driver == "gpu.example.com"')
    unread = replace(cluster, gaps={"ResourceSlice": Gap("was not read")})
    assert not get_first_advice(unread).startswith("No node publishes")
