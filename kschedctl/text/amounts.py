"""Percentages and ages in sentences, with one unit and a few digits.

Amounts of resources in sentences are formatted by `format_for_sentence` in `kschedctl.api.resource_names`.
"""

from __future__ import annotations

import re

from kschedctl.text.counts import format_significant

AGE_UNITS = {"s": ("s", "s"), "m": ("min", "min"), "h": ("hour", "hours"), "d": ("day", "days"), "y": ("year", "years")}
"""Letter of a unit in kubectl's ages -> the unit in a sentence, in the singular and plural."""


def format_percentage(share: float) -> str:
    """Format a share as a percentage with one digit after the point.

    >>> format_percentage(0.6333), format_percentage(1)
    ('63.3%', '100.0%')
    """
    return f"{100 * share:.1f}%"


def spell_age(age: str) -> str:
    """Spell out an age as kubectl prints it for a sentence, in its larger unit. Other texts stay as they are.

    >>> spell_age("91m"), spell_age("5m30s"), spell_age("3d4h"), spell_age("1y"), spell_age("")
    ('91 min', '5 min', '3 days', '1 year', '')
    """
    match = re.match(r"([0-9]+)([smhdy])", age)
    if match is None:
        return age
    number, letter = match.groups()
    singular, plural = AGE_UNITS[letter]
    return f"{number} {singular if number == '1' else plural}"


def format_price(price: float) -> str:
    """Format an hourly price with at most three digits.

    >>> format_price(0.08), format_price(0.0345), format_price(1.2)
    ('$0.08', '$0.0345', '$1.2')
    """
    return f"${format_significant(price, 3)}"
