"""Check which Pod Security level applies in a namespace, and to which objects, with tables by hand (v1.36).

From pod-security-admission/api/helpers.go, PolicyToEvaluate and ParseVersion, which upstream tests by
TestPolicyToEvaluate and TestParseVersion; kinds as in admission/admission_test.go, TestDefaultExtractPodSpec.
"""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl
from kschedctl.admission.pod_security import (
    LABEL,
    Standard,
    extract_pod,
    get_enforced_standard,
    get_warn_standard,
)

POLICIES: dict[str, tuple[dict[str, str], Standard, Standard]] = {
    "no labels": ({}, Standard("privileged", "latest"), Standard("privileged", "latest")),
    "enforce without a version": (
        {"enforce": "baseline"},
        Standard("baseline", "latest"),
        Standard("baseline", "latest"),
    ),
    "warn defaults to enforce, with its version": (
        {"enforce": "restricted", "enforce-version": "v1.22"},
        Standard("restricted", "v1.22"),
        Standard("restricted", "v1.22"),
    ),
    "warn level defaults, its version is its own": (
        {"enforce": "baseline", "enforce-version": "v1.99", "warn-version": "v1.20"},
        Standard("baseline", "v1.99"),
        Standard("baseline", "v1.20"),
    ),
    "a level that is given is not defaulted": (
        {"enforce": "restricted", "warn": "privileged"},
        Standard("restricted", "latest"),
        Standard("privileged", "latest"),
    ),
    "an invalid level: enforce fails closed, warn is not defaulted": (
        {"enforce": "invalid"},
        Standard("restricted", "latest"),
        Standard("privileged", "latest"),
    ),
    "an invalid level: warn fails open": (
        {"enforce": "baseline", "warn": "invalid"},
        Standard("baseline", "latest"),
        Standard("privileged", "latest"),
    ),
    "invalid versions are the latest": (
        {"enforce": "baseline", "enforce-version": "1.30", "warn": "restricted", "warn-version": "v2.1"},
        Standard("baseline", "latest"),
        Standard("restricted", "latest"),
    ),
    "a leading zero is no version": (
        {"enforce": "baseline", "enforce-version": "v1.01"},
        Standard("baseline", "latest"),
        Standard("baseline", "latest"),
    ),
}


@pytest.mark.parametrize("name", POLICIES)
def test_policies(name: str) -> None:
    labels, enforce, warn = POLICIES[name]
    full = {LABEL + key: value for key, value in labels.items()}
    assert (get_enforced_standard(full), get_warn_standard(full)) == (enforce, warn)


TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "i:1", "securityContext": {"privileged": True}}]}}
"""The template of a pod that only the level privileged allows."""
TEMPLATED = {"spec": {"template": TEMPLATE}}
EXTRACTED: dict[str, dict[str, Any]] = {
    "Pod": TEMPLATE,
    "PodTemplate": {"template": TEMPLATE},
    "ReplicationController": TEMPLATED,
    "ReplicaSet": TEMPLATED,
    "Deployment": TEMPLATED,
    "DaemonSet": TEMPLATED,
    "StatefulSet": TEMPLATED,
    "Job": TEMPLATED,
    "CronJob": {"spec": {"jobTemplate": {"spec": {"template": TEMPLATE}}}},
}


@pytest.mark.parametrize("kind", EXTRACTED)
def test_pod_is_extracted_from_each_kind(kind: str) -> None:
    assert extract_pod(kind, EXTRACTED[kind]) == TEMPLATE


@pytest.mark.parametrize("made", [{}, {"spec": {}}])
def test_objects_without_a_template_are_not_checked(made: dict[str, Any]) -> None:
    assert not extract_pod("ReplicationController", made)
    assert not extract_pod("Service", {"spec": {"template": TEMPLATE}})


def test_workload_gets_a_warning_if_its_pods_would_be_denied() -> None:
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "d", "labels": {f"{LABEL}enforce": "baseline"}},
    }
    cluster = kschedctl.Cluster.from_objects([namespace], assume_complete=True)
    spec = {"selector": {"matchLabels": {"app": "w"}}, "template": {"metadata": {"labels": {"app": "w"}}, **TEMPLATE}}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": spec}
    answer = kschedctl.admit(cluster, web, namespace="d")
    said = 'privileged (container "a" must not set securityContext.privileged=true)'
    assert answer.allowed
    assert answer.warnings == (f'would violate PodSecurity "baseline:latest": {said}',)
