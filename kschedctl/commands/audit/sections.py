"""The sections of an audit, in their order.

A new section needs a folder in ``kschedctl/commands/audit/`` with its struct (a member of ``AnySection``) and its
function, a line in ``SECTIONS``, and its evidence in ``_evidence`` of ``page``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.creation.section import creation_section
from kschedctl.commands.audit.latency.section import latency_section
from kschedctl.commands.audit.leader.section import leader_section
from kschedctl.commands.audit.packing.section import packing_section
from kschedctl.commands.audit.pending.section import pending_section
from kschedctl.commands.audit.placed.section import placed_section
from kschedctl.commands.audit.priorities.section import priorities_section
from kschedctl.commands.audit.queue.section import queue_section
from kschedctl.commands.audit.races.section import races_section
from kschedctl.commands.audit.report import AnySection, Audit
from kschedctl.commands.audit.sampling.section import sampling_section
from kschedctl.commands.audit.topology.section import topology_section
from kschedctl.replay.audit_rules import NOTE
from kschedctl.reports.findings import SEVERITIES_BY_GRAVITY
from kschedctl.reports.section import FINDINGS, SOUND, UNKNOWN
from kschedctl.text.counts import counted

SECTIONS: Mapping[str, Callable[[AuditedCluster], AnySection]] = {
    "pending": pending_section,
    "creation": creation_section,
    "queue": queue_section,
    "placed": placed_section,
    "races": races_section,
    "latency": latency_section,
    "sampling": sampling_section,
    "leader": leader_section,
    "priorities": priorities_section,
    "topology": topology_section,
    "packing": packing_section,
}
NEEDED: Mapping[str, tuple[str, Callable[[AuditedCluster], bool]]] = {
    "latency": ("--metrics or --prometheus", lambda audited: audited.measured is not None),
}
"""What sections that lean on more than the cluster need, and whether it is there: else they are not asked."""
MISSED_WAKES = "what should have woken pods"
"""The part of a section that needs the cluster of before."""


def audit(audited: AuditedCluster, names: Sequence[str] = ()) -> Audit:
    """The sections of these names, without any all that have what they need; in the order of SECTIONS."""
    not_asked = {} if names else {name: what for name, (what, there) in NEEDED.items() if not there(audited)}
    if "queue" in (names or SECTIONS) and audited.earlier is None:
        not_asked[MISSED_WAKES] = "--since FILE"
    wanted = [name for name in SECTIONS if name in names or not (names or name in not_asked)]
    done, sections = audited.progress.begin("Auditing", len(wanted)), []
    for name in wanted:
        sections.append(SECTIONS[name](audited))
        done(1)
    return Audit(
        headline=_headline(sections),
        state=_state(sections),
        sections=tuple(sections),
        at=audited.now,
        nodes=len(audited.cluster.nodes),
        pods=len(audited.cluster.pods),
        kube_version=audited.cluster.kube_version,
        undecided=any(section.undecided for section in sections),
        not_asked=not_asked,
    )


def _state(sections: Sequence[AnySection]) -> str:
    states = {section.state for section in sections}
    return next(state for state in (FINDINGS, UNKNOWN, SOUND) if state in states)


def _headline(sections: Sequence[AnySection]) -> str:
    """What is unsound, in order of gravity; sound only where every section has its grounds."""
    unsound = sorted((section for section in sections if section.state == FINDINGS), key=_gravity)
    unknown = [section.name for section in sections if section.state == UNKNOWN]
    not_known = f"not known: {', '.join(unknown)}" if unknown else ""
    if not unsound:
        return not_known[:1].upper() + not_known[1:] if unknown else f"Sound: {_asked(sections)}"
    counted = f"{', '.join(section.name for section in unsound)} ({_counts(unsound)})"
    return f"Unsound: {counted}" + (f"; {not_known}" if unknown else "")


def _asked(sections: Sequence[AnySection]) -> str:
    if len(sections) == 1:
        return sections[0].headline
    notes = sum(_count(section, NOTE) for section in sections)
    message = counted(notes, "note") if notes else "nothing found"
    return f"{counted(len(sections), 'section')}, {message}"


def _gravity(section: AnySection) -> tuple[int, ...]:
    """The more errors the sooner, then the more warnings."""
    return tuple(-_count(section, severity) for severity in SEVERITIES_BY_GRAVITY)


def _counts(sections: Sequence[AnySection]) -> str:
    """How many errors and warnings the sections have; notes leave a section sound."""
    counts = (
        (severity, sum(_count(section, severity) for section in sections)) for severity in SEVERITIES_BY_GRAVITY[:-1]
    )
    return ", ".join(counted(number, severity) for severity, number in counts if number)


def _count(section: AnySection, severity: str) -> int:
    return sum(finding.severity == severity for finding in section.findings)
