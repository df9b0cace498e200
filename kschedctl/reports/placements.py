"""What becomes of pods, as part of several reports: not scheduled, evicted, counted by place and by run."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.report import GateProblem, with_pod_count
from kschedctl.reports.summary import ShortPods


class UnplacedPods(Document, frozen=True):
    """New pods that stay without a node for one reason; ``message`` is kube-scheduler's own.

    ``queue``: where they wait, unschedulable or backoff, empty where that is not told; ``rejectors``: the plugins that
    refused them, and that put them back when they hear of something that may help. ``cause``: what is behind the
    message, such as a StorageClass that does not exist, empty where the message says it.
    """

    workload: str
    verdict: str
    message: str
    pods: tuple[str, ...]
    queue: str = ""
    rejectors: tuple[str, ...] = ()
    cause: str = ""

    @property
    def shortened(self) -> ShortPods:
        return ShortPods(len(self.pods), self.pods[0], self.workload, self.cause or self.message or self.verdict)

    @property
    def gate_problem(self) -> GateProblem:
        """Return what a CI gate objects to."""
        message = with_pod_count(len(self.pods), self.message or self.verdict)
        return GateProblem("not-scheduled", self.workload or f"Pod {self.pods[0]}", message)


class RetriedPods(Document, frozen=True):
    """Pods of a workload that fitted nowhere at first and were tried again.

    ``after``: kube-scheduler's label of what put them back into the queue -> how often it did; AssignedPodAdd and
    AssignedPodDelete are pods that came to nodes and left them, UnschedulableTimeout is that five minutes passed.
    ``queue``, ``rejectors``: as of UnplacedPods, empty for pods that have a node in the end.
    """

    workload: Annotated[str, Column(keep=True)]
    pods: Annotated[tuple[str, ...], Column(counted=True, place=-1)]
    after: Annotated[dict[str, int], Column("again after", beneath="again after")]
    queue: Annotated[str, Column("then", beneath="then")] = ""
    rejectors: tuple[str, ...] = ()


class EvictionFate(StrEnum):
    """What became of a pod that preemption evicted."""

    MOVED = "Moved"
    """Its controller recreated it, and it has a node."""
    PENDING = "Pending"
    """Its controller recreated it, and it fits nowhere."""
    LOST = "Lost"
    """Nobody recreates it."""


class EvictedPod(Document, frozen=True):
    """A pod that preemption evicts for ``by``. ``budgets``: the PodDisruptionBudgets that select it.

    ``fate``, where it is known: Moved to the node ``target`` once its controller made it again, Pending since it fits
    nowhere, or Lost since nobody makes it again. ``round``: 1 if the preemptor was not evicted itself before, 2 if the
    preemptor is the replacement of a pod of round 1, and so on. A pod that is evicted twice is listed twice.
    """

    pod: Annotated[str, Column("evicted pod", keep=True)]
    node: Annotated[str, Column(keep=True, beneath="on")]
    by: Annotated[str, Column("for", keep=True, beneath="for", place=1, narrow=True)]
    priority: Annotated[int, Column(form="")]
    workload: str
    budgets: Annotated[tuple[str, ...], Column(beneath="budgets", every=True, place=2)] = ()
    fate: str = ""
    target: Annotated[str, Column("then", keep=True, beneath="then", place=1)] = ""
    round: int = 1
    tied: tuple[str, ...] = ()
    """Pods of the node that are equal in priority and start: kube-scheduler may evict one of them instead."""

    @property
    def gate_problem(self) -> GateProblem:
        """Return what a CI gate objects to."""
        return GateProblem("evicted", f"Pod {self.pod}", f"evicted from {self.node} for {self.by}")


class Headroom(Document, frozen=True):
    """A resource of all nodes together, in its own unit (millicores for cpu, bytes for memory).

    ``largest_free_*``: the most that one node has left; where a pod does not fit, one that refuses it for nothing else.
    """

    resource: str
    allocatable: int
    requested_before: int
    requested_after: int
    largest_free_before: int
    largest_free_after: int


class PodCount(Document, frozen=True):
    """How many pods a zone or a node has before and after."""

    place: str
    before: int
    after: int


class Spread(Document, frozen=True):
    """The least and the most of something over several runs."""

    least: int
    most: int

    def __str__(self) -> str:
        """``3 to 5``, or the number itself where it is always the same."""
        return f"{self.least:,}" if self.least == self.most else f"{self.least:,} to {self.most:,}"


class WorkloadVariation(Document, frozen=True):
    """``running`` pods over the runs; ``domains``: topology key -> value -> pods."""

    workload: str
    running: Spread
    domains: dict[str, dict[str, Spread]] = msgspec.field(default_factory=dict)


class Variation(Document, frozen=True):
    """How much the results of runs with other seeds differ. ``outcomes``: how many different ones there are."""

    runs: int
    outcomes: int
    placed: Spread
    pending: Spread
    evicted: Spread
    workloads: tuple[WorkloadVariation, ...] = ()


class MovedPod(Document, frozen=True):
    """A pod that gets another node; ``tied``: how many nodes were equally good."""

    pod: Annotated[str, Column(keep=True)]
    workload: str
    source: Annotated[str, Column("from", keep=True, beneath="from")]
    target: Annotated[str, Column("to", keep=True, beneath="to")]
    tied: Annotated[int, Column("equally good", above=1, form="")] = 1


class BlockedPod(Document, frozen=True):
    """A pod that cannot be evicted, and why."""

    pod: Annotated[str, Column(keep=True)]
    workload: str
    node: Annotated[str, Column(keep=True)]
    why: Annotated[str, Column()]
    budgets: tuple[str, ...] = ()
    unhealthy: tuple[str, ...] = ()
    """Pods that the budgets do not count as healthy, so that they use up what the budgets allow."""
