"""Which pods to search a node for, where none is named: those that wait, else the most frequent ones that run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner, controller_of, owner_of
from kschedctl.api.workloads import made_again
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.controllers.stand_in import StandIn
from kschedctl.studies.controllers.workload_pods import is_waiting

PINNED = frozenset({"DaemonSet", "Node"})
"""Whose pods are each for one node."""


class PodKind(NamedTuple):
    """A pod as its controller would make it once more, and how many pods its workload has."""

    scheduler: Scheduler
    pod: Pod
    workload: str
    pods: int = 1


def named_kinds(asked: Iterable[StandIn]) -> list[PodKind]:
    """Of pods that are asked about, or that stand for workloads."""
    return [PodKind(each.scheduler, made_again(each.pod), str(owner_of(each.pod))) for each in asked]


def usual_kinds(scheduler: Scheduler, most: int, namespace: str | None = None) -> Iterator[tuple[str, list[PodKind]]]:
    """``pending``, then ``running``, and the most frequent kinds of these pods, one of each workload.

    Of pods that a profile serves, and that are not each for a node of its own.
    """
    for asked, pods in (("pending", _waiting), ("running", _running)):
        mine = ((pod, count) for pod, count in pods(scheduler) if namespace in (None, pod.metadata.namespace))
        yield asked, _by_workload(scheduler, mine, most)


def _waiting(scheduler: Scheduler) -> Iterator[tuple[Pod, int]]:
    """One pod of each info, and how many wait that are not gated; pods alike share an info."""
    columns = scheduler.view.pods
    alike: dict[int, list[Pod]] = {}
    for pod in filter(is_waiting, scheduler.cluster.unbound_pods()):
        if pod.spec.scheduling_gates:
            continue
        alike.setdefault(int(columns.info[columns.index[pod.key]]), []).append(pod)
    return ((pods[0], len(pods)) for pods in alike.values())


def _running(scheduler: Scheduler) -> Iterator[tuple[Pod, int]]:
    """The same of the pods that have a node."""
    columns, view = scheduler.view.pods, scheduler.view
    placed = columns.info[view.node >= 0]
    numbers, first, counts = np.unique(placed, return_index=True, return_counts=True)
    positions = np.flatnonzero(view.node >= 0)[first]
    for number, position, count in zip(numbers.tolist(), positions.tolist(), counts.tolist(), strict=True):
        if not columns.infos[number].terminating:
            yield columns.objects[position], count


def _by_workload(scheduler: Scheduler, pods: Iterable[tuple[Pod, int]], most: int) -> list[PodKind]:
    firsts: dict[Owner, Pod] = {}
    counts: dict[Owner, int] = {}
    for pod, count in pods:
        controller = controller_of(pod.metadata)
        pinned = controller is not None and controller.kind in PINNED
        stored = scheduler.view.stored(pod)
        if not pinned and stored.spec.scheduler_name in scheduler.configuration.profiles:
            owner = owner_of(pod)
            firsts.setdefault(owner, stored)
            counts[owner] = counts.get(owner, 0) + count
    chosen = sorted(firsts, key=lambda owner: (-counts[owner], owner))[:most]
    return [PodKind(scheduler, made_again(firsts[owner]), str(owner), counts[owner]) for owner in chosen]
