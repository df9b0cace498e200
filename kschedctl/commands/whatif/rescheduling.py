"""Find running pods that would go to another node if they were recreated under the other of two schedulers."""

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
from kschedctl.commands.whatif.causes import CauseSearch, Names, OutcomeLookup, TwoVersions, find_causes_by_pod
from kschedctl.commands.whatif.report import PodsElsewhere, PodsRescored, Replacement
from kschedctl.replay.edits import is_recreated_elsewhere
from kschedctl.replay.parallel import Progress, Workers, run_tasks
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
"""The number of pods that a worker compares at once."""
AFFECTED: Mapping[Effect, str] = {
    effect: REPLACEMENT for effect in Effect if effect not in (Effect.VICTIMS, Effect.ORDER)
}
"""Effect of an unread kind on the replay -> the part of the report that it affects."""


class ClusterPair(NamedTuple):
    """A cluster under two different schedulers."""

    before: SharedCluster
    after: SharedCluster


class PodElsewhere(NamedTuple):
    """A running pod whose best nodes differ between the schedulers."""

    workload: str
    pod: str
    before: Nodes
    after: Nodes


class PodRescored(NamedTuple):
    """A running pod with the same best nodes under both schedulers, but with different scores."""

    workload: str
    pod: str
    kind: int
    """The index of its PodInfo, equal for equal pods."""
    before: ScoreDigest | None
    """Its scores under the first scheduler."""


class BatchResult(NamedTuple):
    """The differences found for a batch of pods."""

    elsewhere: tuple[PodElsewhere, ...]
    rescored: tuple[PodRescored, ...]
    failed: int
    """The number of pods for which a plugin fails."""
    unknown: tuple[UnknownKind, ...]


class ReplacementResult(NamedTuple):
    """The report on the running pods, with the unread kinds that it depends on."""

    report: Replacement
    unknown: tuple[UnknownKind, ...]
    interrupted: bool


def compare_replacements(
    before: SharedCluster,
    after: SharedCluster,
    version_changes: tuple[VersionChange, ...],
    workers: Workers,
    progress: Progress,
) -> ReplacementResult:
    """Find running pods that would get other best nodes or scores, and the version changes that cause this.

    Both clusters have the same objects. `version_changes` are the changes between their kube-scheduler versions, and
    empty if only their configurations differ. Each pod is judged as if only this pod were recreated. If there are too
    many pods, some pods of each workload are compared.
    """
    pair = ClusterPair(before, after)
    view = pair.before.scheduler.view
    running = _find_recreatable_pods(view)

    # Equal pods are adjacent, so that their batch scores them once.
    sampled = sorted(
        _sample_pods_by_workload(view, running), key=lambda position: (int(view.pods.info[position]), position)
    )
    tasks = [sampled[start : start + BATCH_SIZE] for start in range(0, len(sampled), BATCH_SIZE)]
    results = run_tasks(_compare_pod_batch, pair, tasks, workers, progress.begin("Running pods", len(tasks)))
    batch_results = results.completed
    attribution = ChangeAttribution(pair, version_changes, progress, skip_search=results.interrupted)
    elsewhere = attribution.group_pods_elsewhere([pod for answers in batch_results for pod in answers.elsewhere])
    rescored = attribution.group_rescored_pods([pod for answers in batch_results for pod in answers.rescored])
    report = Replacement(
        running=len(running),
        asked=sum(len(task) for task, answers in zip(tasks, results.by_task, strict=True) if answers is not None),
        elsewhere=elsewhere,
        failed=sum(answers.failed for answers in batch_results),
        rescored=rescored,
    )
    interrupted = results.interrupted or attribution.interrupted
    return ReplacementResult(report, merge_unknown_kinds(answers.unknown for answers in batch_results), interrupted)


