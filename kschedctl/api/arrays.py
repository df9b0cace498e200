"""The types of columns, by what an entry says; N nodes, P pods, T distinct PodInfos, R resources."""

from __future__ import annotations

from typing import NewType, cast

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
"""A mask: (N,), (P,) or (T,)."""
Ints = npt.NDArray[np.int32]
"""For each row a code of its value, or a row of others, as columns keep them: -1 for none."""
Rows = npt.NDArray[np.int64]
"""Rows that are chosen, to index with."""
Counts = npt.NDArray[np.int64]
"""How many there are: on each node (N,), or in each domain."""
Amounts = npt.NDArray[np.int64]
"""How much of resources, in the unit of each: (N,), (R,), (N, R)."""
Scores = npt.NDArray[np.int64]
"""A score for each node that is scored, in their order."""

Row = NewType("Row", int)
"""A node of a snapshot: its place in the scheduler's order."""
NO_ROW = Row(-1)
"""The row of a pod that is on no node."""
Position = NewType("Position", int)
"""A pod of a snapshot."""


def positions_of(chosen: Bools) -> list[Position]:
    """The pods of a mask (P,)."""
    return cast(list[Position], np.flatnonzero(chosen).tolist())
