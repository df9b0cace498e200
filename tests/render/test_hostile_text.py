"""Check that names and messages of a cluster cannot control a terminal, format Markdown or break a document."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from reports import COMMANDS, HOSTILE, HOSTILE_PENDING, HOSTILE_REPORT

from kschedctl.render.page import UNFOLDED, Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.reports.document import Document
from kschedctl.text.printable import printable

DOCUMENTS = pytest.mark.parametrize("document", [HOSTILE_REPORT, HOSTILE_PENDING], ids=["explanation", "pending"])


@given(st.text(st.characters(codec=None)))
def test_printable_text_is_one_visible_line(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert printable(shown) == shown
    if text.isprintable():
        assert shown == text


@pytest.mark.parametrize("code", [*range(0x20), 0x7F, *range(0x80, 0xA0), 0xAD, 0x200B, 0x200F, 0x2028, 0x202E, 0x2066])
def test_controls_and_direction_overrides_become_escapes(code: int) -> None:
    assert printable(f"a{chr(code)}b") == f"a{chr(code)}b".encode("unicode_escape").decode()


@DOCUMENTS
@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml", "markdown", "html", "name"])
@pytest.mark.parametrize("width", [40, 100, 160, UNFOLDED])
def test_no_form_lets_control_characters_through(document: Document, form: str, width: int) -> None:
    for wide in (False, True):
        text = RENDERERS[form](document, Style(width=width, wide=wide, commands=COMMANDS))
        assert all(line.isprintable() for line in text.split("\n"))
        assert re.search(r"\\(x|u00)1b|\\e", re.sub(r"\s", "", text))


@DOCUMENTS
def test_texts_cannot_set_colours(document: Document) -> None:
    text = RENDERERS["table"](document, Style(color=True, commands=COMMANDS))
    assert re.sub("\x1b\\[[0-9;]+m", "", text) == RENDERERS["table"](document, Style(commands=COMMANDS))


@DOCUMENTS
def test_data_forms_read_back_the_same(document: Document) -> None:
    assert json.loads(RENDERERS["json"](document, Style())) == document.to_dict()
    assert yaml.safe_load(RENDERERS["yaml"](document, Style())) == document.to_dict()


@DOCUMENTS
def test_markdown_specials_are_in_code_spans(document: Document) -> None:
    text = RENDERERS["markdown"](document, Style(commands=COMMANDS))
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    assert not re.search(r"[<@#\[]|https", outside.replace("### ", "").replace("<br>", ""))


def test_markdown_table_keeps_its_columns() -> None:
    lines = RENDERERS["markdown"](HOSTILE_REPORT, Style()).split("\n")
    starts = [i for i, line in enumerate(lines) if line.startswith("| ---")]
    assert starts
    for start in starts:
        columns = lines[start].count("|")
        rows = [line for line in lines[start - 1 : start + 2] if line]
        assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [columns] * len(rows)


def test_text_is_still_readable() -> None:
    assert "[bold]" in HOSTILE
    assert "[bold]|`x` <img src=x> @ops #1" in RENDERERS["table"](HOSTILE_REPORT, Style(width=100_000))
