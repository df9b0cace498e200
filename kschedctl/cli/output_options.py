"""The result of a command, and the options that choose how it is printed: its format, colors, detail, and plots."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Self

import msgspec
import typer

from kschedctl.api.copying import replace
from kschedctl.errors import UsageError
from kschedctl.render import plots
from kschedctl.render.page import NO_COMMANDS, UNFOLDED, Commands, Style, find_plots
from kschedctl.render.renderers import RENDERERS, build_page
from kschedctl.reports.document import Document
from kschedctl.sources.documents.place import Place

log = logging.getLogger(__name__)

SCHEDULES, DOES_NOT_SCHEDULE, UNDECIDED = 0, 1, 5

TEMPLATES = ("jsonpath", "custom-columns")
"""Formats that contain what to print, such as `jsonpath={.pod}`."""
PICTURES = ("svg", "png")
"""Formats that show only plots."""
FINDING_FORMATS = ("sarif", "junit", "github")
"""Formats for CI, which show the problems of an answer as findings."""
DATA_FORMATS = ("json", "yaml", *TEMPLATES)
"""Formats that programs read."""
COMMON_FORMATS = ("table", "wide", "json", "yaml", "markdown", "html")
MAX_HTML_MATRICES = 100
"""Number of distinct kinds of pods that an HTML report explains node by node."""
PIPED_WIDTH, LEAST_WIDTH = 120, 40
Places = Mapping[str, Place]
NO_PLACES: Places = {}


class Answer(msgspec.Struct, frozen=True):
    """The result of a command."""

    document: Document
    """The report to print."""
    format: str
    """A key of RENDERERS."""
    style: Style
    """Width, colors and other choices of the output."""
    exit_code: int = SCHEDULES
    cluster_name: str | None = None
    """The cluster that the answer is about, "" for none, or None for the cluster that the options name."""

    def with_provenance(self, command: str, full_command: str = "") -> Self:
        """Return the answer with the time and the command line, which saved reports show.

        `full_command` is the command line for the whole answer, to which brief forms point.
        """
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        about = (*self.style.about, ("made", now), ("command", command))
        return replace(self, style=replace(self.style, about=about, full_command=full_command))

    def render(self) -> str | bytes:
        """Render the answer as text, or as bytes for a PNG."""
        if self.style.plots and not find_plots(build_page(self.document, self.style)):
            log.warning("note: this answer has no plots, so --plot has no effect")
        return RENDERERS[self.format](self.document, self.style)


class FailOn(StrEnum):
    """The lowest severity of findings that makes a command fail."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    NEVER = "never"


