"""Rules about pods and claims that the quotas and LimitRanges of their namespace deny.

Upstream: pkg/quota/v1/evaluator/core/{pods,persistent_volume_claims}.go, plugin/pkg/admission/limitranger/admission.go,
and SetDefaults_LimitRangeItem of pkg/apis/core/v1 (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial, reduce
from typing import NamedTuple

import msgspec

from kschedctl.admission.limit_ranger import Breach, iter_claim_breaches, iter_limit_range_breaches, with_api_defaults
from kschedctl.admission.resource_quota import REQUIRED_RESOURCES, compute_pod_quota_usage
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
from kschedctl.api.quantity import Quantity, QuantityError, parse_quantity
from kschedctl.api.resource_names import CPU, format_amounts_for_sentence
from kschedctl.lint import documentation as doc
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.lint.objects.workload import SERVING_KINDS, Workload, parse_valid_quantities
from kschedctl.lint.rule import ERROR, WARNING, Rule
from kschedctl.text.counts import agreeing, counted, join_first_few, join_words


def find_amounts_missing_for_quota(context: LintContext) -> Iterator[Problem]:
    """Find containers without a request or limit that a ResourceQuota of their namespace requires.

    Quotas with scopes and pods that were already admitted are left out.
    """
    for subject, quota in context.list_linted_objects(ResourceQuota):
        has_scopes = quota.spec.scopes or quota.spec.scope_selector.match_expressions
        required_resources = [name for name in quota.spec.hard if name in REQUIRED_RESOURCES]
        if has_scopes or not required_resources:
            continue
        for workload in _iter_namespace_workloads(context, subject):
            if _is_admitted_pod(workload):
                continue
            for path, usage in _iter_container_quota_usage(context, workload):
                missing_resources = [name for name in required_resources if name not in usage]
                if missing_resources:
                    message = (
                        f"must specify {join_words(missing_resources)}, which ResourceQuota {subject.name} requires"
                    )
                    yield workload.build_problem(path, message)


RQ_QUOTA = Rule(
    "rq-quota",
    WARNING,
    find_amounts_missing_for_quota,
    summary="Containers without a request or limit that a ResourceQuota of their namespace requires",
    why="The API server rejects pods that have a container without that request or limit: the controller keeps "
    "retrying, and no pod starts.",
    fix="Set the request or limit, or give the namespace a LimitRange with defaults",
    source=f"{doc.QUOTAS}; pkg/quota/v1/evaluator/core/pods.go (v1.36)",
)


def _iter_container_quota_usage(context: LintContext, workload: Workload) -> Iterator[tuple[Path, Quantities]]:
    """Yield the path of each container with its requests and limits as quotas count them.

    Default amounts of LimitRanges are included. Yields nothing for pods with resources at pod level.
    """
    if workload.spec.resources is not None:
        return
    items = list(_iter_limit_range_items(context, workload.subject))
    pod = _change_containers(workload.pod, partial(_add_default_amounts, items=items))
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    for (path, _), container in zip(workload.containers, containers, strict=True):
        requests, limits = parse_quantities(container.resources.requests), parse_quantities(container.resources.limits)
        yield path, compute_pod_quota_usage(requests, limits)


def _iter_namespace_workloads(context: LintContext, subject: Subject) -> Iterator[Workload]:
    """Yield the linted workloads in the namespace of an object."""
    for workload in context.workloads_by_namespace.get(subject.namespace or "default", ()):
        if context.can_share_namespace(subject, workload.subject):
            yield workload


def _is_admitted_pod(workload: Workload) -> bool:
    """Return whether this is a pod of a cluster without a controller, of which no further pods are created."""
    return workload.kind == "Pod" and not workload.subject.document


_POD_COUNT_RESOURCES = ("pods", "count/pods")
_COUNTED_KINDS = {
    "deployments.apps": "Deployment",
    "statefulsets.apps": "StatefulSet",
    "jobs.batch": "Job",
    "cronjobs.batch": "CronJob",
    "services": "Service",
    "persistentvolumeclaims": "PersistentVolumeClaim",
}
"""Resource of a quota, which may be prefixed with ``count/`` -> the kind of which it limits the number of objects."""
_LIMITS_PREFIX = "limits."
"""Prefix of a quota resource that is the sum of the limits of pods."""
_MAX_NAMED = 3
ITEM_FIELDS = ("min", "max", "default", "default_request", "max_limit_request_ratio")


def find_exceeded_quotas(context: LintContext) -> Iterator[Problem]:
    """Find ResourceQuotas that the workloads and other objects of their namespace would exceed.

    Quotas with scopes are left out.
    """
    for subject, quota in context.list_linted_objects(ResourceQuota):
        if quota.spec.scopes or quota.spec.scope_selector.match_expressions:
            continue
        workloads = [
            workload
            for workload in _iter_desired_workloads(context, subject)
            if workload.replicas and not workload.owned
        ]
        for name, hard in quota.spec.hard.items():
            try:
                bound = parse_quantity(str(hard))
                excess = _describe_workload_excess(workloads, name, bound)
                excess = excess or _describe_count_or_storage_excess(context, subject, name, bound)
            except QuantityError:  # an invalid quantity sets no quota
                continue
            if excess:
                yield subject.build_problem(("spec", "hard", name), excess)


RQ_QUOTA_EXCEEDED = Rule(
    "rq-quota-exceeded",
    WARNING,
    find_exceeded_quotas,
    summary="A ResourceQuota smaller than the requests of the workloads in its namespace",
    why="The API server rejects pods that would exceed the quota: the controller keeps retrying, and replicas are "
    "missing.",
    fix="Raise the quota, or lower replicas or requests",
    source=f"{doc.QUOTAS}; pkg/quota/v1/evaluator/core/pods.go (v1.36)",
)


def _iter_desired_workloads(context: LintContext, subject: Subject) -> Iterator[Workload]:
    """Yield the workloads in the namespace of an object, each with the number of replicas that its object asks for.

    Other rules count the existing pods of a cluster's workloads, but a quota may deny some or all of their pods.
    """
    workloads = list(_iter_namespace_workloads(context, subject))
    if not subject.document:
        namespace = subject.namespace or "default"
        workloads += context.iter_stored_workloads_without_pods(namespace)
    for workload in workloads:
        stored = context.find_stored_workload(workload)
        if stored is None or stored.spec.replicas is None:
            yield workload
        else:
            yield replace(workload, replicas=stored.spec.replicas)


def _describe_count_or_storage_excess(context: LintContext, subject: Subject, name: str, hard: Quantity) -> str:
    """Describe how the number of objects of a kind, or the storage that claims request, exceeds a quota's limit.

    ``name`` is the resource and ``hard`` the limit of the quota. Returns "" if the quota is not exceeded, or if the
    resource is neither a count of a kind in _COUNTED_KINDS nor `requests.storage`.
    """
    counted_kind = _COUNTED_KINDS.get(name.removeprefix("count/"))
    if counted_kind is not None:
        objects = [other for other in context.subjects if other.kind == counted_kind]
        count = sum(context.can_share_namespace(subject, other) for other in objects)
        if hard < parse_quantity(count):
            objects_of_kind = f"{counted(count, 'object')} of kind {counted_kind}"
            return f"the namespace has {objects_of_kind}, but the quota allows only {hard.value():,}"
        return ""

    if name != "requests.storage":
        return ""
    claims = [
        claim
        for other, claim in context.list_linted_objects(PersistentVolumeClaim)
        if context.can_share_namespace(subject, other)
    ]
    sizes = (parse_valid_quantities(claim.spec.resources.requests).get("storage") for claim in claims)
    total = _sum_quantities(size for size in sizes if size is not None)
    if not hard < total:
        return ""
    amounts = _compare_with_limit("storage", total, hard)
    return f"the claims request {amounts.total}, but the quota allows only {amounts.limit}"


def _describe_workload_excess(workloads: list[Workload], name: str, hard: Quantity) -> str:
    """Describe how workloads exceed a quota, or return "" if they do not.

    Several checks are made, and the first excess is reported:

    1. All long-running workloads together, each with its lowest number of replicas.
    2. Each workload, also a Job, with its highest number of replicas.
    3. All long-running workloads together, each at its autoscaler's maximum.
    4. The rollout of each long-running workload that starts a new pod first, beside the lowest numbers of replicas.
       Workloads of a cluster are left out, because their update strategy is not known.
    """
    pod_usages = {workload: _get_pod_usage(workload, name) for workload in workloads}
    usage_per_pod = {workload: usage for workload, usage in pod_usages.items() if usage is not None}
    long_running = [workload for workload in usage_per_pod if workload.kind in SERVING_KINDS or workload.kind == "Pod"]
    lowest_usage = {
        workload: _multiply_quantity(usage, workload.lowest_replicas) for workload, usage in usage_per_pod.items()
    }
    highest_usage = {
        workload: _multiply_quantity(usage, workload.highest_replicas) for workload, usage in usage_per_pod.items()
    }

    resource = "pods" if name in _POD_COUNT_RESOURCES else name.removeprefix("requests.").removeprefix(_LIMITS_PREFIX)

    # Checks 1 to 3
    lowest_total = _sum_quantities(lowest_usage[workload] for workload in long_running)
    highest_total = _sum_quantities(highest_usage[workload] for workload in long_running)
    checked_totals = [
        (long_running, lowest_total, ""),
        *(([workload], usage, "") for workload, usage in highest_usage.items()),
        (long_running, highest_total, " at the autoscalers' maximum"),
    ]
    for requesters, total, condition in checked_totals:
        if hard < total:
            names = join_first_few([str(workload.subject) for workload in requesters], _MAX_NAMED)
            verb = _choose_verb(name, len(requesters))
            amounts = _compare_with_limit(resource, total, hard)
            return f"{names} {verb} {amounts.total}{condition}, but the quota allows only {amounts.limit}"

    # Check 4
    for workload in long_running:
        is_manifest = bool(workload.subject.document)
        must_start_new_pod_first = is_manifest and workload.compute_rollout_limits().must_start_new_pod_first
        total_during_rollout = lowest_total.add(usage_per_pod[workload])
        if must_start_new_pod_first and hard < total_during_rollout:
            amounts = _compare_with_limit(resource, total_during_rollout, hard)
            needed = f"limits of {amounts.total}" if _sums_limits(name) else amounts.total
            return (
                f"a rollout of {workload.subject}, which starts a new pod first, needs {needed}, but the quota allows "
                f"only {amounts.limit}"
            )
    return ""


def _multiply_quantity(amount: Quantity, count: int) -> Quantity:
    """Return the quantity times a number."""
    return replace(amount, mantissa=amount.mantissa * count, written="")


def _sum_quantities(amounts: Iterable[Quantity]) -> Quantity:
    """Return the sum of quantities, 0 without any."""
    return reduce(Quantity.add, amounts, parse_quantity(0))


class _ComparedAmounts(NamedTuple):
    """An amount in a sentence, and a quota's limit in the same unit."""

    total: str
    """The amount with its resource, such as ``18.7 CPUs``."""
    limit: str
    """The limit without its resource, such as ``14``."""


