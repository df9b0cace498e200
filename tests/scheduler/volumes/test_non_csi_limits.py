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


def disk(name, plugin=EBSLimits):
    field, identity, _ = SOURCES[plugin]
    return {field: {identity: name}}


def uses(name):
    return {"persistentVolumeClaim": {"claimName": name}}


def pod(name, *volumes, on=""):
    spec = {"volumes": [{"name": f"v{i}", **volume} for i, volume in enumerate(volumes)], "nodeName": on}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": spec}


def node(limit=None, plugin=EBSLimits, **labels):
    allocatable = {} if limit is None else {f"attachable-volumes-{SOURCES[plugin][2]}": str(limit)}
    return {"kind": "Node", "metadata": {"name": "n", "labels": labels}, "status": {"allocatable": allocatable}}


def claim(name, volume="", storage_class=None, **annotations):
    metadata = {"name": name, "namespace": "ns", "annotations": annotations}
    spec = {"volumeName": volume, "storageClassName": storage_class}
    return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def volume(name, source):
    return {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": source}


def storage_class(name, provisioner):
    return {"kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner}


OBJECTS = [
    *(claim(f"bound-{i}", f"disk-{i}") for i in range(3)),
    *(volume(f"disk-{i}", disk(f"id-{i}")) for i in range(3)),
    claim("of-gce", "disk-gce"),
    volume("disk-gce", disk("id-gce", GCEPDLimits)),
    storage_class("ebs", "kubernetes.io/aws-ebs"),
    storage_class("csi", "ebs.csi.aws.com"),
    claim("unbound-1", storage_class="ebs"),
    claim("unbound-2", storage_class="ebs"),
    claim("unbound-csi", storage_class="csi"),
    claim("by-annotation", **{"volume.beta.kubernetes.io/storage-class": "ebs"}),
    claim("lost", "gone", "ebs"),
    claim("owner-v0"),
]


def get_status(plugin, incoming, existing=(), shown=None, objects=OBJECTS):
    """Return the code and reasons for the only node, or ``Skip`` if the plugin is skipped."""
    pods = [pod(f"p{i}", *volumes, on="n") for i, volumes in enumerate(existing)]
    case = {"nodes": [shown or node()], "objects": objects, "pods": pods, "pod": pod("incoming", *incoming)}
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
        pytest.param(4, [disk("a")], [[disk("b"), disk("c")], [disk("d")]], FITS, id="room for one more"),
        pytest.param(2, [disk("a")], [[disk("b"), disk("c")]], REFUSED, id="no room"),
        pytest.param(0, [disk("a")], [], REFUSED, id="a limit of none"),
        pytest.param(1, [disk("a"), disk("a")], [], FITS, id="twice in the pod"),
        pytest.param(2, [disk("a")], [[disk("a"), disk("b")]], FITS, id="already mounted"),
        pytest.param(1, [disk("a")], [[disk("a"), disk("b")]], REFUSED, id="over the limit before it comes"),
        pytest.param(1, [disk("a")], [[disk("x", GCEPDLimits), uses("of-gce")]], FITS, id="others' disks do not count"),
        pytest.param(1, [disk("a")], [[uses("bound-0")]], REFUSED, id="bound claims count"),
        pytest.param(1, [uses("bound-0")], [[disk("id-0")]], FITS, id="a bound claim is its disk"),
        pytest.param(1, [uses("of-gce")], [[disk("a"), disk("b")]], FITS, id="a pod with others' disks is not asked"),
        pytest.param(1, [disk("a")], [[uses("missing")]], FITS, id="a running pod's missing claim"),
        pytest.param(1, [disk("a")], [[uses("lost")]], REFUSED, id="a missing volume counts by its class"),
        pytest.param(1, [disk("a")], [[uses("unbound-1")]], REFUSED, id="an unbound claim counts by its class"),
        pytest.param(1, [uses("unbound-1")], [[uses("unbound-1")]], FITS, id="the same unbound claim"),
        pytest.param(1, [uses("unbound-1")], [[uses("unbound-2")]], REFUSED, id="another unbound claim"),
        pytest.param(1, [disk("a")], [[uses("unbound-csi")]], FITS, id="a class of a CSI driver"),
        pytest.param(1, [disk("a")], [[uses("by-annotation")]], FITS, id="a class by annotation is not looked at"),
    ],
)
def test_disks_that_count(limit, incoming, existing, wanted):
    assert get_status(EBSLimits, incoming, existing, node(limit)) == wanted


@OF_EACH
def test_each_plugin_has_its_own_disks_and_limit(plugin):
    disks = [disk(str(i), plugin) for i in range(DEFAULTS[plugin])]
    assert get_status(plugin, [disk("a", plugin)], [disks[1:]]) == FITS
    assert get_status(plugin, [disk("a", plugin)], [disks]) == REFUSED
    assert get_status(plugin, [disk("a", plugin)], [disks[:3]], node(3, plugin)) == REFUSED
    other = next(each for each in PLUGINS if each is not plugin)
    assert get_status(plugin, [disk("a", other)], [disks]) == "Skip"


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
    disks = [disk(str(i)) for i in range(limit)]
    assert get_status(EBSLimits, [disk("a")], [disks[1:]], node(**labels)) == FITS
    assert get_status(EBSLimits, [disk("a")], [disks], node(**labels)) == REFUSED


def test_node_with_a_csi_node_is_left_to_csi():
    csi_node = {"kind": "CSINode", "metadata": {"name": "n"}, "spec": {"drivers": []}}
    assert get_status(EBSLimits, [disk("a")], [], node(0), [*OBJECTS, csi_node]) == FITS


def test_claims_that_are_missing_or_not_the_pods_own():
    missing = 'looking up PVC ns/missing: persistentvolumeclaim "missing" not found'
    assert get_status(CinderLimits, [uses("missing")]) == ["UnschedulableAndUnresolvable", missing]
    assert get_status(CinderLimits, [uses("")]) == ["Error", "PersistentVolumeClaim had no name"]
    assert get_status(CinderLimits, [{"secret": {"secretName": "s"}}]) == "Skip"
    not_owner = "PVC ns/owner-v0 was not created for pod ns/owner (pod is not owner)"
    case = {"nodes": [node(9)], "objects": OBJECTS, "pods": [pod("owner", {"ephemeral": {}}, on="n")]}
    case["pod"] = pod("incoming", disk("a"))
    view = build_snapshot(case)
    found = answer(EBSLimits(), find_pod_info(case, view), view)
    assert found["filter"]["n"] == {"code": "Error", "reasons": [not_owner]}


def test_facts_of_a_rejection():
    case = {"nodes": [node(1)], "pods": [pod("p", disk("a"), on="n")], "pod": pod("incoming", disk("b"), disk("c"))}
    view = build_snapshot(case)
    info = find_pod_info(case, view)
    _, state = run_pre_filter(EBSLimits(), info, view)
    (rejection,) = EBSLimits().filter(info, view, state, NO_CHANGE)
    text = "the pod needs 2 more volumes of driver kubernetes.io/aws-ebs, but the node has 1 attached and a limit of 1"
    assert describe_fact(rejection.fact(0)) == text
