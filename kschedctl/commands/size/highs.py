"""Linear and mixed-integer programs, solved by HiGHS from the optional dependency scipy.

HiGHS may write to the process's standard output, where answers go (scipy 1.17). This module suppresses that.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from kschedctl.commands.size.program import Table


def is_available() -> bool:
    """Return whether scipy is installed."""
    return find_spec("scipy") is not None


class MixedSolution(NamedTuple):
    """The solution of a mixed-integer program."""

    x: Table
    """The values of the variables, shape (V,)."""
    bound: float
    """A value below which no solution exists."""


def solve_mixed_program(
    value: Table, high: Table, whole: Table, constraints: list[Any], *, seconds: float, gap: float = 0.0
) -> MixedSolution | None:
    """Minimize ``value`` (V,) over variables from 0 to ``high`` (V,), which are integers where ``whole`` (V,) is 1.

    Return None if no solution exists or none was found in time. ``gap`` is the allowed relative distance from the
    optimum.
    """
    optimize: Any = import_module("scipy.optimize")
    with suppress_stdout():
        result = optimize.milp(
            value,
            integrality=whole,
            bounds=optimize.Bounds(np.zeros(len(value)), high),
            constraints=constraints,
            options={"time_limit": seconds, "mip_rel_gap": gap},
        )
    if result.x is None:
        return None
    return MixedSolution(result.x, float(result.fun if result.mip_dual_bound is None else result.mip_dual_bound))


def build_upper_limits(rows: Any, limits: Any) -> Any:
    """Build the constraint that ``rows`` (C, V) times the variables are at most ``limits`` (C,)."""
    optimize: Any = import_module("scipy.optimize")
    return optimize.LinearConstraint(rows, -np.inf, limits)


def compute_duals(costs: Table, columns: Table, demand: Table) -> Table | None:
    """Return the duals (G,) of the cheapest combination of ``columns`` (G, V) that covers ``demand`` (G,), or None.

    ``costs`` has shape (V,).
    """
    optimize: Any = import_module("scipy.optimize")
    with suppress_stdout():
        result = optimize.linprog(costs, A_ub=-columns, b_ub=-demand, method="highs")
    return None if result.x is None else np.maximum(-np.asarray(result.ineqlin.marginals), 0.0)


@contextmanager
def suppress_stdout() -> Iterator[None]:
    """Discard what C code writes to standard output. Do nothing outside the main thread, where others may write."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    sys.stdout.flush()
    try:
        saved = os.dup(1)
    except OSError:  # it is closed
        yield
        return
    _flush_c_stdout()
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    try:
        yield
    finally:
        _flush_c_stdout()
        os.dup2(saved, 1)
        os.close(devnull)
        os.close(saved)


def _flush_c_stdout() -> None:
    """Flush the buffers of C's standard output."""
    with suppress(OSError, AttributeError, TypeError):  # there is no such library
        ctypes.CDLL(None).fflush(None)
