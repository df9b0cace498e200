"""Nodes of which pods request more than there is: the trace that double booking leaves, and who came when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Position, Row
from kschedctl.api.ownership import find_controller
from kschedctl.api.times import parse_nanoseconds
from kschedctl.commands.audit.placed.report import Arrival, OvercommittedNode
from kschedctl.errors import InputError
from kschedctl.snapshot.fork import Fork

SHOWN = 6
"""Pods that are told of a node."""


class _Pod(NamedTuple):
    position: Position
    requests: int
    at: str
    nanoseconds: int | None


def overcommitted(view: Fork) -> Iterator[OvercommittedNode]:
    """Yield the overcommitted resources node by node, without nodes that offer nothing of any resource.

    An allocatable amount beyond int64 wraps to a negative one, as it does in kube-scheduler: a resource that no pod of
    the node requests is not overcommitted by that.
    """
    offers = view.allocatable.any(axis=1, keepdims=True)
    beyond = (view.requested > np.maximum(view.allocatable, 0)) & offers
    names = list(view.resources)
    for row, column in np.argwhere(beyond).tolist():
        yield _of_node(view, Row(row), column, names[column])


def _of_node(view: Fork, row: Row, column: int, resource: str) -> OvercommittedNode:
    pods = [pod for pod in _pods(view, row, column) if pod.requests]
    allocatable = int(view.allocatable[row, column])
    known = all(pod.nanoseconds is not None for pod in pods)
    ordered = sorted(pods, key=lambda pod: pod.nanoseconds if known else pod.requests)  # type: ignore[return-value, arg-type]
    sums = np.cumsum([pod.requests for pod in ordered])
    first = int(np.argmax(sums > allocatable))
    return OvercommittedNode(
        node=view.nodes.names[row],
        resource=resource,
        requested=int(view.requested[row, column]),
        allocatable=allocatable,
        pods=len(ordered),
        arrivals=tuple(_arrivals(view, ordered, first if known else len(ordered))),
        gap=_gap(ordered, first) if known else None,
    )


def _pods(view: Fork, row: Row, column: int) -> Iterator[_Pod]:
    table = view.pods.objects.table
    columns = table.columns
    for position in view.pods_on(row):
        place = int(view.pods.objects.rows[position])
        at = columns.scheduled.text_of(place) or columns.started.text_of(place)
        yield _Pod(position, int(view.requests[view.pods.info[position], column]), at, _moment(at))


def _moment(at: str) -> int | None:
    try:
        return parse_nanoseconds(at) if at else None
    except InputError:
        return None


def _arrivals(view: Fork, ordered: Sequence[_Pod], first: int) -> Iterator[Arrival]:
    """The last ones, and those in whose middle the sum went beyond."""
    start = max(min(first - 1, len(ordered) - SHOWN), 0)
    for place, contained in enumerate(ordered[start : start + SHOWN], start):
        pod = view.pods.objects[contained.position]
        owner = find_controller(pod.metadata)
        static = owner is not None and owner.kind == "Node"
        yield Arrival(pod=pod.key, requests=contained.requests, at=contained.at, beyond=place >= first, static=static)


def _gap(ordered: Sequence[_Pod], first: int) -> float | None:
    if not first:
        return None
    later, before = ordered[first].nanoseconds, ordered[first - 1].nanoseconds
    return None if later is None or before is None else (later - before) / 10**9
