"""Rules about spread constraints and the topology domains of the cluster's nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from typing import NamedTuple

import msgspec
import numpy as np

from kschedctl.api.arrays import Bools, Counts, Row
from kschedctl.api.objects import TopologySpreadConstraint
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.facts import NODE_PLUGINS, ClusterFacts
from kschedctl.lint.analysis.placement import HARD, iter_spread_constraints
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Path, Problem
from kschedctl.lint.objects.workload import Workload, compile_selector
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule
from kschedctl.scheduler.configuration.version_fields import TAINTS_POLICY
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.text.counts import agreeing, counted


class HardSpread(NamedTuple):
    """A DoNotSchedule constraint that counts the workload's own pods."""

    workload: Workload
    path: Path
    constraint: TopologySpreadConstraint
    eligible: Bools
    """(N,) the nodes that the workload may use and that have all its topology keys."""
    counted: Bools
    """(N,) the nodes whose domains the constraint counts."""

    @property
    def key(self) -> str:
        """The constraint's topologyKey."""
        return self.constraint.topology_key


def iter_hard_spread_constraints(context: LintContext) -> Iterator[HardSpread]:
    """Yield the hard spread constraints that count their own workload's pods.

    Each comes with a mask of the nodes that are open to the pods, and a mask of the nodes that it counts. A node that
    lacks the topology label of one of the workload's hard constraints is in neither mask.
    """
    facts = context.facts
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        selector = compile_selector(constraint.label_selector)
        if constraint.when_unsatisfiable != HARD or selector is None or not workload.is_selected_by(selector):
            continue
        keys = [c.topology_key for c in workload.spec.topology_spread_constraints if c.when_unsatisfiable == HARD]
        labelled = np.logical_and.reduce([facts.get_nodes_with_label(key) for key in keys])
        # nodeAffinityPolicy is Honor by default, and nodeTaintsPolicy is Ignore
        counted_nodes = labelled
        if constraint.node_affinity_policy != "Ignore":
            counted_nodes = counted_nodes & facts.get_selected_nodes(workload)
        if constraint.node_taints_policy == "Honor":
            counted_nodes = counted_nodes & facts.get_tolerated_nodes(workload)
        yield HardSpread(workload, path, constraint, facts.get_eligible_nodes(workload) & labelled, counted_nodes)


def find_topology_keys_on_no_node(context: LintContext) -> Iterator[Problem]:
    """Find hard spread constraints whose topologyKey no eligible node has, confirmed by a replay.

    Workloads without an eligible node are left out.
    """
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        eligible = context.facts.get_eligible_nodes(workload)
        labelled = context.facts.get_nodes_with_label(constraint.topology_key)
        if constraint.when_unsatisfiable != HARD or not eligible.any() or (eligible & labelled).any():
            continue
        if context.facts.is_always_rejected_by(workload, (PodTopologySpread, *NODE_PLUGINS)):
            nodes = (
                f"none of the {eligible.sum():,} usable nodes has"
                if eligible.sum() > 1
                else "the only usable node lacks"
            )
            message = f"{nodes} the label {constraint.topology_key}"
            yield workload.build_problem((*path, "topologyKey"), message)


TS_KEY_ON_NO_NODE = Rule(
    "ts-key-on-no-node",
    ERROR,
    find_topology_keys_on_no_node,
    summary="DoNotSchedule spread on a label that no usable node has",
    why="Nodes without the label are rejected, so the pods stay Pending. Verified by replay: the pods fit on no node.",
    fix="Add the label to the nodes, or correct topologyKey",
    source=doc.SPREAD,
    needs_cluster=True,
)


def find_topology_keys_on_some_nodes(context: LintContext) -> Iterator[Problem]:
    """Find hard spread constraints whose topologyKey some, but not all, eligible nodes lack."""
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        if constraint.when_unsatisfiable != HARD:
            continue
        eligible = context.facts.get_eligible_nodes(workload)
        unlabelled = eligible & ~context.facts.get_nodes_with_label(constraint.topology_key)
        count = int(unlabelled.sum())
        if 0 < count < eligible.sum():
            lack_label = agreeing(count, "lacks the label and is", "lack the label and are")
            message = (
                f"{count:,} of {counted(eligible.sum(), 'usable node')} {lack_label} rejected: "
                f"{context.facts.format_node_names(unlabelled)}"
            )
            yield workload.build_problem((*path, "topologyKey"), message)


