"""Check fixes for claims and volumes: apply each to the documents, read them again, and schedule the pod."""

from __future__ import annotations

import json
import shlex

import pytest
from applied import Json
from applied_changes import find_helping_remedies
from claim_documents import (
    DRIVER_WITH_POOLS,
    HOSTNAME,
    LOCAL,
    MANUAL,
    ZONE,
    build_claim,
    build_csi_node,
    build_csi_volume,
    build_node,
    build_pod,
    build_pod_volumes,
    build_pool,
    build_storage_class,
    build_volume,
)
from control_plane.validation import complete_volume, explain_rejected_creation

from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import explain
from kschedctl.commands.remedies import remedies
from kschedctl.fixes.search import RemedyCriteria
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.reports.remedy import Remedy, sort_incomplete_and_costly_fixes_last, sort_verified_fixes_first

CSI = build_storage_class("csi")
ON_N1 = {HOSTNAME: ["n1"]}
IN_B = {ZONE: ["b"]}
REGION = "topology.kubernetes.io/region"
ASKED = build_pod(**build_pod_volumes("data"))
LABELLED = build_volume("v", "manual", held_by="data")
LABELLED["metadata"]["labels"] = {ZONE: "b"}
GOING = build_claim(of="csi")
GOING["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
GOING_WITH_DATA = build_claim(of="csi", volume="v")
GOING_WITH_DATA["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
FORMER = build_volume("v", held_by="data", persistentVolumeReclaimPolicy="Delete")
FORMER["spec"]["claimRef"]["uid"] = "former"
FORMER["status"]["phase"] = "Released"
LOST = build_claim(of="csi", volume="gone")
LOST["status"]["phase"] = "Lost"
SELECTED = build_claim(of="csi")
SELECTED["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "gone"}
ONE_ZONE = build_storage_class("csi", allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["far"]}]}])
EPHEMERAL = {"volumeClaimTemplate": {"spec": build_claim(of="csi")["spec"]}}
SCRATCH = build_pod(volumes=[{"name": "scratch", "ephemeral": EPHEMERAL}])

OTHER_VOLUME = "Recreate claim d/data, so that it matches free volumes such as v"

