"""Terminal page of the report NodePools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kschedctl.api.resource_names import CPU, MEMORY
from kschedctl.commands.pools.report import NodePools, PoolReport
from kschedctl.render.page import Marked, Page, Stack, Style, paragraph
from kschedctl.render.tables import build_struct_table, format_rounded
from kschedctl.reports.columns import Tone
from kschedctl.text.counts import counted

SHAPES_SHOWN = 3


def build_pools_page(report: NodePools, style: Style) -> Page:
    """Build the page: a summary line, doubts, a table of pools, and the sources of the node groups."""
    first, pending = report.build_headline_parts()
    cells: Mapping[str, Callable[[PoolReport], str | Stack]] = {
        "shapes": lambda pool: _stack_shapes(pool.shapes),
        "free_cpu": lambda pool: format_rounded(CPU, pool.free_cpu) if pool.nodes else "",
        "most_free_cpu": lambda pool: format_rounded(CPU, pool.most_free_cpu) if pool.nodes else "",
        "free_memory": lambda pool: format_rounded(MEMORY, pool.free_memory) if pool.nodes else "",
        "limits": lambda pool: ", ".join(f"{name} {text}" for name, text in pool.limits.items()),
    }
    doubts = [paragraph(Marked("Not certain:", Tone.WARNING), doubt) for doubt in report.doubts]
    sources = [paragraph(Marked(f"Sources: {'; '.join(report.sources)}.", Tone.FAINT))] if report.sources else []
    legend = tuple(paragraph(Marked(line, Tone.FAINT)) for line in _explain_columns(report))
    table = build_struct_table(report.pools, style, cells, full=False)
    return (paragraph(Marked(first, Tone.STRONG), pending), *doubts, *table, *legend, *sources)


def _explain_columns(report: NodePools) -> Iterator[str]:
    """Yield a line for each thing that the headings of the table do not say, if it is needed."""
    if any(pool.nodes != pool.ready for pool in report.pools):
        yield "usable: ready and not cordoned; free: on nodes that are neither cordoned nor tainted as not ready"
    if any(pool.waiting is not None for pool in report.pools):
        yield "waiting: pending pods that would fit on one more node of the pool"


def _stack_shapes(shapes: Sequence[str]) -> Stack:
    """Return the SHAPES_SHOWN most frequent node shapes, one beneath the other, and the number of other shapes."""
    other_shapes = shapes[SHAPES_SHOWN:]
    return Stack(
        (*shapes[:SHAPES_SHOWN], *([f"and {counted(len(other_shapes), 'other shape')}"] if other_shapes else ()))
    )
