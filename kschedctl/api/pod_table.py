"""Many pods held compactly: what pods of one template share stands once, and each pod is a row of small columns."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, overload

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from kschedctl.api.columns import Ints, TextColumn, Texts, texts_column, times_column, uids_column
from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.objects import Condition, Pod, PodMeta, PodSpec, PodStatus, Volume

_encode = msgspec.msgpack.Encoder().encode

KEPT_CONDITIONS = frozenset({"Ready", "PodScheduled", "PodResizePending", "PodResizeInProgress", "DisruptionTarget"})
"""The types of a pod's conditions that scheduling, or advice about it, reads."""


class PodTable(Sequence[Pod]):
    """P pods sorted by namespace and name, of T templates; a Pod is made, once, when it is asked for.

    ``templates`` are Pods without name, UID, node and times; ``template`` (P,) says which of them a pod follows.
    Of a pod it keeps what scheduling reads: volumes that are no more than a name and most conditions are left out.
    """

    def __init__(
        self,
        templates: Sequence[Pod],
        template: Ints,
        *,
        names: Sequence[str],
        uids: TextColumn,
        node: Texts,
        created: TextColumn,
        started: TextColumn,
    ) -> None:
        self.templates, self.template = templates, template
        self.names, self.uids = names, uids
        self.node, self.created, self.started = node, created, started
        self._made: dict[int, Pod] = {}

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
        start, stop = self._ranges.get(namespace, (0, 0))
        row = bisect_left(self.names, name, start, stop)
        return self[row] if row < stop and self.names[row] == name else None

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
        chosen = rows.tolist()
        return PodTable(
            self.templates,
            self.template[rows],
            names=[self.names[row] for row in chosen],
            uids=self.uids.take(rows),
            node=self.node.take(rows),
            created=self.created.take(rows),
            started=self.started.take(rows),
        )

    def alive(self) -> PodTable:
        """The pods that have not ended."""
        rows = self.rows_where(lambda template: not template.terminated)
        return self if len(rows) == len(self) else self.take(rows)

    def with_changes(self, changes: Mapping[tuple[str, str], Pod | None]) -> PodTable:
        """The table with pods put in place of those of their (namespace, name), or taken out where it is None."""
        if not changes:
            return self
        builder = PodTableBuilder(self.take(np.array(self._others(changes), np.int64)))
        builder.add(pod for pod in changes.values() if pod is not None)
        return builder.build()

    def _others(self, keys: Mapping[tuple[str, str], object]) -> list[int]:
        rows = []
        for namespace, (start, stop) in self._ranges.items():
            changed = {name for in_namespace, name in keys if in_namespace == namespace}
            rows += (
                [row for row in range(start, stop) if self.names[row] not in changed]
                if changed
                else [*range(start, stop)]
            )
        return rows

    @cached_property
    def _ranges(self) -> dict[str, tuple[int, int]]:
        """Namespace -> its first row and the row after its last."""
        known: dict[str, int] = {}
        codes = [known.setdefault(pod.metadata.namespace, len(known)) for pod in self.templates]
        rows = np.array(codes, np.int64)[self.template]
        starts = np.flatnonzero(np.diff(rows, prepend=-1)).tolist()
        names = list(known)
        return {names[rows[a]]: (a, b) for a, b in zip(starts, [*starts[1:], len(self)], strict=False)}

    def _make(self, row: int) -> Pod:
        pod = self.templates[self.template[row]]
        meta, node, started = pod.metadata, self.node.of(row), self.started.of(row)
        made = PodMeta(
            self.names[row],
            meta.namespace,
            self.uids.of(row),
            meta.labels,
            meta.owner_references,
            self.created.of(row) or None,
            meta.deletion_timestamp,
            meta.generate_name,
        )
        spec = replace(pod.spec, node_name=node) if node else pod.spec
        return Pod(made, spec, replace(pod.status, start_time=started) if started else pod.status)