CASES: dict[str, tuple[list[Json], dict[str, str]]] = {
    "no volume is there": (
        [build_node("n1"), LOCAL, build_claim()],
        {"CreateVolume": "Create PersistentVolume data-volume (10Gi) for claim d/data"},
    ),
    "the others of the class are reached by a label": (
        [build_node("n1"), LOCAL, build_claim(), build_volume("v", on={HOSTNAME: ["n2"]})],
        {"CreateVolume": "Create PersistentVolume data-volume (10Gi, for nodes with kubernetes.io/hostname=n1) for"},
    ),
    "the volume is too small": (
        [build_node("n1"), LOCAL, build_claim(size="500Gi"), build_volume("v", on=ON_N1)],
        {"OtherVolume": f"{OTHER_VOLUME}: 10Gi instead of 500Gi"},
    ),
    "the volume is for another way of access": (
        [build_node("n1"), LOCAL, build_claim(accessModes=["ReadWriteMany"]), build_volume("v")],
        {"OtherVolume": "Recreate claim d/data, so that it matches free volumes such as v: ReadWriteOnce instead of"},
    ),
    "the volume is a block device": (
        [build_node("n1"), LOCAL, build_claim(), build_volume("v", volumeMode="Block")],
        {"OtherVolume": f"{OTHER_VOLUME}: volumeMode Block"},
    ),
    "the claim selects other volumes": (
        [build_node("n1"), LOCAL, build_claim(selector={"matchLabels": {"fast": "yes"}}), build_volume("v")],
        {
            "OtherVolume": "Recreate claim d/data, so that it matches free volumes such as v: no selector",
            "CreateVolume": "Create",
        },
    ),
    "the volume's claim is gone": (
        [build_node("n1"), LOCAL, build_claim(), build_volume("v", held_by="before")],
        {"ReleaseVolume": "Reserve volume v, whose claim d/before is gone, for claim d/data"},
    ),
    "another class makes volumes": (
        [build_node("n1"), LOCAL, CSI, build_claim()],
        {"OtherStorageClass": "Recreate claim d/data with class csi instead of local"},
    ),
    "a volume is to be bound by hand": (
        [build_node("n1"), MANUAL, build_claim(of="manual"), build_volume("v", "manual")],
        {"BindVolume": "Bind volume v to claim d/data", "CreateVolume": "Create"},
    ),
    "a volume is not made before the pod is there": (
        [build_node("n1"), build_storage_class("csi", mode="Immediate"), build_claim(of="csi")],
        {"WaitForFirstConsumer": "Recreate StorageClass csi with volumeBindingMode WaitForFirstConsumer"},
    ),
    "the class is misspelled": (
        [build_node("n1"), CSI, build_claim(of="csi-")],
        {
            "CorrectStorageClass": "Recreate claim d/data with class csi instead of csi-, which does not exist",
            "CreateStorageClass": "Create StorageClass csi-, like csi (provisioner csi.example.com, WaitForFirst",
        },
    ),
    "the pool is too small": (
        [build_node("n1"), CSI, DRIVER_WITH_POOLS, build_pool("p", "4Gi", "a"), build_claim(of="csi")],
        {
            "RaiseCapacity": (
                "Add capacity to the storage that CSIStorageCapacity kube-system/p of class csi describes: the claim "
                "needs 10Gi, but only 4Gi is available"
            ),
            "SmallerClaim": "Recreate claim d/data with 4Gi instead of 10Gi",
        },
    ),
    "the driver publishes a capacity of 0": (
        [build_node("n1"), CSI, DRIVER_WITH_POOLS, build_pool("p", "0", "a"), build_claim(of="csi")],
        {
            "IgnoreStorageCapacity": "Set storageCapacity: false in CSIDriver csi.example.com, which publishes a",
            "RaiseCapacity": (
                "Correct the capacity that csi.example.com publishes in CSIStorageCapacity kube-system/p of class csi"
            ),
        },
    ),
    "the driver publishes no capacity": (
        [build_node("n1"), build_csi_node("n1", 5), CSI, DRIVER_WITH_POOLS, build_claim(of="csi")],
        {"IgnoreStorageCapacity": "Set storageCapacity: false in CSIDriver csi.example.com, which publishes no"},
    ),
    "there is no pool for the zone": (
        [
            build_node("n1"),
            build_csi_node("n1", 5),
            CSI,
            DRIVER_WITH_POOLS,
            build_pool("p", "40Gi", "b"),
            build_claim(of="csi"),
        ],
        {
            "RaiseCapacity": (
                "Add storage of class csi for topology.kubernetes.io/zone=a: the claim needs 10Gi, but the driver "
                "publishes none"
            )
        },
    ),
    "volumes are made elsewhere": (
        [build_node("n1"), ONE_ZONE, build_claim(of="csi")],
        {"AllowTopology": "Recreate StorageClass csi, so that its volumes are also provisioned for"},
    ),
    "the volume is made for a node that is gone": (
        [build_node("n1"), CSI, SELECTED],
        {"ForgetSelectedNode": "Do not provision the volume of claim d/data for node gone"},
    ),
    "the volume is in another zone": (
        [build_node("n1"), CSI, build_claim(of="csi", volume="v"), build_csi_volume("v", "data", on=IN_B)],
        {"RemakeClaim": "Recreate claim d/data, so that its volume is found or provisioned where the pod can run"},
    ),
    "the volume's label is of another zone": (
        [build_node("n1"), MANUAL, build_claim(of="manual", volume="v"), LABELLED, build_volume("other", "manual")],
        {"OtherVolume": "Recreate claim d/data for volume other"},
    ),
    "the volume is not there": (
        [build_node("n1"), CSI, build_claim(of="csi", volume="gone")],
        {
            "CreateVolume": "Create PersistentVolume gone (10Gi) for claim d/data",
            "RemakeClaim": "Recreate claim d/data",
        },
    ),
    "the claim is not there": (
        [build_node("n1"), CSI, LOCAL, build_volume("v", size="3Gi"), build_claim("daten")],
        {"CreateClaim": "Create claim d/data of class csi (1Gi, or as much as the pod needs)"},
    ),
    "the claim is misspelled": (
        [build_node("n1"), CSI, build_claim("datas", of="csi")],
        {"CorrectClaim": "Use claim datas instead of data, which does not exist", "CreateClaim": "Create claim d/data"},
    ),
    "the claim is being deleted": (
        [build_node("n1"), CSI, GOING],
        {"RemakeClaim": "Recreate claim d/data, which is being"},
    ),
    "the claim is being deleted with its data": (
        [build_node("n1"), CSI, GOING_WITH_DATA, build_csi_volume("v", "data", persistentVolumeReclaimPolicy="Delete")],
        {"RemakeClaim": "Recreate claim d/data, which is being deleted"},
    ),
    "the claim's former volume is there": (
        [build_node("n1"), LOCAL, build_claim(), FORMER],
        {"ReleaseVolume": "Give claim d/data back volume v, which it had before it was recreated"},
    ),
    "the claim lost its volume": (
        [build_node("n1"), CSI, LOST],
        {"RemakeClaim": "Recreate claim d/data, whose volume is"},
    ),
}


