"""Check the pods of a node while pods move on a fork and on its base."""

from __future__ import annotations

from random import Random

from small import node, pod

import kschedctl
from kschedctl.api.arrays import Position, Row
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.trail import MAX_SCANS


def naive(view: Fork, row: int) -> list[int]:
    return [position for position in range(len(view.pods)) if view.node[position] == row]


def test_pods_on_nodes_while_pods_move() -> None:
    random = Random(4)
    objects = [node(f"n{i}") for i in range(6)] + [pod(f"p{i}", f"n{random.randrange(6)}", "1m") for i in range(20)]
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
                    assert moving.pods_on(Row(row)) == naive(moving, row)
                    assert still.pods_on(Row(row)) == naive(still, row)
