"""The reports of ``wakes``: apiVersion kschedctl.dev/v1, kinds WakeUps, Wakes, WakesOfMany, WakesBetween."""

from __future__ import annotations

from typing import Annotated

import msgspec

from kschedctl.commands.explain.pod_group_report import PodGroupReport
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document
from kschedctl.reports.not_created import NotCreated, describe_not_created
from kschedctl.reports.report import Report
from kschedctl.reports.unknown import UnknownKind, describe_doubt
from kschedctl.text.counts import counted

UNSCHEDULABLE = "unschedulable"
"""The part of the queue in which pods wait for an event."""


class WakeUp(Document, frozen=True):
    """A kind of change that wakes a pod."""

    kind: str
    actions: tuple[str, ...]
    """Upstream's names of the actions."""
    words: str
    """What the plugin looks for."""


class RejectorReport(Document, frozen=True):
    """A plugin that rejected the pod, why, and what would change its answer."""

    plugin: str
    why: str
    wake_ups: tuple[WakeUp, ...] = ()


class WakeUps(Report, frozen=True):
    """What would wake a pod."""

    pod: Annotated[str, Column(keep=True, tone=Tone.STRONG)]
    headline: Annotated[str, Column("what wakes it")]
    queue: str
    """"unschedulable", "backoff" if the pod waits for nothing, or "" if it fits."""
    message: str | None = None
    """Why the pod was rejected; None if a plugin keeps it from being tried at all."""
    gating_plugin: str = ""
    rejectors: tuple[RejectorReport, ...] = ()
    stands_for: str = ""
    """The workload whose pod this is, if one was asked about."""
    pod_group: PodGroupReport | None = None
    """The group without which the pod is not tried or not bound."""
    kube_version: str = ""
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    not_created: NotCreated | None = None
    """Why no scheduler sees the pod."""
    api_version: str = "kschedctl.dev/v1"
    kind: str = "WakeUps"

    def first_line(self) -> tuple[str, ...]:
        """Return the pod and what would wake it."""
        return (self.pod, self.headline + describe_doubt(self.unknown))


class WakeUpsOfMany(Report, frozen=True):
    """What wakes several pods."""

    pods: tuple[WakeUps, ...]
    scope: str = ""
    """Which pods these are."""
    unserved: tuple[str, ...] = ()
    """Pods that no profile serves."""
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "WakeUpsOfMany"

    def first_line(self) -> tuple[str, ...]:
        """Return the number of pods that wait for an event."""
        if not self.pods:
            return ("Nothing is pending", self.scope + describe_doubt(self.unknown))
        waiting = sum(pod.queue == UNSCHEDULABLE for pod in self.pods)
        missing = sum(pod.not_created is not None for pod in self.pods)
        uncreated = f"Not created: {missing:,} of {counted(len(self.pods), 'pod')}; " if missing else ""
        pods = uncreated + f"{counted(waiting, 'pod')} {self.scope}".strip()
        return (f"{pods} {'waits' if waiting == 1 else 'wait'} for something to happen{describe_doubt(self.unknown)}",)


class EventReport(Document, frozen=True):
    """An event that the scheduler makes of a change."""

    event: str
    """Upstream's label of the event."""
    resource: str
    hints: dict[str, str] = msgspec.field(default_factory=dict)
    """The answer of each rejector."""


class Wakes(Report, frozen=True):
    """What a change does to a rejected pod."""

    pod: str
    before: str
    """The queue of the pod: unschedulable, backoff or active; "" if it is in none."""
    after: str
    """The queue after the change; "" also if the change deletes the pod."""
    moved: bool
    """Whether the pod left the unschedulable pods."""
    change: str = ""
    """The change in words."""
    message: str | None = None
    """Why the pod was rejected."""
    unschedulable_plugins: tuple[str, ...] = ()
    pending_plugins: tuple[str, ...] = ()
    gating_plugin: str = ""
    """The plugin that kept the pod from being tried at all."""
    events: tuple[EventReport, ...] = ()
    kube_version: str = ""
    not_replayed: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Wakes"

    @property
    def woken(self) -> bool:
        """Whether the pod is tried again."""
        return self.moved and bool(self.after)

    def first_line(self) -> tuple[str, ...]:
        """Return the pod and its queue after the change."""
        sentence = f"woken, to {self.after}" if self.woken else f"stays {self.after}" if self.after else "in no queue"
        return (self.pod, sentence + describe_doubt(self.unknown))


class WakesOfMany(Report, frozen=True):
    """What changes, each by itself, do to pods."""

    scope: str
    """Which pods these are."""
    changes: tuple[str, ...]
    answers: tuple[Wakes, ...] = ()
    fitting: tuple[str, ...] = ()
    """Pods that are not rejected."""
    unheard: tuple[str, ...] = ()
    """Changes that the scheduler does not watch."""
    unserved: tuple[str, ...] = ()
    """Pods that no profile serves."""
    kube_version: str = ""
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    not_created: tuple[NotCreated, ...] = ()
    """Workloads whose pods no scheduler sees."""
    api_version: str = "kschedctl.dev/v1"
    kind: str = "WakesOfMany"

    def first_line(self) -> tuple[str, ...]:
        """Return the number of woken pods, and the changes."""
        if self.not_created and not self.answers:
            return (f"Not created: {describe_not_created(self.not_created)}",)
        woken, asked = {answer.pod for answer in self.answers if answer.woken}, {answer.pod for answer in self.answers}
        pods = f"{len(woken):,} of {counted(len(asked), 'refused pod')} {self.scope}".rstrip()
        by = self.changes[0] if len(self.changes) == 1 else f"{len(self.changes):,} changes, each by itself"
        return (
            f"{pods} {'is' if 1 in (len(woken), len(asked)) else 'are'} woken by {by}{describe_doubt(self.unknown)}",
        )


class WakingChange(Document, frozen=True):
    """A change between two moments that woke a pod, with its events and the plugins that answered Queue."""

    change: str
    events: tuple[str, ...]
    by: tuple[str, ...]


class PodBetween(Document, frozen=True):
    """A pod that was pending at the first moment."""

    pod: Annotated[str, Column(keep=True, tone=Tone.STRONG)]
    headline: Annotated[str, Column("what woke it")]
    refused_by: tuple[str, ...]
    woken_by: tuple[WakingChange, ...] = ()
    """The first hundred changes that would have woken it by themselves."""
    not_woken_by: int = 0
    fits: tuple[str, ...] = ()
    """The nodes that it fits on at the second moment."""
    missed: bool = False
    """Whether it fits but nothing woke it, so that it waits for the flush of unschedulable pods."""
    ended: str = ""
    """What became of it if it no longer waits at the second moment."""
    waking_changes: int = 0
    """The number of all changes that would have woken it."""


class WakesBetween(Report, frozen=True):
    """The changes between two moments of a cluster that would have woken pods."""

    before: str
    after: str
    changes: int
    """The number of changes that the scheduler watches."""
    unheard: int = 0
    pods: tuple[PodBetween, ...] = ()
    kube_version: str = ""
    not_replayed: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "WakesBetween"

    def first_line(self) -> tuple[str, ...]:
        """Return the number of pods that were missed."""
        if not self.pods:
            return ("No pod was pending in both",)
        missed, waited = sum(pod.missed for pod in self.pods), sum(not pod.ended for pod in self.pods)
        pods = counted(waited, "pod")
        sentence = f"{pods} waited in both, none was missed" if waited else "No pod waited in both"
        if missed:
            sentence = f"{missed:,} of {pods} that waited in both: fit, and nothing woke them"
        return (sentence + describe_doubt(self.unknown),)
