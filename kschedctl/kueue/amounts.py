"""Amounts of resources as Kueue counts them: integers, in milli-units for cpu, limited to int64.

Upstream: pkg/resources/amount.go, requests.go, slice_requests.go and resource_formatter.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from kschedctl.api.objects import Resources
from kschedctl.api.quantity import INT64_MAX, INT64_MIN, Format, Quantity, parse_quantity

UNLIMITED = INT64_MAX
"""An amount that stays unlimited whatever is added or subtracted."""
_CPU = "cpu"
_MILLI = -3
_FNV_OFFSET, _FNV_PRIME, _UINT64 = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1

Requests = dict[str, int]
"""Amounts by resource, in the order in which Kueue looks at them (``sort_by_hash``)."""


class FlavorResource(NamedTuple):
    """A resource of a flavor."""

    flavor: str
    resource: str


Usage = dict[FlavorResource, int]
"""Amounts by flavor and resource."""


def saturate(value: int) -> int:
    """Limit a number to the range of an int64."""
    if INT64_MIN <= value <= INT64_MAX:
        return value
    return INT64_MIN if value < INT64_MIN else INT64_MAX


def add_amounts(a: int, b: int) -> int:
    """Add two amounts, limited to int64. The sum is unlimited if either amount is unlimited."""
    if a == UNLIMITED or b == UNLIMITED:  # noqa: PLR1714 - a tuple takes longer, and this is called very often
        return UNLIMITED
    total = a + b
    return total if INT64_MIN <= total <= INT64_MAX else saturate(total)


def subtract_amounts(a: int, b: int) -> int:
    """Subtract amount ``b`` from ``a``, limited to int64.

    An unlimited ``a`` stays unlimited, but the difference of two unlimited amounts is 0. Subtracting an unlimited
    amount from a limited one gives the smallest int64.
    """
    if a == UNLIMITED:
        return 0 if b == UNLIMITED else UNLIMITED
    if b == UNLIMITED:
        return INT64_MIN
    difference = a - b
    return difference if INT64_MIN <= difference <= INT64_MAX else saturate(difference)


def parse_quota(resource: str, text: str | int | float) -> int:
    """Parse a quota into an integer amount: milli-units for cpu, whole units for any other resource.

    Amounts that do not fit into an int64 count as unlimited. Raises QuantityError if the text is malformed.
    """
    quantity = parse_quantity(text)
    limit = Quantity(INT64_MAX // 1000 if resource == _CPU else INT64_MAX)
    if quantity.cmp(limit) >= 0:
        return UNLIMITED
    return quantity.milli_value() if resource == _CPU else quantity.value()


def count_units(resource: str, quantity: Quantity) -> int:
    """Return a quantity in milli-units for cpu and in units for other resources, rounded up and limited to an int64."""
    unit_scale = _MILLI if resource == _CPU else 0
    exact = quantity.round_up(unit_scale)
    return saturate(exact.mantissa * 10 ** (exact.scale - unit_scale))


def parse_requests(resources: Resources) -> Requests:
    """Parse a ResourceList into amounts in the units of its resources. Raises QuantityError if one is malformed."""
    return convert_to_requests({name: parse_quantity(text) for name, text in resources.items()})


def convert_to_requests(quantities: Mapping[str, Quantity]) -> Requests:
    """Convert quantities by resource to amounts in the units of their resources, in Kueue's order."""
    return sort_by_hash({name: count_units(name, quantity) for name, quantity in quantities.items()})


def sort_by_hash(amounts: Mapping[str, int]) -> Requests:
    """Sort amounts by the FNV-1a hashes of their resources' names, the order in which Kueue iterates over them."""
    return {name: amounts[name] for name in sorted(amounts, key=_build_resource_sort_key)}


@lru_cache(maxsize=4096)
def _build_resource_sort_key(name: str) -> tuple[int, str]:
    """Build the sort key of a resource name: its 64-bit FNV-1a hash, then the name to break ties."""
    value = _FNV_OFFSET
    for byte in name.encode():
        value = ((value ^ byte) * _FNV_PRIME) & _UINT64
    return value, name


def sum_requests(terms: Iterable[Mapping[str, int]]) -> Requests:
    """Add up requests by resource, limiting each amount to int64. The resources are sorted by hash, as in Kueue."""
    total: Requests = {}
    for term in terms:
        for name, amount in term.items():
            total[name] = saturate(total.get(name, 0) + amount)
    return sort_by_hash(total)


def scale_requests(requests: Mapping[str, int], count: int) -> Requests:
    """Multiply requests by a number of pods, each amount limited to an int64."""
    return {name: saturate(amount * count) for name, amount in requests.items()}


def divide_requests(requests: Mapping[str, int], count: int) -> Requests:
    """Divide requests by a number of pods, rounding toward zero as Go does.

    Amounts of 0 stay 0, even if ``count`` is 0. Raises ZeroDivisionError if ``count`` is 0 and an amount is not.
    """
    divided = {}
    for name, amount in requests.items():
        if amount == 0:
            divided[name] = 0
        else:
            quotient = abs(amount) // count
            divided[name] = quotient if amount > 0 else -quotient
    return divided


def find_exceeding_resources(requests: Mapping[str, int], limits: Mapping[str, int]) -> list[str]:
    """Return the sorted names of the resources whose request is above their limit, if they have a limit."""
    return sorted(name for name, amount in requests.items() if name in limits and amount > limits[name])


def format_amount(resource: str, amount: int) -> str:
    """Format an amount, given in the units of its resource, as a canonical quantity.

    >>> format_amount("cpu", 1500), format_amount("memory", 2**30), format_amount("nvidia.com/gpu", 2)
    ('1500m', '1Gi', '2')
    """
    if resource == _CPU:
        return str(Quantity(amount, _MILLI, Format.DECIMAL_SI))
    is_binary = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return str(Quantity(amount, 0, Format.BINARY_SI if is_binary else Format.DECIMAL_SI))


def format_quota(resource: str, amount: int) -> str:
    """Format an amount of quota as a canonical quantity, or as ``<unlimited>``."""
    return "<unlimited>" if amount == UNLIMITED else format_amount(resource, amount)
