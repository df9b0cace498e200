"""Check that secrets of a scheduler's configuration or a kubeconfig are never written or printed."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import kschedctl
from kschedctl.cli.main import main
from kschedctl.scheduler.configuration.secrets import REDACTED, redact_secrets
from kschedctl.sources.archive_file import read_archive, write_archive

SECRET = "aHVudGVyMg=="  # hunter2
CONFIGURATION: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "extenders": [
        {
            "urlPrefix": f"https://admin:{SECRET}@extender.example:8443/path?token={SECRET}#{SECRET}",
            "filterVerb": "filter",
            "weight": 1,
            "enableHTTPS": True,
            "tlsConfig": {"keyData": SECRET, "certData": SECRET, "caData": SECRET, "serverName": "extender.example"},
        }
    ],
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "pluginConfig": [
                {
                    "name": "LoadVariationRiskBalancing",
                    "args": {
                        "metricProvider": {"type": "Prometheus", "token": SECRET, "address": f"http://u:{SECRET}@prom"},
                        "credentials": {"user": SECRET, "attempts": 3, "pins": [1234]},
                    },
                },
                {
                    "name": "NodeAffinity",
                    "args": {
                        "addedAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {"matchExpressions": [{"key": "secret", "operator": "In", "values": ["token"]}]}
                                ]
                            }
                        }
                    },
                },
            ],
        }
    ],
}
NODE = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "c"}]},
}


def test_snapshot_has_no_secret_and_the_same_answers(tmp_path: Path) -> None:
    cluster = kschedctl.Cluster.from_objects([NODE, POD], config=CONFIGURATION)
    write_archive(cluster, str(tmp_path / "s"))
    with zipfile.ZipFile(tmp_path / "s") as file:
        assert not [name for name in file.namelist() if SECRET.encode() in file.read(name)]
    again = read_archive(str(tmp_path / "s"))
    assert kschedctl.explain(again, "default/p").to_dict() == kschedctl.explain(cluster, "default/p").to_dict()


def test_other_values_stay() -> None:
    made = redact_secrets(CONFIGURATION)
    extender, (plugin, affinity) = made["extenders"][0], made["profiles"][0]["pluginConfig"]
    assert extender["urlPrefix"] == "https://extender.example:8443/path"
    assert extender["tlsConfig"]["serverName"] == "extender.example"
    assert plugin["args"]["metricProvider"] == {"type": "Prometheus", "token": REDACTED, "address": "http://prom"}
    assert plugin["args"]["credentials"] == {"user": REDACTED, "attempts": REDACTED, "pins": [REDACTED]}
    assert affinity == CONFIGURATION["profiles"][0]["pluginConfig"][1]
    assert redact_secrets({"passwords": None, "keyData": "", "token": False}) == {
        "passwords": None,
        "keyData": "",
        "token": False,
    }


@pytest.mark.parametrize(
    "value",
    [
        "Bearer abc",
        "Authorization: Basic YTpi",
        "-----BEGIN RSA PRIVATE KEY-----",
        "eyJhbGciOiJIUzI1NiJ9.e30.x",
        "AKIAABCDEFGHIJKLMNOP",
        "--password=hunter2",
        "user=me password=hunter2",
        {"name": "API_TOKEN", "value": "hunter2"},
        {"cookie": "hunter2"},
        {"connectionString": "hunter2"},
    ],
)
def test_values_that_look_like_secrets_are_removed(value: Any) -> None:
    """The values are in the arguments of an unknown plugin."""
    made = redact_secrets({"name": "Acme", "args": {"extra": [value, "plain text", "zone=a"]}})
    assert REDACTED in str(made["args"]["extra"][0])
    assert made["args"]["extra"][1:] == ["plain text", "zone=a"]
    assert "hunter2" not in str(made)


@pytest.mark.parametrize("change", [{}, {"kind": "Other"}, {"kind": ""}, {"extenders": {"keyData": SECRET}}])
@pytest.mark.parametrize(
    "command",
    [
        ["config", "view", "c.yaml"],
        ["config", "view", "c.yaml", "-o", "json"],
        ["config", "check", "c.yaml"],
        ["explain", "p", "-f", "objects.json", "--config", "c.yaml", "-o", "json", "-vv"],
        ["simulate", "--with-cluster", "objects.json", "-f", "pod.json", "--config", "c.yaml", "-o", "json"],
        ["snapshot", "save", "-f", "objects.json", "--config", "c.yaml", "-o", "-"],
    ],
)
def test_no_command_prints_a_secret(
    command: list[str],
    change: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text(yaml.safe_dump({**CONFIGURATION, **change}))
    (tmp_path / "objects.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [NODE, POD]}))
    (tmp_path / "pod.json").write_text(json.dumps(POD))
    main(command)
    out, err = capfdbinary.readouterr()
    assert out or err
    assert SECRET.encode() not in out + err


BROKEN_KUBECONFIGS = {
    "YAML that breaks beside a token": f"current-context: a\nusers:\n- name: me\n  user: {{token: {SECRET}: x\n",
    "a list instead of a token": f"current-context: a\nusers:\n- name: me\n  user: {{token: [{SECRET}]\n",
    "a tab": f"current-context: a\nusers:\n\t- token: {SECRET}\n",
}


@pytest.mark.parametrize("case", BROKEN_KUBECONFIGS)
def test_invalid_kubeconfig_is_not_quoted(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config").write_text(BROKEN_KUBECONFIGS[case])
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert main(["explain", "-A"]) in (2, 3)
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert SECRET not in err
