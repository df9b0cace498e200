"""The format `--brief`: an answer in at most 12 lines with reason, closest node, best fix and its command."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.ownership import Owner
from kschedctl.render.markdown import render_markdown
from kschedctl.render.page import (
    UNFOLDED,
    Block,
    Bullets,
    Cell,
    Command,
    Heading,
    Marked,
    Paragraph,
    Style,
    count,
    describe_verdict,
    paragraph,
    with_tone,
)
from kschedctl.render.renderers import build_page, get_document_kind
from kschedctl.reports.columns import Tone
from kschedctl.reports.document import Document
from kschedctl.reports.not_created import NOT_CREATED
from kschedctl.reports.remedy import chain_commands
from kschedctl.reports.report import PlainReport
from kschedctl.reports.summary import LONGEST, CostKind, ShortFix, ShortPods, Summary
from kschedctl.reports.unknown import NOT_CERTAIN, VERDICT, describe_unread_kinds
from kschedctl.text.counts import agreeing, capitalize, counted
from kschedctl.text.printable import describe_misfit, printable, rewrite_fit_error

MAX_LINES = 12
UNLIMITED = 0
"""The value of `BriefText.lines` for parts that are never cut."""
MORE = "more: "
"""The beginning of the line with the command that says more."""


class Rank(IntEnum):
    """The importance of a part of the brief form. Parts with the lowest rank get lines first."""

    ESSENTIAL = 0
    """The verdict, the first cause, and what nobody would otherwise notice."""
    FIX = 1
    """The first fix with its commands, or the fixes of a plan."""
    FURTHER = 2
    """Further warnings, and the number of further fixes."""
    DETAIL = 3
    """Entries of a list, further causes and advice."""
    OPTIONAL = 4
    """A line that repeats what the user can guess."""


class BriefText(NamedTuple):
    """A part of the brief form."""

    text: str
    lines: int
    """The maximum number of lines of the part, or UNLIMITED if the part is never cut."""
    rank: Rank = Rank.ESSENTIAL
    """Parts with the lowest rank get lines first."""
    indent: str = "  "
    more: tuple[str, ...] = ()
    """Command lines below the text. They are shown as a whole or not at all, and never wrapped, so that they can be
    pasted.
    """
    is_entry: bool = False
    """True if the part is an entry of the list that ends with the number of entries that are left out."""
    is_warning: bool = False
    """True if the part is one of the warnings, which end with the number of warnings that are left out."""
    needs_previous: bool = False
    """True if the part is left out if the part before it is left out."""
    text_to_cut: str = ""
    """The text that is cut to the lines that are free if the part does not fit; empty if the part is then left out."""


def to_brief(document: Document, style: Style) -> str:
    """Render a document in at most 12 lines, with the most important parts first."""
    return "".join(f"{line}\n" for shown in _choose_brief_parts(document, style) for line in shown.all_lines)


def to_markdown_brief(document: Document, style: Style) -> str:
    """Render the brief form of a document as Markdown: the first part in bold, the others as items of a list."""
    page: list[Block] = []
    for part, lines, left_out in _choose_brief_parts(document, replace(style, width=MARKDOWN_WIDTH)):
        # The last lines are the commands in `more`, which become blocks of their own
        texts = lines[: len(lines) - len(part.more)]
        text = " ".join(line.strip() for line in texts)
        if text and not page:
            page.append(paragraph(Marked(text, Tone.STRONG)))
        elif text:
            _append_to_list(page, [text, left_out] if left_out else [text])
        page += (Command(command.strip().removeprefix(MORE)) for command in part.more)
    return render_markdown(tuple(page), style)


def _append_to_list(page: list[Block], items: Sequence[Cell]) -> None:
    """Append items to the list at the end of the page, or begin a list if the page does not end with one."""
    last = page[-1]
    if isinstance(last, Bullets):
        page[-1] = Bullets((*last.items, *items))
    else:
        page.append(Bullets(tuple(items)))


MARKDOWN_WIDTH = 120
"""The number of columns by which the Markdown form chooses and cuts its parts."""


class _ShownPart(NamedTuple):
    """A shown part of the brief form."""

    part: BriefText
    lines: list[str]
    """The wrapped lines of the part."""
    left_out: str
    """A line below the part that says how many entries or warnings are left out, or ""."""

    @property
    def all_lines(self) -> list[str]:
        """The lines of the part, and the line below it."""
        return [*self.lines, self.left_out] if self.left_out else self.lines


def _choose_brief_parts(document: Document, style: Style) -> list[_ShownPart]:
    """Choose the parts of the brief form, and return them from top to bottom.

    The most important parts are chosen first. A part that does not fit is left out entirely, unless it may shrink. A
    shortened list ends with the number of entries left out.
    """
    summary = build_summary(document, style)
    lists_causes = isinstance(document, PlainReport) and document.headline_lists_causes
    answer = _find_answer_after_verdict(document, summary)
    entries = _list_summary_entries(summary, document)
    doubts = _list_doubts_besides_headline(document, summary)
    parts = list(
        _iter_brief_parts(
            summary,
            answer=answer,
            entries=entries,
            doubts=doubts,
            full_command=style.full_command,
            headline_lists_causes=lists_causes,
        )
    )
    left_out_count = sum(summary.left_out.get(field, 0) for field in _get_list_fields(summary))
    warning_count = sum(part.is_warning for part in parts)
    if warning_count and not _lists_findings(summary):
        warning_count += summary.left_out.get("warnings", 0)

    layout = _BriefLayout(parts, style.width, entry_count=len(entries) + left_out_count, warning_count=warning_count)
    layout.choose_parts()
    layout.lengthen_cut_parts()
    layout.add_left_out_count(warnings=True)
    layout.add_left_out_count(warnings=False)
    return layout.list_shown_parts()


class _BriefLayout:
    """The choice among the parts of a brief form, so that their lines are at most MAX_LINES."""

    def __init__(self, parts: Sequence[BriefText], width: int, *, entry_count: int, warning_count: int) -> None:
        self._parts = parts
        self._width = width
        self._entry_count = entry_count
        """The number of all entries, including those that the summary leaves out."""
        self._warning_count = warning_count
        """The number of all warnings, including those that the summary leaves out."""
        self._lines = [_wrap_part(part, width) for part in parts]
        """The lines of each part. Parts that shrink have fewer lines."""
        self._left_out: dict[int, str] = {}
        """The line below a shown part, by the part's index, that says how many entries or warnings are left out."""
        self._shown: set[int] = set()
        """The indexes of the parts that are shown."""

    def choose_parts(self) -> None:
        """Choose the parts that are shown. Parts with the lowest rank are chosen first.

        A part that does not fit is left out, unless it may shrink and enough lines are free. A part that shrinks leaves
        one line free for the last part, which says how to see everything, unless the last part is chosen already.
        """
        last = len(self._parts) - 1
        for index in sorted(range(len(self._parts)), key=lambda index: self._parts[index].rank):
            part = self._parts[index]
            if part.needs_previous and index - 1 not in self._shown:
                continue
            free = MAX_LINES - self._count_lines()
            lines = free if last in self._shown else free - 1
            if part.text_to_cut and len(self._lines[index]) > lines >= MIN_SHRUNK_LINES:
                self._lines[index] = _wrap_part(part._replace(text=part.text_to_cut, lines=lines), self._width)
            if len(self._lines[index]) <= free:
                self._shown.add(index)

    def lengthen_cut_parts(self) -> None:
        """Give cut parts the lines that they need, the most important parts first.

        If too few lines are free, less important entries and warnings are left out. A part that still needs more lines
        gets those that are free.
        """
        for index in sorted(self._shown, key=lambda index: (self._parts[index].rank, index)):
            part = self._parts[index]
            if index not in self._shown or part.lines == UNLIMITED:
                continue
            full_lines = _wrap_part(part._replace(lines=UNLIMITED), self._width)
            if self._lines[index] == full_lines:
                continue
            replaceable = self._list_replaceable_parts(index)
            while replaceable and len(full_lines) > len(self._lines[index]) + self._count_free_lines():
                self._shown.remove(replaceable.pop())
            lines = len(self._lines[index]) + max(self._count_free_lines(), 0)
            self._lines[index] = _wrap_part(part._replace(lines=lines), self._width)

    def _list_replaceable_parts(self, index: int) -> list[int]:
        """Return the shown entries and warnings that may be left out for the part at `index`.

        The caller leaves out the last of the returned parts first. The first entry and the first warning always stay.
        Warnings are left out only for the first part. Nothing is left out for an entry after the first.
        """
        later_entries = self._list_shown_of_kind(warnings=False)[1:]
        replaceable = [] if index in later_entries else later_entries
        if index == 0:
            replaceable = self._list_shown_of_kind(warnings=True)[1:] + replaceable
        return replaceable

    def add_left_out_count(self, *, warnings: bool) -> None:
        """Add a line such as "and 3 more" below the last shown entry or, with `warnings`, the last shown warning.

        No line is added if all or none of the counted entries or warnings are shown. If there is no room for the line,
        another entry or warning is left out first. The line is dropped if there is still no room.
        """
        total = self._warning_count if warnings else self._entry_count
        shown_of_kind = self._list_shown_of_kind(warnings=warnings)
        if not shown_of_kind or len(shown_of_kind) == total:
            return
        if self._count_lines() >= MAX_LINES:
            self._make_room_for_count(warnings=warnings)
            shown_of_kind = self._list_shown_of_kind(warnings=warnings)
        if self._count_lines() < MAX_LINES:
            left_out_count = total - len(shown_of_kind)
            noun = f" {agreeing(left_out_count, 'warning', 'warnings')}" if warnings else ""
            self._left_out[shown_of_kind[-1]] = f"and {left_out_count:,} more{noun}"

    def _make_room_for_count(self, *, warnings: bool) -> None:
        """Leave out an entry or warning to make room for the line that counts those left out.

        The last shown entry is left out or, if warnings are counted and no entry is shown, the last shown warning. The
        only shown entry or warning of the counted kind stays, because the count comes below it.
        """
        shown_entries = self._list_shown_of_kind(warnings=False)
        if warnings and shown_entries:
            self._shown.remove(shown_entries[-1])
            return
        shown_of_kind = self._list_shown_of_kind(warnings=warnings)
        if len(shown_of_kind) > 1:
            self._shown.remove(shown_of_kind[-1])

    def list_shown_parts(self) -> list[_ShownPart]:
        """Return the shown parts from top to bottom."""
        return [
            _ShownPart(self._parts[index], self._lines[index], self._left_out.get(index, ""))
            for index in sorted(self._shown)
        ]

    def _list_shown_of_kind(self, *, warnings: bool) -> list[int]:
        """Return the indexes of the shown entries or, with `warnings`, of the shown warnings, from top to bottom."""
        shown = sorted(self._shown)
        if warnings:
            return [index for index in shown if self._parts[index].is_warning]
        return [index for index in shown if self._parts[index].is_entry]

    def _count_lines(self) -> int:
        """Return the number of lines of the shown parts."""
        return sum(len(shown.all_lines) for shown in self.list_shown_parts())

    def _count_free_lines(self) -> int:
        """Return the number of free lines, without those that say how many entries and warnings are left out."""
        leaves_out_entries = 0 < len(self._list_shown_of_kind(warnings=False)) < self._entry_count
        leaves_out_warnings = 0 < len(self._list_shown_of_kind(warnings=True)) < self._warning_count
        return MAX_LINES - leaves_out_entries - leaves_out_warnings - self._count_lines()


