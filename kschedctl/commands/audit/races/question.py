"""The parameters of a comparison of expiries: given by options, measured in the cluster, or defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np

from kschedctl.api.columns import NO_TIME, TextColumn, convert_column_to_microseconds
from kschedctl.api.ownership import find_owner
from kschedctl.api.resource_names import CPU, MEMORY, PODS
from kschedctl.api.times import parse_duration
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.races.latency import MIN_SAMPLES, ExponentialLatency, Latency, MeasuredLatency
from kschedctl.commands.audit.races.report import MeasuredLags
from kschedctl.errors import InputError, UsageError
from kschedctl.snapshot.fork import Fork

NEVER, ADAPTIVE = "never", "adaptive"
FOREVER = float("inf")
ORIGINAL_TTL = 30.0
"""The TTL in seconds of the scheduler's cache, which was written for Kubernetes 1.2."""
ORIGINAL_MAX_NODES = 1000
"""The number of nodes that Kubernetes 1.2 supported."""
DEFAULT_EXPIRIES = ("30s", "120s", "300s", ADAPTIVE, NEVER)
"""The expiries that are compared by default."""


def compute_adaptive_ttl(nodes: int) -> float:
    """Return a TTL of 30 s for up to 1,000 nodes, and proportionally more for more nodes.

    Confirmations are delayed by queues, of requests in the API server and of events on their way to watchers. Both grow
    with the number of objects, and so with the number of nodes. If 30 s were enough for 1,000 nodes, n times as many
    nodes need n times as long.

    >>> compute_adaptive_ttl(100), compute_adaptive_ttl(5000)
    (30.0, 150.0)
    """
    return ORIGINAL_TTL * max(1.0, nodes / ORIGINAL_MAX_NODES)


@dataclass(frozen=True)
class Expiry:
    """A rule for when assumed pods expire."""

    text: str
    """The expiry as an option names it."""
    ttl: Callable[[int], float]
    """A function from the number of nodes to seconds, FOREVER for never."""


def parse_expiry(text: str) -> Expiry:
    """Parse a duration, `adaptive` or `never`. A duration of 0 means never. Raises UsageError for other texts.

    >>> parse_expiry("120s").text, parse_expiry("0").text, parse_expiry("adaptive").ttl(2000)
    ('120s', 'never', 60.0)
    """
    if text == ADAPTIVE:
        return Expiry(ADAPTIVE, compute_adaptive_ttl)
    try:
        seconds = 0.0 if text == NEVER else parse_duration(text)
    except InputError as error:
        raise UsageError(error.what, where="--expiry", hint="use a duration such as 30s, adaptive or never") from None
    if not seconds:
        return Expiry(NEVER, lambda nodes: FOREVER)
    return Expiry(text, lambda nodes: seconds)


SLOW_BINDING = ExponentialLatency(10.0)
"""The binding latency of an API server under pressure as kubernetes/kubernetes#106361 reports it."""
MIN_ARRIVAL_SECONDS = 300.0
"""The minimum time for which pods arrive by default."""
SIMULATED_EXPIRIES = 3.0
"""The number of times that the longest relevant expiry fits into the default arrival time."""
NEGLIGIBLE_SHARE = 0.001
"""The share of lags that have to exceed an expiry for it to be relevant."""
MAX_PODS = 1_000_000
"""The maximum number of arriving pods times instances; more would take too much memory."""
MAX_ROOM = 20_000_000
"""The maximum number of pods that fit in the whole cluster; more would take too much memory."""
MAX_NODES = 100_000
MAX_PODS_PER_NODE = 10_000
MAX_INSTANCES = 100
MAX_RUNS = 10_000
CLUSTER_FIELDS = {
    "nodes": "number of nodes",
    "rates": "pods per second in the busiest minute",
    "room": "number of pods that fit on a node",
    "load": "share of room in use",
    "binding": "latencies",
}
"""The fields that a cluster can give, with a description of the value."""


