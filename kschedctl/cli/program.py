"""The name by which the user called the program, so that suggested commands can be pasted."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable


def get_program_name() -> str:
    """Return `kschedctl`, or `kubectl ksched` if kubectl runs it as a plugin."""
    return "kubectl ksched" if os.path.basename(sys.argv[0]).startswith("kubectl-ksched") else "kschedctl"


def build_command_line(*arguments: str | Iterable[str]) -> str:
    """Build a command line of the program, quoted for a shell."""
    flat = [part for a in arguments for part in ([a] if isinstance(a, str) else a)]
    return f"{get_program_name()} {shlex.join(flat)}"
