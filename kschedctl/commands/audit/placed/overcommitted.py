"""Nodes whose pods request more than is allocatable, as double booking leaves them, with the order of arrival."""

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

MAX_ARRIVALS = 6
"""The number of pods that are listed for a node."""


class _NodePod(NamedTuple):
    """A pod of a node with its request and the time at which it was scheduled or else started."""

    position: Position
    requests: int
    at: str
    nanoseconds: int | None


def iter_overcommitted_nodes(view: Fork) -> Iterator[OvercommittedNode]:
    """Yield the overcommitted resources node by node, without nodes that offer nothing of any resource.

    An allocatable amount beyond int64 wraps to a negative one, as it does in kube-scheduler: a resource that no pod of
    the node requests is not overcommitted by that.
    """
    offers = view.allocatable.any(axis=1, keepdims=True)
    exceeded = (view.requested > np.maximum(view.allocatable, 0)) & offers
    names = list(view.resources)
    for row, column in np.argwhere(exceeded).tolist():
        yield _build_overcommitted_node(view, Row(row), column, names[column])


def _build_overcommitted_node(view: Fork, row: Row, column: int, resource: str) -> OvercommittedNode:
    """Build the report about a node and a resource, with its pods by time, or by request if times are missing."""
    pods = [pod for pod in _iter_pods_on_node(view, row, column) if pod.requests]
    allocatable = int(view.allocatable[row, column])
    has_all_times = all(pod.nanoseconds is not None for pod in pods)
    ordered = sorted(pods, key=lambda pod: pod.nanoseconds if has_all_times else pod.requests)  # type: ignore[return-value, arg-type]
    cumulative = np.cumsum([pod.requests for pod in ordered])
    first = int(np.argmax(cumulative > allocatable))
    return OvercommittedNode(
        node=view.nodes.names[row],
        resource=resource,
        requested=int(view.requested[row, column]),
        allocatable=allocatable,
        pods=len(ordered),
        arrivals=tuple(_iter_arrivals(view, ordered, first if has_all_times else len(ordered))),
        gap=_compute_gap(ordered, first) if has_all_times else None,
    )


def _iter_pods_on_node(view: Fork, row: Row, column: int) -> Iterator[_NodePod]:
    """Yield the pods of a node with their requests of one resource and their times."""
    table = view.pods.objects.table
    columns = table.columns
    for position in view.pods_on(row):
        table_row = int(view.pods.objects.rows[position])
        time = columns.scheduled.text_of(table_row) or columns.started.text_of(table_row)
        yield _NodePod(position, int(view.requests[view.pods.info[position], column]), time, _parse_time(time))


def _parse_time(at: str) -> int | None:
    """Return a time in nanoseconds, or None if it is missing or malformed."""
    try:
        return parse_nanoseconds(at) if at else None
    except InputError:
        return None


def _iter_arrivals(view: Fork, ordered: Sequence[_NodePod], first: int) -> Iterator[Arrival]:
    """Yield a window of the pods around the first one that exceeded the node, else the last ones."""
    start = max(min(first - 1, len(ordered) - MAX_ARRIVALS), 0)
    for place, node_pod in enumerate(ordered[start : start + MAX_ARRIVALS], start):
        pod = view.pods.objects[node_pod.position]
        owner = find_controller(pod.metadata)
        static = owner is not None and owner.kind == "Node"
        yield Arrival(pod=pod.key, requests=node_pod.requests, at=node_pod.at, beyond=place >= first, static=static)


def _compute_gap(ordered: Sequence[_NodePod], first: int) -> float | None:
    """Return the seconds between the first pod that exceeded the node and the pod before it, or None if unknown."""
    if not first:
        return None
    later, before = ordered[first].nanoseconds, ordered[first - 1].nanoseconds
    return None if later is None or before is None else (later - before) / 10**9
