"""ResourceQuotas: what an object uses of them, and whether that is left.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go, pkg/quota/v1/evaluator/core
(v1.36). What is in a quota's status counts, not its spec.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from kschedctl.admission import device_quota
from kschedctl.admission.request import AdmissionRequest
from kschedctl.api.copying import replace
from kschedctl.api.objects import ResourceQuota, ResourceQuotaStatus, ScopeSelectorTerm
from kschedctl.api.pod_requests import Quantities, parse_quantities
from kschedctl.api.quantity import Quantity, parse
from kschedctl.api.resource_names import DEVICE_CLASS_PREFIX, is_extended, is_native

ONE, ZERO = Quantity(1), Quantity(0)
COMPUTE = ("cpu", "memory", "ephemeral-storage")
OF_PODS = frozenset(
    ("pods", "count/pods", *COMPUTE, *(f"{part}.{name}" for part in ("requests", "limits") for name in COMPUTE))
)
DEMANDED = frozenset(f"{part}{name}" for part in ("", "requests.", "limits.") for name in ("cpu", "memory"))
"""What every container has to say where a quota limits it."""
HUGE_PAGES = ("hugepages-", "requests.hugepages-")
CLAIMS, STORAGE = "persistentvolumeclaims", "requests.storage"
OF_CLASS = ".storageclass.storage.k8s.io/"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"

OF_DEADLINE = ("Terminating", "NotTerminating")
"""Scopes that ask for activeDeadlineSeconds, which no scheduler reads of a pod."""


def is_counted(quota: ResourceQuota, *, in_full: bool) -> bool:
    """Whether a quota is replayed: it has a status, and no scope asks for deadlines of pods not known ``in_full``."""
    names = (*quota.spec.scopes, *(term.scope_name for term in quota.spec.scope_selector.match_expressions))
    return bool(quota.status.hard) and (in_full or not any(name in OF_DEADLINE for name in names))


def check(request: AdmissionRequest) -> None:
    """Raises NotAdmittedError: first what a quota demands to be said, then what is not left of one."""
    usage = _usage(request)
    concerned = [quota for quota in request.quotas if _concerns(quota, request)]
    for quota in concerned:
        names = [name for name in quota.status.hard if _is_of(name, request)]
        if missing := list(_not_said(names, request)):
            raise request.forbidden(f"failed quota: {quota.metadata.name}: must specify {'; '.join(missing)}")
        if any(name not in quota.status.used for name in names):
            said = ",".join(sorted(names))
            raise request.forbidden(f"status unknown for quota: {quota.metadata.name}, resources: {said}")
    for quota in concerned:
        if fault := exceeded(quota, usage):
            raise request.forbidden(fault)


def room(request: AdmissionRequest, most: int) -> int:
    """For how many of ``most`` objects like this one the quotas have room, one after the other."""
    usage = _usage(request)
    concerned = [quota for quota in request.quotas if _concerns(quota, request)]

    def refused(quota: ResourceQuota, number: int) -> bool:
        return bool(exceeded(_charged(quota, usage, number), usage))

    for quota in concerned:  # most often there is room for all
        if most and refused(quota, most - 1):
            most = bisect_left(range(most), True, key=partial(refused, quota))
    return most


def charged(request: AdmissionRequest, number: int) -> tuple[ResourceQuota, ...]:
    """The quotas once so many objects like this one are counted."""
    usage = _usage(request)
    return tuple(_charged(q, usage, number) if _concerns(q, request) else q for q in request.quotas)


def raised(request: AdmissionRequest, number: int) -> dict[str, dict[str, str]]:
    """Quota -> what it would have to hold of each resource for so many objects like this one, where that is more."""
    usage = _usage(request)
    by_quota: dict[str, dict[str, str]] = {}
    for quota in request.quotas:
        if _concerns(quota, request):
            hard, after = parse_quantities(quota.status.hard), _charged(quota, usage, number).status.used
            over = {name: str(after[name]) for name in usage if name in hard and parse(after.get(name, 0)) > hard[name]}
            by_quota |= {quota.metadata.name: over} if over else {}
    return by_quota


def not_said(request: AdmissionRequest) -> list[str]:
    """What the containers have to say for the quotas and do not: ``limits.cpu for: web,log``."""
    names = {name for quota in request.quotas if _concerns(quota, request) for name in quota.status.hard}
    return list(_not_said(filter(partial(_is_of, request=request), names), request))


def _charged(quota: ResourceQuota, usage: Quantities, number: int) -> ResourceQuota:
    before = parse_quantities(quota.status.used)
    counted = {
        name: str(before[name].add(Quantity(amount.mantissa * number, amount.scale, amount.format)))
        for name, amount in usage.items()
        if number and name in before and name in quota.status.hard
    }
    status = ResourceQuotaStatus(quota.status.hard, {**quota.status.used, **counted})
    return replace(quota, status=status)


def _usage(request: AdmissionRequest) -> Quantities:
    """What counts of what the object uses."""
    return {name: amount for name, amount in used(request).items() if amount != ZERO}


def exceeded(quota: ResourceQuota, usage: Quantities) -> str:
    """What is not left of a quota, in the API server's words; empty where all is."""
    hard, before = parse_quantities(quota.status.hard), parse_quantities(quota.status.used)
    over = [name for name, amount in usage.items() if name in hard and before.get(name, ZERO).add(amount) > hard[name]]
    if not over:
        return ""
    lists = (usage, {name: before.get(name, ZERO) for name in over}, hard)
    asked, so_far, most = (",".join(f"{name}={amounts[name]}" for name in sorted(over)) for amounts in lists)
    return f"exceeded quota: {quota.metadata.name}, requested: {asked}, used: {so_far}, limited: {most}"


