"""The options of commands whose answers have plots: as a picture, or in characters beneath the tables."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from kschedctl.cli.forms import PICTURES, TABLE, Form, option
from kschedctl.cli.options import GATES, Output, View
from kschedctl.errors import UsageError
from kschedctl.render.plots import extra

FORMS = ("table", "wide", "json", "yaml", "markdown", "html")


@dataclass(frozen=True)
class Drawing(Output):
    """``plot``: plots in characters, too, which terminals and pipes have otherwise none of."""

    plot: Annotated[bool, typer.Option("--plot", help="Draw the plots, too, in characters.")] = False

    def __post_init__(self) -> None:
        """Before anything is read. Raises UsageError."""
        if self.plot and self.output.name not in ("table", "wide"):
            raise UsageError("--plot draws beneath tables", hint="with -o table or wide; -o svg and png are pictures")
        if self.output.name == "png" and sys.stdout.isatty():
            raise UsageError("-o png is no text for a terminal", hint="write it to a file: > plot.png")
        if self.output.name in PICTURES:
            extra.need(extra.PICTURES, f"-o {self.output.name}")
        if self.plot:
            extra.need(extra.CHARACTERS, "--plot")

    def _plots(self) -> bool:
        return self.plot


@dataclass(frozen=True)
class Drawn(Drawing):
    """How an answer that lists pods is shown, also drawn."""

    output: Annotated[Form, option(*FORMS, "csv", "name", *PICTURES, *GATES)] = TABLE


@dataclass(frozen=True)
class DrawnView(Drawing, View):
    """How an answer about single nodes, too, is shown, also drawn."""

    output: Annotated[Form, option(*FORMS, "csv", "name", *PICTURES, *GATES)] = TABLE


@dataclass(frozen=True)
class DrawnUnlisted(Drawing):
    """How an answer about no list of pods is shown, also drawn."""

    output: Annotated[Form, option(*FORMS, "csv", *PICTURES)] = TABLE


@dataclass(frozen=True)
class DrawnUntabled(Drawing):
    """How an answer that is no table of things is shown, also drawn."""

    output: Annotated[Form, option(*FORMS, *PICTURES)] = TABLE
