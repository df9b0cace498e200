"""Autoscalers of what is not there, beside what was meant."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.lint.manifest_kinds import ScalingLimits
from kschedctl.lint.manifests.objects import AUTOSCALERS
from kschedctl.lint.near_names import one_meant
from kschedctl.lint.rule import WARNING, Rule
from kschedctl.lint.subject import Problem
from kschedctl.lint.workload import SERVING
from kschedctl.lint.world import World


def scaled(world: World) -> Iterator[Problem]:
    autoscalers = [(s, found.limits) for kind in AUTOSCALERS for s, found in world.linted(kind) if found.limits]
    targets = {(subject.namespace or "default", limits.name) for subject, limits in autoscalers}
    for subject, limits in autoscalers:
        namespace = subject.namespace or "default"
        if meant := one_meant(limits.kind, SERVING):
            message = f'there is no kind "{limits.kind}": kinds are written in the case that they have'
            yield subject.problem(("spec", "scaleTargetRef", "kind"), message, f"Write {meant}")
            continue
        there = _workloads(world, namespace, limits)
        unscaled = [name for name in there if (namespace, name) not in targets]
        if limits.name not in there and (near := one_meant(limits.name, unscaled)):
            message = f'there is no {limits.kind} "{limits.name}", and "{near}" has no autoscaler'
            yield subject.problem(("spec", "scaleTargetRef", "name"), message, f"Write {near}")


def _workloads(world: World, namespace: str, limits: ScalingLimits) -> set[str]:
    return {w.subject.name for w in world.by_namespace.get(namespace, ()) if w.kind == limits.kind}


RULES = (
    Rule(
        "hpa-misspelt",
        WARNING,
        scaled,
        summary="An autoscaler of a workload that is not among the manifests, beside one that has none",
        why="It scales nothing: the workload stays at its replicas.",
        fix="Correct scaleTargetRef",
        source="https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/",
    ),
)
