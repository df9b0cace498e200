"""Checks for quantities that cannot be parsed or added up, so that rules that count never meet one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from kschedctl.api import objects as api
from kschedctl.api.pod_requests import compute_pod_requests, parse_quantities
from kschedctl.api.quantity import Quantity, QuantityError
from kschedctl.lint.objects.subject import Path, Problem, Subject, format_path
from kschedctl.lint.objects.workload import Workload
from kschedctl.snapshot.pod_info import to_amounts

QuantityFields = Iterator[tuple[Path, api.Resources]]
"""Paths of fields that hold quantities, with their values."""


def parse_valid_quantities(resources: api.Resources) -> dict[str, Quantity]:
    """Parse quantities and leave out invalid ones, which are reported separately."""
    amounts: dict[str, Quantity] = {}
    for name, text in resources.items():
        with suppress(QuantityError):
            amounts |= parse_quantities({name: text})
    return amounts


def find_invalid_requests(workload: Workload) -> Iterator[Problem]:
    """Yield a problem for each request, limit or overhead that is not a valid quantity."""
    return _find_invalid(workload.subject, _iter_pod_quantities(workload))


def find_invalid_storage(subject: Subject, value: object) -> Iterator[Problem]:
    """Yield a problem for each invalid quantity that a claim requests or a volume provides."""
    return _find_invalid(subject, _iter_storage_quantities(value))


def explain_uncountable_requests(workload: Workload) -> str:
    """Explain why the total requests of a pod cannot be computed: negative, or too large for any node.

    Return an empty string if they can.
    """
    try:
        to_amounts(compute_pod_requests(workload.pod))
    except QuantityError as error:
        return f"{format_path(workload.get_path('containers'))}: {error.what}"
    return ""


def has_negative_quantity(workload: Workload) -> bool:
    """Return whether a valid quantity of the pod is negative."""
    return any(
        amount.mantissa < 0
        for _, resources in _iter_pod_quantities(workload)
        for amount in parse_quantities(resources).values()
    )


def _find_invalid(subject: Subject, fields: QuantityFields) -> Iterator[Problem]:
    """Yield a problem for each value that is not a valid quantity."""
    for path, resources in fields:
        for name, text in resources.items():
            try:
                parse_quantities({name: text})
            except QuantityError as error:
                yield subject.build_problem((*path, name), f"{format_path((*path, name))}: {text}: {error.what}")


def _iter_pod_quantities(workload: Workload) -> QuantityFields:
    """Yield the requests, limits and overhead of a workload's pod, with their paths from the root of the object."""
    yield from ((workload.get_path(*path), resources) for path, resources in iter_requests_and_limits(workload))
    yield workload.get_path("overhead"), workload.spec.overhead


def iter_requests_and_limits(workload: Workload) -> QuantityFields:
    """Yield the requests and limits of each container, then of the whole pod, with their paths in the pod's spec."""
    for at, container in workload.containers:
        yield (*at, "resources", "requests"), container.resources.requests
        yield (*at, "resources", "limits"), container.resources.limits
    if workload.spec.resources is not None:
        yield ("resources", "requests"), workload.spec.resources.requests
        yield ("resources", "limits"), workload.spec.resources.limits


def _iter_storage_quantities(value: object) -> QuantityFields:
    """Yield the requests of a claim or the capacity of a volume, with their paths."""
    if isinstance(value, api.PersistentVolumeClaim):
        yield ("spec", "resources", "requests"), value.spec.resources.requests
    elif isinstance(value, api.PersistentVolume):
        yield ("spec", "capacity"), value.spec.capacity
