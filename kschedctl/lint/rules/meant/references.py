"""What refers to an object by a name that nothing among the manifests has, but something nearly has."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from kschedctl.lint import documentation as doc
from kschedctl.lint.rule import WARNING, Rule
from kschedctl.lint.subject import Problem
from kschedctl.lint.terms import required_terms
from kschedctl.lint.world import World

_NEAR = 0.8
"""How much two names are alike, from 0 to 1, where one was meant for the other."""
_DEFAULT = "default-scheduler"


def claim(world: World) -> Iterator[Problem]:
    there: dict[str, set[str]] = {}
    for item in world.linted("PersistentVolumeClaim"):
        there.setdefault(item.subject.namespace or "default", set()).add(item.subject.name)
    unused = {namespace: names.difference(_claimed(world, namespace)) for namespace, names in there.items()}
    for workload in world.workloads if world.cluster is None else ():
        free = sorted(unused.get(workload.namespace, ()))
        for i, volume in enumerate(workload.spec.volumes if free else ()):
            name = volume.persistent_volume_claim.claim_name if volume.persistent_volume_claim else ""
            known = name in there[workload.namespace]
            if name and not known and (near := get_close_matches(name, free, 1, _NEAR)):
                path = ("volumes", i, "persistentVolumeClaim", "claimName")
                yield workload.problem(path, f'there is no claim "{name}", and no use of claim "{near[0]}"')


def _claimed(world: World, namespace: str) -> set[str]:
    """The claims that the workloads of a namespace name."""
    volumes = (volume for workload in world.by_namespace.get(namespace, ()) for volume in workload.spec.volumes)
    return {v.persistent_volume_claim.claim_name for v in volumes if v.persistent_volume_claim is not None}


def scaled(world: World) -> Iterator[Problem]:
    by_kind: dict[tuple[str, str], set[str]] = {}
    for workload in world.workloads:
        by_kind.setdefault((workload.namespace, workload.kind), set()).add(workload.subject.name)
    autoscalers = [(subject, found.limits) for subject, found in world.linted("HorizontalPodAutoscaler")]
    targets = {(subject.namespace or "default", limits.name) for subject, limits in autoscalers if limits}
    for subject, limits in autoscalers:
        namespace = subject.namespace or "default"
        there = by_kind.get((namespace, limits.kind), set()) if limits else set()
        if limits is None or limits.name in there:
            continue
        unscaled = [name for name in sorted(there) if (namespace, name) not in targets]
        if near := get_close_matches(limits.name, unscaled, 1, _NEAR):
            message = f'there is no {limits.kind} "{limits.name}", and "{near[0]}" has no autoscaler'
            yield subject.problem(("spec", "scaleTargetRef", "name"), message)


def affinity_elsewhere(world: World) -> Iterator[Problem]:
    for workload in world.workloads if world.cluster is None else ():
        for term in required_terms(workload):
            own = term.namespaces == {workload.namespace} and term.namespace_selector.nothing
            if not own or term.selects_itself or world.selected(workload.namespace, term.selector):
                continue
            others = [
                found
                for namespace in world.by_namespace
                for found in world.selected_beside(workload.subject, namespace, term.selector)
            ]
            if others and not world.others_own((workload.namespace,)):
                message = f"speaks of pods of namespace {workload.namespace} only, not of those of {others[0].subject}"
                yield workload.problem(term.path, message)


def scheduler(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        name = workload.spec.scheduler_name or _DEFAULT
        if name != _DEFAULT and get_close_matches(name, [_DEFAULT], 1, _NEAR):
            yield workload.problem(("schedulerName",), f'"{name}" is nearly {_DEFAULT}', f"Write {_DEFAULT}")


RULES = (
    Rule(
        "vl-misspelt",
        WARNING,
        claim,
        summary="A claim that is not among the manifests, beside one that nothing uses",
        why="The pods stay Pending until somebody creates the claim that they name.",
        fix="Correct the name",
        source=doc.VOLUMES,
    ),
    Rule(
        "hpa-misspelt",
        WARNING,
        scaled,
        summary="An autoscaler of a workload that is not among the manifests, beside one that has none",
        why="It scales nothing: the workload stays at its replicas.",
        fix="Correct scaleTargetRef",
        source="https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/",
    ),
    Rule(
        "af-other-namespace",
        WARNING,
        affinity_elsewhere,
        summary="Required affinity to pods that are in another namespace",
        why="A term without namespaces speaks of the pod's own namespace: no node ever matches, the pods stay Pending.",
        fix="Add namespaces or namespaceSelector to the term",
        source=doc.AFFINITY,
    ),
    Rule(
        "sc-misspelt",
        WARNING,
        scheduler,
        summary="A schedulerName that is nearly default-scheduler",
        why="Nobody looks at the pods: they stay Pending without a single event.",
        fix="Write default-scheduler, or leave schedulerName out",
        source=doc.SCHEDULERS,
    ),
)