def _lists_findings(summary: Summary) -> bool:
    """Return whether the summary's list is its warnings and advice, as findings are."""
    return summary.summarizes in SUMMARIES_WITH_FINDINGS


def _get_list_fields(summary: Summary) -> tuple[str, ...]:
    """Return the summary fields whose entries are shown one by one."""
    return ("warnings", "advice") if _lists_findings(summary) else ("pods",)


def _list_summary_entries(summary: Summary, document: Document) -> tuple[str, ...]:
    """Return the summary's list as texts: its findings, or its pods with the reason why they do not fit.

    Pods that the headline of the document describes are left out.
    """
    if _lists_findings(summary):
        return (*summary.warnings, *summary.advice)
    entries = summary.pods[document.headline_entries if isinstance(document, PlainReport) else 0 :]
    subjects = [_describe_entry_subject(summary, pods) for pods in entries]
    if summary.summarizes == "Capacity":
        entries = tuple(replace(pods, pods=1) for pods in entries)  # the reasons are those of one more pod
        if len(summary.pods) == 1:  # the headline names the only workload and the number of its pods
            subjects = ["one more pod"] * len(entries)
    return tuple(_describe_misfit(subject, pods) for subject, pods in zip(subjects, entries, strict=True))


def _describe_misfit(subject: str, pods: ShortPods) -> str:
    """Return a sentence about why the pods, which `subject` names, do not run."""
    is_fit_error = rewrite_fit_error(pods.why) != pods.why
    return describe_misfit(subject, pods.why, pods.pods) if is_fit_error else f"{subject}: {describe_verdict(pods.why)}"