def get_remedies_by_kind(documents: list[Json]) -> dict[str, Remedy]:
    """Return the first remedy of each kind."""
    report = find_helping_remedies(documents)
    return {remedy.kinds[0]: remedy for remedy in reversed(report.remedies)}


@pytest.mark.parametrize("name", CASES)
def test_fix_removes_the_cause(name: str) -> None:
    documents, wanted = CASES[name]
    by_kind = get_remedies_by_kind([*documents, ASKED])
    for kind, begin in wanted.items():
        assert by_kind[kind].summary.startswith(begin)


@pytest.mark.parametrize("is_placed", [False, True])
def test_node_of_another_pod_that_uses_the_claim_stays_selected(*, is_placed: bool) -> None:
    selected = build_claim(of="csi")
    selected["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "n1"}
    first = build_pod("first", "n1" if is_placed else "", **build_pod_volumes("data"))
    asked = build_pod(**build_pod_volumes("data"), nodeSelector={HOSTNAME: "n2"})
    kinds = {
        kind
        for fix in find_helping_remedies([build_node("n1"), build_node("n2"), CSI, selected, first, asked]).remedies
        for kind in fix.kinds
    }
    assert ("ForgetSelectedNode" in kinds) is not is_placed


def test_claim_for_a_free_volume() -> None:
    documents = [build_node("n1"), LOCAL, build_volume("v", size="3Gi"), ASKED]
    (remedy,) = find_helping_remedies(documents).remedies
    assert remedy.summary == "Create claim d/data of 3Gi, class local, for volume v"


@pytest.mark.parametrize(
    ("policy", "told", "first"),
    [
        ("Retain", "reclaim policy Retain", ()),
        (
            "Delete",
            "reclaim policy Delete, so set it to Retain first",
            ('kubectl patch pv v --type=merge -p \'{"spec": {"persistentVolumeReclaimPolicy": "Retain"}}\'',),
        ),
    ],
)
def test_abandoned_data_is_mentioned_and_kept(policy: str, told: str, first: tuple[str, ...]) -> None:
    documents, _ = CASES["the volume is in another zone"]
    documents = [*documents[:-1], build_csi_volume("v", "data", on=IN_B, persistentVolumeReclaimPolicy=policy), ASKED]
    (remedy,) = find_helping_remedies(documents).remedies
    assert remedy.weakens == f"the pod starts without the data of claim d/data, which stays on volume v ({told})"
    assert remedy.commands[:-1] == first
    assert get_recreation_patch(remedy.commands[-1])["spec"]["volumeName"] is None
    documents, _ = CASES["the volume's claim is gone"]
    gone = build_volume("v", held_by="before", persistentVolumeReclaimPolicy=policy)
    released = get_remedies_by_kind([*documents[:-1], gone, ASKED])["ReleaseVolume"]
    assert released.weakens == "the data of claim d/before on volume v are handed over and may be overwritten"
    assert released.commands[: len(first)] == first


def test_recreated_claim_gets_its_volume_back() -> None:
    """The volume is reserved for a claim of the same name with another UID."""
    documents, _ = CASES["the claim's former volume is there"]
    first = find_helping_remedies([*documents, ASKED]).remedies[0]
    assert (first.kinds, first.weakens) == (("ReleaseVolume",), None)


def test_terminating_claim_keeps_its_volume() -> None:
    """First the volume is retained, then the claim is recreated for it, then the former claim's UID is removed from the
    volume."""
    documents, _ = CASES["the claim is being deleted with its data"]
    (keeps, gives_up) = (each for each in find_helping_remedies([*documents, ASKED]).remedies)
    assert keeps.summary == "Recreate claim d/data, which is being deleted, for volume v, which holds its data"
    assert keeps.weakens is None
    retained, recreated, freed = keeps.commands
    assert json.loads(shlex.split(retained)[-1]) == {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}
    assert recreated.endswith("kubectl replace --force -f -")
    assert json.loads(shlex.split(freed)[-1]) == {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}}
    assert gives_up.weakens is not None
    assert "stays on volume v" in gives_up.weakens


