"""Check the page of Races: one table over sizes with a plot, or every figure of a single size."""

from __future__ import annotations

from kschedctl.api.copying import replace
from kschedctl.commands.audit.races.page import build_races_page
from kschedctl.commands.audit.races.report import MeasuredLags, RaceAssumptions, RaceResult, Races
from kschedctl.render.page import Paragraph, Style, Table, list_lines
from kschedctl.render.plots.plot import Plot

ASSUMED = RaceAssumptions(
    instances=1,
    binding_latency="exponential:10s",
    informer_lag="measured",
    pods_per_node=30,
    load=0.5,
    seconds=300.0,
    seed=0,
    runs=1,
    from_cluster=("share of room in use",),
    measured=MeasuredLags(pods=50, median=1.0, p99=9.0, longest=12.0),
)


def build_result(nodes: int, expiry: str, double_booked: int) -> RaceResult:
    share = double_booked / 1000
    return RaceResult(
        nodes=nodes,
        pods_per_second=10.0,
        expiry=expiry,
        ttl_seconds=None if expiry == "never" else 30.0,
        pods=1000,
        expired=double_booked,
        expected_expired=50.0,
        double_booked=double_booked,
        share=share,
        least_share=share,
        most_share=share,
        waiting=7,
    )


def build_page(*results: RaceResult, wide: bool = False) -> tuple[object, ...]:
    report = Races(headline="h", recommendation="r", assumptions=ASSUMED, results=results)
    return build_races_page(report, Style(wide=wide))


def list_cells(table: Table) -> list[list[str]]:
    return [[list_lines(cell)[0].text for cell in row] for row in table.rows]


SEVERAL = (
    build_result(100, "30s", 10),
    build_result(100, "never", 0),
    build_result(500, "30s", 30),
    build_result(500, "never", 0),
)


def test_sizes_have_rows_and_expiries_columns() -> None:
    blocks = build_page(*SEVERAL)
    (table,) = [block for block in blocks if isinstance(block, Table)]
    assert [column.name for column in table.columns] == ["nodes", "pods per s", "30s", "never"]
    assert list_cells(table) == [["100", "10", "1.0%", "0%"], ["500", "10", "3.0%", "0%"]]


def test_plot_has_the_figures_of_the_table() -> None:
    (plot,) = [block for block in build_page(*SEVERAL) if isinstance(block, Plot)]
    assert {series.name: series.points for series in plot.series} == {
        "30s": ((100.0, 1.0), (500.0, 3.0)),
        "never": ((100.0, 0.0), (500.0, 0.0)),
    }


def test_constant_or_empty_results_are_not_plotted() -> None:
    quiet = (build_result(100, "30s", 0), build_result(500, "30s", 0))
    assert not [
        block for block in (*build_page(*quiet), *build_page(build_result(100, "30s", 9))) if isinstance(block, Plot)
    ]


def test_one_size_and_the_wide_form_have_every_figure() -> None:
    (table,) = [block for block in build_page(build_result(100, "adaptive", 10)) if isinstance(block, Table)]
    assert list_cells(table) == [["100", "10", "adaptive (30s)", "1,000", "10", "50.0", "10", "1.0%", "7"]]
    (wide,) = [block for block in build_page(*SEVERAL, wide=True) if isinstance(block, Table)]
    assert len(wide.rows) == 4


def test_a_share_that_differs_between_runs_has_a_range_in_percent() -> None:
    varying = replace(build_result(100, "30s", 12), least_share=0.009, most_share=0.0151)
    (table,) = [block for block in build_page(varying) if isinstance(block, Table)]
    assert "1.2% (0.9–1.5%)" in list_cells(table)[0]


def test_basis_of_the_simulation_is_shown() -> None:
    text = " ".join(
        list_lines(part)[0].text
        for block in build_page(*SEVERAL)
        if isinstance(block, Paragraph)
        for part in block.parts
    )
    assert "From the cluster: nodes are 50% full" in text
    assert "30 pods fit on a node" in text.partition("Other settings:")[2]
    assert "Measured on 50 pods, from binding to the kubelet's start: 1s at the median, 9s at the 99th" in text
