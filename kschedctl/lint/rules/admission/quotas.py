"""What the quotas and the limits of a namespace refuse: the pods are never made."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import Container, Resources
from kschedctl.api.pod_requests import quantities
from kschedctl.api.quantity import QuantityError
from kschedctl.lint import documentation as doc
from kschedctl.lint.manifest_kinds import LimitRangeItem
from kschedctl.lint.rule import ERROR, WARNING, Rule
from kschedctl.lint.subject import Problem, Subject
from kschedctl.lint.workload import Workload
from kschedctl.lint.world import World

_DEMANDED = {
    "cpu": ("requests", "cpu"),
    "memory": ("requests", "memory"),
    "requests.cpu": ("requests", "cpu"),
    "requests.memory": ("requests", "memory"),
    "limits.cpu": ("limits", "cpu"),
    "limits.memory": ("limits", "memory"),
}
"""What a quota counts -> what each container then has to have. Upstream: podEvaluator.Constraints."""


def quota(world: World) -> Iterator[Problem]:
    for subject, found in world.linted("ResourceQuota"):
        scoped = found.spec.scopes or found.spec.scope_selector.match_expressions
        demanded = [name for name in found.spec.hard if name in _DEMANDED]
        for workload in () if scoped or not demanded else _beside(world, subject):
            limits = [limit for _, limit in _limits(world, workload)]
            for i, container in enumerate(workload.spec.containers):
                lacking = [name for name in demanded if not _has(workload, container, limits, *_DEMANDED[name])]
                if lacking:
                    message = f"must specify {', '.join(lacking)}: quota {subject.name} refuses the pods"
                    yield workload.problem(("containers", i), message)


def _beside(world: World, subject: Subject) -> Iterator[Workload]:
    """The workloads of the namespace of an object."""
    for workload in world.by_namespace.get(subject.namespace or "default", ()):
        if world.variants.together(subject, workload.subject):
            yield workload


def _limits(world: World, workload: Workload) -> Iterator[tuple[Subject, LimitRangeItem]]:
    for subject, found in world.linted("LimitRange"):
        here = (subject.namespace or "default") == workload.namespace
        if here and world.variants.together(subject, workload.subject):
            yield from ((subject, item) for item in found.of_containers)


def _has(workload: Workload, container: Container, limits: list[LimitRangeItem], part: str, name: str) -> bool:
    """Whether it has a request, or a limit, of a resource, be it by default."""
    given = [container.resources.limits, *(limit.default for limit in limits), *(limit.max for limit in limits)]
    if part == "requests":
        given += [container.resources.requests, *(limit.default_request for limit in limits)]
    pod_level = workload.spec.resources
    given += [pod_level.requests, pod_level.limits] if pod_level else []
    return any(name in each for each in given)


def limit_range(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        for subject, limit in _limits(world, workload):
            for i, container in enumerate(workload.spec.containers):
                for (part, name), said in _out_of_range(container, limit):
                    message = f"{said}: LimitRange {subject.name} refuses the pods"
                    yield workload.problem(("containers", i, "resources", part, name), message)


def _out_of_range(container: Container, limit: LimitRangeItem) -> Iterator[tuple[tuple[str, str], str]]:
    """Upstream: maxConstraint and minConstraint in plugin/pkg/admission/limitranger/admission.go (v1.36)."""
    for part, asked in (("requests", container.resources.requests), ("limits", container.resources.limits)):
        one = part.removesuffix("s")
        for name, most in limit.max.items():
            if _is_above(asked, name, most):
                yield (part, name), f"maximum {name} usage per Container is {most}, but {one} is {asked[name]}"
        for name, least in limit.min.items():
            if name in asked and _is_above({name: least}, name, asked[name]):
                yield (part, name), f"minimum {name} usage per Container is {least}, but {one} is {asked[name]}"


def _is_above(asked: Resources, name: str, bound: str | int | float) -> bool:
    try:
        return name in asked and quantities({name: asked[name]})[name] > quantities({name: bound})[name]
    except QuantityError:
        return False


RULES = (
    Rule(
        "rq-quota",
        WARNING,
        quota,
        summary="Containers without what a quota of their namespace counts",
        why="Admission refuses pods whose containers do not all have it: the controller keeps trying and nothing "
        "starts. Checked when ResourceQuotas are among the manifests.",
        fix="Set it, or give the namespace a LimitRange with defaults",
        source=f"{doc.QUOTAS}; pkg/quota/v1/evaluator/core/pods.go (v1.36)",
    ),
    Rule(
        "rq-limit-range",
        ERROR,
        limit_range,
        summary="Requests or limits outside the LimitRange of their namespace",
        why="Admission refuses the pods: the controller keeps trying and nothing starts.",
        fix="Change the amount, or the LimitRange",
        source="plugin/pkg/admission/limitranger/admission.go (v1.36)",
    ),
)
