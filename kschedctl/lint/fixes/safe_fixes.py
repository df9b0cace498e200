"""The fixes that are safe: what the API refuses or no node has is corrected where only one thing can be meant.

What was accepted goes on to mean what it meant. Whatever asks for a decision (a request, a budget, a spread) is left
to people.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kschedctl.api.json_values import field_at, object_at
from kschedctl.api.kinds import LIFECYCLES
from kschedctl.lint.fixes.field_edits import FieldEdit, RemoveField, RenameField, SetField
from kschedctl.lint.objects.subject import Problem, Subject

SAME_FIELDS = {
    ("batch/v1beta1", "CronJob"),
    ("policy/v1beta1", "PodDisruptionBudget"),
    ("node.k8s.io/v1beta1", "RuntimeClass"),
    ("scheduling.k8s.io/v1beta1", "PriorityClass"),
    ("autoscaling/v2beta2", "HorizontalPodAutoscaler"),
    ("storage.k8s.io/v1beta1", "StorageClass"),
    ("storage.k8s.io/v1beta1", "CSIStorageCapacity"),
}
"""Versions of the API whose successors have the same fields with the same meaning and defaults (api/*/types.go)."""

_WRITE = re.compile(r"Write ([A-Za-z0-9./-]+)")
_SUPPORTED = re.compile(r'Unsupported value: "([A-Za-z]+)": supported values: ([A-Za-z", ]+)')
_MEANT = re.compile(r'Did you mean "([A-Za-z]+)"\?')
_WORD = re.compile(r'"([A-Za-z]+)"')
_COUNTS = ("minAvailable", "maxUnavailable", "maxSurge")


def rename_label(problem: Problem) -> FieldEdit | None:
    """The label that the rule names: a key of nodeSelector, or the value of ``key`` or ``topologyKey``."""
    written = _WRITE.fullmatch(problem.fix)
    if written is None:
        return None
    if problem.path[-1] in ("key", "topologyKey"):
        return SetField(problem.path, written[1])
    return RenameField(problem.path, written[1])


def correct_value(problem: Problem) -> FieldEdit | None:
    """The value of a label of nodes that others call otherwise."""
    written = _WRITE.fullmatch(problem.fix)
    return SetField(problem.path, written[1]) if written is not None else None


def rename_annotation(problem: Problem) -> FieldEdit | None:
    """The annotation that was renamed, with the same value."""
    written = _WRITE.fullmatch(problem.fix)
    parent = field_at(problem.subject.document, *problem.path[:-1])
    free = written is not None and isinstance(parent, Mapping) and written[1] not in parent
    return RenameField(problem.path, written[1]) if written is not None and free else None


def raise_version(problem: Problem) -> FieldEdit | None:
    subject = problem.subject
    written = subject.api_version, subject.kind
    version = LIFECYCLES.get(written)
    if version is None or written not in SAME_FIELDS or _selects_otherwise(subject):
        return None
    wanted = version.replacement
    return SetField(problem.path, wanted) if problem.fix == f"Write apiVersion: {wanted}" else None


def _selects_otherwise(subject: Subject) -> bool:
    """An empty selector of a budget selects nothing in policy/v1beta1, and everything in policy/v1."""
    return subject.kind == "PodDisruptionBudget" and not any(
        field_at(subject.document, "spec", "selector", part) for part in ("matchLabels", "matchExpressions")
    )


def remove_soft_min_domains(problem: Problem) -> FieldEdit | None:
    """A preference has no use for minDomains; a value below 1 may stand for any other."""
    soft = object_at(problem.subject.document, *problem.path[:-1]).get("whenUnsatisfiable") == "ScheduleAnyway"
    return RemoveField(problem.path) if soft and problem.path[-1] == "minDomains" else None


def rename_field(problem: Problem) -> FieldEdit | None:
    """A field in the wrong case, or in the wrong one of singular and plural."""
    meant = _MEANT.fullmatch(problem.fix)
    name = str(problem.path[-1])
    if meant is None or meant[1].lower().removesuffix("s") != name.lower().removesuffix("s"):
        return None
    parent = object_at(problem.subject.document, *problem.path[:-1])
    return RenameField(problem.path, meant[1]) if meant[1] not in parent else None


def correct_word(problem: Problem) -> FieldEdit | None:
    """A word in the wrong case; a count of pods in quotes."""
    value = field_at(problem.subject.document, *problem.path)
    if not isinstance(value, str):
        return None
    if problem.path[-1] in _COUNTS and _is_count(value):
        return SetField(problem.path, int(value))
    unsupported = _SUPPORTED.search(problem.message)
    meant = [word for word in _WORD.findall(unsupported[2]) if word.lower() == value.lower()] if unsupported else []
    return SetField(problem.path, meant[0]) if len(meant) == 1 else None


def unquote_number(problem: Problem) -> FieldEdit | None:
    """A number in quotes."""
    value = field_at(problem.subject.document, *problem.path)
    if isinstance(value, str) and _is_count(value) and ": expected int" in problem.message:
        return SetField(problem.path, int(value))
    return None


def _is_count(text: str) -> bool:
    return re.fullmatch("0|[1-9][0-9]{0,8}", text) is not None