def used(request: AdmissionRequest) -> Quantities:
    """What the object uses, by the names that quotas have for it."""
    if request.is_pod:
        return dict(pod_usage(*request.totals(overhead=True)), **{"pods": ONE, "count/pods": ONE})
    if request.kind == "PersistentVolumeClaim":
        return _claim_usage(request)
    if request.kind == device_quota.KIND:
        return device_quota.claim_usage(request)
    return {f"count/{request.resource}": ONE}


def pod_usage(requests: Quantities, limits: Quantities) -> Quantities:
    """What requests and limits use, by the names that quotas have for it."""
    usage: Quantities = {}
    for name in COMPUTE:
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


def _claim_usage(request: AdmissionRequest) -> Quantities:
    amount = parse_quantities((request.spec.get("resources") or {}).get("requests") or {}).get("storage")
    usage: Quantities = {CLAIMS: ONE, f"count/{CLAIMS}": ONE}
    if amount is not None:
        usage[STORAGE] = amount
    name = request.annotations.get(BETA_CLASS) or request.spec.get("storageClassName")
    if name:
        usage[f"{name}{OF_CLASS}{CLAIMS}"] = ONE
        if amount is not None:
            usage[f"{name}{OF_CLASS}{STORAGE}"] = amount
    return usage


def _is_of(name: str, request: AdmissionRequest) -> bool:
    """Whether a name in a quota is about objects of the kind."""
    if request.is_pod:
        extended = name.startswith(device_quota.IMPLICIT) or (name.startswith("requests.") and not is_native(name))
        return name in OF_PODS or name.startswith(HUGE_PAGES) or extended
    if request.kind == "PersistentVolumeClaim":
        return name in (CLAIMS, f"count/{CLAIMS}", STORAGE) or OF_CLASS in name
    if request.kind == device_quota.KIND:
        return device_quota.is_of_claims(name, request)
    return name == f"count/{request.resource}"


def _concerns(quota: ResourceQuota, request: AdmissionRequest) -> bool:
    """Whether a quota is about the object: some of its names, and all of its scopes."""
    return any(_is_of(name, request) for name in quota.status.hard) and all(
        _matches(term, request) for term in _scopes(quota)
    )


def _scopes(quota: ResourceQuota) -> Iterator[ScopeSelectorTerm]:
    yield from (ScopeSelectorTerm(scope, "Exists") for scope in quota.spec.scopes)
    yield from quota.spec.scope_selector.match_expressions


def _matches(term: ScopeSelectorTerm, request: AdmissionRequest) -> bool:
    if term.scope_name == "VolumeAttributesClass":
        name = request.spec.get("volumeAttributesClassName") or ""
        return request.kind == "PersistentVolumeClaim" and _selects(term, name)
    if not request.is_pod:
        return False
    if term.scope_name == "PriorityClass":
        return _selects(term, request.spec.get("priorityClassName") or "")
    return _SCOPES[term.scope_name](request) if term.scope_name in _SCOPES else False


def _selects(term: ScopeSelectorTerm, name: str) -> bool:
    """Whether a scope selects a class by its name, empty for none."""
    match term.operator:
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
        case "In":
            return name in term.values and bool(name)
        case _:
            return name not in term.values


def _is_terminating(request: AdmissionRequest) -> bool:
    seconds = request.spec.get("activeDeadlineSeconds")
    return isinstance(seconds, int) and seconds >= 0


def is_best_effort(request: AdmissionRequest) -> bool:
    """Whether nothing that counts is requested of cpu and memory, nor limited."""
    own = request.spec.get("resources") or {}
    parts = [own] if own else [c.get("resources") or {} for c in (*request.containers, *request.init_containers)]
    amounts = (parse_quantities(part.get(name) or {}) for part in parts for name in ("requests", "limits"))
    return not any(
        amount > ZERO for resources in amounts for name, amount in resources.items() if name in ("cpu", "memory")
    )


def _has_affinity_elsewhere(request: AdmissionRequest) -> bool:
    """Whether the pod has an affinity term about pods of other namespaces."""
    affinity = request.spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        required = terms.get("requiredDuringSchedulingIgnoredDuringExecution") or []
        preferred = terms.get("preferredDuringSchedulingIgnoredDuringExecution") or []
        for term in (*required, *((wish.get("podAffinityTerm") or {}) for wish in preferred)):
            if term.get("namespaces") or term.get("namespaceSelector") is not None:
                return True
    return False


_SCOPES: Mapping[str, Callable[[AdmissionRequest], bool]] = {
    "Terminating": _is_terminating,
    "NotTerminating": lambda request: not _is_terminating(request),
    "BestEffort": is_best_effort,
    "NotBestEffort": lambda request: not is_best_effort(request),
    "CrossNamespacePodAffinity": _has_affinity_elsewhere,
}


def _not_said(names: Iterable[str], request: AdmissionRequest) -> Iterator[str]:
    """``limits.cpu for: web,log``: what containers have to say and do not."""
    demanded = DEMANDED.intersection(names)
    if not demanded or not request.is_pod or request.spec.get("resources") is not None:
        return
    missing: dict[str, set[str]] = {}
    for container in (*request.containers, *request.init_containers):
        resources = container.get("resources") or {}
        said = pod_usage(
            parse_quantities(resources.get("requests") or {}), parse_quantities(resources.get("limits") or {})
        )
        for name in demanded.difference(said):
            missing.setdefault(name, set()).add(str(container.get("name", "")))
    for name in sorted(missing):
        yield f"{name} for: {','.join(sorted(missing[name]))}"
