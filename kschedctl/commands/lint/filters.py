"""What lint looks at and tells of: files, objects, severities, as options and as the settings of the project say."""

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
    """Which objects, and how grave."""

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
        """Raises InputError for a selector that is none."""
        return LintScope(self.namespace or "", parse_selector(self.selector) if self.selector else None)

    def kept(self, files: Iterable[str], project: Project) -> list[str]:
        """The files to read: those named here are excluded from here, those of the settings from their folder."""
        excluded = [(pattern, os.curdir) for pattern in self.exclude]
        excluded += [(pattern, str(project.folder)) for pattern in project.settings.exclude]
        return [
            file
            for file in files
            if file == STDIN or not any(matches_path(file, pattern, base) for pattern, base in excluded)
        ]
