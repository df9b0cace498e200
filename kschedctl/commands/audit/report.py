"""The report of an audit (kind Audit), with its sections about pending and uncreated pods, the queue and drains.

The sections that have a folder have a report of their own there.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kschedctl.api.node_health import NodeHealth
from kschedctl.commands.audit.latency.report import LatencySection
from kschedctl.commands.audit.leader.report import LeaderSection
from kschedctl.commands.audit.packing.report import PackingSection
from kschedctl.commands.audit.placed.report import PlacedSection
from kschedctl.commands.audit.priorities.report import PrioritiesSection
from kschedctl.commands.audit.queues.report import QueuesSection
from kschedctl.commands.audit.races.report import RacesSection
from kschedctl.commands.audit.sampling.report import SamplingSection
from kschedctl.commands.audit.topology.report import TopologySection
from kschedctl.commands.explain.pending_report import LastWords, TerminatingVictim
from kschedctl.commands.wakes.report import PodBetween, RejectorReport
from kschedctl.reports.document import Document
from kschedctl.reports.findings import Findings
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.report import Report
from kschedctl.reports.section import (
    FINDINGS,
    PENDING_PODS,
    Section,
    collect_findings,
    describe_finding,
    iter_notes,
    iter_problems,
    order_findings,
)
from kschedctl.reports.summary import ShortCause, Summary
from kschedctl.reports.unknown import UnknownKind, describe_unread_kinds
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere


class Audit(Report, frozen=True, kw_only=True):
    """An audit of a scheduler and of how a cluster is scheduled."""

    headline: str
    """The unsound sections, gravest first."""
    state: str
    """`findings` if any section has findings, else `unknown` if any is unknown, else `sound`."""
    sections: tuple[AnySection, ...]
    """The sections in the order of the audit."""
    at: str = ""
    """The time of the cluster, empty if unknown. Without it, the report has no ages."""
    nodes: int = 0
    pods: int = 0
    kube_version: str = ""
    undecided: bool = False
    """True if data that was not read could change the state of a section."""
    not_asked: dict[str, str] = {}
    """The sections that were left out, with the option that each needs."""
    interrupted: bool = False
    """True if the user interrupted the audit, so that sections are partial or missing."""
    not_reached: tuple[str, ...] = ()
    """The sections that are missing because the user interrupted."""
    kind: str = "Audit"

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with the unsound sections as causes, problems as warnings and notes as advice.

        The gravest finding of each unsound section comes before all other findings, since a long list is cut off.
        """
        unsound = tuple(section for section in self.sections if section.state == FINDINGS)
        findings = order_findings(self.sections)
        figures = {section.name: len(section.findings) for section in self.sections}
        for section in self.sections:
            if isinstance(section, PendingSection):
                figures[PENDING_PODS] = section.pods
        return replace(
            summary,
            verdict=self.state,
            causes=tuple(ShortCause(f"{section.name}: {section.headline}", 0) for section in unsound),
            warnings=tuple(map(describe_finding, iter_problems(findings))),
            advice=tuple(map(describe_finding, iter_notes(findings))),
            figures=figures,
        )

    def iter_doubts(self) -> Iterator[str]:
        """Yield the doubts about all sections. A kind that several sections lack for the same reason is named once."""
        if self.interrupted:
            yield f"interrupted: {self.describe_interruption()}"
        kinds_by_why: dict[tuple[str, str], UnknownKind] = {}
        for section in self.sections:
            for unknown in section.unknown:
                kinds_by_why.setdefault((unknown.kind, unknown.why), unknown)
        if kinds_by_why:
            yield describe_unread_kinds(kinds_by_why.values())
        for section in self.sections:
            # The interruption of a section is part of the first doubt
            yield from replace(section, interrupted=False).iter_doubts_besides_unread()

    def has_at_least(self, severity: str) -> bool:
        """Return whether a section has a finding of this severity or a graver one."""
        return any(section.has_at_least(severity) for section in self.sections)

    def describe_sections(self) -> dict[str, str]:
        """Return the state of each section by title. The headlines are in the table above the sections."""
        return {section.title: section.describe_state() for section in self.sections}

    def list_open_sections(self) -> tuple[str, ...]:
        """Return the titles of the sections with errors or warnings, so that the page shows them at once."""
        return tuple(section.title for section in self.sections if section.state == FINDINGS)

    def describe_interruption(self) -> str:
        """Describe which sections an interruption left out, or that it only cut the last section short."""
        if not self.not_reached:
            return "the last section is incomplete"
        return f"not audited: {', '.join(self.not_reached)}"

    def describe_gaps(self) -> str:
        """Return the sections that were not judged or not audited, or an empty text."""
        not_judged = [section.name for section in self.sections if section.is_not_judged]
        gaps = (("not judged", not_judged), ("not audited", self.not_asked))
        return "; ".join(f"{label}: {', '.join(names)}" for label, names in gaps if names)

    def as_list(self) -> Findings:
        """Return the findings of all sections."""
        return self.as_findings()

    def as_findings(self) -> Findings:
        """Return the findings of all sections for formats of other programs."""
        sections: tuple[Section, ...] = self.sections
        return collect_findings(sections, self.nodes + self.pods)


