"""The distinct PodInfos of many pods: pods that are equal in all that scheduling reads share a PodInfo."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import overload

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from kschedctl.api.arrays import Bools, Ints, Rows
from kschedctl.api.labels import DOUBLE_EQUALS, EQUALS, IN, Selector
from kschedctl.api.objects import Pod, PodSpec
from kschedctl.api.pod_requests import Options
from kschedctl.api.pod_table import PodTable, build_value_key
from kschedctl.api.workloads import build_pending_pod
from kschedctl.snapshot.pod_info import AffinityTerm, HostPort, PodInfo

SPARSE = 32
"""If fewer than one in this many infos match, their numbers take less memory than a mask."""
ONE_OF = (IN, EQUALS, DOUBLE_EQUALS)

_encode = msgspec.msgpack.Encoder().encode


class PodInfos:
    """T distinct PodInfos, identified by their numbers. Columns are (T,).

    Fields that are the same in the document and in the stored pod are read from the document.
    """

    def __init__(self, infos: DistinctInfos) -> None:
        self.infos = infos
        self._terms: dict[str, dict[str | None, list[tuple[AffinityTerm, int]]]] = {}
        self._terms_by_label: dict[tuple[str, str], TermsByLabel] = {}
        self._matching_terms: dict[Hashable, list[tuple[AffinityTerm, int]]] = {}
        self._uses_namespace_labels: dict[tuple[str, str], bool] = {}
        self._matches: dict[tuple[Selector, frozenset[str] | None], Bools] = {}
        self._few_matches: dict[tuple[Selector, frozenset[str] | None], Ints] = {}
        """The numbers of the matching infos if there are few."""
        self._sets_with: dict[str, dict[tuple[str, str], list[int]]] = {}

    @cached_property
    def terminating(self) -> Bools:
        """A mask over the infos whose pods are being deleted."""
        return self.mask_templates(lambda pod: pod.metadata.deletion_timestamp is not None)

    @cached_property
    def priorities(self) -> npt.NDArray[np.int64]:
        """The priority of each distinct PodInfo."""
        priorities = []
        # Only pods without a priority in their document need their PodInfo, whose priority comes from a PriorityClass.
        for number, template in enumerate(self.infos.templates):
            priority = template.spec.priority
            priorities.append(self.infos[number].priority if priority is None else priority)
        return np.array(priorities, np.int64)

    @cached_property
    def _infos_with_affinity(self) -> list[tuple[PodInfo, list[int]]]:
        """Infos with pod affinity or anti-affinity, each with the numbers of the infos that have the same terms.

        Bound pods of one namespace that share an affinity struct have the same terms. Admission may change the terms of
        other pods, so each of them is listed separately.
        """
        groups: dict[tuple[str, int] | int, list[int]] = {}
        for number, template in enumerate(self.infos.templates):
            affinity = template.spec.affinity
            if affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity):
                key = (template.metadata.namespace, id(affinity)) if self.infos.bound[number] else number
                groups.setdefault(key, []).append(number)
        infos_with_numbers = []
        for numbers in groups.values():
            first, *_ = numbers
            infos_with_numbers.append((self.infos[first], numbers))
        return infos_with_numbers

    def mask_with_terms(self, *kinds: str) -> Bools:
        """Return a mask over the infos that have terms of at least one of these kinds.

        A kind is the name of a property of PodInfo, such as `required_anti_affinity`.
        """
        has_terms = np.zeros(len(self.infos), np.bool_)
        for info, numbers in self._infos_with_affinity:
            has_terms[numbers] = any(getattr(info, name) for name in kinds)
        return has_terms

    def list_affinity_terms(self, term_kind: str, namespace: str) -> list[tuple[AffinityTerm, int]]:
        """Return the terms that may match pods of a namespace, each with the number of its info.

        `term_kind` is a property of PodInfo such as `required_anti_affinity`. The terms of a kind are grouped once.
        """
        if term_kind not in self._terms:
            self._terms[term_kind] = self._group_terms_by_namespace(term_kind)
        by_namespace = self._terms[term_kind]
        return by_namespace.get(namespace, []) + by_namespace.get(None, [])

    def _group_terms_by_namespace(self, term_kind: str) -> dict[str | None, list[tuple[AffinityTerm, int]]]:
        """Map each namespace to the terms that name it, each with the number of its PodInfo, in order of these numbers.

        `term_kind` is the attribute of a PodInfo that has the terms. Terms with a namespace selector may match pods of
        any namespace and are under None.
        """
        by_namespace: dict[str | None, list[tuple[AffinityTerm, int]]] = {}
        for info, numbers in self._infos_with_affinity:
            for term in getattr(info, term_kind):
                has_selector = not term.namespace_selector.matches_nothing
                names = (None,) if has_selector else term.namespaces
                for name in names:
                    by_namespace.setdefault(name, []).extend((term, number) for number in numbers)
        for terms in by_namespace.values():
            terms.sort(key=itemgetter(1))
        return by_namespace

    def find_terms_matching(
        self, term_kind: str, info: PodInfo, namespace_labels: Mapping[str, str]
    ) -> list[tuple[AffinityTerm, int]]:
        """Return the terms that match a pod in a namespace with these labels, each with the number of its info.

        `term_kind` is a property of PodInfo such as `required_anti_affinity`. The result is cached for all pods with
        equal labels.
        """
        key = term_kind, info.namespace, frozenset(info.labels.items()), frozenset(namespace_labels.items())
        if key not in self._matching_terms:
            self._matching_terms[key] = [
                (term, number)
                for term, number in self._get_terms_by_label(term_kind, info.namespace).find_candidates(info.labels)
                if term.matches(info.namespace, info.labels, namespace_labels)
            ]
        return self._matching_terms[key]

    def _get_terms_by_label(self, term_kind: str, namespace: str) -> TermsByLabel:
        """Return the terms that may match pods of a namespace, indexed by the labels that they require.

        The index is built once for each kind of terms and namespace.
        """
        key = term_kind, namespace
        if key not in self._terms_by_label:
            self._terms_by_label[key] = TermsByLabel(self.list_affinity_terms(term_kind, namespace))
        return self._terms_by_label[key]

    def do_terms_depend_on_namespace_labels(self, term_kind: str, namespace: str) -> bool:
        """Return whether a term for pods of a namespace selects pods by the labels of their namespaces.

        `term_kind` is a property of PodInfo such as `required_anti_affinity`. Results are cached.
        """
        key = term_kind, namespace
        if key not in self._uses_namespace_labels:
            self._uses_namespace_labels[key] = any(
                term.by_namespace_labels for term, _ in self.list_affinity_terms(term_kind, namespace)
            )
        return self._uses_namespace_labels[key]

    @cached_property
    def labelled(self) -> Bools:
        """A mask over the infos whose pods have labels."""
        return self.mask_templates(lambda pod: bool(pod.metadata.labels))

    def where(self, predicate: Callable[[PodInfo], bool]) -> Bools:
        """Return a mask over the infos that satisfy the predicate."""
        return np.fromiter(map(predicate, self.infos), np.bool_, len(self.infos))

    @cached_property
    def host_port_users(self) -> dict[HostPort, list[int]]:
        """The numbers of the infos that use each host port. Infos with the same containers are evaluated once."""
        numbers_by_containers: dict[tuple[int, int, bool], list[int]] = {}
        for number, template in enumerate(self.infos.templates):
            spec = template.spec
            key = id(spec.containers), id(spec.init_containers), spec.host_network
            numbers_by_containers.setdefault(key, []).append(number)
        users: dict[HostPort, list[int]] = {}
        for numbers in numbers_by_containers.values():
            first, *_ = numbers
            if _may_take_host_ports(self.infos.templates[first]):
                for port in self.infos[first].host_ports:
                    users.setdefault(port, []).extend(numbers)
        return users

    def mask_with_host_port(self, predicate: Callable[[HostPort], bool]) -> Bools:
        """Return a mask over the infos that use a host port for which the predicate is true."""
        mask = np.zeros(len(self.infos), np.bool_)
        for port, numbers in self.host_port_users.items():
            if predicate(port):
                mask[numbers] = True
        return mask

    def mask_templates(self, predicate: Callable[[Pod], bool]) -> Bools:
        """Return a mask over the infos whose template satisfies the predicate.

        A template is a pod as in the documents.
        """
        return np.fromiter(map(predicate, self.infos.templates), np.bool_, len(self.infos))

    def match_infos(self, selector: Selector, namespaces: frozenset[str] | None) -> Bools:
        """Return a mask of the infos that match the selector and are in one of the namespaces.

        If `namespaces` is None, all namespaces are included. Results are cached, as indices if few infos match.
        """
        # Look the result up, as a mask or as the numbers of few infos.
        key = (selector, namespaces)
        cached = self._matches.get(key)
        if cached is not None:
            return cached
        matching_numbers = self._few_matches.get(key)
        if matching_numbers is not None:
            matching = np.zeros(len(self.infos), np.bool_)
            matching[matching_numbers] = True
            return matching

        # Compute it, and store whatever takes less memory.
        matching = self._compute_matching_infos(selector, namespaces)
        numbers = np.flatnonzero(matching).astype(np.int32)
        if len(numbers) < len(matching) // SPARSE:
            self._few_matches[key] = numbers
        else:
            self._matches[key] = matching
        return matching

    def _compute_matching_infos(self, selector: Selector, namespaces: frozenset[str] | None) -> Bools:
        """Compute the mask that `match_infos` returns, evaluating the selector once for each distinct label set."""
        label_sets, set_of_info = self._label_sets
        candidates: Iterable[int] = range(len(label_sets))
        if namespaces is not None:
            candidates = chain.from_iterable(self._find_possible_label_sets(selector, name) for name in namespaces)
        matches = np.zeros(len(label_sets), np.bool_)
        for index in candidates:
            _, labels = label_sets[index]
            matches[index] = selector.matches(labels)
        return matches[set_of_info]

    @property
    def demands(self) -> list[PodInfo]:
        """One info for each distinct set of resource requests."""
        infos, _ = self._distinct_requests
        return infos

    @property
    def demand(self) -> Ints:
        """The index in `demands` of each info's requests."""
        _, index_of_info = self._distinct_requests
        return index_of_info

    @cached_property
    def _distinct_requests(self) -> tuple[list[PodInfo], Ints]:
        """One info for each distinct set of resource requests, and for every info the index of its set."""
        index_by_digest: dict[bytes, int] = {}
        index_by_ids: dict[tuple[int, ...], int] = {}  # templates that share objects need no digest of their own
        infos: list[PodInfo] = []
        index_of_info = []
        for number, template in enumerate(self.infos.templates):
            ids = _get_request_ids(template)
            index = index_by_ids.get(ids)
            if index is None:
                index = index_by_digest.setdefault(_build_request_digest(template), len(infos))
                index_by_ids[ids] = index
            is_new_set = index == len(infos)
            if is_new_set:
                infos.append(self.infos[number])
            index_of_info.append(index)
        return infos, np.array(index_of_info, np.int32)

    @cached_property
    def _label_sets(self) -> tuple[list[tuple[str, Mapping[str, str]]], Ints]:
        """The distinct pairs of namespace and labels, and each info's index of its pair."""
        index_by_content: dict[bytes, int] = {}
        index_by_ids: dict[tuple[str, int], int] = {}  # templates that share a labels object need not be encoded
        sets: list[tuple[str, Mapping[str, str]]] = []
        index_of_info = []
        for template in self.infos.templates:
            metadata = template.metadata
            ids = metadata.namespace, id(metadata.labels)
            index = index_by_ids.get(ids)
            if index is None:
                content = _encode((metadata.namespace, metadata.labels))
                index = index_by_content.setdefault(content, len(sets))
                index_by_ids[ids] = index
            is_new_set = index == len(sets)
            if is_new_set:
                sets.append((metadata.namespace, metadata.labels))
            index_of_info.append(index)
        return sets, np.array(index_of_info, np.int32)

    @cached_property
    def _label_set_indexes_by_namespace(self) -> dict[str, list[int]]:
        """The distinct label sets by namespace, as indexes into the list of `_label_sets`."""
        indexes: dict[str, list[int]] = {}
        label_sets, _ = self._label_sets
        for index, (namespace, _) in enumerate(label_sets):
            indexes.setdefault(namespace, []).append(index)
        return indexes

    def _find_possible_label_sets(self, selector: Selector, namespace: str) -> Iterable[int]:
        """Return the indexes of the label sets of a namespace that the selector may match.

        If the selector requires one value of a label, only label sets with this value are returned. Otherwise, all
        label sets of the namespace are returned.
        """
        required_label = _find_required_label(selector)
        if required_label is None:
            return self._label_set_indexes_by_namespace.get(namespace, ())
        key, value = required_label
        return self._index_label_sets(key).get((namespace, value), ())

    def _index_label_sets(self, key: str) -> dict[tuple[str, str], list[int]]:
        """Return, by namespace and value, the indexes of the label sets that have this value of the label `key`.

        Results are cached.
        """
        if key not in self._sets_with:
            indexes: dict[tuple[str, str], list[int]] = {}
            label_sets, _ = self._label_sets
            for index, (namespace, labels) in enumerate(label_sets):
                value = labels.get(key)
                if value is not None:
                    indexes.setdefault((namespace, value), []).append(index)
            self._sets_with[key] = indexes
        return self._sets_with[key]