def _describe_entry_subject(summary: Summary, pods: ShortPods) -> str:
    """Describe the subject of an entry: a pod ("x and 3 other pods") or a workload ("3 pods of Deployment x").

    Entries of Capacity and Rebalancing count pods or evictions of a workload.
    """
    if summary.summarizes == "Capacity":
        return f"{pods.workload}: {pods.pods:,} more; the next pod"
    if summary.summarizes == "Rebalancing":
        return f"{counted(pods.pods, 'eviction')} of {pods.workload} held back"
    # A workload is named with its kind, such as "Deployment shop/web"; a lone Pod is not a workload
    begins_with_kind = pods.workload[:1].isupper()
    is_workload = begins_with_kind and Owner.parse(pods.workload).kind != "Pod"
    if not is_workload:
        others = f" and {counted(pods.pods - 1, 'other pod')}" if pods.pods > 1 else ""
        return f"{pods.such_as or pods.workload}{others}"
    return f"{counted(pods.pods, 'pod')} of {pods.workload}" if pods.pods else pods.workload


def build_summary(document: Document, style: Style) -> Summary:
    """Build the summary of a document, with the style's commands as next steps.

    For a document that is not a report, the headline is its first line.
    """
    if isinstance(document, PlainReport):
        return document.summary(command for group in style.commands.values() for command in group)
    page = build_page(document, Style(width=UNFOLDED))
    first = next((block for block in page if isinstance(block, Paragraph | Heading)), Paragraph(()))
    parts = first.parts if isinstance(first, Paragraph) else (first.text,)
    headline = " ".join(with_tone(part).text for part in parts if with_tone(part).text)
    return Summary(summarizes=get_document_kind(document), subject="", verdict="", headline=headline).shorten()


