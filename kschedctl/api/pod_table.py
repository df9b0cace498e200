"""Many pods held compactly: what pods of one template share stands once, and each pod is a row of small columns."""

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
from kschedctl.api.pod_columns import OwnColumns, OwnTexts, with_texts

_encode = msgspec.msgpack.Encoder().encode

KEPT_CONDITIONS = frozenset({"Ready", "PodScheduled", "PodResizePending", "PodResizeInProgress", "DisruptionTarget"})
"""The types of a pod's conditions that scheduling, or advice about it, reads."""
ROWS_AT_ONCE = 4096
Key = tuple[str, str]
"""Namespace and name."""
TemplateKey = tuple[bytes, bytes, bytes, bytes]
"""Metadata, spec, volumes and status of a template, as far as pods share them."""
OwnTextLists = list[list[str]]
"""One list for each field of OwnTexts."""


class PodTable(Sequence[Pod]):
    """P pods sorted by namespace and name, of T templates; a Pod is made, once, when it is asked for.

    ``templates`` are Pods without name, UID, node, times and messages; ``template`` (P,) says which of them a pod
    follows, ``columns`` have the rest. The namespace is the one that a pod names, which may be none.
    Of a pod it keeps what scheduling reads: volumes that are no more than a name and most conditions are left out.
    """

    def __init__(self, templates: Sequence[Pod], template: Ints, names: Sequence[str], columns: OwnColumns) -> None:
        self.templates, self.template = templates, template
        self.names, self.columns = names, columns
        self._made: dict[int, Pod] = {}

    @property
    def uids(self) -> TextColumn:
        return self.columns.uids

    @property
    def node(self) -> InternedTexts:
        return self.columns.node

    @property
    def created(self) -> TextColumn:
        return self.columns.created

    @property
    def started(self) -> TextColumn:
        return self.columns.started

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> PodTable:
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
            self._made[row] = self._make(row)
        return self._made[row]

    def __iter__(self) -> Iterator[Pod]:
        return (self[row] for row in range(len(self)))

    def find(self, namespace: str, name: str) -> Pod | None:
        """The pod of that name, found without making the others."""
        row = self.row(namespace, name)
        return None if row is None else self[row]

    def names_in_full(self) -> list[Key]:
        """Namespace and name of every pod, in order."""
        namespaces = [pod.metadata.namespace for pod in self.templates]
        return list(zip((namespaces[number] for number in self.template.tolist()), self.names, strict=True))

    def keys(self) -> list[str]:
        """``namespace/name`` of every pod, in order."""
        prefixes = [f"{pod.metadata.namespace}/" for pod in self.templates]
        return [prefixes[number] + name for number, name in zip(self.template.tolist(), self.names, strict=True)]

    def rows_where(self, predicate: Callable[[Pod], bool]) -> npt.NDArray[np.int64]:
        """The rows of the pods for whose template the predicate holds."""
        chosen = np.array([predicate(pod) for pod in self.templates], np.bool_)
        return np.flatnonzero(chosen[self.template])

    def unbound(self) -> Iterator[Pod]:
        """The pods without a node, found without making the others."""
        names = np.array([not name for name in self.node.values], np.bool_)
        return (self[row] for row in np.flatnonzero(names[self.node.codes]).tolist())

    def take(self, rows: npt.NDArray[np.int64]) -> PodTable:
        """The pods of these rows, given in ascending order."""
        names = list(map(self.names.__getitem__, rows.tolist()))
        return PodTable(self.templates, self.template[rows], names, self.columns.take(rows))

    def where(self, predicate: Callable[[Pod], bool]) -> PodTable:
        """The pods for whose template the predicate holds."""
        rows = self.rows_where(predicate)
        return self if len(rows) == len(self) else self.take(rows).of_used_templates()

    def alive(self) -> PodTable:
        """The pods that have not ended."""
        return self.where(lambda template: not template.terminated)

    def ended(self) -> PodTable:
        """The pods that have ended."""
        return self.where(lambda template: template.terminated)

    def with_changes(self, changes: Mapping[Key, Pod | None]) -> PodTable:
        """The table with pods put in place of those of their (namespace, name), or taken out where it is None."""
        gone = [row for key, pod in changes.items() if pod is None and (row := self.row(*key)) is not None]
        kept = self._without(gone) if gone else self
        return kept.with_pods(PodTable.of(pod for pod in changes.values() if pod is not None))

    def with_pods(self, added: PodTable) -> PodTable:
        """The table with pods added, or put in place of those of their names."""
        if not len(added) or not len(self):
            return added if len(added) else self
        keys = added.names_in_full()
        kept = np.delete(np.arange(len(self)), [row for key in keys if (row := self.row(*key)) is not None])
        places = np.searchsorted(kept, [self._place(*key) for key in keys])
        rows = np.insert(kept, places, np.arange(len(self), len(self) + len(added)))
        return self._followed_by(added).take(rows).of_used_templates()

    def _without(self, rows: list[int]) -> PodTable:
        return self.take(np.delete(np.arange(len(self)), rows)).of_used_templates()

    def of_used_templates(self) -> PodTable:
        """The table less the templates that no pod follows."""
        used = np.bincount(self.template, minlength=len(self.templates)) > 0
        if used.all():
            return self
        return PodTable(
            tuple(template for template, kept in zip(self.templates, used.tolist(), strict=True) if kept),
            (np.cumsum(used) - 1).astype(np.int32)[self.template],
            self.names,
            self.columns,
        )

    def in_namespace(self, namespace: str) -> PodTable:
        """The table with the pods that name no namespace in this one; they count before others of their name."""
        if all(template.metadata.namespace for template in self.templates):
            return self
        builder = PodTableBuilder()
        builder.add(pod if pod.metadata.namespace else _placed(pod, namespace) for pod in self)
        return builder.build()

    def _followed_by(self, other: PodTable) -> PodTable:
        """The rows of both, of which those of the other are not in their place."""
        new: list[Pod] = []
        codes = []
        for key, template in zip(other._numbers, other.templates, strict=True):
            number = self._numbers.get(key, len(self.templates) + len(new))
            codes.append(number)
            new += [template] * (number == len(self.templates) + len(new))
        return PodTable(
            (*self.templates, *new),
            np.concatenate([self.template, np.array(codes, np.int32)[other.template]]),
            [*self.names, *other.names],
            OwnColumns.joined([self.columns, other.columns]),
        )

    @cached_property
    def _numbers(self) -> dict[TemplateKey, int]:
        """Template, in full -> its number."""
        return {_key(template): number for number, template in enumerate(self.templates)}

    @cached_property
    def _ranges(self) -> dict[str, tuple[int, int]]:
        """Namespace -> its first row and the row after its last."""
        known: dict[str, int] = {}
        codes = [known.setdefault(pod.metadata.namespace, len(known)) for pod in self.templates]
        rows = np.array(codes, np.int64)[self.template]
        starts = np.flatnonzero(np.diff(rows, prepend=-1)).tolist()
        names = list(known)
        return {names[rows[a]]: (a, b) for a, b in zip(starts, [*starts[1:], len(self)], strict=False)}

    def _place(self, namespace: str, name: str) -> int:
        """The row of the pod of that name, or that before which it would stand."""
        if namespace in self._ranges:
            return bisect_left(self.names, name, *self._ranges[namespace])
        return min((start for other, (start, _) in self._ranges.items() if other > namespace), default=len(self))

    def row(self, namespace: str, name: str) -> int | None:
        """The row of the pod of that name, if there is one."""
        row, (_, stop) = self._place(namespace, name), self._ranges.get(namespace, (0, 0))
        return row if row < stop and self.names[row] == name else None

    def _make(self, row: int) -> Pod:
        pod = self.templates[self.template[row]]
        meta, own = pod.metadata, OwnTexts(*(column.text_of(row) for column in self.columns))
        made = PodMeta(
            self.names[row],
            meta.namespace,
            own.uid,
            meta.labels,
            meta.owner_references,
            own.created or None,
            meta.deletion_timestamp,
            meta.generate_name,
            meta.annotations,
        )
        spec = replace(pod.spec, node_name=own.node) if own.node else pod.spec
        return Pod(made, spec, with_texts(pod.status, own))


