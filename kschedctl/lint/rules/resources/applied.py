"""The rule that replays admission for manifests that are applied to a cluster.

Upstream: pkg/kubeapiserver/options/plugins.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.admission import resource_quota
from kschedctl.admission.admit import VALIDATION, iter_outcomes
from kschedctl.admission.not_replayed import iter_undecidable_plugins, iter_undecidable_plugins_for_pod
from kschedctl.admission.pod_security import extract_pod
from kschedctl.admission.request import AdmissionRequest
from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.events import shorten_api_message
from kschedctl.api.json_values import JsonObject, drop_nulls, object_at
from kschedctl.api.objects import ResourceQuota
from kschedctl.api.workloads import POD_TEMPLATE_PATHS
from kschedctl.cluster import LIMITS, Cluster
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Problem
from kschedctl.lint.objects.workload import Workload
from kschedctl.lint.rule import ERROR, Rule
from kschedctl.reports.not_created import Admission
from kschedctl.text.counts import counted

PLUGINS_WITH_OWN_RULES = frozenset({"Priority"})
"""Plugins of which rules of their own tell."""


def find_denied_pods(context: LintContext) -> Iterator[Problem]:
    """Find workloads whose pods the cluster's API server would not create."""
    cluster = context.cluster
    if cluster is None or context.is_self_described:
        return
    context.are_all_read(*_iter_unreadable_kinds(cluster))  # records the gaps
    replay = _AdmissionReplay(context, cluster)
    for workload in context.workloads:
        if workload.subject.kind not in POD_TEMPLATE_PATHS or not workload.subject.document:
            continue
        if denied := replay.create_pods(workload):
            yield workload.build_problem((), f"the API server would not create {denied}")


RQ_APPLY_REFUSED = Rule(
    "rq-apply-refused",
    ERROR,
    find_denied_pods,
    summary="Pods that the API server of the cluster would not create",
    why="Admission refuses each of them, by quotas, LimitRanges, Pod Security or a missing ServiceAccount or "
    "RuntimeClass: the controller keeps trying and nothing starts. Checked against a cluster.",
    fix="Change the pod template, or what the namespace allows",
    source="pkg/kubeapiserver/options/plugins.go (v1.36)",
)


def _iter_unreadable_kinds(cluster: Cluster) -> Iterator[str]:
    """Yield the kinds that could not be read from the cluster. A kind that files do not have does not count."""
    for kind in LIMITS:
        gap = cluster.gap(kind)
        if gap is not None and not (gap.is_not_given or gap.is_not_listed):
            yield kind


class _AdmissionReplay:
    """A replay of the creation of workloads, each charged to the quotas of its namespace."""

    def __init__(self, context: LintContext, cluster: Cluster) -> None:
        self.context, self.cluster = context, cluster
        self.remaining_quotas: dict[str, tuple[ResourceQuota, ...]] = {}

    def create_pods(self, workload: Workload) -> str:
        """Create a workload's pods, charge them to the quotas, and describe which are denied and why, or return "".

        Quotas are not checked for workloads that already have pods in the cluster.
        """
        subject = workload.subject
        namespace = subject.namespace or DEFAULT_NAMESPACE
        template = extract_pod(subject.kind, drop_nulls(subject.document))
        spec = object_at(template, "spec")
        if not spec:
            return ""
        metadata = {**object_at(template, "metadata"), "generateName": f"{subject.name}-", "namespace": namespace}
        metadata.pop("name", None)
        manifest = {"kind": "Pod", "metadata": metadata, "spec": spec}
        quotas: tuple[ResourceQuota, ...] = ()
        if not self.context.facts.list_pod_rows(workload):
            if namespace not in self.remaining_quotas:
                self.remaining_quotas[namespace] = tuple(self.cluster.in_namespace("resource_quotas", namespace))
            quotas = self.remaining_quotas[namespace]
        outcomes_of_pod = self._replay_admission(manifest, namespace, quotas)
        created = next((admission.object for admission in outcomes_of_pod if admission.object is not None), None)
        if created is None:
            return f"its pods: {shorten_api_message(outcomes_of_pod[0].message or '')}"
        return self._charge_quotas(workload, manifest, created, quotas) if quotas else ""

    def _charge_quotas(
        self, workload: Workload, manifest: JsonObject, created: JsonObject, quotas: tuple[ResourceQuota, ...]
    ) -> str:
        """Charge the quotas for all pods of a workload, and describe how many are denied and why, or return ""."""
        namespace, wanted = workload.subject.namespace or DEFAULT_NAMESPACE, workload.lowest_replicas
        active_quotas = tuple(quota for quota in quotas if quota.status.hard)
        request = AdmissionRequest(self.cluster, "Pod", dict(created), namespace, (), active_quotas)
        admitted = resource_quota.count_admissible(request, wanted)
        self.remaining_quotas[namespace] = resource_quota.charge_quotas(request, admitted)
        if admitted == wanted:
            return ""
        denial = self._replay_admission(manifest, namespace, self.remaining_quotas[namespace])[0].message or ""
        return f"{wanted - admitted:,} of its {counted(wanted, 'pod')}: {shorten_api_message(denial)}"

    def _replay_admission(
        self, manifest: JsonObject, namespace: str, quotas: tuple[ResourceQuota, ...]
    ) -> list[Admission]:
        """Return the admission outcome of one pod, without plugins that lack data or have rules of their own."""
        without = {VALIDATION, *PLUGINS_WITH_OWN_RULES, *iter_undecidable_plugins(self.cluster, namespace)}
        without.update(iter_undecidable_plugins_for_pod(self.cluster, namespace, object_at(manifest, "spec")))
        return list(iter_outcomes(self.cluster, manifest, namespace, quotas=quotas, skipped=without, annotated=False))
