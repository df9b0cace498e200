"""Compare `make-room` with all sequences of up to three moves on small random clusters, replayed from scratch.

Pods that wait are tried at each step, before the pod that is made again and after it.

With KSCHEDCTL_MANY=300 in the environment on so many of them.
"""

from __future__ import annotations

import os
from random import Random

import pytest
from naive_cluster import MOST, WANTED, Naive, build_random_cluster

from kschedctl.cluster import Cluster
from kschedctl.commands.make_room import find_room
from kschedctl.commands.make_room.room import RoomCriteria


@pytest.mark.parametrize("seed", range(int(os.environ.get("KSCHEDCTL_MANY", "12"))))
def test_plan_has_the_fewest_moves_of_all_sequences(seed: int) -> None:
    objects = build_random_cluster(Random(seed))
    naive = Naive(objects)
    possible, certain, cost = naive.fewest()
    report = find_room(Cluster.from_objects(objects), [f"d/{WANTED}"], RoomCriteria(MOST))
    if certain is not None:
        assert report.fits, f"{certain} moves do"
        assert len(report.moves) <= certain
    if report.fits:
        assert possible is not None
        assert len(report.moves) >= possible
    if cost is not None and len(report.moves) == certain:
        assert naive.cost([move.pod.removeprefix("d/") for move in report.moves]) <= cost
