"""Which other pods a pod wants to be with, or away from; and keys of the pod's own labels that become requirements."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.api.field_errors import Path, ValidationErrors, forbidden, invalid, required
from kschedctl.api.objects import LabelSelector, PodAffinity, PodAffinityTerm
from kschedctl.api.validation import names
from kschedctl.api.validation.node_affinity import PREFERRED, REQUIRED, validate_weight
from kschedctl.api.validation.selectors import validate_label_selector

WITHOUT_SELECTOR = "must not be specified when labelSelector is not set"
IN_BOTH = "exists in both matchLabelKeys and labelSelector"


def pod_affinity(affinity: PodAffinity, path: Path) -> ValidationErrors:
    """Affinity or anti-affinity. Upstream: validatePodAffinity, validatePodAntiAffinity."""
    for i, term in enumerate(affinity.required_during_scheduling_ignored_during_execution):
        yield from _term(term, (*path, REQUIRED, i))
    for i, weighted in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        at = (*path, PREFERRED, i)
        yield from validate_weight(weighted.weight, (*at, "weight"))
        yield from _term(weighted.pod_affinity_term, (*at, "podAffinityTerm"))


def _term(term: PodAffinityTerm, path: Path) -> ValidationErrors:
    """Upstream: validatePodAffinityTerm; it says ``namespace`` where the field is called namespaces."""
    yield from validate_label_selector(term.label_selector, (*path, "labelSelector"))
    yield from validate_label_selector(term.namespace_selector, (*path, "namespaceSelector"))
    for i, name in enumerate(term.namespaces):
        faults = names.validate_syntax((*path, "namespace"), name, names.validate_dns_label)
        yield from (fault._replace(at=(*path, "namespaces", i)) for fault in faults)
    yield from label_keys(term.match_label_keys, term.mismatch_label_keys, term.label_selector, path)
    if not term.topology_key:
        yield required((*path, "topologyKey"), "can not be empty")
    yield from names.validate_syntax((*path, "topologyKey"), term.topology_key, names.validate_qualified_name)


def label_keys(
    match: Sequence[str], mismatch: Sequence[str], selector: LabelSelector | None, path: Path
) -> ValidationErrors:
    """matchLabelKeys and mismatchLabelKeys of what stands at the path, with its selector.

    The selector of a pod that is created has the requirements that the keys became already, at its end, so that a key
    is at fault when the selector has it twice. Upstream: ValidateMatchLabelKeysAndMismatchLabelKeys, which says the
    index of the key, but not the name of its list.
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
