"""A discrete-event simulation of scheduling, assuming, binding and the expiry of assumed pods, run by simpy.

Equal pods arrive as a Poisson process with ``rate`` pods a second, and a node has room for ``room`` of them. Each pod
belongs to a random instance of the scheduler. An instance places its pods one after the other. At the beginning of a
cycle it looks in its cache for a node with room, and at the end it assumes the pod there. A pod that fits nowhere
waits, and the pods behind it too, until the instance sees another pod end.

Binding runs in the background. After the binding latency the API server has written the binding and answered. From then
on the pod is on its node. If other pods have taken all the room of the node by then, the kubelet rejects the pod: it is
double-booked. An instance sees bindings and ends of pods after the informer lag. An assumed pod can expire once the
binding was answered: if the informer has not confirmed it ``ttl`` seconds later, the cache drops it, and its room looks
free until the informer does confirm it (finishBinding, cleanupAssumedPods and AddPod of the cache). The duration of the
binding call itself never makes a pod expire.

Pods run for an exponential time with such a mean that they use ``load`` times all the room, and the nodes are as full
at the start. Not simulated: the sweep, once a second, that expires pods (up to 1 s more for each), pods that differ
from each other, bindings that fail or time out, the order of the informer's events, and replacements for rejected pods.

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
"""The duration of a scheduling cycle: 100 pods a second on 5,000 nodes (kubernetes/kubernetes#74041)."""
NOWHERE = -1
"""The node of a pod that fits on no node."""


@dataclass(frozen=True)
class RaceSetting:
    """The parameters of a simulation."""

    nodes: int
    rate: float
    """The number of pods that arrive per second."""
    room: int
    """The number of pods that fit on a node."""
    load: float
    """The share of all room that the pods would take if none had to wait."""
    instances: int
    binding: Latency
    """The time until the API server has answered a binding."""
    informer: Latency
    """The time from then until an instance sees the pod."""
    seconds: float
    """The time for which pods arrive."""


class RandomDraws(NamedTuple):
    """All random draws of a run, which all expiries share.

    There are P arriving pods, I instances and E initial pods that end.
    """

    arrivals: Seconds
    """The time at which each pod arrives, shape (P,)."""
    run_times: Seconds
    """The time for which each pod runs, shape (P,)."""
    binding: Seconds
    """The binding latency of each pod, shape (P,)."""
    lags: Seconds
    """The informer lag of each pod and instance, shape (P, I)."""
    instance: Rows
    """The instance that places each pod, shape (P,)."""
    ties: Seconds
    """A number in [0, 1) for each pod that chooses among equal nodes, shape (P,)."""
    initial_pods: Counts
    """The number of pods on each node at the start, shape (N,)."""
    ends: Seconds
    """The time at which each initial pod ends, shape (E,)."""
    end_nodes: Rows
    """The node of each initial pod that ends, shape (E,)."""
    end_lags: Seconds
    """The informer lag of each end and instance, shape (E, I)."""

    @classmethod
    def from_seed(cls, setting: RaceSetting, seed: int) -> RandomDraws:
        """Draw all numbers for a setting and a seed. The order of the draws decides the results of a seed."""
        random = np.random.default_rng(seed)
        pods = int(random.poisson(setting.rate * setting.seconds))
        arrivals = np.sort(random.uniform(0, setting.seconds, pods))

        # Pods that already run at the start. Only those that end within the simulated time need an event.
        total_room = setting.nodes * setting.room
        mean_run_time = setting.load * total_room / setting.rate
        initial_pods = _distribute_evenly(round(min(setting.load, 1.0) * total_room), setting.nodes)
        all_ends = random.exponential(mean_run_time, int(initial_pods.sum()))
        ends_in_time = all_ends < setting.seconds
        ends = all_ends[ends_in_time]
        end_nodes = np.repeat(np.arange(setting.nodes), initial_pods)[ends_in_time]

        def draw_lags(count: int) -> Seconds:
            """Draw the informer lag of each of `count` changes at each instance, shape (count, I)."""
            return setting.informer.draw(random, count * setting.instances).reshape(count, setting.instances)

        return cls(
            arrivals=arrivals,
            run_times=random.exponential(mean_run_time, pods),
            binding=setting.binding.draw(random, pods),
            lags=draw_lags(pods),
            instance=random.integers(setting.instances, size=pods),
            ties=random.random(pods),
            initial_pods=initial_pods,
            ends=ends,
            end_nodes=end_nodes,
            end_lags=draw_lags(len(ends)),
        )

    @property
    def own_lags(self) -> Seconds:
        """The informer lag of each pod at the instance that placed it, shape (P,)."""
        return self.lags[np.arange(len(self.instance)), self.instance]


def _distribute_evenly(pods: int, nodes: int) -> Counts:
    """Return the number of pods on each node if they are distributed evenly, shape (nodes,)."""
    return np.full(nodes, pods // nodes) + (np.arange(nodes) < pods % nodes)


@dataclass
class RaceCounts:
    """The outcome of a run."""

    assumed: int = 0
    """The number of pods that were assumed on a node."""
    expired: int = 0
    """The number of assumed pods that expired."""
    double_booked: int = 0
    """The number of assumed pods that the kubelet rejected because their room was taken."""
    waiting: int = 0
    """The number of pods that were still in a queue at the end."""


class SimulatedScheduler:
    """A scheduler instance with its cache and its queue of pods."""

    def __init__(self, initial_pods: Counts) -> None:
        self.known_pods = initial_pods.copy()
        """The number of pods on each node as far as the instance knows, including assumed ones, shape (N,)."""
        self.queue: deque[int] = deque()
        """The pods that wait, in order of arrival."""
        self._idle: simpy.Event | None = None

    def pick_node(self, room: int, tie: float) -> int:
        """Return one of the nodes with the fewest pods that the instance knows of, or NOWHERE if all nodes are full.

        `room` is the number of pods that fit on a node, and `tie` in [0, 1) chooses among the nodes with equally few
        pods. This is what the scoring strategy LeastAllocated does if all nodes are equal.
        """
        fewest = self.known_pods.min()
        if fewest >= room:
            return NOWHERE
        best = np.flatnonzero(self.known_pods == fewest)
        return int(best[int(tie * len(best))])

    def wait_for_change(self, env: simpy.Environment) -> simpy.Event:
        """Return an event that fires when a pod arrives or when the instance sees a pod end."""
        self._idle = env.event()
        return self._idle

    def enqueue(self, pod: int) -> None:
        """Add a pod to the queue."""
        self.queue.append(pod)
        self.wake()

    def add_pod(self, node: int) -> None:
        """Add a pod that was assumed on a node or is seen there for the first time."""
        self.known_pods[node] += 1

    def drop_assumed_pod(self, node: int) -> None:
        """Drop an expired pod from the cache. This does not wake the queue."""
        self.known_pods[node] -= 1

    def remove_pod(self, node: int) -> None:
        """Remove a pod that has left a node, and wake the queue."""
        self.known_pods[node] -= 1
        self.wake()

    def wake(self) -> None:
        """Make the instance look again for room for the first pod of the queue."""
        if self._idle is not None:
            self._idle.succeed()
            self._idle = None


class RaceSimulation:
    """A single run of the simulation."""

    def __init__(self, setting: RaceSetting, draws: RandomDraws, ttl: float) -> None:
        self.setting, self.draws, self.ttl = setting, draws, ttl
        self.env = simpy.Environment()
        self.pods_on_node = draws.initial_pods.copy()
        """The number of pods that are really on each node, shape (N,)."""
        self.instances = [SimulatedScheduler(self.pods_on_node) for _ in range(setting.instances)]
        self.result = RaceCounts()

    def run(self) -> RaceCounts:
        """Run until no more pods arrive and all bindings have ended, and return the counts."""
        # Initial pods, which run from the start, end at drawn times.
        draws = self.draws
        for end, node, lags in zip(draws.ends.tolist(), draws.end_nodes.tolist(), draws.end_lags.tolist(), strict=True):
            self._call_later(end, self._end_pod, node, lags)
        self.env.process(self._generate_arrivals())
        for instance in self.instances:
            self.env.process(self._run_scheduler(instance))
        self.env.run()
        self.result.waiting = sum(len(instance.queue) for instance in self.instances)
        return self.result

    def _call_later(self, delay: float, function: Callable[..., None], *arguments: object) -> None:
        """Have a function called after a delay in seconds."""
        event = self.env.timeout(delay)
        event.callbacks.append(lambda _: function(*arguments))

    def _generate_arrivals(self) -> Generator[simpy.Event, None, None]:
        """Put each pod into the queue of its scheduler instance at the pod's arrival time."""
        pauses = np.diff(self.draws.arrivals, prepend=0.0).tolist()
        for pod, (pause, instance) in enumerate(zip(pauses, self.draws.instance.tolist(), strict=True)):
            yield self.env.timeout(pause)
            self.instances[instance].enqueue(pod)

    def _run_scheduler(self, instance: SimulatedScheduler) -> Generator[simpy.Event, None, None]:
        """Run an instance: pick a node for the first pod of the queue, assume the pod there and start binding.

        The instance waits for a change if its queue is empty or if the first pod fits nowhere.
        """
        ties = self.draws.ties.tolist()
        while self.env.now < self.setting.seconds:
            node = NOWHERE
            if instance.queue:
                first_pod = instance.queue[0]
                node = instance.pick_node(self.setting.room, ties[first_pod])
            if node == NOWHERE:
                yield instance.wait_for_change(self.env)
                continue
            yield self.env.timeout(CYCLE_SECONDS)
            pod = instance.queue.popleft()
            instance.add_pod(node)
            self.result.assumed += 1
            self._call_later(float(self.draws.binding[pod]), self._bind_pod, pod, node)

    def _bind_pod(self, pod: int, node: int) -> None:
        """Write a binding to the API server. Each instance sees the binding after its own informer lag.

        If the node is full, the kubelet rejects the pod, which counts as double-booked. Otherwise the pod runs, and its
        end is planned.
        """
        lags = self.draws.lags[pod].tolist()
        own_instance = int(self.draws.instance[pod])
        fits = bool(self.pods_on_node[node] < self.setting.room)
        self._notify_own_instance(self.instances[own_instance], node, lags[own_instance], fits=fits)
        if not fits:
            self.result.double_booked += 1
            return
        self.pods_on_node[node] += 1
        for instance, lag in enumerate(lags):
            if instance != own_instance:
                self._call_later(lag, self.instances[instance].add_pod, node)
        run_time = float(self.draws.run_times[pod])
        if self.env.now + run_time < self.setting.seconds:
            self._call_later(run_time, self._end_pod, node, lags)

    def _notify_own_instance(self, instance: SimulatedScheduler, node: int, lag: float, *, fits: bool) -> None:
        """Tell the instance that assumed the pod, after the lag, whether the pod runs on the node.

        If the lag is longer than the TTL, the instance's cache drops the pod when the TTL expires. The cache adds the
        pod again once the instance sees it running.
        """
        if lag <= self.ttl:
            if not fits:
                self._call_later(lag, instance.remove_pod, node)
            return

        self.result.expired += 1
        self._call_later(self.ttl, instance.drop_assumed_pod, node)
        if fits:
            self._call_later(lag, instance.add_pod, node)
        else:
            self._call_later(lag, instance.wake)  # the pod was dropped already, but its rejection is an event

    def _end_pod(self, node: int, lags: Sequence[float]) -> None:
        """End a pod. Each instance sees the end after its lag."""
        self.pods_on_node[node] -= 1
        for instance, lag in zip(self.instances, lags, strict=True):
            self._call_later(lag, instance.remove_pod, node)
