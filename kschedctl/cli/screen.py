"""Width of the output and the characters it may contain."""

from __future__ import annotations

import os
import shutil
import sys

from kschedctl.render.page import UNFOLDED

PIPED_WIDTH, LEAST_WIDTH = 120, 40


def get_width(wide: bool) -> int:
    """Return the columns of the terminal; in a pipe $COLUMNS, else PIPED_WIDTH, or no limit if `wide`."""
    if sys.stdout.isatty():
        return max(shutil.get_terminal_size().columns, LEAST_WIDTH)
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return max(int(columns), LEAST_WIDTH)
    return UNFOLDED if wide else PIPED_WIDTH


def supports_unicode() -> bool:
    """Return whether the output can show more than ASCII."""
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
