"""What lets pods be created that the API server refuses, as remedies; with what lets them be scheduled then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kschedctl.commands.remedies.report import Remedies
from kschedctl.fixes.search import RemedyWishes
from kschedctl.reports.not_created import CreationFix, NotCreated
from kschedctl.reports.remedy import Remedy


def creation_remedies(lacking: NotCreated, wishes: RemedyWishes) -> list[Remedy]:
    """The fixes after which one of the pods gets a node, those that give nothing up first."""
    fine = [remedy_of_fix(fix) for fix in lacking.fixes if not fix.then and wished_for(fix, wishes)]
    return sorted(fine, key=lambda remedy: bool(remedy.weakens))


def wished_for(fix: CreationFix, wishes: RemedyWishes) -> bool:
    return len(fix.kinds) <= wishes.max_changes and all(wishes.considers(kind, fix.by) for kind in fix.kinds)


def remedy_of_fix(fix: CreationFix) -> Remedy:
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


def once_created(report: Remedies, lacking: NotCreated, wishes: RemedyWishes) -> Remedies:
    """The remedies of a pod that is not created either: each comes after what lets it be created.

    Those that change the pod itself are left out, as the API server might refuse it then.
    """
    first = next((fix for fix in lacking.fixes if not fix.owner and not fix.weakens), None)
    around = [remedy for remedy in report.remedies if not remedy.owner] if first else []
    both = (_both(first, remedy) for remedy in around if first is not None)
    shown = tuple(remedy for remedy in both if len(remedy.kinds) <= wishes.max_changes)
    return replace(report, remedies=shown, impossible=(*_not_enough(lacking.fixes), *report.impossible))


def _both(fix: CreationFix, remedy: Remedy) -> Remedy:
    return replace(
        remedy,
        summary=f"{fix.what[:1].upper()}{fix.what[1:]}, and {remedy.summary[:1].lower()}{remedy.summary[1:]}",
        by="operator",
        commands=(*fix.commands, *remedy.commands),
        changes=(*fix.changes, *remedy.changes),
        kinds=(*fix.kinds, *remedy.kinds),
    )


def _not_enough(fixes: Sequence[CreationFix]) -> Iterator[str]:
    """What lets it be created, and no more."""
    yield from (f"{fix.what}: it is created then, and waits: {fix.then}" for fix in fixes if fix.then)
