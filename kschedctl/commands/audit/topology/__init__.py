"""Section "topology": workloads in a single domain, and spread constraints that do not hold or would strand pods."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.api.ownership import Owner
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.topology.report import BrokenDomain, PlacedWorkload, SpreadPromise, TopologySection
from kschedctl.commands.audit.topology.workload_topology import (
    MIN_PODS,
    DomainPlacement,
    TopologyDomains,
    Workloads,
    iter_constraints,
)
from kschedctl.replay.audit_rules import NOTE, WARNING, AuditRule, build_verdict
from kschedctl.replay.unknown import IN_SIMULATIONS, find_unread_dependencies, summarize_unknowns
from kschedctl.reports.findings import Finding
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import HARD
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_order import HOSTNAME, ZONE
from kschedctl.snapshot.nodes import match_required_affinity, match_tolerations
from kschedctl.text.counts import agreeing, counted

UPSTREAM_SOURCE = "pkg/scheduler/framework/plugins/podtopologyspread/filtering.go"
ONE_NODE = AuditRule(
    "audit-topology-one-node",
    WARNING,
    "All pods of a workload are on one node",
    "Losing the node takes down the whole workload, however many replicas it has.",
    "Spread them over kubernetes.io/hostname by a topologySpreadConstraint, then restart the workload",
)
ONE_ZONE = AuditRule(
    "audit-topology-one-zone",
    WARNING,
    "All pods of a workload are in one zone",
    "Losing the zone takes down the whole workload, though there are others.",
    "Spread them over topology.kubernetes.io/zone by a topologySpreadConstraint, then restart the workload",
)
ONE_DOMAIN = AuditRule(
    "audit-topology-one-domain",
    NOTE,
    "All pods of a workload are in one domain of a topology that others spread across",
    "Losing the domain takes down the whole workload, though there are others.",
    "Spread them by a topologySpreadConstraint, then restart the workload",
)
SKEWED = AuditRule(
    "audit-topology-skew",
    WARNING,
    "Pods are spread less evenly than their constraint promises",
    "The constraint is only checked when a pod is placed: scale-downs and drains can leave it violated.",
    "Restart the workload, or let a descheduler move pods",
    source=UPSTREAM_SOURCE,
)
STRANDED = AuditRule(
    "audit-topology-stranded",
    WARNING,
    "A spread constraint keeps pods from coming back after the loss of a domain",
    "With fewer domains than minDomains the global minimum counts as 0, and no domain may have more than maxSkew.",
    "Lower minDomains, or raise maxSkew",
    source=UPSTREAM_SOURCE,
)
STRANDED_WHILE_DOWN = AuditRule(
    "audit-topology-stranded-while-down",
    NOTE,
    "A spread constraint keeps pods from coming back while the nodes of a domain are down",
    "As long as its nodes are there a domain counts, with 0 pods, and no other may have more than maxSkew.",
    "nodeTaintsPolicy: Honor in the constraint leaves out nodes that are down",
    source=UPSTREAM_SOURCE,
)
RULES = (ONE_NODE, ONE_ZONE, ONE_DOMAIN, SKEWED, STRANDED, STRANDED_WHILE_DOWN)


class TopologyScope(NamedTuple):
    """The topology keys and workloads to examine."""

    keys: Sequence[str] = ()
    """Topology keys besides host name, zone and those of constraints."""
    workloads: frozenset[Owner] = frozenset()
    """The workloads to examine, empty for all."""


EVERYTHING = TopologyScope()
SingleDomainWorkload = tuple[int, DomainPlacement]
"""The number of a workload, and the placement by which all its pods are in one domain."""
WorkloadConstraint = tuple[int, SpreadPromise]
"""The number of a workload, and one of its spread constraints."""


def build_topology_section(audited: AuditedCluster, scope: TopologyScope = EVERYTHING) -> TopologySection:
    """Build the section about the workloads with at least two pods on nodes."""
    view = audited.scheduler.view
    workloads = Workloads.from_view(view)
    placements = [
        DomainPlacement.from_workloads(TopologyDomains.from_view(key, view), workloads)
        for key in _list_topology_keys(view, scope)
    ]
    selected = [n for n, owner in enumerate(workloads.owners) if not scope.workloads or owner in scope.workloads]
    constraints = [promise for promise in iter_constraints(audited.scheduler, workloads) if promise[0] in set(selected)]
    single_domain = [
        placement for placement in _find_single_domain_workloads(placements, workloads) if placement[0] in set(selected)
    ]
    findings = [
        *(
            _build_single_domain_finding(placement, placements, constraints, workloads, view)
            for placement in single_domain
        ),
        *(finding for numbered in constraints for finding in _iter_constraint_findings(*numbered, workloads)),
        *_iter_down_domain_findings(constraints, workloads),
    ]
    shown_workloads = selected if scope.workloads else [number for number, _ in single_domain]
    return TopologySection(
        title="Topology: what takes down which workload",
        headline=_build_headline(len(selected), len(constraints), findings),
        keys=tuple(placement.domains.key for placement in placements),
        workloads=len(selected),
        constraints=len(constraints),
        placed=tuple(_build_placed_workload(number, workloads, placements) for number in shown_workloads),
        promises=tuple(
            promise
            for _, promise in constraints
            if scope.workloads or not promise.holds or _find_worst_loss(promise).stranded
        ),
        **build_verdict(RULES, findings, summarize_unknowns(find_unread_dependencies(audited.cluster), IN_SIMULATIONS)),
    )


def _list_topology_keys(view: Fork, scope: TopologyScope) -> list[str]:
    """Return host name, zone, the keys of constraints that nodes have, and the requested keys."""
    specs = (info.spec for info in view.pods.infos)
    constraint_keys = sorted(
        {constraint.topology_key for spec in specs for constraint in spec.topology_spread_constraints}
    )
    used_keys = [key for key in (ZONE, *constraint_keys) if key != HOSTNAME and view.nodes.label(key).values]
    return list(dict.fromkeys((HOSTNAME, *used_keys, *scope.keys)))


def _find_single_domain_workloads(
    placements: Sequence[DomainPlacement], workloads: Workloads
) -> list[SingleDomainWorkload]:
    """Return the workloads whose pods share a domain although there are others, each with the first such placement."""
    placement_by_workload: dict[int, DomainPlacement] = {}
    for placement in placements:
        if placement.size > 1:
            for number in np.flatnonzero(placement.find_single_domain(workloads)).tolist():
                placement_by_workload.setdefault(number, placement)
    return sorted(placement_by_workload.items(), key=lambda item: item[0])


def _build_placed_workload(number: int, workloads: Workloads, placements: Sequence[DomainPlacement]) -> PlacedWorkload:
    """Build the report about a workload's distribution by each topology key."""
    pods = int(workloads.pods[number])
    by_key = tuple(placement.build_report(number, pods) for placement in placements)
    return PlacedWorkload(str(workloads.owners[number]), pods, by_key)