class Color(StrEnum):
    """The values of ``--color``."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


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


def declare_output_option(*names: str) -> object:
    """Declare the option `-o` for a command that offers the formats ``names`` and the templates."""

    def parse_format(text: str | OutputFormat) -> OutputFormat:
        """Parse a value of `-o`. Raises BadParameter for a format that the command does not have."""
        if isinstance(text, OutputFormat):
            return text
        name, equals, template = text.removeprefix("=").partition("=")
        is_plain_format = name in names and not equals
        is_complete_template = name in TEMPLATES and bool(template)
        if is_plain_format or is_complete_template:
            return OutputFormat(name, template)
        choices = ", ".join(f"'{choice}'" for choice in (*names, *(f"{choice}=…" for choice in TEMPLATES)))
        raise typer.BadParameter(f"'{text}' is not one of {choices}.")

    metavar = "|".join((*names, *(f"{choice}=…" for choice in TEMPLATES)))
    return typer.Option("-o", "--output", metavar=metavar, parser=parse_format, help="Output format.")


ColorOption = Annotated[
    Color,
    typer.Option(
        "--color",
        metavar="|".join(Color),
        help="When to use colors; auto means on terminals, unless NO_COLOR is set.",
    ),
]
VerboseOption = Annotated[
    int,
    typer.Option(
        "-v", "--verbose", count=True, show_default=False, help="Log more details to stderr; -vv logs everything."
    ),
]
BRIEF_RENDERERS = {"table": "brief", "wide": "brief", "markdown": "brief-markdown"}
"""The renderer of the brief form, by output format. Other formats have no brief form."""
QuietOption = Annotated[bool, typer.Option("-q", "--quiet", help="Print only errors to stderr, no warnings or notes.")]


@dataclass(frozen=True)
class Output:
    """Options that choose how the answer is printed."""

    output: Annotated[OutputFormat, declare_output_option(*COMMON_FORMATS, "csv", "name")] = TABLE
    color: ColorOption = Color.AUTO
    verbose: VerboseOption = 0
    quiet: QuietOption = False
    brief: Annotated[
        bool, typer.Option("--brief", help="Print at most 12 lines: the cause, warnings and the best fix.")
    ] = False
    summary: Annotated[
        bool, typer.Option("--summary", help="With -o json or yaml: print only the decisive facts, at most 12 KB.")
    ] = False

    def build_answer(
        self, document: Any, exit_code: int = 0, commands: Commands = NO_COMMANDS, places: Places = NO_PLACES
    ) -> Answer:
        """Build the answer for a document in the format that the options select.

        Depending on the options, the document is first converted to findings or to a shorter form. `commands` are the
        next steps that the output for people suggests. `places` maps an object, such as `Pod shop/web`, to where its
        manifest is. Findings refer to these places.
        """
        wide = self.output.name == "wide"
        style = Style(
            width=get_output_width(wide),
            color=self._is_colored(),
            wide=wide,
            all_nodes=self._shows_all_nodes(),
            template=self.output.template,
            plots=self._draws_plots(),
            ascii_only=not supports_unicode(),
            commands=commands,
        )
        document = self._convert_to_findings(document, places)
        return Answer(self._shorten_document(document, style), self._select_renderer(), style, exit_code)

    def _select_renderer(self) -> str:
        """Return the name of the renderer. Raises UsageError if `--brief` is combined with a format for machines."""
        if not self.brief:
            return self.output.name
        if self.output.name not in BRIEF_RENDERERS:
            hint = "use --summary" if self.output.name in DATA_FORMATS else ""
            raise UsageError(f"--brief does not work with -o {self.output.name}", hint=hint)
        return BRIEF_RENDERERS[self.output.name]

    def _convert_to_findings(self, document: Document, places: Places) -> Document:
        """Convert the problems of the document to findings if the format is for CI.

        The document is returned unchanged for another format, or if reports of its kind have no CI gate.
        """
        if self.output.name not in FINDING_FORMATS:
            return document
        from kschedctl.cli.gates import build_gate_findings  # noqa: PLC0415 - most answers are for people
        from kschedctl.reports.findings import WithFindings  # noqa: PLC0415 - most answers are for people

        if isinstance(document, WithFindings):
            return document
        return build_gate_findings(document, document.kind.lower(), places) or document  # type: ignore[attr-defined]

    def _shorten_document(self, document: Document, style: Style) -> Document:
        """Return the summary of the document if `--summary` is given, else the document.

        Raises UsageError if `--summary` is combined with `--brief` or a format for people.
        """
        if not self.summary:
            return document
        if self.brief or self.output.name not in DATA_FORMATS:
            raise UsageError("--summary works only with -o json or yaml", hint="to shorten tables, use --brief")
        from kschedctl.render.brief import build_summary  # noqa: PLC0415 - few answers are summarized

        return build_summary(document, style)

    @property
    def max_matrices(self) -> int:
        """The number of distinct kinds of pods to explain node by node, which is 0 for all formats but HTML."""
        return MAX_HTML_MATRICES if self.output.name == "html" else 0

    def _is_colored(self) -> bool:
        """Return whether the output has colors."""
        if self.color is Color.AUTO:
            return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return self.color is Color.ALWAYS

    def _shows_all_nodes(self) -> bool:
        """Return whether every node is listed separately."""
        return False

    def _draws_plots(self) -> bool:
        """Return whether plots are drawn below the tables."""
        return False


@dataclass(frozen=True)
class View(Output):
    """Output options of an answer about single nodes."""

    each_node: Annotated[
        bool,
        typer.Option(
            "--each-node",
            help="List every node separately, instead of listing groups of nodes or only the first few nodes.",
        ),
    ] = False
    nodes: Annotated[bool, typer.Option("--nodes", hidden=True)] = False
    """The former name of --each-node."""
    compact: Annotated[
        bool, typer.Option("--compact", help="With -o json or yaml: group nodes that have the same answer.")
    ] = False

    def _shorten_document(self, document: Document, style: Style) -> Document:
        """Return the compact form of the document if `--compact` is given, else what the base class returns.

        Raises UsageError if `--compact` is combined with `--brief`, `--summary` or a format for people.
        """
        if not self.compact:
            return super()._shorten_document(document, style)
        if self.brief or self.summary or self.output.name not in DATA_FORMATS:
            raise UsageError("--compact works only with -o json or yaml", hint="leave --summary out")
        from kschedctl.render.renderers import to_compact_form  # noqa: PLC0415 - few answers need it

        return to_compact_form(document)

    def _shows_all_nodes(self) -> bool:
        """Return whether every node is listed separately."""
        return self.each_node or self.nodes


@dataclass(frozen=True)
class Untabled(Output):
    """Output options of an answer without a main table."""

    output: Annotated[OutputFormat, declare_output_option(*COMMON_FORMATS)] = TABLE


@dataclass(frozen=True)
class Tabled(Output):
    """Output options of an answer with a main table that does not list pods."""

    output: Annotated[OutputFormat, declare_output_option(*COMMON_FORMATS, "csv")] = TABLE


@dataclass(frozen=True)
class Drawing(Output):
    """Output options of a command whose answer has plots."""

    plot: Annotated[bool, typer.Option("--plot", help="Also draw plots as text below the tables.")] = False

    def __post_init__(self) -> None:
        """Check the options before anything is read.

        Raises UsageError if the output format does not suit the plot or the terminal, or the plot library is missing.
        """
        if self.plot and self.output.name not in ("table", "wide"):
            raise UsageError("--plot works only with -o table or wide", hint="to get pictures, use -o svg or png")
        if self.output.name == "png" and sys.stdout.isatty():
            raise UsageError("-o png cannot be shown in a terminal", hint="write it to a file: > plot.png")
        if self.output.name in PICTURES:
            plots.check_installed(plots.PICTURES, f"-o {self.output.name}")
        if self.plot:
            plots.check_installed(plots.CHARACTERS, "--plot")

    def _draws_plots(self) -> bool:
        """Return whether plots are drawn below the tables."""
        return self.plot


@dataclass(frozen=True)
class Drawn(Drawing):
    """Output options of an answer that lists pods and has plots."""

    output: Annotated[
        OutputFormat, declare_output_option(*COMMON_FORMATS, "csv", "name", *PICTURES, *FINDING_FORMATS)
    ] = TABLE


@dataclass(frozen=True)
class DrawnView(Drawing, View):
    """Output options of an answer about pods and single nodes that has plots."""

    output: Annotated[
        OutputFormat, declare_output_option(*COMMON_FORMATS, "csv", "name", *PICTURES, *FINDING_FORMATS)
    ] = TABLE


@dataclass(frozen=True)
class DrawnUnlisted(Drawing):
    """Output options of an answer with tables but no list of pods."""

    output: Annotated[OutputFormat, declare_output_option(*COMMON_FORMATS, "csv", *PICTURES)] = TABLE


@dataclass(frozen=True)
class DrawnUntabled(Drawing):
    """Output options of an answer with plots that has no main table."""

    output: Annotated[OutputFormat, declare_output_option(*COMMON_FORMATS, *PICTURES)] = TABLE


def get_output_width(wide: bool) -> int:
    """Return the width of the output in columns.

    On a terminal, it is the terminal's width. Piped output is as wide as $COLUMNS or else PIPED_WIDTH, or has no limit
    if `wide` is set and $COLUMNS is not. A width below LEAST_WIDTH is raised to it.
    """
    if sys.stdout.isatty():
        return max(shutil.get_terminal_size().columns, LEAST_WIDTH)
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return max(int(columns), LEAST_WIDTH)
    return UNFOLDED if wide else PIPED_WIDTH


def supports_unicode() -> bool:
    """Return whether the output can show more than ASCII."""
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
