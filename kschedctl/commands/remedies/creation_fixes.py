"""Convert fixes of pods that the API server refuses to create into remedies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kschedctl.commands.remedies.report import Remedies
from kschedctl.fixes.search import RemedyWishes
from kschedctl.reports.not_created import CreationFix, NotCreated
from kschedctl.reports.remedy import Remedy


def build_creation_remedies(not_created: NotCreated, wishes: RemedyWishes) -> list[Remedy]:
    """Return the fixes after which one of the pods gets a node, those that give up nothing first."""
    sufficient = [
        build_creation_remedy(fix) for fix in not_created.fixes if not fix.then and is_wished_for(fix, wishes)
    ]
    return sorted(sufficient, key=lambda remedy: bool(remedy.weakens))


def is_wished_for(fix: CreationFix, wishes: RemedyWishes) -> bool:
    """Return whether the fix has few enough changes, all of wished-for kinds."""
    return len(fix.kinds) <= wishes.max_changes and all(wishes.considers(kind, fix.by) for kind in fix.kinds)


def build_creation_remedy(fix: CreationFix) -> Remedy:
    """Return a fix of a failed creation in the form of a remedy."""
    return Remedy(
        summary=fix.what[:1].upper() + fix.what[1:],
        by=fix.by,
        weakens=fix.weakens or None,
        opens=fix.opens,
        commands=fix.commands,
        changes=fix.changes,
        kinds=fix.kinds,
        owner=fix.owner,
        owner_patch=fix.owner_patch,
        restarts=fix.restarts,
        costs=fix.costs,
    )


def prepend_creation_fix(report: Remedies, not_created: NotCreated, wishes: RemedyWishes) -> Remedies:
    """Return the report of a pod that is not created, with a creation fix put before each scheduling fix.

    Fixes that change the pod itself are left out, as the API server might reject the changed pod.
    """
    creation_fix = next((fix for fix in not_created.fixes if not fix.owner and not fix.weakens), None)
    fixes_around_pod = [remedy for remedy in report.remedies if not remedy.owner] if creation_fix else []
    combined = (_combine(creation_fix, remedy) for remedy in fixes_around_pod if creation_fix is not None)
    shown = tuple(remedy for remedy in combined if len(remedy.kinds) <= wishes.max_changes)
    return replace(
        report, remedies=shown, impossible=(*_explain_insufficient_fixes(not_created.fixes), *report.impossible)
    )


def _combine(fix: CreationFix, remedy: Remedy) -> Remedy:
    """Return the fixes of the creation and of the scheduling as one remedy."""
    return replace(
        remedy,
        summary=f"{fix.what[:1].upper()}{fix.what[1:]}, and {remedy.summary[:1].lower()}{remedy.summary[1:]}",
        by="operator",
        commands=(*fix.commands, *remedy.commands),
        changes=(*fix.changes, *remedy.changes),
        kinds=(*fix.kinds, *remedy.kinds),
    )


def _explain_insufficient_fixes(fixes: Sequence[CreationFix]) -> Iterator[str]:
    """Yield a line for each fix after which the pod is created but still waits."""
    yield from (f"{fix.what}: it is created then, and waits: {fix.then}" for fix in fixes if fix.then)
