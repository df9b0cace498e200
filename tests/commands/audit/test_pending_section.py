"""Check that pending pods are grouped by cause: each cause is found where planted, and only there."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from small import Json, build_node, build_pod, build_replica

import kschedctl
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.pending import build_pending_section
from kschedctl.commands.audit.queue import build_queue_section
from kschedctl.commands.audit.report import PendingSection
from kschedctl.reports.plugin_answers import FirstFailReport
from kschedctl.scheduler.scheduler import Scheduler

NOW = "2026-05-06T09:12:00Z"
LONG_AGO, LATELY, JUST_NOW = "2026-05-06T09:00:00Z", "2026-05-06T09:10:00Z", "2026-05-06T09:11:30Z"
GANG = {"schedulingGroup": {"podGroupName": "g"}}


def audit_pending_pods(*documents: Json, now: str = NOW, **settings: Any) -> PendingSection:
    return build_pending_section(AuditedCluster(Scheduler(kschedctl.Cluster.from_objects(documents, **settings)), now))


def set_creation_time(document: Json, time: str = LONG_AGO) -> Json:
    document["metadata"]["creationTimestamp"] = time
    return document


def set_rejection(document: Json, time: str, message: str = "0/1 nodes are available: 1 Insufficient cpu.") -> Json:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    document["status"]["conditions"] = [condition | {"lastTransitionTime": time}]
    return document


def set_deletion_time(document: Json, time: str) -> Json:
    document["metadata"]["deletionTimestamp"] = time
    return document


def get_pods_by_cause(found: PendingSection) -> dict[str, tuple[str, ...]]:
    return {each.cause: each.pods for each in found.waiting}


def list_findings(found: PendingSection) -> list[tuple[str, str, str]]:
    """Return the rule, severity and object of each finding."""
    return [(each.rule.removeprefix("audit-pending-"), each.severity, each.object) for each in found.findings]


def test_cluster_without_pending_pods() -> None:
    found = audit_pending_pods(build_node("n1"), build_pod("p", "n1"))
    assert (found.state, found.headline, found.pods, found.findings) == ("sound", "nothing is pending", 0, ())


def test_unschedulable_by_reason() -> None:
    tainted = build_node("n1", taints=[{"key": "k", "effect": "NoSchedule"}])
    found = audit_pending_pods(
        tainted,
        build_node("n2"),
        build_pod("big", cpu="9"),
        build_replica("web-1", cpu="8"),
        build_pod("gpu", nodeSelector={"g": ""}),
    )
    assert [(each.cause, each.reason, each.pods) for each in found.waiting] == [
        ("unschedulable", "Insufficient cpu", ("d/big", "d/web-1")),
        ("unschedulable", "node(s) didn't match Pod's node affinity/selector", ("d/gpu",)),
    ]
    assert found.waiting[0].workloads == ("Pod d/big", "Deployment d/web")
    assert list_findings(found) == [
        ("unschedulable", "warning", "Pod d/big"),
        ("unschedulable", "warning", "Pod d/gpu"),
    ]
    assert found.findings[0].message.startswith("needs 9 CPUs, but the largest node has only 4")
    assert "; 1 other pod waits for the same reason" in found.findings[0].message


@pytest.mark.parametrize(
    ("time", "now", "cause", "severity"),
    [
        (LONG_AGO, NOW, "stuck", "error"),
        (LATELY, NOW, "stuck", "warning"),
        (JUST_NOW, NOW, "turn", None),
        (LONG_AGO, "", "stuck", "note"),
    ],
)
def test_fitting_pod_that_waits_is_stuck(time: str, now: str, cause: str, severity: str | None) -> None:
    """It is an error once every rejected pod was retried: after 300 s, 30 s between flushes and 10 s of back-off."""
    found = audit_pending_pods(build_node("n1"), set_creation_time(build_pod("fits"), time), now=now)
    assert get_pods_by_cause(found) == {cause: ("d/fits",)}
    assert list_findings(found) == ([("stuck", severity, "Pod d/fits")] if severity else [])
    assert found.state == {"error": "findings", "warning": "findings", "note": "unknown", None: "sound"}[severity]
    assert found.undecided == (severity == "note")


def build_event(
    pod: str, at: str, message: str = "0/1 nodes are available: 1 Insufficient cpu.", **fields: Any
) -> Json:
    """Build the event of a rejection, as the scheduler that the pods name writes it."""
    return {
        "kind": "Event",
        "metadata": {"name": f"{pod}.{at}", "namespace": "d"},
        "involvedObject": {"kind": "Pod", "namespace": "d", "name": pod, "uid": f"uid-{pod}"},
        "reason": "FailedScheduling",
        "message": message,
        "reportingComponent": "default-scheduler",
        "eventTime": at,
        **fields,
    }


def test_last_rejection_is_compared_with_the_present() -> None:
    """The pod's condition has the time of the first rejection, so the time of the last attempt is unknown."""
    found = audit_pending_pods(
        build_node("n1"), set_rejection(set_creation_time(build_pod("fits")), "2026-05-06T09:02:00Z")
    )
    (finding,) = found.findings
    assert finding.severity == "warning"
    last = "rejected for 10 min, the scheduler last said: 0/1 nodes are available: 1 Insufficient cpu."
    assert finding.message == f"fits on n1 now; pending for 12 min; {last}"


