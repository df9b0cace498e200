"""Quantities that are summed up and compared: as they are printed, and as whole thousandths for columns.

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
"""Resource name -> thousandths, rounded up; not written to."""
PODS = "pods"
ZERO = Quantity(0)
_MOST = 2**62
_OPTIONS = Options(sidecar_ports=False)


def requests_of(pods: Sequence[Pod]) -> Quantities:
    """What pods request together, with their number. Raises QuantityError."""
    total = merge(*(compute_pod_requests(pod, _OPTIONS) for pod in pods))
    total[PODS] = Quantity(len(pods), format=Format.DECIMAL_EXPONENT)
    return total


def merge(*lists: Mapping[str, Quantity]) -> Quantities:
    """The sums."""
    total: Quantities = {}
    for amounts in lists:
        for name, amount in amounts.items():
            total[name] = total.get(name, ZERO).add(amount)
    return total


def subtract(left: Mapping[str, Quantity], right: Mapping[str, Quantity]) -> Quantities:
    """What is left of the resources of the first."""
    return {name: amount.sub(right[name]) if name in right else amount for name, amount in left.items()}


def least(lists: Iterable[Mapping[str, Quantity]]) -> Quantities:
    """The smallest amount of each resource that all have."""
    first, *others = lists
    return {
        name: min((amount, *(other[name] for other in others)))
        for name, amount in first.items()
        if all(name in other for other in others)
    }


def most(lists: Iterable[Mapping[str, Quantity]]) -> Quantities:
    """The largest amount of each resource that any has."""
    largest: Quantities = {}
    for amounts in lists:
        for name, amount in amounts.items():
            if name not in largest or amount > largest[name]:
                largest[name] = amount
    return largest


def printed(amounts: Mapping[str, Quantity]) -> str:
    """Amounts as JSON, as events and errors have them."""
    texts = {name: str(amounts[name]) for name in sorted(amounts)}
    return msgspec.json.encode(texts).decode()


def thousandths(amounts: Mapping[str, Quantity]) -> dict[str, int]:
    """Rounded up; what is beyond all machines is cut."""
    return {name: _thousandths(amount) for name, amount in amounts.items()}


def _thousandths(amount: Quantity) -> int:
    rounded = amount.round_up(-3)
    exact: int = rounded.mantissa * 10 ** (rounded.scale + 3)
    return max(-_MOST, min(_MOST, exact))


class AmountColumns:
    """(rows x resources) thousandths; a resource that a row has not is zero."""

    def __init__(self, rows: Sequence[Amounts]) -> None:
        self.names = {name: at for at, name in enumerate(sorted({name for row in rows for name in row}))}
        self.values = np.zeros((len(rows), len(self.names)), np.int64)
        for at, row in enumerate(rows):
            for name, amount in row.items():
                self.values[at, self.names[name]] = amount
        self._sound: Bools = np.all(self.values >= 0, axis=1)

    def hold(self, amounts: Amounts, values: npt.NDArray[np.int64] | None = None) -> Bools:
        """The rows that have at least so much of everything, and of nothing less than none; by now, if that differs."""
        fits, now = self._sound.copy(), self.values if values is None else values
        for name, amount in amounts.items():
            if name in self.names:
                np.logical_and(fits, now[:, self.names[name]] >= amount, out=fits)
            elif amount > 0:
                fits[:] = False
        return fits

    def column(self, name: str) -> npt.NDArray[np.int64]:
        if name not in self.names:
            return np.zeros(len(self.values), np.int64)
        column: npt.NDArray[np.int64] = self.values[:, self.names[name]]
        return column
