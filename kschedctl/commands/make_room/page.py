"""The page of a make-room report: the moves and commands, or the reasons why no move helps."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from kschedctl.api.resource_names import format_amounts_for_sentence
from kschedctl.commands.make_room.report import FragmentedResource, MakeRoom, PlacedPod, SearchedPlans
from kschedctl.render.page import Bullets, Command, Marked, Page, Style, paragraph, section
from kschedctl.render.sections import (
    build_caveats,
    build_interruption_line,
    build_next_section,
    build_pools_before_and_after,
)
from kschedctl.render.tables import build_struct_table
from kschedctl.reports.columns import Tone
from kschedctl.reports.remedy import chain_commands
from kschedctl.text.counts import agreeing, counted, first_few, join_words

NEXT_FIXES = "Next (find other changes that would let the pod fit)"
"""The title of the section with the command that searches for other fixes."""


def build_page(report: MakeRoom, style: Style) -> Page:
    """Build the page of a make-room report. Sections without content are left out."""
    verdict, pods, sentence = report.build_headline_parts()
    if report.undecided or report.interrupted or report.ended_at_limit:
        tone = Tone.WARNING
    elif report.fits:
        tone = Tone.GOOD
    else:
        tone = Tone.BAD
    return (
        *build_interruption_line(report.interrupted, "the best plan found so far"),
        paragraph(Marked(verdict, tone), Marked(pods, Tone.STRONG), sentence),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *(paragraph(Marked(f"{text[:1].upper()}{text[1:]}.", Tone.BAD)) for text in report.describe_pods_not_created()),
        *_build_preemption_warning(report),
        *_build_rivals_warning(report),
        *_build_outranking_warning(report),
        *_build_fragmentation_warnings(report),
        *_build_outage_warnings(report),
        *_build_moves_table(report, style, "Moves, in this order"),
        *_build_fitting_pods_table(report, style),
        *build_struct_table(report.also_placed, style, title="Other waiting pods that get a node"),
        *build_pools_before_and_after(report.pools, style),
        *_build_unplaced_pods_section(report),
        *_build_search_section(report, style),
        *_build_commands_section(report, style),
        *_build_partial_plan_note(report),
        *build_next_section(style, "Next (simulate the new nodes)" if report.new_nodes else NEXT_FIXES),
    )


def build_moves_sections(report: MakeRoom, style: Style) -> Page:
    """Build the sections that offer the moves as an alternative to the pod's other fixes."""
    return (
        *_build_moves_table(report, style, f"Or move {counted(len(report.moves), 'pod')}"),
        *_build_commands_section(report, style),
    )


def _build_outage_warnings(report: MakeRoom) -> Page:
    """Build a warning for each move of the only running pod of a workload."""
    only_pod_moves = (move for move in report.moves if move.is_only_pod)
    return tuple(
        paragraph(Marked("Outage during the moves:", Tone.WARNING), move.outage_sentence) for move in only_pod_moves
    )


def _build_fitting_pods_table(report: MakeRoom, style: Style) -> Page:
    """Build the table of the pods that fit after the moves. Return () if there are no moves."""
    if not report.moves:
        return ()
    title = agreeing(len(report.placed), "Pod that fits", "Pods that fit") + " after these moves"
    return build_struct_table(report.placed, style, title=title)


def _build_partial_plan_note(report: MakeRoom) -> Page:
    """Build the note that the moves make room for only some of the pods. Return () if all fit, or without moves."""
    if report.fits or not report.moves:
        return ()
    return (paragraph("These moves make room for only some of the pods."),)


def _build_moves_table(report: MakeRoom, style: Style, title: str) -> Page:
    """Build the table of the report's moves in order."""
    return build_struct_table(report.moves, style, numbered="step", title=title, full=False)


def _build_commands_section(report: MakeRoom, style: Style) -> Page:
    """Build the section with the commands that carry out the moves or wait for terminating pods.

    Comments above the commands say what each move does. Return () if there are no commands.
    """
    if not report.moves:
        is_overdue = report.terminating_room is not None and report.terminating_room.overdue
        title = "Find out what keeps the terminating pods" if is_overdue else "Wait for"
        return section(title, *map(Command, chain_commands(report.commands))) if report.commands else ()
    title = "Commands"
    if report.missing:
        placed = len(report.pods) - len(report.missing)
        title = f"Commands that make room for {placed:,} of the {len(report.pods):,} pods"
    # Between commands joined by &&, a comment would end the chain in an interactive zsh
    return section(title, *map(Command, (*_iter_comments(report, style.width - 2), *chain_commands(report.commands))))


