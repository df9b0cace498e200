"""The descheduler plugin DefaultEvictor, which decides which pods may be evicted at all.

Upstream: pkg/framework/plugins/defaultevictor.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.columns import NO_TIME
from kschedctl.api.labels import EVERYTHING, Selector, parse_selector, selector_from_api
from kschedctl.api.objects import LabelSelector, PersistentVolumeClaim, Pod
from kschedctl.descheduling.arguments import DefaultEvictorArgs
from kschedctl.descheduling.node_fit import NodeFit
from kschedctl.descheduling.seen_pods import SeenPods
from kschedctl.errors import InputError
from kschedctl.scheduler.engine.preemption.budgets import get_budget_key, get_budgets

CRITICAL_PRIORITY = 2 * 10**9
"""Pods with at least this priority are critical to the system."""
TOO_YOUNG, TOO_FEW, NO_OTHER_NODE = "younger than minPodAge", "fewer replicas than minReplicas", "fits on no other node"
OTHER_NAMESPACE = "its namespace is not selected"


class DefaultEvictor:
    """The protection of pods from eviction in one round.

    Raises InputError if the PriorityClass in the arguments does not exist.
    """

    def __init__(self, arguments: DefaultEvictorArgs, seen: SeenPods, fit: NodeFit) -> None:
        self.arguments, self._seen, self._fit = arguments, seen, fit
        self._protections = arguments.protections
        self._threshold = self._resolve_priority_threshold()
        self._labels = _parse_optional_selector(arguments.label_selector)
        self.reasons = [
            ", ".join(self._iter_protection_reasons(number, info.pod)) for number, info in enumerate(seen.infos)
        ]
        """The reasons why the pods of each PodInfo are protected, or "" if they are not protected."""

    def _resolve_priority_threshold(self) -> int:
        """Return the lowest priority that is protected, by default the priority of system-critical pods.

        Raises InputError if the configured PriorityClass does not exist.
        """
        threshold = self.arguments.priority_threshold
        if threshold is None or (threshold.value is None and not threshold.name):
            return CRITICAL_PRIORITY
        if threshold.value is not None:
            return threshold.value
        for priority_class in self._seen.view.cluster.priority_classes:
            if priority_class.metadata.name == threshold.name:
                return priority_class.value
        raise InputError(f'PriorityClass "{threshold.name}" not found', where="priorityThreshold.name")

    def _iter_protection_reasons(self, info_number: int, pod: Pod) -> Iterator[str]:
        """Yield the reasons why pods that share this pod's PodInfo may not be evicted.

        There are none if an annotation requests eviction. If an annotation forbids eviction and the policy obeys it,
        this is the only reason.
        """
        annotations = pod.metadata.annotations
        if annotations.evict is not None:
            return
        if self.arguments.no_eviction_policy == "Mandatory" and annotations.prefers_no_eviction is not None:
            yield "has an annotation that prefers no eviction"
            return
        if annotations.mirror:
            yield "is a mirror pod"
        if annotations.config_source != "api":
            yield "is a static pod"
        if pod.metadata.deletion_timestamp is not None:
            yield "is being deleted"
        yield from self._iter_configured_protection_reasons(info_number, pod)
        if not self._labels.matches(pod.metadata.labels):
            yield "is not selected by labelSelector"

    def _iter_configured_protection_reasons(self, info_number: int, pod: Pod) -> Iterator[str]:
        """Yield the reasons against eviction that the policy's pod protections cause.

        A pod without an owner is protected unless it has failed. With the protection FailedBarePods, failed pods
        without an owner are protected as well.
        """
        protections = self._protections
        priority = pod.spec.priority or 0
        if "SystemCriticalPods" in protections:
            if priority >= CRITICAL_PRIORITY:
                yield "has a system-critical priority"
            elif pod.spec.priority is not None and priority >= self._threshold:
                yield f"has priority {priority}, which is not below {self._threshold}"
        is_bare = not pod.metadata.owner_references
        if is_bare and ("FailedBarePods" in protections or pod.status.phase != "Failed"):
            yield "has no owner"
        has_local_storage = any(volume.host_path or volume.empty_dir for volume in pod.spec.volumes)
        if "PodsWithLocalStorage" in protections and has_local_storage:
            yield "has local storage"
        is_daemon_set_pod = any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)
        if "DaemonSetPods" in protections and is_daemon_set_pod:
            yield "belongs to a DaemonSet"
        if "PodsWithPVC" in protections:
            claim_reason = self._explain_claim_protection(pod)
            if claim_reason:
                yield claim_reason
        if "PodsWithoutPDB" in protections and not self._infos_covered_by_budgets[info_number]:
            yield "has no PodDisruptionBudget"
        if "PodsWithResourceClaims" in protections and pod.spec.resource_claims:
            yield "has resource claims"

    def _explain_claim_protection(self, pod: Pod) -> str:
        """Return why the pod's volume claims protect it from eviction, or "" if they do not.

        If storage classes are configured, only claims of these classes, or of an unknown class, protect pods.
        """
        claim_names = [
            volume.persistent_volume_claim.claim_name for volume in pod.spec.volumes if volume.persistent_volume_claim
        ]
        protected_classes = self.arguments.protected_storage_classes
        if not protected_classes:
            return "has a PersistentVolumeClaim" if claim_names else ""
        claims = {claim.metadata.name: claim for claim in self._claims_by_namespace.get(pod.metadata.namespace, ())}
        for name in claim_names:
            storage_class = claims[name].spec.storage_class_name if name in claims else None
            if not storage_class:
                return f"has claim {name}, whose storage class is unknown"
            if storage_class in protected_classes:
                return f"has a claim of storage class {storage_class}"
        return ""

    @cached_property
    def _claims_by_namespace(self) -> dict[str, list[PersistentVolumeClaim]]:
        """The PersistentVolumeClaims of each namespace."""
        claims: dict[str, list[PersistentVolumeClaim]] = {}
        for claim in self._seen.view.objects.of("PersistentVolumeClaim"):
            claims.setdefault(claim.metadata.namespace, []).append(claim)
        return claims

    @cached_property
    def _infos_covered_by_budgets(self) -> Bools:
        """The PodInfos whose pods a PodDisruptionBudget selects, as a (T,) mask."""
        covered = np.zeros(len(self._seen.infos), np.bool_)
        budgets = get_budgets(self._seen.view)
        for budget in self._seen.view.objects.of("PodDisruptionBudget"):
            covered |= budgets.find_selected_pods(get_budget_key(budget))
        return covered

    # -- masks of pods -------------------------------------------------------------------------------------------------

    @property
    def _pods_with_protected_info(self) -> Bools:
        """The pods with a protected PodInfo, as a (P,) mask."""
        is_protected_info = np.array([bool(reason) for reason in self.reasons], np.bool_)
        return is_protected_info[self._seen.info]

    @cached_property
    def _unprotected_pods(self) -> Bools:
        """The pods that nothing protected when the round began, as a (P,) mask."""
        return ~(self._pods_with_protected_info | self._young_pods | self._pods_with_too_few_replicas)

    @property
    def evictable(self) -> Bools:
        """The unprotected pods that have not been evicted in this round, as a (P,) mask."""
        return self._unprotected_pods & ~self._seen.evicted

    @cached_property
    def _pods_requesting_eviction(self) -> Bools:
        """The pods whose annotation requests eviction, as a (P,) mask. Nothing protects them."""
        return self._seen.select_infos(lambda pod: pod.metadata.annotations.evict is not None)[self._seen.info]

    @cached_property
    def _young_pods(self) -> Bools:
        """The pods that are too young to be evicted, as a (P,) mask.

        Pods without a start time are too young. Pods that earlier rounds moved, and pods that request their eviction,
        are old enough.
        """
        seconds, seen = self.arguments.min_age_seconds, self._seen
        if seconds is None:
            return np.zeros(len(seen.view.pods), np.bool_)
        start: Rows = seen.view.pods.start
        min_age = seconds * 10**6  # in microseconds
        is_young: Bools = (start == NO_TIME) | (seen.now - start < min_age)
        return is_young & ~seen.moved & ~self._pods_requesting_eviction

    @cached_property
    def _pods_with_too_few_replicas(self) -> Bools:
        """The pods whose owners have too few replicas, as a (P,) mask. Pods that request eviction are left out."""
        minimum = self.arguments.min_replicas
        if minimum <= 1:
            return np.zeros(len(self._seen.view.pods), np.bool_)
        has_too_few_replicas = self._seen.sibling_counts < minimum  # for each distinct pod info
        return has_too_few_replicas[self._seen.info] & ~self._pods_requesting_eviction

    def find_pods_passing_pre_eviction(self, positions: Rows) -> Bools:
        """Return a mask of the pods at these positions that pass PreEvictionFilter, one element per position.

        A pod passes if its namespace is selected and, with nodeFit, if it fits on another node.
        """
        passes = self._infos_in_selected_namespaces[self._seen.info[positions]]
        if self.arguments.node_fit:
            passes = passes & self._fit.find_pods_fitting_elsewhere(positions, self._nodes_for_node_fit)
        return passes

    @cached_property
    def _nodes_for_node_fit(self) -> Bools:
        """The nodes that nodeFit considers for evicted pods, as an (N,) mask.

        They are the ready nodes that nodeSelector selects.
        """
        selector = parse_selector(self.arguments.node_selector) if self.arguments.node_selector else EVERYTHING
        return self._seen.find_ready_nodes(selector)

    @cached_property
    def _infos_in_selected_namespaces(self) -> Bools:
        """The PodInfos in namespaces that the policy selects, as a (T,) mask."""
        selector = _parse_optional_selector(self.arguments.namespace_label_selector)
        labels = self._seen.view.namespace_labels
        if selector.selects_everything:
            return np.ones(len(self._seen.infos), np.bool_)
        selected_names = {name for name, own_labels in labels.items() if selector.matches(own_labels)}
        return self._seen.select_infos(lambda pod: pod.metadata.namespace in selected_names)

    def count_protected_pods(self, chosen: Bools) -> dict[str, int]:
        """Count the protected pods in the (P,) mask ``chosen`` by reason. Each pod counts for one reason only."""
        # Pods whose PodInfo is protected
        pod_counts: dict[str, int] = {}
        counts_by_info = np.bincount(self._seen.info[chosen], minlength=len(self.reasons))
        for reason, count in zip(self.reasons, counts_by_info.tolist(), strict=True):
            if reason and count:
                pod_counts[reason] = pod_counts.get(reason, 0) + count

        # Other pods, which are protected by their age or their number
        other_pods = chosen & ~self._pods_with_protected_info
        too_young_count = int((other_pods & self._young_pods).sum())
        if too_young_count:
            pod_counts[TOO_YOUNG] = too_young_count
        too_few_count = int((other_pods & ~self._young_pods & self._pods_with_too_few_replicas).sum())
        if too_few_count:
            pod_counts[TOO_FEW] = too_few_count
        return pod_counts


def _parse_optional_selector(selector: LabelSelector | None) -> Selector:
    """Parse a label selector. None is parsed to a selector that matches everything."""
    return EVERYTHING if selector is None else selector_from_api(selector)
