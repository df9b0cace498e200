"""What quotas and LimitRanges of a namespace refuse: the pods are never made.

Upstream: pkg/quota/v1/evaluator/core/{pods,persistent_volume_claims}.go, plugin/pkg/admission/limitranger/admission.go,
and SetDefaults_LimitRangeItem of pkg/apis/core/v1 (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial, reduce

import msgspec

from kschedctl.admission.limit_ranger import Breach, breaches, claim_breaches, stored
from kschedctl.admission.resource_quota import DEMANDED, pod_usage
from kschedctl.api.objects import (
    Container,
    LimitRange,
    LimitRangeItem,
    LimitRangeSpec,
    PersistentVolumeClaim,
    Pod,
    ResourceQuota,
    ResourceRequirements,
    Resources,
)
from kschedctl.api.pod_requests import Quantities, aggregate_container_limits, compute_pod_requests, parse_quantities
from kschedctl.api.quantity import Format, Quantity, QuantityError, parse
from kschedctl.lint.framework import documentation as doc
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import ERROR, WARNING, Rule
from kschedctl.lint.objects.amounts import readable
from kschedctl.lint.objects.subject import Path, Problem, Subject, listed
from kschedctl.lint.objects.workload import SERVING, Workload
from kschedctl.text.counts import agreeing, counted


def lacking_for_quota(context: LintContext) -> Iterator[Problem]:
    for subject, quota in context.linted(ResourceQuota):
        scoped = quota.spec.scopes or quota.spec.scope_selector.match_expressions
        demanded = [name for name in quota.spec.hard if name in DEMANDED]
        for workload in () if scoped or not demanded else of_namespace(context, subject):
            for at, said in _said(context, workload):
                lacking = [name for name in demanded if name not in said]
                if lacking:
                    message = f"must specify {', '.join(lacking)}: quota {subject.name} refuses the pods"
                    yield workload.problem(at, message)


RQ_QUOTA = Rule(
    "rq-quota",
    WARNING,
    lacking_for_quota,
    summary="Containers without a request or limit that a quota in their namespace requires",
    why="Admission refuses pods whose containers do not all have it: the controller keeps trying and nothing "
    "starts. Checked when ResourceQuotas are among the manifests.",
    fix="Set it, or give the namespace a LimitRange with defaults",
    source=f"{doc.QUOTAS}; pkg/quota/v1/evaluator/core/pods.go (v1.36)",
)


def _said(context: LintContext, workload: Workload) -> Iterator[tuple[Path, Quantities]]:
    """What each container uses of quotas, be it by default; a pod that asks as a whole is not asked for more."""
    pod = _changed(workload.pod, partial(_filled, limits=list(limits_for(context, workload.subject))))
    filled = (*pod.spec.containers, *pod.spec.init_containers)
    for (at, _), container in zip(workload.containers, filled, strict=True):
        if workload.spec.resources is None:
            yield (
                at,
                pod_usage(parse_quantities(container.resources.requests), parse_quantities(container.resources.limits)),
            )


def of_namespace(context: LintContext, subject: Subject) -> Iterator[Workload]:
    """The workloads of the namespace of an object."""
    for workload in context.by_namespace.get(subject.namespace or "default", ()):
        if context.in_one_namespace(subject, workload.subject):
            yield workload


_PODS = ("pods", "count/pods")
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
BOUNDS = ("min", "max", "default", "default_request", "max_limit_request_ratio")


def exceeded(context: LintContext) -> Iterator[Problem]:
    for subject, quota in context.linted(ResourceQuota):
        if quota.spec.scopes or quota.spec.scope_selector.match_expressions:
            continue
        workloads = [w for w in of_namespace(context, subject) if w.replicas and not w.owned]
        for name, hard in quota.spec.hard.items():
            try:
                bound = parse(str(hard))
                excess = _exceeds(workloads, name, bound) or _objects(context, subject, name, bound)
            except QuantityError:  # what cannot be read is no quota
                continue
            if excess:
                yield subject.problem(("spec", "hard", name), f"{excess}: the quota refuses what is beyond {hard}")


RQ_QUOTA_EXCEEDED = Rule(
    "rq-quota-exceeded",
    WARNING,
    exceeded,
    summary="A quota smaller than what the workloads in its namespace request",
    why="Admission refuses the pods that exceed it: the controller keeps trying, and replicas are missing.",
    fix="Raise the quota, or lower replicas or requests",
    source=f"{doc.QUOTAS}; pkg/quota/v1/evaluator/core/pods.go (v1.36)",
)


def _objects(context: LintContext, subject: Subject, name: str, hard: Quantity) -> str:
    """How the objects of a kind, or the claims for storage, exceed the quota; empty where they do not."""
    kind = _COUNTED.get(name.removeprefix("count/"), "")
    there = [s for s in context.subjects if s.kind == kind and context.in_one_namespace(subject, s)]
    if hard < parse(len(there)):
        return f"there {agreeing(len(there), 'is', 'are')} {counted(len(there), 'object')} of kind {kind}"
    if name != "requests.storage":
        return ""
    claims = [c for s, c in context.linted(PersistentVolumeClaim) if context.in_one_namespace(subject, s)]
    sizes = (readable(claim.spec.resources.requests).get("storage") for claim in claims)
    asked = _sum(size for size in sizes if size is not None)
    return f"the claims ask for {_shown(asked)}" if hard < asked else ""


def _exceeds(workloads: list[Workload], name: str, hard: Quantity) -> str:
    """How the workloads together, or one alone, exceed the quota; empty where they do not."""
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
        return f"{_ask(kept)} for {_shown(together_most)} at the autoscalers' maximum"
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
    return f"{listed(names, _MOST_NAMED)} ask{'s' * (len(names) == 1)}"


def _amount(workload: Workload, name: str) -> Quantity | None:
    """What one pod uses of a quota's resource; None where it uses none."""
    if name in _PODS:
        return parse(1)
    pod = _changed(workload.pod, _with_requests)
    pod_level = parse_quantities(pod.spec.resources.limits) if pod.spec.resources else {}
    limits = {**aggregate_container_limits(pod.spec.containers, pod.spec.init_containers), **pod_level}
    return pod_usage(compute_pod_requests(pod), limits).get(name)


