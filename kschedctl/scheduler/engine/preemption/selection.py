"""The selection of pods that preemption may evict, and conditions on nodes besides the Filter plugins."""

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
    """Upstream's SelectVictimsOnNode for all nodes at once."""

    filters_decide: bool
    """Whether the victims follow from the Filter plugins alone; then `refused` and `exceeded` return None."""

    def find_potential(self, nodes: Bools) -> Positions:
        """Return the evictable pods on these nodes (N,), sorted by node and then by importance, (V,)."""

    def find_rejected(self, pods: Positions) -> tuple[str, Bools] | None:
        """Return a reason and the nodes (N,) that it rejects even without all of these pods (V,), or None."""

    def find_exceeded(self, pods: Positions, gone: Bools) -> Bools | None:
        """Return the nodes where the pod just put back has to go all the same, given the pods that are `gone` (V,)."""

    def iter_no_victims_messages(self, rows: Positions) -> Iterator[tuple[str, int]]:
        """Yield upstream's messages for nodes without evictable pods, and the number of these rows for each."""

    def sorts_by_importance(self, release: KubeVersion) -> bool:
        """Return whether victims are finally sorted by importance, instead of PDB violations first."""


class DecidedByFilters(Selection, Protocol):
    """A selection whose victims follow from the Filter plugins alone."""

    def find_potential_unsorted(self, nodes: Bools) -> Positions:
        """Return the evictable pods on these nodes (N,), in any order, (V,)."""


class LowerPriority:
    """Selection of all pods with a lower priority; upstream's DefaultPreemption."""

    filters_decide = True

    def __init__(self, view: Fork, priority: int) -> None:
        self.view, self.priority = view, priority

    def find_potential(self, nodes: Bools) -> Positions:
        pods = self.find_potential_unsorted(nodes)
        return pods[sort_by_importance(self.view, pods, self.view.arrivals.place[pods])]

    def find_potential_unsorted(self, nodes: Bools) -> Positions:
        view, pods = self.view, self.view.pods
        here = np.flatnonzero(np.append(nodes, False)[view.node])  # -1 is nowhere
        found: Positions = here[pods.priority[pods.info[here]] < self.priority]
        return found

    def find_rejected(self, pods: Positions) -> None:
        return None

    def find_exceeded(self, pods: Positions, gone: Bools) -> None:
        return None

    def iter_no_victims_messages(self, rows: Positions) -> Iterator[tuple[str, int]]:
        yield NO_VICTIMS, len(rows)

    def sorts_by_importance(self, release: KubeVersion) -> bool:
        return SORTED_AGAIN.at(release)


def sort_by_importance(view: Fork, pods: Positions, arrival_order: Positions) -> Positions:
    """Return the order of pods within each node: higher priority first, then the longer running.

    Upstream takes the present as the start of a pod that has not started, anew in each comparison, so that such pods
    end up in reverse order unless time stands still. Pods that came since the snapshot have started by now; among
    these, and among equals, those that `came` (V,) last go first.
    """
    if not len(pods):
        return arrival_order
    start = view.pods.start[pods]
    late = np.where(find_never_started(view, pods), -arrival_order, arrival_order)
    return np.lexsort((late, start, -view.pods.priority[view.pods.info[pods]], view.node[pods]))


def find_never_started(view: Fork, pods: Positions) -> Bools:
    """Return the pods that each comparison takes to have started just then, (V,)."""
    never_started: Bools = (view.pods.start[pods] == NO_TIME) & ~view.arrivals.came[pods]
    return never_started & view.time_passes
