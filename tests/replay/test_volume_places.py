"""Check that answers name the zone to which a volume confines a pod, whichever command is asked."""

from __future__ import annotations

import pytest
from small import ZONE, Json, build_node, build_pod

from kschedctl.cluster import Cluster
from kschedctl.commands.capacity import capacity
from kschedctl.commands.drain import drain
from kschedctl.commands.explain.one_pod import explain
from kschedctl.commands.simulate import simulate
from kschedctl.commands.whatif import whatif
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS

CAUSE = "its volume can be used only from zone b (n2, n3), so room on other nodes does not help"
REASON = f"fits on none of the 3 nodes: 2 lack CPU, 1 is cordoned; {CAUSE}"
"""The reasons of the nodes come first, because the volume alone does not rule out n2 and n3."""


def build_objects(*values: str) -> list[Json]:
    """Build three nodes and a pod on n2 that fills its node. Its volume can be used only from the zones `values`."""
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": list(values)}]}
    affinity = {"required": {"nodeSelectorTerms": [term]}}
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {
            "claimRef": {"namespace": "d", "name": "c"},
            "nodeAffinity": affinity,
        },
        "status": {"phase": "Bound"},
    }
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "d", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "v"},
        "status": {"phase": "Bound"},
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    database = build_pod("db-0", "n2", "4", {"kind": "StatefulSet", "name": "db"}, volumes=volumes)
    nodes = [build_node("n1", "a", cpu="3"), build_node("n2", "b"), build_node("n3", "b", cpu="1")]
    return [*nodes, volume, claim, database]


def test_drain_names_the_zone_of_the_volume() -> None:
    report = drain(Cluster.from_objects(build_objects("b")), ["n2"])
    (group,) = report.unplaced
    assert group.cause == CAUSE
    assert REASON in RENDERERS["brief"](report, Style(width=500))
    assert REASON in [pods.why for pods in report.summary().pods]
    assert CAUSE in RENDERERS["table"](report, Style(width=200))


def test_scenario_names_the_zone_of_the_volume() -> None:
    report = whatif(Cluster.from_objects(build_objects("b")), {"steps": [{"drain": {"nodes": ["n2"]}}]})
    (change,) = report.changes
    assert change.cause == CAUSE
    assert REASON in RENDERERS["brief"](report, Style(width=500))
    assert CAUSE in RENDERERS["table"](report, Style(width=200))


def test_scenario_says_if_the_zone_has_no_node_left() -> None:
    report = whatif(Cluster.from_objects(build_objects("b")), {"steps": [{"fail": {"zone": "b"}}]})
    (change,) = report.changes
    assert change.cause == "its volume can be used only from zone b, where there is no node"


def test_simulation_names_the_zone_of_the_volume() -> None:
    objects = build_objects("b")
    objects[-1]["spec"]["nodeName"] = ""
    objects[1]["spec"]["unschedulable"] = True
    (group,) = simulate(Cluster.from_objects(objects), [], pending=True).pending
    assert group.cause == CAUSE


def test_volume_that_all_nodes_can_use_is_no_cause() -> None:
    (group,) = drain(Cluster.from_objects(build_objects("a", "b")), ["n2"]).unplaced
    assert group.cause == ""


def build_shared_claim(**annotations: str) -> list[Json]:
    """Build two nodes and two pods of a Deployment that share a claim; the first pod is on n1."""
    wait = {
        "kind": "StorageClass",
        "metadata": {"name": "wait"},
        "provisioner": "d.io",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "d", "annotations": annotations},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "wait"},
    }
    claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}
    owner = {"kind": "ReplicaSet", "name": "web"}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    running, waiting = (build_pod(name, node, "3", owner, volumes=volumes) for name, node in (("a", "n1"), ("b", "")))
    return [build_node("n1"), build_node("n2"), wait, claim, running, waiting]


def test_claim_provisioned_for_the_node_of_another_replica_is_the_cause() -> None:
    cluster = Cluster.from_objects(build_shared_claim(**{"volume.kubernetes.io/selected-node": "n1"}))
    (group,) = simulate(cluster, [], pending=True).pending
    assert group.cause == "claim d/c, which d/a also uses, is being provisioned for node n1, so other nodes do not help"
    advice = next(advice for advice in explain(cluster, "d/b").advice if advice.kind == "OwnClaims")
    assert advice.text == (
        "Claim d/c is shared with d/a and keeps the pod on n1: give each replica its own claim (volumeClaimTemplates "
        "of a StatefulSet), or use a volume that all nodes can use"
    )


