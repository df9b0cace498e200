"""Checks of answers that were computed without one kind."""

from __future__ import annotations

from kschedctl.commands.explain.pending_pods import FINE
from kschedctl.commands.explain.report import Explanation


def check_not_another(part: Explanation, whole: Explanation, kind: str) -> None:
    """Check that ``part``, computed without a kind, equals ``whole`` or says that it depends on the kind."""
    if part.undecided:
        assert kind in {unknown.kind for unknown in part.unknown}
        return
    assert (part.verdict in FINE) == (whole.verdict in FINE), kind
    affected = {unknown.affects for unknown in part.unknown}
    if not affected:
        assert part.to_dict() == whole.to_dict(), kind
    if not affected & {"message", "victims"}:
        assert part.message == whole.message, kind
    if not affected & {"message", "scores"}:
        assert part.best == whole.best, kind
