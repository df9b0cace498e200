"""Topology spread constraints against the nodes that there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import msgspec
import numpy as np

from kschedctl.api.objects import PodSpec, TopologySpreadConstraint
from kschedctl.lint import documentation as doc
from kschedctl.lint.facts import Bools
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Path, Problem, Rule, Subject
from kschedctl.lint.rules.spread_fields import HARD, constraints
from kschedctl.lint.workload import Workload, compiled
from kschedctl.lint.world import World
from kschedctl.snapshot.node_order import HOSTNAME, ZONE

MOST_PLACED = 50
"""So many replicas are placed at most to prove that some find no node."""


class HardSpread(NamedTuple):
    """A DoNotSchedule constraint that counts the workload's own pods.

    ``eligible`` (N,): the nodes that the workload may use and that have all of its topology keys; ``counted`` (N,):
    those whose domains the constraint counts.
    """

    workload: Workload
    path: Path
    constraint: TopologySpreadConstraint
    eligible: Bools
    counted: Bools

    @property
    def key(self) -> str:
        return self.constraint.topology_key


def hard_spreads(world: World) -> Iterator[HardSpread]:
    facts = world.facts
    for workload, path, constraint in constraints(world):
        selector = compiled(constraint.label_selector)
        if constraint.when_unsatisfiable != HARD or selector is None or not workload.selected_by(selector):
            continue
        keys = [c.topology_key for c in workload.spec.topology_spread_constraints if c.when_unsatisfiable == HARD]
        labelled = np.logical_and.reduce([facts.has_label(key) for key in keys])
        counted = labelled
        if constraint.node_affinity_policy != "Ignore":
            counted = counted & facts.selected(workload)
        if constraint.node_taints_policy == "Honor":
            counted = counted & facts.tolerated(workload)
        yield HardSpread(workload, path, constraint, facts.eligible(workload) & labelled, counted)


def key_on_no_node(world: World) -> Iterator[Problem]:
    for workload, path, constraint in constraints(world):
        eligible = world.facts.eligible(workload)
        lacking = eligible.any() and not (eligible & world.facts.has_label(constraint.topology_key)).any()
        if constraint.when_unsatisfiable == HARD and lacking and world.facts.never(workload, _WITH_SPREAD):
            message = f"none of the {eligible.sum():,} nodes that it may use has the label {constraint.topology_key}"
            yield workload.problem((*path, "topologyKey"), message)


_WITH_SPREAD = ("PodTopologySpread", "NodeAffinity", "TaintToleration", "NodeUnschedulable", "NodeName")


def key_on_some_nodes(world: World) -> Iterator[Problem]:
    for workload, path, constraint in constraints(world):
        eligible = world.facts.eligible(workload)
        without = eligible & ~world.facts.has_label(constraint.topology_key)
        if without.any() and without.sum() < eligible.sum() and constraint.when_unsatisfiable == HARD:
            message = (
                f"{without.sum():,} of {eligible.sum():,} usable nodes lack the label and are passed "
                f"over: {world.facts.names(without)}"
            )
            yield workload.problem((*path, "topologyKey"), message)


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


def single_domain(world: World) -> Iterator[Problem]:
    for spread in hard_spreads(world):
        if spread.workload.serving and spread.eligible.any() and world.facts.domains(spread.key, spread.counted) == 1:
            message = f"all usable nodes are in one {spread.key}: the constraint does nothing"
            yield spread.workload.problem((*spread.path, "topologyKey"), message)


def builtin_default_ineffective(world: World) -> Iterator[Problem]:
    facts = world.facts
    without = ~(facts.has_label(HOSTNAME) | facts.has_label(ZONE))
    if without.any() and not all(w.spec.topology_spread_constraints for w in world.workloads):
        first = Subject("Node", facts.view.nodes.names[int(np.flatnonzero(without)[0])])
        message = (
            f"{without.sum():,} nodes have neither a {HOSTNAME} nor a {ZONE} label: the default spread "
            "does not score them"
        )
        yield first.problem(("metadata", "labels"), message)


def default_hard_with_autoscaler(world: World) -> Iterator[Problem]:
    assert world.cluster is not None
    autoscaler = any("cluster-autoscaler" in pod.metadata.name for pod in world.cluster.pods)
    for i, profile in enumerate((world.cluster.configuration or {}).get("profiles") or ()):
        for j, config in enumerate(profile.get("pluginConfig") or ()):
            defaults = (config.get("args") or {}).get("defaultConstraints") or ()
            if autoscaler and any(constraint.get("whenUnsatisfiable") == HARD for constraint in defaults):
                path = ("profiles", i, "pluginConfig", j, "args", "defaultConstraints")
                message = "hard default constraints are unknown to the Cluster Autoscaler, which then adds no nodes"
                yield Subject("KubeSchedulerConfiguration", str(profile.get("schedulerName", ""))).problem(
                    path, message
                )


def scale_from_zero(world: World) -> Iterator[Problem]:
    facts = world.facts
    column = facts.view.nodes.label(ZONE)
    missing = sorted(_zones_of_storage(world) - set(column.values))
    if not missing or not column.values:
        return
    for spread in hard_spreads(world):
        if spread.key == ZONE and spread.workload.serving:
            message = f"no node is in {', '.join(missing)}, so these zones do not count until one is"
            yield spread.workload.problem((*spread.path, "topologyKey"), message)


def _zones_of_storage(world: World) -> set[str]:
    """The zones that StorageClasses allow: they exist even without nodes."""
    return {
        value
        for storage_class in world.known("StorageClass")
        for term in storage_class.allowed_topologies
        for expression in term.match_label_expressions
        if expression.key in (ZONE, "topology.ebs.csi.aws.com/zone", "topology.gke.io/zone")
        for value in expression.values
    }


def inconsistent_group(world: World) -> Iterator[Problem]:
    for workload, path, constraint in constraints(world):
        selector = compiled(constraint.label_selector)
        if selector is None or not workload.selected_by(selector):
            continue
        for other in world.selected(workload.namespace, selector):
            if other is workload:
                continue
            same_key = [c for c in other.spec.topology_spread_constraints if c.topology_key == constraint.topology_key]
            if constraint not in same_key:
                message = (
                    f"{other.subject} has pods that it counts, with {'another' if same_key else 'no'} "
                    f"constraint for {constraint.topology_key}"
                )
                yield workload.problem(path, message)
                break


def already_violated(world: World) -> Iterator[Problem]:
    facts = world.facts
    for spread in hard_spreads(world):
        selector = compiled(spread.constraint.label_selector)
        if selector is None or spread.constraint.match_label_keys or not spread.counted.any():
            continue
        pods = facts.view.pods
        selected = pods.matching(selector, frozenset((spread.workload.namespace,))) & ~pods.terminating
        rows = pods.node[selected[pods.info] & (pods.node >= 0)]
        codes = facts.view.nodes.label(spread.key).codes
        in_domain = np.bincount(codes[rows[spread.counted[rows]]], minlength=codes.max() + 1)
        counts = in_domain[np.unique(codes[spread.counted])]
        skew = int(counts.max() - counts.min())
        if skew > spread.constraint.max_skew:
            message = (
                f"the skew is {skew} now ({counts.min()} to {counts.max()} pods a domain), maxSkew "
                f"{spread.constraint.max_skew}"
            )
            yield spread.workload.problem(spread.path, message)


RULES = (
    Rule(
        "ts-key-on-no-node",
        ERROR,
        key_on_no_node,
        summary="Hard spread over a label that no usable node has",
        why="Nodes without the label are refused, so the pods stay Pending. Proved by replay.",
        fix="Label the nodes, or correct topologyKey",
        source=doc.SPREAD,
        needs_cluster=True,
    ),
    Rule(
        "ts-key-on-some-nodes",
        WARNING,
        key_on_some_nodes,
        summary="Hard spread over a label that some usable nodes lack",
        why="Those nodes get no such pods, however empty they are.",
        fix="Label all nodes",
        source=f"{doc.SPREAD}#implicit-conventions",
        needs_cluster=True,
    ),
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
    Rule(
        "ts-single-domain",
        NOTE,
        single_domain,
        summary="Hard spread over a single domain",
        why="With one domain there is no skew.",
        fix="Spread over kubernetes.io/hostname, or add nodes in other domains",
        source=doc.SPREAD,
        needs_cluster=True,
    ),
    Rule(
        "ts-builtin-default-ineffective",
        NOTE,
        builtin_default_ineffective,
        summary="Nodes that the default spread does not score",
        why="Pods without constraints are spread by hostname and zone; nodes without both labels get no score for "
        "that.",
        fix="Label the nodes",
        source=f"{doc.SPREAD}#internal-default-constraints",
        needs_cluster=True,
    ),
    Rule(
        "ts-default-donotschedule-with-ca",
        WARNING,
        default_hard_with_autoscaler,
        summary="Hard default constraints where a Cluster Autoscaler runs",
        why="The autoscaler simulates with its own defaults: it sees no reason to add a node, and pods stay Pending.",
        fix="Make the default constraints ScheduleAnyway",
        source="https://github.com/kubernetes/autoscaler/issues/3879",
        needs_cluster=True,
    ),
    Rule(
        "ts-scale-from-zero",
        NOTE,
        scale_from_zero,
        summary="Hard zone spread while a zone has no nodes",
        why="The scheduler only knows zones of nodes that exist: a zone that could be scaled up from zero does not "
        "count, "
        "and pods pile up in the others.",
        fix="Set minDomains to the number of zones, so that the autoscaler is asked for the missing ones",
        source=f"{doc.SPREAD}#known-limitations",
        needs_cluster=True,
    ),
    Rule(
        "ts-inconsistent-group",
        WARNING,
        inconsistent_group,
        summary="Pods that count each other carry different constraints",
        why="One workload keeps the skew that the other one breaks.",
        fix="Give both the same constraints, or narrow the selectors",
        source=f"{doc.SPREAD}#consistency",
    ),
    Rule(
        "ts-already-violated",
        WARNING,
        already_violated,
        summary="Pods that run are skewed more than maxSkew",
        why="Nothing corrects it after scale-downs or cordons, and new pods are only let into the emptiest domains.",
        fix="Restart the workload, or let the descheduler evict the surplus",
        source=f"{doc.SPREAD}#known-limitations",
        needs_cluster=True,
    ),
)
