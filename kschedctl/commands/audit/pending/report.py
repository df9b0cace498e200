"""The section of an audit about what waits for a node, by cause."""

from __future__ import annotations

from kschedctl.commands.explain.waiting_report import LastWords, TerminatingVictim
from kschedctl.reports.document import Document
from kschedctl.reports.section import Section
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere


class GateHolder(Document, frozen=True, kw_only=True):
    """A scheduling gate, and who is likely to take it away: empty where its name tells nothing."""

    gate: str
    holder: str = ""
    fix: str = ""


class WaitingPods(Document, frozen=True, kw_only=True):
    """Pods that wait for the same ``reason``, the oldest first; ``age`` is that of the oldest, empty if not known.

    ``cause``: stuck, error, unserved, gang, unschedulable, preemption, permit (it fits, and a plugin lets it wait
    before it is bound), backoff, gated, elsewhere (another scheduler has it), crowded (it fits, but not beside the pods
    that are tried before it) or turn (it fits, and has only just come). ``example``: what is true of the first one in a
    line; ``last_said``: what the scheduler told of that one. ``gates``, ``victims``: who is waited for.
    """

    cause: str
    reason: str
    pods: tuple[str, ...]
    workloads: tuple[str, ...] = ()
    age: str = ""
    example: str = ""
    last_said: LastWords | None = None
    gates: tuple[GateHolder, ...] = ()
    victims: tuple[TerminatingVictim, ...] = ()


class PendingSection(Section, frozen=True, kw_only=True, tag="pending"):
    """``pods``: how many wait; ``waiting``: them by cause, the gravest first.

    ``waiting_elsewhere``: what waits before kube-scheduler sees a pod of it.
    """

    pods: int = 0
    waiting: tuple[WaitingPods, ...] = ()
    waiting_elsewhere: tuple[WaitingElsewhere, ...] = ()
