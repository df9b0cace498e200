"""Rules about pods and claims that the quotas and LimitRanges of their namespace do not admit.

Upstream: pkg/quota/v1/evaluator/core/{pods,persistent_volume_claims}.go, plugin/pkg/admission/limitranger/admission.go,
and SetDefaults_LimitRangeItem of pkg/apis/core/v1 (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial, reduce

import msgspec

from kschedctl.admission.limit_ranger import Breach, iter_breaches, iter_claim_breaches, with_api_defaults
from kschedctl.admission.resource_quota import REQUIRED_RESOURCES, compute_pod_usage
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
from kschedctl.lint import documentation as doc
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Path, Problem, Subject, join_names
from kschedctl.lint.objects.workload import SERVING_KINDS, Workload, parse_valid_quantities
from kschedctl.lint.rule import ERROR, WARNING, Rule
from kschedctl.text.counts import agreeing, counted


def find_amounts_required_by_quota(context: LintContext) -> Iterator[Problem]:
    """Find containers without a request or limit that a quota of their namespace requires."""
    for subject, quota in context.list_linted(ResourceQuota):
        scoped = quota.spec.scopes or quota.spec.scope_selector.match_expressions
        demanded = [name for name in quota.spec.hard if name in REQUIRED_RESOURCES]
        for workload in () if scoped or not demanded else _iter_namespace_workloads(context, subject):
            for at, usage in _iter_container_usage(context, workload):
                missing = [name for name in demanded if name not in usage]
                if missing:
                    message = f"must specify {', '.join(missing)}: quota {subject.name} refuses the pods"
                    yield workload.build_problem(at, message)


RQ_QUOTA = Rule(
    "rq-quota",
    WARNING,
    find_amounts_required_by_quota,
    summary="Containers without a request or limit that a quota in their namespace requires",
    why="Admission refuses pods whose containers do not all have it: the controller keeps trying and nothing "
    "starts. Checked when ResourceQuotas are among the manifests.",
    fix="Set it, or give the namespace a LimitRange with defaults",
    source=f"{doc.QUOTAS}; pkg/quota/v1/evaluator/core/pods.go (v1.36)",
)


def _iter_container_usage(context: LintContext, workload: Workload) -> Iterator[tuple[Path, Quantities]]:
    """Yield the path of each container with the amounts that count against quotas, defaults included.

    Yields nothing for pods with resources at pod level.
    """
    if workload.spec.resources is not None:
        return
    items = list(_iter_limit_range_items(context, workload.subject))
    pod = _map_containers(workload.pod, partial(_apply_defaults, items=items))
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    for (at, _), container in zip(workload.containers, containers, strict=True):
        requests, limits = parse_quantities(container.resources.requests), parse_quantities(container.resources.limits)
        yield at, compute_pod_usage(requests, limits)


def _iter_namespace_workloads(context: LintContext, subject: Subject) -> Iterator[Workload]:
    """Yield the linted workloads in the namespace of an object."""
    for workload in context.workloads_by_namespace.get(subject.namespace or "default", ()):
        if context.are_in_same_namespace(subject, workload.subject):
            yield workload


_POD_COUNT_RESOURCES = ("pods", "count/pods")
_COUNTED_KINDS = {
    "deployments.apps": "Deployment",
    "statefulsets.apps": "StatefulSet",
    "jobs.batch": "Job",
    "cronjobs.batch": "CronJob",
    "services": "Service",
    "persistentvolumeclaims": "PersistentVolumeClaim",
}
"""The kind that a quota counts by a resource, which may be prefixed with ``count/``."""
_MAX_NAMED = 3
ITEM_FIELDS = ("min", "max", "default", "default_request", "max_limit_request_ratio")


def find_exceeded_quotas(context: LintContext) -> Iterator[Problem]:
    """Find quotas that are smaller than what the workloads of their namespace request."""
    for subject, quota in context.list_linted(ResourceQuota):
        if quota.spec.scopes or quota.spec.scope_selector.match_expressions:
            continue
        workloads = [w for w in _iter_namespace_workloads(context, subject) if w.replicas and not w.owned]
        for name, hard in quota.spec.hard.items():
            try:
                bound = parse(str(hard))
                excess = _describe_workload_excess(workloads, name, bound)
                excess = excess or _describe_object_excess(context, subject, name, bound)
            except QuantityError:  # an invalid quantity sets no quota
                continue
            if excess:
                yield subject.build_problem(
                    ("spec", "hard", name), f"{excess}: the quota refuses what is beyond {hard}"
                )


RQ_QUOTA_EXCEEDED = Rule(
    "rq-quota-exceeded",
    WARNING,
    find_exceeded_quotas,
    summary="A quota smaller than what the workloads in its namespace request",
    why="Admission refuses the pods that exceed it: the controller keeps trying, and replicas are missing.",
    fix="Raise the quota, or lower replicas or requests",
    source=f"{doc.QUOTAS}; pkg/quota/v1/evaluator/core/pods.go (v1.36)",
)


def _describe_object_excess(context: LintContext, subject: Subject, name: str, hard: Quantity) -> str:
    """Describe how the objects of a kind or the claims for storage exceed a quota, or return ""."""
    kind = _COUNTED_KINDS.get(name.removeprefix("count/"), "")
    count = sum(s.kind == kind and context.are_in_same_namespace(subject, s) for s in context.subjects)
    if hard < parse(count):
        return f"there {agreeing(count, 'is', 'are')} {counted(count, 'object')} of kind {kind}"
    if name != "requests.storage":
        return ""
    claims = [c for s, c in context.list_linted(PersistentVolumeClaim) if context.are_in_same_namespace(subject, s)]
    sizes = (parse_valid_quantities(claim.spec.resources.requests).get("storage") for claim in claims)
    total = _add_up(size for size in sizes if size is not None)
    return f"the claims ask for {_format_amount(total)}" if hard < total else ""


def _describe_workload_excess(workloads: list[Workload], name: str, hard: Quantity) -> str:
    """Describe how the workloads together, or one of them alone, exceed a quota, or return ""."""
    usage_per_pod = {
        workload: amount for workload in workloads if (amount := _get_pod_usage(workload, name)) is not None
    }
    long_running = [workload for workload in usage_per_pod if workload.kind in SERVING_KINDS or workload.kind == "Pod"]
    least = {workload: _multiply(amount, workload.lowest_replicas) for workload, amount in usage_per_pod.items()}
    most = {workload: _multiply(amount, workload.highest_replicas) for workload, amount in usage_per_pod.items()}
    together = _add_up(least[workload] for workload in long_running)
    if hard < together:
        return f"{_format_requesters(long_running)} for {_format_amount(together)}"
    if alone := [workload for workload in usage_per_pod if hard < most[workload]]:
        return f"{_format_requesters(alone[:1])} for {_format_amount(most[alone[0]])}"
    if hard < (together_most := _add_up(most[workload] for workload in long_running)):
        return f"{_format_requesters(long_running)} for {_format_amount(together_most)} at the autoscalers' maximum"
    for workload in long_running:
        surge, unavailable = workload.compute_surge()
        if surge and not unavailable and hard < together.add(usage_per_pod[workload]):
            return f"a rollout of {workload.subject} starts a pod before an old one goes, and there is no room for it"
    return ""


def _multiply(amount: Quantity, count: int) -> Quantity:
    """Return the quantity times a number."""
    return replace(amount, mantissa=amount.mantissa * count, written="")


def _add_up(amounts: Iterable[Quantity]) -> Quantity:
    """Return the sum of quantities."""
    return reduce(Quantity.add, amounts, parse(0))


def _format_amount(amount: Quantity) -> str:
    """Format a quantity, large amounts of bytes in whole mebibytes."""
    if amount.format is Format.BINARY_SI and amount.value() >= 1 << 20:
        return f"{amount.value() >> 20:,} Mi"
    return str(amount)


def _format_requesters(workloads: list[Workload]) -> str:
    """Return the names of the workloads with the verb, as in ``Deployment web asks``."""
    names = [str(workload.subject) for workload in workloads]
    return f"{join_names(names, _MAX_NAMED)} ask{'s' * (len(names) == 1)}"


def _get_pod_usage(workload: Workload, name: str) -> Quantity | None:
    """Return the amount of a quota's resource that one pod of a workload uses, or None."""
    if name in _POD_COUNT_RESOURCES:
        return parse(1)
    pod = _map_containers(workload.pod, _default_requests_to_limits)
    pod_level = parse_quantities(pod.spec.resources.limits) if pod.spec.resources else {}
    limits = {**aggregate_container_limits(pod.spec.containers, pod.spec.init_containers), **pod_level}
    return compute_pod_usage(compute_pod_requests(pod), limits).get(name)


