"""The reports of `wakes`: apiVersion kschedctl.dev/v1, kinds WakeUps, WakeUpsOfMany, Wakes, WakesOfMany,
WakesBetween.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec.structs import replace

from kschedctl.commands.explain.pod_group_report import PodGroupReport
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document
from kschedctl.reports.not_created import NotCreated, describe_not_created
from kschedctl.reports.report import Report
from kschedctl.reports.summary import ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind, describe_doubt
from kschedctl.scheduler.framework.events import join_words
from kschedctl.text.counts import agreeing, counted, negate_scope

FLUSH = "otherwise the pod is retried after five minutes (podMaxInUnschedulablePodsDuration)"
NO_FLUSH = "until then, the scheduler does not try the pod"
UNSCHEDULABLE = "unschedulable"
"""The part of the queue in which pods wait for an event."""


class WakeUp(Document, frozen=True):
    """A kind of change that wakes a pod."""

    kind: str
    actions: tuple[str, ...]
    """Upstream's names of the actions."""
    words: str
    """A description of the change."""


class RejectorReport(Document, frozen=True):
    """A plugin that rejected the pod, why, and what would change its answer."""

    plugin: str
    why: str
    wake_ups: tuple[WakeUp, ...] = ()


class WakeUps(Report, frozen=True):
    """The changes that would make the scheduler retry a pod."""

    pod: str
    headline: str
    queue: str
    """"unschedulable", "backoff" if the pod waits for nothing, or "" if it fits."""
    message: str | None = None
    """The reason for the rejection; None if a plugin keeps the pod from being tried at all."""
    gating_plugin: str = ""
    rejectors: tuple[RejectorReport, ...] = ()
    stands_for: str = ""
    """The workload whose pod this is, if the question was about a workload."""
    pod_group: PodGroupReport | None = None
    """The group without which the pod is not tried or not bound."""
    kube_version: str = ""
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    not_created: NotCreated | None = None
    """The reason why the pod cannot be created, so that no scheduler sees it."""
    kind: str = "WakeUps"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return the pod and what would wake it."""
        return (self.pod, self.headline + describe_doubt(self.unknown))

    @property
    def headline_names_unread(self) -> bool:
        """Return True, since the headline names the unread kinds."""
        return True

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with the pod, its queue and the changes that wake it."""
        # The plugins are in the order of the filters, so the last ones reject the nodes that are closest to fitting
        changes = (wake_up.words for rejector in reversed(self.rejectors) for wake_up in rejector.wake_ups)
        headline = "; ".join(filter(None, (summary.headline, self.last_resort)))
        return replace(
            summary, subject=self.pod, verdict=self.queue, headline=headline, advice=tuple(dict.fromkeys(changes))
        )

    @property
    def state(self) -> str:
        """The plugins that reject the pod or hold it back. If there are none, or if a group decides, the headline."""
        plugins = join_words([rejector.plugin for rejector in self.rejectors])
        if not plugins or self.pod_group:
            return self.headline
        return f"{'held back' if self.gating_plugin else 'rejected'} by {plugins}"

    @property
    def last_resort(self) -> str:
        """The sentence on what happens to the waiting pod without a change, or "" if it does not wait for one."""
        if self.queue != UNSCHEDULABLE:
            return ""
        return NO_FLUSH if self.gating_plugin else FLUSH


class WakeUpsOfMany(Report, frozen=True):
    """The changes that would make the scheduler retry each of several pods."""

    pods: tuple[WakeUps, ...]
    scope: str = ""
    """A description of the pods, such as their namespace."""
    unserved: tuple[str, ...] = ()
    """Pods that no profile serves."""
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    interrupted: bool = False
    """True if the user interrupted, so that pods are missing."""
    kind: str = "WakeUpsOfMany"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return how many pods wait for an event, and how many could not be created, or that nothing is pending."""
        if not self.pods:
            return ("Nothing is pending", negate_scope(self.scope) + describe_doubt(self.unknown))
        waiting = sum(pod.queue == UNSCHEDULABLE for pod in self.pods)
        missing = sum(pod.not_created is not None for pod in self.pods)
        missing_text = f"Not created: {missing:,} of {counted(len(self.pods), 'pod')}; " if missing else ""
        waiting_pods = f"{counted(waiting, 'pod')} {self.scope}".strip()
        clause = agreeing(waiting, "waits", "wait") + " for a change that makes the scheduler retry "
        clause += agreeing(waiting, "it", "them")
        return (f"{missing_text}{waiting_pods} {clause}{describe_doubt(self.unknown)}",)

    @property
    def headline_names_unread(self) -> bool:
        """Return True, since the headline names the unread kinds."""
        return True

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with the pods, grouped by their states, the largest group first."""
        pods_by_state: dict[str, list[str]] = {}
        for pod in self.pods:
            pods_by_state.setdefault(pod.state, []).append(pod.pod)
        groups = sorted(pods_by_state.items(), key=lambda group: -len(group[1]))
        pods = tuple(ShortPods(pods=len(names), such_as=names[0], workload="", why=state) for state, names in groups)
        return replace(summary, subject=self.scope, pods=pods, figures={"pods": len(self.pods)})


