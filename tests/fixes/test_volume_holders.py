"""Check fixes if other pods or a node's limit keep a volume from being attached."""

from __future__ import annotations

import pytest
from applied import Json
from applied_changes import find_helping_remedies
from claim_documents import (
    build_attachment,
    build_claim,
    build_csi_node,
    build_csi_volume,
    build_disk,
    build_node,
    build_pod,
    build_pod_volumes,
    build_storage_class,
)

DEPLOYED = {"kind": "ReplicaSet", "name": "web"}
SET = {"kind": "StatefulSet", "name": "db"}
EXCLUSIVE = build_claim("data", of="csi", volume="v", accessModes=["ReadWriteOncePod"])
FOR_ONE = build_csi_volume("v", "data")
FOR_ONE["spec"]["accessModes"] = ["ReadWriteOncePod"]
CSI = build_storage_class("csi")
ASKED = build_pod(**build_pod_volumes("data"))


def build_held_disk(owner: Json | None = None, name: str = "holder") -> list[Json]:
    """Build a node on which another pod holds the disk that the target pod needs."""
    return [build_node("n1"), build_pod(name, "n1", owner, **build_disk("vol-1")), build_pod(**build_disk("vol-1"))]


def build_node_at_limit(*others: Json, limit: int = 1) -> list[Json]:
    """Build a node to which the driver attaches no more volumes."""
    volumes = [build_csi_volume("v", "data"), build_csi_volume("w", "theirs")]
    claims = [build_claim("data", of="csi", volume="v"), build_claim("theirs", of="csi", volume="w")]
    return [build_node("n1"), build_csi_node("n1", limit), CSI, *volumes, *claims, ASKED, *others]


def test_pod_that_holds_the_disk_is_stopped() -> None:
    (remedy,) = (each for each in find_helping_remedies(build_held_disk()).remedies if each.kinds == ("StopPod",))
    assert remedy.summary == "Evict pod d/holder"
    assert remedy.weakens == "pod d/holder is not recreated, since it has no controller"
    (command,) = remedy.commands
    assert command.endswith(" | kubectl create --raw /api/v1/namespaces/d/pods/holder/eviction -f -")


def test_deployment_is_scaled_down() -> None:
    (remedy,) = (
        each for each in find_helping_remedies(build_held_disk(DEPLOYED)).remedies if each.kinds == ("ScaleDown",)
    )
    assert remedy.summary == "Scale ReplicaSet d/web down by one, which removes holder"
    assert remedy.commands[1] == "kubectl scale replicaset -n d web --replicas=0"


@pytest.mark.parametrize(("holder", "other", "helps"), [("db-1", "db-0", True), ("db-0", "db-1", False)])
def test_stateful_set_gives_up_its_last_replica(holder: str, other: str, helps: bool) -> None:
    found_kinds = [
        each.kinds
        for each in find_helping_remedies([*build_held_disk(SET, holder), build_pod(other, "far", SET)]).remedies
    ]
    assert (("ScaleDown",) in found_kinds) == helps


def test_budget_protects_the_pod() -> None:
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "d"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0},
    }
    assert [each.kinds for each in find_helping_remedies([*build_held_disk(), budget]).remedies] == [("AddNode",)]


def test_claim_for_one_pod_is_waited_for_or_given_up() -> None:
    """It is not deleted while a pod uses it, since it would stay Terminating and vanish with that pod."""
    documents = [build_node("n1"), CSI, EXCLUSIVE, FOR_ONE, build_pod("user", "n1", **build_pod_volumes("data")), ASKED]
    (stop,) = find_helping_remedies(documents).remedies
    assert (stop.kinds, stop.summary) == (("StopPod",), "Evict pod d/user")
    documents[-2]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    (wait,) = (each for each in find_helping_remedies(documents).remedies if each.kinds == ("Wait",))
    assert wait.summary == "Wait until 1 terminating pod leaves n1: d/user"
    assert wait.commands == ("kubectl wait -n d --for=delete pod/user --timeout=5m",)


def test_limit_is_raised_or_a_pod_stopped() -> None:
    report = find_helping_remedies(build_node_at_limit(build_pod("user", "n1", **build_pod_volumes("theirs"))))
    by_kind = {each.kinds[0]: each for each in report.remedies}
    assert set(by_kind) == {"RaiseVolumeLimit", "StopPod", "AddNode"}
    raised = by_kind["RaiseVolumeLimit"]
    assert raised.summary == "Let driver csi.example.com attach 2 volumes to node n1 instead of 1"
    assert by_kind["StopPod"].summary == "Evict pod d/user"


def test_volume_of_a_stopped_pod_is_detached() -> None:
    """Otherwise the volume would count as long as it is attached."""
    report = find_helping_remedies(
        build_node_at_limit(build_pod("user", "n1", **build_pod_volumes("theirs")), build_attachment("w", "n1"))
    )
    (stop,) = (each for each in report.remedies if each.kinds == ("StopPod",))
    gone = [(each["delete"]["kind"], each["delete"]["name"]) for each in stop.changes]
    assert gone == [("Pod", "user"), ("VolumeAttachment", "w-n1")]


def test_volume_that_another_pod_uses_stays_attached() -> None:
    users = [build_pod(name, "n1", **build_pod_volumes("theirs")) for name in ("one", "two")]
    documents = build_node_at_limit(*users, build_attachment("w", "n1"))
    assert {each.kinds[0] for each in find_helping_remedies(documents).remedies} == {"RaiseVolumeLimit", "AddNode"}
    (both,) = (each for each in find_helping_remedies(documents, 2).remedies if each.kinds == ("StopPod", "StopPod"))
    assert sum("delete" in each and each["delete"]["kind"] == "VolumeAttachment" for each in both.changes) == 1


def test_unused_volume_is_detached() -> None:
    report = find_helping_remedies(build_node_at_limit(build_attachment("w", "n1")))
    by_kind = {each.kinds[0]: each for each in report.remedies}
    assert by_kind["DetachVolume"].summary == "Detach volume w from node n1, where no pod uses it"
    assert by_kind["DetachVolume"].commands == ("kubectl delete volumeattachment w-n1",)


def test_pod_with_the_disk_is_moved() -> None:
    documents = [build_node("n1"), build_node("n2"), *build_held_disk(DEPLOYED)[1:], build_attachment("w", "n1")]
    documents[-2]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n1"}
    by_kind = {each.kinds[0]: each for each in find_helping_remedies(documents).remedies}
    assert by_kind["MovePod"].summary == "Move d/holder from n1 to n2"


def test_volume_of_a_moved_pod_is_detached() -> None:
    user = build_pod("user", "n1", DEPLOYED, **build_pod_volumes("theirs"))
    documents = [*build_node_at_limit(user, build_attachment("w", "n1")), build_node("n2"), build_csi_node("n2", 1)]
    asked = next(each for each in documents if each["metadata"]["name"] == "asked")
    asked["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n1"}
    (move,) = (each for each in find_helping_remedies(documents).remedies if each.kinds == ("MovePod",))
    assert [*move.changes[1]["delete"].values()] == ["VolumeAttachment", "", "w-n1"]
