"""Trials in which a running pod is resized in place."""

from __future__ import annotations

import pytest

import kschedctl
from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.fixes.trial.changes import EditedObject
from kschedctl.fixes.trial.trials import fork_with_edits
from kschedctl.replay.edits import ObjectKey
from kschedctl.scheduler.scheduler import Scheduler

NODE: JsonObject = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "8", "pods": "10"}},
}
POD: JsonObject = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]},
}


@pytest.fixture(scope="module")
def scheduler() -> Scheduler:
    return Scheduler(kschedctl.Cluster.from_objects([NODE, POD]))


@pytest.mark.parametrize(("cpus", "millicores"), [("1", 1000), ("2", 2000), ("3", 3000)])
def test_trials_of_one_view_do_not_share_the_amounts_of_a_pod(scheduler: Scheduler, cpus: str, millicores: int) -> None:
    """Trials share cached forks of the same view, so a pod's fork must depend on what it is resized to."""
    pod = scheduler.cluster.pods[0]
    (container,) = pod.spec.containers
    resources = replace(container.resources, requests={"cpu": cpus})
    resized = replace(pod, spec=replace(pod.spec, containers=(replace(container, resources=resources),)))
    fork = fork_with_edits(scheduler.view, {ObjectKey.of(pod): EditedObject(pod, resized)})
    assert fork.requested[0, fork.resources["cpu"]] == millicores
