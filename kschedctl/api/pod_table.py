"""A compact table of many pods: each distinct template is stored once, each pod is a row of small columns."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress, zip_longest
from operator import attrgetter
from typing import NamedTuple, overload

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from kschedctl.api.arrays import Ints, Rows
from kschedctl.api.columns import InternedTexts, TextColumn, TimeColumn
from kschedctl.api.container_states import without_container_states
from kschedctl.api.gangs import GangKey, find_gangs
from kschedctl.api.objects import Condition, Pod, PodMeta, PodSpec, PodStatus, Volume
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.api.pod_columns import PodTextColumns, PodTexts, restore_pod_status

_encode = msgspec.msgpack.Encoder().encode

KEPT_CONDITIONS = frozenset({"Ready", "PodScheduled", "PodResizePending", "PodResizeInProgress", "DisruptionTarget"})
"""The condition types that scheduling or advice about it reads."""
ROWS_AT_ONCE = 4096
"""The number of rows that are collected before they are turned into columns."""
Key = tuple[str, str]
"""Namespace and name."""
TemplateKey = tuple[bytes, bytes, bytes, bytes]
"""Digests of a template's metadata, spec, volumes and status, limited to what pods share."""
TemplateNumbers = dict[str, dict[TemplateKey, int]]
"""Namespace -> the number of each of its templates by key."""
PodTextLists = list[list[str]]
"""One list for each field of PodTexts."""