def _find_answer_after_verdict(document: Document, summary: Summary) -> str:
    """Return what the headline says after the subject and the verdict, or "" if these two are not parts of it.

    Only in an explanation may other parts, which the brief form shows by themselves, come before the subject.
    """
    headline_parts = (
        [part for part in document.build_headline_parts() if part] if isinstance(document, PlainReport) else []
    )
    for number, parts in enumerate(pairwise(headline_parts)):
        is_at_start = number == 0 or _is_about_pod(summary)
        if is_at_start and parts == (summary.subject, f"{summary.verdict}:"):
            return " ".join(headline_parts[number + 2 :])
    return ""


def _list_doubts_besides_headline(document: Document, summary: Summary) -> tuple[str, ...]:
    """Return the doubts of the summary that its headline does not name.

    An explanation is shown without its headline, and therefore with all doubts.
    """
    if not isinstance(document, PlainReport) or _is_about_pod(summary) or not document.headline_names_unread:
        return summary.doubts
    unknown = getattr(document, "unknown", ())
    is_headline_cut = len(summary.headline) == LONGEST
    remaining_unknown = [entry for entry in unknown if entry.affects != VERDICT]
    if len(remaining_unknown) == len(unknown) or is_headline_cut:
        return summary.doubts
    # The doubt about unread kinds is the first one or, if the first doubt is an interruption, the second.
    unread = 1 if getattr(document, "interrupted", False) else 0
    remaining_doubts = [describe_unread_kinds(remaining_unknown)] if remaining_unknown else []
    return (*summary.doubts[:unread], *remaining_doubts, *summary.doubts[unread + 1 :])