def _build_single_domain_finding(
    single_domain: SingleDomainWorkload,
    placements: Sequence[DomainPlacement],
    constraints: Sequence[WorkloadConstraint],
    workloads: Workloads,
    view: Fork,
) -> Finding:
    """Build the finding about a workload in one domain. It says how to spread the pods or why that is impossible."""
    number, placement = single_domain
    info = workloads.infos_by_workload[number][0]
    other_domains = _count_reachable_domains(info, placement, view) - 1
    if not other_domains:
        return _build_only_domain_finding(
            number, _choose_widest_placement(single_domain, placements, workloads, view), constraints, workloads, view
        )
    rule, domain_word = _find_domain_rule(placement.domains.key)
    owner = workloads.owners[number]
    domain = placement.build_report(number, int(workloads.pods[number])).most
    other_domains_text = f"{counted(other_domains, 'other')} would take them by taints and node selection"
    message = f"all {workloads.pods[number]:,} pods are in {domain_word} {domain}; {other_domains_text}"
    return rule.build_finding(str(owner), message, namespace=owner.namespace)


def _find_domain_rule(key: str) -> tuple[AuditRule, str]:
    """Return the rule about pods in one domain of the topology key, and the word for the domain."""
    return {HOSTNAME: (ONE_NODE, "node"), ZONE: (ONE_ZONE, "zone")}.get(key, (ONE_DOMAIN, key))


def _choose_widest_placement(
    single_domain: SingleDomainWorkload, placements: Sequence[DomainPlacement], workloads: Workloads, view: Fork
) -> DomainPlacement:
    """Return the placement by zone if the workload has no other zone either, otherwise its own placement."""
    number, placement = single_domain
    for candidate in placements:
        if candidate.domains.key == ZONE and candidate.size > 1 and candidate.find_single_domain(workloads)[number]:
            return (
                candidate
                if _count_reachable_domains(workloads.infos_by_workload[number][0], candidate, view) == 1
                else placement
            )
    return placement


