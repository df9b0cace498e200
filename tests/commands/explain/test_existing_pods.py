"""Check that explaining an existing pod does not load modules that create and admit pods, and explains no other pod."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kschedctl
from tests.small import build_node, build_pod

PROGRAM = """
import sys

import kschedctl

node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}
container = {"name": "c", "image": "web", "resources": {"requests": {"cpu": "3"}}}
metadata = {"name": "web", "namespace": "shop", "uid": "u"}
pod = {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
print(kschedctl.explain(kschedctl.Cluster.from_objects([node, pod]), "shop/web").verdict)
print(*(name for name in sys.modules if name.startswith(("kschedctl.admission", "kschedctl.replay.controllers."))))
"""


def test_creation_and_admission_are_not_imported() -> None:
    output = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    verdict, *modules = output.split()
    assert verdict == "Unschedulable"
    assert modules == ["kschedctl.replay.controllers.job_failures", "kschedctl.replay.controllers.target_pod"]


MOVE_PROGRAM = """
import sys

import kschedctl
from tests.small import build_node, build_pod, build_replica

nodes = [build_node("n1", cpu="2"), build_node("n2", cpu="1")]
cluster = kschedctl.Cluster.from_objects([*nodes, build_pod("big", cpu="2"), build_replica("small", "n1")])
fixes = kschedctl.explain(cluster, "d/big", remedies=True).remedies
print(any(fix.summary == "Move d/small from n1 to n2" for fix in fixes))
print(*(name for name in sys.modules if name.startswith("kschedctl.admission")))
"""


def test_a_fix_that_moves_one_pod_does_not_import_admission() -> None:
    output = subprocess.run([sys.executable, "-c", MOVE_PROGRAM], capture_output=True, text=True, check=True).stdout
    assert output.splitlines() == ["True", ""]


def test_advice_on_the_retry_of_a_fitting_pod_explains_no_other_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise AssertionError("another pod is explained")

    monkeypatch.setattr("kschedctl.commands.explain.waiting.explain_pod", fail)
    pod = build_pod("web")
    pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    cluster = kschedctl.Cluster.from_objects([build_node("n1"), pod, build_pod("huge", cpu="9")])
    [advice] = kschedctl.explain(cluster, "d/web", now="2026-01-02T00:00:00Z").advice
    assert advice.text.startswith("It fits now, but has not been tried for 1440 min")
