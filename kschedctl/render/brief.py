"""An answer in at most 12 lines, for phones, chats and prompts: why, the closest node, the best fix, its command."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from kschedctl.render.page import UNFOLDED, Heading, Paragraph, Style, count, marked, verdict_words
from kschedctl.render.renderers import kind_of, page_of
from kschedctl.reports.document import Document
from kschedctl.reports.summary import Report, Summary, standing_against
from kschedctl.text.fit_errors import sentence
from kschedctl.text.printable import printable

MOST_LINES = 12


class BriefText(NamedTuple):
    """``lines``: at most so many, 0: it is never cut; ``rank``: what has the lowest gets room first."""

    text: str
    lines: int
    rank: int = 0
    indent: str = "  "


def to_brief(document: Document, style: Style) -> str:
    """What matters most gets room first; what has none is left out whole."""
    parts = list(_parts(summary_of(document, style)))
    wrapped = [_wrapped(printable(part.text), style.width, part.lines, part.indent) for part in parts]
    kept: set[int] = set()
    for index in sorted(range(len(parts)), key=lambda index: parts[index].rank):
        if sum(len(wrapped[line]) for line in (*kept, index)) <= MOST_LINES:
            kept.add(index)
    return "".join(f"{line}\n" for index in sorted(kept) for line in wrapped[index])


def summary_of(document: Document, style: Style) -> Summary:
    """With ``style.commands`` as the next ones; of what is no answer but a list or a description its first line."""
    if isinstance(document, Report):
        return document.summary(command for group in style.commands.values() for command in group)
    page = page_of(document, Style(width=UNFOLDED))
    first = next((block for block in page if isinstance(block, Paragraph | Heading)), Paragraph(()))
    parts = first.parts if isinstance(first, Paragraph) else (first.text,)
    headline = " ".join(marked(part).text for part in parts if marked(part).text)
    return Summary(summarizes=kind_of(document), subject="", verdict="", headline=headline).fitting()


def _parts(summary: Summary) -> Iterator[BriefText]:
    """The verdict, the first cause and the doubts, then the fix with what to type, then all else."""
    if summary.summarizes == "Explanation":
        yield BriefText(_verdict(summary), 3)
        yield from _causes(summary)
    else:
        yield BriefText(summary.headline, 3)
    if summary.undecided:
        yield BriefText(f"not certain: {'; '.join(summary.doubts)}", 2)
    if summary.preemption:
        yield BriefText(summary.preemption, 2, 2)
    typed = [command for fix in summary.fixes[:1] for command in fix.commands[-1:] if len(command) <= MOST_TYPED]
    yield from (BriefText(f"fix: {fix.summary}", 2, 1) for fix in summary.fixes[:1])
    yield from (BriefText(f"  {command}", 0, 1, "    ") for command in typed)
    for pods in summary.pods[:4]:
        yield BriefText(f"{pods.pods:,} {pods.workload or pods.such_as}: {verdict_words(sentence(pods.why))}", 2, 2)
    if summary.summarizes == "Audit":
        yield from (BriefText(text, 2, 2) for text in summary.advice[:3])
    yield from (BriefText(f"more: {command}", 0, 3 if typed else 1) for command in summary.next[:1])


MOST_TYPED = 100
"""Characters of a command that anybody types from a phone."""


def _verdict(summary: Summary) -> str:
    verdict = f"{summary.subject} {verdict_words(summary.verdict)}"
    if summary.nominated:
        return f"{verdict}: would preempt {count(len(summary.victims), 'pod')} on {summary.nominated}"
    return f"{verdict} on {next(iter(summary.best))}" if _fits(summary) else verdict


def _fits(summary: Summary) -> bool:
    """Nodes that would fit a pod that is held back do not take it."""
    return bool(summary.best) and summary.verdict != "Gated"


def _causes(summary: Summary) -> Iterator[BriefText]:
    """The two that matter most, each with the closest node; of a pod that fits, none."""
    if _fits(summary):
        return
    if not summary.causes or summary.verdict == "Gated":
        yield BriefText(summary.headline.removeprefix(f"{summary.subject} {summary.verdict}: "), 3)
        return
    said = summary.headline.removeprefix(f"{summary.subject} {summary.verdict}: ")
    above = summary.causes[0].conflict or ("" if said.startswith(summary.causes[0].reason) else said)
    yield from (BriefText(text, 3) for text in (above,) if text)
    for rank, cause in zip((2, 2) if above else (0, 2), summary.causes, strict=False):
        place = standing_against(cause.nodes, cause.of_nodes, summary.figures.get("nodes", 0)) if cause.closest else ""
        yield BriefText(f"{place}: {cause.reason}" if place else cause.reason, 3, rank)
        if cause.closest:
            yield BriefText(f"  {'closest' if cause.of_nodes else 'such as'} {cause.closest}: {cause.fact}", 3, rank)


def _wrapped(text: str, width: int, at_most: int, indent: str) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        subsequent_indent=indent,
        break_on_hyphens=False,
        max_lines=at_most or None,
        placeholder=" …",
    )
