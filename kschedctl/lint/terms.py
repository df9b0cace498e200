"""Required pod (anti-)affinity terms of a workload, compiled, each with the field that it stands in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kschedctl.api.labels import EVERYTHING, NOTHING, Selector
from kschedctl.api.objects import PodAffinity, PodAffinityTerm
from kschedctl.api.ownership import ADDED_LABELS
from kschedctl.lint.subject import Path
from kschedctl.lint.workload import Workload, compiled
from kschedctl.snapshot.node_order import HOSTNAME, REGION, ZONE

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


_DOMAINS = {HOSTNAME: "hosts", ZONE: "zones", REGION: "regions"}


def domains_of(key: str) -> str:
    """What the nodes that share a value of a label are called.

    >>> domains_of("kubernetes.io/hostname"), domains_of("example.com/rack")
    ('hosts', 'example.com/rack domains')
    """
    return _DOMAINS.get(key, f"{key} domains")


class Term(NamedTuple):
    """``selector`` as written; ``selects_itself``: the workload's own pods are meant, ``every_version`` of them."""

    path: Path
    key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector
    selects_itself: bool
    every_version: bool

    def namespaces_in(self, known: Mapping[str, Mapping[str, str]], own: str) -> frozenset[str]:
        """The namespaces, of those known (name -> labels), that the term speaks of."""
        return self.namespaces | {name for name, labels in known.items() if self.namespace_selector.matches(labels)}


def required_terms(workload: Workload) -> Iterator[Term]:
    """Of the pod affinity; terms with selectors that the API would refuse are left out."""
    affinity = workload.spec.affinity
    return _terms(workload, affinity.pod_affinity if affinity else None, "podAffinity")


def anti_affinity_terms(workload: Workload) -> Iterator[Term]:
    """Of the pod anti-affinity."""
    affinity = workload.spec.affinity
    return _terms(workload, affinity.pod_anti_affinity if affinity else None, "podAntiAffinity")


def pod_terms(workload: Workload) -> Iterator[tuple[Path, PodAffinityTerm]]:
    """Every term, required or preferred, of affinity and anti-affinity, with the field that it stands in."""
    affinity = workload.spec.affinity
    if affinity is None:
        return
    for name, part in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if part is not None:
            for i, term in enumerate(part.required_during_scheduling_ignored_during_execution):
                yield ("affinity", name, REQUIRED, i), term
            for i, weighted in enumerate(part.preferred_during_scheduling_ignored_during_execution):
                yield ("affinity", name, PREFERRED, i, "podAffinityTerm"), weighted.pod_affinity_term


def _terms(workload: Workload, affinity: PodAffinity | None, name: str) -> Iterator[Term]:
    for i, term in enumerate(affinity.required_during_scheduling_ignored_during_execution if affinity else ()):
        selector = compiled(term.label_selector)
        elsewhere = compiled(term.namespace_selector)
        if selector is None or elsewhere is None:
            continue
        own_only = not term.namespaces and term.namespace_selector is None
        namespaces = frozenset((workload.namespace,) if own_only else term.namespaces)
        mine = workload.namespace in namespaces or elsewhere == EVERYTHING
        mine = mine and selector != NOTHING and workload.selected_by(selector)
        mine = mine and not any(
            k in (*workload.labels, *ADDED_LABELS.get(workload.kind, ())) for k in term.mismatch_label_keys
        )
        versions = not any(key in ADDED_LABELS.get(workload.kind, ()) for key in term.match_label_keys)
        path = ("affinity", name, REQUIRED, i)
        yield Term(path, term.topology_key, selector, namespaces, elsewhere, mine, versions)
