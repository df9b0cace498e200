"""What would let a pod schedule: each fix with its commands beneath it, and what cannot help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from kschedctl.render.page import (
    Block,
    Bullets,
    Cell,
    Command,
    Marked,
    Page,
    Stack,
    Style,
    Verbatim,
    first_rows,
    names,
    paragraph,
    section,
    verdict_words,
)
from kschedctl.render.pages.make_room import moves_sections
from kschedctl.render.pages.not_created import not_created_section
from kschedctl.render.pages.sections import (
    caveats,
    interruption,
    marked_verdict,
    next_section,
    refused,
)
from kschedctl.render.pages.waiting_elsewhere import waiting_elsewhere_section
from kschedctl.render.tables import Row, table_of
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.remedies import OWNERS, ChosenRemedy, HelplessPods, Remedies, RemediesOfMany, Remedy
from kschedctl.reports.unknown import VERDICT, reasons, unless
from kschedctl.text.counts import counted

TITLE, TITLE_WITH_RIVALS = "Fixes, each verified by replay", "Fixes, each replayed with all waiting pods"
"""The second one is for lists with a fix that does not place the pod, as others take the room first."""
TITLE_OF_INCOMPLETE = "Not verified: these need values that only you know"
REMEDIES_SHOWN = 7


def remedies_page(report: Remedies, style: Style) -> Page:
    """The pod's verdict, then the remedies and how they are made."""
    return (
        *_verdict(report),
        *caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *remedies_section(report.remedies, report.impossible, style, with_manifests=True),
        *(moves_sections(report.make_room, style) if report.make_room else ()),
        *_searched(report),
        *_unchecked(report),
        *_waiting_elsewhere(report, style),
    )


def _verdict(report: Remedies) -> Page:
    pod = Marked(report.pod, Tone.STRONG)
    doubts = [unknown for unknown in report.unknown if unknown.affects == VERDICT]
    if report.undecided and doubts:
        verdict = Marked(f"{verdict_words(report.verdict)}, {unless(doubts)}:", Tone.WARNING)
        return (paragraph(pod, verdict, reasons(doubts)), paragraph(report.headline))
    _, _, headline_text = report.first_line()
    headline: Page = (paragraph(pod, marked_verdict(report.verdict, ":"), headline_text),)
    return (*headline, paragraph(Marked(report.stands_for, Tone.FAINT))) if report.stands_for else headline


def best_fix(remedies: Sequence[Remedy], style: Style) -> Page:
    """What to type first; in the browser the fixes themselves stand there."""
    if not remedies or style.patches:
        return ()
    best = remedies[0]
    drawbacks = "; ".join(best.drawbacks)
    summary = f"{best.summary}," if drawbacks else best.summary
    but = [Marked(f"but {drawbacks}", Tone.WARNING)] if drawbacks else []
    commands = best.commands if all(len(command) < style.width - 1 for command in best.commands) else ()
    label = "Not verified:" if best.needs_values else "Best fix:"
    return (paragraph(Marked(label, Tone.STRONG), summary, *but), *map(Command, commands))


def remedies_section(
    remedies: Sequence[Remedy],
    impossible: Sequence[str],
    style: Style,
    title: str = "",
    with_manifests: bool = False,
) -> Page:
    """Return each fix with its commands, those that need values under a heading of their own, and what cannot help.

    ``with_manifests`` shows the manifests to complete as YAML, which a page with patches always does.
    """
    shown, more = first_rows(remedies, style, REMEDIES_SHOWN)
    complete = sum(not remedy.needs_values for remedy in shown)
    blocks = [_fix_blocks(number, remedy, style, with_manifests) for number, remedy in enumerate(shown, 1)]
    rest: Page = (paragraph(Marked(more, Tone.FAINT)),) if more else ()
    page: Page = ()
    if complete:
        title = title or (TITLE_WITH_RIVALS if any(remedy.holds is False for remedy in remedies) else TITLE)
        page = section(title, *(block for fix in blocks[:complete] for block in fix))
    if complete < len(shown):
        page = (*page, *section(TITLE_OF_INCOMPLETE, *(block for fix in blocks[complete:] for block in fix)))
    page = (*page, *rest)
    if impossible:
        what = "What cannot help" if remedies else "No fix was found"
        page = (*page, *section(what, Bullets(tuple(impossible))))
    return page


