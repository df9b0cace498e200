"""The values that the scheduler derives from one pod: requests, host ports and affinity terms.

Upstream: PodInfo in pkg/scheduler/framework/types.go and AffinityTerm in
staging/src/k8s.io/kube-scheduler/framework/types.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from functools import cached_property
from typing import NamedTuple, Self

from kschedctl.api import resource_names as names
from kschedctl.api.labels import NOTHING, Selector, SelectorError, selector_from_api
from kschedctl.api.objects import Pod, PodAffinity, PodAffinityTerm
from kschedctl.api.pod_requests import Options, Quantities, compute_pod_requests, has_pod_level_requests, is_sidecar
from kschedctl.api.quantity import Quantity, QuantityError, parse_quantity
from kschedctl.errors import InputError

DEFAULT_REQUESTS = {names.CPU: parse_quantity("100m"), names.MEMORY: parse_quantity("200Mi")}
"""Requests that scoring assumes for a container without requests."""
ALL_HOST_IPS = "0.0.0.0"
REQUIRED_TERM_KINDS = ("requiredAffinityTerms", "requiredAntiAffinityTerms")
"""The kinds of required affinity terms, as keys of `PodInfo.affinity_errors_by_kind`."""


class HostPort(NamedTuple):
    """A port that a pod takes on its node. The address 0.0.0.0 stands for all addresses."""

    ip: str
    protocol: str
    port: int

    def conflicts_with(self, other: HostPort) -> bool:
        """Return whether both have the same port and protocol on overlapping addresses."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.ip == other.ip or ALL_HOST_IPS in (self.ip, other.ip)