class PodTable(Sequence[Pod]):
    """P pods of T templates, sorted by namespace and name. A Pod is built only on its first access.

    ``templates`` are Pods without name, UID, node, times and messages. ``template``, shape (P,), holds the template of
    each pod, and ``columns`` hold everything else. The namespace is empty if a manifest names none. The table stores
    only what scheduling reads: most conditions and volumes without a source are dropped.
    """

    def __init__(
        self,
        templates: Sequence[Pod],
        template: Ints,
        names: Sequence[str],
        columns: PodTextColumns,
        template_numbers: TemplateNumbers | None = None,
    ) -> None:
        """Store the columns. `template_numbers` are those that were computed for a table with the same templates."""
        self.templates = templates
        self.template = template
        self.names = names
        self.columns = columns
        self._template_numbers = {} if template_numbers is None else template_numbers
        self._built_pods: dict[int, Pod] = {}

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
        """Build a table of pods, or return the pods if they are a table already."""
        if isinstance(pods, cls):
            return pods
        builder = PodTableBuilder()
        builder.add_pods(pods)
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
        if row not in self._built_pods:
            self._built_pods[row] = self._build_pod_of_row(row)
        return self._built_pods[row]

    def __iter__(self) -> Iterator[Pod]:
        return (self[row] for row in range(len(self)))

    def find(self, namespace: str, name: str) -> Pod | None:
        """Return the pod with this name, or None. No other pod is built."""
        row = self.find_row(namespace, name)
        return None if row is None else self[row]

    def find_named(self, name: str) -> list[Pod]:
        """Return the pods with this name in all namespaces. No other pod is built."""
        pods = (self.find(namespace, name) for namespace in self._row_range_by_namespace)
        return [pod for pod in pods if pod is not None]

    def list_keys(self) -> list[Key]:
        """Return namespace and name of every pod, in order."""
        namespaces = [pod.metadata.namespace for pod in self.templates]
        return list(zip((namespaces[number] for number in self.template.tolist()), self.names, strict=True))

    def get_key(self, row: int) -> str:
        """Return ``namespace/name`` of the pod at a row, which is not built."""
        return f"{self.get_template(row).metadata.namespace}/{self.names[row]}"

    def get_template(self, row: int) -> Pod:
        """Return the template of the pod at a row."""
        return self.templates[int(self.template[row])]

    def keys(self) -> list[str]:
        """Return ``namespace/name`` of every pod, in order."""
        prefixes = [f"{pod.metadata.namespace}/" for pod in self.templates]
        return [prefixes[number] + name for number, name in zip(self.template.tolist(), self.names, strict=True)]

    def find_rows(self, predicate: Callable[[Pod], bool]) -> npt.NDArray[np.int64]:
        """Return the rows of the pods whose template satisfies the predicate, in ascending order."""
        is_selected = np.array([predicate(template) for template in self.templates], np.bool_)
        return np.flatnonzero(is_selected[self.template])

    def iter_unbound_pods(self) -> Iterator[Pod]:
        """Yield the pods without a node. No other pod is built."""
        is_unbound = np.array([not name for name in self.node.values], np.bool_)
        return (self[row] for row in np.flatnonzero(is_unbound[self.node.codes]).tolist())

    def take(self, rows: npt.NDArray[np.int64]) -> PodTable:
        """Return the table of some rows, which have to be in ascending order. Unused templates are kept."""
        names = list(map(self.names.__getitem__, rows.tolist()))
        return PodTable(self.templates, self.template[rows], names, self.columns.take(rows), self._template_numbers)

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
        """Return a table with pods added, replaced or removed.

        ``changes`` has the new pod for each key, or None to remove a pod.
        """
        removed_keys = [key for key, pod in changes.items() if pod is None]
        removed_rows = [row for row in (self.find_row(*key) for key in removed_keys) if row is not None]
        remaining = self._remove_rows(removed_rows) if removed_rows else self
        return remaining.add_or_replace(PodTable.from_pods(pod for pod in changes.values() if pod is not None))

    def add_or_replace(self, added: PodTable) -> PodTable:
        """Return a table with pods added. An added pod replaces the pod of the same name."""
        if not len(added):
            return self
        if not len(self):
            return added
        keys = added.list_keys()
        replaced_rows = [row for row in (self.find_row(*key) for key in keys) if row is not None]
        remaining_rows = np.delete(np.arange(len(self)), replaced_rows)
        insertion_points = np.searchsorted(remaining_rows, [self._find_insertion_row(*key) for key in keys])
        # In the appended table, the added pods follow after all rows of this table.
        added_rows = np.arange(len(self), len(self) + len(added))
        rows = np.insert(remaining_rows, insertion_points, added_rows)
        return self._with_appended_rows(added).take(rows).drop_unused_templates()

    def _remove_rows(self, rows: list[int]) -> PodTable:
        """Return the table without some rows."""
        return self.take(np.delete(np.arange(len(self)), rows)).drop_unused_templates()

    def drop_unused_templates(self) -> PodTable:
        """Return the table without the templates that no pod uses."""
        is_used = np.bincount(self.template, minlength=len(self.templates)) > 0
        if is_used.all():
            return self
        new_numbers = (np.cumsum(is_used) - 1).astype(np.int32)  # of used templates, by old number
        template_numbers = {
            namespace: {key: int(new_numbers[number]) for key, number in numbers.items() if is_used[number]}
            for namespace, numbers in self._template_numbers.items()
        }
        return PodTable(
            tuple(compress(self.templates, is_used.tolist())),
            new_numbers[self.template],
            self.names,
            self.columns,
            template_numbers,
        )

    def with_default_namespace(self, namespace: str) -> PodTable:
        """Return a table in which pods without a namespace get ``namespace``.

        If a pod of the same name is in this namespace already, only that pod is kept.
        """
        if all(template.metadata.namespace for template in self.templates):
            return self
        builder = PodTableBuilder()
        builder.add_pods(pod if pod.metadata.namespace else _set_namespace(pod, namespace) for pod in self)
        return builder.build()

    def _with_appended_rows(self, other: PodTable) -> PodTable:
        """Return a table with the rows of this table and then of another one, without sorting them."""
        # Number the other table's templates as in the result, where equal templates are shared.
        template_numbers = dict(self._template_numbers)
        for namespace in {template.metadata.namespace for template in other.templates}:
            template_numbers[namespace] = dict(self._number_templates(namespace))
        added_templates: list[Pod] = []
        new_number_of_template: list[int] = []
        for template in other.templates:
            next_number = len(self.templates) + len(added_templates)
            numbers = template_numbers[template.metadata.namespace]
            number = numbers.setdefault(_build_template_key(template), next_number)
            is_new_template = number == next_number
            if is_new_template:
                added_templates.append(template)
            new_number_of_template.append(number)
        template_of_appended_row = np.array(new_number_of_template, np.int32)[other.template]

        return PodTable(
            (*self.templates, *added_templates),
            np.concatenate([self.template, template_of_appended_row]),
            [*self.names, *other.names],
            PodTextColumns.concatenate([self.columns, other.columns]),
            template_numbers,
        )

    @cached_property
    def running_counts(self) -> Mapping[Owner, int]:
        """The number of placed pods of each workload, without terminated and terminating pods.

        Bare pods are not counted one by one, because templates lack their names. The bare pods of a namespace are
        counted under an owner with an empty name.
        """
        has_node = np.array([bool(name) for name in self.node.values], np.bool_)[self.node.codes]
        placed_counts = np.bincount(self.template[has_node], minlength=len(self.templates)).tolist()
        running_counts: Counter[Owner] = Counter()
        # Pods with a controller have the same owner if their templates are equal, so one look per template suffices
        for template, placed_count in zip(self.templates, placed_counts, strict=True):
            if placed_count and not template.terminated and template.metadata.deletion_timestamp is None:
                running_counts[find_owner(template)] += placed_count
        return running_counts

    @cached_property
    def pods_by_owner(self) -> Mapping[Owner, PodSelection]:
        """The pods of each workload, without terminated pods."""
        owners = [None if template.terminated else find_owner(template) for template in self.templates]
        rows_by_owner: dict[Owner, list[int]] = {}
        for row, number in enumerate(self.template.tolist()):
            owner = owners[number]
            if owner is None:
                continue
            if owner.kind == "Pod":  # the template of a bare pod has no name
                owner = owner._replace(name=self.names[row])
            rows_by_owner.setdefault(owner, []).append(row)
        return {owner: PodSelection(self, rows) for owner, rows in rows_by_owner.items()}

    @cached_property
    def templates_by_gang(self) -> Mapping[GangKey, list[int]]:
        """The numbers of the templates of each gang, in ascending order."""
        templates_by_gang: dict[GangKey, list[int]] = {}
        for number, template in enumerate(self.templates):
            for key in find_gangs(template):
                templates_by_gang.setdefault(key, []).append(number)
        return templates_by_gang

    def _number_templates(self, namespace: str) -> dict[TemplateKey, int]:
        """Return the number of each template of a namespace by its key, computing it once.

        Tables that are derived from this one get the numbers, too.
        """
        if namespace not in self._template_numbers:
            self._template_numbers[namespace] = {
                _build_template_key(template): number
                for number, template in enumerate(self.templates)
                if template.metadata.namespace == namespace
            }
        return self._template_numbers[namespace]

    @cached_property
    def _row_range_by_namespace(self) -> dict[str, tuple[int, int]]:
        """The first row of each namespace and the row after its last."""
        code_by_namespace: dict[str, int] = {}
        code_of_template = [
            code_by_namespace.setdefault(template.metadata.namespace, len(code_by_namespace))
            for template in self.templates
        ]
        row_codes = np.array(code_of_template, np.int64)[self.template]
        # Rows are sorted by namespace, so a range starts wherever the code changes
        starts = np.flatnonzero(np.diff(row_codes, prepend=-1)).tolist()
        stops = [*starts[1:], len(self)]
        namespaces = list(code_by_namespace)
        return {namespaces[row_codes[start]]: (start, stop) for start, stop in zip(starts, stops, strict=False)}

    def _find_insertion_row(self, namespace: str, name: str) -> int:
        """Return the row of the pod with this name, or the row before which the pod would be inserted."""
        if namespace in self._row_range_by_namespace:
            start, stop = self._row_range_by_namespace[namespace]
            return bisect_left(self.names, name, start, stop)
        later_starts = [start for other, (start, _) in self._row_range_by_namespace.items() if other > namespace]
        return min(later_starts, default=len(self))

    def find_row(self, namespace: str, name: str) -> int | None:
        """Return the row of the pod with this name, or None."""
        row = self._find_insertion_row(namespace, name)
        _, stop = self._row_range_by_namespace.get(namespace, (0, 0))
        return row if row < stop and self.names[row] == name else None

    def _build_pod_of_row(self, row: int) -> Pod:
        """Build the pod of a row from its template and its columns."""
        pod = self.templates[self.template[row]]
        meta = pod.metadata
        texts = PodTexts(*(column.get_text(row) for column in self.columns))
        pod_meta = PodMeta(
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
        return Pod(pod_meta, spec, restore_pod_status(pod.status, texts))


class PodSelection(Sequence[Pod]):
    """Some pods of a table, in its order. A Pod is built only on its first access."""

    def __init__(self, table: PodTable, rows: Sequence[int]) -> None:
        self._table = table
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Pod: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Pod, ...]: ...
    def __getitem__(self, index: int | slice) -> Pod | tuple[Pod, ...]:
        if isinstance(index, slice):
            return tuple(self._table[row] for row in self._rows[index])
        return self._table[self._rows[index]]

    def select(self, predicate: Callable[[Pod], bool]) -> PodSelection:
        """Return the pods whose template satisfies the predicate. No pod is built."""
        return PodSelection(self._table, [row for row in self._rows if predicate(self._table.get_template(row))])

    def list_distinct_templates(self) -> list[Pod]:
        """Return the distinct templates of the pods. No pod is built."""
        return list({id(template): template for template in map(self._table.get_template, self._rows)}.values())

    def list_node_names(self) -> list[str]:
        """Return the name of each pod's node, "" for an unbound pod. No pod is built."""
        return [self._table.node.get_text(row) for row in self._rows]

    def find_newest(self) -> Pod:
        """Return the pod that was created last, or the first of several that were. No other pod is built."""
        created = self._table.created
        get_time = created.seconds.__getitem__ if isinstance(created, TimeColumn) else created.get_text
        return self._table[max(self._rows, key=get_time)]


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
        """Return rows of no pods, to which rows can be added."""
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
        self.conflicts: list[tuple[str, str]] = []
        """Namespace and name of each pod that was added more than once, with different contents. Filled by `build`."""

    def add_pods(self, pods: Iterable[Pod]) -> None:
        """Add pods as rows, and register their templates."""
        rows = PodRows.empty()
        for pod in pods:
            rows.namespaces.append(pod.metadata.namespace)
            rows.names.append(pod.metadata.name)
            rows.template.append(self.intern_template(pod))
            for column, text in zip(rows.texts, PodTexts.from_pod(pod), strict=True):
                column.append(text)
        self.add_rows(rows)

    def intern_template(self, pod: Pod) -> int:
        """Return the number of the pod's template, storing the template if it is new."""
        metadata, spec, volumes, status_key = (self._shared.setdefault(part, part) for part in _build_template_key(pod))
        number = self._numbers.setdefault((metadata, spec, volumes, status_key), len(self._numbers))
        is_new = number == len(self._templates)
        if is_new:
            template = extract_pod_template(pod)
            status = self._statuses.setdefault(build_value_key(template.status), template.status)
            self._templates.append(Pod(template.metadata, template.spec, status))
        return number

    def add_rows(self, rows: PodRows) -> None:
        """Add rows for pods whose templates already have numbers.

        Once a batch of rows is full, the rows are converted to columns.
        """
        self._namespaces += rows.namespaces
        self._names += rows.names
        self._rows.template.extend(rows.template)
        for column, text in zip(self._rows.texts, rows.texts, strict=True):
            column.extend(text)
        if len(self._rows.template) >= ROWS_AT_ONCE:
            self._convert_rows_to_columns()

    def build(self) -> PodTable:
        """Build the table and empty the builder, which cannot be used again.

        Of several pods with the same name, only the last is kept.
        """
        self._convert_rows_to_columns()
        # Release what is no longer needed at once, since the columns need the memory.
        self._numbers = {}
        self._shared = {}
        self._statuses = {}
        names = self._names
        template = np.concatenate(self._template)
        rows = np.array(_sort_and_deduplicate_rows(self._namespaces, names), np.int64)
        if len(rows) < len(names):
            self.conflicts = self._find_conflicts(rows, template)
        columns = self._columns
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

    def _find_conflicts(self, kept_rows: Rows, template: Ints) -> list[tuple[str, str]]:
        """Return the namespace and name of the pods of which a row that is not kept differs from the kept one.

        `template` has the template's number for each row. A stored pod, which has a UID, may be changed by a manifest
        without one: they do not conflict.
        """
        kept_row_by_key = {(self._namespaces[row], self._names[row]): row for row in kept_rows.tolist()}
        is_dropped = np.ones(len(self._names), np.bool_)
        is_dropped[kept_rows] = False
        conflicts: dict[tuple[str, str], None] = {}
        for row in np.flatnonzero(is_dropped).tolist():
            key = (self._namespaces[row], self._names[row])
            kept_row = kept_row_by_key[key]
            texts, kept_texts = self._get_texts(row), self._get_texts(kept_row)
            is_changed_by_manifest = bool(texts.uid) != bool(kept_texts.uid)
            if (template[row] != template[kept_row] or texts != kept_texts) and not is_changed_by_manifest:
                conflicts[key] = None
        return list(conflicts)

    def _get_texts(self, row: int) -> PodTexts:
        """Return the texts in the columns of a row."""
        for columns in self._columns:
            if row < len(columns.node.codes):
                return PodTexts(*(column.get_text(row) for column in columns))
            row -= len(columns.node.codes)
        raise IndexError(row)

    def _convert_rows_to_columns(self) -> None:
        """Convert the rows collected so far to columns, which take less memory."""
        rows = self._rows
        self._rows = PodRows.empty()
        self._template.append(np.array(rows.template, np.int32))
        self._columns.append(PodTextColumns.from_lists(rows.texts))


