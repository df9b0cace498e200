"""Check a pod with spec.nodeName whose claim waits for the scheduler to choose a node."""

from __future__ import annotations

from small import Json, build_node, build_pod

import kschedctl
from kschedctl.commands.explain.report import ClaimWithoutScheduler, Explanation

CLASS = {
    "kind": "StorageClass",
    "metadata": {"name": "disk"},
    "provisioner": "csi.test",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def explain_bound_pod(mode: str = "WaitForFirstConsumer", phase: str = "Pending", **claim: Json) -> Explanation:
    """Return the explanation of a pod with nodeName and a claim with further metadata and fields of its spec."""
    asked = build_pod("p", "n1", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    asked["status"] = {"phase": phase}
    size = {"resources": {"requests": {"storage": "1Gi"}}}
    data = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "d", **claim.get("metadata", {})},
        "spec": {"storageClassName": "disk", **size, **claim.get("spec", {})},
    }
    objects = [build_node("n1"), {**CLASS, "volumeBindingMode": mode}, data, asked]
    return kschedctl.explain(kschedctl.Cluster.from_objects(objects), "d/p")


def test_unbound_claim_is_named() -> None:
    report = explain_bound_pod()
    assert report.verdict == "Bound"
    assert report.headline == (
        "spec.nodeName n1 bypasses the scheduler, but claim d/data of class disk waits for the scheduler to choose a"
        " node (WaitForFirstConsumer)"
    )
    assert report.claims_without_scheduler == (ClaimWithoutScheduler("d/data", "disk"),)
    assert [advice.kind for advice in report.advice] == ["SelectNodeByLabel"]


def test_claims_that_are_bound_without_the_scheduler_are_not_named() -> None:
    """These are a claim with a volume, a claim with a selected node, a claim of an Immediate class, and a running pod's
    claim."""
    selected = {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}
    for report in (
        explain_bound_pod(spec={"volumeName": "pv"}),
        explain_bound_pod(metadata=selected),
        explain_bound_pod(mode="Immediate"),
        explain_bound_pod(phase="Running"),
    ):
        assert report.claims_without_scheduler == ()
        assert report.headline == "already on node n1"
