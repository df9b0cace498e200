"""`rebalance`: what would the descheduler evict, where to, and does that end?

Rounds of the descheduler are replayed until nothing is evicted or a placement recurs. Each round sees the cluster as
the previous one left it, with all replacements running: older than `minPodAge` and younger than any
`maxPodLifeTimeSeconds`. `replay` has the evictions of one round. The plugins are in `kschedctl/descheduling`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Position
from kschedctl.api.container_states import NOT_RECORDED
from kschedctl.api.json_values import JsonObject
from kschedctl.api.labels import Selector
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.api.times import parse_microseconds
from kschedctl.cluster import Cluster
from kschedctl.commands.make_room.report import HeldPods, PlacedPod
from kschedctl.commands.rebalance.replay import EvictionHarm, EvictionReplay, add_lingering_stand_ins
from kschedctl.commands.rebalance.report import DeschedulerRound, HeldBack, Rebalancing, RebalancingStep, RemovedPod
from kschedctl.descheduling.descheduler import iter_unreplayed_plugins, run_descheduling_round
from kschedctl.descheduling.evictions import DeniedEviction, EvictionCounter
from kschedctl.descheduling.policy import DEFAULT_POLICY, PROFILE_NAME, DeschedulerPolicy, read_policy
from kschedctl.descheduling.seen_pods import SeenPods
from kschedctl.replay import kubectl
from kschedctl.replay.controllers.job_failures import find_job_name
from kschedctl.replay.eviction_harms import find_eviction_harms
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.replay.pools import compare_pools
from kschedctl.replay.shared_cluster import build_cluster_basis
from kschedctl.replay.unknown import find_simulation_unknowns
from kschedctl.reports.summary import EvictionHarms, merge_eviction_harms
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.sources.cluster import get_read_time

_BUDGETS = Dependency("PodDisruptionBudget", Effect.EITHER)
_JOBS = Dependency("Job", Effect.EITHER)
"""The kinds on which evictions depend."""


def rebalance(
    cluster: Cluster,
    policy: JsonObject | None = None,
    *,
    name: str = "policy",
    rounds: int = 10,
    seed: int = 0,
    now: str = "",
    progress: Progress = NO_PROGRESS,
) -> Rebalancing:
    """Find which pods the descheduler would evict, where they go, whether evictions end, and which budgets stop them.

    A round starts once all pods of the previous one run. Raises InputError for a policy that cannot be used.

    Arguments:
        cluster: the cluster whose pods are evicted.
        policy: a DeschedulerPolicy of descheduler/v1alpha2 as a dict. The default is a built-in policy that restores
            what pods require. If a plugin of the policy is not replayed, the report says that it is undecided.
        name: the policy's name in errors.
        rounds: the maximum number of rounds.
        seed: decides between equally good nodes.
        now: the time from which the ages of pods are computed, by default the time when the cluster was read.
        progress: receives the number of finished rounds.

    >>> import kschedctl
    >>> nodes = [{"kind": "Node", "metadata": {"name": name}} for name in ("n1", "n2")]
    >>> str(rebalance(kschedctl.Cluster.from_objects(nodes)))
    'The descheduler evicts nothing'
    """
    if policy is None:
        parsed_policy = read_policy(DEFAULT_POLICY, name)
        name = PROFILE_NAME  # the report names the built-in policy by its profile
    else:
        parsed_policy = read_policy(policy, name)
    time = now or get_read_time(cluster)
    return _replay_policy(cluster, parsed_policy, name=name, rounds=rounds, seed=seed, now=time, progress=progress)


def _replay_policy(
    cluster: Cluster,
    policy: DeschedulerPolicy,
    *,
    name: str = "",
    rounds: int = 10,
    seed: int = 0,
    now: str,
    progress: Progress = NO_PROGRESS,
) -> Rebalancing:
    """Replay a policy for at most `rounds` rounds and report its evictions.

    `name` is the policy's name in the report. `seed` decides between equally good nodes. `now` is the time by which the
    ages of pods are computed. Raises InputError if `now` is invalid, or if a PriorityClass in the policy does not
    exist.
    """
    cluster_with_stand_ins, stand_ins = add_lingering_stand_ins(cluster, policy.grace_seconds)
    scheduler = Scheduler(cluster_with_stand_ins)
    replay = EvictionReplay.start(scheduler, seed, stand_ins)
    view_with_terminated = Fork.from_cluster(cluster, scheduler.view.settings._replace(ended=True))
    rebalancing = _DeschedulerReplay(
        replay,
        view_before=replay.simulation.view.fork(),
        terminated=_TerminatedPods.start(view_with_terminated),
        policy=policy,
        now=parse_microseconds(now),
    )
    rebalancing.run_rounds(rounds, progress)
    return rebalancing.build_report(name, scheduler)


@dataclass
class _DeschedulerReplay:
    """The state of all rounds replayed so far."""

    replay: EvictionReplay
    view_before: Fork
    """The pods on their nodes before the first round, with the pending pods that fit."""
    terminated: _TerminatedPods
    """The pods that have terminated, which the descheduler may delete."""
    policy: DeschedulerPolicy
    now: int
    denied: list[list[DeniedEviction]] = field(default_factory=list)
    """The denied evictions of each round."""
    evicted_per_round: list[int] = field(default_factory=list)
    """The number of evicted pods of each round."""
    protected: dict[str, int] = field(default_factory=dict)
    """The number of protected pods by reason, as of the first round."""
    placements: set[int] = field(default_factory=set)
    """Hashes of all placements so far."""
    has_recurred: bool = False
    """True if a placement recurred."""
    interrupted: bool = False

    @property
    def is_quiet(self) -> bool:
        """True if the last round was complete and evicted no pod."""
        return bool(self.evicted_per_round) and not self.evicted_per_round[-1] and not self.interrupted

    def run_rounds(self, rounds: int, progress: Progress) -> None:
        """Replay rounds until one evicts no pod, a placement recurs, or there were `rounds` rounds.

        If the user interrupts, the rounds until then remain, with the evictions of the unfinished one, and
        `interrupted` becomes True. Raises InputError if a PriorityClass in the policy does not exist.
        """
        on_done = progress.begin("Rounds", rounds)
        self.placements.add(self.replay.compute_placement_hash())
        try:
            while len(self.evicted_per_round) < rounds and not (self.is_quiet or self.has_recurred):
                self._run_round(progress)
                on_done(1)
        except KeyboardInterrupt:
            self.interrupted = True

    def _run_round(self, progress: Progress) -> None:
        """Replay one round and record its evictions, its denials and the resulting placement.

        If the user interrupts, the evictions and denials until then are recorded. The first round also records the pods
        that the evictor protects.
        """
        replay = self.replay
        replay.begin_round()
        played_before = len(replay.played)
        deleted_before = len(self.terminated.deletions)

        # Plugins evict pods that run and delete pods that have terminated. Limits count both.
        seen = SeenPods(replay.simulation.view.fork(), self.now, replay.was_moved.copy(), self.policy.nodes)
        counter = EvictionCounter(seen, self.policy.limits, replay.evict, progress.begin)
        seen_terminated, delete = self.terminated.prepare_round(self.now, self.policy.nodes, replay.round)
        counter_of_terminated = counter.build_counter_for_other_pods(seen_terminated, delete)
        is_first_round = not self.evicted_per_round
        try:
            evictors = run_descheduling_round(self.policy, counter, counter_of_terminated)
        finally:
            self.denied.append(counter.denied)
            self.terminated.denied.append(counter_of_terminated.denied)
            moved_count = len(replay.played) - played_before
            deleted_count = len(self.terminated.deletions) - deleted_before
            self.evicted_per_round.append(moved_count + deleted_count)

        if is_first_round and evictors:
            self.protected = evictors[0].count_protected_pods(seen.on_ready_nodes)
        placement = replay.compute_placement_hash()
        self.has_recurred = bool(moved_count) and placement in self.placements
        self.placements.add(placement)

    # -- the document --------------------------------------------------------------------------------------------

    def build_report(self, name: str, scheduler: Scheduler) -> Rebalancing:
        """Build the report of all rounds. `name` is the policy's name in the report."""
        pods = self.replay.simulation.view.pods.objects
        needed_kinds = [_BUDGETS]
        if any(find_job_name(pods[step.position]) for step in self.replay.played):
            needed_kinds.append(_JOBS)
        basis = build_cluster_basis(find_simulation_unknowns(self.replay.simulation, *needed_kinds), scheduler)

        # Some plugins need the states of containers, which a snapshot may lack.
        has_container_states = NOT_RECORDED not in pods.table.columns.containers.values
        unreplayed_plugins = iter_unreplayed_plugins(self.policy, containers=has_container_states)
        unreplayed = tuple(dict.fromkeys(unreplayed_plugins))
        basis["not_replayed"] = (*basis["not_replayed"], *unreplayed)
        basis["undecided"] = basis["undecided"] or bool(unreplayed)

        held_back = [*self._iter_held_back_groups(), *self.terminated.iter_held_back_groups()]
        is_newly_placed = ~self.replay.view_at_start.mask_placed() & self.view_before.mask_placed()
        return Rebalancing(
            policy=name,
            policy_ignored=self.policy.ignored,
            plugins=tuple(dict.fromkeys(run.name for _, run in self.policy.iter_runs())),
            steps=tuple(self._iter_eviction_steps()),
            rounds=tuple(self._iter_round_summaries()),
            removed=tuple(self.terminated.iter_reports()),
            held=tuple(held_back),
            quiet=self.is_quiet,
            loops=self.has_recurred,
            unsafe=sum(isinstance(denial.reason, EvictionHarm) for denial in self._iter_final_denials()),
            kept=tuple(HeldPods(reason, count) for reason, count in Counter(self.protected).most_common()),
            placed=tuple(self._iter_placed_pods()),
            commands=tuple(self._iter_first_round_commands()),
            fitting=int(np.count_nonzero(is_newly_placed)),
            pools=compare_pools(self.replay.view_at_start, self.replay.simulation.view) if self.replay.played else (),
            interrupted=self.interrupted,
            **self._find_eviction_harms(scheduler.cluster)._asdict(),
            **basis,
        )

    def _find_eviction_harms(self, cluster: Cluster) -> EvictionHarms:
        """Return the harm of all evictions.

        A workload has an outage if one round evicts all of its pods, since the descheduler does not wait for
        replacements within a round. A pod that is evicted several times is named once.
        """
        pods = self.replay.simulation.view.pods.objects
        pods_by_round: dict[int, list[Pod]] = {}
        for step in self.replay.played:
            pods_by_round.setdefault(step.round, []).append(pods[step.position])
        return merge_eviction_harms(find_eviction_harms(cluster, evicted) for evicted in pods_by_round.values())

    def _iter_round_summaries(self) -> Iterator[DeschedulerRound]:
        """Yield a summary of each round: how many pods were evicted or deleted, and how many evictions were denied."""
        rounds = zip(self.evicted_per_round, self.denied, self.terminated.denied, strict=True)
        for number, (evicted, denied, denied_deletions) in enumerate(rounds, 1):
            denied_count = _count_denied_pods(denied) + _count_denied_pods(denied_deletions)
            yield DeschedulerRound(number, evicted, denied_count)

    def _iter_eviction_steps(self) -> Iterator[RebalancingStep]:
        """Yield the evictions in order, with the node that each replacement gets."""
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
                budgets=budgets.find_selecting_budgets(step.position),
                again=step.again,
                stays=step.source == step.target,
            )

    def _iter_placed_pods(self) -> Iterator[PlacedPod]:
        """Yield the pods that were pending at the start and got a node."""
        view = self.replay.simulation.view
        for position, row in self.replay.placed.items():
            yield PlacedPod(view.pods.objects[position].key, view.nodes.names[row])

    def _iter_first_round_commands(self) -> Iterator[str]:
        """Yield the commands that evict and delete the pods of the first round.

        Pods whose replacements get the same node are left out. Later rounds depend on where the pods really go.
        """
        pods = self.replay.simulation.view.pods.objects
        for step in self.replay.played:
            if step.round == 1 and step.source != step.target:
                yield kubectl.render_eviction(pods[step.position])
        for pod in self.terminated.iter_deleted_in_round(1):
            yield kubectl.render_eviction(pod)

    def _iter_final_denials(self) -> Iterator[DeniedEviction]:
        """Yield the last denial of each pod that was never evicted."""
        last_denials = {denial.position: denial for round_denials in self.denied for denial in round_denials}
        evicted_positions = {step.position for step in self.replay.played}
        for position, denial in last_denials.items():
            if position not in evicted_positions:
                yield denial

    def _iter_held_back_groups(self) -> Iterator[HeldBack]:
        """Yield groups of pods that were never evicted, by plugin and by the reason for the last denial.

        The largest group comes first.
        """
        groups: dict[tuple[str, str], list[Position]] = {}
        for denial in self._iter_final_denials():
            group = denial.plugin, self._describe_denial(denial)
            groups.setdefault(group, []).append(denial.position)
        for (plugin, reason), positions in sorted(groups.items(), key=lambda item: -len(item[1])):
            yield HeldBack(plugin, reason, len(positions), self._get_pod_keys(positions))

    def _describe_denial(self, denial: DeniedEviction) -> str:
        """Return the reason for a denial, followed by the scheduler's message if the replacement fits nowhere."""
        if denial.reason is EvictionHarm.HOMELESS and denial.position in self.replay.reasons:
            return f"{denial.reason}: {self.replay.reasons[denial.position]}"
        return denial.reason

    def _get_pod_keys(self, positions: Sequence[Position]) -> tuple[str, ...]:
        """Return the keys of the pods at these positions."""
        pods = self.replay.simulation.view.pods.objects
        return tuple(pods[position].key for position in positions)


