"""Check in-tree volumes as CSI volumes, by the rules of upstream's translation library (csi-translation-lib; v1.36)."""

from __future__ import annotations

import pytest

from kschedctl.api.objects import PersistentVolume, Volume
from kschedctl.cluster import convert_document
from kschedctl.scheduler.plugins.helper.csi_migration import (
    BY_NAME,
    TranslationError,
    find_in_tree_plugin,
    list_migrated_plugins,
    translate_affinity,
    translate_handle,
    translate_volume_handle,
)

GA, BETA = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
BETA_REGION, REGION = "failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"
EBS = "topology.ebs.csi.aws.com/zone"


def build_persistent_volume(source, labels=None, terms=None) -> PersistentVolume:
    spec = dict(source)
    if terms is not None:
        expressions = [[{"key": k, "operator": "In", "values": v} for k, v in term.items()] for term in terms]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": e} for e in expressions]}}
    document = {"kind": "PersistentVolume", "metadata": {"name": "pv", "labels": labels or {}}, "spec": spec}
    found = convert_document(document)
    assert isinstance(found, PersistentVolume)
    return found


@pytest.mark.parametrize(
    ("source", "labels", "handle"),
    [
        ({"awsElasticBlockStore": {"volumeID": "vol-02399794d890f9375"}}, {}, "vol-02399794d890f9375"),
        ({"awsElasticBlockStore": {"volumeID": "aws:///vol-02399794d890f9375"}}, {}, "vol-02399794d890f9375"),
        ({"awsElasticBlockStore": {"volumeID": "aws://us-west-2a/vol-02399794"}}, {}, "vol-02399794"),
        ({"gcePersistentDisk": {"pdName": "d"}}, {}, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        ({"gcePersistentDisk": {"pdName": "d"}}, {GA: "us-b1-a"}, "projects/UNSPECIFIED/zones/us-b1-a/disks/d"),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {GA: "other", BETA: "us-b1-a__us-b1-c"},
            "projects/UNSPECIFIED/regions/us-b1/disks/d",
        ),
        ({"azureDisk": {"diskURI": "/subscriptions/1/disks/d", "kind": "Managed"}}, {}, "/subscriptions/1/disks/d"),
        ({"cinder": {"volumeID": "v"}}, {}, "v"),
        ({"portworxVolume": {"volumeID": "v"}}, {}, "v"),
    ],
)
def test_handles(source, labels, handle):
    volume = build_persistent_volume(source, labels)
    plugin = find_in_tree_plugin(volume.spec)
    assert plugin is not None
    assert translate_volume_handle(volume, plugin) == handle


@pytest.mark.parametrize(
    ("source", "labels", "problem"),
    [
        (
            {"awsElasticBlockStore": {"volumeID": "aws://zone/disk"}},
            {},
            "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://zone/disk)",
        ),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {GA: "us-b1-a__eu-c1-a"},
            "failed to get region from zones: multiple or no regions gotten from zones, got: map[eu-c1:{} us-b1:{}]",
        ),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {GA: "here__there"},
            "failed to get region from zones: zone in unexpected format, expected: {locale}-{region}-{zone}, got: here",
        ),
        ({"azureDisk": {"diskURI": "d", "kind": "Dedicated"}}, {}, "kind(Dedicated) is not supported in csi migration"),
    ],
)
def test_volumes_without_an_equivalent(source, labels, problem):
    volume = build_persistent_volume(source, labels)
    plugin = find_in_tree_plugin(volume.spec)
    assert plugin is not None
    with pytest.raises(TranslationError) as error:
        translate_volume_handle(volume, plugin)
    assert str(error.value) == problem


@pytest.mark.parametrize(
    ("labels", "terms", "want"),
    [
        ({}, None, None),
        ({GA: "a"}, None, [{EBS: ["a"]}]),
        ({BETA: " b__a__"}, None, [{EBS: ["a", "b"]}]),
        ({GA: "a"}, [{GA: ["x"]}, {"disk": ["ssd"]}], [{EBS: ["x"]}, {"disk": ["ssd"]}]),
        ({GA: "a"}, [{"disk": ["ssd"]}], [{"disk": ["ssd"], EBS: ["a"]}]),
        ({}, [{BETA: ["x"], BETA_REGION: ["r"]}], [{EBS: ["x"], REGION: ["r"]}]),
        ({BETA: "a"}, [{BETA_REGION: ["r"]}], [{REGION: ["r"], EBS: ["a"]}]),
        ({}, [{GA: ["x"], BETA: ["y"], BETA_REGION: ["r"]}], [{EBS: ["x"], BETA: ["y"], BETA_REGION: ["r"]}]),
    ],
)
def test_topology(labels, terms, want):
    volume = build_persistent_volume({"awsElasticBlockStore": {"volumeID": "vol-1"}}, labels, terms)
    found = translate_affinity(volume, BY_NAME["kubernetes.io/aws-ebs"])
    got = None
    if found is not None and found.required is not None:
        got = [{r.key: list(r.values or ()) for r in t.match_expressions} for t in found.required.node_selector_terms]
    assert got == want


def test_azure_disks_keep_their_topology():
    volume = build_persistent_volume({"azureDisk": {"diskURI": "d"}}, {GA: "a"}, [{GA: ["a"]}])
    assert translate_affinity(volume, BY_NAME["kubernetes.io/azure-disk"]) == volume.spec.node_affinity


def test_sources_in_pods():
    pod = {
        "spec": {"volumes": [{"azureFile": {}}, {"vsphereVolume": {"volumePath": "x"}}, {"emptyDir": {}}, {"rbd": {}}]}
    }
    document = convert_document({"kind": "Pod", "metadata": {"name": "p"}, **pod})
    volumes: tuple[Volume, ...] = document.spec.volumes  # type: ignore[attr-defined]
    plugins = [find_in_tree_plugin(volume) for volume in volumes]
    assert [(p.name, p.enabled) if p else None for p in plugins] == [
        ("kubernetes.io/azure-file", False),
        ("kubernetes.io/vsphere-volume", False),
        None,
        None,
    ]
    assert translate_handle(build_persistent_volume({"cinder": {"volumeID": "v"}}).spec.cinder) == "v"


def test_migrated_plugins():
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd,kubernetes.io/cinder"}
    node = convert_document(
        {"kind": "CSINode", "metadata": {"name": "n", "annotations": annotations}, "spec": {"drivers": []}}
    )
    assert list_migrated_plugins(node) == {"kubernetes.io/gce-pd", "kubernetes.io/cinder"}  # type: ignore[arg-type]
    assert list_migrated_plugins(None) == frozenset()
