"""The `audit` command: whether the scheduler is healthy and the cluster is scheduled well.

`SECTIONS` lists the sections. Each one is a module or package that builds a section of the report from an
`audited_cluster`. `evidence` and `page` render the sections, `options` decides the exit code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kschedctl.cluster import Cluster
from kschedctl.commands.audit.audited_cluster import AuditedCluster, Thresholds
from kschedctl.commands.audit.creation import build_creation_section
from kschedctl.commands.audit.drains import build_drains_section
from kschedctl.commands.audit.latency import build_latency_section
from kschedctl.commands.audit.leader import build_leader_section
from kschedctl.commands.audit.packing import build_packing_section
from kschedctl.commands.audit.pending import build_pending_section
from kschedctl.commands.audit.placed import build_placed_section
from kschedctl.commands.audit.priorities import build_priorities_section
from kschedctl.commands.audit.queue import build_queue_section
from kschedctl.commands.audit.queues import build_queues_section, has_queues
from kschedctl.commands.audit.races import build_races_section
from kschedctl.commands.audit.report import AnySection, Audit
from kschedctl.commands.audit.sampling import build_sampling_section
from kschedctl.commands.audit.topology import build_topology_section
from kschedctl.errors import UsageError
from kschedctl.replay.audit_rules import NOTE
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.reports.findings import SEVERITIES_BY_GRAVITY
from kschedctl.reports.section import FINDINGS, SOUND, UNKNOWN
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.sources.metrics.catalogue import MetricsReading
from kschedctl.text.counts import agreeing, capitalize, counted, join_words

SECTIONS: Mapping[str, Callable[[AuditedCluster], AnySection]] = {
    "pending": build_pending_section,
    "creation": build_creation_section,
    "queue": build_queue_section,
    "queues": build_queues_section,
    "placed": build_placed_section,
    "races": build_races_section,
    "latency": build_latency_section,
    "sampling": build_sampling_section,
    "leader": build_leader_section,
    "priorities": build_priorities_section,
    "topology": build_topology_section,
    "drains": build_drains_section,
    "packing": build_packing_section,
}


class RequiredInput(NamedTuple):
    """Input that a section needs besides the cluster."""

    options: str
    """The options that give the input."""
    is_given: Callable[[AuditedCluster], bool]


REQUIRED_INPUTS: Mapping[str, RequiredInput] = {
    "latency": RequiredInput(
        options="--metrics or --prometheus", is_given=lambda audited: audited.measured is not None
    ),
}
"""The input of each section that needs more than the cluster.

A section without its input is left out.
"""


OPTIONAL_SECTIONS: Mapping[str, Callable[[AuditedCluster], bool]] = {"queues": has_queues}
"""Sections about objects that few clusters have, and whether the cluster has any.

