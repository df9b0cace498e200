"""Check where pending pods are in the queue, what wakes them, and which should have been woken already."""

from __future__ import annotations

from typing import Any

from small import Json, build_node, build_pod

import kschedctl
from kschedctl.cluster import Provenance
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.queue import build_queue_section
from kschedctl.commands.audit.report import QueueSection
from kschedctl.scheduler.scheduler import Scheduler

BEFORE, NOW, MUCH_LATER = "2026-05-06T09:00:00Z", "2026-05-06T09:02:00Z", "2026-05-06T09:30:00Z"
REFUSED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
TERM = {
    "labelSelector": {"matchLabels": {"app": "web"}},
    "topologyKey": "topology.kubernetes.io/zone",
    "namespaceSelector": {"matchLabels": {"team": "x"}},
}
JOINS = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}


def build_scheduler(*documents: Json) -> Scheduler:
    return Scheduler(kschedctl.Cluster.from_objects(documents))


def build_waiting_pod(name: str, refused: bool = True, **spec: Any) -> Json:
    """Build a pod that was created two minutes before NOW, with a condition that says when it was rejected."""
    found = build_pod(name, **spec)
    found["metadata"]["creationTimestamp"] = BEFORE
    if refused:
        found["status"] = {"conditions": [REFUSED]}
    return found


def build_rejection_event(name: str, time: str, **fields: Any) -> Json:
    """Build the event of a rejection."""
    reference = {"kind": "Pod", "namespace": "d", "name": name}
    event = {"kind": "Event", "metadata": {"name": f"{name}.1", "namespace": "d"}, "reason": "FailedScheduling"}
    return {**event, "involvedObject": reference, "lastTimestamp": time, **fields}


def audit_queue(*documents: Json, earlier: Scheduler | None = None, now: str = NOW) -> QueueSection:
    return build_queue_section(AuditedCluster(build_scheduler(*documents), now, earlier=earlier))


def get_pods_by_queue(found: QueueSection) -> dict[str, tuple[str, ...]]:
    return {each.queue: each.pods for each in found.queued}


def test_queue_of_each_pod() -> None:
    found = audit_queue(
        build_node("n1"),
        build_waiting_pod("large", cpu="9"),
        build_waiting_pod("gated", refused=False, schedulingGates=[{"name": "g"}]),
        build_waiting_pod("fits"),
        build_waiting_pod("new", refused=False),
        build_waiting_pod("other", refused=False, schedulerName="other"),
    )
    assert get_pods_by_queue(found) == {
        "unknown": ("d/fits",),
        "activeQ": ("d/new",),
        "unschedulable": ("d/large",),
        "gated": ("d/gated",),
        "none": ("d/other",),
    }
    assert found.state == "sound"


def test_changes_that_would_wake_a_pod() -> None:
    (found,) = audit_queue(build_node("n1", cpu="2"), build_waiting_pod("large", cpu="3")).queued
    (rejector,) = found.wakes
    assert (found.refused_by, rejector.plugin) == (("NodeResourcesFit",), "NodeResourcesFit")
    assert any(each.kind == "Node" and each.actions == ("Add",) for each in rejector.wake_ups)
    assert (found.since, found.age, found.attempts, found.backs_off_until) == (BEFORE, "2m", 0, "")


def test_backoff_ends_within_ten_seconds() -> None:
    """The number of attempts is known only from events, and is then a lower limit."""
    event = build_rejection_event("fits", "2026-05-06T09:01:55Z", count=3)
    (found,) = audit_queue(build_node("n1"), build_waiting_pod("fits"), event).queued
    assert (found.queue, found.attempts, found.backs_off_until) == ("backoffQ", 3, "2026-05-06T09:02:05Z")


def test_backoff_of_several_pods_ends_with_the_last() -> None:
    events = [
        build_rejection_event("one", "2026-05-06T09:01:58Z"),
        build_rejection_event("two", "2026-05-06T09:01:52Z"),
    ]
    (found,) = audit_queue(build_node("n1"), build_waiting_pod("one"), build_waiting_pod("two"), *events).queued
    assert (found.pods, found.backs_off_until) == (("d/two", "d/one"), "2026-05-06T09:02:08Z")


def test_no_missed_event_if_the_pod_still_fits_nowhere() -> None:
    found = audit_queue(
        build_node("n1"),
        build_waiting_pod("large", cpu="9"),
        earlier=build_scheduler(build_node("n1", cpu="2"), build_waiting_pod("large", cpu="9")),
    )
    assert (found.changes, found.between, found.findings, found.state) == (1, (), (), "sound")
    assert found.headline.endswith("no wake-up missed since the earlier time")


def test_pod_that_missed_an_event() -> None:
    """More CPU on a node wakes the pod.

    During its back-off and the cycles before it, waiting is not certainly a fault.
    """
    small = build_scheduler(build_node("n1", cpu="1"), build_waiting_pod("large", cpu="3"))
    for now, severity in ((NOW, "warning"), (MUCH_LATER, "error")):
        found = audit_queue(
            build_node("n1"),
            build_waiting_pod("large", cpu="3"),
            build_rejection_event("large", BEFORE),
            earlier=small,
            now=now,
        )
        (finding,) = found.findings
        assert (finding.rule, finding.severity) == ("audit-queue-woken-in-vain", severity)
        assert "Node n1 changed (NodeResourcesFit) woke it, but it is still pending" in finding.message
        assert [(each.pod, each.fits, each.missed) for each in found.between] == [("d/large", ("n1",), False)]


def test_pod_that_fits_without_a_waking_event() -> None:
    """Its affinity selects namespaces by a label that a namespace now gets, but no plugin registers for namespaces."""
    documents = [build_node("n1"), build_pod("db", "n1"), build_waiting_pod("joins", **JOINS)]
    before = build_scheduler(*documents, {"kind": "Namespace", "metadata": {"name": "d"}})
    found = audit_queue(
        *documents, {"kind": "Namespace", "metadata": {"name": "d", "labels": {"team": "x"}}}, earlier=before
    )
    (finding,) = found.findings
    assert (finding.rule, finding.severity, finding.object) == ("audit-queue-missed", "error", "Pod d/joins")
    assert "but nothing changed that the scheduler watches" in finding.message
    assert (found.state, found.unheard) == ("findings", 1)


def test_pod_behind_others_missed_no_event() -> None:
    """The new room for one pod woke both pods, but only the first one gets it."""
    pods = [build_waiting_pod("a", cpu="3"), build_waiting_pod("b", cpu="3")]
    found = audit_queue(build_node("n1", cpu="4"), *pods, earlier=build_scheduler(build_node("n1", cpu="1"), *pods))
    assert [each.pod for each in found.between] == ["d/a"]


def test_times_are_formatted() -> None:
    before = kschedctl.Cluster.from_objects([build_node("n1")], assume_complete=True)
    object.__setattr__(before, "provenance", Provenance("https://x", read_at=BEFORE))
    assert audit_queue(build_node("n1"), earlier=Scheduler(before)).before == BEFORE
