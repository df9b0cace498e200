"""The format `--brief`: an answer in at most 12 lines with reason, closest node, best fix and its command."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from kschedctl.render.page import UNFOLDED, Heading, Paragraph, Style, count, describe_verdict, with_tone
from kschedctl.render.renderers import build_page, get_document_kind
from kschedctl.reports.document import Document
from kschedctl.reports.not_created import NOT_CREATED
from kschedctl.reports.report import PlainReport
from kschedctl.reports.summary import CostKind, ShortFix, ShortPods, Summary
from kschedctl.text.counts import counted
from kschedctl.text.printable import printable, rewrite_fit_error

MAX_LINES = 12


class BriefText(NamedTuple):
    """A part of the brief form."""

    text: str
    lines: int
    """Most lines of the part; 0 means that it is never cut."""
    rank: int = 0
    """Parts with the lowest rank get room first."""
    indent: str = "  "
    more: tuple[str, ...] = ()
    """Lines below the text that are shown as a whole, or not at all."""
    is_entry: bool = False
    """Whether the part is an entry of the list that ends with the number of entries that are left out."""
    needs_previous: bool = False
    """Whether the part is left out if the part before it is left out."""


def to_brief(document: Document, style: Style) -> str:
    """Render a document in at most 12 lines, with the most important parts first.

    A part that does not fit is left out entirely. A shortened list ends with the number of entries left out.
    """
    summary = build_summary(document, style)
    lists_causes = isinstance(document, PlainReport) and document.headline_lists_causes
    parts = list(_iter_brief_parts(summary, headline_lists_causes=lists_causes))
    wrapped = [_wrap_part(part, style.width) for part in parts]
    shown: set[int] = set()
    for index in sorted(range(len(parts)), key=lambda index: parts[index].rank):
        if parts[index].needs_previous and index - 1 not in shown:
            continue
        if sum(len(wrapped[part]) for part in (*shown, index)) <= MAX_LINES:
            shown.add(index)
    entry_count = len(_list_summary_entries(summary)) + summary.left_out.get(_get_list_field(summary), 0)
    leaves_out_entries = sum(parts[index].is_entry for index in shown) < entry_count
    _lengthen_cut_parts(parts, wrapped, shown, style.width, MAX_LINES - leaves_out_entries)
    _add_left_out_count(parts, wrapped, shown, entry_count)
    return "".join(f"{line}\n" for index in sorted(shown) for line in wrapped[index])


def _lengthen_cut_parts(
    parts: list[BriefText], wrapped: list[list[str]], shown: set[int], width: int, max_lines: int
) -> None:
    """Give lines that are still free to shown parts that were cut, the most important ones first. Changes `wrapped`."""
    for index in sorted(shown, key=lambda index: (parts[index].rank, index)):
        free = max_lines - sum(len(wrapped[part]) for part in shown)
        if parts[index].lines and free > 0:
            wrapped[index] = _wrap_part(parts[index]._replace(lines=parts[index].lines + free), width)


def _add_left_out_count(parts: list[BriefText], wrapped: list[list[str]], shown: set[int], total: int) -> None:
    """Add a line below the last shown entry that says how many of the `total` entries are left out.

    If the lines are not enough for both, the line replaces the last of several shown entries. It is omitted if it still
    does not fit, if no entry is shown, or if none is left out. Changes `wrapped` and `shown`.
    """
    entries = [index for index, part in enumerate(parts) if part.is_entry and index in shown]
    if not entries or len(entries) == total:
        return
    if sum(len(wrapped[index]) for index in shown) >= MAX_LINES and len(entries) > 1:
        shown.remove(entries.pop())
    if sum(len(wrapped[index]) for index in shown) < MAX_LINES:
        wrapped[entries[-1]].append(f"and {total - len(entries):,} more")


def _get_list_field(summary: Summary) -> str:
    """Return the summary field whose entries are shown one by one."""
    return "advice" if summary.summarizes in SUMMARIES_WITH_ADVICE else "pods"


def _list_summary_entries(summary: Summary) -> tuple[str, ...]:
    """Return the summary's list as texts: its advice, or its pods with the reason why they do not fit."""
    if _get_list_field(summary) == "advice":
        return summary.advice
    return tuple(
        f"{_describe_entry_subject(summary, pods)}: {describe_verdict(rewrite_fit_error(pods.why))}"
        for pods in summary.pods
    )


