"""Numbers of things as people say them."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A number and its noun.

    >>> counted(1, "pod"), counted(5000, "pod")
    ('1 pod', '5,000 pods')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"