@dataclass(frozen=True)
class RaceQuestion:
    """The parameters of a comparison of expiries."""

    nodes: Sequence[int] = (100, 1000, 5000)
    rates: Sequence[float] = (10.0, 50.0)
    expiries: Sequence[Expiry] = tuple(map(parse_expiry, DEFAULT_EXPIRIES))
    room: int = 30
    """The number of pods that fit on a node."""
    load: float = 1.0
    """The share of all room that the pods would take if none had to wait."""
    instances: int = 1
    """The number of scheduler instances that place pods at the same time."""
    binding: Latency = SLOW_BINDING
    """The time until the API server has answered a binding."""
    informer: Latency | None = None
    """The time from then until the scheduler sees the pod; None for the same distribution as `binding`, since both
    depend on the same API server.
    """
    seconds: float = 0.0
    """The time for which pods arrive, 0 for as long as it takes to see the effect of expiry."""
    seed: int = 0
    runs: int = 1
    from_cluster: tuple[str, ...] = ()
    """Descriptions of the values that were taken from the cluster."""
    measured: MeasuredLags | None = None
    """The cluster's lags if they are used."""

    @property
    def informer_lag(self) -> Latency:
        """The time from a binding's answer until the scheduler sees the pod."""
        return self.informer or self.binding

    @property
    def arrival_seconds(self) -> float:
        """The time in seconds during which pods arrive.

        By default, it is SIMULATED_EXPIRIES times the longest expiry that lags exceed, but at least
        MIN_ARRIVAL_SECONDS. It is shorter if there would be too many pods to simulate.
        """
        if self.seconds:
            return self.seconds
        ttls = {expiry.ttl(nodes) for expiry in self.expiries for nodes in self.nodes}
        exceeded_ttls = [
            ttl for ttl in ttls if ttl < FOREVER and self.informer_lag.compute_probability_above(ttl) > NEGLIGIBLE_SHARE
        ]
        wanted_seconds = max(MIN_ARRIVAL_SECONDS, SIMULATED_EXPIRIES * max(exceeded_ttls, default=0.0))
        return min(wanted_seconds, self._max_arrival_seconds)

    @property
    def _max_arrival_seconds(self) -> float:
        """The longest time for which pods can be simulated."""
        return MAX_PODS / (max(self.rates) * self.instances)

    def validate(self) -> None:
        """Raise UsageError for parameters that cannot be simulated."""
        _validate_range("--nodes", self.nodes, 1, MAX_NODES)
        _validate_range("--rate", self.rates, 0.01, 10_000)
        _validate_range("--pods-per-node", [self.room], 1, MAX_PODS_PER_NODE)
        _validate_range("--load", [self.load], MIN_LOAD, 10)
        _validate_range("--instances", [self.instances], 1, MAX_INSTANCES)
        _validate_range("--runs", [self.runs], 1, MAX_RUNS)
        _validate_range("--seed", [self.seed], 0, 2**63 - 1)
        total_room = max(self.nodes) * self.room
        if total_room > MAX_ROOM:
            raise UsageError(
                f"--nodes and --pods-per-node give room for {total_room:,} pods, but at most {MAX_ROOM:,} can be "
                "simulated"
            )
        if self.seconds > self._max_arrival_seconds:
            raise UsageError(
                f"--duration can be at most {self._max_arrival_seconds:,.0f} seconds",
                hint="shorten it, or lower --rate or --instances",
            )


def _validate_range(option: str, values: Iterable[float], minimum: float, maximum: float) -> None:
    """Raise UsageError if a value of an option is out of range."""
    for value in values:
        if not minimum <= value <= maximum:
            raise UsageError(f"{option} {value:g}: must be from {minimum:g} to {maximum:,g}")


class RaceFields(TypedDict, total=False):
    """The parameters of a comparison that options or the cluster give. All of them are optional."""

    nodes: Sequence[int]
    rates: Sequence[float]
    expiries: Sequence[Expiry]
    room: int
    load: float
    instances: int
    binding: Latency
    informer: Latency
    seconds: float
    seed: int
    runs: int


def build_race_question(fields: RaceFields, measures: Measures | None) -> RaceQuestion:
    """Build the parameters of a comparison from `fields`, then from the cluster's measures, then from defaults.

    The result also says which parameters were taken from the cluster. Raises UsageError for parameters that cannot be
    simulated.
    """
    cluster_fields = _build_measured_fields(measures)
    parameters = RaceQuestion(**(cluster_fields | fields))

    names_from_cluster = set(cluster_fields.keys() - fields.keys())
    latencies = (parameters.binding, parameters.informer)
    measured_latencies = [latency for latency in latencies if isinstance(latency, MeasuredLatency)]
    if measured_latencies:
        names_from_cluster.add("binding")  # options can name the measured latencies as well
    question = replace(
        parameters,
        from_cluster=tuple(words for name, words in CLUSTER_FIELDS.items() if name in names_from_cluster),
        measured=summarize_lags(measured_latencies[0]) if measured_latencies else None,
    )
    question.validate()
    return question


def _build_measured_fields(measures: Measures | None) -> RaceFields:
    """Return the parameters that were measured in the cluster, or no parameters if `measures` is None."""
    fields = RaceFields()
    if measures is None:
        return fields
    if measures.nodes is not None:
        fields["nodes"] = (measures.nodes,)
    if measures.rate is not None:
        fields["rates"] = (measures.rate,)
    if measures.room is not None:
        fields["room"] = measures.room
    if measures.load is not None:
        fields["load"] = measures.load
    if measures.lags is not None:
        fields["binding"] = measures.lags
    return fields


