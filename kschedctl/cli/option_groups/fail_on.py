"""``--fail-on``."""

from __future__ import annotations

from enum import StrEnum


class FailOn(StrEnum):
    """The values of ``--fail-on``."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    NEVER = "never"
