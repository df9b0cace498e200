"""What the API server of a cluster would refuse if the manifests were applied to it.

Upstream: pkg/kubeapiserver/options/plugins.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.admission.admit import VALIDATION, outcomes
from kschedctl.admission.pod_security_policy import TEMPLATES, pod_of
from kschedctl.admission.unknown import not_known, not_known_of
from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.json_values import object_at
from kschedctl.api.observed.failed_creation import in_brief
from kschedctl.cluster import LIMITS, NOT_GIVEN, NOT_LISTED, Cluster, without_nulls
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import ERROR, Rule
from kschedctl.lint.objects.subject import Problem
from kschedctl.lint.objects.workload import Workload

ELSEWHERE = frozenset({"Priority"})
"""Plugins of which rules of their own tell."""


def refused(context: LintContext) -> Iterator[Problem]:
    cluster = context.cluster
    if cluster is None or context.own:
        return
    context.all_known(*_hidden(cluster))
    for workload in context.workloads:
        if (
            workload.subject.kind in TEMPLATES
            and workload.subject.document
            and (why := _why(context, workload, cluster))
        ):
            yield workload.problem((), f"the API server would not create its pods: {why}")


def _hidden(cluster: Cluster) -> Iterator[str]:
    """The kinds that could not be read; files need not hold them."""
    for kind in LIMITS:
        gap = cluster.gap(kind)
        if gap is not None and not gap.why.startswith((NOT_GIVEN, NOT_LISTED)):
            yield kind


def _why(context: LintContext, workload: Workload, cluster: Cluster) -> str:
    """What is said to the first pod; of a workload whose pods the cluster has, whether they fit quotas is not asked."""
    subject = workload.subject
    namespace = subject.namespace or DEFAULT_NAMESPACE
    template = pod_of(subject.kind, without_nulls(subject.document))
    spec = object_at(template, "spec")
    if not spec:
        return ""
    metadata = {**object_at(template, "metadata"), "generateName": f"{subject.name}-", "namespace": namespace}
    metadata.pop("name", None)
    manifest = {"kind": "Pod", "metadata": metadata, "spec": spec}
    without = {VALIDATION, *ELSEWHERE, *not_known(cluster, namespace)}
    without.update(not_known_of(cluster, namespace, spec))
    quotas = () if context.facts.rows_of(workload) else None
    tried = list(outcomes(cluster, manifest, namespace, quotas=quotas, without=without, annotated=False))
    return "" if any(admission.allowed for admission in tried) else in_brief(tried[0].message or "")


RULES = (
    Rule(
        "rq-apply-refused",
        ERROR,
        refused,
        summary="Pods that the API server of the cluster would not create",
        why="Admission refuses each of them, by quotas, LimitRanges, Pod Security or a missing ServiceAccount or "
        "RuntimeClass: the controller keeps trying and nothing starts. Checked against a cluster.",
        fix="Change the pod template, or what the namespace allows",
        source="pkg/kubeapiserver/options/plugins.go (v1.36)",
    ),
)