class PodTableBuilder:
    """Collects pods; each is given up as soon as its row is written."""

    def __init__(self, table: PodTable | None = None) -> None:
        self._known: dict[bytes, int] = {}
        self._templates: list[Pod] = []
        self._rows: list[tuple[int, str, str, str, str, str]] = []
        self._shared: dict[str, str] = {}
        if table is not None:
            self._continue(table)

    def add(self, pods: Iterable[Pod]) -> None:
        """Of two pods of the same name the later one counts."""
        known, shared = self._known, self._shared.setdefault
        for pod in pods:
            number = known.setdefault(_key(pod), len(known))
            if number == len(self._templates):
                self._templates.append(template_of(pod))
            meta, node = pod.metadata, pod.spec.node_name
            created, started = meta.creation_timestamp or "", pod.status.start_time or ""
            self._rows.append(
                (number, meta.name, meta.uid, shared(node, node), shared(created, created), shared(started, started))
            )

    def build(self) -> PodTable:
        """The table of all that was added."""
        namespaces = [pod.metadata.namespace for pod in self._templates]
        last = {(namespaces[row[0]], row[1]): row for row in self._rows}
        rows = [last[key] for key in sorted(last)]
        numbers, names, uids, node, created, started = list(zip(*rows, strict=True)) or [()] * 6
        return PodTable(
            tuple(self._templates),
            np.array(numbers, np.int32),
            names=names,
            uids=uids_column(uids),
            node=texts_column(node),
            created=times_column(created),
            started=times_column(started),
        )

    def _continue(self, table: PodTable) -> None:
        self._templates = list(table.templates)
        self._known = {_key(template): number for number, template in enumerate(self._templates)}
        columns = (column.texts() for column in (table.uids, table.node, table.created, table.started))
        self._rows = list(zip(table.template.tolist(), table.names, *columns, strict=True))


def template_of(pod: Pod) -> Pod:
    """What a pod shares with the others of its template, and that scheduling reads."""
    meta, status = pod.metadata, pod.status
    return Pod(
        PodMeta(
            namespace=meta.namespace or DEFAULT_NAMESPACE,
            labels=meta.labels,
            owner_references=meta.owner_references,
            deletion_timestamp=meta.deletion_timestamp,
            generate_name=meta.generate_name,
        ),
        replace(pod.spec, node_name="", volumes=_volumes(pod)),
        replace(status, start_time=None, conditions=_conditions(status)),
    )


def _key(pod: Pod) -> bytes:
    """Equal for pods of one template."""
    parts = (
        pod.metadata.namespace or DEFAULT_NAMESPACE,
        _meta_fields(pod.metadata),
        _spec_fields(pod.spec),
        _volumes(pod),
        _status_fields(pod.status),
        _conditions(pod.status),
    )
    return _encode(parts)


def _fields_but(struct: type[msgspec.Struct], *left_out: str) -> Callable[[Any], Any]:
    return attrgetter(*(name for name in struct.__struct_fields__ if name not in left_out))


_meta_fields = _fields_but(PodMeta, "name", "namespace", "uid", "creation_timestamp")
_spec_fields = _fields_but(PodSpec, "node_name", "volumes")
_status_fields = _fields_but(PodStatus, "start_time", "conditions")
_volume_sources = _fields_but(Volume, "name")
_NO_SOURCE = _volume_sources(Volume())


def _volumes(pod: Pod) -> tuple[Volume, ...]:
    return tuple([volume for volume in pod.spec.volumes if _volume_sources(volume) != _NO_SOURCE])


def _conditions(status: PodStatus) -> tuple[Condition, ...]:
    """Those that scheduling reads; of most only whether they hold."""
    return tuple([_condition(c) for c in status.conditions if c.type in KEPT_CONDITIONS and not _is_noise(c)])


def _is_noise(condition: Condition) -> bool:
    return condition.type == "PodScheduled" and condition.status == "True"


def _condition(condition: Condition) -> Condition:
    return Condition("Ready", condition.status) if condition.type == "Ready" else condition
