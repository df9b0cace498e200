"""The types of columns, by what an entry says; N nodes, P pods, T kinds of pods, R resources."""

from __future__ import annotations

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
"""Of the nodes that are scored, in their order."""
