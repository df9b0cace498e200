"""The report of the section about leader election and the scheduler names that pods use."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document
from kschedctl.reports.section import Section

KNOWN_BY = {
    "profile": "profile in the configuration",
    "events": "its events",
    "lease": "its lease",
    "podGroups": "its PodGroups",
    "": "none",
}


class SchedulerLease(Document, frozen=True, kw_only=True):
    """The lease of a scheduler."""

    lease: Annotated[str, Column(keep=True)]
    holder: Annotated[str, Column("leader", words={"": "nobody"}, tones={"": Tone.BAD})]
    """The instance that leads, empty if the lease was released."""
    since: str = ""
    """The time at which the holder acquired the lease."""
    renewed: str = ""
    """The time of the last renewal."""
    leads_for: Annotated[str, Column(beneath="leads for")] = ""
    """The age of `since`, empty if the time of the cluster is unknown."""
    silent_for: Annotated[str, Column("renewed", beneath="renewed")] = ""
    """The age of `renewed`, empty if the time of the cluster is unknown."""
    seconds: int = 0
    """The duration of the lease."""
    transitions: Annotated[int, Column("changes")] = 0
    """The number of times that the lease changed hands."""
    elections: Annotated[int, Column("lately")] = 0
    """The number of elections whose events still exist."""
    stale: bool = False
    """True if the lease was not renewed for longer than its duration."""


class WorkingInstance(Document, frozen=True, kw_only=True):
    """An instance of a scheduler and the pods that it placed, according to the events that still exist."""

    instance: str
    placed: int
    """The number of pods that it placed."""
    first: str
    """The time of the first placement."""
    last: str
    """The time of the last placement."""


class ServedName(Document, frozen=True, kw_only=True):
    """A scheduler name that pods use."""

    name: Annotated[str, Column("schedulerName", keep=True)]
    served: Annotated[str, Column("evidence of a scheduler", words=KNOWN_BY, tones={"": Tone.WARNING})]
    """The evidence that the name is served (a key of `KNOWN_BY`), empty if there is none."""
    waiting: Annotated[int, Column()] = 0
    """The number of pods with this name that wait."""
    bound: Annotated[int, Column()] = 0
    """The number of pods with this name that are bound."""
    turns: int = 0
    """The number of times that a pod was placed by another instance than the pod before."""
    instances: Annotated[tuple[WorkingInstance, ...], Column("instances, by events")] = ()


class DifferentSetting(Document, frozen=True, kw_only=True):
    """A flag, or the version, in which instances of kube-scheduler differ."""

    setting: str
    values: dict[str, tuple[str, ...]]
    """The instances with each value; the key is empty for a flag that is not set."""


class LeaderSection(Section, frozen=True, kw_only=True, tag="leader"):
    """The section about leader election and scheduler names."""

    leases: tuple[SchedulerLease, ...] = ()
    """The leases of schedulers, the replayed scheduler's first."""
    names: tuple[ServedName, ...] = ()
    instances: tuple[str, ...] = ()
    """The names of kube-scheduler's pods, if they were read."""
    differences: tuple[DifferentSetting, ...] = ()
