"""The section of an audit about what waits for a node, by cause."""

from __future__ import annotations

from kschedctl.reports.audit.section import Section
from kschedctl.reports.document import Document


class WaitingPods(Document, frozen=True, kw_only=True):
    """Pods that wait for the same ``reason``, the oldest first; ``age`` is that of the oldest, empty if not known.

    ``cause``: stuck, error, gang, unschedulable, preemption, unserved, gated or turn (it fits, and is not tried yet).
    ``example``: what is true of the first one in a line.
    """

    cause: str
    reason: str
    pods: tuple[str, ...]
    workloads: tuple[str, ...] = ()
    age: str = ""
    example: str = ""


class PendingSection(Section, frozen=True, kw_only=True, tag="pending"):
    """``pods``: how many wait; ``waiting``: them by cause, the gravest first."""

    pods: int = 0
    waiting: tuple[WaitingPods, ...] = ()
