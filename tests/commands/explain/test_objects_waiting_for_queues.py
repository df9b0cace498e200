"""Objects that wait for a queue while the scheduler would place their pod."""

from __future__ import annotations

from small import build_node, build_pod

from kschedctl import explain
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import _add_objects_waiting_for_queues
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, WaitingState
from kschedctl.scheduler.scheduler import Scheduler


def test_headline_is_about_the_object_that_is_not_admitted() -> None:
    cluster = Cluster.from_objects([build_node("n1"), build_pod("p")])
    admissible = WaitingElsewhere("Workload d/a", WaitingState.ADMISSIBLE, "will be admitted")
    not_admitted = WaitingElsewhere("Workload d/b", WaitingState.NOT_ADMITTED, "needs more quota")
    scheduler = Scheduler(cluster)
    pod = cluster.pod("d", "p")
    assert pod is not None
    target = TargetPod(scheduler, pod)._replace(waiting_elsewhere=(admissible, not_admitted))
    report = _add_objects_waiting_for_queues(target, explain(cluster, "d/p"))
    assert (report.verdict, report.headline) == ("NotCreated", "Workload d/b needs more quota")