def test_claim_of_a_stateful_set_is_not_recreated_by_hand() -> None:
    """Its claim d/data-db-0 is created from its template whenever it is missing."""
    documents, _ = CASES["another class makes volumes"]
    one = [*documents[:-1], build_claim("data-db-0")]
    owner = {"kind": "StatefulSet", "name": "db"}
    theirs = build_pod("db-0", owner=owner, **build_pod_volumes("data-db-0"))
    report = remedies(Cluster.from_objects([*one, theirs]), "d/db-0", RemedyCriteria(1))
    assert "OtherStorageClass" not in {kind for each in report.remedies for kind in each.kinds}
    bare = remedies(
        Cluster.from_objects([*one, build_pod(**build_pod_volumes("data-db-0"))]), "d/asked", RemedyCriteria(1)
    )
    assert "OtherStorageClass" in {kind for each in bare.remedies for kind in each.kinds}


def test_class_is_only_created_if_its_name_is_no_misspelling() -> None:
    """The template of a StatefulSet's claims cannot be changed by recreating a claim."""
    owner = {"kind": "StatefulSet", "name": "db"}
    claim = build_claim("data-db-0", of="csi-")
    pod = build_pod(
        "db-0", owner=owner, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]
    )
    report = remedies(Cluster.from_objects([build_node("n1"), CSI, claim, pod]), "d/db-0")
    summary = report.remedies[0].summary
    assert summary.startswith("Create StorageClass csi-, unless this is a misspelling of csi, like csi (provisioner")
    assert report.remedies[0].costs[0].text == "if csi- is a misspelling, set storageClassName: csi instead"


def test_claim_of_an_ended_pod_is_protected() -> None:
    documents, _ = CASES["the volume is in another zone"]
    ended = build_pod("ended", "far", **build_pod_volumes("data"))
    ended["status"] = {"phase": "Succeeded"}
    assert not find_helping_remedies([*documents, build_node("far", "c"), ended, ASKED]).remedies


def test_claim_of_another_pod_is_unchanged() -> None:
    documents, _ = CASES["the volume is in another zone"]
    near = build_pod(nodeSelector={ZONE: "a"}, **build_pod_volumes("data"))
    assert {each.kinds for each in find_helping_remedies([*documents, near]).remedies} == {("RemakeClaim",)}
    other = [build_node("far", "b"), build_pod("other", "far", **build_pod_volumes("data"))]
    kinds = {kind for each in find_helping_remedies([*documents, near, *other]).remedies for kind in each.kinds}
    assert kinds == {"OtherSelector", "DropSelector"}


def test_two_claims_need_two_changes() -> None:
    documents = [
        build_node("n1"),
        LOCAL,
        build_claim("one"),
        build_claim("two"),
        build_pod(**build_pod_volumes("one", "two")),
    ]
    assert not find_helping_remedies(documents).remedies
    (remedy,) = find_helping_remedies(documents, 2).remedies
    assert remedy.kinds == ("CreateVolume", "CreateVolume")


def test_one_change_for_a_volume_that_two_plugins_reject() -> None:
    bound = build_csi_volume("v", "data", on=IN_B)
    bound["metadata"]["labels"] = {ZONE: "b"}
    report = find_helping_remedies([build_node("n1"), CSI, build_claim(of="csi", volume="v"), bound, ASKED])
    assert [remedy.kinds for remedy in report.remedies] == [("RemakeClaim",)]


# -- claims that are made for the pod --------------------------------------------------------------------------------


def test_claim_of_an_ephemeral_volume() -> None:
    (remedy,) = find_helping_remedies([build_node("n1"), CSI, SCRATCH]).remedies
    controller = "let the ephemeral volume controller of kube-controller-manager create claim d/asked-scratch"
    assert remedy.summary.lower() == controller
    assert remedy.commands == ()


def test_claim_of_the_same_name_with_another_owner() -> None:
    (remedy,) = find_helping_remedies([build_node("n1"), CSI, build_claim("asked-scratch", of="csi"), SCRATCH]).remedies
    assert remedy.commands == ("kubectl delete pvc -n d asked-scratch",)
    assert remedy.weakens == "claim d/asked-scratch is deleted"