class PodRows(NamedTuple):
    """P pods: namespaces and names, the numbers of the templates, and of each column of OwnTexts a list."""

    namespaces: list[str]
    names: list[str]
    template: list[int]
    texts: OwnTextLists

    @classmethod
    def none(cls) -> PodRows:
        return cls([], [], [], [[] for _ in OwnTexts._fields])


class PodTableBuilder:
    """Collects pods; each is given up as soon as its row is written."""

    def __init__(self) -> None:
        self._numbers: dict[TemplateKey, int] = {}
        self._shared: dict[bytes, bytes] = {}
        self._statuses: dict[bytes, PodStatus] = {}
        self._templates: list[Pod] = []
        self._namespaces: list[str] = []
        self._names: list[str] = []
        self._rows = PodRows.none()
        self._template: list[Ints] = []
        self._columns: list[OwnColumns] = []

    def add(self, pods: Iterable[Pod]) -> None:
        """Add pods as they are."""
        rows = PodRows.none()
        for pod in pods:
            rows.namespaces.append(pod.metadata.namespace)
            rows.names.append(pod.metadata.name)
            rows.template.append(self.template(pod))
            for column, text in zip(rows.texts, OwnTexts.of(pod), strict=True):
                column.append(text)
        self.extend(rows)

    def template(self, pod: Pod) -> int:
        """The number of the template that the pod follows."""
        metadata, spec, volumes, said = (self._shared.setdefault(part, part) for part in _key(pod))
        number = self._numbers.setdefault((metadata, spec, volumes, said), len(self._numbers))
        if number == len(self._templates):
            template = template_of(pod)
            status = self._statuses.setdefault(identity(template.status), template.status)
            self._templates.append(Pod(template.metadata, template.spec, status))
        return number

    def extend(self, rows: PodRows) -> None:
        """Add pods whose templates have their numbers already."""
        self._namespaces += rows.namespaces
        self._names += rows.names
        self._rows.template.extend(rows.template)
        for column, text in zip(self._rows.texts, rows.texts, strict=True):
            column.extend(text)
        if len(self._rows.template) >= ROWS_AT_ONCE:
            self._write()

    def build(self) -> PodTable:
        """The table of all that was added; of two pods of the same name the later one counts. No more can be added."""
        self._write()
        self._numbers, self._shared, self._statuses = {}, {}, {}  # the columns need the room
        names, template, columns = self._names, np.concatenate(self._template), self._columns
        rows = np.array(_in_order(self._namespaces, names), np.int64)
        self._namespaces, self._names, self._template, self._columns = [], [], [], []
        return PodTable(
            tuple(self._templates),
            template[rows],
            list(map(names.__getitem__, rows.tolist())),
            OwnColumns.taken(columns, rows),
        ).of_used_templates()

    def _write(self) -> None:
        """Turn the rows into columns, which are smaller."""
        rows, self._rows = self._rows, PodRows.none()
        self._template.append(np.array(rows.template, np.int32))
        self._columns.append(OwnColumns.of(rows.texts))


