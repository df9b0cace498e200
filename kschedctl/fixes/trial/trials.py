"""Cycles of one pod replayed under changes, on one snapshot: whether changes help is decided here and nowhere else."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from kschedctl.api.api_object import object_key
from kschedctl.api.arrays import Position, Row
from kschedctl.api.objects import Pod, Struct
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.fixes.trial.changes import Edited, Fix, edited, reader
from kschedctl.fixes.trial.readmission import readmit
from kschedctl.replay.controllers.creation import admit_pod
from kschedctl.replay.edits import change_pods
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.engine.post_filter import run_post_filter
from kschedctl.scheduler.engine.preemption.candidates import NO_CANDIDATES
from kschedctl.scheduler.engine.preemption.evaluator import Preemption
from kschedctl.scheduler.framework.dependencies import Effect, Unknown
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

PREEMPTS = "UsePriorityClass"
"""The kind of change after which the scheduler makes room for the pod itself."""


@dataclass(frozen=True)
class RemedyTrial:
    """What came of the changes. ``edits``: the objects that they change.

    ``own``: the asked pod as it is written, ``pod`` as the API server holds it. ``cycle`` is None where no profile
    serves the pod. ``nominated``: the node on which the scheduler evicts the ``victims``, where the pod fits none;
    ``harm``: what is lost by that, in words: pods that nothing makes again, a budget's guarantee; empty for none.
    ``unheard``: the extenders that might refuse it all the same.
    """

    scheduler: Scheduler
    changes: tuple[Fix, ...]
    edits: Mapping[ObjectKey, Edited]
    own: Pod
    pod: Pod
    framework: Framework | None
    cycle: Cycle | None
    nominated: str = ""
    victims: tuple[str, ...] = ()
    harm: str = ""
    unheard: tuple[Unknown, ...] = ()

    @property
    def fits(self) -> bool:
        return self.cycle is not None and self.cycle.schedulable and not self.cycle.gated

    @property
    def created(self) -> bool:
        """Whether the API server has the pod; else it is to be created."""
        return is_created(self.pod, self.scheduler.cluster)

    @property
    def works(self) -> bool:
        return self.fits or bool(self.nominated)

    @cached_property
    def opens(self) -> tuple[str, ...]:
        """The nodes that take the pod, by name."""
        if self.cycle is None or not self.fits:
            return (self.nominated,) if self.nominated else ()
        names = self.cycle.view.nodes.names
        return tuple(sorted(names[row] for row in self.cycle.feasible.tolist()))


class Trials:
    """Trials of a pod ``as_read``, which need not be in the scheduler's cluster. ``replayed`` counts the cycles."""

    def __init__(self, scheduler: Scheduler, as_read: Pod) -> None:
        self.scheduler, self.key = scheduler, ObjectKey.of(as_read)
        self._read = reader(scheduler.cluster)
        self._as_read = as_read
        self._known: dict[frozenset[Fix], RemedyTrial] = {}
        self._room: dict[tuple[Fix, ...], bool] = {}
        self.replayed = 0
        self.base = self.of(())

    def of(self, changes: Iterable[Fix]) -> RemedyTrial:
        """The trial of these changes, made in this order; those of one set are replayed once."""
        asked = tuple(changes)
        name = frozenset(asked)
        if name not in self._known:
            self._known[name] = self._replay(asked)
        return self._known[name]

    def make_room(self, changes: tuple[Fix, ...]) -> bool:
        """Whether the scheduler, after the changes, evicts others for the pod by the priority that it has then."""
        if changes not in self._room:
            trial = self.of(changes)
            cycle = trial.cycle
            self._room[changes] = cycle is not None and bool(trial.nominated or with_preemption(trial, cycle).nominated)
        return self._room[changes]

    def singles(self, kind: str) -> list[RemedyTrial]:
        """What was tried of single changes of a kind."""
        alone = (trial for changes, trial in self._known.items() if len(changes) == 1)
        return [trial for trial in alone if trial.changes[0].kind == kind]

    def read(self, key: ObjectKey) -> Struct | None:
        """An object as it was read."""
        return self._as_read if key == self.key else self._read(key)

    def _replay(self, changes: tuple[Fix, ...]) -> RemedyTrial:
        self.replayed += 1
        edits = edited(changes, self.read)
        view = changed_view(self.scheduler.view, {key: edit for key, edit in edits.items() if key != self.key})
        own = edits[self.key].after if self.key in edits else self._as_read
        assert isinstance(own, Pod)
        readmitted = readmit(self._as_read, own, view.cluster) if is_created(own, view.cluster) else own
        if readmitted is None:
            return RemedyTrial(self.scheduler, changes, edits, own, own, None, None)
        pod = held(readmitted, view)
        info = PodInfo(pod, view.settings.requests)
        framework, unknown = self.scheduler.framework_for(info, view)
        if framework is None:
            return RemedyTrial(self.scheduler, changes, edits, own, pod, None, None)
        cycle = run_cycle(framework, info, view)
        narrowing = (
            kind for kind in (*unknown, *cycle.consultation.unknown) if kind.dependency.effect is Effect.NARROWS
        )
        trial = RemedyTrial(self.scheduler, changes, edits, own, pod, framework, cycle, unheard=tuple(narrowing))
        if trial.fits or not any(change.kind == PREEMPTS for change in changes):
            return trial
        return with_preemption(trial, cycle)


