"""Check the volume plugins of older versions."""

from __future__ import annotations

import pytest
from plugin_cases import answer, build_snapshot, find_pod_info, run_pre_filter

from kschedctl.api.kube_version import KubeVersion
from kschedctl.scheduler.plugins.node_volume_limits.plugin import NodeVolumeLimits
from kschedctl.scheduler.plugins.volume_binding.plugin import VolumeBinding

FULL = "node(s) exceed max volume count"
LONG_DRIVER = "a-driver.with-a-name.too-long.to-be.a.resource"
LONG_RESOURCE = "attachable-volumes-csi-a-driver.with-a-name.tofb34223a36086d10"
"""The shortened driver name: its first 23 characters, and 16 of ``printf NAME | sha1sum``."""
COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}


def build_pod(name, *claims, on=""):
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": claim}} for i, claim in enumerate(claims)]
    spec = {"volumes": volumes, "nodeName": on}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": spec}


def build_bound_claim(name, **spec):
    """Build a claim and its volume."""
    metadata = {"name": name, "namespace": "ns", "annotations": COMPLETED}
    return [
        {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {"volumeName": name}},
        {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec},
    ]


def build_csi_claim(name, driver="csi"):
    return build_bound_claim(name, csi={"driver": driver, "volumeHandle": name})


def build_node(**allocatable):
    return {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": allocatable}}


def build_csi_node(limit):
    drivers = [{"name": "csi", "nodeID": "n", "allocatable": {"count": limit}}]
    return {"kind": "CSINode", "metadata": {"name": "n"}, "spec": {"drivers": drivers}}


def list_reasons(version, case):
    """Return the reasons of NodeVolumeLimits for the only node."""
    view = build_snapshot(case)
    plugin = NodeVolumeLimits(version=KubeVersion.parse(version))
    return answer(plugin, find_pod_info(case, view), view)["filter"]["n"]["reasons"]


@pytest.mark.parametrize(("version", "wanted"), [("1.30", [FULL]), ("1.31", [FULL]), ("1.32", []), ("1.36", [])])
def test_limits_of_csi_drivers_on_the_node_itself(version, wanted):
    objects = [*build_csi_claim("a"), *build_csi_claim("b")]
    case = {"objects": objects, "pods": [build_pod("p", "a", on="n")], "pod": build_pod("incoming", "b")}
    assert list_reasons(version, {**case, "nodes": [build_node(**{"attachable-volumes-csi-csi": "1"})]}) == wanted
    assert list_reasons(version, {**case, "nodes": [build_node(**{"attachable-volumes-csi-csi": "2"})]}) == []


def test_csi_node_takes_precedence_over_the_node():
    case = {"nodes": [build_node(**{"attachable-volumes-csi-csi": "0"})], "pod": build_pod("incoming", "a")}
    assert list_reasons("1.31", {**case, "objects": build_csi_claim("a")}) == [FULL]
    assert list_reasons("1.31", {**case, "objects": [*build_csi_claim("a"), build_csi_node(1)]}) == []


def test_driver_name_too_long_for_a_resource():
    case = {"objects": build_csi_claim("a", LONG_DRIVER), "pod": build_pod("incoming", "a")}
    assert list_reasons("1.31", {**case, "nodes": [build_node(**{LONG_RESOURCE: "0"})]}) == [FULL]
    assert list_reasons("1.31", {**case, "nodes": [build_node(**{f"attachable-volumes-csi-{LONG_DRIVER}": "0"})]}) == []


@pytest.mark.parametrize(("version", "wanted"), [("1.30", []), ("1.31", []), ("1.32", [FULL]), ("1.36", [FULL])])
def test_volumes_attached_for_no_pod(version, wanted):
    spec = {"attacher": "csi", "nodeName": "n", "source": {"persistentVolumeName": "a"}}
    attachment = {"kind": "VolumeAttachment", "metadata": {"name": "x"}, "spec": spec}
    case = {
        "nodes": [build_node()],
        "objects": [*build_csi_claim("a"), *build_csi_claim("b"), build_csi_node(1), attachment],
        "pod": build_pod("incoming", "b"),
    }
    assert list_reasons(version, case) == wanted


@pytest.mark.parametrize(("version", "code"), [("1.30", "Success"), ("1.31", "Skip")])
def test_ceph_images_could_be_migrated_once(version, code):
    incoming = build_pod("incoming")
    incoming["spec"]["volumes"] = [{"name": "v", "rbd": {"monitors": ["m"], "image": "i"}}]
    case = {"nodes": [build_node()], "pod": incoming}
    view = build_snapshot(case)
    status, _ = run_pre_filter(NodeVolumeLimits(version=KubeVersion.parse(version)), find_pod_info(case, view), view)
    assert status["code"] == code


# -- bound volumes that name hosts --------------------------------------------------------------------------------


def build_term(*hosts, operator="In", key="kubernetes.io/hostname"):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(hosts)}]}


def build_claim_on_hosts(name, *terms):
    return build_bound_claim(name, nodeAffinity={"required": {"nodeSelectorTerms": list(terms)}})


def list_eligible_nodes(version, objects, *claims):
    case = {"nodes": [build_node()], "objects": objects, "pod": build_pod("incoming", *claims)}
    view = build_snapshot(case)
    plugin = VolumeBinding(version=KubeVersion.parse(version))
    return run_pre_filter(plugin, find_pod_info(case, view), view)[0]["nodeNames"]


@pytest.mark.parametrize("version", ["1.30.0", "1.30.6", "1.31.0", "1.31.2"])
def test_host_names_restricted_the_nodes(version):
    assert list_eligible_nodes(version, build_claim_on_hosts("a", build_term("n1", "n2")), "a") == ["n1", "n2"]


@pytest.mark.parametrize("version", ["1.30.7", "1.30", "1.31.3", "1.31", "1.32.0", "1.36"])
def test_host_names_no_longer_restrict_the_nodes(version):
    assert list_eligible_nodes(version, build_claim_on_hosts("a", build_term("n1", "n2")), "a") is None


ZONE = build_term("z", key="topology.kubernetes.io/zone")


@pytest.mark.parametrize(
    ("objects", "wanted"),
    [
        pytest.param(
            [*build_claim_on_hosts("a", build_term("n1")), *build_claim_on_hosts("b", build_term("n2"))],
            [],
            id="hosts that exclude each other",
        ),
        pytest.param(
            [*build_claim_on_hosts("a", build_term("n1", "n2")), *build_claim_on_hosts("b", build_term("n2"))],
            ["n2"],
            id="hosts of both",
        ),
        pytest.param(
            [*build_claim_on_hosts("a", build_term("n1"), build_term("n3")), *build_claim_on_hosts("b")],
            ["n1", "n3"],
            id="terms add up",
        ),
        pytest.param(
            [*build_claim_on_hosts("a", build_term("n1"), ZONE), *build_claim_on_hosts("b", ZONE)],
            ["n1"],
            id="zones do not count",
        ),
        pytest.param(
            [*build_claim_on_hosts("a", build_term("n1", operator="NotIn")), *build_claim_on_hosts("b")],
            None,
            id="other operators",
        ),
        pytest.param(
            [*build_claim_on_hosts("a", build_term("n1")), build_claim_on_hosts("b")[0]],
            None,
            id="a volume that is not there",
        ),
    ],
)
def test_host_names_of_several_volumes(objects, wanted):
    assert list_eligible_nodes("1.31.2", objects, "a", "b") == wanted
