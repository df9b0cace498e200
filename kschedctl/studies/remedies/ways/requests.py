"""Resources: ask for no more than a node has left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.objects import Container, Pod, ResourceRequirements, Resources
from kschedctl.api.quantity import parse
from kschedctl.api.resource_names import CPU, is_scalar
from kschedctl.scheduler.facts import Insufficient
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.studies.remedies.changes import Fix, on_pod
from kschedctl.studies.remedies.targets import NodeRefusal, Site

LOWER, WHOLE = 30, 60
"""The cost of asking for a little less, and what is added for asking for nothing at all."""
UNITS = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10), ("", 1))


class OwnRequest(NamedTuple):
    """A container's request; ``field`` and ``place`` say where it stands in the pod's spec."""

    field: str
    place: int
    container: Container
    amount: int


def lower(site: Site, refusal: NodeRefusal) -> Iterator[Fix]:
    """One container's request of the resource lowered by what the node is short of."""
    fact = refusal.fact
    if not isinstance(fact, Insufficient) or fact.free <= 0:
        return
    for asked in _asked(site.trial.pod, fact.resource):
        new = _largest(site, asked, fact)
        if new:
            yield _lowered(site, asked, fact.resource, new)


def _asked(pod: Pod, resource: str) -> list[OwnRequest]:
    found = []
    for field in ("containers", "init_containers"):
        for place, container in enumerate(getattr(pod.spec, field)):
            if resource in container.resources.requests:
                found.append(
                    OwnRequest(field, place, container, _amount(container.resources.requests[resource], resource))
                )
    return found


def _amount(written: str | float, resource: str) -> int:
    quantity = parse(written)
    return quantity.milli_value() if resource == CPU else quantity.value()


def _largest(site: Site, asked: OwnRequest, fact: Insufficient) -> str:
    """The largest request of this container with which the pod fits, as people write it; empty for none."""
    short = fact.requested - fact.free
    without = _total(site, asked, fact.resource, "0")
    most = min(asked.amount - 1, max(fact.free - without, asked.amount - short))
    if without > fact.free or most <= 0:
        return ""
    new = written(most, fact.resource, str(asked.container.resources.requests[fact.resource]))
    return new if new and _total(site, asked, fact.resource, new) <= fact.free else ""


def _total(site: Site, asked: OwnRequest, resource: str, new: str) -> int:
    """What the pod asks for with another request of this container."""
    pod = _with_request(site.trial.pod, asked, resource, new)
    return PodInfo(pod, site.cycle.view.settings.requests).incoming_requests.get(resource, 0)


def written(amount: int, resource: str, before: str) -> str:
    """The amount in a unit that people write, rounded down to it; empty where nothing is left of it.

    Cpu stays exact; of memory and the like a unit is taken that is at most a thousandth of the amount.

    >>> written(1500, "cpu", "2"), written(2000, "cpu", "3"), written(7 * 2**30 + 5, "memory", "8Gi")
    ('1500m', '2', '7Gi')
    >>> written(7654321987, "memory", "8Gi"), written(3, "nvidia.com/gpu", "4")
    ('7299Mi', '3')
    """
    if resource == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if is_scalar(resource) and not resource.startswith("hugepages-"):
        return str(amount)
    if before.isdigit():
        return str(amount)
    fine = next(size for _, size in UNITS if amount >= 1000 * size or size == 1)
    amount -= amount % fine
    name, size = next((name, size) for name, size in UNITS if amount % size == 0)
    return f"{amount // size}{name}"


def _with_request(pod: Pod, asked: OwnRequest, resource: str, new: str) -> Pod:
    containers = list(getattr(pod.spec, asked.field))
    container = containers[asked.place]
    own: ResourceRequirements = container.resources
    limits: Resources = own.limits
    if resource in limits and not _overcommits(resource):
        limits = {**limits, resource: new}
    resources = replace(own, requests={**own.requests, resource: new}, limits=limits)
    containers[asked.place] = replace(container, resources=resources)
    return replace(pod, spec=replace(pod.spec, **{asked.field: tuple(containers)}))


def _overcommits(resource: str) -> bool:
    """Whether a limit may be larger than the request; that of an extended resource or of huge pages is the same."""
    return not is_scalar(resource)


def _lowered(site: Site, asked: OwnRequest, resource: str, new: str) -> Fix:
    before = asked.container.resources.requests[resource]
    left = _amount(new, resource) / asked.amount
    text = f"ask for {new} of {resource} instead of {before} in container {asked.container.name}"
    edits = on_pod(site.trial.pod, lambda pod: _with_request(pod, asked, resource, new))
    target = (asked.field, asked.place, resource, new)
    cost = LOWER + round(WHOLE * (1 - left))
    return Fix("LowerRequest", target, text, "author", edits, cost, variant_of=target[:-1])
