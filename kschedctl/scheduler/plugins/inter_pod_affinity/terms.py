"""Which pods the terms are about, of the incoming pod and of those that run, and what each info counts for."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.scheduler.plugins.inter_pod_affinity.topology_counts import Weights
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import AffinityTerm, PodInfo

Infos = Bools | int
"""PodInfos: a mask (T,) or one number."""


def terms_against(info: PodInfo, view: Fork, of: str) -> list[tuple[AffinityTerm, int]]:
    """The terms of the cluster's pods that match this pod, each with the infos that have it."""
    return view.pods.distinct.terms_against(of, info, view.namespace_labels.get(info.namespace, {}))


def selected_pods(term: AffinityTerm, view: Fork) -> Bools:
    """(T,): the pods that one of the incoming pod's terms, its namespaces unrolled, is about."""
    anywhere = term.namespace_selector.matches({})  # after unrolling: matches either all namespaces or none
    return view.pods.matching(term.selector, None if anywhere else term.namespaces)


def weights_of(matches: Iterable[tuple[AffinityTerm, Infos]], view: Fork) -> dict[str, Weights]:
    """Topology key -> (T,): how many of the terms with that key a pod of each info counts for."""
    weights: dict[str, Weights] = {}
    for term, infos in matches:
        weights.setdefault(term.topology_key, np.zeros(len(view.pods.infos), np.int64))[infos] += 1
    return weights


def weights_of_each(terms: Iterable[AffinityTerm], view: Fork) -> dict[str, Weights]:
    """Each term counts the pods that it selects."""
    return weights_of(((term, selected_pods(term, view)) for term in terms), view)


def weights_of_all(terms: tuple[AffinityTerm, ...], view: Fork) -> dict[str, Weights]:
    """Each term counts the pods that all terms select."""
    if not terms:
        return {}
    selected = np.logical_and.reduce([selected_pods(term, view) for term in terms])
    return weights_of(((term, selected) for term in terms), view)
