"""Whether nodes have the room that workloads ask for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kschedctl.api.arrays import Amounts, Bools
from kschedctl.api.resource_names import PODS, readable
from kschedctl.lint import documentation as doc
from kschedctl.lint.facts import holds
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule
from kschedctl.lint.rules.requests import NEEDED
from kschedctl.lint.subject import Problem, Subject
from kschedctl.lint.workload import Workload
from kschedctl.lint.world import World

IDLE_SHARE = 0.2
"""A node that is out of pods is reported when so much of its cpu and memory is free."""
_WITH_FIT = ("NodeResourcesFit", "NodeAffinity", "TaintToleration", "NodeUnschedulable", "NodeName")


def larger_than_any_node(world: World) -> Iterator[Problem]:
    facts = world.facts
    for workload in world.workloads:
        eligible = facts.eligible(workload)
        unknown = facts.unknown_resources(workload)
        wanted = facts.requests(workload)
        if not eligible.any() or (eligible & facts.room(workload)).any():
            continue
        fits = eligible & holds(facts.view.allocatable, wanted)
        if (unknown or not fits.any() or _tight(world, wanted, fits)) and facts.never(workload, _WITH_FIT):
            what = f"no node offers {', '.join(unknown)}" if unknown else _largest(world, wanted, eligible)
            yield workload.problem(("containers",), what)


def _tight(world: World, wanted: Amounts, fits: Bools) -> bool:
    """Whether a request is so close to what the nodes offer that DaemonSets could make the difference."""
    bare = world.facts.bare.view
    columns = [bare.resources[name] for name in world.facts.view.resources if name in bare.resources]
    ours = [world.facts.view.resources[name] for name in world.facts.view.resources if name in bare.resources]
    free = (bare.allocatable - bare.requested)[:, columns]
    return not (fits & holds(free, wanted[ours])).any()


def _largest(world: World, wanted: Amounts, eligible: Bools) -> str:
    view = world.facts.view
    most = view.allocatable[eligible].max(axis=0)
    asked = {name: column for name, column in view.resources.items() if wanted[column] and name != PODS}
    beyond = {name: column for name, column in asked.items() if wanted[column] > most[column]}
    parts = [
        f"{name} {readable(name, int(wanted[column]))} of at most {readable(name, int(most[column]))}"
        for name, column in (beyond or asked).items()
    ]
    return f"fits on none of {eligible.sum():,} usable nodes, even without movable pods: asks for {', '.join(parts)}"


def fragmented(world: World) -> Iterator[Problem]:
    facts = world.facts
    for workload in world.workloads:
        eligible = facts.eligible(workload)
        waits = len(facts.rows_of(workload)) < workload.at_least
        if not waits or not eligible.any() or (eligible & facts.room(workload)).any():
            continue
        wanted, free = facts.requests(workload), np.maximum(facts.free[eligible], 0)
        possible = holds(facts.view.allocatable[eligible], wanted).any() and not facts.unknown_resources(workload)
        if not possible or (free.sum(axis=0) < wanted).any():
            continue
        if facts.refused(workload, "NodeResourcesFit")[eligible].all():
            short = [name for name, c in facts.view.resources.items() if wanted[c] > free[:, c].max()]
            message = f"{', '.join(short) or 'what it asks for'} is free in sum, but on no single node"
            yield workload.problem(("containers",), message)


def daemon_set_overhead(world: World) -> Iterator[Problem]:
    facts = world.facts
    for workload in world.workloads:
        if workload.kind != "DaemonSet":
            continue
        wanted, there = facts.requests(workload), np.zeros(len(facts), np.bool_)
        there[facts.rows_of(workload)] = True
        if workload.subject.document:
            there[:] = False
        room = facts.free + _own(world, workload)
        full = facts.eligible(workload) & ~there & ~holds(room, wanted)
        if full.any():
            message = (
                f"no room for it on {full.sum():,} of {facts.eligible(workload).sum():,} nodes unless it "
                f"evicts others: {facts.names(full)}"
            )
            yield workload.problem(("containers",), message)


def _own(world: World, workload: Workload) -> Amounts:
    """(N, R): what the workload's present pods hold on each node."""
    view = world.facts.view
    held = np.zeros_like(world.facts.free)
    pods = world.facts.owners.get(workload.owner, ())
    for pod in pods:
        if pod.spec.node_name in view.nodes.index:
            held[view.nodes.index[pod.spec.node_name]] += view.requests[view.pods.info[view.pods.index[pod.key]]]
    return held


def max_pods(world: World) -> Iterator[Problem]:
    view, free = world.facts.view, world.facts.free
    full = (free[:, view.resources[PODS]] <= 0) & (view.allocatable[:, view.resources[PODS]] > 0)
    for name in NEEDED:
        full &= free[:, view.resources[name]] > IDLE_SHARE * view.allocatable[:, view.resources[name]]
    if full.any():
        first = view.nodes.names[int(np.flatnonzero(full)[0])]
        message = f"{full.sum():,} nodes take no more pods by number, with over {IDLE_SHARE:.0%} of cpu and memory free"
        yield Subject("Node", first).problem(("status", "allocatable", PODS), message)


RULES = (
    Rule(
        "rq-larger-than-any-node",
        ERROR,
        larger_than_any_node,
        summary="Requests that no usable node can ever hold",
        why="Even with all pods gone that can move, no node has the room; preemption does not help. Proved by replay.",
        fix="Lower the requests, or add larger nodes",
        source=f"{doc.PLUGINS}: noderesources/fit.go",
        needs_cluster=True,
    ),
    Rule(
        "rq-fragmented",
        WARNING,
        fragmented,
        summary="Enough is free in sum, but not on any one node",
        why="The workload lacks pods, and they stay Pending although dashboards show free capacity. Proved by replay.",
        fix="Move small pods together, or add a node",
        source=f"{doc.PLUGINS}: noderesources/fit.go",
        needs_cluster=True,
    ),
    Rule(
        "rq-daemonset-overhead",
        WARNING,
        daemon_set_overhead,
        summary="DaemonSet that does not fit on some of its nodes",
        why="Those nodes stay without it, or ordinary pods are evicted for it.",
        fix="Lower its requests, or give it a priority that makes room",
        source="https://github.com/kubernetes/kubernetes/pull/32677",
        needs_cluster=True,
    ),
    Rule(
        "rq-max-pods",
        NOTE,
        max_pods,
        summary="Nodes full by number of pods while cpu and memory are free",
        why="The kubelet's limit of pods, 110 by default, is reached first: capacity is paid for and cannot be used.",
        fix="Raise maxPods of the kubelets, or use smaller nodes",
        source=doc.LARGE_CLUSTERS,
        needs_cluster=True,
    ),
)
