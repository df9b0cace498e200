"""The pages of lint: findings by file, the list of rules, and a single rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TypeVar

from kschedctl.render.page import Block, Bullets, Cell, Marked, Page, Style, Verbatim, paragraph, section
from kschedctl.render.tables import build_struct_table, build_table, keep_row, number_columns
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.findings import SEVERITIES, SEVERITIES_BY_GRAVITY, Finding, Findings, RuleList, RuleReport
from kschedctl.reports.unknown import describe_unread_kinds

Shown = TypeVar("Shown")
MAX_COLUMN = 10_000
"""The largest column that is shown. Longer lines, such as JSON on a single line, are not opened in an editor."""
MIN_FINDINGS_PER_RULE = 2
"""The average number of findings per rule from which on a table counts the findings by rule."""


def build_findings_page(report: Findings, style: Style) -> Page:
    """Build the page of findings: a table of findings per file, the counts per rule, and the fixed findings.

    A wide style also shows the ignored findings. Notes on rules that could not be checked and on skipped files or
    documents follow. The summary comes first or last, depending on the style.
    """
    details = [
        *_build_file_tables(report, style),
        *(_build_ignored_table(report) if style.wide else ()),
        *_build_rule_count_table(report),
        *_build_fixed_table(report),
    ]
    if report.unknown:
        details.append(paragraph(Marked("not fully checked:", Tone.WARNING), describe_unread_kinds(report.unknown)))
    if report.passed_over:
        details.append(paragraph(Marked("skipped:", Tone.FAINT), _describe_skipped_files(report, style)))
    details += _build_fix_hint(report, style)
    summary = paragraph(*_build_summary_cells(report))
    return (summary, *details) if style.answer_first else (*details, summary)


def _build_file_tables(report: Findings, style: Style) -> Page:
    """Build a table of findings for each file, the file with the worst finding first."""
    blocks: list[Block] = []
    for file in dict.fromkeys(finding.file for finding in report.findings):
        findings = [finding for finding in report.findings if finding.file == file]
        row = partial(_build_finding_row, report=report, style=style)
        title = file or "In the cluster"
        blocks += build_table(findings, _list_finding_columns(style), row, limit=None, title=title, full=False)
    return tuple(blocks)


def _build_ignored_table(report: Findings) -> Page:
    """Build a table of the suppressed findings with their reasons."""
    columns = (Column("object"), Column("rule", keep=True), Column("reason"))
    rows = [(suppressed.finding.object, suppressed.finding.rule, suppressed.reason) for suppressed in report.suppressed]
    return build_table(rows, columns, keep_row, limit=None, title="Ignored")


def _list_finding_columns(style: Style) -> tuple[Column, ...]:
    """Return the columns of the table of findings."""
    columns = (Column("line", right=True), Column("severity", keep=True), Column("rule", keep=True), Column("object"))
    return (*columns, Column("problem"), *_select_field_and_fix(Column("field"), Column("fix", beneath="→"), style))


def _select_field_and_fix(field: Shown, fix: Shown, style: Style) -> tuple[Shown, ...]:
    """Return what the style shows of field and fix: both if wide, only the fix with --show-fixes, or otherwise ()."""
    if style.wide:
        return (field, fix)
    return (fix,) if style.fixes else ()


def _build_fixed_table(report: Findings) -> Page:
    """Build a table of the findings that --fix corrected."""
    rows = [
        (f"{finding.file}:{finding.line}", finding.rule, finding.object, finding.message) for finding in report.fixed
    ]
    columns = (Column("where", keep=True), Column("rule", keep=True), Column("object"), Column("problem"))
    return build_table(rows, columns, keep_row, limit=None, title="Fixed")


def _build_rule_count_table(report: Findings) -> Page:
    """Build a table with the number of findings of each rule. Return () if it would mostly repeat the findings."""
    if len(report.rules) == 1 or len(report.findings) < MIN_FINDINGS_PER_RULE * len(report.rules):
        return ()
    finding_counts = Counter((finding.severity, finding.rule) for finding in report.findings)
    summaries = {rule.id: rule.summary for rule in report.rules}

    def get_sort_key(severity_and_rule: tuple[str, str]) -> tuple[int, int, str]:
        """Return a key that sorts by severity, then by descending number of findings."""
        severity, rule = severity_and_rule
        return SEVERITIES_BY_GRAVITY.index(severity), -finding_counts[severity_and_rule], rule

    rows = [
        (str(finding_counts[severity, rule]), Marked(severity, SEVERITIES[severity]), rule, summaries.get(rule, ""))
        for severity, rule in sorted(finding_counts, key=get_sort_key)
    ]
    columns = [*number_columns("findings"), Column("severity", keep=True), Column("rule", keep=True), Column("finds")]
    return build_table(rows, columns, keep_row, limit=None, title="By rule")


def _build_finding_row(finding: Finding, report: Findings, style: Style) -> tuple[Cell, ...]:
    """Build the cells for a finding, one per column of `_list_finding_columns`.

    Without a column for the fix, the problem includes the fix if the fix says more than the rule's advice. The place is
    left out on a very long line, such as JSON on a single line.
    """
    line = f"{finding.line}:{finding.column}" if finding.line and finding.column <= MAX_COLUMN else ""
    severity = Marked(finding.severity, SEVERITIES[finding.severity])
    name = f"{finding.object} (owned by {finding.owner})" if finding.owner else finding.object
    problem = finding.message if style.wide or style.fixes else report.describe_problem(finding)
    row: tuple[Cell, ...] = (line, severity, finding.rule, name, problem)
    return (*row, *_select_field_and_fix(finding.path, finding.fix, style))


def _describe_skipped_files(report: Findings, style: Style) -> str:
    """Describe the skipped files or documents of each kind: how many there are or, in wide output, which ones."""
    parts = []
    for passed_over in report.passed_over:
        if style.wide:
            part = f"{passed_over.what} in {', '.join(passed_over.where)}"
        else:
            part = f"{len(passed_over.where):,} {passed_over.what}"
        parts.append(f"{part} ({passed_over.hint})" if passed_over.hint else part)
    return ", ".join(parts)


def _build_fix_hint(report: Findings, style: Style) -> Page:
    """Build the line on the options that show and apply fixes. Return () if the fixes are already shown."""
    if not report.findings or style.wide or style.fixes or style.answer_first:
        return ()
    corrected = f"; --fix corrects {report.fixable:,} of them" if report.fixable else ""
    return (paragraph(Marked(f"--show-fixes says how to fix each finding{corrected}", Tone.FAINT)),)


def _build_summary_cells(report: Findings) -> list[Cell]:
    """Build the cells of the summary line, with the verdict in the color of the worst severity.

    If there are no findings, the verdict is green, or yellow if nothing was checked or something is unknown.
    """
    verdict, *details = report.build_headline_parts()
    if report.findings:
        worst_severity = next(level for level in SEVERITIES_BY_GRAVITY if report.count(level))
        tone = SEVERITIES[worst_severity]
    else:
        tone = Tone.GOOD if report.checked and not report.unknown else Tone.WARNING
    return [Marked(verdict, tone), *details]


# -- rules ------------------------------------------------------------------------------------------------------------


def build_rule_list_page(report: RuleList, style: Style) -> Page:
    """Build the page of all rules, with one table per family.

    ★ marks the rules that need a cluster, and ◦ marks the rules that the default profile leaves out.
    """
    blocks: list[Block] = []
    for family in report.families:
        blocks += build_struct_table(
            family.rules, style, {"needs_cluster": _format_rule_marks}, title=family.heading, limit=None
        )
    needs = paragraph("★ needs nodes and pods: use --with-cluster, --snapshot, --live or --demo")
    return (*blocks, needs, paragraph("◦ runs only with --profile strict or all, or if selected"))


def _format_rule_marks(rule: RuleReport) -> str:
    """Return ★ if a rule needs a cluster, followed by ◦ if the default profile leaves the rule out."""
    return ("★" if rule.needs_cluster else "") + ("◦" if rule.profile != "default" else "")


def build_rule_page(report: RuleReport, style: Style) -> Page:
    """Build the page of a rule: what goes wrong, how to fix it, its source and an example."""
    return tuple(_iter_rule_blocks(report))


def _iter_rule_blocks(report: RuleReport) -> Iterator[Block]:
    """Yield the blocks of a rule's page: its summary, explanation, fix, source, notes and examples."""
    yield paragraph(
        Marked(report.id, Tone.STRONG), Marked(report.severity, SEVERITIES[report.severity]), report.summary
    )
    yield from section("What goes wrong", paragraph(report.why))
    yield from section("How to fix it", paragraph(report.fix))
    notes = []
    if report.needs_cluster:
        notes.append(paragraph("Needs nodes and pods"))
    if report.profile != "default":
        notes.append(paragraph(f"Runs only with --profile {report.profile} or --select"))
    if report.once:
        notes.append(paragraph("Reported once per namespace, except with --profile all or --select"))
    yield from section("Source", Bullets(tuple(report.source.split("; "))), *notes)
    for title, text in (("Reported", report.bad), ("In this cluster", report.around), ("Not reported", report.good)):
        if text:
            yield from section(title, Verbatim(title, text.strip("\n")))
