"""The spread constraints of a pod, its own or the profile's defaults, and the nodes and domains in which they count.

Upstream: plugins/podtopologyspread/common.go and plugins/helper/spread.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from kschedctl.api.arrays import Bools, Counts
from kschedctl.api.labels import (
    EVERYTHING,
    Requirement,
    Selector,
    SelectorError,
    build_selector,
    selector_from_api,
    selector_from_set,
)
from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.api.objects import OwnerReference, Service, TopologySpreadConstraint
from kschedctl.api.ownership import find_controller
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.indexes import ClusterObjects
from kschedctl.snapshot.nodes import HOSTNAME, ZONE, Domains, match_tolerations
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.tallies import Tally

NAME = "PodTopologySpread"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"

SYSTEM_CONSTRAINTS = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)
"""Upstream's constraints for pods of a Service or controller that have no constraints of their own."""


class SpreadConstraint(NamedTuple):
    """A constraint with a complete selector and defaulted policies."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honor_affinity: bool
    honor_taints: bool

    def selects(self, info: PodInfo) -> bool:
        """Return whether the selector matches the pod's labels, regardless of its namespace."""
        return self.selector.matches(info.labels)


class SpreadSettings(msgspec.Struct, frozen=True):
    """The settings of a profile and its feature gates that affect spread constraints."""

    defaults: tuple[TopologySpreadConstraint, ...]
    """The constraints of pods that have none of their own."""
    system_defaulted: bool
    """True if the defaults are SYSTEM_CONSTRAINTS."""
    match_label_keys: bool
    """True if matchLabelKeys count."""
    inclusion_policies: bool
    """True if nodeAffinityPolicy and nodeTaintsPolicy count."""
    comparison_operators: bool
    """True if tolerations can have comparison operators."""

    def get_constraints(self, info: PodInfo, view: Fork, action: str) -> list[SpreadConstraint]:
        """Return the pod's constraints with this `action`, HARD or SOFT. By default, return the profile's constraints.

        The result is cached for identical pods. Raises SelectorError if a selector is invalid.
        """
        return view.memo_of_pods(
            (NAME, action), lambda: self._list_own_or_default_constraints(info, view, action), info
        )

    def _list_own_or_default_constraints(self, info: PodInfo, view: Fork, action: str) -> list[SpreadConstraint]:
        """Return the pod's constraints with this action, or the profile's defaults if the pod has none at all.

        Default constraints select pods by the combined selector of the pod's Services and controller, and do not apply
        to a pod that has neither. Raises SelectorError if a selector is invalid.
        """
        if info.spec.topology_spread_constraints:
            return self._select_and_complete_constraints(info.spec.topology_spread_constraints, info, action)
        constraints = self._select_and_complete_constraints(self.defaults, info, action)
        if not constraints:
            return []
        selector = build_default_selector(info, view.objects)
        if selector.selects_everything:
            return []
        return [constraint._replace(selector=selector) for constraint in constraints]

    def _select_and_complete_constraints(
        self, constraints: Sequence[TopologySpreadConstraint], info: PodInfo, action: str
    ) -> list[SpreadConstraint]:
        """Return the constraints that have this action, with default policies and complete selectors.

        If policies are disabled, affinity is honored and taints are ignored. Raises SelectorError if a selector is
        invalid.
        """
        has_policies = self.inclusion_policies
        return [
            SpreadConstraint(
                constraint.max_skew,
                constraint.topology_key,
                self._add_match_label_keys(constraint, info),
                min_domains=1 if constraint.min_domains is None else constraint.min_domains,
                honor_affinity=constraint.node_affinity_policy != "Ignore" or not has_policies,
                honor_taints=constraint.node_taints_policy == "Honor" and has_policies,
            )
            for constraint in constraints
            if constraint.when_unsatisfiable == action
        ]

    def _add_match_label_keys(self, constraint: TopologySpreadConstraint, info: PodInfo) -> Selector:
        """Return the constraint's selector, extended by the pod's own values of the matchLabelKeys.

        Keys that the pod does not have are ignored, and all keys if matchLabelKeys is disabled. A selector that matches
        nothing is not changed. Raises SelectorError if the selector is invalid.
        """
        selector = selector_from_api(constraint.label_selector)
        keys = constraint.match_label_keys if self.match_label_keys else ()
        own_labels = {key: info.labels[key] for key in keys if key in info.labels}
        if not own_labels or selector.matches_nothing:
            return selector
        requirements: tuple[Requirement, ...] = (*selector_from_set(own_labels).requirements, *selector.requirements)
        return build_selector(requirements)

    def find_included_nodes(self, constraint: SpreadConstraint, info: PodInfo, view: Fork) -> Bools:
        """Return a mask (N,) of the nodes that the constraint's nodeAffinityPolicy and nodeTaintsPolicy include."""
        included = np.ones(len(view.nodes), np.bool_)
        if constraint.honor_affinity:
            included &= view.nodes.match_required_affinity(compile_required_node_affinity(info.spec))
        if constraint.honor_taints:
            included &= match_tolerations(
                view.nodes, info.spec.tolerations, comparison_operators=self.comparison_operators
            )
        return included


