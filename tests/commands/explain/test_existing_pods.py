"""Check that explaining an existing pod does not load the modules that create and admit pods."""

from __future__ import annotations

import subprocess
import sys

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
