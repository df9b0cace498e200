"""The texts and lists of each tab, built from an explanation and its fixes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.text import Text

from kschedctl.commands.browse.contents import build_changed_answer
from kschedctl.commands.browse.lines import NODE, REMEDY, WARNING, ListLine, ListLines, Openable, TableLines, wrap_text
from kschedctl.commands.browse.report import ChangedAnswer
from kschedctl.commands.explain.page import build_answer, build_explanation_page
from kschedctl.commands.explain.report import Explanation, NodeReport
from kschedctl.commands.remedies.report import Remedies
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
from kschedctl.render.sections import build_extender_line, build_left_out_lines, build_not_known_lines
from kschedctl.render.tables import build_table, number_columns, return_row
from kschedctl.render.terminal import render_text
from kschedctl.reports.columns import Column
from kschedctl.reports.remedy import TEAMS, Remedy
from kschedctl.reports.unknown import VERDICT, describe_unread, describe_verdict_doubts
from kschedctl.text.counts import counted

WHY, NODES, SCORES, REMEDIES, MAP = "why", "nodes", "scores", "fixes", "map"
TABS = (WHY, NODES, SCORES, REMEDIES, MAP)
BY_ANSWER, BY_NAME, BY_POOL = "answer", "name", "pool"
NODE_ORDERS = (BY_ANSWER, BY_NAME, BY_POOL)
"""What nodes are sorted by; by their answer the best or closest come first."""
SCORED = "Scores of "
"""How the heading of the scores begins."""
LEAST_WIDTH = 30
ROOMY = 60
"""From this width on reasons have their plugins before them; what stands against the chosen node names them anyway."""
LOOKS = {"Schedulable": "green", "Unschedulable": "red", "Error": "red"}


class AnsweredQuestion(NamedTuple):
    """An explanation of a pod, possibly under assumptions."""

    report: Explanation
    """The explanation, under the assumptions if there are any."""
    before: Explanation | None = None
    """The explanation without the assumptions, None if nothing was assumed."""
    assumptions: str = ""
    """The assumptions as the user typed them."""


class TextArea(NamedTuple):
    """The space of the answer pane."""

    width: int
    """Columns of the pane."""
    lines: int
    """Lines for the verdict above the tabs."""


class LaidOutAnswer(NamedTuple):
    """An explanation laid out for a text area."""

    answered: AnsweredQuestion
    """The explanation."""
    area: TextArea
    """The text area it was laid out for."""
    verdict: Text
    """The pod and its verdict, above the tabs."""
    texts: dict[str, Text]
    """The text of each tab that has one, by the name of the tab."""


def lay_out_answer(answered: AnsweredQuestion, area: TextArea) -> LaidOutAnswer:
    """Lay out an explanation for a text area. Long tables take a moment, so this runs outside the UI thread."""
    above = render_verdict(answered, area.width, area.lines)
    pages = build_tab_pages(answered, Style(width=area.width, color=True), in_full=above.plain.endswith("…"))
    return LaidOutAnswer(
        answered, area, above, {tab: render_styled_text(page, area.width) for tab, page in pages.items()}
    )


def render_styled_text(page: Page, width: int) -> Text:
    """Render a page as styled text of at most `width` columns."""
    return Text.from_ansi(render_text(page, Style(width=max(width, LEAST_WIDTH), color=True)))


def render_verdict(answered: AnsweredQuestion, width: int, lines: int) -> Text:
    """Render the pod and its verdict in about `lines` lines; with assumptions, the verdicts before and now."""
    head = f"{answered.report.pod} as if {answered.assumptions}" if answered.assumptions else answered.report.pod
    text = Text("\n".join(wrap_text(head, width, max_lines=2)), "bold")
    answers = (
        [("", answered.report)]
        if answered.before is None
        else [("before: ", answered.before), ("now: ", answered.report)]
    )
    room = max((lines - len(text.plain.splitlines())) // len(answers), 1)
    for label, report in answers:
        look = "dim" if report is answered.before else LOOKS.get(report.verdict, WARNING)
        text.append("\n" + "\n".join(wrap_text(label + describe_answer(report), width, "  ", room)), look)
    return text


def describe_answer(report: Explanation) -> str:
    """Describe the verdict with its headline and the unknown facts it depends on."""
    verdict = describe_verdict(report.verdict)
    doubts = [unknown for unknown in report.unknown if unknown.affects == VERDICT]
    if not doubts:
        return f"{verdict}: {report.headline}"
    return f"{verdict}, {describe_verdict_doubts(doubts)} ({describe_unread(doubts)}): {report.headline}"


def build_tab_pages(answered: AnsweredQuestion, style: Style, in_full: bool) -> dict[str, Page]:
    """Build the pages of the tabs "why" and "scores". With `in_full`, "why" repeats the whole verdict."""
    report = answered.report
    changes = changed_answer_section(build_changed_answer(answered.before, report)) if answered.before else ()
    why: list[Block] = [*changes]
    scores: list[Block] = []
    answer = tuple(build_answer(report, style))
    for title, under in iter_sections(
        tuple(block for block in build_explanation_page(report, style) if block not in answer)
    ):
        tab = scores if title.startswith(SCORED) else why
        tab += [Heading(title), *under] if title else under
    if in_full:
        why += section("In full", paragraph(describe_answer(report)))
    none = "No node was scored: none fits" if report.node_order else "No node was looked at"
    return {WHY: tuple(why), SCORES: tuple(scores) or (paragraph(none),)}


def list_nodes(report: Explanation, width: int, text: str = "", order: str = BY_ANSWER) -> ListLines | list[ListLine]:
    """List nodes with their answers in an order, keeping only rows that contain `text`."""
    rows = list(_iter_node_rows(_sort_nodes(report.nodes, order), width >= ROOMY))
    if text:
        rows = [row for row in rows if text.lower() in " ".join(row).lower()]
    if not rows:
        nothing = f'no node has "{text}" in its name or answer' if text else "no node was looked at: see 1 Why"
        return [ListLine(line, "dim") for line in wrap_text(nothing, width)]
    subjects = [Openable(NODE, row[0]) for row in rows]
    if any(row[1] for row in rows):
        return TableLines([("node", "total", "answer"), *rows], subjects, width, right=1)
    return TableLines([("node", "answer"), *((name, answer) for name, _, answer in rows)], subjects, width)


def _sort_nodes(nodes: Sequence[NodeReport], order: str) -> Sequence[NodeReport]:
    """Sort nodes by name or pool; by answer, keep the report's order."""
    if order == BY_NAME:
        return sorted(nodes, key=lambda node: node.name)
    return sorted(nodes, key=lambda node: (node.pool, node.zone)) if order == BY_POOL else nodes


