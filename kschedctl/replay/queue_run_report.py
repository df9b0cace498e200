"""What the scheduler did with the pods of a cluster that wait for a node, cycle by cycle."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.reports.summary import ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind, doubt
from kschedctl.text.counts import counted


class GatedPod(Document, frozen=True):
    """The first PreEnqueue plugin that keeps a pod from being tried, and what it says."""

    plugin: str
    code: str
    reasons: tuple[str, ...] = ()


class FailedPod(Document, frozen=True):
    """Why a pod was not placed; ``nominated``: the node that preemption makes room on; ``rejectors``: plugins."""

    code: str
    message: str
    nominated: str = ""
    rejectors: tuple[str, ...] = ()


class GroupStatus(Document, frozen=True):
    """What the cycle of a pod group comes to: code and message."""

    code: str
    message: str = ""


class GroupCondition(Document, frozen=True):
    """The condition that is written into a pod group's status."""

    type: str
    status: str
    reason: str
    message: str = ""


class GroupOutcome(Document, frozen=True, omit_defaults=True):
    """What one PodGroup of a CompositePodGroup comes to."""

    status: GroupStatus
    condition: GroupCondition | None = None


class TriedMember(Document, frozen=True):
    """A pod of a group, after those before it. ``node``: where it fits, or with ``requires_preemption`` would; then
    Permit says Success or Wait. ``feasible`` of the ``evaluated`` nodes fit.
    """

    pod: str
    code: str
    node: str = ""
    feasible: int = 0
    evaluated: int = 0
    message: str = ""
    permit: str = ""
    requires_preemption: bool = False


class QueueCycle(Document, frozen=True, omit_defaults=True):
    """One cycle. ``popped``: the pod that was next; ``bound``: pod -> node; ``victims`` are evicted.

    ``feasible``, ``evaluated``: how many nodes fitted and were looked at, of a single pod that was placed;
    ``batched``: its node had been left over by the pod before. ``nominations_cleared``: pods that lose the node that
    they were promised. ``waiting``: the pod, where Permit plugins let it wait on its node; it is ``bound`` or
    ``failed`` after a later cycle, and where it waited in vain in one of its own. Of a pod group: its name, the
    ``order`` in which ``pods`` were tried, the ``status`` that this came to, and the ``condition`` that is written,
    where that is a new one. Of a CompositePodGroup it is its root that is named, and ``groups`` are its PodGroups.
    """

    popped: str
    bound: dict[str, str] = {}
    failed: dict[str, FailedPod] = {}
    victims: tuple[str, ...] = ()
    feasible: int | None = None
    evaluated: int | None = None
    batched: bool = False
    waiting: dict[str, str] = {}
    nominations_cleared: tuple[str, ...] = ()
    group: str = ""
    order: tuple[str, ...] = ()
    status: GroupStatus | None = None
    waiting_on_preemption: bool = False
    pods: tuple[TriedMember, ...] = ()
    condition: GroupCondition | None = None
    groups: dict[str, GroupOutcome] = {}


class QueueRun(Report, frozen=True):
    """``gated``: pods that no cycle tries; ``queue_after``: pod -> active, backoff or unschedulable, in the end;
    ``waiting_on_permit``: pod -> the node that it holds, but is not bound to.
    """

    cycles: tuple[QueueCycle, ...]
    gated: dict[str, GatedPod] = msgspec.field(default_factory=dict)
    queue_after: dict[str, str] = msgspec.field(default_factory=dict)
    waiting_on_permit: dict[str, str] = msgspec.field(default_factory=dict)
    closed_loop: bool = False
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "QueueRun"

    def first_line(self) -> tuple[str, ...]:
        """How many pods were bound in how many cycles, and how many wait."""
        bound = sum(len(cycle.bound) for cycle in self.cycles)
        waiting = counted(len(self.queue_after), "pod")
        sentence = f"in {counted(len(self.cycles), 'cycle')}, {waiting} left in the queue{doubt(self.unknown)}"
        return (f"{counted(bound, 'pod')} bound", sentence)

    def summarized(self, summary: Summary) -> Summary:
        """With the pods that were not placed, as was said last."""
        failed = {pod: why for cycle in self.cycles for pod, why in cycle.failed.items() if pod in self.queue_after}
        gated = {pod: "; ".join(gate.reasons) for pod, gate in self.gated.items()}
        said = gated | {pod: why.message for pod, why in failed.items()}
        figures = {"bound": sum(len(cycle.bound) for cycle in self.cycles), "waiting": len(self.queue_after)}
        victims = tuple(victim for cycle in self.cycles for victim in cycle.victims)
        pods = tuple(ShortPods(1, pod, "", why) for pod, why in said.items())
        return replace(summary, pods=pods, victims=victims, figures=figures)
