"""The queues of Kueue with their quota and the Workloads that wait: kind KueueQueues."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Annotated

from kschedctl.api.copying import replace
from kschedctl.reports.columns import Column, CsvTable, to_csv_table
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.reports.summary import ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind
from kschedctl.text.counts import counted, first_few

NO_AMOUNT = {"0": ""}


class QuotaUsage(Document, frozen=True):
    """The quota of one resource in one flavor, as quantities."""

    queue: Annotated[str, Column("queue", keep=True)]
    """A ClusterQueue, or ``Cohort`` and a name."""
    flavor: Annotated[str, Column(keep=True, beneath="flavor")]
    resource: Annotated[str, Column(keep=True)]
    nominal: Annotated[str, Column(right=True)]
    """In a cohort the sum of its own quota and what its ClusterQueues can lend."""
    reserved: Annotated[str, Column(right=True)]
    """The quota that Workloads hold. For a cohort, this covers the Workloads of all its ClusterQueues."""
    admitted: Annotated[str, Column(right=True, beneath="admitted")]
    """The part of `reserved` that belongs to Workloads which may start."""
    borrowed: Annotated[str, Column(right=True, beneath="borrowed", words=NO_AMOUNT)]
    """The amount held beyond the queue's own quota."""
    lent: Annotated[str, Column(right=True, beneath="lent", words=NO_AMOUNT)]
    """The amount that the ClusterQueues and cohorts directly below borrow, empty for a ClusterQueue.

    Kueue does not record who lends it.
    """
    free: Annotated[str, Column(right=True, words={"": "none"})]
    """The amount that could still be used, including what can be borrowed. Empty if the ClusterQueue is not active."""
    borrowing_limit: Annotated[str, Column("may borrow", right=True, beneath="may borrow")] = ""
    lending_limit: Annotated[str, Column("may lend", right=True, beneath="may lend")] = ""


class ClusterQueueState(Document, frozen=True):
    """A ClusterQueue."""

    queue: Annotated[str, Column(keep=True)]
    cohort: Annotated[str, Column(keep=True)]
    """The cohorts from the root down, separated by ``/``."""
    active: Annotated[bool, Column()]
    waiting: Annotated[int, Column()]
    """The number of Workloads that wait for quota."""
    reserving: Annotated[int, Column(beneath="reserving")]
    """The number of Workloads that hold quota."""
    admitted: Annotated[int, Column(beneath="admitted")]
    """The number of Workloads that may start."""
    share: Annotated[str, Column("weighted share", right=True)] = ""
    """With fair sharing, how much it borrows of what could be lent, in thousandths, divided by its weight."""
    local_queues: Annotated[tuple[str, ...], Column("LocalQueues", verbatim=True)] = ()
    """Namespace and name."""
    reason: str = ""
    """Kueue's reason if it is not active."""
    message: Annotated[str, Column("problem")] = ""
    """Kueue's message if it is not active."""


class CohortState(Document, frozen=True):
    """A cohort."""

    cohort: str
    parent: str = ""
    queues: tuple[str, ...] = ()
    """The ClusterQueues directly below."""
    share: str = ""
    """With fair sharing, the weighted share, as for a ClusterQueue."""


class QueuedWorkload(Document, frozen=True):
    """A Workload that has no quota."""

    queue: Annotated[str, Column(keep=True)]
    """Its ClusterQueue, empty if it has none."""
    place: Annotated[int | None, Column("no.")]
    """The position in the queue, 1 for the Workload that is tried first."""
    workload: Annotated[str, Column(keep=True)]
    """Namespace and name."""
    priority: Annotated[int, Column(beneath="priority")]
    pods: Annotated[int, Column(beneath="pods")]
    waits: Annotated[str, Column("reason")]
    """The reason why it waits, in one line."""
    flavors: Annotated[tuple[str, ...], Column("would get", beneath="would get")] = ()
    """The flavors in which Kueue would admit it, if nothing else changes."""
    victims: Annotated[tuple[str, ...], Column("preempts", beneath="preempts")] = ()
    """The Workloads that Kueue would preempt for it."""
    holders: tuple[str, ...] = ()
    """Some of the Workloads that hold the quota that it needs."""
    message: str = ""
    """The message of Kueue's scheduler about it."""


class KueueQueues(Report, frozen=True):
    """The queues of Kueue."""

    queues: tuple[ClusterQueueState, ...] = ()
    cohorts: tuple[CohortState, ...] = ()
    quotas: tuple[QuotaUsage, ...] = ()
    waiting: tuple[QueuedWorkload, ...] = ()
    """The waiting Workloads, sorted by ClusterQueue and place."""
    release: str = ""
    """The release of Kueue that was replayed."""
    problems: tuple[str, ...] = ()
    """Objects that Kueue would refuse, and why."""
    doubts: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    kind: str = "KueueQueues"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return how many Workloads wait in how many ClusterQueues, and how many of them would get quota now."""
        if not self.queues:
            return ("No ClusterQueues were found" if self.unknown else "The cluster has no ClusterQueues",)
        inactive = sum(not queue.active for queue in self.queues)
        inactive_in_words = f"({inactive:,} inactive)" if inactive else ""
        queues = " ".join(filter(None, (counted(len(self.queues), "ClusterQueue"), inactive_in_words)))
        waiting = f"{counted(len(self.waiting), 'Workload')} {'waits' if len(self.waiting) == 1 else 'wait'}"
        return (f"{queues}: {waiting}{self._describe_outlook()}",)

    def _describe_outlook(self) -> str:
        """Describe how many Workloads would get quota now, and how many only by preempting other Workloads.

        Return "" if no Workload waits.
        """
        if not self.waiting:
            return ""
        with_quota = [workload for workload in self.waiting if workload.flavors]
        preempting = [workload for workload in with_quota if workload.victims]
        admitted = len(with_quota) - len(preempting)
        at_least = "at least " if self.doubts else ""
        outlooks = []
        if admitted or not preempting:
            outlooks.append(f"{admitted:,} would get quota now")
        if preempting:
            victims = tuple(dict.fromkeys(chain.from_iterable(workload.victims for workload in preempting)))
            outlooks.append(f"{len(preempting):,} would get quota by preempting {first_few(victims)}")
        return f"; {at_least}{', and '.join(outlooks)}"

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with the numbers of queues and Workloads, and the reasons why the answer is uncertain."""
        figures = {
            "queues": len(self.queues),
            "inactiveQueues": sum(not queue.active for queue in self.queues),
            "waiting": len(self.waiting),
            "wouldGetQuota": sum(bool(workload.flavors) for workload in self.waiting),
        }
        waiting = tuple(
            ShortPods(workload.pods, "", f"Workload {workload.workload}", workload.waits) for workload in self.waiting
        )
        return replace(
            summary,
            pods=waiting,
            figures=figures,
            warnings=tuple(self._iter_warnings()),
            doubts=(*summary.doubts, *self.problems),
        )

    def _iter_warnings(self) -> Iterator[str]:
        """Yield a sentence for each waiting Workload for which Kueue would preempt other Workloads."""
        for workload in self.waiting:
            if workload.victims:
                yield f"{workload.workload} would preempt {first_few(workload.victims)}"

    def build_csv_table(self) -> CsvTable:
        """Return the table of quotas."""
        return to_csv_table(QuotaUsage, self.quotas)
