"""Linear and mixed-integer programs by HiGHS, which comes with scipy, an extra.

It may write to the process's standard output, where answers go (scipy 1.17); that is kept from there.
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


def is_there() -> bool:
    """Whether scipy is installed."""
    return find_spec("scipy") is not None


class Solved(NamedTuple):
    """``x`` (V,); ``bound``: no solution has a lower value."""

    x: Table
    bound: float


def mixed_program(
    value: Table, high: Table, whole: Table, constraints: list[Any], *, seconds: float, gap: float = 0.0
) -> Solved | None:
    """The least of ``value`` (V,) for variables from 0 to ``high`` (V,), whole numbers where ``whole`` (V,) is 1.

    None where there is none, or none was found in so many seconds. ``gap``: so far, relatively, it may be from the
    best.
    """
    optimize: Any = import_module("scipy.optimize")
    with quiet():
        found = optimize.milp(
            value,
            integrality=whole,
            bounds=optimize.Bounds(np.zeros(len(value)), high),
            constraints=constraints,
            options={"time_limit": seconds, "mip_rel_gap": gap},
        )
    if found.x is None:
        return None
    return Solved(found.x, float(found.fun if found.mip_dual_bound is None else found.mip_dual_bound))


def at_most(rows: Any, limits: Any) -> Any:
    """The constraint that ``rows`` (C, V) times the variables are no more than ``limits`` (C,)."""
    optimize: Any = import_module("scipy.optimize")
    return optimize.LinearConstraint(rows, -np.inf, limits)


def worths(costs: Table, columns: Table, demand: Table) -> Table | None:
    """(G,): the duals of the cheapest sum of ``columns`` (G, V), of ``costs`` (V,), that covers a ``demand`` (G,).

    None where there is no such sum.
    """
    optimize: Any = import_module("scipy.optimize")
    with quiet():
        found = optimize.linprog(costs, A_ub=-columns, b_ub=-demand, method="highs")
    return None if found.x is None else np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)


@contextmanager
def quiet() -> Iterator[None]:
    """What C code writes to standard output goes nowhere. In another thread than the main one all stays as it is, since
    others may write meanwhile.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # it is closed
        yield
        return
    _flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        _flush()
        os.dup2(kept, 1)
        os.close(nowhere)
        os.close(kept)


def _flush() -> None:
    """What C code has still to write."""
    with suppress(OSError, AttributeError, TypeError):  # there is no such library
        ctypes.CDLL(None).fflush(None)
