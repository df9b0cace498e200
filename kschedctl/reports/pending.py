"""All pending pods by what keeps them pending, as a document: apiVersion kschedctl.dev/v1, kind PendingPods."""

from __future__ import annotations

from kschedctl.reports.explanation import Document
from kschedctl.reports.unknown import UnknownKind


class PendingGroup(Document, frozen=True):
    """Pods that wait for the same reasons.

    ``cause`` is told of the first of them, as is ``message``, kube-scheduler's own; ``next`` is a command.
    """

    verdict: str
    cause: str
    message: str | None
    pods: tuple[str, ...]
    next: str


class PendingPods(Document, frozen=True):
    """The groups, those that do not schedule first. ``scope``: where was looked; ``hints``: commands to try.

    ``not_replayed`` names what could change an answer but was left out.
    """

    scope: str
    groups: tuple[PendingGroup, ...] = ()
    hints: tuple[str, ...] = ()
    not_replayed: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "PendingPods"
