"""Linear and mixed-integer programs, solved by HiGHS from the optional dependency scipy.

HiGHS may write to the process's standard output, where answers are printed (scipy 1.17). This module suppresses that.
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
    objective: Table,
    upper_limits: Table,
    is_integer: Table,
    constraints: list[Any],
    *,
    seconds: float,
    gap: float = 0.0,
) -> MixedSolution | None:
    """Minimize `objective` (V,) over variables from 0 to `upper_limits` (V,), subject to the constraints.

    Variables are integers where `is_integer` (V,) is 1. Return None if no solution exists or none was found within
    `seconds`. `gap` is the allowed relative distance from the optimum.
    """
    optimize: Any = import_module("scipy.optimize")
    with suppress_stdout():
        result = optimize.milp(
            objective,
            integrality=is_integer,
            bounds=optimize.Bounds(np.zeros(len(objective)), upper_limits),
            constraints=constraints,
            options={"time_limit": seconds, "mip_rel_gap": gap},
        )
    if result.x is None:
        return None
    # Without integers there is no dual bound, and the solution is optimal.
    bound = result.fun if result.mip_dual_bound is None else result.mip_dual_bound
    return MixedSolution(result.x, float(bound))


def build_upper_limits(rows: Any, limits: Any) -> Any:
    """Build the constraint that `rows` (C, V) times the variables are at most `limits` (C,)."""
    optimize: Any = import_module("scipy.optimize")
    return optimize.LinearConstraint(rows, -np.inf, limits)


def compute_duals(costs: Table, columns: Table, demand: Table) -> Table | None:
    """Return the dual prices (G,) of covering `demand` (G,) at the lowest cost, or None if that is impossible.

    `columns` (G, V) can be combined at `costs` (V,) each.
    """
    optimize: Any = import_module("scipy.optimize")
    with suppress_stdout():
        result = optimize.linprog(costs, A_ub=-columns, b_ub=-demand, method="highs")
    if result.x is None:
        return None
    prices: Table = np.maximum(-np.asarray(result.ineqlin.marginals), 0.0)
    return prices


@contextmanager
def suppress_stdout() -> Iterator[None]:
    """Discard what C code writes to standard output.

    Does nothing outside the main thread, since other threads may print.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    sys.stdout.flush()
    try:
        saved_fd = os.dup(1)
    except OSError:  # standard output is closed
        yield
        return
    _flush_c_stdout()
    devnull_fd = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull_fd, 1)
    try:
        yield
    finally:
        _flush_c_stdout()
        os.dup2(saved_fd, 1)
        os.close(devnull_fd)
        os.close(saved_fd)


def _flush_c_stdout() -> None:
    """Flush the buffers of C's standard output."""
    with suppress(OSError, AttributeError, TypeError):  # on a platform without such a library
        ctypes.CDLL(None).fflush(None)
