"""The report of the section about pending pods."""

from __future__ import annotations

from kschedctl.commands.explain.pending_report import LastWords, TerminatingVictim
from kschedctl.reports.document import Document
from kschedctl.reports.section import Section
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere


class GateHolder(Document, frozen=True, kw_only=True):
    """A scheduling gate and the controller that is likely to remove it."""

    gate: str
    holder: str = ""
    """The controller, empty if the gate's name does not tell."""
    fix: str = ""
    """How to see what the holder waits for, empty if unknown."""


class WaitingPods(Document, frozen=True, kw_only=True):
    """Pods that wait for the same reason, the oldest first."""

    cause: str
    """One of stuck, error, unserved, gang, unschedulable, preemption, permit (feasible, and a Permit plugin delays
    binding), backoff, gated, elsewhere (another scheduler is responsible), crowded (feasible, but not together with
    the pods that are tried first) or turn (feasible and new).
    """
    reason: str
    pods: tuple[str, ...]
    workloads: tuple[str, ...] = ()
    age: str = ""
    """The age of the oldest pod, empty if unknown."""
    example: str = ""
    """One line about the first pod."""
    last_said: LastWords | None = None
    """What the scheduler last said about the first pod."""
    gates: tuple[GateHolder, ...] = ()
    """The gates of the first pod."""
    victims: tuple[TerminatingVictim, ...] = ()
    """Preempted pods that still terminate."""


class PendingSection(Section, frozen=True, kw_only=True, tag="pending"):
    """The section about pending pods, by cause."""

    pods: int = 0
    """The number of pods that wait."""
    waiting: tuple[WaitingPods, ...] = ()
    """The pods by cause, the gravest first."""
    waiting_elsewhere: tuple[WaitingElsewhere, ...] = ()
    """Workloads that are held back before kube-scheduler sees a pod."""
