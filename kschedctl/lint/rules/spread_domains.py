"""Topology spread constraints that the domains of the nodes leave no room for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec
import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.objects import PodSpec, TopologySpreadConstraint
from kschedctl.lint import documentation as doc
from kschedctl.lint.rule import ERROR, WARNING, Rule
from kschedctl.lint.rules.spread_cluster import HardSpread, hard_spreads
from kschedctl.lint.subject import Problem
from kschedctl.lint.workload import Workload
from kschedctl.lint.world import World
from kschedctl.scheduler.configuration.version_fields import TAINTS_POLICY

MOST_PLACED = 50
"""So many replicas are placed at most to prove that some find no node."""


def min_domains_unsatisfiable(world: World) -> Iterator[Problem]:
    for spread in hard_spreads(world):
        wanted, workload = spread.constraint.min_domains or 1, spread.workload
        there = world.facts.domains(spread.key, spread.counted)
        fits = there * spread.constraint.max_skew
        if 0 < there < wanted and fits < workload.at_most and _stuck(world, workload, fits):
            message = (
                f"minDomains {wanted}, but there are {there}: at most {fits} of {workload.at_most} "
                "replicas are scheduled"
            )
            yield workload.problem((*spread.path, "minDomains"), message)


def tainted_domains(world: World) -> Iterator[Problem]:
    for spread in hard_spreads(world):
        if spread.constraint.node_taints_policy == "Honor":
            continue
        usable = spread.counted & world.facts.tolerated(spread.workload)
        yield from _unreachable(world, spread, usable, "taints or cordons keep it out of", "nodeTaintsPolicy")


def affinity_policy(world: World) -> Iterator[Problem]:
    for spread in hard_spreads(world):
        if spread.constraint.node_affinity_policy != "Ignore":
            continue
        usable = spread.counted & world.facts.selected(spread.workload)
        yield from _unreachable(world, spread, usable, "node affinity keeps it out of", "nodeAffinityPolicy")


def _unreachable(world: World, spread: HardSpread, usable: Bools, why: str, field: str) -> Iterator[Problem]:
    """Domains that count, always as empty, but that the pods cannot use: maxSkew pods in each other one, no more."""
    facts, workload = world.facts, spread.workload
    there, within = facts.domains(spread.key, spread.counted), facts.domains(spread.key, usable)
    fits = within * spread.constraint.max_skew
    if 0 < within < there and fits < workload.at_most and _stuck(world, workload, fits):
        message = (
            f"{why} {there - within} of {there} domains, which count as empty: at most {fits} of "
            f"{workload.at_most} replicas are scheduled"
        )
        yield workload.problem((*spread.path, field), message)


def conflicting(world: World) -> Iterator[Problem]:
    seen: dict[int, list[HardSpread]] = {}
    for spread in hard_spreads(world):
        seen.setdefault(id(spread.workload), []).append(spread)
    for spreads in seen.values():
        workload = spreads[0].workload
        count = min(workload.at_most, MOST_PLACED)
        if len(spreads) < 2 or not _uneven(world, spreads, workload.at_most):
            continue
        placed = world.facts.placeable(workload, count)
        alone = [replace(workload, spec=_with_constraints(workload, (s.constraint,))) for s in spreads]
        if placed < count and all(world.facts.placeable(w, count) == count for w in alone):
            message = (
                f"together the hard constraints leave room for {placed} of {workload.at_most} replicas, "
                "each alone for all"
            )
            yield workload.problem(("topologySpreadConstraints",), message)


def _uneven(world: World, spreads: list[HardSpread], replicas: int) -> bool:
    """Whether a domain of one constraint has too few domains of another one for its share of the replicas."""
    nodes = world.facts.view.nodes
    for outer in spreads:
        for inner in spreads:
            if inner is outer or not outer.eligible.any():
                continue
            pairs = np.unique(
                np.stack((nodes.label(outer.key).codes, nodes.label(inner.key).codes))[:, outer.eligible], axis=1
            )
            rooms = np.unique(pairs[0], return_counts=True)[1] * inner.constraint.max_skew
            if rooms.min() < replicas // len(rooms):
                return True
    return False


def _with_constraints(workload: Workload, kept: tuple[TopologySpreadConstraint, ...]) -> PodSpec:
    return msgspec.structs.replace(workload.spec, topology_spread_constraints=kept)


def _stuck(world: World, workload: Workload, fits: int) -> bool:
    """Whether the replay too places no more than so many, and fewer than the replicas."""
    if fits >= MOST_PLACED:
        return False
    return world.facts.placeable(workload, min(fits + 1, workload.at_most)) <= fits


RULES = (
    Rule(
        "ts-min-domains-unsatisfiable",
        ERROR,
        min_domains_unsatisfiable,
        summary="minDomains above the number of domains",
        why="With fewer domains the global minimum counts as 0, so each takes maxSkew pods and the rest stays Pending. "
        "Proved by replay.",
        fix="Lower minDomains, or add nodes in further domains",
        source=doc.SPREAD,
        needs_cluster=True,
    ),
    Rule(
        "ts-tainted-domains",
        WARNING,
        tainted_domains,
        summary="Domains of tainted or cordoned nodes count as empty",
        why="nodeTaintsPolicy is Ignore by default: domains that the pods cannot use hold the minimum at 0, and "
        "replicas "
        "above maxSkew in each of the others stay Pending. Proved by replay.",
        fix="Set nodeTaintsPolicy: Honor",
        source=f"{doc.SPREAD}; https://github.com/kubernetes/kubernetes/issues/116118",
        needs_cluster=True,
        advises=TAINTS_POLICY,
    ),
    Rule(
        "ts-affinity-policy",
        WARNING,
        affinity_policy,
        summary="nodeAffinityPolicy Ignore counts domains that the pods cannot use",
        why="Domains outside the node affinity hold the minimum at 0, and replicas above maxSkew in each of the others "
        "stay Pending. Proved by replay.",
        fix="Remove nodeAffinityPolicy: Ignore",
        source=doc.SPREAD,
        needs_cluster=True,
    ),
    Rule(
        "ts-conflicting",
        ERROR,
        conflicting,
        summary="Hard constraints that no placement of all replicas meets",
        why="Each constraint alone can be met, but not all together, so some replicas stay Pending. Proved by replay.",
        fix="Make one of them ScheduleAnyway, or raise a maxSkew",
        source=f"{doc.SPREAD}#example-conflicting-topologyspreadconstraints",
        needs_cluster=True,
    ),
)
