"""Quotas that are smaller than what the workloads of their namespace ask for together.

Upstream: pkg/quota/v1/evaluator/core/{pods,persistent_volume_claims}.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial, reduce

import msgspec

from kschedctl.api.objects import Container, Pod, ResourceRequirements
from kschedctl.api.pod_requests import container_limits, pod_requests, quantities
from kschedctl.api.quantity import Quantity, QuantityError, parse
from kschedctl.lint import documentation as doc
from kschedctl.lint.manifests.amounts import readable
from kschedctl.lint.rule import WARNING, Rule
from kschedctl.lint.rules.admission.quotas import of_namespace
from kschedctl.lint.subject import Problem, Subject
from kschedctl.lint.workload import SERVING, Workload
from kschedctl.lint.world import World

_PODS = ("pods", "count/pods")
_REQUESTED = ("cpu", "memory", "ephemeral-storage")
"""What a quota counts under its name alone, as requests."""
_COUNTED = {
    "deployments.apps": "Deployment",
    "statefulsets.apps": "StatefulSet",
    "jobs.batch": "Job",
    "cronjobs.batch": "CronJob",
    "services": "Service",
    "persistentvolumeclaims": "PersistentVolumeClaim",
}
"""What a quota counts, with ``count/`` before it or not -> the kind of the objects."""
_MOST_NAMED = 3


def exceeded(world: World) -> Iterator[Problem]:
    for subject, found in world.linted("ResourceQuota"):
        if found.spec.scopes or found.spec.scope_selector.match_expressions:
            continue
        workloads = [w for w in of_namespace(world, subject) if w.replicas and not w.owned]
        for name, hard in found.spec.hard.items():
            try:
                bound = parse(str(hard))
                said = _exceeds(workloads, name, bound) or _objects(world, subject, name, bound)
            except QuantityError:  # what cannot be read is no quota
                continue
            if said:
                yield subject.problem(("spec", "hard", name), f"{said}: the quota refuses what is beyond {hard}")


def _objects(world: World, subject: Subject, name: str, hard: Quantity) -> str:
    """What of the objects of a kind, or of the claims for storage, is more than the quota allows."""
    namespace = subject.namespace or "default"
    kind = _COUNTED.get(name.removeprefix("count/"), "")
    there = len(world.names_beside(subject, kind, namespace)) if kind else 0
    if hard < parse(there):
        return f"there are {there:,} objects of kind {kind}"
    if name != "requests.storage":
        return ""
    claims = [i for i in world.linted("PersistentVolumeClaim") if (i.subject.namespace or "default") == namespace]
    sizes = (readable(claim.spec.resources.requests).get("storage") for claim in world.beside(subject, claims))
    asked = sum_of(size for size in sizes if size is not None)
    return f"its claims ask for {asked}" if hard < asked else ""


def _exceeds(workloads: list[Workload], name: str, hard: Quantity) -> str:
    """What of the workloads together, or of one alone, is more than the quota allows."""
    need = {workload: amount for workload in workloads if (amount := _amount(workload, name)) is not None}
    kept = {workload: amount for workload, amount in need.items() if workload.kind in SERVING or workload.kind == "Pod"}
    total = partial(_sum, need)
    if hard < total({w: w.at_least for w in kept}):
        return f"{_names(kept)} ask for {total({w: w.at_least for w in kept})}"
    alone = [w for w in need if hard < total({w: w.at_most})]
    if alone:
        return f"{alone[0].subject} asks for {total({alone[0]: alone[0].at_most})}"
    if hard < total({w: w.at_most for w in kept}):
        return f"{_names(kept)} ask for {total({w: w.at_most for w in kept})} once the autoscalers are at their most"
    for workload in kept:
        surge, unavailable = workload.surge()
        if surge and not unavailable and hard < total({w: w.at_least + (w is workload) for w in kept}):
            return f"a rollout of {workload.subject} starts a pod before an old one goes, and there is no room for it"
    return ""


def _sum(need: dict[Workload, Quantity], counts: dict[Workload, int]) -> Quantity:
    amounts = (replace(need[w], mantissa=need[w].mantissa * count, written="") for w, count in counts.items())
    return sum_of(amounts)


def sum_of(amounts: Iterable[Quantity]) -> Quantity:
    return reduce(Quantity.add, amounts, parse(0))


def _names(workloads: dict[Workload, Quantity]) -> str:
    names = [str(workload.subject) for workload in workloads]
    more = len(names) - _MOST_NAMED
    return " and ".join(names[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _amount(workload: Workload, name: str) -> Quantity | None:
    """What one pod uses of a quota's resource; None where it uses none."""
    if name in _PODS:
        return parse(1)
    pod = _defaulted(workload.pod)
    part, _, resource = name.partition(".") if name.startswith(("requests.", "limits.")) else ("requests", "", name)
    if part == "requests" and (name != resource or name in _REQUESTED or name.startswith("hugepages-")):
        return pod_requests(pod).get(resource)
    if part == "limits":
        pod_level = quantities(pod.spec.resources.limits) if pod.spec.resources else {}
        return {**container_limits(pod.spec.containers, pod.spec.init_containers), **pod_level}.get(resource)
    return None


def _defaulted(pod: Pod) -> Pod:
    """With the requests that containers have since they have a limit."""
    spec = pod.spec
    containers, init_containers = (tuple(map(_with_requests, each)) for each in (spec.containers, spec.init_containers))
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(spec, containers=containers, init_containers=init_containers)
    )


def _with_requests(container: Container) -> Container:
    given = container.resources
    return msgspec.structs.replace(
        container, resources=ResourceRequirements({**given.limits, **given.requests}, given.limits)
    )


RULES = (
    Rule(
        "rq-quota-exceeded",
        WARNING,
        exceeded,
        summary="A quota that is smaller than what the workloads of its namespace ask for",
        why="Admission refuses the pods that exceed it: the controller keeps trying, and replicas are missing.",
        fix="Raise the quota, or lower replicas or requests",
        source=f"{doc.QUOTAS}; pkg/quota/v1/evaluator/core/pods.go (v1.36)",
    ),
)
