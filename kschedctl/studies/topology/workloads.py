"""The workloads of a cluster whose pods could be apart, and their pods as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kschedctl.api.arrays import Counts, Ints, Rows
from kschedctl.api.ownership import Owner, controller_of, owner_of
from kschedctl.snapshot.fork import Fork

ALONE = frozenset({"DaemonSet", "Node", "Job"})
"""Whose pods are each for one node, or end."""
REPLICAS = 2


@dataclass(frozen=True)
class Workloads:
    """``owners``: W of them, with at least two pods on nodes that are not being deleted.

    Of the M pods of these: ``of`` (M,), whose each is, ``row`` (M,), on which node. ``pods`` (W,): how many there are.
    ``infos``: of each the numbers of its PodInfos, the most frequent first.
    """

    owners: tuple[Owner, ...]
    of: Rows
    row: Rows
    pods: Counts
    infos: tuple[tuple[int, ...], ...]

    @classmethod
    def of_view(cls, view: Fork) -> Workloads:
        """Those of a view, in order of kind, namespace and name."""
        owner = _owners(view)
        names = sorted({each for each in owner if each is not None})
        numbers = {each: number for number, each in enumerate(names)}
        code = np.array([-1 if each is None else numbers[each] for each in owner], np.int64)
        placed = np.flatnonzero((view.node >= 0) & (code[view.pods.info] >= 0))
        of = code[view.pods.info[placed]]
        enough = np.bincount(of, minlength=len(names)) >= REPLICAS
        placed, kept = placed[enough[of]], np.cumsum(enough) - 1
        of = kept[code[view.pods.info[placed]]]
        return cls(
            tuple(each for each, chosen in zip(names, enough.tolist(), strict=True) if chosen),
            of,
            view.node[placed].astype(np.int64),
            np.bincount(of, minlength=int(enough.sum())),
            _infos(view.pods.info[placed], of, int(enough.sum())),
        )

    def __len__(self) -> int:
        return len(self.owners)


def _owners(view: Fork) -> list[Owner | None]:
    """Of each info whose pods are a workload's."""
    found: list[Owner | None] = []
    for info in view.pods.infos:
        controller = controller_of(info.pod.metadata)
        apart = controller is not None and controller.kind not in ALONE and not info.terminating
        found.append(owner_of(info.pod) if apart else None)
    return found


def _infos(info: Ints, of: Rows, workloads: int) -> tuple[tuple[int, ...], ...]:
    numbers, first, counts = np.unique(info, return_index=True, return_counts=True)
    found: list[list[int]] = [[] for _ in range(workloads)]
    for position in np.argsort(-counts, kind="stable").tolist():
        found[of[first[position]]].append(int(numbers[position]))
    return tuple(map(tuple, found))
