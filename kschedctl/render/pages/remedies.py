"""What would let a pod schedule: the remedies in a table, how each is made, and what cannot help."""

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
    count,
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
    refused,
)
from kschedctl.render.tables import Row, numbers, table_of
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.remedies import OWNERS, ChosenRemedy, HelplessPods, Remedies, RemediesOfMany, Remedy
from kschedctl.reports.unknown import VERDICT, reasons, unless
from kschedctl.text.counts import counted

TITLE, TITLE_WITH_RIVALS = "Fixes, each verified by replay", "Fixes, each replayed with all waiting pods"
"""The second one is for lists with a fix that does not place the pod, as others take the room first."""
REMEDIES_SHOWN = 7


def remedies_page(report: Remedies, style: Style) -> Page:
    """The pod's verdict, then the remedies and how they are made."""
    return (
        *_verdict(report),
        *caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *remedies_section(report.remedies, report.impossible, style),
        *(moves_sections(report.make_room, style) if report.make_room else ()),
        *how_section(first_rows(report.remedies, style, REMEDIES_SHOWN)[0], style),
        *_searched(report),
        *_unchecked(report),
    )


def _verdict(report: Remedies) -> Page:
    pod = Marked(report.pod, Tone.STRONG)
    if report.undecided:
        doubts = [unknown for unknown in report.unknown if unknown.affects == VERDICT]
        verdict = Marked(f"{verdict_words(report.verdict)}, {unless(doubts)}:", Tone.WARNING)
        return (paragraph(pod, verdict, reasons(doubts)), paragraph(report.headline))
    headline: Page = (paragraph(pod, marked_verdict(report.verdict, ":"), report.headline),)
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
    return (paragraph(Marked("Best fix:", Tone.STRONG), summary, *but), *map(Command, commands))


def remedies_section(remedies: Sequence[Remedy], impossible: Sequence[str], style: Style, title: str = "") -> Page:
    """One row a remedy, the best first; then why kinds of them cannot exist."""
    page: Page = ()
    if remedies:
        title = title or (TITLE_WITH_RIVALS if any(remedy.holds is False for remedy in remedies) else TITLE)
        columns = [Column("#", right=True), Column("fix"), Column("owner", keep=True), Column("makes schedulable on")]
        if style.narrow:
            columns = columns[:2]
        numbered = [*enumerate(remedies, 1)]
        page = table_of(numbered, columns, partial(_row, style=style), style, title=title, limit=REMEDIES_SHOWN)
    if impossible:
        what = "What cannot help" if remedies else "No fix was found"
        page = (*page, *section(what, Bullets(tuple(impossible))))
    return page


def _row(numbered: tuple[int, Remedy], style: Style) -> Row:
    number, remedy = numbered
    opens = _opens(remedy)
    cells: list[Cell] = [remedy.summary]
    if remedy.alternatives:
        cells.append(Marked(f"or {names(tuple(map(_once, remedy.alternatives)))}", Tone.FAINT))
    cells += _costs(remedy)
    if style.narrow:
        cells.append(Marked(f"{OWNERS[remedy.by]}; makes schedulable on {opens}", Tone.FAINT))
        return (f"{number}", Stack(tuple(cells)))
    return (f"{number}", Stack(tuple(cells)), OWNERS[remedy.by], opens)


def _costs(remedy: Remedy) -> Iterator[Cell]:
    """Yield what is against the fix, which running pods restart, and how many other pods it places."""
    for drawback in remedy.drawbacks:
        yield Marked(f"but {drawback}", Tone.WARNING)
    if remedy.restarts:
        yield Marked(f"restarts {count(remedy.restarts, 'running pod')} of {remedy.owner}", Tone.FAINT)
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
        return (*lacking, paragraph(Marked(title, Tone.GOOD), *where))
    columns = [*numbers("#"), Column("fix"), Column("owner", keep=True), *numbers("clears")]
    note = "chosen greedily, and simulated one after the other"
    table = table_of([*enumerate(report.chosen, 1)], columns, _chosen, limit=None, note=note)
    partly = "not all that may help was tried: there may be better ones"
    return (
        *section(title, *table),
        *interruption(report.interrupted),
        *(() if report.complete else (paragraph(Marked("Not complete:", Tone.WARNING), partly),)),
        *caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *how_section([chosen.remedy for chosen in report.chosen], style),
        *lacking,
        *_left(report.left, style),
    )


def _chosen(numbered: tuple[int, ChosenRemedy]) -> Row:
    number, chosen = numbered
    remedy = chosen.remedy
    cells: list[Cell] = [remedy.summary]
    if chosen.workloads:
        cells.append(Marked(f"of {names(chosen.workloads)}", Tone.FAINT))
    cells += _costs(remedy)
    return (f"{number}", Stack(tuple(cells)), OWNERS[remedy.by], f"{len(chosen.clears):,}")


def _left(left: Sequence[HelplessPods], style: Style) -> Page:
    columns = (Column("pods", right=True), Column("workload and why"))
    return table_of(left, columns, partial(_waiting, style=style), style, title="Still waiting")


def _waiting(pods: HelplessPods, style: Style) -> Row:
    return (f"{len(pods.pods):,}", Stack((Marked(pods.workload, Tone.STRONG), *refused(pods.message, style))))


def how_section(remedies: Sequence[Remedy], style: Style) -> Page:
    """The commands of each remedy, under its number; with ``patches`` also the patch of what makes the pod."""
    blocks = tuple(
        block
        for number, remedy in enumerate(remedies, 1)
        if remedy.commands or (remedy.owner_patch and style.patches)
        for block in _made(number, remedy, style)
    )
    return section("How", *blocks) if blocks else ()


def _made(number: int, remedy: Remedy, style: Style) -> Iterator[Block]:
    rivals = [Marked(f"but {remedy.drawbacks[0]}", Tone.WARNING)] if remedy.holds is False else []
    yield paragraph(Marked(f"{number}", Tone.STRONG), Marked(remedy.summary, Tone.FAINT), *rivals)
    yield from map(Command, remedy.commands)
    if remedy.owner_patch and style.patches:
        from kschedctl.render.data import to_yaml  # noqa: PLC0415 - YAML, which few pages need

        yield Verbatim(f"strategic merge patch of {remedy.owner}", to_yaml(remedy.owner_patch))


def _searched(report: Remedies) -> Page:
    """A note that there may be more."""
    if report.searched is None or report.searched.complete:
        return ()
    more = f"the search ended after {report.searched.replays:,} replays: there may be more"
    return (paragraph(Marked("Not complete:", Tone.WARNING), more),)


def _unchecked(report: Remedies) -> Page:
    """Return a note on the fixes that were not replayed with the other waiting pods, if others were."""
    held = [remedy.holds for remedy in report.remedies]
    unchecked = sum(holds is None for holds in held)
    if not unchecked or unchecked == len(held):
        return ()
    return (
        paragraph(Marked(f"The last {counted(unchecked, 'fix', 'fixes')}: replayed for this pod alone", Tone.FAINT)),
    )
