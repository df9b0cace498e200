"""Whether the replicas of workloads find room in the cluster as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kschedctl.lint import documentation as doc
from kschedctl.lint.facts import Facts
from kschedctl.lint.replays import Placed, placed_now
from kschedctl.lint.rule import NOTE, WARNING, Rule
from kschedctl.lint.rules.room import fragmented, larger_than_any_node
from kschedctl.lint.subject import Problem
from kschedctl.lint.terms import pod_terms
from kschedctl.lint.workload import SERVING, Workload
from kschedctl.lint.world import World

AUTOSCALERS = ("cluster-autoscaler", "karpenter")
"""In the names of pods that add nodes."""
KARPENTER = "karpenter.sh/nodepool"
"""A label of the nodes that it added."""


def no_room_now(world: World) -> Iterator[Problem]:
    if _adds_nodes(world.facts):
        return
    said = {problem.subject for check in (larger_than_any_node, fragmented) for problem in check(world)}
    for workload, have, placed in _short(world, lambda workload: workload.at_least):
        if workload.subject not in said:
            yield workload.problem((), _message(workload.at_least, have + placed.number, placed))


def _message(wanted: int, room: int, placed: Placed) -> str:
    """``5 replicas, but only 3 find room now: 2 stay Pending (…)``."""
    left = wanted - room
    find, stay, evict = ((verb + "s" * (n == 1)) for verb, n in (("find", room or 1), ("stay", left), ("evict", left)))
    replicas = f"{wanted:,} replica{'s' * (wanted != 1)}, but {f'only {room:,}' if room else 'none'} {find} room now"
    what = f"{stay} Pending{f' or {evict} others' if placed.evicts else ''}"
    return f"{replicas}: {left:,} {what} (nodes that would do: {placed.lacking})"


def autoscaler_burst(world: World) -> Iterator[Problem]:
    for workload, have, placed in _short(world, lambda workload: workload.most or 0):
        if workload.at_least <= have + placed.number:
            message = f"the autoscaler may ask for {workload.most:,} replicas, but only {have + placed.number:,} find"
            yield workload.problem((), f"{message} room now (nodes that would do: {placed.lacking})")


def _short(world: World, wanted: Callable[[Workload], int]) -> Iterator[tuple[Workload, int, Placed]]:
    """The workloads that lack room for so many replicas, with how many run and what the replay placed besides."""
    facts = world.facts
    have = {workload: len(facts.rows_of(workload)) for workload in world.workloads if _is_asked(facts, workload)}
    more = {workload: wanted(workload) - there for workload, there in have.items()}
    asked = {workload: count for workload, count in more.items() if count > 0 and not _surely(facts, workload, count)}
    for workload, placed in placed_now(facts, asked).items():
        if placed.lacking and placed.number < asked[workload]:
            yield workload, have[workload], placed


def _is_asked(facts: Facts, workload: Workload) -> bool:
    """Whether its pods run on and on, and it is known which of them run."""
    if workload.kind not in SERVING or workload.spec.scheduling_gates or not facts.eligible(workload).any():
        return False
    name = workload.subject.name
    return bool(workload.subject.namespace) or not any(o.kind == workload.kind and o.name == name for o in facts.owners)


def _surely(facts: Facts, workload: Workload, count: int) -> bool:
    """Whether so many more fit by their requests, with nothing else to be asked."""
    spec = workload.spec
    ports = spec.host_network or any(port.host_port for container in spec.containers for port in container.ports)
    if ports or spec.topology_spread_constraints or next(pod_terms(workload), None):
        return False
    wanted, eligible = facts.requests(workload), facts.eligible(workload)
    asked = wanted > 0
    fits = (np.maximum(facts.free[eligible][:, asked], 0) // wanted[asked]).min(axis=1).sum()
    return not facts.unknown_resources(workload) and bool(fits >= count)


def _adds_nodes(facts: Facts) -> bool:
    """Whether something is seen that adds nodes for pods that wait."""
    if facts.has_label(KARPENTER).any():
        return True
    return any(name in owner.name for owner in facts.owners for name in AUTOSCALERS)


RULES = (
    Rule(
        "rq-no-room-now",
        WARNING,
        no_room_now,
        summary="Fewer replicas find room than there should be",
        why="The scheduler places so many in the cluster as it is, the others stay Pending, or push others out. Not "
        "told where a Cluster Autoscaler or Karpenter is seen. Proved by replay.",
        fix="Lower replicas or requests, or add nodes",
        source=f"{doc.PLUGINS}: noderesources/fit.go",
        needs_cluster=True,
    ),
    Rule(
        "rq-hpa-burst",
        NOTE,
        autoscaler_burst,
        summary="Autoscaler maximum beyond the room there is",
        why="At peak load replicas stay Pending unless nodes are added in time. Proved by replay.",
        fix="Lower maxReplicas, or make sure that nodes are added",
        source="https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/",
        needs_cluster=True,
    ),
)