MINUTE_MICROSECONDS = 60 * 10**6
SLOW_SECONDS = 5.0
"""The pod start-up SLO of Kubernetes' SIG Scalability: 99 of 100 pods start within this time."""
MAX_SLOWEST_PODS = 3
"""The number of pods with the longest lags that are named."""
MIN_LOAD = 0.01
"""The smallest load that is simulated; below it there is room for all pods."""


@dataclass(frozen=True)
class Measures:
    """The parameters of the simulation that were measured in a cluster. Unknown parameters are None."""

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
    """Measure the size, the load, the pod rate and the latencies of a cluster. Unknown measures are None."""
    nodes = len(view.nodes)
    bound_pods = int(view.mask_placed().sum())
    load = _measure_load(view)
    has_load = bool(load and bound_pods)
    # At a load of 1, a node would run as many pods as it has room for
    return Measures(
        nodes=nodes or None,
        room=max(round(bound_pods / nodes / load), 1) if has_load else None,
        load=max(load, MIN_LOAD) if has_load else None,
        rate=measure_peak_creation_rate(view.cluster),
        lags=measure_kubelet_lags(view.cluster),
    )


def _measure_load(view: Fork) -> float:
    """Return the requested share of the most requested resource in the whole cluster.

    CPU, memory and the number of pods are considered. The share is 0 if nothing is allocatable.
    """
    columns = [view.resources[name] for name in (CPU, MEMORY, PODS)]
    allocatable = view.allocatable[:, columns].sum(axis=0)
    requested = view.requested[:, columns].sum(axis=0)
    shares = requested / np.maximum(allocatable, 1)
    return float(shares.max(initial=0, where=allocatable > 0))


def measure_peak_creation_rate(cluster: Cluster) -> float | None:
    """Return how many pods per second were created in the busiest minute, or None if no creation time is known.

    Only pods that still exist are counted.
    """
    created = convert_column_to_microseconds(
        cluster.pods.created, lambda row: f"Pod {cluster.pods[row].key}, creationTimestamp"
    )
    known_times = created[created != NO_TIME]
    if not len(known_times):
        return None
    minutes = known_times // MINUTE_MICROSECONDS
    _, pods_per_minute = np.unique(minutes, return_counts=True)
    return float(pods_per_minute.max()) / 60


def measure_kubelet_lags(cluster: Cluster) -> MeasuredLatency | None:
    """Return the times from binding to the kubelet's start of each pod, or None if there are too few pods.

    Schedulers and kubelets both learn of a binding from a watch of the API server, so the times stand for a scheduler's
    informer lag. They are upper bounds, because they include the kubelet's own work, though not the pulling of images.
    Both ends are whole seconds of different clocks, so a start before the binding counts as 0. Static pods are left
    out, since no scheduler binds them.
    """
    pods = cluster.pods
    bound_at = _parse_time_column(cluster, pods.columns.scheduled)
    started_at = _parse_time_column(cluster, pods.started)
    is_measured = np.zeros(len(pods), np.bool_)
    is_measured[pods.find_rows(lambda pod: find_owner(pod).kind != "Node")] = True
    is_measured &= (bound_at != NO_TIME) & (started_at != NO_TIME)
    if is_measured.sum() < MIN_SAMPLES:
        return None
    lags = np.maximum(started_at[is_measured] - bound_at[is_measured], 0) / 10**6
    rows = np.flatnonzero(is_measured)
    order = np.argsort(lags, kind="stable")
    slowest_pods = tuple(pods[rows[index]].key for index in order[::-1][:MAX_SLOWEST_PODS].tolist())
    return MeasuredLatency(lags[order], slowest_pods)


def _parse_time_column(cluster: Cluster, column: TextColumn) -> np.typing.NDArray[np.int64]:
    """Return the times of a column of the pods' status in microseconds, NO_TIME for missing ones, shape (P,)."""
    return convert_column_to_microseconds(column, lambda row: f"Pod {cluster.pods[row].key}, status")


def summarize_lags(lags: MeasuredLatency) -> MeasuredLags:
    """Return the number, the median, the 99th percentile and the maximum of measured lags, and the slow pods."""
    slow = int(np.count_nonzero(lags.times > SLOW_SECONDS))
    return MeasuredLags(
        pods=len(lags.times),
        median=lags.get_quantile(0.5),
        p99=lags.get_quantile(0.99),
        longest=float(lags.times[-1]),
        slow=slow,
        slowest_pods=lags.slowest_pods[:slow],
    )
