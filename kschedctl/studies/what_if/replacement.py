"""Where running pods would go, each as if it alone were made anew: under one scheduler, and under another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice, zip_longest
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Position
from kschedctl.api.ownership import owner_of
from kschedctl.reports.unknown import UnknownKind
from kschedctl.reports.version_changes import VersionChange
from kschedctl.reports.whatif import PodsElsewhere, Replacement
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.framework.dependencies import Effect, Unknown
from kschedctl.scheduler.simulation.placement import Placements
from kschedctl.snapshot.fork import Fork
from kschedctl.studies.basics.edits import returns
from kschedctl.studies.basics.parallel import Progress, Workers, run_all
from kschedctl.studies.basics.unknown import REPLACEMENT, together, unknown_kinds
from kschedctl.studies.what_if.causes import Causes, Fate, Names, TwoVersions, explained
from kschedctl.studies.what_if.shared_cluster import SharedCluster

Nodes = tuple[str, ...]

MOST_ASKED = 2000
"""Where there are more pods, the first of each workload are asked about, then the second, and so on."""
ASKED_AT_ONCE = 50
AFFECTED: Mapping[Effect, str] = {
    effect: REPLACEMENT for effect in Effect if effect not in (Effect.VICTIMS, Effect.WORDS)
}


@dataclass(frozen=True)
class Pair:
    """A cluster with one scheduler, and with another."""

    before: SharedCluster
    after: SharedCluster


class PodElsewhere(NamedTuple):
    workload: str
    pod: str
    before: Nodes
    after: Nodes


class SomeReplaced(NamedTuple):
    """About some pods: those that would go elsewhere, of how many nothing is known, and what was not read."""

    elsewhere: tuple[PodElsewhere, ...]
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
    known = results.known
    elsewhere = [pod for answers in known for pod in answers.elsewhere]
    because = {} if results.interrupted else _because(pair, rows, elsewhere, progress)
    groups: dict[tuple[str, Nodes, Nodes, tuple[str, ...]], list[str]] = {}
    for pod in elsewhere:
        why = because.get(pod.pod, ())
        groups.setdefault((pod.workload, pod.before, pod.after, why), []).append(pod.pod)
    report = Replacement(
        running=len(running),
        asked=sum(len(task) for task, answers in zip(tasks, results.found, strict=True) if answers is not None),
        elsewhere=tuple(PodsElsewhere(who, tuple(sorted(pods)), *nodes) for (who, *nodes), pods in groups.items()),
        failed=sum(answers.failed for answers in known),
    )
    interrupted = results.interrupted or (bool(because) and len(because) < len(elsewhere))
    return Replaced(report, together(answers.unknown for answers in known), interrupted)


def _because(
    pair: Pair, rows: tuple[VersionChange, ...], elsewhere: Sequence[PodElsewhere], progress: Progress
) -> dict[str, tuple[str, ...]]:
    """Pod -> the changes of the version without which it would stay where it is best now."""
    if not elsewhere or pair.before.call_extender is not None:
        return {}
    versions = TwoVersions(pair.before.cluster, pair.after.cluster, rows)
    view = pair.before.scheduler.view
    positions = {pod.pod: Position(view.pods.index[pod.pod]) for pod in elsewhere}

    def replay(names: Names) -> Fate:
        asked = _Asked(SharedCluster(versions.mixed(names)))
        return cache(lambda pod: asked.nodes(positions[pod], set()))

    causes = Causes(versions.changes(), {pod.pod: pod.before for pod in elsewhere}, replay)
    return explained(positions, causes, progress.begin("Causes", len(positions)))


def _running(view: Fork) -> list[Position]:
    """The pods on nodes whom somebody makes anew, and not for that very node."""
    anew = view.pods.where(lambda info: returns(info.pod))[view.pods.info]
    return [Position(position) for position in np.flatnonzero((view.node >= 0) & anew).tolist()]


def _some_of_each(view: Fork, running: Sequence[Position]) -> Sequence[Position]:
    """All running pods, or of too many the first of each workload, then the second, and so on."""
    if len(running) <= MOST_ASKED:
        return running
    workloads: dict[str, list[Position]] = {}
    for position in running:
        workloads.setdefault(str(owner_of(view.pods.objects[position])), []).append(position)
    in_turn = chain.from_iterable(zip_longest(*workloads.values()))
    return list(islice((position for position in in_turn if position is not None), MOST_ASKED))


def _answers(pair: Pair, positions: Sequence[Position]) -> SomeReplaced:
    """Where pods would go under both schedulers; pods alike are best asked about one after the other."""
    first, second = pair.before.once(_Asked), pair.after.once(_Asked)
    elsewhere, unknown, failed = [], set[Unknown](), 0
    for position in positions:
        then, now = first.nodes(position, unknown), second.nodes(position, unknown)
        pod = first.view.pods.objects[position]
        if then is None or now is None:
            failed += 1
        elif then != now:
            elsewhere.append(PodElsewhere(str(owner_of(pod)), pod.key, then, now))
    return SomeReplaced(tuple(elsewhere), failed, unknown_kinds(unknown, AFFECTED))


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
        info = self.placements.incoming(int(self.view.pods.info[position]))
        framework, unknowns = self.scheduler.framework_for(info, self.view)
        unknown.update(unknowns)
        if framework is None:
            return ()
        row = self.view.node[position]
        self.view.forget(position)
        try:
            choice = self.placements.choose(framework, position)
        except PluginError:
            return None
        finally:
            self.view.assume(position, row)
            unknown.update(self.placements.unheard)
        return () if choice is None else tuple(sorted(self.view.nodes.names[row] for row in choice.tied))
