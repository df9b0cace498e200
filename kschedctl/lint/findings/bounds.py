"""Findings of rules that say the same of most objects: one a namespace, which counts the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from msgspec.structs import replace

from kschedctl.reports.findings import Finding


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


def _standing_for(finding: Finding, others: int) -> Finding:
    if not others:
        return finding
    where = f"in namespace {finding.namespace}" if finding.namespace else "without a namespace"
    return replace(finding, message=f"{finding.message} ({others:,} more {where})")
