"""The report on a run of the scheduling queue, cycle by cycle."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.reports.summary import ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind, describe_doubt
from kschedctl.text.counts import counted


class GatedPod(Document, frozen=True):
    """A gated pod: the first PreEnqueue plugin that rejects it, and the reasons."""

    plugin: str
    code: str
    reasons: tuple[str, ...] = ()


class FailedPod(Document, frozen=True):
    """Why a pod was not placed."""

    code: str
    message: str
    nominated: str = ""
    """The node on which preemption makes room."""
    rejectors: tuple[str, ...] = ()
    """The plugins that rejected the pod."""


class GroupStatus(Document, frozen=True):
    """The result of a pod group's cycle."""

    code: str
    message: str = ""


class GroupCondition(Document, frozen=True):
    """A condition written to a pod group's status."""

    type: str
    status: str
    reason: str
    message: str = ""


class GroupOutcome(Document, frozen=True, omit_defaults=True):
    """The result for one PodGroup of a CompositePodGroup."""

    status: GroupStatus
    condition: GroupCondition | None = None


class TriedMember(Document, frozen=True):
    """The attempt to place one pod of a group, after the pods before it."""

    pod: str
    code: str
    node: str = ""
    """The node where the pod fits, or would fit after preemption."""
    feasible: int = 0
    """How many of the evaluated nodes fit."""
    evaluated: int = 0
    message: str = ""
    permit: str = ""
    """What Permit says: Success or Wait."""
    requires_preemption: bool = False


class QueueCycle(Document, frozen=True, omit_defaults=True):
    """One scheduling cycle of a pod or of a pod group."""

    popped: str
    """The pod that was next in the queue."""
    bound: dict[str, str] = {}
    """Pod -> node."""
    failed: dict[str, FailedPod] = {}
    victims: tuple[str, ...] = ()
    """Pods that are preempted."""
    feasible: int | None = None
    """How many nodes fit a single pod that was placed."""
    evaluated: int | None = None
    """How many nodes were evaluated for a single pod that was placed."""
    batched: bool = False
    """Whether the pod got a node left over from the cycle of the pod before."""
    waiting: dict[str, str] = {}
    """Pod -> node on which Permit lets it wait; a later cycle binds it or lets it fail."""
    nominations_cleared: tuple[str, ...] = ()
    """Pods that lose their nominated node."""
    group: str = ""
    """The pod group, or the root of its CompositePodGroup."""
    order: tuple[str, ...] = ()
    """The order in which the group's pods were tried."""
    status: GroupStatus | None = None
    """The result of the pod group's cycle."""
    waiting_on_preemption: bool = False
    pods: tuple[TriedMember, ...] = ()
    condition: GroupCondition | None = None
    """The new condition of the pod group, if there is one."""
    groups: dict[str, GroupOutcome] = {}
    """The results for the PodGroups of a CompositePodGroup."""


class QueueRun(Report, frozen=True):
    """A run of the scheduling queue."""

    cycles: tuple[QueueCycle, ...]
    gated: dict[str, GatedPod] = msgspec.field(default_factory=dict)
    """Pods that no cycle tries."""
    queue_after: dict[str, str] = msgspec.field(default_factory=dict)
    """Pod -> active, backoff or unschedulable, in the end."""
    waiting_on_permit: dict[str, str] = msgspec.field(default_factory=dict)
    """Pod -> node that it holds without being bound."""
    closed_loop: bool = False
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "QueueRun"

    def first_line(self) -> tuple[str, ...]:
        """Return how many pods were bound in how many cycles, and how many wait."""
        bound = sum(len(cycle.bound) for cycle in self.cycles)
        waiting = counted(len(self.queue_after), "pod")
        sentence = f"in {counted(len(self.cycles), 'cycle')}, {waiting} left in the queue{describe_doubt(self.unknown)}"
        return (f"{counted(bound, 'pod')} bound", sentence)

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with the pods that were not placed and their last messages."""
        failed = {pod: why for cycle in self.cycles for pod, why in cycle.failed.items() if pod in self.queue_after}
        gated = {pod: "; ".join(gate.reasons) for pod, gate in self.gated.items()}
        last_messages = gated | {pod: why.message for pod, why in failed.items()}
        figures = {"bound": sum(len(cycle.bound) for cycle in self.cycles), "waiting": len(self.queue_after)}
        victims = tuple(victim for cycle in self.cycles for victim in cycle.victims)
        pods = tuple(ShortPods(1, pod, "", why) for pod, why in last_messages.items())
        return replace(summary, pods=pods, victims=victims, figures=figures)