def _in_order(namespaces: Sequence[str], names: Sequence[str]) -> list[int]:
    """The rows by namespace and name, of those of the same the last.

    >>> _in_order(["b", "a", "b", "a"], ["x", "y", "x", "w"])
    [3, 1, 2]
    """
    order = sorted(range(len(names)), key=names.__getitem__)
    order.sort(key=namespaces.__getitem__)
    later = zip_longest(order, order[1:])
    return [a for a, b in later if b is None or names[a] != names[b] or namespaces[a] != namespaces[b]]


def _placed(pod: Pod, namespace: str) -> Pod:
    return Pod(replace(pod.metadata, namespace=namespace), pod.spec, pod.status)


def template_of(pod: Pod) -> Pod:
    """What a pod shares with the others of its template, and that scheduling reads."""
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
        replace(pod.spec, node_name="", volumes=_volumes(pod)),
        replace(without_states(status), start_time=None, message="", conditions=_conditions(status)),
    )


def _key(pod: Pod) -> TemplateKey:
    """Equal for pods of one template."""
    status = (_status_fields(without_states(pod.status)), _conditions(pod.status))
    parts = ((pod.metadata.namespace, _meta_fields(pod.metadata)), _spec_fields(pod.spec), _volumes(pod), status)
    metadata, spec, volumes, said = map(identity, parts)
    return metadata, spec, volumes, said


def identity(parts: object) -> bytes:
    """Equal for what is equal.

    >>> identity(["1"]) == identity(["1"]) != identity([10**30]) == identity([10**30])
    True
    """
    try:
        return _encode(parts)
    except OverflowError:  # an amount beyond 64 bits, which quantities may be
        return repr(parts).encode()


def _fields_but(struct: type[msgspec.Struct], *left_out: str) -> Callable[[object], object]:
    return attrgetter(*(name for name in struct.__struct_fields__ if name not in left_out))


_meta_fields = _fields_but(PodMeta, "name", "namespace", "uid", "creation_timestamp")
_spec_fields = _fields_but(PodSpec, "node_name", "volumes")
_status_fields = _fields_but(PodStatus, "start_time", "message", "conditions")
_volume_sources = _fields_but(Volume, "name")
_NO_SOURCE = _volume_sources(Volume())


def _volumes(pod: Pod) -> tuple[Volume, ...]:
    return tuple([volume for volume in pod.spec.volumes if _volume_sources(volume) != _NO_SOURCE])


def _conditions(status: PodStatus) -> tuple[Condition, ...]:
    """The conditions that scheduling reads, less their times; of Ready only whether it holds."""
    return tuple([_condition(c) for c in status.conditions if c.type in KEPT_CONDITIONS and not _is_noise(c)])


def _is_noise(condition: Condition) -> bool:
    return condition.type == "PodScheduled" and condition.status == "True"


def _condition(condition: Condition) -> Condition:
    if condition.type == "Ready":
        return Condition(condition.type, condition.status)
    message = "" if condition.type == "PodScheduled" else condition.message
    return Condition(condition.type, condition.status, condition.reason, message)


NO_PODS = PodTable.of(())