class TermsByLabel:
    """Affinity terms, each with the number of its info, indexed by label.

    Every pod that matches a term has the term's label.
    """

    def __init__(self, terms: Sequence[tuple[AffinityTerm, int]]) -> None:
        self._terms = terms
        self._places: dict[tuple[str, str] | None, list[int]] = {}
        """Places in `terms` by required label. None stands for terms that require no single label."""
        for place, (term, _) in enumerate(terms):
            self._places.setdefault(_find_required_label(term.selector), []).append(place)

    def find_candidates(self, labels: Mapping[str, str]) -> list[tuple[AffinityTerm, int]]:
        """Return the terms that may match a pod with these labels, in their original order."""
        places = [place for label in (None, *labels.items()) for place in self._places.get(label, ())]
        return [self._terms[place] for place in sorted(places)]


def _find_required_label(selector: Selector) -> tuple[str, str] | None:
    """Return the key and value of the first label for which a selector requires one value, or None."""
    for requirement in selector.requirements:
        if requirement.operator in ONE_OF and len(requirement.values) == 1:
            (value,) = requirement.values
            return requirement.key, value
    return None


def _may_take_host_ports(pod: Pod) -> bool:
    """Return whether a pod, as written in the documents, may take host ports.

    With host networking, a container port becomes a host port by default.
    """
    spec = pod.spec
    return any(
        port.host_port or spec.host_network
        for container in (*spec.init_containers, *spec.containers)
        for port in container.ports
    )


