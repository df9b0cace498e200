"""Check nodes for volumes in zones, nodes launched by pools, and pods after scenario steps, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl
from kschedctl.commands.size.shapes import build_pool_shapes
from kschedctl.commands.size.sizing import SizingCriteria
from kschedctl.errors import UsageError

Json = dict[str, Any]
ZONE, HOSTNAME, POOL = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "karpenter.sh/nodepool"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"
GPU = "example.com/gpu"


def build_node(name: str, cpu: int, zone: str, pool: str = "small", **labels: str) -> Json:
    offers = {"cpu": str(cpu), "memory": "64Gi", "pods": "20"}
    meta = {"name": name, "labels": {ZONE: zone, HOSTNAME: name, POOL: pool, **labels}}
    status = {"allocatable": offers, "capacity": offers}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


def build_pod(name: str, cpu: float, claim: str = "", **spec: Any) -> Json:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    resources = {"requests": {"cpu": str(cpu), **spec.pop("requests", {})}, "limits": spec.pop("limits", {})}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
    meta = {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}, "ownerReferences": [owner]}
    containers = [{"name": "c", "image": "c", "resources": resources}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": containers, "volumes": volumes, **spec},
    }


def build_bound_volume(name: str, zone: str, key: str = ZONE) -> list[Json]:
    """Build a claim and the volume of one zone that it is bound to."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [zone]}]}
    claim_spec = {"volumeName": name, "storageClassName": "fast", "accessModes": ["ReadWriteOnce"]}
    claim_spec["resources"] = {"requests": {"storage": "1Gi"}}
    volume_spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name, "uid": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        "csi": {"driver": "csi.example.com", "volumeHandle": name},
    }
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    claim_meta = {"name": name, "namespace": "default", "uid": name, "annotations": bound}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": claim_meta,
            "spec": claim_spec,
            "status": {"phase": "Bound"},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": volume_spec,
            "status": {"phase": "Bound"},
        },
    ]


def build_waiting_claim(name: str) -> Json:
    spec = {"storageClassName": "slow", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    meta = {"name": name, "namespace": "default", "uid": name}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta,
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def build_storage_class(*zones: str) -> Json:
    made = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "slow"}}
    made |= {"provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}] if zones else []
    return made | ({"allowedTopologies": terms} if terms else {})


NODES = [build_node("n1", 4, "a"), build_node("n2", 4, "b"), build_node("n3", 4, "c")]


def size_nodes(objects: list[Json], **options: Any) -> Any:
    criteria = SizingCriteria(**{key: options.pop(key) for key in ("keep_zone_loss", "scale") if key in options})
    return kschedctl.size(kschedctl.Cluster.from_objects(objects), criteria=criteria, **options)


def count_nodes_by_zone(report: Any) -> dict[str, dict[str, int]]:
    return {shape.shape: shape.zones for shape in report.shapes}


def test_node_in_the_zone_of_the_volume() -> None:
    """The volume is in the last of three zones."""
    report = size_nodes([*NODES, *build_bound_volume("v", "c"), build_pod("p", 3, "v")])
    assert (count_nodes_by_zone(report), report.bound) == ({"small": {"c": 1}}, 1)


def test_pods_of_volumes_in_two_zones_share_no_node() -> None:
    """Two pods of 3 CPUs are in c and one in b. A pod of 1 CPU can go anywhere and has room beside each of them."""
    volumes = [*build_bound_volume("v1", "c"), *build_bound_volume("v2", "c"), *build_bound_volume("v3", "b")]
    pods = [build_pod("p1", 3, "v1"), build_pod("p2", 3, "v2"), build_pod("p3", 3, "v3"), build_pod("p4", 1)]
    report = size_nodes([*NODES, *volumes, *pods])
    assert (count_nodes_by_zone(report), report.bound) == ({"small": {"b": 1, "c": 2}}, 3)


def test_nodes_of_types_have_the_drivers_zone_labels() -> None:
    """The volume's driver has its own zone label, which existing nodes have."""
    nodes = [build_node(f"n{zone}", 4, zone, **{EBS_ZONE: zone}) for zone in "ab"]
    types = [build_instance_type("large", 8, 1.0, "ab")]
    report = size_nodes([*nodes, *build_bound_volume("v", "b", EBS_ZONE), build_pod("p", 3, "v")], instance_types=types)
    assert (count_nodes_by_zone(report), report.never) == ({"large": {"b": 1}}, ())


def test_pod_is_left_out_if_its_volumes_zone_is_not_offered() -> None:
    report = size_nodes([*NODES, *build_bound_volume("v", "z"), build_pod("p", 3, "v"), build_pod("q", 1)])
    assert (report.nodes, [group.pods for group in report.never]) == (1, [("default/p",)])
    assert "didn't match PersistentVolume's node affinity" in report.never[0].message


@pytest.mark.parametrize(("allowed", "zones"), [(("b",), {"b": 2}), ((), {"a": 1, "b": 1})])
def test_new_volumes_are_provisioned_where_their_class_allows(allowed: tuple[str, ...], zones: dict[str, int]) -> None:
    """With WaitForFirstConsumer, each volume is provisioned where its pod goes.

    Each of the two pods needs its own node.
    """
    claims = [build_waiting_claim("v1"), build_waiting_claim("v2")]
    report = size_nodes(
        [*NODES, build_storage_class(*allowed), *claims, build_pod("p1", 3, "v1"), build_pod("p2", 3, "v2")]
    )
    assert count_nodes_by_zone(report) == {"small": zones}


def test_pod_of_a_volume_has_no_node_after_the_loss_of_its_zone() -> None:
    report = size_nodes(
        [*NODES, *build_bound_volume("v", "c"), build_pod("p", 3, "v"), build_pod("q", 1)], keep_zone_loss=True
    )
    assert [(group.pods, group.message.partition(":")[0]) for group in report.never] == [
        (("default/p",), "after the loss of zone c")
    ]


def build_instance_type(
    name: str, cpu: int, price: float, zones: str = "a", capacity: str = "on-demand", **offers: str
) -> Json:
    terms = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity]}]
    places = [[*terms, {"key": ZONE, "operator": "In", "values": [zone]}] for zone in zones]
    return {
        "name": name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": str(cpu), "memory": "64Gi", "pods": "20", **offers},
        "overhead": {"cpu": "0", "memory": "0"},
        "offerings": [{"Price": price, "Available": True, "Requirements": place} for place in places],
    }


