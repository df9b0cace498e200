"""The report of the section about Kueue's queues."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.section import Section


class LongWaitingWorkload(Document, frozen=True, kw_only=True):
    """A Workload of Kueue that is not admitted."""

    workload: Annotated[str, Column(keep=True)]
    """Namespace and name."""
    queue: Annotated[str, Column(keep=True)] = ""
    """Its ClusterQueue, empty if it has none."""
    since: str = ""
    """When it was created, or evicted for the last time."""
    age: Annotated[str, Column(right=True)] = ""
    """The age of `since`, which ends today if the time of the cluster is unknown."""
    why: Annotated[str, Column("reason")] = ""
    """The reason why it waits, in one line."""


class InactiveQueue(Document, frozen=True, kw_only=True):
    """A ClusterQueue that admits nothing."""

    queue: Annotated[str, Column(keep=True)]
    reason: Annotated[str, Column()]
    """Kueue's reason, `Stopped` if the stop policy of the ClusterQueue says so."""
    message: Annotated[str, Column("problem")]
    waiting: Annotated[int, Column()] = 0
    """The number of Workloads that wait in it."""


class StarvingQueue(Document, frozen=True, kw_only=True):
    """A ClusterQueue whose Workloads wait while others borrow from the cohort. It borrows nothing itself."""

    queue: Annotated[str, Column(keep=True)]
    cohort: Annotated[str, Column(keep=True)]
    """The root cohort."""
    waiting: Annotated[int, Column()]
    """The number of Workloads that wait in it."""
    age: Annotated[str, Column("oldest", right=True)] = ""
    """The time for which the oldest waits, empty if the time of the cluster is unknown."""
    borrowers: Annotated[tuple[str, ...], Column("who borrows")] = ()
    """The ClusterQueues of the cohort that borrow what this one has quota for."""


class UnusedFlavor(Document, frozen=True, kw_only=True):
    """A ResourceFlavor in which no Workload holds quota."""

    flavor: Annotated[str, Column("unused flavor", keep=True)]
    queues: Annotated[tuple[str, ...], Column("ClusterQueues with quota in it", verbatim=True)] = ()


class UnplacedWorkload(Document, frozen=True, kw_only=True):
    """An admitted Workload that has pods without a node."""

    workload: Annotated[str, Column(keep=True)]
    """Namespace and name."""
    queue: Annotated[str, Column(keep=True)]
    since: str = ""
    """When it was admitted."""
    age: Annotated[str, Column("admitted for", right=True)] = ""
    pods: Annotated[tuple[str, ...], Column("pods without a node", show_count=True)] = ()
    count: Annotated[int, Column("of")] = 0
    """The number of pods that it was admitted with."""


class QueuesSection(Section, frozen=True, kw_only=True, tag="queues"):
    """The section about Kueue's queues."""

    waiting: tuple[LongWaitingWorkload, ...] = ()
    """The Workloads that are not admitted, the longest waiting first."""
    inactive: tuple[InactiveQueue, ...] = ()
    starving: tuple[StarvingQueue, ...] = ()
    unused: tuple[UnusedFlavor, ...] = ()
    unplaced: tuple[UnplacedWorkload, ...] = ()
    """The Workloads that were admitted too long ago for pods without a node, the oldest admission first."""