def _compare_with_limit(resource: str, total: Quantity, hard: Quantity) -> _ComparedAmounts:
    """Format a total of a resource and the limit that it exceeds. ``resource`` has no prefix, and may be ``pods``."""
    if resource == "pods":
        return _ComparedAmounts(counted(total.value(), "pod"), f"{hard.value():,}")
    amounts = [amount.milli_value() if resource == CPU else amount.value() for amount in (total, hard)]
    (total_number, limit_number), unit = formatted = format_amounts_for_sentence(resource, *amounts)
    return _ComparedAmounts(f"{total_number} {unit}", f"{limit_number}{formatted.unit_suffix}")


def _choose_verb(name: str, count: int) -> str:
    """Return the verb that says how ``count`` workloads use the quota resource ``name``."""
    if name in _POD_COUNT_RESOURCES:
        return agreeing(count, "needs", "need")
    if _sums_limits(name):
        return agreeing(count, "has limits of", "have limits of")
    return agreeing(count, "requests", "request")


def _sums_limits(name: str) -> bool:
    """Return whether the quota resource is the sum of limits, and not of requests."""
    return name.startswith(_LIMITS_PREFIX)


def _get_pod_usage(workload: Workload, name: str) -> Quantity | None:
    """Return how much of the quota resource ``name`` one pod of a workload uses, or None if the pod does not use it.

    Missing requests default to the limits.
    """
    if name in _POD_COUNT_RESOURCES:
        return parse_quantity(1)
    pod = _change_containers(workload.pod, _default_requests_to_limits)
    pod_level = parse_quantities(pod.spec.resources.limits) if pod.spec.resources else {}
    limits = {**aggregate_container_limits(pod.spec.containers, pod.spec.init_containers), **pod_level}
    return compute_pod_quota_usage(compute_pod_requests(pod), limits).get(name)


