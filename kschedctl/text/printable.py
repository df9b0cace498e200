"""Escaping of text from a cluster that could control a terminal or hide characters."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Return the text with every character that a terminal would obey or not show as an escape.

    These are all of Unicode's control, format (direction overrides among them), surrogate, private and unassigned
    characters, and all separators but the space.

    >>> printable("web\x1b[2J-\u202egnp")
    'web\\x1b[2J-\\u202egnp'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else escape_character(c) for c in text)


def escape_character(character: str) -> str:
    r"""Return a character as Python escapes it: `\\n`, `\\x1b`, `\\u202e`."""
    return character.encode("unicode_escape").decode("ascii")
