"""The report of the section about priorities, starvation and preemption."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document
from kschedctl.reports.placements import EvictedPod
from kschedctl.reports.section import Section


class PriorityTier(Document, frozen=True, kw_only=True):
    """The pods of one priority."""

    name: str
    """The PriorityClasses that the pods use, empty for none."""
    priority: int
    pods: int
    """The number of pods on nodes."""
    pending: int
    """The number of pods that wait for a node."""
    nodes: int
    """The number of nodes with pods of the tier."""
    user_facing: int
    """The number of pods on nodes that are behind a Service."""
    requests: dict[str, int]
    """The requests of the pods on nodes by resource (millicores for cpu)."""
    preempts: bool
    """True if some of the pods may preempt others."""
    system: bool = False
    """True if the priority is above the priorities that users may set."""


class GrownTier(Document, frozen=True, kw_only=True):
    """A tier to which pods were added in the replay."""

    tier: str
    priority: int
    like: str
    """The pod whose copies were added."""
    workload: str
    asked: int
    """The number of added pods."""
    placed: int
    """The number of added pods that found a node."""
    message: str = ""
    """The reason why the other pods did not find a node."""
    created: int | None = None
    """The number of added pods that the ResourceQuotas of their namespace allow, or None if they allow all."""
    quota: str = ""
    """The ResourceQuota that allows the fewest of the added pods, or "" if all are allowed."""

    @property
    def creation_clause(self) -> str:
        """A clause that says how many of the added pods a ResourceQuota allows, or "" if it allows all of them."""
        if self.created is None:
            return ""
        if self.asked == 1:
            return f"but ResourceQuota {self.quota} does not allow it"
        return f"but ResourceQuota {self.quota} allows {f'only {self.created:,}' if self.created else 'none'} of them"


class EvictedWorkload(Document, frozen=True, kw_only=True):
    """The pods of a workload that would be preempted, in order."""

    workload: str
    tier: str
    priority: int
    pods: tuple[EvictedPod, ...]
    services: tuple[str, ...] = ()
    """The Services that select the pods."""


class StarvingPods(Document, frozen=True, kw_only=True):
    """Pods of a workload that wait too long for room."""

    workload: Annotated[str, Column(keep=True)]
    tier: Annotated[str, Column(keep=True, beneath="tier")]
    priority: int
    pods: Annotated[tuple[str, ...], Column(show_count=True)]
    seconds: float
    """The time for which the oldest pod has waited."""
    age: Annotated[str, Column("waits", right=True)]
    why: str
    """The reason why the pods fit on no node."""
    preemption: str
    """The effect that preemption can have for the pods."""
    lower_pods: Annotated[int, Column("lower running")]
    """The number of running pods of lower tiers."""
    lower_started: Annotated[int, Column("lower started")]
    """The number of these that started while the oldest pod waited."""
    higher_started: Annotated[int, Column("higher started")]
    """The number of pods of higher tiers that started in that time."""


class PreemptedWorkload(Document, frozen=True, kw_only=True):
    """A workload that lost pods to preemption."""

    workload: Annotated[str, Column(keep=True)]
    times: Annotated[int, Column("preemptions", csv="times")]
    """The number of preemptions whose events still exist."""
    pods: Annotated[int, Column("pods now")]
    """The number of pods that the workload has now."""
    victims: tuple[str, ...]
    last: Annotated[str, Column("last preemption", csv="last")] = ""
    """The time of the last preemption, empty if unknown."""


class ExposedWorkload(Document, frozen=True, kw_only=True):
    """Pods behind Services that higher non-system tiers may preempt."""

    workload: Annotated[str, Column(keep=True)]
    tier: Annotated[str, Column(keep=True, beneath="tier")]
    priority: int
    pods: Annotated[int, Column()]
    services: Annotated[tuple[str, ...], Column("services", show_all=True)]
    tiers_above: Annotated[tuple[str, ...], Column(beneath="tiers above:", show_all=True)]
    pods_above: Annotated[int, Column("pods above")]
    """The number of pods that may preempt them."""
    jobs_above: int
    """The number of these pods that belong to Jobs."""
    budgets: Annotated[
        tuple[str, ...], Column("PDBs", beneath="PDBs:", show_all=True, words={"": "none"}, tones={"": Tone.WARNING})
    ] = ()
    """The PDBs of the pods, which preemption violates only if nothing else helps."""


class PrioritiesSection(Section, frozen=True, kw_only=True, tag="priorities"):
    """The section about priorities, starvation and preemption."""

    tiers: tuple[PriorityTier, ...] = ()
    """The tiers, highest first."""
    grown: GrownTier | None = None
    """The tier to which pods were added in the replay."""
    victims: tuple[EvictedWorkload, ...] = ()
    """The pods that the added pods preempt, in order."""
    starving: tuple[StarvingPods, ...] = ()
    starving_as_of_today: tuple[StarvingPods, ...] = ()
    """The pods that starve if the cluster was read today. Empty if the time of the cluster is known."""
    preempted: tuple[PreemptedWorkload, ...] = ()
    exposed: tuple[ExposedWorkload, ...] = ()