def _change_containers(pod: Pod, change: Callable[[Container], Container]) -> Pod:
    """Return the pod with a function applied to each of its containers and init containers."""
    containers = tuple(map(change, pod.spec.containers))
    init_containers = tuple(map(change, pod.spec.init_containers))
    spec = msgspec.structs.replace(pod.spec, containers=containers, init_containers=init_containers)
    return msgspec.structs.replace(pod, spec=spec)


def _default_requests_to_limits(container: Container) -> Container:
    """Return the container with each missing request set to the limit of the resource."""
    resources = container.resources
    with_defaults = ResourceRequirements({**resources.limits, **resources.requests}, resources.limits)
    return msgspec.structs.replace(container, resources=with_defaults)


def _iter_limit_range_items(context: LintContext, subject: Subject) -> Iterator[tuple[Subject, LimitRangeItem]]:
    """Yield each item of the LimitRanges in the namespace of an object, with the subject of its LimitRange."""
    for limit_range_subject, limit_range in context.list_linted_objects(LimitRange):
        if context.can_share_namespace(limit_range_subject, subject):
            yield from ((limit_range_subject, _add_api_defaults_to_item(item)) for item in limit_range.spec.limits)


def find_amounts_outside_limit_range(context: LintContext) -> Iterator[Problem]:
    """Find requests and limits of containers, pods and claims that a LimitRange of their namespace denies.

    Objects of a cluster that were already admitted are left out: its claims, and its pods without a controller. Finds
    nothing if no LimitRange is linted.
    """
    if not context.list_linted_objects(LimitRange):
        return
    for workload in context.workloads:
        if _is_admitted_pod(workload):
            continue
        items = list(_iter_limit_range_items(context, workload.subject))
        yield from _find_limit_range_breaches_of_containers(workload, items)
        yield from _find_limit_range_breaches_of_pods(workload, items)
    for subject, claim in context.list_linted_objects(PersistentVolumeClaim):
        if not subject.document:
            continue
        requests = parse_valid_quantities(claim.spec.resources.requests)
        for limit_range, item in _iter_limit_range_items(context, subject):
            if item.type != "PersistentVolumeClaim":
                continue
            for breach in iter_claim_breaches(item, requests):
                path = ("spec", "resources", "requests", breach.name)
                yield subject.build_problem(path, f"{breach.message}: LimitRange {limit_range.name} denies the claim")


