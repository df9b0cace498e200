"""What is given to Karpenter's replay and is wrong: one clear line each."""

from __future__ import annotations

from typing import Any

import pytest
from golden_cases import Json

import kschedctl

NOW = "2026-06-01T12:00:00Z"
TYPE: Json = {"name": "a.large", "resources": {"cpu": "2", "memory": "4Gi"}}


def asked(types: list[Any], *objects: Json, now: str = NOW, **options: Any) -> Any:
    cluster = kschedctl.Cluster.from_objects(list(objects))
    return kschedctl.provision(cluster, types, options, now=now)


@pytest.mark.parametrize(
    ("types", "options", "message", "where"),
    [
        ([{}], {}, "missing required field `name`", "instanceTypes[0]"),
        ([TYPE, "x"], {}, "got `str`", "instanceTypes[1]"),
        ([TYPE, TYPE], {}, 'two instance types are called "a.large"', "instanceTypes[1]"),
        ([{**TYPE, "resources": {"cpu": "many"}}], {}, "quantities must match", "instanceTypes[0]"),
        ([{**TYPE, "offerings": [{"Price": "cheap"}]}], {}, "offerings[0].Price", "instanceTypes[0]"),
        ([TYPE], {"preferencePolicy": "Maybe"}, "preferencePolicy", "options"),
        ([TYPE], {"featureGates": {"NodeOverlay": "on"}}, "NodeOverlay", "options"),
        ([TYPE], {"maxInstanceTypes": "all"}, "maxInstanceTypes", "options"),
    ],
)
def test_what_cannot_be_read(types: list[Any], options: Json, message: str, where: str) -> None:
    with pytest.raises(kschedctl.KschedctlError) as caught:
        asked(types, **options)
    assert message in str(caught.value)
    assert where in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_time_that_is_none() -> None:
    with pytest.raises(kschedctl.KschedctlError, match="is not a time"):
        asked([TYPE], now="noon")


def test_without_pools_nothing_is_launched() -> None:
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pod: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d"}}
    pod |= {"spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Pending", "conditions": [refused]}}
    report = asked([], pod)
    assert report.pending == ("d/p",)
    assert report.scheduler_error == "no nodepools found"
    assert kschedctl.disrupt(kschedctl.Cluster.from_objects([pod]), [], now=NOW).per_node == {}


def test_an_empty_cluster() -> None:
    assert asked([]).to_dict() == asked([TYPE]).to_dict()
