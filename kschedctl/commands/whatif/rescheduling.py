"""Running pods that would go elsewhere if each alone were recreated, under one scheduler and under another."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from itertools import chain, islice, zip_longest
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Position
from kschedctl.api.ownership import find_owner
from kschedctl.commands.versions.report import VersionChange
from kschedctl.commands.whatif.causes import Causes, Fate, Names, TwoVersions, explain_pods
from kschedctl.commands.whatif.report import PodsElsewhere, PodsRescored, Replacement
from kschedctl.replay.edits import is_recreated_elsewhere
from kschedctl.replay.parallel import Progress, Workers, run_all
from kschedctl.replay.shared_cluster import SharedCluster
from kschedctl.replay.unknown import REPLACEMENT, merge_unknown_kinds, summarize_unknowns
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.engine.cycle import run_cycle
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.framework.dependencies import Effect, Unknown
from kschedctl.scheduler.scheduler import Framework
from kschedctl.scheduler.simulation.placement import Placements
from kschedctl.snapshot.fork import Fork

Nodes = tuple[str, ...]
ScoreDigest = bytes
"""A digest of the nodes that fit a pod and how many points each is behind the best."""

MAX_PODS = 2000
"""With more pods, the first of each workload are compared, then the second, and so on."""
BATCH_SIZE = 50
AFFECTED: Mapping[Effect, str] = {
    effect: REPLACEMENT for effect in Effect if effect not in (Effect.VICTIMS, Effect.ORDER)
}


class ClusterPair(NamedTuple):
    """A cluster under one scheduler and under another."""

    before: SharedCluster
    after: SharedCluster


class PodElsewhere(NamedTuple):
    """A pod that would go to other nodes."""

    workload: str
    pod: str
    before: Nodes
    after: Nodes


class PodRescored(NamedTuple):
    """A pod for which nodes score differently."""

    workload: str
    pod: str
    kind: int
    """The index of its PodInfo."""
    before: ScoreDigest | None
    """Its scores under the first scheduler."""


class BatchResult(NamedTuple):
    """The results for some pods."""

    elsewhere: tuple[PodElsewhere, ...]
    rescored: tuple[PodRescored, ...]
    failed: int
    """The number of pods about which nothing is known."""
    unknown: tuple[UnknownKind, ...]


class ReplacementResult(NamedTuple):
    """What is known of the running pods, and the unread kinds this depends on."""

    report: Replacement
    unknown: tuple[UnknownKind, ...]
    interrupted: bool


def compare_replacements(
    before: SharedCluster,
    after: SharedCluster,
    rows: tuple[VersionChange, ...],
    workers: Workers,
    progress: Progress,
) -> ReplacementResult:
    """Find running pods with different best nodes, and which of the version changes explain that.

    Both clusters have the same objects.
    """
    pair = ClusterPair(before, after)
    view = pair.before.scheduler.view
    running = _find_running(view)
    asked = sorted(_sample_workloads(view, running), key=lambda position: (int(view.pods.info[position]), position))
    tasks = [asked[i : i + BATCH_SIZE] for i in range(0, len(asked), BATCH_SIZE)]
    results = run_all(_compare_batch, pair, tasks, workers, progress.begin("Running pods", len(tasks)))
    known = results.completed
    explaining = ChangeAttribution(pair, rows, progress, off=results.interrupted)
    elsewhere = explaining.group_elsewhere([pod for answers in known for pod in answers.elsewhere])
    rescored = explaining.group_rescored([pod for answers in known for pod in answers.rescored])
    report = Replacement(
        running=len(running),
        asked=sum(len(task) for task, answers in zip(tasks, results.by_task, strict=True) if answers is not None),
        elsewhere=elsewhere,
        failed=sum(answers.failed for answers in known),
        rescored=rescored,
    )
    interrupted = results.interrupted or explaining.interrupted
    return ReplacementResult(report, merge_unknown_kinds(answers.unknown for answers in known), interrupted)


@dataclass
class ChangeAttribution:
    """Finds the version changes behind differences."""

    pair: ClusterPair
    rows: tuple[VersionChange, ...]
    progress: Progress
    off: bool
    """Skip the search for causes."""
    interrupted: bool = False
    _found: list[Names] = field(default_factory=list)
    _mixes: dict[Names, _SchedulerProbe] = field(default_factory=dict)

    def group_elsewhere(self, pods: Sequence[PodElsewhere]) -> tuple[PodsElsewhere, ...]:
        """Group the pods by workload, nodes and cause."""
        because = self._find_causes(
            {pod.pod: pod.before for pod in pods}, lambda asked, at: asked.find_best_nodes(at, set())
        )
        groups: dict[tuple[str, Nodes, Nodes, tuple[str, ...]], list[str]] = {}
        for pod in pods:
            why = because.get(pod.pod, ())
            groups.setdefault((pod.workload, pod.before, pod.after, why), []).append(pod.pod)
        return tuple(PodsElsewhere(who, tuple(sorted(names)), *nodes) for (who, *nodes), names in groups.items())

    def group_rescored(self, pods: Sequence[PodRescored]) -> tuple[PodsRescored, ...]:
        """Group the pods by workload and cause. Equal pods share one cause."""
        firsts = {pod.kind: pod for pod in reversed(pods)}
        because = self._find_causes({pod.pod: pod.before for pod in firsts.values()}, _SchedulerProbe.digest_scores)
        groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for pod in pods:
            groups.setdefault((pod.workload, because.get(firsts[pod.kind].pod, ())), []).append(pod.pod)
        return tuple(PodsRescored(who, tuple(sorted(names)), why) for (who, why), names in groups.items())

    def _find_causes(
        self, before: Mapping[str, Hashable], ask: Callable[[_SchedulerProbe, Position], Hashable]
    ) -> dict[str, tuple[str, ...]]:
        """Return the version changes without which the answer about each pod would be as before."""
        if not before or self.off or self.pair.before.call_extender is not None:
            return {}
        versions = TwoVersions(self.pair.before.cluster, self.pair.after.cluster, self.rows)
        index = self.pair.before.scheduler.view.pods.index

        def replay(names: Names) -> Fate:
            if names not in self._mixes:
                self._mixes[names] = _SchedulerProbe(SharedCluster(versions.mix(names)))
            asked = self._mixes[names]
            return cache(lambda pod: ask(asked, Position(index[pod])))

        def likely(pod: str) -> Names:
            asked = (pair.get_cached(_SchedulerProbe) for pair in self.pair)
            then, now = (scheduler.collect_plugin_answers(Position(index[pod])) for scheduler in asked)
            return versions.find_plugin_changes(
                {name for name in then.keys() | now.keys() if then.get(name) != now.get(name)}
            )

        causes = Causes(versions.describe_changes(), before, replay, self._found, likely)
        because = explain_pods(before.keys(), causes, self.progress.begin("Causes", len(before)))
        self.interrupted |= len(because) < len(before)
        return because


def _find_running(view: Fork) -> list[Position]:
    """Return the pods on nodes that a controller would recreate on another node."""
    anew = view.pods.where(lambda info: is_recreated_elsewhere(info.pod))[view.pods.info]
    return [Position(position) for position in np.flatnonzero((view.node >= 0) & anew).tolist()]


def _sample_workloads(view: Fork, running: Sequence[Position]) -> Sequence[Position]:
    """Return all running pods or, if there are too many, the first of each workload, then the second, and so on."""
    if len(running) <= MAX_PODS:
        return running
    workloads: dict[str, list[Position]] = {}
    for position in running:
        workloads.setdefault(str(find_owner(view.pods.objects[position])), []).append(position)
    in_turn = chain.from_iterable(zip_longest(*workloads.values()))
    return list(islice((position for position in in_turn if position is not None), MAX_PODS))


def _compare_batch(pair: ClusterPair, positions: Sequence[Position]) -> BatchResult:
    """Compare some pods under both schedulers. Equal pods should be adjacent."""
    first, second = pair.before.get_cached(_SchedulerProbe), pair.after.get_cached(_SchedulerProbe)
    elsewhere, rescored, unknown, failed, same = [], [], set[Unknown](), 0, set[int]()
    scores: dict[int, ScoreDigest | None] = {}
    for position in positions:
        then, now = first.find_best_nodes(position, unknown), second.find_best_nodes(position, unknown)
        pod, kind = first.view.pods.objects[position], int(first.view.pods.info[position])
        if then is None or now is None:
            failed += 1
            continue
        if then != now:
            elsewhere.append(PodElsewhere(str(find_owner(pod)), pod.key, then, now))
            continue
        if kind not in scores:
            scores[kind] = first.digest_scores(position)
            same.update({kind} if scores[kind] == second.digest_scores(position) else ())
        if kind not in same:
            rescored.append(PodRescored(str(find_owner(pod)), pod.key, kind, scores[kind]))
    return BatchResult(tuple(elsewhere), tuple(rescored), failed, summarize_unknowns(unknown, AFFECTED))


class _SchedulerProbe:
    """A scheduler that is asked about pods, each of which leaves its node meanwhile."""

    def __init__(self, shared: SharedCluster) -> None:
        self.scheduler = scheduler = shared.scheduler
        self.view = scheduler.view.fork()
        self.placements = Placements(self.view, 0, None)

    def find_best_nodes(self, position: Position, unknown: set[Unknown]) -> Nodes | None:
        """Return the best nodes for the pod, () if none fits or no profile serves it, None if a plugin fails.

        Unread kinds that the answer depends on are added to ``unknown``.
        """
        framework = self._find_framework(position, unknown)
        if framework is None:
            return ()
        with self._without_pod(position):
            try:
                choice = self.placements.choose(framework, position)
            except PluginError:
                return None
            finally:
                unknown.update(self.placements.unheard)
        return () if choice is None else tuple(sorted(self.view.nodes.names[row] for row in choice.tied.tolist()))

    def collect_plugin_answers(self, position: Position) -> Mapping[str, bytes]:
        """Return what each plugin says of the nodes for the pod."""
        framework = self._find_framework(position, set())
        if framework is None:
            return {}
        with self._without_pod(position):
            cycle = run_cycle(
                framework, self.placements.get_incoming_info(int(self.view.pods.info[position])), self.view
            )
        said = dict[str, bytes]()
        for name, verdict in cycle.filter.verdicts.items():
            said[name] = b"".join(rejection.mask.tobytes() for rejection in verdict.rejections)
        for name, scores in cycle.scores.weighted.items():
            said[name] = said.get(name, b"") + scores.tobytes()
        return said

    def digest_scores(self, position: Position) -> ScoreDigest | None:
        """Return a digest of the scores, or None if they are unknown."""
        framework = self._find_framework(position, set())
        if framework is None:
            return None
        with self._without_pod(position):
            try:
                totals = self.placements.score_feasible_rows(framework, position)
            except PluginError:
                return None
        if totals is None or not len(totals[0]):
            return None
        rows, scores = totals
        return sha256(rows.tobytes() + (scores - scores.max()).tobytes()).digest()

    def _find_framework(self, position: Position, unknown: set[Unknown]) -> Framework | None:
        info = self.placements.get_incoming_info(int(self.view.pods.info[position]))
        framework, unknowns = self.scheduler.framework_for(info, self.view)
        unknown.update(unknowns)
        return framework

    @contextmanager
    def _without_pod(self, position: Position) -> Iterator[None]:
        """Take the pod off its node within the block."""
        row = self.view.node[position]
        self.view.forget(position)
        try:
            yield
        finally:
            self.view.assume(position, row)
