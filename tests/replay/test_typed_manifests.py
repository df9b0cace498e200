"""Check the validation of workloads that are passed to the library as structs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import kschedctl
from kschedctl.api.workloads import decode_workload

Json = dict[str, Any]
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
}
MORE_THAN_ITS_LIMIT = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}


def build_pod(**resources: Json) -> Json:
    spec = {"containers": [{"name": "c", "image": "c", "resources": resources}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}


def build_deployment(label: str, **resources: Json) -> Json:
    template = {"metadata": {"labels": {"app": label}}, "spec": build_pod(**resources)["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


CLUSTER = kschedctl.Cluster.from_objects([NODE])
ASKS: dict[str, Callable[[Any], object]] = {
    "simulate": lambda manifest: kschedctl.simulate(CLUSTER, [manifest]),
    "capacity": lambda manifest: kschedctl.capacity(CLUSTER, [manifest]),
}
OF_PODS = {
    **ASKS,
    "explain": lambda manifest: kschedctl.explain(CLUSTER, manifest),
    "remedies": lambda manifest: kschedctl.remedies(CLUSTER, manifest),
    "wake_ups": lambda manifest: kschedctl.wake_ups(CLUSTER, manifest),
}


@pytest.mark.parametrize("given", [dict, decode_workload], ids=["document", "struct"])
@pytest.mark.parametrize("ask", ASKS)
def test_faults_of_a_workload(ask: str, given: Callable[[Json], Any]) -> None:
    ASKS[ask](given(build_deployment("web")))
    with pytest.raises(kschedctl.KschedctlError, match="`selector` does not match template `labels`"):
        ASKS[ask](given(build_deployment("other")))
    with pytest.raises(kschedctl.KschedctlError, match="must be less than or equal to cpu limit of 1"):
        ASKS[ask](given(build_deployment("web", **MORE_THAN_ITS_LIMIT)))


@pytest.mark.parametrize("given", [dict, decode_workload], ids=["document", "struct"])
@pytest.mark.parametrize("ask", OF_PODS)
def test_faults_of_a_pod(ask: str, given: Callable[[Json], Any]) -> None:
    OF_PODS[ask](given(build_pod()))
    with pytest.raises(kschedctl.KschedctlError, match="must be less than or equal to cpu limit of 1"):
        OF_PODS[ask](given(build_pod(**MORE_THAN_ITS_LIMIT)))


def test_fields_that_a_struct_lacks_count_as_valid() -> None:
    """Scheduling reads no mounts, so the struct does not have the mount of a missing volume."""
    manifest = build_pod()
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    with pytest.raises(kschedctl.KschedctlError, match="volumeMounts"):
        kschedctl.simulate(CLUSTER, [manifest])
    assert str(kschedctl.simulate(CLUSTER, [decode_workload(manifest)])).startswith("All scheduled")


def test_objects_of_the_cluster_are_not_validated() -> None:
    manifest = build_pod(**MORE_THAN_ITS_LIMIT)
    manifest["metadata"]["uid"] = "u"
    kschedctl.simulate(CLUSTER, [decode_workload(manifest)])


def test_document_of_a_pod_passes_admission() -> None:
    """A denied pod is a verdict, not an error."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "status": {"hard": {"pods": "1"}, "used": {"pods": "1"}},
    }
    report = kschedctl.explain(kschedctl.Cluster.from_objects([NODE, quota]), build_pod())
    assert report.verdict == "NotCreated"
    assert "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1" in report.headline
