"""Validation of the fields that decide where a pod is placed: affinity, topology spread constraints and tolerations.

Upstream: validateAffinity, validateTopologySpreadConstraints and ValidateTolerations in
pkg/apis/core/validation/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
from kschedctl.api.labels import parse_int64
from kschedctl.api.objects import (
    LabelSelector,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    SelectorRequirement,
    Toleration,
    TopologySpreadConstraint,
)
from kschedctl.api.validation import ValidationOptions, names
from kschedctl.api.validation.names import NO_VALUES, SOME_VALUES, UNKNOWN_OPERATOR, validate_label_selector

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def validate_node_affinity(affinity: NodeAffinity, path: Path) -> ValidationErrors:
    """Validate a node affinity. Upstream: validateNodeAffinity."""
    if (selector := affinity.required_during_scheduling_ignored_during_execution) is not None:
        yield from validate_node_selector(selector, (*path, REQUIRED))
    for i, term in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        yield from validate_preferred_term(term, (*path, PREFERRED, i))


def validate_node_selector(selector: NodeSelector, path: Path) -> ValidationErrors:
    """Validate a node selector. Upstream: ValidateNodeSelector."""
    field_path = (*path, "nodeSelectorTerms")
    if not selector.node_selector_terms:
        yield required(field_path, "must have at least one node selector term")
    for i, term in enumerate(selector.node_selector_terms):
        yield from _validate_node_selector_term(term, (*field_path, i), check_values=True)


def validate_preferred_term(term: PreferredSchedulingTerm, path: Path) -> ValidationErrors:
    """Validate a preferred node term. Upstream: ValidatePreferredSchedulingTerms.

    As in upstream, the syntax of values is not checked.
    """
    yield from validate_weight(term.weight, (*path, "weight"))
    yield from _validate_node_selector_term(term.preference, (*path, "preference"), check_values=False)


def validate_weight(value: int, path: Path) -> ValidationErrors:
    """Validate the weight of a preference for nodes or pods."""
    if not 1 <= value <= 100:
        yield invalid(path, value, "must be in the range 1-100")


def _validate_node_selector_term(term: NodeSelectorTerm, path: Path, *, check_values: bool) -> ValidationErrors:
    """Validate a node selector term. The values of its labels are checked only if ``check_values`` is true."""
    for i, requirement in enumerate(term.match_expressions):
        yield from _validate_node_requirement(requirement, (*path, "matchExpressions", i), check_values)
    for i, requirement in enumerate(term.match_fields):
        yield from _validate_field_requirement(requirement, (*path, "matchFields", i))


def _validate_node_requirement(requirement: SelectorRequirement, path: Path, check_values: bool) -> ValidationErrors:
    """Validate the key and the number of values of a requirement on a node label.

    If ``check_values`` is true, each value also has to be a valid label value.
    """
    values = requirement.values or ()
    yield from _validate_operator_and_values(requirement.operator, values, path)
    yield from names.validate_syntax((*path, "key"), requirement.key, names.validate_qualified_name)
    if check_values:
        yield from names.validate_syntax_of_each((*path, "values"), values, names.validate_label_value)


def _validate_operator_and_values(operator: str, values: Iterable[str], path: Path) -> ValidationErrors:
    """Validate that the operator is known and has the right number of values."""
    count = len(tuple(values))
    match operator:
        case "In" | "NotIn":
            if not count:
                yield required((*path, "values"), NO_VALUES)
        case "Exists" | "DoesNotExist":
            if count:
                yield forbidden((*path, "values"), SOME_VALUES)
        case "Gt" | "Lt":
            if count != 1:
                yield required((*path, "values"), "must be specified single value when `operator` is 'Lt' or 'Gt'")
        case _:
            yield invalid((*path, "operator"), TypedString(operator), UNKNOWN_OPERATOR)


def _validate_field_requirement(requirement: SelectorRequirement, path: Path) -> ValidationErrors:
    """Validate a requirement on a node field. Upstream: ValidateNodeFieldSelectorRequirement."""
    values = requirement.values or ()
    if requirement.operator not in ("In", "NotIn"):
        yield invalid((*path, "operator"), TypedString(requirement.operator), UNKNOWN_OPERATOR)
    elif len(values) != 1:
        rule = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required((*path, "values"), rule)
    if requirement.key != "metadata.name":
        yield invalid((*path, "key"), requirement.key, "not a valid field selector key")
    else:
        yield from names.validate_syntax_of_each((*path, "values"), values, names.validate_dns_subdomain)


WITHOUT_SELECTOR = "must not be specified when labelSelector is not set"
IN_BOTH = "exists in both matchLabelKeys and labelSelector"


def validate_pod_affinity(affinity: PodAffinity, path: Path) -> ValidationErrors:
    """Validate affinity or anti-affinity. Upstream: validatePodAffinity, validatePodAntiAffinity."""
    for i, term in enumerate(affinity.required_during_scheduling_ignored_during_execution):
        yield from _validate_pod_affinity_term(term, (*path, REQUIRED, i))
    for i, weighted in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        field_path = (*path, PREFERRED, i)
        yield from validate_weight(weighted.weight, (*field_path, "weight"))
        yield from _validate_pod_affinity_term(weighted.pod_affinity_term, (*field_path, "podAffinityTerm"))


def _validate_pod_affinity_term(term: PodAffinityTerm, path: Path) -> ValidationErrors:
    """Validate a pod affinity term.

    Upstream: validatePodAffinityTerm, whose messages have ``namespace`` instead of ``namespaces``.
    """
    yield from validate_label_selector(term.label_selector, (*path, "labelSelector"))
    yield from validate_label_selector(term.namespace_selector, (*path, "namespaceSelector"))
    for i, name in enumerate(term.namespaces):
        faults = names.validate_syntax((*path, "namespace"), name, names.validate_dns_label)
        yield from (fault.located_at((*path, "namespaces", i)) for fault in faults)
    yield from validate_affinity_label_keys(term.match_label_keys, term.mismatch_label_keys, term.label_selector, path)
    if not term.topology_key:
        yield required((*path, "topologyKey"), "can not be empty")
    yield from names.validate_syntax((*path, "topologyKey"), term.topology_key, names.validate_qualified_name)


def validate_affinity_label_keys(
    match: Sequence[str], mismatch: Sequence[str], selector: LabelSelector | None, path: Path
) -> ValidationErrors:
    """Validate matchLabelKeys and mismatchLabelKeys (``match`` and ``mismatch``) of a pod affinity term.

    The keys need a selector, must be valid label names, and must not be in both lists. When a pod is created, the API
    server has already appended the matchLabelKeys to the selector. A key of this list is therefore reported only if it
    is in the selector a second time. Upstream: ValidateMatchLabelKeysAndMismatchLabelKeys.
    """
    for field, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            yield forbidden((*path, field), WITHOUT_SELECTOR)
        elif keys:
            yield from names.validate_syntax_of_each((*path, field), keys, names.validate_qualified_name)
    if selector is not None:
        index_by_key = {key: i for i, key in enumerate(match)}
        seen_keys = set(selector.match_labels)
        for expression in selector.match_expressions:
            if expression.key in index_by_key and expression.key in seen_keys:
                index = index_by_key[expression.key]
                fault = invalid((*path, index), expression.key, IN_BOTH)  # upstream's path lacks the list's name
                yield fault.located_at((*path, "matchLabelKeys", index))
            seen_keys.add(expression.key)
    for i, key in enumerate(match):
        if key in mismatch:
            yield invalid((*path, "matchLabelKeys", i), key, "exists in both matchLabelKeys and mismatchLabelKeys")


DO_NOT_SCHEDULE = "DoNotSchedule"
ACTIONS = (DO_NOT_SCHEDULE, "ScheduleAnyway")
POLICIES = ("Honor", "Ignore")


def validate_spread_constraints(
    constraints: Sequence[TopologySpreadConstraint], path: Path, options: ValidationOptions
) -> ValidationErrors:
    """Validate all topology spread constraints of a pod."""
    for i, constraint in enumerate(constraints):
        field_path = (*path, i)
        yield from validate_positive(constraint.max_skew, (*field_path, "maxSkew"))
        if not constraint.topology_key:
            yield required((*field_path, "topologyKey"), "can not be empty")
        if constraint.when_unsatisfiable not in ACTIONS:
            yield not_supported((*field_path, "whenUnsatisfiable"), TypedString(constraint.when_unsatisfiable), ACTIONS)
        yield from _validate_unique_constraint(constraint, constraints[i + 1 :], field_path)
        yield from validate_min_domains(constraint, field_path)
        yield from _validate_node_inclusion_policy(constraint.node_affinity_policy, (*field_path, "nodeAffinityPolicy"))
        yield from _validate_node_inclusion_policy(constraint.node_taints_policy, (*field_path, "nodeTaintsPolicy"))
        yield from validate_match_label_keys(constraint, field_path, options)
        yield from validate_label_selector(constraint.label_selector, (*field_path, "labelSelector"))


def validate_positive(number: int, path: Path) -> ValidationErrors:
    """Validate that a number is greater than zero. Upstream: ValidatePositiveField."""
    if number <= 0:
        yield invalid(path, number, "must be greater than zero")


def validate_min_domains(constraint: TopologySpreadConstraint, path: Path) -> ValidationErrors:
    """Validate that minDomains is positive and used only with DoNotSchedule. Upstream: validateMinDomains."""
    if constraint.min_domains is None:
        return
    field_path = (*path, "minDomains")
    action = constraint.when_unsatisfiable
    yield from validate_positive(constraint.min_domains, field_path)
    if action != DO_NOT_SCHEDULE:
        rule = f"can only use minDomains if whenUnsatisfiable={DO_NOT_SCHEDULE}, not {action}"
        yield invalid(field_path, constraint.min_domains, rule)


def validate_match_label_keys(
    constraint: TopologySpreadConstraint, path: Path, options: ValidationOptions
) -> ValidationErrors:
    """Validate the matchLabelKeys of a topology spread constraint.

    Upstream: ValidateMatchLabelKeysAndMismatchLabelKeys or, before 1.34 and without the gate
    MatchLabelKeysInPodTopologySpreadSelectorMerge, ValidateMatchLabelKeysInTopologySpread.
    """
    selector = constraint.label_selector
    if options.selector_merge:
        yield from validate_affinity_label_keys(constraint.match_label_keys, (), selector, path)
        return
    field_path = (*path, "matchLabelKeys")
    if selector is None and constraint.match_label_keys:
        yield forbidden(field_path, WITHOUT_SELECTOR)
    selector_keys = (
        {*selector.match_labels, *(expression.key for expression in selector.match_expressions)} if selector else set()
    )
    for i, key in enumerate(constraint.match_label_keys):
        yield from names.validate_syntax((*field_path, i), key, names.validate_qualified_name)
        if key in selector_keys:
            yield invalid((*field_path, i), key, IN_BOTH)


def _validate_unique_constraint(
    constraint: TopologySpreadConstraint, later_constraints: Sequence[TopologySpreadConstraint], path: Path
) -> ValidationErrors:
    """Validate that no later constraint has the same topologyKey and whenUnsatisfiable."""
    pair = constraint.topology_key, constraint.when_unsatisfiable
    if pair in ((other.topology_key, other.when_unsatisfiable) for other in later_constraints):
        yield duplicate((*path, "{topologyKey, whenUnsatisfiable}"), f"{{{', '.join(pair)}}}")


def _validate_node_inclusion_policy(policy: str | None, path: Path) -> ValidationErrors:
    """Validate a node inclusion policy."""
    if policy is not None and policy not in POLICIES:
        yield not_supported(path, TypedString(policy), POLICIES)


OPERATORS = ("Equal", "Exists")
COMPARISONS = ("Lt", "Gt")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def validate_tolerations(tolerations: Iterable[Toleration], path: Path, options: ValidationOptions) -> ValidationErrors:
    """Validate all tolerations of a pod."""
    for i, toleration in enumerate(tolerations):
        yield from _validate_toleration(toleration, (*path, i), options)


def _validate_toleration(toleration: Toleration, path: Path, options: ValidationOptions) -> ValidationErrors:
    """Validate the key, operator, value, effect and tolerationSeconds of a toleration."""
    operator = TypedString(toleration.operator)
    if toleration.key:
        yield from names.validate_syntax((*path, "key"), toleration.key, names.validate_qualified_name)
    elif operator != "Exists":
        rule = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid((*path, "operator"), operator, rule)
    yield from validate_toleration_seconds(toleration, path)
    yield from _validate_operator_and_value(toleration, path, options)
    if toleration.effect and toleration.effect not in EFFECTS:
        yield not_supported((*path, "effect"), TypedString(toleration.effect), EFFECTS)


def validate_toleration_seconds(toleration: Toleration, path: Path) -> ValidationErrors:
    """Validate that tolerationSeconds is set only for the effect NoExecute."""
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        rule = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        fault = invalid((*path, "effect"), TypedString(toleration.effect), rule)
        yield fault.located_at((*path, "tolerationSeconds"))


def _validate_operator_and_value(toleration: Toleration, path: Path, options: ValidationOptions) -> ValidationErrors:
    """Validate the operator and value of a toleration.

    As in upstream, most errors in the value are reported at the operator.
    """
    field_path = (*path, "operator")
    value = toleration.value
    match toleration.operator:
        case "Equal" | "":
            if problems := names.validate_label_value(value):
                yield invalid(field_path, value, ";".join(problems)).located_at((*path, "value"))
        case "Exists":
            if value:
                fault = invalid(field_path, value, "value must be empty when `operator` is 'Exists'")
                yield fault.located_at((*path, "value"))
        case "Lt" | "Gt" as comparison:
            if options.comparison_operators:
                yield from _validate_int64(value, (*path, "value"))
            else:
                yield not_supported(field_path, TypedString(comparison), (*OPERATORS, *COMPARISONS))
        case operator:
            yield not_supported(field_path, TypedString(operator), OPERATORS)


def _validate_int64(value: str, path: Path) -> ValidationErrors:
    """Validate that a toleration's value is an int64, as the operators Lt and Gt require."""
    yield from names.validate_syntax(path, value, names.validate_decimal_integer)
    if parse_int64(value) is not None:
        return
    # The error of Go's strconv follows that of the first check. Go allows a single sign.
    digits = value[1:] if value.startswith(("+", "-")) else value
    is_number = digits.isdecimal() and digits.isascii()
    problem = "value out of range" if is_number else "invalid syntax"
    yield invalid(path, value, f'strconv.ParseInt: parsing "{value}": {problem}')
