"""What is to be compared: as it is asked for, else as the cluster is, else as is usual."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from kschedctl.api.times import parse_duration
from kschedctl.commands.audit.races.latency import ExponentialLatency, Latency, MeasuredLatency
from kschedctl.commands.audit.races.measured import LEAST_LOAD, Measures, reported
from kschedctl.commands.audit.races.report import MeasuredLags
from kschedctl.errors import InputError, UsageError

NEVER, ADAPTIVE = "never", "adaptive"
FOREVER = float("inf")
FIRST_TTL, NODES_THEN = 30.0, 1000
"""The 30 s stand in the scheduler's cache since it was written for Kubernetes 1.2, which was made for 1,000 nodes."""
USUAL = ("30s", "120s", "300s", ADAPTIVE, NEVER)
"""What is compared unless something else is asked for."""


def adaptive(nodes: int) -> float:
    """30 s on up to 1,000 nodes, and as much longer as there are more nodes.

    What keeps a confirmation from the scheduler is a queue: of requests in the API server and of events on their way to
    the watchers. Both grow with the number of objects, and that with the nodes. Where 30 s were enough for 1,000 nodes,
    so many times the nodes need so many times as long.

    >>> adaptive(100), adaptive(5000)
    (30.0, 150.0)
    """
    return FIRST_TTL * max(1.0, nodes / NODES_THEN)


@dataclass(frozen=True)
class Expiry:
    """``text``: as an option names it; ``ttl``: the seconds on so many nodes, FOREVER for never."""

    text: str
    ttl: Callable[[int], float]


def expiry_of(text: str) -> Expiry:
    """A duration, ``adaptive`` or ``never``, which 0 means too. Raises UsageError.

    >>> expiry_of("120s").text, expiry_of("0").text, expiry_of("adaptive").ttl(2000)
    ('120s', 'never', 60.0)
    """
    if text == ADAPTIVE:
        return Expiry(ADAPTIVE, adaptive)
    try:
        seconds = 0.0 if text == NEVER else parse_duration(text)
    except InputError as error:
        raise UsageError(error.what, where="--expiry", hint="a duration as 30s, adaptive or never") from None
    if not seconds:
        return Expiry(NEVER, lambda nodes: FOREVER)
    return Expiry(text, lambda nodes: seconds)


PRESSED = ExponentialLatency(10.0)
"""How long binding takes an API server under such pressure as kubernetes/kubernetes#106361 tells of."""
LEAST_SECONDS, ENDURED, NOTEWORTHY = 300.0, 3.0, 0.001
"""How long pods come: at least, and so many times the longest expiry that more than this share of lags goes beyond."""
MOST_PODS, MOST_ROOMS = 1_000_000, 20_000_000
"""Pods that come, each seen by every instance, and room in the whole cluster: more take too much memory."""
MOST_NODES, MOST_PODS_PER_NODE, MOST_INSTANCES, MOST_RUNS = 100_000, 10_000, 100, 10_000
TOLD = {
    "nodes": "the number of nodes",
    "rates": "pods a second, of the busiest minute",
    "room": "pods that a node has room for",
    "load": "the share in use",
    "binding": "latencies",
}
"""Field -> what the cluster tells of it."""


@dataclass(frozen=True)
class RaceQuestion:
    """``binding`` and ``informer`` as in the model; without ``informer`` it is as slow as binding, since the same API
    server is behind both. ``seconds``: how long pods come, 0 for as long as it takes to see expiry at work.
    ``from_cluster``: what of it the cluster told, ``measured`` its lags where they are used.
    """

    nodes: Sequence[int] = (100, 1000, 5000)
    rates: Sequence[float] = (10.0, 50.0)
    expiries: Sequence[Expiry] = tuple(map(expiry_of, USUAL))
    room: int = 30
    load: float = 1.0
    instances: int = 1
    binding: Latency = PRESSED
    informer: Latency | None = None
    seconds: float = 0.0
    seed: int = 0
    runs: int = 1
    from_cluster: tuple[str, ...] = ()
    measured: MeasuredLags | None = None

    @property
    def lag(self) -> Latency:
        return self.informer or self.binding

    @property
    def lasting(self) -> float:
        """The seconds for which pods come."""
        if self.seconds:
            return self.seconds
        ttls = {expiry.ttl(nodes) for expiry in self.expiries for nodes in self.nodes}
        passed = max((ttl for ttl in ttls if ttl < FOREVER and self.lag.beyond(ttl) > NOTEWORTHY), default=0.0)
        return min(max(LEAST_SECONDS, ENDURED * passed), self._longest)

    @property
    def _longest(self) -> float:
        """The seconds in which as many pods come as can be simulated."""
        return MOST_PODS / (max(self.rates) * self.instances)

    def check(self) -> None:
        """Raises UsageError for what cannot be simulated."""
        _within("--nodes", self.nodes, 1, MOST_NODES)
        _within("--rate", self.rates, 0.01, 10_000)
        _within("--pods-per-node", [self.room], 1, MOST_PODS_PER_NODE)
        _within("--load", [self.load], LEAST_LOAD, 10)
        _within("--instances", [self.instances], 1, MOST_INSTANCES)
        _within("--runs", [self.runs], 1, MOST_RUNS)
        _within("--seed", [self.seed], 0, 2**63 - 1)
        if max(self.nodes) * self.room > MOST_ROOMS:
            raise UsageError(f"--nodes, --pods-per-node: room for more than {MOST_ROOMS:,} pods is too much")
        if self.seconds > self._longest:
            raise UsageError(f"--duration: at most {self._longest:,.0f} seconds", hint="or lower --rate or --instances")


def _within(option: str, values: Iterable[float], least: float, most: float) -> None:
    for value in values:
        if not least <= value <= most:
            raise UsageError(f"{option} {value:g}: from {least:g} to {most:,g}")


class GivenFields(TypedDict, total=False):
    """The fields of a question that somebody gives, or the cluster tells."""

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


def question_of(given: GivenFields, measures: Measures | None) -> RaceQuestion:
    """From the fields that are given, and what is known of the cluster for the others. Raises UsageError."""
    of_cluster = _of_cluster(measures)
    from_snapshot = of_cluster.keys() - given.keys()
    question = RaceQuestion(**(of_cluster | given))
    used = [latency for latency in (question.binding, question.informer) if isinstance(latency, MeasuredLatency)]
    question = replace(
        question,
        from_cluster=tuple(TOLD[name] for name in TOLD if name in from_snapshot or (name == "binding" and used)),
        measured=reported(used[0]) if used else None,
    )
    question.check()
    return question


def _of_cluster(measures: Measures | None) -> GivenFields:
    """The fields that the cluster tells; of a rate at least one pod in a minute."""
    fields = GivenFields()
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
