"""Guess how large an unseen machine may be, to tell a need for a larger machine from a wrong request."""

from __future__ import annotations

from kschedctl.api.resource_names import is_extended

MAX_SIZE_RATIO = 4
"""The plausible ratio to the largest known machine: sizes double, so this is two sizes more."""


def is_plausible(resource: str, amount: int, largest: int) -> bool:
    """Return whether a machine may offer the amount, given the largest amount that a known machine offers.

    No more devices are plausible than a machine is known to have, unless no machine is known to have any.

    >>> is_plausible("memory", 200, largest=63), is_plausible("cpu", 501_000, largest=16_000)
    (True, False)
    >>> is_plausible("nvidia.com/gpu", 8, largest=4), is_plausible("nvidia.com/gpu", 1, largest=0)
    (False, True)
    """
    if largest == 0:
        return True
    return amount <= largest if is_extended(resource) else amount <= MAX_SIZE_RATIO * largest