def _build_only_domain_finding(
    number: int, placement: DomainPlacement, constraints: Sequence[WorkloadConstraint], workloads: Workloads, view: Fork
) -> Finding:
    """Build the finding about a workload whose pods share the only domain that they may use.

    The finding is a warning if a DoNotSchedule constraint uses the key: with one domain it cannot spread the pods, and
    without minDomains it has no effect at all. Otherwise the finding is a note.
    """
    key = placement.domains.key
    owner = workloads.owners[number]
    pods = int(workloads.pods[number])
    rule, domain_word = _find_domain_rule(key)
    hard_constraint = next(
        (p for n, p in constraints if n == number and p.key == key and p.when_unsatisfiable == HARD), None
    )
    domain = placement.build_report(number, pods).most
    only_noun = "domain" if rule is ONE_DOMAIN else "one"
    domain_text = f"{domain_word} {domain}, the only {only_noun} that taints and node selection leave"
    first_info = workloads.infos_by_workload[number][0]
    node_selector = view.pods.infos[first_info].spec.node_selector
    selected = ",".join(f"{name}={value}" for name, value in node_selector.items() if name != key)
    new_nodes = "a second node" if key == HOSTNAME else f"nodes in a second {domain_word}"
    condition = f"with {selected}" if selected else "that they may use"
    fix = f"Add {new_nodes} {condition}{_format_constraint_change(key, hard_constraint, pods)}"
    message = f"all {pods:,} pods are in {domain_text}: losing it is an outage"
    return rule.build_finding(
        str(owner), message, fix, namespace=owner.namespace, severity=WARNING if hard_constraint else NOTE
    )


def _format_constraint_change(key: str, constraint: SpreadPromise | None, pods: int) -> str:
    """Return how the workload's DoNotSchedule constraint has to change to need two domains, as text.

    The workload may have no such constraint. With minDomains 2 the minimum counts as 0 in one domain, which then takes
    maxSkew pods.
    """
    if constraint is None:
        return f", and spread over {key} by DoNotSchedule with maxSkew: 1 and minDomains: 2"
    skew = ["maxSkew: 1"] * (constraint.max_skew >= pods)
    domains = ["minDomains: 2"] * (constraint.min_domains < MIN_PODS)
    change = " and ".join((*skew, *domains))
    return f", and set {change} in the constraint" if change else ""


def _count_reachable_domains(info_number: int, placement: DomainPlacement, view: Fork) -> int:
    """Return in how many domains pods with a PodInfo may run by node selection and taints, at least 1."""
    spec = view.pods.infos[info_number].spec
    nodes = match_required_affinity(view.nodes, compile_required_node_affinity(spec)) & match_tolerations(
        view.nodes, spec.tolerations
    )
    codes = placement.domains.codes[nodes & ~view.nodes.unschedulable]
    return max(len(np.unique(codes[codes >= 0])), 1)


def _iter_constraint_findings(number: int, constraint: SpreadPromise, workloads: Workloads) -> Iterator[Finding]:
    """Yield findings that a constraint does not hold, and that it would strand pods after the loss of a domain."""
    owner, constraint_name = workloads.owners[number], f"{constraint.when_unsatisfiable} over {constraint.key}"
    if not constraint.holds:
        counts = f"{constraint.most} has {counted(constraint.most_pods, 'pod')}"
        counts += f", {constraint.least} {constraint.least_pods:,}"
        fix = _format_restart_command(owner)
        if constraint.min_domains_set and constraint.domains < constraint.min_domains:
            counts += f", and {counted(constraint.domains, 'domain')}, fewer than minDomains {constraint.min_domains}"
            room = counted(constraint.max_skew, "pod")
            fix = f"Add nodes in another domain first: until then a domain takes {room} after a restart"
        elif constraint.least_why:
            counts += f"; {constraint.least_why}"
            fix = f"Set {constraint.least_policy}: Honor in the constraint: until then a restart leaves pods Pending"
        message = f"maxSkew {constraint.max_skew} ({constraint_name}) is {constraint.skew} now: {counts}"
        severity = SKEWED.severity if constraint.when_unsatisfiable == HARD else NOTE
        details = {"namespace": owner.namespace, "path": constraint.key, "severity": severity}
        yield SKEWED.build_finding(str(owner), message, fix, **details)
    worst, remaining = _find_worst_loss(constraint), constraint.domains - 1
    if worst.stranded and remaining:
        loss_text = f"if {worst.domain} is lost, {worst.stranded:,} of {counted(worst.lost, 'pod')} cannot come back"
        remaining_text = f"{counted(remaining, 'domain')}, fewer than minDomains {constraint.min_domains}"
        message = f"{loss_text}: the minimum counts as 0 with {remaining_text} ({constraint_name})"
        fix = f"Lower minDomains to {remaining}, or raise maxSkew"
        yield STRANDED.build_finding(str(owner), message, fix, namespace=owner.namespace, path=constraint.key)


