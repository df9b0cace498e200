"""The changes that admission makes to new pods before it applies their PriorityClass and RuntimeClass.

These are defaults of LimitRanges, tolerations for failing nodes, and additions of optional plugins. kube-apiserver
applies several LimitRanges of a namespace in random order; here they are applied by name, with a note.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from kschedctl.admission import defaults, limit_ranger, node_selector, tolerations
from kschedctl.admission.admit import list_limit_range_orders
from kschedctl.admission.request import AdmissionRequest, NotAdmittedError, Writable
from kschedctl.api.copying import replace
from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import drop_nulls
from kschedctl.api.objects import LimitRange, Pod, PodSpec, Toleration
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.text.counts import counted

BY_CHANCE = "depending on which of several LimitRanges the API server checks first:"
_OPTIONAL_PLUGINS = {
    "PodNodeSelector": node_selector.add_node_selector,
    "PodTolerationRestriction": tolerations.add_namespace_tolerations,
    "ExtendedResourceToleration": tolerations.add_extended_resource_tolerations,
}
"""Plugins that are off by default and change what the scheduler reads, in their order."""
MAX_ALTERNATIVES = 3


class WorkloadNote(NamedTuple):
    """A sentence about how the pods of one workload are created."""

    workload: str
    """The workload's title, such as ``Deployment shop/web``."""
    text: str

    def __str__(self) -> str:
        """Return the note as ``Deployment shop/web: …``."""
        return f"{self.workload}: {self.text}"


