"""Pods that Karpenter rejects before scheduling, with the error in its event.

Upstream: Validate in pkg/controllers/provisioning/provisioner.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import Pod
from kschedctl.autoscaling.karpenter.labels import NODE_POOL
from kschedctl.autoscaling.karpenter.requirements import DOES_NOT_EXIST, IN, build_pod_requirements, get_required_terms
from kschedctl.autoscaling.karpenter.validation import iter_requirement_errors
from kschedctl.autoscaling.karpenter.volumes import Volumes

NO_FIELDS = "node selector term with matchFields is not supported"


def find_rejection(pod: Pod, volumes: Volumes, well_known: frozenset[str]) -> str | None:
    """Return why Karpenter rejects the pod before scheduling, or None if it does not.

    The reason is "" if the pod excludes Karpenter's nodes, for which there is no event.
    """
    if build_pod_requirements(pod).label(NODE_POOL).operator == DOES_NOT_EXIST:
        return ""
    faults = list(_iter_requirement_errors(pod, well_known))
    if fault := volumes.describe_fault(pod):
        faults.append(fault)
    return f"Failed to schedule pod, {'; '.join(faults)}" if faults else None


def _iter_requirement_errors(pod: Pod, well_known: frozenset[str]) -> Iterator[str]:
    """Yield the errors in the pod's node selector and required node affinity."""
    for key, value in sorted(pod.spec.node_selector.items()):
        yield from iter_requirement_errors(key, IN, (value,), well_known)
    for term in get_required_terms(pod):
        if term.match_fields:
            yield NO_FIELDS
        for expression in term.match_expressions:
            yield from iter_requirement_errors(expression.key, expression.operator, expression.values or (), well_known)
