"""The admission plugin ResourceQuota: an object's usage of quotas, and whether the quotas leave enough for the object.

The quota's status counts, not its spec. The usage of a ResourceClaim is its number of devices by class. Upstream:
staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go, pkg/quota/v1/evaluator/core (v1.36).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from math import ceil

from kschedctl.admission.request import AdmissionRequest, Writable
from kschedctl.api.copying import replace
from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import drop_nulls
from kschedctl.api.objects import (
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaimSpec,
    ResourceQuota,
    ResourceQuotaStatus,
    ScopeSelectorTerm,
)
from kschedctl.api.pod_requests import Quantities, parse_quantities
from kschedctl.api.quantity import MILLI, Quantity, parse_quantity
from kschedctl.api.resource_names import DEVICE_CLASS_PREFIX, QUOTA_PREFIX, is_extended, is_native
from kschedctl.scheduler.framework.feature_gates import FeatureGates

ONE, ZERO = Quantity(1), Quantity(0)
COMPUTE_RESOURCES = ("cpu", "memory", "ephemeral-storage")
POD_RESOURCES = frozenset(
    (
        "pods",
        "count/pods",
        *COMPUTE_RESOURCES,
        *(f"{part}.{name}" for part in ("requests", "limits") for name in COMPUTE_RESOURCES),
    )
)
REQUIRED_RESOURCES = frozenset(f"{part}{name}" for part in ("", "requests.", "limits.") for name in ("cpu", "memory"))
"""Resources that every container must set if a quota limits them."""
HUGE_PAGES = ("hugepages-", "requests.hugepages-")
CLAIM_COUNT, CLAIM_STORAGE = "persistentvolumeclaims", "requests.storage"
CLASS_INFIX = ".storageclass.storage.k8s.io/"
BETA_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"

DEADLINE_SCOPES = ("Terminating", "NotTerminating")
"""Scopes that depend on activeDeadlineSeconds, which scheduling does not read."""


def is_replayable(quota: ResourceQuota, *, in_full: bool) -> bool:
    """Return whether a quota can be replayed: it has a status and no scope that depends on unknown fields.

    Scopes about deadlines can be replayed only for pods that are known ``in_full``.
    """
    names = (*quota.spec.scopes, *(term.scope_name for term in quota.spec.scope_selector.match_expressions))
    return bool(quota.status.hard) and (in_full or not any(name in DEADLINE_SCOPES for name in names))


def check_quotas(request: AdmissionRequest) -> None:
    """Raise NotAdmittedError if a ResourceQuota denies the object.

    A quota denies an object that would exceed it. It also denies every object whose containers leave out a resource of
    the quota, and every object while the quota's status lacks the used amount of a resource.
    """
    usage = _compute_nonzero_usage(request)
    matching = [quota for quota in request.quotas if _matches_quota(quota, request)]
    for quota in matching:
        names = [name for name in quota.status.hard if _is_resource_of_kind(name, request)]
        unset = list(_iter_unset_resources(names, request))
        if unset:
            raise request.build_denial_error(f"failed quota: {quota.metadata.name}: must specify {'; '.join(unset)}")
        if any(name not in quota.status.used for name in names):
            resource_list = ",".join(sorted(names))
            raise request.build_denial_error(
                f"status unknown for quota: {quota.metadata.name}, resources: {resource_list}"
            )
    for quota in matching:
        excess = describe_quota_excess(quota, usage)
        if excess:
            raise request.build_denial_error(excess)


def count_admissible_objects(request: AdmissionRequest, max_count: int) -> int:
    """Return how many objects like this one the quotas admit one after the other, at most ``max_count``."""
    usage = _compute_nonzero_usage(request)
    matching = [quota for quota in request.quotas if _matches_quota(quota, request)]

    def is_exceeded_after(quota: ResourceQuota, count: int) -> bool:
        """Return whether one more object would exceed the quota after ``count`` objects."""
        return bool(describe_quota_excess(_charge_quota(quota, usage, count), usage))

    for quota in matching:
        has_room_for_all = max_count == 0 or not is_exceeded_after(quota, max_count - 1)
        if not has_room_for_all:
            # The smallest count after which there is no room for one more
            max_count = bisect_left(range(max_count), True, key=partial(is_exceeded_after, quota))
    return max_count


def charge_quotas(request: AdmissionRequest, count: int) -> tuple[ResourceQuota, ...]:
    """Return the quotas after ``count`` objects like this one are charged."""
    usage = _compute_nonzero_usage(request)
    return tuple(_charge_quota(q, usage, count) if _matches_quota(q, request) else q for q in request.quotas)


def find_needed_quota_limits(request: AdmissionRequest, count: int) -> dict[str, dict[str, str]]:
    """Return the limits to which each quota must be raised to admit ``count`` objects like this one.

    The limits are listed by quota and resource. Quotas that are large enough are left out.
    """
    usage = _compute_nonzero_usage(request)
    needed_by_quota: dict[str, dict[str, str]] = {}
    for quota in request.quotas:
        if not _matches_quota(quota, request):
            continue
        hard = parse_quantities(quota.status.hard)
        used_after = _charge_quota(quota, usage, count).status.used
        needed_limits = {
            name: str(used_after[name])
            for name in usage
            if name in hard and parse_quantity(used_after.get(name, 0)) > hard[name]
        }
        if needed_limits:
            needed_by_quota[quota.metadata.name] = needed_limits
    return needed_by_quota


def find_allowed_amounts(request: AdmissionRequest, count: int | Fraction) -> Quantities:
    """Return how much of each resource one of ``count`` objects like this one may use without exceeding a quota.

    A fractional count leaves room for a part of an object. Resources of which the quotas have enough are left out. CPU
    is rounded down to millicores, and bytes to MiB.
    """
    usage = _compute_nonzero_usage(request)
    allowed: Quantities = {}
    for quota in request.quotas:
        if not _matches_quota(quota, request):
            continue
        hard = parse_quantities(quota.status.hard)
        used = parse_quantities(quota.status.used)
        for name, amount in usage.items():
            if name not in hard:
                continue
            available = hard[name].sub(used.get(name, ZERO))
            needed = Quantity(ceil(amount.mantissa * count), amount.scale, amount.format)
            if needed > available:
                share = _divide_amount(name, available, count)
                smallest_share = min(allowed.get(name, share), share)  # the tightest quota decides
                allowed[name] = smallest_share
    return allowed


_MEBIBYTE = 1 << 20


def _divide_amount(name: str, amount: Quantity, count: int | Fraction) -> Quantity:
    """Divide an amount evenly among ``count`` objects, and round the share down. The share is never below 0.

    CPU is rounded to millicores, and other amounts to MiB. Shares of up to 1 MiB are only rounded to whole units.
    """
    if name.rpartition(".")[2] == "cpu":
        return Quantity(max(amount.milli_value() // count, 0), MILLI)
    share = max(amount.value() // count, 0)
    return Quantity(share - share % _MEBIBYTE if share > _MEBIBYTE else share, 0, amount.format)


def find_unset_resources(request: AdmissionRequest) -> list[str]:
    """List the resources that quotas require and containers do not set, as in ``limits.cpu for: web,log``."""
    names = {name for quota in request.quotas if _matches_quota(quota, request) for name in quota.status.hard}
    return list(_iter_unset_resources(filter(partial(_is_resource_of_kind, request=request), names), request))


def _charge_quota(quota: ResourceQuota, usage: Quantities, count: int) -> ResourceQuota:
    """Return the quota with the usage of ``count`` objects added to its used amounts.

    ``usage`` is the usage of one object. A negative ``count`` releases objects. Amounts without a hard limit or without
    a used amount in the quota's status stay unchanged.
    """
    used_before = parse_quantities(quota.status.used)
    used_after = {
        name: str(used_before[name].add(Quantity(amount.mantissa * count, amount.scale, amount.format)))
        for name, amount in usage.items()
        if count and name in used_before and name in quota.status.hard
    }
    status = ResourceQuotaStatus(quota.status.hard, {**quota.status.used, **used_after})
    return replace(quota, status=status)


def _compute_nonzero_usage(request: AdmissionRequest) -> Quantities:
    """Return the amounts that the object uses, without amounts of zero."""
    return {name: amount for name, amount in compute_quota_usage(request).items() if amount != ZERO}


def describe_quota_excess(quota: ResourceQuota, usage: Quantities) -> str:
    """Return the API server's message if this additional usage exceeds a quota, or "" if it does not."""
    hard = parse_quantities(quota.status.hard)
    used_before = parse_quantities(quota.status.used)
    exceeded_names = sorted(
        name for name, amount in usage.items() if name in hard and used_before.get(name, ZERO).add(amount) > hard[name]
    )
    if not exceeded_names:
        return ""
    requested = ",".join(f"{name}={usage[name]}" for name in exceeded_names)
    already_used = ",".join(f"{name}={used_before.get(name, ZERO)}" for name in exceeded_names)
    limited = ",".join(f"{name}={hard[name]}" for name in exceeded_names)
    return f"exceeded quota: {quota.metadata.name}, requested: {requested}, used: {already_used}, limited: {limited}"


