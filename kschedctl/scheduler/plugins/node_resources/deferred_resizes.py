"""Pods on a node whose deferred in-place resize reserves resources that they do not run with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Row
from kschedctl.api.pod_requests import is_resize_deferred, revert_resize
from kschedctl.scheduler.plugins.node_resources.facts import DeferredResize
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.own_rows import NodeView, of_all_nodes
from kschedctl.snapshot.pod_info import PodInfo


class ResizeAmounts(NamedTuple):
    """What pods of one PodInfo reserve and run with, by resource: millicores of cpu, bytes, or counts."""

    reserved: dict[str, int]
    running: dict[str, int]


def deferred_resizes(resource: str, row: int, view: NodeView) -> tuple[DeferredResize, ...]:
    """Return the deferred resizes on a node that reserve more of the resource than is used, the largest gap first.

    Upstream: determineContainerReqs in staging/src/k8s.io/component-helpers/resource/helpers.go (v1.36).
    """
    fork, node = of_all_nodes(view), Row(row if isinstance(view, Fork) else int(view.rows[row]))
    by_info = fork.memo_of_pods("amounts of deferred resizes", lambda: _amounts_by_info(fork))
    if not by_info:
        return ()
    resizes = [
        DeferredResize(fork.pods.objects[position].key, amounts.reserved[resource], amounts.running.get(resource, 0))
        for position in fork.pods_on(node)
        if (amounts := by_info.get(int(fork.pods.info[position]))) and resource in amounts.reserved
    ]
    unused = [resize for resize in resizes if resize.reserved > resize.running]
    return tuple(sorted(unused, key=lambda resize: resize.running - resize.reserved))


def _amounts_by_info(view: Fork) -> dict[int, ResizeAmounts]:
    """Return the amounts for each number of a PodInfo whose pods have a deferred resize."""
    by_info = {}
    for number in np.flatnonzero(view.pods.distinct.where_alike(is_resize_deferred)).tolist():
        info = view.pods.infos[number]
        reverted = PodInfo(revert_resize(info.pod), info.options)
        by_info[number] = ResizeAmounts(info.requests, reverted.requests)
    return by_info
