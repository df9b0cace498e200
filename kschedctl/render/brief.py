"""An answer in at most 12 lines, for phones, chats and prompts: why, the closest node, the best fix, its command."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from kschedctl.render.page import UNFOLDED, Heading, Paragraph, Style, count, marked
from kschedctl.render.renderers import kind_of, page_of
from kschedctl.reports.document import Document
from kschedctl.reports.summary import Report, Summary
from kschedctl.text.fit_errors import sentence
from kschedctl.text.printable import printable

MOST_LINES = 12


def to_brief(document: Document, style: Style) -> str:
    """What matters most first; what has no room is left out whole."""
    lines: list[str] = []
    for text, at_most, indent in _parts(summary_of(document, style)):
        wrapped = _wrapped(printable(text), style.width, at_most, indent)
        if len(lines) + len(wrapped) <= MOST_LINES:
            lines += wrapped
    return "".join(f"{line}\n" for line in lines)


def summary_of(document: Document, style: Style) -> Summary:
    """With ``style.commands`` as the next ones; of what is no answer but a list or a description its first line."""
    if isinstance(document, Report):
        return document.summary(command for group in style.commands.values() for command in group)
    page = page_of(document, Style(width=UNFOLDED))
    first = next((block for block in page if isinstance(block, Paragraph | Heading)), Paragraph(()))
    parts = first.parts if isinstance(first, Paragraph) else (first.text,)
    headline = " ".join(marked(part).text for part in parts if marked(part).text)
    return Summary(summarizes=kind_of(document), subject="", verdict="", headline=headline).fitting()


def _parts(summary: Summary) -> Iterator[tuple[str, int, str]]:
    """(text, lines at most, what its further lines begin with); 0 lines: it is never cut."""
    if summary.summarizes == "Explanation":
        yield _verdict(summary), 3, "  "
        yield from ((text, 3, "  ") for text in _causes(summary))
    else:
        yield summary.headline, 3, "  "
    if summary.undecided:
        yield f"not certain: {'; '.join(summary.doubts)}", 2, "  "
    for fix in summary.fixes[:1]:
        yield f"fix: {fix.summary}", 2, "  "
        yield from ((f"  {command}", 0, "    ") for command in fix.commands[-1:] if len(command) <= MOST_TYPED)
    for pods in summary.pods[:4]:
        yield f"{pods.pods:,} {pods.workload or pods.such_as}: {sentence(pods.why)}", 2, "  "
    if summary.summarizes == "Audit":
        yield from ((text, 2, "  ") for text in summary.advice[:3])
    for command in summary.next[:1]:
        yield f"more: {command}", 0, "  "


MOST_TYPED = 100
"""Characters of a command that anybody types from a phone."""


def _verdict(summary: Summary) -> str:
    verdict = f"{summary.subject} {summary.verdict}"
    if summary.nominated:
        return f"{verdict}: would preempt {count(len(summary.victims), 'pod')} on {summary.nominated}"
    return f"{verdict} on {next(iter(summary.best))}" if summary.best else verdict


def _causes(summary: Summary) -> Iterator[str]:
    """The two that matter most, each with the closest node; of a pod that fits, none."""
    if summary.best:
        return
    if not summary.causes:
        yield summary.headline.removeprefix(f"{summary.subject} {summary.verdict}: ")
    for cause in summary.causes[:2]:
        of = f" of {cause.of_nodes:,} eligible" if cause.of_nodes else ""
        yield f"{cause.nodes:,}{of} nodes: {cause.reason}"
        if cause.closest:
            yield f"  closest: {cause.closest}: {cause.fact}"


def _wrapped(text: str, width: int, at_most: int, indent: str) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        subsequent_indent=indent,
        break_on_hyphens=False,
        max_lines=at_most or None,
        placeholder=" …",
    )
