"""A compact table of many pods: each distinct template is stored once, each pod is a row of small columns."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import zip_longest
from operator import attrgetter
from typing import NamedTuple, overload

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from kschedctl.api.arrays import Ints
from kschedctl.api.columns import InternedTexts, TextColumn
from kschedctl.api.container_states import without_states
from kschedctl.api.objects import Condition, Pod, PodMeta, PodSpec, PodStatus, Volume
from kschedctl.api.pod_columns import PodTextColumns, PodTexts, restore_status

_encode = msgspec.msgpack.Encoder().encode

KEPT_CONDITIONS = frozenset({"Ready", "PodScheduled", "PodResizePending", "PodResizeInProgress", "DisruptionTarget"})
"""The condition types that scheduling or advice about it reads."""
ROWS_AT_ONCE = 4096
Key = tuple[str, str]
"""Namespace and name."""
TemplateKey = tuple[bytes, bytes, bytes, bytes]
"""Digests of a template's metadata, spec, volumes and status, limited to what pods share."""
PodTextLists = list[list[str]]
"""One list for each field of PodTexts."""


class PodTable(Sequence[Pod]):
    """P pods of T templates, sorted by namespace and name. A Pod is built only on its first access.

    ``templates`` are Pods without name, UID, node, times and messages. ``template``, shape (P,), holds the template of
    each pod, and ``columns`` hold everything else. The namespace is empty if a manifest names none. The table stores
    only what scheduling reads: most conditions and volumes without a source are dropped.
    """

    def __init__(self, templates: Sequence[Pod], template: Ints, names: Sequence[str], columns: PodTextColumns) -> None:
        self.templates, self.template = templates, template
        self.names, self.columns = names, columns
        self._made: dict[int, Pod] = {}

    @property
    def uids(self) -> TextColumn:
        """The UIDs of the pods."""
        return self.columns.uids

    @property
    def node(self) -> InternedTexts:
        """The names of the pods' nodes, "" for unbound pods."""
        return self.columns.node

    @property
    def created(self) -> TextColumn:
        """The creation times of the pods."""
        return self.columns.created

    @property
    def started(self) -> TextColumn:
        """The times at which the kubelets accepted the pods."""
        return self.columns.started

    @classmethod
    def from_pods(cls, pods: Iterable[Pod]) -> PodTable:
        """Build a table of pods."""
        if isinstance(pods, cls):
            return pods
        builder = PodTableBuilder()
        builder.add(pods)
        return builder.build()

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, row: int) -> Pod: ...
    @overload
    def __getitem__(self, row: slice) -> tuple[Pod, ...]: ...
    def __getitem__(self, row: int | slice) -> Pod | tuple[Pod, ...]:
        if isinstance(row, slice):
            return tuple(self[i] for i in range(*row.indices(len(self))))
        row = range(len(self))[row]
        if row not in self._made:
            self._made[row] = self._build_pod(row)
        return self._made[row]

    def __iter__(self) -> Iterator[Pod]:
        return (self[row] for row in range(len(self)))

    def find(self, namespace: str, name: str) -> Pod | None:
        """Return the pod with this name, or None. No other pod is built."""
        row = self.find_row(namespace, name)
        return None if row is None else self[row]

    def list_keys(self) -> list[Key]:
        """Return namespace and name of every pod, in order."""
        namespaces = [pod.metadata.namespace for pod in self.templates]
        return list(zip((namespaces[number] for number in self.template.tolist()), self.names, strict=True))

    def keys(self) -> list[str]:
        """Return ``namespace/name`` of every pod, in order."""
        prefixes = [f"{pod.metadata.namespace}/" for pod in self.templates]
        return [prefixes[number] + name for number, name in zip(self.template.tolist(), self.names, strict=True)]

    def find_rows(self, predicate: Callable[[Pod], bool]) -> npt.NDArray[np.int64]:
        """Return the rows of the pods whose template satisfies the predicate."""
        chosen = np.array([predicate(pod) for pod in self.templates], np.bool_)
        return np.flatnonzero(chosen[self.template])

    def iter_unbound(self) -> Iterator[Pod]:
        """Yield the pods without a node. No other pod is built."""
        names = np.array([not name for name in self.node.values], np.bool_)
        return (self[row] for row in np.flatnonzero(names[self.node.codes]).tolist())

    def take(self, rows: npt.NDArray[np.int64]) -> PodTable:
        """Return the table of some rows, in ascending order."""
        names = list(map(self.names.__getitem__, rows.tolist()))
        return PodTable(self.templates, self.template[rows], names, self.columns.take(rows))

    def filter_by_template(self, predicate: Callable[[Pod], bool]) -> PodTable:
        """Return the table of the pods whose template satisfies the predicate."""
        rows = self.find_rows(predicate)
        return self if len(rows) == len(self) else self.take(rows).drop_unused_templates()

    def drop_terminated(self) -> PodTable:
        """Return the table without terminated pods."""
        return self.filter_by_template(lambda template: not template.terminated)

    def select_terminated(self) -> PodTable:
        """Return the table of the terminated pods."""
        return self.filter_by_template(lambda template: template.terminated)

    def apply_changes(self, changes: Mapping[Key, Pod | None]) -> PodTable:
        """Return a table with pods added, replaced, or removed if their new value is None."""
        removed_rows = [row for key, pod in changes.items() if pod is None and (row := self.find_row(*key)) is not None]
        remaining = self._remove_rows(removed_rows) if removed_rows else self
        return remaining.add_or_replace(PodTable.from_pods(pod for pod in changes.values() if pod is not None))

    def add_or_replace(self, added: PodTable) -> PodTable:
        """Return a table with pods added, which replace pods of equal name."""
        if not len(added) or not len(self):
            return added if len(added) else self
        keys = added.list_keys()
        replaced_rows = [row for row in (self.find_row(*key) for key in keys) if row is not None]
        kept_rows = np.delete(np.arange(len(self)), replaced_rows)
        places = np.searchsorted(kept_rows, [self._find_insertion_row(*key) for key in keys])
        rows = np.insert(kept_rows, places, np.arange(len(self), len(self) + len(added)))
        return self._append(added).take(rows).drop_unused_templates()

    def _remove_rows(self, rows: list[int]) -> PodTable:
        """Return the table without some rows."""
        return self.take(np.delete(np.arange(len(self)), rows)).drop_unused_templates()

    def drop_unused_templates(self) -> PodTable:
        """Return the table without templates that no pod has."""
        used = np.bincount(self.template, minlength=len(self.templates)) > 0
        if used.all():
            return self
        return PodTable(
            tuple(template for template, kept in zip(self.templates, used.tolist(), strict=True) if kept),
            (np.cumsum(used) - 1).astype(np.int32)[self.template],
            self.names,
            self.columns,
        )

    def with_default_namespace(self, namespace: str) -> PodTable:
        """Return a table in which pods without a namespace get ``namespace`` and replace pods of equal name."""
        if all(template.metadata.namespace for template in self.templates):
            return self
        builder = PodTableBuilder()
        builder.add(pod if pod.metadata.namespace else _set_namespace(pod, namespace) for pod in self)
        return builder.build()

    def _append(self, other: PodTable) -> PodTable:
        """Append the rows of another table without sorting the result."""
        new: list[Pod] = []
        numbers = []
        for key, template in zip(other._template_numbers, other.templates, strict=True):
            number = self._template_numbers.get(key)
            if number is None:
                number = len(self.templates) + len(new)
                new.append(template)
            numbers.append(number)
        appended_templates = np.array(numbers, np.int32)[other.template]
        return PodTable(
            (*self.templates, *new),
            np.concatenate([self.template, appended_templates]),
            [*self.names, *other.names],
            PodTextColumns.concatenate([self.columns, other.columns]),
        )

    @cached_property
    def _template_numbers(self) -> dict[TemplateKey, int]:
        """The number of each template by its key."""
        return {_build_template_key(template): number for number, template in enumerate(self.templates)}

    @cached_property
    def _namespace_ranges(self) -> dict[str, tuple[int, int]]:
        """The first row of each namespace, and the row after its last."""
        code_by_namespace: dict[str, int] = {}
        codes = [code_by_namespace.setdefault(pod.metadata.namespace, len(code_by_namespace)) for pod in self.templates]
        rows = np.array(codes, np.int64)[self.template]
        starts = np.flatnonzero(np.diff(rows, prepend=-1)).tolist()
        names = list(code_by_namespace)
        return {names[rows[a]]: (a, b) for a, b in zip(starts, [*starts[1:], len(self)], strict=False)}

    def _find_insertion_row(self, namespace: str, name: str) -> int:
        """Return the row of the pod with this name, or the row before which the pod would be inserted."""
        if namespace in self._namespace_ranges:
            return bisect_left(self.names, name, *self._namespace_ranges[namespace])
        return min(
            (start for other, (start, _) in self._namespace_ranges.items() if other > namespace), default=len(self)
        )

    def find_row(self, namespace: str, name: str) -> int | None:
        """Return the row of the pod with this name, or None."""
        row, (_, stop) = self._find_insertion_row(namespace, name), self._namespace_ranges.get(namespace, (0, 0))
        return row if row < stop and self.names[row] == name else None

    def _build_pod(self, row: int) -> Pod:
        """Build the pod of a row from its template and its columns."""
        pod = self.templates[self.template[row]]
        meta = pod.metadata
        texts = PodTexts(*(column.text_of(row) for column in self.columns))
        made = PodMeta(
            self.names[row],
            meta.namespace,
            uid=texts.uid,
            labels=meta.labels,
            owner_references=meta.owner_references,
            creation_timestamp=texts.created or None,
            deletion_timestamp=meta.deletion_timestamp,
            generate_name=meta.generate_name,
            annotations=meta.annotations,
        )
        spec = replace(pod.spec, node_name=texts.node) if texts.node else pod.spec
        return Pod(made, spec, restore_status(pod.status, texts))


