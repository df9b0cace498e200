"""Measurement of a cluster for the simulation of races: size, load, rate of new pods and kubelet lags."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kschedctl.api.columns import NO_TIME, TextColumn, column_to_microseconds
from kschedctl.api.ownership import find_owner
from kschedctl.api.resource_names import CPU, MEMORY, PODS
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.races.latency import MIN_SAMPLES, MeasuredLatency
from kschedctl.commands.audit.races.report import MeasuredLags
from kschedctl.snapshot.fork import Fork

MINUTE_MICROSECONDS = 60 * 10**6
MIN_LOAD = 0.01
"""The smallest load that is simulated; below it there is room for all pods."""


@dataclass(frozen=True)
class Measures:
    """What a cluster says about the parameters of the simulation; None for a value that is unknown."""

    nodes: int | None
    """The number of nodes."""
    room: int | None
    """The number of pods that fit on a node if all are like the running ones."""
    load: float | None
    """The share of the room that is in use."""
    rate: float | None
    """The number of pods created per second in the busiest minute, by the pods that still exist."""
    lags: MeasuredLatency | None
    """The times from binding to start of pods."""


def measure_cluster(view: Fork) -> Measures:
    """Measure the cluster of a view."""
    nodes, on_nodes, load = len(view.nodes), int((view.node >= 0).sum()), _measure_load(view)
    room = max(round(on_nodes / nodes / load), 1) if load and on_nodes else None
    share = max(load, MIN_LOAD) if room else None
    return Measures(nodes or None, room, share, measure_peak_rate(view.cluster), measure_kubelet_lags(view.cluster))


def _measure_load(view: Fork) -> float:
    """Return the share in use of the most used resource."""
    columns = [view.resources[name] for name in (CPU, MEMORY, PODS)]
    offered, used = view.allocatable[:, columns].sum(axis=0), view.requested[:, columns].sum(axis=0)
    return float((used / np.maximum(offered, 1)).max(initial=0, where=offered > 0))


def measure_peak_rate(cluster: Cluster) -> float | None:
    """Return the pods created per second in the minute with the most existing pods, or None if no time is known."""
    created = column_to_microseconds(
        cluster.pods.created, lambda row: f"Pod {cluster.pods[row].key}, creationTimestamp"
    )
    known_times = created[created != NO_TIME]
    if not len(known_times):
        return None
    return float(np.unique(known_times // MINUTE_MICROSECONDS, return_counts=True)[1].max()) / 60


def measure_kubelet_lags(cluster: Cluster) -> MeasuredLatency | None:
    """Return the times from binding to the kubelet's start of each pod, or None if there are too few pods.

    A kubelet learns of a binding as a scheduler does, from a watch of the API server. The time is an upper bound, as
    the kubelet's own work is included. Pulling images comes later. Both times are whole seconds of two clocks: a start
    before the binding counts as 0. Static pods are left out, as they are not bound by a scheduler.
    """
    pods = cluster.pods
    bound_at, started_at = _parse_times(cluster, pods.columns.scheduled), _parse_times(cluster, pods.started)
    is_scheduled = np.zeros(len(pods), np.bool_)
    is_scheduled[pods.find_rows(lambda pod: find_owner(pod).kind != "Node")] = True
    is_scheduled &= (bound_at != NO_TIME) & (started_at != NO_TIME)
    if is_scheduled.sum() < MIN_SAMPLES:
        return None
    lags = np.maximum(started_at[is_scheduled] - bound_at[is_scheduled], 0) / 10**6
    return MeasuredLatency(np.sort(lags))


def _parse_times(cluster: Cluster, column: TextColumn) -> np.typing.NDArray[np.int64]:
    """Return the times of a column in microseconds, shape (P,)."""
    return column_to_microseconds(column, lambda row: f"Pod {cluster.pods[row].key}, status")


def summarize_lags(lags: MeasuredLatency) -> MeasuredLags:
    """Return median, 99th percentile and maximum of measured lags."""
    longest = float(lags.times[-1])
    return MeasuredLags(pods=len(lags.times), median=lags.quantile(0.5), p99=lags.quantile(0.99), longest=longest)
