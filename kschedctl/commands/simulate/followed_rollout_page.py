"""The page of a FollowedRollout: pods that the replay would have placed elsewhere, and possible causes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.commands.simulate.following_report import (
    BEST_OF_A_PART,
    DIFFERING_OUTCOMES,
    NOT_BEST,
    NOT_COMPARED,
    NOT_FEASIBLE,
    NOT_LOOKED_AT,
    OTHER_SCHEDULER,
    UNKNOWN_NODE,
    UNKNOWN_POD,
    FollowedPlacement,
    FollowedRollout,
)
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
from kschedctl.render.sections import build_caveats, build_interruption_line
from kschedctl.render.tables import build_table
from kschedctl.reports.columns import Column, Tone
from kschedctl.text.counts import agreeing

MEANINGS = {
    NOT_FEASIBLE: (
        "not feasible: the scheduler saw other pods or nodes, because its cache was stale or pods have gone since"
    ),
    NOT_BEST: "not the best: the scheduler had an extender, a plugin or weights that this configuration lacks "
    "(--config), or images or labels of nodes have changed since",
    NOT_LOOKED_AT: "not evaluated: kube-scheduler's search for nodes began elsewhere (--start-index)",
    OTHER_SCHEDULER: (
        "another scheduler places pods on these nodes, and neither scheduler knows what the other is about to do"
    ),
    UNKNOWN_NODE: "unknown node: it has been removed since, or these nodes are from another cluster",
}
"""Possible causes of each outcome that overlapping bindings do not explain."""
OVERLAP = (
    "overlapping bindings: the replay agrees if the pod was tried before or after the named pods. An event has the "
    "time at which a binding was done, and bindings of a burst wait for each other"
)
MAX_SHOWN_PLUGINS = 4
"""The maximum number of plugins whose points are listed."""


def build_page(report: FollowedRollout, style: Style) -> Page:
    """Build the page: the verdict, caveats, differing pods with their possible causes, pods not compared, and notes."""
    differing = [placement for placement in report.placements if placement.outcome in DIFFERING_OUTCOMES]
    not_compared = [placement for placement in report.placements if placement.outcome in (UNKNOWN_POD, NOT_COMPARED)]
    outcomes = {placement.outcome for placement in differing if not placement.overlapping}
    causes = [text for outcome, text in MEANINGS.items() if outcome in outcomes]
    if any(placement.overlapping for placement in differing):
        causes.insert(0, OVERLAP)
    return (
        *build_interruption_line(report.interrupted),
        *_iter_verdict_lines(report),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown, report.search_start),
        *_build_placements_table("Otherwise", differing, style),
        *(section("Possible causes", Bullets(tuple(causes))) if causes else ()),
        *_build_placements_table("Not compared", not_compared, style),
        *(section("Notes", Bullets(report.assumed)) if report.assumed else ()),
    )


def _iter_verdict_lines(report: FollowedRollout) -> Iterator[Paragraph]:
    """Yield the verdict, and how many placements overlapping bindings or sampling may explain."""
    verdict, sentence = report.build_first_line()
    agreed = Tone.GOOD if report.agree and not report.undecided else Tone.WARNING
    yield paragraph(Marked(verdict, Tone.BAD if report.otherwise else agreed), sentence)
    reordered = sum(bool(placement.order) for placement in report.placements)
    if reordered:
        yield paragraph(
            f"{reordered:,} of these agree only if tried milliseconds before or after the time in the event, because "
            "bindings overlap"
        )
    overlapping = sum(bool(placement.overlapping) for placement in report.placements)
    if overlapping:
        yield paragraph(
            f"overlapping bindings could explain {overlapping:,} of {count(report.otherwise, 'pod')} placed otherwise"
        )
    best_of_part = sum(placement.outcome == BEST_OF_A_PART for placement in report.placements)
    if best_of_part:
        was_best = agreeing(best_of_part, "was the best", "were the best")
        yield paragraph(f"{best_of_part:,} of these {was_best} of the part of the nodes that kube-scheduler evaluates")


def _build_placements_table(title: str, placements: Sequence[FollowedPlacement], style: Style) -> Page:
    """Build a table of placements, each with lines that say how the replay differs."""
    columns = (Column("pod", keep=True), Column("node", keep=True), Column("why"))
    return build_table(
        placements,
        columns,
        lambda placement: (placement.pod, placement.node, Stack(tuple(_iter_placement_explanations(placement)))),
        style,
        title=title,
    )


def _iter_placement_explanations(placement: FollowedPlacement) -> Iterator[str]:
    """Yield lines on how the replay differs, and on the overlapping bindings that may explain the difference."""
    yield from _iter_replay_difference_lines(placement)
    before = [binding for binding in placement.overlapping if binding.milliseconds <= 0]
    after = [binding for binding in placement.overlapping if binding.milliseconds > 0]
    for word, bindings in (("before", before), ("after", after)):
        if bindings:
            descriptions = [
                f"{binding.pod} ({binding.node}, {abs(binding.milliseconds):,} ms {word})" for binding in bindings
            ]
            yield f"as replayed if tried {word} {names(descriptions)}"


def _iter_replay_difference_lines(placement: FollowedPlacement) -> Iterator[str]:
    """Yield lines that say why the replay would have placed the pod on another node, or why it cannot tell."""
    outcome = placement.outcome
    if outcome == NOT_FEASIBLE:
        yield f"rejected by {placement.plugin or 'PreFilter'}: {', '.join(placement.reasons)}"
        yield f"{count(placement.feasible, 'other node')} {agreeing(placement.feasible, 'fits', 'fit')}"
    elif outcome == NOT_BEST:
        largest_losses = sorted(placement.lost.items(), key=lambda item: -abs(item[1]))[:MAX_SHOWN_PLUGINS]
        yield f"{count(placement.behind, 'point')} behind {names(placement.best)}"
        yield ", ".join(f"{plugin} {-points:+}" for plugin, points in largest_losses)
    elif outcome == OTHER_SCHEDULER:
        yield f"placed by {placement.scheduler or 'another scheduler'}, which no profile replays"
    elif outcome == UNKNOWN_NODE:
        yield "the cluster has no such node"
    elif outcome == NOT_LOOKED_AT:
        yield "it fits, but is not among the nodes that were searched"
    else:
        yield ", ".join(placement.reasons)