def _get_request_ids(pod: Pod) -> tuple[int, ...]:
    """Return the ids of all objects that determine the pod's requests. Pods that share the objects have equal ids."""
    spec = pod.spec
    return id(spec.containers), id(spec.init_containers), id(spec.overhead), id(spec.resources), id(pod.status)


def _build_request_digest(pod: Pod) -> bytes:
    """Return a digest that is equal for pods with the same requests, regardless of the names of containers.

    The digest covers everything from which requests are computed. Besides the spec's resources and overhead, these are
    the restart policies that mark sidecars, the resources in the status, and the reason for a pending resize.
    """
    spec, status = pod.spec, pod.status
    # While a pod is being resized, its requests also depend on its status (upstream: PodRequests).
    statuses = {
        container.name: (container.resources, container.allocated_resources)
        for container in (*status.container_statuses, *status.init_container_statuses)
        if container.resources is not None or container.allocated_resources
    }
    containers = [(container.resources, statuses.get(container.name)) for container in spec.containers]
    init_containers = [
        (container.resources, statuses.get(container.name), container.restart_policy)
        for container in spec.init_containers
    ]
    resize_reasons = [condition.reason for condition in status.conditions if condition.type == "PodResizePending"]
    return build_value_key(
        (
            containers,
            init_containers,
            spec.overhead,
            spec.resources,
            status.resources,
            status.allocated_resources,
            status.node_allocatable_resource_claim_statuses,
            resize_reasons,
        )
    )