@pytest.mark.parametrize(
    ("times", "severity", "attempts"),
    [
        (["2026-05-06T09:02:00Z", "2026-05-06T09:05:00Z"], "error", 2),
        (["2026-05-06T09:02:00Z", "2026-05-06T09:08:00Z"], "warning", 2),
    ],
)
def test_events_show_the_last_attempt(times: list[str], severity: str, attempts: int) -> None:
    """The attempts were 420 s ago, which is longer than any rejected pod is left alone, and 240 s ago."""
    waits = set_rejection(set_creation_time(build_pod("fits")), LONG_AGO)
    found = audit_pending_pods(
        build_node("n1"), waits, *(build_event("fits", time, f"said at {time}") for time in times)
    )
    (finding,) = found.findings
    said = found.waiting[0].last_said
    assert said
    assert (finding.severity, said.attempts, said.message) == (severity, attempts, f"said at {times[-1]}")
    assert "rejected at least 2 times, the scheduler last said" in finding.message


def test_series_of_events_may_be_outdated() -> None:
    """A series is written only every half hour, so its last event may be younger."""
    waits = set_rejection(set_creation_time(build_pod("fits")), LONG_AGO)
    series = {"count": 7, "lastObservedTime": "2026-05-06T09:05:00Z"}
    (finding,) = audit_pending_pods(build_node("n1"), waits, build_event("fits", LONG_AGO, series=series)).findings
    assert finding.severity == "warning"
    assert "rejected at least 7 times" in finding.message


def test_events_of_an_earlier_pod_of_the_same_name_are_ignored() -> None:
    reference = {"kind": "Pod", "namespace": "d", "name": "fits", "uid": "another"}
    found = audit_pending_pods(
        build_node("n1"), set_creation_time(build_pod("fits")), build_event("fits", LONG_AGO, involvedObject=reference)
    )
    assert found.waiting[0].last_said is None


def test_recently_rejected_pod_is_in_backoff() -> None:
    """The back-off lasts ten seconds at most.

    The rejections were eight and twelve seconds ago, by a condition or an event.
    """
    for when, cause in (("09:11:52", "backoff"), ("09:11:48", "stuck")):
        time = f"2026-05-06T{when}Z"
        assert get_pods_by_cause(
            audit_pending_pods(build_node("n1"), set_rejection(set_creation_time(build_pod("fits")), time))
        ) == {cause: ("d/fits",)}
        told_by_event = audit_pending_pods(
            build_node("n1"), set_rejection(set_creation_time(build_pod("fits")), LONG_AGO), build_event("fits", time)
        )
        assert get_pods_by_cause(told_by_event) == {cause: ("d/fits",)}


