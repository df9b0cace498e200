"""Fixtures and objects for tests that run command lines on small clusters in files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kschedctl.api.kinds import KINDS
from kschedctl.cli.main import main
from kschedctl.cluster import FIELDS
from kschedctl.commands import remedies
from kschedctl.commands.make_room.room import RoomCriteria
from kschedctl.fixes import search

Json = dict[str, Any]
NOTHING_ELSE: list[Json] = [
    {"apiVersion": KINDS[kind].versions[0], "kind": f"{kind}List", "items": []} for kind in FIELDS
]


class Outcome(NamedTuple):
    """The exit code and the output of a run of the program."""

    code: int
    out: str
    err: str

    @property
    def commands(self) -> list[str]:
        """Return the suggested commands."""
        return [line.strip() for line in self.out.splitlines() if line.lstrip().startswith("kschedctl ")]


Run = Callable[..., Outcome]
Write = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command line in this process."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*arguments: str) -> Outcome:
        code = main(arguments)
        return Outcome(code, *capsys.readouterr())

    return run


@contextmanager
def shorten_searches() -> Iterator[None]:
    """End each search for fixes and moves after the first trial: a command is accepted or not, whatever it finds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "MOST_TRIALS", 0)
        patch.setattr(remedies, "ROOM_CRITERIA", RoomCriteria(seconds=0))
        yield


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes objects as a List into a file and returns its path.

    If there are nodes among the objects, they are a complete cluster, unless ``whole`` is false.
    """

    def write(*objects: Json, name: str = "cluster.json", whole: bool = True) -> str:
        path = tmp_path / name
        whole = whole and any(each.get("kind") == "Node" for each in objects)
        items = [*objects, *(NOTHING_ELSE if whole else ())]
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        return str(path)

    return write


def build_node(name: str, cpu: str = "4", **spec: Any) -> Json:
    """Build a node with an amount of CPU and plenty of everything else."""
    allocatable = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def build_pod(name: str, cpu: str = "1", namespace: str = "default", uid: str = "", **spec: Any) -> Json:
    """Build a pod with one container, labelled app=<name>."""
    metadata = {"name": name, "namespace": namespace, "labels": {"app": name}} | ({"uid": uid} if uid else {})
    container = {"name": "c", "image": "registry.example.com/c:1", "resources": {"requests": {"cpu": cpu}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}