class AffinityTerm(NamedTuple):
    """A pod affinity or anti-affinity term: the pods that it selects, and its topology key."""

    namespaces: frozenset[str]
    selector: Selector
    topology_key: str
    namespace_selector: Selector
    weight: int = 0

    @property
    def by_namespace_labels(self) -> bool:
        """Return whether the term selects pods by the labels of their namespaces."""
        return bool(self.namespace_selector.requirements)

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Return whether the term selects a pod with these labels in a namespace with these labels."""
        in_scope = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return in_scope and self.selector.matches(labels)

    def with_selected_namespaces(
        self, namespaces: Mapping[str, Mapping[str, str]], *, replace_selector: bool = False
    ) -> AffinityTerm:
        """Return the term extended by the names of the namespaces that its namespace selector selects.

        `namespaces` maps the names of namespaces to their labels. If `replace_selector` is true, the names replace the
        selector, which is the documented behavior. Otherwise the selector stays and is later matched against an empty
        set of labels, as upstream has done since 1.34. A term that selects all namespaces is returned unchanged.
        """
        if self.namespace_selector.selects_everything:
            return self
        selected = {name for name, labels in namespaces.items() if self.namespace_selector.matches(labels)}
        selector = NOTHING if replace_selector else self.namespace_selector
        return self._replace(namespaces=self.namespaces | selected, namespace_selector=selector)


class PodInfo:
    """One pod with the API server's defaults, and values that plugins derive from it. They are computed on first use.

    `number` is shared by equal pods, so that results can be cached under it. It is None if no other pod is known to be
    equal. `alike` is the same for pods that differ only in their names and resource claims.
    """

    def __init__(self, pod: Pod, options: Options, number: int | None = None, alike: int | None = None) -> None:
        self.pod, self.spec, self.options, self.number = pod, pod.spec, options, number
        self.alike = number if alike is None else alike

    def for_pod(self, pod: Pod) -> Self:
        """Return the PodInfo of a pod that differs only in name and status, sharing the derived values."""
        info = copy(self)
        info.pod, info.spec = pod, pod.spec
        return info

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self.pod.metadata.namespace

    @property
    def labels(self) -> Mapping[str, str]:
        """The pod's labels."""
        return self.pod.metadata.labels

    @property
    def priority(self) -> int:
        """The pod's priority, 0 if it has none."""
        return self.pod.spec.priority or 0

    @property
    def terminating(self) -> bool:
        """Return whether the pod is being deleted."""
        return self.pod.metadata.deletion_timestamp is not None

    @cached_property
    def requests(self) -> dict[str, int]:
        """The amount of each resource (millicores for CPU) that the pod takes on its node.

        Raises InputError for an invalid amount.
        """
        return self.compute_amounts(self.options)

    @cached_property
    def nonzero_requests(self) -> dict[str, int]:
        """The requested amount by resource, with a default for containers without CPU or memory requests.

        If the pod has pod-level requests, only resources that it does not request at all get the default.
        """
        container_defaults: Mapping[str, Quantity] = DEFAULT_REQUESTS
        # Pod-level requests already include the containers that request nothing
        if self.options.pod_level and has_pod_level_requests(self.pod):
            container_defaults = {
                name: quantity for name, quantity in DEFAULT_REQUESTS.items() if name not in self.requests
            }
        if not container_defaults:
            return self.requests
        options_with_defaults = self.options._replace(non_missing=container_defaults)
        return self.compute_amounts(options_with_defaults)

    @cached_property
    def incoming_requests(self) -> dict[str, int]:
        """The amount of each resource that the pod requests before it has started, without its status.

        Raises InputError for an invalid amount.
        """
        return self.compute_amounts(self.options._replace(use_status=False, dra_node_allocatable=False))

    def compute_amounts(self, options: Options) -> dict[str, int]:
        """Compute the requests under these options, as integers.

        Raises InputError naming the pod if an amount is invalid.
        """
        try:
            return convert_to_amounts(compute_pod_requests(self.pod, options))
        except QuantityError as error:
            raise InputError(error.what, where=f"Pod {self.pod.key}", hint=error.hint) from None

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """The host ports of the pod's containers and, in newer versions, of its sidecars.

        A missing host IP means all IPs, and a missing protocol means TCP.
        """
        containers = self.spec.containers
        if self.options.sidecar_ports:
            containers = (*filter(is_sidecar, self.spec.init_containers), *containers)
        ports = []
        for container in containers:
            for port in container.ports:
                if port.host_port > 0:
                    ports.append(HostPort(port.host_ip or ALL_HOST_IPS, port.protocol or "TCP", port.host_port))
        return tuple(ports)

    @cached_property
    def required_affinity(self) -> tuple[AffinityTerm, ...]:
        """The required pod affinity terms. If a term is invalid, there are no terms."""
        return self._parse_terms_if_valid(_list_required_terms(self._pod_affinity))

    @cached_property
    def required_anti_affinity(self) -> tuple[AffinityTerm, ...]:
        """The required pod anti-affinity terms. If a term is invalid, there are no terms."""
        return self._parse_terms_if_valid(_list_required_terms(self._pod_anti_affinity))

    @cached_property
    def preferred_affinity(self) -> tuple[AffinityTerm, ...]:
        """The preferred pod affinity terms with their weights. If a term is invalid, there are no terms."""
        return self._parse_terms_if_valid(_list_preferred_terms(self._pod_affinity))

    @cached_property
    def preferred_anti_affinity(self) -> tuple[AffinityTerm, ...]:
        """The preferred pod anti-affinity terms with their weights. If a term is invalid, there are no terms."""
        return self._parse_terms_if_valid(_list_preferred_terms(self._pod_anti_affinity))

    @cached_property
    def affinity_errors(self) -> list[str]:
        """Upstream's error for each kind of affinity term with an invalid selector, in upstream's order."""
        return list(self.affinity_errors_by_kind.values())

    @cached_property
    def affinity_errors_by_kind(self) -> dict[str, str]:
        """Kind of affinity term with an invalid selector -> upstream's error, in upstream's order."""
        terms_by_kind = {
            "requiredAffinityTerms": _list_required_terms(self._pod_affinity),
            "requiredAntiAffinityTerms": _list_required_terms(self._pod_anti_affinity),
            "preferredAffinityTerms": _list_preferred_terms(self._pod_affinity),
            "preferredAntiAffinityTerms": _list_preferred_terms(self._pod_anti_affinity),
        }
        errors = {}
        for kind, terms in terms_by_kind.items():
            try:
                self._parse_terms(terms)
            except SelectorError as error:
                errors[kind] = f"{kind}: {error}"
        return errors

    @property
    def _pod_affinity(self) -> PodAffinity | None:
        """The pod affinity, or None."""
        return self.spec.affinity.pod_affinity if self.spec.affinity else None

    @property
    def _pod_anti_affinity(self) -> PodAffinity | None:
        """The pod anti-affinity, or None."""
        return self.spec.affinity.pod_anti_affinity if self.spec.affinity else None

    def _parse_terms_if_valid(self, terms: Iterable[tuple[PodAffinityTerm, int]]) -> tuple[AffinityTerm, ...]:
        """Parse terms. If a term is invalid, return no terms, as upstream does for running pods."""
        try:
            return self._parse_terms(terms)
        except SelectorError:
            return ()

    def _parse_terms(self, terms: Iterable[tuple[PodAffinityTerm, int]]) -> tuple[AffinityTerm, ...]:
        """Parse pod affinity terms with their weights. A term without namespaces applies to the pod's own namespace.

        Raises SelectorError if a selector is invalid.
        """
        parsed = []
        for term, weight in terms:
            is_in_own_namespace = not term.namespaces and term.namespace_selector is None
            namespaces = frozenset((self.namespace,)) if is_in_own_namespace else frozenset(term.namespaces)
            parsed_term = AffinityTerm(
                namespaces,
                selector_from_api(term.label_selector),
                topology_key=term.topology_key,
                namespace_selector=selector_from_api(term.namespace_selector),
                weight=weight,
            )
            parsed.append(parsed_term)
        return tuple(parsed)


def convert_to_amounts(requests: Quantities) -> dict[str, int]:
    """Convert requests to integers, rounded up: CPU in millicores, and all other counted resources in units.

    Resources that the scheduler does not count are left out. An amount beyond 64 bits becomes 0 or wraps around, as in
    upstream (see Quantity). Raises QuantityError for negative amounts.
    """
    result = {}
    for name, quantity in requests.items():
        if quantity.mantissa < 0:
            raise QuantityError(f"resource {name}: must be greater than or equal to 0", hint=f"got {quantity}")
        if name == names.CPU:
            result[name] = quantity.milli_value()
        elif name == names.PODS or names.is_counted(name):
            result[name] = quantity.value()
    return result


def _list_required_terms(affinity: PodAffinity | None) -> list[tuple[PodAffinityTerm, int]]:
    """Return the required terms, each with weight 0. Without affinity, there are none."""
    terms = affinity.required_during_scheduling_ignored_during_execution if affinity else ()
    return [(term, 0) for term in terms]


def _list_preferred_terms(affinity: PodAffinity | None) -> list[tuple[PodAffinityTerm, int]]:
    """Return the preferred terms with their weights. Without affinity, there are none."""
    terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    return [(term.pod_affinity_term, term.weight) for term in terms]
