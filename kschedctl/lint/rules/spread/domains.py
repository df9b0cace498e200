"""Rules about spread constraints and the topology domains that the nodes of the cluster form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import msgspec
import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.objects import TopologySpreadConstraint
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.facts import NODE_PLUGINS
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
        """Return the constraint's topologyKey."""
        return self.constraint.topology_key


def iter_hard_spreads(context: LintContext) -> Iterator[HardSpread]:
    """Yield the hard spread constraints that count their own workload's pods."""
    facts = context.facts
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        selector = compile_selector(constraint.label_selector)
        if constraint.when_unsatisfiable != HARD or selector is None or not workload.is_selected_by(selector):
            continue
        keys = [c.topology_key for c in workload.spec.topology_spread_constraints if c.when_unsatisfiable == HARD]
        labelled = np.logical_and.reduce([facts.get_nodes_with_label(key) for key in keys])
        counted = labelled
        if constraint.node_affinity_policy != "Ignore":
            counted = counted & facts.get_selected_nodes(workload)
        if constraint.node_taints_policy == "Honor":
            counted = counted & facts.get_tolerated_nodes(workload)
        yield HardSpread(workload, path, constraint, facts.get_eligible_nodes(workload) & labelled, counted)


def find_keys_on_no_node(context: LintContext) -> Iterator[Problem]:
    """Find hard spread constraints whose topologyKey no eligible node has, proved by a replay."""
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        eligible = context.facts.get_eligible_nodes(workload)
        labelled = context.facts.get_nodes_with_label(constraint.topology_key)
        if constraint.when_unsatisfiable != HARD or not eligible.any() or (eligible & labelled).any():
            continue
        if context.facts.can_never_schedule(workload, (PodTopologySpread, *NODE_PLUGINS)):
            message = (
                f"none of the {counted(eligible.sum(), 'node')} that it may use has the label {constraint.topology_key}"
            )
            yield workload.build_problem((*path, "topologyKey"), message)


TS_KEY_ON_NO_NODE = Rule(
    "ts-key-on-no-node",
    ERROR,
    find_keys_on_no_node,
    summary="Hard spread on a label that no usable node has",
    why="Nodes without the label are refused, so the pods stay Pending. Proved by replay.",
    fix="Label the nodes, or correct topologyKey",
    source=doc.SPREAD,
    needs_cluster=True,
)


def find_keys_on_some_nodes(context: LintContext) -> Iterator[Problem]:
    """Find hard spread constraints whose topologyKey some eligible nodes lack."""
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        eligible = context.facts.get_eligible_nodes(workload)
        without = eligible & ~context.facts.get_nodes_with_label(constraint.topology_key)
        if without.any() and without.sum() < eligible.sum() and constraint.when_unsatisfiable == HARD:
            lack, are = agreeing(without.sum(), "lacks", "lack"), agreeing(without.sum(), "is", "are")
            message = (
                f"{without.sum():,} of {counted(eligible.sum(), 'usable node')} {lack} the label and {are} skipped: "
                f"{context.facts.format_node_names(without)}"
            )
            yield workload.build_problem((*path, "topologyKey"), message)


TS_KEY_ON_SOME_NODES = Rule(
    "ts-key-on-some-nodes",
    WARNING,
    find_keys_on_some_nodes,
    summary="Hard spread on a label that some usable nodes lack",
    why="Those nodes get no such pods, however empty they are.",
    fix="Label all nodes",
    source=f"{doc.SPREAD}#implicit-conventions",
    needs_cluster=True,
)


def find_single_domains(context: LintContext) -> Iterator[Problem]:
    """Find hard spread constraints over a single domain."""
    for spread in iter_hard_spreads(context):
        if (
            spread.workload.is_serving_replicas
            and spread.eligible.any()
            and context.facts.count_domains(spread.key, spread.counted) == 1
        ):
            message = f"all usable nodes are in one {spread.key}: the constraint does nothing, losing it is an outage"
            yield spread.workload.build_problem((*spread.path, "topologyKey"), message)


TS_SINGLE_DOMAIN = Rule(
    "ts-single-domain",
    NOTE,
    find_single_domains,
    summary="Hard spread with a single domain",
    why="With one domain there is no skew, so all replicas share it unless minDomains asks for more.",
    fix="Add nodes in a second domain and set minDomains: 2, or spread on kubernetes.io/hostname",
    source=doc.SPREAD,
    needs_cluster=True,
)


MAX_PLACED = 50
"""How many replicas a replay places at most to prove that some find no node."""


def find_unreachable_min_domains(context: LintContext) -> Iterator[Problem]:
    """Find minDomains above the number of domains that leave replicas without a node, proved by a replay."""
    for spread in iter_hard_spreads(context):
        min_domains, workload = spread.constraint.min_domains or 1, spread.workload
        domains = context.facts.count_domains(spread.key, spread.counted)
        fits = domains * spread.constraint.max_skew
        if (
            0 < domains < min_domains
            and fits < workload.highest_replicas
            and _is_stuck_in_replay(context, workload, fits)
        ):
            message = (
                f"minDomains {min_domains}, but there are {domains}: at most {fits} of {workload.highest_replicas} "
                "replicas are scheduled"
            )
            yield workload.build_problem((*spread.path, "minDomains"), message)


TS_MIN_DOMAINS_UNSATISFIABLE = Rule(
    "ts-min-domains-unsatisfiable",
    ERROR,
    find_unreachable_min_domains,
    summary="minDomains above the number of domains",
    why="With fewer domains the global minimum counts as 0, so each takes maxSkew pods and the rest stay Pending. "
    "Proved by replay.",
    fix="Lower minDomains, or add nodes in more domains",
    source=doc.SPREAD,
    needs_cluster=True,
)