def _iter_brief_parts(
    summary: Summary,
    *,
    answer: str,
    entries: tuple[str, ...],
    doubts: tuple[str, ...],
    full_command: str,
    headline_lists_causes: bool,
) -> Iterator[BriefText]:
    """Yield the parts of the brief form from top to bottom.

    The parts are the verdict, causes, doubts, warnings, the first fix with its commands, entries of the summary's list,
    and a line on how to see more.

    - `answer`: the headline without the subject and verdict, or "" if the headline does not begin with them.
    - `entries`: all entries of the summary's list.
    - `doubts`: the doubts to show.
    - `full_command`: the command line without `--brief`, or "" if it is unknown.
    - `headline_lists_causes`: whether the headline of an Explanation repeats its causes.
    """
    if _is_about_pod(summary):
        yield from _iter_verdict_parts(summary)
        headline = answer or summary.headline
        yield from _iter_cause_parts(summary, headline, headline_lists_causes=headline_lists_causes)
    else:
        # The verdict is replaced by the words that people read
        verdict = f"{summary.subject} {describe_verdict(summary.verdict)}"
        yield BriefText(f"{verdict}: {answer}" if answer else summary.headline, lines=3)
    yield from _iter_warning_parts(summary, doubts)
    yield from _iter_fix_parts(summary)
    max_entries = MAX_LINES if summary.summarizes in SUMMARIES_THAT_ARE_LISTS else MAX_ENTRIES
    for entry in entries[:max_entries]:
        yield BriefText(entry, lines=2, rank=Rank.DETAIL, is_entry=True)
    can_have_fixes = _is_about_pod(summary) or summary.summarizes == "Drain"
    if can_have_fixes and not summary.fixes and summary.advice:
        yield BriefText(f"next: {summary.advice[0]}", lines=2, rank=Rank.DETAIL)
    yield from _iter_more_line(summary, full_command)


def _iter_more_line(summary: Summary, full_command: str) -> Iterator[BriefText]:
    """Yield the line on how to see more: the summary's next command, or the same command without `--brief`.

    Without a next command, nothing is yielded if the brief form lacks nothing.
    """
    if summary.next:
        rank = _choose_next_command_rank(summary)
        yield BriefText("", lines=UNLIMITED, rank=rank, more=(f"{MORE}{summary.next[0]}",))
        return
    if not _lacks_contents(summary):
        return
    rank = Rank.FURTHER if summary.summarizes in SUMMARIES_WITH_FURTHER_TABLES else Rank.OPTIONAL
    if full_command:
        yield BriefText("", lines=UNLIMITED, rank=rank, more=(f"{MORE}{full_command}",))
    else:
        yield BriefText("more: the same command without --brief", lines=1, rank=rank)


def _choose_next_command_rank(summary: Summary) -> Rank:
    """Return the rank of the next command, which is essential if it alone leads to fixes or commands not shown."""
    fix_commands = _get_short_commands(summary)
    if summary.fixes and (not fix_commands or _count_further_fixes(summary) > 0):
        return Rank.ESSENTIAL
    if not fix_commands:
        return Rank.FIX  # the next command stands in for a fix
    return Rank.OPTIONAL


def _lacks_contents(summary: Summary) -> bool:
    """Return whether the brief form lacks fixes, entries or tables that the full form has."""
    has_further_fixes = _count_further_fixes(summary) > 0
    if has_further_fixes or summary.left_out:
        return True
    if summary.fixes and not _get_short_commands(summary) and not summary.fixes[0].edits:
        return True  # the first fix is shown without its commands
    return summary.summarizes == "Explanations" or summary.summarizes in SUMMARIES_WITH_FURTHER_TABLES


def _is_about_pod(summary: Summary) -> bool:
    """Return whether the summary explains a pod that exists or could be created."""
    return summary.summarizes == "Explanation" and summary.verdict != NOT_CREATED


