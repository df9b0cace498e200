"""Check scenarios with amounts beyond int64: rejected in one line, or computed as upstream does."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

HUGE = 99999999999999999999
HUGE_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "huge"},
    "spec": {"containers": [{"name": "a", "image": "x", "resources": {"requests": {"cpu": str(HUGE)}}}]},
}
HUGE_NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "huge"},
    "status": {"allocatable": {"cpu": str(HUGE), "memory": f"{HUGE}Gi", "pods": str(HUGE)}},
}


def _run(step: dict[str, object]) -> subprocess.CompletedProcess[str]:
    scenario = msgspec.json.encode({"steps": [step]}).decode()
    command = [sys.executable, "-m", "kschedctl", "whatif", scenario, "--demo"]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.mark.parametrize(
    "step",
    [
        {"addNodes": {"like": "general-a1", "count": HUGE}},
        {"scale": {"kind": "Deployment", "namespace": "shop", "name": "web", "replicas": HUGE}},
        {"priorityClass": {"name": "x", "value": HUGE}},
    ],
    ids=str,
)
def test_huge_counts_are_errors_of_one_line(step: dict[str, object]) -> None:
    run = _run(step)
    assert run.returncode == 2
    assert run.stderr.startswith("error: ")
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "step", [{"apply": {"manifests": [HUGE_POD]}}, {"addNodes": {"template": HUGE_NODE}}], ids=["pod", "node"]
)
def test_huge_quantities_do_not_overflow(step: dict[str, object]) -> None:
    run = _run(step)
    assert run.returncode in {0, 1, 2}
    assert "Traceback" not in run.stderr
    assert "internal" not in run.stderr
    assert run.stdout or run.stderr.count("\n") == 1
