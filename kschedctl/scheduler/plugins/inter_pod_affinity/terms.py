"""The pods that affinity terms match, for the terms of the incoming pod and of running pods."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.scheduler.plugins.inter_pod_affinity.topology_counts import Weights
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import AffinityTerm, PodInfo

Infos = Bools | int
"""Pod infos, as a mask (T,) or as one number."""


def find_terms_matching_pod(info: PodInfo, view: Fork, field: str) -> list[tuple[AffinityTerm, int]]:
    """Return the terms of running pods that match the pod, each with the number of its pod info.

    `field` names the field of PodInfo with the terms, such as required_anti_affinity.
    """
    return view.pods.distinct.find_terms_matching(field, info, view.namespace_labels.get(info.namespace, {}))


def find_infos_matching_term(term: AffinityTerm, view: Fork) -> Bools:
    """Return (T,) a mask of the pod infos that match a term of the incoming pod with resolved namespaces."""
    all_namespaces = term.namespace_selector.matches({})  # after unrolling: matches either all namespaces or none
    return view.pods.matching(term.selector, None if all_namespaces else term.namespaces)


def count_matches_per_key(matches: Iterable[tuple[AffinityTerm, Infos]], view: Fork) -> dict[str, Weights]:
    """Return topology key -> (T,) the number of terms with that key for which a pod of each info counts."""
    weights: dict[str, Weights] = {}
    for term, infos in matches:
        weights.setdefault(term.topology_key, np.zeros(len(view.pods.infos), np.int64))[infos] += 1
    return weights


def count_each_match_per_key(terms: Iterable[AffinityTerm], view: Fork) -> dict[str, Weights]:
    """Return topology key -> (T,) the number of terms with that key that match each pod info."""
    return count_matches_per_key(((term, find_infos_matching_term(term, view)) for term in terms), view)


def count_full_matches_per_key(terms: tuple[AffinityTerm, ...], view: Fork) -> dict[str, Weights]:
    """Return topology key -> (T,) the number of terms with that key, for the pod infos that match all terms."""
    if not terms:
        return {}
    selected = np.logical_and.reduce([find_infos_matching_term(term, view) for term in terms])
    return count_matches_per_key(((term, selected) for term in terms), view)
