"""Quotas that are smaller than what the workloads of their namespace ask for together.

Upstream: pkg/quota/v1/evaluator/core/{pods,persistent_volume_claims}.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce

import msgspec

from kschedctl.api.objects import Container, Pod, ResourceRequirements
from kschedctl.api.pod_requests import container_limits, pod_requests, quantities
from kschedctl.api.quantity import Format, Quantity, QuantityError, parse
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
    kind = _COUNTED.get(name.removeprefix("count/"), "")
    there = [s for s in world.subjects if s.kind == kind and world.in_one_namespace(subject, s)]
    if hard < parse(len(there)):
        return f"there are {len(there):,} objects of kind {kind}"
    if name != "requests.storage":
        return ""
    claims = [c for s, c in world.linted("PersistentVolumeClaim") if world.in_one_namespace(subject, s)]
    sizes = (readable(claim.spec.resources.requests).get("storage") for claim in claims)
    asked = _sum(size for size in sizes if size is not None)
    return f"the claims ask for {_shown(asked)}" if hard < asked else ""


def _exceeds(workloads: list[Workload], name: str, hard: Quantity) -> str:
    """What of the workloads together, or of one alone, is more than the quota allows."""
    need = {workload: amount for workload in workloads if (amount := _amount(workload, name)) is not None}
    kept = [workload for workload in need if workload.kind in SERVING or workload.kind == "Pod"]
    least = {workload: _times(amount, workload.at_least) for workload, amount in need.items()}
    most = {workload: _times(amount, workload.at_most) for workload, amount in need.items()}
    together = _sum(least[workload] for workload in kept)
    if hard < together:
        return f"{_ask(kept)} for {_shown(together)}"
    if alone := [workload for workload in need if hard < most[workload]]:
        return f"{_ask(alone[:1])} for {_shown(most[alone[0]])}"
    if hard < (together_most := _sum(most[workload] for workload in kept)):
        return f"{_ask(kept)} for {_shown(together_most)} once the autoscalers are at their most"
    for workload in kept:
        surge, unavailable = workload.surge()
        if surge and not unavailable and hard < together.add(need[workload]):
            return f"a rollout of {workload.subject} starts a pod before an old one goes, and there is no room for it"
    return ""


def _times(amount: Quantity, count: int) -> Quantity:
    return replace(amount, mantissa=amount.mantissa * count, written="")


def _sum(amounts: Iterable[Quantity]) -> Quantity:
    return reduce(Quantity.add, amounts, parse(0))


def _shown(amount: Quantity) -> str:
    """In whole mebibytes where it is bytes, and many."""
    if amount.format is Format.BINARY_SI and amount.value() >= 1 << 20:
        return f"{amount.value() >> 20:,} Mi"
    return str(amount)


def _ask(workloads: list[Workload]) -> str:
    names = [str(workload.subject) for workload in workloads]
    more = len(names) - _MOST_NAMED
    if len(names) == 1:
        return f"{names[0]} asks"
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "") + " ask"


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
