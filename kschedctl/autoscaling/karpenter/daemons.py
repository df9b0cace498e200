"""DaemonSets' pods on nodes: their overhead on new nodes, by instance type, and the pods expected on existing nodes.

Upstream: buildDaemonOverheadGroups, isDaemonPodCompatible in pkg/controllers/provisioning/scheduling/scheduler.go,
getDaemonSetPods in provisioner.go (sigs.k8s.io/karpenter v1.14.1). A required affinity term that is removed to check
one instance type stays removed in later checks, because upstream modifies the pod in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.copying import replace
from kschedctl.api.objects import Affinity, Container, NodeAffinity, Pod, PodMeta, StoredWorkload, Taint
from kschedctl.api.pod_requests import Quantities
from kschedctl.api.tolerations import is_tolerated
from kschedctl.autoscaling.karpenter.amounts import Amounts, convert_to_thousandths, sum_pod_requests
from kschedctl.autoscaling.karpenter.pod_data import Port, get_host_ports
from kschedctl.autoscaling.karpenter.preferences import (
    remove_required_node_affinity_term,
    tolerate_prefer_no_schedule_taints,
)
from kschedctl.autoscaling.karpenter.requirements import Requirements, build_strict_requirements, get_required_terms
from kschedctl.autoscaling.karpenter.state_nodes import StateNode
from kschedctl.autoscaling.karpenter.templates import ClaimTemplate
from kschedctl.cluster import Cluster


@dataclass(frozen=True, eq=False)
class DaemonGroup:
    """Instance types of a template on which the same DaemonSets would run."""

    types: Bools
    """(T,) the instance types of the group."""
    overhead: Quantities
    """Summed requests of the DaemonSets' pods."""
    amounts: Amounts
    """The overhead in thousandths."""
    ports: tuple[Port, ...]


class Daemons:
    """Pods that represent the cluster's DaemonSets, one for each.

    When groups are built, these pods are relaxed permanently.
    """

    def __init__(self, pods: Iterable[Pod]) -> None:
        self.pods = list(pods)

    def build_daemon_groups(self, template: ClaimTemplate) -> tuple[DaemonGroup, ...]:
        """Group a template's instance types by the DaemonSets that would run on them.

        The groups are sorted by the names of their pods. As in upstream, pods that are relaxed for this template stay
        relaxed for later templates.
        """
        masks = [self._relax_and_find_compatible_types(pod_index, template) for pod_index in range(len(self.pods))]
        runs_on_type = np.array(masks, np.bool_).reshape(len(masks), len(template.columns))  # also without any pod

        def list_pods_on_type(type_index: int) -> list[Pod]:
            """Return the pods that would run on an instance type."""
            return [self.pods[pod_index] for pod_index in np.flatnonzero(runs_on_type[:, type_index]).tolist()]

        types_by_pod_names: dict[str, list[int]] = {}
        for type_index in np.flatnonzero(template.options).tolist():
            names = ",".join(sorted(pod.key for pod in list_pods_on_type(type_index)))
            types_by_pod_names.setdefault(names, []).append(type_index)
        return tuple(
            _build_daemon_group(list_pods_on_type(types[0]), types, len(template.columns))
            for _names, types in sorted(types_by_pod_names.items())
        )

    def find_expected_pods(self, node: StateNode) -> list[Pod]:
        """Return the pods of the DaemonSets that should run on the node, given its labels and taints."""
        labels = Requirements.from_labels(node.labels)
        return [
            pod
            for pod in self.pods
            if _tolerates_all_taints(pod, node.taints) and labels.is_compatible_with(build_strict_requirements(pod))
        ]

    def _relax_and_find_compatible_types(self, pod_index: int, template: ClaimTemplate) -> Bools:
        """Relax the indexed DaemonSet pod, and return a (T,) mask of the template's types on which it would run.

        The pod gets a toleration of PreferNoSchedule taints, and loses a required node affinity term for each instance
        type that does not match. It stays relaxed afterwards.
        """
        if relaxed := tolerate_prefer_no_schedule_taints(self.pods[pod_index]):
            self.pods[pod_index] = relaxed.pod
        mask = np.zeros(len(template.columns), np.bool_)
        if not _tolerates_all_taints(self.pods[pod_index], template.taints):
            return mask

        unchecked = np.flatnonzero(template.options)  # rows of types
        while len(unchecked):
            required = build_strict_requirements(self.pods[pod_index])
            fits = np.zeros(len(unchecked), np.bool_)
            if template.requirements.is_compatible_with(required, template.well_known):
                fits = template.columns.find_compatible_types(required)[unchecked]
            # With a single term left, nothing changes any more, so the answer holds for all types.
            if len(get_required_terms(self.pods[pod_index])) <= 1:
                mask[unchecked] = fits
                return mask

            # As in upstream, types are checked one after the other. The first type that does not fit removes a term,
            # which changes the answer for this type and all later types.
            first_misfit = len(fits) if fits.all() else int(np.argmin(fits))
            fitting, unchecked = unchecked[:first_misfit], unchecked[first_misfit:]
            mask[fitting] = True
            if len(unchecked) and (relaxed := remove_required_node_affinity_term(self.pods[pod_index])):
                self.pods[pod_index] = relaxed.pod
        return mask


