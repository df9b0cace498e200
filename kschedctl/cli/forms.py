"""``-o``: the forms in which a command can show its answer, kubectl's templates among them."""

from __future__ import annotations

from dataclasses import dataclass

import typer

TEMPLATES = ("jsonpath", "custom-columns")
"""Forms that say themselves what to print: ``jsonpath={.pod}``."""
PICTURES = ("svg", "png")
"""Forms that show plots alone."""


@dataclass(frozen=True)
class Form:
    """``name`` is a key of RENDERERS; ``template``: what stands behind ``jsonpath=`` or ``custom-columns=``."""

    name: str
    template: str = ""

    def __str__(self) -> str:
        return self.name


TABLE = Form("table")


def option(*names: str) -> object:
    """The option ``-o`` of a command that has these forms, and templates."""

    def form(text: str | Form) -> Form:
        """Raises BadParameter for a form that the command does not have."""
        if isinstance(text, Form):
            return text
        name, equals, template = text.removeprefix("=").partition("=")
        if (name in names and not equals) or (name in TEMPLATES and template):
            return Form(name, template)
        choices = ", ".join(f"'{choice}'" for choice in (*names, *(f"{choice}=…" for choice in TEMPLATES)))
        raise typer.BadParameter(f"'{text}' is not one of {choices}.")

    metavar = "|".join((*names, *(f"{choice}=…" for choice in TEMPLATES)))
    return typer.Option("-o", "--output", metavar=metavar, parser=form, help="Output format.")