TS_KEY_ON_SOME_NODES = Rule(
    "ts-key-on-some-nodes",
    WARNING,
    find_topology_keys_on_some_nodes,
    summary="DoNotSchedule spread on a label that some usable nodes lack",
    why="Nodes without the label get no pods of the workload, however empty these nodes are.",
    fix="Add the label to all nodes",
    source=f"{doc.SPREAD}#implicit-conventions",
    needs_cluster=True,
)


def find_constraints_with_single_domain(context: LintContext) -> Iterator[Problem]:
    """Find hard spread constraints of serving workloads that count nodes of only one domain."""
    for spread in iter_hard_spread_constraints(context):
        if not spread.workload.is_serving_replicas or not spread.eligible.any():
            continue
        if context.facts.count_domains(spread.key, spread.counted) == 1:
            message = (
                f"all usable nodes are in one domain of {spread.key}, so the constraint has no effect, and losing the "
                "domain is an outage"
            )
            yield spread.workload.build_problem((*spread.path, "topologyKey"), message)


TS_SINGLE_DOMAIN = Rule(
    "ts-single-domain",
    NOTE,
    find_constraints_with_single_domain,
    summary="DoNotSchedule spread with a single domain",
    why="With one domain, the constraint spreads nothing: all replicas run in that domain.",
    fix="Add nodes in a second domain and set minDomains: 2, or spread on kubernetes.io/hostname",
    source=doc.SPREAD,
    needs_cluster=True,
)


MAX_PLACED = 50
"""The maximum number of replicas that a replay places to prove that some find no node."""


def find_unreachable_min_domains(context: LintContext) -> Iterator[Problem]:
    """Find hard spread constraints with fewer domains than minDomains, which leaves replicas without a node.

    A replay confirms each case.
    """
    for spread in iter_hard_spread_constraints(context):
        workload = spread.workload
        min_domains = spread.constraint.min_domains or 1
        domain_count = context.facts.count_domains(spread.key, spread.counted)
        if not 0 < domain_count < min_domains:
            continue
        max_placeable = domain_count * spread.constraint.max_skew
        if _places_no_more_than(context, workload, max_placeable):
            message = (
                f"minDomains is {min_domains}, but there {agreeing(domain_count, 'is', 'are')} only "
                f"{counted(domain_count, 'domain')}: at most {max_placeable} of {workload.highest_replicas_text} "
                "are scheduled"
            )
            yield workload.build_problem((*spread.path, "minDomains"), message)


TS_MIN_DOMAINS_UNSATISFIABLE = Rule(
    "ts-min-domains-unsatisfiable",
    ERROR,
    find_unreachable_min_domains,
    summary="minDomains above the number of domains",
    why="With fewer domains than minDomains, the global minimum counts as 0: each domain takes at most maxSkew pods, "
    "and the surplus replicas stay Pending. Verified by replay: at most maxSkew replicas per domain get a "
    "node.",
    fix="Lower minDomains, or add nodes in more domains",
    source=doc.SPREAD,
    needs_cluster=True,
)


def find_domains_blocked_by_taints(context: LintContext) -> Iterator[Problem]:
    """Find domains that replicas cannot use because of taints or cordons, although the constraint counts them as empty.

    Because of maxSkew, such a domain limits the number of replicas in the other domains.
    """
    for spread in iter_hard_spread_constraints(context):
        if spread.constraint.node_taints_policy == "Honor":
            continue
        usable = spread.counted & context.facts.get_tolerated_nodes(spread.workload)
        message_start = "taints or cordons keep it out of"
        problem = _find_unusable_domain_problem(
            context, spread, usable=usable, message_start=message_start, field="nodeTaintsPolicy"
        )
        if problem is not None:
            yield problem