def _sort_and_deduplicate_rows(namespaces: Sequence[str], names: Sequence[str]) -> list[int]:
    """Return the row numbers sorted by namespace and name. Of rows with equal names, only the last is kept.

    >>> _sort_and_deduplicate_rows(["b", "a", "b", "a"], ["x", "y", "x", "w"])
    [3, 1, 2]
    """
    order = sorted(range(len(names)), key=names.__getitem__)
    order.sort(key=namespaces.__getitem__)
    # Sorting is stable, so the last of equal rows is followed by a different row.
    last_rows = []
    for row, next_row in zip_longest(order, order[1:]):
        is_repeated = next_row is not None and names[row] == names[next_row] and namespaces[row] == namespaces[next_row]
        if not is_repeated:
            last_rows.append(row)
    return last_rows


def _set_namespace(pod: Pod, namespace: str) -> Pod:
    """Return the pod with this namespace."""
    return Pod(replace(pod.metadata, namespace=namespace), pod.spec, pod.status)


def extract_pod_template(pod: Pod) -> Pod:
    """Return a pod with only the fields that scheduling reads and that similar pods share.

    The name, UID, node, and creation and start times are left out, but the deletion time is kept. Of the volumes and
    the status, only the relevant parts are kept.
    """
    meta = pod.metadata
    status = pod.status
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
        replace(
            without_container_states(status), start_time=None, message="", conditions=_keep_relevant_conditions(status)
        ),
    )


