"""Check what NodeClasses determine: which NodePools are not ready, and the zones, disks and maximum pods of nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from golden_cases import Json

import kschedctl
from kschedctl.autoscaling.karpenter.instance_types import read_instance_types
from kschedctl.autoscaling.karpenter.state_nodes import derive_instance_types
from kschedctl.cluster import NOT_GIVEN, Gap
from kschedctl.reports.karpenter import ClaimOfferings

NOW = "2026-06-01T12:00:00Z"
EC2 = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
FAILED = [
    {"type": "SubnetsReady", "status": "False", "reason": "SubnetsNotFound", "message": "SubnetSelector did not match"},
    {"type": "Ready", "status": "False", "reason": "UnhealthyDependents", "message": "SubnetsReady=False"},
]


def build_instance_type(name: str, zones: str) -> Json:
    offerings = [
        {
            "Price": 1.0,
            "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
            ],
        }
        for zone in zones
    ]
    size = {"cpu": "4", "memory": "16Gi", "pods": "30", "ephemeral-storage": "20Gi"}
    return {"name": name, "architecture": "amd64", "operatingSystems": ["linux"], "resources": size} | {
        "offerings": offerings
    }


def build_pool(name: str = "blue", reference: Json = EC2, **status: Any) -> Json:
    spec = {"template": {"spec": {"nodeClassRef": reference}}}
    meta = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}}
    return {**meta, "spec": spec, "status": status}


def build_node_class(spec: Json | None = None, status: Json | None = None, kind: str = "EC2NodeClass") -> Json:
    meta = {"apiVersion": "karpenter.k8s.aws/v1", "kind": kind, "metadata": {"name": "default"}}
    return {**meta, "spec": spec or {}, "status": status or {}}


def build_pod(requests: Json, zone: str = "") -> Json:
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    spec: Json = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    if zone:
        spec["nodeSelector"] = {"topology.kubernetes.io/zone": zone}
    meta = {"name": "p", "namespace": "d", "uid": "p"}
    status = {"phase": "Pending", "conditions": [refused]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def run_provisioning(*objects: Json, zones: str = "abc") -> Any:
    """Run provisioning with instance types in these zones."""
    cluster = kschedctl.Cluster.from_objects(list(objects))
    return kschedctl.provision(cluster, [build_instance_type("m.large", zones)], now=NOW)


def test_nodes_are_launched_only_in_zones_with_subnets() -> None:
    subnets = {"subnets": [{"id": "s-1", "zone": "a"}, {"id": "s-2", "zone": "b"}]}
    waiting = build_pod({"cpu": "1"}, zone="c")
    assert len(run_provisioning(build_pool(), build_node_class(), waiting).new_node_claims) == 1
    report = run_provisioning(build_pool(), build_node_class(status=subnets), waiting)
    assert report.new_node_claims == ()
    assert "topology.kubernetes.io/zone" in report.pod_errors["d/p"].error
    (claim,) = run_provisioning(build_pool(), build_node_class(status=subnets), build_pod({"cpu": "1"})).new_node_claims
    assert claim.cheapest is not None
    assert claim.cheapest.options == ("m.large|a|on-demand", "m.large|b|on-demand")


@pytest.mark.parametrize(
    ("spec", "gibibytes"),
    [
        ({}, 20),
        ({"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi"}}]}, 100),
        (
            {
                "blockDeviceMappings": [
                    {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "4Gi"}},
                    {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "80Gi"}, "rootVolume": True},
                ]
            },
            80,
        ),
        ({"blockDeviceMappings": [{"ebs": {"volumeSize": "100Gi"}}], "instanceStorePolicy": "RAID0"}, 20),
    ],
)
def test_root_volume_is_the_ephemeral_storage(spec: Json, gibibytes: int) -> None:
    fits, more = (build_pod({"ephemeral-storage": f"{size}Gi"}) for size in (gibibytes, gibibytes + 1))
    assert len(run_provisioning(build_pool(), build_node_class(spec), fits).new_node_claims) == 1
    assert run_provisioning(build_pool(), build_node_class(spec), more).new_node_claims == ()


def test_kubelet_limits_pods() -> None:
    """A node takes two of the three pods."""
    waiting = [build_pod({"cpu": "1"}) for _ in range(3)]
    for number, each in enumerate(waiting):
        each["metadata"] = {"name": f"p{number}", "namespace": "d", "uid": f"p{number}"}
    assert len(run_provisioning(build_pool(), build_node_class(), *waiting).new_node_claims) == 1
    assert (
        len(run_provisioning(build_pool(), build_node_class({"kubelet": {"maxPods": 2}}), *waiting).new_node_claims)
        == 2
    )


def test_disk_and_pods_of_aks() -> None:
    reference = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
    own = {**build_node_class({"maxPods": 250, "osDiskSizeGB": 128}), "apiVersion": "karpenter.azure.com/v1beta1"}
    cluster = kschedctl.Cluster.from_objects([build_pool(reference=reference), {**own, "kind": "AKSNodeClass"}])
    (blue,) = kschedctl.pools(cluster, now=NOW).pools
    assert blue.node_class == "AKSNodeClass default: 250 pods per node, 128G disk"


def test_pool_of_an_unready_class_is_skipped() -> None:
    report = run_provisioning(build_pool(), build_node_class(status={"conditions": FAILED}), build_pod({"cpu": "1"}))
    why = "EC2NodeClass default is not ready: SubnetSelector did not match"
    assert (report.scheduler_error, report.node_classes) == ("no nodepools found", {"blue": why})
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}  # Karpenter looked at the pool meanwhile
    assert run_provisioning(
        build_pool(**ready), build_node_class(status={"conditions": FAILED}), build_pod({"cpu": "1"})
    ).new_node_claims


def test_missing_class_differs_from_unread_class() -> None:
    """Karpenter marks a pool whose class does not exist as not ready, so that the pool launches nothing."""
    objects = [build_pool(), build_pod({"cpu": "1"})]
    cluster, types = kschedctl.Cluster.from_objects(objects), [build_instance_type("m.large", "a")]
    for gaps, why, claims in (({}, "does not exist", 0), ({"EC2NodeClass": Gap(NOT_GIVEN)}, "was not read", 1)):
        cluster.gaps.update(gaps)
        report = kschedctl.provision(cluster, types, now=NOW)
        assert report.node_classes == {"blue": f"EC2NodeClass default {why}"}
        assert (len(report.new_node_claims), report.unknown) == (claims, ())
    missing = run_provisioning(*objects)
    assert missing.missing["d/p"] == {"blue": ("not used: not Ready: EC2NodeClass default does not exist",)}
    assert "no NodePool is eligible: EC2NodeClass default does not exist (NodePool blue)" in missing.summary().warnings


def test_forbidden_class_leaves_the_answer_undecided() -> None:
    cluster = kschedctl.Cluster.from_objects([build_pool(), build_pod({"cpu": "1"})])
    cluster.gaps["EC2NodeClass"] = Gap("could not be read: forbidden")
    report = kschedctl.provision(cluster, [build_instance_type("m.large", "a")], now=NOW)
    assert report.undecided
    assert [each.kind for each in report.unknown] == ["EC2NodeClass"]


def test_missing_subnet_and_excessive_request_are_both_reported() -> None:
    """Instance types of the field situation have 2 to 8 CPUs. Its NodeClass has no subnet in eu-1a."""
    folder = Path(__file__).parent.parent / "field"
    items = yaml.safe_load((folder / "33-karpenter-subnet-zone" / "in.yaml").read_text())["items"]
    (waiting,) = [each for each in items if each["kind"] == "Pod"]
    waiting["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100"
    cluster = kschedctl.Cluster.from_objects(items, assume_complete=True)
    types = json.loads((folder / "types.json").read_text())
    zone, size = kschedctl.provision(cluster, types, now="2026-01-02T00:00:00Z").missing["dev/coder-1-a"]["base"]
    assert zone.startswith("EC2NodeClass std has no subnet in eu-1a")
    assert size.startswith("none of 4 instance types fits: 4 with too little cpu")


def test_zones_and_capacity_types_are_those_of_offerings() -> None:
    """The NodePool allows three zones, but the instance type is offered in two of them."""
    pool = build_pool()
    zones = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b", "c"]}
    pool["spec"]["template"]["spec"]["requirements"] = [zones]
    report = run_provisioning(pool, build_node_class(), build_pod({"cpu": "1"}), zones="ab")
    assert report.claim_offerings == (ClaimOfferings(("a", "b"), ("on-demand",)),)
    assert "a, b; on-demand" in report.to_markdown()


def test_unknown_capacity_type_is_left_out() -> None:
    """The instance type is known from a node that does not have the label of its capacity type."""
    size = {"cpu": "4", "memory": "16Gi", "pods": "1"}
    labels = {"node.kubernetes.io/instance-type": "m.large", "topology.kubernetes.io/zone": "a"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}}
    node |= {
        "spec": {"providerID": "x:///n", "taints": [{"key": "t", "effect": "NoSchedule"}]},
        "status": {"allocatable": size, "capacity": size},
    }
    objects = [node, build_pool(), build_node_class(), build_pod({"cpu": "1"})]
    report = kschedctl.provision(kschedctl.Cluster.from_objects(objects), now=NOW)
    assert report.claim_offerings == (ClaimOfferings(("a",), ()),)
    (claim,) = report.new_node_claims
    assert "karpenter.sh/capacity-type" not in {term.key for term in claim.requirements}
    assert claim.cheapest is not None
    assert claim.cheapest.options == ("m.large|a|",)


@pytest.mark.parametrize(
    ("label", "value", "capacity_types"),
    [
        ("karpenter.sh/capacity-type", "spot", ("spot",)),
        ("eks.amazonaws.com/capacityType", "ON_DEMAND", ("on-demand",)),
        ("eks.amazonaws.com/capacityType", "SPOT", ("spot",)),
        ("kubernetes.azure.com/scalesetpriority", "spot", ("spot",)),
        ("cloud.google.com/gke-spot", "true", ("spot",)),
        ("cloud.google.com/gke-spot", "false", ()),
    ],
)
def test_labels_of_providers_name_the_capacity_type(label: str, value: str, capacity_types: tuple[str, ...]) -> None:
    size = {"cpu": "4", "memory": "16Gi", "pods": "1"}
    labels = {"node.kubernetes.io/instance-type": "m.large", label: value}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}}
    node |= {"spec": {"providerID": "x:///n"}, "status": {"allocatable": size, "capacity": size}}
    (document,) = derive_instance_types(kschedctl.Cluster.from_objects([node]))
    (instance_type,) = read_instance_types([document]).types
    assert tuple(offering.capacity_type for offering in instance_type.offerings if offering.capacity_type) == (
        capacity_types
    )
