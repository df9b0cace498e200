"""Check what besides the verdict could change because of unread kinds."""

from __future__ import annotations

from kschedctl.render.page import with_tone
from kschedctl.render.sections import build_unread_kind_lines
from kschedctl.reports.unknown import UnknownKind


def test_unread_kind_could_change_the_message_and_the_victims() -> None:
    """The pod does not fit anyway, but the plugin might also reject a node on which preemption would make room."""
    (line,) = build_unread_kind_lines([UnknownKind("PersistentVolumeClaim", "were not among the files", "message")])
    said = " ".join(with_tone(part).text for part in line.parts)  # type: ignore[union-attr]
    add = "; add them, or pass --assume-complete if there are none"
    why = "the files may lack PersistentVolumeClaims"
    assert said == f"Incomplete: {why}, so kube-scheduler's message and the pods that it preempts could differ{add}"


def test_unknowns_that_affect_the_verdict_are_shown_with_it() -> None:
    assert build_unread_kind_lines([UnknownKind("Pod", "were not among the files", "verdict")]) == ()
