"""EBSLimits and its like: the cases of upstream's own table (nodevolumelimits/non_csi_test.go, v1.31) for one sort of
disks, counted by hand, and what tells the sorts apart."""

from __future__ import annotations

import pytest
from plugin_cases import answer, build_snapshot, find_pod_info, run_pre_filter

from kschedctl.scheduler.framework.facts import describe_fact
from kschedctl.scheduler.plugins.node_volume_limits.non_csi_limits import (
    AzureDiskLimits,
    CinderLimits,
    EBSLimits,
    GCEPDLimits,
)
from kschedctl.snapshot.delta import NO_CHANGE

FULL = "node(s) exceed max volume count"
SOURCES = {
    EBSLimits: ("awsElasticBlockStore", "volumeID", "aws-ebs"),
    GCEPDLimits: ("gcePersistentDisk", "pdName", "gce-pd"),
    AzureDiskLimits: ("azureDisk", "diskName", "azure-disk"),
    CinderLimits: ("cinder", "volumeID", "cinder"),
}
DEFAULTS = {EBSLimits: 39, GCEPDLimits: 16, AzureDiskLimits: 16, CinderLimits: 256}
PLUGINS = [EBSLimits, GCEPDLimits, AzureDiskLimits, CinderLimits]
OF_EACH = pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)


def build_disk(name, plugin=EBSLimits):
    field, identity, _ = SOURCES[plugin]
    return {field: {identity: name}}


def build_claim_volume(name):
    return {"persistentVolumeClaim": {"claimName": name}}


def build_pod(name, *volumes, on=""):
    spec = {"volumes": [{"name": f"v{i}", **volume} for i, volume in enumerate(volumes)], "nodeName": on}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": spec}


def build_node(limit=None, plugin=EBSLimits, **labels):
    allocatable = {} if limit is None else {f"attachable-volumes-{SOURCES[plugin][2]}": str(limit)}
    return {"kind": "Node", "metadata": {"name": "n", "labels": labels}, "status": {"allocatable": allocatable}}


