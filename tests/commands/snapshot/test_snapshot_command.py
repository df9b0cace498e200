"""Check kschedctl snapshot save, show and diff, and --snapshot with the other commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kschedctl.cli.main import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        return code, *capsys.readouterr()

    return run


def test_snapshot_is_saved_and_shown(run: Run) -> None:
    code, out, err = run("snapshot", "save", "--demo", "-o", "demo.snapshot")
    assert (code, err) == (0, "")
    assert out.startswith("demo.snapshot ")
    assert run("snapshot", "show", "demo.snapshot")[1] == out
    shown = json.loads(run("snapshot", "show", "demo.snapshot", "-o", "json")[1])
    assert (shown["kind"], shown["objects"]["Node"], shown["anonymized"]) == ("SnapshotReport", 12, False)


def test_kinds_that_few_clusters_have_are_counted(run: Run, tmp_path: Path) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    (tmp_path / "n.json").write_text(json.dumps(node))
    run("snapshot", "save", "-f", "n.json", "-o", "n.snapshot")
    out = " ".join(run("snapshot", "show", "n.snapshot")[1].split())
    assert "Not in the snapshot - Pod, " in out
    assert "kinds of custom resources (-o wide lists them): were not among the files" in out
    assert "RabbitmqCluster" not in out
    wide = run("snapshot", "show", "n.snapshot", "-o", "wide")[1]
    assert "RabbitmqCluster" in wide
    assert "-o wide" not in wide


def test_every_command_accepts_a_snapshot(run: Run) -> None:
    run("snapshot", "save", "--demo", "-o", "demo.snapshot")
    live, saved = (
        run("explain", "-A", "-o", "json", *source)[1] for source in (["--demo"], ["--snapshot", "demo.snapshot"])
    )
    groups = [json.loads(text)["groups"] for text in (live, saved)]
    for group in (*groups[0], *groups[1]):
        for aged in (group, *group["members"]):
            aged.pop("age")  # the demo stands still
    assert groups[0] == groups[1]


def test_manifest_on_a_snapshot(run: Run, tmp_path: Path) -> None:
    run("snapshot", "save", "--demo", "-o", "demo.snapshot")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "new"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    code, out, _ = run("explain", "-f", "pod.json", "--snapshot", "demo.snapshot", "-o", "json")
    document = json.loads(out)
    assert (code, document["pod"], document["verdict"]) == (0, "default/new", "Schedulable")
    assert len(document["nodeOrder"]) == 12


def test_pseudonyms_and_their_mapping_on_request(run: Run, tmp_path: Path) -> None:
    run("snapshot", "save", "--demo", "--anonymize", "-o", "a.snapshot")
    assert [file.name for file in tmp_path.iterdir()] == ["a.snapshot"]
    run("snapshot", "save", "--demo", "--anonymize", "-o", "a.snapshot", "--mapping", "names.json")
    names = json.loads((tmp_path / "names.json").read_text())
    assert "shop" in names.values()
    assert (tmp_path / "names.json").stat().st_mode & 0o077 == 0
    assert json.loads(run("snapshot", "show", "a.snapshot", "-o", "json")[1])["anonymized"] is True


def test_snapshots_are_compared(run: Run) -> None:
    run("snapshot", "save", "--demo", "-o", "a.snapshot")
    code, out, _ = run("snapshot", "diff", "a.snapshot", "a.snapshot")
    assert (code, out) == (0, "No difference that matters for scheduling\n")
    run("snapshot", "save", "--demo", "--kube-version", "1.33", "-o", "b.snapshot")
    code, out, _ = run("snapshot", "diff", "a.snapshot", "b.snapshot")
    assert code == 1
    assert "kube_version" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("snapshot", "show", "none"), "error: none: no such file or directory"),
        (("explain", "--snapshot", "none"), "error: none: no such file or directory"),
        (("explain", "--demo", "--snapshot", "none"), "error: --demo and --snapshot cannot be combined"),
        (("snapshot", "save", "--demo", "-o", "no/such/folder"), "error: no/such/folder: cannot be written"),
        (("snapshot", "save", "--demo"), "error: Missing option '-o' / '--output'"),
    ],
)
def test_mistakes_are_one_line_errors(arguments: tuple[str, ...], words: str, run: Run) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(words)
    assert err.count("\n") == 1