# -- how ---------------------------------------------------------------------------------------------------------------


def test_immutable_objects_are_recreated() -> None:
    documents, _ = CASES["the volume is too small"]
    remedy = get_remedies_by_kind([*documents, ASKED])["OtherVolume"]
    assert remedy.by == "author"
    (command,) = remedy.commands
    assert get_recreation_patch(command) == {"spec": {"resources": {"requests": {"storage": "10Gi"}}}}


def get_recreation_patch(command: str) -> Json:
    """Return the patch with which the claim d/data is deleted and created again with its other fields."""
    words = shlex.split(command)
    assert words[:7] == ["kubectl", "patch", "pvc", "-n", "d", "data", "--type=merge"]
    assert words[9:] == ["--dry-run=client", "-o", "json", "|", "kubectl", "replace", "--force", "-f", "-"]
    found: Json = json.loads(words[8])
    return found


def test_names_are_quoted() -> None:
    """Objects in files can have any name."""
    name = "x'; reboot #"
    before = build_volume("v", held_by="before; reboot", persistentVolumeReclaimPolicy="Retain")
    documents = [build_node("n1"), LOCAL, build_claim(name), before, build_pod(**build_pod_volumes(name))]
    made = {remedy.kinds[0]: remedy.commands for remedy in find_helping_remedies(documents).remedies}
    assert made["CreateVolume"] == ()
    (release,) = made["ReleaseVolume"]
    *words, change = shlex.split(release)
    assert words == ["kubectl", "patch", "pv", "v", "--type=merge", "-p"]
    reserved = {"namespace": "d", "name": name, "uid": None, "resourceVersion": None}
    assert json.loads(change) == {"spec": {"claimRef": reserved}}


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ({"csi": {"driver": "csi.example.com", "volumeHandle": "vol-1"}}, "spec.csi.volumeHandle"),
        ({"local": {"path": "/mnt/disk"}}, "spec.local.path"),
        ({"nfs": {"server": "files", "path": "/exports"}}, "the volume source (spec.csi, spec.nfs, …)"),
    ],
)
def test_new_volume_is_a_manifest_to_complete(source: Json, field: str) -> None:
    """Only the user knows where the storage is. The manifest of the volume lacks this, and comes after other fixes."""
    documents = [build_node("n1"), LOCAL, CSI, build_claim(), build_volume("v", on={HOSTNAME: ["n2"]}, **source)]
    told = remedies(Cluster.from_objects([*documents, ASKED]), "d/asked").remedies
    assert [bool(remedy.needs_values) for remedy in told] == sorted(bool(remedy.needs_values) for remedy in told)
    assert told[0].kinds == ("OtherStorageClass",)
    (remedy,) = (remedy for remedy in told if remedy.kinds == ("CreateVolume",))
    assert remedy.commands == ()
    assert remedy.needs_values == (f"{field} of PersistentVolume data-volume",)
    assert remedy.weakens == f"not verified until you fill in {field} of PersistentVolume data-volume"
    (manifest,) = remedy.manifests
    assert explain_rejected_creation(manifest)
    assert not explain_rejected_creation(complete_volume(manifest))
    spec = manifest["spec"]
    assert isinstance(spec, dict)
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["n1"]}]}
    assert spec["nodeAffinity"] == {"required": {"nodeSelectorTerms": [term]}}


def test_terminating_claim_is_recreated_without_reading_it() -> None:
    """It may be gone before the commands run, and could then not be read."""
    documents = [build_node("n1"), CSI, build_volume("v", "csi", held_by="data"), GOING_WITH_DATA, ASKED]
    documents[2]["spec"]["claimRef"]["uid"] = GOING_WITH_DATA["metadata"].get("uid", "")
    commands = [
        command
        for remedy in remedies(Cluster.from_objects(documents), "d/asked").remedies
        for command in remedy.commands
    ]
    recreating = [command for command in commands if "replace --force" in command]
    assert recreating
    assert all(command.startswith("printf %s ") for command in recreating)


