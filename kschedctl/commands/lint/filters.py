"""The options that choose files, objects and severities."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

import typer

from kschedctl.api.labels import parse_selector
from kschedctl.commands.lint.settings import Project
from kschedctl.lint.findings.scope import LintScope
from kschedctl.lint.findings.suppression import matches_path
from kschedctl.lint.framework.rule import Severity
from kschedctl.sources.documents.files import STDIN


@dataclass(frozen=True)
class LintFilters:
    """The files to read, and the objects and severities to report."""

    severity: Annotated[
        Severity | None,
        typer.Option("--severity", metavar="error|warning|note", help="Lowest severity to report.  [default: note]"),
    ] = None
    namespace: Annotated[
        str | None,
        typer.Option(
            "-n",
            "--namespace",
            metavar="NAME",
            help="Report only of this namespace; manifests that name none go there.",
        ),
    ] = None
    selector: Annotated[
        str | None,
        typer.Option("-l", "--selector", metavar="SELECTOR", help="Report only of objects, or pods, with such labels."),
    ] = None
    exclude: Annotated[
        list[str],
        typer.Option("--exclude", metavar="PATTERN", help="Do not read such files and folders. Repeatable."),
    ] = field(default_factory=list)

    @property
    def scope(self) -> LintScope:
        """Return the objects to report. Raises InputError for an invalid selector."""
        return LintScope(self.namespace or "", parse_selector(self.selector) if self.selector else None)

    def exclude_files(self, files: Iterable[str], project: Project) -> list[str]:
        """Return the files that neither the options nor the settings exclude.

        Patterns of options start at the current folder, those of settings at the settings file.
        """
        excluded = [(pattern, os.curdir) for pattern in self.exclude]
        excluded += [(pattern, str(project.folder)) for pattern in project.settings.exclude]
        return [
            file
            for file in files
            if file == STDIN or not any(matches_path(file, pattern, base) for pattern, base in excluded)
        ]