TS_TAINTED_DOMAINS = Rule(
    "ts-tainted-domains",
    WARNING,
    find_domains_blocked_by_taints,
    summary="Spread constraint that counts domains of tainted or cordoned nodes as empty",
    why="By default (nodeTaintsPolicy: Ignore), domains that the pods cannot use keep the global minimum at 0. Each "
    "usable domain takes at most maxSkew pods, and the surplus replicas stay Pending. Verified by replay: at most "
    "maxSkew replicas per usable domain get a node.",
    fix="Set nodeTaintsPolicy: Honor",
    source=f"{doc.SPREAD}; https://github.com/kubernetes/kubernetes/issues/116118",
    needs_cluster=True,
    advised_field=TAINTS_POLICY,
)


def find_domains_outside_affinity(context: LintContext) -> Iterator[Problem]:
    """Find domains that replicas cannot use because of node affinity, although the constraint counts them as empty."""
    for spread in iter_hard_spread_constraints(context):
        if spread.constraint.node_affinity_policy != "Ignore":
            continue
        usable = spread.counted & context.facts.get_selected_nodes(spread.workload)
        message_start = "node affinity keeps it out of"
        problem = _find_unusable_domain_problem(
            context, spread, usable=usable, message_start=message_start, field="nodeAffinityPolicy"
        )
        if problem is not None:
            yield problem


TS_AFFINITY_POLICY = Rule(
    "ts-affinity-policy",
    WARNING,
    find_domains_outside_affinity,
    summary="nodeAffinityPolicy: Ignore, which counts domains that the pods cannot use",
    why="Domains outside the pods' node affinity keep the global minimum at 0. Each usable domain takes at most "
    "maxSkew pods, and the surplus replicas stay Pending. Verified by replay: at most maxSkew replicas per usable "
    "domain get a node.",
    fix="Remove nodeAffinityPolicy: Ignore",
    source=doc.SPREAD,
    needs_cluster=True,
)


def _find_unusable_domain_problem(
    context: LintContext, spread: HardSpread, *, usable: Bools, message_start: str, field: str
) -> Problem | None:
    """Return a problem if replicas find no node because some counted domains are unusable and stay empty, else None.

    At most maxSkew replicas then fit in each usable domain. ``usable`` is the mask (N,) of the nodes open to replicas,
    ``message_start`` begins the message, and ``field`` is the field of the constraint to report.
    """
    facts, workload = context.facts, spread.workload
    domain_count = facts.count_domains(spread.key, spread.counted)
    usable_count = facts.count_domains(spread.key, usable)
    max_placeable = usable_count * spread.constraint.max_skew
    if not 0 < usable_count < domain_count or not _places_no_more_than(context, workload, max_placeable):
        return None
    unusable_domains = facts.format_unusable_domains(spread.key, spread.counted, usable)
    message = (
        f"{message_start} {domain_count - usable_count} of {domain_count} domains ({unusable_domains}), but these "
        f"still count as empty domains: at most {max_placeable} of {workload.highest_replicas_text} are scheduled"
    )
    return workload.build_problem((*spread.path, field), message)


def _group_spreads_by_workload(context: LintContext) -> dict[Workload, list[HardSpread]]:
    """Group by workload the hard spread constraints that count the workload's own pods."""
    spreads_by_workload: dict[Workload, list[HardSpread]] = {}
    for spread in iter_hard_spread_constraints(context):
        spreads_by_workload.setdefault(spread.workload, []).append(spread)
    return spreads_by_workload


def find_conflicting_constraints(context: LintContext) -> Iterator[Problem]:
    """Find workloads whose hard constraints can each be met alone but not together, confirmed by replays.

    At most `MAX_PLACED` replicas are placed. Workloads are replayed only if their constraints may conflict.
    """
    facts = context.facts
    for workload, spreads in _group_spreads_by_workload(context).items():
        if len(spreads) < 2 or not _may_constraints_conflict(context, spreads, workload.highest_replicas):
            continue
        count = min(workload.highest_replicas, MAX_PLACED)
        placed = facts.count_placeable_pods(workload, count)
        if placed == count:
            continue
        variants_with_one_constraint = (
            replace(
                workload, spec=msgspec.structs.replace(workload.spec, topology_spread_constraints=(spread.constraint,))
            )
            for spread in spreads
        )
        if all(facts.count_placeable_pods(variant, count) == count for variant in variants_with_one_constraint):
            message = (
                f"the hard constraints together leave room for only {placed} of {workload.highest_replicas_text}; "
                "each alone leaves room for all"
            )
            yield workload.build_problem(("topologySpreadConstraints",), message)


