"""Folders of tests and examples, whose files nobody applies with the rest of a repository."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import cached_property

_STANDALONE_NAMES = frozenset(
    (
        *("test", "tests", "testing", "testdata", "e2e", "fixture", "fixtures", "chainsaw", "kuttl", "conformance"),
        *("hack", "example", "examples", "sample", "samples", "demo", "demos", "snippet", "snippets"),
        *("benchmark", "benchmarks", "doc", "docs", "documentation", "tutorial", "tutorials"),
        *("quickstart", "quickstarts"),
    )
)
_WORD = re.compile(r"[a-z0-9]+")


def has_standalone_name(folder: str) -> bool:
    """Return whether a folder's name is one of tests or examples.

    >>> [has_standalone_name(name) for name in (".chainsaw-test", "e2e_v1", "examples", "latest", "contest")]
    [True, True, True, False, False]
    """
    return not _STANDALONE_NAMES.isdisjoint(_WORD.findall(folder.lower()))


class RepositoryFolders:
    """The folders of files, by absolute path. Folders above their repositories are ignored."""

    def __init__(self, files: Iterable[str]) -> None:
        self.files = tuple(files)
        self._tops: dict[str, str] = {}

    def is_standalone(self, file: str, below: str = "") -> bool:
        """Return whether a folder on the way to the file is one of tests or examples.

        The way begins at ``below``, or at the top of the repository.
        """
        folder = os.path.dirname(file)
        return any(map(has_standalone_name, os.path.relpath(folder, below or self._get_top(folder)).split(os.sep)))

    def list_ancestors(self, file: str) -> list[str]:
        """Return the folders to which paths in the file may be relative, from the top of its repository down."""
        folder = os.path.dirname(file)
        top = self._get_top(folder)
        ancestors = [candidate for candidate in (folder, *iter_parents(folder)) if is_within(candidate, top)]
        return ancestors[::-1]

    @cached_property
    def all(self) -> frozenset[str]:
        """The folders that contain files, and all folders above them in their repository."""
        return frozenset(folder for file in self.files for folder in self.list_ancestors(file)[1:])

    def _get_top(self, folder: str) -> str:
        """Return the top folder of the repository, cached; see _find_top."""
        if folder not in self._tops:
            self._tops[folder] = self._find_top(folder)
        return self._tops[folder]

    def _find_top(self, folder: str) -> str:
        """Return the top folder of the folder's repository.

        Without a repository, return the working directory or the common folder of all files.
        """
        if os.path.exists(os.path.join(folder, ".git")):
            return folder
        parent = os.path.dirname(folder)
        return self._get_top(parent) if parent != folder else self._fallback_top

    @cached_property
    def _fallback_top(self) -> str:
        """The working directory if all files are below it, else the common folder of all files."""
        here = os.getcwd()
        if all(is_below(file, here) for file in self.files):
            return here
        return os.path.commonpath([os.path.dirname(file) for file in self.files])


def iter_parents(path: str) -> Iterator[str]:
    """Yield the folders above a path, the nearest first."""
    while (parent := os.path.dirname(path)) != path:
        yield (path := parent)


def is_within(path: str, folder: str) -> bool:
    """Return whether the path is the folder or below it."""
    return path == folder or is_below(path, folder)


def is_below(path: str, folder: str) -> bool:
    """Return whether the path is below the folder."""
    return path.startswith(folder.rstrip(os.sep) + os.sep)