def _iter_warning_parts(summary: Summary, doubts_besides_headline: tuple[str, ...]) -> Iterator[BriefText]:
    """Yield the doubts that the headline does not name, the warnings, and why preemption cannot help.

    Only the first WARNINGS_BEFORE_FIX warnings get lines before the first fix does.
    """
    doubts_line = _describe_doubts_besides_headline(summary, doubts_besides_headline)
    if doubts_line:
        yield BriefText(doubts_line, lines=2)
    for number, warning in enumerate(_list_warnings_to_show(summary)):
        rank = Rank.ESSENTIAL if number < WARNINGS_BEFORE_FIX else Rank.FURTHER
        yield BriefText(warning, lines=2, rank=rank, is_warning=True)
    if summary.preemption:
        yield BriefText(summary.preemption, lines=2, rank=Rank.DETAIL)


def _describe_doubts_besides_headline(summary: Summary, doubts_besides_headline: tuple[str, ...]) -> str:
    """Describe the doubts that the headline does not name.

    An undecided result without known doubts is only called uncertain. Return "" if the headline names all doubts.
    """
    doubts_text = "; ".join(doubts_besides_headline)
    if summary.undecided and doubts_besides_headline and doubts_besides_headline == summary.doubts:
        return f"not certain: {doubts_text}"
    if summary.undecided and not summary.doubts:
        return "not certain"
    return f"caveats: {doubts_text}" if doubts_besides_headline else ""


def _list_warnings_to_show(summary: Summary) -> list[str]:
    """Return the warnings that no other part of the brief text shows.

    The list of entries already has the warnings of findings. For a pod, the first part has the warning about replicas.
    """
    if _lists_findings(summary):
        return []
    shown_warning = summary.replicas if _is_about_pod(summary) else None
    return [warning for warning in summary.warnings if warning != shown_warning]


def _iter_fix_parts(summary: Summary) -> Iterator[BriefText]:
    """Yield the first fix with its edits and commands, and the number of further fixes.

    If the fixes are the steps of one plan, yield every fix, without edits and commands. Yield nothing if there are no
    fixes.
    """
    if not summary.fixes:
        return
    if _is_plan(summary):
        for number, fix in enumerate(summary.fixes, 1):
            yield _build_plan_fix_part(f"fix {number}", fix)
        return
    fix = summary.fixes[0]
    yield _build_fix_part(LABEL_BY_SUMMARY.get(summary.summarizes, "fix"), fix)
    yield from _iter_parts_below_fix(fix, _get_short_commands(summary))
    further_text = _describe_further_fixes(summary)
    if further_text:
        yield BriefText(f"  and {further_text}", lines=1, rank=Rank.FURTHER, needs_previous=True)


def _iter_parts_below_fix(fix: ShortFix, commands: Sequence[str]) -> Iterator[BriefText]:
    """Yield the parts that are shown only together with a fix: its edits of the manifest, and its commands.

    `commands` are the commands that are short enough to be shown. If there are none, the number of the fix's commands
    is yielded instead.
    """
    part_below_fix = partial(BriefText, rank=Rank.FIX, needs_previous=True)
    if fix.edits:
        text = f"  in the manifest: {'; '.join(fix.edits)}"
        yield part_below_fix(text, lines=UNLIMITED, indent="    ")
    if commands:
        command_lines = tuple(f"  {command}" for command in chain_commands(commands))
        yield part_below_fix("", lines=UNLIMITED, more=command_lines)
    elif fix.commands:
        yield part_below_fix(f"  {counted(len(fix.commands), 'command')} not shown here", lines=1)


def _build_fix_part(label: str, fix: ShortFix) -> BriefText:
    """Build the line of a fix that can be made alone: its summary and its costs.

    A fix that is not enough, or not worth its costs, gets a label that says so instead of the given one. If the text
    has to be cut, the costs come first, since no command is shown without them.
    """
    if fix.rival_count:
        label = "not enough"
    elif fix.costs_more_pods:
        label = "not worth it"
    costs = _describe_costs(fix)
    drawbacks = f", but {costs}" if costs else ""
    text = f"{label}: {fix.summary}{drawbacks}"
    return BriefText(text, lines=UNLIMITED, rank=Rank.FIX, text_to_cut=f"{label}{drawbacks}: {fix.summary}")


