"""The rule that replays admission for manifests that are applied to a cluster.

Upstream: pkg/kubeapiserver/options/plugins.go (v1.36).
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import partial
from typing import Any

from msgspec import to_builtins

from kschedctl.admission import resource_quota
from kschedctl.admission.admit import VALIDATION, iter_admission_outcomes
from kschedctl.admission.not_replayed import iter_undecidable_plugins, iter_undecidable_plugins_for_pod
from kschedctl.admission.pod_security import extract_pod
from kschedctl.admission.request import AdmissionRequest
from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.events import shorten_api_message
from kschedctl.api.json_values import JsonObject, drop_nulls, object_at, objects_at, text_at
from kschedctl.api.objects import ResourceQuota
from kschedctl.api.pod_requests import Quantities
from kschedctl.api.validation.manifests import KINDS, validate_manifest
from kschedctl.api.workloads import POD_TEMPLATE_PATHS
from kschedctl.cluster import LIMITS, Cluster, Gap
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Problem
from kschedctl.lint.objects.workload import InvalidFieldError, Workload, convert_field
from kschedctl.lint.rule import ERROR, Rule
from kschedctl.reports.not_created import Admission
from kschedctl.text.counts import counted

PLUGINS_WITH_OWN_RULES = frozenset({"Priority"})
"""Admission plugins with lint rules of their own."""


def find_denied_pods(context: LintContext) -> Iterator[Problem]:
    """Find workloads in manifests whose pods the API server of the cluster would deny.

    Kinds that could deny pods but could not be read are recorded as gaps. Finds nothing without a cluster, or if the
    manifests themselves describe the cluster.
    """
    cluster = context.cluster
    if cluster is None or context.is_self_described:
        return
    context.gaps.update(_find_gaps_of_limits(cluster))
    replay = _AdmissionReplay(context, cluster)
    workloads = [
        workload
        for workload in context.workloads
        if workload.subject.kind in POD_TEMPLATE_PATHS and workload.subject.document
    ]
    # All manifests are applied before any pod is created, so first release what the new pods replace
    for workload in workloads:
        replay.release_replaced_pods(workload)
    for workload in workloads:
        denial = replay.replay_pod_creation(workload)
        if denial:
            yield workload.build_problem((), f"the API server would not create {denial}")


RQ_APPLY_REFUSED = Rule(
    "rq-apply-refused",
    ERROR,
    find_denied_pods,
    summary="Pods that the cluster's API server would not create",
    why="The API server rejects the pods because of a ResourceQuota, a LimitRange, Pod Security or a missing "
    "ServiceAccount or RuntimeClass: the controller keeps retrying, and no pod starts. Checked only with a cluster.",
    fix="Change the pod template, or the limits of the namespace",
    source="pkg/kubeapiserver/options/plugins.go (v1.36)",
)


def _find_gaps_of_limits(cluster: Cluster) -> dict[str, Gap]:
    """Return the gaps, by kind, of the kinds that limit pods and that could not be read from the cluster.

    Kinds that are simply not in the cluster's files do not count.
    """
    gaps = {}
    for kind in LIMITS:
        gap = cluster.find_gap(kind)
        if gap is not None and not (gap.is_not_given or gap.is_not_listed):
            gaps[kind] = gap
    return gaps


class _AdmissionReplay:
    """A replay of the creation of workloads, each charged to the quotas of its namespace."""

    def __init__(self, context: LintContext, cluster: Cluster) -> None:
        self.context, self.cluster = context, cluster
        self.remaining_quotas: dict[str, tuple[ResourceQuota, ...]] = {}
        self.kept_pods: dict[Workload, int] = {}
        """Number of existing pods that use as much of the quotas as a new pod of the workload does."""

    def release_replaced_pods(self, workload: Workload) -> None:
        """Release the quota of the pods that applying the manifest removes, and record in `kept_pods` how many stay.

        A rollout replaces pods that use other amounts than new pods. A lower number of replicas removes surplus pods.
        A pod that is replaced by one with the same usage counts as kept, because the quotas do not change.
        """
        namespace = workload.subject.namespace or DEFAULT_NAMESPACE
        pods = self.context.facts.pods_by_owner.get(workload.owner)
        quotas = self._get_remaining_quotas(namespace)
        pod = _build_created_pod(workload, namespace)
        if pods is None or pod is None or not quotas:
            return

        # The quota usage of a new pod
        outcomes = self._replay_admission(pod, namespace, quotas=())
        created_pod = next((admission.object for admission in outcomes if admission.object is not None), None)
        if created_pod is None:
            return
        new_usage = _compute_quota_usage_by_class(self._build_quota_request(dict(created_pod), namespace))

        # The pods that stay and that go, template by template
        kept_count = 0
        for template in pods.list_distinct_templates():
            template_pods = pods.select(partial(operator.is_, template))
            request = self._build_quota_request(to_builtins(template_pods[0]), namespace)
            if _compute_quota_usage_by_class(request) != new_usage:
                kept_of_template = 0
            elif workload.replicas is None:  # a DaemonSet has no surplus pods
                kept_of_template = len(template_pods)
            else:
                still_wanted = max(workload.lowest_replicas - kept_count, 0)
                kept_of_template = min(len(template_pods), still_wanted)
            kept_count += kept_of_template
            removed_count = len(template_pods) - kept_of_template
            self.remaining_quotas[namespace] = resource_quota.charge_quotas(request, -removed_count)
        self.kept_pods[workload] = kept_count

    def replay_pod_creation(self, workload: Workload) -> str:
        """Replay the creation of a workload's pods, and describe which pods are denied and why.

        Returns "" if no pod is denied. The admitted pods are charged to the remaining quotas, which kept pods already
        use.
        """
        namespace = workload.subject.namespace or DEFAULT_NAMESPACE
        pod = _build_created_pod(workload, namespace)
        if pod is None:
            return ""
        kept_count = self.kept_pods.get(workload, 0)
        added_count = max(workload.lowest_replicas - kept_count, 0)
        is_no_pod_created = kept_count > 0 and added_count == 0  # so that no quota can deny one
        quotas = () if is_no_pod_created else self._get_remaining_quotas(namespace)
        is_validated = self._is_manifest_valid(workload)
        outcomes = self._replay_admission(pod, namespace, quotas, is_validated=is_validated)
        created_pod = next((admission.object for admission in outcomes if admission.object is not None), None)
        if created_pod is None:
            denied = _format_denied_pods(workload, added_count) if kept_count else "its pods"
            return f"{denied}: {shorten_api_message(outcomes[0].message or '')}"
        return self._charge_and_describe_denial(workload, pod, created_pod, added_count) if quotas else ""

    def _get_remaining_quotas(self, namespace: str) -> tuple[ResourceQuota, ...]:
        """Return the quotas of a namespace, charged with the pods that were admitted before."""
        if namespace not in self.remaining_quotas:
            self.remaining_quotas[namespace] = tuple(self.cluster.list_in_namespace("resource_quotas", namespace))
        return self.remaining_quotas[namespace]

    def _charge_and_describe_denial(
        self, workload: Workload, pod: JsonObject, created_pod: JsonObject, pod_count: int
    ) -> str:
        """Charge ``pod_count`` pods of a workload to its quotas, and describe which pods exceed a quota and why.

        ``pod`` is the pod to create, and ``created_pod`` is the pod as admission changed it. Only the pods that fit are
        charged. Returns "" if all pods fit.
        """
        namespace = workload.subject.namespace or DEFAULT_NAMESPACE
        request = self._build_quota_request(dict(created_pod), namespace)
        admitted_count = resource_quota.count_admissible_objects(request, pod_count)
        self.remaining_quotas[namespace] = resource_quota.charge_quotas(request, admitted_count)
        if admitted_count == pod_count:
            return ""
        outcomes = self._replay_admission(pod, namespace, self.remaining_quotas[namespace])
        denial = shorten_api_message(outcomes[0].message or "")
        return f"{_format_denied_pods(workload, pod_count - admitted_count)}: {denial}"

    def _build_quota_request(self, pod: dict[str, Any], namespace: str) -> AdmissionRequest:
        """Build the request by which a pod is charged to the remaining quotas that are enforced in its namespace."""
        quotas = tuple(quota for quota in self._get_remaining_quotas(namespace) if quota.status.hard)
        return AdmissionRequest(self.cluster, "Pod", pod, namespace, limit_ranges=(), quotas=quotas)

    def _is_manifest_valid(self, workload: Workload) -> bool:
        """Return whether the manifest is valid as it is written. The rule api-refused reports other manifests."""
        subject = workload.subject
        if subject.kind not in KINDS:
            return False
        try:
            manifest = convert_field((), drop_nulls(subject.document), KINDS[subject.kind])
        except InvalidFieldError:
            return False
        return not validate_manifest(subject.kind, manifest, self.context.validation_options)

    def _replay_admission(
        self, pod: JsonObject, namespace: str, quotas: tuple[ResourceQuota, ...], *, is_validated: bool = False
    ) -> list[Admission]:
        """Replay the admission of one pod, without plugins that lack data or have lint rules of their own.

        With ``is_validated``, the pod is also validated as the plugins changed it, for example with default limits.
        """
        skipped = {*PLUGINS_WITH_OWN_RULES, *iter_undecidable_plugins(self.cluster, namespace)}
        if not is_validated:
            skipped.add(VALIDATION)
        skipped.update(iter_undecidable_plugins_for_pod(self.cluster, namespace, object_at(pod, "spec")))
        return list(
            iter_admission_outcomes(self.cluster, pod, namespace, quotas=quotas, skipped=skipped, annotated=False)
        )


def _format_denied_pods(workload: Workload, denied_count: int) -> str:
    """Format the number of denied pods of a workload, as in ``2 of its 3 pods``."""
    return f"{denied_count:,} of its {counted(workload.lowest_replicas, 'pod')}"


def _compute_quota_usage_by_class(request: AdmissionRequest) -> tuple[str, Quantities]:
    """Return the name of a pod's PriorityClass, by which quotas select pods, and the amounts that the pod uses."""
    return str(request.spec.get("priorityClassName") or ""), resource_quota.compute_quota_usage(request)


