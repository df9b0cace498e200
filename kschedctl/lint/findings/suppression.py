"""Which findings not to report: annotations with a reason, rules by name, and a baseline of what was there before."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import object_at
from kschedctl.errors import InputError
from kschedctl.lint.findings.fingerprint import first_fingerprint
from kschedctl.lint.objects.subject import Subject
from kschedctl.reports.findings import Finding

ANNOTATION = "kschedctl/ignore"
BASELINE_KIND = "LintBaseline"
STDIN_NAME = "<stdin>"


class Ignore(NamedTuple):
    """Rules, by name or pattern, that an object is exempt from, and why."""

    patterns: tuple[str, ...]
    reason: str


def matches(rule: str, patterns: Iterable[str]) -> bool:
    """Whether a rule's id is one of these, ``*`` standing for anything.

    >>> matches("ts-missing", ["pdb-*", "ts-*"])
    True
    """
    return any(fnmatchcase(rule, pattern) for pattern in patterns)


def ignores(annotation: str) -> Iterator[Ignore]:
    """``rule-id[,rule-id] reason``, one a line.

    >>> list(ignores("ts-missing,pdb-* one replica is enough here"))
    [Ignore(patterns=('ts-missing', 'pdb-*'), reason='one replica is enough here')]
    """
    for line in filter(None, map(str.strip, annotation.splitlines())):
        rules, _, reason = line.partition(" ")
        yield Ignore(tuple(filter(None, rules.split(","))), reason.strip())


def annotation_of(subject: Subject) -> str:
    """What the object's annotation says, empty when it has none."""
    return str(object_at(subject.document, "metadata", "annotations").get(ANNOTATION, ""))


def reason_to_ignore(rule: str, subject: Subject) -> str:
    """The reason for which an annotation of the object silences a rule, empty when none does."""
    return next((i.reason for i in ignores(annotation_of(subject)) if i.reason and matches(rule, i.patterns)), "")


class PathIgnores(NamedTuple):
    """Rules that files are exempt from: patterns of paths, from the folder of the settings -> patterns of rules."""

    patterns: Mapping[str, tuple[str, ...]] = {}
    base: str = ""

    def pattern(self, finding: Finding) -> str:
        """The pattern of paths that silences a finding, empty when none does."""
        if not finding.file or finding.file == STDIN_NAME:
            return ""
        silencing = (path for path, rules in self.patterns.items() if matches(finding.rule, rules))
        return next((path for path in silencing if path_matches(finding.file, path, self.base)), "")


def baseline_text(findings: Iterable[Finding]) -> str:
    """The baseline file of these findings."""
    entries = [
        {"fingerprint": f.fingerprint, "rule": f.rule, "object": f.object, "path": f.path, "file": f.file}
        for f in findings
    ]
    document = {"apiVersion": "kschedctl.dev/v1", "kind": BASELINE_KIND, "findings": entries}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


class _Entry(msgspec.Struct):
    fingerprint: str


class _Baseline(msgspec.Struct, tag_field="kind", tag=BASELINE_KIND):
    findings: list[_Entry] = []


def parse_baseline(document: object, where: str) -> Counter[str]:
    """How often each fingerprint is in a parsed baseline. Raises InputError that names the field."""
    hint = "write one with --write-baseline FILE"
    if not isinstance(document, Mapping) or document.get("kind") != BASELINE_KIND:
        raise InputError(f"not a {BASELINE_KIND}", where=where, hint=hint)
    try:
        baseline = convert_builtins(document, _Baseline)
    except msgspec.ValidationError as error:
        what, _, field = str(error).replace("`", "").partition(" - at $.")
        raise InputError(
            what[:1].lower() + what[1:], where=f"{where}, {field}" if field else where, hint=hint
        ) from None
    return Counter(entry.fingerprint for entry in baseline.findings)


def new_findings(findings: Iterable[Finding], baseline: Counter[str]) -> tuple[Finding, ...]:
    """The findings that are not in the baseline, each entry of which stands for one."""
    left = baseline.copy()
    return tuple(finding for finding in findings if not _taken(left, finding))


def _taken(left: Counter[str], finding: Finding) -> bool:
    """Whether the baseline has one such finding left, which is taken from it."""
    for entry in (finding.fingerprint, first_fingerprint(finding)):
        if left[entry] > 0:
            left[entry] -= 1
            return True
    return False


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
