"""Claims, classes of storage and Services that workloads name: whether they are there, and fit how pods come and go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kschedctl.lint import documentation as doc
from kschedctl.lint.rule import ERROR, WARNING, Rule
from kschedctl.lint.rules.storage import ONE_NODE
from kschedctl.lint.subject import Path, Problem, Subject
from kschedctl.lint.world import World


def missing(world: World) -> Iterator[Problem]:
    yield from _claims(world)
    if world.all_known("StorageClass", "PersistentVolume"):
        names = {found.metadata.name for found in world.known("StorageClass")}
        names |= {found.spec.storage_class_name for found in world.known("PersistentVolume")}
        for subject, path, name in class_names(world):
            if name and name not in names:
                yield subject.problem(path, f'storageclass.storage.k8s.io "{name}" not found')


def _claims(world: World) -> Iterator[Problem]:
    if not world.all_known("PersistentVolumeClaim"):
        return
    there = {(c.metadata.namespace or "default", c.metadata.name) for c in world.known("PersistentVolumeClaim")}
    for workload in world.workloads:
        for i, volume in enumerate(workload.spec.volumes):
            source = volume.persistent_volume_claim
            if source is not None and source.claim_name and (workload.namespace, source.claim_name) not in there:
                path = ("volumes", i, "persistentVolumeClaim", "claimName")
                yield workload.problem(path, f'persistentvolumeclaim "{source.claim_name}" not found')


def class_names(world: World) -> Iterator[tuple[Subject, Path, str]]:
    """The classes that claims that are not bound yet name, and templates of claims."""
    for subject, claim in world.linted("PersistentVolumeClaim"):
        if claim.status.phase != "Bound" and not claim.spec.volume_name:
            yield subject, ("spec", "storageClassName"), claim.spec.storage_class_name or ""
    for workload in world.workloads:
        for i, volume in enumerate(workload.spec.volumes):
            template = volume.ephemeral.volume_claim_template if volume.ephemeral else None
            if template is not None and template.spec is not None:
                inner = ("volumes", i, "ephemeral", "volumeClaimTemplate", "spec", "storageClassName")
                yield workload.subject, workload.at_field(*inner), template.spec.storage_class_name or ""
        if workload.kind == "StatefulSet":
            templates = _field(workload.subject.document, "spec", "volumeClaimTemplates")
            for i, claim in enumerate(templates if isinstance(templates, list) else ()):
                name, path = _field(claim, "spec", "storageClassName"), ("spec", "volumeClaimTemplates", i, "spec")
                yield workload.subject, (*path, "storageClassName"), name if isinstance(name, str) else ""


def rolling(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        surge, _ = workload.surge()
        for i, claim in world.claims(workload) if workload.at_most == 1 and surge else ():
            modes = claim.spec.access_modes
            if modes and all(mode in ONE_NODE for mode in modes):
                message = (
                    f"claim {claim.metadata.name} is for one {'pod' if modes == (ONE_NODE[1],) else 'node'}, but an "
                    "update starts the new pod before the old one is gone"
                )
                yield workload.problem(("volumes", i), message)


def no_service(world: World) -> Iterator[Problem]:
    written = [s for s in world.subjects if s.kind == "Service"]
    there = {(s.namespace or "default", s.name) for s in written}
    if world.cluster is not None:
        there |= {(s.metadata.namespace or "default", s.metadata.name) for s in world.cluster.services}
    known = {namespace for namespace, _ in there} if world.cluster is None else None
    for workload in world.workloads if world.all_known("Service") else ():
        name = _field(workload.subject.document, "spec", "serviceName") if workload.kind == "StatefulSet" else None
        seen = known is None or workload.namespace in known
        if isinstance(name, str) and name and seen and (workload.namespace, name) not in there:
            message = f'there is no Service "{name}": its pods have no names in DNS'
            yield workload.subject.problem(("spec", "serviceName"), message)


def _field(value: Any, *path: str) -> Any:
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


RULES = (
    Rule(
        "vl-missing",
        ERROR,
        missing,
        summary="A claim or class of storage that does not exist",
        why="The pods stay Pending until somebody creates it.",
        fix="Create it, or correct the name",
        source="pkg/scheduler/framework/plugins/volumebinding (v1.36)",
        needs_cluster=True,
    ),
    Rule(
        "vl-rwo-rolling",
        WARNING,
        rolling,
        summary="One replica with a volume for one node, and an update that starts another beside it",
        why="The new pod goes to another node, where the volume cannot be attached, and the old one stays until the "
        "new one is ready: the update never ends.",
        fix="Set strategy.type: Recreate, or use a StatefulSet",
        source=f"{doc.VOLUMES}; https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#strategy",
    ),
    Rule(
        "ss-no-service",
        WARNING,
        no_service,
        summary="A StatefulSet whose Service does not exist",
        why="Its pods get no stable names, so its members do not find each other. Checked against the cluster, or "
        "where the manifests have Services in its namespace.",
        fix="Create a headless Service of that name, or correct serviceName",
        source="https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#limitations",
    ),
)
