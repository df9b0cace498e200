"""Check VolumeRestrictions and NodeVolumeLimits under hypotheses about pods, and their facts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plugin_cases import build_snapshot, find_pod_info, run_filter, run_pre_filter

from kschedctl.scheduler.framework.facts import describe_fact
from kschedctl.scheduler.plugins.node_volume_limits.plugin import NodeVolumeLimits
from kschedctl.scheduler.plugins.volume_restrictions import VolumeRestrictions
from kschedctl.scheduler.plugins.volume_zone import VolumeZone
from kschedctl.snapshot.delta import NO_CHANGE, Delta

NODES = [{"kind": "Node", "metadata": {"name": name}} for name in ("n0", "n1", "n2")]
DISK = "node(s) had no available disk"
ONE_POD = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
FULL = "node(s) exceed max volume count"


def build_pod(name, *volumes, on="", namespace="ns"):
    named = [{"name": f"v{i}", **volume} for i, volume in enumerate(volumes)]
    spec = {"volumes": named, "nodeName": on}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": spec}


def build_claim_volume(name):
    return {"persistentVolumeClaim": {"claimName": name}}


def build_claim(name, mode="ReadWriteOnce", volume="", storage_class=None):
    spec = {"accessModes": [mode], "volumeName": volume, "storageClassName": storage_class}
    return {"kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "ns"}, "spec": spec}


def build_delta(view, *changes):
    """Build a delta of changes (node, name of a pod, +1 or -1)."""
    rows = [view.nodes.index[node] for node, _, _ in changes]
    kinds = [view.pods.info[view.pods.index[f"ns/{name}"]] for _, name, _ in changes]
    signs = [sign for _, _, sign in changes]
    return Delta(np.array(rows, np.int32), np.array(kinds, np.int32), np.array(signs, np.int64))


def list_rejections(plugin, case, *changes):
    """Return the reasons of each rejected node."""
    view = build_snapshot({"nodes": NODES, **case})
    info = find_pod_info(case, view)
    status, state = run_pre_filter(plugin, info, view)
    if status["skip"]:
        return "Skip"
    found = run_filter(plugin, info, view, state, build_delta(view, *changes) if changes else NO_CHANGE)
    return {name: status["reasons"] for name, status in found.items() if status["code"] != "Success"}


def get_facts(plugin, case):
    """Return the facts behind the rejections of each node, in words."""
    view = build_snapshot({"nodes": NODES, **case})
    info = find_pod_info(case, view)
    _, state = run_pre_filter(plugin, info, view)
    rejections = list(plugin.filter(info, view, state, NO_CHANGE))
    return {
        name: [describe_fact(r.fact(row)) for r in rejections if r.fact and r.mask[row]]
        for row, name in enumerate(view.nodes.names)
        if any(r.mask[row] for r in rejections)
    }


# -- VolumeRestrictions -------------------------------------------------------------------------------------------


def build_ebs_volume(name):
    return {"awsElasticBlockStore": {"volumeID": name}}


def build_gce_volume(name, read_only):
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def build_iscsi_volume(name, read_only):
    return {"iscsi": {"iqn": name, "readOnly": read_only}}


def build_rbd_volume(monitors, read_only, pool="p"):
    return {"rbd": {"monitors": monitors, "image": "i", "pool": pool, "readOnly": read_only}}


@pytest.mark.parametrize(
    ("mine", "other", "disk"),
    [
        (build_ebs_volume("x"), build_ebs_volume("x"), "EBS volume x"),
        (build_ebs_volume("x"), build_ebs_volume("y"), None),
        (build_gce_volume("x", True), build_gce_volume("x", True), None),
        (build_gce_volume("x", True), build_gce_volume("x", False), "GCE disk x"),
        (build_gce_volume("x", True), build_ebs_volume("x"), None),
        (build_iscsi_volume("x", False), build_iscsi_volume("x", True), "iSCSI target x"),
        (build_iscsi_volume("x", True), build_iscsi_volume("x", True), None),
        (build_rbd_volume(["a", "b"], False), build_rbd_volume(["b", "c"], True), "RBD image p/i"),
        (build_rbd_volume(["a"], False), build_rbd_volume(["b"], False), None),
        (build_rbd_volume(["a"], False), build_rbd_volume(["a"], False, "q"), None),
        (build_rbd_volume(["a"], True), build_rbd_volume(["a"], True), None),
    ],
)
def test_conflicting_disks(mine, other, disk):
    case = {"pods": [build_pod("holder", other, on="n1")], "pod": build_pod("incoming", mine)}
    assert list_rejections(VolumeRestrictions(), case) == ({"n1": [DISK]} if disk else {})
    assert get_facts(VolumeRestrictions(), case) == ({"n1": [f"{disk} is mounted by ns/holder"]} if disk else {})


def test_disk_is_free_once_all_its_pods_leave():
    pods = [
        build_pod("a", build_gce_volume("x", False), on="n0"),
        build_pod("b", build_gce_volume("x", True), on="n0"),
        build_pod("c", build_ebs_volume("x"), on="n2"),
    ]
    case = {"pods": pods, "pod": build_pod("incoming", build_gce_volume("x", True))}
    assert list_rejections(VolumeRestrictions(), case) == {"n0": [DISK]}
    assert list_rejections(VolumeRestrictions(), case, ("n0", "a", -1)) == {}
    assert list_rejections(VolumeRestrictions(), case, ("n0", "b", -1)) == {"n0": [DISK]}
    assert list_rejections(VolumeRestrictions(), case, ("n1", "a", 1)) == {"n0": [DISK], "n1": [DISK]}


def test_claim_for_one_pod_is_freed_by_its_user():
    pods = [
        build_pod("user", build_claim_volume("c"), on="n1"),
        build_pod("far", build_claim_volume("c"), on="n2", namespace="elsewhere"),
    ]
    case = {
        "objects": [build_claim("c", "ReadWriteOncePod")],
        "pods": pods,
        "pod": build_pod("incoming", build_claim_volume("c")),
    }
    everywhere = {node["metadata"]["name"]: [ONE_POD] for node in NODES}
    assert list_rejections(VolumeRestrictions(), case) == everywhere
    assert list_rejections(VolumeRestrictions(), case, ("n1", "user", -1)) == {"n0": [ONE_POD], "n2": [ONE_POD]}
    assert set(map(tuple, get_facts(VolumeRestrictions(), case).values())) == {
        ("claim ns/c is ReadWriteOncePod, and pod ns/user on node n1 already uses it",)
    }
    unused = {**case, "pods": pods[1:]}
    assert list_rejections(VolumeRestrictions(), unused) == "Skip"


# -- NodeVolumeLimits ---------------------------------------------------------------------------------------------


def build_csi_node(name, **limits):
    drivers = [{"name": driver, "nodeID": name, "allocatable": {"count": n}} for driver, n in limits.items()]
    return {"kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": drivers}}


def build_csi_volume(name, driver="csi"):
    spec = {"csi": {"driver": driver, "volumeHandle": f"handle-{name}"}}
    return {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def build_attachment(name, node):
    source = {"persistentVolumeName": name}
    spec = {"attacher": "csi", "nodeName": node, "source": source}
    return {"kind": "VolumeAttachment", "metadata": {"name": f"{name}-{node}"}, "spec": spec}


def build_volumes(*names):
    return [document for name in names for document in (build_csi_volume(name), build_claim(name, volume=name))]


def test_limits_count_each_volume_once():
    objects = [
        *build_volumes("a", "b", "c"),
        build_csi_node("n0", csi=2),
        build_csi_node("n1", csi=2),
        build_attachment("a", "n0"),
    ]
    pods = [
        build_pod("p0", build_claim_volume("a"), on="n0"),
        build_pod("p1", build_claim_volume("a"), build_claim_volume("b"), on="n0"),
        build_pod("p2", build_claim_volume("a"), on="n1"),
    ]
    case = {"objects": objects, "pods": pods, "pod": build_pod("incoming", build_claim_volume("c"))}
    assert list_rejections(NodeVolumeLimits(), case) == {"n0": [FULL]}
    assert get_facts(NodeVolumeLimits(), case) == {
        "n0": ["the pod needs 1 more volume of driver csi, but the node has 2 attached and a limit of 2"]
    }
    assert list_rejections(NodeVolumeLimits(), case, ("n0", "p0", -1)) == {"n0": [FULL]}
    assert list_rejections(NodeVolumeLimits(), case, ("n0", "p1", -1)) == {}
    assert list_rejections(NodeVolumeLimits(), case, ("n1", "p1", 1)) == {"n0": [FULL], "n1": [FULL]}
    shared = {**case, "pod": build_pod("incoming", build_claim_volume("b"))}
    assert list_rejections(NodeVolumeLimits(), shared) == {}


def test_unused_attachment_counts_even_for_the_same_volume():
    """Upstream subtracts a volume from the new ones only if a pod of the node uses it."""
    objects = [*build_volumes("a"), build_csi_node("n0", csi=1), build_attachment("a", "n0")]
    assert list_rejections(
        NodeVolumeLimits(), {"objects": objects, "pod": build_pod("incoming", build_claim_volume("a"))}
    ) == {"n0": [FULL]}


def test_pods_with_claims_of_other_owners_fail_the_node():
    ephemeral = build_pod("owner", {"ephemeral": {}}, on="n0")
    objects = [*build_volumes("a"), build_csi_node("n0", csi=1), build_csi_node("n1", csi=1), build_claim("owner-v0")]
    case = {"objects": objects, "pods": [ephemeral], "pod": build_pod("incoming", build_claim_volume("a"))}
    not_owner = "PVC ns/owner-v0 was not created for pod ns/owner (pod is not owner)"
    assert list_rejections(NodeVolumeLimits(), case) == {"n0": [not_owner]}
    assert list_rejections(NodeVolumeLimits(), case, ("n0", "owner", -1)) == {}


@given(st.data())
def test_limits_equal_a_loop_over_pods(data):
    """The limits under a delta for one node equal those of a loop with sets of volumes."""
    names = "abcde"
    some = st.lists(st.sampled_from(names), max_size=3)
    pods = [
        build_pod(f"p{i}", *map(build_claim_volume, used), on=data.draw(st.sampled_from(("n0", "n1", ""))))
        for i, used in enumerate(data.draw(st.lists(some, max_size=5)))
    ]
    wanted, limit = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2)), data.draw(st.integers(0, 4))
    attached = data.draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    objects = [
        *build_volumes(*names),
        build_csi_node("n0", csi=limit),
        *(build_attachment(name, "n0") for name in attached),
    ]
    changes = []
    here = [found["metadata"]["name"] for found in pods if found["spec"]["nodeName"] == "n0"]
    for found in pods:
        name = found["metadata"]["name"]
        if data.draw(st.booleans()):
            changes.append(("n0", name, -1 if name in here else 1))
    gone = {name for _, name, sign in changes if sign < 0}
    present = [p for p in pods if p["metadata"]["name"] in {*here, *(n for _, n, s in changes if s > 0)} - gone]
    used = {v["persistentVolumeClaim"]["claimName"] for p in present for v in p["spec"]["volumes"]}
    new = set(wanted) - used
    full = bool(new) and len(used | set(attached)) + len(new) > limit
    case = {"objects": objects, "pods": pods, "pod": build_pod("incoming", *map(build_claim_volume, wanted))}
    assert list_rejections(NodeVolumeLimits(), case, *changes) == ({"n0": [FULL]} if full else {})


# -- VolumeZone ---------------------------------------------------------------------------------------------------


def test_zone_facts():
    label = "failure-domain.beta.kubernetes.io/zone"
    zones = {"n0": {"topology.kubernetes.io/zone": "a"}, "n1": {label: "c"}, "n2": {}}
    nodes = [{"kind": "Node", "metadata": {"name": name, "labels": labels}} for name, labels in zones.items()]
    disk = {"kind": "PersistentVolume", "metadata": {"name": "disk", "labels": {label: "b__a"}}, "spec": {}}
    case = {
        "objects": [disk, build_claim("c", volume="disk")],
        "pod": build_pod("incoming", build_claim_volume("c")),
        "nodes": nodes,
    }
    text = f"PersistentVolume disk of claim ns/c is in {label}=a or b, but the node is in c"
    assert get_facts(VolumeZone(), case) == {"n1": [text]}
