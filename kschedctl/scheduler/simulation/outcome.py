"""The outcome for one pod of a simulation, and the evictions on the way."""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from typing import NamedTuple

from kschedctl.api.arrays import NO_ROW, Position, Row

SCHEDULED, UNSCHEDULABLE, GATED = "Scheduled", "Unschedulable", "Gated"
NOT_RESPONSIBLE, ERROR, NOT_TRIED = "NotResponsible", "Error", "NotTried"
NOMINATED = "Nominated"
Progress = Callable[[int], None]
"""Called with the number of pods that are newly finished."""
StopRule = Callable[[int, Collection[Position]], bool]
"""Called before each new pod with the number of untried pods and the pods that were tried in vain.

If it returns True, no more pods are tried.
"""


class Outcome(NamedTuple):
    """The outcome for one pod."""

    position: Position
    verdict: str
    row: Row = NO_ROW
    """The pod's node, NO_ROW for none."""
    tied: int = 0
    """Number of nodes that were equally good."""
    feasible: int = 0
    """Number of feasible nodes."""
    victims: tuple[Position, ...] = ()
    """Positions of the pods that were preempted for it."""
    message: str = ""
    """kube-scheduler's message if the pod was not scheduled."""

    @property
    def is_placed(self) -> bool:
        """True if the pod got a node."""
        return self.row >= 0


class Eviction(NamedTuple):
    """One pod that was preempted for another."""

    victim: Position
    row: Row
    preemptor: Position
    tied: tuple[Position, ...] = ()
    """Pods that stay on the node and equal the victim in priority and start: kube-scheduler may evict one of them."""


class Recreation(Enum):
    """When the controller of an evicted pod creates its replacement."""

    NEVER = 0
    """No controller owns the pod."""
    AT_ONCE = 1
    """As soon as the pod terminates, as ReplicaSets and Jobs do."""
    WHEN_GONE = 2
    """Once the pod is deleted, as DaemonSets and StatefulSets do, whose pods have a slot of their own."""


RecreationRule = Callable[[Position], Recreation]