OWNER_KINDS = ("ReplicaSet", "StatefulSet")
"""The kinds of apps/v1 whose selector counts."""
SELECTING_KINDS = ("Service", "ReplicationController", *OWNER_KINDS)
"""The kinds of all objects whose selector may count."""


def build_default_selector(info: PodInfo, objects: ClusterObjects) -> Selector:
    """Build a selector with all requirements of the selectors of the pod's Services and controller.

    A controller that does not exist or has no selector adds no requirements. A selector without requirements selects
    everything.
    """
    labels: dict[str, str] = {}
    for service in find_pod_services(info, objects):
        labels.update(service.spec.selector)

    owner = find_controller(info.pod.metadata)
    if owner is None:
        return selector_from_set(labels)
    if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
        # Its selector is a map, like that of a Service, and overrides their values for the same label key.
        controller = objects.find(owner.kind, info.namespace, owner.name)
        if controller is not None:
            labels.update(controller.spec.selector)
    owner_requirements = _find_owner_requirements(info, owner, objects)
    return build_selector((*selector_from_set(labels).requirements, *owner_requirements))


def find_selecting_kinds(info: PodInfo) -> tuple[str, ...]:
    """Return the kinds of the objects that may select the pod.

    These are Service and, if the pod has a controller of a kind that selects pods, this kind.
    """
    owner = find_controller(info.pod.metadata)
    if owner is None or owner.kind not in ("ReplicationController", *OWNER_KINDS):
        return ("Service",)
    return ("Service", owner.kind)


def find_pod_services(info: PodInfo, objects: ClusterObjects) -> list[Service]:
    """Return the Services of the pod's namespace that select it. A Service without a selector selects nothing."""
    return [
        service
        for service in objects.list_in_namespace("Service", info.namespace)
        if service.spec.selector and service.spec.selector.items() <= info.labels.items()
    ]


def _find_owner_requirements(info: PodInfo, owner: OwnerReference, objects: ClusterObjects) -> tuple[Requirement, ...]:
    """Return the requirements of the selector of the pod's ReplicaSet or StatefulSet.

    Return no requirements if the owner is of another kind or missing, or if its selector is invalid.
    """
    if owner.api_version != "apps/v1" or owner.kind not in OWNER_KINDS:
        return ()
    workload = objects.find(owner.kind, info.namespace, owner.name)
    if workload is None:
        return ()
    try:
        return selector_from_api(workload.spec.selector).requirements
    except SelectorError:
        return ()


def restrict_domains(domains: Domains, included: Bools, key: Hashable, view: Fork) -> Domains:
    """Return a copy of the domains in which only the nodes in the mask `included` (N,) are in a domain.

    The copy is cached for pods with the same mask. `key` names the domains in the cache.
    """

    def build() -> Domains:
        no_domain = -1
        return Domains(np.where(included, domains.codes, no_domain).astype(np.int32), domains.size)

    return view.memo((NAME, restrict_domains, key, included.tobytes()), build)


def tally_matching_pods(
    constraint: SpreadConstraint, info: PodInfo, view: Fork, domains: Domains | None = None, key: Hashable = None
) -> Tally:
    """Return a tally of the pods that match the constraint, which is kept up to date as pods move.

    It counts per domain if `domains` are given, and otherwise per node. `key` is the name of the domains in the cache.
    Terminating pods do not match.
    """

    def compute_weights() -> Counts:
        """Compute the weight of each distinct PodInfo: 1 if its pods match, otherwise 0."""
        if constraint.selector == EVERYTHING:  # an empty selector, which upstream takes for one that matches nothing
            return np.zeros(len(view.pods.infos), np.int8)
        selected = view.pods.match_infos(constraint.selector, frozenset((info.namespace,)))
        return (selected & ~view.pods.terminating).astype(np.int8)

    tally_by_node_key = (NAME, constraint.selector, info.namespace)
    if key is None:
        return view.get_or_build_tally(tally_by_node_key, compute_weights, domains)
    # Unlike the domains, the matches per node are the same for many pods. Their cached tally is summed up by domain.
    tally_by_domain_key = (*tally_by_node_key, key)
    return view.get_or_build_tally(
        tally_by_domain_key, weights=compute_weights, domains=domains, info=info, by_node=tally_by_node_key
    )


def find_nodes_with_all_keys(constraints: Sequence[SpreadConstraint], view: Fork) -> Bools:
    """Return a mask (N,) of the nodes that have the topology labels of all constraints."""
    has_all_keys = np.ones(len(view.nodes), np.bool_)
    for constraint in constraints:
        has_all_keys &= view.nodes.label(constraint.topology_key).present
    return has_all_keys
