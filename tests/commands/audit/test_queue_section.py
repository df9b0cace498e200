"""Check where pending pods are in the queue, what wakes them, and which should have been woken already."""

from __future__ import annotations

from typing import Any

from small import Json, node, pod

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


def scheduler(*documents: Json) -> Scheduler:
    return Scheduler(kschedctl.Cluster.from_objects(documents))


def waiting(name: str, refused: bool = True, **spec: Any) -> Json:
    """Build a pod that was created two minutes before NOW, with a condition that says when it was rejected."""
    found = pod(name, **spec)
    found["metadata"]["creationTimestamp"] = BEFORE
    if refused:
        found["status"] = {"conditions": [REFUSED]}
    return found


def refusal(name: str, time: str, **fields: Any) -> Json:
    """Build the event of a rejection."""
    reference = {"kind": "Pod", "namespace": "d", "name": name}
    event = {"kind": "Event", "metadata": {"name": f"{name}.1", "namespace": "d"}, "reason": "FailedScheduling"}
    return {**event, "involvedObject": reference, "lastTimestamp": time, **fields}


def section(*documents: Json, earlier: Scheduler | None = None, now: str = NOW) -> QueueSection:
    return build_queue_section(AuditedCluster(scheduler(*documents), now, earlier=earlier))


def queues(found: QueueSection) -> dict[str, tuple[str, ...]]:
    return {each.queue: each.pods for each in found.queued}


def test_each_pod_is_in_a_queue() -> None:
    found = section(
        node("n1"),
        waiting("large", cpu="9"),
        waiting("gated", refused=False, schedulingGates=[{"name": "g"}]),
        waiting("fits"),
        waiting("new", refused=False),
        waiting("other", refused=False, schedulerName="other"),
    )
    assert queues(found) == {
        "unknown": ("d/fits",),
        "activeQ": ("d/new",),
        "unschedulable": ("d/large",),
        "gated": ("d/gated",),
        "none": ("d/other",),
    }
    assert found.state == "sound"


def test_what_would_wake_a_pod() -> None:
    (found,) = section(node("n1", cpu="2"), waiting("large", cpu="3")).queued
    (rejector,) = found.wakes
    assert (found.refused_by, rejector.plugin) == (("NodeResourcesFit",), "NodeResourcesFit")
    assert any(each.kind == "Node" and each.actions == ("Add",) for each in rejector.wake_ups)
    assert (found.since, found.age, found.attempts, found.backs_off_until) == (BEFORE, "2m", 0, "")


def test_a_back_off_ends_after_ten_seconds_at_the_latest() -> None:
    """How often it was tried is known by events alone, and then at least."""
    event = refusal("fits", "2026-05-06T09:01:55Z", count=3)
    (found,) = section(node("n1"), waiting("fits"), event).queued
    assert (found.queue, found.attempts, found.backs_off_until) == ("backoffQ", 3, "2026-05-06T09:02:05Z")


def test_the_back_off_of_several_ends_with_the_last_of_them() -> None:
    events = [refusal("one", "2026-05-06T09:01:58Z"), refusal("two", "2026-05-06T09:01:52Z")]
    (found,) = section(node("n1"), waiting("one"), waiting("two"), *events).queued
    assert (found.pods, found.backs_off_until) == (("d/two", "d/one"), "2026-05-06T09:02:08Z")


def test_nothing_was_missed_where_a_pod_still_fits_nowhere() -> None:
    found = section(
        node("n1"), waiting("large", cpu="9"), earlier=scheduler(node("n1", cpu="2"), waiting("large", cpu="9"))
    )
    assert (found.changes, found.between, found.findings, found.state) == (1, (), (), "sound")
    assert found.headline.endswith("no wake-up missed since the earlier time")


def test_a_pod_that_events_should_have_moved_and_that_still_waits() -> None:
    """More cpu on a node wakes it. Within its back-off and the cycles before it that is no fault for certain."""
    small = scheduler(node("n1", cpu="1"), waiting("large", cpu="3"))
    for now, severity in ((NOW, "warning"), (MUCH_LATER, "error")):
        found = section(node("n1"), waiting("large", cpu="3"), refusal("large", BEFORE), earlier=small, now=now)
        (finding,) = found.findings
        assert (finding.rule, finding.severity) == ("audit-queue-woken-in-vain", severity)
        assert "Node n1 changed (NodeResourcesFit) woke it, but it is still pending" in finding.message
        assert [(each.pod, each.fits, each.missed) for each in found.between] == [("d/large", ("n1",), False)]


def test_a_pod_that_nothing_told_the_scheduler_about() -> None:
    """Its affinity is to pods of namespaces with a label, and a namespace gets it: nobody listens to namespaces."""
    documents = [node("n1"), pod("db", "n1"), waiting("joins", **JOINS)]
    before = scheduler(*documents, {"kind": "Namespace", "metadata": {"name": "d"}})
    found = section(
        *documents, {"kind": "Namespace", "metadata": {"name": "d", "labels": {"team": "x"}}}, earlier=before
    )
    (finding,) = found.findings
    assert (finding.rule, finding.severity, finding.object) == ("audit-queue-missed", "error", "Pod d/joins")
    assert "but nothing changed that the scheduler watches" in finding.message
    assert (found.state, found.unheard) == ("findings", 1)


def test_a_pod_behind_others_is_not_missed() -> None:
    """Room for one more came: it woke both, and only the first of them gets it."""
    pods = [waiting("a", cpu="3"), waiting("b", cpu="3")]
    found = section(node("n1", cpu="4"), *pods, earlier=scheduler(node("n1", cpu="1"), *pods))
    assert [each.pod for each in found.between] == ["d/a"]


def test_a_moment_is_named_by_its_time() -> None:
    before = kschedctl.Cluster.from_objects([node("n1")], assume_complete=True)
    object.__setattr__(before, "provenance", Provenance("https://x", read_at=BEFORE))
    assert section(node("n1"), earlier=Scheduler(before)).before == BEFORE
