"""Check `remedies` for Workloads that wait in Kueue and for jobs that Kueue would not admit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kueue_objects import NODES, build_flavor, build_local_queue, build_manifest, build_queue, build_workload

from kschedctl.api.json_values import JsonObject
from kschedctl.cli.main import main

_QUEUES = (build_flavor("gpu"), build_queue(quota=2), build_local_queue())


def _find_remedies(
    path: Path, capsys: pytest.CaptureFixture[str], *words: str, objects: tuple[JsonObject, ...]
) -> tuple[int, Any]:
    """Return the exit code and the report of `remedies`."""
    file = path / "cluster.json"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ai", "uid": "ai"}}
    file.write_text(json.dumps({"kind": "List", "items": [*NODES, *_QUEUES, namespace, *objects]}))
    code = main(["remedies", "-f", str(file), "--assume-complete", "-o", "json", *words])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("words", [("-A",), ("workload/w", "-n", "ai")])
def test_waiting_workload_has_fixes(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    code, report = _find_remedies(tmp_path, capsys, *words, objects=(build_workload("w", gpus=4),))
    (entry,) = report["waitingElsewhere"]
    assert code == 1
    assert entry["fixes"][0]["summary"].startswith("Raise nominalQuota of nvidia.com/gpu in flavor gpu from 2 to 4")


def test_job_of_the_files_has_fixes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = _find_remedies(tmp_path, capsys, "job/train", "-n", "ai", objects=(build_manifest(gpus=4, pods=1),))
    (entry,) = report["waitingElsewhere"]
    assert code == 1
    assert entry["fixes"][0]["kinds"] == ["quota"]
