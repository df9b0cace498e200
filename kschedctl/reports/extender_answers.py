"""What extenders answered, kept so that the same questions are answered without them: kind ExtenderAnswers.

``kschedctl schema extender-answers`` prints the JSON Schema.
"""

from __future__ import annotations

from typing import Any

from kschedctl.reports.document import Document


class ExtenderAnswer(Document, frozen=True):
    """What the extender at a URL answered when it was asked about a pod and these nodes.

    ``question``: a hash of all that it was asked, the pod's status and times aside. ``body``: the decoded JSON of a
    ``status`` 200; ``error``: why the call failed, in kube-scheduler's words. ``whole``: the pod was sent with its
    annotations and volumes, which are not kept.
    """

    extender: str
    verb: str
    pod: str
    nodes: tuple[str, ...]
    question: str
    status: int = 0
    body: Any = None
    error: str = ""
    whole: bool = False


class ExtenderAnswers(Document, frozen=True):
    """In the order in which they were given."""

    answers: tuple[ExtenderAnswer, ...] = ()
    api_version: str = "kschedctl.dev/v1"
    kind: str = "ExtenderAnswers"
