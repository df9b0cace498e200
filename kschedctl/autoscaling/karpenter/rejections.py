"""Pods that Karpenter does not look at, and what it tells of them.

Upstream: Validate in pkg/controllers/provisioning/provisioner.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import Pod
from kschedctl.autoscaling.karpenter.labels import NODE_POOL
from kschedctl.autoscaling.karpenter.requirements import DOES_NOT_EXIST, IN, pod_requirements, required_terms
from kschedctl.autoscaling.karpenter.validation import requirement_faults
from kschedctl.autoscaling.karpenter.volumes import Volumes

NO_FIELDS = "node selector term with matchFields is not supported"


def rejection(pod: Pod, volumes: Volumes, well_known: frozenset[str]) -> str | None:
    """Why a pod is dropped; empty where it asks for no node of Karpenter's, None where it is not dropped."""
    if pod_requirements(pod).label(NODE_POOL).operator == DOES_NOT_EXIST:
        return ""
    faults = list(_faults(pod, well_known))
    if fault := volumes.faults(pod):
        faults.append(fault)
    return f"Failed to schedule pod, {'; '.join(faults)}" if faults else None


def _faults(pod: Pod, well_known: frozenset[str]) -> Iterator[str]:
    for key, value in sorted(pod.spec.node_selector.items()):
        yield from requirement_faults(key, IN, (value,), well_known)
    for term in required_terms(pod):
        if term.match_fields:
            yield NO_FIELDS
        for expression in term.match_expressions:
            yield from requirement_faults(expression.key, expression.operator, expression.values or (), well_known)