def test_claim_that_no_other_replica_uses_needs_no_advice() -> None:
    *others, _, waiting = build_shared_claim(**{"volume.kubernetes.io/selected-node": "n1"})
    cluster = Cluster.from_objects([*others, build_pod("full", "n1", "4"), waiting])
    (group,) = simulate(cluster, [], pending=True).pending
    assert group.cause == "claim d/c is being provisioned for node n1, so other nodes do not help"
    assert all(advice.kind != "OwnClaims" for advice in explain(cluster, "d/b").advice)


def test_scenario_names_the_missing_storage_class() -> None:
    """The message only says that a claim is unbound."""
    _, _, _, claim, _, waiting = build_shared_claim()
    cluster = Cluster.from_objects([build_node("n1"), claim])
    report = whatif(cluster, {"steps": [{"apply": {"manifests": [waiting]}}]})
    (change,) = report.changes
    assert change.cause == "StorageClass wait does not exist, so claim d/c gets no volume"
    assert change.cause in RENDERERS["table"](report, Style(width=200))


def test_brief_form_says_how_to_see_all() -> None:
    cluster = Cluster.from_objects(build_objects("b"))
    for report in (drain(cluster, ["n2"]), whatif(cluster, {"steps": [{"drain": {"nodes": ["n2"]}}]})):
        brief = RENDERERS["brief"](report, Style(width=80, full_command="the same --all"))
        assert brief.splitlines()[-1] == "more: the same --all"


@pytest.mark.parametrize(
    ("source", "modes", "attach_required", "running", "is_shared"),
    [
        ({"csi": {"driver": "d.io", "volumeHandle": "h"}}, ["ReadWriteOnce"], None, "n1", True),
        ({"csi": {"driver": "d.io", "volumeHandle": "h"}}, ["ReadWriteOnce"], True, "n1", True),
        ({"csi": {"driver": "d.io", "volumeHandle": "h"}}, ["ReadWriteOnce"], False, "n1", False),
        ({"csi": {"driver": "d.io", "volumeHandle": "h"}}, ["ReadWriteOnce"], True, "n2", False),
        ({"csi": {"driver": "d.io", "volumeHandle": "h"}}, ["ReadWriteOnce", "ReadWriteMany"], True, "n1", False),
        ({"csi": {"driver": "d.io", "volumeHandle": "h"}}, ["ReadOnlyMany"], True, "n1", False),
        ({"hostPath": {"path": "/data"}}, ["ReadWriteOnce"], True, "n1", False),
    ],
)
def test_volume_attached_to_one_node_but_used_on_two(
    source: Json, modes: list[str], attach_required: bool | None, running: str, is_shared: bool
) -> None:
    """The new pod fits only on n2. kube-scheduler lets it go there, but the volume cannot follow to a second node."""
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {"accessModes": modes, "claimRef": {"namespace": "d", "name": "c"}, **source},
        "status": {"phase": "Bound"},
    }
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "d", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"accessModes": modes, "volumeName": "v"},
        "status": {"phase": "Bound"},
    }
    driver = {"kind": "CSIDriver", "metadata": {"name": "d.io"}, "spec": {"attachRequired": attach_required}}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    user = build_pod("user", running, "1", volumes=volumes)
    new = build_pod("new", cpu="3", volumes=volumes, nodeSelector={"kubernetes.io/hostname": "n2"})
    cluster = Cluster.from_objects([build_node("n1"), build_node("n2"), volume, claim, driver, user])
    sentence = (
        "PersistentVolumeClaim d/c can be attached to only one node at a time, but its pods are on n1, n2: "
        "only the pods on one of these nodes can start"
    )
    report = simulate(cluster, [new])
    assert (report.placed, report.volumes_on_several_nodes) == (1, (sentence,) if is_shared else ())
    fits = capacity(cluster, [new])
    assert fits.shapes[0].volumes_on_several_nodes == report.volumes_on_several_nodes
    for answer in (report, fits):
        for form in ("table", "brief"):
            assert (sentence in " ".join(RENDERERS[form](answer, Style(width=400)).split())) is is_shared
