"""Check ``kschedctl version`` without a cluster and for a snapshot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Run, Write, build_node

import kschedctl


def test_version_without_a_cluster(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    code, out, err = run("version")
    assert (code, out.splitlines()[0]) == (0, f"Client Version: {kschedctl.__version__}")
    assert err.startswith("note: the cluster's version is unknown: no kubeconfig was found (")
    code, out, err = run("version", "--context", "prod")
    assert (code, out) == (3, "")


def test_version_of_a_snapshot(run: Run, write: Write, tmp_path: Path) -> None:
    saved = str(tmp_path / "x.ksnap")
    run("snapshot", "save", "-f", write(build_node("n1")), "--kube-version", "1.34", "-o", saved)
    document = json.loads(run("version", "--snapshot", saved, "-o", "json").out)
    assert document["replays"][0] == "1.30"
    assert document["cluster"] == {"source": saved, "serverVersion": "", "kubeVersion": "1.34"}
