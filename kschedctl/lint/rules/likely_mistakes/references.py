"""What refers to an object by a name that nothing among the manifests has, but something nearly has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kschedctl.lint import documentation as doc
from kschedctl.lint.near_names import one_meant
from kschedctl.lint.references import NameReference, elsewhere, misspelt
from kschedctl.lint.rule import WARNING, Rule
from kschedctl.lint.rules.claims import class_names
from kschedctl.lint.subject import Problem
from kschedctl.lint.world import World

_SCHEDULERS = ("default-scheduler", "volcano", "yunikorn", "kai-scheduler", "koord-scheduler", "run-ai-scheduler")
_QUEUE = "kueue.x-k8s.io/queue-name"


def storage(world: World) -> Iterator[Problem]:
    if world.cluster is None:  # else vl-missing speaks
        references = list(_of_storage(world))
        yield from misspelt(world, references)
        yield from elsewhere(world, (each for each in references if each.kind == "PersistentVolumeClaim"))


def _of_storage(world: World) -> Iterator[NameReference]:
    for subject, path, name in class_names(world):
        yield NameReference(subject, path, "StorageClass", name)
    for workload in world.workloads:
        for i, volume in enumerate(workload.spec.volumes):
            if volume.persistent_volume_claim is not None:
                path = workload.at_field("volumes", i, "persistentVolumeClaim", "claimName")
                yield NameReference(
                    workload.subject, path, "PersistentVolumeClaim", volume.persistent_volume_claim.claim_name
                )
    for subject, claim in world.linted("PersistentVolumeClaim"):
        yield NameReference(subject, ("spec", "volumeName"), "PersistentVolume", claim.spec.volume_name)
    for subject, volume in world.linted("PersistentVolume"):
        if (kept := volume.spec.claim_ref) is not None:
            path, namespace = ("spec", "claimRef", "name"), kept.namespace or "default"
            yield NameReference(subject, path, "PersistentVolumeClaim", kept.name, namespace)


_CLAIM = ("PersistentVolumeClaim",)


def devices(world: World) -> Iterator[Problem]:
    if world.cluster is None:  # else dra-no-device speaks
        references = list(_of_devices(world))
        yield from misspelt(world, references)
        yield from elsewhere(world, (each for each in references if each.kind != "DeviceClass"))


def _of_devices(world: World) -> Iterator[NameReference]:
    for workload in world.workloads:
        for i, claim in enumerate(workload.spec.resource_claims):
            template, named = claim.resource_claim_template_name or "", claim.resource_claim_name or ""
            at = workload.at_field("resourceClaims", i)
            yield NameReference(workload.subject, (*at, "resourceClaimTemplateName"), "ResourceClaimTemplate", template)
            yield NameReference(workload.subject, (*at, "resourceClaimName"), "ResourceClaim", named)
    for kind, spec_at in (("ResourceClaim", ("spec",)), ("ResourceClaimTemplate", ("spec", "spec"))):
        for subject, found in world.linted(kind):
            spec = found.spec if kind == "ResourceClaim" else found.spec.spec
            for i, request in enumerate(spec.devices.requests):
                path = (*spec_at, "devices", "requests", i)
                if request.exactly is not None:
                    at = (*path, "exactly", "deviceClassName")
                    yield NameReference(subject, at, "DeviceClass", request.exactly.device_class_name)
                for j, one in enumerate(request.first_available):
                    at = (*path, "firstAvailable", j, "deviceClassName")
                    yield NameReference(subject, at, "DeviceClass", one.device_class_name)


def runtime_class(world: World) -> Iterator[Problem]:
    yield from misspelt(world, _of_pods(world, "RuntimeClass", "runtimeClassName"))


def service_account(world: World) -> Iterator[Problem]:
    yield from misspelt(world, _of_pods(world, "ServiceAccount", "serviceAccountName"))


def _of_pods(world: World, kind: str, field: str) -> Iterator[NameReference]:
    """What a field of the pods' specs names."""
    for workload in world.workloads:
        name = workload.written.get(field)
        yield NameReference(workload.subject, workload.at_field(field), kind, name if isinstance(name, str) else "")


def gang(world: World) -> Iterator[Problem]:
    yield from misspelt(world, _of_gangs(world))


def _of_gangs(world: World) -> Iterator[NameReference]:
    for workload in world.workloads:
        group = workload.spec.scheduling_group
        name = (group.pod_group_name if group else "") or ""
        yield NameReference(workload.subject, workload.at_field("schedulingGroup", "podGroupName"), "PodGroup", name)
    for subject in world.subjects:
        metadata = subject.document.get("metadata")
        labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
        queue = labels.get(_QUEUE) if isinstance(labels, Mapping) else None
        if isinstance(queue, str):
            yield NameReference(subject, ("metadata", "labels", _QUEUE), "LocalQueue", queue)


def scheduler(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        name = workload.spec.scheduler_name
        if name not in _SCHEDULERS and (meant := one_meant(name, _SCHEDULERS)):
            yield workload.problem(("schedulerName",), f'"{name}" is nearly {meant}', f"Write {meant}")


_PENDING = "The pods stay Pending until somebody creates what they name."
_REFUSED = "Admission refuses the pods: the controller keeps trying and nothing starts."
_CORRECT = "Correct the name"
RULES = (
    Rule(
        "vl-misspelt",
        WARNING,
        storage,
        summary="A claim, volume or class of storage that is not among the manifests, beside one that is nearly it, or "
        "in another namespace",
        why=_PENDING,
        fix=_CORRECT,
        source=doc.VOLUMES,
    ),
    Rule(
        "dra-misspelt",
        WARNING,
        devices,
        summary="A ResourceClaim, its template or a DeviceClass that is not among the manifests, beside one that is "
        "nearly it",
        why=_PENDING,
        fix=_CORRECT,
        source=doc.DEVICES,
    ),
    Rule(
        "gg-misspelt",
        WARNING,
        gang,
        summary="A PodGroup or a queue of Kueue that is not among the manifests, beside one that is nearly it",
        why="The pods wait, gated or suspended, until somebody creates what they name.",
        fix=_CORRECT,
        source=f"{doc.PLUGINS}: gangscheduling; https://kueue.sigs.k8s.io/docs/concepts/local_queue/",
    ),
    Rule(
        "rc-misspelt",
        WARNING,
        runtime_class,
        summary="A RuntimeClass that is not among the manifests, beside one that is nearly it",
        why=_REFUSED,
        fix=_CORRECT,
        source="https://kubernetes.io/docs/concepts/containers/runtime-class/",
    ),
    Rule(
        "sa-misspelt",
        WARNING,
        service_account,
        summary="A ServiceAccount that is not among the manifests, beside one that is nearly it",
        why=_REFUSED,
        fix=_CORRECT,
        source="plugin/pkg/admission/serviceaccount (v1.36)",
    ),
    Rule(
        "sc-misspelt",
        WARNING,
        scheduler,
        summary="A schedulerName that is nearly default-scheduler, or that of another well-known one",
        why="Nobody looks at the pods: they stay Pending without a single event.",
        fix="Correct schedulerName, or leave it out",
        source=doc.SCHEDULERS,
    ),
)
