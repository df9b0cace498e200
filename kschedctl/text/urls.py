"""URLs without the parts that give access."""

from __future__ import annotations

import re

_USER = re.compile(r"://[^/\s]*@")
_QUERY = re.compile(r"(://[^\s?#]*)[?#]\S*")


def strip_credentials(text: str) -> str:
    """Remove user and password from the URLs in a text.

    >>> strip_credentials("https://me:hunter2@example.com/path: not found")
    'https://example.com/path: not found'
    """
    return _USER.sub("://", text)


def strip_url(text: str) -> str:
    """Remove user, query and fragment from the URLs in a text.

    >>> strip_url("https://me:hunter2@extender.example/path?token=abc")
    'https://extender.example/path'
    """
    return _QUERY.sub(r"\1", strip_credentials(text))
