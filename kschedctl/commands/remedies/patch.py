"""``-o patch``: what the author of the workload changes, as strategic merge patches, with the commands for the rest."""

from __future__ import annotations

from kschedctl.commands.remedies.report import Remedies, RemediesOfMany
from kschedctl.errors import UsageError
from kschedctl.render.data import to_yaml
from kschedctl.reports.document import Document
from kschedctl.reports.remedy import TEAMS, Remedy
from kschedctl.text.printable import printable


def to_patch(document: Document) -> str:
    """A YAML document for each remedy, the best first; comments say what it is for. Raises UsageError."""
    if isinstance(document, RemediesOfMany):
        remedies = [chosen.remedy for chosen in document.chosen]
    elif isinstance(document, Remedies):
        remedies = [*document.remedies]
    else:
        kind = getattr(document, "kind", "another document")
        raise UsageError(f"-o patch shows remedies, and this is {kind}", hint="-o json has everything")
    return "---\n".join(_remedy(number, remedy) for number, remedy in enumerate(remedies, 1))


def _remedy(number: int, remedy: Remedy) -> str:
    said = [f"{number}: {remedy.summary} ({TEAMS[remedy.by]}; makes schedulable on {', '.join(remedy.opens)})"]
    said += [f"but {drawback}" for drawback in remedy.drawbacks]
    said += [remedy.gain] if remedy.gain else []
    said += [f"strategic merge patch of {remedy.owner}"] if remedy.owner else []
    said += [f"run: {command}" for command in remedy.commands if not (remedy.owner_patch and _says_the_same(command))]
    comments = "".join(f"# {printable(line)}\n" for text in said for line in text.splitlines())
    return comments + (to_yaml(remedy.owner_patch) if remedy.owner_patch else "")


def _says_the_same(command: str) -> bool:
    """Whether it is the command that makes the owner's patch."""
    return " --type strategic " in command
