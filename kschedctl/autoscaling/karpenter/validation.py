"""Karpenter's validation of pods and of requirements, with its error messages.

Upstream: Validate in pkg/controllers/provisioning/provisioner.go, ValidateRequirement in
pkg/apis/v1/nodeclaim_validation.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.api.labels import find_label_key_errors, find_label_value_errors
from kschedctl.api.objects import Pod
from kschedctl.autoscaling.karpenter.labels import (
    CAPACITY_TYPE,
    CAPACITY_TYPES,
    NODE_POOL,
    NORMALIZED,
    describe_label_restriction,
)
from kschedctl.autoscaling.karpenter.requirements import (
    BOUNDS,
    DOES_NOT_EXIST,
    EXISTS,
    IN,
    NOT_IN,
    build_pod_requirements,
    get_required_terms,
    parse_integer,
)
from kschedctl.autoscaling.karpenter.volumes import Volumes

OPERATORS = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST, *BOUNDS)
NO_FIELDS = "node selector term with matchFields is not supported"


def iter_requirement_errors(
    key: str, operator: str, values: Sequence[str], well_known: frozenset[str], min_values: int | None = None
) -> Iterator[str]:
    """Yield, in Karpenter's words, the validation errors of a requirement on the label ``key``.

    ``well_known`` are the labels of Karpenter's domains that may be required. With ``min_values``, an In requirement
    must list at least this many values.
    """
    key = NORMALIZED.get(key, key)
    if operator not in OPERATORS:
        yield f"key {key} has an unsupported operator {operator} not in [{' '.join(sorted(OPERATORS))}]"
    if restriction := describe_label_restriction(key, well_known):
        yield restriction
    if key == CAPACITY_TYPE and operator == IN and CAPACITY_TYPES.isdisjoint(values):
        yield (
            f"no valid values found in [{' '.join(values)}] for {key}, expected one of: "
            f"[{' '.join(sorted(CAPACITY_TYPES))}], got: [{' '.join(values)}]"
        )
    for error in find_label_key_errors(key):
        yield f"key {key} is not a qualified name, {error}"
    for value in values:
        for error in find_label_value_errors(value):
            yield f"invalid value {value} for key {key}, {error}"
    if operator == IN and not values:
        yield f"key {key} with operator {operator} must have a value defined"
    if operator == IN and min_values is not None and len(values) < min_values:
        fault = "must have at least minimum number of values defined in 'values' field"
        yield f"key {key} with operator {operator} {fault}"
    if operator in BOUNDS and not _is_single_non_negative_integer(values):
        yield f"key {key} with operator {operator} must have a single positive integer value"


def _is_single_non_negative_integer(values: Sequence[str]) -> bool:
    """Return whether there is exactly one value and it is an integer that is not negative."""
    number = parse_integer(values[0]) if len(values) == 1 else None
    return number is not None and number >= 0


def find_pod_rejection(pod: Pod, volumes: Volumes, well_known: frozenset[str]) -> str | None:
    """Return the error with which Karpenter rejects the pod before scheduling, or None if Karpenter accepts it.

    The error is "" if the pod excludes Karpenter's nodes, because Karpenter writes no event about such a pod.
    """
    if build_pod_requirements(pod).get_requirement(NODE_POOL).operator == DOES_NOT_EXIST:
        return ""
    faults = list(_iter_pod_requirement_errors(pod, well_known))
    if fault := volumes.describe_claim_fault_of_pod(pod):
        faults.append(fault)
    return f"Failed to schedule pod, {'; '.join(faults)}" if faults else None


def _iter_pod_requirement_errors(pod: Pod, well_known: frozenset[str]) -> Iterator[str]:
    """Yield, in Karpenter's words, the errors in the pod's node selector and required node affinity."""
    for key, value in sorted(pod.spec.node_selector.items()):
        yield from iter_requirement_errors(key, IN, (value,), well_known)
    for term in get_required_terms(pod):
        if term.match_fields:
            yield NO_FIELDS
        for expression in term.match_expressions:
            yield from iter_requirement_errors(expression.key, expression.operator, expression.values or (), well_known)
