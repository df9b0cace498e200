"""How much of each resource a pod requests: containers, init containers, sidecars, pod level, overhead, resize.

Upstream: staging/src/k8s.io/component-helpers/resource/helpers.go (v1.36, v1.37.0-beta.0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api import resource_names
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import Container, ContainerStatus, Pod, ResourceRequirements, Resources
from kschedctl.api.quantity import Quantity, parse

Quantities = dict[str, Quantity]
"""Resource name -> quantity."""

COMPARED = ByVersion(
    "of what the largest counts while a pod is resized: what it wants, was promised and runs with",
    (("", "of each container"), ("1.37", "of all containers together")),
    "#140047",
)


class Options(NamedTuple):
    """What counts; the defaults are those of kube-scheduler v1.36 for the pods that a node holds.

    ``non_missing``: container requests to assume where a container names none, resource by resource.
    ``sidecar_ports``: the host ports of restartable init containers count too. ``compared``: as of COMPARED.
    """

    use_status: bool = True
    pod_level: bool = True
    pod_level_resize: bool = True
    overhead: bool = True
    dra_node_allocatable: bool = False
    non_missing: Mapping[str, Quantity] = {}
    sidecar_ports: bool = True
    compared: str = "of each container"

    @property
    def together(self) -> bool:
        """Whether what containers want, were promised and run with is added up before it is compared."""
        return self.use_status and self.compared == "of all containers together"


def quantities(resources: Resources) -> Quantities:
    """Parse a ResourceList. Raises QuantityError."""
    return {name: parse(text.strip() if isinstance(text, str) else text) for name, text in resources.items()}


def pod_requests(
    pod: Pod, options: Options = Options(), from_devices: Sequence[Mapping[str, Quantity]] | None = None
) -> Quantities:
    """The requests of a pod: the larger of what it needs while starting and while running.

    ``from_devices``: what its devices give of node resources, claim by claim, in place of what its status says.
    Raises QuantityError for a quantity that cannot be parsed.
    """
    requests = aggregate_container_requests(pod, options, from_devices)
    resources = pod.spec.resources
    if options.pod_level and resources is not None:
        requests |= _pod_level(pod, resources, options)
    if options.overhead:
        _add(requests, quantities(pod.spec.overhead))
    return requests


def pod_level_requests_set(pod: Pod) -> bool:
    """Whether the pod itself, not its containers, requests cpu, memory or huge pages."""
    return pod.spec.resources is not None and any(map(resource_names.is_pod_level, pod.spec.resources.requests))


def aggregate_container_requests(
    pod: Pod, options: Options = Options(), from_devices: Sequence[Mapping[str, Quantity]] | None = None
) -> Quantities:
    """The requests of all containers: the running ones together, or the greediest moment of initialisation."""
    given = _from_devices(pod, options) if from_devices is None else from_devices
    if options.together:
        return _largest_sum(pod, options, given)
    statuses = _statuses(pod) if options.use_status else {}
    containers = (_container_requests(pod, container, statuses, options) for container in pod.spec.containers)
    init_containers = (
        (sidecar := is_sidecar(container), _container_requests(pod, container, statuses if sidecar else {}, options))
        for container in pod.spec.init_containers
    )
    return _with(given, _together(containers, init_containers))


def _largest_sum(pod: Pod, options: Options, given: Sequence[Mapping[str, Quantity]]) -> Quantities:
    """The largest of what all containers want, were promised and run with; a wish that cannot be met is void.

    Where the status of the pod itself tells the latter two, it counts the devices in, too.
    """
    infeasible, status = _resize_infeasible(pod), pod.status
    total = {} if infeasible else _with(given, _sum_of(pod, options, _wanted))
    if options.pod_level_resize and status.allocated_resources and status.resources and status.resources.requests:
        _max(total, quantities(status.allocated_resources))
        _max(total, quantities(status.resources.requests))
        return total
    _max(total, _with(given, _sum_of(pod, options, partial(_promised, infeasible=infeasible))))
    _max(total, _sum_of(pod, options, partial(_actuated, infeasible=infeasible)))
    return total


def _sum_of(pod: Pod, options: Options, of: Callable[[Container, ContainerStatus | None], Resources]) -> Quantities:
    """What ``of`` says of the containers and their status, at the same time at the most."""
    statuses = {s.name: s for s in (*pod.status.init_container_statuses, *pod.status.container_statuses)}

    def each(container: Container) -> Quantities:
        return {**options.non_missing, **quantities(of(container, statuses.get(container.name)))}

    return _together(map(each, pod.spec.containers), ((is_sidecar(c), each(c)) for c in pod.spec.init_containers))


def _wanted(container: Container, status: ContainerStatus | None) -> Resources:
    return container.resources.requests


def _promised(container: Container, status: ContainerStatus | None, infeasible: bool) -> Resources:
    if status is not None and status.allocated_resources:
        return status.allocated_resources
    return {} if infeasible else container.resources.requests


def _actuated(container: Container, status: ContainerStatus | None, infeasible: bool) -> Resources:
    if status is not None and status.resources is not None and status.resources.requests:
        return status.resources.requests
    return _promised(container, status, infeasible)


def _with(given: Iterable[Mapping[str, Quantity]], total: Quantities) -> Quantities:
    """The total, written to, with what devices give."""
    for more in given:
        _add(total, more)
    return total


def _from_devices(pod: Pod, options: Options) -> list[Quantities]:
    """What the pod's devices give of node resources by its status, claim by claim."""
    claims = pod.status.node_allocatable_resource_claim_statuses if options.dra_node_allocatable else ()
    return [quantities(claim.resources) for claim in claims]