def test_pods_of_another_active_scheduler_are_not_stuck() -> None:
    """The other scheduler writes events or holds a lease under its name."""
    others = {"kind": "Event", "metadata": {"name": "e", "namespace": "d"}, "reason": "Scheduled"}
    others |= {"reportingComponent": "volcano", "eventTime": LONG_AGO}
    lease = {"kind": "Lease", "metadata": {"name": "yunikorn", "namespace": "y"}, "spec": {"holderIdentity": "y-1"}}
    pods = [
        build_pod("a", schedulerName="volcano"),
        build_pod("b", schedulerName="yunikorn"),
        build_pod("c", schedulerName="gone"),
    ]
    found = audit_pending_pods(build_node("n1"), *pods, others, lease)
    assert [(each.cause, each.pods) for each in found.waiting] == [
        ("unserved", ("d/c",)),
        ("elsewhere", ("d/a",)),
        ("elsewhere", ("d/b",)),
    ]
    assert list_findings(found) == [("unserved", "warning", "Pod d/c")]


def test_only_as_many_pods_are_stuck_as_there_is_room_for() -> None:
    """Two pods of 2 cores fill a node with 4 cores. The third pod, which is younger, is not stuck."""
    pods = [set_creation_time(build_pod(f"p{number}", cpu="2"), f"2026-05-06T09:00:0{number}Z") for number in range(3)]
    found = audit_pending_pods(build_node("n1"), *pods)
    waiting = [(each.cause, each.pods) for each in found.waiting]
    assert waiting == [("stuck", ("d/p0",)), ("stuck", ("d/p1",)), ("crowded", ("d/p2",))]


def test_gated_pods_are_grouped_by_who_holds_them() -> None:
    gates = [{"name": "kueue.x-k8s.io/admission"}, {"name": "example.com/budget"}]
    found = audit_pending_pods(build_node("n1"), build_pod("held", schedulingGates=gates))
    (group,) = found.waiting
    assert (group.cause, group.reason) == ("gated", "scheduling gates: kueue.x-k8s.io/admission, example.com/budget")
    holders = [(each.gate, each.holder) for each in group.gates]
    assert holders == [("kueue.x-k8s.io/admission", "Kueue"), ("example.com/budget", "a controller of example.com")]
    assert "kubectl get workloads.kueue.x-k8s.io -n d" in found.findings[0].fix
    assert found.state == "sound"


def test_pod_that_no_scheduler_serves() -> None:
    found = audit_pending_pods(build_node("n1"), build_pod("lost", schedulerName="volcano"))
    assert get_pods_by_cause(found) == {"unserved": ("d/lost",)}
    assert list_findings(found) == [("unserved", "warning", "Pod d/lost")]
    unread = audit_pending_pods(build_node("n1"), build_pod("lost", schedulerName="volcano"), assume_complete=False)
    assert list_findings(unread) == [("unserved", "note", "Pod d/lost")]
    assert {each.kind for each in unread.unknown} >= {"Lease", "Event"}


@pytest.mark.parametrize(("due", "overdue"), [("2026-05-06T09:12:20Z", ""), ("2026-05-06T09:02:00Z", "10m")])
def test_preemptor_waits_for_its_victims(due: str, overdue: str) -> None:
    victim = set_deletion_time(build_pod("old", "n1", cpu="4", terminationGracePeriodSeconds=600), due)
    preempted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    victim["status"]["conditions"].append(preempted)
    important = set_creation_time(build_pod("new", cpu="3", priority=1000))
    important["status"] = {"phase": "Pending", "nominatedNodeName": "n1"}
    found = audit_pending_pods(build_node("n1"), victim, important)
    (group,) = found.waiting
    assert (group.cause, [(each.pod, each.node, each.due) for each in group.victims]) == (
        "preemption",
        [("d/old", "n1", due)],
    )
    asked = {"2026-05-06T09:12:20Z": "2026-05-06T09:02:20Z", "2026-05-06T09:02:00Z": "2026-05-06T08:52:00Z"}[due]
    assert (group.victims[0].asked, group.victims[0].overdue) == (asked, overdue)
    assert list_findings(found) == ([("victim-overdue", "warning", "Pod d/old")] if overdue else [])


