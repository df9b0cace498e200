"""Check the audit's section about pods that could not be created."""

from __future__ import annotations

from failed_creations import LATER, build_objects, get_case, read_cases

import kschedctl
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.creation import build_creation_section
from kschedctl.commands.audit.report import CreationSection
from kschedctl.scheduler.scheduler import Scheduler

GROUNDS = {"ReplicaSet", "ReplicationController", "StatefulSet", "Deployment", "DaemonSet", "Job", "Event"}


def audit_creation(cluster: kschedctl.Cluster) -> CreationSection:
    return build_creation_section(AuditedCluster(Scheduler(cluster), LATER))


def test_every_workload_that_lacks_pods_is_an_error() -> None:
    found = audit_creation(
        kschedctl.Cluster.from_objects([each for case in read_cases() for each in build_objects(case, replicas=2)])
    )
    assert (found.state, found.undecided) == ("findings", False)
    workloads = [(f"{case['workload']['kind']} {case['namespace']}/web") for case in read_cases()]
    assert sorted(each.object for each in found.findings) == sorted(workloads)
    assert {each.severity for each in found.findings} == {"error"}
    assert {each.namespace for each in found.findings} == {case["namespace"] for case in read_cases()}
    assert found.headline == "54 pods of 27 workloads could not be created"
    assert [rule.id for rule in found.rules] == ["audit-creation-refused"]


def test_past_failures_are_not_findings() -> None:
    found = audit_creation(kschedctl.Cluster.from_objects(build_objects(get_case(22), replicas=1, there=1)))
    assert (found.state, found.workloads) == ("sound", ())


def test_section_is_sound_only_with_all_grounds() -> None:
    found = audit_creation(kschedctl.Cluster.from_objects([], assume_complete=False))
    assert (found.state, found.undecided) == ("unknown", True)
    assert {each.kind for each in found.unknown} == GROUNDS
