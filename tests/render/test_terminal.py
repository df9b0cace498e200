"""Check wrapping and columns: nothing is cut or wider than the terminal."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kschedctl.render.columns import break_long_words
from kschedctl.render.page import (
    UNFOLDED,
    Block,
    Bullets,
    Command,
    Heading,
    Marked,
    Paragraph,
    Stack,
    Style,
    Table,
    list_lines,
)
from kschedctl.render.terminal import render_text
from kschedctl.reports.columns import Column, Tone

TEXTS = st.text(st.sampled_from("ab -/=.é漢"), max_size=60)
COLUMNS = st.builds(
    Column, st.sampled_from(["node", "also rejected by", "ImageLocality"]), st.booleans(), st.booleans()
)


@st.composite
def draw_tables(draw: st.DrawFn) -> Table:
    columns = draw(st.lists(COLUMNS, min_size=1, max_size=6))
    cells = st.one_of(TEXTS, st.builds(Marked, TEXTS, st.sampled_from(Tone)), st.builds(Stack, st.tuples(TEXTS, TEXTS)))
    rows = draw(st.lists(st.tuples(*[cells] * len(columns)), max_size=4))
    return Table(tuple(columns), tuple(rows), draw(TEXTS))


BLOCKS = st.one_of(
    draw_tables(),
    st.builds(Paragraph, st.tuples(TEXTS, TEXTS)),
    st.builds(Bullets, st.tuples(TEXTS, TEXTS)),
    st.builds(Heading, TEXTS),
)


def count_characters(text: str) -> Counter[str]:
    """Count each visible character, except for the commas between joined headers."""
    return Counter(re.sub(r"[\s,]", "", text))


@given(BLOCKS, st.integers(40, 200))
def test_folding_keeps_every_character_within_the_width(block: Block, width: int) -> None:
    lines = render_text((block,), Style(width=width)).split("\n")
    assert all(cell_len(line) <= width for line in lines)
    contents = list_cell_texts(block) if isinstance(block, Table) else [render_text((block,), Style(width=UNFOLDED))]
    assert not count_characters("".join(contents)) - count_characters("".join(lines))


def list_cell_texts(table: Table) -> list[str]:
    """Return the texts of all cells, and the note. Names of columns are repeated or left out where rows are cards."""
    lines = [line.text for row in table.rows for cell in row for line in list_lines(cell)]
    return [*lines, table.note]


def test_rows_become_cards_if_the_columns_do_not_fit() -> None:
    columns = (
        Column("pool"),
        *(Column(name, right=True) for name in ("nodes", "ready", "free cpu", "free memory", "pending pods")),
    )
    table = Table((*columns, Column("taints")), (("general", "8", "7", "8.5", "78Gi", "2", "a=b:NoSchedule"),))
    assert render_text((table,), Style(width=45)).splitlines() == [
        "  general",
        "    taints: a=b:NoSchedule",
        "    nodes: 8, ready: 7, free cpu: 8.5, free",
        "    memory: 78Gi, pending pods: 2",
    ]


def test_long_texts_beside_numbers_become_cards_before_they_get_less_than_28_columns() -> None:
    """The numbers and gaps take 21 columns and the indentation 2, so 28 are left in a terminal of 51 columns."""
    columns = (Column("pods", right=True), Column("priority", right=True), Column("age", right=True), Column("cause"))
    cause = "one two three four " * 8
    table = Table(columns, (("1", "0", "9m", Stack(("Deployment web", cause.strip()))),))
    table_lines = render_text((table,), Style(width=51)).splitlines()
    assert table_lines[1].split() == ["1", "0", "9m", "Deployment", "web"]
    card_lines = render_text((table,), Style(width=50)).splitlines()
    assert card_lines[0] == "  Deployment web"
    assert card_lines[1].startswith("    one two three four one two")
    assert card_lines[-1] == "    pods: 1, priority: 0, age: 9m"


@given(BLOCKS, st.integers(40, 200))
def test_colours_change_nothing_else(block: Block, width: int) -> None:
    for room in (width, UNFOLDED):
        plain, coloured = (render_text((block,), Style(width=room, color=color)) for color in (False, True))
        assert re.sub("\x1b\\[[0-9;]+m", "", coloured) == plain
        assert not any(line.endswith(" ") for line in plain.split("\n"))


@pytest.mark.parametrize("width", [40, 80, UNFOLDED])
def test_wide_characters_take_two_columns(width: int) -> None:
    table = Table((Column("a"), Column("b")), (("漢字", "x"), ("abcd", "y")))
    assert render_text((table,), Style(width=width)).splitlines()[1:] == ["  漢字  x", "  abcd  y"]


def test_names_stay_whole_while_text_gives_way() -> None:
    name = "ip-10-0-112-7.eu-west-1.compute.internal"
    table = Table((Column("node", keep=True), Column("why")), ((name, "one two three four " * 5),))
    lines = render_text((table,), Style(width=76)).splitlines()
    assert lines[1] == f"  {name}  one two three four one two three"
    assert lines[2] == " " * 44 + "four one two three four one two"


def test_columns_without_room_go_beneath() -> None:
    name = "ip-10-0-112-7.eu-west-1.compute.internal"
    columns = (Column("from", keep=True), Column("pods", right=True), Column("to", keep=True, beneath="to"))
    table = Table((*columns, Column("why")), ((name, "7", name, "one two"), ("n1", "12", "", "three")))
    assert render_text((table,), Style(width=60)).splitlines() == [
        "  FROM, TO, WHY                                PODS",
        f"  {name}        7",
        f"  to {name}",
        "  one two",
        "  n1                                             12",
        "  three",
    ]


def test_endless_words_are_broken_in_linear_time() -> None:
    word = "x" * 300_000
    lines = break_long_words(word, 40).split("\n")
    assert "".join(lines) == word
    assert [len(line) for line in lines] == [40] * 7_500


def test_long_words_are_broken_at_their_joints() -> None:
    words = "taint example.com/dedicated-to-a-team=payments-platform:NoSchedule is not tolerated"
    assert render_text((Paragraph((words,)),), Style(width=40)).splitlines() == [
        "taint example.com/dedicated-to-a-team=",
        "payments-platform:NoSchedule is not",
        "tolerated",
    ]


SHORT = st.text(st.sampled_from("abc"), min_size=1, max_size=10)
SENTENCES = st.lists(SHORT, max_size=20).map(" ".join)


@given(st.integers(1, 5), st.lists(SENTENCES, min_size=30, max_size=30), st.integers(70, 200))
def test_no_word_that_fits_a_column_is_broken(texts: int, sentences: list[str], width: int) -> None:
    columns = (Column("n", right=True), *(Column("x") for _ in range(texts)))
    rows = tuple(("1,000", *sentences[i : i + texts]) for i in range(0, 30 - texts, texts))
    shown = "\n".join(render_text((Table(columns, rows),), Style(width=width)).splitlines()[1:])
    assert Counter(shown.split()) == Counter(" ".join(" ".join(row) for row in rows).split())


def test_number_and_unit_stay_together() -> None:
    text = "P50 516 µs, P90 929 µs, P99 1.68 ms, 12.5 % of it"
    for width in range(14, 60):
        lines = render_text((Paragraph((text,)),), Style(width=width)).splitlines()
        assert all(not line.endswith(("516", "929", "1.68", "12.5")) for line in lines)
        assert " ".join(lines) == text


def test_consecutive_tables_are_separated() -> None:
    table = Table((Column("a"),), (("1",),))
    assert render_text((table, table), Style()) == "  A\n  1\n\n  A\n  1\n"


def test_unlimited_table_equals_a_very_wide_one() -> None:
    rows = tuple((f"n{i}", Marked(f"{i * 999:,}", Tone.GOOD), "why " * i) for i in range(20))
    page = (
        Heading("Nodes"),
        Table((Column("node", keep=True), Column("total", right=True), Column("why")), rows, "note"),
    )
    for color in (False, True):
        assert render_text(page, Style(width=UNFOLDED, color=color)) == render_text(
            page, Style(width=5000, color=color)
        )


def test_page_in_plain_text() -> None:
    table = Table(
        (Column("node", keep=True), Column("total", right=True), Column("ImageLocality", right=True)),
        ((Stack(("n1", Marked("zone-a", Tone.FAINT))), Marked("7", Tone.GOOD), "1 → 2"), ("n22", "350", "0 → 0")),
        note="… 3 more",
    )
    page = (
        Paragraph(("shop/web", Marked("Unschedulable", Tone.BAD))),
        Heading("Scores"),
        table,
        Heading("Next"),
        Command("kschedctl explain a-name-that-is-longer-than-the-line"),
        Bullets(("first", "second which is too long for one line")),
    )
    assert render_text(page, Style(width=40)).splitlines() == [
        "shop/web Unschedulable",
        "",
        "Scores",
        "                    Image",
        "  NODE    TOTAL  Locality",
        "  n1          7     1 → 2",
        "  zone-a",
        "  n22       350     0 → 0",
        "  … 3 more",
        "",
        "Next",
        "  kschedctl explain a-name-that-is-longer-than-the-line",
        "  - first",
        "  - second which is too long for one",
        "    line",
    ]


def test_colours_never_cover_blanks() -> None:
    table = Table((Column("a"), Column("b")), ((Marked("x", Tone.GOOD), "y"),))
    for width in (110, UNFOLDED):
        coloured = render_text((table,), Style(width=width, color=True)).splitlines()[1]
        assert coloured == "  \x1b[32mx\x1b[0m  y"


def test_rendering_ignores_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"FORCE_COLOR": "1", "COLUMNS": "20", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    text = "a sentence that has more than twenty characters"
    assert render_text((Paragraph((Marked(text, Tone.BAD),)),), Style()) == f"{text}\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;31m" in render_text((Paragraph((Marked(text, Tone.BAD),)),), Style(color=True))


def test_columns_without_content_are_left_out() -> None:
    table = Table((Column("a"), Column("b"), Column("c")), (("1", "", "3"), ("4", Stack(("", "")), "")))
    shown = table.without_empty_columns()
    assert [column.name for column in shown.columns] == ["a", "c"]
    assert shown.rows == (("1", "3"), ("4", ""))
