"""Check that common charts give exactly the findings that a person judged right.

Each was read and judged by hand, against the API and what an operator of such a chart would want to hear.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kschedctl.lint.context import LintContext
from kschedctl.lint.engine import lint
from kschedctl.sources.documents.positions import load_objects

CHARTS = Path(__file__).parent / "charts"
JUDGED: dict[str, set[tuple[str, str]]] = {
    "argo-cd": {
        ("rq-missing", "StatefulSet argocd/argocd-application-controller"),
        ("rq-ephemeral-missing", "StatefulSet argocd/argocd-application-controller"),
        ("pdb-missing", "Deployment argocd/argocd-server"),
    },
    "cert-manager": {
        ("rq-missing", "Deployment cert-manager/cert-manager"),
        ("rq-missing", "Deployment cert-manager/cert-manager-cainjector"),
        ("rq-missing", "Deployment cert-manager/cert-manager-webhook"),
    },
    "grafana": set(),
    "ingress-nginx": {
        ("pdb-unhealthy-policy", "PodDisruptionBudget ingress-nginx/ingress-nginx-controller"),
        ("rq-missing-in-jobs", "Job ingress-nginx/ingress-nginx-admission-create"),
    },
    "kafka": {("pdb-unhealthy-policy", "PodDisruptionBudget kafka/kafka-broker")},
    "keda": {("pdb-unhealthy-policy", "PodDisruptionBudget keda/keda-operator")},
    "kube-system-addons": {
        ("rq-ephemeral-missing", "Deployment kube-system/metrics-server"),
        ("pdb-unhealthy-policy", "PodDisruptionBudget kube-system/metrics-server"),
        ("pdb-unhealthy-policy", "PodDisruptionBudget kube-system/cluster-autoscaler"),
    },
    "loki": {
        ("rq-ephemeral-missing", "Deployment logging/loki-read"),
        ("rq-missing", "DaemonSet logging/loki-canary"),
        ("pdb-unhealthy-policy", "PodDisruptionBudget logging/loki-read"),
        ("pdb-unhealthy-policy", "PodDisruptionBudget logging/loki-write"),
    },
    "platform": {("pdb-missing", "Deployment kube-system/coredns")},
    "postgresql": {
        ("pdb-unhealthy-policy", "PodDisruptionBudget db/postgresql"),
        ("pdb-zero-disruptions", "PodDisruptionBudget db/postgresql"),
    },
    "prometheus-stack": {
        ("rq-missing", "DaemonSet monitoring/node-exporter"),
        ("rq-missing", "StatefulSet monitoring/alertmanager-main"),
        ("rq-missing", "Deployment monitoring/kube-state-metrics"),
        ("pdb-missing", "StatefulSet monitoring/prometheus-main"),
    },
    "redis": {
        ("pdb-unhealthy-policy", "PodDisruptionBudget cache/redis-master"),
        ("pdb-unhealthy-policy", "PodDisruptionBudget cache/redis-replicas"),
    },
    "velero": {
        ("rq-ephemeral-missing", "Deployment velero/velero"),
        ("rq-ephemeral-missing", "DaemonSet velero/node-agent"),
    },
    "web-app": {
        ("rq-missing-in-jobs", "Job shop/migrate"),
        ("pdb-missing", "Deployment shop/worker"),
        ("ts-missing", "Deployment shop/worker"),
        ("ts-zone-soft-only", "Deployment shop/web"),
        ("pdb-unhealthy-policy", "PodDisruptionBudget shop/web"),
    },
}
"""Chart -> (rule, object) of what is right to report, each once."""


def count_findings(*charts: str) -> Counter[tuple[str, str]]:
    """Return how often each rule reports each object in some charts."""
    manifests = [m for chart in charts for m in load_objects(str(CHARTS / f"{chart}.yaml"))]
    report = lint(LintContext.from_manifests(((m.value, m) for m in manifests), None))
    return Counter((f.rule, f.object) for f in report.findings)


@pytest.mark.parametrize("chart", sorted(path.stem for path in CHARTS.glob("*.yaml")))
def test_findings_of_a_chart(chart: str) -> None:
    assert count_findings(chart) == Counter(JUDGED[chart])


def test_charts_do_not_affect_each_other() -> None:
    assert count_findings(*JUDGED) == Counter(judged for chart in JUDGED.values() for judged in chart)


def test_every_judgement_has_a_chart() -> None:
    assert {path.stem for path in CHARTS.glob("*.yaml")} == set(JUDGED)
