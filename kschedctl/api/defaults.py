"""Defaults and other changes that the API server makes to a new pod or node, limited to fields that scheduling reads.

Besides the defaults, label keys of affinity terms and spread constraints become selector requirements, and the
RuntimeClass adds its settings. Constant defaults that only one reader needs (a port's protocol, a spread constraint's
policies) are filled in by that reader.

Upstream: pkg/apis/core/v1/defaults.go, pkg/registry/core/pod/strategy.go and plugin/pkg/admission/runtimeclass
(v1.36), KEP-3633 and KEP-3243.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_

from msgspec.structs import replace

from kschedctl.api import resource_names
from kschedctl.api.objects import (
    Container,
    LabelSelector,
    Node,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    ResourceRequirements,
    Resources,
    RuntimeClass,
    RuntimeClassScheduling,
    SelectorRequirement,
    TopologySpreadConstraint,
)
from kschedctl.api.pod_requests import Options, aggregate_container_limits, aggregate_container_requests

DEFAULT_SCHEDULER_NAME = "default-scheduler"
DEFAULT_NAMESPACE = "default"
DEFAULT_GRACE_PERIOD_SECONDS = 30
_CONTAINERS_ONLY = Options(use_status=False, pod_level=False, overhead=False)


def apply_pod_defaults(pod: Pod) -> Pod:
    """Return the pod with the API server's defaults, or the same object if no field needs a default.

    Raises QuantityError if a default depends on an unreadable quantity.
    """
    spec = apply_pod_spec_defaults(pod.spec)
    if spec.resources is not None and (spec.resources.limits or spec.resources.requests):
        spec = replace(spec, resources=_apply_pod_level_resource_defaults(replace(pod, spec=spec), spec.resources))
    return pod if spec is pod.spec else replace(pod, spec=spec)


def apply_pod_spec_defaults(spec: PodSpec) -> PodSpec:
    """Return the spec with the defaults of its fields, or the same object if no field needs a default."""
    containers = tuple([_apply_container_defaults(container, spec.host_network) for container in spec.containers])
    init_containers = tuple(
        [_apply_container_defaults(container, spec.host_network) for container in spec.init_containers]
    )
    grace_period = spec.termination_grace_period_seconds
    has_complete_fields = bool(spec.scheduler_name) and grace_period is not None
    has_complete_containers = _are_identical(containers, spec.containers) and _are_identical(
        init_containers, spec.init_containers
    )
    if has_complete_fields and has_complete_containers:
        return spec
    return replace(
        spec,
        containers=containers,
        init_containers=init_containers,
        scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER_NAME,
        termination_grace_period_seconds=DEFAULT_GRACE_PERIOD_SECONDS if grace_period is None else grace_period,
    )


def apply_node_defaults(node: Node) -> Node:
    """Return the node, with its capacity as its allocatable resources if it has none."""
    if node.status.allocatable or not node.status.capacity:
        return node
    return replace(node, status=replace(node.status, allocatable=node.status.capacity))


def _apply_container_defaults(container: Container, host_network: bool) -> Container:
    """Return the container with missing requests set to its limits.

    With host networking, missing host ports are set to the container ports.
    """
    resources = container.resources
    if not resources.limits.keys() <= resources.requests.keys():
        requests = {**resources.limits, **resources.requests}
        container = replace(container, resources=replace(resources, requests=requests))
    if host_network and any(port.host_port == 0 for port in container.ports):
        ports = tuple(replace(port, host_port=port.host_port or port.container_port) for port in container.ports)
        container = replace(container, ports=ports)
    return container


def _apply_pod_level_resource_defaults(pod: Pod, resources: ResourceRequirements) -> ResourceRequirements:
    """Return the pod-level resources with missing limits and requests filled in.

    Limits for huge pages default to the containers' limits unless the pod requests them. If there are limits, requests
    for cpu and memory default to the containers' requests. All other missing requests default to the limits, except for
    resources that cannot be set at pod level.
    """
    limits: Resources = dict(resources.limits)
    for name, limit in aggregate_container_limits(pod.spec.containers, pod.spec.init_containers).items():
        if name.startswith(resource_names.HUGE_PAGES_PREFIX) and name not in resources.requests:
            limits.setdefault(name, str(limit))
    requests: Resources = dict(resources.requests)
    if limits:
        for name, request in aggregate_container_requests(pod, _CONTAINERS_ONLY).items():
            if name in (resource_names.CPU, resource_names.MEMORY):
                requests.setdefault(name, str(request))
        for name, text in limits.items():
            if resource_names.is_pod_level(name):
                requests.setdefault(name, text)
    return replace(resources, limits=limits, requests=requests)


def _are_identical(left: tuple[Container, ...], right: tuple[Container, ...]) -> bool:
    """Return whether two tuples of equal length contain the same objects, not only equal ones."""
    return all(map(is_, left, right))


def with_runtime_class_fields(pod: Pod, classes: Iterable[RuntimeClass]) -> Pod:
    """Return the pod with the overhead, node selector and tolerations of its RuntimeClass.

    A pod without a RuntimeClass, or with an unknown one, is returned unchanged.
    """
    spec = pod.spec
    matching_classes = (class_ for class_ in classes if class_.metadata.name == spec.runtime_class_name)
    runtime_class = next(matching_classes, None)
    if runtime_class is None:
        return pod
    scheduling = runtime_class.scheduling or RuntimeClassScheduling()
    added_tolerations = tuple(toleration for toleration in scheduling.tolerations if toleration not in spec.tolerations)
    admitted_spec = replace(
        spec,
        overhead=runtime_class.overhead.pod_fixed if runtime_class.overhead else spec.overhead,
        node_selector={**spec.node_selector, **scheduling.node_selector},
        tolerations=(*spec.tolerations, *added_tolerations),
    )
    return replace(pod, spec=admitted_spec)


def merge_affinity_label_keys(pod: Pod) -> Pod:
    """Return the pod with its affinity terms' matchLabelKeys and mismatchLabelKeys merged into the terms' selectors.

    Only keys among the pod's labels count. A matchLabelKey becomes an In requirement on the label's value, and a
    mismatchLabelKey becomes a NotIn requirement.
    """
    affinity = pod.spec.affinity
    labels = pod.metadata.labels
    if affinity is None or not labels:
        return pod
    merged = replace(
        affinity,
        pod_affinity=_merge_label_keys_into_terms(affinity.pod_affinity, labels),
        pod_anti_affinity=_merge_label_keys_into_terms(affinity.pod_anti_affinity, labels),
    )
    return replace(pod, spec=replace(pod.spec, affinity=merged))


def merge_spread_label_keys(pod: Pod) -> Pod:
    """Return the pod with the matchLabelKeys of its spread constraints added to their selectors.

    Each key that is a label of the pod becomes an In requirement on the value of the label.
    """
    if not pod.spec.topology_spread_constraints:
        return pod
    constraints = tuple(
        merge_constraint_label_keys(constraint, pod.metadata.labels)
        for constraint in pod.spec.topology_spread_constraints
    )
    return replace(pod, spec=replace(pod.spec, topology_spread_constraints=constraints))


def merge_constraint_label_keys(
    constraint: TopologySpreadConstraint, labels: dict[str, str]
) -> TopologySpreadConstraint:
    """Merge matchLabelKeys into the selector of one constraint of a pod with these labels."""
    selector = _add_label_requirements(constraint.label_selector, constraint.match_label_keys, "In", labels)
    return replace(constraint, label_selector=selector)


def _merge_label_keys_into_terms(affinity: PodAffinity | None, labels: dict[str, str]) -> PodAffinity | None:
    """Return a pod affinity with the label keys of all its terms added to their selectors. None stays None."""
    if affinity is None:
        return None
    return PodAffinity(
        tuple(
            _merge_label_keys_into_term(term, labels)
            for term in affinity.required_during_scheduling_ignored_during_execution
        ),
        tuple(
            replace(term, pod_affinity_term=_merge_label_keys_into_term(term.pod_affinity_term, labels))
            for term in affinity.preferred_during_scheduling_ignored_during_execution
        ),
    )


def _merge_label_keys_into_term(term: PodAffinityTerm, labels: dict[str, str]) -> PodAffinityTerm:
    """Return an affinity term with requirements for its matchLabelKeys and mismatchLabelKeys added to its selector."""
    selector = _add_label_requirements(term.label_selector, term.match_label_keys, "In", labels)
    selector = _add_label_requirements(selector, term.mismatch_label_keys, "NotIn", labels)
    return replace(term, label_selector=selector)


def _add_label_requirements(
    selector: LabelSelector | None, keys: Sequence[str], operator: str, labels: dict[str, str]
) -> LabelSelector | None:
    """Return the selector with a requirement for each of the keys that is a label of the pod.

    A missing selector (None) stays missing.
    """
    added = tuple(SelectorRequirement(key, operator, (labels[key],)) for key in keys if key in labels)
    if selector is None or not added:
        return selector
    return replace(selector, match_expressions=(*selector.match_expressions, *added))
