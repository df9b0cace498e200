"""Patterns of paths, as people write them in settings: ``charts/**/tests/*``, ``vendor``, ``*.tpl.yaml``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase

ANYWHERE = "**/"


def path_matches(path: str, pattern: str, base: str) -> bool:
    """Whether a pattern means a path, or a folder that it is in.

    Patterns with a slash begin at the folder ``base``, others mean a name at any depth; ``*`` spans slashes too.

    >>> path_matches("/r/a/vendor/x.yaml", "vendor", "/r"), path_matches("/r/a/x.yaml", "b/*", "/r")
    (True, False)
    """
    pattern = pattern.removeprefix("./").rstrip("/")
    anywhere = "/" not in pattern or pattern.startswith(ANYWHERE)
    wanted = pattern.removeprefix(ANYWHERE)
    relative = os.path.relpath(path, base).replace(os.sep, "/")
    return any(
        fnmatchcase(candidate, wanted) or (anywhere and fnmatchcase(candidate, f"*/{wanted}"))
        for candidate in _with_folders(relative)
    )


def _with_folders(path: str) -> Iterator[str]:
    """``a/b/c``, ``a/b``, ``a``."""
    while path:
        yield path
        path = path.rpartition("/")[0]