TS_CONFLICTING = Rule(
    "ts-conflicting",
    ERROR,
    find_conflicting_constraints,
    summary="Required constraints that no placement of all replicas meets",
    why="Some replicas stay Pending. Verified by replay: under each constraint alone, all replicas get a node, but "
    "not under all of them together.",
    fix="Set whenUnsatisfiable: ScheduleAnyway on one of the constraints, or raise a maxSkew",
    source=f"{doc.SPREAD}#example-conflicting-topologyspreadconstraints",
    needs_cluster=True,
)


def find_domains_without_room(context: LintContext) -> Iterator[Problem]:
    """Find hard spread constraints that leave replicas Pending because a domain has no room for its share of them.

    A workload is reported if a replay without movable pods places only some of its replicas, and a replay without its
    constraints places all. Workloads with a single replica or more than `MAX_PLACED` are not replayed. Workloads that a
    rule with a more specific cause reports are left out. Finds nothing if a node autoscaler seems to run.
    """
    facts = context.facts
    if facts.has_node_autoscaler():
        return
    spreads_by_workload = _group_spreads_by_workload(context)
    more_specific_checks = (
        find_unreachable_min_domains,
        find_domains_blocked_by_taints,
        find_domains_outside_affinity,
        find_conflicting_constraints,
    )
    for workload, spreads in spreads_by_workload.items():
        count = workload.lowest_replicas
        if not 1 < count <= MAX_PLACED or not spreads[0].eligible.any() or facts.find_framework(workload) is None:
            continue
        if not _may_domains_lack_room(context, spreads, count):
            continue
        rows = facts.place_without_movable_pods(workload, count)
        are_some_placed = 0 < len(rows) < count
        if not are_some_placed or not _do_all_fit_without_constraints(facts, workload, count):
            continue
        # Leave workloads to the rules about a more specific cause
        workload_context = replace(context, workloads=(workload,))
        if any(next(check(workload_context), None) for check in more_specific_checks):
            continue
        for spread in spreads:
            message = _describe_limiting_domain(context, spread, rows, count)
            if message:
                yield workload.build_problem((*spread.path, "maxSkew"), message)
                break


TS_DOMAIN_WITHOUT_ROOM = Rule(
    "ts-domain-without-room",
    WARNING,
    find_domains_without_room,
    summary="DoNotSchedule spread with a domain that has no room for its share of the replicas",
    why="A domain may exceed the domain with the fewest pods by at most maxSkew pods, so one full domain limits all "
    "others, and the surplus replicas stay Pending. Verified by replay after removing pods that could run elsewhere. "
    "Not reported if a Cluster Autoscaler or Karpenter seems to run.",
    fix="Add nodes in this domain, lower replicas, or raise maxSkew",
    source=doc.SPREAD,
    needs_cluster=True,
)


def _describe_limiting_domain(context: LintContext, spread: HardSpread, rows: list[Row], replicas: int) -> str:
    """Describe how many of the replicas find a node, and which domain got the fewest and thereby limits the others.

    ``rows`` are the rows of the nodes on which replicas were placed. Returns "" if the constraint limits no domain, or
    if it counts fewer domains than minDomains.
    """
    # The domains that the constraint counts, as codes, and the number of replicas in each of them
    labels = context.facts.view.nodes.label(spread.key)
    domains = np.unique(labels.codes[spread.counted])
    replicas_per_domain = np.bincount(labels.codes[rows], minlength=len(labels.values))[domains]
    fewest = int(replicas_per_domain.min())
    skew = spread.constraint.max_skew
    has_full_domain = replicas_per_domain.max() >= fewest + skew
    are_domains_too_few = len(domains) < (spread.constraint.min_domains or 1)  # each then takes only maxSkew replicas
    if not has_full_domain or are_domains_too_few:
        return ""

    limiting_domain = int(domains[replicas_per_domain.argmin()])
    domain = labels.values[limiting_domain]
    nodes = int((spread.eligible & (labels.codes == limiting_domain)).sum())
    remaining = replicas - len(rows)
    return (
        f"only {len(rows):,} of {replicas:,} replicas find a node, even if all movable pods left: "
        f"{spread.key}={domain} ({counted(nodes, 'usable node')}) takes {fewest or 'none'}, and with maxSkew {skew} "
        f"every other domain at most {fewest + skew:,}, so {remaining:,} {agreeing(remaining, 'stays', 'stay')} Pending"
    )


