"""Check that a baseline recognizes its findings after they moved."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from kschedctl.cli.main import main

Run = Callable[..., tuple[int, dict[str, int], list[str]]]

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  nodeSelector: {beta.kubernetes.io/os: linux}
  containers:
  - {name: one, image: a}
  - {name: two, image: b}
"""
FOUND = ["lb-deprecated", "rq-missing-in-jobs", "rq-missing-in-jobs"]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return a function that lints a folder with ``a/pod.yaml`` and the baseline ``known.json``.

    It returns the exit code, the counts, and the rules and fields that are new.
    """
    (tmp_path / ".git").mkdir()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "pod.yaml").write_text(POD)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, dict[str, int], list[str]]:
        code = main(("lint", *arguments, "--profile", "all", "--fail-on", "note", "-o", "json"))
        report = json.loads(capsys.readouterr().out)
        new = [f"{finding['rule']} {finding['path']}" for finding in report["findings"]]
        return code, {"known": report["known"], "new": len(new)}, new

    assert main(("lint", "a/pod.yaml", "--profile", "all", "--write-baseline", "known.json")) == 0
    return run


NOTHING_NEW = (0, {"known": 3, "new": 0}, [])


def test_findings_of_a_renamed_file_are_recognized(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a").rename(tmp_path / "b")
    assert run("b/pod.yaml", "--baseline", "known.json") == NOTHING_NEW


def test_findings_of_a_moved_file_are_recognized(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path / "a")
    assert run("pod.yaml", "--baseline", "../known.json") == NOTHING_NEW


def test_findings_on_standard_input_are_recognized(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(POD.encode())))
    assert run("-", "--baseline", "known.json") == NOTHING_NEW


def test_findings_in_a_list_are_recognized(run: Run, tmp_path: Path) -> None:
    indented = "\n".join(f"  {line}" for line in POD.splitlines())
    (tmp_path / "list.yaml").write_text(f"kind: List\nitems:\n-\n{indented}\n")
    assert run("list.yaml", "--baseline", "known.json") == NOTHING_NEW


def test_only_the_inserted_container_is_new(run: Run, tmp_path: Path) -> None:
    inserted = POD.replace("  containers:\n", "  containers:\n  - {name: zero, image: z}\n")
    (tmp_path / "a" / "pod.yaml").write_text(inserted)
    code, counts, new = run("a/pod.yaml", "--baseline", "known.json")
    assert (code, counts) == (1, {"known": 3, "new": 1})
    assert new == ["rq-missing-in-jobs spec.containers[0]"]


def test_same_finding_in_another_object_is_new(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a" / "pod.yaml").write_text(POD.replace("name: web", "name: web2"))
    assert run("a/pod.yaml", "--baseline", "known.json")[1] == {"known": 0, "new": 3}


def test_each_entry_covers_one_finding(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a" / "copy.yaml").write_text(POD)
    assert run("a", "--baseline", "known.json")[1] == {"known": 3, "new": 3}


def test_older_baseline_is_read(run: Run, tmp_path: Path) -> None:
    """Its fingerprints consist of rule, file, object and path with indexes."""
    parts = "lb-deprecated", "a/pod.yaml", "Pod shop/web", "spec.nodeSelector[beta.kubernetes.io/os]"
    entry = {"fingerprint": hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16], "rule": parts[0]}
    old = {"apiVersion": "kschedctl.dev/v1", "kind": "LintBaseline", "findings": [entry]}
    (tmp_path / "old.json").write_text(json.dumps(old))
    code, counts, new = run("a/pod.yaml", "--baseline", "old.json")
    assert (code, counts) == (1, {"known": 1, "new": 2})
    assert [rule.split()[0] for rule in new] == ["rq-missing-in-jobs", "rq-missing-in-jobs"]
