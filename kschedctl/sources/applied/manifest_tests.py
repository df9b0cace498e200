"""Documents of Chainsaw, kuttl and Kyverno tests that are not objects: expected results and partial objects."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from kschedctl.api.json_values import JsonObject, field_at, object_at
from kschedctl.api.workloads import POD_TEMPLATE_PATHS, get_pod_template

_TEST_GROUPS = ("chainsaw.kyverno.io", "cli.kyverno.io", "kuttl.dev")
_EXPECTATION_FILE = re.compile(r"((.*[^a-z])?assert(ions?|s)?([^a-z].*)?|(\d+-)?errors?)\.(ya?ml|json)")
_EXPECTING_FIELDS = ("assert", "error")
_EXPECTED_FILE_FIELDS = ("patchedResource", "patchedResources", "generatedResource", "cloneSourceResource")
_SELECTING = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"})


class TestScripts:
    """The tests found among the files that are read."""

    __test__ = False

    def __init__(self) -> None:
        self.folders: set[str] = set()
        self._patterns: set[str] = set()

    def add_object(self, path: str, value: JsonObject) -> None:
        """Note the object at an absolute path, if it is a test."""
        if str(value.get("apiVersion") or "").partition("/")[0] in _TEST_GROUPS:
            folder = os.path.dirname(path)
            self.folders.add(folder)
            self._patterns |= {os.path.normpath(os.path.join(folder, file)) for file in _iter_expected_files(value)}

    def is_expected_result(self, path: str) -> bool:
        """Return whether a test names the file as an expected result, or it lies beside a test and has such a name."""
        if path in self._patterns or any(fnmatchcase(path, pattern) for pattern in self._globs):
            return True
        return has_expectation_name(path) and os.path.dirname(path) in self.folders

    @property
    def _globs(self) -> Iterator[str]:
        """The file patterns with a star."""
        return (pattern for pattern in self._patterns if "*" in pattern)


def has_expectation_name(path: str) -> bool:
    """Return whether the file's name is one that tests use for expected results.

    >>> [has_expectation_name(name) for name in ("00-assert.yaml", "my-assert-1.yaml", "web-errors.yaml")]
    [True, True, False]
    """
    return _EXPECTATION_FILE.fullmatch(os.path.basename(path).lower()) is not None


def is_partial_workload(value: JsonObject) -> bool:
    """Return whether the value is a workload without fields that every workload has, such as containers."""
    kind = str(value.get("kind"))
    if kind not in POD_TEMPLATE_PATHS or kind == "PodTemplate":
        return False
    if not field_at(get_pod_template(value), "spec", "containers"):
        return True
    return kind in _SELECTING and "selector" not in object_at(value, "spec")


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
                yield from _iter_files(inner_value.get(key))
            yield from (inner_value[key] for key in _EXPECTED_FILE_FIELDS if isinstance(inner_value.get(key), str))


def _iter_files(expectations: object) -> Iterator[str]:
    """Yield the files in expectations."""
    for expectation in expectations if isinstance(expectations, list) else [expectations]:
        if isinstance(expectation, dict) and isinstance(expectation.get("file"), str):
            yield expectation["file"]
