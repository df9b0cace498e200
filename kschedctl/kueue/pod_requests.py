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
from kschedctl.api.quantity import Quantity, QuantityError, parse_quantity
from kschedctl.api.queueing import KueuePodSet
from kschedctl.errors import InputError
from kschedctl.kueue.amounts import Requests, convert_to_requests, find_exceeding_resources, parse_requests

Amount = str | int | float
"""An amount of a resource, as it is written in a manifest."""
_CONTAINER, _POD = "Container", "Pod"
_ABOVE_LIMIT = "requests must not exceed its limits"
_ABOVE_MAX = "requests must not be above the limitRange max"
_BELOW_MIN = "requests must not be below the limitRange min"


class ResourceTransformation(msgspec.Struct, frozen=True, rename="camel"):
    """A rule that turns one resource of a pod into other resources that count against quota."""

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
    """Read the ``resources`` of Kueue's configuration. Raises InputError if they are malformed."""
    try:
        return convert_builtins(document, ResourceSettings)
    except msgspec.ValidationError as error:
        raise InputError(f"resources of Kueue's configuration: {error}") from None


def add_admission_defaults(
    pod_sets: Iterable[KueuePodSet], limit_ranges: Sequence[LimitRange], overheads: Mapping[str, Resources]
) -> tuple[KueuePodSet, ...]:
    """Return the pod sets with the overhead, limits and requests that admission would add to their pods.

    ``overheads`` has the pod overhead of each RuntimeClass by name. The defaults of LimitRanges apply, and limits
    replace missing requests.
    """
    limits = summarize_limit_ranges(limit_ranges)
    adjusted = []
    for pod_set in pod_sets:
        spec = _add_defaults_to_pod_spec(pod_set.template.spec, limits, overheads)
        adjusted.append(replace(pod_set, template=replace(pod_set.template, spec=spec)))
    return tuple(adjusted)


def _add_defaults_to_pod_spec(
    spec: PodSpec, limits: Mapping[str, LimitRangeItem], overheads: Mapping[str, Resources]
) -> PodSpec:
    """Return a pod spec with overhead, and with default requests and limits for the pod and its containers.

    ``limits`` has one merged LimitRange item for each of the types Container and Pod. Defaults for the pod apply only
    if the pod itself has resources. The pod's own overhead takes precedence over ``overheads``.
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
        containers=tuple(_add_defaults_to_container(container, defaults) for container in spec.containers),
        init_containers=tuple(_add_defaults_to_container(container, defaults) for container in spec.init_containers),
    )


def _add_defaults_to_container(container: Container, defaults: LimitRangeItem) -> Container:
    """Return a container with default limits and requests. A limit takes the place of a missing request."""
    limits = {**defaults.default, **container.resources.limits}
    requests = {**limits, **defaults.default_request, **container.resources.requests}
    return replace(container, resources=replace(container.resources, limits=limits, requests=requests))


def compute_requests(spec: PodSpec) -> Requests:
    """Compute the total requests of one pod in the units of the resources.

    Raises QuantityError if a request is malformed.
    """
    return convert_to_requests(_compute_request_quantities(spec))


def compute_quota_requests(spec: PodSpec, settings: ResourceSettings) -> Requests:
    """Compute how much quota one pod needs.

    The pod's requests count without the excluded resources, and after the transformations of Kueue's configuration.
    Negative amounts count as 0. Raises QuantityError if a request is malformed.
    """
    quantities = {
        name: quantity
        for name, quantity in _compute_request_quantities(spec).items()
        if not name.startswith(tuple(settings.exclude_resource_prefixes))
    }
    requests = convert_to_requests(_apply_transformations(quantities, settings.transformations))
    return {name: max(amount, 0) for name, amount in requests.items()}


def _compute_request_quantities(spec: PodSpec) -> Quantities:
    """Compute the total requests of one pod as quantities. Raises QuantityError if a request is malformed."""
    return compute_pod_requests(Pod(spec=spec))


def _apply_transformations(quantities: Quantities, transformations: Sequence[ResourceTransformation]) -> Quantities:
    """Return the quantities after the transformations of Kueue's configuration, which generate other resources.

    The input of a transformation is dropped unless its strategy is Retain. If several transformations have the same
    input, the last one counts. Raises QuantityError if a quantity is malformed.
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
            amount = _multiply_quantities(amount, multiplier)
        for output, factor in transformation.outputs.items():
            product = _multiply_quantities(amount, parse_quantity(factor))
            generated[output] = generated[output].add(product) if output in generated else product
        if transformation.strategy == "Retain":
            retained[name] = quantity

    # Add the generated amounts to the resources that the pod requests itself
    for name, quantity in generated.items():
        amount = max(quantity, Quantity(0))
        retained[name] = retained[name].add(amount) if name in retained else amount
    return retained


