"""Where running pods would go, each as if it alone were made anew: under one scheduler, and under another."""

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
from kschedctl.commands.whatif.causes import Causes, Fate, Names, TwoVersions, explained
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
Scored = bytes
"""A digest of which nodes fit a pod, and by how many points each is behind the best."""

MOST_ASKED = 2000
"""Where there are more pods, the first of each workload are asked about, then the second, and so on."""
ASKED_AT_ONCE = 50
AFFECTED: Mapping[Effect, str] = {
    effect: REPLACEMENT for effect in Effect if effect not in (Effect.VICTIMS, Effect.ORDER)
}


class Pair(NamedTuple):
    """A cluster with one scheduler, and with another."""

    before: SharedCluster
    after: SharedCluster


class PodElsewhere(NamedTuple):
    workload: str
    pod: str
    before: Nodes
    after: Nodes


class PodRescored(NamedTuple):
    """``kind``: the number of what is scheduled for it; ``before``: its scores."""

    workload: str
    pod: str
    kind: int
    before: Scored | None


class SomeReplaced(NamedTuple):
    """About some pods: those that would go elsewhere, those for which nodes score otherwise, and what is not known.

    That is of how many nothing is, and what was not read.
    """

    elsewhere: tuple[PodElsewhere, ...]
    rescored: tuple[PodRescored, ...]
    failed: int
    unknown: tuple[UnknownKind, ...]


class Replaced(NamedTuple):
    """What is known of the running pods, also if the user stopped it, and what that leans on and was not read."""

    report: Replacement
    unknown: tuple[UnknownKind, ...]
    interrupted: bool


def replacement(
    before: SharedCluster,
    after: SharedCluster,
    rows: tuple[VersionChange, ...],
    workers: Workers,
    progress: Progress,
) -> Replaced:
    """The running pods for which the equally good nodes are not the same, and which ``rows`` of the table explain it.

    Both clusters have the same objects.
    """
    pair = Pair(before, after)
    view = pair.before.scheduler.view
    running = _running(view)
    asked = sorted(_some_of_each(view, running), key=lambda position: (int(view.pods.info[position]), position))
    tasks = [asked[i : i + ASKED_AT_ONCE] for i in range(0, len(asked), ASKED_AT_ONCE)]
    results = run_all(_answers, pair, tasks, workers, progress.begin("Running pods", len(tasks)))
    known = results.completed
    explaining = Explaining(pair, rows, progress, off=results.interrupted)
    elsewhere = explaining.elsewhere([pod for answers in known for pod in answers.elsewhere])
    rescored = explaining.rescored([pod for answers in known for pod in answers.rescored])
    report = Replacement(
        running=len(running),
        asked=sum(len(task) for task, answers in zip(tasks, results.by_task, strict=True) if answers is not None),
        elsewhere=elsewhere,
        failed=sum(answers.failed for answers in known),
        rescored=rescored,
    )
    interrupted = results.interrupted or explaining.interrupted
    return Replaced(report, merge_unknown_kinds(answers.unknown for answers in known), interrupted)


@dataclass
class Explaining:
    """Finds the rows of the table behind what is not the same; ``off``: no row is looked for."""

    pair: Pair
    rows: tuple[VersionChange, ...]
    progress: Progress
    off: bool
    interrupted: bool = False
    _found: list[Names] = field(default_factory=list)
    _mixes: dict[Names, _Asked] = field(default_factory=dict)

    def elsewhere(self, pods: Sequence[PodElsewhere]) -> tuple[PodsElsewhere, ...]:
        """By workload, nodes and why."""
        because = self._because({pod.pod: pod.before for pod in pods}, lambda asked, at: asked.nodes(at, set()))
        groups: dict[tuple[str, Nodes, Nodes, tuple[str, ...]], list[str]] = {}
        for pod in pods:
            why = because.get(pod.pod, ())
            groups.setdefault((pod.workload, pod.before, pod.after, why), []).append(pod.pod)
        return tuple(PodsElsewhere(who, tuple(sorted(names)), *nodes) for (who, *nodes), names in groups.items())

    def rescored(self, pods: Sequence[PodRescored]) -> tuple[PodsRescored, ...]:
        """By workload and why; pods alike have one reason."""
        firsts = {pod.kind: pod for pod in reversed(pods)}
        because = self._because({pod.pod: pod.before for pod in firsts.values()}, _Asked.scores)
        groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for pod in pods:
            groups.setdefault((pod.workload, because.get(firsts[pod.kind].pod, ())), []).append(pod.pod)
        return tuple(PodsRescored(who, tuple(sorted(names)), why) for (who, why), names in groups.items())

    def _because(
        self, before: Mapping[str, Hashable], ask: Callable[[_Asked, Position], Hashable]
    ) -> dict[str, tuple[str, ...]]:
        """Pod -> the changes of the version without which the answer about it would be as before."""
        if not before or self.off or self.pair.before.call_extender is not None:
            return {}
        versions = TwoVersions(self.pair.before.cluster, self.pair.after.cluster, self.rows)
        index = self.pair.before.scheduler.view.pods.index

        def replay(names: Names) -> Fate:
            if names not in self._mixes:
                self._mixes[names] = _Asked(SharedCluster(versions.mixed(names)))
            asked = self._mixes[names]
            return cache(lambda pod: ask(asked, Position(index[pod])))

        def likely(pod: str) -> Names:
            asked = (pair.get_cached(_Asked) for pair in self.pair)
            then, now = (scheduler.by_plugin(Position(index[pod])) for scheduler in asked)
            return versions.of_plugins({name for name in then.keys() | now.keys() if then.get(name) != now.get(name)})

        causes = Causes(versions.changes(), before, replay, self._found, likely)
        because = explained(before.keys(), causes, self.progress.begin("Causes", len(before)))
        self.interrupted |= len(because) < len(before)
        return because


