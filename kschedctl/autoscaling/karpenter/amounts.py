"""Arithmetic on resource quantities, exact for messages and in whole thousandths for columns.

Upstream: pkg/utils/resources/resources.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools
from kschedctl.api.objects import Pod
from kschedctl.api.pod_requests import Options, Quantities, compute_pod_requests
from kschedctl.api.quantity import Format, Quantity

Amounts = Mapping[str, int]
"""Resource name -> thousandths, rounded up. Never modified."""
PODS = "pods"
ZERO = Quantity(0)
_MAX_THOUSANDTHS = 2**62
"""Larger amounts are limited to this, so that sums of a few amounts fit in 64 bits."""
_OPTIONS = Options(sidecar_ports=False)


def sum_pod_requests(pods: Sequence[Pod]) -> Quantities:
    """Sum the pods' requests and add the number of pods as the resource ``pods``.

    Raises QuantityError if a request is malformed.
    """
    total = sum_quantities(*(compute_pod_requests(pod, _OPTIONS) for pod in pods))
    total[PODS] = Quantity(len(pods), format=Format.DECIMAL_EXPONENT)
    return total


def sum_quantities(*lists: Mapping[str, Quantity]) -> Quantities:
    """Return the sum of several resource lists, resource by resource."""
    total: Quantities = {}
    for amounts in lists:
        for name, amount in amounts.items():
            total[name] = total.get(name, ZERO).add(amount)
    return total


def subtract_quantities(amounts: Mapping[str, Quantity], deductions: Mapping[str, Quantity]) -> Quantities:
    """Return the amounts minus the deductions. Resources that occur only in ``deductions`` are left out."""
    return {name: amount.sub(deductions[name]) if name in deductions else amount for name, amount in amounts.items()}


def compute_smallest_amounts(lists: Iterable[Mapping[str, Quantity]]) -> Quantities:
    """Return the smallest amount of each resource that occurs in all lists.

    There must be at least one list.
    """
    first, *others = lists
    smallest: Quantities = {}
    for name, amount in first.items():
        if all(name in other for other in others):
            smallest[name] = min((amount, *(other[name] for other in others)))
    return smallest


def compute_largest_amounts(lists: Iterable[Mapping[str, Quantity]]) -> Quantities:
    """Return the largest amount of each resource that occurs in any list."""
    largest: Quantities = {}
    for amounts in lists:
        for name, amount in amounts.items():
            if name not in largest or amount > largest[name]:
                largest[name] = amount
    return largest


def render_quantities(amounts: Mapping[str, Quantity]) -> str:
    """Render amounts as a JSON object sorted by resource, as Karpenter's events and errors show them."""
    texts = {name: str(amounts[name]) for name in sorted(amounts)}
    return msgspec.json.encode(texts).decode()


def convert_to_thousandths(amounts: Mapping[str, Quantity]) -> dict[str, int]:
    """Convert quantities to whole thousandths, rounded up and limited to ±2**62."""
    return {name: _convert_quantity_to_thousandths(amount) for name, amount in amounts.items()}


def _convert_quantity_to_thousandths(amount: Quantity) -> int:
    """Convert one quantity to thousandths, rounded up and limited to ±2**62."""
    rounded = amount.round_up(-3)
    exact: int = rounded.mantissa * 10 ** (rounded.scale + 3)
    return max(-_MAX_THOUSANDTHS, min(_MAX_THOUSANDTHS, exact))


class AmountColumns:
    """A (rows x resources) table of amounts in thousandths, with zero for a missing resource."""

    def __init__(self, rows: Sequence[Amounts]) -> None:
        self.names = {name: index for index, name in enumerate(sorted({name for row in rows for name in row}))}
        self.values = np.zeros((len(rows), len(self.names)), np.int64)
        for index, row in enumerate(rows):
            for name, amount in row.items():
                self.values[index, self.names[name]] = amount
        self._has_no_negative: Bools = np.all(self.values >= 0, axis=1)

    def mask_fitting_rows(self, amounts: Amounts, values: npt.NDArray[np.int64] | None = None) -> Bools:
        """Return a (rows,) mask of the rows that have at least these amounts and no negative amount.

        If ``values`` is given, this table is compared in place of the stored amounts. The stored amounts must still not
        be negative.
        """
        fits = self._has_no_negative.copy()
        available = self.values if values is None else values
        for name, amount in amounts.items():
            if name in self.names:
                np.logical_and(fits, available[:, self.names[name]] >= amount, out=fits)
            elif amount > 0:
                fits[:] = False
        return fits

    def get_column(self, name: str) -> npt.NDArray[np.int64]:
        """Return the amounts of one resource in all rows, as an array (rows,), with zeros for an unknown resource."""
        if name not in self.names:
            return np.zeros(len(self.values), np.int64)
        column: npt.NDArray[np.int64] = self.values[:, self.names[name]]
        return column
