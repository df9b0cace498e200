"""What a rule is, and what it yields.

A rule is a function from the context (what is linted, and the cluster around it, if known) to problems, and the words
that explain it. ``needs_cluster`` rules run only where nodes are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.field_edits import FieldEdit
from kschedctl.lint.objects.subject import Problem
from kschedctl.lint.objects.workload import Workload
from kschedctl.scheduler.configuration.version_fields import VersionedField


class Severity(StrEnum):
    """``error``: the API refuses it, or pods stay Pending. ``warning``: likely not what was meant. ``note``: advice."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 is the gravest."""
        return tuple(Severity).index(self)


ERROR, WARNING, NOTE = Severity


class RuleProfile(StrEnum):
    """Which rules run, each profile with those before it. In ``all`` none is held to one finding a namespace.

    ``default``: what whoever writes manifests wants to know. ``strict``: also advice that many do without.
    """

    DEFAULT = "default"
    STRICT = "strict"
    ALL = "all"

    @property
    def rank(self) -> int:
        """0 has the fewest rules."""
        return tuple(RuleProfile).index(self)


Check = Callable[[LintContext], Iterator[Problem]]
WorkloadCheck = Callable[[Workload], Iterator[Problem]]
SafeFix = Callable[[Problem], FieldEdit | None]


def each_workload(check: WorkloadCheck) -> Check:
    """The check of all workloads by one that looks at nothing beside each of them."""
    return lambda context: (problem for workload in context.workloads for problem in check(workload))


@dataclass(frozen=True)
class Rule:
    """``summary``: one line. ``why``: what goes wrong. ``source``: where upstream says so.

    ``advises``: a field that ``fix`` would add and that not every version reads. ``profile``: the first that has it.
    ``once``: what it says of one object of a namespace it says of most, so it is told once a namespace.
    ``once_an_object``: what it says of one container it says of most.
    ``safe_fix``: the edit that puts a problem right, where only one thing can be meant.
    """

    id: str
    severity: Severity
    check: Check
    summary: str
    why: str
    fix: str
    source: str
    needs_cluster: bool = False
    advises: VersionedField | None = None
    profile: RuleProfile = RuleProfile.DEFAULT
    once: bool = False
    once_an_object: bool = False
    safe_fix: SafeFix | None = None

    def edit_for(self, problem: Problem) -> FieldEdit | None:
        """The edit that puts a problem right, where there is one that is safe."""
        return self.safe_fix(problem) if self.safe_fix is not None and problem.subject.document else None
