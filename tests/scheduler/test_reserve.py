"""Check that later pods find the volumes, claims, devices and shares of a placed pod reserved."""

from __future__ import annotations

from typing import Any

from kschedctl.cluster import Cluster
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation

Json = dict[str, Any]


def build_node(name: str) -> Json:
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    return {"kind": "Node", "metadata": {"name": name}, "status": status}


def build_pod(name: str, **spec: Any) -> Json:
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "d", "uid": name}, "spec": spec}


def build_mounting_pod(name: str, claim: str, **spec: Any) -> Json:
    return build_pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}], **spec)


def build_claim(name: str, storage_class: str) -> Json:
    spec = {"storageClassName": storage_class, "accessModes": ["ReadWriteOnce"]}
    spec["resources"] = {"requests": {"storage": "1Gi"}}  # type: ignore[assignment]
    return {"kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "d"}, "spec": spec}


def build_storage_class(name: str, provisioner: str) -> Json:
    mode = "WaitForFirstConsumer"
    return {"kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}


def build_volume(name: str, size: str) -> Json:
    spec = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}}
    return {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}}


def run_simulation(*objects: Json, pods: int) -> tuple[Simulation, list[str]]:
    """Return the simulation, and the node of each of the first pods, or ""."""
    simulation = Simulation(Scheduler(Cluster.from_objects(objects)))
    outcomes = {outcome.position: outcome for outcome in simulation.run(range(pods))}
    names = simulation.view.nodes.names
    return simulation, [names[outcomes[i].row] if outcomes[i].row >= 0 else "" for i in range(pods)]


LOCAL = build_storage_class("local", "kubernetes.io/no-provisioner")
CSI = build_storage_class("csi", "csi.example.com")


def test_smallest_volume_is_bound_to_the_claim() -> None:
    volumes = [build_volume("large", "9Gi"), build_volume("small", "2Gi")]
    simulation, _ = run_simulation(
        build_node("n1"), LOCAL, *volumes, build_claim("c", "local"), build_mounting_pod("p", "c"), pods=1
    )
    cluster = simulation.view.cluster
    (bound,) = cluster.persistent_volume_claims
    assert (bound.spec.volume_name, bound.status.phase) == ("small", "Bound")
    holders = {v.metadata.name: v.spec.claim_ref and v.spec.claim_ref.name for v in cluster.persistent_volumes}
    assert holders == {"large": None, "small": "c"}


def test_volume_serves_one_claim() -> None:
    claims = [build_claim("c1", "local"), build_claim("c2", "local")]
    pods = [build_mounting_pod("p1", "c1"), build_mounting_pod("p2", "c2")]
    _, nodes = run_simulation(build_node("n1"), LOCAL, build_volume("v", "1Gi"), *claims, *pods, pods=2)
    assert nodes == ["n1", ""]


def test_unprovisioned_claim_stays_on_its_selected_node() -> None:
    """The second pod would otherwise go to the emptier node."""
    pods = [
        build_mounting_pod(f"p{i}", "c", containers=[{"name": "c", "resources": {"requests": {"cpu": "1"}}}])
        for i in (1, 2)
    ]
    _, (first, second) = run_simulation(build_node("n1"), build_node("n2"), CSI, build_claim("c", "csi"), *pods, pods=2)
    assert first == second != ""


