"""Check where pods wait at the end of a simulation, and which events caused retries."""

from __future__ import annotations

from typing import Any

from kschedctl.cluster import Cluster
from kschedctl.commands.simulate import simulate
from kschedctl.commands.simulate.report import SimulationReport
from kschedctl.render.page import Style
from kschedctl.render.sections import build_retried_section
from kschedctl.reports.placements import RetriedPods

Json = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"


def build_node(cpu: str) -> Json:
    status = {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "9"}}
    return {"kind": "Node", "metadata": {"name": "a", "labels": {ZONE: "z"}}, "status": status}


def build_pod(name: str, priority: int = 0, cpu: str = "1", **spec: Any) -> Json:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "shop", "labels": {"app": name.rstrip("0123456789")}}
    spec = {"containers": [container], "priority": priority, "preemptionPolicy": "Never", **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def build_affinity(app: str) -> Json:
    """Build affinity to the pods of an app."""
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def run(*pods: Json, cpu: str = "2") -> SimulationReport:
    return simulate(Cluster.from_objects([build_node(cpu), *pods]), [], pending=True)


def test_pods_that_waited_for_another_pod_are_listed_with_their_outcome() -> None:
    """Two pods need a db pod in their domain, beside which there is room for only one of them."""
    report = run(
        build_pod("api1", 5, affinity=build_affinity("db")),
        build_pod("api2", 5, affinity=build_affinity("db")),
        build_pod("db"),
    )
    assert report.retried == (
        RetriedPods("Pod shop/api1", ("shop/api1",), {"AssignedPodAdd": 1}),
        RetriedPods(
            "Pod shop/api2",
            ("shop/api2",),
            {"AssignedPodAdd": 1, "UnschedulableTimeout": 1},
            "unschedulable",
            ("NodeResourcesFit",),
        ),
    )
    (pending,) = report.pending
    assert (pending.pods, pending.queue, pending.rejectors) == (("shop/api2",), "unschedulable", ("NodeResourcesFit",))
    told = repr(build_retried_section(report.retried, Style(width=80)))
    assert "'pods that got a node', 'scheduled'" in told
    assert "'pods that got a node, five minutes', 'unschedulable: NodeResourcesFit'" in told


def test_queue_in_which_rejected_pods_wait() -> None:
    gated = build_pod("gated", schedulingGates=[{"name": "later"}])
    report = run(build_pod("large", cpu="3"), gated, build_pod("other", schedulerName="other"))
    waiting = {group.verdict: (group.queue, group.rejectors) for group in report.pending}
    assert waiting == {
        "Unschedulable": ("unschedulable", ("NodeResourcesFit",)),
        "Gated": ("unschedulable", ()),
        "NotResponsible": ("", ()),
    }
    assert report.retried == ()
    assert build_retried_section(report.retried, Style(width=80)) == ()


def test_retries_by_timeout_are_only_in_the_document() -> None:
    report = run(build_pod("large", 5, cpu="3"), build_pod("small"))
    assert [group.after for group in report.retried] == [{"UnschedulableTimeout": 1}]
    assert build_retried_section(report.retried, Style(width=80)) == ()
