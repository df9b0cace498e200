"""What the API server of a cluster would refuse if the manifests were applied to it.

Upstream: pkg/kubeapiserver/options/plugins.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.admission import resource_quota
from kschedctl.admission.admit import VALIDATION, outcomes
from kschedctl.admission.pod_security_policy import TEMPLATES, pod_of
from kschedctl.admission.request import AdmissionRequest
from kschedctl.admission.unknown import not_known, not_known_of
from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.objects import ResourceQuota
from kschedctl.api.observed.failed_creation import shorten_api_message
from kschedctl.cluster import LIMITS, NOT_GIVEN, NOT_LISTED, Cluster, without_nulls
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import ERROR, Rule
from kschedctl.lint.objects.subject import Problem
from kschedctl.lint.objects.workload import Workload
from kschedctl.reports.admission import Admission
from kschedctl.text.counts import counted

ELSEWHERE = frozenset({"Priority"})
"""Plugins of which rules of their own tell."""


def refused(context: LintContext) -> Iterator[Problem]:
    cluster = context.cluster
    if cluster is None or context.own:
        return
    context.all_known(*_hidden(cluster))
    applied = _Applied(context, cluster)
    for workload in context.workloads:
        if workload.subject.kind in TEMPLATES and workload.subject.document and (why := applied.refusal(workload)):
            yield workload.problem((), f"the API server would not create {why}")


RQ_APPLY_REFUSED = Rule(
    "rq-apply-refused",
    ERROR,
    refused,
    summary="Pods that the API server of the cluster would not create",
    why="Admission refuses each of them, by quotas, LimitRanges, Pod Security or a missing ServiceAccount or "
    "RuntimeClass: the controller keeps trying and nothing starts. Checked against a cluster.",
    fix="Change the pod template, or what the namespace allows",
    source="pkg/kubeapiserver/options/plugins.go (v1.36)",
)


def _hidden(cluster: Cluster) -> Iterator[str]:
    """The kinds that could not be read; files need not hold them."""
    for kind in LIMITS:
        gap = cluster.gap(kind)
        if gap is not None and not gap.why.startswith((NOT_GIVEN, NOT_LISTED)):
            yield kind


class _Applied:
    """The workloads created one after the other, with what is left of the quotas of each namespace."""

    def __init__(self, context: LintContext, cluster: Cluster) -> None:
        self.context, self.cluster = context, cluster
        self.left: dict[str, tuple[ResourceQuota, ...]] = {}

    def refusal(self, workload: Workload) -> str:
        """Which of its pods are refused, and what is said to them; the others count.

        Of a workload whose pods the cluster has, whether they fit quotas is not asked.
        """
        subject = workload.subject
        namespace = subject.namespace or DEFAULT_NAMESPACE
        template = pod_of(subject.kind, without_nulls(subject.document))
        spec = object_at(template, "spec")
        if not spec:
            return ""
        metadata = {**object_at(template, "metadata"), "generateName": f"{subject.name}-", "namespace": namespace}
        metadata.pop("name", None)
        manifest = {"kind": "Pod", "metadata": metadata, "spec": spec}
        known = tuple(self.cluster.in_namespace("resource_quotas", namespace))
        quotas = () if self.context.facts.rows_of(workload) else self.left.get(namespace, known)
        tried = self._tried(manifest, namespace, quotas)
        created = next((admission.object for admission in tried if admission.object is not None), None)
        if created is None:
            return f"its pods: {shorten_api_message(tried[0].message or '')}"
        return self._counted(workload, manifest, created, quotas) if quotas else ""

    def _counted(
        self, workload: Workload, manifest: JsonObject, created: JsonObject, quotas: tuple[ResourceQuota, ...]
    ) -> str:
        namespace, wanted = workload.subject.namespace or DEFAULT_NAMESPACE, workload.at_least
        bound = tuple(quota for quota in quotas if quota.status.hard)
        request = AdmissionRequest(self.cluster, "Pod", dict(created), namespace, (), bound)
        number = resource_quota.room(request, wanted)
        self.left[namespace] = resource_quota.charged(request, number)
        if number == wanted:
            return ""
        said = self._tried(manifest, namespace, self.left[namespace])[0].message or ""
        return f"{wanted - number:,} of its {counted(wanted, 'pod')}: {shorten_api_message(said)}"

    def _tried(self, manifest: JsonObject, namespace: str, quotas: tuple[ResourceQuota, ...]) -> list[Admission]:
        without = {VALIDATION, *ELSEWHERE, *not_known(self.cluster, namespace)}
        without.update(not_known_of(self.cluster, namespace, object_at(manifest, "spec")))
        return list(outcomes(self.cluster, manifest, namespace, quotas=quotas, without=without, annotated=False))
