"""Check that pods pending for the same reasons form one group."""

from __future__ import annotations

from typing import Any

import small

import kschedctl
from kschedctl.commands.explain.pending_pods import group_pending_pods
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.scheduler.scheduler import Scheduler

NODE = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "10"}}}
EXTENDER = {"urlPrefix": "https://x.example", "filterVerb": "filter"}
CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "extenders": [EXTENDER],
}


def build_pod(name: str, cpu: str) -> dict[str, Any]:
    containers = [{"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}}]
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "shop"}, "spec": {"containers": containers}}


def test_pods_are_grouped_by_cause_and_omissions_are_reported_once() -> None:
    documents = [NODE, build_pod("fits", "1"), build_pod("large", "3"), build_pod("larger", "4")]
    cluster = kschedctl.Cluster.from_objects(documents, config=CONFIGURATION)
    report = group_pending_pods(Scheduler(cluster), cluster.unbound_pods(), "in the test")
    assert [(group.verdict, group.pods) for group in report.groups] == [
        ("Unschedulable", ("shop/large", "shop/larger")),
        ("Schedulable", ("shop/fits",)),
    ]
    assert report.groups[0].cause == "Insufficient cpu"
    assert report.not_replayed == ("extender https://x.example",)
    assert report.scope == "in the test"


def test_number_of_kinds_explained_in_full() -> None:
    documents = [NODE, build_pod("large", "3"), build_pod("larger", "4"), build_pod("twin", "3")]
    cluster = kschedctl.Cluster.from_objects(documents)
    twins, other = ("shop/large", "shop/twin"), ("shop/larger",)
    for limit, expected in ((0, []), (1, [twins]), (9, [twins, other])):
        report = group_pending_pods(Scheduler(cluster), cluster.unbound_pods(), "in the test", in_full=limit)
        assert [each.pods for each in report.explained] == expected
        assert all([node.name for node in each.explanation.nodes] == ["n1"] for each in report.explained)
        assert [group.pods for group in report.groups] == [("shop/large", "shop/larger", "shop/twin")]


def test_nodes_that_are_not_ready_are_named_first() -> None:
    """n1 is unreachable, and the pod of 2 cpus does not fit on n2, which has 1."""
    taints = [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]
    small = {"kind": "Node", "metadata": {"name": "n2"}, "status": {"allocatable": {"cpu": "1", "pods": "10"}}}
    report = kschedctl.pending(
        kschedctl.Cluster.from_objects([{**NODE, "spec": {"taints": taints}}, small, build_pod("p", "2")])
    )
    line = "1 pod pending across all namespaces, 1 cause; 1 node is not ready (n1)"
    assert str(report) == report.summary().headline == line
    assert report.unready_nodes == ("n1",)
    nothing = kschedctl.pending(kschedctl.Cluster.from_objects([{**NODE, "spec": {"taints": taints}}]))
    assert str(nothing).splitlines()[0] == "Nothing is pending in any namespace; 1 node is not ready (n1)"
    assert "not ready" not in str(kschedctl.pending(kschedctl.Cluster.from_objects([small, build_pod("p", "2")])))


def test_pods_of_higher_priority_come_first() -> None:
    """Three pods lack CPU, two of them younger; the pod that selects a missing label is the most important one."""
    old, young, youngest = (build_pod(name, "3") for name in ("old", "young", "youngest"))
    selecting = build_pod("selecting", "100m")
    for entry, day, priority in ((old, 1, 0), (young, 2, 10), (youngest, 3, 10), (selecting, 4, 20)):
        entry["metadata"]["creationTimestamp"] = f"2026-01-0{day}T00:00:00Z"
        entry["spec"]["priority"] = priority
    selecting["spec"]["nodeSelector"] = {"disk": "ssd"}

    report = kschedctl.pending(kschedctl.Cluster.from_objects([NODE, old, youngest, young, selecting]))

    assert [(group.priority, group.pods) for group in report.groups] == [
        (20, ("shop/selecting",)),
        (10, ("shop/young", "shop/youngest", "shop/old")),
    ]
    assert " 0 to 10 " in RENDERERS["table"](report, Style(width=120))


def test_shared_cause_is_not_repeated_for_each_pod() -> None:
    """Two claims are not bound, for different reasons."""
    objects: list[Any] = [
        NODE,
        {"kind": "StorageClass", "metadata": {"name": "by-hand"}, "provisioner": "kubernetes.io/no-provisioner"},
    ]
    for name, class_name in (("a", "by-hand"), ("b", "missing")):
        spec = {"storageClassName": class_name, "accessModes": ["ReadWriteOnce"]}
        objects.append({"kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "d"}, "spec": spec})
        mounted = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        objects.append(small.build_pod(name, cpu="100m", volumes=mounted))
    report = kschedctl.pending(kschedctl.Cluster.from_objects(objects))
    assert [group.pods for group in report.groups] == [("d/a", "d/b")]
    text = str(RENDERERS["table"](report, Style(width=300)))
    assert text.count("pod has unbound immediate PersistentVolumeClaims") == 1


def test_pods_that_would_preempt_are_listed_apart() -> None:
    """The urgent pod gets room by preemption at once. The other pod may not preempt and stays pending."""
    objects = [
        small.build_node("n1"),
        small.build_pod("cheap", "n1", "3"),
        small.build_pod("urgent", cpu="2", priority=10),
    ]
    objects.append(small.build_pod("patient", cpu="2", priority=10, preemptionPolicy="Never"))
    cluster = kschedctl.Cluster.from_objects(objects)
    report = kschedctl.pending(cluster)
    assert {group.pods for group in report.groups} == {("d/urgent",), ("d/patient",)}
    text = "would preempt 1 pod on n1 (d/cheap); needs 2 CPUs"
    for output in ("table", "brief", "markdown", "wide"):
        assert text in RENDERERS[output](report, Style(width=300, wide=output == "wide"))

    urgent, patient = (kschedctl.remedies(cluster, key) for key in ("d/urgent", "d/patient"))
    assert (urgent.preempts, patient.preempts) == (("d/cheap",), ())
    sentence = "ithout a fix, kube-scheduler itself preempts d/cheap for this pod"
    for output in ("table", "brief", "markdown", "html"):
        rendered = RENDERERS[output](urgent, Style(width=300))
        assert text in rendered
        assert sentence in rendered
    assert "preempts" not in RENDERERS["table"](patient, Style(width=300))


def test_pod_kept_away_by_anti_affinity_does_not_wait_for_cpu() -> None:
    """Both pods lack CPU on n1, but more CPU would not help pod apart."""
    terms = [{"topologyKey": small.HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}]
    anti_affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    documents = [
        small.build_node("n1", cpu="2"),
        small.build_pod("web", "n1"),
        small.build_pod("apart", cpu="2", affinity=anti_affinity),
        small.build_pod("large", cpu="2"),
    ]
    report = kschedctl.pending(kschedctl.Cluster.from_objects(documents))
    assert {group.pods: group.cause for group in report.groups} == {
        ("d/apart",): "node(s) didn't match pod anti-affinity rules",
        ("d/large",): "Insufficient cpu",
    }
