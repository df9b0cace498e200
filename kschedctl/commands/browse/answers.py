"""The texts and lists of the tabs, built from an explanation and its fixes, including the node map in characters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.text import Text

from kschedctl.commands.browse.contents import compare_explanations
from kschedctl.commands.browse.lines import (
    NODE,
    REASON,
    REMEDY,
    WARNING,
    ListLine,
    ListLines,
    Openable,
    TableLines,
    shorten,
    wrap_text,
)
from kschedctl.commands.browse.report import ChangedAnswer
from kschedctl.commands.explain.feasible_nodes_page import build_scores_section
from kschedctl.commands.explain.html_widgets import FITS, OTHERS, LegendEntry, NodeMap, build_node_map
from kschedctl.commands.explain.page import build_explanation_page, iter_verdict_blocks
from kschedctl.commands.explain.report import Explanation, NodeReport
from kschedctl.commands.remedies.report import Remedies
from kschedctl.render.fixes import describe_alternatives, describe_fix_effect
from kschedctl.render.page import (
    Block,
    Heading,
    Page,
    Paragraph,
    Style,
    describe_verdict,
    iter_sections,
    names,
    paragraph,
    section,
    with_tone,
)
from kschedctl.render.sections import build_extender_line, build_left_out_lines, build_unread_kind_lines
from kschedctl.render.tables import build_table, keep_row, number_columns
from kschedctl.render.terminal import render_text
from kschedctl.reports.columns import Column
from kschedctl.reports.remedy import TEAMS, Remedy, chain_commands
from kschedctl.reports.unknown import VERDICT, describe_doubt
from kschedctl.text.counts import counted

WHY, NODES, SCORES, REMEDIES, MAP = "why", "nodes", "scores", "fixes", "map"
TABS = (WHY, NODES, SCORES, REMEDIES, MAP)
BY_ANSWER, BY_NAME, BY_POOL = "answer", "name", "pool"
NODE_ORDERS = (BY_ANSWER, BY_NAME, BY_POOL)
"""The orders of the node list. BY_ANSWER puts the best nodes first, then the closest ones."""
NO_NODES = "no node was evaluated: see 1 Why"
LEAST_WIDTH = 30
"""The number of columns for which texts are laid out at least."""
ROOMY_WIDTH = 60
"""The width from which on the node list also names the plugins that reject nodes."""
STYLE_BY_VERDICT = {"Schedulable": "green", "Unschedulable": "red", "Error": "red"}


class AnsweredQuestion(NamedTuple):
    """An explanation of a pod, possibly under assumptions."""

    report: Explanation
    """The explanation, under the assumptions if there are any."""
    before: Explanation | None = None
    """The explanation without assumptions, or None if nothing is assumed."""
    assumptions: str = ""
    """The assumptions as the user typed them."""


class TextArea(NamedTuple):
    """The available space in the answer pane."""

    width: int
    """The number of columns."""
    lines: int
    """The number of lines for the verdict above the tabs."""


class LaidOutAnswer(NamedTuple):
    """An explanation laid out for a text area."""

    answered: AnsweredQuestion
    """The explanation."""
    area: TextArea
    """The text area for which it was laid out."""
    verdict: Text
    """The pod and its verdict, above the tabs."""
    texts: dict[str, Text]
    """Name of a tab -> its text. Tabs with lists are left out."""


def lay_out_answer(answered: AnsweredQuestion, area: TextArea) -> LaidOutAnswer:
    """Lay out an explanation for a text area.

    This runs outside the UI thread, since long tables take a moment. If the verdict is cut off, the tab "why"
    shows it in full.
    """
    verdict = render_verdict(answered, area.width, area.lines)
    is_cut_off = verdict.plain.endswith("…")
    pages = build_tab_pages(answered, Style(width=area.width, color=True), in_full=is_cut_off)
    return LaidOutAnswer(
        answered, area, verdict, {tab: render_styled_text(page, area.width) for tab, page in pages.items()}
    )


def render_styled_text(page: Page, width: int) -> Text:
    """Render a page as styled text that is `width` columns wide."""
    return Text.from_ansi(render_text(page, Style(width=max(width, LEAST_WIDTH), color=True)))


def render_verdict(answered: AnsweredQuestion, width: int, lines: int) -> Text:
    """Render the pod's verdict in about `lines` lines. With assumptions, also render the verdict without them.

    The verdict without assumptions comes first and is dim.
    """
    head = f"{answered.report.pod} as if {answered.assumptions}" if answered.assumptions else answered.report.pod
    text = Text("\n".join(wrap_text(head, width, max_lines=2)), "bold")
    if answered.before is None:
        labelled_reports = [("", answered.report)]
    else:
        labelled_reports = [("before: ", answered.before), ("now: ", answered.report)]
    lines_per_report = max((lines - len(text.plain.splitlines())) // len(labelled_reports), 1)
    for label, report in labelled_reports:
        style = "dim" if report is answered.before else STYLE_BY_VERDICT.get(report.verdict, WARNING)
        answer_lines = wrap_text(label + format_verdict_line(report), width, "  ", lines_per_report)
        text.append("\n" + "\n".join(answer_lines), style)
    return text


def format_verdict_line(report: Explanation) -> str:
    """Return the verdict and headline of an explanation in one line, with the unread kinds that could change it."""
    verdict = describe_verdict(report.verdict)
    doubts = [unknown for unknown in report.unknown if unknown.affects == VERDICT]
    if not doubts:
        return f"{verdict}: {report.headline_with_preemption}"
    return f"{verdict}{describe_doubt(doubts)}: {report.headline_with_preemption}"


def build_tab_pages(answered: AnsweredQuestion, style: Style, in_full: bool) -> dict[str, Page]:
    """Build the pages of the tabs "why" and "scores", by tab. With `in_full`, "why" repeats the whole verdict.

    Without scores, "scores" says why no node has a score. With assumptions, "why" starts with the changed answers.
    """
    report = answered.report
    why: list[Block] = []
    scores: list[Block] = []
    if answered.before is not None:
        why += build_changes_section(compare_explanations(answered.before, report))

    # Distribute the sections of the page of `explain`, without the verdict, which is shown above the tabs.
    verdict_blocks = tuple(iter_verdict_blocks(report, style))
    scores_section = build_scores_section(report, style)
    remaining_page = tuple(block for block in build_explanation_page(report, style) if block not in verdict_blocks)
    for title, blocks in iter_sections(remaining_page):
        tab = scores if Heading(title) in scores_section else why
        if title:
            tab.append(Heading(title))
        tab += blocks

    if in_full:
        why += section("In full", paragraph(format_verdict_line(report)))
    if not scores:
        reason = "No node was scored: none fits" if report.node_order else "No node was evaluated"
        scores.append(paragraph(reason))
    return {WHY: tuple(why), SCORES: tuple(scores)}


def list_node_lines(
    report: Explanation, width: int, search_text: str = "", order: str = BY_ANSWER
) -> ListLines | list[ListLine]:
    """List the nodes with their answers, sorted by `order`. With `search_text`, list only rows that contain the text.

    Case is ignored. If `width` allows it, the answers name the plugins. The column of total scores is left out if no
    node was scored. If there are no rows, the only line says why.
    """
    rows = list(_iter_node_rows(_sort_nodes(report.nodes, order), with_plugins=width >= ROOMY_WIDTH))
    if search_text:
        rows = [row for row in rows if search_text.lower() in " ".join(row).lower()]
    if not rows:
        message = NO_NODES
        if search_text:
            message = f'no node has "{search_text}" in its name or answer'
        return [ListLine(line, "dim") for line in wrap_text(message, width)]
    subjects = [Openable(NODE, row.name) for row in rows]
    if any(row.total for row in rows):
        return TableLines([("node", "total", "answer"), *rows], subjects, width, right=1)
    return TableLines([("node", "answer"), *((row.name, row.answer) for row in rows)], subjects, width)


def _sort_nodes(nodes: Sequence[NodeReport], order: str) -> Sequence[NodeReport]:
    """Sort the nodes by name or by pool and zone. BY_ANSWER leaves them in the report's order."""
    if order == BY_NAME:
        return sorted(nodes, key=lambda node: node.name)
    if order == BY_POOL:
        return sorted(nodes, key=lambda node: (node.pool, node.zone))
    return nodes


