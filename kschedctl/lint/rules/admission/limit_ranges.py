"""What the LimitRanges of a namespace refuse: containers, whole pods and claims.

Upstream: plugin/pkg/admission/limitranger/admission.go, and SetDefaults_LimitRangeItem of pkg/apis/core/v1 (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from kschedctl.api.objects import Container, ResourceRequirements, Resources
from kschedctl.api.pod_requests import container_limits, pod_requests, quantities
from kschedctl.api.quantity import Quantity
from kschedctl.lint.manifest_kinds import LimitRangeItem
from kschedctl.lint.manifests.amounts import readable
from kschedctl.lint.rule import ERROR, Rule
from kschedctl.lint.subject import Path, Problem, Subject
from kschedctl.lint.workload import Workload
from kschedctl.lint.world import World

Quantities = Mapping[str, Quantity]


class _Refusal(NamedTuple):
    """Of an amount; ``part`` is where it stands, ``requests`` or ``limits``."""

    part: str
    name: str
    said: str


def limits_for(world: World, subject: Subject) -> Iterator[tuple[Subject, LimitRangeItem]]:
    """The items of the LimitRanges in the namespace of an object, with the LimitRange of each."""
    for limit_range, found in world.linted("LimitRange"):
        if world.in_one_namespace(limit_range, subject):
            yield from ((limit_range, item) for item in found.spec.limits)


def limit_range(world: World) -> Iterator[Problem]:
    for workload in world.workloads if world.linted("LimitRange") else ():
        limits = list(limits_for(world, workload.subject))
        yield from _of_workload(workload, limits)
    for subject, claim in world.linted("PersistentVolumeClaim"):
        for by, item in limits_for(world, subject):
            asked = readable(claim.spec.resources.requests)
            for refusal in _refusals(item, asked, {}) if item.type == "PersistentVolumeClaim" else ():
                path = ("spec", "resources", "requests", refusal.name)
                yield subject.problem(path, f"{refusal.said}: LimitRange {by.name} refuses the claim")


def _of_workload(workload: Workload, limits: list[tuple[Subject, LimitRangeItem]]) -> Iterator[Problem]:
    spec = workload.spec
    filled = {f: [_filled(c, limits) for c in getattr(spec, f)] for f in ("containers", "init_containers")}
    for field, key in (("containers", "containers"), ("init_containers", "initContainers")):
        for i, (written, container) in enumerate(zip(getattr(spec, field), filled[field], strict=True)):
            asked, most = quantities(container.resources.requests), quantities(container.resources.limits)
            for by, item in limits:
                for found in (*_refusals(item, asked, most), *_over_default(item, written, asked)):
                    there = found.name in getattr(written.resources, found.part)
                    path: Path = (key, i, "resources", found.part, found.name) if there else (key, i)
                    if item.type == "Container":
                        yield workload.problem(path, f"{found.said}: LimitRange {by.name} refuses the pods")
    pod = msgspec.structs.replace(
        workload.pod,
        spec=msgspec.structs.replace(
            spec, containers=tuple(filled["containers"]), init_containers=tuple(filled["init_containers"]), overhead={}
        ),
    )
    most = container_limits(pod.spec.containers, pod.spec.init_containers)
    for by, item in limits:
        for found in _refusals(item, pod_requests(pod), most) if item.type == "Pod" else ():
            yield workload.problem(("containers",), f"{found.said}: LimitRange {by.name} refuses the pods")


def _filled(container: Container, limits: list[tuple[Subject, LimitRangeItem]]) -> Container:
    """With the requests and limits that it gets by default: first its own limits as requests, then by LimitRanges."""
    given = container.resources
    most, asked = dict(given.limits), {**given.limits, **given.requests}
    for _, item in limits:
        if item.type == "Container":
            default = _written(item.max) | _written(item.default)
            most = {**default, **most}
            asked = {**_written(item.min), **default, **_written(item.default_request), **asked}
    return msgspec.structs.replace(container, resources=ResourceRequirements(asked, most))


def _written(bounds: Resources) -> Resources:
    """Without what cannot be read."""
    return {name: bounds[name] for name in readable(bounds)}


def _refusals(item: LimitRangeItem, asked: Quantities, most: Quantities) -> Iterator[_Refusal]:
    of = f"usage per {item.type}"
    for name, bound in readable(item.min).items():
        for part, amounts in (("requests", asked), ("limits", most)):
            if name in amounts and amounts[name] < bound:
                yield _Refusal(part, name, f"minimum {name} {of} is {bound}, but {part[:-1]} is {amounts[name]}")
                break
        if name not in asked and item.type == "Pod":  # containers get what they lack
            yield _Refusal("requests", name, f"minimum {name} {of} is {bound}.  No request is specified")
    for name, bound in readable(item.max).items():
        for part, amounts in (("limits", most), ("requests", asked)):
            if name in amounts and bound < amounts[name]:
                yield _Refusal(part, name, f"maximum {name} {of} is {bound}, but {part[:-1]} is {amounts[name]}")
                break
        if name not in most and item.type == "Pod":
            yield _Refusal("limits", name, f"maximum {name} {of} is {bound}.  No limit is specified")
    for name, ratio in readable(item.max_limit_request_ratio).items():
        least, upper = (amounts[name].milli_value() if name in amounts else 0 for amounts in (asked, most))
        if least and upper and upper * 1000 > ratio.milli_value() * least:
            said = f"{name} max limit to request ratio per {item.type} is {ratio}, but provided ratio is"
            yield _Refusal("limits", name, f"{said} {upper / least:g}")


def _over_default(item: LimitRangeItem, written: Container, asked: Quantities) -> Iterator[_Refusal]:
    """Requests above the limit that the container gets since it has none of its own."""
    for name, most in readable(item.default).items():
        default = name not in written.resources.limits
        if default and name in written.resources.requests and most < asked[name]:
            said = f"request {name} is {asked[name]}, above the limit of {most} that a container without one gets"
            yield _Refusal("requests", name, said)


RULES = (
    Rule(
        "rq-limit-range",
        ERROR,
        limit_range,
        summary="Requests, limits or claims outside the LimitRange of their namespace",
        why="Admission refuses the pods: the controller keeps trying and nothing starts.",
        fix="Change the amount, or the LimitRange",
        source="plugin/pkg/admission/limitranger/admission.go (v1.36)",
    ),
)
