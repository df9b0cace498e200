"""The answer to "is the scheduler healthy, and is the cluster scheduled soundly?": kind Audit."""

from __future__ import annotations

from msgspec.structs import replace

from kschedctl.reports.audit.creation import CreationSection
from kschedctl.reports.audit.latency import LatencySection
from kschedctl.reports.audit.leader import LeaderSection
from kschedctl.reports.audit.packing import PackingSection
from kschedctl.reports.audit.pending import PendingSection
from kschedctl.reports.audit.placed import PlacedSection
from kschedctl.reports.audit.priorities import PrioritiesSection
from kschedctl.reports.audit.queue import QueueSection
from kschedctl.reports.audit.races import RacesSection
from kschedctl.reports.audit.sampling import SamplingSection
from kschedctl.reports.audit.section import Section, findings_of
from kschedctl.reports.audit.topology import TopologySection
from kschedctl.reports.findings import Findings
from kschedctl.reports.summary import Report, ShortCause, Summary

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

    def at_least(self, severity: str) -> bool:
        """Whether a section found something of that severity, or graver."""
        return any(section.at_least(severity) for section in self.sections)

    def answers_of_sections(self) -> dict[str, str]:
        """Return the headline of each section."""
        return {section.title: section.headline for section in self.sections}

    def as_list(self) -> Findings:
        """Return the findings of all sections."""
        return self.as_findings()

    def as_findings(self) -> Findings:
        """What all sections found, for readers of findings."""
        sections: tuple[Section, ...] = self.sections
        return findings_of(sections, self.nodes + self.pods, self.tool_version)