def test_incomplete_gang() -> None:
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "d"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    gates = {"GenericWorkload": True, "GangScheduling": True}
    found = audit_pending_pods(build_node("n1"), group, build_pod("one", **GANG), feature_gates=gates)
    assert get_pods_by_cause(found) == {"gang": ("d/one",)}
    assert "has 1 of the 2 pods that it needs" in found.findings[0].message


def test_pod_that_waits_for_binding_is_not_stuck() -> None:
    audited = AuditedCluster(
        Scheduler(kschedctl.Cluster.from_objects([build_node("n1"), set_creation_time(build_pod("fits"))])), NOW
    )
    (alike,) = audited.replay
    waits = replace(alike.explanation, permit={"n1": FirstFailReport("Quorum", "Wait", ("for two more",))})
    vars(audited)["replay"] = (alike._replace(explanation=waits),)
    found = build_pending_section(audited)
    assert ([(each.cause, each.reason) for each in found.waiting], found.state) == (
        [("permit", "for two more")],
        "sound",
    )
    assert [each.queue for each in build_queue_section(audited).queued] == ["permit"]


def test_unread_pods_may_be_pending() -> None:
    cluster = kschedctl.Cluster.from_objects([build_node("n1")], assume_complete=False)
    found = build_pending_section(AuditedCluster(Scheduler(cluster), NOW))
    assert (found.state, found.undecided) == ("unknown", True)


def test_fitting_pod_with_unread_dependencies_is_no_finding() -> None:
    """The pod may be waiting for its volume claim, which was not read."""
    claims = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    objects = [build_node("n1"), set_creation_time(build_pod("fits", volumes=claims), LONG_AGO)]
    cluster = kschedctl.Cluster.from_objects(objects, assume_complete=False)
    found = build_pending_section(AuditedCluster(Scheduler(cluster), NOW))
    assert list_findings(found) == [("stuck", "note", "Pod d/fits")]
    assert (found.state, found.undecided) == ("unknown", True)


def test_ages_are_as_of_today_if_the_time_of_the_cluster_is_unknown() -> None:
    """They are those of `pending`, which counts until today, too. The severity does not depend on them."""
    objects = [build_node("n1"), set_creation_time(build_pod("fits"), "2020-01-01T00:00:00Z")]
    found = audit_pending_pods(*objects, now="")
    (group,) = kschedctl.pending(kschedctl.Cluster.from_objects(objects)).groups
    assert found.waiting[0].age == group.age
    assert group.age.startswith(("6y", "7y", "8y", "9y"))
    (finding,) = found.findings
    assert finding.severity == "note"
    assert finding.message.endswith(" years as of today")
    assert [unknown.kind for unknown in found.unknown] == ["Age"]
    (dated,) = audit_pending_pods(*objects).findings
    assert dated.message.endswith("; pending for 6 years")


def test_pods_that_would_be_preempted_are_named_as_in_explain() -> None:
    """The urgent pod gets room by preemption at once."""
    objects = [
        build_node("n1"),
        build_pod("cheap", "n1", "3"),
        set_creation_time(build_pod("urgent", cpu="2", priority=10), NOW),
    ]
    (finding,) = audit_pending_pods(*objects).findings
    text = "would preempt 1 pod on n1 (d/cheap); needs 2 CPUs"
    assert finding.message.startswith(text)
    assert kschedctl.pending(kschedctl.Cluster.from_objects(objects)).groups[0].members[0].headline.startswith(text)
