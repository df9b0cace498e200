"""Amounts of resources: sums, comparisons and how they are written."""

from __future__ import annotations

from collections.abc import Mapping

from kschedctl.api.defaults import default_pod
from kschedctl.api.objects import Pod, PodMeta, PodTemplateSpec, Resources
from kschedctl.api.pod_requests import Quantities, compute_pod_requests, parse_quantities
from kschedctl.api.quantity import Quantity, parse
from kschedctl.cluster import Cluster

NOTHING = Quantity(0)
PODS = "pods"


def sum_template_requests(template: PodTemplateSpec, count: int) -> Quantities:
    """Return what ``count`` pods of a template request together, including the number of pods.

    Raises QuantityError.
    """
    pod = default_pod(Pod(PodMeta("pod", "default"), template.spec))
    requests = {name: multiply(amount, count) for name, amount in compute_pod_requests(pod).items()}
    return {**requests, PODS: Quantity(count)}


def multiply(amount: Quantity, times: int) -> Quantity:
    """Return the amount multiplied by ``times``."""
    return Quantity(amount.mantissa * times, amount.scale, amount.format)


def add_amounts(total: Quantities, more: Mapping[str, Quantity]) -> None:
    """Add amounts to a total, resource by resource."""
    for name, amount in more.items():
        total[name] = total.get(name, NOTHING).add(amount)


def parse_amounts(resources: Resources | None) -> Quantities:
    """Parse the amounts of a ResourceList. Raises QuantityError."""
    return parse_quantities(resources or {})


def parse_amount(text: str | int | float) -> Quantity:
    """Parse one amount. Raises QuantityError."""
    return parse(text.strip() if isinstance(text, str) else text)


def render_amount(amount: Quantity) -> str:
    """Return an amount as people write it, or zero if it is negative."""
    return str(canonicalize(amount)) if amount > NOTHING else "0"


def canonicalize(amount: Quantity) -> Quantity:
    """Return the amount without the text that it was parsed from, so that it is printed in its canonical form."""
    return Quantity(amount.mantissa, amount.scale, amount.format, amount.big)


def render_amounts(amounts: Mapping[str, Quantity]) -> str:
    """Return amounts as a list, such as ``8 nvidia.com/gpu, 4Gi memory``."""
    return ", ".join(f"{render_amount(amount)} {name}" for name, amount in amounts.items())


def find_largest_allocatable(cluster: Cluster) -> Quantities:
    """Return the highest allocatable amount of each resource over the nodes. Raises QuantityError."""
    largest: Quantities = {}
    for resources in {tuple(node.status.allocatable.items()) for node in cluster.nodes}:
        for name, amount in parse_amounts(dict(resources)).items():
            if name not in largest or amount > largest[name]:
                largest[name] = amount
    return largest
