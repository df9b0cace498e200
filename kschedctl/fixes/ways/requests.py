"""Fixes that lower or drop resource requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.objects import Container, Pod, ResourceRequirements, Resources
from kschedctl.api.pod_requests import is_sidecar
from kschedctl.api.quantity import parse
from kschedctl.api.resource_names import CPU, is_pod_level, is_scalar
from kschedctl.fixes.trial.changes import Fix, on_pod
from kschedctl.fixes.trial.machine_sizes import is_plausible
from kschedctl.fixes.trial.prices import NEGLIGIBLE, SUBSTANTIAL, Price
from kschedctl.fixes.trial.tried_node import NodeRefusal, PluginRemedies, TriedNode
from kschedctl.fixes.ways import extended_resources, neighbours, pod_limits, resizes, waiting
from kschedctl.scheduler.plugins.node_resources.facts import Insufficient
from kschedctl.scheduler.plugins.node_resources.fit import NodeResourcesFit
from kschedctl.snapshot.pod_info import PodInfo

LOWER, WHOLE, WITHOUT = 30, 60, 90
"""The cost of asking for a little less, what is added for asking for nothing at all, and that of doing without."""
UNITS = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10), ("", 1))


class OwnRequest(NamedTuple):
    """A request of the pod: ``field`` and ``place`` say of which container, ``field`` is empty for the pod as a whole.

    ``resources``: what it stands in; ``amount``: how much it is.
    """

    field: str
    place: int
    name: str
    resources: ResourceRequirements
    amount: int


def lower_request(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """Yield fixes that lower one request by the node's shortage, or drop a scalar resource."""
    fact = refusal.fact
    if not isinstance(fact, Insufficient):
        return
    asked = _find_requests(tried, fact.resource)
    for own_request in asked if fact.free > 0 else ():
        new = _largest(tried, own_request, fact)
        if new:
            yield _lower_request(tried, own_request, fact.resource, new)
    if asked and is_scalar(fact.resource):
        yield _drop_request(tried, fact)