def _iter_node_rows(nodes: Iterable[NodeReport], with_plugins: bool) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the total score, and the answer of each node. With `plugins`, reasons start with the plugin."""
    for node in nodes:
        if node.feasible or node.refusals:
            first = [] if node.feasible else [node.refusals[0].plugin if with_plugins else "", node.refusals[0].reason]
            yield node.name, "" if node.total is None else f"{node.total:,}", ": ".join(filter(None, first)) or "fits"


def describe_node(report: Explanation, name: str, width: int, lines: int) -> str:
    """Describe every rejection of a node in at most `lines` lines."""
    node = next((node for node in report.nodes if node.name == name), None)
    return "" if node is None else "\n".join(wrap_text(_join_node_facts(node), width, "  ", lines))


def _join_node_facts(node: NodeReport) -> str:
    """Return one line with a node's pool, zone, and rejections."""
    where = " ".join(filter(None, (node.pool, node.zone)))
    facts = "; ".join(f"{refusal.plugin} {refusal.fact or refusal.reason}".strip() for refusal in node.refusals)
    return f"{node.name}{f' ({where})' if where else ''}: {facts or 'fits'}"


def list_remedies(remedies: Remedies, width: int) -> list[ListLine]:
    """List the fixes with their drawbacks, gains, and owners, and then what cannot help."""
    lines: list[ListLine] = []
    for number, remedy in enumerate(remedies.remedies, 1):
        subject = Openable(REMEDY, str(number))
        lines += [ListLine(text, "", subject) for text in wrap_text(f"{number:>2} {remedy.summary}", width, "   ")]
        for drawback in remedy.drawbacks:
            lines += [ListLine(f"   {text}", WARNING, subject) for text in wrap_text(f"but {drawback}", width - 3)]
        if remedy.gain:
            lines += [ListLine(f"   {text}", "dim", subject) for text in wrap_text(remedy.gain, width - 3)]
        lines += [
            ListLine(f"   {text}", "dim", subject)
            for text in wrap_text(_describe_opened_nodes(remedy), width - 3, max_lines=2)
        ]
    if remedies.impossible:
        lines.append(ListLine("What cannot help" if remedies.remedies else "No fix was found", "bold"))
        lines += [ListLine(text) for why in remedies.impossible for text in wrap_text(f"- {why}", width, "  ")]
    for text in _describe_search_limits(remedies):
        lines += [ListLine(line, WARNING) for line in wrap_text(text, width, "  ")]
    return lines or [ListLine("Nothing to fix", "dim")]


