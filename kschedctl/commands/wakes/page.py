"""The pages of ``wakes``: kinds of changes, effects of given changes, and changes between two moments."""

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
from kschedctl.render.not_created import build_not_created_section, iter_not_created_lines
from kschedctl.render.page import (
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
from kschedctl.render.sections import build_caveats, build_left_out_lines, build_not_known_lines
from kschedctl.render.tables import Row, build_struct_table, build_table
from kschedctl.reports.columns import Column, Tone

FLUSH = "else it is tried again after five minutes (podMaxInUnschedulablePodsDuration)"
NO_FLUSH = "else it is not tried at all, however long that takes"
CHANGES_SHOWN, SECTIONS_SHOWN = 5, 10


def build_wake_ups_page(report: WakeUps, style: Style) -> Page:
    """Build the page with the rejectors of the pod, and under each plugin what would change its answer."""
    if report.not_created:
        return (*iter_not_created_lines(report.not_created, style), *_describe_workload(report))
    waits = report.queue == UNSCHEDULABLE
    pod, sentence = report.first_line()
    said = Marked(sentence, Tone.WARNING if waits or report.undecided else Tone.GOOD)
    message = (paragraph(Marked(report.message, Tone.FAINT)),) if report.message and waits else ()
    return (
        paragraph(Marked(pod, Tone.STRONG), said),
        *_describe_workload(report),
        *message,
        *build_caveats(report.not_replayed, report.ignored, unknown=report.unknown),
        *build_pod_group_section(report.pod_group, style),
        *(block for rejector in report.rejectors for block in _build_rejector(rejector)),
        *((paragraph(Marked(NO_FLUSH if report.gating_plugin else FLUSH, Tone.FAINT)),) if waits else ()),
    )


def _describe_workload(report: WakeUps) -> Page:
    return (paragraph(Marked(report.stands_for, Tone.FAINT)),) if report.stands_for else ()


def _build_rejector(rejector: RejectorReport) -> Page:
    until = paragraph(Marked(f"{rejector.why}, until" if rejector.why else "waits until", Tone.FAINT))
    ways: tuple[Cell, ...] = tuple(wake_up.words for wake_up in rejector.wake_ups) or (
        "nothing that happens in a cluster",
    )
    return section(rejector.plugin, until, Bullets(ways))


def build_many_wake_ups_page(report: WakeUpsOfMany, style: Style) -> Page:
    """Build the page with one row per pod."""
    title, *where = report.first_line()
    if not report.pods:
        return (paragraph(Marked(title, Tone.GOOD), *where), *_list_unserved(report))
    return (
        *build_struct_table(report.pods, style, title=title),
        *build_caveats(report.not_replayed, report.ignored, unknown=report.unknown),
        *_list_unserved(report),
    )


def build_wakes_page(report: WakesOfMany, style: Style) -> Page:
    """Build the page with the number of woken pods, and for each change the answers of the rejecting plugins."""
    (title,) = report.first_line()
    woken = any(answer.woken for answer in report.answers)
    heard = [change for change in report.changes if change not in report.unheard]
    shown, note = limit_rows_by_style(heard, style, SECTIONS_SHOWN)
    return (
        paragraph(Marked(title, Tone.GOOD if woken else Tone.WARNING)),
        *(build_not_created_section(report.not_created, style) if report.not_created else ()),
        *build_caveats(report.not_replayed, report.ignored, unknown=report.unknown),
        *(
            (paragraph(Marked("not heard of:", Tone.WARNING), _describe_unwatched(report.unheard)),)
            if report.unheard
            else ()
        ),
        *((paragraph(Marked("fit anyway:", Tone.GOOD), names(report.fitting)),) if report.fitting else ()),
        *_list_unserved(report),
        *(block for change in shown for block in _build_change_table(change, report.answers, style)),
        *((paragraph(Marked(note, Tone.FAINT)),) if note else ()),
    )


def _describe_unwatched(changes: Sequence[str]) -> str:
    return f"{names(changes)}: no plugin of this scheduler asks for {'it' if len(changes) == 1 else 'any of it'}"


def _build_change_table(change: str, answers: Sequence[Wakes], style: Style) -> Page:
    """Build the table of one change, woken pods first."""
    shown = sorted((answer for answer in answers if answer.change == change), key=lambda answer: not answer.woken)
    return build_table(shown, (Column("pod", keep=True), Column("queue, hints")), _build_row, style, title=change)


def _build_row(answer: Wakes) -> Row:
    """Return the pod, the queue it goes to, and what each plugin answers to each event."""
    then, tone = (f"to {answer.after}", Tone.GOOD) if answer.woken else (f"stays {answer.after}", Tone.STRONG)
    if answer.moved and not answer.woken:
        then = "leaves the queue for good"
    said = (Marked(f"{event.event}: {_format_hints(event.hints)}", Tone.FAINT) for event in answer.events)
    return (answer.pod, Stack((Marked(then, tone), *said)))


def _format_hints(hints: Mapping[str, str]) -> str:
    """Format the plugins' answers, grouped by answer.

    >>> _format_hints({"A": "Queue", "B": "NotRegistered", "C": "Queue"})
    'Queue by A, C; not asked for by B'
    """
    by_hint = {hint: [plugin for plugin, said in hints.items() if said == hint] for hint in HINTS}
    return (
        "; ".join(f"{HINTS[h]} by {', '.join(hinting)}" for h, hinting in by_hint.items() if hinting)
        or "none refused it"
    )


HINTS = {"Queue": "Queue", "QueueSkip": "QueueSkip", "NotRegistered": "not asked for"}
"""The word for each hint, in display order."""


def _list_unserved(report: WakesOfMany | WakeUpsOfMany) -> Page:
    if not report.unserved:
        return ()
    return (paragraph(Marked("not this scheduler's:", Tone.FAINT), names(report.unserved)),)


def build_between_page(report: WakesBetween, style: Style) -> Page:
    """Build the page with each pod and what woke it, missed pods first."""
    (said,) = report.first_line()
    heard = f"{count(report.changes, 'change')} that the scheduler heard of, {report.unheard:,} that it did not"
    if not report.pods:
        return (paragraph(Marked(said, Tone.GOOD), f"{report.before} and {report.after}: {heard}"),)
    missed = any(pod.missed for pod in report.pods)
    return (
        paragraph(Marked(said, Tone.BAD if missed else Tone.GOOD)),
        paragraph(Marked(f"{report.before} → {report.after}: {heard}", Tone.FAINT)),
        *build_left_out_lines(report.not_replayed, ()),
        *build_not_known_lines(report.unknown),
        *build_struct_table(
            report.pods, style, {"headline": lambda pod: Stack(tuple(_iter_lines(pod, style)))}, title="Pods"
        ),
    )


def _iter_lines(pod: PodBetween, style: Style) -> Iterator[Cell]:
    yield Marked(pod.headline, Tone.BAD if pod.missed else Tone.PLAIN)
    if pod.missed:
        yield Marked("it waits for the flush of the unschedulable pods, after five minutes", Tone.BAD)
    shown, note = limit_rows_by_style(pod.woken_by, style, CHANGES_SHOWN)
    for change in shown:
        yield Marked(f"{change.change} ({', '.join(change.events)}): Queue by {', '.join(change.by)}", Tone.FAINT)
    counted = pod.waking_changes - len(pod.woken_by)
    yield Marked(note or (f"… {counted:,} more, which were counted only" if counted > 0 else ""), Tone.FAINT)
