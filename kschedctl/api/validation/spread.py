"""Validation of topology spread constraints. Upstream: validateTopologySpreadConstraints."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.api.field_errors import (
    Path,
    TypedString,
    ValidationErrors,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kschedctl.api.objects import TopologySpreadConstraint
from kschedctl.api.validation import names
from kschedctl.api.validation.options import ValidationOptions
from kschedctl.api.validation.pod_affinity import IN_BOTH, WITHOUT_SELECTOR, validate_label_keys
from kschedctl.api.validation.selectors import validate_label_selector

ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
POLICIES = ("Honor", "Ignore")


def validate_spread_constraints(
    constraints: Sequence[TopologySpreadConstraint], path: Path, options: ValidationOptions
) -> ValidationErrors:
    """Validate all spread constraints of a pod."""
    for i, constraint in enumerate(constraints):
        at = (*path, i)
        yield from validate_positive(constraint.max_skew, (*at, "maxSkew"))
        if not constraint.topology_key:
            yield required((*at, "topologyKey"), "can not be empty")
        if constraint.when_unsatisfiable not in ACTIONS:
            yield not_supported((*at, "whenUnsatisfiable"), TypedString(constraint.when_unsatisfiable), ACTIONS)
        yield from _validate_unique(constraint, constraints[i + 1 :], at)
        yield from validate_min_domains(constraint, at)
        yield from _validate_policy(constraint.node_affinity_policy, (*at, "nodeAffinityPolicy"))
        yield from _validate_policy(constraint.node_taints_policy, (*at, "nodeTaintsPolicy"))
        yield from validate_match_label_keys(constraint, at, options)
        yield from validate_label_selector(constraint.label_selector, (*at, "labelSelector"))


def validate_positive(number: int, path: Path) -> ValidationErrors:
    """Validate that a number is greater than zero. Upstream: ValidatePositiveField."""
    if number <= 0:
        yield invalid(path, number, "must be greater than zero")


def validate_min_domains(constraint: TopologySpreadConstraint, path: Path) -> ValidationErrors:
    """Validate minDomains of the constraint at the path. Upstream: validateMinDomains."""
    if constraint.min_domains is None:
        return
    at, action = (*path, "minDomains"), constraint.when_unsatisfiable
    yield from validate_positive(constraint.min_domains, at)
    if action != ACTIONS[0]:
        only = f"can only use minDomains if whenUnsatisfiable={ACTIONS[0]}, not {action}"
        yield invalid(at, constraint.min_domains, only)


def validate_match_label_keys(
    constraint: TopologySpreadConstraint, path: Path, options: ValidationOptions
) -> ValidationErrors:
    """Validate matchLabelKeys of the constraint at the path.

    Upstream: ValidateMatchLabelKeysAndMismatchLabelKeys; before 1.34, and without the gate
    MatchLabelKeysInPodTopologySpreadSelectorMerge, ValidateMatchLabelKeysInTopologySpread.
    """
    selector = constraint.label_selector
    if options.selector_merge:
        yield from validate_label_keys(constraint.match_label_keys, (), selector, path)
        return
    at = (*path, "matchLabelKeys")
    if selector is None and constraint.match_label_keys:
        yield forbidden(at, WITHOUT_SELECTOR)
    selector_keys = {*selector.match_labels, *(e.key for e in selector.match_expressions)} if selector else set()
    for i, key in enumerate(constraint.match_label_keys):
        yield from names.validate_syntax((*at, i), key, names.validate_qualified_name)
        if key in selector_keys:
            yield invalid((*at, i), key, IN_BOTH)


def _validate_unique(
    constraint: TopologySpreadConstraint, others: Sequence[TopologySpreadConstraint], path: Path
) -> ValidationErrors:
    pair = constraint.topology_key, constraint.when_unsatisfiable
    if pair in ((other.topology_key, other.when_unsatisfiable) for other in others):
        yield duplicate((*path, "{topologyKey, whenUnsatisfiable}"), f"{{{', '.join(pair)}}}")


def _validate_policy(policy: str | None, path: Path) -> ValidationErrors:
    if policy is not None and policy not in POLICIES:
        yield not_supported(path, TypedString(policy), POLICIES)
