"""Validation of inter-pod affinity and of label keys that become selector requirements."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.api.field_errors import Path, ValidationErrors, forbidden, invalid, required
from kschedctl.api.objects import LabelSelector, PodAffinity, PodAffinityTerm
from kschedctl.api.validation import names
from kschedctl.api.validation.node_affinity import PREFERRED, REQUIRED, validate_weight
from kschedctl.api.validation.selectors import validate_label_selector

WITHOUT_SELECTOR = "must not be specified when labelSelector is not set"
IN_BOTH = "exists in both matchLabelKeys and labelSelector"


def validate_pod_affinity(affinity: PodAffinity, path: Path) -> ValidationErrors:
    """Validate affinity or anti-affinity. Upstream: validatePodAffinity, validatePodAntiAffinity."""
    for i, term in enumerate(affinity.required_during_scheduling_ignored_during_execution):
        yield from _validate_term(term, (*path, REQUIRED, i))
    for i, weighted in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        at = (*path, PREFERRED, i)
        yield from validate_weight(weighted.weight, (*at, "weight"))
        yield from _validate_term(weighted.pod_affinity_term, (*at, "podAffinityTerm"))


def _validate_term(term: PodAffinityTerm, path: Path) -> ValidationErrors:
    """Validate a term. Upstream: validatePodAffinityTerm, whose messages say ``namespace`` instead of namespaces."""
    yield from validate_label_selector(term.label_selector, (*path, "labelSelector"))
    yield from validate_label_selector(term.namespace_selector, (*path, "namespaceSelector"))
    for i, name in enumerate(term.namespaces):
        faults = names.validate_syntax((*path, "namespace"), name, names.validate_dns_label)
        yield from (fault._replace(at=(*path, "namespaces", i)) for fault in faults)
    yield from validate_label_keys(term.match_label_keys, term.mismatch_label_keys, term.label_selector, path)
    if not term.topology_key:
        yield required((*path, "topologyKey"), "can not be empty")
    yield from names.validate_syntax((*path, "topologyKey"), term.topology_key, names.validate_qualified_name)


def validate_label_keys(
    match: Sequence[str], mismatch: Sequence[str], selector: LabelSelector | None, path: Path
) -> ValidationErrors:
    """Validate matchLabelKeys and mismatchLabelKeys with the selector beside them.

    The selector of a pod that is created already ends with the requirements that the keys became, so a key is an error
    if the selector has it twice. Upstream: ValidateMatchLabelKeysAndMismatchLabelKeys, which reports the index of the
    key without the name of its list.
    """
    for field, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            yield forbidden((*path, field), WITHOUT_SELECTOR)
        elif keys:
            yield from names.validate_syntax_of_each((*path, field), keys, names.validate_qualified_name)
    if selector is not None:
        index = {key: i for i, key in enumerate(match)}
        seen = set(selector.match_labels)
        for expression in selector.match_expressions:
            if expression.key in index and expression.key in seen:
                number = index[expression.key]
                fault = invalid((*path, number), expression.key, IN_BOTH)
                yield fault._replace(at=(*path, "matchLabelKeys", number))
            seen.add(expression.key)
    for i, key in enumerate(match):
        if key in mismatch:
            yield invalid((*path, "matchLabelKeys", i), key, "exists in both matchLabelKeys and mismatchLabelKeys")