def compute_quota_usage(request: AdmissionRequest) -> Quantities:
    """Return the amounts that the object uses, by the names that resources have in quotas."""
    if request.is_pod:
        requests, limits = request.sum_pod_resources(overhead=True)
        return {**compute_pod_quota_usage(requests, limits), "pods": ONE, "count/pods": ONE}
    if request.kind == "PersistentVolumeClaim":
        return _compute_volume_claim_usage(request)
    if request.kind == KIND:
        return compute_device_claim_usage(request)
    return {f"count/{request.resource}": ONE}


def compute_pod_quota_usage(requests: Quantities, limits: Quantities) -> Quantities:
    """Return how much of a quota's resources a pod or container with these requests and limits uses.

    The keys are the resource names of quotas, such as `requests.cpu`.
    """
    usage: Quantities = {}
    for name in COMPUTE_RESOURCES:
        if name in requests:
            usage[name] = usage[f"requests.{name}"] = requests[name]
        if name in limits:
            usage[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith("hugepages-"):
            usage[name] = usage[f"requests.{name}"] = amount
        elif is_extended(name) or name.startswith(DEVICE_CLASS_PREFIX):
            usage[f"requests.{name}"] = amount
    return usage


def _compute_volume_claim_usage(request: AdmissionRequest) -> Quantities:
    """Return the amounts that a PersistentVolumeClaim uses, in total and of its StorageClass.

    These are the number of claims and, if the claim requests storage, the storage. Quotas name the resources of a
    StorageClass after the class.
    """
    amount = parse_quantities((request.spec.get("resources") or {}).get("requests") or {}).get("storage")
    usage: Quantities = {CLAIM_COUNT: ONE, f"count/{CLAIM_COUNT}": ONE}
    if amount is not None:
        usage[CLAIM_STORAGE] = amount
    name = request.annotations.get(BETA_CLASS_ANNOTATION) or request.spec.get("storageClassName")
    if name:
        usage[f"{name}{CLASS_INFIX}{CLAIM_COUNT}"] = ONE
        if amount is not None:
            usage[f"{name}{CLASS_INFIX}{CLAIM_STORAGE}"] = amount
    return usage


def _is_resource_of_kind(name: str, request: AdmissionRequest) -> bool:
    """Return whether a resource name in a quota counts objects of the request's kind."""
    if request.is_pod:
        is_extended_request = name.startswith("requests.") and not is_native(name)
        is_extended_resource = name.startswith(IMPLICIT_RESOURCE_PREFIX) or is_extended_request
        return name in POD_RESOURCES or name.startswith(HUGE_PAGES) or is_extended_resource
    if request.kind == "PersistentVolumeClaim":
        return name in (CLAIM_COUNT, f"count/{CLAIM_COUNT}", CLAIM_STORAGE) or CLASS_INFIX in name
    if request.kind == KIND:
        return is_device_claim_resource(name, request)
    return name == f"count/{request.resource}"


def _matches_quota(quota: ResourceQuota, request: AdmissionRequest) -> bool:
    """Return whether a quota counts the object: the quota limits its resources, and all scopes match."""
    return any(_is_resource_of_kind(name, request) for name in quota.status.hard) and all(
        _matches_scope(term, request) for term in _iter_scopes(quota)
    )


def _iter_scopes(quota: ResourceQuota) -> Iterator[ScopeSelectorTerm]:
    """Yield the scopes of a quota as selector terms."""
    yield from (ScopeSelectorTerm(scope, "Exists") for scope in quota.spec.scopes)
    yield from quota.spec.scope_selector.match_expressions


def _matches_scope(term: ScopeSelectorTerm, request: AdmissionRequest) -> bool:
    """Return whether a scope of a quota includes the object. Most scopes include only pods."""
    if term.scope_name == "VolumeAttributesClass":
        name = request.spec.get("volumeAttributesClassName") or ""
        return request.kind == "PersistentVolumeClaim" and _does_scope_select_class(term, name)
    if not request.is_pod:
        return False
    if term.scope_name == "PriorityClass":
        return _does_scope_select_class(term, request.spec.get("priorityClassName") or "")
    predicate = _SCOPE_PREDICATES.get(term.scope_name)
    return predicate is not None and predicate(request)


def _does_scope_select_class(term: ScopeSelectorTerm, name: str) -> bool:
    """Return whether a scope selects the class with this name, which is "" for an object without a class."""
    match term.operator:
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
        case "In":
            return name in term.values and bool(name)
        case _:
            return name not in term.values


def _has_active_deadline(request: AdmissionRequest) -> bool:
    """Return whether the pod has an activeDeadlineSeconds, which the quota scope Terminating selects."""
    seconds = request.spec.get("activeDeadlineSeconds")
    return isinstance(seconds, int) and seconds >= 0


def list_qos_resources(request: AdmissionRequest) -> list[Writable]:
    """Return the resources that decide the pod's quality of service: those of the pod itself or of all its containers.

    The containers do not count if the pod has resources at pod level.
    """
    pod_resources: Writable = request.spec.get("resources") or {}
    if pod_resources:
        return [pod_resources]
    return [container.get("resources") or {} for container in (*request.containers, *request.init_containers)]


def is_best_effort(request: AdmissionRequest) -> bool:
    """Return whether the pod has no request or limit of cpu or memory above zero.

    If the pod has resources at pod level, only these count.
    """
    for resources in list_qos_resources(request):
        for part in ("requests", "limits"):
            amounts = parse_quantities(resources.get(part) or {})
            if amounts.get("cpu", ZERO) > ZERO or amounts.get("memory", ZERO) > ZERO:
                return False
    return True


def _has_cross_namespace_affinity(request: AdmissionRequest) -> bool:
    """Return whether a pod affinity or anti-affinity term of the pod names namespaces or has a namespaceSelector."""
    affinity = request.spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        required = terms.get("requiredDuringSchedulingIgnoredDuringExecution") or []
        preferred = terms.get("preferredDuringSchedulingIgnoredDuringExecution") or []
        for term in (*required, *((weighted.get("podAffinityTerm") or {}) for weighted in preferred)):
            if term.get("namespaces") or term.get("namespaceSelector") is not None:
                return True
    return False


_SCOPE_PREDICATES: Mapping[str, Callable[[AdmissionRequest], bool]] = {
    "Terminating": _has_active_deadline,
    "NotTerminating": lambda request: not _has_active_deadline(request),
    "BestEffort": is_best_effort,
    "NotBestEffort": lambda request: not is_best_effort(request),
    "CrossNamespacePodAffinity": _has_cross_namespace_affinity,
}


def _iter_unset_resources(names: Iterable[str], request: AdmissionRequest) -> Iterator[str]:
    """Yield a clause for each required resource that containers do not set, as in ``limits.cpu for: web,log``.

    ``names`` are resource names in quotas. Nothing is required of pods with pod-level resources.
    """
    required = REQUIRED_RESOURCES.intersection(names)
    if not required or not request.is_pod or request.spec.get("resources") is not None:
        return
    containers_by_resource: dict[str, set[str]] = {}
    for container in (*request.containers, *request.init_containers):
        resources = container.get("resources") or {}
        set_resources = compute_pod_quota_usage(
            parse_quantities(resources.get("requests") or {}), parse_quantities(resources.get("limits") or {})
        )
        for name in required.difference(set_resources):
            containers_by_resource.setdefault(name, set()).add(str(container.get("name", "")))
    for name, containers in sorted(containers_by_resource.items()):
        yield f"{name} for: {','.join(sorted(containers))}"


KIND, COUNT = "ResourceClaim", "count/resourceclaims.resource.k8s.io"
DEVICES_OF_CLASS_SUFFIX = ".deviceclass.resource.k8s.io/devices"
IMPLICIT_RESOURCE_PREFIX = f"{QUOTA_PREFIX}{DEVICE_CLASS_PREFIX}"
MAX_DEVICES = 32
"""The maximum number of devices of a claim, which a request for all devices of a class counts as."""


def compute_device_claim_usage(request: AdmissionRequest) -> Quantities:
    """Return the amounts that a ResourceClaim uses, keyed by the name of the resource in quotas.

    The claim itself counts as one object. Its requested devices are counted by class and, with the feature gate
    DRAExtendedResource, also by extended resource.
    """
    spec = convert_builtins(drop_nulls(request.spec), ResourceClaimSpec)
    devices_by_class: Counter[str] = Counter()
    for device_request in spec.devices.requests:
        devices_by_class.update(_count_devices_by_class(device_request))

    usage: Quantities = {COUNT: Quantity(1)}
    counts_extended_resources = _is_dra_extended_resource_enabled(request)
    resource_by_class = _get_extended_resource_by_class(request)
    for class_name, device_count in devices_by_class.items():
        usage[f"{class_name}{DEVICES_OF_CLASS_SUFFIX}"] = Quantity(device_count)
        if not counts_extended_resources:
            continue
        # Each class is also an implicit extended resource, and may define an explicit one
        usage[f"{IMPLICIT_RESOURCE_PREFIX}{class_name}"] = Quantity(device_count)
        if explicit_resource := resource_by_class.get(class_name):
            usage[f"{QUOTA_PREFIX}{explicit_resource}"] = Quantity(device_count)
    return usage


def is_device_claim_resource(name: str, request: AdmissionRequest) -> bool:
    """Return whether a resource name in a quota counts ResourceClaims or devices of a class."""
    if name == COUNT or name.endswith(DEVICES_OF_CLASS_SUFFIX):
        return True
    resource_by_class = _get_extended_resource_by_class(request)
    if name.startswith(IMPLICIT_RESOURCE_PREFIX):
        return bool(resource_by_class.get(name.removeprefix(IMPLICIT_RESOURCE_PREFIX)))
    return name.startswith(QUOTA_PREFIX) and name.removeprefix(QUOTA_PREFIX) in resource_by_class.values()


def _count_devices_by_class(device_request: DeviceRequest) -> Counter[str]:
    """Return, by device class, the maximum number of devices that a request may be allocated.

    Only one of the alternatives of a request is allocated, so their numbers are not added up.
    """
    max_by_class: Counter[str] = Counter()
    alternatives: list[ExactDeviceRequest | DeviceSubRequest] = list(device_request.first_available)
    if not alternatives and device_request.exactly:
        alternatives = [device_request.exactly]
    for alternative in alternatives:
        name = alternative.device_class_name
        max_by_class[name] = max(max_by_class[name], _count_devices_of_alternative(alternative))
    return max_by_class


def _count_devices_of_alternative(request: ExactDeviceRequest | DeviceSubRequest) -> int:
    """Return the number of devices that a request or an alternative asks for.

    It is 1 by default, and MAX_DEVICES for all devices of a class. An unknown allocation mode asks for none.
    """
    match request.allocation_mode:
        case "" | "ExactCount":
            return request.count or 1
        case "All":
            return MAX_DEVICES
        case _:
            return 0


def _is_dra_extended_resource_enabled(request: AdmissionRequest) -> bool:
    """Return whether the feature gate DRAExtendedResource is on, so that devices count as extended resources."""
    cluster = request.cluster
    return FeatureGates(cluster.kube_version, cluster.feature_gates).enabled("DRAExtendedResource")


def _get_extended_resource_by_class(request: AdmissionRequest) -> dict[str, str]:
    """Return the explicit extended resource of each device class that defines one.

    No class has one without the feature gate DRAExtendedResource.
    """
    if not _is_dra_extended_resource_enabled(request):
        return {}
    return {
        device_class.metadata.name: device_class.spec.extended_resource_name
        for device_class in request.cluster.device_classes
        if device_class.spec.extended_resource_name
    }
