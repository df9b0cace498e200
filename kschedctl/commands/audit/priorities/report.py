"""The section of an audit about priorities: who is above whom, who starves, and who would have to go first."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document
from kschedctl.reports.placements import EvictedPod
from kschedctl.reports.section import Section


class PriorityTier(Document, frozen=True, kw_only=True):
    """Pods of one priority. ``name``: the PriorityClasses by which they have it, empty for none.

    ``pods`` are on ``nodes`` nodes, ``pending`` wait for one, ``user_facing`` are behind a Service. ``requests``:
    resource -> amount (millicores for cpu) of the pods on nodes. ``preempts``: some of its pods may evict others.
    ``system``: above what users may give.
    """

    name: str
    priority: int
    pods: int
    pending: int
    nodes: int
    user_facing: int
    requests: dict[str, int]
    preempts: bool
    system: bool = False


class GrownTier(Document, frozen=True, kw_only=True):
    """``asked`` more pods ``like`` one of the tier were replayed: how many found a node, and why others did not."""

    tier: str
    priority: int
    like: str
    workload: str
    asked: int
    placed: int
    message: str = ""


class EvictedWorkload(Document, frozen=True, kw_only=True):
    """The pods of a workload that would have to go, in order. ``services``: those that it is behind."""

    workload: str
    tier: str
    priority: int
    pods: tuple[EvictedPod, ...]
    services: tuple[str, ...] = ()


class StarvingPods(Document, frozen=True, kw_only=True):
    """Pods of a workload that wait too long for room, the oldest for ``seconds``. ``why`` they fit nowhere, and what
    comes of ``preemption``.

    Meanwhile pods of lower tiers run (``lower_pods``), of which ``lower_started`` started since; ``higher_started``:
    the pods of higher tiers that did.
    """

    workload: Annotated[str, Column(keep=True)]
    tier: Annotated[str, Column(keep=True, beneath="tier")]
    priority: int
    pods: Annotated[tuple[str, ...], Column(counted=True)]
    seconds: float
    age: Annotated[str, Column("waits", right=True)]
    why: str
    preemption: str
    lower_pods: Annotated[int, Column("lower running")]
    lower_started: Annotated[int, Column("lower started")]
    higher_started: Annotated[int, Column("higher started")]


class PreemptedWorkload(Document, frozen=True, kw_only=True):
    """A workload that has ``pods`` now and lost ``victims`` to preemption, ``times`` in all, as far as events are kept.

    ``last``: when that was, empty where nobody says.
    """

    workload: Annotated[str, Column(keep=True)]
    times: Annotated[int, Column()]
    pods: Annotated[int, Column("pods now")]
    victims: tuple[str, ...]
    last: Annotated[str, Column()] = ""


class ExposedWorkload(Document, frozen=True, kw_only=True):
    """Pods behind ``services`` that the ``tiers_above`` may evict, of which ``pods_above`` may do so; system tiers
    aside. ``jobs_above``: how many of these are of Jobs. ``budgets``: the PodDisruptionBudgets, which preemption breaks
    where nothing else helps."""

    workload: Annotated[str, Column(keep=True)]
    tier: Annotated[str, Column(keep=True, beneath="tier")]
    priority: int
    pods: Annotated[int, Column()]
    services: Annotated[tuple[str, ...], Column("behind", every=True)]
    tiers_above: Annotated[tuple[str, ...], Column(beneath="below", every=True)]
    pods_above: Annotated[int, Column("their pods")]
    jobs_above: int
    budgets: Annotated[
        tuple[str, ...], Column(beneath="budgets", every=True, words={"": "none"}, tones={"": Tone.WARNING})
    ] = ()


class PrioritiesSection(Section, frozen=True, kw_only=True, tag="priorities"):
    """``tiers``: the highest first. ``grown``: the tier that was made to grow, and ``victims`` in their order."""

    tiers: tuple[PriorityTier, ...] = ()
    grown: GrownTier | None = None
    victims: tuple[EvictedWorkload, ...] = ()
    starving: tuple[StarvingPods, ...] = ()
    preempted: tuple[PreemptedWorkload, ...] = ()
    exposed: tuple[ExposedWorkload, ...] = ()
