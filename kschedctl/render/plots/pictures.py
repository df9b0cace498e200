"""Plots as SVG and PNG pictures, drawn by matplotlib in one figure, with the same bytes every time.

Names from a cluster are never formulas, and unprintable characters are escaped. The background is white because most
viewers of SVG have no dark theme. The user's matplotlib settings are ignored.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from kschedctl.render.plots import PICTURES, check_installed
from kschedctl.render.plots.plot import (
    AxisScale,
    Plot,
    PlotKind,
    Point,
    build_line_points,
    build_scale,
    compute_totals,
    describe_plot,
    format_number,
    shorten_middle,
)
from kschedctl.text.counts import agreeing, counted
from kschedctl.text.printable import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, CURVES, BAR = 9.0, 2.4, 0.24
"""Sizes in inches: the width of the figure, the height of a line plot, and the height of one bar."""
TITLE, UNIT, TICKS, KEYS, PAD, RIGHT = 0.42, 0.22, 0.52, 0.2, 0.15, 0.4
"""Sizes in inches: the heights of a title, a unit, the ticks with their axis title, and a row of legend keys; the left
and right margins.
"""
LINE_HEIGHT = KEYS
"""The height of a line of text below the plots, in inches."""
STACK_THICKNESS, BAR_GROUP_THICKNESS = 0.72, 0.84
"""The thickness of a stack of bars, and of the bars of one place side by side, as shares of the distance of places."""
KEYS_IN_ROW = 3
POINTS_PER_INCH = 72
DOTS_PER_INCH = 144
"""Resolution of a PNG."""
MAX_PLOTS = 12
"""The maximum number of plots that are drawn. A PNG is limited to 65,535 dots."""
INK, FAINT, LINE = "#1b1f24", "#59636e", "#d1d9e0"
COLORS = ("#0550ae", "#b35900", "#116329", "#8250df", "#b3261e", "#00707a", FAINT, LINE)
DASHES = ("-", (0, (7, 3)), (0, (2, 3)), (0, (9, 3, 2, 3)), (0, (4, 2)), (0, (12, 4)))
LOOKS = len(DASHES)
MAX_TITLE_LENGTH, AXIS, LABEL, KEY = 110, 60, 44, 44
"""The maximum numbers of characters of a title, an axis title, the name of a place and the name of a series."""
SETTINGS: dict[Any, Any] = {
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 9,
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "kschedctl",
}
LEGEND: dict[str, object] = {"frameon": False, "fontsize": 8, "borderpad": 0, "borderaxespad": 0, "labelspacing": 0.45}
SVG = "http://www.w3.org/2000/svg"


def render_svg(plots: Sequence[Plot], caveat: str = "") -> str:
    """Render the first MAX_PLOTS plots as SVG with a description in words.

    `caveat` is a sentence that is written below the plots. Raises UsageError if matplotlib is not installed.
    """
    check_installed(PICTURES, "-o svg")
    with _apply_matplotlib_settings():
        svg = _draw_figure(plots, caveat, "svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})

    # Remove any other metadata that matplotlib writes
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(svg)
    for metadata in root.findall(f"{{{SVG}}}metadata"):
        root.remove(metadata)

    # Describe the picture for screen readers. The title is inserted last, because it has to come first.
    titles = "; ".join(printable(plot.title) for plot in plots[:MAX_PLOTS])
    words = "\n".join([*map(describe_plot, plots[:MAX_PLOTS]), *filter(None, [printable(caveat)])])
    for tag, text in (("desc", words), ("title", titles)):
        element = ElementTree.Element(f"{{{SVG}}}{tag}", id=tag)
        element.text = text
        root.insert(0, element)
    root.attrib |= {"role": "img", "aria-labelledby": "title desc"}
    return ElementTree.tostring(root, "unicode", xml_declaration=False) + "\n"


def render_png(plots: Sequence[Plot], caveat: str = "") -> bytes:
    """Render the plots as PNG. Raises UsageError if matplotlib is not installed.

    `caveat` is a sentence that is written below the plots.
    """
    check_installed(PICTURES, "-o png")
    with _apply_matplotlib_settings():
        return _draw_figure(plots, caveat, "png", dpi=DOTS_PER_INCH, metadata={"Software": None})


@contextmanager
def _apply_matplotlib_settings() -> Iterator[None]:
    """Import matplotlib, and apply our settings and silence its log messages within the block."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import matplotlib  # noqa: PLC0415 - extra "plots", takes a second

        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(SETTINGS)
            yield