def _describe_opened_nodes(remedy: Remedy) -> str:
    """Describe who makes a fix and which nodes become feasible."""
    opens = remedy.opens[0] if len(remedy.opens) == 1 else f"{len(remedy.opens):,} nodes: {names(remedy.opens)}"
    return f"{TEAMS[remedy.by]}; makes schedulable on {opens}"


def _describe_search_limits(remedies: Remedies) -> list[str]:
    """Describe what the search for fixes left out or did not know."""
    left_out = (*build_left_out_lines(remedies.not_replayed, remedies.ignored), *build_extender_line(remedies.extended))
    lines = (line for line in (*left_out, *build_not_known_lines(remedies.unknown)) if isinstance(line, Paragraph))
    doubts = [" ".join(with_tone(part).text for part in line.parts) for line in lines]
    if remedies.searched is not None and not remedies.searched.complete:
        doubts.append(f"not complete: the search ended after {counted(remedies.searched.replays, 'replay')}")
    return doubts


def describe_remedy(remedy: Remedy) -> Sequence[str]:
    """Return the texts of a fix's screen: summary, alternatives, drawbacks, effects, owner, and commands."""
    more = [
        ("or", names(remedy.alternatives, 10)),
        ("but", "; ".join(remedy.drawbacks)),
        ("also places", names(remedy.also_places, 20)),
        ("evicts", names(remedy.victims, 20)),
        ("makes schedulable on", names(remedy.opens, 20)),
        ("owner", TEAMS[remedy.by]),
    ]
    return [remedy.summary, *(f"{label}: {said}" for label, said in more if said), *remedy.commands]


NO_CHANGE = "No change: as many nodes fit, and the rest are refused for the same reasons"


def changed_answer_section(report: ChangedAnswer) -> Page:
    """Show how many nodes fit and are rejected for each reason, before and after, and which nodes change."""
    rows = [(reason.plugin, reason.reason, reason.before, reason.after) for reason in report.reasons]
    if report.fit[0] != report.fit[1]:
        rows.insert(0, ("", "nodes that fit", *report.fit))
    labelled = (("newly fit:", report.gained), ("no longer fit:", report.lost))
    lines = [paragraph(label, names(values, 5)) for label, values in labelled if values]
    if report.best[0] and report.best[1] and report.best[0] != report.best[1]:
        lines.append(paragraph("best before:", f"{names(report.best[0])}; now: {names(report.best[1])}"))
    if not rows and not lines:
        return section("What changes", paragraph(NO_CHANGE))
    cells = [(f"{b:,}", f"{a:,}", f"{plugin}: {why}" if plugin else why) for plugin, why, b, a in rows]
    return section(
        "What changes", *build_table(cells, [*number_columns("before", "now"), Column("nodes")], return_row), *lines
    )
