"""The answer to "is the scheduler healthy, and is the cluster scheduled soundly?": kind Audit."""

from __future__ import annotations

from msgspec.structs import replace

from kschedctl.commands.audit.creation.report import CreationSection
from kschedctl.commands.audit.latency.report import LatencySection
from kschedctl.commands.audit.leader.report import LeaderSection
from kschedctl.commands.audit.packing.report import PackingSection
from kschedctl.commands.audit.pending.report import PendingSection
from kschedctl.commands.audit.placed.report import PlacedSection
from kschedctl.commands.audit.priorities.report import PrioritiesSection
from kschedctl.commands.audit.queue.report import QueueSection
from kschedctl.commands.audit.races.report import RacesSection
from kschedctl.commands.audit.sampling.report import SamplingSection
from kschedctl.commands.audit.topology.report import TopologySection
from kschedctl.reports.findings import Findings
from kschedctl.reports.report import Report
from kschedctl.reports.section import Section, collect_findings
from kschedctl.reports.summary import ShortCause, Summary

AnySection = (
    PendingSection
    | CreationSection
    | QueueSection
    | PlacedSection
    | RacesSection
    | LatencySection
    | SamplingSection
    | LeaderSection
    | PrioritiesSection
    | TopologySection
    | PackingSection
)
"""The sections that an audit may have, told apart by their ``name``: a union of them."""


class Audit(Report, frozen=True, kw_only=True):
    """``sections``: in the order of the audit. ``headline``: what is unsound, in order of gravity.

    ``state``: findings as soon as a section has some, sound only where every section is; ``undecided``: what was not
    read could change that of a section. ``at``: the time of the cluster, empty where that is not known, and then
    nothing is said of ages. ``not_asked``: what needs something that was not given, and what that is.
    """

    headline: str
    state: str
    sections: tuple[AnySection, ...]
    at: str = ""
    nodes: int = 0
    pods: int = 0
    kube_version: str = ""
    undecided: bool = False
    not_asked: dict[str, str] = {}
    tool_version: str = ""
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Audit"

    def summarized(self, summary: Summary) -> Summary:
        """With the sections that found something, and what."""
        sections = tuple(section for section in self.sections if section.findings)
        return replace(
            summary,
            verdict=self.state,
            causes=tuple(ShortCause(f"{section.name}: {section.headline}", 0) for section in sections),
            advice=tuple(
                f"{finding.object}: {finding.message}" for section in sections for finding in section.findings
            ),
            figures={section.name: len(section.findings) for section in self.sections},
        )

    def has_at_least(self, severity: str) -> bool:
        """Whether a section found something of that severity, or graver."""
        return any(section.has_at_least(severity) for section in self.sections)

    def answers_of_sections(self) -> dict[str, str]:
        """Return the headline of each section."""
        return {section.title: section.headline for section in self.sections}

    def as_list(self) -> Findings:
        """Return the findings of all sections."""
        return self.as_findings()

    def as_findings(self) -> Findings:
        """What all sections found, for readers of findings."""
        sections: tuple[Section, ...] = self.sections
        return collect_findings(sections, self.nodes + self.pods, self.tool_version)