def _running(view: Fork) -> list[Position]:
    """The pods on nodes whom somebody makes anew, and not for that very node."""
    anew = view.pods.where(lambda info: is_recreated_elsewhere(info.pod))[view.pods.info]
    return [Position(position) for position in np.flatnonzero((view.node >= 0) & anew).tolist()]


def _some_of_each(view: Fork, running: Sequence[Position]) -> Sequence[Position]:
    """All running pods, or of too many the first of each workload, then the second, and so on."""
    if len(running) <= MOST_ASKED:
        return running
    workloads: dict[str, list[Position]] = {}
    for position in running:
        workloads.setdefault(str(find_owner(view.pods.objects[position])), []).append(position)
    in_turn = chain.from_iterable(zip_longest(*workloads.values()))
    return list(islice((position for position in in_turn if position is not None), MOST_ASKED))


def _answers(pair: Pair, positions: Sequence[Position]) -> SomeReplaced:
    """Where pods would go under both schedulers; pods alike are best asked about one after the other."""
    first, second = pair.before.get_cached(_Asked), pair.after.get_cached(_Asked)
    elsewhere, rescored, unknown, failed, same = [], [], set[Unknown](), 0, set[int]()
    scores: dict[int, Scored | None] = {}
    for position in positions:
        then, now = first.nodes(position, unknown), second.nodes(position, unknown)
        pod, kind = first.view.pods.objects[position], int(first.view.pods.info[position])
        if then is None or now is None:
            failed += 1
            continue
        if then != now:
            elsewhere.append(PodElsewhere(str(find_owner(pod)), pod.key, then, now))
            continue
        if kind not in scores:
            scores[kind] = first.scores(position)
            same.update({kind} if scores[kind] == second.scores(position) else ())
        if kind not in same:
            rescored.append(PodRescored(str(find_owner(pod)), pod.key, kind, scores[kind]))
    return SomeReplaced(tuple(elsewhere), tuple(rescored), failed, summarize_unknowns(unknown, AFFECTED))


class _Asked:
    """A scheduler that is asked about pods which leave their nodes for as long as that takes."""

    def __init__(self, shared: SharedCluster) -> None:
        self.scheduler = scheduler = shared.scheduler
        self.view = scheduler.view.fork()
        self.placements = Placements(self.view, 0, None)

    def nodes(self, position: Position, unknown: set[Unknown]) -> Nodes | None:
        """The best nodes for the pod; none where none fits, or no profile serves it; None where a plugin fails.

        What that leans on and was not read is added to ``unknown``.
        """
        framework = self._framework(position, unknown)
        if framework is None:
            return ()
        with self._away(position):
            try:
                choice = self.placements.choose(framework, position)
            except PluginError:
                return None
            finally:
                unknown.update(self.placements.unheard)
        return () if choice is None else tuple(sorted(self.view.nodes.names[row] for row in choice.tied.tolist()))

    def by_plugin(self, position: Position) -> Mapping[str, bytes]:
        """What each plugin says of the nodes for the pod; nothing where none is asked."""
        framework = self._framework(position, set())
        if framework is None:
            return {}
        with self._away(position):
            cycle = run_cycle(framework, self.placements.incoming(int(self.view.pods.info[position])), self.view)
        said = dict[str, bytes]()
        for name, verdict in cycle.filter.verdicts.items():
            said[name] = b"".join(rejection.mask.tobytes() for rejection in verdict.rejections)
        for name, scores in cycle.scores.weighted.items():
            said[name] = said.get(name, b"") + scores.tobytes()
        return said

    def scores(self, position: Position) -> Scored | None:
        """None where that is not known."""
        framework = self._framework(position, set())
        if framework is None:
            return None
        with self._away(position):
            try:
                totals = self.placements.totals(framework, position)
            except PluginError:
                return None
        if totals is None or not len(totals[0]):
            return None
        rows, scores = totals
        return sha256(rows.tobytes() + (scores - scores.max()).tobytes()).digest()

    def _framework(self, position: Position, unknown: set[Unknown]) -> Framework | None:
        info = self.placements.incoming(int(self.view.pods.info[position]))
        framework, unknowns = self.scheduler.framework_for(info, self.view)
        unknown.update(unknowns)
        return framework

    @contextmanager
    def _away(self, position: Position) -> Iterator[None]:
        """For as long as this the pod has left its node."""
        row = self.view.node[position]
        self.view.forget(position)
        try:
            yield
        finally:
            self.view.assume(position, row)