def build_node_pool(name: str, types: list[str], taints: list[Json], **labels: str) -> Json:
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}
    reference = {"group": "example.com", "kind": "NodeClass", "name": "default"}
    spec = {"requirements": [requirement], "taints": taints, "nodeClassRef": reference}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": template},
    }


TYPES = [build_instance_type("plain", 8, 1.0), build_instance_type("fast", 8, 4.0, **{GPU: "1"})]
ASKING = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
TAINT = {"key": GPU, "effect": "NoSchedule"}
TOLERATION = {"key": GPU, "operator": "Exists"}


def test_taints_of_a_pool_keep_other_pods_off() -> None:
    """Eight pods of 1 CPU come first and would share both nodes.

    The pod that requests the GPU needs all of its node.
    """
    pools = [build_node_pool("general", ["plain"], []), build_node_pool("gpu", ["fast"], [TAINT])]
    pods = [
        *(build_pod(f"p{number}", 1) for number in range(8)),
        build_pod("train", 8, tolerations=[TOLERATION], **ASKING),
    ]
    report = size_nodes([*pools, *pods], instance_types=TYPES)
    assert (count_nodes_by_zone(report), report.price) == ({"general-plain": {"a": 1}, "gpu-fast": {"a": 1}}, 5.0)


def test_other_pods_fill_device_nodes_without_taints() -> None:
    """Each of the eight pods goes to the emptiest node, so the GPU node stays free only beside at least eight plain
    nodes."""
    pods = [*(build_pod(f"p{number}", 1) for number in range(8)), build_pod("train", 8, **ASKING)]
    report = size_nodes(pods, instance_types=TYPES)
    assert (report.never, report.bound, report.cheapest) == ((), 5.0, True)
    assert report.price >= 8 * 1.0 + 4.0