def _draw_figure(plots: Sequence[Plot], caveat: str, form: str, **options: Any) -> bytes:
    """Draw the plots below each other, then the caveat and how many plots are left out. Return the file's bytes."""
    from matplotlib import figure as figures  # noqa: PLC0415 - extra "plots"

    # Choose what is drawn: the first plots, and lines of text below them.
    shown = plots[:MAX_PLOTS]
    lines = []
    if caveat:
        lines.append((shorten_middle(printable(caveat), MAX_TITLE_LENGTH), INK))
    left_out = len(plots) - len(shown)
    if left_out:
        lines.append((f"… {counted(left_out, 'more plot')} {agreeing(left_out, 'is', 'are')} not drawn", FAINT))
    height = sum(map(compute_height, shown)) + LINE_HEIGHT * len(lines)
    figure = figures.Figure(figsize=(WIDTH, height), facecolor="white")

    # Draw the plots from the top down.
    top = height
    for plot in shown:
        _draw_plot(plot, figure, top)
        top -= compute_height(plot)

    # Draw the lines from the bottom up. matplotlib takes positions as shares of the figure.
    for lines_below, (line, color) in enumerate(reversed(lines)):
        y = (lines_below + 0.5) * LINE_HEIGHT
        figure.text(PAD / WIDTH, y / height, line, color=color)
    written = BytesIO()
    figure.savefig(written, format=form, **options)
    return written.getvalue()


def compute_height(plot: Plot) -> float:
    """Return the height in inches of a plot with title, ticks and keys."""
    return (
        TITLE + (0 if plot.has_bars else UNIT) + _compute_axes_height(plot) + TICKS + KEYS * _count_key_rows(plot) + PAD
    )


def _compute_axes_height(plot: Plot) -> float:
    """Return the height of the plotting area in inches.

    Curves have a fixed height. Bars have a height per row, with at least two rows. A note takes a row as well.
    """
    if not plot.has_bars:
        return CURVES
    rows = bool(plot.note) + len(plot.places) * (1 if plot.kind is PlotKind.STACKS else len(plot.series))
    return BAR * max(rows, 2)


def _count_key_rows(plot: Plot) -> int:
    """Return the number of rows of the legend, which a single series does not have."""
    return math.ceil(len(plot.series) / KEYS_IN_ROW) if len(plot.series) > 1 else 0


def _draw_plot(plot: Plot, figure: Figure, top: float) -> None:
    """Draw the plot downwards from `top` inches. Long titles are shortened.

    All positions are computed here, because matplotlib's layout solver is slow and rounds differently each time.
    """
    whole = float(figure.get_figheight())

    def convert_depth(inches: float) -> float:
        """Convert a distance below `top` in inches to a vertical position in the figure, from 0 to 1."""
        return (top - inches) / whole

    title = shorten_middle(printable(plot.title), MAX_TITLE_LENGTH)
    figure.text(PAD / WIDTH, convert_depth(0.7 * TITLE), title, weight="bold", fontsize=10)
    above = TITLE if plot.has_bars else TITLE + UNIT
    beneath = above + _compute_axes_height(plot)
    left = PAD + 0.1 + max(map(_measure_label_width, _list_left_labels(plot)))
    axes = figure.add_axes(
        (left / WIDTH, convert_depth(beneath), (WIDTH - left - RIGHT) / WIDTH, _compute_axes_height(plot) / whole)
    )
    axes.set_axisbelow(True)
    handles = _draw_bar_plot(plot, axes) if plot.has_bars else _draw_line_plot(plot, axes)
    if not plot.has_bars:
        unit = shorten_middle(printable(plot.y.title), MAX_TITLE_LENGTH)
        figure.text(PAD / WIDTH, convert_depth(TITLE + 0.4 * UNIT), unit, color=FAINT)
    if len(plot.series) > 1:
        keys = [_format_key(series.name) for series in plot.series]
        place = (PAD / WIDTH, convert_depth(beneath + TICKS))
        figure.legend(handles, keys, loc="upper left", bbox_to_anchor=place, ncols=KEYS_IN_ROW, **LEGEND)


def _list_left_labels(plot: Plot) -> list[str]:
    """Return the labels to the left of the axes: the places and the note of a plot with bars, otherwise the y ticks.

    Long names of places and notes are shortened.
    """
    if plot.has_bars:
        return [shorten_middle(printable(place), LABEL) for place in (*plot.places, *filter(None, [plot.note]))]
    values = [y for series in plot.series for _, y in build_line_points(plot, series)]
    return list(build_scale(plot.y, values).ticks.values())