@dataclass
class ChangeAttribution:
    """Groups pods by the version changes that cause their differences."""

    pair: ClusterPair
    version_changes: tuple[VersionChange, ...]
    progress: Progress
    skip_search: bool
    """True to skip the search for causes."""
    interrupted: bool = False
    _known_sets: list[Names] = field(default_factory=list)
    _probes: dict[Names, _SchedulerProbe] = field(default_factory=dict)

    def group_pods_elsewhere(self, pods: Sequence[PodElsewhere]) -> tuple[PodsElsewhere, ...]:
        """Find the causes of the pods' other best nodes, and group the pods by workload, best nodes and causes."""

        def find_best_nodes(probe: _SchedulerProbe, position: Position) -> Nodes | None:
            """Return the pod's best nodes, or None if a plugin fails."""
            return probe.find_best_nodes(position, set())

        causes_by_pod = self._find_causes({pod.pod: pod.before for pod in pods}, find_best_nodes)
        groups: dict[tuple[str, Nodes, Nodes, tuple[str, ...]], list[str]] = {}
        for pod in pods:
            group = pod.workload, pod.before, pod.after, causes_by_pod.get(pod.pod, ())
            groups.setdefault(group, []).append(pod.pod)
        return tuple(
            PodsElsewhere(workload, pods=tuple(sorted(names)), before=before, after=after, because=causes)
            for (workload, before, after, causes), names in groups.items()
        )

    def group_rescored_pods(self, pods: Sequence[PodRescored]) -> tuple[PodsRescored, ...]:
        """Find the causes of the pods' other scores, and group the pods by workload and causes.

        The causes are searched once for all pods with an equal PodInfo.
        """
        first_by_kind: dict[int, PodRescored] = {}
        for pod in pods:
            first_by_kind.setdefault(pod.kind, pod)
        scores_before = {pod.pod: pod.before for pod in first_by_kind.values()}
        causes_by_pod = self._find_causes(scores_before, _SchedulerProbe.digest_scores)
        groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for pod in pods:
            causes = causes_by_pod.get(first_by_kind[pod.kind].pod, ())
            groups.setdefault((pod.workload, causes), []).append(pod.pod)
        return tuple(
            PodsRescored(workload, pods=tuple(sorted(names)), because=causes)
            for (workload, causes), names in groups.items()
        )

    def _find_causes(
        self, before: Mapping[str, Hashable], probe_pod: Callable[[_SchedulerProbe, Position], Hashable]
    ) -> dict[str, tuple[str, ...]]:
        """Return the version changes that cause each pod's result to differ, as descriptions by pod.

        With the causes of a pod reverted, the second version gives the pod the same result as the first. `before` maps
        pods to their results under the first scheduler. `probe_pod` computes a pod's result with the scheduler of a
        probe.

        No causes are returned if the search is skipped, the versions are equal or extenders are called. `interrupted`
        is set if the user interrupts.
        """
        if not before or not self.version_changes or self.skip_search or self.pair.before.call_extender is not None:
            return {}
        versions = TwoVersions(self.pair.before.cluster, self.pair.after.cluster, self.version_changes)
        index = self.pair.before.scheduler.view.pods.index

        def replay(names: Names) -> OutcomeLookup:
            """Return a function that computes a pod's result under the second version with these changes reverted."""
            if names not in self._probes:
                self._probes[names] = _SchedulerProbe(SharedCluster(versions.build_mix(names)))
            probe = self._probes[names]
            return cache(lambda pod: probe_pod(probe, Position(index[pod])))

        def guess_changes(pod: str) -> Names:
            """Return the changes of the plugins whose verdicts or scores for the pod differ."""
            position = Position(index[pod])
            first = self.pair.before.get_cached(_SchedulerProbe).collect_plugin_answers(position)
            second = self.pair.after.get_cached(_SchedulerProbe).collect_plugin_answers(position)
            plugins = first.keys() | second.keys()
            return versions.find_plugin_changes(
                {plugin for plugin in plugins if first.get(plugin) != second.get(plugin)}
            )

        search = CauseSearch(versions.describe_changes(), before, replay, self._known_sets, guess_changes)
        causes_by_pod = find_causes_by_pod(before.keys(), search, self.progress.begin("Causes", len(before)))
        self.interrupted |= len(causes_by_pod) < len(before)
        return causes_by_pod


def _find_recreatable_pods(view: Fork) -> list[Position]:
    """Return the positions of the pods on nodes that a controller would recreate, possibly on another node."""
    is_recreatable = view.pods.where(lambda info: is_recreated_elsewhere(info.pod))[view.pods.info]
    return [Position(position) for position in np.flatnonzero(view.mask_placed() & is_recreatable).tolist()]


def _sample_pods_by_workload(view: Fork, running: Sequence[Position]) -> Sequence[Position]:
    """Return all running pods, or MAX_PODS of them with a fair share for each workload if there are more.

    The first pod of each workload is taken, then the second pod of each, and so on.
    """
    if len(running) <= MAX_PODS:
        return running
    workloads: dict[str, list[Position]] = {}
    for position in running:
        workloads.setdefault(str(find_owner(view.pods.objects[position])), []).append(position)
    in_turn = chain.from_iterable(zip_longest(*workloads.values()))
    return list(islice((position for position in in_turn if position is not None), MAX_PODS))


