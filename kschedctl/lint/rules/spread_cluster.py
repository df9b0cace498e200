"""Topology spread constraints against the nodes that there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.objects import TopologySpreadConstraint
from kschedctl.lint import documentation as doc
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule
from kschedctl.lint.rules.spread_fields import HARD, constraints
from kschedctl.lint.subject import Path, Problem
from kschedctl.lint.workload import Workload, compiled
from kschedctl.lint.world import World

_WITH_SPREAD = ("PodTopologySpread", "NodeAffinity", "TaintToleration", "NodeUnschedulable", "NodeName")


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


def single_domain(world: World) -> Iterator[Problem]:
    for spread in hard_spreads(world):
        if spread.workload.serving and spread.eligible.any() and world.facts.domains(spread.key, spread.counted) == 1:
            message = f"all usable nodes are in one {spread.key}: the constraint does nothing"
            yield spread.workload.problem((*spread.path, "topologyKey"), message)


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
        "ts-single-domain",
        NOTE,
        single_domain,
        summary="Hard spread over a single domain",
        why="With one domain there is no skew.",
        fix="Spread over kubernetes.io/hostname, or add nodes in other domains",
        source=doc.SPREAD,
        needs_cluster=True,
    ),
)