def _do_all_fit_without_constraints(facts: ClusterFacts, workload: Workload, replicas: int) -> bool:
    """Replay the workload without its topology spread constraints, and return whether all replicas are placed."""
    unspread = replace(workload, spec=msgspec.structs.replace(workload.spec, topology_spread_constraints=()))
    return facts.count_placeable_pods(unspread, replicas) >= replicas


def _may_domains_lack_room(context: LintContext, spreads: list[HardSpread], replicas: int) -> bool:
    """Return whether replicas may stay Pending, judged by their requests alone, without a replay.

    Without movable pods, most clusters have so much room that no replay is needed. The result is always True if pod
    affinity, host ports or conflicting constraints may limit the replicas, because only a replay can judge these.
    """
    workload = spreads[0].workload
    affinity = workload.spec.affinity
    has_pod_terms = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    has_host_ports = any(port.host_port for container in workload.spec.containers for port in container.ports)
    if has_pod_terms or has_host_ports or workload.spec.host_network:
        return True
    if len(spreads) > 1 and _may_constraints_conflict(context, spreads, replicas):
        return True
    capacities = context.facts.count_fitting_pods_beside_fixed_pods(workload)
    return any(_count_replicas_with_room(context, spread, capacities, replicas) < replicas for spread in spreads)


def _count_replicas_with_room(context: LintContext, spread: HardSpread, capacities: Counts, replicas: int) -> int:
    """Return how many of the replicas the domains of one constraint have room for.

    `capacities` (N,) are the numbers of pods for which the nodes have room. No domain gets more than maxSkew replicas
    above the domain with the least room. With fewer domains than minDomains, the least room counts as 0.
    """
    labels = context.facts.view.nodes.label(spread.key)
    domains = np.unique(labels.codes[spread.counted])
    usable = spread.eligible & spread.counted
    room_by_code = np.bincount(labels.codes[usable], capacities[usable], minlength=len(labels.values))
    domain_rooms = room_by_code[domains]
    has_min_domains = len(domains) >= (spread.constraint.min_domains or 1)
    fewest = domain_rooms.min(initial=replicas) if has_min_domains else 0
    return int(np.minimum(domain_rooms, fewest + spread.constraint.max_skew).sum())


def _may_constraints_conflict(context: LintContext, spreads: list[HardSpread], replicas: int) -> bool:
    """Return whether a domain of one constraint contains too few domains of another to take its share of the replicas.

    For example, a zone may have too few hosts. Only then can the constraints conflict.
    """
    nodes = context.facts.view.nodes
    for outer, inner in permutations(spreads, 2):
        if not outer.eligible.any():
            continue
        codes = np.stack((nodes.label(outer.key).codes, nodes.label(inner.key).codes))[:, outer.eligible]
        domain_pairs = np.unique(codes, axis=1)  # (2, pairs): each outer domain with each inner domain that it contains
        _, inner_domain_counts = np.unique(domain_pairs[0], return_counts=True)
        # An inner domain takes at most maxSkew replicas as long as an inner domain of another outer domain is empty
        capacities = inner_domain_counts * inner.constraint.max_skew
        if capacities.min() < replicas // len(capacities):
            return True
    return False


def _places_no_more_than(context: LintContext, workload: Workload, count: int) -> bool:
    """Return whether a replay places no more than ``count`` replicas of a workload that has more.

    Return False if the replay would have to place more than MAX_PLACED replicas.
    """
    if count >= min(workload.highest_replicas, MAX_PLACED):
        return False
    return context.facts.count_placeable_pods(workload, count + 1) <= count
