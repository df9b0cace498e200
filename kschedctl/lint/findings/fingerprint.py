"""Fingerprints, by which findings are known again: of the rule, the object, and the names on the way to the field.

Files and indices of lists are no part of them, so that a file may be renamed, read from elsewhere or come through a
pipe, and a container may be put before others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping

from kschedctl.api.json_values import field_at
from kschedctl.lint.objects.subject import Path, Subject
from kschedctl.reports.findings import Finding

_OF_PODS = re.compile(r"^spec\.(jobTemplate\.spec\.)?template\.(?=spec)")
NAMES = ("name", "key", "topologyKey", "hostPort", "containerPort")
"""The fields by which the items of a list are told apart; those with none of them are not."""


def fingerprint(rule: str, subject: Subject, path: Path) -> str:
    """A name of the problem, the same in every run; findings that are alike in all this share it."""
    return _digest(rule, str(subject), *_names(subject.document, path))


def first_fingerprint(finding: Finding) -> str:
    """The fingerprint of the first baselines: by file, and by indices; in a cluster fields were those of pods."""
    path = finding.path if finding.file else _OF_PODS.sub("", finding.path)
    return _digest(finding.rule, finding.file, finding.object, path)


def _names(document: object, path: Path) -> Iterator[str]:
    """The steps of a path, an item of a list by its name, or as ``[]`` where it has none."""
    value = document
    for step in path:
        value = field_at(value, step)
        yield f"[{_name(value)}]" if isinstance(step, int) else step


def _name(item: object) -> str:
    if isinstance(item, Mapping):
        return next((f"{key}={item[key]}" for key in NAMES if item.get(key) is not None), "")
    return item if isinstance(item, str) else ""


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
