"""Placed against the rules: running pods that would not be put where they are, and what double booking leaves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Rows
from kschedctl.api.ownership import owner_of
from kschedctl.api.resource_names import alike
from kschedctl.reports.audit.placed import (
    MisplacedPods,
    OrphanedPods,
    OvercommittedNode,
    PlacedSection,
    RefusedPods,
    SharedDevice,
)
from kschedctl.reports.findings import Finding
from kschedctl.reports.unknown import UnknownKind
from kschedctl.snapshot.fork import Fork
from kschedctl.studies.ages import age
from kschedctl.studies.audit.ground import Ground
from kschedctl.studies.audit.placed_rules import (
    OF_REFUSALS,
    ORPHANED,
    OVERCOMMITTED,
    REFUSED,
    RULES,
    SHARED,
    rule_of,
)
from kschedctl.studies.audit.rule import NOTE, WARNING, judged
from kschedctl.studies.running_pods.left_over import SHOWN, orphaned, refused, shared_devices
from kschedctl.studies.running_pods.overcommitted import overcommitted
from kschedctl.studies.running_pods.replayed import Misplaced, replayed

ALL = ("Node", "Pod")


def placed_section(ground: Ground) -> PlacedSection:
    """All bound pods."""
    view, cluster = ground.scheduler.view, ground.cluster
    found = replayed(ground.scheduler, ground.progress)
    misplaced = tuple(each for one in found.misplaced for each in _by_workload(one, view))
    over, turned_away = tuple(overcommitted(view)), tuple(refused(cluster))
    orphans, devices = tuple(orphaned(cluster)), tuple(shared_devices(cluster))
    findings = [
        *(_of_overcommitted(each) for each in over),
        *(_of_shared(each) for each in devices),
        *(_of_orphaned(each) for each in orphans),
        *(_of_refused(each, ground) for each in turned_away),
        *(_of_misplaced(each) for each in misplaced),
    ]
    section = PlacedSection(
        title="Placed against the rules",
        headline="",
        judged=found.judged,
        others=found.others,
        overcommitted=over,
        misplaced=misplaced,
        refused=turned_away,
        orphaned=orphans,
        shared_devices=devices,
        **judged(RULES, findings, [*_not_read(ground), *found.unknown]),
    )
    return replace(section, headline=_headline(section))


def _not_read(ground: Ground) -> Iterator[UnknownKind]:
    """What all claims lean on, and device claims where pods have some."""
    claims = any(info.spec.resource_claims for info in ground.scheduler.view.pods.infos)
    yield from ground.not_read(*ALL, *["ResourceClaim"] * claims)


def _by_workload(found: Misplaced, view: Fork) -> Iterator[MisplacedPods]:
    """Those of which the same is said, by what they belong to: the workload with the most of them first."""
    pods = view.pods.objects
    templates = pods.table.template[pods.rows[found.positions]]
    workloads: dict[str, list[Rows]] = {}
    for number in np.unique(templates).tolist():
        positions = found.positions[templates == number]
        template = pods.table.templates[number]
        bare = not any(owner.controller for owner in template.metadata.owner_references)
        for some in [positions[i : i + 1] for i in range(len(positions))] if bare else [positions]:
            workloads.setdefault(str(owner_of(pods[int(some[0])])), []).append(some)
    for workload, parts in sorted(workloads.items(), key=lambda item: -sum(map(len, item[1]))):
        mine = np.concatenate(parts)
        shown = [pods[position] for position in mine[:SHOWN].tolist()]
        yield MisplacedPods(
            refuses=found.refuses,
            reason=found.reason,
            workload=workload,
            pods=len(mine),
            examples=tuple(f"{pod.metadata.name} on {pod.spec.node_name}" for pod in shown),
        )


def _of_misplaced(found: MisplacedPods) -> Finding:
    rule = rule_of(found.refuses, found.reason)
    more = f" and {found.pods - len(found.examples):,} more" if found.pods > len(found.examples) else ""
    told = f"{_pods(found.pods)}: {', '.join(found.examples)}{more}: {found.reason}"
    namespace = found.workload.partition(" ")[2].partition("/")[0]
    return rule.finding(found.workload, told, namespace=namespace, path=found.reason)


def _of_overcommitted(found: OvercommittedNode) -> Finding:
    requested, allocatable = alike(found.resource, found.requested, found.allocatable)
    told = f"{_pods(found.pods)} request {requested} {found.resource} of {allocatable}"
    beyond = [each for each in found.arrivals if each.beyond]
    if beyond and beyond[0].at:
        gap = f", {found.gap:,.3g} s after the pod before it" if found.gap is not None else ""
        told += f"; {beyond[0].pod} was too much, which came at {beyond[0].at}{gap}"
    fix = OVERCOMMITTED.fix
    if not found.allocatable:
        fix = f"See why the node offers no {found.resource} any more: its device plugin may have gone"
    static = bool(beyond) and all(each.static for each in beyond)
    severity = WARNING if static else OVERCOMMITTED.severity
    return OVERCOMMITTED.finding(f"Node {found.node}", told, fix, path=found.resource, severity=severity)


def _of_shared(found: SharedDevice) -> Finding:
    told = f"allocated to {len(found.claims):,} claims: {', '.join(found.claims)}"
    return SHARED.finding(f"Device {found.device}", told)


def _of_orphaned(found: OrphanedPods) -> Finding:
    leaving = f", {found.leaving:,} of them being deleted" if found.leaving else ""
    more = " and others" if found.pods > len(found.examples) else ""
    told = f"{_pods(found.pods)} bound to it{leaving}, and it is not there: {', '.join(found.examples)}{more}"
    severity = NOTE if found.leaving == found.pods else ORPHANED.severity
    return ORPHANED.finding(f"Node {found.node}", told, severity=severity)


def _of_refused(found: RefusedPods, ground: Ground) -> Finding:
    parts = []
    if found.pods:
        ago = age(found.last, ground.now)
        last = f", the last {ago} ago" if ago else ""
        parts.append(f"{_pods(found.pods)} failed{last}, on {', '.join(found.nodes)}")
    if found.gone:
        parts.append(f"{_pods(found.gone)}{' more' * bool(parts)} of which only events are left")
    if found.message:
        parts.append(found.message)
    why, severity = OF_REFUSALS.get(found.reason, ("", REFUSED.severity))
    return REFUSED.finding(f"Reason {found.reason}", "; ".join(parts), why, severity=severity)


def _headline(section: PlacedSection) -> str:
    """The gravest first; what has only drifted comes last."""
    notes = [each for each in section.misplaced if rule_of(each.refuses, each.reason).severity == NOTE]
    drifted = sum(each.pods for each in notes)
    nodes = len({each.node for each in section.overcommitted})
    counts = (
        (nodes, f"node{'s' * (nodes != 1)} overcommitted"),
        (len(section.shared_devices), "devices given out twice"),
        (sum(each.pods for each in section.misplaced) - drifted, "placed against a rule"),
        (sum(each.pods + each.gone for each in section.refused), "refused by kubelets"),
        (sum(each.pods for each in section.orphaned), "on nodes that are gone"),
        (drifted, "where they would not be put now"),
    )
    told = ", ".join(f"{number:,} {words}" for number, words in counts if number)
    if told or section.judged:
        return told or f"all {_pods(section.judged)} judged are where the rules would put them"
    return "no pods of this scheduler are on nodes" if section.others else "no pods are on nodes"


def _pods(number: int) -> str:
    return f"{number:,} pod{'s' * (number != 1)}"