class DistinctInfos(Sequence[PodInfo]):
    """T PodInfos that are built on first use, because a cluster can have one for every other pod.

    `rows` (T,) has the first pod in the table for each info. `stored` converts a pod to what the API server stores,
    and `recreated` to what its controller creates anew.
    """

    def __init__(
        self,
        pods: PodTable,
        rows: Rows,
        stored: Callable[[Pod], Pod],
        options: Options,
        recreated: Callable[[Pod], Pod],
    ) -> None:
        self._pods, self.rows, self._to_stored_pod, self._options = pods, rows, stored, options
        self._to_recreated_pod = recreated
        self._built_infos: list[PodInfo | None] = [None] * len(rows)
        self._recreated_infos: dict[int, PodInfo] = {}
        self._recreated_by_key: dict[bytes, PodInfo] = {}

    def __len__(self) -> int:
        return len(self._built_infos)

    @overload
    def __getitem__(self, number: int) -> PodInfo: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[PodInfo]: ...
    def __getitem__(self, number: int | slice) -> PodInfo | Sequence[PodInfo]:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        return self._built_infos[number] or self._build_pod_info(int(number))

    def __iter__(self) -> Iterator[PodInfo]:
        return map(self.__getitem__, range(len(self)))

    @cached_property
    def templates(self) -> list[Pod]:
        """The common part of each info's pods, as in the documents."""
        templates = self._pods.templates
        return [templates[number] for number in self._pods.template[self.rows].tolist()]

    @cached_property
    def bound(self) -> list[bool]:
        """Return whether each info's pods have a node."""
        has_name = [bool(name) for name in self._pods.node.values]
        return [has_name[code] for code in self._pods.node.codes[self.rows].tolist()]

    def _build_pod_info(self, number: int) -> PodInfo:
        """Build and store the distinct PodInfo with index `number`, from its pod as the API server stores it."""
        pod = self._to_stored_pod(self._pods[int(self.rows[number])])
        first_equivalent = self._first_equivalents.get(number, number)  # without resource claims, the info itself
        info = PodInfo(pod, self._options, number, alike=first_equivalent)
        self._built_infos[number] = info
        return info

    def get_recreated(self, number: int) -> PodInfo:
        """Return the PodInfo of the pod with this number as its controller recreates the pod, without a node.

        The number of the returned PodInfo is the pod's number plus the number of all infos, so no stored PodInfo has
        it. Pods that differ only in the labels of their nodes are recreated alike. They share a PodInfo, with the
        number of the first.
        """
        info = self._recreated_infos.get(number)
        if info is None:
            stored_info = self[number]
            pod = self._to_recreated_pod(stored_info.pod)
            info = PodInfo(pod, stored_info.options, len(self) + number, stored_info.alike)
            # Without labels of its node, the pod may equal other recreated pods.
            if pod.metadata.labels != stored_info.labels and not _has_claims_by_name(pod.spec):
                info = self._recreated_by_key.setdefault(self._build_recreated_key(number, pod), info)
            self._recreated_infos[number] = info
        return info

    def _build_recreated_key(self, number: int, recreated_pod: Pod) -> bytes:
        """Return a key that is equal for pods that had the same requests and are recreated alike.

        The pods must have no claims that are named after them.
        """
        template = self.templates[number]
        meta = replace(template.metadata, labels=recreated_pod.metadata.labels)
        return build_value_key((build_pending_pod(replace(template, metadata=meta)), _build_request_digest(template)))

    @cached_property
    def _first_equivalents(self) -> dict[int, int]:
        """The number of the first info that differs only in claim names, by info number.

        Only infos with resource claims are included. An info without an earlier equivalent has its number as the value.
        """
        first_by_digest: dict[bytes, int] = {}
        first_equivalents = {}
        for number, template in enumerate(self.templates):
            if template.spec.resource_claims:
                pod = self._pods[int(self.rows[number])]
                digest = build_value_key(_list_scheduling_fields(pod))  # claim names are not among these fields
                first_equivalents[number] = first_by_digest.setdefault(digest, number)
        return first_equivalents


