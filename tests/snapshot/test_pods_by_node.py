"""Check the pods of a node, and their order of arrival, while pods move."""

from __future__ import annotations

from random import Random

import numpy as np
from small import build_node, build_pod

import kschedctl
from kschedctl.api.arrays import Position, Row
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.trail import MAX_SCANS, Arrivals, Trail


def list_pods_naively(view: Fork, row: int) -> list[int]:
    return [position for position in range(len(view.pods)) if view.node[position] == row]


def test_pods_on_nodes_while_pods_move() -> None:
    random = Random(4)
    objects = [build_node(f"n{i}") for i in range(6)] + [
        build_pod(f"p{i}", f"n{random.randrange(6)}", "1m") for i in range(20)
    ]
    view = Scheduler(kschedctl.Cluster.from_objects(objects)).view.fork()
    for _ in range(12):
        other = view.fork()
        for moving, still in ((view, other), (other, view)):
            still.pods_on(Row(0))
            position = Position(random.randrange(20))
            moving.forget(position)
            moving.assume(position, Row(random.randrange(6)))
            for _ in range(MAX_SCANS // 4):
                for row in range(6):
                    assert moving.pods_on(Row(row)) == list_pods_naively(moving, row)
                    assert still.pods_on(Row(row)) == list_pods_naively(still, row)


def list_in_order_of_arrival(arrivals: Arrivals, row: int) -> list[int]:
    positions = np.flatnonzero(arrivals.node == row)
    ordered: list[int] = positions[arrivals.place[positions].argsort()].tolist()
    return ordered


def test_order_of_arrival_after_many_departures() -> None:
    random = Random(5)
    node_of_pod = [random.randrange(40) for _ in range(300)]
    pods_by_row = [[position for position in range(300) if node_of_pod[position] == row] for row in range(40)]
    trail, arrivals = Trail(), Arrivals(np.array(node_of_pod, np.int32))
    for _ in range(4):
        # More departures in a row than nodes that are looked up by a scan
        leaving = random.sample([position for pods in pods_by_row for position in pods], 80)
        assert len({node_of_pod[position] for position in leaving}) > MAX_SCANS
        for position in leaving:
            pods = pods_by_row[node_of_pod[position]]
            trail.append(node_of_pod[position], 0, -1, position)
            pods[pods.index(position)] = pods[-1]  # the last pod takes the place, as in upstream's RemovePod
            pods.pop()
        for position in leaving[:50]:
            node_of_pod[position] = random.randrange(40)
            trail.append(node_of_pod[position], 0, 1, position)
            pods_by_row[node_of_pod[position]].append(position)

        arrivals.bring_up_to_date(trail, 300)
        assert [list_in_order_of_arrival(arrivals, row) for row in range(40)] == pods_by_row