Without such objects, a section is left out unless it is selected by name.
"""


MISSED_WAKES = "missed wake-ups"
"""The part of section "queue" that needs the cluster at an earlier time."""


def audit(
    cluster: Cluster,
    sections: Sequence[str] = (),
    *,
    now: str = "",
    earlier: Cluster | None = None,
    thresholds: Thresholds | None = None,
    measured: MetricsReading | None = None,
    progress: Progress = NO_PROGRESS,
) -> Audit:
    """Audit whether the scheduler is healthy and the cluster is scheduled well.

    `sections` selects sections by name; all are run if it is empty. `now` is the RFC 3339 time of the cluster and
    defaults to the time at which the cluster was read. If neither is known, no section says anything about ages.
    `earlier` is the same cluster at an earlier time, `measured` holds kube-scheduler's own metrics, and `thresholds`
    decide what is a finding. A section is sound only if all data that it depends on was read. Raises UsageError for an
    unknown section.

    >>> import kschedctl
    >>> audit(kschedctl.Cluster.from_objects([]), ["pending"]).sections[0].name
    'pending'
    """
    for name in sections:
        if name not in SECTIONS:
            raise UsageError(f'no section "{name}"', where="--section", hint=f"available: {', '.join(SECTIONS)}")
    cluster_time = cluster.provenance.read_at if cluster.provenance else ""
    audited = AuditedCluster(
        Scheduler(cluster),
        now or cluster_time,
        thresholds or Thresholds(),
        earlier=None if earlier is None else Scheduler(earlier),
        measured=measured,
        progress=progress,
    )
    return run_sections(audited, sections)


def run_sections(audited: AuditedCluster, names: Sequence[str] = ()) -> Audit:
    """Run the named sections in the order of `SECTIONS`, and return the audit.

    If no section is named, run all sections whose input is given and whose objects exist. If the user interrupts, the
    audit has the sections that were run until then, and the names of those that were not reached.
    """
    missing_options = _find_missing_options(audited, names)
    if names:
        selected = [name for name in SECTIONS if name in names]
    else:
        without_objects = {name for name, has_objects in OPTIONAL_SECTIONS.items() if not has_objects(audited)}
        selected = [name for name in SECTIONS if name not in missing_options and name not in without_objects]

    sections = _run_sections_until_interrupted(audited, selected)
    interrupted = len(sections) < len(selected) or any(section.interrupted for section in sections)
    return Audit(
        headline=f"{_describe_lack_of_nodes(audited)}{_build_headline(sections, interrupted)}",
        state=_find_worst_state(sections, interrupted),
        sections=tuple(sections),
        at=audited.now,
        nodes=len(audited.cluster.nodes),
        pods=len(audited.cluster.pods),
        kube_version=audited.cluster.kube_version,
        undecided=any(section.undecided for section in sections),
        not_asked=missing_options,
        interrupted=interrupted,
        not_reached=tuple(selected[len(sections) :]),
    )


def _run_sections_until_interrupted(audited: AuditedCluster, names: Sequence[str]) -> list[AnySection]:
    """Run sections in order, and return them. If the user interrupts, the remaining sections are missing.

    If the user interrupts while a section can return a partial result, this result is the last one.
    """
    on_done = audited.progress.begin("Auditing", len(names))
    sections: list[AnySection] = []
    try:
        for name in names:
            section = SECTIONS[name](audited)
            sections.append(section)
            if section.interrupted:
                break
            on_done(1)
    except KeyboardInterrupt:
        pass
    return sections


def _find_missing_options(audited: AuditedCluster, names: Sequence[str]) -> dict[str, str]:
    """Return the sections that are skipped because their input is missing, each with the option that supplies it.

    If `names` selects sections, no section is skipped. `MISSED_WAKES`, a part of section "queue", counts as a section
    here, and is skipped without an earlier snapshot even if "queue" is selected.
    """
    missing = {}
    if not names:
        for name, required in REQUIRED_INPUTS.items():
            if not required.is_given(audited):
                missing[name] = required.options
    is_queue_selected = not names or "queue" in names
    if is_queue_selected and audited.earlier is None:
        missing[MISSED_WAKES] = "--since FILE"
    return missing


def _find_worst_state(sections: Sequence[AnySection], interrupted: bool) -> str:
    """Return the worst state of the sections. From worst to best, the states are findings, unknown and sound.

    If the audit was interrupted, the state is at best unknown.
    """
    states = {section.state for section in sections}
    if interrupted:
        states.add(UNKNOWN)
    return next(state for state in (FINDINGS, UNKNOWN, SOUND) if state in states)


def _describe_lack_of_nodes(audited: AuditedCluster) -> str:
    """Return the beginning of the headline if the cluster is known to have no nodes, or an empty text."""
    return "" if audited.cluster.nodes or audited.cluster.find_gap("Node") else "There are no nodes. "


def _build_headline(sections: Sequence[AnySection], interrupted: bool) -> str:
    """Build the line that names the sections with findings, gravest first, and the sections whose state is unknown.

    If all sections are sound, the line summarizes them. After an interruption, it says that they are sound so far. If
    no section is complete, or if no section could judge anything, the line says so.
    """
    if not sections:
        return "No section is complete"
    unsound = sorted((section for section in sections if section.state == FINDINGS), key=_get_gravity_sort_key)
    unknown = [section.name for section in sections if section.state == UNKNOWN]
    if not unsound and not unknown:
        if all(section.is_not_judged for section in sections):
            return "Nothing to judge" if len(sections) > 1 else f"Not judged: {sections[0].headline}"
        sound = "OK so far" if interrupted else "OK"
        return f"{sound}: {_summarize_sound_sections(sections)}"
    if not unsound:
        return capitalize(_describe_unknown_sections(unknown))

    unknown_text = f"; {_describe_unknown_sections(unknown)}" if unknown else ""
    section_names = _name_sections([section.name for section in unsound])
    return f"{_format_finding_counts(unsound)} in {section_names}{unknown_text}"


def _name_sections(names: Sequence[str]) -> str:
    """Return text such as ``sections pending and drains``."""
    return f"{agreeing(len(names), 'section', 'sections')} {join_words(names)}"


def _describe_unknown_sections(names: Sequence[str]) -> str:
    """Return a clause that says that there is not enough data to judge the named sections."""
    return f"not enough data to judge {_name_sections(names)}"


def _summarize_sound_sections(sections: Sequence[AnySection]) -> str:
    """Return text such as ``3 sections, 2 notes; section kueue was not judged``, or the headline of the only section.

    The number of sections leaves out those that are not judged. Without notes, the text says ``nothing found``.
    """
    if len(sections) == 1:
        return sections[0].headline
    notes = sum(_count_findings(section, NOTE) for section in sections)
    notes_text = counted(notes, "note") if notes else "nothing found"
    not_judged = [section.name for section in sections if section.is_not_judged]
    were = agreeing(len(not_judged), "was", "were")
    not_judged_text = f"; {_name_sections(not_judged)} {were} not judged" if not_judged else ""
    return f"{counted(len(sections) - len(not_judged), 'section')}, {notes_text}{not_judged_text}"


def _get_gravity_sort_key(section: AnySection) -> tuple[int, ...]:
    """Return a sort key that puts sections with more errors first, then sections with more warnings."""
    return tuple(-_count_findings(section, severity) for severity in SEVERITIES_BY_GRAVITY)


def _format_finding_counts(sections: Sequence[AnySection]) -> str:
    """Format the numbers of errors and warnings in all sections, such as ``1 error, 2 warnings``."""
    counts = []
    for severity in SEVERITIES_BY_GRAVITY:
        number = sum(_count_findings(section, severity) for section in sections)
        if number and severity != NOTE:
            counts.append(counted(number, severity))
    return ", ".join(counts)


def _count_findings(section: AnySection, severity: str) -> int:
    """Return the number of a section's findings of one severity."""
    return sum(finding.severity == severity for finding in section.findings)
