"""The pods of a snapshot as columns. Pods that are alike in all that scheduling reads share one PodInfo."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import cast, overload

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Ints, Position
from kschedctl.api.columns import nanoseconds_of, texts_column
from kschedctl.api.labels import Selector
from kschedctl.api.objects import Pod
from kschedctl.api.pod_requests import Options
from kschedctl.api.pod_table import PodTable
from kschedctl.snapshot.interning import Interner
from kschedctl.snapshot.pod_info import AffinityTerm, PodInfo
from kschedctl.snapshot.pod_infos import PodInfos

FEW_INFOS = 64


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
        position = range(len(self))[position]
        return self.pods[position if position < len(self.pods) else self.position]

    @property
    def sources(self) -> npt.NDArray[np.int64]:
        """(P,): which of the ``pods`` each is."""
        return np.append(np.arange(len(self.pods)), np.full(self.times, self.position))


class PodColumns:
    """P pods with T distinct PodInfos among them.

    ``info`` (P,): the number of each pod's info among the ``distinct`` ones.
    """

    def __init__(self, objects: Sequence[Pod], info: Ints, distinct: PodInfos) -> None:
        self.objects, self.info, self.distinct = objects, info, distinct

    @classmethod
    def of(cls, pods: Sequence[Pod], stored: Callable[[Pod], Pod], options: Options) -> PodColumns:
        """Of the pods that have not ended."""
        alive = pods.alive() if isinstance(pods, PodTable) else [pod for pod in pods if not pod.terminated]
        interner = Interner(stored, options)
        info = interner.numbers(alive)
        return cls(alive, info, PodInfos(interner.infos))

    def __len__(self) -> int:
        return len(self.objects)

    def rows(self, index: Mapping[str, int]) -> Ints:
        """(P,): the row of the node that each pod is bound to, by the rows of the nodes' names; -1 for none."""
        if isinstance(self.objects, PodTable):
            column = self.objects.node
            return np.array([index.get(name, -1) for name in column.values], np.int32)[column.codes]
        return np.array([index.get(pod.spec.node_name, -1) for pod in self.objects], np.int32)

    def with_more(self, position: int, count: int) -> PodColumns:
        """These, and so many more like the one at a position, under its name."""
        info = np.append(self.info, np.full(count, self.info[position], np.int32))
        return PodColumns(Repeated(self.objects, position, count), info, self.distinct)

    @cached_property
    def index(self) -> dict[str, Position]:
        """Position by ``namespace/name``."""
        pods = self.objects
        keys = pods.keys() if isinstance(pods, PodTable) else [p.key for p in pods]
        return cast(dict[str, Position], {key: i for i, key in enumerate(keys)})

    @cached_property
    def start(self) -> npt.NDArray[np.int64]:
        """(P,): when each pod started, in nanoseconds since 1970; NO_TIME for one that has not. Raises InputError."""
        return _starts(self.objects)

    @cached_property
    def nominations(self) -> list[int]:
        """The positions of the pods of which the status names a node that was nominated for them."""
        if isinstance(self.objects, PodTable):
            rows = self.objects.rows_where(lambda template: bool(template.status.nominated_node_name))
            return [int(row) for row in rows]
        return [i for i, pod in enumerate(self.objects) if pod.status.nominated_node_name]

    def with_infos(self, selected: Bools) -> npt.NDArray[np.int64]:
        """The positions of the pods of the infos selected (T,), in any order."""
        numbers = np.flatnonzero(selected)
        if len(numbers) > FEW_INFOS:
            return np.flatnonzero(selected[self.info])
        order, starts = self._by_info
        return np.concatenate(
            [order[starts[number] : starts[number + 1]] for number in numbers.tolist()] or [order[:0]]
        )

    @cached_property
    def _by_info(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The positions of all pods sorted by info, and where each info's begin."""
        order = np.argsort(self.info, kind="stable")
        return order, np.searchsorted(self.info[order], np.arange(len(self.infos) + 1))

    # -- of the distinct infos, (T,) -----------------------------------------------------------------------------

    @property
    def infos(self) -> Sequence[PodInfo]:
        return self.distinct.infos

    @property
    def priority(self) -> npt.NDArray[np.int64]:
        return self.distinct.priority

    @property
    def terminating(self) -> Bools:
        return self.distinct.terminating

    @property
    def labelled(self) -> Bools:
        return self.distinct.labelled

    def where(self, predicate: Callable[[PodInfo], bool]) -> Bools:
        return self.distinct.where(predicate)

    def matching(self, selector: Selector, namespaces: frozenset[str] | None) -> Bools:
        return self.distinct.matching(selector, namespaces)

    def affinity_terms(self, of: str, namespace: str) -> list[tuple[AffinityTerm, int]]:
        return self.distinct.affinity_terms(of, namespace)


def _starts(pods: Sequence[Pod]) -> npt.NDArray[np.int64]:
    if isinstance(pods, Repeated):
        return _starts(pods.pods)[pods.sources]
    column = pods.started if isinstance(pods, PodTable) else texts_column(p.status.start_time or "" for p in pods)
    return nanoseconds_of(column, lambda row: f"Pod {pods[row].key}, status.startTime")
