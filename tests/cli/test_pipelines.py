"""Run the scripts of the templates in ``ci/`` as CI does, with ``gh`` and ``pip`` replaced by recording stand-ins."""

from __future__ import annotations

import hashlib
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from packaging.requirements import Requirement

from kschedctl import demo
from kschedctl.sources.cluster import Cluster
from kschedctl.text.version import VERSION

CI = Path(__file__).parents[2] / ".ci"
POD = "kind: Pod\napiVersion: v1\nmetadata: {name: NAME, namespace: shop}\n"
SPEC = 'spec: {containers: [{name: c, image: web, resources: {requests: {cpu: "CPU"}}}]}\n'
GH = """\
#!{python}
import json, os, sys
with open("gh.jsonl", "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
if "--paginate" in sys.argv:
    print(os.environ.get("THERE", ""))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    for name, text in {"gh": GH.format(python=sys.executable), "python3": "#!/bin/sh\nexit 0\n"}.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "a.yaml").write_text((POD + SPEC).replace("NAME", "small").replace("CPU", "100m"))
    (tmp_path / "b.yaml").write_text((POD + SPEC).replace("NAME", "large").replace("CPU", "64"))
    Cluster.from_paths(list(demo.list_files()), assume_complete=True).save(tmp_path / "cluster.ksnap")
    return tmp_path


def run_script(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def read_last_action_step() -> Any:
    return yaml.safe_load((CI / "simulate" / "action.yml").read_text())["runs"]["steps"][-1]


def run_action(folder: Path, paths: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the script of the action with these paths."""
    given = {"PATHS": paths, "SNAPSHOT": "cluster.ksnap", "ARGS": "", "COMMENT": "true", "PULL_REQUEST": "7"}
    given |= {"REPOSITORY": "shop/web", "ACTION": str(CI / "simulate"), **more}
    assert given.keys() | {"GH_TOKEN"} == read_last_action_step()["env"].keys() | more.keys()
    return run_script(read_last_action_step()["run"], folder, **given)


def read_gh_calls(folder: Path) -> list[list[str]]:
    file = folder / "gh.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_the_action_annotates_and_comments(folder: Path) -> None:
    done = run_action(folder, "deploy b.yaml")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("::error file=b.yaml,line=1,col=1,title=not-scheduled::Pod shop/large: ")
    _, posted = read_gh_calls(folder)
    assert posted[:4] == ["api", "--silent", "--method", "POST"]
    assert posted[4] == "repos/shop/web/issues/7/comments"
    assert posted[6].startswith("body=<!-- kschedctl simulate -->\n")
    assert "1 of 2 pods gets a node" in posted[6] or "1 of 2 pods get a node" in posted[6]
    assert "\n1 Pod fits, 1 does not: Pod shop/large\n" in posted[6]


def test_existing_comment_is_updated(folder: Path) -> None:
    done = run_action(folder, "deploy", THERE="42")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    _, patched = read_gh_calls(folder)
    assert patched[3:5] == ["PATCH", "repos/shop/web/issues/comments/42"]


@pytest.mark.parametrize("more", [{"COMMENT": "false"}, {"PULL_REQUEST": ""}])
def test_no_comment_without_the_option_or_a_pull_request(folder: Path, more: dict[str, str]) -> None:
    assert run_action(folder, "deploy", **more).returncode == 0
    assert read_gh_calls(folder) == []


def test_unreadable_input_fails_without_a_comment(folder: Path) -> None:
    assert run_action(folder, "none.yaml").returncode == 2
    assert read_gh_calls(folder) == []


def test_a_long_report_is_cut(folder: Path) -> None:
    (folder / "report.md").write_text("x" * 100_000)
    done = run_script(f"bash {CI / 'simulate' / 'comment'} report.md", folder, REPOSITORY="a/b", PULL_REQUEST="1")
    assert done.returncode == 0, done.stderr
    assert len(read_gh_calls(folder)[1][6]) < 65_536


@pytest.mark.parametrize(("paths", "code"), [("deploy", 0), ("deploy b.yaml", 1)])
def test_gitlab_gets_a_report(folder: Path, paths: str, code: int) -> None:
    job = yaml.safe_load((CI / "gitlab.yml").read_text())["kschedctl-simulate"]
    script = "\n".join((*job["before_script"], *job["script"]))
    done = run_script(script, folder, **{**job["variables"], "KSCHEDCTL_PATHS": paths})
    assert done.returncode == code, done.stderr
    report = ElementTree.parse(folder / job["artifacts"]["reports"]["junit"]).getroot()
    assert report.get("failures") == str(code)


