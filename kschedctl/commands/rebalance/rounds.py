"""Rounds of the descheduler replayed on a cluster until nothing is evicted or a placement recurs.

Each round sees the cluster as the previous one left it, with all replacements running: older than ``minPodAge`` and
younger than any ``maxPodLifeTimeSeconds``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Position
from kschedctl.api.container_states import NOT_RECORDED
from kschedctl.api.labels import Selector
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.api.times import parse_microseconds
from kschedctl.cluster import Cluster
from kschedctl.commands.make_room.report import HeldPods, PlacedPod
from kschedctl.commands.rebalance.replay import ENDS_JOB, HOMELESS, LOST, EvictionReplay, add_stand_ins
from kschedctl.commands.rebalance.report import DeschedulerRound, HeldBack, Rebalancing, RebalancingStep, RemovedPod
from kschedctl.descheduling.descheduler import iter_unreplayed, run_round
from kschedctl.descheduling.evictions import DeniedEviction, EvictionCounter
from kschedctl.descheduling.policy import DeschedulerPolicy
from kschedctl.descheduling.seen_pods import SeenPods
from kschedctl.replay import kubectl
from kschedctl.replay.controllers.eviction import is_of_job
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.replay.pools import compare_pools
from kschedctl.replay.shared_cluster import build_cluster_basis
from kschedctl.replay.unknown import find_simulation_unknowns
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork

BUDGETS, JOBS = (Dependency("PodDisruptionBudget", Effect.EITHER),), Dependency("Job", Effect.EITHER)


def rebalance(
    cluster: Cluster,
    policy: DeschedulerPolicy,
    *,
    name: str = "",
    rounds: int = 10,
    seed: int = 0,
    now: str,
    progress: Progress = NO_PROGRESS,
) -> Rebalancing:
    """Replay a policy, called ``name`` in the report, for at most ``rounds`` rounds. ``now`` is the time at which pods
    have their ages.

    Raises InputError.
    """
    more, lingering = add_stand_ins(cluster, policy.grace_seconds)
    scheduler = Scheduler(more)
    replay = EvictionReplay.start(scheduler, seed, lingering)
    ended = Fork.from_cluster(cluster, scheduler.view.settings._replace(ended=True))
    rebalancing = DeschedulerReplay(
        replay, replay.simulation.view.fork(), RemovedPods.start(ended), policy, parse_microseconds(now)
    )
    rebalancing.run(rounds, progress)
    return rebalancing.build_report(name, scheduler)


@dataclass
class DeschedulerReplay:
    """The state of the replayed rounds."""

    replay: EvictionReplay
    before: Fork
    """Where pods were before the first round."""
    ended: RemovedPods
    """Pods that have terminated."""
    policy: DeschedulerPolicy
    now: int
    denied: list[list[DeniedEviction]] = field(default_factory=list)
    """The denied evictions of each round."""
    evicted: list[int] = field(default_factory=list)
    """The number of evicted pods of each round."""
    protected: dict[str, int] = field(default_factory=dict)
    """The number of protected pods by reason, as of the first round."""
    placements: set[int] = field(default_factory=set)
    """Hashes of all placements so far."""
    loops: bool = False
    """Whether a placement recurred."""
    interrupted: bool = False

    @property
    def is_quiet(self) -> bool:
        """Whether the last round evicted nobody."""
        return bool(self.evicted) and not self.evicted[-1]

    def run(self, rounds: int, progress: Progress) -> None:
        """Replay at most `rounds` rounds. Raises InputError."""
        done = progress.begin("Rounds", rounds)
        self.placements.add(self.replay.placement_hash())
        try:
            while len(self.evicted) < rounds and not (self.is_quiet or self.loops):
                self._run_round()
                done(1)
        except KeyboardInterrupt:
            self.interrupted = True

    def _run_round(self) -> None:
        """Replay one round and record its evictions, denials, and placement."""
        replay, before = self.replay, len(self.replay.played)
        replay.begin_round()
        removed = len(self.ended.removed)
        seen = SeenPods(replay.simulation.view.fork(), self.now, replay.was_moved.copy(), self.policy.nodes)
        counter = EvictionCounter(seen, self.policy.limits, replay.evict)
        of_ended = counter.for_other_pods(*self.ended.build_round_view(self.now, self.policy.nodes, replay.round))
        evictors = run_round(self.policy, counter, of_ended)
        if not self.evicted:
            for evictor in evictors[:1]:
                self.protected = evictor.count_protected_pods(seen.on_ready_nodes)
        self.denied.append(counter.denied)
        self.ended.denied.append(of_ended.denied)
        moved, placement = len(replay.played) - before, replay.placement_hash()
        self.evicted.append(moved + len(self.ended.removed) - removed)
        self.loops = bool(moved) and placement in self.placements
        self.placements.add(placement)

    # -- the document --------------------------------------------------------------------------------------------

    def build_report(self, name: str, scheduler: Scheduler) -> Rebalancing:
        """Build the report of all rounds."""
        pods = self.replay.simulation.view.pods.objects
        jobs = (JOBS,) if any(is_of_job(pods[step.position]) for step in self.replay.played) else ()
        basis = build_cluster_basis(find_simulation_unknowns(self.replay.simulation, *BUDGETS, *jobs), scheduler)
        held = pods.table.columns.containers.values
        missing = tuple(dict.fromkeys(iter_unreplayed(self.policy, containers=NOT_RECORDED not in held)))
        basis["not_replayed"] = (*basis["not_replayed"], *missing)
        basis["undecided"] = basis["undecided"] or bool(missing)
        held_back = [*self._iter_held_back(), *self.ended.iter_held()]
        return Rebalancing(
            policy=name,
            policy_ignored=self.policy.ignored,
            plugins=tuple(dict.fromkeys(run.name for _, run in self.policy.iter_runs())),
            steps=tuple(self._iter_steps()),
            rounds=tuple(
                DeschedulerRound(number + 1, evicted, count_pods(refused) + count_pods(of_ended))
                for number, (evicted, refused, of_ended) in enumerate(
                    zip(self.evicted, self.denied, self.ended.denied, strict=True)
                )
            ),
            removed=tuple(self.ended.iter_reports(self.replay.simulation.view.nodes.names)),
            held=tuple(held_back),
            quiet=self.is_quiet,
            loops=self.loops,
            unsafe=sum(group.pods for group in held_back if group.why.startswith((LOST, ENDS_JOB, HOMELESS))),
            kept=tuple(
                HeldPods(why, count) for why, count in sorted(self.protected.items(), key=lambda item: -item[1])
            ),
            placed=tuple(self._iter_placed()),
            commands=tuple(self._iter_commands()),
            pools=compare_pools(self.before, self.replay.simulation.view),
            interrupted=self.interrupted,
            **basis,
        )

    def _iter_steps(self) -> Iterator[RebalancingStep]:
        """Yield the evictions with their replacements."""
        view, budgets = self.replay.simulation.view, self.replay.simulation.budgets
        for step in self.replay.played:
            pod = view.pods.objects[step.position]
            yield RebalancingStep(
                round=step.round,
                pod=pod.key,
                workload=str(find_owner(pod)),
                plugin=step.plugin,
                source=view.nodes.names[step.source],
                target=view.nodes.names[step.target],
                tied=step.tied,
                budgets=budgets.find_selecting(step.position),
                again=step.again,
                stays=step.source == step.target,
            )

    def _iter_placed(self) -> Iterator[PlacedPod]:
        """Yield the pending pods that got a node."""
        view = self.replay.simulation.view
        for position, row in self.replay.placed.items():
            yield PlacedPod(view.pods.objects[position].key, view.nodes.names[row])

    def _iter_commands(self) -> Iterator[str]:
        """Yield the evictions of the first round; later ones depend on where the pods really go."""
        pods = self.replay.simulation.view.pods.objects
        for step in self.replay.played:
            if step.round == 1 and step.source != step.target:
                yield kubectl.render_eviction(pods[step.position])
        yield from (kubectl.render_eviction(pod) for pod in self.ended.iter_round(1))

    def _iter_held_back(self) -> Iterator[HeldBack]:
        """Yield the pods that were never evicted by plugin and reason, each with its last denial."""
        last: dict[Position, DeniedEviction] = {}
        for refusal in (refusal for refused in self.denied for refusal in refused):
            last[refusal.position] = refusal
        moved = {step.position: step.round for step in self.replay.played}
        groups: dict[tuple[str, str], list[Position]] = {}
        for position, refusal in last.items():
            if position not in moved:
                groups.setdefault((refusal.plugin, self._describe_denial(refusal)), []).append(position)
        for (plugin, why), positions in sorted(groups.items(), key=lambda item: -len(item[1])):
            yield HeldBack(plugin, why, len(positions), self._get_keys(positions))

    def _describe_denial(self, refusal: DeniedEviction) -> str:
        """Return the reason of a denial, for HOMELESS with the scheduler's."""
        reason = self.replay.reasons.get(refusal.position) if refusal.reason == HOMELESS else None
        return f"{refusal.reason}: {reason}" if reason else refusal.reason

    def _get_keys(self, positions: Sequence[Position]) -> tuple[str, ...]:
        """Return the keys of pods."""
        pods = self.replay.simulation.view.pods.objects
        return tuple(pods[position].key for position in positions)


