"""Check that no pod is moved if the waiting pod would preempt others while the node is cordoned for the move.

Pod d/urgent needs 3 CPUs. n1 has 2 free beside d/api, which can only move to n2. n3 has 2 free beside d/batch and
d/log, which cannot move. The eviction of d/api wakes d/urgent, which cannot use n1 before it is uncordoned.
"""

from __future__ import annotations

import pytest
from small import HOSTNAME, Json, build_node, build_pod, build_replica

from kschedctl import Cluster
from kschedctl.commands.make_room import make_room
from kschedctl.commands.make_room.report import PreemptionMeanwhile
from kschedctl.commands.remedies import remedies
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS


def build_affinity(*nodes: str) -> Json:
    """Build the affinity of a pod that may run only on these nodes."""
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": list(nodes)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def build_cluster(batch_priority: int) -> Cluster:
    """Build the cluster. d/urgent has priority 50 and may preempt d/batch if that has a lower one."""
    objects: list[Json] = [
        build_node("n1"),
        build_node("n2", cpu="2"),
        build_node("n3"),
        build_replica("api", "n1", "2", priority=50, affinity=build_affinity("n1", "n2")),
        build_replica("batch", "n3", "1", priority=batch_priority, affinity=build_affinity("n3")),
        build_replica("log", "n3", "1", priority=50, affinity=build_affinity("n3")),
        build_pod("urgent", cpu="3", priority=50, owner={"kind": "ReplicaSet", "name": "urgent"}),
    ]
    return Cluster.from_objects(objects)


@pytest.mark.parametrize(("batch_priority", "is_offered"), [(0, False), (50, True)])
def test_moves_are_offered_only_if_the_waiting_pod_preempts_none_meanwhile(
    batch_priority: int, is_offered: bool
) -> None:
    report = remedies(build_cluster(batch_priority), "d/urgent")
    moves = [remedy.summary for remedy in report.remedies if "MovePod" in [str(kind) for kind in remedy.kinds]]
    assert any("d/api from n1 to n2" in move for move in moves) == is_offered
    room = make_room(build_cluster(batch_priority), "d/urgent")
    assert (room.fits, bool(room.moves), bool(room.commands)) == (is_offered,) * 3


def test_every_form_says_which_pods_would_be_preempted_meanwhile() -> None:
    room = make_room(build_cluster(batch_priority=0), "d/urgent")
    assert room.preemption_meanwhile == PreemptionMeanwhile("d/urgent", "n3", ("d/batch",), ("n1",))
    text = "No safe plan found for d/urgent – while n1 is cordoned, it would preempt d/batch on n3"
    for output in ("table", "brief", "markdown"):
        assert text in str(RENDERERS[output](room, Style(width=200))).replace("**", "")
    assert room.missing == ("d/urgent",)
