"""What a cluster tells of itself that races depend on: its size, how full it is, how fast pods come and are seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kschedctl.api.columns import NO_TIME, TextColumn, column_to_microseconds
from kschedctl.api.ownership import find_owner
from kschedctl.api.resource_names import CPU, MEMORY, PODS
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.races.latency import ENOUGH, MeasuredLatency
from kschedctl.commands.audit.races.report import MeasuredLags
from kschedctl.snapshot.fork import Fork

MINUTE = 60 * 10**6
LEAST_LOAD = 0.01
"""Less is not simulated: there is room for everybody."""


@dataclass(frozen=True)
class Measures:
    """``room``: pods that fit on a node at most, were all like those that run, and ``load`` the share that is in use.

    ``rate``: pods a second in the busiest minute, as far as they are still there. ``lags``: from a pod's binding to its
    start. None: the cluster does not tell.
    """

    nodes: int | None
    room: int | None
    load: float | None
    rate: float | None
    lags: MeasuredLatency | None


def measures_of(view: Fork) -> Measures:
    """What a cluster tells of the model's figures."""
    nodes, on_nodes, load = len(view.nodes), int((view.node >= 0).sum()), _load(view)
    room = max(round(on_nodes / nodes / load), 1) if load and on_nodes else None
    share = max(load, LEAST_LOAD) if room else None
    return Measures(nodes or None, room, share, busiest_minute(view.cluster), lags_of(view.cluster))


def _load(view: Fork) -> float:
    """The share in use of the resource that is used most."""
    columns = [view.resources[name] for name in (CPU, MEMORY, PODS)]
    offered, used = view.allocatable[:, columns].sum(axis=0), view.requested[:, columns].sum(axis=0)
    return float((used / np.maximum(offered, 1)).max(initial=0, where=offered > 0))


def busiest_minute(cluster: Cluster) -> float | None:
    """Pods a second in the minute in which most of the pods that there are were created; None: no times are known."""
    created = column_to_microseconds(
        cluster.pods.created, lambda row: f"Pod {cluster.pods[row].key}, creationTimestamp"
    )
    known = created[created != NO_TIME]
    if not len(known):
        return None
    return float(np.unique(known // MINUTE, return_counts=True)[1].max()) / 60


def lags_of(cluster: Cluster) -> MeasuredLatency | None:
    """From when each pod was bound to when its kubelet took it in, None of too few pods.

    The kubelet learns of a binding as a scheduler does, from a watch of the API server: that long the news take at
    most, as the kubelet's own work counts too. (Until containers run there are images to pull besides.) Both times are
    whole seconds, of two clocks: a start before the binding counts as none. Static pods are bound by nobody.
    """
    pods = cluster.pods
    bound, started = _moments(cluster, pods.columns.scheduled), _moments(cluster, pods.started)
    scheduled = np.zeros(len(pods), np.bool_)
    scheduled[pods.find_rows(lambda pod: find_owner(pod).kind != "Node")] = True
    scheduled &= (bound != NO_TIME) & (started != NO_TIME)
    if scheduled.sum() < ENOUGH:
        return None
    lags = np.maximum(started[scheduled] - bound[scheduled], 0) / 10**6
    return MeasuredLatency(np.sort(lags))


def _moments(cluster: Cluster, column: TextColumn) -> np.typing.NDArray[np.int64]:
    return column_to_microseconds(column, lambda row: f"Pod {cluster.pods[row].key}, status")


def reported(lags: MeasuredLatency) -> MeasuredLags:
    """The measured lags in a few numbers."""
    longest = float(lags.times[-1])
    return MeasuredLags(pods=len(lags.times), median=lags.quantile(0.5), p99=lags.quantile(0.99), longest=longest)
