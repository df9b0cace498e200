"""`make-room` with several workers finds what one finds; interrupted, it tells what it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

import pytest
from naive_cluster import MOST, WANTED, random_cluster
from small import node, pod, replica

from kschedctl.cluster import Cluster
from kschedctl.studies.basics.parallel import Crew, Workers
from kschedctl.studies.making_room.make_room import make_room
from kschedctl.studies.making_room.room import DraftTask, RoomWishes


@pytest.mark.parametrize("seed", [0, 5, 20, 33, 35, 60])
def test_several_workers_find_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it fits as it is, one move helps, or two or three; plans are refused before one holds."""
    rounds, judge = [0], Crew.results

    def counted(crew: Crew[DraftTask, bool], tasks: Sequence[DraftTask]) -> Iterator[bool]:
        rounds[0] += 1
        return judge(crew, tasks)

    monkeypatch.setattr(Crew, "results", counted)
    cluster = Cluster.from_objects(random_cluster(Random(seed)))
    alone = make_room(cluster, [f"d/{WANTED}"], RoomWishes(MOST))
    assert make_room(cluster, [f"d/{WANTED}"], RoomWishes(MOST), workers=Workers(2)) == alone
    assert rounds[0] > 0 or len(alone.moves) < 2


class Interrupting:
    """Ctrl-C after so many plans."""

    def __init__(self, after: int) -> None:
        self.left = after

    def begin(self, what: str, total: int) -> Callable[[int], None]:
        return self.done

    def done(self, number: int) -> None:
        self.left -= number
        if not self.left:
            raise KeyboardInterrupt


@pytest.mark.parametrize("workers", [Workers(1), Workers(2)])
def test_an_interruption_tells_what_was_found(workers: Workers) -> None:
    """Two pods of 3 cpus, for each of which one of 2 cpus has to move: the first has its plan when it ends."""
    nodes = [node(name, cpu=cpu) for name, cpu in (("n1", "4"), ("n2", "4"), ("n3", "2"), ("n4", "2"))]
    running = [replica("a", "n1", "2"), replica("b", "n2", "2")]
    cluster = Cluster.from_objects([*nodes, *running, pod("w1", "", "3"), pod("w2", "", "3")])
    report = make_room(cluster, ["d/w1", "d/w2"], workers=workers, progress=Interrupting(2))
    assert report.interrupted
    assert len(report.moves) == 1
