"""Finding and reading a project's settings of lint, and baselines."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from kschedctl.errors import InputError
from kschedctl.lint.engine import check_rules_exist
from kschedctl.lint.findings.suppression import PathIgnores, parse_baseline
from kschedctl.lint.settings import LintSettings, parse_settings
from kschedctl.sources.documents.documents import SMALL, parse, read_content
from kschedctl.sources.documents.files import open_file, shown

DOT_FILE, PYPROJECT = ".kschedctl.yaml", "pyproject.toml"
OURS = b"[tool.kschedctl"


class Project(NamedTuple):
    """What a project sets, and the folder from which paths in its settings begin."""

    settings: LintSettings
    folder: Path


def path_ignores(project: Project) -> PathIgnores:
    """Which rules files are exempt from. Raises UsageError for rules that do not exist."""
    patterns = project.settings.per_path_ignores
    check_rules_exist(rule for rules in patterns.values() for rule in rules)
    return PathIgnores(patterns, str(project.folder))


def find_settings(folder: Path) -> Path | None:
    """The nearest .kschedctl.yaml, or pyproject.toml with a table for kschedctl, up to the root of the repository.

    Raises InputError for a pyproject.toml that cannot be read.
    """
    for place in (folder, *folder.parents):
        if (place / DOT_FILE).is_file():
            return place / DOT_FILE
        if (place / PYPROJECT).is_file() and OURS in _small(str(place / PYPROJECT)):
            return place / PYPROJECT
        if (place / ".git").exists():
            break
    return None


def read_settings(file: Path | None) -> LintSettings:
    """The settings in a file; the defaults without one. Raises InputError."""
    if file is None:
        return LintSettings()
    document = _toml(str(file)) if file.suffix == ".toml" else _only_document(str(file))
    return parse_settings({} if document is None else document, shown(str(file))).lint


def read_baseline(file: str) -> Counter[str]:
    """How often each fingerprint is in a baseline file. Raises InputError."""
    return parse_baseline(_only_document(file), shown(file))


def _only_document(file: str) -> object:
    """None for a file in which nothing stands."""
    with open_file(file) as reader:
        documents = list(parse(read_content(reader)))
    if len(documents) > 1:
        raise InputError(f"expected one document, found {len(documents)}", where=shown(file))
    return documents[0].value if documents else None


def _toml(file: str) -> object:
    try:
        document = tomllib.loads(_small(file).decode())
    except RecursionError:
        raise InputError("nested too deeply", where=shown(file)) from None
    except ValueError as error:  # no UTF-8, no TOML, or an integer of more than 4,300 digits
        raise InputError(" ".join(str(error).split()), where=shown(file)) from None
    tools = document.get("tool")
    return tools.get("kschedctl") if isinstance(tools, dict) else None


def _small(file: str) -> bytes:
    """What a person wrote. Raises InputError."""
    with open_file(file) as reader:
        data = reader.read(SMALL + 1)
    if len(data) > SMALL:
        raise InputError(f"larger than {SMALL >> 20} MiB", where=shown(file))
    return data
