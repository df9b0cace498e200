"""Check that an answer names the unread objects that a pod names, and lists unread kinds once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import small
from command_line import Run, Write

Json = dict[str, Any]


def write_documents(folder: Path, *objects: Json) -> str:
    """Write the objects as documents that are no list, so that others of their kinds may exist, and return the path."""
    path = folder / "objects.yaml"
    path.write_text("\n---\n".join(map(json.dumps, objects)))
    return str(path)


def build_claim_volumes(*claims: str) -> Json:
    """Build the field `volumes` of a pod spec that mounts these claims."""
    return {"volumes": [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]}


CLAIM: Json = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "read", "namespace": "d", "uid": "claim"},
    "spec": {"accessModes": ["ReadWriteMany"], "volumeName": "v", "resources": {"requests": {"storage": "1Gi"}}},
    "status": {"phase": "Bound"},
}
VOLUME: Json = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "v"},
    "spec": {
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": "1Gi"},
        "nfs": {"server": "s", "path": "/"},
        "claimRef": {"namespace": "d", "name": "read", "uid": "claim"},
    },
}


@pytest.mark.parametrize(
    ("claims", "named_objects", "sentence"),
    [
        (("read", "unread"), ["d/unread"], "PersistentVolumeClaim d/unread was not read"),
        (("a", "b"), ["d/a", "d/b"], "PersistentVolumeClaim d/a and d/b were not read"),
        (("read",), None, None),
    ],
)
def test_claims_of_the_pod_that_were_not_read_are_named(
    run: Run, tmp_path: Path, claims: tuple[str, ...], named_objects: list[str] | None, sentence: str | None
) -> None:
    pod = small.build_pod("p", **build_claim_volumes(*claims))
    files = write_documents(tmp_path, small.build_node("n1"), pod, CLAIM, VOLUME)
    entries = json.loads(run("explain", "d/p", "-f", files, "-o", "json").out)["unknown"]
    entry = next((entry for entry in entries if entry["kind"] == "PersistentVolumeClaim"), {})
    assert entry.get("namedObjects") == named_objects
    for question in (["explain", "d/p"], ["explain", "d/p", "--brief"], ["explain", "-A"]):
        page = " ".join(run(*question, "-f", files).out.split())
        if sentence is None:
            assert "was not read" not in page
        else:
            assert f"{sentence}; the files may lack" in page


def test_brief_answer_on_a_pod_with_unread_claims_is_not_certain(run: Run, write: Write, tmp_path: Path) -> None:
    files = write_documents(tmp_path, small.build_node("n1"), small.build_pod("p", **build_claim_volumes("data")))
    assert run("explain", "d/p", "-f", files, "--brief").out.startswith("d/p Schedulable on n1, but not certain\n")
    complete = write(small.build_node("n1"), small.build_pod("p"), name="complete.json")
    assert run("explain", "d/p", "-f", complete, "--brief").out.startswith("d/p Schedulable on n1\n")


def test_brief_list_of_pending_pods_names_unread_kinds_once(run: Run, tmp_path: Path) -> None:
    """The headline names the kinds that could change a verdict, and the caveats name the others."""
    files = write_documents(tmp_path, small.build_node("n1"), small.build_replica("p"), small.build_pod("q", cpu="9"))
    headline, *others = run("explain", "-A", "-f", files, "--brief").out.split("caveats: ")
    assert "may lack Nodes or Pods" in " ".join(headline.split())
    caveats = " ".join(" ".join(others).split())
    assert "Services" in caveats
    assert "Nodes" not in caveats
    assert "Pods" not in caveats