RQ_LIMIT_RANGE = Rule(
    "rq-limit-range",
    ERROR,
    find_amounts_outside_limit_range,
    summary="Requests, limits or claims outside the LimitRange of their namespace",
    why="The API server rejects the pods: the controller keeps retrying, and no pod starts.",
    fix="Change the request, limit or claim, or the LimitRange",
    source="plugin/pkg/admission/limitranger/admission.go (v1.36)",
)


_LimitRangeItems = list[tuple[Subject, LimitRangeItem]]
"""Items of LimitRanges, each with the subject of its LimitRange."""


def _find_limit_range_breaches_of_containers(workload: Workload, items: _LimitRangeItems) -> Iterator[Problem]:
    """Yield a problem for each bound of a LimitRange that a container breaks.

    Only the items of LimitRanges for containers are checked. If the manifest sets the amount, the problem is reported
    there. If the amount is a default, the problem is reported at the container.
    """
    pod = _change_containers(workload.pod, partial(_add_default_amounts, items=items))
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    # Compare each container as written with itself after the defaults are set
    for (container_path, authored_container), container in zip(workload.containers, containers, strict=True):
        requests, limits = parse_quantities(container.resources.requests), parse_quantities(container.resources.limits)
        for limit_range, item in items:
            if item.type != "Container":
                continue
            # A default limit below the request makes the pod invalid
            default_breaches = _iter_requests_over_default_limit(item, authored_container, requests)
            for breach in (*iter_limit_range_breaches(item, requests, limits), *default_breaches):
                path: Path = container_path
                if breach.name in getattr(authored_container.resources, breach.part):
                    path = (*container_path, "resources", breach.part, breach.name)
                yield workload.build_problem(path, f"LimitRange {limit_range.name} rejects the pods: {breach.message}")


