"""Answers about placement as findings, for CI: what does not schedule, what is evicted, what blocks a drain.

A finding stands at the manifest of its workload, where it has one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from kschedctl.reports.answers import Answers
from kschedctl.reports.document import Document
from kschedctl.reports.drain import Drain
from kschedctl.reports.explanation import Explanation
from kschedctl.reports.explanations import FINE, Explanations
from kschedctl.reports.failures import Failures
from kschedctl.reports.findings import Finding, Findings
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.pending import PendingPods
from kschedctl.reports.simulation import EvictedPod, SimulationReport, UnplacedPods
from kschedctl.reports.unknown import reasons
from kschedctl.reports.whatif import WhatIf
from kschedctl.studies.basics.findings import AuditRule, judged
from kschedctl.text.counts import counted
from kschedctl.text.version import VERSION

RULES = {
    rule.id: rule
    for rule in (
        AuditRule("not-scheduled", "error", "Pods get no node", "They stay Pending", "Run kschedctl remedies"),
        AuditRule("not-created", "error", "Pods are not created", "Admission refuses them", "Raise the limit"),
        AuditRule("eviction-blocked", "error", "An eviction is refused", "The drain does not end", "Free its budget"),
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
        AuditRule("undecided", "warning", "Not certain", "Not everything was read", "Read what is missing"),
    )
}
_PLACE = re.compile(r"(?P<file>.*): document \d+(?: \(line (?P<line>\d+)\))?(?:, .*)?")


class GateProblem(NamedTuple):
    """One thing that a rule is against; ``fix``: what helps, empty for what the rule says."""

    rule: str
    object: str
    message: str
    fix: str = ""


def gate_findings(document: Document, command: str, places: Mapping[str, str]) -> Findings | None:
    """What is wrong with the answer; None for one that no gate asks for.

    ``places``: ``Pod shop/web`` -> where its manifest stands.
    """
    problems = _problems(document)
    if problems is None:
        return None
    findings = [_finding(problem, places) for problem in (*problems, *_doubts(document))]
    worst_first = judged(list(RULES.values()), findings)
    return Findings(
        max(len(findings), 1),
        len(RULES),
        worst_first["findings"],
        worst_first["rules"],
        tool_version=VERSION,
        command=command,
    )


def _problems(document: Document) -> list[GateProblem] | None:
    if isinstance(document, Answers):
        return [
            problem._replace(message=f"{answer.cluster}: {problem.message}")
            for answer in document.answers
            for problem in _problems(answer.document) or ()
        ]
    ask = OF_KIND.get(type(document))
    return None if ask is None else list(ask(document))


def _explained(report: Explanation) -> Iterator[GateProblem]:
    if report.not_created is not None and not report.not_created.past:
        yield from _uncreated((report.not_created,))
    elif report.verdict not in FINE:
        workload = _workload_of(report.stands_for)
        fix = report.remedies[0].summary if report.remedies else ""
        yield GateProblem("not-scheduled", workload or f"Pod {report.pod}", report.headline, fix)


def _workload_of(note: str) -> str:
    """``Deployment shop/web`` of ``a pod of Deployment shop/web``."""
    match = re.search(r"\b([A-Z]\w+) ([a-z0-9.-]+/[a-z0-9.-]+)", note)
    return match[0] if match else ""


def _pending(report: PendingPods) -> Iterator[GateProblem]:
    yield from _uncreated(report.not_created)
    for group in report.groups:
        if group.verdict not in FINE:
            yield GateProblem("not-scheduled", f"Pod {group.pods[0]}", _of_many(len(group.pods), group.cause))


def _unplaced(several: Iterable[UnplacedPods]) -> Iterator[GateProblem]:
    for group in several:
        message = _of_many(len(group.pods), group.message or group.verdict)
        yield GateProblem("not-scheduled", group.workload or f"Pod {group.pods[0]}", message)


def _of_many(pods: int, message: str) -> str:
    return message if pods == 1 else f"{counted(pods, 'pod')}: {message}"


def _uncreated(several: Iterable[NotCreated]) -> Iterator[GateProblem]:
    for lacking in several:
        yield GateProblem("not-created", lacking.workload, lacking.headline)


def _evicted(several: Iterable[EvictedPod]) -> Iterator[GateProblem]:
    for pod in several:
        yield GateProblem("evicted", f"Pod {pod.pod}", f"evicted from {pod.node} for {pod.by}")


def _drained(report: Drain) -> Iterator[GateProblem]:
    for blocked in report.blocked:
        yield GateProblem("eviction-blocked", f"Pod {blocked.pod}", blocked.why)
    yield from _unplaced(report.unplaced)
    yield from _uncreated(report.not_created)
    for pod in report.lost:
        yield GateProblem("lost", f"Pod {pod}", "no controller creates it again")
    for pod in report.returned:
        yield GateProblem("returned", f"Pod {pod}", "comes back to a drained node: it tolerates the cordon")
    yield from _evicted(report.evicted)


def _simulated(report: SimulationReport) -> Iterator[GateProblem]:
    yield from _uncreated(report.not_created)
    yield from _unplaced(report.pending)
    yield from _evicted(report.evicted)


def _lost(report: Failures) -> Iterator[GateProblem]:
    for loss in report.failures:
        if not loss.safe:
            message = f"{counted(loss.unplaced, 'pod')} without a node, {counted(loss.evicted, 'pod')} evicted"
            yield GateProblem("loss-not-borne", f"{report.unit.capitalize()} {loss.name}", message)


def _changed(report: WhatIf) -> Iterator[GateProblem]:
    for change in report.changes:
        if change.change == "NewlyPending":
            yield GateProblem("not-scheduled", f"Pod {change.pod}", change.message or "becomes Pending")


OF_KIND: Mapping[type[Document], Callable[[Any], Iterable[GateProblem]]] = {
    Explanation: _explained,
    Explanations: lambda report: (
        problem for explanation in report.explanations for problem in _explained(explanation)
    ),
    PendingPods: _pending,
    SimulationReport: _simulated,
    Drain: _drained,
    Failures: _lost,
    WhatIf: _changed,
}


def _doubts(document: Document) -> Iterator[GateProblem]:
    if getattr(document, "undecided", False):
        why = reasons(getattr(document, "unknown", ())) or "not everything that it depends on was read"
        yield GateProblem("undecided", "Cluster", why)


def _finding(problem: GateProblem, places: Mapping[str, str]) -> Finding:
    rule = RULES[problem.rule]
    finding = rule.finding(problem.object, problem.message.rstrip("."), problem.fix)
    place = _PLACE.fullmatch(places.get(problem.object, ""))
    return finding if place is None else replace(finding, file=place["file"], line=int(place["line"] or 1), column=1)