def _build_created_pod(workload: Workload, namespace: str) -> JsonObject | None:
    """Build the pod that the controller would create from the template, or return None if there is no pod spec."""
    subject = workload.subject
    template = extract_pod(subject.kind, drop_nulls(subject.document))
    spec = object_at(template, "spec")
    if not spec:
        return None
    metadata = {**object_at(template, "metadata"), "generateName": f"{subject.name}-", "namespace": namespace}
    metadata.pop("name", None)
    return {"kind": "Pod", "metadata": metadata, "spec": _add_claim_volumes(spec, subject.name, subject.document)}


def _add_claim_volumes(spec: JsonObject, name: str, document: JsonObject) -> JsonObject:
    """Return the spec of a StatefulSet's first pod, with a volume for each volume claim template of the document.

    As in the StatefulSet controller (updateStorage in pkg/controller/statefulset/stateful_set_utils.go), the added
    volumes replace the template's volumes of the same name. Other workloads have no such templates, so their spec is
    unchanged.
    """
    claim_templates = objects_at(document, "spec", "volumeClaimTemplates")
    if not claim_templates:
        return spec
    volumes_by_name = {text_at(volume, "name"): volume for volume in objects_at(spec, "volumes")}
    for claim_template in claim_templates:
        volume_name = text_at(claim_template, "metadata", "name")
        claim = {"claimName": f"{volume_name}-{name}-0"}
        volumes_by_name[volume_name] = {"name": volume_name, "persistentVolumeClaim": claim}
    return {**spec, "volumes": list(volumes_by_name.values())}
