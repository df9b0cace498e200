"""Check the file that ``kschedctl instance-types`` derives from a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from command_line import Run

Json = dict[str, Any]
SIZES = {
    "capacity": {"cpu": "4", "memory": "16Gi", "pods": "58"},
    "allocatable": {"cpu": "3920m", "memory": "16Gi", "pods": "58"},
}
LABELS = {
    "node.kubernetes.io/instance-type": "m7g.xlarge",
    "kubernetes.io/arch": "arm64",
    "kubernetes.io/os": "linux",
    "karpenter.sh/capacity-type": "spot",
    "karpenter.k8s.aws/instance-family": "m7g",
    "karpenter.k8s.aws/ec2nodeclass": "default",
}


def build_node(name: str, zone: str) -> Json:
    labels = {**LABELS, "topology.kubernetes.io/zone": zone}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": SIZES}


CLAIM: Json = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodeClaim",
    "metadata": {"name": "next", "labels": {**LABELS, "node.kubernetes.io/instance-type": "c7g.large"}},
    "status": {**SIZES, "providerID": "aws:///c/i-1"},
}
POOL: Json = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "general"},
    "spec": {"template": {"spec": {"requirements": []}}},
}
REFUSED = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


def build_pod(family: str) -> Json:
    spec = {"containers": [{"name": "c"}], "nodeSelector": {"karpenter.k8s.aws/instance-family": family}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": family, "namespace": "d"},
        "spec": spec,
        "status": REFUSED,
    }


def write_cluster(tmp_path: Path, *objects: Json) -> str:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return str(path)


def test_types_of_nodes_and_claims(run: Run, tmp_path: Path) -> None:
    done = run(
        "instance-types",
        "-f",
        write_cluster(tmp_path, build_node("a", "z2"), build_node("b", "z1"), CLAIM),
        "--assume-complete",
    )
    assert done.code == 0
    assert "2 instance types; prices are unknown" in done.err
    claimed, seen = json.loads(done.out)
    assert (claimed["name"], seen["name"], seen["architecture"]) == ("c7g.large", "m7g.xlarge", "arm64")
    assert (seen["resources"], seen["overhead"]) == (SIZES["capacity"], {"cpu": "80m"})
    zones = [
        term["values"] for offering in seen["offerings"] for term in offering["Requirements"] if "zone" in term["key"]
    ]
    assert zones == [["z1"], ["z2"]]
    assert seen["requirements"] == [{"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m7g"]}]


def test_file_has_the_labels_of_the_nodes(run: Run, tmp_path: Path) -> None:
    """A family that a type has is a label that pods may select, although the pool does not name it."""
    cluster = write_cluster(tmp_path, build_node("a", "z1"), POOL, build_pod("m7g"), build_pod("c5"))
    (tmp_path / "types.json").write_text(run("instance-types", "-f", cluster, "--assume-complete").out)
    asked = ("provision", "-f", cluster, "--assume-complete", "-o", "json")
    alone = json.loads(run(*asked).out)
    of_file = json.loads(run(*asked, "--instance-types", str(tmp_path / "types.json")).out)
    assert [claim["pods"] for claim in of_file["newNodeClaims"] + of_file["existingNodes"]] == [["d/m7g"]]
    assert "no instance type" in of_file["podErrors"]["d/c5"]["error"]
    assert {**alone, "seenTypes": None, "undecided": False} == of_file


def test_error_if_no_types_are_known(run: Run, tmp_path: Path) -> None:
    done = run("instance-types", "-f", write_cluster(tmp_path, POOL), "--assume-complete")
    assert (done.code, done.out) == (2, "")
    assert "no node and no NodeClaim" in done.err


def test_unread_kinds_may_have_more_types(run: Run, tmp_path: Path) -> None:
    done = run("instance-types", "-f", write_cluster(tmp_path, build_node("a", "z1")))
    assert done.code == 5
    assert "NodeClaims were not read" in done.err
    assert len(json.loads(done.out)) == 1
