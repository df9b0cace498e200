"""Section "topology": workloads in a single domain, and spread constraints that do not hold or would strand pods."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.api.ownership import TEMPLATE_HASH, Owner
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.topology.report import BrokenDomain, PlacedWorkload, SpreadPromise, TopologySection
from kschedctl.commands.audit.topology.workload_topology import (
    DomainPlacement,
    TopologyDomains,
    WorkloadConstraint,
    Workloads,
    iter_constraint_reports,
)
from kschedctl.replay.audit_rules import NOTE, WARNING, AuditRule, build_verdict
from kschedctl.replay.unknown import IN_SIMULATIONS, find_unread_dependencies, summarize_unknowns
from kschedctl.reports.findings import Finding
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import HARD, SOFT
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import HOSTNAME, ZONE, match_tolerations
from kschedctl.text.counts import agreeing, counted, join_first_few

UPSTREAM_SOURCE = "pkg/scheduler/framework/plugins/podtopologyspread/filtering.go"
ONE_NODE = AuditRule(
    "audit-topology-one-node",
    WARNING,
    "All pods of a workload are on one node",
    "Losing the node takes down the whole workload, however many replicas it has.",
    "Spread them over kubernetes.io/hostname with a topologySpreadConstraint",
)
ONE_ZONE = AuditRule(
    "audit-topology-one-zone",
    WARNING,
    "All pods of a workload are in one zone",
    "Losing the zone takes down the whole workload, although there are other zones.",
    "Spread them over topology.kubernetes.io/zone with a topologySpreadConstraint",
)
ONE_DOMAIN = AuditRule(
    "audit-topology-one-domain",
    NOTE,
    "All pods of a workload are in one domain of a topology that other workloads spread across",
    "Losing the domain takes down the whole workload, although there are other domains.",
    "Spread them with a topologySpreadConstraint",
)
SKEWED = AuditRule(
    "audit-topology-skew",
    WARNING,
    "Pods are spread less evenly than their constraint demands",
    "The constraint is only checked when a pod is placed: scale-downs and drains can leave it violated.",
    "Let a descheduler move pods (RemovePodsViolatingTopologySpreadConstraint)",
    source=UPSTREAM_SOURCE,
)
STRANDED = AuditRule(
    "audit-topology-stranded",
    WARNING,
    "A spread constraint keeps pods from coming back after the loss of a domain",
    "If there are fewer domains than minDomains, the global minimum counts as 0, and no domain may have more than "
    "maxSkew pods.",
    "Lower minDomains, or raise maxSkew",
    source=UPSTREAM_SOURCE,
)
STRANDED_WHILE_DOWN = AuditRule(
    "audit-topology-stranded-while-down",
    NOTE,
    "A spread constraint keeps pods from coming back while the nodes of a domain are down",
    "While its nodes exist, the domain counts with 0 pods, so no other domain may have more than maxSkew pods.",
    "Set nodeTaintsPolicy: Honor in the constraint, so that nodes that are down do not count",
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


class SingleDomainWorkload(NamedTuple):
    """A workload whose pods are all in one domain."""

    workload: int
    """The number of the workload."""
    placement: DomainPlacement
    """The placement by the topology key of this domain."""


def build_topology_section(audited: AuditedCluster, scope: TopologyScope = EVERYTHING) -> TopologySection:
    """Build the section about the workloads with at least two pods on nodes.

    If `scope` names workloads, all of these and their constraints are shown. Otherwise only workloads in a single
    domain and constraints with problems are shown.
    """
    view = audited.scheduler.view
    workloads = Workloads.from_view(view)
    placements = [
        DomainPlacement.from_workloads(TopologyDomains.from_view(key, view), workloads)
        for key in _list_topology_keys(view, scope)
    ]

    def is_selected(workload: int) -> bool:
        """Return whether the scope includes the workload with this number."""
        return not scope.workloads or workloads.owners[workload] in scope.workloads

    selected = [number for number in range(len(workloads)) if is_selected(number)]
    all_constraints = iter_constraint_reports(audited.scheduler, workloads)
    constraints = [constraint for constraint in all_constraints if is_selected(constraint.workload)]
    all_in_single_domain = _list_single_domain_workloads(placements, workloads)
    single_domain = [entry for entry in all_in_single_domain if is_selected(entry.workload)]

    findings = [
        *(_build_single_domain_finding(entry, placements, constraints, workloads, view) for entry in single_domain),
        *(finding for constraint in constraints for finding in _iter_constraint_findings(constraint, workloads)),
    ]
    if down_domain_finding := _build_down_domain_finding(constraints, workloads):
        findings.append(down_domain_finding)

    def is_shown(constraint: SpreadPromise) -> bool:
        """Return whether the section shows the constraint: it has a problem or belongs to a named workload."""
        return bool(scope.workloads) or not constraint.holds or bool(_find_worst_loss(constraint).stranded)

    shown_workloads = selected if scope.workloads else [entry.workload for entry in single_domain]
    unknown = summarize_unknowns(find_unread_dependencies(audited.cluster), IN_SIMULATIONS)
    return TopologySection(
        title="Topology: which failures take down which workloads",
        headline=_build_headline(len(selected), len(constraints), findings),
        keys=tuple(placement.domains.key for placement in placements),
        workloads=len(selected),
        nothing_judged=not selected,
        constraints=len(constraints),
        placed=tuple(_build_placed_workload(number, workloads, placements) for number in shown_workloads),
        promises=tuple(constraint.report for constraint in constraints if is_shown(constraint.report)),
        **build_verdict(RULES, findings, unknown),
    )


def _list_topology_keys(view: Fork, scope: TopologyScope) -> list[str]:
    """Return the topology keys to report: host name, zone, the keys in spread constraints, and the requested keys.

    Zone and the keys in constraints are left out if no node has the label.
    """
    specs = (info.spec for info in view.pods.infos)
    constraint_keys = sorted(
        {constraint.topology_key for spec in specs for constraint in spec.topology_spread_constraints}
    )
    used_keys = [key for key in (ZONE, *constraint_keys) if key != HOSTNAME and view.nodes.label(key).values]
    return list(dict.fromkeys((HOSTNAME, *used_keys, *scope.keys)))


def _list_single_domain_workloads(
    placements: Sequence[DomainPlacement], workloads: Workloads
) -> list[SingleDomainWorkload]:
    """Return the workloads whose pods are all in one domain although the cluster has several.

    There is one placement for each topology key. A workload comes with the first placement in which its pods share a
    domain.
    """
    placement_by_workload: dict[int, DomainPlacement] = {}
    for placement in placements:
        if placement.size > 1:
            for number in np.flatnonzero(placement.find_single_domain_workloads(workloads)).tolist():
                placement_by_workload.setdefault(number, placement)
    return [SingleDomainWorkload(number, placement_by_workload[number]) for number in sorted(placement_by_workload)]


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
    """Build the finding about a workload whose pods are all in one domain, which may be their only possible domain."""
    number, placement = single_domain
    other_domains = _count_reachable_domains(workloads.get_main_info(number), placement, view) - 1
    if other_domains:
        return _build_avoidable_domain_finding(single_domain, other_domains, workloads)
    widest_placement = _choose_widest_placement(single_domain, placements, workloads, view)
    hard_constraint = _find_hard_constraint(number, widest_placement.domains.key, constraints)
    return _build_only_domain_finding(number, widest_placement, hard_constraint, workloads, view)


def _build_avoidable_domain_finding(
    single_domain: SingleDomainWorkload, other_domains: int, workloads: Workloads
) -> Finding:
    """Build the finding about a workload whose pods share a domain although they may also use `other_domains`."""
    number, placement = single_domain
    owner = workloads.owners[number]
    pods = int(workloads.pods[number])
    domain = placement.build_report(number, pods).most
    rule, domain_word = _find_domain_rule(placement.domains.key)
    noun = domain_word if domain_word in ("node", "zone") else "domain"
    other_domains_text = f"taints and node selection also allow {counted(other_domains, f'other {noun}')}"
    message = f"{_name_all_pods(pods)} are in {domain_word} {domain}; {other_domains_text}"
    return rule.build_finding(str(owner), message, namespace=owner.namespace)


def _name_all_pods(pods: int) -> str:
    """Return all pods of a workload of at least two pods as text, such as `all 3 pods`."""
    return "both pods" if pods == 2 else f"all {pods:,} pods"


def _find_domain_rule(key: str) -> tuple[AuditRule, str]:
    """Return the rule about pods in one domain of the topology key, and the word for the domain."""
    return {HOSTNAME: (ONE_NODE, "node"), ZONE: (ONE_ZONE, "zone")}.get(key, (ONE_DOMAIN, key))


def _choose_widest_placement(
    single_domain: SingleDomainWorkload, placements: Sequence[DomainPlacement], workloads: Workloads, view: Fork
) -> DomainPlacement:
    """Return the placement by zone if the pods share a zone and may not run in other zones, although these exist.

    Otherwise return the placement of `single_domain`.
    """
    by_zone = next((placement for placement in placements if placement.domains.key == ZONE), None)
    if by_zone is None or by_zone.size < 2:
        return single_domain.placement
    workload = single_domain.workload
    shares_zone = bool(by_zone.find_single_domain_workloads(workloads)[workload])
    can_use_others = _count_reachable_domains(workloads.get_main_info(workload), by_zone, view) > 1
    return by_zone if shares_zone and not can_use_others else single_domain.placement


def _find_hard_constraint(workload: int, key: str, constraints: Sequence[WorkloadConstraint]) -> SpreadPromise | None:
    """Return the first DoNotSchedule constraint of a workload with a topology key, or None if there is none."""
    for constraint in constraints:
        report = constraint.report
        if constraint.workload == workload and report.key == key and report.when_unsatisfiable == HARD:
            return report
    return None


def _build_only_domain_finding(
    number: int,
    placement: DomainPlacement,
    hard_constraint: SpreadPromise | None,
    workloads: Workloads,
    view: Fork,
) -> Finding:
    """Build the finding about a workload whose pods all share the only domain that they may use.

    The finding is a note, or a warning if the workload has a DoNotSchedule constraint with the topology key. Such a
    constraint cannot spread pods over a single domain, and without minDomains it has no effect. `number` is the
    workload's number.
    """
    key = placement.domains.key
    owner = workloads.owners[number]
    pods = int(workloads.pods[number])
    rule, domain_word = _find_domain_rule(key)

    domain = placement.build_report(number, pods).most
    only_noun = "domain" if rule is ONE_DOMAIN else "one"
    domain_text = f"{domain_word} {domain}, the only {only_noun} that taints and node selection allow"
    message = f"{_name_all_pods(pods)} are in {domain_text}: losing it is an outage"

    main_info = workloads.get_main_info(number)
    node_selector = view.pods.infos[main_info].spec.node_selector
    selected_labels = ",".join(f"{name}={value}" for name, value in node_selector.items() if name != key)
    new_nodes = "a second node" if key == HOSTNAME else f"nodes in a second {domain_word}"
    condition = f"with {selected_labels}" if selected_labels else "that they may use"
    fix = f"Add {new_nodes} {condition}{_format_constraint_change(key, hard_constraint, pods)}"
    return rule.build_finding(
        str(owner), message, fix, namespace=owner.namespace, severity=WARNING if hard_constraint else NOTE
    )


def _format_constraint_change(key: str, constraint: SpreadPromise | None, pods: int) -> str:
    """Return the end of a sentence: how to make a DoNotSchedule constraint with the topology key need two domains.

    Without a constraint, the text says which one to add. Return "" if the constraint is already sufficient. With
    minDomains 2, a single domain takes only maxSkew pods, since the minimum then counts as 0.
    """
    if constraint is None:
        return f", and add a DoNotSchedule spread constraint over {key} with maxSkew: 1 and minDomains: 2"
    changes = []
    if constraint.max_skew >= pods:
        changes.append("maxSkew: 1")
    if constraint.min_domains < 2:
        changes.append("minDomains: 2")
    return f", and set {' and '.join(changes)} in the constraint" if changes else ""


def _count_reachable_domains(info_number: int, placement: DomainPlacement, view: Fork) -> int:
    """Count the domains in which node selection, taints and cordons let the pods of a PodInfo run.

    The result is at least 1.
    """
    spec = view.pods.infos[info_number].spec
    may_run = view.nodes.match_required_affinity(compile_required_node_affinity(spec))
    may_run = may_run & match_tolerations(view.nodes, spec.tolerations) & ~view.nodes.unschedulable
    codes = placement.domains.codes[may_run]
    return max(len(np.unique(codes[codes >= 0])), 1)


def _iter_constraint_findings(numbered: WorkloadConstraint, workloads: Workloads) -> Iterator[Finding]:
    """Yield the findings about a constraint: that it is violated, and that losing a domain would strand pods."""
    owner, constraint = workloads.owners[numbered.workload], numbered.report
    if not constraint.holds:
        yield _build_skew_finding(owner, constraint)
    worst_loss = _find_worst_loss(constraint)
    if worst_loss.stranded and constraint.domains > 1:
        yield _build_stranded_finding(owner, constraint, worst_loss)


PREFERENCE_ONLY = (
    "Use DoNotSchedule if the spread matters; ScheduleAnyway is a preference that other scores may outweigh"
)


def _build_skew_finding(owner: Owner, constraint: SpreadPromise) -> Finding:
    """Build the finding that a constraint is violated. For ScheduleAnyway it is only a note.

    The proposed fix depends on the cause: too few domains, a domain that counts although pods cannot go there, or pods
    that have become uneven over time. A restart is proposed only for DoNotSchedule, since other scores may outweigh
    ScheduleAnyway again.
    """
    is_hard = constraint.when_unsatisfiable == HARD
    emptiest = f"{constraint.least} has {constraint.least_pods:,}"
    if constraint.min_domains_set and constraint.domains < constraint.min_domains:
        emptiest = "the minimum counts as 0"
        domains = counted(constraint.domains, "domain is", "domains are")
        cause = f", since {domains} fewer than minDomains {constraint.min_domains}"
        room = counted(constraint.max_skew, "pod")
        fix = f"Add nodes in another domain first; until then, each domain takes only {room} after a restart"
    elif constraint.least_why:
        cause = f"; {constraint.least_why}"
        hard_effect = "; until then, a restart leaves pods Pending"
        soft_effect = ", so that only domains that its pods may use count"
        fix = f"Set {constraint.least_policy}: Honor in the constraint{hard_effect if is_hard else soft_effect}"
    else:
        cause = ""
        fix = _advise_on_respreading(owner, constraint) if is_hard else PREFERENCE_ONLY
    fullest = f"{constraint.most} has {counted(constraint.most_pods, 'pod')}"
    counts = f"{fullest}, and {emptiest}"
    constraint_name = f"{constraint.when_unsatisfiable} over {constraint.key}"
    return SKEWED.build_finding(
        str(owner),
        f"the skew is {constraint.skew} now, but maxSkew is {constraint.max_skew} ({constraint_name}): {counts}{cause}",
        fix,
        namespace=owner.namespace,
        path=constraint.key,
        severity=SKEWED.severity if is_hard else NOTE,
    )


def _build_stranded_finding(owner: Owner, constraint: SpreadPromise, worst_loss: BrokenDomain) -> Finding:
    """Build the finding that the loss of the worst domain leaves fewer domains than minDomains and strands pods."""
    remaining = constraint.domains - 1
    lost_pods = f"{worst_loss.stranded:,} of {counted(worst_loss.lost, 'pod')}"
    remaining_text = f"{counted(remaining, 'domain')}, fewer than minDomains {constraint.min_domains}"
    equal_losses = [loss.domain for loss in constraint.losses if _have_equal_effects(loss, worst_loss)]
    message = (
        f"{_format_condition(equal_losses)} is lost, {lost_pods} cannot come back: the minimum counts as 0 with "
        f"{remaining_text} "
        f"({constraint.when_unsatisfiable} over {constraint.key})"
    )
    fix = f"Lower minDomains to {remaining}, or raise maxSkew"
    return STRANDED.build_finding(str(owner), message, fix, namespace=owner.namespace, path=constraint.key)


def _build_down_domain_finding(constraints: Sequence[WorkloadConstraint], workloads: Workloads) -> Finding | None:
    """Build the finding about constraints that strand pods while a domain's nodes are down.

    The finding is about the constraint that strands the most pods, and counts the others. Constraints that also strand
    pods once the nodes are deleted have findings of their own and do not count. Return None if no constraint is left.
    """
    affected: list[tuple[BrokenDomain, WorkloadConstraint]] = []
    for workload_constraint in constraints:
        loss = _find_worst_loss(workload_constraint.report)
        if loss.stranded_while_down and not loss.stranded:
            affected.append((loss, workload_constraint))
    if not affected:
        return None

    worst_loss, worst_constraint = max(affected, key=lambda pair: pair[0].stranded_while_down)
    owner, constraint = workloads.owners[worst_constraint.workload], worst_constraint.report
    stranded = worst_loss.stranded_while_down
    if stranded == worst_loss.lost:
        every = "both" if stranded == 2 else f"all {stranded:,}"
        lost_pods = agreeing(stranded, "the pod", f"{every} pods")
    else:
        lost_pods = f"{stranded:,} of the {worst_loss.lost:,} pods"
    replacements = agreeing(stranded, "the replacement", "the replacements")
    stay = agreeing(stranded, "stays", "stay")
    equal_losses = [loss.domain for loss in constraint.losses if _have_equal_effects(loss, worst_loss)]
    down_domain = worst_loss.domain if len(equal_losses) == 1 else "it"
    message = (
        f"{_format_condition(equal_losses)} goes down, {replacements} of {lost_pods} there {stay} Pending: "
        f"the spread constraint over {constraint.key} (maxSkew "
        f"{constraint.max_skew}) still counts {down_domain} as a domain, with 0 pods"
    )
    further_count = len(affected) - 1
    if further_count:
        verb = agreeing(further_count, "has", "have")
        message += f"; {counted(further_count, 'more constraint')} {verb} the same effect"
    return STRANDED_WHILE_DOWN.build_finding(str(owner), message, namespace=owner.namespace, path=constraint.key)


def _have_equal_effects(loss: BrokenDomain, other: BrokenDomain) -> bool:
    """Return whether the losses of two domains take and strand the same numbers of pods."""
    strands_equally = (loss.stranded, loss.stranded_while_down) == (other.stranded, other.stranded_while_down)
    return loss.lost == other.lost and strands_equally


def _format_condition(domains: Sequence[str]) -> str:
    """Return the beginning of a sentence about the loss of one of these domains, such as `whichever of a and b`."""
    return f"if {domains[0]}" if len(domains) == 1 else f"whichever of {join_first_few(domains)}"


def _find_worst_loss(constraint: SpreadPromise) -> BrokenDomain:
    """Return the loss of a domain that strands the most pods. If no loss is reported, return a loss of 0 pods."""
    no_loss = BrokenDomain(domain="", lost=0, skew=0)
    return max(constraint.losses, key=lambda loss: (loss.stranded, loss.stranded_while_down), default=no_loss)


def _advise_on_respreading(owner: Owner, constraint: SpreadPromise) -> str:
    """Return the advice that spreads a workload's pods evenly again, or "" for the rule's own advice.

    A restart alone can leave a Deployment as uneven as before: while its new pods are placed, the old ones count as
    well, unless matchLabelKeys tells them apart. A StatefulSet deletes each old pod before it creates the new one.
    """
    if owner.kind == "Deployment" and TEMPLATE_HASH not in constraint.match_label_keys:
        return (
            f"Set matchLabelKeys: [{TEMPLATE_HASH}] in the constraint; the rollout of this change spreads the new pods "
            "evenly, since old pods no longer count"
        )
    if owner.kind not in ("Deployment", "StatefulSet"):
        return ""
    return f"kubectl rollout restart {owner.kind.lower()}/{shlex.quote(owner.name)} -n {shlex.quote(owner.namespace)}"


def _build_headline(workloads: int, constraints: int, findings: Sequence[Finding]) -> str:
    """Summarize how many workloads are in a single domain, and how many constraints do not hold.

    If no workload has two or more pods on nodes, the headline only says so.
    """
    if not workloads:
        return "no workload has two or more running pods"
    single_domain_rules = {rule.id for rule in (ONE_NODE, ONE_ZONE, ONE_DOMAIN)}
    single_domain = sum(finding.rule in single_domain_rules for finding in findings)
    counted_workloads = counted(workloads, "workload with two or more pods", "workloads with two or more pods")
    has_all = "none has all its pods"
    if single_domain:
        has_all = f"{single_domain:,} {agreeing(single_domain, 'has all its', 'have all their')} pods"
    workloads_text = f"{counted_workloads}; {has_all} on one node or in one zone"
    if not constraints:
        return workloads_text
    skewed = [finding for finding in findings if finding.rule == SKEWED.id]
    return f"{workloads_text}; {_format_spread_constraint_counts(constraints, skewed)}"


def _format_spread_constraint_counts(constraints: int, skewed: Sequence[Finding]) -> str:
    """Format how many constraints are not met, by their whenUnsatisfiable.

    `skewed` are the findings about constraints that do not hold. Examples are `2 of 2 spread constraints are met` and
    `3 of 5 spread constraints are not met (1 DoNotSchedule, 2 ScheduleAnyway)`.
    """
    constraints_text = counted(constraints, "spread constraint")
    if not skewed:
        if constraints == 1:
            return "the only spread constraint is met"
        return f"{constraints:,} of {constraints_text} are met"
    hard = sum(finding.severity != NOTE for finding in skewed)
    soft = len(skewed) - hard
    actions = HARD if hard else SOFT
    if hard and soft:
        actions = f"{hard:,} {HARD}, {soft:,} {SOFT}"
    return f"{len(skewed):,} of {constraints_text} {agreeing(len(skewed), 'is', 'are')} not met ({actions})"