def _describe_entry_subject(summary: Summary, pods: ShortPods) -> str:
    """Describe the subject of an entry: a pod ("x and 3 other pods") or a workload ("3 pods of Deployment x").

    Entries of Capacity and Rebalancing count pods or evictions of a workload.
    """
    if summary.summarizes == "Capacity":
        return f"{pods.workload}: {f'{pods.pods:,} more, then' if pods.pods else 'none'}"
    if summary.summarizes == "Rebalancing":
        return f"{counted(pods.pods, 'eviction')} of {pods.workload} held back"
    # A workload is named with its kind, such as "Deployment shop/web"; a lone Pod is not a workload
    begins_with_kind = pods.workload[:1].isupper()
    is_workload = begins_with_kind and not pods.workload.startswith("Pod ")
    if not is_workload:
        others = f" and {counted(pods.pods - 1, 'other pod')}" if pods.pods > 1 else ""
        return f"{pods.such_as or pods.workload}{others}"
    return f"{counted(pods.pods, 'pod')} of {pods.workload}" if pods.pods else pods.workload


def build_summary(document: Document, style: Style) -> Summary:
    """Build the summary of a document, with the style's commands as next steps.

    For a document that is not a report, the summary is the first line.
    """
    if isinstance(document, PlainReport):
        return document.summary(command for group in style.commands.values() for command in group)
    page = build_page(document, Style(width=UNFOLDED))
    first = next((block for block in page if isinstance(block, Paragraph | Heading)), Paragraph(()))
    parts = first.parts if isinstance(first, Paragraph) else (first.text,)
    headline = " ".join(with_tone(part).text for part in parts if with_tone(part).text)
    return Summary(summarizes=get_document_kind(document), subject="", verdict="", headline=headline).shorten()


def _iter_brief_parts(summary: Summary, *, headline_lists_causes: bool) -> Iterator[BriefText]:
    """Yield the parts of the brief form from top to bottom.

    These are the verdict, causes, doubts, warnings, the first fix with its commands, and the rest.
    `headline_lists_causes` says whether the headline of an Explanation repeats its causes.
    """
    if summary.summarizes == "Explanation" and summary.verdict != NOT_CREATED:
        yield BriefText(_describe_verdict_and_node(summary), 3)
        yield from _iter_causes(summary, headline_lists_causes=headline_lists_causes)
    else:
        yield BriefText(summary.headline, 3)
    if summary.undecided:
        yield BriefText(f"not certain: {'; '.join(summary.doubts)}" if summary.doubts else "not certain", 2)
    elif summary.doubts:
        yield BriefText(f"caveats: {'; '.join(summary.doubts)}", 2)
    warnings = () if _get_list_field(summary) == "advice" else summary.warnings  # the list has them
    for warning in warnings[:MAX_WARNINGS]:
        yield BriefText(warning, 2)
    if summary.preemption:
        yield BriefText(summary.preemption, 2, 2)
    if summary.fixes:
        label = "not enough" if summary.fixes[0].rival_count else "fix"
        yield BriefText(f"{label}: {_describe_fix(summary.fixes[0])}", 0, rank=1)
    fix_commands = _get_short_commands(summary)
    edits = summary.fixes[0].edits if summary.fixes else ()
    if fix_commands or edits:
        in_manifest = (f"  in the manifest: {'; '.join(edits)}",) if edits else ()
        lines = (*in_manifest, *(f"  {command}" for command in fix_commands))
        yield BriefText("", 0, rank=1, indent="    ", more=lines, needs_previous=True)
    further_fixes = len(summary.fixes) - 1 + summary.left_out.get("fixes", 0)
    if further_fixes > 0:
        yield BriefText(f"  and {counted(further_fixes, 'more fix', 'more fixes')}", 1, rank=1, needs_previous=True)
    for entry in _list_summary_entries(summary)[:MAX_ENTRIES]:
        yield BriefText(entry, 2, rank=2, is_entry=True)
    if summary.next:
        yield BriefText(f"more: {summary.next[0]}", 0, rank=3 if fix_commands else 1)


