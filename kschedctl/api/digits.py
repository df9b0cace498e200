"""Numbers with so many digits, and no exponent where they are large."""

from __future__ import annotations


def digits(value: float, number: int) -> str:
    """The first digits; of large ones all before the point.

    >>> digits(99.97, 2), digits(12.34, 2), digits(999.7, 3), digits(1234.5, 3), digits(0.0001234, 3)
    ('100', '12', '1,000', '1,234', '0.000123')
    """
    text = f"{value:.{number}g}"
    return f"{value:,.0f}" if "e+" in text else text