def _fix_blocks(number: int, remedy: Remedy, style: Style, with_manifests: bool, facts: Sequence[Cell] = ()) -> Page:
    """Return a fix: its summary, ``facts`` and costs, then its commands and, if wanted, what is to be written."""
    lines: list[Cell] = [*facts]
    if remedy.alternatives:
        lines.append(Marked(f"or {names(tuple(map(_once, remedy.alternatives)))}", Tone.FAINT))
    lines += _costs(remedy)
    if not facts:
        lines.append(Marked(f"{OWNERS[remedy.by]}; makes schedulable on {_opens(remedy)}", Tone.FAINT))
    blocks: list[Block] = [paragraph(Marked(f"{number}", Tone.STRONG), remedy.summary), Bullets(tuple(lines))]
    blocks += map(Command, remedy.commands)
    if with_manifests or style.patches:
        blocks += _written(remedy, style)
    return tuple(blocks)


def _written(remedy: Remedy, style: Style) -> Iterator[Block]:
    """Yield the manifests to complete and, on a page with patches, the patch of what makes the pod, as YAML."""
    from kschedctl.render.data import to_yaml  # noqa: PLC0415 - YAML, which few pages need

    for manifest in remedy.manifests:
        yield Verbatim(f"manifest to complete: {', '.join(remedy.needs_values)}", to_yaml(manifest))
    if remedy.owner_patch and style.patches:
        yield Verbatim(f"strategic merge patch of {remedy.owner}", to_yaml(remedy.owner_patch))


def _costs(remedy: Remedy) -> Iterator[Cell]:
    """Yield what is against the fix, and how many other pods it places."""
    for drawback in remedy.drawbacks:
        yield Marked(f"but {drawback}", Tone.WARNING)
    if remedy.gain:
        yield Marked(remedy.gain, Tone.FAINT)


def _once(alternative: str) -> str:
    """Where several changes go to one place it is named once.

    >>> _once("w1 and w1"), _once("w1 and w2")
    ('w1', 'w1 and w2')
    """
    places = dict.fromkeys(alternative.split(" and "))
    return " and ".join(places)


def _opens(remedy: Remedy) -> str:
    if len(remedy.opens) == 1:
        return remedy.opens[0]
    return f"{len(remedy.opens):,} nodes: {names(remedy.opens)}"


def many_page(report: RemediesOfMany, style: Style) -> Page:
    """How many the chosen changes clear; each change, how it is made, and who still waits."""
    title, *where = report.first_line()
    lacking = not_created_section(report.not_created, style) if report.not_created else ()
    if not report.waiting:
        elsewhere = next_section(style, "But elsewhere") if report.elsewhere else ()
        tone = Tone.WARNING if report.waiting_elsewhere else Tone.GOOD
        nothing = paragraph(Marked(title, tone), *where)
        return (*lacking, nothing, *_waiting_elsewhere(report, style), *elsewhere)
    note = paragraph(Marked("chosen greedily, and simulated one after the other", Tone.FAINT))
    blocks = [_chosen_blocks(number, chosen, style) for number, chosen in enumerate(report.chosen, 1)]
    fixes = (*(block for fix in blocks for block in fix), note) if blocks else ()
    partly = "not all that may help was tried: there may be better ones"
    return (
        *section(title, *fixes),
        *interruption(report.interrupted),
        *(() if report.complete else (paragraph(Marked("Not complete:", Tone.WARNING), partly),)),
        *caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *lacking,
        *_left(report.left, style),
        *_waiting_elsewhere(report, style),
    )


def _chosen_blocks(number: int, chosen: ChosenRemedy, style: Style) -> Page:
    """Return one of the fixes for many pods: whose pods it changes, how many it clears, and its commands."""
    facts = [Marked(f"of {names(chosen.workloads)}", Tone.FAINT)] if chosen.workloads else []
    clears = Marked(f"{OWNERS[chosen.remedy.by]}; clears {counted(len(chosen.clears), 'pod')}", Tone.FAINT)
    return _fix_blocks(number, chosen.remedy, style, with_manifests=True, facts=(*facts, clears))


def _left(left: Sequence[HelplessPods], style: Style) -> Page:
    columns = (Column("pods", right=True), Column("workload and why"))
    return table_of(left, columns, partial(_waiting, style=style), style, title="Still waiting")


def _waiting(pods: HelplessPods, style: Style) -> Row:
    return (f"{len(pods.pods):,}", Stack((Marked(pods.workload, Tone.STRONG), *refused(pods.message, style))))


def _waiting_elsewhere(report: Remedies | RemediesOfMany, style: Style) -> Page:
    """Build the table of the objects of the files whose pods kube-scheduler does not see yet."""
    return waiting_elsewhere_section(report.waiting_elsewhere, style) if report.waiting_elsewhere else ()


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
