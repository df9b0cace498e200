"""The output options of commands that report findings, and the exit code that the findings call for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from kschedctl.api.copying import replace
from kschedctl.cli.answer import DOES_NOT_SCHEDULE, SCHEDULES, UNDECIDED, Answer
from kschedctl.cli.forms import PICTURES, TABLE, OutputFormat, output_option
from kschedctl.cli.option_groups.drawn import FORMS, Drawing
from kschedctl.cli.option_groups.fail_on import FailOn
from kschedctl.cli.options import FINDING_FORMATS, Output
from kschedctl.commands.audit.report import Audit
from kschedctl.render.page import NO_COMMANDS, Commands
from kschedctl.reports.section import Section


@dataclass(frozen=True)
class FindingsOutput(Output):
    """How to show findings, and from which severity up they are a failure."""

    output: Annotated[
        OutputFormat, output_option("table", "wide", "json", "yaml", "markdown", "html", "sarif", "junit", "github")
    ] = TABLE
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", metavar="|".join(FailOn), help="Exit 1 from this severity up.")
    ] = FailOn.WARNING

    def build_answer(self, report: Audit | Section, commands: Commands = NO_COMMANDS) -> Answer:
        """Return the answer with its exit code: failed, undecided if needed data was not read, or successful.

        `commands` are the commands that help with the findings, by fingerprint.
        """
        answer = self.answer(report, commands=commands)
        if self.fail_on is not FailOn.NEVER and report.has_at_least(self.fail_on):
            return replace(answer, exit_code=DOES_NOT_SCHEDULE)
        return replace(answer, exit_code=UNDECIDED if report.undecided else SCHEDULES)


@dataclass(frozen=True)
class DrawableFindingsOutput(Drawing, FindingsOutput):
    """How to show findings, including as pictures."""

    output: Annotated[OutputFormat, output_option(*FORMS, *PICTURES, *FINDING_FORMATS)] = TABLE
