"""The parts of a lint rule: severity, profile, check and explanation, and the edits that fix a field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Path, Problem
from kschedctl.lint.objects.workload import Workload
from kschedctl.scheduler.configuration.version_fields import VersionedField


@dataclass(frozen=True)
class SetField:
    """Replace the value of a scalar field that exists."""

    path: Path
    value: str | int


@dataclass(frozen=True)
class RenameField:
    """Replace the key of a field and keep its value."""

    path: Path
    key: str


@dataclass(frozen=True)
class RemoveField:
    """Remove a field from a mapping that also has other fields."""

    path: Path


FieldEdit = SetField | RenameField | RemoveField


def apply_edit(document: Any, change: FieldEdit, root: Path = ()) -> None:
    """Apply an edit to a parsed document in place. The edit's path starts at ``root``.

    Raises LookupError if the field does not exist.
    """
    *steps, last = (*root, *change.path)
    parent = document
    for step in steps:
        parent = parent[step]
    value = parent[last]
    if isinstance(change, SetField):
        parent[last] = change.value
    else:
        del parent[last]
        if isinstance(change, RenameField):
            parent[change.key] = value


def replace_value(problem: Problem) -> FieldEdit | None:
    """Return the edit that writes the problem's replacement as the field's value, or None without a replacement."""
    return SetField(problem.path, problem.replacement) if problem.replacement else None


def build_label_replacement(problem: Problem) -> FieldEdit | None:
    """Build the edit that replaces a node label, or return None if the problem has no replacement.

    In the fields ``key`` and ``topologyKey``, the label is the value. Elsewhere, as in nodeSelector, it is the key.
    """
    if not problem.replacement:
        return None
    if problem.path[-1] in ("key", "topologyKey"):
        return SetField(problem.path, problem.replacement)
    return RenameField(problem.path, problem.replacement)


def is_pod_count(text: str) -> bool:
    """Return whether a text is a plain number of pods: a decimal integer of at most nine digits."""
    return re.fullmatch("0|[1-9][0-9]{0,8}", text) is not None


class Severity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """The position in the order of severities, 0 for the worst one."""
        return tuple(Severity).index(self)


ERROR, WARNING, NOTE = Severity


class RuleProfile(StrEnum):
    """A set of rules. Each profile includes the profiles before it."""

    DEFAULT = "default"
    STRICT = "strict"
    ALL = "all"

    @property
    def rank(self) -> int:
        """The position in the order of profiles, 0 for the one with the fewest rules."""
        return tuple(RuleProfile).index(self)


Check = Callable[[LintContext], Iterator[Problem]]
WorkloadCheck = Callable[[Workload], Iterator[Problem]]
SafeFix = Callable[[Problem], FieldEdit | None]


def for_each_workload(check: WorkloadCheck) -> Check:
    """Return a check that applies a check of one workload to each linted workload."""
    return lambda context: (problem for workload in context.workloads for problem in check(workload))


@dataclass(frozen=True)
class Rule:
    """A lint rule: a check that finds problems, and the texts that explain them."""

    id: str
    severity: Severity
    check: Check
    summary: str
    """The problem that the rule finds, in one line."""
    why: str
    """The consequence of the problem."""
    fix: str
    """The advice for problems that have none of their own."""
    source: str
    """The page or file of upstream that explains it."""
    needs_cluster: bool = False
    """True if the rule runs only if all nodes of a cluster are known."""
    advised_field: VersionedField | None = None
    """The field that ``fix`` suggests and that some versions of Kubernetes do not have."""
    profile: RuleProfile = RuleProfile.DEFAULT
    """The first profile with the rule."""
    once_per_namespace: bool = False
    """True if only the first finding of a namespace is reported, with the number of the others."""
    once_per_object: bool = False
    """True if only the first finding of an object is reported, with the number of the others."""
    safe_fix: SafeFix | None = None
    """Returns the edit that corrects a problem, or None if more than one correction is possible."""

    def find_edit(self, problem: Problem) -> FieldEdit | None:
        """Return the safe edit that corrects a problem of a manifest, or None if there is none.

        Problems of a cluster's objects have no edits.
        """
        if self.safe_fix is None or not problem.subject.document:
            return None
        return self.safe_fix(problem)


def find_nothing(context: LintContext) -> Iterator[Problem]:
    """Find no problems. Rules use this if their problems are found elsewhere, such as while reading."""
    return iter(())
