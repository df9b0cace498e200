"""Compare the race simulation with its definition, recomputing every cache at each decision."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from kschedctl.commands.audit.races.latency import ExponentialLatency
from kschedctl.commands.audit.races.model import CYCLE_SECONDS, RaceCounts, RaceSetting, RaceSimulation, RandomDraws
from kschedctl.commands.audit.races.question import FOREVER


@dataclass
class Placed:
    """A pod on a node from when it was assumed by ``owner``; -1: it was there before, and everybody knew it."""

    node: int
    owner: int
    lags: list[float]
    assumed: float = 0.0
    bound: float = FOREVER
    refused: bool = False
    end: float = FOREVER

    def there(self, now: float) -> bool:
        return not self.refused and self.bound <= now < self.end

    def in_cache(self, instance: int, ttl: float, now: float) -> bool:
        """Return whether the pod is in upstream's cache: assumed and not expired, or reported by the informer."""
        told = self.bound + self.lags[instance]
        if now >= told:
            return not self.refused and now < self.end + self.lags[instance]
        return self.owner == instance and self.assumed <= now and not now >= self.bound + ttl


@dataclass
class Naive:
    """One run, event by event; what happens at the same time does so in any order."""

    setting: RaceSetting
    draws: RandomDraws
    ttl: float
    placed: list[Placed] = field(default_factory=list)
    counts: RaceCounts = field(default_factory=RaceCounts)

    def run(self) -> RaceCounts:
        draws, self.number, self.events = self.draws, count(), []
        self.queues: list[list[int]] = [[] for _ in range(self.setting.instances)]
        self.busy = [False] * self.setting.instances
        for node, pods in enumerate(draws.initial_pods.tolist()):
            here = draws.end_nodes == node
            stay = [Placed(node, -1, [0.0] * self.setting.instances, bound=-FOREVER) for _ in range(pods - here.sum())]
            leave = zip(draws.ends[here], draws.end_lags[here], strict=True)
            self.placed += stay + [Placed(node, -1, list(lags), bound=-FOREVER, end=end) for end, lags in leave]
        for pod in self.placed:
            self.ends(pod)
        for number, time in enumerate(draws.arrivals):
            self.at(time, self.arrive, number)
        while self.events:
            self.now, _, do, what = heapq.heappop(self.events)
            do(*what)
        self.counts.waiting = sum(map(len, self.queues))
        return self.counts

    def at(self, time: float, do, *what) -> None:
        heapq.heappush(self.events, (time, next(self.number), do, what))

    def ends(self, pod: Placed) -> None:
        """End a pod, so that each pod whose scheduler sees this looks for room again."""
        for instance, lag in enumerate(pod.lags):
            if pod.end < FOREVER:
                self.at(pod.end + lag, self.look, instance)

    def arrive(self, pod: int) -> None:
        self.queues[self.draws.instance[pod]].append(pod)
        self.look(int(self.draws.instance[pod]))

    def look(self, instance: int) -> None:
        if self.busy[instance] or not self.queues[instance] or self.now >= self.setting.seconds:
            return
        held = [0] * self.setting.nodes
        for pod in self.placed:
            held[pod.node] += pod.in_cache(instance, self.ttl, self.now)
        fewest = min(held)
        if fewest < self.setting.room:
            found = [node for node, pods in enumerate(held) if pods == fewest]
            chosen = found[int(self.draws.ties[self.queues[instance][0]] * len(found))]
            self.busy[instance] = True
            self.at(self.now + CYCLE_SECONDS, self.assume, instance, chosen)

    def assume(self, instance: int, node: int) -> None:
        pod = self.queues[instance].pop(0)
        self.busy[instance] = False
        self.placed.append(Placed(node, instance, list(self.draws.lags[pod]), self.now))
        self.counts.assumed += 1
        self.at(self.now + self.draws.binding[pod], self.bind, pod, self.placed[-1])
        self.look(instance)

    def bind(self, number: int, pod: Placed) -> None:
        pod.refused = sum(each.there(self.now) for each in self.placed if each.node == pod.node) >= self.setting.room
        pod.bound = self.now
        self.counts.double_booked += pod.refused
        self.counts.expired += pod.lags[pod.owner] > self.ttl
        if pod.refused:
            self.at(self.now + pod.lags[pod.owner], self.look, pod.owner)
        elif self.now + self.draws.run_times[number] < self.setting.seconds:
            pod.end = self.now + self.draws.run_times[number]
            self.ends(pod)


@given(
    seed=st.integers(0, 2**32),
    nodes=st.integers(1, 4),
    instances=st.integers(1, 3),
    load=st.sampled_from([0.5, 1.0, 1.5]),
    ttl=st.sampled_from([2.0, 8.0, 30.0, FOREVER]),
)
@settings(max_examples=150, deadline=None)
def test_simulation_equals_its_definition(seed: int, nodes: int, instances: int, load: float, ttl: float) -> None:
    binding, informer = ExponentialLatency(3.0), ExponentialLatency(8.0)
    setting = RaceSetting(nodes, 0.4, 2, load, instances, binding, informer, 120.0)
    draws = RandomDraws.from_seed(setting, seed)
    assert RaceSimulation(setting, draws, ttl).run() == Naive(setting, draws, ttl).run()