def _multiply_quantities(a: Quantity, b: Quantity) -> Quantity:
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
                max=_merge_resource_lists(merged.max, item.max, _choose_smaller),
                min=_merge_resource_lists(merged.min, item.min, _choose_larger),
            )
    return summary


def _merge_resource_lists(a: Resources, b: Resources, choose: Callable[[Amount, Amount], Amount]) -> Resources:
    """Merge two ResourceLists. ``choose`` returns one of the two amounts of a resource that both lists have."""
    merged = dict(a)
    for name, amount in b.items():
        merged[name] = choose(merged[name], amount) if name in merged else amount
    return merged


def _choose_smaller(a: Amount, b: Amount) -> Amount:
    """Return the smaller of two amounts. Raises QuantityError if an amount is malformed."""
    return min(a, b, key=parse_quantity)


def _choose_larger(a: Amount, b: Amount) -> Amount:
    """Return the larger of two amounts. Raises QuantityError if an amount is malformed."""
    return max(a, b, key=parse_quantity)


def find_resource_errors(pod_sets: Iterable[KueuePodSet]) -> list[str]:
    """Return an error for each container or pod that requests more than its limit. Malformed lists are skipped.

    Upstream: ValidateResources of pkg/workload/resources.go.
    """
    errors = []
    for index, pod_set in enumerate(pod_sets):
        spec, path = pod_set.template.spec, f"spec.podSets[{index}].template.spec"
        for field, container in _iter_containers(spec):
            resources = container.resources
            exceeding = find_exceeding_resources(
                _parse_requests_or_empty(resources.requests), _parse_requests_or_empty(resources.limits)
            )
            errors += _build_resources_error(f"{path}.{field}", exceeding, _ABOVE_LIMIT)
        if spec.resources is not None:
            exceeding = find_exceeding_resources(
                _parse_requests_or_empty(spec.resources.requests), _parse_requests_or_empty(spec.resources.limits)
            )
            errors += _build_resources_error(f"{path}.resources", exceeding, _ABOVE_LIMIT)
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
                larger_amounts = _merge_resource_lists(resources.requests, resources.limits, _choose_larger)
                highest = _parse_requests_or_empty(larger_amounts)
                smaller_amounts = _merge_resource_lists(resources.requests, resources.limits, _choose_smaller)
                lowest = _parse_requests_or_empty(smaller_amounts)
                errors += _iter_min_max_errors(f"{path}.{field}", highest, lowest, limits[_CONTAINER])
        if _POD in limits:
            total = compute_requests(spec)
            errors += _iter_min_max_errors(path, total, total, limits[_POD])
    return errors


def _iter_min_max_errors(path: str, highest: Requests, lowest: Requests, bounds: LimitRangeItem) -> Iterator[str]:
    """Yield an error if amounts in ``highest`` exceed the maximum, and one if amounts in ``lowest`` are too small."""
    yield from _build_resources_error(
        path, find_exceeding_resources(highest, _parse_requests_or_empty(bounds.max)), _ABOVE_MAX
    )
    yield from _build_resources_error(
        path, find_exceeding_resources(_parse_requests_or_empty(bounds.min), lowest), _BELOW_MIN
    )


def _iter_containers(spec: PodSpec) -> Iterator[tuple[str, Container]]:
    """Yield the path of each container within the pod's spec, and the container."""
    for index, container in enumerate(spec.init_containers):
        yield f"initContainers[{index}]", container
    for index, container in enumerate(spec.containers):
        yield f"containers[{index}]", container


def _build_resources_error(path: str, resources: list[str], message: str) -> list[str]:
    """Return a list with one error that names all resources, or [] if there are no resources.

    The error has the format of apimachinery's field package.
    """
    if not resources:
        return []
    names = ",".join(f'"{name}"' for name in resources)
    return [f"{path}: Invalid value: [{names}]: {message}"]


def _parse_requests_or_empty(resources: Resources) -> Requests:
    """Parse a ResourceList, or return {} if a quantity is malformed, because this is reported elsewhere."""
    try:
        return parse_requests(resources)
    except QuantityError:
        return {}
