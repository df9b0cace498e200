"""Suppression of findings: by annotations with a reason, by settings for rules and paths, and by a baseline.

A baseline identifies a finding by its fingerprint: its rule, its object and the names on the path to the field. Files
and list indices are not part of it, so that a file may be renamed and a container may be moved.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import field_at, object_at
from kschedctl.api.workloads import POD_TEMPLATE_PATHS
from kschedctl.errors import InputError
from kschedctl.lint.objects.subject import Path, Subject
from kschedctl.reports.findings import Finding

ANNOTATION = "kschedctl/ignore"
BASELINE_KIND = "LintBaseline"
STDIN_NAME = "<stdin>"


class IgnoreEntry(NamedTuple):
    """A line of the ignore annotation."""

    patterns: tuple[str, ...]
    """Rule ids or patterns of them."""
    reason: str


def matches_rule(rule_id: str, patterns: Iterable[str]) -> bool:
    """Return whether a rule's id matches one of the patterns, in which ``*`` stands for anything.

    >>> matches_rule("ts-missing", ["pdb-*", "ts-*"])
    True
    """
    return any(fnmatchcase(rule_id, pattern) for pattern in patterns)


def parse_ignores(annotation: str) -> Iterator[IgnoreEntry]:
    """Yield the entries of an ignore annotation: ``rule-id[,rule-id] reason``, one per line.

    >>> list(parse_ignores("ts-missing,pdb-* one replica is enough here"))
    [IgnoreEntry(patterns=('ts-missing', 'pdb-*'), reason='one replica is enough here')]
    """
    for line in filter(None, map(str.strip, annotation.splitlines())):
        rules, _, reason = line.partition(" ")
        yield IgnoreEntry(tuple(filter(None, rules.split(","))), reason.strip())


def get_ignore_annotation(subject: Subject) -> str:
    """Return the object's ignore annotation, or ""."""
    return str(object_at(subject.document, "metadata", "annotations").get(ANNOTATION, ""))


def find_ignore_reason(rule_id: str, subject: Subject) -> str:
    """Return the reason that an object's annotation gives for suppressing a rule, or "" if there is none.

    An entry without a reason does not suppress its rules.
    """
    for entry in parse_ignores(get_ignore_annotation(subject)):
        if entry.reason and matches_rule(rule_id, entry.patterns):
            return entry.reason
    return ""


class PathIgnores(NamedTuple):
    """The rules that are not reported for some paths."""

    patterns: Mapping[str, tuple[str, ...]] = {}
    """Rule patterns by path pattern."""
    base: str = ""
    """The folder from which path patterns with a slash start."""

    def find_ignoring_pattern(self, finding: Finding) -> str:
        """Return the path pattern that suppresses a finding, or "" if none does.

        Findings without a file or in standard input are never suppressed.
        """
        if not finding.file or finding.file == STDIN_NAME:
            return ""
        for path, rules in self.patterns.items():
            if matches_rule(finding.rule, rules) and matches_path(finding.file, path, self.base):
                return path
        return ""


def render_baseline(findings: Iterable[Finding]) -> str:
    """Render the content of a baseline file that contains these findings."""
    entries = [
        {
            "fingerprint": finding.fingerprint,
            "rule": finding.rule,
            "object": finding.object,
            "path": finding.path,
            "file": finding.file,
        }
        for finding in findings
    ]
    document = {"apiVersion": "kschedctl.dev/v1", "kind": BASELINE_KIND, "findings": entries}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


class _Entry(msgspec.Struct):
    """A finding in a baseline."""

    fingerprint: str


class _Baseline(msgspec.Struct, tag_field="kind", tag=BASELINE_KIND):
    """The document in a baseline file."""

    findings: list[_Entry] = []


def parse_baseline(document: object, file: str) -> Counter[str]:
    """Parse a baseline file, and return how often it contains each fingerprint.

    Raises InputError if the document is malformed. ``file`` is the name of the file for the error.
    """
    hint = "write one with --write-baseline FILE"
    if not isinstance(document, Mapping) or document.get("kind") != BASELINE_KIND:
        raise InputError(f"not a {BASELINE_KIND}", where=file, hint=hint)
    try:
        baseline = convert_builtins(document, _Baseline)
    except msgspec.ValidationError as error:
        # msgspec's message ends with the path of the field, such as " - at `$.findings`"
        message, _, field = str(error).replace("`", "").partition(" - at $.")
        where = f"{file}, {field}" if field else file
        raise InputError(message[:1].lower() + message[1:], where=where, hint=hint) from None
    return Counter(entry.fingerprint for entry in baseline.findings)