class PodDefaults:
    """The changes that admission makes to new pods, cached for identical pods. `notes` says what was changed."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.notes: list[WorkloadNote] = []
        self._plugins = [name for name in _OPTIONAL_PLUGINS if name in cluster.api_server.enabled_optional_plugins]
        self._ranges: dict[str, tuple[LimitRange, ...]] = {}
        self._by_identity: dict[tuple[object, ...], Pod] = {}
        """Namespace and ids of spec parts -> filled pod; pods of one template share these parts."""
        self._by_content: dict[tuple[str, bytes], Pod] = {}
        """Namespace and encoded spec parts -> filled pod, for bare pods that are alike."""

    def fill_in_pods(self, workload: str, pods: Iterable[Pod]) -> list[Pod]:
        """Return the pods of a workload as admission changes them, and add notes about the changes to `self.notes`.

        Pods of one template share a cached result. Raises InputError if a plugin denies the pods.
        """
        filled: list[Pod] = []
        for pod in pods:
            pod_spec = pod.spec
            # Pods of one template share these objects, so most pods need no comparison of contents
            key = pod.metadata.namespace, id(pod_spec.containers), id(pod_spec.tolerations), id(pod_spec.node_selector)
            if key not in self._by_identity:
                self._by_identity[key] = self._fill_in_pod_with_cache(workload, pod)
            # Only the fields that admission changes are shared; names and affinity are the pod's own
            filled_spec = self._by_identity[key].spec
            merged_spec = replace(
                pod_spec,
                containers=filled_spec.containers,
                init_containers=filled_spec.init_containers,
                resources=filled_spec.resources,
                node_selector=filled_spec.node_selector,
                tolerations=filled_spec.tolerations,
            )
            filled.append(replace(pod, spec=merged_spec))
        return filled

    def _fill_in_pod_with_cache(self, workload: str, pod: Pod) -> Pod:
        """Return the pod as admission changes it, or another pod to which admission makes the same changes.

        Results are cached, and shared by pods that are equal in all fields that admission reads or changes. Use only
        these fields of the result. ``workload`` is the title for notes.
        """
        spec = pod.spec
        namespace = pod.metadata.namespace
        if not (self._get_limit_ranges(namespace) or self._plugins):
            return replace(pod, spec=self._add_default_tolerations(spec))
        parts = spec.containers, spec.init_containers, spec.resources, spec.node_selector, spec.tolerations
        content_key = namespace, msgspec.json.encode(parts)
        if content_key not in self._by_content:
            self._by_content[content_key] = self._apply_admission_defaults(workload, pod)
        return self._by_content[content_key]

    def _add_default_tolerations(self, spec: PodSpec) -> PodSpec:
        """Return the spec with the tolerations for failing nodes that admission adds unless the pod has its own.

        The spec is returned unchanged if DefaultTolerationSeconds is disabled.
        """
        server = self.cluster.api_server
        if "DefaultTolerationSeconds" in server.disabled:
            return spec
        added = []
        seconds_by_taint = (server.not_ready_seconds, server.unreachable_seconds)
        for key, seconds in zip(tolerations.FAILING_NODE_TAINTS, seconds_by_taint, strict=True):
            is_tolerated = any(
                toleration.key in (key, "") and toleration.effect in ("NoExecute", "")
                for toleration in spec.tolerations
            )
            if not is_tolerated:
                added.append(Toleration(key, "Exists", effect="NoExecute", toleration_seconds=seconds))
        return replace(spec, tolerations=(*spec.tolerations, *added)) if added else spec

    def _get_limit_ranges(self, namespace: str) -> tuple[LimitRange, ...]:
        """Return the LimitRanges of a namespace with the API's defaults, or () if LimitRanger is disabled.

        The result is cached.
        """
        if namespace not in self._ranges:
            is_enabled = "LimitRanger" not in self.cluster.api_server.disabled
            limit_ranges = self.cluster.list_in_namespace("limit_ranges", namespace) if is_enabled else ()
            self._ranges[namespace] = tuple(map(limit_ranger.with_api_defaults, limit_ranges))
        return self._ranges[namespace]

    def _apply_admission_defaults(self, workload: str, pod: Pod) -> Pod:
        """Return the pod as admission changes it, and record notes about the changes.

        If the changes depend on the order of the LimitRanges, a note says so. Raises InputError if a plugin denies the
        pod.
        """
        ranges = self._get_limit_ranges(pod.metadata.namespace)
        filled, request = self._apply_limit_ranges_and_plugins(pod, ranges)
        if request.changed:
            self.notes.append(WorkloadNote(workload, "; ".join(request.changed)))
            if alternatives := self._describe_changes_by_limit_range_order(pod, ranges, filled):
                self.notes.append(WorkloadNote(workload, f"{BY_CHANCE} {' or '.join(alternatives)}"))
        return filled

    def _describe_changes_by_limit_range_order(
        self, pod: Pod, ranges: tuple[LimitRange, ...], filled: Pod
    ) -> list[str]:
        """Describe the different changes that orders of the LimitRanges make to the pod, or return [] if all are equal.

        ``filled`` is the pod after one of the orders. The first few possibilities are described, and the others only
        counted.
        """
        if not limit_ranger.have_different_container_defaults(ranges):
            return []
        changes_by_spec: dict[bytes, str] = {}
        for order in list_limit_range_orders(ranges):
            other_pod, request = self._apply_limit_ranges_and_plugins(pod, order)
            changes_by_spec.setdefault(msgspec.json.encode(other_pod.spec), "; ".join(request.changed))
        is_order_irrelevant = changes_by_spec.keys() <= {msgspec.json.encode(filled.spec)}
        if is_order_irrelevant:
            return []
        texts = list(changes_by_spec.values())[:MAX_ALTERNATIVES]
        left_out = len(changes_by_spec) - MAX_ALTERNATIVES
        if left_out > 0:
            texts.append(counted(left_out, "more way"))
        return texts

    def _apply_limit_ranges_and_plugins(self, pod: Pod, ranges: Iterable[LimitRange]) -> tuple[Pod, AdmissionRequest]:
        """Apply LimitRanger with the LimitRanges in this order, and then the optional plugins.

        Return the changed pod, and the request that lists the changes. Raises InputError if a plugin denies the pod.
        """
        obj: Writable = drop_nulls(msgspec.to_builtins(replace(pod, spec=self._add_default_tolerations(pod.spec))))
        obj.setdefault("metadata", {})
        request = AdmissionRequest(
            self.cluster, "Pod", obj, pod.metadata.namespace, tuple(ranges), name=pod.metadata.name
        )
        defaults.set_defaults(request)  # limits become requests before LimitRanges add theirs
        limit_ranger.add_default_resources(request)
        try:
            for name in self._plugins:
                _OPTIONAL_PLUGINS[name](request)
        except NotAdmittedError as error:
            raise InputError(error.message) from None
        return convert_builtins(obj, Pod), request