class PendingSection(Section, frozen=True, kw_only=True, tag="pending"):
    """The section about pending pods, by cause."""

    pods: int = 0
    """The number of pods that wait."""
    waiting: tuple[WaitingPods, ...] = ()
    """The pods by cause, the gravest first."""
    waiting_elsewhere: tuple[WaitingElsewhere, ...] = ()
    """Workloads that are held back before kube-scheduler sees a pod."""


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
    """A line about the first pod."""
    last_said: LastWords | None = None
    """The scheduler's last message about the first pod."""
    gates: tuple[GateHolder, ...] = ()
    """The gates of the first pod."""
    victims: tuple[TerminatingVictim, ...] = ()
    """Preempted pods that still terminate."""


class GateHolder(Document, frozen=True, kw_only=True):
    """A scheduling gate and the controller that is likely to remove it."""

    gate: str
    holder: str = ""
    """The controller, empty if the gate's name does not tell."""
    fix: str = ""
    """A command or advice that shows what the holder waits for, empty if unknown."""


class CreationSection(Section, frozen=True, kw_only=True, tag="creation"):
    """The section about pods that workloads want and that could not be created."""

    workloads: tuple[NotCreated, ...] = ()
    """The workloads that lack pods now, each with the API server's reasons."""


class DrainsSection(Section, frozen=True, kw_only=True, tag="drains"):
    """The section about unready nodes with pods, and about nodes that PodDisruptionBudgets keep from being drained."""

    unready: tuple[UnreadyNode, ...] = ()
    blocked: tuple[BlockedDrains, ...] = ()


class UnreadyNode(Document, frozen=True, kw_only=True):
    """A node that is not ready or unreachable and has other pods than those of DaemonSets and static pods."""

    node: str
    health: NodeHealth
    pods: tuple[str, ...]


class BlockedDrains(Document, frozen=True, kw_only=True):
    """Pods that cannot be evicted now for the same reason, and their nodes."""

    budgets: tuple[str, ...]
    """The PodDisruptionBudgets that select the pods, as namespace/name. More than one deny every eviction."""
    reason: str
    """The reason why the budget denies an eviction; empty if there are several budgets."""
    pods: tuple[str, ...]
    nodes: tuple[str, ...]
    """The nodes that cannot be drained because of these pods, by name."""
    fix: str
    """The change that lets a drain of these nodes go on."""


class QueueSection(Section, frozen=True, kw_only=True, tag="queue"):
    """The section about the scheduling queue."""

    queued: tuple[PodsInQueue, ...] = ()
    """All pending pods by queue."""
    before: str = ""
    """The earlier time that was compared with, empty if there is none."""
    changes: int = 0
    """The number of changes between the two times that the scheduler watches."""
    unheard: int = 0
    between: tuple[PodBetween, ...] = ()
    """The pods that still wait although they fit now; `missed` if none of the changes woke them."""


class PodsInQueue(Document, frozen=True, kw_only=True):
    """Pods in the same queue that were rejected by the same plugins, the longest-waiting first."""

    queue: str
    """One of activeQ, backoffQ, unschedulable, permit (in no queue, waits before binding), gated, none (no known
    scheduler is responsible) or unknown (feasible now and rejected before, and it is not known if anything woke it
    since).
    """
    pods: tuple[str, ...]
    refused_by: tuple[str, ...] = ()
    since: str = ""
    """The latest time at which the first pod can have entered the queue, empty if unknown."""
    age: str = ""
    """The age of `since`."""
    attempts: int = 0
    """The minimum number of attempts of the most tried pod, 0 if unknown."""
    backs_off_until: str = ""
    """The latest time at which the last of the pods is tried again, empty if unknown."""
    headline: str = ""
    wakes: tuple[RejectorReport, ...] = ()
    """The changes that wake the pods, by rejecting plugin."""


AnySection = (
    PendingSection
    | CreationSection
    | QueueSection
    | QueuesSection
    | PlacedSection
    | RacesSection
    | LatencySection
    | SamplingSection
    | LeaderSection
    | PrioritiesSection
    | TopologySection
    | DrainsSection
    | PackingSection
)
"""The sections that an audit may have, told apart by `name`."""
