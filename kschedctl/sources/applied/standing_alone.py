"""Folders of tests, examples and the like: whatever is in one of them, nobody applies it with the rest."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import cached_property

_NAMES = frozenset(
    (
        *("test", "tests", "testing", "testdata", "e2e", "fixture", "fixtures", "chainsaw", "kuttl", "conformance"),
        *("hack", "example", "examples", "sample", "samples", "demo", "demos", "snippet", "snippets"),
        *("benchmark", "benchmarks", "doc", "docs", "documentation", "tutorial", "tutorials"),
        *("quickstart", "quickstarts"),
    )
)
_WORD = re.compile(r"[a-z0-9]+")


def stands_alone(folder: str) -> bool:
    """Whether a folder of this name is one of tests or examples.

    >>> [stands_alone(name) for name in (".chainsaw-test", "e2e_v1", "examples", "latest", "contest")]
    [True, True, True, False, False]
    """
    return not _NAMES.isdisjoint(_WORD.findall(folder.lower()))


class Folders:
    """The folders of these files, by absolute paths; what is above their repository has no say."""

    def __init__(self, files: Iterable[str]) -> None:
        self.files = tuple(files)
        self._tops: dict[str, str] = {}

    def stands_alone(self, file: str, below: str = "") -> bool:
        """Whether a folder on the way to the file does: from the top of its repository, or from another one."""
        folder = os.path.dirname(file)
        return any(map(stands_alone, os.path.relpath(folder, below or self._top(folder)).split(os.sep)))

    def tops(self, file: str) -> list[str]:
        """From where paths in a file may go: the top of its repository first, then the folders on the way to it."""
        folder = os.path.dirname(file)
        return list(
            reversed([candidate for candidate in (folder, *above(folder)) if is_within(candidate, self._top(folder))])
        )

    @cached_property
    def all(self) -> frozenset[str]:
        """The folders in which the files are, and all above that are in a repository."""
        return frozenset(folder for file in self.files for folder in self.tops(file)[1:])

    def _top(self, folder: str) -> str:
        """The top folder of the repository; without one where the work is done, or what the files share."""
        if folder not in self._tops:
            self._tops[folder] = self._found_top(folder)
        return self._tops[folder]

    def _found_top(self, folder: str) -> str:
        if os.path.exists(os.path.join(folder, ".git")):
            return folder
        parent = os.path.dirname(folder)
        return self._top(parent) if parent != folder else self._shared

    @cached_property
    def _shared(self) -> str:
        here = os.getcwd()
        if all(is_below(file, here) for file in self.files):
            return here
        return os.path.commonpath([os.path.dirname(file) for file in self.files])


def above(path: str) -> Iterator[str]:
    """The folders above a path, the nearest first."""
    while (parent := os.path.dirname(path)) != path:
        yield (path := parent)


def is_within(path: str, folder: str) -> bool:
    return path == folder or is_below(path, folder)


def is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)
