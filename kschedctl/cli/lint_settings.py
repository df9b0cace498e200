"""Finding and reading a project's settings of lint."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import yaml

from kschedctl.errors import InputError
from kschedctl.lint.settings import LintSettings, parse_settings

DOT_FILE, PYPROJECT = ".kschedctl.yaml", "pyproject.toml"


def find_settings(folder: Path) -> Path | None:
    """The nearest .kschedctl.yaml, or pyproject.toml with a table for kschedctl, up to the root of the repository."""
    for place in (folder, *folder.parents):
        if (place / DOT_FILE).is_file():
            return place / DOT_FILE
        if (place / PYPROJECT).is_file() and "[tool.kschedctl" in (place / PYPROJECT).read_text(encoding="utf-8"):
            return place / PYPROJECT
        if (place / ".git").exists():
            break
    return None


def read_settings(file: Path | None) -> LintSettings:
    """The settings in a file; the defaults without one. Raises InputError."""
    if file is None:
        return LintSettings()
    try:
        document = _parse(file)
    except OSError as error:
        raise InputError(error.strerror or "cannot be read", where=str(file)) from None
    except (tomllib.TOMLDecodeError, yaml.YAMLError) as error:
        raise InputError(" ".join(str(error).split()), where=str(file)) from None
    return parse_settings(document or {}, str(file)).lint


def _parse(file: Path) -> Any:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".toml":
        return tomllib.loads(text).get("tool", {}).get("kschedctl", {})
    return yaml.safe_load(text)
