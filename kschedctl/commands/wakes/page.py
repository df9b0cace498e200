"""The pages of the reports of `wakes`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kschedctl.commands.explain.pod_group_page import build_pod_group_section
from kschedctl.commands.wakes.report import (
    UNSCHEDULABLE,
    PodBetween,
    RejectorReport,
    Wakes,
    WakesBetween,
    WakesOfMany,
    WakeUps,
    WakeUpsOfMany,
)
from kschedctl.render.page import (
    Block,
    Bullets,
    Cell,
    Marked,
    Page,
    Stack,
    Style,
    count,
    limit_rows_by_style,
    names,
    paragraph,
    section,
)
from kschedctl.render.sections import (
    build_caveats,
    build_interruption_line,
    build_left_out_lines,
    build_next_section,
    build_unread_kind_lines,
)
from kschedctl.render.tables import Row, build_struct_table, build_table
from kschedctl.render.unseen_pods import build_not_created_section, iter_not_created_lines
from kschedctl.reports.columns import Column, Tone
from kschedctl.text.counts import counted

CHANGES_SHOWN = 5
SECTIONS_SHOWN = 10


def build_wake_ups_page(report: WakeUps, style: Style) -> Page:
    """Build the page on one pod: its rejectors, each with the changes that would wake the pod.

    For a pod that cannot be created, the page only says why.
    """
    if report.not_created:
        return (*iter_not_created_lines(report.not_created, style), *_build_workload_line(report))
    is_unschedulable = report.queue == UNSCHEDULABLE
    pod, sentence = report.build_headline_parts()
    headline = Marked(sentence, Tone.WARNING if is_unschedulable or report.undecided else Tone.GOOD)
    page: list[Block] = [paragraph(Marked(pod, Tone.STRONG), headline), *_build_workload_line(report)]
    if report.message and is_unschedulable:
        page.append(paragraph(Marked(report.message, Tone.FAINT)))
    page += build_caveats(report.not_replayed, report.ignored, unknown=report.unknown)
    page += build_pod_group_section(report.pod_group, style)
    for rejector in report.rejectors:
        page += _build_rejector_section(rejector)
    if last_resort := report.last_resort:
        page.append(paragraph(Marked(f"{last_resort[0].upper()}{last_resort[1:]}", Tone.FAINT)))
    return (*page, *build_next_section(style))


def _build_workload_line(report: WakeUps) -> Page:
    """Build the line about the workload for which the pod stands, if any."""
    return (paragraph(Marked(report.stands_for, Tone.FAINT)),) if report.stands_for else ()


def _build_rejector_section(rejector: RejectorReport) -> Page:
    """Build the section about a plugin that rejected the pod: its reason and the changes that wake the pod.

    If there are no such changes, a line says so.
    """
    reason = (paragraph(Marked(rejector.why, Tone.FAINT)),) if rejector.why else ()
    if not rejector.wake_ups:
        return section(rejector.plugin, *reason, paragraph("No change in the cluster makes the scheduler retry it"))
    changes = Bullets(tuple(wake_up.words for wake_up in rejector.wake_ups))
    return section(rejector.plugin, *reason, paragraph("The scheduler retries the pod when"), changes)


def build_many_wake_ups_page(report: WakeUpsOfMany, style: Style) -> Page:
    """Build the page on several pods, with a row for each pod. If there are no pods, a line says so."""
    title, *scope = report.build_headline_parts()
    columns = (Column("pod", keep=True), Column("state"), Column("retried after"))
    if not report.pods:
        return (paragraph(Marked(title, Tone.GOOD), *scope), *_build_unserved_line(report))
    return (
        *build_interruption_line(report.interrupted, "the pods so far"),
        *build_table(report.pods, columns, _build_pod_row, style, title=title, full=False),
        *([paragraph(Marked(HOW_TO_LIST_CHANGES, Tone.FAINT))] if any(pod.rejectors for pod in report.pods) else ()),
        *build_caveats(report.not_replayed, report.ignored, unknown=report.unknown),
        *_build_unserved_line(report),
        *build_next_section(style, "Next (list the changes that make the scheduler retry one pod)"),
    )


HOW_TO_LIST_CHANGES = "To list the changes that make the scheduler retry a pod, run this command with its name."


def _build_pod_row(pod: WakeUps) -> Row:
    """Build the row of a pod: what rejected it, or else its state, and the number of kinds of changes that wake it."""
    kinds = {wake_up.words for rejector in pod.rejectors for wake_up in rejector.wake_ups}
    return (
        Marked(pod.pod, Tone.STRONG),
        pod.state,
        counted(len(kinds), "kind of change", "kinds of changes") if pod.rejectors else "",
    )


def build_wakes_page(report: WakesOfMany, style: Style) -> Page:
    """Build the page about the effect of changes: how many pods they wake, then a table per change."""
    (title,) = report.build_headline_parts()
    has_woken = any(answer.woken for answer in report.answers)
    page: list[Block] = [
        *build_interruption_line(report.interrupted, "the changes found so far"),
        paragraph(Marked(title, Tone.GOOD if has_woken else Tone.WARNING)),
    ]
    if report.not_created:
        page += build_not_created_section(report.not_created, style)
    page += build_caveats(report.not_replayed, report.ignored, unknown=report.unknown)
    if report.unheard:
        page.append(paragraph(Marked("Not watched:", Tone.WARNING), _describe_unwatched_changes(report.unheard)))
    if report.fitting:
        page.append(paragraph(Marked("Fit without the change:", Tone.GOOD), names(report.fitting)))
    page += _build_unserved_line(report)

    watched_changes = [change for change in report.changes if change not in report.unheard]
    shown_changes, note = limit_rows_by_style(watched_changes, style, SECTIONS_SHOWN)
    for change in shown_changes:
        page += _build_change_table(change, report.answers, style)
    if note:
        page.append(paragraph(Marked(note, Tone.FAINT)))
    return tuple(page)


def _describe_unwatched_changes(changes: Sequence[str]) -> str:
    """Describe the changes for which no plugin registered."""
    pronoun = "it" if len(changes) == 1 else "any of them"
    return f"{names(changes)}: no plugin of this scheduler registered for {pronoun}"


def _build_change_table(change: str, answers: Sequence[Wakes], style: Style) -> Page:
    """Build the table of the answers about one change. Woken pods come first."""
    shown = sorted((answer for answer in answers if answer.change == change), key=lambda answer: not answer.woken)
    return build_table(
        shown, (Column("pod", keep=True), Column("queue, hints")), _build_answer_row, style, title=change
    )


def _build_answer_row(answer: Wakes) -> Row:
    """Build the row of a pod: its queue after the change, and the hints by event."""
    if answer.woken:
        outcome, tone = f"to {answer.after}", Tone.GOOD
    elif answer.moved:
        outcome, tone = "leaves the queue for good", Tone.STRONG
    else:
        outcome, tone = f"stays {answer.after}", Tone.STRONG
    hint_lines = (Marked(f"{event.event}: {_format_hints(event.hints)}", Tone.FAINT) for event in answer.events)
    return (answer.pod, Stack((Marked(outcome, tone), *hint_lines)))


def _format_hints(hints: Mapping[str, str]) -> str:
    """Format the plugins' hints, grouped by hint. Without rejectors, there are no hints.

    >>> _format_hints({"A": "Queue", "B": "NotRegistered", "C": "Queue"})
    'Queue by A, C; not registered by B'
    """
    parts = []
    for hint, words in HINT_WORDS.items():
        plugins = [plugin for plugin, plugin_hint in hints.items() if plugin_hint == hint]
        if plugins:
            parts.append(f"{words} by {', '.join(plugins)}")
    return "; ".join(parts) or "no plugin rejected it"


HINT_WORDS = {"Queue": "Queue", "QueueSkip": "QueueSkip", "NotRegistered": "not registered"}
"""Hint -> the word for it, in display order."""


def _build_unserved_line(report: WakesOfMany | WakeUpsOfMany) -> Page:
    """Build the line about pods that no profile serves, if there are any."""
    if not report.unserved:
        return ()
    return (
        paragraph(Marked("Not replayed, since another scheduler is responsible:", Tone.FAINT), names(report.unserved)),
    )


def build_wakes_between_page(report: WakesBetween, style: Style) -> Page:
    """Build the page on two moments, with each pod and what woke it, missed pods first."""
    (summary,) = report.build_headline_parts()
    changes_text = f"{count(report.changes, 'change')} that the scheduler watches, {report.unheard:,} that it does not"
    if not report.pods:
        return (paragraph(Marked(summary, Tone.GOOD), f"{report.before} and {report.after}: {changes_text}"),)
    has_missed = any(pod.missed for pod in report.pods)
    return (
        paragraph(Marked(summary, Tone.BAD if has_missed else Tone.GOOD)),
        paragraph(Marked(f"{report.before} → {report.after}: {changes_text}", Tone.FAINT)),
        *build_left_out_lines(report.not_replayed, ()),
        *build_unread_kind_lines(report.unknown),
        *build_struct_table(
            report.pods, style, {"headline": lambda pod: Stack(tuple(_iter_pod_lines(pod, style)))}, title="Pods"
        ),
    )


def _iter_pod_lines(pod: PodBetween, style: Style) -> Iterator[Cell]:
    """Yield the lines about a pod: its headline, and the changes that woke it."""
    yield Marked(pod.headline, Tone.BAD if pod.missed else Tone.PLAIN)
    if pod.missed:
        yield Marked("it is retried only when its five minutes in the queue of unschedulable pods are over", Tone.BAD)
    shown, note = limit_rows_by_style(pod.woken_by, style, CHANGES_SHOWN)
    for change in shown:
        yield Marked(f"{change.change} ({', '.join(change.events)}): Queue by {', '.join(change.by)}", Tone.FAINT)
    not_kept = pod.waking_changes - len(pod.woken_by)
    if not note and not_kept > 0:
        note = f"… {not_kept:,} more, which were only counted"
    yield Marked(note, Tone.FAINT)