class _DeletedPod(NamedTuple):
    """A terminated pod that a plugin deleted in a round."""

    round: int
    plugin: str
    position: Position


@dataclass
class _TerminatedPods:
    """The terminated pods and their deletion. They need no replacement and do not count for budgets."""

    view: Fork
    is_deleted: Bools
    """A mask (P,) of the deleted pods."""
    deletions: list[_DeletedPod] = field(default_factory=list)
    """The deletions in order."""
    denied: list[list[DeniedEviction]] = field(default_factory=list)
    """The denied deletions of each round."""

    @classmethod
    def start(cls, view: Fork) -> _TerminatedPods:
        """Return the terminated pods of a view, none of them deleted."""
        return cls(view, np.zeros(len(view.pods), np.bool_))

    def prepare_round(
        self, now: int, node_selector: Selector, round_number: int
    ) -> tuple[SeenPods, Callable[[Position, str], str]]:
        """Return the terminated pods as a round sees them, and the function with which plugins delete them.

        The function records the deletion. It always returns "", because nothing prevents the deletion of a terminated
        pod.
        """
        seen_pods = SeenPods(self.view, now, nodes=node_selector)
        seen_pods.evicted = self.is_deleted

        def delete(position: Position, plugin: str) -> str:
            """Delete the pod for the plugin. Return no reason against it."""
            self.deletions.append(_DeletedPod(round_number, plugin, position))
            return ""

        return seen_pods, delete

    def iter_deleted_in_round(self, round_number: int) -> Iterator[Pod]:
        """Yield the pods that were deleted in a round."""
        for deletion in self.deletions:
            if deletion.round == round_number:
                yield self.view.pods.objects[deletion.position]

    def iter_reports(self) -> Iterator[RemovedPod]:
        """Yield a report about each deleted pod, in the order of deletion."""
        for round_number, plugin, position in self.deletions:
            pod = self.view.pods.objects[position]
            yield RemovedPod(
                pod.key,
                str(find_owner(pod)),
                phase=pod.status.phase,
                plugin=plugin,
                node=self.view.get_node_name(position),
                round=round_number,
            )

    def iter_held_back_groups(self) -> Iterator[HeldBack]:
        """Yield groups of pods that a limit kept from being deleted, by plugin and reason for the last denial."""
        last_denials = {denial.position: denial for round_denials in self.denied for denial in round_denials}
        groups: dict[tuple[str, str], list[str]] = {}
        for position, denial in last_denials.items():
            if not self.is_deleted[position]:
                group = denial.plugin, denial.reason
                groups.setdefault(group, []).append(self.view.pods.objects[position].key)
        for (plugin, reason), names in groups.items():
            yield HeldBack(plugin, reason, len(names), tuple(names))


def _count_denied_pods(denied: Iterable[DeniedEviction]) -> int:
    """Return how many different pods the denied evictions concern."""
    return len({denial.position for denial in denied})
