"""Types of numpy columns, named after what an entry holds. N is nodes, P pods, T distinct PodInfos, R resources."""

from __future__ import annotations

from typing import NewType, cast

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
"""A mask of shape (N,), (P,) or (T,)."""
Ints = npt.NDArray[np.int32]
"""For each row the code of its value or the index of a row elsewhere; -1 means none."""
Rows = npt.NDArray[np.int64]
"""Row numbers to index with."""
Counts = npt.NDArray[np.int64]
"""Counts per node (N,) or per topology domain."""
Amounts = npt.NDArray[np.int64]
"""Resource amounts of shape (N,), (R,) or (N, R), each in the unit of its resource."""
Scores = npt.NDArray[np.int64]
"""One score per scored node, in the order of these nodes."""

Row = NewType("Row", int)
"""The index of a node in a snapshot, in the scheduler's iteration order."""
NO_ROW = Row(-1)
"""The row of a pod that is on no node."""
Position = NewType("Position", int)
"""The index of a pod in a snapshot."""


def find_positions(mask: Bools) -> list[Position]:
    """Return the positions of the pods in a mask of shape (P,)."""
    return cast(list[Position], np.flatnonzero(mask).tolist())


def find_distinct(indexes: Ints | Rows, count: int) -> Rows:
    """Return the distinct indexes in ascending order. All indexes are less than `count`.

    This is faster than np.unique, which sorts or hashes the indexes and imports numpy.ma.

    >>> find_distinct(np.array([4, 1, 4]), 5).tolist()
    [1, 4]
    """
    occurs = np.zeros(count, np.bool_)
    occurs[indexes] = True
    return np.flatnonzero(occurs)
