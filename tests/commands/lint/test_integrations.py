"""Check the pre-commit hook, the GitHub action and the settings' schema, as far as possible without a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from kschedctl.errors import InputError
from kschedctl.lint.engine import build_settings_schema, parse_settings

ROOT = Path(__file__).parents[3]
BAD = """\
kind: Pod
metadata: {name: a}
spec:
  nodeSelector: {beta.kubernetes.io/os: linux}
  containers: [{name: c, image: web, resources: {requests: {cpu: 1, memory: 1Gi}}}]
"""
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def run_shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a shell command in a folder."""
    arguments = ["bash", "-eo", "pipefail", "-c", command]
    return subprocess.run(
        arguments, cwd=folder, env=ENVIRONMENT | environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a manifest."""
    (tmp_path / "bad.yaml").write_text(BAD)
    (tmp_path / "good.yaml").write_text(BAD.replace("beta.", ""))
    return tmp_path


def test_pre_commit_hook(folder: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert {"id", "name", "entry", "language"} <= hook.keys()
    assert run_shell(f"{hook['entry']} good.yaml", folder).returncode == 0
    failed = run_shell(f"{hook['entry']} good.yaml bad.yaml", folder)
    assert failed.returncode == 1
    assert "lb-deprecated" in failed.stdout


def test_action_annotates_and_writes_sarif(folder: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert action["runs"]["using"] == "composite"
    step = action["runs"]["steps"][-1]
    assert all(f"inputs.{name.lower()} " in value for name, value in step["env"].items())
    done = run_shell(step["run"], folder, PATHS="bad.yaml good.yaml", ARGS="--fail-on warning", SARIF="out.sarif")
    assert done.returncode == 1
    assert done.stdout.startswith("::warning file=bad.yaml,line=4,")
    assert len(json.loads((folder / "out.sarif").read_text())["runs"][0]["results"]) == 1
    assert run_shell(step["run"], folder, PATHS="good.yaml", ARGS="", SARIF="").returncode == 0


def test_action_fails_if_files_cannot_be_read(folder: Path) -> None:
    step = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"][-1]
    assert run_shell(step["run"], folder, PATHS="none.yaml", ARGS="", SARIF="out.sarif").returncode not in (0, 1)


@pytest.mark.parametrize(
    ("document", "valid"),
    [
        ({}, True),
        ({"lint": {"select": ["ts-*"], "ignore": [], "fail-on": "note", "severity": {"ts-missing": "error"}}}, True),
        ({"lint": {"baseline": "known.json"}}, True),
        ({"lint": {"baseline": None}}, True),
        ({"lint": {"fail_on": "note"}}, False),
        ({"lint": {"fail-on": "never"}}, False),
        ({"lint": {"select": "ts-missing"}}, False),
        ({"lint": []}, False),
        ({"linting": {}}, False),
    ],
)
def test_schema_and_reader_agree(document: object, valid: bool) -> None:
    assert jsonschema.Draft202012Validator(build_settings_schema()).is_valid(document) == valid
    if valid:
        parse_settings(document, "settings")
    else:
        with pytest.raises(InputError):
            parse_settings(document, "settings")
