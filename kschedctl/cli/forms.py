"""The option `-o`: the formats in which a command can print its answer, including kubectl's templates."""

from __future__ import annotations

from dataclasses import dataclass

import typer

TEMPLATES = ("jsonpath", "custom-columns")
"""Formats that contain what to print, such as `jsonpath={.pod}`."""
PICTURES = ("svg", "png")
"""Formats that show only plots."""


@dataclass(frozen=True)
class OutputFormat:
    """A value of `-o`."""

    name: str
    """A key of RENDERERS."""
    template: str = ""
    """The text after `jsonpath=` or `custom-columns=`."""

    def __str__(self) -> str:
        return self.name


TABLE = OutputFormat("table")


def output_option(*names: str) -> object:
    """Declare the option `-o` of a command with these formats and the templates."""

    def parse_format(text: str | OutputFormat) -> OutputFormat:
        """Parse a value of `-o`. Raises BadParameter for a format that the command does not have."""
        if isinstance(text, OutputFormat):
            return text
        name, equals, template = text.removeprefix("=").partition("=")
        if (name in names and not equals) or (name in TEMPLATES and template):
            return OutputFormat(name, template)
        choices = ", ".join(f"'{choice}'" for choice in (*names, *(f"{choice}=…" for choice in TEMPLATES)))
        raise typer.BadParameter(f"'{text}' is not one of {choices}.")

    metavar = "|".join((*names, *(f"{choice}=…" for choice in TEMPLATES)))
    return typer.Option("-o", "--output", metavar=metavar, parser=parse_format, help="Output format.")
