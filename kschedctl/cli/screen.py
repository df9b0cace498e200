"""How wide the output may be, and which characters whoever reads it knows."""

from __future__ import annotations

import os
import shutil
import sys

from kschedctl.render.page import UNFOLDED

PIPED_WIDTH, LEAST_WIDTH = 120, 40


def width(wide: bool) -> int:
    """Columns of the terminal; in a pipe $COLUMNS, else PIPED_WIDTH, or no limit where every row is for a tool."""
    if sys.stdout.isatty():
        return max(shutil.get_terminal_size().columns, LEAST_WIDTH)
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return max(int(columns), LEAST_WIDTH)
    return UNFOLDED if wide else PIPED_WIDTH


def knows_unicode() -> bool:
    """Whether whoever reads the output knows more than ASCII."""
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