def drop_baseline_findings(findings: Iterable[Finding], baseline: Counter[str]) -> tuple[Finding, ...]:
    """Drop the findings that are in the baseline. Each of its entries suppresses one finding."""
    remaining = baseline.copy()
    return tuple(finding for finding in findings if not _remove_from_baseline(remaining, finding))


def _remove_from_baseline(remaining: Counter[str], finding: Finding) -> bool:
    """Remove one entry for the finding from ``remaining``, and return whether there was one.

    An entry with the finding's legacy fingerprint also counts.
    """
    for fingerprint in (finding.fingerprint, build_legacy_fingerprint(finding)):
        if remaining[fingerprint] > 0:
            remaining[fingerprint] -= 1
            return True
    return False


ANYWHERE = "**/"


def matches_path(path: str, pattern: str, base: str) -> bool:
    """Return whether a pattern matches a path or a folder above it.

    Patterns with a slash start at the folder ``base``, unless they begin with ``**/``. Other patterns match a name at
    any depth. ``*`` also matches slashes.

    >>> matches_path("/r/a/vendor/x.yaml", "vendor", "/r"), matches_path("/r/a/x.yaml", "b/*", "/r")
    (True, False)
    """
    pattern = pattern.removeprefix("./").rstrip("/")
    anywhere = "/" not in pattern or pattern.startswith(ANYWHERE)
    path_pattern = pattern.removeprefix(ANYWHERE)
    relative = os.path.relpath(path, base).replace(os.sep, "/")
    return any(
        fnmatchcase(candidate, path_pattern) or (anywhere and fnmatchcase(candidate, f"*/{path_pattern}"))
        for candidate in _iter_prefixes(relative)
    )


def _iter_prefixes(path: str) -> Iterator[str]:
    """Yield a path and all folders above it: ``a/b/c``, ``a/b``, ``a``."""
    while path:
        yield path
        path = path.rpartition("/")[0]


_POD_TEMPLATE_PREFIX = re.compile(
    "|".join(rf"^{re.escape('.'.join(POD_TEMPLATE_PATHS[kind]))}\.(?=spec)" for kind in ("Deployment", "CronJob"))
)
IDENTIFYING_FIELDS = ("name", "key", "topologyKey", "hostPort", "containerPort")
"""The fields that identify the items of a list. Items with none of them share one fingerprint."""


def build_fingerprint(rule: str, subject: Subject, path: Path) -> str:
    """Build the fingerprint of a problem from its rule, its object and the names on the path to the field.

    Problems that differ only in list indices share one fingerprint.
    """
    return _hash_parts(rule, str(subject), *_iter_stable_step_names(subject.document, path))


def build_legacy_fingerprint(finding: Finding) -> str:
    """Build the fingerprint that the first version of baselines used: by file and by path with list indices."""
    path = finding.path if finding.file else _POD_TEMPLATE_PREFIX.sub("", finding.path)
    return _hash_parts(finding.rule, finding.file, finding.object, path)


def _iter_stable_step_names(document: object, path: Path) -> Iterator[str]:
    """Yield, for each step of a path, a name that does not depend on the order of list items.

    The name of a list item is its identifying field in brackets, such as ``[name=web]``. An item that is a string is
    itself in brackets, and any other item is ``[]``.
    """
    value = document
    for step in path:
        value = field_at(value, step)
        yield f"[{_describe_list_item(value)}]" if isinstance(step, int) else step


def _describe_list_item(item: object) -> str:
    """Return the first identifying field of a list item as ``field=value``, or the item if it is a string.

    Returns "" for any other item.
    """
    if isinstance(item, Mapping):
        for key in IDENTIFYING_FIELDS:
            if item.get(key) is not None:
                return f"{key}={item[key]}"
    return item if isinstance(item, str) else ""


def _hash_parts(*parts: str) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 hash of these texts, one per line."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