def get_daemonset_pods(cluster: Cluster) -> list[Pod]:
    """Return a representative pod for each DaemonSet.

    This is its newest pod or, if it has no pods, a pod built from its template. The template's required node affinity
    replaces the pod's.
    """
    return [_build_daemonset_pod(daemon_set, cluster) for daemon_set in cluster.daemon_sets]


def _build_daemonset_pod(daemon_set: StoredWorkload, cluster: Cluster) -> Pod:
    """Build the pod that represents a DaemonSet from its newest pod or, if it has none, from its template.

    The template's required node affinity, if it has one, replaces the pod's.
    """
    template, metadata = daemon_set.spec.template.spec, daemon_set.metadata
    pod = _find_newest_daemonset_pod(daemon_set, cluster)
    if pod is None:
        containers = tuple(map(_default_requests_to_limits, template.containers))
        init = tuple(map(_default_requests_to_limits, template.init_containers))
        spec = replace(template, containers=containers, init_containers=init)
        pod = Pod(PodMeta(metadata.name, metadata.namespace), spec)

    # The pod's own affinity names the node that the DaemonSet controller has chosen for it.
    template_affinity = template.affinity and template.affinity.node_affinity
    if not template_affinity:
        return pod
    required = template_affinity.required_during_scheduling_ignored_during_execution
    if required is None:
        return pod
    affinity = pod.spec.affinity or Affinity()
    node_affinity = replace(
        affinity.node_affinity or NodeAffinity(), required_during_scheduling_ignored_during_execution=required
    )
    return replace(pod, spec=replace(pod.spec, affinity=replace(affinity, node_affinity=node_affinity)))


def _find_newest_daemonset_pod(daemon_set: StoredWorkload, cluster: Cluster) -> Pod | None:
    """Return the newest pod of a DaemonSet, or None if it has no pods. Of equally old pods, the first is returned."""
    metadata = daemon_set.metadata

    def may_be_owned(template: Pod) -> bool:
        """Return whether pods of the template are in the DaemonSet's namespace and belong to a DaemonSet."""
        return template.metadata.namespace == metadata.namespace and _find_daemonset_owner(template) != ("", "")

    owned_pods = (
        pod
        for pod in cluster.pods.filter_by_template(may_be_owned)
        if _find_daemonset_owner(pod) == (metadata.uid, metadata.name)
    )
    return max(owned_pods, key=_get_creation_time, default=None)


def _find_daemonset_owner(pod: Pod) -> tuple[str, str]:
    """Return the UID and name of the DaemonSet that controls the pod, or two empty strings."""
    for owner in pod.metadata.owner_references:
        if owner.controller and owner.kind == "DaemonSet":
            return owner.uid, owner.name
    return "", ""


def _get_creation_time(pod: Pod) -> str:
    """Return the pod's creation timestamp, or "" if it has none."""
    return pod.metadata.creation_timestamp or ""


def _default_requests_to_limits(container: Container) -> Container:
    """Return a copy of the container in which its limits replace missing requests."""
    resources = container.resources
    return replace(container, resources=replace(resources, requests={**resources.limits, **resources.requests}))


def _build_daemon_group(pods: Sequence[Pod], types: Sequence[int], type_count: int) -> DaemonGroup:
    """Build the group of instance types on which exactly these pods would run.

    ``types`` are the rows of the group's types among all ``type_count`` types of the template.
    """
    mask = np.zeros(type_count, np.bool_)
    mask[list(types)] = True
    overhead = sum_pod_requests(pods) if pods else {}
    ports = tuple(port for pod in pods for port in get_host_ports(pod))
    return DaemonGroup(mask, overhead, convert_to_thousandths(overhead), ports)


def _tolerates_all_taints(pod: Pod, taints: Iterable[Taint]) -> bool:
    """Return whether the pod tolerates all taints."""
    return all(is_tolerated(pod.spec.tolerations, taint, comparison_operators=True) for taint in taints)
