"""Fixes that lower or drop resource requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.objects import Container, Pod, ResourceRequirements, Resources
from kschedctl.api.pod_requests import is_sidecar
from kschedctl.api.quantity import parse_quantity
from kschedctl.api.resource_names import CPU, format_amounts_for_sentence, is_pod_level, is_scalar
from kschedctl.fixes.trial.changes import Fix, build_pod_edits
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.guesses import is_plausible_machine_size
from kschedctl.fixes.trial.trial_node import NodeRejection, PluginRemedies, TrialNode
from kschedctl.fixes.ways import neighbours, node_resources, waiting
from kschedctl.scheduler.plugins.node_resources.fit import Insufficient, NodeResourcesFit
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.text.counts import format_percentage

LOWER, WHOLE, WITHOUT = 30, 60, 90
"""The cost of lowering a request, the most that is added for a large reduction, and the cost of dropping it."""
NEGLIGIBLE_SHARE = 0.05
"""A request may lose this share as a mere correction."""
SUBSTANTIAL_SHARE = 0.5
"""A request of which less than this share remains no longer guarantees what the workload needs."""
UNITS = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10), ("", 1))
"""The suffixes of quantities and the amounts that they stand for, the largest first."""


class PodRequest(NamedTuple):
    """A resource request of the target pod, for one container or for the pod as a whole."""

    field: str
    """The pod spec's list with the container, empty for the pod as a whole."""
    position: int
    """The position of the container in that list."""
    container_name: str
    """The name of the container, empty for the pod as a whole."""
    resources: ResourceRequirements
    """The requests and limits that contain the request."""
    amount: int
    """The requested amount, in milli-CPUs or in the resource's unit."""


