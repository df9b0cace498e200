"""Check tables of structs whose columns are declared beside the fields, as text and CSV."""

from __future__ import annotations

from typing import Annotated

import pytest

from kschedctl.commands.capacity.report import Capacity
from kschedctl.errors import UsageError
from kschedctl.render.main_table import render_pod_names
from kschedctl.render.page import Heading, Marked, Stack, Style, Table
from kschedctl.render.tables import build_struct_table
from kschedctl.reports.columns import Column, Tone, to_csv_table
from kschedctl.reports.document import Document
from kschedctl.reports.report import Answers, ClusterAnswer


class Move(Document, frozen=True):
    """Fields of each sort; ``hidden`` is in no table."""

    to_node: Annotated[str, Column(keep=True, words={"": "nowhere"}, tones={"": Tone.BAD})]
    pods: Annotated[tuple[str, ...], Column(show_count=True, place=-1)]
    hidden: int = 0
    tied: Annotated[int, Column("equally good", show_above=1)] = 0
    zone: Annotated[str, Column(beneath="in", narrow=True)] = ""
    message: Annotated[str, Column(csv_only=True)] = ""


MOVES = (Move("n1", ("a", "b"), tied=1200, zone="z"), Move("", ("c",), tied=1, message="=no room"))


def build_table(width: int = 200, **options: int) -> Table:
    heading, found = build_struct_table(MOVES, Style(width=width), title="Moves", **options)  # type: ignore[arg-type]
    assert heading == Heading("Moves")
    assert isinstance(found, Table)
    return found


def test_columns_are_in_order_and_values_become_text() -> None:
    found = build_table()
    assert [(c.name, c.right) for c in found.columns] == [
        ("pods", True),
        ("to node", False),
        ("equally good", True),
        ("zone", False),
    ]
    assert found.rows == (("2", "n1", "1,200", "z"), ("1", Marked("nowhere", Tone.BAD), "", ""))


def test_narrow_terminals_have_columns_beneath_the_first_cell() -> None:
    found = build_table(width=80)
    assert [column.name for column in found.columns] == ["pods", "to node", "equally good"]
    first = found.rows[0][0]
    assert isinstance(first, Stack)
    assert first.cells == (Marked("2", Tone.PLAIN), Marked("in z", Tone.FAINT))


def test_omitted_rows_are_counted() -> None:
    rows = tuple(Move(f"n{i}", ()) for i in range(40))
    (found,) = build_struct_table(
        rows, Style(), {"to_node": lambda move: move.to_node.upper()}, numbered="#", full=False
    )
    assert isinstance(found, Table)
    assert found.rows[0] == ("1", "0", "N0")
    assert (len(found.rows), found.note) == (25, "… 15 more, -o wide shows all")


def test_empty_table_is_not_shown() -> None:
    assert build_struct_table((), Style(), title="Moves") == ()


def test_files_have_raw_values() -> None:
    header, rows = to_csv_table(Move, MOVES)
    assert header == ("pods", "to node", "equally good", "zone", "message")
    assert [list(row) for row in rows] == [[2, "n1", 1200, "z", ""], [1, "", 1, "", "=no room"]]


def test_pods_of_several_clusters_are_named_only_where_the_answers_are_about_pods() -> None:
    several = Answers((ClusterAnswer("prod", True, Capacity(seed=0)),), 1)
    with pytest.raises(UsageError, match="Capacity has no list of pods"):
        render_pod_names(several)