def _get_short_commands(summary: Summary) -> tuple[str, ...]:
    """Return the commands of the first fix, or () if one is too long to type, since half a command could do harm."""
    commands = summary.fixes[0].commands if summary.fixes else ()
    return commands if all(len(command) <= MAX_COMMAND_LENGTH for command in commands) else ()


def _describe_fix(fix: ShortFix) -> str:
    """Describe a fix with its costs in their shortest form."""
    costs = "; ".join(cost.brief for cost in fix.costs if cost.kind is not CostKind.CHECK_FIRST)
    return f"{fix.summary}, but {costs}" if costs else fix.summary


SUMMARIES_WITH_ADVICE = ("Audit", "AuditSection", "WakeUps")
"""The kinds of documents whose list is their advice: findings, or the changes that wake a pod."""
MAX_ENTRIES = 4
"""Number of entries of the list that are shown."""
MAX_WARNINGS = 3
"""Number of warnings that are shown."""
MAX_COMMAND_LENGTH = 200
"""Longest command that is shown."""


def _describe_verdict_and_node(summary: Summary) -> str:
    """Describe the verdict, and name the pod's node or the pods to preempt."""
    condition = f"as if {summary.as_if}: " if summary.as_if else ""
    verdict = f"{condition}{summary.subject} {describe_verdict(summary.verdict)}"
    if summary.nominated:
        return f"{verdict}: would preempt {count(len(summary.victims), 'pod')} on {summary.nominated}"
    return f"{verdict} on {next(iter(summary.best))}" if _has_node(summary) else verdict


def _has_node(summary: Summary) -> bool:
    """Return whether the pod gets a node. A gated pod does not."""
    return bool(summary.best) and summary.verdict != "Gated"


def _iter_causes(summary: Summary, *, headline_lists_causes: bool) -> Iterator[BriefText]:
    """Yield the two most important causes in plain words, unless the pod fits.

    A conflict between demands comes before the causes. Without a conflict, a headline that is not just the list of
    causes does. If the pod is gated or has no causes, only the headline is yielded.
    """
    if _has_node(summary):
        return
    _, _, headline = summary.headline.rpartition(f"{summary.subject} {summary.verdict}: ")
    if not summary.causes or summary.verdict == "Gated":
        yield BriefText(headline, 3)
        return
    introduction = summary.causes[0].conflict
    if not introduction and not headline_lists_causes:
        introduction = headline
    if introduction:
        yield BriefText(introduction, 3)
    for number, cause in enumerate(summary.causes[:2]):
        rank = 0 if number == 0 and not introduction else 2
        yield BriefText(cause.plain or cause.reason, 3, rank)


def _wrap_part(part: BriefText, width: int) -> list[str]:
    """Wrap a part into lines."""
    lines = _wrap_text(printable(part.text), width, part.lines, part.indent)
    return [*lines, *(line for text in part.more for line in _wrap_text(printable(text), width, 0, part.indent))]


def _wrap_text(text: str, width: int, at_most: int, indent: str) -> list[str]:
    """Wrap text to the width, in at most `at_most` lines. 0 means no limit."""
    return textwrap.wrap(
        text,
        width,
        subsequent_indent=indent,
        break_on_hyphens=False,
        max_lines=at_most or None,
        placeholder=" …",
    )
