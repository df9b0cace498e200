"""What would let a pod schedule: each fix with its commands beneath it, and what cannot help."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kschedctl.commands.make_room.page import build_moves_sections
from kschedctl.commands.remedies.report import ChosenRemedy, HelplessPods, Remedies, RemediesOfMany
from kschedctl.render.fixes import _build_fix, build_fixes_section
from kschedctl.render.not_created import build_not_created_section
from kschedctl.render.page import (
    Marked,
    Page,
    Stack,
    Style,
    describe_verdict,
    names,
    paragraph,
    section,
)
from kschedctl.render.sections import (
    build_caveats,
    build_interruption,
    build_next_section,
    describe_message,
    mark_verdict,
)
from kschedctl.render.tables import Row, build_table
from kschedctl.render.waiting_elsewhere import build_held_back_section
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.remedy import TEAMS
from kschedctl.reports.unknown import VERDICT, describe_unread, describe_verdict_doubts
from kschedctl.text.counts import counted


def remedies_page(report: Remedies, style: Style) -> Page:
    """The pod's verdict, then the remedies and how they are made."""
    return (
        *_verdict(report),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *build_fixes_section(report.remedies, report.impossible, style, with_manifests=True),
        *(build_moves_sections(report.make_room, style) if report.make_room else ()),
        *_searched(report),
        *_unchecked(report),
        *_waiting_elsewhere(report, style),
    )


def _verdict(report: Remedies) -> Page:
    pod = Marked(report.pod, Tone.STRONG)
    doubts = [unknown for unknown in report.unknown if unknown.affects == VERDICT]
    if report.undecided and doubts:
        verdict = Marked(f"{describe_verdict(report.verdict)}, {describe_verdict_doubts(doubts)}:", Tone.WARNING)
        return (paragraph(pod, verdict, describe_unread(doubts)), paragraph(report.headline))
    _, _, headline_text = report.first_line()
    headline: Page = (paragraph(pod, mark_verdict(report.verdict, ":"), headline_text),)
    return (*headline, paragraph(Marked(report.stands_for, Tone.FAINT))) if report.stands_for else headline


def many_page(report: RemediesOfMany, style: Style) -> Page:
    """How many the chosen changes clear; each change, how it is made, and who still waits."""
    title, *where = report.first_line()
    lacking = build_not_created_section(report.not_created, style) if report.not_created else ()
    if not report.waiting:
        elsewhere = build_next_section(style, "But elsewhere") if report.elsewhere else ()
        tone = Tone.WARNING if report.waiting_elsewhere else Tone.GOOD
        nothing = paragraph(Marked(title, tone), *where)
        return (*lacking, nothing, *_waiting_elsewhere(report, style), *elsewhere)
    note = paragraph(Marked("chosen greedily, and simulated one after the other", Tone.FAINT))
    blocks = [_chosen_blocks(number, chosen, style) for number, chosen in enumerate(report.chosen, 1)]
    fixes = (*(block for fix in blocks for block in fix), note) if blocks else ()
    partly = "not all that may help was tried: there may be better ones"
    return (
        *section(title, *fixes),
        *build_interruption(report.interrupted),
        *(() if report.complete else (paragraph(Marked("Not complete:", Tone.WARNING), partly),)),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *lacking,
        *_left(report.left, style),
        *_waiting_elsewhere(report, style),
    )


def _chosen_blocks(number: int, chosen: ChosenRemedy, style: Style) -> Page:
    """Return one of the fixes for many pods: whose pods it changes, how many it clears, and its commands."""
    facts = [Marked(f"of {names(chosen.workloads)}", Tone.FAINT)] if chosen.workloads else []
    clears = Marked(f"{TEAMS[chosen.remedy.by]}; clears {counted(len(chosen.clears), 'pod')}", Tone.FAINT)
    return _build_fix(number, chosen.remedy, style, with_manifests=True, facts=(*facts, clears))


def _left(left: Sequence[HelplessPods], style: Style) -> Page:
    columns = (Column("pods", right=True), Column("workload and why"))
    return build_table(left, columns, partial(_waiting, style=style), style, title="Still waiting")


def _waiting(pods: HelplessPods, style: Style) -> Row:
    return (f"{len(pods.pods):,}", Stack((Marked(pods.workload, Tone.STRONG), *describe_message(pods.message, style))))


def _waiting_elsewhere(report: Remedies | RemediesOfMany, style: Style) -> Page:
    """Build the table of the objects of the files whose pods kube-scheduler does not see yet."""
    return build_held_back_section(report.waiting_elsewhere, style) if report.waiting_elsewhere else ()


def _searched(report: Remedies) -> Page:
    """A note that there may be more."""
    if report.searched is None or report.searched.complete:
        return ()
    more = f"the search ended after {counted(report.searched.replays, 'replay')}: there may be more"
    return (paragraph(Marked("Not complete:", Tone.WARNING), more),)


def _unchecked(report: Remedies) -> Page:
    """Return a note on the fixes that were not replayed with the other waiting pods, if others were."""
    held = [remedy.holds for remedy in report.remedies if not remedy.needs_values]
    unchecked = sum(holds is None for holds in held)
    if not unchecked or unchecked == len(held):
        return ()
    return (
        paragraph(
            Marked(
                f"The last {counted(unchecked, 'verified fix', 'verified fixes')}: replayed for this pod alone",
                Tone.FAINT,
            )
        ),
    )
