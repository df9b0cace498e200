"""Folding and column widths: nothing is cut, nothing is wider than the terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kschedctl.render.page import Bullets, Column, Command, Heading, Marked, Paragraph, Style, Table, Tone
from kschedctl.render.terminal import GAP, column_widths, fold, show, width

TEXTS = st.text(st.sampled_from("ab -/=.é漢"), max_size=60)


@given(TEXTS, st.integers(2, 30))
def test_folding_keeps_every_character_within_the_room(text: str, room: int) -> None:
    lines = fold(text, room)
    assert all(width(line) <= room for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_words_stay_whole_where_they_can() -> None:
    assert fold("one two three", 7) == ["one two", "three"]
    assert fold("topology.kubernetes.io/zone", 24) == ["topology.kubernetes.io/", "zone"]
    assert fold("", 5) == [""]


def test_wide_characters_take_two_columns() -> None:
    assert width("漢字") == 4
    assert fold("漢字漢字", 5) == ["漢字", "漢字"]


COLUMNS = st.lists(st.tuples(st.integers(1, 90), st.booleans()), min_size=1, max_size=8)


@given(COLUMNS, st.integers(40, 200))
def test_columns_fit_the_room(columns: list[tuple[int, bool]], room: int) -> None:
    natural = [size for size, _ in columns]
    widths = column_widths(natural, tuple(Column("x", keep=keep) for _, keep in columns), room)
    assert sum(widths) + GAP * (len(widths) - 1) <= room
    assert all(1 <= got <= wanted for got, wanted in zip(widths, natural, strict=True))


def test_names_keep_their_room_while_text_gives_way() -> None:
    columns = (Column("node", keep=True), Column("why"))
    assert column_widths([30, 100], columns, 80) == [30, 48]


def test_a_page_in_plain_text() -> None:
    table = Table(
        (Column("node", keep=True), Column("total", right=True), Column("ImageLocality", right=True)),
        (("n1", Marked("7", Tone.GOOD), "1 → 2"), (Marked("a remark", Tone.FAINT),), ("n22", "350", "0 → 0")),
        note="… 3 more",
    )
    page = (
        Paragraph(("shop/web", Marked("Unschedulable", Tone.BAD))),
        Heading("Scores"),
        table,
        Heading("Next"),
        Command("kschedctl explain x"),
        Bullets(("first", "second which is too long for one line")),
    )
    assert show(page, Style(width=40)).splitlines() == [
        "shop/web Unschedulable",
        "",
        "Scores",
        "                  Image",
        "  NODE  TOTAL  Locality",
        "  n1        7     1 → 2",
        "    a remark",
        "  n22     350     0 → 0",
        "  … 3 more",
        "",
        "Next",
        "  kschedctl explain x",
        "  - first",
        "  - second which is too long for one",
        "    line",
    ]


def test_colour_wraps_words_and_never_blanks() -> None:
    table = Table((Column("a"), Column("b")), ((Marked("x", Tone.GOOD), "y"),))
    coloured = show((table,), Style(color=True)).splitlines()[1]
    assert coloured == "  \x1b[32mx\x1b[0m  y"


def test_columns_without_content_are_left_out() -> None:
    table = Table((Column("a"), Column("b"), Column("c")), (("1", "", "3"), ("remark",), ("4", "", "")))
    shown = table.without_empty_columns()
    assert [column.name for column in shown.columns] == ["a", "c"]
    assert shown.rows == (("1", "3"), ("remark",), ("4", ""))