def test_smaller_fix_that_needs_a_value_comes_before_larger_ones() -> None:
    """A volume of the claim's own class is closer to the author's intent than two other changes."""

    def fix(*kinds: str, needs: tuple[str, ...] = ()) -> Remedy:
        return Remedy(
            summary="", by="operator", weakens=None, opens=(), commands=(), changes=(), kinds=kinds, needs_values=needs
        )

    volume, pair = fix("CreateVolume", needs=("spec.local.path",)), fix("Tolerate", "OtherSelector")
    larger, single = fix("Uncordon", "CreateVolume", needs=("spec.local.path",)), fix("OtherStorageClass")
    assert sort_incomplete_and_costly_fixes_last([pair, larger, volume]) == (volume, pair, larger)
    assert sort_incomplete_and_costly_fixes_last([volume, pair, single]) == (pair, single, volume)


def test_texts_show_verified_fixes_before_smaller_ones_that_need_a_value() -> None:
    def fix(*kinds: str, needs: tuple[str, ...] = (), holds: bool = True) -> Remedy:
        return Remedy("", "operator", None, (), (), (), kinds=kinds, needs_values=needs, holds=holds)

    volume = fix("CreateVolume", needs=("spec.local.path",))
    pair, single = fix("Tolerate", "OtherSelector"), fix("OtherStorageClass")
    insufficient = fix("Uncordon", holds=False)
    assert sort_verified_fixes_first([insufficient, volume, pair, single]) == (pair, single, volume, insufficient)


def test_explain_searches_until_a_fix_is_verified() -> None:
    """A new volume needs a value that only the user knows.

    A class that provisions volumes helps with a smaller claim.
    """
    documents = [build_node("n1"), LOCAL, CSI, DRIVER_WITH_POOLS, build_pool("p", "4Gi", "a"), build_claim(), ASKED]
    report = explain(Cluster.from_objects(documents), "d/asked", remedies=True)
    kinds = {remedy.kinds: remedy for remedy in report.remedies}
    assert kinds["CreateVolume",].needs_values
    assert not kinds["OtherStorageClass", "SmallerClaim"].needs_values
    assert "fix: Recreate claim d/data with class csi" in RENDERERS["brief"](report, Style(width=200))


@pytest.mark.parametrize("on", [None, ON_N1], ids=["any node", "one node"])
def test_node_directories_are_not_proposed_for_data(on: Json | None) -> None:
    other = build_volume("v", on=on)
    other["spec"].pop("local", None)
    other["spec"]["hostPath"] = {"path": "/data"}
    other["spec"]["claimRef"] = {"namespace": "d", "name": "another", "uid": "another"}
    report = remedies(
        Cluster.from_objects([build_node("n1"), LOCAL, build_claim(), other, ASKED]), "d/asked", RemedyCriteria(1)
    )
    remedy = next(each for each in report.remedies if each.kinds == ("CreateVolume",))
    warning = "a hostPath is a different directory on each node, so a pod that moves leaves its data behind"
    assert (warning in remedy.drawbacks) is (on is None)


def find_node_fixes(*objects: Json) -> list[str]:
    """Return the summaries of the fixes for pod asked that only add nodes."""
    report = remedies(Cluster.from_objects(list(objects)), "d/asked")
    summaries = [remedy.summary for remedy in report.remedies]
    return [summary for summary in summaries if summary.startswith("Add a node") and " and " not in summary]


def test_a_node_like_the_pool_that_the_pod_selects_is_added_in_the_zone_of_its_volume() -> None:
    """No node of pool db is in zone b, in which the volume is. A node of pool db in that zone takes the pod."""
    asked = build_pod(nodeSelector={"pool": "db"}, **build_pod_volumes("data"))
    claim, volume = build_claim(of="csi", volume="v"), build_volume("v", "csi", on=IN_B, held_by="data")
    nodes = [build_node("n1", "a", pool="db"), build_node("n2", "b", pool="general")]
    assert find_node_fixes(CSI, asked, claim, volume, *nodes) == ["Add a node like n1 (pool db) but in zone b"]

    # A volume cannot be used from a zone of another region
    far_nodes = [build_node("n1", "a", pool="db", **{REGION: "r1"}), build_node("n2", "b", **{REGION: "r2"})]
    assert find_node_fixes(CSI, asked, claim, volume, *far_nodes) == []

    # A full node of pool db in zone b is copied as it is
    full = build_pod("full", on="n3")
    full["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4"
    fixes = find_node_fixes(CSI, asked, claim, volume, *nodes, build_node("n3", "b", pool="db"), full)
    assert fixes == ["Add a node like n3 (pool db)"]
