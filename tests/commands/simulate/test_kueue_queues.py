"""Check that `simulate` lets Kueue admit a new job before kube-scheduler places its pods."""

from __future__ import annotations

from kueue_objects import NODES, QUEUES, build_manifest, build_node

from kschedctl.api.json_values import JsonObject
from kschedctl.cluster import Cluster
from kschedctl.commands.simulate import simulate
from kschedctl.commands.simulate.report import SimulationReport
from kschedctl.reports.waiting_elsewhere import WaitingState


def _simulate(manifest: JsonObject, *objects: JsonObject) -> SimulationReport:
    """Apply a manifest to a cluster with a quota of 8 GPUs in flavor gpu."""
    return simulate(Cluster.from_objects([*QUEUES, *(objects or NODES)]), [manifest])


def test_admitted_job_is_placed_in_its_flavor() -> None:
    other_pool = build_node("other", 8, pool="cpu")
    report = _simulate(build_manifest(2, 4), *NODES, other_pool)
    assert report.build_headline_parts()[:2] == ("All scheduled:", "admitted in flavor gpu, 4 of 4 pods get a node")
    assert report.good
    assert set(report.placements.values()) == {"a", "b"}


def test_kueue_starts_a_suspended_job() -> None:
    manifest = build_manifest(2, 4)
    manifest["spec"]["suspend"] = True
    assert _simulate(manifest).placed == 4


def test_quota_without_a_node() -> None:
    report = _simulate(build_manifest(8, 1))
    assert report.build_headline_parts()[0] == "1 pod not scheduled:"
    assert "admitted in flavor gpu, 0 of 1 pod gets a node" in report.build_headline_parts()[1]


def test_job_without_quota_creates_no_pods() -> None:
    report = _simulate(build_manifest(2, 8))
    assert (report.placed, report.unplaced, report.good) == (0, 0, False)
    assert [entry.state for entry in report.waiting_elsewhere] == [WaitingState.NOT_ADMITTED]


def test_fewer_pods_are_admitted_within_the_minimum() -> None:
    manifest = build_manifest(2, 8)
    manifest["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "2"}
    assert _simulate(manifest).placed == 4


def test_admitted_pods_of_a_deployment_are_placed() -> None:
    report = _simulate(build_manifest(4, 3, "Deployment"))
    assert (report.placed, report.good) == (2, False)
