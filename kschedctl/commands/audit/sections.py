"""The list of an audit's sections, and the function that runs them.

A new section needs a folder in `kschedctl/commands/audit/` with its struct (a member of `AnySection`) and its function,
a line in `SECTIONS`, and its evidence in `_build_evidence` of `page`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.creation import build_creation_section
from kschedctl.commands.audit.latency import build_latency_section
from kschedctl.commands.audit.leader import build_leader_section
from kschedctl.commands.audit.packing import build_packing_section
from kschedctl.commands.audit.pending import build_pending_section
from kschedctl.commands.audit.placed import build_placed_section
from kschedctl.commands.audit.priorities import build_priorities_section
from kschedctl.commands.audit.queue import build_queue_section
from kschedctl.commands.audit.races import build_races_section
from kschedctl.commands.audit.report import AnySection, Audit
from kschedctl.commands.audit.sampling import build_sampling_section
from kschedctl.commands.audit.topology import build_topology_section
from kschedctl.replay.audit_rules import NOTE
from kschedctl.reports.findings import SEVERITIES_BY_GRAVITY
from kschedctl.reports.section import FINDINGS, SOUND, UNKNOWN
from kschedctl.text.counts import counted

SECTIONS: Mapping[str, Callable[[AuditedCluster], AnySection]] = {
    "pending": build_pending_section,
    "creation": build_creation_section,
    "queue": build_queue_section,
    "placed": build_placed_section,
    "races": build_races_section,
    "latency": build_latency_section,
    "sampling": build_sampling_section,
    "leader": build_leader_section,
    "priorities": build_priorities_section,
    "topology": build_topology_section,
    "packing": build_packing_section,
}
REQUIRED_INPUTS: Mapping[str, tuple[str, Callable[[AuditedCluster], bool]]] = {
    "latency": ("--metrics or --prometheus", lambda audited: audited.measured is not None),
}
"""Sections that need more input than the cluster: the options that give it, and whether it was given.

A section without its input is left out.
"""
MISSED_WAKES = "what should have woken pods"
"""The part of section "queue" that needs the cluster at an earlier time."""


def run_sections(audited: AuditedCluster, names: Sequence[str] = ()) -> Audit:
    """Run the named sections, or all that have their input if none is named, in the order of `SECTIONS`."""
    not_asked = {}
    if not names:
        for name, (option, is_given) in REQUIRED_INPUTS.items():
            if not is_given(audited):
                not_asked[name] = option
    if "queue" in (names or SECTIONS) and audited.earlier is None:
        not_asked[MISSED_WAKES] = "--since FILE"
    selected = [name for name in SECTIONS if name in names or not (names or name in not_asked)]
    done, sections = audited.progress.begin("Auditing", len(selected)), []
    for name in selected:
        sections.append(SECTIONS[name](audited))
        done(1)
    return Audit(
        headline=_build_headline(sections),
        state=_combine_states(sections),
        sections=tuple(sections),
        at=audited.now,
        nodes=len(audited.cluster.nodes),
        pods=len(audited.cluster.pods),
        kube_version=audited.cluster.kube_version,
        undecided=any(section.undecided for section in sections),
        not_asked=not_asked,
    )


def _combine_states(sections: Sequence[AnySection]) -> str:
    """Return the gravest state of the sections."""
    states = {section.state for section in sections}
    return next(state for state in (FINDINGS, UNKNOWN, SOUND) if state in states)


def _build_headline(sections: Sequence[AnySection]) -> str:
    """Return the unsound and the unknown sections as text, or that all are sound."""
    unsound = sorted((section for section in sections if section.state == FINDINGS), key=_gravity_sort_key)
    unknown = [section.name for section in sections if section.state == UNKNOWN]
    not_known = f"not known: {', '.join(unknown)}" if unknown else ""
    if not unsound:
        return not_known[:1].upper() + not_known[1:] if unknown else f"Sound: {_describe_sound_sections(sections)}"
    counted = f"{', '.join(section.name for section in unsound)} ({_format_finding_counts(unsound)})"
    return f"Unsound: {counted}" + (f"; {not_known}" if unknown else "")


def _describe_sound_sections(sections: Sequence[AnySection]) -> str:
    """Return the headline of the only section, or the number of sections and notes."""
    if len(sections) == 1:
        return sections[0].headline
    notes = sum(_count_findings(section, NOTE) for section in sections)
    message = counted(notes, "note") if notes else "nothing found"
    return f"{counted(len(sections), 'section')}, {message}"


def _gravity_sort_key(section: AnySection) -> tuple[int, ...]:
    """Return a sort key that puts sections with more errors first, then those with more warnings."""
    return tuple(-_count_findings(section, severity) for severity in SEVERITIES_BY_GRAVITY)


def _format_finding_counts(sections: Sequence[AnySection]) -> str:
    """Return the number of errors and warnings of all sections as text, without notes."""
    counts = (
        (severity, sum(_count_findings(section, severity) for section in sections))
        for severity in SEVERITIES_BY_GRAVITY[:-1]
    )
    return ", ".join(counted(number, severity) for severity, number in counts if number)


def _count_findings(section: AnySection, severity: str) -> int:
    """Return the number of a section's findings of one severity."""
    return sum(finding.severity == severity for finding in section.findings)