def _map_containers(pod: Pod, change: Callable[[Container], Container]) -> Pod:
    """Apply a function to each container of a pod and return the changed pod."""
    containers = tuple(map(change, pod.spec.containers))
    init_containers = tuple(map(change, pod.spec.init_containers))
    spec = msgspec.structs.replace(pod.spec, containers=containers, init_containers=init_containers)
    return msgspec.structs.replace(pod, spec=spec)


def _default_requests_to_limits(container: Container) -> Container:
    """Return the container with its limits as requests if it has no requests of its own."""
    resources = container.resources
    with_defaults = ResourceRequirements({**resources.limits, **resources.requests}, resources.limits)
    return msgspec.structs.replace(container, resources=with_defaults)


def _iter_limit_range_items(context: LintContext, subject: Subject) -> Iterator[tuple[Subject, LimitRangeItem]]:
    """Yield each LimitRange in the namespace of an object, with each of its items."""
    for limit_range, limits in context.list_linted(LimitRange):
        if context.are_in_same_namespace(limit_range, subject):
            yield from ((limit_range, _to_stored_item(item)) for item in limits.spec.limits)


def find_amounts_outside_limit_range(context: LintContext) -> Iterator[Problem]:
    """Find requests, limits and claims that a LimitRange of their namespace does not admit."""
    for workload in context.workloads if context.list_linted(LimitRange) else ():
        items = list(_iter_limit_range_items(context, workload.subject))
        yield from _find_limit_range_breaches(workload, items)
    for subject, claim in context.list_linted(PersistentVolumeClaim):
        for limit_range, item in _iter_limit_range_items(context, subject):
            requests = parse_valid_quantities(claim.spec.resources.requests)
            for breach in iter_claim_breaches(item, requests) if item.type == "PersistentVolumeClaim" else ():
                path = ("spec", "resources", "requests", breach.name)
                yield subject.build_problem(path, f"{breach.message}: LimitRange {limit_range.name} refuses the claim")


