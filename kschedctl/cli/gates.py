"""Findings about placement for CI: pods that do not schedule, evictions, blocked drains."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from kschedctl.replay.audit_rules import AuditRule, build_verdict
from kschedctl.reports.document import Document
from kschedctl.reports.findings import Finding, Findings
from kschedctl.reports.report import GateProblem, PlainReport
from kschedctl.reports.unknown import describe_unread_kinds
from kschedctl.sources.documents.place import Place

RULES = {
    rule.id: rule
    for rule in (
        AuditRule("not-scheduled", "error", "Pods get no node", "They stay Pending", "Run kschedctl remedies"),
        AuditRule("not-created", "error", "Pods are not created", "Admission denies them", "Raise the limit"),
        AuditRule("eviction-blocked", "error", "An eviction is denied", "The drain does not end", "Free its budget"),
        AuditRule("loss-not-borne", "error", "A loss has consequences", "Pods wait, or are evicted", "Add nodes"),
        AuditRule("lost", "error", "A pod is lost", "No controller creates it again", "Give it a controller"),
        AuditRule(
            "returned",
            "error",
            "A pod comes back to a drained node",
            "It tolerates that the node is cordoned",
            "Taint the node with what the pod does not tolerate, or scale its workload down first",
        ),
        AuditRule("evicted", "warning", "A pod is evicted", "It has to make room", "Add nodes, or change priorities"),
        AuditRule(
            "uneven-spread",
            "warning",
            "Pods are spread less evenly than their constraint demands",
            "Losing one domain takes down more of them",
            "Set matchLabelKeys: [pod-template-hash] in the spread constraint",
        ),
        AuditRule("undecided", "warning", "Not certain", "Not everything was read", "Read what is missing"),
    )
}


def build_gate_findings(document: Document, command: str, places: Mapping[str, Place]) -> Findings | None:
    """Turn the problems in a report into findings, the most severe first.

    An undecided report has one more problem. ``places`` maps the name of an object, such as ``Pod shop/web``, to the
    place of its manifest. Return None if reports of this kind have no gate.
    """
    problems = document.find_ci_gate_problems() if isinstance(document, PlainReport) else None
    if problems is None:
        return None
    findings = [_build_finding(problem, places) for problem in problems]
    if undecided_problem := _build_undecided_problem(document):
        findings.append(_build_finding(undecided_problem, places))
    verdict = build_verdict(list(RULES.values()), findings)
    return Findings(
        checked=max(len(findings), 1),  # 0 would mean that there was nothing to check
        rules_run=len(RULES),
        findings=verdict["findings"],
        rules=verdict["rules"],
        command=command,
    )


def _build_undecided_problem(document: Document) -> GateProblem | None:
    """Build the problem that the report is undecided, or return None if it is decided."""
    if not getattr(document, "undecided", False):
        return None
    why = describe_unread_kinds(getattr(document, "unknown", ())) or "not everything that it depends on was read"
    return GateProblem("undecided", "Cluster", why)


def _build_finding(problem: GateProblem, places: Mapping[str, Place]) -> Finding:
    """Build the finding for a problem. It points to the object's manifest if ``places`` contains it."""
    rule = RULES[problem.rule]
    finding = rule.build_finding(problem.object, problem.message.rstrip("."), problem.fix)
    place = places.get(problem.object)
    return replace(finding, file=place.file, line=place.line, column=1) if place else finding