def iter_request_fixes(trial_node: TrialNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield fixes that each lower one of the pod's requests for the insufficient resource until the pod fits.

    For extended resources and huge pages, a fix that drops all requests for the resource follows. Nothing is yielded
    for rejections other than insufficient resources.
    """
    fact = rejection.fact
    if not isinstance(fact, Insufficient):
        return
    pod_requests = _list_pod_requests(trial_node, fact.resource)
    if fact.free > 0:
        for request in pod_requests:
            new_amount = _find_largest_fitting_amount(trial_node, request, fact)
            if new_amount:
                yield _build_request_lowering_fix(trial_node, request, fact.resource, new_amount)
    if pod_requests and is_scalar(fact.resource):
        yield _build_request_removal_fix(trial_node, fact)


def iter_cpu_unit_fixes(trial_node: TrialNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield fixes that append the forgotten unit "m" to CPU requests that are too large for any machine.

    Nothing is yielded for rejections other than insufficient CPU.
    """
    fact = rejection.fact
    if not isinstance(fact, Insufficient) or fact.resource != CPU:
        return
    if is_plausible_machine_size(CPU, fact.requested, fact.largest):
        return
    for request in _list_pod_requests(trial_node, CPU):
        old_amount = str(request.resources.requests[CPU])
        if old_amount.isdecimal() and not is_plausible_machine_size(CPU, request.amount, fact.largest):
            yield _build_request_lowering_fix(trial_node, request, CPU, f"{old_amount}m")


def _list_pod_requests(trial_node: TrialNode, resource: str) -> list[PodRequest]:
    """Return the pod-level request for the resource if there is one, or the containers' requests otherwise.

    Pod-level requests count only if the cluster has this feature and the resource can be requested at pod level.
    """
    pod, pod_resources = trial_node.trial.pod, trial_node.trial.pod.spec.resources
    pod_level_counts = trial_node.cycle.view.settings.requests.pod_level and is_pod_level(resource)
    if pod_level_counts and pod_resources is not None and resource in pod_resources.requests:
        return [
            PodRequest(
                field="",
                position=0,
                container_name="",
                resources=pod_resources,
                amount=_parse_amount(pod_resources.requests[resource], resource),
            )
        ]
    pod_requests = []
    for field in ("containers", "init_containers"):
        for index, container in enumerate(getattr(pod.spec, field)):
            resources = container.resources
            if resource in resources.requests:
                amount = _parse_amount(resources.requests[resource], resource)
                pod_requests.append(
                    PodRequest(
                        field=field, position=index, container_name=container.name, resources=resources, amount=amount
                    )
                )
    return pod_requests


def _parse_amount(quantity_text: str | float, resource: str) -> int:
    """Parse a quantity in milli-CPUs for CPU, or in the resource's own unit."""
    quantity = parse_quantity(quantity_text)
    return quantity.milli_value() if resource == CPU else quantity.value()


def _find_largest_fitting_amount(trial_node: TrialNode, request: PodRequest, fact: Insufficient) -> str:
    """Return the largest amount for the request with which the pod fits, or an empty string if no amount is valid.

    Only containers that run at the same time are considered. If lowering this request alone is not enough because the
    other containers request too much, the amount is the request's proportional share of the free amount.
    """
    pod = _keep_concurrent_containers(trial_node.trial.pod, request)
    requested_by_others = _sum_requests(trial_node, pod, request, fact.resource, new_amount="0")
    largest = fact.free - requested_by_others
    if largest <= 0:
        total = _sum_requests(trial_node, pod, request, fact.resource)
        largest = request.amount * fact.free // max(total, 1)

    smallest = _find_smallest_valid_amount(trial_node, request, fact.resource)
    if largest <= 0 or not smallest <= largest < request.amount:
        return ""
    return format_resource_amount(largest, fact.resource, str(request.resources.requests[fact.resource]))


def _keep_concurrent_containers(pod: Pod, request: PodRequest) -> Pod:
    """Return the pod with only the containers that run at the same time as the request's container.

    Init containers run one by one before the other containers, except for sidecars, which keep running. The pod is
    returned unchanged for the request of a sidecar or of the pod as a whole.
    """
    spec = pod.spec
    sidecars = tuple(container for container in spec.init_containers if is_sidecar(container))
    if request.field == "containers":
        return replace(pod, spec=replace(spec, init_containers=sidecars))
    if request.field == "init_containers" and not is_sidecar(spec.init_containers[request.position]):
        started = spec.init_containers[: request.position + 1]
        concurrent = tuple(
            container for index, container in enumerate(started) if index == request.position or is_sidecar(container)
        )
        return replace(pod, spec=replace(spec, containers=(), init_containers=concurrent))
    return pod


def _sum_requests(trial_node: TrialNode, pod: Pod, request: PodRequest, resource: str, new_amount: str = "") -> int:
    """Return the pod's total request for the resource. If `new_amount` is given, `request` first gets this amount."""
    changed = _set_request_amount(pod, request, resource, new_amount) if new_amount else pod
    return PodInfo(changed, trial_node.cycle.view.settings.requests).incoming_requests.get(resource, 0)


def _find_smallest_valid_amount(trial_node: TrialNode, request: PodRequest, resource: str) -> int:
    """Return the smallest valid amount for the request: 0, or the containers' total for a pod-level request."""
    is_pod_level = request.field == ""
    if not is_pod_level:
        return 0
    request_options = trial_node.cycle.view.settings.requests
    container_options = request_options._replace(use_status=False, pod_level=False, overhead=False)
    container_requests = PodInfo(trial_node.trial.pod, container_options).requests
    return container_requests.get(resource, 0)


def format_resource_amount(amount: int, resource: str, old_text: str) -> str:
    """Format an amount as a Kubernetes quantity, rounded down to a readable unit. CPU and counts stay exact.

    An amount that replaces a plain integer, given as `old_text`, also stays exact. Memory and similar amounts are
    rounded to a unit of at most a thousandth of the amount.

    >>> format_resource_amount(1500, "cpu", "2"), format_resource_amount(2000, "cpu", "3")
    ('1500m', '2')
    >>> format_resource_amount(7 * 2**30 + 5, "memory", "8Gi")
    '7Gi'
    >>> format_resource_amount(7654321987, "memory", "8Gi"), format_resource_amount(3, "nvidia.com/gpu", "4")
    ('7299Mi', '3')
    """
    if resource == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if is_scalar(resource) and not resource.startswith("hugepages-"):
        return str(amount)
    if old_text.isdigit():
        return str(amount)
    # Round down to the largest unit that is at most a thousandth of the amount, then write it with the largest unit.
    precision = next(size for _, size in UNITS if amount >= 1000 * size or size == 1)
    amount -= amount % precision
    suffix, size = next((suffix, size) for suffix, size in UNITS if amount % size == 0)
    return f"{amount // size}{suffix}"


def _set_request_amount(pod: Pod, request: PodRequest, resource: str, new_amount: str) -> Pod:
    """Return the pod with a new amount for the request.

    The limit gets the same amount if limits of this resource must equal requests, or if it lacks the unit "m" as well.
    """

    def set_amount(resources: ResourceRequirements) -> ResourceRequirements:
        """Return the resources with the new amount."""
        limits: Resources = resources.limits
        lacks_same_unit = f"{limits.get(resource)}m" == new_amount
        if resource in limits and (not _can_overcommit(resource) or lacks_same_unit):
            limits = {**limits, resource: new_amount}
        return replace(resources, requests={**resources.requests, resource: new_amount}, limits=limits)

    if not request.field:
        pod_resources = set_amount(pod.spec.resources or ResourceRequirements())
        return replace(pod, spec=replace(pod.spec, resources=pod_resources))

    containers: Sequence[Container] = getattr(pod.spec, request.field)
    changed_containers = tuple(
        replace(container, resources=set_amount(container.resources))
        if container.name == request.container_name
        else container
        for container in containers
    )
    return replace(pod, spec=replace(pod.spec, **{request.field: changed_containers}))


def _can_overcommit(resource: str) -> bool:
    """Return whether limits may exceed requests, which is not so for extended resources and huge pages."""
    return not is_scalar(resource)


def _build_request_lowering_fix(trial_node: TrialNode, request: PodRequest, resource: str, new_amount: str) -> Fix:
    """Build the fix that lowers one request to a new amount.

    A larger reduction costs more, and may have a higher price. Adding the forgotten unit "m" is a mere correction.
    """
    old_amount = request.resources.requests[resource]
    remaining_share = _parse_amount(new_amount, resource) / request.amount
    place_text = f" in container {request.container_name}" if request.field else " for the pod as a whole"
    edits = build_pod_edits(trial_node.trial.pod, lambda pod: _set_request_amount(pod, request, resource, new_amount))
    target = (request.field, request.position, resource, new_amount)
    cost = LOWER + WHOLE * (1 - remaining_share)
    is_unit_added = new_amount == f"{old_amount}m"
    if is_unit_added:
        amounts_text = f"{new_amount} {resource} instead of {old_amount}"  # the unit is the point
    else:
        amounts_text = _describe_lowered_amount(resource, _parse_amount(new_amount, resource), request.amount)
    price = Price.CORRECTION if is_unit_added else get_reduction_price(remaining_share)
    weakens = ""
    if price is Price.GUARANTEE:
        resource_word = "CPU" if resource == CPU else resource
        subject = "the container" if request.field else "the pod"
        weakens = f"{subject} keeps only {_format_percentage(remaining_share)} of its {resource_word} request"
    return Fix(
        kind=FixKind.LOWER_REQUEST,
        target=target,
        text=f"request {amounts_text}{place_text}",
        by="author",
        edits=edits,
        cost=cost,
        weakens=weakens,
        variant_of=target[:-1],
        price=price,
    )


def _format_percentage(share: float) -> str:
    """Format a share as a percentage: a whole one, or else with one digit after the point.

    >>> _format_percentage(0.1166), _format_percentage(0.3), _format_percentage(0.0099)
    ('11.7%', '30%', 'less than 1%')
    """
    return "less than 1%" if share < 0.01 else format_percentage(share).replace(".0%", "%")


def _describe_lowered_amount(resource: str, new_amount: int, old_amount: int) -> str:
    """Describe the new and the old amount in one unit. CPUs keep all digits, because the patch does so too.

    >>> _describe_lowered_amount("cpu", 1000, 1500), _describe_lowered_amount("memory", 7299 << 20, 8 << 30)
    ('1 CPU instead of 1.5', '7.13 GiB of memory instead of 8 GiB')
    """
    if resource == CPU:
        unit = "CPU" if new_amount == 1000 else "CPUs"
        return f"{new_amount / 1000:,.10g} {unit} instead of {old_amount / 1000:,.10g}"
    amounts = format_amounts_for_sentence(resource, old_amount, new_amount)
    old_number, new_number = amounts.numbers
    return f"{new_number} {amounts.unit} instead of {old_number}{amounts.unit_suffix}"


def get_reduction_price(share: float) -> Price | None:
    """Return the price of reducing a request to `share` of its amount, or None for the usual price of lower requests.

    The price is CORRECTION for a negligible reduction, and GUARANTEE for a reduction to less than half.
    """
    if share >= 1 - NEGLIGIBLE_SHARE:
        return Price.CORRECTION
    if share < SUBSTANTIAL_SHARE:
        return Price.GUARANTEE
    return None


def _build_request_removal_fix(trial_node: TrialNode, fact: Insufficient) -> Fix:
    """Build the fix that removes the insufficient resource from the requests and limits of all containers."""
    resource = fact.resource

    def remove_resource(amounts: Resources) -> Resources:
        """Return the amounts without the resource."""
        return {name: amount for name, amount in amounts.items() if name != resource}

    def change_container(container: Container) -> Container:
        """Return the container without the resource."""
        requests = remove_resource(container.resources.requests)
        limits = remove_resource(container.resources.limits)
        return replace(container, resources=replace(container.resources, requests=requests, limits=limits))

    def change(pod: Pod) -> Pod:
        """Return the pod without the resource."""
        spec = pod.spec
        containers = tuple(map(change_container, spec.containers))
        init_containers = tuple(map(change_container, spec.init_containers))
        return replace(pod, spec=replace(spec, containers=containers, init_containers=init_containers))

    scarcity = "" if fact.largest else ", which no node offers"
    text = f"drop the request for {resource}{scarcity}"
    weakens = f"the pod runs without {resource}"
    return Fix(
        kind=FixKind.DROP_REQUEST,
        target=resource,
        text=text,
        by="author",
        edits=build_pod_edits(trial_node.trial.pod, change),
        cost=WITHOUT,
        weakens=weakens,
    )


REMEDIES = {
    NodeResourcesFit: PluginRemedies(
        (
            waiting.iter_termination_wait_fixes,
            node_resources.iter_device_plugin_fixes,
            iter_cpu_unit_fixes,
            node_resources.iter_resize_revert_fixes,
            iter_request_fixes,
            node_resources.iter_device_class_fixes,
            neighbours.iter_neighbour_removal_fixes,
            node_resources.iter_max_pods_fixes,
        ),
        facts_reveal_every_effect=True,
    )
}
