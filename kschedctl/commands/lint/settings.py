"""Reading of a project's lint settings and baselines, and the options that filter files, objects and severities."""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from kschedctl.api.labels import parse_selector
from kschedctl.errors import InputError
from kschedctl.lint.engine import LintSettings, check_rules_exist, parse_settings
from kschedctl.lint.reporting import LintScope
from kschedctl.lint.rule import Severity
from kschedctl.lint.suppression import PathIgnores, matches_path, parse_baseline
from kschedctl.sources.documents.documents import SMALL, load_documents
from kschedctl.sources.documents.files import STDIN, format_file_path, open_file

DOT_FILE, PYPROJECT = ".kschedctl.yaml", "pyproject.toml"
TOML_TABLE = b"[tool.kschedctl"


class Project(NamedTuple):
    """A project with its lint settings."""

    settings: LintSettings
    folder: Path
    """The folder from which paths in the settings start."""


def build_path_ignores(project: Project) -> PathIgnores:
    """Build the ignores of rules by path from the settings. Raises UsageError for rules that do not exist."""
    patterns = project.settings.per_path_ignores
    check_rules_exist(rule for rules in patterns.values() for rule in rules)
    return PathIgnores(patterns, str(project.folder))


def find_settings(folder: Path) -> Path | None:
    """Return the nearest .kschedctl.yaml or pyproject.toml with a table for kschedctl, or None if there is none.

    The search ends at the repository's root. Raises InputError for a pyproject.toml that cannot be read.
    """
    for parent in (folder, *folder.parents):
        if (parent / DOT_FILE).is_file():
            return parent / DOT_FILE
        if (parent / PYPROJECT).is_file() and TOML_TABLE in _read_small_file(str(parent / PYPROJECT)):
            return parent / PYPROJECT
        if (parent / ".git").exists():
            break
    return None


def read_settings(file: Path | None) -> LintSettings:
    """Read the settings in a file, or return the defaults if there is no file.

    Raises InputError if the settings are invalid.
    """
    if file is None:
        return LintSettings()
    document = _read_toml_table(str(file)) if file.suffix == ".toml" else _read_only_document(str(file))
    return parse_settings({} if document is None else document, format_file_path(str(file))).lint


def read_baseline(file: str) -> Counter[str]:
    """Read how often each fingerprint is in a baseline file. Raises InputError if the file is malformed."""
    return parse_baseline(_read_only_document(file), format_file_path(file))


def _read_only_document(file: str) -> object:
    """Read the only document of a file, or return None if the file is empty. Raises InputError if it has several."""
    documents = load_documents(file)
    if len(documents) > 1:
        raise InputError(f"expected one document, found {len(documents)}", where=format_file_path(file))
    return documents[0].value if documents else None


def _read_toml_table(file: str) -> object:
    """Read the table for kschedctl in a pyproject.toml, or return None if there is none.

    Raises InputError if the file cannot be parsed.
    """
    try:
        document = tomllib.loads(_read_small_file(file).decode())
    except RecursionError:
        raise InputError("nested too deeply", where=format_file_path(file)) from None
    except ValueError as error:  # no UTF-8, no TOML, or an integer of more than 4,300 digits
        raise InputError(" ".join(str(error).split()), where=format_file_path(file)) from None
    tools = document.get("tool")
    return tools.get("kschedctl") if isinstance(tools, dict) else None


def _read_small_file(file: str) -> bytes:
    """Read a file that a person wrote. Raises InputError if it is too large."""
    with open_file(file) as reader:
        data = reader.read(SMALL + 1)
    if len(data) > SMALL:
        raise InputError(f"larger than {SMALL >> 20} MiB", where=format_file_path(file))
    return data


@dataclass(frozen=True)
class LintFilters:
    """Options for the files to read, and for the objects and severities to report."""

    severity: Annotated[
        Severity | None,
        typer.Option(
            "--severity",
            metavar="error|warning|note",
            help="Report only findings of this severity or higher.  [default: note]",
        ),
    ] = None
    namespace: Annotated[
        str | None,
        typer.Option(
            "-n",
            "--namespace",
            metavar="NAME",
            help="Report only objects in this namespace. Manifests without a namespace are treated as part of it.",
        ),
    ] = None
    selector: Annotated[
        str | None,
        typer.Option(
            "-l",
            "--selector",
            metavar="SELECTOR",
            help="Report only objects whose own labels or pod labels match this selector, such as app=web.",
        ),
    ] = None
    exclude: Annotated[
        list[str],
        typer.Option(
            "--exclude",
            metavar="GLOB",
            help="Skip files and folders whose name or path matches this glob, such as 'vendor/*'. Repeatable.",
        ),
    ] = field(default_factory=list)

    @property
    def scope(self) -> LintScope:
        """The objects to report. Raises InputError for an invalid selector."""
        return LintScope(self.namespace or "", parse_selector(self.selector) if self.selector else None)

    def exclude_files(self, files: Iterable[str], project: Project) -> list[str]:
        """Return the files that neither the options nor the settings exclude.

        Patterns in options are relative to the current folder, patterns in settings to the folder of the settings file.
        """
        excluded = [(pattern, os.curdir) for pattern in self.exclude]
        excluded += [(pattern, str(project.folder)) for pattern in project.settings.exclude]
        return [
            file
            for file in files
            if file == STDIN or not any(matches_path(file, pattern, base) for pattern, base in excluded)
        ]