def _measure_label_width(label: str) -> float:
    """Return the width of a label in inches."""
    from matplotlib.font_manager import FontProperties  # noqa: PLC0415 - extra "plots"
    from matplotlib.textpath import TextPath  # noqa: PLC0415

    font = FontProperties(family=SETTINGS["font.family"], size=SETTINGS["font.size"])
    width: float = TextPath((0, 0), label, prop=font).get_extents().width if label.strip() else 0.0
    return width / POINTS_PER_INCH


def _format_key(name: str) -> str:
    """Return the name of a series with a blank before it, since matplotlib hides names that begin with _."""
    return " " + shorten_middle(printable(name), KEY)


def _draw_line_plot(plot: Plot, axes: Axes) -> list[Any]:
    """Draw the lines and return their handles for the legend."""
    lines = [build_line_points(plot, series) for series in plot.series]
    points = [point for line in lines for point in line]
    x = build_scale(plot.x, [x_value for x_value, _ in points])
    y = build_scale(plot.y, [y_value for _, y_value in points])
    axes.set_xticks(list(x.ticks), list(x.ticks.values()))
    axes.set_yticks(list(y.ticks), list(y.ticks.values()))
    axes.set_xlim(x.start, x.end)
    axes.set_ylim(y.start, y.end)
    axes.set_xlabel(shorten_middle(printable(plot.x.title), AXIS))
    axes.grid(axis="y", color=LINE, linewidth=0.6)
    return [
        axes.plot(*_scale_points(line, x, y), color=COLORS[i % LOOKS], linestyle=DASHES[i % LOOKS], clip_on=False)[0]
        for i, line in enumerate(lines)
    ]


def _scale_points(line: Sequence[Point], x: AxisScale, y: AxisScale) -> tuple[list[float], list[float]]:
    """Return the x and y positions of the points."""
    return [x.position_of(a) for a, _ in line], [y.position_of(b) for _, b in line]


def _draw_bar_plot(plot: Plot, axes: Axes) -> list[Any]:
    """Draw the bars and return their handles for the legend.

    The bars are horizontal, with the first place at the top. The bars of one place are stacked or side by side.
    """
    stacked = plot.kind is PlotKind.STACKS
    series_count = len(plot.series)
    places = [float(place) for place in range(len(plot.places))]
    thickness = STACK_THICKNESS if stacked else BAR_GROUP_THICKNESS / series_count
    ends_of_stacks = [0.0] * len(places)
    handles = []
    for number, series in enumerate(plot.series):
        color = COLORS[min(number, len(COLORS) - 1)]
        written_amounts = [amount for _, amount in series.points]
        amounts = [max(amount, 0.0) for amount in written_amounts]
        if stacked:
            handles.append(axes.barh(places, amounts, thickness, ends_of_stacks, color=color))
            ends_of_stacks = [end + amount for end, amount in zip(ends_of_stacks, amounts, strict=True)]
        else:
            offset = thickness * (number - (series_count - 1) / 2)  # of the bar from the middle of its place
            positions = [place + offset for place in places]
            handles.append(axes.barh(positions, amounts, thickness, 0, color=color))
            _write_amounts(axes, amounts, positions, written_amounts)
    if stacked:
        _write_amounts(axes, ends_of_stacks, places, compute_totals(plot))
    _set_up_bar_axes(plot, axes, ends_of_stacks)
    return handles


def _set_up_bar_axes(plot: Plot, axes: Axes, ends_of_stacks: Sequence[float]) -> None:
    """Label the places of a bar plot on the left, and draw the scale of the amounts, which starts at zero.

    The scale covers all amounts and `ends_of_stacks`, which are zero if the bars are not stacked.
    """
    names = _list_left_labels(plot)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)  # from bottom to top, so that the first place is at the top
    axes.tick_params("y", length=0)

    all_amounts = [amount for series in plot.series for _, amount in series.points]
    amount_scale = build_scale(plot.y, [0.0, *ends_of_stacks, *all_amounts])
    axes.set_xticks(list(amount_scale.ticks), list(amount_scale.ticks.values()))
    axes.set_xlim(0, amount_scale.end * 1.06)  # leave room for the amounts after the bars
    axes.set_xlabel(shorten_middle(printable(plot.y.title), AXIS))
    axes.grid(axis="x", color=LINE, linewidth=0.6)


def _write_amounts(axes: Axes, ends: Sequence[float], positions: Sequence[float], amounts: Sequence[float]) -> None:
    """Write the amounts at the ends of the bars, whose vertical positions are `positions`."""
    for end, y, amount in zip(ends, positions, amounts, strict=True):
        axes.annotate(
            format_number(amount),
            xy=(end, y),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            annotation_clip=False,
        )
