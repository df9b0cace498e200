"""Quantities of manifests that cannot be read, or that nothing can count: no rule that counts may meet them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from kschedctl.api import objects as api
from kschedctl.api.pod_requests import compute_pod_requests, parse_quantities
from kschedctl.api.quantity import Quantity, QuantityError
from kschedctl.lint.objects.subject import Path, Problem, Subject, path_text
from kschedctl.lint.objects.workload import Workload
from kschedctl.snapshot.pod_info import to_amounts

Amounts = Iterator[tuple[Path, api.Resources]]
"""Fields of an object that hold quantities."""


def readable(resources: api.Resources) -> dict[str, Quantity]:
    """The quantities that can be read; the others are findings of their own."""
    amounts: dict[str, Quantity] = {}
    for name, text in resources.items():
        with suppress(QuantityError):
            amounts |= parse_quantities({name: text})
    return amounts


def unreadable_requests(workload: Workload) -> Iterator[Problem]:
    """Requests and limits that are no quantities."""
    return _unreadable(workload.subject, _of_pods(workload))


def unreadable_storage(subject: Subject, value: object) -> Iterator[Problem]:
    """What a claim asks for, or a volume has, that is no quantity."""
    return _unreadable(subject, _of_storage(value))


def uncountable(workload: Workload) -> str:
    """Why a pod's readable requests cannot be counted: below nothing, or more than any node can have; else empty."""
    try:
        to_amounts(compute_pod_requests(workload.pod))
    except QuantityError as error:
        return f"{path_text(workload.at_field('containers'))}: {error.what}"
    return ""


def asks_for_less_than_nothing(workload: Workload) -> bool:
    """Whether a quantity that can be read is below nothing."""
    return any(
        amount.mantissa < 0 for _, resources in _of_pods(workload) for amount in parse_quantities(resources).values()
    )


def _unreadable(subject: Subject, fields: Amounts) -> Iterator[Problem]:
    for path, resources in fields:
        for name, text in resources.items():
            try:
                parse_quantities({name: text})
            except QuantityError as error:
                yield subject.problem((*path, name), f"{path_text((*path, name))}: {text}: {error.what}")


def _of_pods(workload: Workload) -> Amounts:
    yield from ((workload.at_field(*path), resources) for path, resources in asked_amounts(workload))
    yield workload.at_field("overhead"), workload.spec.overhead


def asked_amounts(workload: Workload) -> Amounts:
    """The requests and limits of containers, then of whole pods, each with where they stand in the pod's spec."""
    for at, container in workload.containers:
        yield (*at, "resources", "requests"), container.resources.requests
        yield (*at, "resources", "limits"), container.resources.limits
    if workload.spec.resources is not None:
        yield ("resources", "requests"), workload.spec.resources.requests
        yield ("resources", "limits"), workload.spec.resources.limits


def _of_storage(value: object) -> Amounts:
    if isinstance(value, api.PersistentVolumeClaim):
        yield ("spec", "resources", "requests"), value.spec.resources.requests
    elif isinstance(value, api.PersistentVolume):
        yield ("spec", "capacity"), value.spec.capacity
