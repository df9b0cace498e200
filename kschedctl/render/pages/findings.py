"""The page of Findings: a table by file, what silenced findings, and a last line that counts."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

from kschedctl.render.page import Block, Cell, Marked, Page, Style, Table, count, paragraph, section
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.findings import LEVELS, Finding, Findings
from kschedctl.reports.unknown import reasons

Shown = TypeVar("Shown")
TONES = {"error": Tone.BAD, "warning": Tone.WARNING, "note": Tone.FAINT}


def findings_page(report: Findings, style: Style) -> Page:
    """One table a file (objects of a cluster together), those with the gravest findings first; then counts by rule."""
    blocks: list[Block] = []
    for file in dict.fromkeys(finding.file for finding in report.findings):
        rows = tuple(_row(finding, style) for finding in report.findings if finding.file == file)
        blocks += section(file or "In the cluster", Table(_columns(style), rows).without_empty_columns())
    if style.wide and report.suppressed:
        ignored = tuple((s.finding.object, s.finding.rule, s.reason) for s in report.suppressed)
        blocks += section("Ignored", Table((Column("object"), Column("rule", keep=True), Column("reason")), ignored))
    blocks += _by_rule(report)
    blocks += _fixed(report)
    unknown = f"some rules could not tell: {reasons(report.unknown)}"
    doubts = [paragraph(Marked("not known:", Tone.WARNING), unknown)] if report.unknown else []
    if report.passed_over:
        doubts.append(paragraph(Marked("passed over:", Tone.FAINT), _passed_over(report, style)))
    answer, rest = paragraph(*_summary(report)), (*blocks, *doubts)
    return (answer, *rest) if style.answer_first else (*rest, answer)


def _columns(style: Style) -> tuple[Column, ...]:
    columns = (Column("line", right=True), Column("severity", keep=True), Column("rule", keep=True), Column("object"))
    return (*columns, Column("problem"), *_more(Column("field"), Column("fix"), style))


def _more(field: Shown, fix: Shown, style: Style) -> tuple[Shown, ...]:
    """Columns that not everybody wants."""
    return (field, fix) if style.wide else (fix,) if style.fixes else ()


def _fixed(report: Findings) -> Page:
    """What was put right, where it was."""
    if not report.fixed:
        return ()
    rows = tuple((f"{f.file}:{f.line}", f.rule, f.object, f.message) for f in report.fixed)
    columns = Column("where", keep=True), Column("rule", keep=True), Column("object"), Column("problem")
    return section("Fixed", Table(columns, rows))


def _by_rule(report: Findings) -> Page:
    """Where some rule has found more than one thing: how often each did, and what it is about."""
    if len(report.findings) == len(report.rules):
        return ()
    often = Counter((finding.severity, finding.rule) for finding in report.findings)
    summary = {rule.id: rule.summary for rule in report.rules}
    rows = tuple(
        (str(often[severity, rule]), Marked(severity, TONES[severity]), rule, summary.get(rule, ""))
        for severity, rule in sorted(often, key=lambda each: (LEVELS.index(each[0]), -often[each], each[1]))
    )
    columns = Column("findings", right=True), Column("severity", keep=True), Column("rule", keep=True), Column("about")
    return section("By rule", Table(columns, rows))


def _row(finding: Finding, style: Style) -> tuple[Cell, ...]:
    line = f"{finding.line}:{finding.column}" if finding.line else ""
    severity = Marked(finding.severity, TONES[finding.severity])
    name = f"{finding.object} (of {finding.owner})" if finding.owner else finding.object
    row: tuple[Cell, ...] = (line, severity, finding.rule, name, finding.message)
    return (*row, *_more(finding.path, finding.fix, style))


def _passed_over(report: Findings, style: Style) -> str:
    """How much of what, and where that is in a wide table."""
    said = []
    for each in report.passed_over:
        some = f"{each.what} in {', '.join(each.where)}" if style.wide else f"{len(each.where):,} {each.what}"
        said.append(f"{some} ({each.hint})" if each.hint else some)
    return ", ".join(said)


def _summary(report: Findings) -> list[Cell]:
    if not report.checked and not report.findings:
        return [Marked("Nothing was linted", Tone.WARNING), "(no object was found)"]
    checked = f"in {count(report.checked, 'object')}"
    checked += f", by {count(report.rules_run, 'rule')}" if report.rules_run else ""
    found = [count(report.count(level), level) for level in LEVELS if report.count(level)]
    parts: list[Cell] = [
        Marked(", ".join(found), TONES[_gravest(report)])
        if found
        else Marked("Nothing found", Tone.WARNING if report.unknown else Tone.GOOD)
    ]
    aside = [f"{len(report.suppressed)} ignored"] if report.suppressed else []
    aside += [f"{report.known} in the baseline"] if report.known else []
    aside += [f"{report.below} less grave"] if report.below else []
    aside += [f"{report.alike} more alike: --profile all"] if report.alike else []
    return [*parts, checked, *([f"({', '.join(aside)})"] if aside else [])]


def _gravest(report: Findings) -> str:
    return next(level for level in LEVELS if report.count(level))
