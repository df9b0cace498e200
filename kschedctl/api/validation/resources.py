"""What containers and pods ask for: requests, limits, claims. Upstream: validateResourceRequirements."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kschedctl.api.field_errors import (
    Key,
    Path,
    TypedString,
    ValidationErrors,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from kschedctl.api.objects import (
    Container,
    ContainerResourceClaim,
    Pod,
    PodMeta,
    PodSpec,
    ResourceRequirements,
    Resources,
)
from kschedctl.api.pod_requests import Options as RequestOptions
from kschedctl.api.pod_requests import Quantities, aggregate_container_requests, container_limits, quantities
from kschedctl.api.quantity import MILLI, Quantity, QuantityError, parse
from kschedctl.api.resource_names import HUGE_PAGES_PREFIX, is_extended, is_native, is_pod_level
from kschedctl.api.validation import names

_COUNTED = (
    *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
    *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
)
_OF_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
_STANDARD = frozenset(
    (
        *_OF_CONTAINERS,
        *_COUNTED,
        *("storage", "requests.storage"),
        *(f"{part}.{name}" for part in ("requests", "limits") for name in _OF_CONTAINERS),
    )
)
"""Names without a domain that mean something somewhere, be it in a quota."""
_ALONE = RequestOptions(use_status=False, pod_level=False, overhead=False)


def container_resources(resources: ResourceRequirements, claims: Collection[str], path: Path) -> ValidationErrors:
    """Resources of a container; ``claims`` are the names in spec.resourceClaims.

    Upstream: ValidateContainerResourceRequirements.
    """
    yield from _requirements(resources, path, of_pod=False)
    yield from _claims(resources.claims, claims, (*path, "claims"))


def overhead(amounts: Resources, path: Path) -> ValidationErrors:
    """Upstream: validateOverhead, which takes it for limits and says so."""
    yield from _requirements(ResourceRequirements(limits=amounts), path, of_pod=False)


def pod_resources(spec: PodSpec, path: Path) -> ValidationErrors:
    """Resources of the pod as a whole. Upstream: validatePodResources."""
    resources = spec.resources
    if resources is None:
        return
    if resources.claims:
        yield forbidden((*path, "claims"), "claims may not be set for Resources at pod-level")
    yield from _requirements(resources, path, of_pod=True)
    try:
        yield from _consistent(spec, _readable(resources.requests), _readable(resources.limits), path)
    except QuantityError:
        return  # of a container; whoever reads it says so


def resource_name(name: str, path: Path) -> ValidationErrors:
    """The name of a resource of a container. Upstream: validateContainerResourceName."""
    yield from _any_resource_name(name, path)
    if "/" not in name:
        if name not in _OF_CONTAINERS and not name.startswith(HUGE_PAGES_PREFIX):
            yield invalid(path, TypedString(name), "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield invalid(path, TypedString(name), "doesn't follow extended resource name standard")


def _pod_resource_name(name: str, path: Path) -> ValidationErrors:
    """Upstream: validatePodResourceName."""
    if faults := tuple(_any_resource_name(name, path)):
        yield from faults
    elif not is_pod_level(name):
        yield not_supported(path, TypedString(name), ("cpu", HUGE_PAGES_PREFIX, "memory"))


def _any_resource_name(name: str, path: Path) -> ValidationErrors:
    """Upstream: validateResourceName."""
    faults = [invalid(path, TypedString(name), problem) for problem in names.qualified_name(name)]
    known = name in _STANDARD or name.startswith((HUGE_PAGES_PREFIX, f"requests.{HUGE_PAGES_PREFIX}"))
    if not faults and "/" not in name and not known:
        faults.append(invalid(path, TypedString(name), "must be a standard resource type or fully qualified"))
    yield from faults


def _requirements(resources: ResourceRequirements, path: Path, *, of_pod: bool) -> ValidationErrors:
    limits, requests = _readable(resources.limits), _readable(resources.requests)
    for name, amount in sorted(limits.items()):
        yield from _amount(name, amount, (*path, "limits", Key(name)), of_pod)
        yield from _whole_pages(name, amount, (*path, "limits", Key(name)))
    for name, amount in sorted(requests.items()):
        yield from _amount(name, amount, (*path, "requests", Key(name)), of_pod)
        yield from _within_limit(name, amount, limits, path)
        yield from _whole_pages(name, amount, (*path, "requests", Key(name)))
    asked = {*limits, *requests}
    if any(name.startswith(HUGE_PAGES_PREFIX) for name in asked) and not asked & {"cpu", "memory"}:
        yield forbidden(path, "HugePages require cpu or memory")


def _readable(resources: Resources) -> Quantities:
    """As the API server keeps them, in thousandths at the least; what is no quantity is found by who reads them."""
    readable = {}
    for name, text in resources.items():
        try:
            readable[name] = quantities({name: text})[name].round_up(MILLI)
        except QuantityError:
            continue
    return readable


def _amount(name: str, amount: Quantity, path: Path, of_pod: bool) -> ValidationErrors:
    """Upstream: ValidateResourceQuantityValue."""
    yield from _pod_resource_name(name, path) if of_pod else resource_name(name, path)
    if amount < parse("0"):
        yield invalid(path, str(amount), "must be greater than or equal to 0")
    if (name in _COUNTED or is_extended(name)) and amount.milli_value() % 1000:
        yield invalid(path, str(amount), "must be an integer")


def _within_limit(name: str, amount: Quantity, limits: Quantities, path: Path) -> ValidationErrors:
    """Extended resources and huge pages cannot be promised to more than one."""
    overcommit = is_native(name) and not name.startswith(HUGE_PAGES_PREFIX)
    limit = limits.get(name)
    if limit is None:
        if not overcommit:
            yield required((*path, "limits"), "Limit must be set for non overcommitable resources")
    elif not overcommit and amount != limit:
        yield invalid((*path, "requests"), str(amount), f"must be equal to {name} limit of {limit}")
    elif amount > limit:
        yield invalid((*path, "requests"), str(amount), f"must be less than or equal to {name} limit of {limit}")


def _whole_pages(name: str, amount: Quantity, path: Path) -> ValidationErrors:
    if name.startswith(HUGE_PAGES_PREFIX) and not _is_divisible(name, amount):
        yield invalid(path, str(amount), f"{amount} is not positive integer multiple of {name}")


def _is_divisible(name: str, amount: Quantity) -> bool:
    """Upstream: IsHugePageResourceValueDivisible."""
    try:
        page = parse(name.removeprefix(HUGE_PAGES_PREFIX))
    except QuantityError:
        return False
    whole = page > parse("0") and page.milli_value() % 1000 == 0
    return whole and amount.value() % page.value() == 0


def _claims(claims: Sequence[ContainerResourceClaim], known: Collection[str], path: Path) -> ValidationErrors:
    """Upstream: validateResourceClaimNames."""
    used: set[str] = set()
    for i, claim in enumerate(claims):
        at = (*path, i)
        if not claim.name:
            yield required(at)
            continue
        key = f"{claim.name}/{claim.request}" if claim.request else claim.name
        if claim.name in used:
            yield duplicate(at, claim.name)
        else:
            if claim.request:
                yield from names.check((*at, "request"), claim.request, names.dns_label)
            parts = [other for other in used if other.startswith(f"{claim.name}/")] if not claim.request else []
            if key in used or parts:
                yield duplicate(at, key)
            used.add(key)
        if claim.name not in known:
            where = f": {', '.join(sorted(known))}" if known else " which is empty"
            yield not_found(at, claim.name, f"must be one of the names in pod.spec.resourceClaims{where}")


def _consistent(spec: PodSpec, requests: Quantities, limits: Quantities, path: Path) -> ValidationErrors:
    """The containers' against those of the pod. Upstream: validatePodResourceConsistency."""
    together = aggregate_container_requests(Pod(PodMeta(), spec), _ALONE)
    for name, amount in sorted(together.items()):
        if name in requests and amount > requests[name]:
            rule = f"must be greater than or equal to aggregate container requests of {amount}"
            yield invalid((*path, "requests", Key(name)), str(requests[name]), rule)
    for name, amount in sorted(container_limits(spec.containers, spec.init_containers).items()):
        if name.startswith(HUGE_PAGES_PREFIX) and name in limits and amount > limits[name]:
            rule = f"must be greater than or equal to aggregate container limits of {amount}"
            yield invalid((*path, "limits", Key(name)), str(limits[name]), rule)
    for i, container in enumerate(spec.containers):
        yield from _below_pod(container, limits, (*path, "containers", i))


def _below_pod(container: Container, limits: Quantities, path: Path) -> ValidationErrors:
    for name, amount in sorted(_readable(container.resources.limits).items()):
        if name in limits and amount > limits[name]:
            rule = f"must be less than or equal to pod limits of {limits[name]}"
            yield invalid((*path, Key(name), "limits"), str(amount), rule)