def intern_pods(
    pods: PodTable, stored: Callable[[Pod], Pod], options: Options, recreated: Callable[[Pod], Pod]
) -> tuple[Ints, DistinctInfos]:
    """Number the distinct PodInfos of the pods, and return the number of each pod's info with the infos.

    The bound pods of a template share one info, and its other pods share another. A pod with claims that are named
    after the pod has an info of its own. `stored` converts a pod to what the API server stores, and `recreated` to what
    its controller creates anew.
    """
    is_bound = np.array([bool(name) for name in pods.node.values], np.bool_)[pods.node.codes]

    # Pods with equal codes share an info: 2 * template, + 1 if the pod is bound.
    codes = pods.template.astype(np.int64) * 2 + is_bound

    # Each pod with claims named after it gets a code of its own, beyond the codes of templates.
    first_unshared_code = 2 * len(pods.templates)
    has_template_named_claims = np.array([_has_claims_by_name(template.spec) for template in pods.templates], np.bool_)
    has_named_claims = has_template_named_claims[pods.template]
    codes[has_named_claims] = first_unshared_code + np.arange(int(has_named_claims.sum()))

    # Number the codes in the order in which they first occur.
    _, first_rows, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first_rows)
    numbers = np.empty(len(first_rows), np.int32)
    numbers[order] = np.arange(len(first_rows))
    return numbers[inverse], DistinctInfos(pods, first_rows[order], stored, options, recreated)


