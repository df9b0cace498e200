"""Requests of resources that are missing or unknown."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from kschedctl.api.field_errors import Key
from kschedctl.api.resource_names import CPU, MEMORY
from kschedctl.api.validation.resources import resource_name
from kschedctl.lint import documentation as doc
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule
from kschedctl.lint.subject import Problem
from kschedctl.lint.world import World

NEEDED = (CPU, MEMORY)


def missing(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        pod_level = workload.spec.resources
        given = {*pod_level.requests, *pod_level.limits} if pod_level else set()
        for i, container in enumerate(workload.spec.containers):
            has = given | {*container.resources.requests, *container.resources.limits}
            lacking = [name for name in NEEDED if name not in has]
            if lacking:
                message = f"container {container.name} requests no {' and no '.join(lacking)}"
                yield workload.problem(("containers", i), message)


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


RULES = (
    Rule(
        "rq-missing",
        WARNING,
        missing,
        summary="Container without cpu or memory requests",
        why="The scheduler counts it as needing nothing and packs nodes until pods are throttled, killed or evicted.",
        fix="Set resources.requests for cpu and memory",
        source=doc.REQUESTS,
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
    ),
)