def _changed(pod: Pod, change: Callable[[Container], Container]) -> Pod:
    """The pod with each of its containers changed."""
    containers, init_containers = (tuple(map(change, some)) for some in (pod.spec.containers, pod.spec.init_containers))
    spec = msgspec.structs.replace(pod.spec, containers=containers, init_containers=init_containers)
    return msgspec.structs.replace(pod, spec=spec)


def _with_requests(container: Container) -> Container:
    """The container with the requests that it has since it has a limit."""
    given = container.resources
    return msgspec.structs.replace(
        container, resources=ResourceRequirements({**given.limits, **given.requests}, given.limits)
    )


def limits_for(context: LintContext, subject: Subject) -> Iterator[tuple[Subject, LimitRangeItem]]:
    """The items of the LimitRanges in the namespace of an object, with the LimitRange of each."""
    for limit_range, limits in context.linted(LimitRange):
        if context.in_one_namespace(limit_range, subject):
            yield from ((limit_range, _readable(item)) for item in limits.spec.limits)


def limit_range(context: LintContext) -> Iterator[Problem]:
    for workload in context.workloads if context.linted(LimitRange) else ():
        limits = list(limits_for(context, workload.subject))
        yield from _of_workload(workload, limits)
    for subject, claim in context.linted(PersistentVolumeClaim):
        for by, item in limits_for(context, subject):
            asked = readable(claim.spec.resources.requests)
            for refusal in claim_breaches(item, asked) if item.type == "PersistentVolumeClaim" else ():
                path = ("spec", "resources", "requests", refusal.name)
                yield subject.problem(path, f"{refusal.message}: LimitRange {by.name} refuses the claim")


RQ_LIMIT_RANGE = Rule(
    "rq-limit-range",
    ERROR,
    limit_range,
    summary="Requests, limits or claims outside the LimitRange of their namespace",
    why="Admission refuses the pods: the controller keeps trying and nothing starts.",
    fix="Change the amount, or the LimitRange",
    source="plugin/pkg/admission/limitranger/admission.go (v1.36)",
)


def _of_workload(workload: Workload, limits: list[tuple[Subject, LimitRangeItem]]) -> Iterator[Problem]:
    pod = _changed(workload.pod, partial(_filled, limits=limits))
    filled = (*pod.spec.containers, *pod.spec.init_containers)
    for (at, written), container in zip(workload.containers, filled, strict=True):
        asked, most = parse_quantities(container.resources.requests), parse_quantities(container.resources.limits)
        for by, item in limits:
            for refusal in (*breaches(item, asked, most), *_over_default(item, written, asked)):
                there = refusal.name in getattr(written.resources, refusal.part)
                path: Path = (*at, "resources", refusal.part, refusal.name) if there else at
                if item.type == "Container":
                    yield workload.problem(path, f"{refusal.message}: LimitRange {by.name} refuses the pods")
    pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, overhead={}))
    most = aggregate_container_limits(pod.spec.containers, pod.spec.init_containers)
    for by, item in limits:
        for refusal in breaches(item, compute_pod_requests(pod), most) if item.type == "Pod" else ():
            yield workload.problem(("containers",), f"{refusal.message}: LimitRange {by.name} refuses the pods")


def _filled(container: Container, limits: list[tuple[Subject, LimitRangeItem]]) -> Container:
    """The container as it is by default: its own limits are requests first, then come those of LimitRanges."""
    given = container.resources
    most, asked = dict(given.limits), {**given.limits, **given.requests}
    for _, item in limits:
        if item.type == "Container":
            most = {**item.default, **most}
            asked = {**item.default_request, **asked}
    return msgspec.structs.replace(container, resources=ResourceRequirements(asked, most))


def _written(bounds: Resources) -> Resources:
    """The bounds that can be read."""
    return {name: bounds[name] for name in readable(bounds)}


def _readable(item: LimitRangeItem) -> LimitRangeItem:
    """The bounds that can be read, as the API server stores them."""
    bounds = {name: _written(getattr(item, name)) for name in BOUNDS}
    (stored_item,) = stored(LimitRange(spec=LimitRangeSpec((msgspec.structs.replace(item, **bounds),)))).spec.limits
    return stored_item


def _over_default(item: LimitRangeItem, written: Container, asked: Quantities) -> Iterator[Breach]:
    """Requests above the limit that the container gets since it has none of its own."""
    for name, most in parse_quantities(item.default).items():
        default = name not in written.resources.limits
        if default and name in written.resources.requests and most < asked[name]:
            message = f"request {name} is {asked[name]}, above the limit of {most} that a container without one gets"
            yield Breach("requests", name, message)
