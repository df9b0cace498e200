"""The report of the section about the scheduling queue."""

from __future__ import annotations

from kschedctl.commands.wakes.report import PodBetween, RejectorReport
from kschedctl.reports.document import Document
from kschedctl.reports.section import Section


class PodsInQueue(Document, frozen=True, kw_only=True):
    """Pods in the same queue that were rejected by the same plugins, the longest-waiting first."""

    queue: str
    """One of activeQ, backoffQ, unschedulable, permit (in no queue, waits before binding), gated, none (no known
    scheduler is responsible) or unknown (feasible now and rejected before, and it is not known if anything woke it
    since).
    """
    pods: tuple[str, ...]
    refused_by: tuple[str, ...] = ()
    since: str = ""
    """The latest time at which the first pod can have entered the queue, empty if unknown."""
    age: str = ""
    """The age of `since`."""
    attempts: int = 0
    """The minimum number of attempts of the most tried pod, 0 if unknown."""
    backs_off_until: str = ""
    """The latest time at which the last of the pods is tried again, empty if unknown."""
    headline: str = ""
    wakes: tuple[RejectorReport, ...] = ()
    """The changes that wake the pods, by rejecting plugin."""


class QueueSection(Section, frozen=True, kw_only=True, tag="queue"):
    """The section about the scheduling queue."""

    queued: tuple[PodsInQueue, ...] = ()
    """All pending pods by queue."""
    before: str = ""
    """The earlier time that was compared with, empty if there is none."""
    changes: int = 0
    """The number of changes between the two times that the scheduler watches."""
    unheard: int = 0
    between: tuple[PodBetween, ...] = ()
    """The pods that still wait although they fit now; `missed` if none of the changes woke them."""
