"""Pictures of a terminal that shows the output of a command, in colour."""

from __future__ import annotations

import re
from io import StringIO

from rich.console import Console
from rich.text import Text

COLUMNS = 100
MOST_LINES = 34
FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def draw_terminal(command: str, output: str) -> str:
    """Draw the output of a command, which may have colours as ANSI codes, as an SVG picture.

    Long output ends with an ellipsis. The picture uses the reader's monospace font, so that nothing is fetched.
    """
    lines = output.rstrip().split("\n")
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 1], "…"]
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    console.print(Text.from_ansi("\n".join(lines)))
    return FONT.sub("", console.export_svg(title=command, unique_id=re.sub(r"\W+", "-", command)))
