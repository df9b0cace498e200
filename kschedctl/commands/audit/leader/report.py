"""The section of an audit about who schedules: leases, names that are served, and instances that differ."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document
from kschedctl.reports.section import Section

KNOWN_BY = {
    "profile": "this configuration",
    "events": "events of it",
    "lease": "its lease",
    "podGroups": "its PodGroups",
    "": "unknown",
}


class SchedulerLease(Document, frozen=True, kw_only=True):
    """The lease of a scheduler; ``holder`` is empty where it was given up.

    ``since``, ``renewed``: times; ``leads_for``, ``silent_for``: how long that is ago, empty where now is not known.
    ``stale``: not renewed for longer than it lasts (``seconds``). ``transitions``: how often it changed hands in all;
    ``elections``: how often somebody began to lead, by the events that are left.
    """

    lease: Annotated[str, Column(keep=True)]
    holder: Annotated[str, Column("leader", words={"": "nobody"}, tones={"": Tone.BAD})]
    since: str = ""
    renewed: str = ""
    leads_for: Annotated[str, Column(beneath="leads for")] = ""
    silent_for: Annotated[str, Column("renewed", beneath="renewed")] = ""
    seconds: int = 0
    transitions: Annotated[int, Column("changes")] = 0
    elections: Annotated[int, Column("lately")] = 0
    stale: bool = False


class WorkingInstance(Document, frozen=True, kw_only=True):
    """An instance of a scheduler, and how many pods it placed from ``first`` to ``last``, by the events left."""

    instance: str
    placed: int
    first: str
    last: str


class ServedName(Document, frozen=True, kw_only=True):
    """A schedulerName that pods choose: ``waiting`` and ``bound`` pods.

    ``served``: by what that is known: profile, events, lease or podGroups (it serves pods of Volcano's); empty where by
    nothing. ``turns``: how often one instance placed a pod after another one had.
    """

    name: Annotated[str, Column("schedulerName", keep=True)]
    served: Annotated[str, Column("known by", words=KNOWN_BY, tones={"": Tone.WARNING})]
    waiting: Annotated[int, Column()] = 0
    bound: Annotated[int, Column()] = 0
    turns: int = 0
    instances: Annotated[tuple[WorkingInstance, ...], Column("instances, by events")] = ()


class DifferentSetting(Document, frozen=True, kw_only=True):
    """A flag, or the version, that instances of kube-scheduler do not share: value -> the instances that have it."""

    setting: str
    values: dict[str, tuple[str, ...]]


class LeaderSection(Section, frozen=True, kw_only=True, tag="leader"):
    """``leases``: of schedulers, that of this one first; ``instances``: kube-scheduler's pods, where they were seen."""

    leases: tuple[SchedulerLease, ...] = ()
    names: tuple[ServedName, ...] = ()
    instances: tuple[str, ...] = ()
    differences: tuple[DifferentSetting, ...] = ()
