"""The answers about several pods, as a document: apiVersion kschedctl.dev/v1, kind Explanations."""

from __future__ import annotations

from kschedctl.reports.document import Document
from kschedctl.reports.explanation import Explanation
from kschedctl.reports.unknown import UnknownKind

FINE = ("Schedulable", "Bound", "Finished")
"""The verdicts on a pod that needs no help to get a node."""


class Explanations(Document, frozen=True):
    """Each pod by itself, in the order in which they were asked about.

    ``not_replayed`` and ``unknown``: of any of them; ``undecided``: whether all are fine leans on what was not read.
    """

    explanations: tuple[Explanation, ...]
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Explanations"