def _iter_down_domain_findings(constraints: Sequence[WorkloadConstraint], workloads: Workloads) -> Iterator[Finding]:
    """Yield one finding about the workload with the most pods stranded while a domain's nodes are down.

    It represents all others, since every constraint without nodeTaintsPolicy: Honor has this effect.
    """
    worst_cases = [(_find_worst_loss(constraint), number, constraint) for number, constraint in constraints]
    worst_cases = [
        candidate for candidate in worst_cases if candidate[0].stranded_while_down and not candidate[0].stranded
    ]
    if not worst_cases:
        return
    worst, number, constraint = max(worst_cases, key=lambda candidate: candidate[0].stranded_while_down)
    owner = workloads.owners[number]
    loss_text = (
        f"while the nodes of {worst.domain} are down {worst.stranded_while_down:,} of "
        f"{counted(worst.lost, 'pod')} {agreeing(worst.stranded_while_down, 'stays', 'stay')} away"
    )
    others_text = (
        f"; {counted(len(worst_cases) - 1, 'more constraint')} {agreeing(len(worst_cases) - 1, 'does', 'do')} so"
        if len(worst_cases) > 1
        else ""
    )
    message = f"{loss_text}: maxSkew {constraint.max_skew} over {constraint.key} counts its 0 pods{others_text}"
    yield STRANDED_WHILE_DOWN.build_finding(str(owner), message, namespace=owner.namespace, path=constraint.key)


def _find_worst_loss(constraint: SpreadPromise) -> BrokenDomain:
    """Return the loss of a domain that strands the most pods."""
    no_loss = BrokenDomain(domain="", lost=0, skew=0)
    return max(constraint.losses, key=lambda loss: (loss.stranded, loss.stranded_while_down), default=no_loss)


def _format_restart_command(owner: Owner) -> str:
    """Return the command that restarts a Deployment or StatefulSet, empty for other workloads."""
    if owner.kind not in ("Deployment", "StatefulSet"):
        return ""
    return f"kubectl rollout restart {owner.kind.lower()}/{shlex.quote(owner.name)} -n {shlex.quote(owner.namespace)}"


def _build_headline(workloads: int, constraints: int, findings: Sequence[Finding]) -> str:
    """Return how many workloads are in a single domain and how many constraints do not hold, as text."""

    def count_findings(*rules: AuditRule) -> int:
        """Return the number of findings of these rules."""
        return sum(finding.rule in [rule.id for rule in rules] for finding in findings)

    single_domain = count_findings(ONE_NODE, ONE_ZONE, ONE_DOMAIN)
    if not workloads:
        return "No workload has two pods on nodes"
    workloads_text = f"{counted(workloads, 'workload')}, {single_domain or 'none'} on one node or in one zone alone"
    if not constraints:
        return workloads_text
    skewed = [finding for finding in findings if finding.rule == SKEWED.id]
    return f"{workloads_text}; {_format_constraint_counts(constraints, skewed)}"


def _format_constraint_counts(constraints: int, skewed: Sequence[Finding]) -> str:
    """Return how many constraints are broken (DoNotSchedule) or uneven (ScheduleAnyway), as text."""
    broken = sum(finding.severity != NOTE for finding in skewed)
    constraints_text = counted(constraints, "spread constraint")
    counts = ((broken, "broken"), (len(skewed) - broken, "uneven (ScheduleAnyway)"))
    message = ", ".join(f"{number:,} {words}" for number, words in counts if number)
    number, _, broken_text = message.partition(" ")
    return f"{number} of {constraints_text} {broken_text}" if message else f"{constraints_text} kept"
