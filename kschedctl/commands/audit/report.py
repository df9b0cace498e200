"""The report of an audit (kind Audit)."""

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
"""The sections that an audit may have, told apart by `name`."""


class Audit(Report, frozen=True, kw_only=True):
    """An audit of a scheduler and of how a cluster is scheduled."""

    headline: str
    """The unsound sections, the gravest first."""
    state: str
    """`findings` if any section has findings, else `unknown` if any is unknown, else `sound`."""
    sections: tuple[AnySection, ...]
    """The sections in the order of the audit."""
    at: str = ""
    """The time of the cluster, empty if unknown. Without it, nothing is said about ages."""
    nodes: int = 0
    pods: int = 0
    kube_version: str = ""
    undecided: bool = False
    """Whether data that was not read could change the state of a section."""
    not_asked: dict[str, str] = {}
    """What was left out, with the option that it needs."""
    tool_version: str = ""
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Audit"

    def summarized(self, summary: Summary) -> Summary:
        """Return a summary with the sections that have findings."""
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
        """Return whether a section has a finding of this severity or a graver one."""
        return any(section.has_at_least(severity) for section in self.sections)

    def answers_of_sections(self) -> dict[str, str]:
        """Return the headline of each section."""
        return {section.title: section.headline for section in self.sections}

    def as_list(self) -> Findings:
        """Return the findings of all sections."""
        return self.as_findings()

    def as_findings(self) -> Findings:
        """Return the findings of all sections for formats of other programs."""
        sections: tuple[Section, ...] = self.sections
        return collect_findings(sections, self.nodes + self.pods, self.tool_version)
