"""How the user called the program, so that what it suggests can be typed as it stands."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable


def program() -> str:
    """``kschedctl``, or ``kubectl ksched`` when kubectl ran it as its plugin."""
    return "kubectl ksched" if os.path.basename(sys.argv[0]).startswith("kubectl-ksched") else "kschedctl"


def command_line(*arguments: str | Iterable[str]) -> str:
    """The program with arguments, quoted for a shell."""
    flat = [part for a in arguments for part in ([a] if isinstance(a, str) else a)]
    return f"{program()} {shlex.join(flat)}"
