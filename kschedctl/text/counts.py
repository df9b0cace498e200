"""Numbers, percentages, ages, prices and lists as people write them.

Amounts of resources in sentences are formatted by `format_amounts_for_sentence` in `kschedctl.api.resource_names`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_AGE_UNITS = {
    "s": ("s", "s"),
    "m": ("min", "min"),
    "h": ("hour", "hours"),
    "d": ("day", "days"),
    "y": ("year", "years"),
}
"""Letter of a unit in kubectl's ages -> the unit in a sentence, in the singular and plural."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun in the singular or plural.

    >>> counted(1, "pod"), counted(5000, "pod"), counted(2, "loss", "losses")
    ('1 pod', '5,000 pods', '2 losses')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def capitalize(text: str) -> str:
    """Return the text with a capital first letter. The other letters stay as they are.

    >>> capitalize("only Deployment web")
    'Only Deployment web'
    """
    return text[:1].upper() + text[1:]


def agreeing(number: int, singular: str, plural: str) -> str:
    """Return the form of a word that agrees with the number.

    >>> agreeing(1, "gets", "get"), agreeing(0, "gets", "get")
    ('gets', 'get')
    """
    return singular if number == 1 else plural


def negate_scope(scope: str) -> str:
    """Return the words for a scope after a negation.

    >>> negate_scope("across all namespaces"), negate_scope("in namespace shop")
    ('in any namespace', 'in namespace shop')
    """
    return scope.replace("across all namespaces", "in any namespace", 1)


def first_of(names: Sequence[str]) -> str:
    """Return the first name, followed by the number of the remaining names.

    >>> first_of(["a"]), first_of(["a", "b", "c"])
    ('a', 'a (+2)')
    """
    return names[0] if len(names) == 1 else f"{names[0]} (+{len(names) - 1:,})"


def first_few(words: Sequence[str], limit: int = 3) -> str:
    """Return the first few names, followed by the number of the remaining names.

    A single remaining name is given instead of its number, unless `limit` is 1.

    >>> first_few(["a", "b", "c", "d", "e"]), first_few(["a", "b", "c", "d"])
    ('a, b, c and 2 more', 'a, b, c, d')
    """
    if limit > 1 and len(words) == limit + 1:
        return ", ".join(words)
    more = f" and {len(words) - limit:,} more" if len(words) > limit else ""
    return ", ".join(words[:limit]) + more


def join_first_few(words: Sequence[str], limit: int = 3) -> str:
    """Return the first few names as a list in a sentence, with the number of the remaining names if there are any.

    >>> join_first_few(["a", "b"]), join_first_few(["a", "b", "c", "d"]), join_first_few(["a", "b", "c", "d", "e"])
    ('a and b', 'a, b, c and d', 'a, b, c and 2 more')
    """
    is_complete = len(words) <= limit or (limit > 1 and len(words) == limit + 1)
    return join_words(words) if is_complete else first_few(words, limit)


def join_clauses(clauses: Sequence[str]) -> str:
    """Join two clauses of a sentence with "and", and three or more with semicolons.

    >>> join_clauses(["a waits"]), join_clauses(["a waits", "b runs"]), join_clauses(["a waits", "b runs", "c ends"])
    ('a waits', 'a waits, and b runs', 'a waits; b runs; c ends')
    """
    return (", and " if len(clauses) == 2 else "; ").join(clauses)


def join_words(words: Sequence[str], last: str = "and") -> str:
    """Join words as a list in a sentence, with `last` before the last word. Return "" if there are no words.

    >>> join_words(["a"]), join_words(["a", "b"]), join_words(["a", "b", "c"], "or"), join_words([])
    ('a', 'a and b', 'a, b or c', '')
    """
    if not words:
        return ""
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def format_significant(value: float, digits: int) -> str:
    """Format a number with the given count of significant digits, without an exponent for large numbers.

    >>> [format_significant(value, 3) for value in (999.7, 1234.5, 0.0001234)]
    ['1,000', '1,234', '0.000123']
    >>> format_significant(99.97, 2)
    '100'
    """
    text = f"{value:.{digits}g}"
    return f"{value:,.0f}" if "e+" in text else text


def format_percentage(share: float) -> str:
    """Format a share as a percentage with one digit after the point.

    >>> format_percentage(0.6333), format_percentage(1)
    ('63.3%', '100.0%')
    """
    return f"{100 * share:.1f}%"


def spell_age(age: str) -> str:
    """Spell out an age in kubectl's format for a sentence, in its larger unit. Other texts stay as they are.

    >>> spell_age("91m"), spell_age("5m30s"), spell_age("3d4h"), spell_age("1y"), spell_age("")
    ('91 min', '5 min', '3 days', '1 year', '')
    """
    match = re.match(r"([0-9]+)([smhdy])", age)
    if match is None:
        return age
    number, letter = match.groups()
    singular, plural = _AGE_UNITS[letter]
    return f"{number} {singular if number == '1' else plural}"


def format_price(price: float) -> str:
    """Format an hourly price with at most three digits.

    >>> format_price(0.08), format_price(0.0345), format_price(1.2)
    ('$0.08', '$0.0345', '$1.2')
    """
    return f"${format_significant(price, 3)}"
