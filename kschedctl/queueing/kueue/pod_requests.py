"""The requests of a pod set's pods as Kueue counts them: with LimitRange defaults, overhead and transformations.

Upstream: pkg/workload/resources.go, pkg/util/limitrange/limitrange.go and pkg/workload/workload.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Container, LimitRange, LimitRangeItem, Pod, PodSpec, Resources
from kschedctl.api.pod_requests import Quantities, compute_pod_requests
from kschedctl.api.quantity import Quantity, QuantityError, parse
from kschedctl.api.queueing import KueuePodSet
from kschedctl.errors import InputError
from kschedctl.queueing.kueue.amounts import Requests, convert_to_requests, find_exceeding_resources, parse_requests

_CONTAINER, _POD = "Container", "Pod"
_ABOVE_LIMIT = "requests must not exceed its limits"
_ABOVE_MAX = "requests must not be above the limitRange max"
_BELOW_MIN = "requests must not be below the limitRange min"


class ResourceTransformation(msgspec.Struct, frozen=True, rename="camel"):
    """How one resource of a pod becomes others that count against quota."""

    input: str
    outputs: dict[str, str | int | float] = {}
    """The amount of each other resource for one unit of the input."""
    strategy: str = "Retain"
    """``Retain`` or ``Replace``: whether the input itself still counts."""
    multiply_by: str = ""
    """A resource whose amount the input is multiplied by."""


class ResourceSettings(msgspec.Struct, frozen=True, rename="camel"):
    """The ``resources`` of Kueue's configuration."""

    exclude_resource_prefixes: tuple[str, ...] = ()
    transformations: tuple[ResourceTransformation, ...] = ()
    quota_check_strategy: str = ""


def read_resource_settings(document: JsonObject) -> ResourceSettings:
    """Read the ``resources`` of Kueue's configuration. Raises InputError."""
    try:
        return convert_builtins(document, ResourceSettings)
    except msgspec.ValidationError as error:
        raise InputError(f"resources of Kueue's configuration: {error}") from None


def adjust_pod_sets(
    pod_sets: Iterable[KueuePodSet], limit_ranges: Sequence[LimitRange], overheads: Mapping[str, Resources]
) -> tuple[KueuePodSet, ...]:
    """Fill in what admission would add to the pods: overhead, LimitRange defaults, and limits as missing requests.

    ``overheads`` are the pod overheads by RuntimeClass.
    """
    limits = summarize_limit_ranges(limit_ranges)
    adjusted = []
    for pod_set in pod_sets:
        spec = _adjust_spec(pod_set.template.spec, limits, overheads)
        adjusted.append(replace(pod_set, template=replace(pod_set.template, spec=spec)))
    return tuple(adjusted)


def _adjust_spec(spec: PodSpec, limits: Mapping[str, LimitRangeItem], overheads: Mapping[str, Resources]) -> PodSpec:
    """Fill in the overhead of a pod, and the default requests and limits of the pod and its containers.

    ``limits`` are the merged items of the LimitRanges by type.
    """
    overhead = spec.overhead or overheads.get(spec.runtime_class_name or "", {})
    defaults = limits.get(_CONTAINER, LimitRangeItem())
    resources = spec.resources
    if resources is not None:
        pod_defaults = limits.get(_POD, LimitRangeItem())
        pod_limits = {**pod_defaults.default, **resources.limits}
        requests = {**pod_limits, **pod_defaults.default_request, **resources.requests}
        resources = replace(resources, limits=pod_limits, requests=requests)
    return replace(
        spec,
        overhead=overhead,
        resources=resources,
        containers=tuple(_adjust_container(container, defaults) for container in spec.containers),
        init_containers=tuple(_adjust_container(container, defaults) for container in spec.init_containers),
    )


def _adjust_container(container: Container, defaults: LimitRangeItem) -> Container:
    """Fill in a container's default limits and requests. Its limits replace missing requests."""
    limits = {**defaults.default, **container.resources.limits}
    requests = {**limits, **defaults.default_request, **container.resources.requests}
    return replace(container, resources=replace(container.resources, limits=limits, requests=requests))


def compute_requests(spec: PodSpec) -> Requests:
    """Compute what one pod requests, in Kueue's units. Raises QuantityError."""
    return convert_to_requests(_compute_quantities(spec))


def compute_quota_requests(spec: PodSpec, settings: ResourceSettings) -> Requests:
    """Compute what one pod counts against quota, after excluded resources are dropped and transformations applied.

    Negative amounts count as 0. Raises QuantityError.
    """
    quantities = {
        name: quantity
        for name, quantity in _compute_quantities(spec).items()
        if not name.startswith(tuple(settings.exclude_resource_prefixes))
    }
    requests = convert_to_requests(_transform(quantities, settings.transformations))
    return {name: max(amount, 0) for name, amount in requests.items()}


def _compute_quantities(spec: PodSpec) -> Quantities:
    """Compute what one pod requests, as quantities. Raises QuantityError."""
    return compute_pod_requests(Pod(spec=spec))


