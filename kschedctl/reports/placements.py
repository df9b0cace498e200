"""The fates of pods, as parts of several reports: unscheduled, moved, preempted, and counted by place and by run."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.report import GateProblem, with_pod_count
from kschedctl.reports.summary import ShortPods


class UnplacedPods(Document, frozen=True):
    """New pods that stay without a node for the same reason."""

    workload: str
    verdict: str
    message: str
    """kube-scheduler's message."""
    pods: tuple[str, ...]
    queue: str = ""
    """The queue in which they wait, unschedulable or backoff; empty if it is not replayed."""
    rejectors: tuple[str, ...] = ()
    """The plugins that rejected the pods, and that requeue them after an event that may help."""
    cause: str = ""
    """The cause behind the message, such as a missing StorageClass; empty if the message says it."""

    @property
    def shortened(self) -> ShortPods:
        """Return the pods as they appear in a summary."""
        return ShortPods(len(self.pods), self.pods[0], self.workload, self.cause or self.message or self.verdict)

    @property
    def gate_problem(self) -> GateProblem:
        """Return the problem that a CI gate reports."""
        message = with_pod_count(len(self.pods), self.message or self.verdict)
        return GateProblem("not-scheduled", self.workload or f"Pod {self.pods[0]}", message)


class RetriedPods(Document, frozen=True):
    """Pods of a workload that fitted nowhere at first and were tried again."""

    workload: Annotated[str, Column(keep=True)]
    pods: Annotated[tuple[str, ...], Column(counted=True, place=-1)]
    after: Annotated[dict[str, int], Column("again after", beneath="again after")]
    """kube-scheduler's label of the event that requeued them -> how often it did."""
    queue: Annotated[str, Column("then", beneath="then")] = ""
    """The queue in which they wait; empty if they have a node in the end."""
    rejectors: tuple[str, ...] = ()
    """The plugins that rejected the pods; empty if they have a node in the end."""


class EvictionFate(StrEnum):
    """What became of a pod that preemption evicted."""

    MOVED = "Moved"
    """Its controller recreated it, and it has a node."""
    PENDING = "Pending"
    """Its controller recreated it, and it fits nowhere."""
    LOST = "Lost"
    """Nobody recreates it."""


class EvictedPod(Document, frozen=True):
    """A pod that preemption evicts. A pod that is evicted twice is listed twice."""

    pod: Annotated[str, Column("evicted pod", keep=True)]
    node: Annotated[str, Column(keep=True, beneath="on")]
    by: Annotated[str, Column("for", keep=True, beneath="for", place=1, narrow=True)]
    """The pod for which it is evicted."""
    priority: Annotated[int, Column(form="")]
    workload: str
    budgets: Annotated[tuple[str, ...], Column(beneath="budgets", every=True, place=2)] = ()
    """The PodDisruptionBudgets that select it."""
    fate: str = ""
    """Moved, Pending if its replacement fits nowhere, or Lost if no controller recreates it; empty if it is not
    known.
    """
    target: Annotated[str, Column("then", keep=True, beneath="then", place=1)] = ""
    """The node to which the replacement moves."""
    round: int = 1
    """1 if the preemptor was not evicted before, 2 if the preemptor replaces a pod of round 1, and so on."""
    tied: tuple[str, ...] = ()
    """Pods of the node that are equal in priority and start: kube-scheduler may evict one of them instead."""

    @property
    def gate_problem(self) -> GateProblem:
        """Return the problem that a CI gate reports."""
        return GateProblem("evicted", f"Pod {self.pod}", f"evicted from {self.node} for {self.by}")


class Headroom(Document, frozen=True):
    """The free amount of a resource before and after, in millicores for cpu and bytes for memory."""

    resource: str
    allocatable: int
    """The amount on all nodes."""
    requested_before: int
    requested_after: int
    largest_free_before: int
    """The largest free amount on one node that rejects the pod for nothing else."""
    largest_free_after: int
    """The largest free amount on one node that rejects the pod for nothing else."""


class PodCount(Document, frozen=True):
    """The number of pods in a zone or on a node, before and after."""

    place: str
    before: int
    after: int


class Spread(Document, frozen=True):
    """The smallest and the largest value over several runs."""

    least: int
    most: int

    def __str__(self) -> str:
        """Return ``3 to 5``, or the number itself if all runs agree."""
        return f"{self.least:,}" if self.least == self.most else f"{self.least:,} to {self.most:,}"


class WorkloadVariation(Document, frozen=True):
    """How the placement of a workload differs between runs."""

    workload: str
    running: Spread
    """The number of running pods."""
    domains: dict[str, dict[str, Spread]] = msgspec.field(default_factory=dict)
    """Topology key -> value -> number of pods."""


class Variation(Document, frozen=True):
    """How much the results of runs with other seeds differ."""

    runs: int
    outcomes: int
    """The number of different outcomes."""
    placed: Spread
    pending: Spread
    evicted: Spread
    workloads: tuple[WorkloadVariation, ...] = ()


class MovedPod(Document, frozen=True):
    """A pod that gets another node."""

    pod: Annotated[str, Column(keep=True)]
    workload: str
    source: Annotated[str, Column("from", keep=True, beneath="from")]
    target: Annotated[str, Column("to", keep=True, beneath="to")]
    tied: Annotated[int, Column("equally good", above=1, form="")] = 1
    """The number of nodes that were equally good."""


class BlockedPod(Document, frozen=True):
    """A pod that cannot be evicted, and why."""

    pod: Annotated[str, Column(keep=True)]
    workload: str
    node: Annotated[str, Column(keep=True)]
    why: Annotated[str, Column()]
    budgets: tuple[str, ...] = ()
    unhealthy: tuple[str, ...] = ()
    """Pods that the budgets do not count as healthy, so that they use up what the budgets allow."""
