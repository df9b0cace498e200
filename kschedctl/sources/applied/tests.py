"""Tests that are written as manifests, by Chainsaw, kuttl or Kyverno: what of their files is no object by itself.

What they expect is compared with objects, and what they change is only a part of one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from kschedctl.api.json_values import JsonObject, field_at, object_at
from kschedctl.api.pod_templates import POD_TEMPLATE_PATHS, get_pod_template

_GROUPS = ("chainsaw.kyverno.io", "cli.kyverno.io", "kuttl.dev")
_EXPECTATION = re.compile(r"((.*[^a-z])?assert(ions?|s)?([^a-z].*)?|(\d+-)?errors?)\.(ya?ml|json)")
_EXPECTING = ("assert", "error")
_EXPECTED = ("patchedResource", "patchedResources", "generatedResource", "cloneSourceResource")
_SELECTING = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"})


class TestScripts:
    """The tests among files, as they are read."""

    __test__ = False

    def __init__(self) -> None:
        self.folders: set[str] = set()
        self._patterns: set[str] = set()

    def see(self, path: str, value: JsonObject) -> None:
        """An object at an absolute path."""
        if str(value.get("apiVersion") or "").partition("/")[0] in _GROUPS:
            folder = os.path.dirname(path)
            self.folders.add(folder)
            self._patterns |= {os.path.normpath(os.path.join(folder, file)) for file in _expected(value)}

    def expect(self, path: str) -> bool:
        """Whether a file says what some test expects: as they say, or by its name beside them."""
        if path in self._patterns or any(fnmatchcase(path, pattern) for pattern in self._globs):
            return True
        return is_expectation(path) and os.path.dirname(path) in self.folders

    @property
    def _globs(self) -> Iterator[str]:
        return (pattern for pattern in self._patterns if "*" in pattern)


def is_expectation(path: str) -> bool:
    """Whether the file is called as those are.

    >>> [is_expectation(name) for name in ("00-assert.yaml", "my-assert-1.yaml", "errors.yaml", "web-errors.yaml")]
    [True, True, True, False]
    """
    return _EXPECTATION.fullmatch(os.path.basename(path).lower()) is not None


def is_part(value: JsonObject) -> bool:
    """Whether pods, or what makes some, lack what nobody leaves out."""
    kind = str(value.get("kind"))
    if kind not in POD_TEMPLATE_PATHS or kind == "PodTemplate":
        return False
    if not field_at(get_pod_template(value), "spec", "containers"):
        return True
    return kind in _SELECTING and "selector" not in object_at(value, "spec")


def _expected(value: object) -> Iterator[str]:
    """The files of which a test says that it expects them."""
    open_ = [value]
    while open_:
        one = open_.pop()
        if isinstance(one, list):
            open_ += one
        elif isinstance(one, dict):
            open_ += one.values()
            for key in _EXPECTING:
                yield from _files(one.get(key))
            yield from (one[key] for key in _EXPECTED if isinstance(one.get(key), str))


def _files(expectations: object) -> Iterator[str]:
    for expectation in expectations if isinstance(expectations, list) else [expectations]:
        if isinstance(expectation, dict) and isinstance(expectation.get("file"), str):
            yield expectation["file"]
