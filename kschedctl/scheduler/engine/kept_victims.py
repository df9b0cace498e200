"""Who had to go from each node for pods alike: kept for the next such pod, as most nodes are what they were."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Ints
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork, make_room
from kschedctl.snapshot.pod_info import PodInfo

Positions = npt.NDArray[np.int64]
VICTIMS_KEPT = 4_000_000
"""Pods in all dry runs that are kept, each of which takes 14 bytes."""


@dataclass(frozen=True)
class DryRunState:
    """What a dry run came to on nodes that are judged by their own pods alone: it holds for as long as nothing moves
    there.

    ``trail``: how long it was then. ``nominated``: the pods that others yield to. ``tried`` (N,): the nodes that this
    is about. ``fits`` (N,): those on which there is room once all go that may.
    ``pods`` (V,): who may go, sorted by node, there the most important first. Of each: ``node``, its node then;
    ``violating``, it breaks a budget; ``gone``, it has to go, where there is room at all.
    """

    trail: int
    nominated: Delta
    tried: Bools
    fits: Bools
    pods: Positions
    node: Ints
    violating: Bools
    gone: Bools

    def holds(self, view: Fork, nominated: Delta) -> Bools:
        """(N,): the nodes on which it still holds, unless budgets allow more or less than they did."""
        same: Bools = self.tried & (view.touched <= self.trail)
        if nominated is not self.nominated:
            same &= ~nominated.differing(self.nominated, len(same))
        return same

    def on(self, nodes: Bools) -> DryRunState:
        """What is known of some of the nodes (N,) that it is about."""
        here = nodes[self.node]
        return replace(
            self,
            tried=nodes,
            pods=self.pods[here],
            node=self.node[here],
            violating=self.violating[here],
            gone=self.gone[here],
        )

    def joined(self, later: DryRunState) -> DryRunState:
        """With what a later dry run came to on other nodes."""
        if not later.tried.any():
            return replace(self, trail=later.trail, nominated=later.nominated)
        node = np.concatenate((self.node, later.node))
        order = np.argsort(node, kind="stable")
        return replace(
            later,
            tried=self.tried | later.tried,
            fits=np.where(later.tried, later.fits, self.fits),
            pods=np.concatenate((self.pods, later.pods))[order],
            node=node[order],
            violating=np.concatenate((self.violating, later.violating))[order],
            gone=np.concatenate((self.gone, later.gone))[order],
        )


@dataclass
class KeptVictims:
    """The latest dry run for each kind of pod."""

    _states: dict[Hashable, DryRunState] = field(default_factory=dict)

    def latest(self, alike: Hashable) -> DryRunState | None:
        return self._states.get(alike)

    def keep(self, alike: Hashable, state: DryRunState) -> None:
        if alike not in self._states:
            make_room(self._states, max(VICTIMS_KEPT // (len(state.pods) + len(state.tried)), 1))
        self._states[alike] = state


def likeness(info: PodInfo, view: Fork) -> Hashable:
    """Equal for pods of one priority that request the same, which is what such nodes look at; None where no other pod
    is known to be alike."""
    if info.number is None:
        return None
    number, comes_again = info.number % len(view.pods.infos), info.number >= len(view.pods.infos)
    return info.priority, int(view.pods.distinct.demand[number]), comes_again