class NodeRow(NamedTuple):
    """The cells of a node in the node list."""

    name: str
    total: str
    """The total score, empty if the node was not scored."""
    answer: str


def _iter_node_rows(nodes: Iterable[NodeReport], with_plugins: bool) -> Iterator[NodeRow]:
    """Yield a row for each evaluated node, with its total score and its answer.

    The answer is that the pod fits, or the first reason for the rejection. `with_plugins` puts the rejecting plugin
    before kube-scheduler's reason. Otherwise, the answer is the fact about the node, or the reason if no fact is known.
    """
    for node in nodes:
        total = "" if node.total is None else f"{node.total:,}"
        if node.feasible:
            yield NodeRow(node.name, total, "fits")
        elif node.refusals:
            rejection = node.refusals[0]
            # In few columns, kschedctl's own words say more: which taint, and how much is free
            fact = rejection.fact_data.describe_node() if rejection.fact_data is not None else rejection.fact
            answer = f"{rejection.plugin}: {rejection.reason}" if with_plugins else fact or rejection.reason
            yield NodeRow(node.name, total, answer)


def describe_node(report: Explanation, name: str, width: int, lines: int) -> str:
    """Describe where the node is, and whether the pod fits on it, with the reason if it does not.

    The text is wrapped to `width` and cut to at most `lines` lines. Return "" if the report does not have the node.
    """
    for node in report.nodes:
        if node.name == name:
            return "\n".join(wrap_text(_format_node_line(node), width, "  ", lines))
    return ""


