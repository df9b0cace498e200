"""What became of a pod in a simulation."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from kschedctl.api.arrays import NO_ROW, Position, Row

SCHEDULED, UNSCHEDULABLE, GATED = "Scheduled", "Unschedulable", "Gated"
NOT_RESPONSIBLE, ERROR, NOT_TRIED = "NotResponsible", "Error", "NotTried"
NOMINATED = "Nominated"
Progress = Callable[[int], None]
"""Told how many pods more are done with."""


class Outcome(NamedTuple):
    """What became of one pod: ``row`` is its node, -1 for none.

    ``tied``: how many nodes were equally good, among ``feasible`` that fit; ``victims``: the positions of the pods that
    had to go; ``message``: why it is not scheduled, as kube-scheduler says it.
    """

    position: Position
    verdict: str
    row: Row = NO_ROW
    tied: int = 0
    feasible: int = 0
    victims: tuple[Position, ...] = ()
    message: str = ""


class Eviction(NamedTuple):
    """One preemption of one pod: the ``victim`` left the node ``row`` for the ``preemptor``."""

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
