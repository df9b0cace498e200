"""Files of tests and examples, which nobody applies with the rest of a repository.

They are recognized by the names of their folders, and by tests of Chainsaw, kuttl and Kyverno that name them as
expected results.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cached_property

from kschedctl.api.json_values import JsonObject, field_at, object_at
from kschedctl.api.workloads import POD_TEMPLATE_PATHS, get_pod_template

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
    """Return whether a folder has a name that is usual for tests or examples.

    >>> [has_standalone_name(name) for name in (".chainsaw-test", "e2e_v1", "examples", "latest", "contest")]
    [True, True, True, False, False]
    """
    return not _STANDALONE_NAMES.isdisjoint(_WORD.findall(folder.lower()))


class RepositoryFolders:
    """The folders of files, by absolute path. Folders above a repository are ignored."""

    def __init__(self, files: Iterable[str]) -> None:
        self.files = tuple(files)
        self._tops: dict[str, str] = {}

    def is_standalone(self, file: str, below: str = "") -> bool:
        """Return whether the file is in a folder whose name is usual for tests or examples.

        Only folders below ``below`` are considered. The default is the top of the repository.
        """
        folder = os.path.dirname(file)
        folder_names = os.path.relpath(folder, below or self._get_repository_top(folder)).split(os.sep)
        return any(map(has_standalone_name, folder_names))

    def list_ancestors(self, file: str) -> list[str]:
        """Return the folders from the top of the file's repository down to the file's own folder.

        Paths in the file may be relative to any of them.
        """
        folder = os.path.dirname(file)
        top = self._get_repository_top(folder)
        ancestors = [candidate for candidate in (folder, *iter_parents(folder)) if is_within(candidate, top)]
        return ancestors[::-1]

    @cached_property
    def subfolders(self) -> frozenset[str]:
        """The folders that contain files, and all folders above them, except the tops of repositories."""
        return frozenset(folder for file in self.files for folder in self.list_ancestors(file)[1:])

    def _get_repository_top(self, folder: str) -> str:
        """Return the top folder of the repository that contains the folder, from a cache."""
        if folder not in self._tops:
            self._tops[folder] = self._find_repository_top(folder)
        return self._tops[folder]

    def _find_repository_top(self, folder: str) -> str:
        """Return the top folder of the Git repository that contains `folder`.

        If the folder is in no repository, return the working directory, provided that all files are below it.
        Otherwise, return the common folder of all files.
        """
        if os.path.exists(os.path.join(folder, ".git")):
            return folder
        parent = os.path.dirname(folder)
        return self._get_repository_top(parent) if parent != folder else self._fallback_top_folder

    @cached_property
    def _fallback_top_folder(self) -> str:
        """The working directory if all files are below it, or else the common folder of all files."""
        working_directory = os.getcwd()
        if all(is_below(file, working_directory) for file in self.files):
            return working_directory
        return os.path.commonpath([os.path.dirname(file) for file in self.files])


def iter_parents(path: str) -> Iterator[str]:
    """Yield the folders above a path, the nearest first."""
    parent = os.path.dirname(path)
    while parent != path:
        yield parent
        path = parent
        parent = os.path.dirname(path)


def is_within(path: str, folder: str) -> bool:
    """Return whether the path is the folder or below it."""
    return path == folder or is_below(path, folder)


def is_below(path: str, folder: str) -> bool:
    """Return whether the path is below the folder."""
    return path.startswith(folder.rstrip(os.sep) + os.sep)


_TEST_GROUPS = ("chainsaw.kyverno.io", "cli.kyverno.io", "kuttl.dev")
_EXPECTATION_FILE = re.compile(r"((.*[^a-z])?assert(ions?|s)?([^a-z].*)?|(\d+-)?errors?)\.(ya?ml|json)")
_EXPECTING_FIELDS = ("assert", "error")
_EXPECTED_FILE_FIELDS = ("patchedResource", "patchedResources", "generatedResource", "cloneSourceResource")
_KINDS_WITH_SELECTOR = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"})


class TestScripts:
    """The tests among the files that are read, and the results that they expect."""

    __test__ = False

    def __init__(self) -> None:
        self.folders: set[str] = set()
        """The absolute paths of the folders with tests."""
        self._expected_files: set[str] = set()
        """The files, or patterns of files, that tests name as expected results."""

    def add_object(self, path: str, value: JsonObject) -> None:
        """Record a test's folder and the files with its expected results. Objects that are not tests are ignored.

        ``path`` is the absolute path of the object's file.
        """
        if str(value.get("apiVersion") or "").partition("/")[0] in _TEST_GROUPS:
            folder = os.path.dirname(path)
            self.folders.add(folder)
            for file in _iter_expected_files(value):
                self._expected_files.add(os.path.normpath(os.path.join(folder, file)))

    def is_expected_result(self, path: str) -> bool:
        """Return whether a test expects the file as a result.

        Either a test names the file, or the file is in the folder of a test and has the name of an expected result.
        """
        if path in self._expected_files or any(fnmatchcase(path, pattern) for pattern in self._globs):
            return True
        return has_expectation_name(path) and os.path.dirname(path) in self.folders

    @property
    def _globs(self) -> Iterator[str]:
        """The patterns with a star among the expected files."""
        return (pattern for pattern in self._expected_files if "*" in pattern)


def has_expectation_name(path: str) -> bool:
    """Return whether tests use the file's name for expected results.

    >>> [has_expectation_name(name) for name in ("00-assert.yaml", "my-assert-1.yaml", "web-errors.yaml")]
    [True, True, False]
    """
    return _EXPECTATION_FILE.fullmatch(os.path.basename(path).lower()) is not None


def is_partial_workload(value: JsonObject) -> bool:
    """Return whether the value is a workload without containers, or without the selector that its kind requires."""
    kind = str(value.get("kind"))
    if kind not in POD_TEMPLATE_PATHS or kind == "PodTemplate":
        return False
    if not field_at(get_pod_template(value), "spec", "containers"):
        return True
    return kind in _KINDS_WITH_SELECTOR and "selector" not in object_at(value, "spec")


def _iter_expected_files(value: object) -> Iterator[str]:
    """Yield the files that a test names as expected results."""
    unvisited = [value]
    while unvisited:
        inner_value = unvisited.pop()
        if isinstance(inner_value, list):
            unvisited += inner_value
        elif isinstance(inner_value, dict):
            unvisited += inner_value.values()
            for key in _EXPECTING_FIELDS:
                yield from _iter_expectation_files(inner_value.get(key))
            yield from (inner_value[key] for key in _EXPECTED_FILE_FIELDS if isinstance(inner_value.get(key), str))


def _iter_expectation_files(expectations: object) -> Iterator[str]:
    """Yield the field ``file`` of one or several expectations. Expectations of another form are skipped."""
    if not isinstance(expectations, list):
        expectations = [expectations]
    for expectation in expectations:
        if isinstance(expectation, dict) and isinstance(expectation.get("file"), str):
            yield expectation["file"]
