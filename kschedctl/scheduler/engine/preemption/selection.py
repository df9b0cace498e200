"""Which pods preemption may evict, and what is asked of a node besides its Filter plugins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.columns import NO_TIME
from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.scheduler.engine.preemption.candidates import Positions
from kschedctl.snapshot.fork import Fork

SORTED_AGAIN = ByVersion(
    "whether victims are sorted again by importance, not those first that break a budget",
    (("", False), ("1.30.7 1.31.3", True)),
    "#128307, brought back by #128431 and #128434",
)
NO_VICTIMS = "No preemption victims found for incoming pod"


class Selection(Protocol):
    """Upstream's SelectVictimsOnNode, for all nodes at once.

    ``filters_decide``: who has to go follows from the Filter plugins alone; ``refused`` and ``exceeded`` are None.
    """

    filters_decide: bool

    def potential(self, nodes: Bools) -> Positions:
        """(V,): the pods that may go from these nodes (N,), sorted by node and there the most important first."""

    def refused(self, pods: Positions) -> tuple[str, Bools] | None:
        """A reason, and (N,) the nodes that it refuses even when all of these pods (V,) are gone; None for none."""

    def exceeded(self, pods: Positions, gone: Bools) -> Bools | None:
        """(N,): where the pod that was just put back has to go all the same, with those that are ``gone`` (V,)."""

    def nobody(self, rows: Positions) -> Iterator[tuple[str, int]]:
        """What upstream says where no pod may go, and of how many of these rows."""

    def sorted_again(self, release: KubeVersion) -> bool:
        """Whether victims are sorted by importance in the end, not those first that break a budget."""


class DecidedByFilters(Selection, Protocol):
    """One of which who has to go follows from the Filter plugins alone."""

    def somewhere(self, nodes: Bools) -> Positions:
        """(V,): the pods that may go from these nodes (N,), in any order."""


class LowerPriority:
    """All pods of a lower priority than one; upstream's DefaultPreemption."""

    filters_decide = True

    def __init__(self, view: Fork, priority: int) -> None:
        self.view, self.priority = view, priority

    def potential(self, nodes: Bools) -> Positions:
        pods = self.somewhere(nodes)
        return pods[by_importance(self.view, pods, self.view.arrivals.place[pods])]

    def somewhere(self, nodes: Bools) -> Positions:
        view, pods = self.view, self.view.pods
        here = np.flatnonzero(np.append(nodes, False)[view.node])  # -1 is nowhere
        found: Positions = here[pods.priority[pods.info[here]] < self.priority]
        return found

    def refused(self, pods: Positions) -> None:
        return None

    def exceeded(self, pods: Positions, gone: Bools) -> None:
        return None

    def nobody(self, rows: Positions) -> Iterator[tuple[str, int]]:
        yield NO_VICTIMS, len(rows)

    def sorted_again(self, release: KubeVersion) -> bool:
        return SORTED_AGAIN.at(release)


def by_importance(view: Fork, pods: Positions, came: Positions) -> Positions:
    """The order within each node: higher priority first, then the longer running; those not started yet come last.

    Upstream takes the present for the start of a pod without one, anew at each comparison, so that such pods end up
    in reverse order, unless time stands still. Who came since the snapshot has started by now: of these, and of all
    that are equal, those go first that ``came`` (V,) last.
    """
    if not len(pods):
        return came
    start = view.pods.start[pods]
    late = np.where(always_now(view, pods), -came, came)
    return np.lexsort((late, start, -view.pods.priority[view.pods.info[pods]], view.node[pods]))


def always_now(view: Fork, pods: Positions) -> Bools:
    """(V,): the pods that each comparison takes to have started just then."""
    never_started: Bools = (view.pods.start[pods] == NO_TIME) & ~view.arrivals.came[pods]
    return never_started & view.time_passes