@pytest.mark.parametrize(("limits", "above"), [({"cpu": "16"}, False), ({"cpu": "15"}, True), ({"nodes": "1"}, True)])
def test_nodes_above_the_limits_of_a_pool_are_reported(limits: Json, above: bool) -> None:
    """Two nodes of 8 CPUs each are needed."""
    pool = build_node_pool("general", ["plain"], [])
    pool["spec"]["limits"] = limits
    report = size_nodes([pool, *(build_pod(f"p{number}", 8) for number in range(2))], instance_types=TYPES)
    assert report.nodes == 2
    assert [doubt.startswith('NodePool "general" is limited to') for doubt in report.doubts] == [True] * above
    assert report.undecided == above


def test_labels_of_a_pool_can_be_selected() -> None:
    pools = [build_node_pool("general", ["plain"], [], team="red"), build_node_pool("gpu", ["fast"], [], team="blue")]
    report = size_nodes([*pools, build_pod("p", 1, nodeSelector={"team": "blue"})], instance_types=TYPES)
    assert count_nodes_by_zone(report) == {"gpu-fast": {"a": 1}}
    report = size_nodes([*pools, build_pod("p", 1, nodeSelector={POOL: "general"})], instance_types=TYPES)
    assert count_nodes_by_zone(report) == {"general-plain": {"a": 1}}


def test_spot_pool_has_spot_prices() -> None:
    cheap = build_instance_type("plain", 8, 0.3, capacity="spot")
    both = {**TYPES[0], "offerings": [*TYPES[0]["offerings"], *cheap["offerings"]]}
    pool = build_node_pool("spot", ["plain"], [])
    assert size_nodes([pool, build_pod("p", 1)], instance_types=[both]).price == 1.0
    capacity = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}
    pool["spec"]["template"]["spec"]["requirements"].append(capacity)
    assert size_nodes([pool, build_pod("p", 1)], instance_types=[both]).price == 0.3


def test_workloads_are_sized_after_the_steps() -> None:
    """Three pods of 3 CPUs become five, and another pod of 2 CPUs is added."""
    pods = [build_pod(f"p{number}", 3) for number in range(3)]
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": "2"}}}
    template = {"metadata": {"labels": {"app": "api"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "api"}}, "template": template}
    meta = {"name": "api", "namespace": "default"}
    api = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
    more = {"scale": {"kind": "ReplicaSet", "name": "web", "replicas": 5}}
    one = [build_node("n1", 4, "a")]
    assert size_nodes([*one, *pods]).nodes == 3
    report = size_nodes([*one, *pods], scenario={"steps": [more]})
    assert (report.pods, report.nodes) == (5, 5)
    report = size_nodes([*one, *pods], scenario={"steps": [more, {"apply": {"manifests": [api]}}]})
    assert (report.pods, report.nodes) == (6, 6)
    assert size_nodes([*one, *pods], scenario={"steps": [more]}, scale=2).nodes == 10


def test_failing_step_is_named() -> None:
    steps = [{"cordon": {"nodes": ["n1"]}}, {"scale": {"name": "nobody", "replicas": 2}}]
    with pytest.raises(UsageError, match=r"step 2 \(scale\)"):
        size_nodes([*NODES, build_pod("p", 1)], scenario={"steps": steps})
    with pytest.raises(UsageError, match=r"step 1 \(instanceTypes\).*size replaces all nodes"):
        size_nodes([*NODES, build_pod("p", 1)], scenario={"steps": [{"instanceTypes": {"types": TYPES}}]})


def test_nodes_cordoned_by_a_step_are_no_model() -> None:
    nodes = [build_node("n1", 4, "a"), build_node("n2", 8, "a", "large")]
    assert count_nodes_by_zone(size_nodes([*nodes, build_pod("p", 6)])) == {"large": {"a": 1}}
    report = size_nodes([*nodes, build_pod("p", 6)], scenario={"steps": [{"cordon": {"nodes": ["n2"]}}]})
    assert report.homeless == 1


def test_shapes_of_a_pool_name_their_differences() -> None:
    nodes = [
        build_node("n1", 4, "a", disk="ssd", team="x"),
        build_node("n2", 4, "a", team="x"),
        build_node("n3", 4, "a", pool="other"),
    ]
    nodes.append(build_node("n4", 4, "b", disk="ssd", team="x"))
    shapes = build_pool_shapes(kschedctl.Cluster.from_objects(nodes))
    assert [(shape.name, shape.peculiarities) for shape in shapes] == [
        ("other", ()),
        ("small.1", ("disk=ssd",)),
        ("small.2", ("no label disk",)),
    ]
