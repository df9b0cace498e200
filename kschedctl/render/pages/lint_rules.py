"""Pages of the rules of lint: the list, and one in full."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.render.page import Block, Bullets, Marked, Page, Style, Table, Verbatim, paragraph, section
from kschedctl.render.pages.findings import TONES
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.findings import RuleList, RuleReport


def rule_list_page(report: RuleList, style: Style) -> Page:
    """One table a family; ★ marks rules that need a cluster, ◦ those that the default profile leaves out."""
    columns = (Column("rule", keep=True), Column(""), Column("severity", keep=True), Column("what it finds"))
    blocks: list[Block] = []
    for family in report.families:
        rows = tuple(
            (rule.id, _marks(rule), Marked(rule.severity, TONES[rule.severity]), rule.summary) for rule in family.rules
        )
        blocks += section(family.heading, Table(columns, rows))
    needs = paragraph("★ needs nodes and pods: --with-cluster, --snapshot, --live or --demo")
    return (*blocks, needs, paragraph("◦ only with --profile strict or all, or where it is selected"))


def _marks(rule: RuleReport) -> str:
    return ("★" if rule.needs_cluster else "") + ("◦" if rule.profile != "default" else "")


def rule_page(report: RuleReport, style: Style) -> Page:
    """What goes wrong, how to fix it, where it is written, and an example."""
    return tuple(_rule(report))


def _rule(report: RuleReport) -> Iterator[Block]:
    yield paragraph(Marked(report.id, Tone.STRONG), Marked(report.severity, TONES[report.severity]), report.summary)
    yield from section("What goes wrong", paragraph(report.why))
    yield from section("How to fix it", paragraph(report.fix))
    needs = (paragraph("Needs to see nodes and pods"),) if report.needs_cluster else ()
    profile = () if report.profile == "default" else (paragraph(f"Only with --profile {report.profile} or --select"),)
    once = (paragraph("Told once a namespace, except with --profile all or --select"),) if report.once else ()
    yield from section("Source", Bullets(tuple(report.source.split("; "))), *needs, *profile, *once)
    for title, text in (("Reported", report.bad), ("In this cluster", report.around), ("Not reported", report.good)):
        if text:
            yield from section(title, Verbatim(title, text.strip("\n")))
