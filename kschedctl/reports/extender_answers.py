"""Recorded answers of extenders, from which the same calls can be answered again: kind ExtenderAnswers."""

from __future__ import annotations

from typing import Any

from kschedctl.reports.document import Document


class ExtenderAnswer(Document, frozen=True):
    """The answer of the extender at a URL about a pod and some nodes."""

    extender: str
    verb: str
    pod: str
    nodes: tuple[str, ...]
    question: str
    """A hash of the whole request, without the pod's status and times."""
    status: int = 0
    body: Any = None
    """The decoded JSON of a response with status 200."""
    error: str = ""
    """Why the call failed, in kube-scheduler's words."""
    whole: bool = False
    """Whether the pod was sent with its annotations and volumes, which are not recorded."""


class ExtenderAnswers(Document, frozen=True):
    """Recorded answers, in the order of the calls."""

    answers: tuple[ExtenderAnswer, ...] = ()
    api_version: str = "kschedctl.dev/v1"
    kind: str = "ExtenderAnswers"
