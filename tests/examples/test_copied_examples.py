"""Run the examples that people copy, and check that each works unchanged and fits on a page."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import Run, build_pod
from documents import README, TOPICS

from kschedctl.commands.audit import SECTIONS
from kschedctl.commands.watch.command import read_topics
from kschedctl.demo import DEMO_TIME

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
EXAMPLES = [path for path in sorted(FOLDER.iterdir()) if path.is_file() and path.name != Path(__file__).name]
MOST_LINES = 70
BUILT_IN = {
    *("", "apps", "autoscaling", "batch", "policy", "coordination.k8s.io", "node.k8s.io", "resource.k8s.io"),
    *("scheduling.k8s.io", "storage.k8s.io"),
}
"""API groups that every cluster has."""
BEHIND_GATES = {"podgroups", "compositepodgroups"}
Json = dict[str, Any]


def run_script(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that finds this kschedctl, both as a command and as a module."""
    folder = cwd / "bin"
    folder.mkdir(exist_ok=True)
    script = folder / "kschedctl"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kschedctl "$@"\n')
    script.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_fits_on_a_page_and_is_linked(example: Path) -> None:
    assert len(example.read_text().splitlines()) <= MOST_LINES
    assert f"](tests/examples/{example.name})" in README.read_text()


@pytest.fixture
def snapshot(tmp_path: Path, run: Run) -> Path:
    """Return a snapshot of the demo cluster."""
    assert run("snapshot", "save", "--demo", "-o", str(tmp_path / "prod.ksnap")).code == 0
    return tmp_path / "prod.ksnap"


@pytest.mark.parametrize(
    ("cpu", "code", "said"), [("100m", 0, "all pods fit"), ("3", 1, "some pods would not get a node")]
)
def test_ci_gate_decides_by_the_pods(tmp_path: Path, snapshot: Path, cpu: str, code: int, said: str) -> None:
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy/web.json").write_text(json.dumps(build_pod("web", namespace="shop", cpu=cpu)))
    done = run_script("sh", FOLDER / "ci-gate.sh", "deploy", snapshot, cwd=tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout


def test_ci_gate_stops_at_a_lint_error(tmp_path: Path, snapshot: Path) -> None:
    (tmp_path / "deploy").mkdir()
    both = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1, "maxUnavailable": 1}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": both}
    (tmp_path / "deploy/budget.json").write_text(json.dumps(budget))
    done = run_script("sh", FOLDER / "ci-gate.sh", "deploy", snapshot, cwd=tmp_path)
    assert done.returncode == 1
    assert "::error" in done.stdout
    assert "all pods fit" not in done.stdout


def test_ci_gate_fails_without_a_snapshot(tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy/web.json").write_text(json.dumps(build_pod("web", namespace="shop")))
    done = run_script("sh", FOLDER / "ci-gate.sh", "deploy", "absent.ksnap", cwd=tmp_path)
    assert done.returncode == 2


def test_headroom_equals_that_of_capacity(tmp_path: Path, snapshot: Path, run: Run) -> None:
    done = run_script(sys.executable, FOLDER / "headroom.py", snapshot, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    manifest = build_pod("medium", namespace="default", cpu="1", memory="1Gi")
    (tmp_path / "medium.json").write_text(json.dumps(manifest))
    answer = run("capacity", "-f", str(tmp_path / "medium.json"), "--snapshot", str(snapshot), "-o", "json")
    fits = json.loads(answer.out)["shapes"][0]["fits"]
    assert fits > 0
    assert f"medium: {fits} more fit" in done.stdout
    assert f"medium: {fits} more fit" in run_without_matplotlib(tmp_path).stdout


def run_without_matplotlib(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the notebook without matplotlib, so that it draws bars of text."""
    (folder / "matplotlib.py").write_text("raise ImportError\n")
    shutil.copy(FOLDER / "headroom.py", folder)
    done = run_script(sys.executable, "headroom.py", cwd=folder)
    assert re.search(r"small █{40} \d+", done.stdout), done.stdout + done.stderr
    assert not (folder / "headroom.png").exists() or (folder / "headroom.png").stat().st_size > 0
    return done


def test_session_of_an_agent_ends_with_fixes(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    done = run_script(sys.executable, FOLDER / "mcp-session.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "list_pending_pods" in done.stdout.splitlines()[0]
    assert "\n  because: " in done.stdout
    assert "\n  fix: " in done.stdout


def read_documents(name: str) -> list[Json]:
    """Return the YAML documents of an example."""
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def collect_rights(role: Json) -> set[tuple[str, str, str]]:
    """Return the rights of a ClusterRole: API group, resource and verb."""
    return {
        (group, resource, verb)
        for rule in role["rules"]
        if "resourceNames" not in rule
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_audit_may_only_read_built_in_kinds() -> None:
    role = next(each for each in read_documents("nightly-audit.yaml") if each["kind"] == "ClusterRole")
    (block,) = re.findall(r"```yaml\n(.*?)```", read_topics()["rights"], re.DOTALL)
    documented = collect_rights(next(yaml.safe_load_all(block)))
    granted = collect_rights(role)
    built_in = {right for right in documented if right[0] in BUILT_IN and right[1] not in BEHIND_GATES}
    assert {group for group, _, _ in built_in} == BUILT_IN
    assert {verb for _, _, verb in granted} <= {"get", "list", "watch"}
    assert built_in <= granted


def test_audit_runs_like_its_cron_job(snapshot: Path, run: Run) -> None:
    documents = read_documents("nightly-audit.yaml")
    job = next(each for each in documents if each["kind"] == "CronJob")
    spec = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    account = next(each for each in documents if each["kind"] == "ServiceAccount")["metadata"]
    assert (spec["serviceAccountName"], job["metadata"]["namespace"]) == (account["name"], account["namespace"])
    binding = next(each for each in documents if each["kind"] == "ClusterRoleBinding")
    assert binding["subjects"] == [{"kind": "ServiceAccount", **account}]
    answer = run(*spec["containers"][0]["args"], "--snapshot", str(snapshot), "--now", DEMO_TIME)
    assert answer.code in (0, 1)
    assert "12 nodes, 45 pods" in answer.out
    assert run("lint", str(FOLDER / "nightly-audit.yaml")).code == 0


def test_alerts_use_metrics_of_watch(run: Run) -> None:
    (document,) = read_documents("alerts.yaml")
    served = run("watch", "--demo", "-o", "openmetrics").out
    rules = [rule for group in document["spec"]["groups"] for rule in group["rules"]]
    assert len(rules) == 2
    for rule in rules:
        for metric in re.findall(r"kschedctl_\w+", rule["expr"]):
            assert f"# TYPE {metric} gauge" in served
            assert metric in TOPICS["monitoring"].read_text()


def test_commands_in_the_alerts_exist(run: Run) -> None:
    assert "pending" in SECTIONS
    assert run("audit", "--section", "pending", "--demo").code in (0, 1)
    assert run("explain", "-A", "--demo").code == 1
