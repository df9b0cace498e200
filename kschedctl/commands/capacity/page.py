"""The page of a capacity report: how many pods of each shape fit, where, and what stops the next pod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kschedctl.commands.capacity.report import Capacity, CapacityLimit, ShapeCapacity
from kschedctl.commands.explain.page import build_eliminations_table
from kschedctl.render.page import (
    Block,
    Marked,
    Page,
    Paragraph,
    Style,
    build_subsection,
    paragraph,
    section,
)
from kschedctl.render.plots.plot import MAX_PLACES, Axis, Plot, PlotKind, Series, build_bar_plot
from kschedctl.render.sections import (
    build_caveats,
    build_headroom_section,
    build_interruption_line,
    build_search_start_line,
    quote_message,
)
from kschedctl.render.tables import build_table, number_columns
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.placements import describe_missing_namespaces
from kschedctl.reports.unknown import describe_verdict_doubts
from kschedctl.text.counts import counted
from kschedctl.text.printable import describe_misfit

NODES_SHOWN = 10
NO_REQUESTS_SENTENCE = "The pods request no resources: only the maximum number of pods per node limits them"


def build_page(report: Capacity, style: Style) -> Page:
    """Build the page with a part for each shape. If there are several shapes, each part has a heading."""
    shapes: list[Block] = []
    if len(report.shapes) == 1:
        condition = describe_missing_namespaces(report.missing_namespaces)
        shapes += _build_shape_part(report.shapes[0], style, named=True, condition=condition)
    elif report.shapes:
        subject, numbers = report.build_headline_parts()
        shapes.append(paragraph(Marked(subject, Tone.STRONG), numbers))
        for shape in report.shapes:
            shapes += build_subsection(shape.shape, _build_shape_part(shape, style, named=False))
    doubt_line = paragraph(Marked("Not certain:", Tone.WARNING), describe_verdict_doubts(report.unknown))
    return (
        *build_interruption_line(report.interrupted),
        *([doubt_line] if report.undecided else []),
        *shapes[:1],  # the headline, which comes before the caveats
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *map(paragraph, report.notes),
        *shapes[1:],
        *build_search_start_line(report.search_start),
    )


def _build_shape_part(shape: ShapeCapacity, style: Style, *, named: bool, condition: str = "") -> Page:
    """Build the part about a shape.

    With `named`, the headline names the shape. `condition` is the end of the headline. The tables are about all pods
    for which the nodes have room, including pods that admission or Kueue's quota would stop.
    """
    name, fit, where = shape.build_headline_parts()
    fit_tone = Tone.GOOD if shape.most else Tone.BAD
    headline = paragraph(*([Marked(name, Tone.STRONG)] if named else []), Marked(fit, fit_tone), f"{where}{condition}")
    return (
        headline,
        *_iter_limit_paragraphs(shape, style),
        *build_eliminations_table(shape.eliminations, style, title="Why nodes reject one more pod"),
        *_build_locations_section(shape, style),
        *build_headroom_section(shape.headroom, "on one candidate node" if shape.eliminations else "on one node"),
    )


def _iter_limit_paragraphs(shape: ShapeCapacity, style: Style) -> Iterator[Paragraph]:
    """Yield the paragraphs that apply to the shape: about its limits, the next pod, and warnings."""
    if shape.cause:
        yield paragraph(Marked(shape.cause, Tone.BAD))
    if shape.ahead:
        yield paragraph(shape.sentence_about_pods_ahead)

    is_limited_by_nodes = shape.binding_limit is CapacityLimit.NODES
    if shape.limit_sentence:
        yield paragraph(Marked(shape.limit_sentence, Tone.PLAIN if is_limited_by_nodes else Tone.BAD))
    if shape.quota_sentence:
        is_quota_too_low = shape.by_quota is not None and shape.by_quota < shape.fits
        yield paragraph(Marked(shape.quota_sentence, Tone.BAD if is_quota_too_low else Tone.PLAIN))

    if shape.message:
        subject = "One more pod"
        if shape.fits and not is_limited_by_nodes:  # another sentence says what the limit is
            subject = f"The nodes are full with {counted(shape.fits, 'pod')}. One more pod"
        next_pod_sentence = describe_misfit(subject, shape.message)
        yield paragraph(next_pod_sentence, *quote_message(shape.message, style))

    for warning in (*shape.exceeded_storage, *shape.volumes_on_several_nodes):
        yield paragraph(Marked(warning, Tone.WARNING))
    if shape.requests_nothing:
        yield paragraph(Marked(NO_REQUESTS_SENTENCE, Tone.WARNING))
    if shape.evicts:
        yield paragraph(shape.eviction_sentence)


def _build_locations_section(shape: ShapeCapacity, style: Style) -> Page:
    """Build the section that shows where the pods go, by topology domain and node. Return () if no pod fits."""
    if not shape.nodes:
        return ()
    tables: list[Block] = []
    for key, pods_by_value in shape.domains.items():
        _, _, short_key = key.rpartition("/")
        tables += _build_counts_table(short_key, [*pods_by_value.items()], style, limit=None)
    nodes = sorted(shape.nodes.items(), key=lambda item: -item[1])
    title = f"Where {counted(shape.fits, 'new pod')} would go"
    return section(
        title, *tables, *_build_counts_table("node", nodes, style, limit=NODES_SHOWN), *_iter_room_plots(shape)
    )


def _build_counts_table(place: str, pods: Sequence[tuple[str, int]], style: Style, limit: int | None) -> Page:
    """Build the table of pods by place. A place is a node or the value of a topology label."""
    columns = (Column(place, keep=True), *number_columns("new pods"))
    return build_table(pods, columns, lambda row: (row[0], f"{row[1]:,}"), style, limit=limit, each_node=True)


def _iter_room_plots(shape: ShapeCapacity) -> Iterator[Plot]:
    """Yield a plot of how many nodes have room after each new pod, and plots of the new pods by place."""
    if len(shape.curve) > 1:
        points = tuple((float(room_left.pods), float(room_left.nodes)) for room_left in shape.curve)
        title = f"Nodes that take one more {shape.shape}"
        yield Plot(title, Axis("new pods"), Axis("nodes"), (Series("nodes", points),), PlotKind.STEPS)
    by_place: Iterable[tuple[str, Mapping[str, int]]] = (*shape.domains.items(), ("node", shape.nodes))
    for key, counts in by_place:
        ranked = sorted(counts, key=lambda place: (-counts[place], place))
        amounts = {place: {"new pods": counts[place]} for place in ranked[:MAX_PLACES]}
        yield from build_bar_plot(f"Room for {shape.shape} by {key}", (key, "new pods"), amounts, len(ranked))
