"""What is said of many alike is said once: of an object, of its variants in other files, or of a namespace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from msgspec.structs import replace

from kschedctl.lint.rule import Rule, Severity
from kschedctl.reports.findings import Finding


def bounded(findings: Iterable[Finding], rules: Iterable[Rule]) -> tuple[Finding, ...]:
    """The findings of these rules, without those that say again what another one says."""
    rules = tuple(rules)
    of_objects = once_an_object(findings, {rule.id for rule in rules if rule.once_an_object})
    return once_a_namespace(once_for_variants(of_objects), {rule.id for rule in rules if rule.once})


def once_a_namespace(findings: Iterable[Finding], rules: Collection[str]) -> tuple[Finding, ...]:
    """The findings, of each of these rules only the first of a namespace, which says how many it stands for.

    What names no namespace is in one of its own.
    """
    findings = tuple(findings)
    alike = Counter((finding.rule, finding.namespace) for finding in findings)
    told: set[tuple[str, str]] = set()
    kept = []
    for finding in findings:
        group = finding.rule, finding.namespace
        if finding.rule not in rules:
            kept.append(finding)
        elif group not in told:
            told.add(group)
            kept.append(_standing_for(finding, alike[group] - 1))
    return tuple(kept)


def once_an_object(findings: Iterable[Finding], rules: Collection[str]) -> tuple[Finding, ...]:
    """The findings, of each of these rules only the first of an object, which says how many it stands for."""
    kept: dict[object, Finding] = {}
    alike: Counter[object] = Counter()
    for number, finding in enumerate(findings):
        key = (finding.rule, finding.file, finding.object) if finding.rule in rules else number
        kept.setdefault(key, finding)
        alike[key] += 1
    return tuple(
        replace(finding, message=f"{finding.message} ({alike[key] - 1:,} more of it too)")
        if alike[key] > 1
        else finding
        for key, finding in kept.items()
    )


def once_for_variants(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings, of those that say the same of one object in several files the first, which names the other files.

    Errors are told in each: all of them have to be corrected before anything can be applied.
    """
    kept: dict[object, Finding] = {}
    others: dict[object, dict[str, None]] = {}
    for number, finding in enumerate(findings):
        key: object = (finding.rule, finding.object, finding.fingerprint, finding.message)
        named = " " in finding.object and finding.file
        first = kept.setdefault(key, finding) if named and finding.severity != Severity.ERROR else finding
        if first.file == finding.file:
            kept[key if kept.get(key) is finding else number] = finding
        else:
            others.setdefault(key, {})[finding.file] = None
    return tuple(_told_of(finding, tuple(others.get(key, ()))) for key, finding in kept.items())


def _told_of(finding: Finding, files: tuple[str, ...]) -> Finding:
    if not files:
        return finding
    more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
    return replace(finding, message=f"{finding.message} (so in {files[0]}{more})", also_in=files)


def _standing_for(finding: Finding, others: int) -> Finding:
    if not others:
        return finding
    where = f"in namespace {finding.namespace}" if finding.namespace else "without a namespace"
    return replace(finding, message=f"{finding.message} ({others:,} more {where})")
