"""Build what ``c`` copies: commands that can be typed as they stand, below their costs as comments."""

from __future__ import annotations

from kschedctl.commands.browse.session import BrowseSession
from kschedctl.reports.remedy import Remedy
from kschedctl.text.printable import printable

NO_POD = "nothing to copy: no pod is chosen, or the cluster came from standard input"
NO_COMMAND = "nothing to copy: no command makes this fix, Enter tells how"


def commands_of(remedy: Remedy) -> str:
    """Return the commands of a fix without their explanations, each of its costs as a comment above them.

    Return nothing if no command makes the fix.
    """
    lines = [line for command in remedy.commands for line in command.splitlines()]
    commands = [line for line in lines if not line.lstrip().startswith("#")]
    warnings = [f"# {' '.join(printable(cost.text).split())}" for cost in remedy.all_costs]
    return "\n".join([*warnings, *commands]) if commands else ""


def asking(session: BrowseSession, key: str, words: str, for_remedies: bool) -> str:
    """The command that asks the same about the pod; there is none where nothing is chosen."""
    return session.command("remedies" if for_remedies and not words else "explain", key, words) if key else ""