class PodRows(NamedTuple):
    """Lists with the data of P pods."""

    namespaces: list[str]
    names: list[str]
    template: list[int]
    """The number of each pod's template."""
    texts: PodTextLists
    """One list for each field of PodTexts."""

    @classmethod
    def empty(cls) -> PodRows:
        return cls([], [], [], [[] for _ in PodTexts._fields])


class PodTableBuilder:
    """A builder that collects pods into a PodTable without keeping the Pod objects."""

    def __init__(self) -> None:
        self._numbers: dict[TemplateKey, int] = {}
        self._shared: dict[bytes, bytes] = {}
        self._statuses: dict[bytes, PodStatus] = {}
        self._templates: list[Pod] = []
        self._namespaces: list[str] = []
        self._names: list[str] = []
        self._rows = PodRows.empty()
        self._template: list[Ints] = []
        self._columns: list[PodTextColumns] = []

    def add(self, pods: Iterable[Pod]) -> None:
        """Add pods."""
        rows = PodRows.empty()
        for pod in pods:
            rows.namespaces.append(pod.metadata.namespace)
            rows.names.append(pod.metadata.name)
            rows.template.append(self.intern_template(pod))
            for column, text in zip(rows.texts, PodTexts.from_pod(pod), strict=True):
                column.append(text)
        self.extend(rows)

    def intern_template(self, pod: Pod) -> int:
        """Return the number of the pod's template, storing the template if it is new."""
        metadata, spec, volumes, status_key = (self._shared.setdefault(part, part) for part in _build_template_key(pod))
        number = self._numbers.setdefault((metadata, spec, volumes, status_key), len(self._numbers))
        if number == len(self._templates):
            template = extract_template(pod)
            status = self._statuses.setdefault(digest(template.status), template.status)
            self._templates.append(Pod(template.metadata, template.spec, status))
        return number

    def extend(self, rows: PodRows) -> None:
        """Add pods whose templates already have numbers."""
        self._namespaces += rows.namespaces
        self._names += rows.names
        self._rows.template.extend(rows.template)
        for column, text in zip(self._rows.texts, rows.texts, strict=True):
            column.extend(text)
        if len(self._rows.template) >= ROWS_AT_ONCE:
            self._flush_rows()

    def build(self) -> PodTable:
        """Build the table, which ends the use of the builder. Of pods with equal names the last one counts."""
        self._flush_rows()
        # Release what is no longer needed at once, since the columns need the memory.
        self._numbers = {}
        self._shared = {}
        self._statuses = {}
        names = self._names
        columns = self._columns
        template = np.concatenate(self._template)
        rows = np.array(_sort_rows(self._namespaces, names), np.int64)
        self._namespaces = []
        self._names = []
        self._template = []
        self._columns = []
        return PodTable(
            tuple(self._templates),
            template[rows],
            list(map(names.__getitem__, rows.tolist())),
            PodTextColumns.take_from_parts(columns, rows),
        ).drop_unused_templates()

    def _flush_rows(self) -> None:
        """Turn the collected rows into columns, which take less memory."""
        rows = self._rows
        self._rows = PodRows.empty()
        self._template.append(np.array(rows.template, np.int32))
        self._columns.append(PodTextColumns.from_lists(rows.texts))


