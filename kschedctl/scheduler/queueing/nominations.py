"""The nodes that pods wait for, since room is made for them there.

Upstream: prepareCandidate in pkg/scheduler/framework/preemption/executor.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kschedctl.api.arrays import NO_ROW, Position, Row
from kschedctl.snapshot.fork import Fork


def less_urgent(view: Fork, row: Row, priority: int) -> list[Position]:
    """The pods of lower priority that wait for a node. Upstream: getLowerPriorityNominatedPods."""
    rows, positions = view.nominations
    waiting = positions[rows == row]
    below: list[Position] = waiting[view.pods.priority[view.pods.info[waiting]] < priority].tolist()
    return below


class Nominations:
    """Which nodes pods of a fork wait for.

    ``lost``: the pods that do so no longer though they came to none, since it was emptied; ``before_loss``: told of
    each before that.
    """

    def __init__(self, view: Fork) -> None:
        self.view = view
        self.lost: list[Position] = []
        self.before_loss: Callable[[Position], None] | None = None

    def make(self, position: Position, row: Row) -> None:
        """The pod, which preempted others there, waits for the node; pods of lower priority do so no longer."""
        self._outdo(position, row)
        self._set(position, row)

    def of_group(self, nominated: Mapping[Position, Row | None], preempting: Mapping[Position, Row]) -> None:
        """What each pod of a group waits for now, None for what it did. ``preempting``: where they evict others,
        also in vain.
        """
        for position, row in preempting.items():
            self._outdo(position, row)
        for position, promised in nominated.items():
            if promised is not None:
                self._set(position, promised)

    def give_up(self, position: Position) -> None:
        """The pod waits for no node any more."""
        self._set(position, NO_ROW)

    def keep(self, position: Position) -> None:
        """The pod comes to a node."""
        if self.view.nominated_row(position) != NO_ROW:
            self.view.nominate(position, NO_ROW)

    def lose(self, position: Position) -> None:
        """The pod left the node that it had been promised and came to."""
        if self.before_loss:
            self.before_loss(position)
        self.lost.append(position)

    def _outdo(self, position: Position, row: Row) -> None:
        for other in less_urgent(self.view, row, int(self.view.pods.priority[self.view.pods.info[position]])):
            self.give_up(other)

    def _set(self, position: Position, row: Row) -> None:
        before = self.view.nominated_row(position)
        if before not in (row, NO_ROW):
            self.lose(position)
        if before != row:
            self.view.nominate(position, row)