def _format_node_line(node: NodeReport) -> str:
    """Describe a node in one line: its name and location, and all reasons against it or `fits`."""
    location = " ".join(filter(None, (node.pool, node.zone)))
    name = f"{node.name} ({location})" if location else node.name
    facts = [f"{rejection.plugin} {rejection.fact or rejection.reason}".strip() for rejection in node.refusals]
    return f"{name}: {'; '.join(facts) or 'fits'}"


def list_remedy_lines(report: Remedies, width: int) -> list[ListLine]:
    """List the fixes with their drawbacks and benefits, then the reasons why other fixes are impossible.

    Notes on what limited the search follow. If there is nothing to list, the only line says that nothing needs a fix.
    """
    lines: list[ListLine] = []
    for number, remedy in enumerate(report.remedies, 1):
        lines += _list_lines_of_remedy(number, remedy, width)
    if report.impossible:
        title = "What would not help" if report.remedies else "No fix was found; these changes would not help"
        lines.append(ListLine(title, "bold"))
        lines += [ListLine(text) for why in report.impossible for text in wrap_text(f"- {why}", width, "  ")]
    for text in _describe_search_limits(report):
        lines += [ListLine(line, WARNING) for line in wrap_text(text, width, "  ")]
    return lines or [ListLine("Nothing to fix", "dim")]


def _list_lines_of_remedy(number: int, remedy: Remedy, width: int) -> list[ListLine]:
    """List a fix: its number and summary, its drawbacks and benefit, and its effect."""
    subject = Openable(REMEDY, str(number))

    def list_detail(text: str, style: str, max_lines: int = 0) -> list[ListLine]:
        """List an indented text about the fix."""
        return [ListLine(f"   {line}", style, subject) for line in wrap_text(text, width - 3, max_lines=max_lines)]

    summary_lines = wrap_text(f"{number:>2} {remedy.summary}", width, "   ")
    lines = [ListLine(line, "", subject) for line in summary_lines]
    lines += list_detail(f"result: {describe_fix_effect(remedy)}", "dim", max_lines=2)
    if remedy.gain:
        lines += list_detail(f"side effect: {remedy.gain}", "dim")
    for drawback in remedy.drawbacks:
        lines += list_detail(f"caveat: {drawback}", WARNING)
    lines += list_detail(f"who: {TEAMS[remedy.by]} team", "dim")
    return lines


def _describe_search_limits(remedies: Remedies) -> list[str]:
    """Describe what limits the search for fixes, such as kinds of objects that were not read."""
    blocks = (
        *build_left_out_lines(remedies.not_replayed, remedies.ignored),
        *build_extender_line(remedies.extended),
        *build_unread_kind_lines(remedies.unknown),
    )
    paragraphs = [block for block in blocks if isinstance(block, Paragraph)]
    limits = [" ".join(with_tone(part).text for part in block.parts) for block in paragraphs]
    if remedies.searched is not None and not remedies.searched.complete:
        limits.append(
            f"the list may be incomplete: the search ended after {counted(remedies.searched.replays, 'replay')}"
        )
    return limits


