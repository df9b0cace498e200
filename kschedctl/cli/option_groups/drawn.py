"""Options of commands whose answers have plots: as a picture, or as text below the tables."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from kschedctl.cli.forms import PICTURES, TABLE, OutputFormat, output_option
from kschedctl.cli.options import FINDING_FORMATS, Output, View
from kschedctl.errors import UsageError
from kschedctl.render import plots

FORMS = ("table", "wide", "json", "yaml", "markdown", "html")


@dataclass(frozen=True)
class Drawing(Output):
    """Output options of a command whose answer has plots."""

    plot: Annotated[bool, typer.Option("--plot", help="Draw the plots, too, in characters.")] = False

    def __post_init__(self) -> None:
        """Check the options before anything is read. Raises UsageError."""
        if self.plot and self.output.name not in ("table", "wide"):
            raise UsageError("--plot draws beneath tables", hint="with -o table or wide; -o svg and png are pictures")
        if self.output.name == "png" and sys.stdout.isatty():
            raise UsageError("-o png is no text for a terminal", hint="write it to a file: > plot.png")
        if self.output.name in PICTURES:
            plots.check_installed(plots.PICTURES, f"-o {self.output.name}")
        if self.plot:
            plots.check_installed(plots.CHARACTERS, "--plot")

    def _draws_plots(self) -> bool:
        return self.plot


@dataclass(frozen=True)
class Drawn(Drawing):
    """Output options of an answer that lists pods and has plots."""

    output: Annotated[OutputFormat, output_option(*FORMS, "csv", "name", *PICTURES, *FINDING_FORMATS)] = TABLE


@dataclass(frozen=True)
class DrawnView(Drawing, View):
    """Output options of an answer about pods and single nodes that has plots."""

    output: Annotated[OutputFormat, output_option(*FORMS, "csv", "name", *PICTURES, *FINDING_FORMATS)] = TABLE


@dataclass(frozen=True)
class DrawnUnlisted(Drawing):
    """Output options of an answer with tables but no list of pods."""

    output: Annotated[OutputFormat, output_option(*FORMS, "csv", *PICTURES)] = TABLE


@dataclass(frozen=True)
class DrawnUntabled(Drawing):
    """Output options of an answer with plots that has no main table."""

    output: Annotated[OutputFormat, output_option(*FORMS, *PICTURES)] = TABLE
