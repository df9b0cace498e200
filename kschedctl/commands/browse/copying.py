"""Commands that the key `c` copies, ready to be pasted."""

from __future__ import annotations

from kschedctl.commands.browse.session import BrowseSession
from kschedctl.reports.remedy import Remedy
from kschedctl.text.printable import printable

NO_POD = "nothing to copy: no pod is chosen, or the cluster came from standard input"
NO_COMMAND = "nothing to copy: no command makes this fix, Enter tells how"


def format_commands(remedy: Remedy) -> str:
    """Format a fix's commands for pasting, with its costs as comments above.

    Return an empty string if no command applies the fix.
    """
    lines = [line for command in remedy.commands for line in command.splitlines()]
    commands = [line for line in lines if not line.lstrip().startswith("#")]
    warnings = [f"# {' '.join(printable(cost.text).split())}" for cost in remedy.all_costs]
    return "\n".join([*warnings, *commands]) if commands else ""


def build_question_command(session: BrowseSession, key: str, assumptions: str, *, for_remedies: bool) -> str:
    """Build the command that asks the same question about the pod. Return an empty string if no pod is chosen."""
    return (
        session.build_question_command("remedies" if for_remedies and not assumptions else "explain", key, assumptions)
        if key
        else ""
    )
