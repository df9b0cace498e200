"""The pods of a snapshot as columns. Pods that are alike in all that scheduling reads share one PodInfo."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import overload

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from kschedctl.api.columns import nanoseconds_of, texts_column
from kschedctl.api.labels import DOUBLE_EQUALS, EQUALS, IN, Selector
from kschedctl.api.objects import Pod, PodSpec, PodStatus, Volume
from kschedctl.api.pod_requests import Options
from kschedctl.api.pod_table import PodTable
from kschedctl.snapshot.pod_info import AffinityTerm, PodInfo

Ints = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

ONE_OF = (IN, EQUALS, DOUBLE_EQUALS)
FEW_KINDS = 64

_encode = msgspec.msgpack.Encoder().encode
_spec_parts = attrgetter(*(name for name in PodSpec.__struct_fields__ if name != "node_name"))
_status_parts = attrgetter(*(name for name in PodStatus.__struct_fields__ if name != "start_time"))


class Repeated(Sequence[Pod]):
    """Pods, and after them the one at a position so many times more."""

    def __init__(self, pods: Sequence[Pod], position: int, count: int) -> None:
        self.pods, self.position, self.times = pods, position, count
        if isinstance(pods, Repeated) and pods.position == position:  # not one within the other, however many come
            self.pods, self.times = pods.pods, pods.times + count

    def __len__(self) -> int:
        return len(self.pods) + self.times

    @overload
    def __getitem__(self, position: int) -> Pod: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[Pod, ...]: ...
    def __getitem__(self, position: int | slice) -> Pod | tuple[Pod, ...]:
        if isinstance(position, slice):
            return tuple(self[i] for i in range(*position.indices(len(self))))
        return self.pods[position if position < len(self.pods) else self.position]

    @property
    def sources(self) -> npt.NDArray[np.int64]:
        """(P,): which of the ``pods`` each is."""
        return np.append(np.arange(len(self.pods)), np.full(self.times, self.position))


class PodColumns:
    """P pods with T distinct PodInfos among them.

    ``info`` (P,): index into ``infos``. ``node`` (P,): the row of the node that the pod is bound to, -1 for none.
    Pods that have ended are not among them.
    """

    def __init__(self, pods: Sequence[Pod], rows: Mapping[str, int], admit: Callable[[Pod], Pod], options: Options):
        self._admit, self._options = admit, options
        self._known: dict[bytes, int] = {}
        self._same: dict[tuple[object, ...], int] = {}
        self.infos: list[PodInfo] = []
        self.objects: Sequence[Pod]
        if isinstance(pods, PodTable):
            self.objects = table = pods.alive()
            self.node: Ints = np.array([rows.get(name, -1) for name in table.node.values], np.int32)[table.node.codes]
            self.info: Ints = self._intern_table(table)
        else:
            self.objects = [pod for pod in pods if not pod.terminated]
            self.node = np.array([rows.get(pod.spec.node_name, -1) for pod in self.objects], np.int32)
            self.info = np.array([self._intern(pod) for pod in self.objects], np.int32)
        self._terms: dict[str, dict[str | None, list[tuple[AffinityTerm, int]]]] = {}
        self._matches: dict[tuple[Selector, frozenset[str] | None], Bools] = {}

    def __len__(self) -> int:
        return len(self.objects)

    @cached_property
    def index(self) -> dict[str, int]:
        """Position by ``namespace/name``."""
        pods = self.objects
        return {key: i for i, key in enumerate(pods.keys() if isinstance(pods, PodTable) else [p.key for p in pods])}

    @cached_property
    def terminating(self) -> Bools:
        """(T,): being deleted."""
        return np.array([info.terminating for info in self.infos], np.bool_)

    @cached_property
    def priority(self) -> npt.NDArray[np.int64]:
        """(T,)"""
        return np.array([info.priority for info in self.infos], np.int64)

    @cached_property
    def start(self) -> npt.NDArray[np.int64]:
        """(P,): when each pod started, in nanoseconds since 1970; NO_TIME for one that has not. Raises InputError."""
        return _starts(self.objects)

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

    @cached_property
    def labelled(self) -> Bools:
        """(T,): with labels."""
        return self.where(lambda info: bool(info.labels))

    @cached_property
    def nominations(self) -> list[int]:
        """The positions of the pods of which the status names a node that was nominated for them."""
        if isinstance(self.objects, PodTable):
            rows = self.objects.rows_where(lambda template: bool(template.status.nominated_node_name))
            return [int(row) for row in rows]
        return [i for i, pod in enumerate(self.objects) if pod.status.nominated_node_name]

    def where(self, predicate: Callable[[PodInfo], bool]) -> Bools:
        """(T,): the infos for which the predicate holds."""
        return np.fromiter(map(predicate, self.infos), np.bool_, len(self.infos))

    def of_kinds(self, selected: Bools) -> npt.NDArray[np.int64]:
        """The positions of the pods of the infos selected (T,), in any order."""
        kinds = np.flatnonzero(selected)
        if len(kinds) > FEW_KINDS:
            return np.flatnonzero(selected[self.info])
        order, starts = self._by_info
        return np.concatenate([order[starts[kind] : starts[kind + 1]] for kind in kinds.tolist()] or [order[:0]])

    @cached_property
    def _by_info(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The positions of all pods sorted by info, and where each info's begin."""
        order = np.argsort(self.info, kind="stable")
        return order, np.searchsorted(self.info[order], np.arange(len(self.infos) + 1))

    def matching(self, selector: Selector, namespaces: frozenset[str] | None) -> Bools:
        """(T,): the infos in the namespaces (None: in any) whose labels the selector matches."""
        key = (selector, namespaces)
        if key not in self._matches:
            sets, kinds = self._label_sets
            in_scope = (
                range(len(sets))
                if namespaces is None
                else [i for n in namespaces for i in self._may_match(selector, n)]
            )
            distinct = np.zeros(len(sets), np.bool_)
            distinct[[i for i in in_scope if selector.matches(sets[i][1])]] = True
            self._matches[key] = distinct[kinds]
        return self._matches[key]

    @cached_property
    def request_kinds(self) -> tuple[list[PodInfo], Ints]:
        """One info for each distinct way to request resources, and for each info (T,) which of them it is."""
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
        found: dict[tuple[str, str, str], list[int]] = {}
        for number, (namespace, labels) in enumerate(self._label_sets[0]):
            for key, value in (*labels.items(), ("", "")):
                found.setdefault((namespace, key, value), []).append(number)
        return found

    def _intern_table(self, table: PodTable) -> Ints:
        """(P,): the index of each pod's info. One pod is looked at for all that share a template."""
        bound = np.array([bool(name) for name in table.node.values], np.bool_)[table.node.codes]
        kinds = table.template.astype(np.int64) * 2 + bound
        named = np.array([_is_named(template.spec) for template in table.templates], np.bool_)[table.template]
        kinds[named] = 2 * len(table.templates) + np.arange(int(named.sum()))
        _, first, inverse = np.unique(kinds, return_index=True, return_inverse=True)
        info = np.empty(len(first), np.int32)
        for kind in np.argsort(first).tolist():
            info[kind] = len(self.infos)
            self.infos.append(PodInfo(self._admit(table[int(first[kind])]), self._options))
        return info[inverse]

    def _intern(self, pod: Pod) -> int:
        """The index of the pod's info. Pods of which all parts are the very same objects are not looked at again."""
        meta, spec, status = pod.metadata, pod.spec, pod.status
        if spec.resource_claims or spec.volumes:
            return self._intern_by_value(pod)
        deleted, bound = meta.deletion_timestamp is not None, bool(spec.node_name)
        parts = map(id, (meta.labels, *_spec_parts(spec), *_status_parts(status)))
        key = (meta.namespace, deleted, bound, *parts)
        position = self._same.get(key)
        if position is None:
            position = self._same[key] = self._intern_by_value(pod)
        return position

    def _intern_by_value(self, pod: Pod) -> int:
        """The index of the pod's info, made when no pod like it was seen before."""
        spec, status = pod.spec, pod.status
        volumes = tuple(volume for volume in spec.volumes if volume != Volume(volume.name))
        spec = replace(spec, node_name="", volumes=volumes)
        resize = [c.reason for c in status.conditions if c.type == "PodResizePending"]
        key = _encode(
            (
                pod.metadata.namespace,
                pod.metadata.labels,
                pod.metadata.deletion_timestamp is not None,
                spec,
                bool(pod.spec.node_name),
                status.container_statuses,
                status.init_container_statuses,
                status.resources,
                status.allocated_resources,
                status.node_allocatable_resource_claim_statuses,
                resize,
                status.resource_claim_statuses,
                status.extended_resource_claim_status,
                (pod.metadata.name, pod.metadata.uid) if _is_named(spec) else None,  # claims made for this very pod
            )
        )
        position = self._known.setdefault(key, len(self.infos))
        if position == len(self.infos):
            self.infos.append(PodInfo(self._admit(pod), self._options))
        return position


def _starts(pods: Sequence[Pod]) -> npt.NDArray[np.int64]:
    if isinstance(pods, Repeated):
        return _starts(pods.pods)[pods.sources]
    column = pods.started if isinstance(pods, PodTable) else texts_column(p.status.start_time or "" for p in pods)
    return nanoseconds_of(column, lambda row: f"Pod {pods[row].key}, status.startTime")


def _is_named(spec: PodSpec) -> bool:
    """Whether claims may have been made for the very pod, by its name."""
    return bool(spec.resource_claims) or any(volume.ephemeral for volume in spec.volumes)


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
    return _encode(
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
