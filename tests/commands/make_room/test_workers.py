"""Check that `make-room` with several workers finds the same plans, and reports its best ones if interrupted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import pytest
from interrupting import Interrupting
from naive_cluster import MOST, WANTED, build_random_cluster
from small import build_node, build_pod, build_replica

from kschedctl.cluster import Cluster
from kschedctl.commands.make_room import find_room
from kschedctl.commands.make_room.room import DraftTask, RoomCriteria
from kschedctl.replay.parallel import WorkerPool, Workers


@pytest.mark.parametrize("seed", [0, 5, 20, 33, 35, 60])
def test_several_workers_find_the_same_plans(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pods fit as they are or after one, two or three moves, and some plans are rejected before one holds."""
    rounds, judge = [0], WorkerPool.run

    def counted(crew: WorkerPool[DraftTask, list[bool]], tasks: Sequence[DraftTask]) -> Iterator[list[bool]]:
        rounds[0] += 1
        return judge(crew, tasks)

    monkeypatch.setattr(WorkerPool, "run", counted)
    cluster = Cluster.from_objects(build_random_cluster(Random(seed)))
    alone = find_room(cluster, [f"d/{WANTED}"], RoomCriteria(MOST))
    assert find_room(cluster, [f"d/{WANTED}"], RoomCriteria(MOST), workers=Workers(2)) == alone
    assert rounds[0] > 0 or len(alone.moves) < 2


@pytest.mark.parametrize("workers", [Workers(1), Workers(2)])
def test_interruption_shows_the_plans_so_far(workers: Workers) -> None:
    """Each of three pods of 3 CPUs needs a pod of 2 CPUs to move. At the interruption, two have their plans."""
    nodes = [build_node(f"n{i}", cpu="4" if i < 3 else "2") for i in range(6)]
    running = [build_replica(name, f"n{i}", "2") for i, name in enumerate("abc")]
    cluster = Cluster.from_objects([*nodes, *running, *[build_pod(f"w{i}", "", "3") for i in range(3)]])
    report = find_room(cluster, ["d/w0", "d/w1", "d/w2"], workers=workers, progress=Interrupting(2))
    assert report.interrupted
    assert [(placed.pod, placed.node) for placed in report.placed] == [("d/w0", "n0"), ("d/w1", "n1")]
    assert len(report.moves) == 2
