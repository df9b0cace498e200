"""The distinct PodInfos of many pods: what is the same for all pods that are alike is found out once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cached_property
from operator import itemgetter

import msgspec
import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Ints
from kschedctl.api.labels import DOUBLE_EQUALS, EQUALS, IN, Selector
from kschedctl.api.objects import Pod
from kschedctl.api.pod_table import digest
from kschedctl.snapshot.interning import DistinctInfos
from kschedctl.snapshot.pod_info import AffinityTerm, PodInfo

SPARSE = 32
"""Where fewer than one in so many infos match, their numbers take less memory than a mask."""
ONE_OF = (IN, EQUALS, DOUBLE_EQUALS)

_encode = msgspec.msgpack.Encoder().encode


class PodInfos:
    """T infos; each is known by its number among them. Columns are (T,).

    What is the same in a pod's document and in the pod as the API server has it is read of the former.
    """

    def __init__(self, infos: DistinctInfos) -> None:
        self.infos = infos
        self._terms: dict[str, dict[str | None, list[tuple[AffinityTerm, int]]]] = {}
        self._against: dict[Hashable, list[tuple[AffinityTerm, int]]] = {}
        self._asking: dict[tuple[str, str], bool] = {}
        self._matches: dict[tuple[Selector, frozenset[str] | None], Bools] = {}
        self._few_matches: dict[tuple[Selector, frozenset[str] | None], Ints] = {}
        """The numbers of the infos where they are few."""
        self._sets_with: dict[str, dict[tuple[str, str], list[int]]] = {}

    @cached_property
    def terminating(self) -> Bools:
        """Being deleted."""
        return self.where_alike(lambda pod: pod.metadata.deletion_timestamp is not None)

    @cached_property
    def priority(self) -> npt.NDArray[np.int64]:
        given = [template.spec.priority for template in self.infos.templates]
        priorities = [self.infos[i].priority if own is None else own for i, own in enumerate(given)]
        return np.array(priorities, np.int64)

    @cached_property
    def _with_affinity(self) -> list[tuple[PodInfo, list[int]]]:
        """The infos of pods that have affinity to other pods, or against them, by one that has the same terms.

        Bound pods of one namespace that share an affinity have the same; of others creation may change it.
        """
        groups: dict[tuple[str, int] | int, list[int]] = {}
        for number, template in enumerate(self.infos.templates):
            affinity = template.spec.affinity
            if affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity):
                key = (template.metadata.namespace, id(affinity)) if self.infos.bound[number] else number
                groups.setdefault(key, []).append(number)
        return [(self.infos[numbers[0]], numbers) for numbers in groups.values()]

    def with_terms(self, *of: str) -> Bools:
        """The infos that have any of these terms, which are named as PodInfo does: ``required_anti_affinity``, …"""
        chosen = np.zeros(len(self.infos), np.bool_)
        for info, numbers in self._with_affinity:
            chosen[numbers] = any(getattr(info, name) for name in of)
        return chosen

    def affinity_terms(self, of: str, namespace: str) -> list[tuple[AffinityTerm, int]]:
        """The terms that may be about pods of a namespace, each with the info that has it.

        ``of`` names the terms as PodInfo does: ``required_anti_affinity``, …
        """
        if of not in self._terms:
            by_namespace: dict[str | None, list[tuple[AffinityTerm, int]]] = {}
            for info, numbers in self._with_affinity:
                for term in getattr(info, of):
                    for name in term.namespaces if term.namespace_selector.matches_nothing else (None,):
                        by_namespace.setdefault(name, []).extend((term, number) for number in numbers)
            for terms in by_namespace.values():
                terms.sort(key=itemgetter(1))
            self._terms[of] = by_namespace
        return self._terms[of].get(namespace, []) + self._terms[of].get(None, [])

    def terms_against(
        self, of: str, info: PodInfo, namespace_labels: Mapping[str, str]
    ) -> list[tuple[AffinityTerm, int]]:
        """Those of these terms that match a pod, in a namespace with these labels: the same for all of its labels."""
        key = of, info.namespace, frozenset(info.labels.items()), frozenset(namespace_labels.items())
        if key not in self._against:
            self._against[key] = [
                (term, position)
                for term, position in self.affinity_terms(of, info.namespace)
                if term.matches(info.namespace, info.labels, namespace_labels)
            ]
        return self._against[key]

    def ask_namespace_labels(self, of: str, namespace: str) -> bool:
        """Whether the labels of namespaces decide for some of these terms."""
        key = of, namespace
        if key not in self._asking:
            self._asking[key] = any(term.by_namespace_labels for term, _ in self.affinity_terms(of, namespace))
        return self._asking[key]

    @cached_property
    def labelled(self) -> Bools:
        """With labels."""
        return self.where_alike(lambda pod: bool(pod.metadata.labels))

    def where(self, predicate: Callable[[PodInfo], bool]) -> Bools:
        """The infos for which the predicate holds."""
        return np.fromiter(map(predicate, self.infos), np.bool_, len(self.infos))

    def where_alike(self, predicate: Callable[[Pod], bool]) -> Bools:
        """The infos for which it holds of what their pods have in common, as the documents have it."""
        return np.fromiter(map(predicate, self.infos.templates), np.bool_, len(self.infos))

    def matching(self, selector: Selector, namespaces: frozenset[str] | None) -> Bools:
        """The infos in the namespaces (None: in any) whose labels the selector matches."""
        key = (selector, namespaces)
        known = self._matches.get(key)
        if known is not None:
            return known
        few = self._few_matches.get(key)
        if few is not None:
            matching = np.zeros(len(self.infos), np.bool_)
            matching[few] = True
            return matching
        matching = self._matching(selector, namespaces)
        numbers = np.flatnonzero(matching).astype(np.int32)
        if len(numbers) < len(matching) // SPARSE:
            self._few_matches[key] = numbers
        else:
            self._matches[key] = matching
        return matching

    def _matching(self, selector: Selector, namespaces: frozenset[str] | None) -> Bools:
        sets, set_of = self._label_sets
        in_scope = (
            range(len(sets)) if namespaces is None else [i for n in namespaces for i in self._may_match(selector, n)]
        )
        distinct = np.zeros(len(sets), np.bool_)
        distinct[[i for i in in_scope if selector.matches(sets[i][1])]] = True
        return distinct[set_of]

    @property
    def demands(self) -> list[PodInfo]:
        """One info for each distinct way to request resources."""
        return self._demands[0]

    @property
    def demand(self) -> Ints:
        """(T,): which of the ``demands`` each info has."""
        return self._demands[1]

    @cached_property
    def _demands(self) -> tuple[list[PodInfo], Ints]:
        known: dict[bytes, int] = {}
        same: dict[tuple[int, ...], int] = {}
        first: list[PodInfo] = []
        ids = []
        for number, template in enumerate(self.infos.templates):
            key = _request_ids(template)
            position = same.get(key)
            if position is None:
                position = same[key] = known.setdefault(_request_key(template), len(first))
            if position == len(first):
                first.append(self.infos[number])
            ids.append(position)
        return first, np.array(ids, np.int32)

    @cached_property
    def _label_sets(self) -> tuple[list[tuple[str, Mapping[str, str]]], Ints]:
        """The distinct (namespace, labels), and for each info (T,) which of them it has."""
        known: dict[bytes, int] = {}
        same: dict[tuple[str, int], int] = {}
        sets: list[tuple[str, Mapping[str, str]]] = []
        ids = []
        for template in self.infos.templates:
            meta = template.metadata
            key = meta.namespace, id(meta.labels)
            position = same.get(key)
            if position is None:
                position = same[key] = known.setdefault(_encode((meta.namespace, meta.labels)), len(sets))
            if position == len(sets):
                sets.append((meta.namespace, meta.labels))
            ids.append(position)
        return sets, np.array(ids, np.int32)

    @cached_property
    def _sets_in(self) -> dict[str, list[int]]:
        """Namespace -> its distinct label sets."""
        numbers: dict[str, list[int]] = {}
        for number, (namespace, _) in enumerate(self._label_sets[0]):
            numbers.setdefault(namespace, []).append(number)
        return numbers

    def _may_match(self, selector: Selector, namespace: str) -> Iterable[int]:
        """The label sets of a namespace, less those that lack the one label value that the selector wants."""
        for requirement in selector.requirements:
            if requirement.operator in ONE_OF and len(requirement.values) == 1:
                return self._sets_with_label(requirement.key).get((namespace, requirement.values[0]), ())
        return self._sets_in.get(namespace, ())

    def _sets_with_label(self, key: str) -> dict[tuple[str, str], list[int]]:
        """Namespace and value of a label -> the distinct label sets that have it."""
        if key not in self._sets_with:
            numbers = self._sets_with[key] = {}
            for number, (namespace, labels) in enumerate(self._label_sets[0]):
                if (value := labels.get(key)) is not None:
                    numbers.setdefault((namespace, value), []).append(number)
        return self._sets_with[key]


def _request_ids(pod: Pod) -> tuple[int, ...]:
    """The same for pods of which the very same objects say what they request."""
    spec = pod.spec
    return id(spec.containers), id(spec.init_containers), id(spec.overhead), id(spec.resources), id(pod.status)


def _request_key(pod: Pod) -> bytes:
    """Equal for pods that request the same resources; the names of containers say only whose a status is."""
    spec, status = pod.spec, pod.status
    statuses = {
        s.name: (s.resources, s.allocated_resources)
        for s in (*status.container_statuses, *status.init_container_statuses)
        if s.resources is not None or s.allocated_resources
    }
    return digest(
        (
            [(c.resources, statuses.get(c.name)) for c in spec.containers],
            [(c.resources, statuses.get(c.name), c.restart_policy) for c in spec.init_containers],
            spec.overhead,
            spec.resources,
            status.resources,
            status.allocated_resources,
            status.node_allocatable_resource_claim_statuses,
            [c.reason for c in status.conditions if c.type == "PodResizePending"],
        )
    )