@pytest.mark.parametrize(("paths", "code"), [("deploy", 0), ("deploy b.yaml", 1)])
def test_tekton_runs_it(folder: Path, paths: str, code: int) -> None:
    task = yaml.safe_load((CI / "tekton.yaml").read_text())
    (step,) = task["spec"]["steps"]
    values = {variable["name"]: variable["value"] for variable in step["env"]}
    given = {"$(params.paths)": paths, "$(params.snapshot)": "cluster.ksnap", "$(params.args)": ""}
    assert {param["name"] for param in task["spec"]["params"]} == {"paths", "snapshot", "args"}
    done = run_script(step["script"], folder, **{name: given[value] for name, value in values.items()})
    assert done.returncode == code, done.stderr


# -- a release ---------------------------------------------------------------------------------------------------------

ROOT = CI.parent


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Copy the files that ``.ci/version`` changes."""
    for name in (".ci/version", "kschedctl/text/version.py", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_one_command_sets_the_version(checkout: Path) -> None:
    before = (checkout / "CHANGELOG.md").read_text()
    done = subprocess.run([checkout / ".ci/version", "9.8.7"], capture_output=True, text=True, check=True)
    assert done.stdout == "9.8.7: look at git diff, then commit and tag v9.8.7\n"
    assert (checkout / "kschedctl/text/version.py").read_text().endswith('VERSION = "9.8.7"\n')
    changelog = (checkout / "CHANGELOG.md").read_text()
    head, _, rest = changelog.partition("## [9.8.7] - ")
    assert head.endswith("## [Unreleased]\n\n")
    assert rest[10:] == before.partition("## [Unreleased]")[2]


@pytest.mark.parametrize("version", ["", "1", "1.2", "v1.2.3", "1.2.3; rm -r x"])
def test_invalid_version_changes_nothing(version: str, checkout: Path) -> None:
    before = (checkout / "CHANGELOG.md").read_text()
    assert subprocess.run([checkout / ".ci/version", version], capture_output=True, check=False).returncode != 0
    assert (checkout / "CHANGELOG.md").read_text() == before


def test_the_package_has_the_version_of_the_program() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    found = re.search(project["tool"]["hatch"]["version"]["pattern"], (ROOT / "kschedctl/text/version.py").read_text())
    assert found is not None
    assert found["version"] == VERSION


def test_krew_manifest_describes_the_built_archives(tmp_path: Path) -> None:
    sums = {}
    for platform in ("linux-amd64", "darwin-arm64"):
        archive = tmp_path / f"kschedctl-{VERSION}-{platform}.tar.gz"
        archive.write_text(platform)
        sums[platform] = hashlib.sha256(platform.encode()).hexdigest()
    url = f"https://example.com/kschedctl/releases/download/v{VERSION}"
    done = subprocess.run([CI / "krew", tmp_path, url], capture_output=True, text=True, check=True)
    manifest = yaml.safe_load(done.stdout)
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("Plugin", "ksched")
    assert manifest["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert manifest["spec"]["version"] == f"v{VERSION}"
    assert manifest["spec"]["homepage"] == "https://example.com/kschedctl"
    for platform in manifest["spec"]["platforms"]:
        name = "{os}-{arch}".format(**platform["selector"]["matchLabels"])
        assert platform["sha256"] == sums.pop(name)
        assert platform["uri"] == f"{url}/kschedctl-{VERSION}-{name}.tar.gz"
        assert platform["bin"] == "kubectl-ksched"
    assert not sums


def test_krew_manifest_needs_a_built_archive(tmp_path: Path) -> None:
    done = subprocess.run([CI / "krew", tmp_path, "https://e.com"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"no archive of version {VERSION} in {tmp_path}\n")


def test_wheel_contains_a_bill_of_materials(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test runs the build hook without its builder."""
    for name in ("hatchling", "hatchling.builders", "hatchling.builders.hooks", "hatchling.builders.hooks.plugin"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    interface: Any = ModuleType("hatchling.builders.hooks.plugin.interface")
    interface.BuildHookInterface = object
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    file = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["path"]
    make = runpy.run_path(str(ROOT / file))["bill_of_materials"]
    given = project["project"]
    document = make(given["name"], VERSION, given["license"], given["dependencies"])
    assert document["metadata"]["component"]["purl"] == f"pkg:pypi/kschedctl@{VERSION}"
    needed = {component["name"] for component in document["components"]}
    assert needed == {
        requirement.name.lower().replace("_", "-") for requirement in map(Requirement, given["dependencies"])
    }
    assert {*document["dependencies"][0]["dependsOn"]} == {component["bom-ref"] for component in document["components"]}


def test_every_upload_is_started_by_hand() -> None:
    """Each job that uploads must be started and confirmed by a person."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    for name, job in workflow["jobs"].items():
        publishes = any("publish" in str(step.get("uses")) or "docker push" in str(step) for step in job["steps"])
        assert publishes == (name == "pypi")
        assert not publishes or job["if"] == "github.event_name == 'workflow_dispatch' && inputs.publish"
    scripts = re.findall(r"\.ci/\w+", (ROOT / ".github/workflows/release.yml").read_text())
    assert scripts
    assert all((ROOT / script).is_file() for script in scripts)
