"""Check rules about NodePools with instance types of files and of a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kschedctl
from kschedctl.errors import InputError
from kschedctl.reports.findings import Findings

Json = dict[str, Any]
ARCH, TYPE, ZONE = "kubernetes.io/arch", "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"
CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def make_instance_type(name: str, arch: str, cpu: str, zone: str = "z1") -> Json:
    """Return an instance type in the form of kwok."""
    terms = [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in ((ZONE, zone), ("karpenter.sh/capacity-type", "spot"))
    ]
    size = {"cpu": cpu, "memory": "8Gi", "pods": "50"}
    offering = {"Price": 1.0, "Available": True, "Requirements": terms}
    shape = {"name": name, "architecture": arch, "operatingSystems": ["linux"], "resources": size}
    return {**shape, "offerings": [offering]}


TYPES = [make_instance_type("small", "amd64", "4"), make_instance_type("big", "amd64", "16")]


def make_pool(*requirements: Json, **spec: Any) -> Json:
    """Return the manifest of a NodePool."""
    template = {"spec": {"nodeClassRef": CLASS, "requirements": list(requirements)}}
    meta = {"name": "pool"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": meta,
        "spec": {"template": template, **spec},
    }


def make_requirement(key: str, *values: str, **more: Any) -> Json:
    """Return a requirement that a label has one of some values."""
    return {"key": key, "operator": "In" if values else "Exists", "values": list(values), **more}


def lint_pools(tmp_path: Path, *objects: Json, types: list[Json] | None) -> Findings:
    """Return the report about some NodePools."""
    file = tmp_path / "pools.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    return kschedctl.lint([file], select=["kp-*"], instance_types=types)


def list_messages(report: Findings) -> dict[str, str]:
    """Return the messages of a report by rule."""
    return {finding.rule: finding.message for finding in report.findings}


@pytest.mark.parametrize(
    ("made", "rule", "message"),
    [
        (
            make_pool(make_requirement(ARCH, "arm64"), make_requirement(TYPE, "small")),
            "kp-no-type",
            "none of 2 instance types meets all requirements of the pool; "
            f"without the requirement on {ARCH}, some would",
        ),
        (
            make_pool(make_requirement(TYPE, minValues=3)),
            "kp-min-values",
            f"{TYPE} has minValues 3, but the allowed instance types have 2 values",
        ),
        (
            make_pool(make_requirement(TYPE, "big"), limits={"cpu": "10"}),
            "kp-limit-below-node",
            "the cpu limit is 10, but the smallest node has 16",
        ),
    ],
)
def test_requirements_that_no_type_meets(tmp_path: Path, made: Json, rule: str, message: str) -> None:
    """Each finding needs the types. With others, the manifest would be possible."""
    assert list_messages(lint_pools(tmp_path, made, types=TYPES)) == {rule: message}
    assert list_messages(lint_pools(tmp_path, made, types=None)) == {}


def test_requirements_that_a_type_meets_are_no_findings(tmp_path: Path) -> None:
    made = make_pool(make_requirement(TYPE, minValues=2), make_requirement(ARCH, "amd64"), limits={"cpu": "4"})
    report = lint_pools(tmp_path, made, types=TYPES)
    assert (report.findings, report.unknown) == ((), ())


def test_answer_without_types_says_what_it_lacks(tmp_path: Path) -> None:
    unknown = lint_pools(tmp_path, make_pool(make_requirement(ARCH, "arm64")), types=None).unknown
    assert [(gap.kind, gap.affects) for gap in unknown] == [("InstanceType", "findings")]


def test_pools_of_a_cluster_are_linted() -> None:
    """Only zones in which their node class has subnets count."""
    status = {"subnets": [{"id": "s", "zone": "z2"}], "conditions": [{"type": "Ready", "status": "True"}]}
    node_class = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"}}
    cluster = kschedctl.Cluster.from_objects([make_pool(), {**node_class, "status": status}])
    report = kschedctl.lint(cluster=cluster, select=["kp-no-type"], instance_types=TYPES)
    assert list_messages(report) == {"kp-no-type": "none of 2 instance types meets all requirements of the pool"}
    elsewhere = [*TYPES, make_instance_type("there", "amd64", "4", "z2")]
    assert not kschedctl.lint(cluster=cluster, select=["kp-no-type"], instance_types=elsewhere).findings


def test_faulty_type_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="two instance types"):
        lint_pools(tmp_path, make_pool(), types=[TYPES[0], TYPES[0]])