def _compare_pod_batch(pair: ClusterPair, positions: Sequence[Position]) -> BatchResult:
    """Compare the best nodes of some pods under both schedulers and, if these are equal, the scores.

    Scores are compared once for all pods with an equal PodInfo.
    """
    first = pair.before.get_cached(_SchedulerProbe)
    second = pair.after.get_cached(_SchedulerProbe)
    elsewhere = []
    rescored = []
    unknown: set[Unknown] = set()
    failed = 0
    scores_by_kind: dict[int, tuple[ScoreDigest | None, ScoreDigest | None]] = {}  # under both schedulers
    for position in positions:
        nodes_before = first.find_best_nodes(position, unknown)
        nodes_after = second.find_best_nodes(position, unknown)
        if nodes_before is None or nodes_after is None:
            failed += 1
            continue
        pod = first.view.pods.objects[position]
        if nodes_before != nodes_after:
            elsewhere.append(PodElsewhere(str(find_owner(pod)), pod=pod.key, before=nodes_before, after=nodes_after))
            continue

        kind = int(first.view.pods.info[position])
        if kind not in scores_by_kind:
            scores_by_kind[kind] = first.digest_scores(position), second.digest_scores(position)
        scores_before, scores_after = scores_by_kind[kind]
        if scores_before != scores_after:
            rescored.append(PodRescored(str(find_owner(pod)), pod=pod.key, kind=kind, before=scores_before))
    return BatchResult(
        elsewhere=tuple(elsewhere),
        rescored=tuple(rescored),
        failed=failed,
        unknown=summarize_unknowns(unknown, AFFECTED),
    )


class _SchedulerProbe:
    """A scheduler that finds nodes for running pods. Each pod is tried as if it had left its node."""

    def __init__(self, shared: SharedCluster) -> None:
        self.scheduler = shared.scheduler
        self.view = self.scheduler.view.fork()
        self.placements = Placements(self.view, 0, sampling=None)

    def find_best_nodes(self, position: Position, unknown: set[Unknown]) -> Nodes | None:
        """Return the names of the equally good best nodes for the pod, sorted.

        The result is empty if no node fits or no profile serves the pod, and None if a plugin fails. Unread kinds that
        the result depends on are added to `unknown`.
        """
        framework = self._find_framework(position, unknown)
        if framework is None:
            return ()
        with self._without_pod(position):
            try:
                choice = self.placements.choose_node(framework, position)
            except PluginError:
                return None
            finally:
                unknown.update(self.placements.unheard)
        if choice is None:
            return ()
        return tuple(sorted(self.view.nodes.names[row] for row in choice.tied.tolist()))

    def collect_plugin_answers(self, position: Position) -> Mapping[str, bytes]:
        """Map each plugin to its verdicts and scores for the pod, as bytes that can be compared.

        For this, the pod is taken off its node. The result is empty if no profile serves the pod.
        """
        framework = self._find_framework(position, set())
        if framework is None:
            return {}
        info = self.placements.get_incoming_info(int(self.view.pods.info[position]))
        with self._without_pod(position):
            cycle = run_cycle(framework, info, self.view)
        answers: dict[str, bytes] = {}
        for name, verdict in cycle.filter.verdicts.items():
            answers[name] = b"".join(rejection.mask.tobytes() for rejection in verdict.rejections)
        for name, scores in cycle.scores.weighted.items():
            answers[name] = answers.get(name, b"") + scores.tobytes()
        return answers

    def digest_scores(self, position: Position) -> ScoreDigest | None:
        """Return a digest of how far the score of each feasible node is below the best score.

        The result is None if no node is feasible, a plugin fails, or no profile serves the pod.
        """
        framework = self._find_framework(position, set())
        if framework is None:
            return None
        with self._without_pod(position):
            try:
                totals = self.placements.score_feasible_rows(framework, position)
            except PluginError:
                return None
        if totals is None:
            return None
        rows, scores = totals
        if not len(rows):
            return None
        return sha256(rows.tobytes() + (scores - scores.max()).tobytes()).digest()

    def _find_framework(self, position: Position, unknown: set[Unknown]) -> Framework | None:
        """Return the framework that serves the pod, or None if no profile does.

        Unread kinds that the result depends on are added to `unknown`.
        """
        info = self.placements.get_incoming_info(int(self.view.pods.info[position]))
        framework, unknowns = self.scheduler.find_framework_for(info, self.view)
        unknown.update(unknowns)
        return framework

    @contextmanager
    def _without_pod(self, position: Position) -> Iterator[None]:
        """Take the pod off its node within the with-block, and put it back afterwards."""
        row = self.view.node[position]
        self.view.forget(position)
        try:
            yield
        finally:
            self.view.assume(position, row)
