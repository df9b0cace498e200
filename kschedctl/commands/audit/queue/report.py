"""The section of an audit about the scheduling queue: where each pending pod is in it, and what gets it out."""

from __future__ import annotations

from kschedctl.commands.wakes.report import PodBetween, RejectorReport
from kschedctl.reports.document import Document
from kschedctl.reports.section import Section


class PodsInQueue(Document, frozen=True, kw_only=True):
    """Pods in the same ``queue``, refused by the same plugins, those that wait longest first.

    ``queue``: activeQ, backoffQ, unschedulable, permit (in none: it waits before it is bound), gated, none (no
    scheduler that is known has it) or unknown (it fits now and was refused before: whether anything woke it since then
    is not known). ``since``: when the first was put there at the latest, as far as that is known, ``age`` how long ago;
    ``wakes``: what gets it out. ``attempts``: how often one of them was refused at least, 0 where that is not known;
    ``backs_off_until``: when the last of them is tried again at the latest, empty where that is not known.
    """

    queue: str
    pods: tuple[str, ...]
    refused_by: tuple[str, ...] = ()
    since: str = ""
    age: str = ""
    attempts: int = 0
    backs_off_until: str = ""
    headline: str = ""
    wakes: tuple[RejectorReport, ...] = ()


class QueueSection(Section, frozen=True, kw_only=True, tag="queue"):
    """``queued``: all pending pods by queue. ``before``: the earlier moment that was compared with, empty for none.

    Then ``changes`` are what the scheduler heard of between the two, and ``between`` the pods that wait all the same
    though they fit: ``missed`` where none of the changes woke them.
    """

    queued: tuple[PodsInQueue, ...] = ()
    before: str = ""
    changes: int = 0
    unheard: int = 0
    between: tuple[PodBetween, ...] = ()
