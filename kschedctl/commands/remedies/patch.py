"""The output format `-o patch`: fixes as strategic merge patches, with other commands as comments."""

from __future__ import annotations

from kschedctl.commands.remedies.report import Remedies, RemediesOfMany
from kschedctl.errors import UsageError
from kschedctl.render.data import to_yaml
from kschedctl.reports.document import Document
from kschedctl.reports.remedy import TEAMS, Remedy
from kschedctl.text.printable import printable


def render_patches(document: Document) -> str:
    """Render a YAML document for each remedy of the report, best first, with explanatory comments.

    Raises UsageError for a report of another kind than Remedies and RemediesOfMany.
    """
    if isinstance(document, RemediesOfMany):
        remedies = [chosen.remedy for chosen in document.chosen]
    elif isinstance(document, Remedies):
        remedies = [*document.remedies]
    else:
        kind = getattr(document, "kind", "another document")
        raise UsageError(f"-o patch needs remedies, but this is {kind}", hint="-o json has everything")
    return "---\n".join(_render_remedy(number, remedy) for number, remedy in enumerate(remedies, 1))


def _render_remedy(number: int, remedy: Remedy) -> str:
    """Render the patch of the pod's owner as YAML, below comments with the remedy, its drawbacks and other commands.

    A remedy without such a patch consists of comments only.
    """
    fits = "alone, the pod would fit" if remedy.holds is False else "the pod then fits"
    notes = [f"{number}: {remedy.summary} ({TEAMS[remedy.by]} team; {fits} on {', '.join(remedy.opens)})"]
    notes += [f"but {drawback}" for drawback in remedy.drawbacks]
    if remedy.gain:
        notes.append(remedy.gain)
    if remedy.owner:
        notes.append(f"strategic merge patch of {remedy.owner}")
    for command in remedy.commands:
        if not (remedy.owner_patch and _is_patch_command(command)):
            notes.append(f"run: {command}")
    comments = "".join(f"# {printable(line)}\n" for note in notes for line in note.splitlines())
    return comments + (to_yaml(remedy.owner_patch) if remedy.owner_patch else "")


def _is_patch_command(command: str) -> bool:
    """Return whether the command applies the strategic merge patch of the pod's owner."""
    return " --type strategic " in command