def with_preemption(trial: RemedyTrial, cycle: Cycle) -> RemedyTrial:
    """The trial and whom the scheduler evicts for the pod."""
    if cycle.gated or cycle.error is not None or not len(cycle.view.nodes):
        return trial
    results = run_post_filter(cycle).results.values()
    made = (
        (post_filter_result, post_filter_result.report)
        for post_filter_result in results
        if post_filter_result.nominated_node
    )
    result, report = next(
        (
            (post_filter_result, preemption)
            for post_filter_result, preemption in made
            if isinstance(preemption, Preemption)
        ),
        (None, None),
    )
    if result is None or report is None:
        return trial
    allowed, view = report.allowed, cycle.view
    candidates = allowed.tied if allowed else NO_CANDIDATES
    (chosen,) = candidates.take(np.flatnonzero(candidates.row == view.nodes.index[result.nominated_node]))
    victims = [view.pods.objects[position] for position in chosen.victims]
    keys = tuple(victim.key for victim in victims)
    return replace(trial, nominated=result.nominated_node, victims=keys, harm=_harm(victims, chosen.pdb_violations))


def _harm(victims: Iterable[Pod], violations: int) -> str:
    """Return what is lost with the victims, in words: pods without a controller, and guarantees of PDBs.

    A victim that is being deleted already loses nothing by the preemption.
    """
    staying = (victim for victim in victims if victim.metadata.deletion_timestamp is None)
    bare = [victim.key for victim in staying if find_owner(victim).kind == "Pod"]
    harms = [f"no controller owns {', '.join(bare)}"] * bool(bare)
    harms += [f"{violations} of them against a PodDisruptionBudget"] * bool(violations)
    return "; ".join(harms)


def is_created(pod: Pod, cluster: Cluster) -> bool:
    """Whether the API server has the pod, with all that it does to a pod that is created."""
    return bool(pod.metadata.uid) or cluster.pod(pod.metadata.namespace, pod.metadata.name) is not None


def held(pod: Pod, view: Fork) -> Pod:
    """The pod as the API server holds it, or would once it is created."""
    stored = view.stored(pod)
    if is_created(pod, view.cluster):
        return stored
    return view.admitted(view.stored(admit_pod(pod, view.cluster)))


def changed_view(view: Fork, edits: Mapping[ObjectKey, Edited]) -> Fork:
    """A fork in which the objects are as the edits leave them; the same where there are none."""
    if not edits:
        return view
    view = _with_resized_pods(view, {key: edit for key, edit in edits.items() if is_resized(edit)})
    index = view.nodes.index
    nodes = {index[key.name]: edit.after for key, edit in edits.items() if key.kind == "Node" and edit.before}
    more = [(index[edit.like], edit.after) for key, edit in edits.items() if key.kind == "Node" and not edit.before]
    cluster = changed_cluster(view.cluster, edits)
    same = cluster is view.cluster and not nodes and not more
    fork = view.fork() if same else view.with_changes(cluster, nodes, more)  # type: ignore[arg-type]
    for key, edit in edits.items():
        if key.kind == "Pod":
            _move(fork, key, edit)
    return fork


def is_resized(edit: Edited) -> bool:
    """Return whether a pod stays on its node with other requests."""
    before, after = edit.before, edit.after
    if not isinstance(before, Pod) or not isinstance(after, Pod) or not before.spec.node_name:
        return False
    return before.spec != after.spec and before.spec.node_name == after.spec.node_name


def _with_resized_pods(view: Fork, resized: Mapping[ObjectKey, Edited]) -> Fork:
    """Return a view of the same pods on the same nodes, where the edited ones request what the edits leave."""
    if not resized:
        return view

    def build() -> Fork:
        changed = change_pods(view.cluster, {key[1:]: edit.after for key, edit in resized.items()})  # type: ignore[misc]
        return Fork.from_cluster(changed, view.settings)

    fork = view.memo(("resized pods", frozenset(resized)), build).fork()
    for number in np.flatnonzero(fork.node != view.node[: len(fork.node)]).tolist():
        position = Position(number)
        if fork.node[position] >= 0:
            fork.forget(position)
        if view.node[position] >= 0:
            fork.assume(position, Row(int(view.node[position])))
    return fork


def changed_cluster(cluster: Cluster, edits: Mapping[ObjectKey, Edited], whole: bool = False) -> Cluster:
    """The cluster with its objects as the edits leave them; its pods and nodes, which a fork has apart, on demand."""
    changed: dict[str, dict[ObjectKey, Struct | None]] = {}
    for key, edit in edits.items():
        if key.kind != "Pod" and (whole or key.kind != "Node"):
            changed.setdefault(key.kind, {})[key] = edit.after
    for kind, of_kind in changed.items():
        objects: list[Any] = list(getattr(cluster, FIELDS[kind]))
        for key, after in of_kind.items():
            place = bisect_left(objects, key[1:], key=object_key)
            known = place < len(objects) and object_key(objects[place]) == key[1:]
            objects[place : place + known] = [] if after is None else [after]
        made: Any = tuple(objects)
        cluster = replace(cluster, **{FIELDS[kind]: made})
    if whole:
        moved = {key[1:]: edit.after for key, edit in edits.items() if key.kind == "Pod"}
        cluster = change_pods(cluster, moved)  # type: ignore[arg-type]
    return cluster


def _move(view: Fork, key: ObjectKey, edit: Edited) -> None:
    """A pod of the fork leaves its node, goes to another, or comes as another one like it."""
    after = edit.after
    row = view.nodes.index.get(after.spec.node_name) if isinstance(after, Pod) else None
    known = view.pods.find_position(f"{key.namespace}/{key.name}" if edit.before else edit.like)
    assert known is not None
    position = known
    if edit.before is None:
        (position,) = view.clone(position, 1)
    elif view.node[position] >= 0:
        view.forget(position)
    if row is not None:
        view.assume(position, row)