def _find_limit_range_breaches_of_pods(workload: Workload, items: _LimitRangeItems) -> Iterator[Problem]:
    """Yield a problem for each bound that the workload's pods break. Only LimitRange items for pods are checked.

    The overhead of the pods is not counted.
    """
    pod = _change_containers(workload.pod, partial(_add_default_amounts, items=items))
    pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, overhead={}))
    pod_limits = aggregate_container_limits(pod.spec.containers, pod.spec.init_containers)
    for limit_range, item in items:
        if item.type != "Pod":
            continue
        for breach in iter_limit_range_breaches(item, compute_pod_requests(pod), pod_limits):
            message = f"LimitRange {limit_range.name} rejects the pods: {breach.message}"
            yield workload.build_problem(("containers",), message)


def _add_default_amounts(container: Container, items: _LimitRangeItems) -> Container:
    """Return the container with default requests and limits.

    A request that is not written defaults to the written limit. Requests and limits that are still missing are taken
    from the LimitRanges.
    """
    limits = dict(container.resources.limits)
    requests = {**container.resources.limits, **container.resources.requests}
    for _, item in items:
        if item.type == "Container":
            limits = {**item.default, **limits}
            requests = {**item.default_request, **requests}
    return msgspec.structs.replace(container, resources=ResourceRequirements(requests, limits))


def _select_valid_amounts(amounts: Resources) -> Resources:
    """Return the amounts that are valid quantities."""
    return {name: amounts[name] for name in parse_valid_quantities(amounts)}


def _add_api_defaults_to_item(item: LimitRangeItem) -> LimitRangeItem:
    """Return the LimitRange item with the defaults that the API server adds, and without invalid quantities."""
    valid_amounts = {name: _select_valid_amounts(getattr(item, name)) for name in ITEM_FIELDS}
    limit_range = LimitRange(spec=LimitRangeSpec((msgspec.structs.replace(item, **valid_amounts),)))
    (stored_item,) = with_api_defaults(limit_range).spec.limits
    return stored_item


def _iter_requests_over_default_limit(
    item: LimitRangeItem, authored_container: Container, requests: Quantities
) -> Iterator[Breach]:
    """Yield a breach for each request that exceeds the default limit.

    Only amounts that the container requests explicitly and does not limit are compared.
    """
    authored = authored_container.resources
    for name, limit in parse_quantities(item.default).items():
        if name in authored.limits or name not in authored.requests:
            continue
        if limit < requests[name]:
            message = f"the {name} request is {requests[name]}, above the default limit of {limit}"
            yield Breach("requests", name, message)