def _sort_rows(namespaces: Sequence[str], names: Sequence[str]) -> list[int]:
    """Return the rows sorted by namespace and name. Of equal rows the last is kept.

    >>> _sort_rows(["b", "a", "b", "a"], ["x", "y", "x", "w"])
    [3, 1, 2]
    """
    order = sorted(range(len(names)), key=names.__getitem__)
    order.sort(key=namespaces.__getitem__)
    neighbors = zip_longest(order, order[1:])
    return [a for a, b in neighbors if b is None or names[a] != names[b] or namespaces[a] != namespaces[b]]


def _set_namespace(pod: Pod, namespace: str) -> Pod:
    return Pod(replace(pod.metadata, namespace=namespace), pod.spec, pod.status)


def extract_template(pod: Pod) -> Pod:
    """Return the part of a pod that it shares with the other pods of its template and that scheduling reads."""
    meta, status = pod.metadata, pod.status
    return Pod(
        PodMeta(
            namespace=meta.namespace,
            labels=meta.labels,
            owner_references=meta.owner_references,
            deletion_timestamp=meta.deletion_timestamp,
            generate_name=meta.generate_name,
            annotations=meta.annotations,
        ),
        replace(pod.spec, node_name="", volumes=_keep_volumes_with_source(pod)),
        replace(without_states(status), start_time=None, message="", conditions=_keep_relevant_conditions(status)),
    )


