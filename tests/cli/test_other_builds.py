"""Check that every command names plugins that are compiled into a scheduler and not replayed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Run, Write, build_node, build_pod

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: NetworkOverhead}]}
    permit: {enabled: [{name: Waiting}]}
  pluginConfig: [{name: NetworkOverhead, args: {permitWaitingTimeSeconds: 10}}]
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIGURATION)
    return str(path)


@pytest.mark.parametrize(
    "command",
    [
        ("explain", "p"),
        ("explain", "-A"),
        ("simulate", "-f", "MANIFEST"),
        ("capacity", "-f", "MANIFEST"),
        ("drain", "w1"),
        ("failures", "--nodes"),
        ("whatif", "SCENARIO"),
    ],
    ids=" ".join,
)
def test_every_command_names_plugins_that_are_not_replayed(
    run: Run, write: Write, config: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("steps:\n- cordon: {nodes: [w1]}\n")
    files = {
        "MANIFEST": write({"apiVersion": "v1", **build_pod("new", "1")}, name="pod.json"),
        "SCENARIO": str(scenario),
    }
    cluster = write(build_node("w1"), build_node("w2"), build_pod("p", "1"))
    words = (files.get(word, word) for word in command)
    code, out, err = run(*words, "-f", cluster, "--config", config, "-o", "json")
    assert code in (0, 1), err
    assert {"plugin NetworkOverhead", "plugin Waiting"} <= set(json.loads(out)["notReplayed"])


def test_error_of_a_registered_plugin_is_one_line(
    run: Run, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "gang-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gang\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kschedctl.plugins]\nNetworkOverhead = builtins:len\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "config.yaml").write_text(CONFIGURATION)
    cluster = write(build_node("w1"), build_pod("p", "1"))
    code, out, err = run("explain", "p", "-f", cluster, "--config", str(tmp_path / "config.yaml"))
    assert (code, out) == (2, "")
    assert err.startswith('error: plugin "NetworkOverhead" of package gang 1.0 cannot be loaded: TypeError: it never ')
    assert err.count("\n") == 1
    assert run("explain", "p", "-f", cluster).code == 0


def test_config_check_says_that_the_released_scheduler_lacks_them(run: Run, config: str, tmp_path: Path) -> None:
    code, out, _ = run("config", "check", config, "-o", "json")
    found = [f["message"] for f in json.loads(out)["findings"] if f["rule"] == "cfg-foreign-plugin"]
    assert (code, len(found)) == (1, 2)
    misspelled = tmp_path / "misspelled.yaml"
    misspelled.write_text(CONFIGURATION.replace("Waiting", "NodeResourceFit"))
    assert "did you mean NodeResourcesFit?" in run("config", "check", str(misspelled), "-o", "json").out