class EventReport(Document, frozen=True):
    """A scheduling event that a change causes."""

    event: str
    """Upstream's label of the event."""
    resource: str
    hints: dict[str, str] = msgspec.field(default_factory=dict)
    """Rejecting plugin -> its queueing hint."""


class Wakes(Report, frozen=True):
    """The effect of a change on a rejected pod."""

    pod: str
    before: str
    """The pod's queue: unschedulable, backoff or active; empty if it is in none."""
    after: str
    """The pod's queue after the change; also empty if the change deletes the pod."""
    moved: bool
    """True if the pod left its queue."""
    change: str = ""
    """A description of the change."""
    message: str | None = None
    """The reason for the rejection."""
    unschedulable_plugins: tuple[str, ...] = ()
    pending_plugins: tuple[str, ...] = ()
    gating_plugin: str = ""
    """The plugin that kept the pod from being tried at all."""
    events: tuple[EventReport, ...] = ()
    kube_version: str = ""
    not_replayed: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    kind: str = "Wakes"

    @property
    def woken(self) -> bool:
        """True if the scheduler retries the pod."""
        return self.moved and bool(self.after)

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return the parts of the headline: the pod, and whether the change wakes it, with its queue afterwards."""
        if self.woken:
            sentence = f"woken, to {self.after}"
        elif self.after:
            sentence = f"stays {self.after}"
        else:
            sentence = "in no queue"
        return (self.pod, sentence + describe_doubt(self.unknown))

    @property
    def headline_names_unread(self) -> bool:
        """Return True, since the headline names the unread kinds."""
        return True


class WakesOfMany(Report, frozen=True):
    """The effects of changes on several rejected pods. Each change is judged separately."""

    scope: str
    """A description of the pods, such as their namespace."""
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
    """Workloads whose pods cannot be created, so that no scheduler sees them."""
    interrupted: bool = False
    """True if the user interrupted, so that answers are missing."""
    kind: str = "WakesOfMany"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Build the headline: how many of the rejected pods the changes wake, or why no pod can be created."""
        if self.not_created and not self.answers:
            return (f"Not created: {describe_not_created(self.not_created)}",)
        woken_count = len({answer.pod for answer in self.answers if answer.woken})
        rejected_count = len({answer.pod for answer in self.answers})
        pods = f"{woken_count:,} of {counted(rejected_count, 'rejected pod')} {self.scope}".rstrip()
        cause = self.changes[0] if len(self.changes) == 1 else f"{len(self.changes):,} changes, each applied alone"
        is_singular = woken_count == 1 or rejected_count == 1  # "1 of 5 pods is woken", "0 of 1 pod is woken"
        verb = "is" if is_singular else "are"
        return (f"{pods} {verb} woken by {cause}{describe_doubt(self.unknown)}",)

    @property
    def headline_names_unread(self) -> bool:
        """Return whether the headline names the unread kinds: not if it only says why no pod is created."""
        return bool(self.answers) or not self.not_created


class WakingChange(Document, frozen=True):
    """A change between two moments that woke a pod."""

    change: str
    events: tuple[str, ...]
    by: tuple[str, ...]
    """The plugins that answered Queue."""


class PodBetween(Document, frozen=True):
    """A pod that was pending at the first moment."""

    pod: Annotated[str, Column(keep=True, tone=Tone.STRONG)]
    headline: Annotated[str, Column("what woke it")]
    refused_by: tuple[str, ...]
    woken_by: tuple[WakingChange, ...] = ()
    """The changes that would have woken the pod by themselves, up to a hundred."""
    not_woken_by: int = 0
    """The number of changes that would not have woken the pod."""
    fits: tuple[str, ...] = ()
    """The nodes on which the pod fits at the second moment."""
    missed: bool = False
    """True if the pod fits but no change woke it, so that it waits for the flush of unschedulable pods."""
    ended: str = ""
    """The reason why the pod no longer waits at the second moment."""
    waking_changes: int = 0
    """The number of all changes that would have woken the pod."""


class WakesBetween(Report, frozen=True):
    """The changes between two moments of a cluster that would have woken pods."""

    before: str
    after: str
    changes: int
    """The number of changes that the scheduler watches."""
    unheard: int = 0
    """The number of changes that the scheduler does not watch."""
    pods: tuple[PodBetween, ...] = ()
    kube_version: str = ""
    not_replayed: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    kind: str = "WakesBetween"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return how many of the pods that waited at both moments were missed.

        A missed pod fits at the second moment although no change woke it.
        """
        if not self.pods:
            return ("No pod was pending at both moments",)
        missed = sum(pod.missed for pod in self.pods)
        waited = sum(not pod.ended for pod in self.pods)
        waiting_pods = counted(waited, "pod")
        if missed:
            fits, pronoun = ("fits", "it") if missed == 1 else ("fit", "them")
            sentence = f"{missed:,} of {waiting_pods} that waited at both moments {fits}, but nothing woke {pronoun}"
        elif waited:
            sentence = f"{waiting_pods} waited at both moments; none was missed"
        else:
            sentence = "No pod waited at both moments"
        return (sentence + describe_doubt(self.unknown),)

    @property
    def headline_names_unread(self) -> bool:
        """Return whether the headline names the unread kinds: not if no pod was pending."""
        return bool(self.pods)
