"""Who had to go from each node for pods alike: kept for the next such pod, as most nodes are what they were."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork, make_room

Positions = npt.NDArray[np.int64]
ALIKE_KEPT = 64


@dataclass(frozen=True)
class DryRunState:
    """What a dry run started from and what it came to: it holds node by node for as long as nothing moves there.

    ``promising`` (N,): the nodes that pass without all that may go; ``nominated``: the pods that others yield to there;
    ``violating`` and ``gone``: the positions of those that break a budget, and of those that have to go.
    """

    trail: int
    promising: Bools
    nominated: Delta
    violating: Positions
    gone: Positions

    def holds(self, view: Fork, promising: Bools, nominated: Delta, pods: Positions, violating: Bools) -> Bools:
        """(N,): the nodes on which it still holds, now that these pods (V,) may go, some ``violating`` a budget."""
        same = promising & self.promising & (view.touched <= self.trail)
        if nominated is not self.nominated:
            same &= ~nominated.differing(self.nominated, len(same))
        same[view.node[pods[_marked(self.violating, view)[pods] != violating]]] = False
        return same

    def had_to_go(self, view: Fork, pods: Positions) -> Bools:
        """(V,): which of the pods had to."""
        return _marked(self.gone, view)[pods]


@dataclass
class KeptVictims:
    """The latest dry run for each kind of pod."""

    _states: dict[Hashable, DryRunState] = field(default_factory=dict)

    def latest(self, alike: Hashable) -> DryRunState | None:
        return self._states.get(alike)

    def keep(self, alike: Hashable, state: DryRunState) -> None:
        make_room(self._states, ALIKE_KEPT)
        self._states[alike] = state


def _marked(positions: Positions, view: Fork) -> Bools:
    """(P,): these pods."""
    marked = np.zeros(len(view.pods), np.bool_)
    marked[positions] = True
    return marked
