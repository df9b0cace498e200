"""The distinct PodInfos of many pods: what is the same for all pods that are alike is found out once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Ints
from kschedctl.api.labels import DOUBLE_EQUALS, EQUALS, IN, Selector
from kschedctl.api.objects import Pod
from kschedctl.api.pod_table import identity
from kschedctl.snapshot.pod_info import AffinityTerm, PodInfo

ONE_OF = (IN, EQUALS, DOUBLE_EQUALS)

_encode = msgspec.msgpack.Encoder().encode


class PodInfos:
    """T infos; each is known by its number among them. Columns are (T,)."""

    def __init__(self, infos: Sequence[PodInfo]) -> None:
        self.infos = infos
        self._terms: dict[str, dict[str | None, list[tuple[AffinityTerm, int]]]] = {}
        self._against: dict[Hashable, list[tuple[AffinityTerm, int]]] = {}
        self._asking: dict[tuple[str, str], bool] = {}
        self._matches: dict[tuple[Selector, frozenset[str] | None], Bools] = {}

    @cached_property
    def terminating(self) -> Bools:
        """Being deleted."""
        return np.array([info.terminating for info in self.infos], np.bool_)

    @cached_property
    def priority(self) -> npt.NDArray[np.int64]:
        return np.array([info.priority for info in self.infos], np.int64)

    @cached_property
    def with_affinity(self) -> list[int]:
        """The infos of pods that have affinity to other pods, or against them."""
        affinities = ((i, info.spec.affinity) for i, info in enumerate(self.infos))
        return [i for i, a in affinities if a is not None and (a.pod_affinity or a.pod_anti_affinity)]

    def affinity_terms(self, of: str, namespace: str) -> list[tuple[AffinityTerm, int]]:
        """The terms that may be about pods of a namespace, each with the info that has it.

        ``of`` names the terms as PodInfo does: ``required_anti_affinity``, …
        """
        if of not in self._terms:
            by_namespace: dict[str | None, list[tuple[AffinityTerm, int]]] = {}
            for position in self.with_affinity:
                for term in getattr(self.infos[position], of):
                    for name in term.namespaces if term.namespace_selector.nothing else (None,):
                        by_namespace.setdefault(name, []).append((term, position))
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
        return self.where(lambda info: bool(info.labels))

    def where(self, predicate: Callable[[PodInfo], bool]) -> Bools:
        """The infos for which the predicate holds."""
        return np.fromiter(map(predicate, self.infos), np.bool_, len(self.infos))

    def matching(self, selector: Selector, namespaces: frozenset[str] | None) -> Bools:
        """The infos in the namespaces (None: in any) whose labels the selector matches."""
        key = (selector, namespaces)
        if key not in self._matches:
            sets, set_of = self._label_sets
            in_scope = (
                range(len(sets))
                if namespaces is None
                else [i for n in namespaces for i in self._may_match(selector, n)]
            )
            distinct = np.zeros(len(sets), np.bool_)
            distinct[[i for i in in_scope if selector.matches(sets[i][1])]] = True
            self._matches[key] = distinct[set_of]
        return self._matches[key]

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
        for info in self.infos:
            parts = _request_parts(info.pod)
            key = tuple(map(id, parts))
            position = same.get(key)
            if position is None:
                position = same[key] = known.setdefault(_request_key(info.pod), len(first))
            if position == len(first):
                first.append(info)
            ids.append(position)
        return first, np.array(ids, np.int32)

    @cached_property
    def _label_sets(self) -> tuple[list[tuple[str, Mapping[str, str]]], Ints]:
        """The distinct (namespace, labels), and for each info (T,) which of them it has."""
        known: dict[bytes, int] = {}
        same: dict[tuple[str, int], int] = {}
        sets: list[tuple[str, Mapping[str, str]]] = []
        ids = []
        for info in self.infos:
            key = info.namespace, id(info.labels)
            position = same.get(key)
            if position is None:
                position = same[key] = known.setdefault(_encode((info.namespace, info.labels)), len(sets))
            if position == len(sets):
                sets.append((info.namespace, info.labels))
            ids.append(position)
        return sets, np.array(ids, np.int32)

    def _may_match(self, selector: Selector, namespace: str) -> Iterable[int]:
        """The label sets of a namespace, less those that lack the one label value that the selector wants."""
        for requirement in selector.requirements:
            if requirement.operator in ONE_OF and len(requirement.values) == 1:
                return self._sets_with.get((namespace, requirement.key, requirement.values[0]), ())
        return self._sets_with.get((namespace, "", ""), ())

    @cached_property
    def _sets_with(self) -> dict[tuple[str, str, str], list[int]]:
        """Namespace, label and value -> the distinct label sets that have it; under the empty label all of them."""
        numbers: dict[tuple[str, str, str], list[int]] = {}
        for number, (namespace, labels) in enumerate(self._label_sets[0]):
            for key, value in (*labels.items(), ("", "")):
                numbers.setdefault((namespace, key, value), []).append(number)
        return numbers


def _request_parts(pod: Pod) -> tuple[object, ...]:
    """The objects in which a pod's requests stand."""
    spec, status = pod.spec, pod.status
    return (
        spec.containers,
        spec.init_containers,
        spec.overhead,
        spec.resources,
        status.container_statuses,
        status.init_container_statuses,
        status.resources,
        status.allocated_resources,
        status.node_allocatable_resource_claim_statuses,
        status.conditions,
    )


def _request_key(pod: Pod) -> bytes:
    """Equal for pods that request the same resources."""
    spec, status = pod.spec, pod.status
    return identity(
        (
            [(c.name, c.resources) for c in spec.containers],
            [(c.name, c.resources, c.restart_policy) for c in spec.init_containers],
            spec.overhead,
            spec.resources,
            [(s.name, s.resources, s.allocated_resources) for s in status.container_statuses],
            [(s.name, s.resources, s.allocated_resources) for s in status.init_container_statuses],
            status.resources,
            status.allocated_resources,
            status.node_allocatable_resource_claim_statuses,
            [c.reason for c in status.conditions if c.type == "PodResizePending"],
        )
    )