def build_claim(name, volume="", storage_class=None, **annotations):
    metadata = {"name": name, "namespace": "ns", "annotations": annotations}
    spec = {"volumeName": volume, "storageClassName": storage_class}
    return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def build_volume(name, source):
    return {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": source}


def build_storage_class(name, provisioner):
    return {"kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner}


OBJECTS = [
    *(build_claim(f"bound-{i}", f"disk-{i}") for i in range(3)),
    *(build_volume(f"disk-{i}", build_disk(f"id-{i}")) for i in range(3)),
    build_claim("of-gce", "disk-gce"),
    build_volume("disk-gce", build_disk("id-gce", GCEPDLimits)),
    build_storage_class("ebs", "kubernetes.io/aws-ebs"),
    build_storage_class("csi", "ebs.csi.aws.com"),
    build_claim("unbound-1", storage_class="ebs"),
    build_claim("unbound-2", storage_class="ebs"),
    build_claim("unbound-csi", storage_class="csi"),
    build_claim("by-annotation", **{"volume.beta.kubernetes.io/storage-class": "ebs"}),
    build_claim("lost", "gone", "ebs"),
    build_claim("owner-v0"),
]


def get_status(plugin, incoming, existing=(), shown=None, objects=OBJECTS):
    """Return the code and reasons for the only node, or ``Skip`` if the plugin is skipped."""
    pods = [build_pod(f"p{i}", *volumes, on="n") for i, volumes in enumerate(existing)]
    case = {"nodes": [shown or build_node()], "objects": objects, "pods": pods, "pod": build_pod("incoming", *incoming)}
    view = build_snapshot(case)
    found = answer(plugin(), find_pod_info(case, view), view)
    if found["prefilter"]["skip"]:
        return "Skip"
    status = found["filter"]["n"]
    return [status["code"], *status["reasons"]]


FITS = ["Success"]
REFUSED = ["Unschedulable", FULL]


@pytest.mark.parametrize(
    ("limit", "incoming", "existing", "wanted"),
    [
        pytest.param(
            4, [build_disk("a")], [[build_disk("b"), build_disk("c")], [build_disk("d")]], FITS, id="room for one more"
        ),
        pytest.param(2, [build_disk("a")], [[build_disk("b"), build_disk("c")]], REFUSED, id="no room"),
        pytest.param(0, [build_disk("a")], [], REFUSED, id="a limit of none"),
        pytest.param(1, [build_disk("a"), build_disk("a")], [], FITS, id="twice in the pod"),
        pytest.param(2, [build_disk("a")], [[build_disk("a"), build_disk("b")]], FITS, id="already mounted"),
        pytest.param(
            1, [build_disk("a")], [[build_disk("a"), build_disk("b")]], REFUSED, id="over the limit before it comes"
        ),
        pytest.param(
            1,
            [build_disk("a")],
            [[build_disk("x", GCEPDLimits), build_claim_volume("of-gce")]],
            FITS,
            id="others' disks do not count",
        ),
        pytest.param(1, [build_disk("a")], [[build_claim_volume("bound-0")]], REFUSED, id="bound claims count"),
        pytest.param(1, [build_claim_volume("bound-0")], [[build_disk("id-0")]], FITS, id="a bound claim is its disk"),
        pytest.param(
            1,
            [build_claim_volume("of-gce")],
            [[build_disk("a"), build_disk("b")]],
            FITS,
            id="a pod with others' disks is not asked",
        ),
        pytest.param(1, [build_disk("a")], [[build_claim_volume("missing")]], FITS, id="a running pod's missing claim"),
        pytest.param(
            1, [build_disk("a")], [[build_claim_volume("lost")]], REFUSED, id="a missing volume counts by its class"
        ),
        pytest.param(
            1,
            [build_disk("a")],
            [[build_claim_volume("unbound-1")]],
            REFUSED,
            id="an unbound claim counts by its class",
        ),
        pytest.param(
            1, [build_claim_volume("unbound-1")], [[build_claim_volume("unbound-1")]], FITS, id="the same unbound claim"
        ),
        pytest.param(
            1,
            [build_claim_volume("unbound-1")],
            [[build_claim_volume("unbound-2")]],
            REFUSED,
            id="another unbound claim",
        ),
        pytest.param(1, [build_disk("a")], [[build_claim_volume("unbound-csi")]], FITS, id="a class of a CSI driver"),
        pytest.param(
            1,
            [build_disk("a")],
            [[build_claim_volume("by-annotation")]],
            FITS,
            id="a class by annotation is not looked at",
        ),
    ],
)
def test_disks_that_count(limit, incoming, existing, wanted):
    assert get_status(EBSLimits, incoming, existing, build_node(limit)) == wanted


@OF_EACH
def test_each_plugin_has_its_own_disks_and_limit(plugin):
    disks = [build_disk(str(i), plugin) for i in range(DEFAULTS[plugin])]
    assert get_status(plugin, [build_disk("a", plugin)], [disks[1:]]) == FITS
    assert get_status(plugin, [build_disk("a", plugin)], [disks]) == REFUSED
    assert get_status(plugin, [build_disk("a", plugin)], [disks[:3]], build_node(3, plugin)) == REFUSED
    other = next(each for each in PLUGINS if each is not plugin)
    assert get_status(plugin, [build_disk("a", other)], [disks]) == "Skip"


@pytest.mark.parametrize(
    ("labels", "limit"),
    [
        ({"node.kubernetes.io/instance-type": "m5.large"}, 25),
        ({"beta.kubernetes.io/instance-type": "c5d.large"}, 25),
        ({"node.kubernetes.io/instance-type": "t3.micro"}, 25),
        ({"node.kubernetes.io/instance-type": "xz1d"}, 25),
        ({"node.kubernetes.io/instance-type": "m4.large"}, 39),
        ({"node.kubernetes.io/instance-type": "xm5"}, 39),
    ],
)
def test_aws_machines_with_lower_limits(labels, limit):
    disks = [build_disk(str(i)) for i in range(limit)]
    assert get_status(EBSLimits, [build_disk("a")], [disks[1:]], build_node(**labels)) == FITS
    assert get_status(EBSLimits, [build_disk("a")], [disks], build_node(**labels)) == REFUSED


def test_node_with_a_csi_node_is_left_to_csi():
    csi_node = {"kind": "CSINode", "metadata": {"name": "n"}, "spec": {"drivers": []}}
    assert get_status(EBSLimits, [build_disk("a")], [], build_node(0), [*OBJECTS, csi_node]) == FITS


def test_claims_that_are_missing_or_not_the_pods_own():
    missing = 'looking up PVC ns/missing: persistentvolumeclaim "missing" not found'
    assert get_status(CinderLimits, [build_claim_volume("missing")]) == ["UnschedulableAndUnresolvable", missing]
    assert get_status(CinderLimits, [build_claim_volume("")]) == ["Error", "PersistentVolumeClaim had no name"]
    assert get_status(CinderLimits, [{"secret": {"secretName": "s"}}]) == "Skip"
    not_owner = "PVC ns/owner-v0 was not created for pod ns/owner (pod is not owner)"
    case = {"nodes": [build_node(9)], "objects": OBJECTS, "pods": [build_pod("owner", {"ephemeral": {}}, on="n")]}
    case["pod"] = build_pod("incoming", build_disk("a"))
    view = build_snapshot(case)
    found = answer(EBSLimits(), find_pod_info(case, view), view)
    assert found["filter"]["n"] == {"code": "Error", "reasons": [not_owner]}


def test_facts_of_a_rejection():
    case = {
        "nodes": [build_node(1)],
        "pods": [build_pod("p", build_disk("a"), on="n")],
        "pod": build_pod("incoming", build_disk("b"), build_disk("c")),
    }
    view = build_snapshot(case)
    info = find_pod_info(case, view)
    _, state = run_pre_filter(EBSLimits(), info, view)
    (rejection,) = EBSLimits().filter(info, view, state, NO_CHANGE)
    text = "the pod needs 2 more volumes of driver kubernetes.io/aws-ebs, but the node has 1 attached and a limit of 1"
    assert describe_fact(rejection.fact(0)) == text
