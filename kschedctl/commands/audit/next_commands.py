"""The commands that tell more about the findings of an audit."""

from __future__ import annotations

from collections.abc import Mapping

from kschedctl.cli.next_commands import build_command, workload_arguments
from kschedctl.cli.options import Source
from kschedctl.commands.audit.creation.report import CreationSection
from kschedctl.commands.audit.packing.report import PackingSection
from kschedctl.commands.audit.priorities.report import PrioritiesSection
from kschedctl.render.page import Commands
from kschedctl.reports.findings import Finding
from kschedctl.reports.section import Section

ALL = ("-A",)


HELPING: Mapping[str, tuple[str, ...]] = {
    "audit-creation-refused": ("explain",),
    "audit-pending-error": ("explain",),
    "audit-pending-gang": ("explain",),
    "audit-pending-unschedulable": ("remedies",),
    "audit-pending-gated": ("wakes",),
    "audit-priorities-starving": ("explain",),
    "audit-priorities-overtaken": ("remedies",),
    "audit-packing-spare-nodes": ("drain",),
    "audit-sampling-loses": ("sampling",),
    "audit-sampling-wastes": ("sampling",),
    "audit-latency-errors": ("explain", *ALL),
    "audit-latency-refused": ("explain", *ALL),
    "audit-latency-unschedulable-queue": ("wakes", *ALL),
    "audit-latency-backoff-queue": ("wakes", *ALL),
    "audit-latency-active-queue": ("sampling",),
    "audit-latency-vain-preemption": ("priorities",),
}
"""A rule of an audit -> the command that tells more of what it found, or tries what helps."""


OF_ALL = frozenset(("sampling", "priorities"))
"""The commands that are about no single object."""


def about_findings(source: Source, *sections: Section) -> Commands:
    """The command that helps with each finding, by its fingerprint; that tells more of a section, by its name."""
    commands = {}
    for section in sections:
        if isinstance(section, PackingSection):
            commands[section.name] = build_command(source, "packing", "--nodes", "0")
        for finding in section.findings:
            command, *arguments = HELPING.get(finding.rule, ("",))
            object_ = () if arguments or command in OF_ALL else _object(finding, section)
            if command and (arguments or object_ or command in OF_ALL):
                commands[finding.fingerprint] = build_command(source, command, *object_, arguments)
    return commands


def _object(finding: Finding, section: Section) -> tuple[str, ...]:
    """The pod or node of a finding to look at; of a workload the pod that waits, of a pool the first node to go."""
    if isinstance(section, CreationSection):
        return workload_arguments(finding.object)
    kind, _, name = finding.object.partition(" ")
    if isinstance(section, PrioritiesSection):
        names = [starving.pods[0] for starving in section.starving if starving.workload == finding.object]
    elif isinstance(section, PackingSection):
        names = [emptied.node for emptied in section.emptied if emptied.pool == (name if kind == "Pool" else "")]
    else:
        names = [name] if kind == "Pod" else []
    return tuple(names[:1])