def build_device_slice(count: int, **device: Any) -> list[Json]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    found = [{"name": f"gpu{i}", **device} for i in range(count)]
    spec = {"driver": "d.example.com", "nodeName": "n1", "pool": pool, "devices": found}
    device_class = {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    return [{"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}, device_class]


def build_resource_claim(name: str) -> Json:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    spec = {"devices": {"requests": [request]}}
    return {"kind": "ResourceClaim", "metadata": {"name": name, "namespace": "d"}, "spec": spec}


def build_pod_with_claim(name: str, claim_name: str, **spec: Any) -> Json:
    return build_pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": claim_name}], **spec)


def test_each_device_is_allocated_to_one_claim() -> None:
    claims = [build_resource_claim(f"c{i}") for i in range(3)]
    pods = [build_pod_with_claim(f"p{i}", f"c{i}") for i in range(3)]
    simulation, nodes = run_simulation(
        build_node("n1"), build_node("n2"), *build_device_slice(2), *claims, *pods, pods=3
    )
    assert nodes == ["n1", "n1", ""]
    found = simulation.view.cluster.resource_claims
    allocations = [c.status.allocation for c in found]
    assert [a and a.devices.results[0].device for a in allocations] == ["gpu0", "gpu1", None]
    assert [[user.name for user in c.status.reserved_for] for c in found] == [["p0"], ["p1"], []]


def test_claim_of_two_pods_is_allocated_once() -> None:
    pods = [build_pod_with_claim("p1", "c"), build_pod_with_claim("p2", "c")]
    simulation, nodes = run_simulation(
        build_node("n1"), build_node("n2"), *build_device_slice(1), build_resource_claim("c"), *pods, pods=2
    )
    assert nodes == ["n1", "n1"]
    (found,) = simulation.view.cluster.resource_claims
    assert [user.name for user in found.status.reserved_for] == ["p1", "p2"]


def test_device_that_backs_a_resource_serves_one_pod() -> None:
    """The pods differ only in their names. The device is free again when the first pod is gone."""
    containers = [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]
    (published, device_class), pods = (
        build_device_slice(1),
        [build_pod(f"p{i}", containers=containers) for i in range(3)],
    )
    backing = device_class | {"spec": {"extendedResourceName": "example.com/gpu"}}
    simulation, nodes = run_simulation(build_node("n1"), published, backing, *pods, pods=3)
    assert nodes == ["n1", "", ""]
    simulation.evict([0])
    assert [outcome.row for outcome in simulation.run([1, 2])] == [0, -1]


def test_devices_are_free_when_their_pod_is_evicted() -> None:
    big = [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]
    claims = [build_resource_claim("c0"), build_resource_claim("c1")]
    pods = [
        build_pod_with_claim("p0", "c0", containers=big, priority=0),
        build_pod_with_claim("p1", "c1", containers=big, priority=5),
    ]
    simulation = Simulation(Scheduler(Cluster.from_objects([build_node("n1"), *build_device_slice(1), *claims, *pods])))
    assert simulation.attempt_pod(0) is not None
    simulation.evict([0])
    outcome = simulation.attempt_pod(1)
    assert outcome is not None
    assert outcome.row == 0


def test_claim_is_free_once_its_last_user_is_gone() -> None:
    """Two pods use the only device through one claim.

    The claim of a third pod gets it when both are gone, not before.
    """
    claims = [build_resource_claim("shared"), build_resource_claim("other")]
    pods = [
        build_pod_with_claim("p1", "shared"),
        build_pod_with_claim("p2", "shared"),
        build_pod_with_claim("p3", "other"),
    ]
    simulation, nodes = run_simulation(build_node("n1"), *build_device_slice(1), *claims, *pods, pods=3)
    assert nodes == ["n1", "n1", ""]

    def shared() -> tuple[list[str], list[str]]:
        """Return the devices that the claim has, and the pods that use it."""
        (found,) = (c for c in simulation.view.cluster.resource_claims if c.metadata.name == "shared")
        results = found.status.allocation.devices.results if found.status.allocation else ()
        return [result.device for result in results], [user.name for user in found.status.reserved_for]

    simulation.evict([0])
    assert shared() == (["gpu0"], ["p2"])
    assert simulation.attempt_pod(2) is None
    simulation.evict([1])
    assert shared() == ([], [])
    outcome = simulation.attempt_pod(2)
    assert outcome is not None
    assert outcome.row == 0


def test_devices_for_extended_resources_are_free_when_their_pod_is_evicted() -> None:
    extended = {"containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]}
    slices, device_class = build_device_slice(1)
    device_class["spec"] = {"extendedResourceName": "example.com/gpu"}
    simulation, nodes = run_simulation(
        build_node("n1"), slices, device_class, build_pod("p1", **extended), build_pod("p2", **extended), pods=2
    )
    assert nodes == ["n1", ""]
    simulation.evict([0])
    outcome = simulation.attempt_pod(1)
    assert outcome is not None
    assert outcome.row == 0


def test_pods_without_a_uid_are_distinguished_by_namespace() -> None:
    claims = [build_resource_claim("c"), build_resource_claim("c")]
    claims[1]["metadata"]["namespace"] = "e"
    pods = [build_pod_with_claim("p", "c"), build_pod_with_claim("p", "c")]
    pods[1]["metadata"]["namespace"] = "e"
    for each in pods:
        del each["metadata"]["uid"]
    simulation, nodes = run_simulation(build_node("n1"), *build_device_slice(2), *claims, *pods, pods=2)
    assert nodes == ["n1", "n1"]
    simulation.evict([0])
    found = {c.metadata.namespace: bool(c.status.allocation) for c in simulation.view.cluster.resource_claims}
    assert found == {"d": False, "e": True}


def test_nothing_is_reserved_without_reserve_plugins() -> None:
    off = {"plugins": {"reserve": {"disabled": [{"name": "VolumeBinding"}]}}}
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [off]}
    objects = [
        build_node("n1"),
        LOCAL,
        build_volume("v", "1Gi"),
        build_claim("c", "local"),
        build_mounting_pod("p", "c"),
    ]
    simulation = Simulation(Scheduler(Cluster.from_objects(objects, config=config)))
    assert [outcome.row for outcome in simulation.run([0])] == [0]
    (unbound,) = simulation.view.cluster.persistent_volume_claims
    assert not unbound.spec.volume_name


def test_shares_of_a_device_add_up() -> None:
    """A device that may be allocated several times has capacity for two claims."""
    policy = {"default": "1", "validRange": {"min": "1"}}
    shared = {"allowMultipleAllocations": True, "capacity": {"slots": {"value": "2", "requestPolicy": policy}}}
    claims = [build_resource_claim(f"c{i}") for i in range(3)]
    pods = [build_pod_with_claim(f"p{i}", f"c{i}") for i in range(3)]
    _, nodes = run_simulation(build_node("n1"), *build_device_slice(1, **shared), *claims, *pods, pods=3)
    assert nodes == ["n1", "n1", ""]