def _build_plan_fix_part(label: str, fix: ShortFix) -> BriefText:
    """Build the line of a fix that is part of a plan: its summary, the number of pods that it clears, and its costs.

    If the text has to be cut, the costs come first and the number of pods is left out.
    """
    costs = _describe_costs(fix)
    drawbacks = f", but {costs}" if costs else ""
    text = f"{label}: {fix.summary}, for {counted(fix.clears, 'pod')}{drawbacks}"
    return BriefText(text, lines=UNLIMITED, rank=Rank.FIX, text_to_cut=f"{label}{drawbacks}: {fix.summary}")


def _is_plan(summary: Summary) -> bool:
    """Return whether the fixes of the summary are several changes to be made together, all of which are shown."""
    return summary.summarizes == "RemediesOfMany" and len(summary.fixes) > 1


def _count_further_fixes(summary: Summary) -> int:
    """Return the number of fixes that are not shown, including those that the summary leaves out."""
    if _is_plan(summary):
        return summary.left_out.get("fixes", 0)
    return len(summary.fixes) - 1 + summary.left_out.get("fixes", 0)


def _describe_further_fixes(summary: Summary) -> str:
    """Describe how many more fixes there are, and how many changes are not enough or not worth it.

    If an explanation has further changes, but none of them is a fix, the text says that `remedies` tries larger
    changes. Return "" if there are no more fixes or changes.
    """
    not_enough = sum(fix.rival_count > 0 for fix in summary.fixes[1:])
    not_worth_it = sum(fix.costs_more_pods for fix in summary.fixes[1:])
    enough = _count_further_fixes(summary) - not_enough - not_worth_it
    parts = []
    if enough > 0:
        parts.append(counted(enough, "more fix", "more fixes"))
    if not_enough:
        parts.append(counted(not_enough, "change that is not enough", "changes that are not enough"))
    if not_worth_it:
        parts.append(counted(not_worth_it, "change that is not worth it", "changes that are not worth it"))
    text = " and ".join(parts)
    if text and enough <= 0 and summary.summarizes == "Explanation":
        text += "; remedies also tries larger changes"
    return text


def _get_short_commands(summary: Summary) -> tuple[str, ...]:
    """Return all commands of the first fix, or () if the commands are too many or one of them is too long.

    Commands are never shown in part, because a part could do harm. The result is also () if the fixes are parts of one
    plan.
    """
    commands = summary.fixes[0].commands if summary.fixes and not _is_plan(summary) else ()
    are_short = len(commands) <= MAX_COMMANDS and all(len(command) <= MAX_COMMAND_LENGTH for command in commands)
    return commands if are_short else ()


def _describe_costs(fix: ShortFix) -> str:
    """Describe the fix's costs in their shortest form, or return "" if it has none."""
    return "; ".join(cost.brief for cost in fix.costs if cost.kind is not CostKind.CHECK_FIRST)


LABEL_BY_SUMMARY = {"Drain": "next"}
"""The label before the first entry of a summary whose entries are not fixes."""
SUMMARIES_WITH_FURTHER_TABLES = ("Drain", "Failures", "WhatIf")
"""The kinds whose whole answer has tables, such as the pods that move, which the brief form always lacks."""
SUMMARIES_THAT_ARE_LISTS = ("SnapshotDiff",)
"""The kinds whose answer is nothing but its list, which may fill all lines."""
SUMMARIES_WITH_FINDINGS = ("Audit", "AuditSection", "Findings", "SnapshotDiff", "WakeUps")
"""The kinds of documents whose list is their warnings and advice: findings, or the changes that wake a pod."""
MAX_ENTRIES = 4
"""Number of entries of the list that are shown."""
WARNINGS_BEFORE_FIX = 3
"""Number of warnings that are more important than the first fix."""
MAX_COMMAND_LENGTH = 450
"""Longest command that is shown."""
MAX_COMMANDS = 4
"""Largest number of commands of a fix that are shown."""
MIN_SHRUNK_LINES = 2
"""A part is not cut to fewer lines than this."""