RQ_LIMIT_RANGE = Rule(
    "rq-limit-range",
    ERROR,
    find_amounts_outside_limit_range,
    summary="Requests, limits or claims outside the LimitRange of their namespace",
    why="Admission refuses the pods: the controller keeps trying and nothing starts.",
    fix="Change the amount, or the LimitRange",
    source="plugin/pkg/admission/limitranger/admission.go (v1.36)",
)


def _find_limit_range_breaches(workload: Workload, items: list[tuple[Subject, LimitRangeItem]]) -> Iterator[Problem]:
    """Yield a problem for each bound of the LimitRange items that the workload's containers or pods break."""
    pod = _map_containers(workload.pod, partial(_apply_defaults, items=items))
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    for (at, written), container in zip(workload.containers, containers, strict=True):
        requests, limits = parse_quantities(container.resources.requests), parse_quantities(container.resources.limits)
        for limit_range, item in items:
            if item.type != "Container":
                continue
            default_breaches = _iter_requests_over_default_limit(item, written, requests)
            for breach in (*iter_breaches(item, requests, limits), *default_breaches):
                is_written = breach.name in getattr(written.resources, breach.part)
                path: Path = (*at, "resources", breach.part, breach.name) if is_written else at
                yield workload.build_problem(path, f"{breach.message}: LimitRange {limit_range.name} refuses the pods")

    pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, overhead={}))
    pod_limits = aggregate_container_limits(pod.spec.containers, pod.spec.init_containers)
    for limit_range, item in items:
        for breach in iter_breaches(item, compute_pod_requests(pod), pod_limits) if item.type == "Pod" else ():
            message = f"{breach.message}: LimitRange {limit_range.name} refuses the pods"
            yield workload.build_problem(("containers",), message)


def _apply_defaults(container: Container, items: list[tuple[Subject, LimitRangeItem]]) -> Container:
    """Return the container with default amounts: its limits as requests, then the defaults of LimitRanges."""
    limits = dict(container.resources.limits)
    requests = {**container.resources.limits, **container.resources.requests}
    for _, item in items:
        if item.type == "Container":
            limits = {**item.default, **limits}
            requests = {**item.default_request, **requests}
    return msgspec.structs.replace(container, resources=ResourceRequirements(requests, limits))


def _keep_readable(amounts: Resources) -> Resources:
    """Return the amounts that are valid quantities."""
    return {name: amounts[name] for name in parse_valid_quantities(amounts)}


def _to_stored_item(item: LimitRangeItem) -> LimitRangeItem:
    """Return the item as the API server stores it, without invalid quantities."""
    bounds = {name: _keep_readable(getattr(item, name)) for name in ITEM_FIELDS}
    (stored_item,) = with_api_defaults(
        LimitRange(spec=LimitRangeSpec((msgspec.structs.replace(item, **bounds),)))
    ).spec.limits
    return stored_item


def _iter_requests_over_default_limit(
    item: LimitRangeItem, written: Container, requests: Quantities
) -> Iterator[Breach]:
    """Yield requests above the default limit that a container without a limit gets."""
    for name, limit in parse_quantities(item.default).items():
        if name in written.resources.limits or name not in written.resources.requests:
            continue
        if limit < requests[name]:
            message = (
                f"request {name} is {requests[name]}, above the limit of {limit} that a container without one gets"
            )
            yield Breach("requests", name, message)
