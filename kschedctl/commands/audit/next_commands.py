"""The commands to run next for the findings of an audit."""

from __future__ import annotations

from collections.abc import Mapping

from kschedctl.cli.options import Source
from kschedctl.cli.references import build_workload_arguments
from kschedctl.commands.audit import REQUIRED_INPUTS
from kschedctl.commands.audit.packing.report import PackingSection
from kschedctl.commands.audit.placed.report import PlacedSection
from kschedctl.commands.audit.priorities.report import PrioritiesSection
from kschedctl.commands.audit.report import CreationSection, DrainsSection
from kschedctl.render.page import Commands
from kschedctl.reports.findings import Finding
from kschedctl.reports.section import Section, order_findings

COMMAND_BY_RULE: Mapping[str, tuple[str, ...]] = {
    "audit-creation-refused": ("explain",),
    "audit-pending-stuck": ("explain",),
    "audit-pending-error": ("explain",),
    "audit-pending-unserved": ("explain",),
    "audit-pending-gang": ("explain",),
    "audit-pending-unschedulable": ("remedies",),
    "audit-pending-gated": ("wakes",),
    "audit-priorities-starving": ("explain",),
    "audit-priorities-overtaken": ("remedies",),
    "audit-queues-waiting": ("queues",),
    "audit-queues-inactive": ("queues",),
    "audit-queues-starving": ("queues",),
    "audit-queues-unplaced": ("explain", "-A"),
    "audit-drains-unready-node": ("drain",),
    "audit-drains-never": ("drain",),
    "audit-drains-now": ("drain",),
    "audit-drains-overlap": ("drain",),
    "audit-packing-spare-nodes": ("drain",),
    "audit-placed-overcommitted": ("drain",),
    "audit-placed-ports": ("drain",),
    "audit-placed-anti-affinity": ("drain",),
    "audit-placed-taint": ("drain",),
    "audit-placed-not-evicted": ("drain",),
    "audit-sampling-loses": ("sampling",),
    "audit-sampling-wastes": ("sampling",),
    "audit-latency-errors": ("explain", "-A"),
    "audit-latency-refused": ("explain", "-A"),
    "audit-latency-unschedulable-queue": ("wakes", "-A"),
    "audit-latency-backoff-queue": ("wakes", "-A"),
    "audit-latency-active-queue": ("sampling",),
    "audit-latency-vain-preemption": ("priorities",),
}
"""The command that explains the findings of a rule or tries out a remedy, by the rule's name.

A command without further arguments is given the object of the finding, unless it is a cluster-wide command.
"""


CLUSTER_WIDE_COMMANDS = frozenset(("sampling", "priorities", "queues"))
"""The commands that take no object as an argument."""


def build_next_commands(source: Source, *sections: Section) -> Commands:
    """Return the commands to run next, by a finding's fingerprint or a section's name.

    Each finding for which there is a suitable command has an entry, in the order in which short forms list findings.
    Short forms show only the first entry, below the first finding. If no command suits that finding, the first entry
    shows its section. The command that tries all nodes of the section "packing" comes last.
    """
    section_by_finding = {finding.fingerprint: section for section in sections for finding in section.findings}
    findings = order_findings(sections)
    commands: dict[str, tuple[str, ...]] = {}
    for finding in findings:
        if finding.rule not in COMMAND_BY_RULE:
            continue
        command, *arguments = COMMAND_BY_RULE[finding.rule]
        if arguments or command in CLUSTER_WIDE_COMMANDS:
            commands[finding.fingerprint] = source.build_command(command, *arguments)
        elif object_arguments := _find_object_arguments(finding, section_by_finding[finding.fingerprint]):
            commands[finding.fingerprint] = source.build_command(command, *object_arguments)
    for section in sections:
        if isinstance(section, PackingSection) and section.tried < section.candidates:
            commands[section.name] = source.build_command("packing", "--nodes", "0")

    # Without a command for the first finding, put a command for its section first. The section may have one already.
    if findings and findings[0].fingerprint not in commands:
        first_section = section_by_finding[findings[0].fingerprint].name
        if first_section not in REQUIRED_INPUTS:  # otherwise the command would lack the options for the input
            show_section = source.build_command("audit", "--section", first_section)
            commands = {first_section: commands.get(first_section, show_section)} | commands
    return commands


def _find_object_arguments(finding: Finding, section: Section) -> tuple[str, ...]:
    """Return the arguments that name an object of the finding for its command, or () if no object suits the command.

    The object depends on the section:

    - creation: the workload
    - priorities: the oldest pod of the starving workload
    - packing: the first removable node of the pool
    - drains: the node, or the first node that cannot be drained because of the PDB
    - placed: the node, or the node of the first misplaced pod
    - other sections: the pod
    """
    kind, _, name = finding.object.partition(" ")
    match section:
        case CreationSection():
            return build_workload_arguments(finding.object)
        case PrioritiesSection():
            names = _list_oldest_starving_pods(section, workload=finding.object)
        case PackingSection():
            names = _list_removable_nodes(section, pool=name if kind == "Pool" else "")
        case DrainsSection():
            names = [name] if kind == "Node" else _list_blocked_nodes(section, budget=name)
        case PlacedSection():
            names = [name] if kind == "Node" else _list_example_nodes_of_misplaced_pods(section, finding)
        case _:
            names = [name] if kind == "Pod" else []
    return tuple(names[:1])


def _list_oldest_starving_pods(section: PrioritiesSection, workload: str) -> list[str]:
    """Return the oldest pod of each entry about the starving workload."""
    return [starving.pods[0] for starving in section.starving if starving.workload == workload]


def _list_removable_nodes(section: PackingSection, pool: str) -> list[str]:
    """Return the names of the pool's removable nodes, empty ones first. "" stands for the nodes without a pool."""
    empty_nodes = [node for savings in section.savings if savings.pool == pool for node in savings.empty_nodes]
    return empty_nodes + [emptied.node for emptied in section.emptied if emptied.pool == pool]


def _list_blocked_nodes(section: DrainsSection, budget: str) -> list[str]:
    """Return the first node of each entry about nodes that cannot be drained because of the PDB."""
    return [drains.nodes[0] for drains in section.blocked if drains.budgets[0] == budget]


def _list_example_nodes_of_misplaced_pods(section: PlacedSection, finding: Finding) -> list[str]:
    """Return the first node of each entry about the workload's pods that are misplaced for the finding's reason."""
    reason = finding.path  # findings about misplaced pods have their reason as the path
    return [
        misplaced.example_nodes[0]
        for misplaced in section.misplaced
        if misplaced.workload == finding.object and misplaced.reason == reason
    ]