def _iter_comments(report: MakeRoom, width: int) -> Iterator[str]:
    """Yield the lines of the shell comments that say what each move does, wrapped at `width` characters."""
    for number, move in enumerate(report.moves, 1):
        yield from textwrap.wrap(f"# {number}. {move.describe()}", width, subsequent_indent="#    ")


def _build_preemption_warning(report: MakeRoom) -> Page:
    """Build the warning that kube-scheduler preempts pods before the plan is carried out. Return () if it does not."""
    if not report.preempts:
        return ()
    return (paragraph(Marked("Preempts:", Tone.WARNING), report.preemption_sentence),)


def _build_rivals_warning(report: MakeRoom) -> Page:
    """Build the warning that other replicas take the room first, or return () if there are none."""
    return (paragraph(Marked("Replicas:", Tone.WARNING), f"{report.rivals_sentence}."),) if report.rivals else ()


def _build_outranking_warning(report: MakeRoom) -> Page:
    """Build the warning that pods of a higher priority have to move, or return () if none has."""
    if not report.outranking:
        return ()
    return (paragraph(Marked("Outranks:", Tone.WARNING), f"{report.outranking_sentence}."),)


def _build_fragmentation_warnings(report: MakeRoom) -> Page:
    """Build a warning for each resource of which enough is free in total, but not on a single node."""
    return tuple(
        paragraph(Marked("Fragmented:", Tone.WARNING), _describe_fragmentation(resource, report.placed_first))
        for resource in report.fragmented
    )


def _describe_fragmentation(fragmented: FragmentedResource, placed_first: Sequence[PlacedPod]) -> str:
    """Describe how much of a resource is free in total and on one node, and how much is requested.

    Pods that are placed first are named, because `explain` does not subtract their requests from what is free.
    """
    amounts = format_amounts_for_sentence(fragmented.resource, fragmented.requested, fragmented.free, fragmented.on_one)
    (requested, free, on_one), unit = amounts
    suffix = amounts.unit_suffix
    nodes = counted(fragmented.nodes, "node")
    after = ""
    if placed_first:
        pods = first_few([placed.pod for placed in placed_first])
        count = len(placed_first)
        gets = agreeing(count, "gets its node", "get their nodes")
        after = f" after {counted(count, 'other waiting pod')} ({pods}) {gets}"
    stock = f"{nodes} together have {free}{suffix} free, but at most {on_one}{suffix} on one node"
    return f"the pod needs {requested} {unit}, and {stock}{after}"


def _build_unplaced_pods_section(report: MakeRoom) -> Page:
    """Build the section on the pods that get no node, with kube-scheduler's message for the first pod and its cause.

    Return () if all pods fit or if there is no message.
    """
    if not report.missing or not report.message:
        return ()
    cause = (paragraph(Marked(report.cause, Tone.BAD)),) if report.cause else ()
    message = paragraph("kube-scheduler:", Marked(report.message, Tone.VERBATIM))
    get = agreeing(len(report.missing), "gets", "get")
    pods = join_words(report.missing) if len(report.missing) <= 3 else first_few(report.missing)
    return section(f"Why {pods} {get} no node", *cause, message)


def _describe_search_limit(searched: SearchedPlans) -> str:
    """Say which limit ended the search, and how to search longer."""
    if searched.seconds is None:
        return "the search stopped at its default limit of replays (to search longer, set --search-seconds)"
    return "the search stopped at its time limit (to search longer, raise --search-seconds)"


def _build_search_section(report: MakeRoom, style: Style) -> Page:
    """Build the section on how much was searched and which pods may not be moved.

    Return () if the pods fit or if nothing was searched.
    """
    searched = report.searched
    if report.fits or searched is None:
        return ()
    facts = []
    moves = counted(searched.max_moves, "move")
    pod = "the pod" if len(report.pods) == 1 else searched.pod
    if report.ended_at_limit:
        facts.append(_describe_search_limit(searched))
    facts += [
        f"{counted(searched.movable, 'pod')} can be moved; without all of them, {pod} would fit on "
        f"{counted(searched.nodes, 'node')}",
        counted(searched.plans, f"plan of up to {moves} was replayed", f"plans of up to {moves} were replayed"),
    ]
    return (
        *section("Search", Bullets(tuple(facts))),
        *build_struct_table(report.held, style, title="Pods that may not be moved"),
    )
