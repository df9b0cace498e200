"""Check that an audit finds the cause in the name of each pod that a real control plane (v1.36) left Pending."""

from __future__ import annotations

import pytest
from test_recordings import NEVER_TRIED, PENDING, TRIED

import kschedctl
from kschedctl.commands.audit import run_sections
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.pending import build_pending_section
from kschedctl.commands.audit.queue import build_queue_section
from kschedctl.scheduler.scheduler import Scheduler

NOW = "2026-11-20T22:00:00Z"
"""Four minutes after the pods came."""
PREEMPTING = {"batch/p24-preempting", "batch/p25-preempting-pdb"}


@pytest.fixture(scope="module")
def audited() -> AuditedCluster:
    return AuditedCluster(Scheduler(kschedctl.Cluster.from_objects(PENDING["objects"])), NOW)


def test_rejected_pods_are_unschedulable_or_wait_for_victims(audited: AuditedCluster) -> None:
    causes = {pod: each.cause for each in build_pending_section(audited).waiting for pod in each.pods}
    assert causes.keys() == TRIED.keys() | NEVER_TRIED.keys()
    assert {pod for pod, cause in causes.items() if cause == "preemption"} == PREEMPTING
    assert {pod for pod, cause in causes.items() if cause == "unschedulable"} == TRIED.keys() - PREEMPTING
    assert {pod for pod, cause in causes.items() if cause == "unserved"} == {"lab/p22-other-scheduler"}
    assert {pod for pod, cause in causes.items() if cause == "gated"} == NEVER_TRIED.keys() - {
        "lab/p22-other-scheduler"
    }


def test_victims_have_two_hours_to_terminate(audited: AuditedCluster) -> None:
    """Their terminationGracePeriodSeconds is 7200, and their metadata.deletionTimestamp is 23:56:08."""
    preempting = [each for each in build_pending_section(audited).waiting if each.cause == "preemption"]
    victims = [victim for each in preempting for victim in each.victims]
    assert {(each.node, each.asked, each.due, each.overdue) for each in victims} == {
        ("w9", "2026-11-20T21:56:08Z", "2026-11-20T23:56:08Z", ""),
        ("w8", "2026-11-20T21:56:08Z", "2026-11-20T23:56:08Z", ""),
    }
    # lab/p23-never, of higher priority, takes the room on w9
    assert {each.pods[0]: each.reason for each in preempting} == {
        "batch/p24-preempting": "preemption is under way, but other waiting pods take the room first",
        "batch/p25-preempting-pdb": "preemption is under way",
    }


def test_queues(audited: AuditedCluster) -> None:
    queues = {pod: each.queue for each in build_queue_section(audited).queued for pod in each.pods}
    assert {pod for pod, queue in queues.items() if queue == "unschedulable"} == set(TRIED)
    assert {pod for pod, queue in queues.items() if queue == "none"} == {"lab/p22-other-scheduler"}
    assert {pod for pod, queue in queues.items() if queue == "gated"} == NEVER_TRIED.keys() - {
        "lab/p22-other-scheduler"
    }


def test_audit_has_the_requested_sections(audited: AuditedCluster) -> None:
    assert [each.name for each in run_sections(audited, ["queue", "pending"]).sections] == ["pending", "queue"]
