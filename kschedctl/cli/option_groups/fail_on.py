"""The option `--fail-on`."""

from __future__ import annotations

from enum import StrEnum


class FailOn(StrEnum):
    """The lowest severity of findings that makes a command fail."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    NEVER = "never"
