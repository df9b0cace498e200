"""Check what is said of terminating pods that should be gone, as of the time at which the cluster was read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small import Json, build_node, build_pod

from kschedctl import Cluster, explain, remedies
from kschedctl.cluster import Provenance
from kschedctl.commands.make_room import make_room
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS

DUE = "2026-01-01T02:00:00Z"
WITHIN_GRACE, OVERDUE, UNKNOWN = "2026-01-01T01:00:00Z", "2026-01-04T02:00:00Z", ""
COLUMNS = "custom-columns=NAME:.metadata.name,FINALIZERS:.metadata.finalizers"


def build_cluster(read_at: str, *others: Json) -> Cluster:
    """Build a cluster with a node that a terminating pod fills, and the pending pod d/p."""
    leaving = build_pod("leaves", "n1", "4", terminationGracePeriodSeconds=7200)
    leaving["metadata"]["deletionTimestamp"] = DUE
    preempted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    leaving["status"]["conditions"].append(preempted)
    cluster = Cluster.from_objects([build_node("n1"), leaving, *others])
    return replace(cluster, provenance=Provenance("https://x", read_at=read_at)) if read_at else cluster


@pytest.mark.parametrize("read_at", [WITHIN_GRACE, UNKNOWN, "2026-01-01T02:00:30Z"])
def test_terminating_pod_within_its_grace_period_is_waited_for(read_at: str) -> None:
    first = remedies(build_cluster(read_at, build_pod("p")), "d/p").remedies[0]
    assert first.summary == f"Wait until 1 terminating pod leaves n1 (grace period 2 h, until {DUE}): d/leaves"
    assert first.commands == ("kubectl wait -n d --for=delete pod/leaves --timeout=7260s",)


def test_overdue_pod_is_not_waited_for() -> None:
    first = remedies(build_cluster(OVERDUE, build_pod("p")), "d/p").remedies[0]
    where = "(finalizers, the kubelet of n1)"
    assert first.summary == f"Find out why 1 terminating pod is still on n1, overdue by 3 days {where}: d/leaves"
    assert first.commands == (f"kubectl get pods -n d leaves -o {COLUMNS}", "kubectl describe node n1")


@pytest.mark.parametrize(("read_at", "overdue"), [(OVERDUE, "3 days"), (WITHIN_GRACE, ""), (UNKNOWN, "")])
def test_preemption_waits_for_overdue_victims(read_at: str, overdue: str) -> None:
    waiting = build_pod("p", priority=10)
    waiting["status"] = {"nominatedNodeName": "n1"}
    report = explain(build_cluster(read_at, waiting), "d/p")
    assert report.preemption is not None
    assert report.preemption.overdue == overdue
    by = f", overdue by {overdue}" if overdue else ""
    assert report.headline == f"preemption is under way: the pod waits for 1 pod (d/leaves) to terminate on n1{by}"
    texts = [advice.text for advice in report.advice]
    if overdue:
        assert texts == [f"The victims are overdue by {overdue}: check their finalizers and the kubelet of n1"]
    else:
        assert texts[0].startswith("Wait: the pod gets n1 once the victims are gone")
        assert DUE in texts[1]


def test_make_room_does_not_wait_for_overdue_pods() -> None:
    report = make_room(build_cluster(OVERDUE, build_pod("p")), "d/p")
    overdue = "overdue by 3 days (check finalizers, and the kubelet of n1)"
    assert str(report) == (f"Nothing has to move: d/p – n1 takes it once 1 terminating pod leaves, {overdue}: d/leaves")
    assert report.commands == (f"kubectl get pods -n d leaves -o {COLUMNS}", "kubectl describe node n1")
    assert "Find out what keeps the terminating pods" in RENDERERS["table"](report, Style())
    (command,) = make_room(build_cluster(UNKNOWN, build_pod("p")), "d/p").commands
    assert command.startswith("kubectl wait")