def _list_scheduling_fields(pod: Pod) -> tuple[object, ...]:
    """Return all fields of a pod that scheduling reads, except the names of its resource claims.

    The pod's name is included if ephemeral volumes depend on it.
    """
    spec, status = pod.spec, pod.status
    return (
        pod.metadata.namespace,
        pod.metadata.labels,
        pod.metadata.deletion_timestamp is not None,
        replace(spec, node_name="", resource_claims=()),
        [claim.name for claim in spec.resource_claims],
        bool(spec.node_name),
        status.container_statuses,
        status.init_container_statuses,
        status.resources,
        status.allocated_resources,
        status.node_allocatable_resource_claim_statuses,
        [condition.reason for condition in status.conditions if condition.type == "PodResizePending"],
        status.extended_resource_claim_status,
        (pod.metadata.name, pod.metadata.uid) if _has_ephemeral_volumes(spec) else None,
    )


def _has_claims_by_name(spec: PodSpec) -> bool:
    """Return whether pods with this spec may have claims that are named after the pod."""
    return bool(spec.resource_claims or (spec.volumes and _has_ephemeral_volumes(spec)))


def _has_ephemeral_volumes(spec: PodSpec) -> bool:
    """Return whether the pod has ephemeral volumes."""
    return any(volume.ephemeral is not None for volume in spec.volumes)