def container_limits(containers: Iterable[Container], init_containers: Iterable[Container]) -> Quantities:
    """The limits of all containers, by the same rule as their requests."""
    return _together(
        (quantities(container.resources.limits) for container in containers),
        ((is_sidecar(container), quantities(container.resources.limits)) for container in init_containers),
    )


def is_sidecar(container: Container) -> bool:
    """Whether an init container runs on beside those that come after it."""
    return container.restart_policy == "Always"


def _together(containers: Iterable[Quantities], init_containers: Iterable[tuple[bool, Quantities]]) -> Quantities:
    """What containers need at the same time at the most; (is a sidecar, what it needs) of the init containers in order.

    Those run one by one, each beside the sidecars before it. The amounts are written to.
    """
    total: Quantities = {}
    for amounts in containers:
        _add(total, amounts)
    sidecars: Quantities = {}
    most: Quantities = {}
    for sidecar, amounts in init_containers:
        if sidecar:
            _add(total, amounts)
            _add(sidecars, amounts)
            _max(most, sidecars)
        else:
            _add(amounts, sidecars)
            _max(most, amounts)
    _max(total, most)
    return total


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    status = pod.status
    return {s.name: s for s in (*status.container_statuses, *status.init_container_statuses) if s.resources is not None}


def _container_requests(
    pod: Pod, container: Container, statuses: Mapping[str, ContainerStatus], options: Options
) -> Quantities:
    requests = quantities(container.resources.requests)
    status = statuses.get(container.name)
    if status is not None and status.resources is not None:
        requests = _effective(pod, requests, status.resources, status.allocated_resources)
    return {**options.non_missing, **requests}


def _pod_level(pod: Pod, resources: ResourceRequirements, options: Options) -> Quantities:
    requests = quantities(resources.requests)
    effective = requests
    if options.use_status and options.pod_level_resize and pod.status.resources is not None:
        effective = _effective(pod, requests, pod.status.resources, pod.status.allocated_resources)
    if options.together:
        return {name: amount for name, amount in effective.items() if resource_names.is_pod_level(name)}
    zero = parse("0")
    return {name: effective.get(name, zero) for name in requests if resource_names.is_pod_level(name)}


def _effective(pod: Pod, spec: Quantities, actuated: ResourceRequirements, allocated: Resources) -> Quantities:
    """During an in-place resize: the largest of what is wanted, actuated and allocated; an infeasible wish is void.

    kube-scheduler 1.33.0 to 1.33.3 crashes where the first of these is not set and another is (#132895, in 1.33.4), so
    that no answer of theirs differs from this one.
    """
    result = {} if _resize_infeasible(pod) else dict(spec)
    _max(result, quantities(actuated.requests))
    _max(result, quantities(allocated))
    return result


def _resize_infeasible(pod: Pod) -> bool:
    pending = next((c for c in pod.status.conditions if c.type == "PodResizePending"), None)
    return pending is not None and pending.reason == "Infeasible"


def is_resize_deferred(pod: Pod) -> bool:
    """Return whether the kubelet has put off an in-place resize of the pod because its node lacks the room.

    kube-scheduler counts the new requests all the same. Before 1.33 status.resize says what a condition says now.
    """
    pending = (c.reason for c in pod.status.conditions if c.type == "PodResizePending" and c.status != "False")
    return "Deferred" in (*pending, pod.status.resize)


def with_resize_reverted(pod: Pod) -> Pod:
    """Return the pod with the requests and limits that its kubelet has allocated, instead of those of its spec.

    Containers of which the status says nothing stay as they are.
    """
    spec, status = pod.spec, pod.status
    statuses = {s.name: s for s in (*status.init_container_statuses, *status.container_statuses)}

    def revert(container: Container) -> Container:
        running = statuses.get(container.name)
        if running is None:
            return container
        reverted = _allocated(container.resources, running.resources, running.allocated_resources)
        return replace(container, resources=reverted)

    of_pod = spec.resources and _allocated(spec.resources, status.resources, status.allocated_resources)
    containers, init_containers = tuple(map(revert, spec.containers)), tuple(map(revert, spec.init_containers))
    changed = replace(spec, containers=containers, init_containers=init_containers, resources=of_pod)
    return replace(pod, spec=changed)


def _allocated(
    wanted: ResourceRequirements, actuated: ResourceRequirements | None, allocated: Resources
) -> ResourceRequirements:
    """Return the requirements with what a status says is allocated or, failing that, actuated."""
    requests = allocated or (actuated.requests if actuated else {})
    limits = actuated.limits if actuated else {}
    return replace(
        wanted,
        requests={name: requests.get(name, amount) for name, amount in wanted.requests.items()},
        limits={name: limits.get(name, amount) for name, amount in wanted.limits.items()},
    )


def _add(total: Quantities, more: Mapping[str, Quantity]) -> None:
    for name, quantity in more.items():
        total[name] = total[name].add(quantity) if name in total else quantity


def _max(total: Quantities, other: Mapping[str, Quantity]) -> None:
    for name, quantity in other.items():
        if name not in total or quantity > total[name]:
            total[name] = quantity
