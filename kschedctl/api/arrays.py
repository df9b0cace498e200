"""The types of columns, by what an entry says; N nodes, P pods, R resources."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
"""A mask: (N,) of nodes, (P,) of pods."""
Rows = npt.NDArray[np.int64]
"""Rows of nodes, in the order of the snapshot."""
Counts = npt.NDArray[np.int64]
"""How many, or how much of a resource in its unit: (N,), (N, R)."""