def _build_template_key(pod: Pod) -> TemplateKey:
    """Return a key that is equal for two pods if they can share a template.

    The key covers the fields that a template has, so it ignores names, UIDs, times, nodes and the states of containers.
    """
    status_parts = (_status_fields(without_container_states(pod.status)), _keep_relevant_conditions(pod.status))
    parts = (
        (pod.metadata.namespace, _meta_fields(pod.metadata)),
        _spec_fields(pod.spec),
        _keep_volumes_with_source(pod),
        status_parts,
    )
    metadata, spec, volumes, status_key = map(build_value_key, parts)
    return metadata, spec, volumes, status_key


def build_value_key(parts: object) -> bytes:
    """Return bytes that are equal for equal values, for use as a key.

    >>> build_value_key(["1"]) == build_value_key(["1"]) != build_value_key([10**30]) == build_value_key([10**30])
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
    """Return the conditions that scheduling or advice reads, without the times and texts specific to one pod."""
    relevant = []
    for condition in status.conditions:
        if condition.type in KEPT_CONDITIONS and not _says_pod_is_scheduled(condition):
            relevant.append(_strip_pod_specific_texts(condition))
    return tuple(relevant)


def _says_pod_is_scheduled(condition: Condition) -> bool:
    """Return whether the condition only says that the pod was scheduled, which spec.nodeName says as well."""
    return condition.type == "PodScheduled" and condition.status == "True"


def _strip_pod_specific_texts(condition: Condition) -> Condition:
    """Return a condition without the texts that differ between pods."""
    if condition.type == "Ready":
        return Condition(condition.type, condition.status)
    message = "" if condition.type == "PodScheduled" else condition.message
    return Condition(condition.type, condition.status, condition.reason, message)


NO_PODS = PodTable.from_pods(())