def _iter_verdict_parts(summary: Summary) -> Iterator[BriefText]:
    """Yield how many pods of the workload get a node, the pod's verdict, and how the pod stands for the workload."""
    if summary.replicas:
        yield BriefText(capitalize(summary.replicas), lines=3)
    yield BriefText(_describe_verdict_and_node(summary), lines=3)
    if summary.stands_for:
        yield BriefText(summary.stands_for, lines=3)


def _describe_verdict_and_node(summary: Summary) -> str:
    """Describe the verdict, with the pod's node or with the number of pods to preempt and their node."""
    condition = f"as if {summary.as_if}: " if summary.as_if else ""
    verdict = f"{condition}{summary.subject} {describe_verdict(summary.verdict)}"
    if summary.nominated:
        choices = summary.nominated_choices
        nodes = f"one of {choices:,} nodes" if choices else summary.nominated
        return f"{verdict}: would preempt {count(len(summary.victims), 'pod')} on {nodes}"
    if not _has_node(summary):
        return verdict
    doubt = f", but {NOT_CERTAIN}" if summary.undecided else ""
    return f"{verdict} on {next(iter(summary.best))}{doubt}"


def _has_node(summary: Summary) -> bool:
    """Return whether the pod gets a node. A gated pod does not."""
    return bool(summary.best) and summary.verdict != "Gated"


def _iter_cause_parts(summary: Summary, headline: str, *, headline_lists_causes: bool) -> Iterator[BriefText]:
    """Yield the two most important causes in plain words, unless the pod fits.

    A conflict between demands comes before the causes. Without a conflict, the headline comes before the causes, unless
    it only lists them. If the pod is gated or has no causes, only the headline is yielded. `headline` does not contain
    the pod and the verdict, if the summary's headline begins with them.
    """
    if _has_node(summary):
        return
    if not summary.causes or summary.verdict == "Gated":
        yield BriefText(headline, lines=3)
        return
    introduction = summary.causes[0].conflict
    if not introduction and not headline_lists_causes:
        introduction = headline
    if introduction:
        yield BriefText(introduction, lines=3)
    for number, cause in enumerate(summary.causes[:2]):
        rank = Rank.ESSENTIAL if number == 0 and not introduction else Rank.DETAIL
        yield BriefText(cause.plain or cause.reason, lines=3, rank=rank)


def _wrap_part(part: BriefText, width: int) -> list[str]:
    """Wrap a part into lines."""
    return [*_wrap_text(printable(part.text), width, part.lines, part.indent), *map(printable, part.more)]


def _wrap_text(text: str, width: int, max_lines: int, indent: str) -> list[str]:
    """Wrap text to the width, in at most `max_lines` lines (0 for no limit).

    All lines but the first begin with `indent`. A text that is cut ends with an ellipsis.
    """
    wrapper = _KeyWrapper(
        width,
        subsequent_indent=indent,
        break_on_hyphens=False,
        max_lines=max_lines or None,
        placeholder=" …",
    )
    return wrapper.wrap(text)


class _KeyWrapper(textwrap.TextWrapper):
    """A text wrapper that breaks words which are longer than a line behind the separators of label keys and paths.

    >>> _KeyWrapper(20).wrap("node.cloudprovider.kubernetes.io/uninitialized=true")
    ['node.cloudprovider.', 'kubernetes.io/', 'uninitialized=true']
    """

    def _split(self, text: str) -> list[str]:
        """Split the text into words and blanks, and the words that are too long for a line into their parts."""
        longest = self.width - len(self.subsequent_indent)
        chunks: list[str] = []
        for chunk in super()._split(text):
            chunks += _PARTS_OF_KEY.findall(chunk) if len(chunk) > longest else [chunk]
        return chunks


_PARTS_OF_KEY = re.compile(r"[^/.:=,-]+[/.:=,-]*|[/.:=,-]+")
"""A part of a label key, a taint or a path, with the separator behind it."""