class DeletedPod(NamedTuple):
    """A terminated pod that a plugin deleted in a round."""

    round: int
    plugin: str
    position: Position


@dataclass
class RemovedPods:
    """The terminated pods and which were deleted."""

    view: Fork
    is_deleted: Bools
    """(P,)."""
    removed: list[DeletedPod] = field(default_factory=list)
    denied: list[list[DeniedEviction]] = field(default_factory=list)
    """By round."""

    @classmethod
    def start(cls, view: Fork) -> RemovedPods:
        return cls(view, np.zeros(len(view.pods), np.bool_))

    def build_round_view(
        self, now: int, nodes: Selector, number: int
    ) -> tuple[SeenPods, Callable[[Position, str], str]]:
        """Return the pods as a round sees them, and the function that deletes one for a plugin."""
        seen = SeenPods(self.view, now, nodes=nodes)
        seen.evicted = self.is_deleted

        def remove(position: Position, plugin: str) -> str:
            self.removed.append(DeletedPod(number, plugin, position))
            return ""

        return seen, remove

    def iter_round(self, number: int) -> Iterator[Pod]:
        yield from (self.view.pods.objects[removal.position] for removal in self.removed if removal.round == number)

    def iter_reports(self, nodes: Sequence[str]) -> Iterator[RemovedPod]:
        for number, plugin, position in self.removed:
            pod = self.view.pods.objects[position]
            node = nodes[int(self.view.node[position])]
            yield RemovedPod(pod.key, str(find_owner(pod)), pod.status.phase, plugin, node, number)

    def iter_held(self) -> Iterator[HeldBack]:
        """Yield those that remain because a limit was reached."""
        last = {refusal.position: refusal for refused in self.denied for refusal in refused}
        groups: dict[tuple[str, str], list[str]] = {}
        for position, refusal in last.items():
            if not self.is_deleted[position]:
                groups.setdefault((refusal.plugin, refusal.reason), []).append(self.view.pods.objects[position].key)
        for (plugin, why), names in groups.items():
            yield HeldBack(plugin, why, len(names), tuple(names))


def count_pods(refused: Iterable[DeniedEviction]) -> int:
    """Return how many different pods the denied evictions concern."""
    return len({refusal.position for refusal in refused})
