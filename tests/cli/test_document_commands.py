"""Run the command lines of the README and the help topics, on the demo cluster if they name none."""

from __future__ import annotations

import io
import json
import shlex
import sys
from pathlib import Path

import pytest
from command_line import Run, build_pod
from documents import iter_command_lines
from golden_cases import iter_family_lines
from karpenter_cases import build_objects

ANSWERED = (0, 1)
SERVES = "kschedctl mcp"
"""Ends when it is stopped: it is driven by tests of its own."""
WITHOUT_CLUSTER = ("lint", "completion", "versions")
WEB = json.dumps(build_pod("web", namespace="shop"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    """Return a folder with the files that the lines name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(WEB.encode())))
    (tmp_path / "web.yaml").write_text(WEB)
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "web.yaml").write_text(WEB.replace("requests", "request"))  # a finding
    assert run("snapshot", "save", "--demo", "-o", "prod.ksnap").code == 0
    given = json.loads(iter_family_lines("autoscaling/disruption")[0])["input"]
    (tmp_path / "state.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": build_objects(given)})
    )
    (tmp_path / "types.json").write_text(json.dumps(given["instanceTypes"]))
    assert run("snapshot", "save", "-f", "state.json", "--assume-complete", "-o", "karpenter.ksnap").code == 0
    return tmp_path


def needs_cluster(words: list[str]) -> bool:
    return words[0] not in WITHOUT_CLUSTER and "--snapshot" not in words


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("line", [line for line in dict.fromkeys(iter_command_lines()) if not line.startswith(SERVES)])
def test_documented_command_runs(line: str, run: Run) -> None:
    words = shlex.split(line)[1:]
    answered = run(*words, *(["--demo"] if needs_cluster(words) else ()))
    assert answered.code in ANSWERED, answered.err
    assert answered.out or answered.err
