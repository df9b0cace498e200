"""Affinity to other pods, and against them: visible in the manifest alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kschedctl.api.validation.node_affinity import weight
from kschedctl.lint import documentation as doc
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule
from kschedctl.lint.subject import Problem
from kschedctl.lint.terms import PREFERRED, anti_affinity_terms, pod_terms
from kschedctl.lint.world import World
from kschedctl.snapshot.node_order import HOSTNAME


def spread_missing(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        apart = any("podAntiAffinity" in path for path, _ in pod_terms(workload))
        if workload.serving and not apart and not workload.spec.topology_spread_constraints:
            yield workload.problem((), f"{workload.at_most} replicas, and nothing says that they go apart")


def no_host_anti_affinity(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        spec = workload.spec
        keys = {term.topology_key for path, term in pod_terms(workload) if "podAntiAffinity" in path}
        keys |= {constraint.topology_key for constraint in spec.topology_spread_constraints}
        if not workload.serving or not keys or HOSTNAME in keys or any(anti_affinity_terms(workload)):
            continue
        field = "topologySpreadConstraints" if spec.topology_spread_constraints else "affinity"
        yield workload.problem((field,), f"kept apart by {', '.join(sorted(keys))} only: replicas may share a node")


def null_selector(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        for path, term in pod_terms(workload):
            if term.label_selector is None:
                effect = (
                    "the pod can never be scheduled"
                    if "podAffinity" in path and PREFERRED not in path
                    else "it does nothing"
                )
                yield workload.problem(path, f"a term without labelSelector matches no pods: {effect}")


def weight_range(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        affinity = workload.spec.affinity
        parts = (
            ("nodeAffinity", affinity.node_affinity if affinity else None),
            ("podAffinity", affinity.pod_affinity if affinity else None),
            ("podAntiAffinity", affinity.pod_anti_affinity if affinity else None),
        )
        for name, part in parts:
            preferred: tuple[Any, ...] = part.preferred_during_scheduling_ignored_during_execution if part else ()
            for i, term in enumerate(preferred):
                at = workload.at_field("affinity", name, PREFERRED, i, "weight")
                yield from workload.refused(weight(term.weight, at))


RULES = (
    Rule(
        "ts-missing",
        NOTE,
        spread_missing,
        summary="Several replicas without spread constraints or anti-affinity",
        why="Only the scheduler's weak default preference keeps them apart; one node or zone may take all of them "
        "down.",
        fix="Add topologySpreadConstraints over kubernetes.io/hostname and topology.kubernetes.io/zone",
        source=doc.SPREAD,
    ),
    Rule(
        "af-no-host-anti",
        NOTE,
        no_host_anti_affinity,
        summary="Replicas are kept apart, but may share a node",
        why="A spread over zones alone allows all replicas of a zone on one node.",
        fix="Add a spread constraint or an anti-affinity term over kubernetes.io/hostname",
        source=doc.AFFINITY,
    ),
    Rule(
        "af-null-selector",
        WARNING,
        null_selector,
        summary="Pod (anti-)affinity term without labelSelector",
        why="A missing selector matches no pods, an empty one ({}) all: required affinity can then never be met, "
        "anything "
        "else does nothing.",
        fix="Add labelSelector; write {} to mean all pods",
        source="https://github.com/kubernetes/kubernetes/pull/117025",
    ),
    Rule(
        "af-weight-range",
        ERROR,
        weight_range,
        summary="Weight of a preference outside 1 to 100",
        why="The API server refuses the pods.",
        fix="Choose a weight from 1 to 100",
        source=f"{doc.AFFINITY}; {doc.VALIDATION}",
    ),
)
