"""The page of MakeRoom: the moves and commands, or why no move helps."""

from __future__ import annotations

from kschedctl.api.resource_names import format_in_one_unit
from kschedctl.commands.make_room.report import FragmentedResource, MakeRoom, PodMove
from kschedctl.render.page import Bullets, Command, Marked, Page, Style, paragraph, section
from kschedctl.render.sections import build_caveats, build_interruption_line, build_pools_before_and_after
from kschedctl.render.tables import build_struct_table
from kschedctl.reports.columns import Tone
from kschedctl.text.counts import counted, first_few


def build_page(report: MakeRoom, style: Style) -> Page:
    """All sections that have something to say."""
    verdict, pods, sentence = report.first_line()
    tone = Tone.WARNING if report.undecided or report.interrupted else Tone.GOOD if report.fits else Tone.BAD
    partial = len(report.moves) > 0 and not report.fits
    return (
        *build_interruption_line(report.interrupted, "the plan so far"),
        paragraph(Marked(verdict, tone), Marked(pods, Tone.STRONG), sentence),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *_warn_of_preemption(report),
        *_warn_of_fragmentation(report),
        *_list_moves(report, style, "Moves, one after the other"),
        *build_struct_table(report.placed, style, title="Fits then") * (len(report.moves) > 0),
        *build_struct_table(report.also_placed, style, title="Other pods that wait, and get a node as well"),
        *build_pools_before_and_after(report.pools, style),
        *_explain_missing(report),
        *_describe_search(report, style),
        *_list_commands(report),
        *((paragraph("These moves make room for a part of the pods."),) if partial else ()),
    )


def build_moves_sections(report: MakeRoom, style: Style) -> Page:
    """Build the sections that show the plan beside other fixes of a pod."""
    return (*_list_moves(report, style, f"Or move {counted(len(report.moves), 'pod')}"), *_list_commands(report))


def _list_moves(report: MakeRoom, style: Style, title: str) -> Page:
    return build_struct_table(report.moves, style, {"target": _mark_replayed}, numbered="step", title=title, full=False)


def _mark_replayed(move: PodMove) -> Marked:
    """Mark the target of a step that was replayed after the steps before it."""
    return Marked(f"✓ {move.target}", Tone.GOOD)


def _list_commands(report: MakeRoom) -> Page:
    if not report.moves:
        return ()
    return section("Commands: the next once the evicted pod runs again", *map(Command, report.commands))


def _warn_of_preemption(report: MakeRoom) -> Page:
    if not report.preempts:
        return ()
    pods = counted(len(report.preempts), "pod")
    sentence = f"kube-scheduler evicts {pods} itself as soon as it tries this one: {first_few(report.preempts)}"
    return (paragraph(Marked("Preempts:", Tone.WARNING), sentence),)


def _warn_of_fragmentation(report: MakeRoom) -> Page:
    return tuple(
        paragraph(Marked("Fragmented:", Tone.WARNING), _describe_fragmentation(resource))
        for resource in report.fragmented
    )


def _describe_fragmentation(fragmented: FragmentedResource) -> str:
    free, on_one, asked = format_in_one_unit(
        fragmented.resource, fragmented.free, fragmented.on_one, fragmented.requested
    )
    nodes = counted(fragmented.nodes, "node")
    return f"{fragmented.resource}: {free} free on {nodes}, {on_one} at most on one, {asked} requested"


def _explain_missing(report: MakeRoom) -> Page:
    if not report.missing or not report.message:
        return ()
    cause = (paragraph(Marked(report.cause, Tone.BAD)),) if report.cause else ()
    message = paragraph(Marked(report.message, Tone.VERBATIM))
    return section(f"Without a node: {first_few(report.missing)}", *cause, message)


def _describe_search(report: MakeRoom, style: Style) -> Page:
    """Describe what was searched if no plan was found."""
    searched = report.searched
    if report.fits or searched is None:
        return ()
    timed_out = ("the search ran out of time: --search-seconds gives it more",) if searched.timed_out else ()
    counts = (
        *timed_out,
        f"{counted(searched.movable, 'pod')} may be moved",
        f"without them it would fit on {counted(searched.nodes, 'node')}",
        f"{counted(searched.plans, 'plan')} of up to {counted(searched.max_moves, 'move')} replayed",
    )
    return (
        *section("Tried", Bullets(counts)),
        *build_struct_table(report.held, style, title="Pods that may not be moved"),
    )
