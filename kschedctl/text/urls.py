"""URLs as they may be shown: without what gives access."""

from __future__ import annotations

import re

_USER = re.compile(r"://[^/\s]*@")
_QUERY = re.compile(r"(://[^\s?#]*)[?#]\S*")


def without_user(text: str) -> str:
    """The text with no user and password in its URLs.

    >>> without_user("https://me:hunter2@example.com/path: not found")
    'https://example.com/path: not found'
    """
    return _USER.sub("://", text)


def shown_url(text: str) -> str:
    """A URL, or a text with URLs, without users, queries and fragments.

    >>> shown_url("https://me:hunter2@extender.example/path?token=abc")
    'https://extender.example/path'
    """
    return _QUERY.sub(r"\1", without_user(text))
