"""A pod that waits for CPUs which a deferred in-place resize of another pod reserves (kubernetes/kubernetes#135107).

kube-scheduler counts the larger of what a running pod wants and what its kubelet has allocated. Pod grower wants 12 of
the node's 12 CPUs, which its kubelet has put off, and runs with half a CPU. So pod late, which wants 2, waits although
10.5 CPUs are not in use. The right answer names the resize, and the first fix reverts it.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml

import kschedctl
from kschedctl.api.json_values import JsonObject

SITUATION = Path(__file__).parent / "21-deferred-resize" / "in.yaml"


def read_objects() -> list[JsonObject]:
    items: list[JsonObject] = yaml.safe_load(SITUATION.read_text())["items"]
    return items


def find(items: list[JsonObject], kind: str, name: str) -> JsonObject:
    return next(i for i in items if i["kind"] == kind and i["metadata"]["name"] == name)


def test_cause_names_the_resize_and_the_actual_resources() -> None:
    report = kschedctl.explain(kschedctl.Cluster.from_paths([SITUATION]), "default/late")
    assert "default/grower reserves 12 for a deferred resize but runs with 0.5" in report.headline
    fact = report.to_dict()["causes"][0]["factData"]
    assert fact["deferredResizes"] == [{"pod": "default/grower", "reserved": 12000, "running": 500}]


def test_first_fix_reverts_the_resize() -> None:
    """The command is a strategic merge patch of the resize subresource, which finds containers by their names."""
    report = kschedctl.remedies(kschedctl.Cluster.from_paths([SITUATION]), "default/late")
    first = report.remedies[0]
    assert first.summary == "Revert the deferred resize of default/grower from 12 to 0.5 CPUs"
    assert (first.kinds, first.opens, first.victims, first.weakens) == (("RevertResize",), ("n1",), (), None)
    (command,) = first.commands
    words = shlex.split(command)
    assert words[:-1] == ["kubectl", "patch", "pod", "-n", "default", "grower", "--subresource=resize", "-p"]
    requests = {"requests": {"cpu": "500m"}}
    assert json.loads(words[-1]) == {"spec": {"containers": [{"name": "c", "resources": requests}]}}
    kinds = [remedy.kinds for remedy in report.remedies]
    assert kinds.index(("RevertResize",)) < kinds.index(("ScaleDown",))
    assert "anew" not in first.changes[0]


@pytest.mark.parametrize("reason", ["Infeasible", ""])
def test_resize_without_reservation_is_not_named(reason: str) -> None:
    """kube-scheduler ignores the requests of an infeasible resize, and a completed resize reserves nothing more."""
    items = read_objects()
    grower = find(items, "Pod", "grower")
    if reason:
        grower["status"]["conditions"][1]["reason"] = reason
    else:
        del grower["status"]["conditions"][1]
        for field in ("allocatedResources", "resources"):
            del grower["status"]["containerStatuses"][0][field]
    report = kschedctl.explain(kschedctl.Cluster.from_objects(items), "default/late")
    assert "deferred" not in report.headline
    assert report.verdict == ("Schedulable" if reason else "Unschedulable")


def test_limits_are_reverted_too_to_keep_the_qos_class() -> None:
    """Otherwise a Guaranteed pod, whose requests and limits were resized together, would become Burstable."""
    items = read_objects()
    grower = find(items, "Pod", "grower")
    container = grower["spec"]["containers"][0]
    container["resources"]["limits"] = {"cpu": "12"}
    status = grower["status"]["containerStatuses"][0]
    status["resources"]["limits"] = {"cpu": "500m"}
    report = kschedctl.remedies(kschedctl.Cluster.from_objects(items), "default/late")
    patch = json.loads(shlex.split(report.remedies[0].commands[0])[-1])
    assert patch["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}}
