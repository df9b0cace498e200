"""Validation of requests, limits and claims of containers and pods. Upstream: validateResourceRequirements."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress

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
from kschedctl.api.pod_requests import (
    Quantities,
    aggregate_container_limits,
    aggregate_container_requests,
    parse_quantities,
)
from kschedctl.api.quantity import MILLI, Quantity, QuantityError, parse_quantity
from kschedctl.api.resource_names import HUGE_PAGES_PREFIX, is_extended, is_native, is_pod_level
from kschedctl.api.validation import names

_QUOTA_COUNTS = (
    *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
    *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
)
_CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_STANDARD_NAMES = frozenset(
    (
        *_CONTAINER_RESOURCES,
        *_QUOTA_COUNTS,
        *("storage", "requests.storage"),
        *(f"{part}.{name}" for part in ("requests", "limits") for name in _CONTAINER_RESOURCES),
    )
)
"""Names without a domain that have a meaning somewhere, for example in a quota."""
_CONTAINERS_ONLY = RequestOptions(use_status=False, pod_level=False, overhead=False)


def validate_container_resources(
    resources: ResourceRequirements, claims: Collection[str], path: Path
) -> ValidationErrors:
    """Validate the resources of a container. ``claims`` are the names in spec.resourceClaims.

    Upstream: ValidateContainerResourceRequirements.
    """
    yield from _validate_requirements(resources, path, of_pod=False)
    yield from _validate_container_claims(resources.claims, claims, (*path, "claims"))


def validate_overhead(amounts: Resources, path: Path) -> ValidationErrors:
    """Validate the overhead of a pod. Upstream: validateOverhead, whose messages call overhead limits."""
    yield from _validate_requirements(ResourceRequirements(limits=amounts), path, of_pod=False)


def validate_pod_resources(spec: PodSpec, path: Path) -> ValidationErrors:
    """Validate a pod's pod-level resources, if it has any. Upstream: validatePodResources."""
    resources = spec.resources
    if resources is None:
        return
    if resources.claims:
        yield forbidden((*path, "claims"), "claims may not be set for Resources at pod-level")
    yield from _validate_requirements(resources, path, of_pod=True)
    requests = _parse_valid_amounts(resources.requests)
    limits = _parse_valid_amounts(resources.limits)
    with suppress(QuantityError):  # a container's invalid quantity is reported where it is decoded
        yield from _validate_pod_level_consistency(spec, requests, limits, path)


