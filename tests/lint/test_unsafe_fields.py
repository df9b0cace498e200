"""Check that values that helm or git would take as options are rejected before any program runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kschedctl.cli.main import main
from kschedctl.sources.builds import helm_guard
from kschedctl.sources.builds.helm_guard import explain_disallowed_call

CHART = "helmCharts: [{name: web, repo: https://charts.example, %s}]\n"
OPTION = "would be an option of helm"
CONFIGURED = "a repository must not set helm's configuration or plugin folders"
ELSEWHERE = "points outside the folder of the chart"

SMUGGLED = {
    "a post-renderer": (
        CHART % "releaseName: --post-renderer=/x",
        f'helmCharts[0].releaseName: "--post-renderer=/x" {OPTION}',
    ),
    "in another case": (CHART % "RELEASENAME: -f", f'helmCharts[0].RELEASENAME: "-f" {OPTION}'),
    "a kubeconfig": (CHART % "namespace: --kubeconfig=/x", f'helmCharts[0].namespace: "--kubeconfig=/x" {OPTION}'),
    "versions of APIs": (CHART % "apiVersions: [v1, --debug=x]", f'helmCharts[0].apiVersions: "--debug=x" {OPTION}'),
    "a name": ("helmCharts: [{name: --untardir=/}]\n", f'helmCharts[0].name: "--untardir=/" {OPTION}'),
    "the environment": (
        CHART % "nameTemplate: '{{ env \"TOKEN\" }}'",
        'helmCharts[0].nameTemplate: "{{ env "TOKEN" }}" reads the environment',
    ),
    "names of the network": (
        CHART % "nameTemplate: '{{ getHostByName .x }}'",
        'helmCharts[0].nameTemplate: "{{ getHostByName .x }}" reads the environment',
    ),
    "a downloader": (
        "helmCharts: [{name: web, repo: 'secrets+exec://x'}]\n",
        'helmCharts[0].repo: "secrets+exec://x" must be an HTTP URL or in an OCI registry',
    ),
    "a name of another folder": ("helmCharts: [{name: ../web}]\n", f'helmCharts[0].name: "../web" {ELSEWHERE}'),
    "a version of another folder": (CHART % "version: /etc", f'helmCharts[0].version: "/etc" {ELSEWHERE}'),
    "a configuration": ("helmGlobals: {configHome: home}\n", f'helmGlobals.configHome: "home": {CONFIGURED}'),
    "the old field": (
        "helmChartInflationGenerator: [{chartName: a, helmBin: ./x}]\n",
        f'helmChartInflationGenerator[0].helmBin: "./x": {CONFIGURED}',
    ),
    "arguments in the old field": (
        "helmChartInflationGenerator: [{chartName: a, extraArgs: [--x]}]\n",
        f"helmChartInflationGenerator[0].extraArgs: \"['--x']\": {CONFIGURED}",
    ),
    "a generator in the kustomization": (
        "generators:\n- |\n  kind: HelmChartInflationGenerator\n  metadata: {name: a}\n  name: a\n  releaseName: -x\n",
        f'generators[0].releaseName: "-x" {OPTION}',
    ),
    "a ref": (
        "resources: ['https://github.com/a/b?ref=--upload-pack=touch%20x']\n",
        'resources[0]: "--upload-pack=touch x" would be an option of git',
    ),
    "a version for git": (
        "Components: ['https://github.com/a/b?version=-x']\n",
        'components[0]: "-x" would be an option of git',
    ),
    "a repository of this machine": (
        "bases: ['git::FILE:///home/a/b']\n",
        'bases[0]: "git::FILE:///home/a/b" is a repository on this machine',
    ),
}


@pytest.fixture
def list_messages(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[str, str]]:
    """Return a function that returns file and message of what cannot be built. No program runs for it."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name in ("kustomize", "helm"):
        (bin_ / name).write_text(f"#!/bin/sh\necho ran > {tmp_path}/ran\n")
        (bin_ / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    top = tmp_path / "repository"
    (top / ".git").mkdir(parents=True)
    monkeypatch.chdir(top)

    def list_messages(files: dict[str, str]) -> tuple[str, str]:
        for name, text in files.items():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_text(text)
        main(["lint", ".", "-R", "-o", "json", "--kustomize", "--helm", "--select", "rq-missing"])
        (found,) = json.loads(capsys.readouterr().out)["findings"]
        assert not (tmp_path / "ran").exists()
        return found["file"], found["message"]

    return list_messages


@pytest.mark.parametrize("name", SMUGGLED)
def test_option_like_values_are_rejected(name: str, list_messages: Callable[..., tuple[str, str]]) -> None:
    kustomization, message = SMUGGLED[name]
    assert list_messages({"a/kustomization.yaml": kustomization}) == (
        "a/kustomization.yaml",
        f"{message}; not built",
    )


def test_option_like_values_in_bases_are_rejected(list_messages: Callable[..., tuple[str, str]]) -> None:
    kustomization, message = SMUGGLED["a post-renderer"]
    files = {"a/kustomization.yaml": "resources: [../base]\n", "base/kustomization.yaml": kustomization}
    assert list_messages(files)[1] == f"{message}; not built"


def test_option_like_values_in_generator_files_are_rejected(list_messages: Callable[..., tuple[str, str]]) -> None:
    files = {"a/kustomization.yaml": "generators: [chart.yaml]\n"}
    files["a/chart.yaml"] = "kind: HelmChartInflationGenerator\nmetadata: {name: a}\nname: a\nconfigHome: /x\n"
    assert list_messages(files) == ("a/kustomization.yaml", f'configHome: "/x": {CONFIGURED}; not built')


@pytest.mark.parametrize("home", ["../../elsewhere", "/etc"])
def test_charts_are_written_only_into_the_repository(home: str, list_messages: Callable[..., tuple[str, str]]) -> None:
    message = list_messages({"a/kustomization.yaml": f"helmGlobals: {{chartHome: {home}}}\n"})[1]
    assert message.endswith("is outside the repository, so charts must not be written there; not built")


MADE = {name: os.path.join(tempfile.gettempdir(), "kustomize-helm-1", "helm") for name in helm_guard.HOME_VARIABLES}
HOME = "/repository/charts"
ALLOWED = [
    ["version", "-c", "--short"],
    ["template", "web", f"{HOME}/web", "--namespace", "shop", "-f", "/tmp/v.yaml", "--include-crds", "--skip-tests"],
    ["template", "--generate-name", f"{HOME}/web", "--name-template", "{{ lower .x }}", "--api-versions", "v1"],
    ["pull", "--untar", "--untardir", HOME, "--repo", "https://charts.example", "web", "--version", ">=1.2 <2"],
    ["pull", "--untar", "--untardir", HOME, "oci://registry.example/web"],
    [
        "pull",
        "--untar",
        "--untardir",
        f"{tempfile.gettempdir()}/kustomize-7/charts",
        "--repo",
        "https://a.example",
        "web",
    ],
]
REFUSED = [
    ([], "is not a command that kustomize needs"),
    (["plugin", "install", "x"], "is not a command that kustomize needs"),
    (["template", "--post-renderer=/x", f"{HOME}/web"], '"--post-renderer=/x" would be an option'),
    (["template", "web", f"{HOME}/web", "--namespace", "--kubeconfig=/x"], '"--kubeconfig=/x" would be an option'),
    (["template", "web", f"{HOME}/web", "--name-template", '{{env "A"}}'], "reads the environment"),
    (["pull", "--untar", "--untardir", "/etc", "web"], "outside the repository"),
    (
        ["pull", "--untar", "--untardir", HOME, "--repo", "s3://x", "web"],
        "must be an HTTP URL or in an OCI registry",
    ),
    (["pull", "--untar", "--untardir", HOME, "secrets://x"], "must be an HTTP URL or in an OCI registry"),
]


@pytest.mark.parametrize("arguments", ALLOWED, ids=" ".join)
def test_helm_calls_of_kustomize_are_run(arguments: list[str]) -> None:
    assert explain_disallowed_call(arguments, MADE, "/repository") == ""


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_other_helm_calls_are_rejected(arguments: list[str], message: str) -> None:
    assert message in explain_disallowed_call(arguments, MADE, "/repository")


def test_helm_home_outside_kustomizes_folder_is_rejected() -> None:
    homes = MADE | {"HELM_DATA_HOME": "/repository/home"}
    assert (
        explain_disallowed_call(ALLOWED[0], homes, "/repository")
        == f'HELM_DATA_HOME is "/repository/home": {CONFIGURED}'
    )


@pytest.mark.parametrize(("name", "code", "out"), [("web", 0, "template web /c"), ("--post-renderer=x", 1, "")])
def test_the_guard_becomes_helm(name: str, code: int, out: str, tmp_path: Path) -> None:
    helm = tmp_path / "helm"
    helm.write_text('#!/bin/sh\necho "$@"\n')
    helm.chmod(0o755)
    words = [sys.executable, "-I", helm_guard.__file__, str(helm), "/repository", "template", name, "/c"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=MADE, timeout=300)
    assert (done.returncode, done.stdout.strip()) == (code, out)
    assert done.stderr == ("" if not code else 'not run: "--post-renderer=x" would be an option of helm\n')


def test_git_reads_nothing_of_this_machine_and_kustomize_calls_the_guard(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Remote bases may name further bases, which cannot be checked in advance."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    told = f'echo "$GIT_ALLOW_PROTOCOL $GIT_TERMINAL_PROMPT $1 $2 $3" > {tmp_path}/told; cat $4 >> {tmp_path}/told'
    for name in ("kustomize", "helm"):
        (bin_ / name).write_text(f"#!/bin/sh\n{told}\n")
        (bin_ / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "kustomization.yaml").write_text("resources: ['https://github.com/a/b?ref=v1']\n")
    main(["lint", "a", "--kustomize", "--helm"])
    capsys.readouterr()
    first, _, script = (tmp_path / "told").read_text().partition("\n")
    assert first == "http:https:ssh 0 build --enable-helm --helm-command"
    assert script == f'#!/bin/sh\nexec {sys.executable} -I {helm_guard.__file__} {bin_}/helm {tmp_path}/a "$@"\n'