def find_tainted_domains(context: LintContext) -> Iterator[Problem]:
    """Find domains of tainted or cordoned nodes that count as empty and so keep replicas from other domains."""
    for spread in iter_hard_spreads(context):
        if spread.constraint.node_taints_policy == "Honor":
            continue
        usable = spread.counted & context.facts.get_tolerated_nodes(spread.workload)
        yield from _find_unusable_domains(
            context, spread, usable, "taints or cordons keep it out of", "nodeTaintsPolicy"
        )


TS_TAINTED_DOMAINS = Rule(
    "ts-tainted-domains",
    WARNING,
    find_tainted_domains,
    summary="Domains of tainted or cordoned nodes count as empty",
    why="nodeTaintsPolicy is Ignore by default: domains that the pods cannot use hold the minimum at 0, and "
    "replicas above maxSkew in each of the others stay Pending. Proved by replay.",
    fix="Set nodeTaintsPolicy: Honor",
    source=f"{doc.SPREAD}; https://github.com/kubernetes/kubernetes/issues/116118",
    needs_cluster=True,
    advised_field=TAINTS_POLICY,
)


def find_domains_outside_affinity(context: LintContext) -> Iterator[Problem]:
    """Find domains outside the node affinity that nodeAffinityPolicy Ignore counts as empty."""
    for spread in iter_hard_spreads(context):
        if spread.constraint.node_affinity_policy != "Ignore":
            continue
        usable = spread.counted & context.facts.get_selected_nodes(spread.workload)
        yield from _find_unusable_domains(
            context, spread, usable, "node affinity keeps it out of", "nodeAffinityPolicy"
        )


TS_AFFINITY_POLICY = Rule(
    "ts-affinity-policy",
    WARNING,
    find_domains_outside_affinity,
    summary="nodeAffinityPolicy Ignore counts domains that the pods cannot use",
    why="Domains outside the node affinity hold the minimum at 0, and replicas above maxSkew in each of the others "
    "stay Pending. Proved by replay.",
    fix="Remove nodeAffinityPolicy: Ignore",
    source=doc.SPREAD,
    needs_cluster=True,
)


def _find_unusable_domains(
    context: LintContext, spread: HardSpread, usable: Bools, reason: str, field: str
) -> Iterator[Problem]:
    """Yield a problem if domains that count as empty but cannot be used leave replicas without a node.

    Only maxSkew pods fit in each of the usable domains then.
    """
    facts, workload = context.facts, spread.workload
    domains, usable_domains = facts.count_domains(spread.key, spread.counted), facts.count_domains(spread.key, usable)
    fits = usable_domains * spread.constraint.max_skew
    if (
        0 < usable_domains < domains
        and fits < workload.highest_replicas
        and _is_stuck_in_replay(context, workload, fits)
    ):
        unusable = facts.format_unusable_domains(spread.key, spread.counted, usable)
        message = (
            f"{reason} {domains - usable_domains} of {domains} domains ({unusable}), which count as empty: "
            f"at most {fits} of {workload.highest_replicas} replicas are scheduled"
        )
        yield workload.build_problem((*spread.path, field), message)


def find_conflicting_constraints(context: LintContext) -> Iterator[Problem]:
    """Find workloads whose hard constraints can be met one by one, but not together, proved by replays."""
    spreads_by_workload: dict[int, list[HardSpread]] = {}
    for spread in iter_hard_spreads(context):
        spreads_by_workload.setdefault(id(spread.workload), []).append(spread)
    for spreads in spreads_by_workload.values():
        workload = spreads[0].workload
        count = min(workload.highest_replicas, MAX_PLACED)
        if len(spreads) < 2 or not _are_domains_uneven(context, spreads, workload.highest_replicas):
            continue
        placed = context.facts.count_placeable(workload, count)
        with_one_constraint = [
            replace(workload, spec=msgspec.structs.replace(workload.spec, topology_spread_constraints=(s.constraint,)))
            for s in spreads
        ]
        if placed < count and all(context.facts.count_placeable(w, count) == count for w in with_one_constraint):
            message = (
                f"together the hard constraints leave room for {placed} of {workload.highest_replicas} replicas, "
                "each alone for all"
            )
            yield workload.build_problem(("topologySpreadConstraints",), message)


TS_CONFLICTING = Rule(
    "ts-conflicting",
    ERROR,
    find_conflicting_constraints,
    summary="Hard constraints that no placement of all replicas meets",
    why="Each constraint alone can be met, but not all together, so some replicas stay Pending. Proved by replay.",
    fix="Make one of them ScheduleAnyway, or raise a maxSkew",
    source=f"{doc.SPREAD}#example-conflicting-topologyspreadconstraints",
    needs_cluster=True,
)


def _are_domains_uneven(context: LintContext, spreads: list[HardSpread], replicas: int) -> bool:
    """Return whether a domain of one constraint has too few domains of another for its share of the replicas."""
    nodes = context.facts.view.nodes
    for outer in spreads:
        for inner in spreads:
            if inner is outer or not outer.eligible.any():
                continue
            codes = np.stack((nodes.label(outer.key).codes, nodes.label(inner.key).codes))[:, outer.eligible]
            domain_pairs = np.unique(codes, axis=1)
            inner_domains = np.unique(domain_pairs[0], return_counts=True)[1]  # of each outer domain
            capacity = inner_domains * inner.constraint.max_skew
            if capacity.min() < replicas // len(capacity):
                return True
    return False


def _is_stuck_in_replay(context: LintContext, workload: Workload, fits: int) -> bool:
    """Return whether a replay places no more than ``fits`` replicas."""
    if fits >= MAX_PLACED:
        return False
    return context.facts.count_placeable(workload, min(fits + 1, workload.highest_replicas)) <= fits
