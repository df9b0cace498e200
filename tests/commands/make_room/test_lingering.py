"""Check plans in which an evicted pod still terminates while its successor is scheduled; expected values by hand.

n1 (zone a) has to be emptied of r. n2 (zone a) is empty, and n3 (zone b) has a pod of 1 cpu, so that r goes to n2 as
LeastAllocated has it, but to n3 while one of its own terminates in zone a and it would not have one beside it there.
"""

from __future__ import annotations

import pytest
from small import HOSTNAME, ZONE, Json, build_budget, build_node, build_pod

from kschedctl.cluster import Cluster
from kschedctl.commands.make_room import find_room
from kschedctl.commands.make_room.report import MakeRoom

APART = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "r"}}}
PREFERRED = {
    "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": APART}]}
}
REQUIRED = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}}
TOGETHER = {
    "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": APART}]}
}
SPREAD = [
    {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": APART["labelSelector"]}
]


def search_room(kind: str = "ReplicaSet", *more: Json, filled: str = "1", **spec: object) -> MakeRoom:
    r = build_pod("r", "n1", "2", {"kind": kind, "name": "r"}, **spec)
    r["metadata"]["labels"] = {"app": "r"}
    new = build_pod("new", "", "3", {"kind": "ReplicaSet", "name": "new"}, nodeSelector={HOSTNAME: "n1"})
    new["metadata"]["labels"] = {"app": "new"}
    nodes = [build_node("n1"), build_node("n2"), build_node("n3", zone="b")]
    other = build_pod("other", "n3", filled)
    other["metadata"]["labels"] = {"app": "other"}
    return find_room(Cluster.from_objects([*nodes, r, other, new, *more]), ["d/new"])


def get_targets(report: MakeRoom) -> tuple[str, tuple[str, ...]]:
    (move,) = report.moves
    return move.target, move.others


@pytest.mark.parametrize("affinity", [PREFERRED, REQUIRED], ids=["preferred", "required"])
def test_node_chosen_beside_the_terminating_pod_is_named(affinity: Json) -> None:
    assert get_targets(search_room(affinity=affinity)) == ("n2", ("n3",))


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"affinity": TOGETHER},
        {"topologySpreadConstraints": SPREAD},
        {"affinity": PREFERRED, "terminationGracePeriodSeconds": 0},
    ],
    ids=["no affinity", "affinity to its own", "spreading", "gone at once"],
)
def test_terminating_pods_that_make_no_difference(spec: Json) -> None:
    """The terminating pod does not change the destination: spread constraints do not count it, and affinity to it leads
    to its zone, n2's."""
    assert get_targets(search_room(**spec)) == ("n2", ())


def test_stateful_set_waits_until_its_pod_is_gone() -> None:
    assert get_targets(search_room("StatefulSet", affinity=PREFERRED)) == ("n2", ())


def test_pod_that_fits_nowhere_meanwhile_gets_the_same_node_later() -> None:
    """n3, the only node outside the terminating pod's zone, has no room."""
    assert get_targets(search_room(filled="3", affinity=REQUIRED)) == ("n2", ())


def test_terminating_pod_does_not_count_for_a_budget() -> None:
    """One of one pods may be disrupted. The terminating pod does not count as a second one."""
    one_away = build_budget(0, "r")
    one_away["spec"]["maxUnavailable"] = 1
    del one_away["status"]
    assert get_targets(search_room("ReplicaSet", one_away, affinity=PREFERRED)) == ("n2", ("n3",))


def test_no_plan_preempts_pods_meanwhile() -> None:
    """While r terminates, its replacement fits only on n3, where it would preempt a pod of a lower priority."""
    report = search_room(filled="3", affinity=REQUIRED, priority=5)
    assert (report.fits, report.moves) == (False, ())
