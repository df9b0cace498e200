"""Check the first line of ``kschedctl packing``, how many nodes it tries, and its output forms."""

from __future__ import annotations

import json

import jsonschema
import pytest
from command_line import Run, Write, build_node, build_pod

from kschedctl.commands.schema import DOCUMENTS, build_schema


def build_owned_pod(name: str, node_name: str, cpu: str = "1") -> dict[str, object]:
    """Build a pod of a ReplicaSet."""
    found = build_pod(name, cpu, nodeName=node_name)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
    found["metadata"]["ownerReferences"] = [owner]
    return found


def test_answer_comes_first_and_counts_the_tried_nodes(run: Run, write: Write) -> None:
    file = write(*(build_node(f"n{i}") for i in range(3)), *(build_owned_pod(f"p{i}", f"n{i}") for i in range(3)))
    code, out, err = run("packing", "-f", file, "--nodes", "1")
    assert (code, err) == (0, "")
    first = out.splitlines()[0]
    assert first == "the only node checked can be removed (2 not tried); no free capacity is stranded"
    assert f"to try the others: kschedctl packing --nodes 0 -f {file}" in " ".join(out.split())
    assert "2 of 3 nodes checked" in run("packing", "-f", file, "--nodes", "0").out


def test_stranded_capacity_is_a_warning(run: Run, write: Write) -> None:
    """One of four CPUs is left, and no pod requests so little."""
    file = write(build_node("n1"), build_owned_pod("p", "n1", "3"))
    assert run("packing", "-f", file).code == 1
    assert run("packing", "-f", file, "--fail-on", "error").code == 0


@pytest.mark.parametrize("form", ["json", "yaml", "markdown", "wide", "sarif", "junit", "github"])
def test_forms(run: Run, form: str) -> None:
    code, out, err = run("packing", "--demo", "-o", form)
    assert (code, err) == (1, "")
    assert ("Pool gpu" if form == "markdown" else "audit-packing-stranded") in out
    if form == "json":
        document = json.loads(out)
        jsonschema.validate(document, build_schema(DOCUMENTS["audit-section"]))
        assert (document["kind"], document["name"]) == ("AuditSection", "packing")


def test_wrong_usage(run: Run) -> None:
    code, out, err = run("packing", "--demo", "--nodes", "-7")
    assert (code, out) == (2, "")
    assert "--nodes -7" in err


def test_suggested_command_uses_the_same_cluster(run: Run, write: Write) -> None:
    file = write(build_node("n1"), build_node("n2"), build_owned_pod("p", "n1"))
    assert f"  kschedctl drain n2 -f {file}" in run("packing", "-f", file).out.splitlines()
    assert file not in run("packing", "-f", file, "-o", "json").out
