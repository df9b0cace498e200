"""The least that nodes for some pods can be, by what these request together: a relaxation, which ignores all rules.

Nodes of any mix of shapes may be bought in parts. By weak duality of linear programs every weighting of the resources
proves a bound: what is requested, weighted, over what a unit of money buys of it at best. Some weightings are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.float64]
STEPS = 5
"""Of a weight, for up to so many resources at once as are weighted against each other."""
TOGETHER = 3


def least(requested: Table, offered: Table, costs: Table) -> float:
    """(R,) requests, (S, R) what a node of each shape offers, and its cost (S,): what all nodes cost at least."""
    asked = requested > 0
    requested, offered = requested[asked], np.maximum(offered[:, asked], 0)
    best = 0.0
    for weights in _weights(len(requested)):
        shares = weights / requested  # so that each weight is of all that is requested of its resource
        bought = (offered @ shares) / costs
        if bought.max(initial=0) > 0:
            best = max(best, float(weights.sum() / bought.max()))
    return best


def _weights(resources: int) -> Iterator[Table]:
    """Each resource alone, and the first of them against each other."""
    yield from np.eye(resources)
    together = min(resources, TOGETHER)
    for steps in product(range(STEPS), repeat=together):
        if sum(steps):
            yield np.array([*steps, *[0] * (resources - together)], np.float64)