def validate_container_resource_name(name: str, path: Path) -> ValidationErrors:
    """Validate the name of a container's resource.

    A name without a slash has to be hugepages or a standard resource such as cpu. A name with a slash has to be in a
    domain of kubernetes.io, or the name of a valid extended resource. Upstream: validateContainerResourceName.
    """
    yield from _validate_any_resource_name(name, path)
    if "/" not in name:
        if name not in _CONTAINER_RESOURCES and not name.startswith(HUGE_PAGES_PREFIX):
            yield invalid(path, TypedString(name), "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield invalid(path, TypedString(name), "doesn't follow extended resource name standard")


def _validate_pod_resource_name(name: str, path: Path) -> ValidationErrors:
    """Validate the name of a pod-level resource. Upstream: validatePodResourceName."""
    errors = tuple(_validate_any_resource_name(name, path))
    if errors:
        yield from errors
    elif not is_pod_level(name):
        yield not_supported(path, TypedString(name), ("cpu", HUGE_PAGES_PREFIX, "memory"))


def _validate_any_resource_name(name: str, path: Path) -> ValidationErrors:
    """Validate a resource name by the rules that hold everywhere. Upstream: validateResourceName."""
    faults = [invalid(path, TypedString(name), problem) for problem in names.validate_qualified_name(name)]
    is_standard = name in _STANDARD_NAMES or name.startswith((HUGE_PAGES_PREFIX, f"requests.{HUGE_PAGES_PREFIX}"))
    if not faults and "/" not in name and not is_standard:
        faults.append(invalid(path, TypedString(name), "must be a standard resource type or fully qualified"))
    yield from faults


def _validate_requirements(resources: ResourceRequirements, path: Path, *, of_pod: bool) -> ValidationErrors:
    """Validate the names and amounts of limits and requests. Upstream: ValidateResourceRequirements.

    Huge pages are valid only together with cpu or memory. If ``of_pod`` is true, these are pod-level resources, for
    which fewer names are allowed than for containers.
    """
    limits = _parse_valid_amounts(resources.limits)
    requests = _parse_valid_amounts(resources.requests)
    for name, amount in sorted(limits.items()):
        yield from _validate_amount(name, amount, (*path, "limits", Key(name)), of_pod)
        yield from _validate_whole_pages(name, amount, (*path, "limits", Key(name)))
    for name, amount in sorted(requests.items()):
        yield from _validate_amount(name, amount, (*path, "requests", Key(name)), of_pod)
        yield from _validate_request_within_limit(name, amount, limits, path)
        yield from _validate_whole_pages(name, amount, (*path, "requests", Key(name)))
    named_resources = {*limits, *requests}
    if any(name.startswith(HUGE_PAGES_PREFIX) for name in named_resources) and not named_resources & {"cpu", "memory"}:
        yield forbidden(path, "HugePages require cpu or memory")


def _parse_valid_amounts(resources: Resources) -> Quantities:
    """Parse the valid quantities, rounded up to thousandths as the API server stores them.

    Invalid quantities are left out: they are reported where the object is decoded.
    """
    readable = {}
    for name, text in resources.items():
        try:
            readable[name] = parse_quantities({name: text})[name].round_up(MILLI)
        except QuantityError:
            continue
    return readable


def _validate_amount(name: str, amount: Quantity, path: Path, of_pod: bool) -> ValidationErrors:
    """Validate the name of a resource, and that its amount is not negative. Upstream: ValidateResourceQuantityValue.

    Amounts of extended resources and object counts must be integers. ``of_pod`` says whether the resource is pod-level.
    """
    validate_name = _validate_pod_resource_name if of_pod else validate_container_resource_name
    yield from validate_name(name, path)
    if amount < parse_quantity("0"):
        yield invalid(path, str(amount), "must be greater than or equal to 0")
    if (name in _QUOTA_COUNTS or is_extended(name)) and amount.milli_value() % 1000:
        yield invalid(path, str(amount), "must be an integer")


def _validate_request_within_limit(name: str, amount: Quantity, limits: Quantities, path: Path) -> ValidationErrors:
    """Validate that a request does not exceed the limit of the resource.

    Extended resources and huge pages cannot be overcommitted, so their request has to equal the limit.
    """
    can_be_overcommitted = is_native(name) and not name.startswith(HUGE_PAGES_PREFIX)
    limit = limits.get(name)
    if limit is None:
        if not can_be_overcommitted:
            yield required((*path, "limits"), "Limit must be set for non overcommitable resources")
    elif not can_be_overcommitted and amount != limit:
        yield invalid((*path, "requests"), str(amount), f"must be equal to {name} limit of {limit}")
    elif amount > limit:
        yield invalid((*path, "requests"), str(amount), f"must be less than or equal to {name} limit of {limit}")


def _validate_whole_pages(name: str, amount: Quantity, path: Path) -> ValidationErrors:
    """Validate that an amount of huge pages is a multiple of the page size."""
    if name.startswith(HUGE_PAGES_PREFIX) and not _is_multiple_of_huge_page_size(name, amount):
        yield invalid(path, str(amount), f"{amount} is not positive integer multiple of {name}")


def _is_multiple_of_huge_page_size(name: str, amount: Quantity) -> bool:
    """Return whether the amount is a multiple of the page size in the resource name.

    Return False if the page size is not a positive whole number. Upstream: IsHugePageResourceValueDivisible.
    """
    try:
        page = parse_quantity(name.removeprefix(HUGE_PAGES_PREFIX))
    except QuantityError:
        return False
    is_whole_number = page.milli_value() % 1000 == 0
    is_valid_page_size = is_whole_number and page > parse_quantity("0")
    return is_valid_page_size and amount.value() % page.value() == 0


def _validate_container_claims(
    claims: Sequence[ContainerResourceClaim], claim_names: Collection[str], path: Path
) -> ValidationErrors:
    """Validate that each claim of a container is a claim of the pod and is used only once.

    ``claim_names`` are the names of the pod's claims. Upstream: validateResourceClaimNames.
    """
    used_keys: set[str] = set()
    for i, claim in enumerate(claims):
        field_path = (*path, i)
        if not claim.name:
            yield required(field_path)
            continue
        key = f"{claim.name}/{claim.request}" if claim.request else claim.name
        if claim.name in used_keys:  # the claim as a whole, without a request
            yield duplicate(field_path, claim.name)
        else:
            if claim.request:
                yield from names.validate_syntax((*field_path, "request"), claim.request, names.validate_dns_label)
            # A claim as a whole must not be used in addition to one of its requests.
            uses_request = any(used_key.startswith(f"{claim.name}/") for used_key in used_keys)
            if key in used_keys or (uses_request and not claim.request):
                yield duplicate(field_path, key)
            used_keys.add(key)
        if claim.name not in claim_names:
            where = f": {', '.join(sorted(claim_names))}" if claim_names else " which is empty"
            yield not_found(field_path, claim.name, f"must be one of the names in pod.spec.resourceClaims{where}")


def _validate_pod_level_consistency(
    spec: PodSpec, requests: Quantities, limits: Quantities, path: Path
) -> ValidationErrors:
    """Validate that the containers' resources fit into the pod-level requests and limits.

    Upstream: validatePodResourceConsistency.
    """
    container_requests = aggregate_container_requests(Pod(PodMeta(), spec), _CONTAINERS_ONLY)
    for name, amount in sorted(container_requests.items()):
        if name in requests and amount > requests[name]:
            rule = f"must be greater than or equal to aggregate container requests of {amount}"
            yield invalid((*path, "requests", Key(name)), str(requests[name]), rule)
    for name, amount in sorted(aggregate_container_limits(spec.containers, spec.init_containers).items()):
        if name.startswith(HUGE_PAGES_PREFIX) and name in limits and amount > limits[name]:
            rule = f"must be greater than or equal to aggregate container limits of {amount}"
            yield invalid((*path, "limits", Key(name)), str(limits[name]), rule)
    for i, container in enumerate(spec.containers):
        yield from _validate_below_pod_limits(container, limits, (*path, "containers", i))


def _validate_below_pod_limits(container: Container, limits: Quantities, path: Path) -> ValidationErrors:
    """Validate that the limits of a container do not exceed the pod-level limits."""
    for name, amount in sorted(_parse_valid_amounts(container.resources.limits).items()):
        if name in limits and amount > limits[name]:
            rule = f"must be less than or equal to pod limits of {limits[name]}"
            yield invalid((*path, Key(name), "limits"), str(amount), rule)
