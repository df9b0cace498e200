"""What to try next, as command lines that can be typed as they stand: none reads what standard input gave before."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from kschedctl.api.json_values import JsonObject
from kschedctl.cli.options import Source
from kschedctl.cli.program import command_line
from kschedctl.cli.run_options import RunOptions
from kschedctl.cli.source import Asked
from kschedctl.cluster import Cluster
from kschedctl.render.page import Commands
from kschedctl.reports.audit.creation import CreationSection
from kschedctl.reports.audit.packing import PackingSection
from kschedctl.reports.audit.priorities import PrioritiesSection
from kschedctl.reports.audit.section import Section
from kschedctl.reports.explanation import Explanation
from kschedctl.reports.findings import Finding
from kschedctl.reports.pending import PendingPods

STDIN = "-"


def again(
    source: Source, command: str, *arguments: str | Iterable[str], options: Iterable[str] = ()
) -> tuple[str, ...]:
    """The command about the same cluster; none where a part of it came from standard input."""
    if STDIN in (*source.filename, *source.snapshot, source.config):
        return ()
    return (command_line(command, *arguments, source.arguments(), options),)


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
            commands[section.name] = again(source, "packing", "--nodes", "0")
        for finding in section.findings:
            command, *arguments = HELPING.get(finding.rule, ("",))
            object_ = () if arguments or command in OF_ALL else _object(finding, section)
            if command and (arguments or object_ or command in OF_ALL):
                commands[finding.fingerprint] = again(source, command, *object_, arguments)
    return commands


def _object(finding: Finding, section: Section) -> tuple[str, ...]:
    """The pod or node of a finding to look at; of a workload the pod that waits, of a pool the first node to go."""
    if isinstance(section, CreationSection):
        return _workload(finding.object)
    kind, _, name = finding.object.partition(" ")
    if isinstance(section, PrioritiesSection):
        names = [starving.pods[0] for starving in section.starving if starving.workload == finding.object]
    elif isinstance(section, PackingSection):
        names = [emptied.node for emptied in section.emptied if emptied.pool == (name if kind == "Pool" else "")]
    else:
        names = [name] if kind == "Pod" else []
    return tuple(names[:1])


class WithScenario(Protocol):
    """A report that may propose a scenario for ``whatif``."""

    @property
    def remedy(self) -> JsonObject | None: ...


def after_remedy(run: RunOptions, more: Iterable[str] = ()) -> Callable[[Asked, WithScenario], tuple[str, ...]]:
    """Return a function that puts the scenario of a report into a ``whatif`` command, with ``more`` options."""
    start = [] if run.start_index is None else ["--start-index", str(run.start_index)]
    options = [*(["--seed", str(run.seed)] if run.seed else []), *["--sampling"] * run.sampling, *start, *more]

    def following(asked: Asked, report: WithScenario) -> tuple[str, ...]:
        if report.remedy is None:
            return ()
        return again(asked.source, "whatif", json.dumps(report.remedy, ensure_ascii=False), options)

    return following


def about_explained(
    source: Source, cluster: Cluster, explained: Iterable[Explanation], options: Iterable[str] = ()
) -> Commands:
    """What tells more of each of these that the cluster has."""
    options = list(options)
    there = (report for report in explained if cluster.pod(*report.pod.split("/", 1)) is not None)
    return {report.pod: again(source, telling_more(report), report.pod, options) for report in there}


def telling_more(report: Explanation) -> str:
    """The command for its fixes; for a pod that is held back and that no change frees, the one for what does."""
    return "wakes" if report.verdict == "Gated" and not report.remedies else "remedies"


def about_pending(source: Source, report: PendingPods, options: Iterable[str] = ()) -> Commands:
    """To look at the first pod of each group, and at workloads that lack pods; where none is pending, elsewhere."""
    options = list(options)
    lacking = {
        not_created.workload: again(source, "explain", *_workload(not_created.workload), options=options)
        for not_created in report.not_created
    }
    groups = {group.pods[0]: again(source, "explain", group.pods[0], options) for group in report.groups}
    if groups:
        return {"": next(iter(groups.values())), **groups, **lacking}
    return {"": again(source, "explain", "-A") if report.elsewhere else (), **lacking}


def _workload(title: str) -> tuple[str, ...]:
    """A workload as ``explain`` takes it: ``Deployment shop/web``."""
    kind, namespace, name = title.replace("/", " ").split(" ")
    return (f"{kind.lower()}/{name}", "-n", namespace)