def describe_remedy(remedy: Remedy) -> Sequence[str]:
    """Return the lines of a fix's screen: its summary, effects, owner and commands."""
    # `holds` is None if the other waiting pods were not replayed.
    other_pods_take_room = remedy.holds is False or bool(remedy.other_node)
    fits = "if the pod were alone, would fit on" if other_pods_take_room else "then fits on"
    details = [
        ("also works with", describe_alternatives(remedy.alternatives, 10) if remedy.alternatives else ""),
        ("caveats", "; ".join(remedy.drawbacks)),
        ("pods that also get a node", names(remedy.also_places, 20)),
        ("evicts", names(remedy.victims, 20)),
        (fits, names(remedy.opens, 20)),
        ("but gets", remedy.other_node),
        ("who", f"{TEAMS[remedy.by]} team"),
    ]
    return [remedy.summary, *(f"{label}: {text}" for label, text in details if text), *chain_commands(remedy.commands)]


NO_CHANGE = "No change: as many nodes fit, and the others are rejected for the same reasons"


def build_changes_section(report: ChangedAnswer) -> Page:
    """Build the section that compares the answers without and with the assumptions, or says that nothing changes."""
    rows = []
    fit_before, fit_after = report.fit
    if fit_before != fit_after:
        rows.append((f"{fit_before:,}", f"{fit_after:,}", "feasible nodes"))
    for reason in report.reasons:
        description = f"{reason.plugin}: {reason.reason}" if reason.plugin else reason.reason
        rows.append((f"{reason.before:,}", f"{reason.after:,}", description))

    lines = []
    if report.gained:
        lines.append(paragraph("newly fit:", names(report.gained, 5)))
    if report.lost:
        lines.append(paragraph("no longer fit:", names(report.lost, 5)))
    best_before, best_after = report.best
    if best_before and best_after and best_before != best_after:
        lines.append(paragraph("best before:", f"{names(best_before)}; now: {names(best_after)}"))

    if not rows and not lines:
        return section("What changes", paragraph(NO_CHANGE))
    columns = [*number_columns("before", "now"), Column("nodes")]
    return section("What changes", *build_table(rows, columns, keep_row), *lines)


FIT = "+"
"""The character of a node that fits."""
BEST = "*"
"""The character of one of the best nodes."""
REASONS = "abcdefg"
"""The characters of rejected nodes, one for each reason, so that no colors are needed."""


def list_node_map_lines(report: Explanation, width: int) -> list[ListLine]:
    """Lay out the node map as lines: a legend, then the nodes of each place.

    If no node was evaluated, the only line says so.
    """
    node_map = build_node_map(report)
    if not node_map.places:
        return [ListLine(NO_NODES, "dim")]
    marks = _assign_marks(node_map)
    lines = [
        line
        for entry, mark in zip(node_map.legend, marks, strict=True)
        for line in _list_legend_lines(entry, mark, width)
    ]
    best = [ListLine(f"{BEST} kube-scheduler would choose", "dim")] if node_map.best else []
    return [*lines, *best, ListLine(""), *_list_place_lines(node_map, marks, width)]


def _assign_marks(node_map: NodeMap) -> list[str]:
    """Assign a character to each legend entry."""
    reasons = iter(REASONS)
    return [FIT if entry.text == FITS else next(reasons) for entry in node_map.legend]


def _list_legend_lines(entry: LegendEntry, mark: str, width: int) -> list[ListLine]:
    """Lay out a legend entry. It opens the list of its nodes, unless it combines several reasons."""
    subject = None if entry.text == OTHERS else Openable(REASON, entry.text)
    return [ListLine(line, "", subject) for line in wrap_text(f"{mark} {entry.nodes:,} {entry.text}", width, "  ", 2)]


def _list_place_lines(node_map: NodeMap, marks: list[str], width: int) -> list[ListLine]:
    """Lay out each pool and zone with one character per node.

    The characters are beside the titles if all of them fit there, otherwise below the titles.
    """
    best = set(node_map.best)
    rows = []
    for title, nodes in node_map.places:
        cells = "".join(BEST if name in best else marks[entry] for name, entry in nodes)
        rows.append((f"{title} {len(nodes):,}", cells))
    title_width = max(len(title) for title, _ in rows)
    if all(title_width + 1 + len(cells) <= width for _, cells in rows):
        return [ListLine(f"{title:<{title_width}} {cells}") for title, cells in rows]
    lines: list[ListLine] = []
    for title, cells in rows:
        lines.append(ListLine(shorten(title, width), "bold"))
        lines += [ListLine(cells[start : start + width]) for start in range(0, len(cells), width)]
    return lines
