"""Requests of resources that are missing or unknown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from kschedctl.api.field_errors import Key
from kschedctl.api.objects import Container
from kschedctl.api.resource_names import CPU, MEMORY
from kschedctl.api.validation.resources import resource_name
from kschedctl.lint import documentation as doc
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule, RuleProfile
from kschedctl.lint.subject import Problem
from kschedctl.lint.workload import Workload
from kschedctl.lint.world import World

NEEDED = (CPU, MEMORY)
_TO_AN_END = ("Job", "Workflow", "Training", "Analysis", "Experiment")
"""In the names of kinds whose pods run to an end."""
_WITH_REQUESTS = ".k8s.elastic.co"
"""Groups whose operators give containers requests where a template has none."""


def missing(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        if not _ends(workload):
            yield from _missing(workload)


def missing_in_jobs(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        if _ends(workload):
            yield from _missing(workload)


def _ends(workload: Workload) -> bool:
    """Whether its pods run to an end, and once, or are nobody's."""
    kind = workload.subject.kind
    ends = any(word in kind for word in _TO_AN_END) and kind != "CronJob"
    return ends or kind in ("Pod", "PodTemplate")


def _missing(workload: Workload) -> Iterator[Problem]:
    if workload.kind.endswith(_WITH_REQUESTS):
        return
    pod_level = workload.spec.resources
    given = {*pod_level.requests, *pod_level.limits} if pod_level else set()
    beside = [c if c.restart_policy == "Always" else None for c in workload.spec.init_containers]
    kept = [*_numbered("containers", workload.spec.containers), *_numbered("initContainers", beside)]
    for field, i, container in kept:
        has = given | {*container.resources.requests, *container.resources.limits}
        lacking = [name for name in NEEDED if name not in has]
        partial = workload.made_by and not container.image  # an operator adds its own to it
        if lacking and not partial:
            message = f"container {container.name} requests no {' and no '.join(lacking)}"
            yield workload.problem((field, i), message)


def _numbered(field: str, containers: Sequence[Container | None]) -> Iterator[tuple[str, int, Container]]:
    """Those that run as long as the pod does."""
    return ((field, i, container) for i, container in enumerate(containers) if container is not None)


def unknown_resource(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        for field, containers in (
            ("containers", workload.spec.containers),
            ("initContainers", workload.spec.init_containers),
        ):
            for i, container in enumerate(containers):
                for part in ("requests", "limits"):
                    for name in getattr(container.resources, part):
                        at = workload.at_field(field, i, "resources", part, Key(name))
                        yield from workload.refused(islice(resource_name(name, at), 1))


def ephemeral_missing(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        asked = any(
            {*c.resources.requests, *c.resources.limits} & {"ephemeral-storage"} for c in workload.spec.containers
        )
        if workload.on_disk and not asked:
            index, name = next(iter(workload.on_disk.items()))
            message = f"emptyDir {name} is on the node's disk, but no container requests ephemeral-storage"
            yield workload.problem(("volumes", index), message)


_PACKED = "The scheduler counts it as needing nothing and packs nodes until pods are throttled, killed or evicted."
RULES = (
    Rule(
        "rq-missing",
        WARNING,
        missing,
        summary="Container, or sidecar, without cpu or memory requests",
        why=_PACKED,
        fix="Set resources.requests for cpu and memory",
        source=doc.REQUESTS,
        once_an_object=True,
    ),
    Rule(
        "rq-missing-in-jobs",
        NOTE,
        missing_in_jobs,
        summary="Container of a Job, or of a pod by itself, without cpu or memory requests",
        why=_PACKED,
        fix="Set resources.requests for cpu and memory",
        source=doc.REQUESTS,
        once=True,
        profile=RuleProfile.STRICT,
    ),
    Rule(
        "rq-unknown-resource",
        ERROR,
        unknown_resource,
        summary="Request of a resource that no container may ask for",
        why="The API server refuses containers with such names; the scheduler would ignore them.",
        fix="Write the full name, such as nvidia.com/gpu",
        source=f"{doc.REQUESTS}; {doc.VALIDATION}",
    ),
    Rule(
        "rq-ephemeral-missing",
        NOTE,
        ephemeral_missing,
        summary="emptyDir without a request for ephemeral-storage",
        why="The disk is not reserved: when the node runs short, the kubelet evicts pods.",
        fix="Request ephemeral-storage",
        source=f"{doc.REQUESTS}#local-ephemeral-storage",
        profile=RuleProfile.STRICT,
        once=True,
    ),
)
