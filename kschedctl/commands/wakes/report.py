"""What wakes pods that were refused, as documents: apiVersion kschedctl.dev/v1, kinds WakeUps, Wakes, WakesOfMany."""

from __future__ import annotations

from typing import Annotated

import msgspec

from kschedctl.commands.explain.pod_group_report import PodGroupReport
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document
from kschedctl.reports.not_created import NotCreated, refused
from kschedctl.reports.report import Report
from kschedctl.reports.unknown import UnknownKind, doubt
from kschedctl.text.counts import counted

UNSCHEDULABLE = "unschedulable"
"""The part of the queue in which pods wait for something to happen."""


class WakeUp(Document, frozen=True):
    """How a kind of object has to change: upstream's names of the actions, and what the plugin looks for in words."""

    kind: str
    actions: tuple[str, ...]
    words: str


class RejectorReport(Document, frozen=True):
    """A plugin that refused the pod, why, and what would make it say otherwise."""

    plugin: str
    why: str
    wake_ups: tuple[WakeUp, ...] = ()


class WakeUps(Report, frozen=True):
    """What would wake a pod. ``queue``: unschedulable, or backoff where nobody is waited for; empty for one that fits.

    ``message``: why it was refused, none where a plugin keeps it from being tried at all. ``stands_for``: the workload
    whose pod it is, in words, where that was asked about. ``pod_group``: that with which alone it is tried or bound.
    ``not_created``: why no scheduler sees it.
    """

    pod: Annotated[str, Column(keep=True, tone=Tone.STRONG)]
    headline: Annotated[str, Column("what wakes it")]
    queue: str
    message: str | None = None
    gating_plugin: str = ""
    rejectors: tuple[RejectorReport, ...] = ()
    stands_for: str = ""
    pod_group: PodGroupReport | None = None
    kube_version: str = ""
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    not_created: NotCreated | None = None
    api_version: str = "kschedctl.dev/v1"
    kind: str = "WakeUps"

    def first_line(self) -> tuple[str, ...]:
        """The pod, and what would wake it."""
        return (self.pod, self.headline + doubt(self.unknown))


class WakeUpsOfMany(Report, frozen=True):
    """What wakes several pods. ``scope``: which these are; ``unserved``: pods that no profile serves."""

    pods: tuple[WakeUps, ...]
    scope: str = ""
    unserved: tuple[str, ...] = ()
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "WakeUpsOfMany"

    def first_line(self) -> tuple[str, ...]:
        """How many wait."""
        if not self.pods:
            return ("Nothing is pending", self.scope + doubt(self.unknown))
        waiting = sum(pod.queue == UNSCHEDULABLE for pod in self.pods)
        missing = sum(pod.not_created is not None for pod in self.pods)
        uncreated = f"Not created: {missing:,} of {counted(len(self.pods), 'pod')}; " if missing else ""
        pods = uncreated + f"{counted(waiting, 'pod')} {self.scope}".strip()
        return (f"{pods} {'waits' if waiting == 1 else 'wait'} for something to happen{doubt(self.unknown)}",)


class EventReport(Document, frozen=True):
    """An event that the scheduler makes of a change: upstream's label of it, and what each rejector says to it."""

    event: str
    resource: str
    hints: dict[str, str] = msgspec.field(default_factory=dict)


class Wakes(Report, frozen=True):
    """What a change does to a pod that was tried and refused.

    ``change``: what it is, in words. ``message``: why the pod was refused. ``unschedulable_plugins``,
    ``pending_plugins``: who refused it; ``gating_plugin``: who kept it from being tried at all. ``before``, ``after``:
    unschedulable, backoff or active; empty for a pod that is in no queue, such as one that the change itself deletes.
    ``moved``: it left the unschedulable pods.
    """

    pod: str
    before: str
    after: str
    moved: bool
    change: str = ""
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

    @property
    def woken(self) -> bool:
        """Whether it is tried again."""
        return self.moved and bool(self.after)

    def first_line(self) -> tuple[str, ...]:
        """The pod, and where the change leaves it."""
        sentence = f"woken, to {self.after}" if self.woken else f"stays {self.after}" if self.after else "in no queue"
        return (self.pod, sentence + doubt(self.unknown))


class WakesOfMany(Report, frozen=True):
    """What changes, each by itself, do to pods. ``scope``: which pods; ``fitting``: those that are not refused.

    ``unheard``: the changes of which the scheduler hears nothing; ``unserved``: pods that no profile serves.
    ``not_created``: the workloads whose pods no scheduler sees.
    """

    scope: str
    changes: tuple[str, ...]
    answers: tuple[Wakes, ...] = ()
    fitting: tuple[str, ...] = ()
    unheard: tuple[str, ...] = ()
    unserved: tuple[str, ...] = ()
    kube_version: str = ""
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    not_created: tuple[NotCreated, ...] = ()
    api_version: str = "kschedctl.dev/v1"
    kind: str = "WakesOfMany"

    def first_line(self) -> tuple[str, ...]:
        """How many pods are woken by what."""
        if self.not_created and not self.answers:
            return (f"Not created: {refused(self.not_created)}",)
        woken, asked = {answer.pod for answer in self.answers if answer.woken}, {answer.pod for answer in self.answers}
        pods = f"{len(woken):,} of {counted(len(asked), 'refused pod')} {self.scope}".rstrip()
        by = self.changes[0] if len(self.changes) == 1 else f"{len(self.changes):,} changes, each by itself"
        return (f"{pods} {'is' if 1 in (len(woken), len(asked)) else 'are'} woken by {by}{doubt(self.unknown)}",)


class WakingChange(Document, frozen=True):
    """A change between two moments that woke a pod: what it is, its events, and who said Queue."""

    change: str
    events: tuple[str, ...]
    by: tuple[str, ...]


class PodBetween(Document, frozen=True):
    """A pod that was pending at the first moment, and at the second one unless it ``ended``: what became of it then.

    ``woken_by``: changes that would have woken it by itself, a hundred at the most, of all ``waking_changes``.
    ``fits``: the nodes that it fits on at the second moment. ``missed``: it fits there, and nothing woke it: it waits
    for the flush of the unschedulable pods.
    """

    pod: Annotated[str, Column(keep=True, tone=Tone.STRONG)]
    headline: Annotated[str, Column("what woke it")]
    refused_by: tuple[str, ...]
    woken_by: tuple[WakingChange, ...] = ()
    not_woken_by: int = 0
    fits: tuple[str, ...] = ()
    missed: bool = False
    ended: str = ""
    waking_changes: int = 0


class WakesBetween(Report, frozen=True):
    """What lies between two moments of a cluster that would have woken pods; ``changes``: how many were heard of."""

    before: str
    after: str
    changes: int
    unheard: int = 0
    pods: tuple[PodBetween, ...] = ()
    kube_version: str = ""
    not_replayed: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "WakesBetween"

    def first_line(self) -> tuple[str, ...]:
        """How many pods were missed."""
        if not self.pods:
            return ("No pod was pending in both",)
        missed, waited = sum(pod.missed for pod in self.pods), sum(not pod.ended for pod in self.pods)
        pods = counted(waited, "pod")
        sentence = f"{pods} waited in both, none was missed" if waited else "No pod waited in both"
        if missed:
            sentence = f"{missed:,} of {pods} that waited in both: fit, and nothing woke them"
        return (sentence + doubt(self.unknown),)
