"""Nominations: the nodes on which pods wait for their victims to leave.

Upstream: prepareCandidate in pkg/scheduler/framework/preemption/executor.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kschedctl.api.arrays import NO_ROW, Position, Row
from kschedctl.snapshot.fork import Fork


def find_lower_priority_nominated(view: Fork, row: Row, priority: int) -> list[Position]:
    """Return the pods of lower priority that are nominated for a node. Upstream: getLowerPriorityNominatedPods."""
    rows, positions = view.nominations
    nominated = positions[rows == row]
    lower: list[Position] = nominated[view.pods.priority[view.pods.info[nominated]] < priority].tolist()
    return lower


class Nominations:
    """The nominations of a fork's pods."""

    def __init__(self, view: Fork) -> None:
        self.view = view
        self.lost: list[Position] = []
        self.before_loss: Callable[[Position], None] | None = None

    def nominate(self, position: Position, row: Row) -> None:
        """Nominate the pod, which preempted others, for the node, and clear nominations of pods of lower priority."""
        self._clear_lower_priority(position, row)
        self._change(position, row)

    def nominate_group(self, nominated: Mapping[Position, Row | None], preempting: Mapping[Position, Row]) -> None:
        """Set the nominations of a group's pods, where None keeps the current one.

        Members in `preempting` clear the nominations of pods of lower priority even if they preempted in vain.
        """
        for position, row in preempting.items():
            self._clear_lower_priority(position, row)
        for position, nominated_row in nominated.items():
            if nominated_row is not None:
                self._change(position, nominated_row)

    def clear(self, position: Position) -> None:
        """Clear the pod's nomination."""
        self._change(position, NO_ROW)

    def consume(self, position: Position) -> None:
        """Remove the nomination of a pod that is placed on a node, without reporting it as lost."""
        if self.view.nominated_row(position) != NO_ROW:
            self.view.nominate(position, NO_ROW)

    def record_loss(self, position: Position) -> None:
        """Record that the pod lost its nomination without being placed."""
        if self.before_loss:
            self.before_loss(position)
        self.lost.append(position)

    def _clear_lower_priority(self, position: Position, row: Row) -> None:
        """Clear the nominations for the node of pods with a lower priority than this one."""
        for other in find_lower_priority_nominated(
            self.view, row, int(self.view.pods.priority[self.view.pods.info[position]])
        ):
            self.clear(other)

    def _change(self, position: Position, row: Row) -> None:
        """Change the pod's nomination, and record the loss of another one."""
        previous = self.view.nominated_row(position)
        if previous not in (row, NO_ROW):
            self.record_loss(position)
        if previous != row:
            self.view.nominate(position, row)
