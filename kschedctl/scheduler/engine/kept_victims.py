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
Priorities = npt.NDArray[np.int64]
UNKNOWN = np.iinfo(np.int64).min
VICTIMS_KEPT = 4_000_000
"""Pods in all dry runs that are kept, each of which takes 14 bytes."""


@dataclass(frozen=True)
class DryRunState:
    """What a dry run came to on nodes that are judged by their own pods alone: it holds for as long as nothing moves
    there.

    ``trail``: how long it was then. ``nominated``: the pods that others yield to. ``tried`` (N,): the nodes that this
    is about. ``fits`` (N,): those on which there is room once all go that may. ``beyond`` (N,): of nodes that were not
    tried, the priority up to which it is not enough that all pods go; UNKNOWN where none was looked at.
    ``pods`` (V,): who may go, sorted by node, there the most important first. Of each: ``node``, its node then;
    ``violating``, it breaks a budget; ``gone``, it has to go, where there is room at all.
    """

    trail: int
    nominated: Delta
    tried: Bools
    fits: Bools
    beyond: Priorities
    pods: Positions
    node: Ints
    violating: Bools
    gone: Bools

    def since(self, view: Fork, nominated: Delta) -> DryRunState:
        """What of it still holds, unless budgets allow more or less than they did."""
        same = view.touched <= self.trail
        if nominated is not self.nominated:
            same &= ~nominated.differing(self.nominated, len(same))
        state = self.on(same & self.tried)
        return replace(state, trail=len(view.trail), nominated=nominated, beyond=np.where(same, self.beyond, UNKNOWN))

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
            return self
        node = np.concatenate((self.node, later.node))
        order = np.argsort(node, kind="stable")
        return replace(
            self,
            tried=self.tried | later.tried,
            fits=np.where(later.tried, later.fits, self.fits),
            pods=np.concatenate((self.pods, later.pods))[order],
            node=node[order],
            violating=np.concatenate((self.violating, later.violating))[order],
            gone=np.concatenate((self.gone, later.gone))[order],
        )

    def lacking(self, priority: int, nodes: Bools) -> DryRunState:
        """And on these nodes (N,) it is not enough that all pods up to a priority go."""
        return replace(self, beyond=np.where(nodes, priority, self.beyond)) if nodes.any() else self


def nothing_tried(view: Fork, nominated: Delta) -> DryRunState:
    """Nothing is known of any node."""
    nowhere, nobody = np.zeros(len(view.nodes), np.bool_), np.empty(0, np.int64)
    none = np.empty(0, np.bool_)
    unknown = np.full(len(view.nodes), UNKNOWN)
    return DryRunState(len(view.trail), nominated, nowhere, nowhere, unknown, nobody, view.node[nobody], none, none)


@dataclass
class KeptVictims:
    """The latest dry run for each kind of pod.

    ``enough``: up to which priority pods had to go, the last time that this was looked for.
    """

    enough: int = 0
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
