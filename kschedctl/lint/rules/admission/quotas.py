"""What the quotas of a namespace count, and containers lack: the pods are never made."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import Container
from kschedctl.lint import documentation as doc
from kschedctl.lint.manifest_kinds import LimitRangeItem
from kschedctl.lint.rule import WARNING, Rule
from kschedctl.lint.rules.admission.limit_ranges import limits_for
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
        for workload in () if scoped or not demanded else of_namespace(world, subject):
            limits = [item for _, item in limits_for(world, workload.subject) if item.type == "Container"]
            for i, container in enumerate(workload.spec.containers):
                lacking = [name for name in demanded if not _has(workload, container, limits, *_DEMANDED[name])]
                if lacking:
                    message = f"must specify {', '.join(lacking)}: quota {subject.name} refuses the pods"
                    yield workload.problem(("containers", i), message)


def of_namespace(world: World, subject: Subject) -> Iterator[Workload]:
    """The workloads of the namespace of an object."""
    for workload in world.by_namespace.get(subject.namespace or "default", ()):
        if world.in_one_namespace(subject, workload.subject):
            yield workload


def _has(workload: Workload, container: Container, limits: list[LimitRangeItem], part: str, name: str) -> bool:
    """Whether it has a request, or a limit, of a resource, be it by default."""
    given = [container.resources.limits, *(limit.default for limit in limits), *(limit.max for limit in limits)]
    if part == "requests":
        given += [container.resources.requests, *(limit.default_request for limit in limits)]
    pod_level = workload.spec.resources
    given += [pod_level.requests, pod_level.limits] if pod_level else []
    return any(name in each for each in given)


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
)
