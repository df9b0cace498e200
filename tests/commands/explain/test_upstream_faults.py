"""Check that answers name a bug of kube-scheduler exactly if the bug decides the answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from small import HOSTNAME, Json, build_node

import kschedctl
from kschedctl.commands.explain.report import Explanation

NOT_IN = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}
ONLY_A = {"matchLabels": {"team": "a"}}


def build_pod(name: str, namespace: str, **spec: Any) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": name, "labels": {"app": "web"}},
        "spec": {"containers": [container], **spec},
    }


def build_namespace(name: str) -> Json:
    return {"kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}}


def build_term(selector: Json) -> Json:
    return {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}, "namespaceSelector": selector}


def build_anti_affinity(selector: Json, preferred: bool = False) -> Json:
    """Build anti-affinity to the pods of these namespaces."""
    sort = "preferredDuringSchedulingIgnoredDuringExecution"
    terms = {sort: [{"weight": 10, "podAffinityTerm": build_term(selector)}]}
    if not preferred:
        terms = {"requiredDuringSchedulingIgnoredDuringExecution": [build_term(selector)]}
    return {"podAntiAffinity": terms}


def explain_pod(affinity: Json, version: str = "1.36") -> Explanation:
    """Explain a pod of namespace b in a cluster in which a node holds a pod of namespace a."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_namespace("a"),
        build_namespace("b"),
        build_pod("there", "a", nodeName="n1"),
    ]
    cluster = kschedctl.Cluster.from_objects([*objects, build_pod("p", "b", affinity=affinity)])
    return kschedctl.explain(replace(cluster, kube_version=version), "b/p")


def test_selector_with_only_exclusions_selects_every_namespace() -> None:
    report = explain_pod(build_anti_affinity(NOT_IN))
    assert report.feasible == ("n2",)
    (said,) = report.upstream_faults
    assert said.endswith("takes the pods of every namespace; otherwise 2 of 2 nodes would fit, not 1")
    assert report.to_dict()["upstreamFaults"] == [said]


def test_bug_that_changes_scores_is_named() -> None:
    report = explain_pod(build_anti_affinity(NOT_IN, preferred=True))
    assert report.normalized["InterPodAffinity"] == {"n1": 0, "n2": 100}
    (said,) = report.upstream_faults
    assert said.endswith("; otherwise the scores would differ")


def test_bug_does_not_exist_before_1_34() -> None:
    report = explain_pod(build_anti_affinity(NOT_IN), "1.33")
    assert (set(report.feasible), report.upstream_faults) == ({"n1", "n2"}, ())


@pytest.mark.parametrize("selector", [ONLY_A, {}], ids=["wants a label", "takes all by intention"])
def test_other_selectors_are_not_affected(selector: Json) -> None:
    report = explain_pod(build_anti_affinity(selector))
    assert (report.feasible, report.upstream_faults) == (("n2",), ())


def test_bug_without_effect_is_not_named() -> None:
    """Pods with the label run only in the namespace that the selector selects anyway."""
    other = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["b"]}]}
    report = explain_pod(build_anti_affinity(other))
    assert (report.feasible, report.upstream_faults) == (("n2",), ())


# -- the nil cache of NodeResourcesBalancedAllocation -------------------------------------------------------------

DEVICES = "example.com/gpu"


def build_device_class(selectors: list[Json]) -> Json:
    spec = {"extendedResourceName": DEVICES, "selectors": selectors}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": spec}


def build_resource_slice(name: str) -> Json:
    spec = {
        "driver": "d.example.com",
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "g0"}],
    }
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "NodeResourcesBalancedAllocation",
                    "args": {"resources": [{"name": "cpu"}, {"name": DEVICES}]},
                }
            ]
        }
    ],
}
SELECTOR = {"cel": {"expression": 'device.driver == "d.example.com"'}}


def explain_with_devices(
    selectors: list[Json], nodes: tuple[str, ...] = ("n1", "n2"), config: Json | None = CONFIGURATION
) -> Explanation:
    incoming = build_pod("p", "b")
    incoming["spec"]["containers"][0]["resources"] = {"requests": {DEVICES: "1"}, "limits": {DEVICES: "1"}}
    objects = [build_device_class(selectors), incoming, *map(build_node, nodes), *map(build_resource_slice, nodes)]
    return kschedctl.explain(kschedctl.Cluster.from_objects(objects, config=config), "b/p")


def test_class_with_selectors_crashes_the_scheduler() -> None:
    report = explain_with_devices([SELECTOR])
    assert set(report.feasible) == {"n1", "n2"}
    (said,) = report.upstream_faults
    assert said.startswith(
        "kube-scheduler 1.36 crashes when its NodeResourcesBalancedAllocation scores example.com/gpu"
    )


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(lambda: explain_with_devices([]), id="no selectors"),
        pytest.param(lambda: explain_with_devices([SELECTOR], nodes=("n1",)), id="one node is not scored"),
        pytest.param(lambda: explain_with_devices([SELECTOR], config=None), id="the resource is not scored"),
    ],
)
def test_scheduler_does_not_crash_otherwise(report: Any) -> None:
    found = report()
    assert (found.verdict, found.upstream_faults) == ("Schedulable", ())
