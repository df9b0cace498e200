"""Check that Markdown shows sentences as text and names from a cluster as code."""

from __future__ import annotations

import pytest

from kschedctl.render.markdown import render_markdown
from kschedctl.render.page import Style, Table, paragraph
from kschedctl.reports.columns import Column


@pytest.mark.parametrize("text", ["– 1 pod fits nowhere else, 2 pods get another node", "→ Run remedies to find it"])
def test_sentences_after_a_dash_or_an_arrow_are_text(text: str) -> None:
    assert render_markdown((paragraph(text),), Style()) == f"{text}\n"


@pytest.mark.parametrize("text", ["- item", "@ops", "→ see https://example.com", "– *bold*"])
def test_text_that_markdown_would_format_is_code(text: str) -> None:
    assert render_markdown((paragraph(text),), Style()) == f"`{text}`\n"


def test_cpu_keeps_its_capitals_in_headings() -> None:
    page = (Table((Column("cpu requested"), Column("most free")), (("1", "2"),)),)
    assert render_markdown(page, Style()).startswith("| CPU requested | Most free |\n")
