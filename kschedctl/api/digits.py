"""Numbers rounded to significant digits for people."""

from __future__ import annotations


def format_significant(value: float, digits: int) -> str:
    """Format a number with the given count of significant digits, without an exponent for large numbers.

    >>> [format_significant(value, 3) for value in (999.7, 1234.5, 0.0001234)]
    ['1,000', '1,234', '0.000123']
    >>> format_significant(99.97, 2)
    '100'
    """
    text = f"{value:.{digits}g}"
    return f"{value:,.0f}" if "e+" in text else text
