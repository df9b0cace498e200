"""Check which workloads ``kschedctl topology`` reports, its first line and its exit codes."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from command_line import Run, Write, build_node, build_pod

from kschedctl.commands.audit.report import AnySection
from kschedctl.commands.schema import build_schema

ZONE = "topology.kubernetes.io/zone"
Json = dict[str, Any]


def build_zone_node(name: str, zone: str) -> Json:
    made = build_node(name)
    made["metadata"]["labels"][ZONE] = zone
    return made


def build_workload_pods(workload: str, namespace: str, *nodes: str) -> list[Json]:
    """Build the pods of a workload."""
    owner = {"kind": "StatefulSet", "name": workload, "apiVersion": "apps/v1", "uid": workload, "controller": True}
    made = [build_pod(f"{workload}-{i}", namespace=namespace, nodeName=name) for i, name in enumerate(nodes)]
    for each in made:
        each["metadata"]["ownerReferences"] = [owner]
    return made


OBJECTS = [
    build_zone_node("a1", "a"),
    build_zone_node("a2", "a"),
    build_zone_node("b1", "b"),
    *build_workload_pods("web", "shop", "a1", "a2"),
    *build_workload_pods("db", "data", "a1", "b1"),
]


def test_workload_in_one_zone(run: Run, write: Write) -> None:
    code, out, err = run("topology", "-f", write(*OBJECTS))
    assert (code, err) == (1, "")
    assert out.splitlines()[0] == "2 workloads with two or more pods; 1 has all its pods on one node or in one zone"
    assert "both pods are in zone a; taints and node selection also allow 1 other zone" in out
    assert "data/db" not in out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["db"], ["StatefulSet data/db"]),
        (["sts/web"], ["StatefulSet shop/web"]),
        (["shop/web", "db"], ["StatefulSet data/db", "StatefulSet shop/web"]),
        (["-n", "data"], ["StatefulSet data/db"]),
    ],
)
def test_given_workloads_are_shown_completely(
    run: Run, write: Write, arguments: list[str], expected: list[str]
) -> None:
    document = json.loads(run("topology", *arguments, "-f", write(*OBJECTS), "-o", "json").out)
    jsonschema.validate(document, build_schema(AnySection))
    assert [each["workload"] for each in document["placed"]] == expected
    assert document["keys"] == ["kubernetes.io/hostname", ZONE]


def test_custom_topology_key(run: Run, write: Write) -> None:
    assert '"rack"' in run("topology", "--key", "rack", "-f", write(*OBJECTS), "-o", "json").out


@pytest.mark.parametrize("arguments", [["deploy/web"], ["nope"], ["web", "-n", "data"], ["-n", "nowhere"]])
def test_missing_workload_is_an_error(run: Run, write: Write, arguments: list[str]) -> None:
    code, out, err = run("topology", *arguments, "-f", write(*OBJECTS))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "two pods on nodes" in err