def _transform(quantities: Quantities, transformations: Sequence[ResourceTransformation]) -> Quantities:
    """Replace resources, or add others to them, by the transformations of Kueue's configuration.

    If several transformations have the same input, the last counts. Raises QuantityError.
    """
    by_input = {transformation.input: transformation for transformation in transformations}
    if not by_input.keys() & quantities.keys():
        return quantities

    # Collect the inputs that still count, and the sum of what the transformations generate
    retained: Quantities = {}
    generated: Quantities = {}
    for name, quantity in quantities.items():
        transformation = by_input.get(name)
        if transformation is None:
            retained[name] = quantity
            continue
        amount = quantity
        multiplier = quantities.get(transformation.multiply_by)
        if multiplier is not None:
            amount = _multiply(amount, multiplier)
        for output, factor in transformation.outputs.items():
            product = _multiply(amount, parse(factor))
            generated[output] = generated[output].add(product) if output in generated else product
        if transformation.strategy == "Retain":
            retained[name] = quantity

    # Add the generated amounts to the resources that the pod requests itself
    for name, quantity in generated.items():
        amount = max(quantity, Quantity(0))
        retained[name] = retained[name].add(amount) if name in retained else amount
    return retained


def _multiply(a: Quantity, b: Quantity) -> Quantity:
    """Multiply two quantities exactly."""
    return Quantity(a.mantissa * b.mantissa, a.scale + b.scale, a.format)


def summarize_limit_ranges(limit_ranges: Iterable[LimitRange]) -> dict[str, LimitRangeItem]:
    """Merge LimitRanges into one item for each type: the first defaults, the smallest maximum, the largest minimum."""
    summary: dict[str, LimitRangeItem] = {}
    for limit_range in limit_ranges:
        for item in limit_range.spec.limits:
            merged = summary.get(item.type, LimitRangeItem(type=item.type))
            summary[item.type] = replace(
                merged,
                default={**item.default, **merged.default},
                default_request={**item.default_request, **merged.default_request},
                max=_merge(merged.max, item.max, min),
                min=_merge(merged.min, item.min, max),
            )
    return summary


def _merge(
    a: Resources, b: Resources, choose: Callable[[str | int | float, str | int | float], str | int | float]
) -> Resources:
    """Merge two ResourceLists; ``choose`` is ``min`` or ``max`` for resources in both."""
    merged = dict(a)
    for name, text in b.items():
        merged[name] = choose(merged[name], text, key=parse) if name in merged else text  # type: ignore[call-arg]
    return merged


def find_resource_errors(pod_sets: Iterable[KueuePodSet]) -> list[str]:
    """Return an error for each container or pod that requests more than its limit.

    Upstream: ValidateResources of pkg/workload/resources.go.
    """
    errors = []
    for index, pod_set in enumerate(pod_sets):
        spec, path = pod_set.template.spec, f"spec.podSets[{index}].template.spec"
        for field, container in _iter_containers(spec):
            resources = container.resources
            exceeding = find_exceeding_resources(_parse(resources.requests), _parse(resources.limits))
            errors += _format_errors(f"{path}.{field}", exceeding, _ABOVE_LIMIT)
        if spec.resources is not None:
            exceeding = find_exceeding_resources(_parse(spec.resources.requests), _parse(spec.resources.limits))
            errors += _format_errors(f"{path}.resources", exceeding, _ABOVE_LIMIT)
    return errors


def find_limit_range_errors(pod_sets: Iterable[KueuePodSet], limit_ranges: Sequence[LimitRange]) -> list[str]:
    """Return an error for each container or pod outside the bounds of the namespace's LimitRanges.

    Upstream: ValidatePodSpec of pkg/util/limitrange/limitrange.go.
    """
    limits = summarize_limit_ranges(limit_ranges)
    errors: list[str] = []
    for index, pod_set in enumerate(pod_sets):
        spec, path = pod_set.template.spec, f"spec.podSets[{index}].template.spec"
        if _CONTAINER in limits:
            for field, container in _iter_containers(spec):
                resources = container.resources
                highest = _parse(_merge(resources.requests, resources.limits, max))
                lowest = _parse(_merge(resources.requests, resources.limits, min))
                errors += _find_bound_errors(f"{path}.{field}", highest, lowest, limits[_CONTAINER])
        if _POD in limits:
            total = compute_requests(spec)
            errors += _find_bound_errors(path, total, total, limits[_POD])
    return errors


def _find_bound_errors(path: str, highest: Requests, lowest: Requests, bounds: LimitRangeItem) -> Iterator[str]:
    """Yield an error if the amounts are above the maximum, and one if they are below the minimum."""
    yield from _format_errors(path, find_exceeding_resources(highest, _parse(bounds.max)), _ABOVE_MAX)
    yield from _format_errors(path, find_exceeding_resources(_parse(bounds.min), lowest), _BELOW_MIN)


def _iter_containers(spec: PodSpec) -> Iterator[tuple[str, Container]]:
    """Yield the path of each container within the pod's spec, and the container."""
    for index, container in enumerate(spec.init_containers):
        yield f"initContainers[{index}]", container
    for index, container in enumerate(spec.containers):
        yield f"containers[{index}]", container


def _format_errors(path: str, resources: list[str], message: str) -> list[str]:
    """Return one error about resources, formatted as by upstream's field package, or [] if there are no resources."""
    if not resources:
        return []
    names = ",".join(f'"{name}"' for name in resources)
    return [f"{path}: Invalid value: [{names}]: {message}"]


def _parse(resources: Resources) -> Requests:
    """Parse a ResourceList. Return {} if a quantity is malformed, which was reported when requests were computed."""
    try:
        return parse_requests(resources)
    except QuantityError:
        return {}
