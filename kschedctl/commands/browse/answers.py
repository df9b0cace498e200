"""Reports cut up for the tabs at the right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.text import Text

from kschedctl.commands.browse.contents import changed_answer
from kschedctl.commands.browse.lines import NODE, REMEDY, WARNING, ListLine, ListLines, Openable, TableLines, wrapped
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


class Answered(NamedTuple):
    """An explanation, and where something was supposed the one ``before``, and by which ``words``."""

    report: Explanation
    before: Explanation | None = None
    words: str = ""


class Room(NamedTuple):
    """Columns of the right side, and lines for the answer above the tabs."""

    width: int
    lines: int


class LaidOut(NamedTuple):
    """What is shown of an explanation in some room: the answer, and by tab the text."""

    told: Answered
    room: Room
    verdict: Text
    texts: dict[str, Text]


def laid_out(answered: Answered, room: Room) -> LaidOut:
    """Folding long tables takes a moment: not to be done by who listens to keys."""
    above = verdict(answered, room.width, room.lines)
    pages = explained(answered, Style(width=room.width, color=True), in_full=above.plain.endswith("…"))
    return LaidOut(answered, room, above, {tab: text_of(page, room.width) for tab, page in pages.items()})


def text_of(page: Page, width: int) -> Text:
    """The page as it would be printed."""
    return Text.from_ansi(render_text(page, Style(width=max(width, LEAST_WIDTH), color=True)))


def verdict(answered: Answered, width: int, lines: int) -> Text:
    """The pod and the answer in about so many lines; of something supposed the answer before and now."""
    head = f"{answered.report.pod} as if {answered.words}" if answered.words else answered.report.pod
    text = Text("\n".join(wrapped(head, width, most=2)), "bold")
    answers = (
        [("", answered.report)]
        if answered.before is None
        else [("before: ", answered.before), ("now: ", answered.report)]
    )
    room = max((lines - len(text.plain.splitlines())) // len(answers), 1)
    for label, report in answers:
        look = "dim" if report is answered.before else LOOKS.get(report.verdict, WARNING)
        text.append("\n" + "\n".join(wrapped(label + answer_line(report), width, "  ", room)), look)
    return text


def answer_line(report: Explanation) -> str:
    """With what it leans on that is not known."""
    verdict = describe_verdict(report.verdict)
    doubts = [unknown for unknown in report.unknown if unknown.affects == VERDICT]
    if not doubts:
        return f"{verdict}: {report.headline}"
    return f"{verdict}, {describe_verdict_doubts(doubts)} ({describe_unread(doubts)}): {report.headline}"


def explained(answered: Answered, style: Style, in_full: bool) -> dict[str, Page]:
    """The pages of two tabs; the answer stands above them, and ``in_full`` in the first too."""
    report = answered.report
    changes = changed_answer_section(changed_answer(answered.before, report)) if answered.before else ()
    why: list[Block] = [*changes]
    scores: list[Block] = []
    answer = tuple(build_answer(report, style))
    for title, under in iter_sections(
        tuple(block for block in build_explanation_page(report, style) if block not in answer)
    ):
        tab = scores if title.startswith(SCORED) else why
        tab += [Heading(title), *under] if title else under
    if in_full:
        why += section("In full", paragraph(answer_line(report)))
    none = "No node was scored: none fits" if report.node_order else "No node was looked at"
    return {WHY: tuple(why), SCORES: tuple(scores) or (paragraph(none),)}


def node_lines(report: Explanation, width: int, text: str = "", order: str = BY_ANSWER) -> ListLines | list[ListLine]:
    """Each node with its answer, in that order; with a text those that have it in them."""
    rows = list(_node_rows(_in_order(report.nodes, order), width >= ROOMY))
    if text:
        rows = [row for row in rows if text.lower() in " ".join(row).lower()]
    if not rows:
        nothing = f'no node has "{text}" in its name or answer' if text else "no node was looked at: see 1 Why"
        return [ListLine(line, "dim") for line in wrapped(nothing, width)]
    subjects = [Openable(NODE, row[0]) for row in rows]
    if any(row[1] for row in rows):
        return TableLines([("node", "total", "answer"), *rows], subjects, width, right=1)
    return TableLines([("node", "answer"), *((name, answer) for name, _, answer in rows)], subjects, width)


def _in_order(nodes: Sequence[NodeReport], order: str) -> Sequence[NodeReport]:
    if order == BY_NAME:
        return sorted(nodes, key=lambda node: node.name)
    return sorted(nodes, key=lambda node: (node.pool, node.zone)) if order == BY_POOL else nodes


def _node_rows(nodes: Iterable[NodeReport], plugins: bool) -> Iterator[tuple[str, str, str]]:
    """Name, total and answer, that with ``plugins`` or without."""
    for node in nodes:
        if node.feasible or node.refusals:
            first = [] if node.feasible else [node.refusals[0].plugin if plugins else "", node.refusals[0].reason]
            yield node.name, "" if node.total is None else f"{node.total:,}", ": ".join(filter(None, first)) or "fits"


def node_fact(report: Explanation, name: str, width: int, lines: int) -> str:
    """All that stands against a node."""
    node = next((node for node in report.nodes if node.name == name), None)
    return "" if node is None else "\n".join(wrapped(_all_facts(node), width, "  ", lines))


def _all_facts(node: NodeReport) -> str:
    where = " ".join(filter(None, (node.pool, node.zone)))
    facts = "; ".join(f"{refusal.plugin} {refusal.fact or refusal.reason}".strip() for refusal in node.refusals)
    return f"{node.name}{f' ({where})' if where else ''}: {facts or 'fits'}"


def remedy_lines(remedies: Remedies, width: int) -> list[ListLine]:
    """Each remedy with who makes it and what it opens; then what cannot help."""
    lines: list[ListLine] = []
    for number, remedy in enumerate(remedies.remedies, 1):
        subject = Openable(REMEDY, str(number))
        lines += [ListLine(text, "", subject) for text in wrapped(f"{number:>2} {remedy.summary}", width, "   ")]
        for drawback in remedy.drawbacks:
            lines += [ListLine(f"   {text}", WARNING, subject) for text in wrapped(f"but {drawback}", width - 3)]
        if remedy.gain:
            lines += [ListLine(f"   {text}", "dim", subject) for text in wrapped(remedy.gain, width - 3)]
        lines += [ListLine(f"   {text}", "dim", subject) for text in wrapped(_opens(remedy), width - 3, most=2)]
    if remedies.impossible:
        lines.append(ListLine("What cannot help" if remedies.remedies else "No fix was found", "bold"))
        lines += [ListLine(text) for why in remedies.impossible for text in wrapped(f"- {why}", width, "  ")]
    for text in _doubts(remedies):
        lines += [ListLine(line, WARNING) for line in wrapped(text, width, "  ")]
    return lines or [ListLine("Nothing to fix", "dim")]


def _opens(remedy: Remedy) -> str:
    opens = remedy.opens[0] if len(remedy.opens) == 1 else f"{len(remedy.opens):,} nodes: {names(remedy.opens)}"
    return f"{TEAMS[remedy.by]}; makes schedulable on {opens}"


def _doubts(remedies: Remedies) -> list[str]:
    left_out = (*build_left_out_lines(remedies.not_replayed, remedies.ignored), *build_extender_line(remedies.extended))
    lines = (line for line in (*left_out, *build_not_known_lines(remedies.unknown)) if isinstance(line, Paragraph))
    doubts = [" ".join(with_tone(part).text for part in line.parts) for line in lines]
    if remedies.searched is not None and not remedies.searched.complete:
        doubts.append(f"not complete: the search ended after {counted(remedies.searched.replays, 'replay')}")
    return doubts


def remedy_page(remedy: Remedy) -> Sequence[str]:
    """What a remedy is, what it gives up, and how it is made; each a text of its own."""
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
