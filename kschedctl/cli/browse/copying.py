"""What ``c`` copies: commands alone, which can be typed as they stand."""

from __future__ import annotations

from kschedctl.cli.browse.session import BrowseSession
from kschedctl.reports.remedies import Remedy

NO_POD = "nothing to copy: no pod is chosen, or the cluster came from standard input"
NO_COMMAND = "nothing to copy: no command makes this fix, Enter tells how"


def commands_of(remedy: Remedy) -> str:
    """The lines that do something, and nothing that only explains them."""
    lines = (line for command in remedy.commands for line in command.splitlines())
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))


def asking(session: BrowseSession, key: str, words: str, for_remedies: bool) -> str:
    """The command that asks the same about the pod; there is none where nothing is chosen."""
    return session.command("remedies" if for_remedies and not words else "explain", key, words) if key else ""
