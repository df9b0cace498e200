"""Scheduling, assuming, binding and the expiry of assumed pods, as discrete events that simpy works off.

Pods come as a Poisson process, ``rate`` a second, all alike; a node has room for so many of them. Each pod belongs to
one of the scheduler's instances, any with the same chance. An instance works through its pods one after the other, the
next as soon as the cycle of the one before is over. It looks at its cache when a cycle begins, picks a node that has
room there, and assumes the pod on it when the cycle ends; a pod that fits nowhere waits, and those behind it too, until
the instance sees a pod go.

The binding goes on by itself. After the binding latency the API server has written it and answered. From then on the
pod is on the node, or, where pods there took all the room before, the kubelet refuses it: its room was given away
twice, it is double-booked. Of what was written, and of a pod that ends, an instance learns after the informer's lag.
From the answer on the assumed pod may expire: where the informer has not confirmed it ``ttl`` seconds later, the cache
drops it, and its room looks free until the informer does tell (finishBinding, cleanupAssumedPods, AddPod of the cache;
see expiry.py). How long the binding call itself takes never makes a pod expire.

Pods run for an exponential time, long enough on average for ``load`` times all the room to be in use, and the nodes
begin as full as that. Left out: the sweep, once a second, that expires pods (up to 1 s more for each), pods that differ
from each other, bindings that fail or that the API server gives up on, that the informer's events keep their order,
and new pods for those that the kubelet refused.

Upstream: pkg/scheduler/schedule_one.go, pkg/scheduler/backend/cache/cache.go (v1.35); kubernetes/kubernetes#106361.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import simpy

from kschedctl.api.arrays import Counts, Rows
from kschedctl.commands.audit.races.latency import Latency, Seconds

CYCLE_SECONDS = 0.01
"""What one scheduling cycle takes: 100 pods a second on 5,000 nodes (kubernetes/kubernetes#74041)."""
NOWHERE = -1


@dataclass(frozen=True)
class Setting:
    """What is simulated, for ``seconds`` of arriving pods. ``rate``: pods a second; ``room``: how many a node takes.

    ``load``: the share of all room that the pods would take if none had to wait. ``binding``: until the API server has
    answered; ``informer``: from then until an instance knows.
    """

    nodes: int
    rate: float
    room: int
    load: float
    instances: int
    binding: Latency
    informer: Latency
    seconds: float


class Draws(NamedTuple):
    """All that chance decides, so that several expiries meet the same. P pods, I instances, E pods that run and end.

    ``arrivals``, ``lasting``, ``binding`` (P,) and ``lags`` (P, I): times; ``instance`` (P,): whose pods they are;
    ``ties`` (P,): in [0, 1), which of the nodes that are equal. ``before`` (N,): pods on the nodes at the start, of
    which some end: ``ends`` (E,) when, ``ending`` (E,) the nodes, ``end_lags`` (E, I) until the instances know.
    """

    arrivals: Seconds
    lasting: Seconds
    binding: Seconds
    lags: Seconds
    instance: Rows
    ties: Seconds
    before: Counts
    ends: Seconds
    ending: Rows
    end_lags: Seconds

    @classmethod
    def of(cls, setting: Setting, seed: int) -> Draws:
        """What the seed makes of the setting."""
        random = np.random.default_rng(seed)
        number = int(random.poisson(setting.rate * setting.seconds))
        arrivals = np.sort(random.uniform(0, setting.seconds, number))
        lasts = setting.load * setting.nodes * setting.room / setting.rate
        before = _spread(round(min(setting.load, 1.0) * setting.nodes * setting.room), setting.nodes)
        ends = random.exponential(lasts, int(before.sum()))
        ending = np.repeat(np.arange(setting.nodes), before)[ends < setting.seconds]
        ends = ends[ends < setting.seconds]
        return cls(
            arrivals=arrivals,
            lasting=random.exponential(lasts, number),
            binding=setting.binding.draw(random, number),
            lags=setting.informer.draw(random, number * setting.instances).reshape(number, setting.instances),
            instance=random.integers(setting.instances, size=number),
            ties=random.random(number),
            before=before,
            ends=ends,
            ending=ending,
            end_lags=setting.informer.draw(random, len(ends) * setting.instances).reshape(len(ends), setting.instances),
        )

    @property
    def own_lags(self) -> Seconds:
        """(P,): until the instance that assumed a pod knows that it is bound."""
        return self.lags[np.arange(len(self.instance)), self.instance]


def _spread(pods: int, nodes: int) -> Counts:
    """(nodes,): so many pods, as evenly as they go."""
    return np.full(nodes, pods // nodes) + (np.arange(nodes) < pods % nodes)


@dataclass
class RaceCounts:
    """What came of it: pods that were ``assumed``, those of them that ``expired``, and those that are double-booked.

    ``waiting``: pods for which no node had been found in the end.
    """

    assumed: int = 0
    expired: int = 0
    double_booked: int = 0
    waiting: int = 0


class Instance:
    """One scheduler with its cache. ``known`` (N,): the pods on each node as far as it knows, with those it assumed.

    ``queue``: its pods that wait, in order.
    """

    def __init__(self, before: Counts) -> None:
        self.known = before.copy()
        self.queue: deque[int] = deque()
        self._idle: simpy.Event | None = None

    def pick(self, room: int, tie: float) -> int:
        """One of the nodes with the fewest pods, as LeastAllocated scores nodes that are alike; NOWHERE: all full."""
        fewest = self.known.min()
        if fewest >= room:
            return NOWHERE
        best = np.flatnonzero(self.known == fewest)
        return int(best[int(tie * len(best))])

    def idle(self, env: simpy.Environment) -> simpy.Event:
        """What happens when a pod comes or one is seen to go."""
        self._idle = env.event()
        return self._idle

    def come(self, pod: int) -> None:
        """A pod for this instance to place."""
        self.queue.append(pod)
        self.wake()

    def bound(self, node: int) -> None:
        """A pod that the cache does not hold is seen on a node, or assumed there."""
        self.known[node] += 1

    def expire(self, node: int) -> None:
        """The cache drops an assumed pod. Nobody in the queue is told of it."""
        self.known[node] -= 1

    def gone(self, node: int) -> None:
        """A pod is seen to have left a node."""
        self.known[node] -= 1
        self.wake()

    def wake(self) -> None:
        """Look again whether there is room."""
        if self._idle is not None:
            self._idle.succeed()
            self._idle = None


class Model:
    """One run. ``bound`` (N,): the pods that are on each node in truth."""

    def __init__(self, setting: Setting, draws: Draws, ttl: float) -> None:
        self.setting, self.draws, self.ttl = setting, draws, ttl
        self.env = simpy.Environment()
        self.bound = draws.before.copy()
        self.instances = [Instance(self.bound) for _ in range(setting.instances)]
        self.result = RaceCounts()

    def run(self) -> RaceCounts:
        """Let pods come for as long as the setting says, and all bindings that are under way end."""
        draws = self.draws
        for end, node, lags in zip(draws.ends.tolist(), draws.ending.tolist(), draws.end_lags.tolist(), strict=True):
            self._at(end, self._end, node, lags)
        self.env.process(self._arrive())
        for instance in self.instances:
            self.env.process(self._schedule(instance))
        self.env.run()
        self.result.waiting = sum(len(instance.queue) for instance in self.instances)
        return self.result

    def _at(self, delay: float, do: Callable[..., None], *what: object) -> None:
        """Do something so much later."""
        event = self.env.timeout(delay)
        event.callbacks.append(lambda _: do(*what))

    def _arrive(self) -> Generator[simpy.Event, None, None]:
        pauses = np.diff(self.draws.arrivals, prepend=0.0).tolist()
        for pod, (pause, instance) in enumerate(zip(pauses, self.draws.instance.tolist(), strict=True)):
            yield self.env.timeout(pause)
            self.instances[instance].come(pod)

    def _schedule(self, instance: Instance) -> Generator[simpy.Event, None, None]:
        ties = self.draws.ties.tolist()
        while self.env.now < self.setting.seconds:
            node = instance.pick(self.setting.room, ties[instance.queue[0]]) if instance.queue else NOWHERE
            if node == NOWHERE:
                yield instance.idle(self.env)
                continue
            yield self.env.timeout(CYCLE_SECONDS)
            pod = instance.queue.popleft()
            instance.bound(node)
            self.result.assumed += 1
            self._at(float(self.draws.binding[pod]), self._bind, pod, node)

    def _bind(self, pod: int, node: int) -> None:
        """The API server has written the binding, and answers."""
        lags = self.draws.lags[pod].tolist()
        own = int(self.draws.instance[pod])
        fits = bool(self.bound[node] < self.setting.room)
        self._tell_own(self.instances[own], node, lags[own], fits)
        if not fits:
            self.result.double_booked += 1
            return
        self.bound[node] += 1
        for other, lag in enumerate(lags):
            if other != own:
                self._at(lag, self.instances[other].bound, node)
        lasting = float(self.draws.lasting[pod])
        if self.env.now + lasting < self.setting.seconds:
            self._at(lasting, self._end, node, lags)

    def _tell_own(self, instance: Instance, node: int, lag: float, fits: bool) -> None:
        """The instance learns what became of the pod that it assumed; its cache drops it when that takes too long."""
        if lag > self.ttl:
            self.result.expired += 1
            self._at(self.ttl, instance.expire, node)
            event = (instance.bound, node) if fits else (instance.wake,)
            self._at(lag, *event)
        elif not fits:
            self._at(lag, instance.gone, node)

    def _end(self, node: int, lags: Sequence[float]) -> None:
        """A pod is over; each instance learns it after its lag."""
        self.bound[node] -= 1
        for instance, lag in zip(self.instances, lags, strict=True):
            self._at(lag, instance.gone, node)
