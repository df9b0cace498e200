"""The entries of the table of commands, in kschedctl/commands/table.py.

The struct stands below the commands so that the help, the renderers and the schemas can read the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from importlib import import_module

from msgspec import Struct

FAILURES = "2 usage or input, 3 cluster unreachable, 4 a bug"
EXIT_CODES = f"Exit codes: 0 schedules, 1 does not schedule, {FAILURES}, 5 undecided."


class HelpHeading(StrEnum):
    """A heading of `kschedctl --help`, in the order in which the help prints the headings."""

    ASK = "Ask"
    WHAT_IF = "What if"
    AUTOSCALERS = "Autoscalers"
    CHECK = "Check"
    CLUSTER = "Cluster"
    OTHER = "Other"


class CommandEntry(Struct, frozen=True):
    """An entry of the table of commands.

    References to code are `module:name`, with the module's path below the package kschedctl.
    """

    name: str
    summary: str
    """The question that the command answers, in one line of the help."""
    heading: HelpHeading
    place: int
    """The command's position below its heading in the help, counted from 1."""
    exit_codes: str = EXIT_CODES
    schemas: Mapping[str, str] = {}
    """Name that `kschedctl schema` takes -> the struct of the document."""
    pages: Mapping[str, str] = {}
    """Kind of a document -> the function that builds the document's page."""
    html_widgets: Mapping[str, str] = {}
    """Kind of a document -> the function that returns the sections that only the HTML form has."""
    compact_forms: Mapping[str, str] = {}
    """Kind of a document -> the function that folds nodes with the same answer together, for `--compact`."""
    formats: Mapping[str, str] = {}
    """Value of `-o` -> the function that renders a document of this command so, for formats that no other has."""

    @property
    def module(self) -> str:
        """The name of the command's folder and function."""
        return self.name.replace("-", "_")


def load_command_table() -> tuple[CommandEntry, ...]:
    """Load the table of commands, in its own order.

    The table is imported by name because it is in the layer above all callers.
    """
    table: tuple[CommandEntry, ...] = import_module("kschedctl.commands.table").TABLE
    return table
