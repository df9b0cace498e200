"""The taints of nodes, and the tolerations for them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.objects import Taint
from kschedctl.api.resource_names import is_extended
from kschedctl.api.tolerations import HARD_EFFECTS, tolerated, tolerates
from kschedctl.lint import documentation as doc
from kschedctl.lint.rule import ERROR, NOTE, Rule
from kschedctl.lint.subject import Problem, Subject
from kschedctl.lint.workload import Workload
from kschedctl.lint.world import World

CUSTOMARY = "CriticalAddonsOnly"
"""What add-ons tolerate on every cluster, whether its nodes have the taint or not."""
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


def own_taint(key: str) -> bool:
    """Neither set by Kubernetes itself nor that of control planes."""
    return not key.startswith(("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")) and key not in CONTROL_PLANE


def taint_nobody_tolerates(world: World) -> Iterator[Problem]:
    nodes = world.facts.view.nodes
    sets = {info.spec.tolerations for info in world.facts.view.pods.infos} | {
        w.spec.tolerations for w in world.workloads
    }
    specific = [tuple(t for t in tolerations if t.key) for tolerations in sets]
    where: dict[Taint, list[int]] = {}
    for row, node in enumerate(nodes.objects):
        for taint in node.spec.taints:
            if taint.effect in HARD_EFFECTS and own_taint(taint.key):
                where.setdefault(taint, []).append(row)
    for taint, rows in where.items() if world.all_known("Pod") else ():
        if not any(tolerated(tolerations, taint) for tolerations in specific):
            message = f"no pod tolerates {taint}, which {len(rows):,} nodes have: they stay empty"
            yield Subject("Node", nodes.names[rows[0]]).problem(("spec", "taints"), message)


def tolerate_without_attract(world: World) -> Iterator[Problem]:
    facts = world.facts
    sets, which = facts.view.nodes.taint_sets
    for workload in world.workloads:
        if workload.kind == "DaemonSet" or any(not t.key for t in workload.spec.tolerations):
            continue
        for i, toleration in enumerate(workload.spec.tolerations):
            held = [
                any(own_taint(t.key) and t.effect in HARD_EFFECTS and tolerates(toleration, t) for t in s) for s in sets
            ]
            tainted = np.array(held, np.bool_)[which]
            usable = facts.eligible(workload) & _offering(world, workload)
            elsewhere = usable & ~tainted
            if (usable & tainted).any() and elsewhere.any():
                message = (
                    f"tolerates the taint of {tainted.sum():,} nodes, but may also go to {elsewhere.sum():,} others"
                )
                yield workload.problem(("tolerations", i), message)


def special_hardware_untainted(world: World) -> Iterator[Problem]:
    view = world.facts.view
    repelled = np.array([any(t.effect in HARD_EFFECTS for t in s) for s in view.nodes.taint_sets[0]], np.bool_)[
        view.nodes.taint_sets[1]
    ]
    for name, column in view.resources.items():
        offering = view.allocatable[:, column] > 0
        open_ = offering & ~repelled
        if is_extended(name) and open_.any() and not offering.all():
            first = view.nodes.names[int(np.flatnonzero(open_)[0])]
            message = f"{open_.sum():,} nodes with {name} have no taint: pods that need none fill them"
            yield Subject("Node", first).problem(("spec", "taints"), message)


def dead_toleration(world: World) -> Iterator[Problem]:
    taints = {taint for taints in world.facts.view.nodes.taint_sets[0] for taint in taints}
    for workload in world.workloads:
        if workload.kind == "DaemonSet":
            continue
        for i, toleration in enumerate(workload.spec.tolerations):
            if (
                toleration.key not in ("", CUSTOMARY)
                and own_taint(toleration.key)
                and not any(tolerates(toleration, taint) for taint in taints)
            ):
                alike = next((t for t in taints if t.key == toleration.key), None)
                hint = f"; there is {alike}" if alike else ""
                yield workload.problem(("tolerations", i), f"no node has a taint that it tolerates{hint}")


def all_eligible_cordoned(world: World) -> Iterator[Problem]:
    facts = world.facts
    for workload in world.workloads:
        selected = facts.selected(workload)
        if workload.kind == "DaemonSet" or not selected.any() or facts.eligible(workload).any():
            continue
        if facts.never(workload, ("NodeAffinity", "TaintToleration", "NodeUnschedulable")):
            cordoned = int((selected & facts.view.nodes.unschedulable).sum())
            several = selected.sum() > 1
            nodes = (
                f"all {selected.sum():,} nodes that it may use are" if several else "the only node that it may use is"
            )
            message = f"{nodes} closed to it: {cordoned:,} cordoned, {selected.sum() - cordoned:,} tainted"
            yield workload.problem((), message)


def _offering(world: World, workload: Workload) -> Bools:
    """(N,): nodes that offer all the extended resources that the workload asks for."""
    view = world.facts.view
    wanted = {
        name
        for c in workload.spec.containers
        for name in (*c.resources.requests, *c.resources.limits)
        if is_extended(name)
    }
    found = np.ones(len(view.nodes), np.bool_)
    for name in wanted:
        found &= view.allocatable[:, view.resources[name]] > 0 if name in view.resources else False
    return found


RULES = (
    Rule(
        "tt-taint-nobody-tolerates",
        NOTE,
        taint_nobody_tolerates,
        summary="A taint that no workload tolerates by name",
        why="The nodes take nothing but DaemonSets that tolerate everything: paid for and unused.",
        fix="Remove the taint, or add the toleration to the pods that belong there",
        source=doc.TAINTS,
        needs_cluster=True,
    ),
    Rule(
        "tt-tolerate-without-attract",
        NOTE,
        tolerate_without_attract,
        summary="A toleration for dedicated nodes, and nothing that leads there",
        why="A toleration only permits: the pods may just as well land on ordinary nodes.",
        fix="Add a nodeSelector or node affinity for the label of the dedicated nodes",
        source=f"{doc.TAINTS}#example-use-cases",
        needs_cluster=True,
    ),
    Rule(
        "tt-special-hw-untainted",
        NOTE,
        special_hardware_untainted,
        summary="Nodes with special hardware and no taint",
        why="Ordinary pods take their cpu and memory, and those that need the hardware stay Pending.",
        fix="Taint the nodes; the ExtendedResourceToleration admission plugin adds the tolerations",
        source=f"{doc.TAINTS}#example-use-cases",
        needs_cluster=True,
    ),
    Rule(
        "tt-dead-toleration",
        NOTE,
        dead_toleration,
        summary="A toleration that matches no taint",
        why="Key, value or effect is misspelt, or the taint is gone.",
        fix="Correct the toleration, or remove it",
        source=doc.TAINTS,
        needs_cluster=True,
    ),
    Rule(
        "tt-all-eligible-cordoned",
        ERROR,
        all_eligible_cordoned,
        summary="Every node that the pods may use is cordoned or tainted",
        why="New pods stay Pending. Proved by replay.",
        fix="Uncordon a node, tolerate the taint, or allow other nodes",
        source=doc.TAINTS,
        needs_cluster=True,
    ),
)
