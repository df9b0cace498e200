"""Check that invalid input of Karpenter's replay gets one clear line each."""

from __future__ import annotations

from typing import Any

import pytest
from golden_cases import Json

import kschedctl
from kschedctl.api.validation.unknown_fields import iter_unknown_fields

NOW = "2026-06-01T12:00:00Z"
TYPE: Json = {"name": "a.large", "resources": {"cpu": "2", "memory": "4Gi"}}


def run_provisioning(types: list[Any], *objects: Json, now: str = NOW, **options: Any) -> Any:
    """Run provisioning with these instance types."""
    cluster = kschedctl.Cluster.from_objects(list(objects))
    return kschedctl.provision(cluster, types, options, now=now)


@pytest.mark.parametrize(
    ("types", "options", "message", "where"),
    [
        ([{}], {}, "missing required field `name`", "instanceTypes[0]"),
        ([TYPE, "x"], {}, "got `str`", "instanceTypes[1]"),
        ([TYPE, TYPE], {}, 'two instance types have the name "a.large"', "instanceTypes[1]"),
        ([{**TYPE, "resources": {"cpu": "many"}}], {}, "quantities must match", "instanceTypes[0]"),
        ([{**TYPE, "offerings": [{"Price": "cheap"}]}], {}, "offerings[0].Price", "instanceTypes[0]"),
        ([TYPE], {"preferencePolicy": "Maybe"}, "preferencePolicy", "options"),
        ([TYPE], {"featureGates": {"NodeOverlay": "on"}}, "NodeOverlay", "options"),
        ([TYPE], {"maxInstanceTypes": "all"}, "maxInstanceTypes", "options"),
    ],
)
def test_invalid_input_is_one_clear_line(types: list[Any], options: Json, message: str, where: str) -> None:
    with pytest.raises(kschedctl.KschedctlError) as caught:
        run_provisioning(types, **options)
    assert message in str(caught.value)
    assert where in str(caught.value)
    assert "\n" not in str(caught.value)


def test_invalid_time() -> None:
    with pytest.raises(kschedctl.KschedctlError, match="is not a time"):
        run_provisioning([TYPE], now="noon")


def test_nothing_is_launched_without_node_pools() -> None:
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pod: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d"}}
    pod |= {"spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Pending", "conditions": [refused]}}
    report = run_provisioning([], pod)
    assert report.pending == ("d/p",)
    assert report.scheduler_error == "no nodepools found"
    assert kschedctl.disrupt(kschedctl.Cluster.from_objects([pod]), [], now=NOW).per_node == {}


def test_empty_cluster() -> None:
    assert run_provisioning([]).to_dict() == run_provisioning([TYPE]).to_dict()


# -- the older version of the API ----------------------------------------------------------------------------------

OLD: Json = {
    "apiVersion": "karpenter.sh/v1beta1",
    "kind": "NodePool",
    "metadata": {"name": "old"},
    "spec": {
        "template": {
            "spec": {
                "kubelet": {"maxPods": 20},
                "nodeClassRef": {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
            }
        },
        "disruption": {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h"},
    },
}


def test_v1beta1_is_converted() -> None:
    """Upstream: ConvertFrom in nodepool_conversion.go of v1.0.0."""
    (pool,) = kschedctl.Cluster.from_objects([OLD]).karpenter_node_pools
    reference = pool.spec.template.spec.node_class_ref
    assert (reference.group, reference.kind, reference.name) == ("karpenter.k8s.aws", "EC2NodeClass", "default")
    assert pool.spec.template.spec.expire_after == "720h"
    disruption = pool.spec.disruption
    assert (disruption.consolidation_policy, disruption.consolidate_after) == ("WhenEmptyOrUnderutilized", "0s")


def test_v1beta1_with_a_policy_of_v1() -> None:
    own = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"}
    (pool,) = kschedctl.Cluster.from_objects([{**OLD, "spec": {**OLD["spec"], "disruption": own}}]).karpenter_node_pools
    assert (pool.spec.disruption.consolidation_policy, pool.spec.disruption.consolidate_after) == ("WhenEmpty", "30s")


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (OLD, []),
        ({**OLD, "spec": {**OLD["spec"], "limit": {"cpu": "1"}}}, ['unknown field "spec.limit"']),
        ({**OLD, "apiVersion": "hypershift.openshift.io/v1beta1", "spec": {"clusterName": "a"}}, []),
    ],
)
def test_unknown_fields_are_named(document: Json, expected: list[str]) -> None:
    assert [str(field) for field in iter_unknown_fields(document)] == expected
