"""Compare the binder on all nodes at once with a loop over nodes, claims and volumes, and check special cases."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plugin_cases import build_snapshot, compute_scores, find_pod_info, run_filter, run_pre_filter

from kschedctl.scheduler.framework import Reservation
from kschedctl.scheduler.framework.facts import describe_fact
from kschedctl.scheduler.plugins.helper.resource_allocation import UtilizationShapePoint
from kschedctl.scheduler.plugins.volume_binding.plugin import VolumeBinding

ZONES = ("a", "b", "c")


class Offer(NamedTuple):
    """A PersistentVolume of the class ``local``."""

    size: int
    zones: tuple[str, ...] | None
    holder: int | None
    available: bool


def build_node(name, zone):
    return {"kind": "Node", "metadata": {"name": name, "labels": {"zone": zone} if zone else {}}}


def build_claim(name, size, storage_class="local", **metadata):
    spec = {"resources": {"requests": {"storage": f"{size}Gi"}}, "storageClassName": storage_class}
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "ns", "uid": name, **metadata},
        "spec": {**spec, "accessModes": ["ReadWriteOnce"]},
    }


def build_volume(name, offer):
    spec = {
        "capacity": {"storage": f"{offer.size}Gi"},
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
    }
    if offer.zones is not None:
        expression = {"key": "zone", "operator": "In", "values": list(offer.zones)}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    if offer.holder is not None:
        spec["claimRef"] = {"name": f"c{offer.holder}", "namespace": "ns"}
    phase = "Available" if offer.available else "Pending"
    return {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec, "status": {"phase": phase}}


def build_storage_class(name, provisioner, **fields):
    metadata = {"name": name}
    mode = "WaitForFirstConsumer"
    return {
        "kind": "StorageClass",
        "metadata": metadata,
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        **fields,
    }


def build_pod(*claims):
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}} for i, name in enumerate(claims)]
    return {"kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "uid": "p"}, "spec": {"volumes": volumes}}


def ask(case, plugin=None):
    """Return plugin, pod, snapshot, state and the answer of Filter."""
    plugin = plugin or VolumeBinding()
    view = build_snapshot(case)
    info = find_pod_info(case, view)
    status, state = run_pre_filter(plugin, info, view)
    assert status["code"] == "Success", status
    return plugin, info, view, state, run_filter(plugin, info, view, state)


offers = st.builds(
    Offer,
    st.integers(1, 4),
    st.none() | st.lists(st.sampled_from(ZONES), min_size=1, max_size=2).map(tuple),
    st.none() | st.integers(0, 3),
    st.booleans() | st.just(True),
)


def bind_naively(offers, sizes, zone):
    """Return claim -> volume on one node, with None for a claim without a volume."""
    taken, bound = set(), {}
    for number, size in sorted(enumerate(sizes), key=lambda pair: pair[1]):
        best = None
        for i, offer in enumerate(offers):
            reachable = offer.zones is None or zone in offer.zones
            if i in taken or offer.size < size or offer.holder not in (None, number):
                continue
            if offer.holder == number:
                best = i if reachable else None
                break
            if reachable and offer.available and (best is None or offers[best].size > offer.size):
                best = i
        if best is None:
            return None
        taken.add(best)
        bound[f"ns/c{number}"] = f"pv{best}"
    return bound


@given(st.lists(offers, max_size=6), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
def test_binding_equals_a_loop_over_volumes(found, sizes, data):
    zones = data.draw(st.lists(st.sampled_from((*ZONES, None)), min_size=1, max_size=5))
    case = {
        "nodes": [build_node(f"n{i}", zone) for i, zone in enumerate(zones)],
        "objects": [
            build_storage_class("local", "kubernetes.io/no-provisioner"),
            *(build_claim(f"c{i}", size) for i, size in enumerate(sizes)),
            *(build_volume(f"pv{i}", offer) for i, offer in enumerate(found)),
        ],
        "pod": build_pod(*(f"c{i}" for i in range(len(sizes)))),
    }
    plugin, info, view, state, statuses = ask(case)
    for name, zone in zip(view.nodes.names, _list_zones(view), strict=True):
        want = bind_naively(found, sizes, zone)
        assert (statuses[name]["code"] == "Success") == (want is not None)
        if want is not None:
            assert plugin.reservation(info, view, view.nodes.index[name], state).bindings == want


def _list_zones(view):
    return [found.metadata.labels.get("zone") for found in view.nodes.objects]


# -- provisioning -------------------------------------------------------------------------------------------------

THREE = [build_node("n0", "a"), build_node("n1", "b"), build_node("n2", None)]
DRIVER = {"kind": "CSIDriver", "metadata": {"name": "csi"}, "spec": {"storageCapacity": True}}
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"


def build_pool(name, capacity, zone, **fields):
    topology = {"matchLabels": {"zone": zone}}
    metadata = {"name": name, "namespace": "kube-system"}
    return {
        "kind": "CSIStorageCapacity",
        "metadata": metadata,
        "storageClassName": "fast",
        "nodeTopology": topology,
        "capacity": capacity,
        **fields,
    }


def get_reasons(statuses):
    return {name: status["reasons"] for name, status in statuses.items()}


def test_allowed_topologies():
    allowed = [{"matchLabelExpressions": [{"key": "zone", "values": ["b", "c"]}]}]
    objects = [build_storage_class("fast", "csi", allowedTopologies=allowed), build_claim("c0", 1, "fast")]
    plugin, info, view, state, statuses = ask({"nodes": THREE, "objects": objects, "pod": build_pod("c0")})
    assert get_reasons(statuses) == {"n0": [NO_VOLUME], "n1": [], "n2": [NO_VOLUME]}
    assert plugin.reservation(info, view, 1, state) == Reservation(provisions=("ns/c0",))
    facts = {name: _find_fact(plugin, info, view, state, name) for name in ("n0", "n2")}
    lack = "claim ns/c0 requests 1Gi, but no matching PersistentVolume of class fast is available"
    text = f"{lack}, and the class provisions only where"
    assert facts == {
        "n0": f"{text} zone in [b, c] (the node has a)",
        "n2": f"{text} zone in [b, c] (the node has no such label)",
    }


def test_capacity():
    pools = [build_pool("big", "9Gi", "a", maximumVolumeSize="2Gi"), build_pool("small", "5Gi", "b")]
    objects = [build_storage_class("fast", "csi"), DRIVER, *pools, build_claim("c0", 3, "fast")]
    plugin, info, view, state, statuses = ask({"nodes": THREE, "objects": objects, "pod": build_pod("c0")})
    assert get_reasons(statuses) == {"n0": [NO_SPACE], "n1": [], "n2": [NO_SPACE]}
    assert _find_fact(plugin, info, view, state, "n0") == (
        "claim ns/c0 requests 3Gi of class fast, but CSIStorageCapacity big has at most 2Gi"
    )
    assert _find_fact(plugin, info, view, state, "n2") == (
        "claim ns/c0 requests 3Gi of class fast, but no CSIStorageCapacity is known for the node"
    )


def test_capacity_scoring():
    """Two claims of 2Gi use 50 percent of one pool of 8Gi, not of two pools."""
    objects = [build_storage_class("fast", "csi"), DRIVER, build_pool("p0", "8Gi", "a"), build_pool("p1", "40Gi", "b")]
    objects += [build_claim("c0", 2, "fast"), build_claim("c1", 2, "fast")]
    case = {"nodes": THREE, "objects": objects, "pod": build_pod("c0", "c1")}
    plugin = VolumeBinding((UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0)))
    plugin, info, view, _, _ = ask(case, plugin)
    assert compute_scores(plugin, info, view, ["n0", "n1"])["scores"] == {"n0": 50, "n1": 90}
    without_claims = find_pod_info({"pod": build_pod()}, view)
    assert compute_scores(plugin, without_claims, view)["scores"] == {"n0": 0, "n1": 0, "n2": 0}


def test_selected_node():
    selected = build_claim("c0", 1, "fast", annotations={"volume.kubernetes.io/selected-node": "n1"})
    case = {"nodes": THREE, "objects": [build_storage_class("fast", "csi"), selected], "pod": build_pod("c0")}
    plugin, info, view, state, statuses = ask(case)
    assert get_reasons(statuses) == {"n0": [NO_VOLUME], "n1": [], "n2": [NO_VOLUME]}
    assert _find_fact(plugin, info, view, state, "n0") == "claim ns/c0 is being provisioned for node n1"


def _find_fact(plugin, info, view, state, name):
    """Return the fact behind the only rejection of a node, in words."""
    row = view.nodes.index[name]
    found = [r for r in plugin.filter(info, view, state, None) if r.mask[row]]
    assert len(found) == 1
    return describe_fact(found[0].fact(row))


# -- bound claims -------------------------------------------------------------------------------------------------


def bind_to(name, to, **metadata):
    """Return the document of the claim bound to a volume."""
    document = build_claim(name, 1, annotations={"pv.kubernetes.io/bind-completed": "yes"}, **metadata)
    return {**document, "spec": {**document["spec"], "volumeName": to}}


def test_first_faulty_bound_claim_decides():
    """Upstream stops at the first claim whose volume is missing or unreachable."""
    far = build_volume("far", Offer(1, ("b",), None, available=True))
    objects = [far, bind_to("c0", "far"), bind_to("c1", "gone")]
    plugin, info, view, state, statuses = ask({"nodes": THREE, "objects": objects, "pod": build_pod("c0", "c1")})
    missing = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    conflict = "node(s) didn't match PersistentVolume's node affinity"
    assert get_reasons(statuses) == {"n0": [conflict], "n1": [missing], "n2": [conflict]}
    assert _find_fact(plugin, info, view, state, "n0") == (
        "PersistentVolume far of claim ns/c0 needs zone=b, but the node has zone=a"
    )
    assert (
        _find_fact(plugin, info, view, state, "n1")
        == "claim ns/c1 is bound to PersistentVolume gone, which does not exist"
    )


NOT_EBS = "Invalid format for AWS volume (aws://x/disk-1)"


@pytest.mark.parametrize(
    ("handle", "code", "reason"),
    [
        ("vol-1", "UnschedulableAndUnresolvable", "node(s) didn't match PersistentVolume's node affinity"),
        (
            "aws://x/disk-1",
            "Error",
            f"could not translate pv: failed to translate Kubernetes ID to EBS Volume ID {NOT_EBS}",
        ),
    ],
)
def test_migrated_volumes(handle, code, reason):
    """On a node whose kubelet migrated EBS, the zone label of the volume becomes a topology of the driver, which the
    node lacks."""
    disk = {"kind": "PersistentVolume", "metadata": {"name": "disk", "labels": {"topology.kubernetes.io/zone": "a"}}}
    disk["spec"] = {"awsElasticBlockStore": {"volumeID": handle}}
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}
    csi_node = {"kind": "CSINode", "metadata": {"name": "n0", "annotations": annotations}, "spec": {"drivers": []}}
    view = build_snapshot({"nodes": THREE, "objects": [disk, csi_node, bind_to("c0", "disk")]})
    info = find_pod_info({"pod": build_pod("c0")}, view)
    plugin = VolumeBinding()
    _, state = run_pre_filter(plugin, info, view)
    (rejection,) = [r for r in plugin.filter(info, view, state, None) if r.mask.any()]
    assert rejection.mask.tolist() == [name == "n0" for name in view.nodes.names]
    assert (rejection.code, rejection.reason) == (code, reason)
    if rejection.fact:
        key = "topology.ebs.csi.aws.com/zone"
        text = f"PersistentVolume disk of claim ns/c0 needs {key}=a, but the node has no label {key}"
        assert describe_fact(rejection.fact(view.nodes.index["n0"])) == text
