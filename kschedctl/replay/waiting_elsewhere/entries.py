"""Shared parts of the reports on waiting objects: names, ages and conditions, and amounts of resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from kschedctl.api.defaults import apply_pod_defaults
from kschedctl.api.objects import Condition, ObjectMeta, Pod, PodMeta, PodTemplateSpec, Resources
from kschedctl.api.ownership import Owner, find_controller
from kschedctl.api.pod_requests import Quantities, compute_pod_requests, parse_quantities
from kschedctl.api.pod_table import PodTable
from kschedctl.api.quantity import Quantity, parse_quantity
from kschedctl.api.times import format_age
from kschedctl.cluster import Cluster
from kschedctl.reports.waiting_elsewhere import ReportedCondition, WaitingElsewhere, WaitingState


def build_waiting_entry(
    kind: str,
    metadata: ObjectMeta | PodMeta,
    state: WaitingState,
    headline: str,
    *,
    now: str,
    pods: int | None = None,
    decides: str = "",
    details: Iterable[str] = (),
    conditions: Iterable[Condition] = (),
    holders: Iterable[str] = (),
    names_holder: bool = False,
    part_of: Iterable[Owner] = (),
    exists: bool | None = None,
    replayed: bool = False,
) -> WaitingElsewhere:
    """Build the report on one waiting object of this kind. ``now`` is the RFC 3339 time for its age, or empty.

    ``headline`` says why it waits, ``pods`` is its number of pods, and ``decides`` says who ends the wait. ``exists``
    says whether the cluster has the object; None lets its UID decide. ``replayed`` says whether a replay of the queues
    decided its state. ``names_holder`` says whether the headline names the only holder.
    """
    created = metadata.creation_timestamp or ""
    return WaitingElsewhere(
        resource=str(Owner(kind, metadata.namespace, metadata.name)),
        state=state,
        headline=headline,
        pods=pods,
        decides=decides,
        details=tuple(details),
        conditions=tuple(
            ReportedCondition(condition.type, condition.status, condition.reason, condition.message)
            for condition in conditions
        ),
        holders=tuple(holders),
        part_of=tuple(map(str, part_of)),
        created=created,
        age=format_age(created, now),
        exists=bool(metadata.uid) if exists is None else exists,
        replayed=replayed,
        names_holder=names_holder,
    )


def find_controller_key(metadata: ObjectMeta) -> Owner | None:
    """Return the object's controller or, if it has none, its first owner. Return None for an object without owners."""
    reference = find_controller(metadata) or next(iter(metadata.owner_references), None)
    return Owner(reference.kind, metadata.namespace, reference.name) if reference else None


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """Return the condition of this type, or None."""
    return next((condition for condition in conditions if condition.type == type_), None)


def is_condition_true(conditions: Iterable[Condition], type_: str) -> bool:
    """Return whether the condition of this type is True."""
    condition = find_condition(conditions, type_)
    return condition is not None and condition.status == "True"


def iter_pod_templates(pods: PodTable) -> Iterator[tuple[Pod, int]]:
    """Yield one pod, without a name, for each group of identical pods, and the group's size.

    Pods that have ended do not count.
    """
    counts = np.bincount(pods.template, minlength=len(pods.templates)).tolist()
    for template, count in zip(pods.templates, counts, strict=True):
        if count and not template.terminated:
            yield template, count


NOTHING = Quantity(0)
PODS = "pods"


def sum_template_requests(template: PodTemplateSpec, count: int) -> Quantities:
    """Return the total requests of ``count`` pods of a template, including the number of pods.

    Raises QuantityError for a malformed amount.
    """
    pod = apply_pod_defaults(Pod(PodMeta("pod", "default"), template.spec))
    requests = {name: multiply_amount(amount, count) for name, amount in compute_pod_requests(pod).items()}
    return {**requests, PODS: Quantity(count)}


def multiply_amount(amount: Quantity, times: int) -> Quantity:
    """Return the amount multiplied by ``times``."""
    return Quantity(amount.mantissa * times, amount.scale, amount.format)


def add_amounts(total: Quantities, more: Mapping[str, Quantity]) -> None:
    """Add amounts to a total in place."""
    for name, amount in more.items():
        total[name] = total.get(name, NOTHING).add(amount)


def parse_amounts(resources: Resources | None) -> Quantities:
    """Parse the amounts of a ResourceList. Raises QuantityError if an amount is malformed."""
    return parse_quantities(resources or {})


def parse_amount(text: str | int | float) -> Quantity:
    """Parse one amount. Raises QuantityError if it is malformed."""
    return parse_quantity(text.strip() if isinstance(text, str) else text)


def render_amount(amount: Quantity) -> str:
    """Format an amount in its canonical form. A negative amount becomes zero."""
    return str(forget_original_text(amount)) if amount > NOTHING else "0"


def forget_original_text(amount: Quantity) -> Quantity:
    """Return the amount without the text it was parsed from, so that its canonical form is printed."""
    return Quantity(amount.mantissa, amount.scale, amount.format, amount.big)


def render_amounts(amounts: Mapping[str, Quantity]) -> str:
    """Format amounts as a list, such as ``8 nvidia.com/gpu, 4Gi memory``."""
    return ", ".join(f"{render_amount(amount)} {name}" for name, amount in amounts.items())


def find_largest_allocatable(cluster: Cluster) -> Quantities:
    """Return the largest allocatable amount of each resource on any node.

    Raises QuantityError for a malformed amount.
    """
    largest: Quantities = {}
    for resources in {tuple(node.status.allocatable.items()) for node in cluster.nodes}:
        for name, amount in parse_amounts(dict(resources)).items():
            if name not in largest or amount > largest[name]:
                largest[name] = amount
    return largest
