"""Text from a cluster is not ours: what in it could steer a terminal or hide is shown as an escape instead."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text in one line, with every character that a terminal would obey or not show written as an escape.

    These are all of Unicode's control, format (direction overrides among them), surrogate, private and unassigned
    characters, and all separators but the space.

    >>> printable("web\\x1b[2J-\\u202egnp")
    'web\\\\x1b[2J-\\\\u202egnp'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else escape(c) for c in text)


def escape(character: str) -> str:
    """``\\n``, ``\\x1b``, ``\\u202e``: as Python writes it."""
    return character.encode("unicode_escape").decode("ascii")