def _build_template_key(pod: Pod) -> TemplateKey:
    """Return a key that is equal for pods of one template."""
    status_parts = (_status_fields(without_states(pod.status)), _keep_relevant_conditions(pod.status))
    parts = (
        (pod.metadata.namespace, _meta_fields(pod.metadata)),
        _spec_fields(pod.spec),
        _keep_volumes_with_source(pod),
        status_parts,
    )
    metadata, spec, volumes, status_key = map(digest, parts)
    return metadata, spec, volumes, status_key


def digest(parts: object) -> bytes:
    """Return bytes that are equal for equal values.

    >>> digest(["1"]) == digest(["1"]) != digest([10**30]) == digest([10**30])
    True
    """
    try:
        return _encode(parts)
    except OverflowError:  # an amount beyond 64 bits, which quantities may be
        return repr(parts).encode()


def _get_fields_except(struct: type[msgspec.Struct], *excluded: str) -> Callable[[object], object]:
    """Return a function that reads all fields of a struct except the excluded ones."""
    return attrgetter(*(name for name in struct.__struct_fields__ if name not in excluded))


_meta_fields = _get_fields_except(PodMeta, "name", "namespace", "uid", "creation_timestamp")
_spec_fields = _get_fields_except(PodSpec, "node_name", "volumes")
_status_fields = _get_fields_except(PodStatus, "start_time", "message", "conditions")
_volume_sources = _get_fields_except(Volume, "name")
_NO_SOURCE = _volume_sources(Volume())


def _keep_volumes_with_source(pod: Pod) -> tuple[Volume, ...]:
    """Return the volumes with a source that scheduling reads."""
    return tuple([volume for volume in pod.spec.volumes if _volume_sources(volume) != _NO_SOURCE])


def _keep_relevant_conditions(status: PodStatus) -> tuple[Condition, ...]:
    """Return the conditions that scheduling reads, without times. Of Ready only the status is kept."""
    return tuple(
        [
            _strip_condition(c)
            for c in status.conditions
            if c.type in KEPT_CONDITIONS and not _is_irrelevant_condition(c)
        ]
    )


def _is_irrelevant_condition(condition: Condition) -> bool:
    """Return whether the condition only reports that the pod was scheduled."""
    return condition.type == "PodScheduled" and condition.status == "True"


def _strip_condition(condition: Condition) -> Condition:
    """Return a condition without the texts that differ between pods."""
    if condition.type == "Ready":
        return Condition(condition.type, condition.status)
    message = "" if condition.type == "PodScheduled" else condition.message
    return Condition(condition.type, condition.status, condition.reason, message)


NO_PODS = PodTable.from_pods(())
