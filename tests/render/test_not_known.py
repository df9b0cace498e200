"""Check what besides the verdict could change because of unread kinds."""

from __future__ import annotations

from kschedctl.render.page import with_tone
from kschedctl.render.sections import build_unread_lines
from kschedctl.reports.unknown import UnknownKind


def test_a_plugin_that_was_not_asked_could_change_the_words_and_the_victims() -> None:
    """Of a pod that does not fit anyway: the plugin might also refuse a node on which preemption would make room."""
    (line,) = build_unread_lines([UnknownKind("PersistentVolumeClaim", "were not among the files", "message")])
    said = " ".join(with_tone(part).text for part in line.parts)  # type: ignore[union-attr]
    add = ". Add them, or specify --assume-complete if there are none"
    why = "the files contain no list of PersistentVolumeClaims"
    assert said == f"Incomplete: {why}, so kube-scheduler's message and the pods that it preempts could differ{add}"


def test_what_the_verdict_leans_on_is_said_with_the_verdict() -> None:
    assert build_unread_lines([UnknownKind("Pod", "were not among the files", "verdict")]) == ()
