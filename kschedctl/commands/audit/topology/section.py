"""Workloads that one zone, rack or node takes down; spread constraints that do not hold, or would not after a loss."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.api.ownership import Owner
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.topology.report import BrokenDomain, PlacedWorkload, SpreadPromise, TopologySection
from kschedctl.commands.audit.topology.workload_topology import REPLICAS, DomainsOfKey, Placement, Workloads, promises
from kschedctl.replay.audit_rules import NOTE, WARNING, AuditRule, build_verdict
from kschedctl.replay.unknown import IN_SIMULATIONS, find_unread_dependencies, summarize_unknowns
from kschedctl.reports.findings import Finding
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import HARD
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_masks import find_tolerated, match_required_affinity
from kschedctl.snapshot.node_order import HOSTNAME, ZONE
from kschedctl.text.counts import agreeing, counted

SOURCE = "pkg/scheduler/framework/plugins/podtopologyspread/filtering.go"
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
    SOURCE,
)
STRANDED = AuditRule(
    "audit-topology-stranded",
    WARNING,
    "A spread constraint keeps pods from coming back after the loss of a domain",
    "With fewer domains than minDomains the global minimum counts as 0, and no domain may have more than maxSkew.",
    "Lower minDomains, or raise maxSkew",
    SOURCE,
)
STRANDED_WHILE_DOWN = AuditRule(
    "audit-topology-stranded-while-down",
    NOTE,
    "A spread constraint keeps pods from coming back while the nodes of a domain are down",
    "As long as its nodes are there a domain counts, with 0 pods, and no other may have more than maxSkew.",
    "nodeTaintsPolicy: Honor in the constraint leaves out nodes that are down",
    SOURCE,
)
RULES = (ONE_NODE, ONE_ZONE, ONE_DOMAIN, SKEWED, STRANDED, STRANDED_WHILE_DOWN)


class TopologyScope(NamedTuple):
    """``keys``: topology keys besides hosts, zones and those of constraints. ``workloads``: only of these, but all."""

    keys: Sequence[str] = ()
    workloads: frozenset[Owner] = frozenset()


EVERYTHING = TopologyScope()
Alone = tuple[int, Placement]
"""A workload by its number, and the placement by which all its pods are in one domain."""
Promised = tuple[int, SpreadPromise]


def topology_section(audited: AuditedCluster, asked: TopologyScope = EVERYTHING) -> TopologySection:
    """Where the pods of workloads are that have at least two on nodes."""
    view = audited.scheduler.view
    workloads = Workloads.of_view(view)
    placements = [Placement.of(DomainsOfKey.of(key, view), workloads) for key in _keys(view, asked)]
    chosen = [n for n, owner in enumerate(workloads.owners) if not asked.workloads or owner in asked.workloads]
    promised = [promise for promise in promises(audited.scheduler, workloads) if promise[0] in set(chosen)]
    alone = [placement for placement in _alone(placements, workloads) if placement[0] in set(chosen)]
    findings = [
        *(_of_alone(placement, placements, promised, workloads, view) for placement in alone),
        *(finding for numbered in promised for finding in _of_promise(*numbered, workloads)),
        *_of_down(promised, workloads),
    ]
    shown = chosen if asked.workloads else [number for number, _ in alone]
    return TopologySection(
        title="Topology: what takes down which workload",
        headline=_headline(len(chosen), len(promised), findings),
        keys=tuple(placement.domains.key for placement in placements),
        workloads=len(chosen),
        constraints=len(promised),
        placed=tuple(_placed(number, workloads, placements) for number in shown),
        promises=tuple(
            promise for _, promise in promised if asked.workloads or not promise.holds or _worst(promise).stranded
        ),
        **build_verdict(RULES, findings, summarize_unknowns(find_unread_dependencies(audited.cluster), IN_SIMULATIONS)),
    )


def _keys(view: Fork, asked: TopologyScope) -> list[str]:
    """Hosts first, then zones, then those of constraints; keys that no node has only where they are asked for."""
    specs = (info.spec for info in view.pods.infos)
    own = sorted({constraint.topology_key for spec in specs for constraint in spec.topology_spread_constraints})
    known = [key for key in (ZONE, *own) if key != HOSTNAME and view.nodes.label(key).values]
    return list(dict.fromkeys((HOSTNAME, *known, *asked.keys)))


def _alone(placements: Sequence[Placement], workloads: Workloads) -> list[Alone]:
    """The workloads whose pods share a domain though there are others, each by the first key for which it is so."""
    alone: dict[int, Placement] = {}
    for placement in placements:
        if placement.size > 1:
            for number in np.flatnonzero(placement.single(workloads)).tolist():
                alone.setdefault(number, placement)
    return sorted(alone.items(), key=lambda item: item[0])


def _placed(number: int, workloads: Workloads, placements: Sequence[Placement]) -> PlacedWorkload:
    pods = int(workloads.pods[number])
    by_key = tuple(placement.told(number, pods) for placement in placements)
    return PlacedWorkload(str(workloads.owners[number]), pods, by_key)


def _of_alone(
    alone: Alone, placements: Sequence[Placement], promised: Sequence[Promised], workloads: Workloads, view: Fork
) -> Finding:
    """Return the finding about a workload in one domain, which says how to spread it or why it cannot be spread."""
    number, placement = alone
    info = workloads.infos[number][0]
    others = _reachable(info, placement, view) - 1
    if not others:
        return _find_only_domain(number, _widest(alone, placements, workloads, view), promised, workloads, view)
    rule, what = _rule_of(placement.domains.key)
    owner = workloads.owners[number]
    domain = placement.told(number, int(workloads.pods[number])).most
    where = f"{counted(others, 'other')} would take them by taints and node selection"
    message = f"all {workloads.pods[number]:,} pods are in {what} {domain}; {where}"
    return rule.build_finding(str(owner), message, namespace=owner.namespace)


def _rule_of(key: str) -> tuple[AuditRule, str]:
    """Return the rule about pods in one domain of the topology key, and the word for the domain."""
    return {HOSTNAME: (ONE_NODE, "node"), ZONE: (ONE_ZONE, "zone")}.get(key, (ONE_DOMAIN, key))


def _widest(alone: Alone, placements: Sequence[Placement], workloads: Workloads, view: Fork) -> Placement:
    """Return the placement by zone if the workload has no other zone either, otherwise the given placement."""
    number, placement = alone
    for other in placements:
        if other.domains.key == ZONE and other.size > 1 and other.single(workloads)[number]:
            return other if _reachable(workloads.infos[number][0], other, view) == 1 else placement
    return placement


def _find_only_domain(
    number: int, placement: Placement, promised: Sequence[Promised], workloads: Workloads, view: Fork
) -> Finding:
    """Return the finding about a workload whose pods share the only domain that they may use.

    It is a warning if a DoNotSchedule constraint over the key is meant to spread the pods, which it cannot do. Without
    minDomains the constraint does nothing in a single domain.
    """
    key, owner, pods = placement.domains.key, workloads.owners[number], int(workloads.pods[number])
    rule, what = _rule_of(key)
    hard = next((p for n, p in promised if n == number and p.key == key and p.when_unsatisfiable == HARD), None)
    domain = placement.told(number, pods).most
    where = (
        f"{what} {domain}, the only {'domain' if rule is ONE_DOMAIN else 'one'} that taints and node selection leave"
    )
    labels = view.pods.infos[workloads.infos[number][0]].spec.node_selector
    selected = ",".join(f"{name}={value}" for name, value in labels.items() if name != key)
    nodes = "a second node" if key == HOSTNAME else f"nodes in a second {what}"
    nodes += f" with {selected}" if selected else " that they may use"
    fix = f"Add {nodes}{_require_two_domains(key, hard, pods)}"
    message = f"all {pods:,} pods are in {where}: losing it is an outage"
    return rule.build_finding(str(owner), message, fix, namespace=owner.namespace, severity=WARNING if hard else NOTE)


def _require_two_domains(key: str, constraint: SpreadPromise | None, pods: int) -> str:
    """Return how the workload's DoNotSchedule constraint, which it may lack, has to change to need two domains.

    With minDomains 2 the minimum counts as 0 in one domain, which then takes maxSkew pods.
    """
    if constraint is None:
        return f", and spread over {key} by DoNotSchedule with maxSkew: 1 and minDomains: 2"
    skew = ["maxSkew: 1"] * (constraint.max_skew >= pods)
    domains = ["minDomains: 2"] * (constraint.min_domains < REPLICAS)
    change = " and ".join((*skew, *domains))
    return f", and set {change} in the constraint" if change else ""


def _reachable(number: int, placement: Placement, view: Fork) -> int:
    """In how many domains of the key pods with an info may run, by node selection and taints; at least one."""
    spec = view.pods.infos[number].spec
    nodes = match_required_affinity(view.nodes, compile_required_node_affinity(spec)) & find_tolerated(
        view.nodes, spec.tolerations
    )
    codes = placement.domains.codes[nodes & ~view.nodes.unschedulable]
    return max(len(np.unique(codes[codes >= 0])), 1)


def _of_promise(number: int, promise: SpreadPromise, workloads: Workloads) -> Iterator[Finding]:
    owner, named = workloads.owners[number], f"{promise.when_unsatisfiable} over {promise.key}"
    if not promise.holds:
        counts = f"{promise.most} has {counted(promise.most_pods, 'pod')}, {promise.least} {promise.least_pods:,}"
        fix = _restart(owner)
        if promise.min_domains_set and promise.domains < promise.min_domains:
            counts += f", and {counted(promise.domains, 'domain')}, fewer than minDomains {promise.min_domains}"
            room = counted(promise.max_skew, "pod")
            fix = f"Add nodes in another domain first: until then a domain takes {room} after a restart"
        elif promise.least_why:
            counts += f"; {promise.least_why}"
            fix = f"Set {promise.least_policy}: Honor in the constraint: until then a restart leaves pods Pending"
        message = f"maxSkew {promise.max_skew} ({named}) is {promise.skew} now: {counts}"
        severity = SKEWED.severity if promise.when_unsatisfiable == HARD else NOTE
        at = {"namespace": owner.namespace, "path": promise.key, "severity": severity}
        yield SKEWED.build_finding(str(owner), message, fix, **at)
    worst, remaining = _worst(promise), promise.domains - 1
    if worst.stranded and remaining:
        lost = f"if {worst.domain} is lost, {worst.stranded:,} of {counted(worst.lost, 'pod')} cannot come back"
        fewer = f"{counted(remaining, 'domain')}, fewer than minDomains {promise.min_domains}"
        message = f"{lost}: the minimum counts as 0 with {fewer} ({named})"
        fix = f"Lower minDomains to {remaining}, or raise maxSkew"
        yield STRANDED.build_finding(str(owner), message, fix, namespace=owner.namespace, path=promise.key)


def _of_down(promised: Sequence[Promised], workloads: Workloads) -> Iterator[Finding]:
    """The workload of which most pods stay away, which stands for the others: by default all constraints do so."""
    worst_cases = [(_worst(promise), number, promise) for number, promise in promised]
    worst_cases = [
        candidate for candidate in worst_cases if candidate[0].stranded_while_down and not candidate[0].stranded
    ]
    if not worst_cases:
        return
    worst, number, promise = max(worst_cases, key=lambda candidate: candidate[0].stranded_while_down)
    owner = workloads.owners[number]
    lost = (
        f"while the nodes of {worst.domain} are down {worst.stranded_while_down:,} of "
        f"{counted(worst.lost, 'pod')} {agreeing(worst.stranded_while_down, 'stays', 'stay')} away"
    )
    more = (
        f"; {counted(len(worst_cases) - 1, 'more constraint')} {agreeing(len(worst_cases) - 1, 'does', 'do')} so"
        if len(worst_cases) > 1
        else ""
    )
    message = f"{lost}: maxSkew {promise.max_skew} over {promise.key} counts its 0 pods{more}"
    yield STRANDED_WHILE_DOWN.build_finding(str(owner), message, namespace=owner.namespace, path=promise.key)


def _worst(promise: SpreadPromise) -> BrokenDomain:
    """The loss after which most pods stay away."""
    none = BrokenDomain(domain="", lost=0, skew=0)
    return max(promise.losses, key=lambda loss: (loss.stranded, loss.stranded_while_down), default=none)


def _restart(owner: Owner) -> str:
    if owner.kind not in ("Deployment", "StatefulSet"):
        return ""
    return f"kubectl rollout restart {owner.kind.lower()}/{shlex.quote(owner.name)} -n {shlex.quote(owner.namespace)}"


def _headline(workloads: int, constraints: int, findings: Sequence[Finding]) -> str:
    def number(*rules: AuditRule) -> int:
        return sum(finding.rule in [rule.id for rule in rules] for finding in findings)

    together = number(ONE_NODE, ONE_ZONE, ONE_DOMAIN)
    if not workloads:
        return "No workload has two pods on nodes"
    apart = f"{counted(workloads, 'workload')}, {together or 'none'} on one node or in one zone alone"
    if not constraints:
        return apart
    return f"{apart}; {_kept(constraints, [finding for finding in findings if finding.rule == SKEWED.id])}"


def _kept(constraints: int, skewed: Sequence[Finding]) -> str:
    """Broken is what keeps pods away; that others are uneven is allowed."""
    broken = sum(finding.severity != NOTE for finding in skewed)
    all_ = counted(constraints, "spread constraint")
    counts = ((broken, "broken"), (len(skewed) - broken, "uneven (ScheduleAnyway)"))
    message = ", ".join(f"{number:,} {words}" for number, words in counts if number)
    number, _, rest = message.partition(" ")
    return f"{number} of {all_} {rest}" if message else f"{all_} kept"