def in_milli(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """Yield the request for CPUs with its unit, where one that no machine has was probably meant in milli."""
    fact = refusal.fact
    if not isinstance(fact, Insufficient) or fact.resource != CPU or is_plausible(CPU, fact.requested, fact.largest):
        return
    for own_request in _find_requests(tried, CPU):
        before = str(own_request.resources.requests[CPU])
        if before.isdecimal() and not is_plausible(CPU, own_request.amount, fact.largest):
            yield _lower_request(tried, own_request, CPU, f"{before}m")


def _find_requests(tried: TriedNode, resource: str) -> list[OwnRequest]:
    """Return the requests that count: the pod-level one if present, else those of the containers."""
    pod, of_pod = tried.trial.pod, tried.trial.pod.spec.resources
    counts = tried.cycle.view.settings.requests.pod_level and is_pod_level(resource)
    if counts and of_pod is not None and resource in of_pod.requests:
        return [OwnRequest("", 0, "", of_pod, _amount(of_pod.requests[resource], resource))]
    return [
        OwnRequest(field, place, container.name, container.resources, _amount(requests[resource], resource))
        for field in ("containers", "init_containers")
        for place, container in enumerate(getattr(pod.spec, field))
        if resource in (requests := container.resources.requests)
    ]


def _amount(written: str | float, resource: str) -> int:
    quantity = parse(written)
    return quantity.milli_value() if resource == CPU else quantity.value()


def _largest(tried: TriedNode, asked: OwnRequest, fact: Insufficient) -> str:
    """The largest request in its place with which the pod fits, as people write it; empty for none.

    What runs at another time is not looked at: it has to be lowered besides. Where others that run at the same time
    ask for too much, too, each gives up the same share.
    """
    pod = _alone(tried.trial.pod, asked)
    most = fact.free - _total(tried, pod, asked, fact.resource, "0")
    if most <= 0:
        most = asked.amount * fact.free // max(_total(tried, pod, asked, fact.resource, ""), 1)
    if not _least(tried, asked, fact.resource) <= most < asked.amount or most <= 0:
        return ""
    return written(most, fact.resource, str(asked.resources.requests[fact.resource]))


def _alone(pod: Pod, asked: OwnRequest) -> Pod:
    """The pod with what runs at the time of the container: the init containers run one by one before the others."""
    spec = pod.spec
    sidecars = tuple(container for container in spec.init_containers if is_sidecar(container))
    if asked.field == "containers":
        return replace(pod, spec=replace(spec, init_containers=sidecars))
    if asked.field == "init_containers" and not is_sidecar(spec.init_containers[asked.place]):
        before = spec.init_containers[: asked.place + 1]
        kept = tuple(container for i, container in enumerate(before) if i == asked.place or is_sidecar(container))
        return replace(pod, spec=replace(spec, containers=(), init_containers=kept))
    return pod


def _total(tried: TriedNode, pod: Pod, asked: OwnRequest, resource: str, new: str) -> int:
    """What the pod asks for with another request of the container that is asked about; with none the same one."""
    changed = _with_request(pod, asked, resource, new) if new else pod
    return PodInfo(changed, tried.cycle.view.settings.requests).incoming_requests.get(resource, 0)


def _least(tried: TriedNode, asked: OwnRequest, resource: str) -> int:
    """A pod as a whole asks for no less than its containers together."""
    if asked.field:
        return 0
    options = tried.cycle.view.settings.requests._replace(use_status=False, pod_level=False, overhead=False)
    return PodInfo(tried.trial.pod, options).requests.get(resource, 0)


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
    """With another request, and limit where both have to be the same."""

    def lowered(own: ResourceRequirements) -> ResourceRequirements:
        limits: Resources = own.limits
        is_without_unit = f"{limits.get(resource)}m" == new
        if resource in limits and (not _overcommits(resource) or is_without_unit):
            limits = {**limits, resource: new}
        return replace(own, requests={**own.requests, resource: new}, limits=limits)

    if not asked.field:
        return replace(pod, spec=replace(pod.spec, resources=lowered(pod.spec.resources or ResourceRequirements())))

    containers = [
        replace(container, resources=lowered(container.resources)) if container.name == asked.name else container
        for container in getattr(pod.spec, asked.field)
    ]
    return replace(pod, spec=replace(pod.spec, **{asked.field: tuple(containers)}))


def _overcommits(resource: str) -> bool:
    """Whether a limit may be larger than the request; that of an extended resource or of huge pages is the same."""
    return not is_scalar(resource)


def _lower_request(tried: TriedNode, asked: OwnRequest, resource: str, new: str) -> Fix:
    """Build the fix that sets one request to a new amount."""
    before = asked.resources.requests[resource]
    left = _amount(new, resource) / asked.amount
    where = f" in container {asked.name}" if asked.field else " for the pod as a whole"
    text = f"request {new} {resource} instead of {before}{where}"
    edits = on_pod(tried.trial.pod, lambda pod: _with_request(pod, asked, resource, new))
    target = (asked.field, asked.place, resource, new)
    cost = LOWER + WHOLE * (1 - left)
    is_unit_added = new == f"{before}m"
    price = Price.CORRECTION if is_unit_added else of_share(left)
    return Fix("LowerRequest", target, text, "author", edits, cost, variant_of=target[:-1], price=price)


def of_share(left: float) -> Price | None:
    """What it costs to be left with that share of a request."""
    if left >= 1 - NEGLIGIBLE:
        return Price.CORRECTION
    return Price.GUARANTEE if left < SUBSTANTIAL else None


def _drop_request(tried: TriedNode, fact: Insufficient) -> Fix:
    """Build the fix that drops the resource from all containers."""
    resource = fact.resource

    def none(own: Resources) -> Resources:
        return {name: amount for name, amount in own.items() if name != resource}

    def container(before: Container) -> Container:
        own = before.resources
        return replace(before, resources=replace(own, requests=none(own.requests), limits=none(own.limits)))

    def change(pod: Pod) -> Pod:
        spec = pod.spec
        both = {name: tuple(map(container, getattr(spec, name))) for name in ("containers", "init_containers")}
        return replace(pod, spec=replace(spec, **both))

    offered = "" if fact.largest else ", which no node offers"
    text = f"drop the request for {resource}{offered}"
    weakens = f"the pod runs without {resource}"
    return Fix("DropRequest", resource, text, "author", on_pod(tried.trial.pod, change), WITHOUT, weakens)


REMEDIES = {
    NodeResourcesFit: PluginRemedies(
        (
            waiting.await_terminating,
            extended_resources.published,
            in_milli,
            resizes.revert,
            lower_request,
            extended_resources.back_by_class,
            neighbours.move_or_drop,
            pod_limits.raise_max_pods,
        ),
        facts_tell_all=True,
    )
}
