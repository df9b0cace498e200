"""What would wake a pod that was refused, as documents: apiVersion kschedctl.dev/v1, kind Wakes."""

from __future__ import annotations

import msgspec

from kschedctl.reports.document import Document
from kschedctl.reports.unknown import UnknownKind


class EventReport(Document, frozen=True):
    """An event that the scheduler makes of a change: upstream's label of it, and what each rejector says to it."""

    event: str
    resource: str
    hints: dict[str, str] = msgspec.field(default_factory=dict)


class Wakes(Document, frozen=True):
    """What an event does to a pod that was tried and refused.

    ``message``: why it was refused. ``unschedulable_plugins``, ``pending_plugins``: who refused it; ``gating_plugin``:
    who kept it from being tried at all. ``before``, ``after``: unschedulable, backoff or active. ``moved``: it left the
    unschedulable pods.
    """

    pod: str
    before: str
    after: str
    moved: bool
    message: str | None = None
    unschedulable_plugins: tuple[str, ...] = ()
    pending_plugins: tuple[str, ...] = ()
    gating_plugin: str = ""
    events: tuple[EventReport, ...] = ()
    kube_version: str = ""
    not_replayed: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Wakes"
