"""The page of a FollowedRollout: which pods went otherwise than the replay has it, why, and what it may come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.render.page import (
    Bullets,
    Marked,
    Page,
    Paragraph,
    Stack,
    Style,
    count,
    names,
    paragraph,
    section,
)
from kschedctl.render.pages.sections import (
    caveats,
    interruption,
)
from kschedctl.render.tables import table_of
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.following import (
    BEST_OF_A_PART,
    NOT_BEST,
    NOT_COMPARED,
    NOT_FEASIBLE,
    NOT_LOOKED_AT,
    OTHER_SCHEDULER,
    OTHERWISE,
    UNKNOWN_NODE,
    UNKNOWN_POD,
    FollowedPlacement,
    FollowedRollout,
)
from kschedctl.reports.unknown import doubt

MEANINGS = {
    NOT_FEASIBLE: "not feasible: the scheduler saw other pods or nodes than these: a stale cache, or pods gone since",
    NOT_BEST: "not the best: an extender, a plugin or weights that this configuration does not have (--config), "
    "or nodes that changed since: images, labels",
    NOT_LOOKED_AT: "not looked at: its search for nodes began elsewhere (--start-index)",
    OTHER_SCHEDULER: "another scheduler places pods on these nodes, and neither knows what the other is about to do",
    UNKNOWN_NODE: "unknown node: it was removed since, or these are not the nodes of that cluster",
}
"""What an outcome may come from, where no overlapping bindings explain it."""
OVERLAP = (
    "bindings that overlap: as replayed, had the pods that are named been tried after it, or before: an event tells "
    "when a binding is done, and in a burst they wait for each other"
)
PLUGINS_TOLD = 4


def followed_rollout_page(report: FollowedRollout, style: Style) -> Page:
    """All sections that have something to say."""
    otherwise = [each for each in report.placements if each.outcome in OTHERWISE]
    silent = [each for each in report.placements if each.outcome in (UNKNOWN_POD, NOT_COMPARED)]
    outcomes = {each.outcome for each in otherwise if not each.overlapping}
    meanings = (OVERLAP,) * any(each.overlapping for each in otherwise)
    meanings += tuple(text for outcome, text in MEANINGS.items() if outcome in outcomes)
    return (
        *interruption(report.interrupted),
        *_verdict(report),
        *caveats(report.not_replayed, report.ignored, report.extended, report.unknown, report.search_start),
        *_table("Otherwise", otherwise, style),
        *(section("What it may come from", Bullets(meanings)) if meanings else ()),
        *_table("Not compared", silent, style),
        *(section("Notes", Bullets(report.assumed)) if report.assumed else ()),
    )


def _verdict(report: FollowedRollout) -> Iterator[Paragraph]:
    total = len(report.placements)
    if report.otherwise:
        word = Marked(f"{report.otherwise:,} of {count(total, 'pod')} placed otherwise:", Tone.BAD)
    elif report.agree:
        word = Marked("As replayed:", Tone.WARNING if report.undecided else Tone.GOOD)
    else:
        word = Marked("Nothing compared:", Tone.WARNING)
    told = f"{report.agree:,} of {count(total, 'pod')} went to a node that the replay has among the best"
    yield paragraph(word, f"{told}{doubt(report.unknown)}")
    moved = sum(bool(each.order) for each in report.placements)
    if moved:
        yield paragraph(f"{moved:,} of these if tried milliseconds sooner or later than the event: bindings overlap")
    overlaps = sum(bool(each.overlapping) for each in report.placements)
    if overlaps:
        yield paragraph(
            f"bindings that overlap could explain {overlaps:,} of the {report.otherwise:,} placed otherwise"
        )
    part = sum(each.outcome == BEST_OF_A_PART for each in report.placements)
    if part:
        chose = "was the best" if part == 1 else "were the best"
        yield paragraph(f"{part:,} of these {chose} of a part of the nodes, as kube-scheduler looks at no more")


def _table(title: str, placements: Sequence[FollowedPlacement], style: Style) -> Page:
    columns = (Column("pod", keep=True), Column("node", keep=True), Column("why"))
    return table_of(
        placements, columns, lambda each: (each.pod, each.node, Stack(tuple(_why(each)))), style, title=title
    )


def _why(placement: FollowedPlacement) -> Iterator[str]:
    """What the replay says instead, and which pods that were bound at the same time explain it."""
    yield from _instead(placement)
    for before in (True, False):
        found = [each for each in placement.overlapping if (each.milliseconds <= 0) is before]
        if found:
            told = [f"{each.pod} ({each.node}, {abs(each.milliseconds):,} ms {_side(before)})" for each in found]
            yield f"as replayed if tried {_side(before)} {names(told)}"


def _side(before: bool) -> str:
    return "before" if before else "after"


def _instead(placement: FollowedPlacement) -> Iterator[str]:
    match placement.outcome:
        case outcome if outcome == NOT_FEASIBLE:
            yield f"refused by {placement.plugin or 'PreFilter'}: {', '.join(placement.reasons)}"
            yield f"{count(placement.feasible, 'other node')} {'fits' if placement.feasible == 1 else 'fit'}"
        case outcome if outcome == NOT_BEST:
            by = sorted(placement.lost.items(), key=lambda item: -abs(item[1]))[:PLUGINS_TOLD]
            yield f"{count(placement.behind, 'point')} behind {names(placement.best)}"
            yield ", ".join(f"{plugin} {-points:+}" for plugin, points in by)
        case outcome if outcome == OTHER_SCHEDULER:
            yield f"placed by {placement.scheduler or 'another scheduler'}, which no profile replays"
        case outcome if outcome == UNKNOWN_NODE:
            yield "there is no such node here"
        case outcome if outcome == NOT_LOOKED_AT:
            yield "it fits, but is not in the part of the nodes that was searched"
        case _:
            yield ", ".join(placement.reasons)
