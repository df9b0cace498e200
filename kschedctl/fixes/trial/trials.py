"""Replay scheduling cycles of one pod with changes applied: the only place that decides whether changes help.

Most fields of a pod are immutable, so a changed pod is created anew by a person or its controller. Admission then
restores what comes from the RuntimeClass and from LimitRanges, and denies a pod that contradicts them. Upstream:
plugin/pkg/admission/{runtimeclass,limitranger} (v1.36).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import structs

from kschedctl.api.arrays import Position, Row
from kschedctl.api.defaults import with_runtime_class_fields
from kschedctl.api.objects import Affinity, Pod, PodAffinityTerm, RuntimeClass, Struct, get_object_key
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.errors import InputError
from kschedctl.fixes.trial.changes import EditedObject, Fix, apply_fixes, build_object_reader, is_valid_update
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.replay.controllers.job_failures import find_jobs_failed_by_evictions
from kschedctl.replay.edits import ObjectKey, change_pods, select_pods
from kschedctl.reports.placements import FailedJob, describe_failing_jobs
from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.engine.diagnosis import run_post_filter
from kschedctl.scheduler.engine.preemption.candidates import NO_CANDIDATES
from kschedctl.scheduler.engine.preemption.evaluator import Preemption
from kschedctl.scheduler.framework.dependencies import Effect, Unknown
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


@dataclass(frozen=True)
class RemedyTrial:
    """The replay of a pod's scheduling cycle with a set of changes."""

    scheduler: Scheduler
    changes: tuple[Fix, ...]
    edits: Mapping[ObjectKey, EditedObject]
    """The objects that the changes edit."""
    authored_pod: Pod
    """The target pod as its author writes it."""
    pod: Pod
    """The target pod as the API server stores it."""
    framework: Framework | None
    cycle: Cycle | None
    """The replayed cycle, None if no profile serves the pod or admission denies it."""
    nominated: str = ""
    """The node on which pods are evicted for the pod, if it fits on none; empty otherwise."""
    victims: tuple[str, ...] = ()
    """Keys of the evicted pods."""
    harm: str = ""
    """A description of what the evictions lose; empty if they lose nothing."""
    failed_jobs: tuple[FailedJob, ...] = ()
    """The Jobs that fail because of the evictions."""
    uncalled_extenders: tuple[Unknown, ...] = ()
    """Extenders that were not called and might still reject the pod."""

    @property
    def is_served(self) -> bool:
        """True if admission accepts the pod and a profile serves it."""
        return self.framework is not None

    @property
    def fits(self) -> bool:
        """True if the pod fits on a node without preemption."""
        return self.cycle is not None and self.cycle.schedulable and not self.cycle.gated

    @property
    def changes_workload(self) -> bool:
        """True if the trial changes the spec of a pod that a controller manages, so that its template has to change."""
        edit = self.edits.get(ObjectKey.of(self.authored_pod))
        unchanged_pod = edit.before if edit is not None else None
        if not isinstance(unchanged_pod, Pod) or unchanged_pod.spec == self.authored_pod.spec:
            return False
        owner = find_owner(self.authored_pod)  # the pod itself if it has no controller, the Node of a static pod
        return owner.kind not in ("Pod", "Node")

    @property
    def cordoned_nodes(self) -> tuple[str, ...]:
        """The nodes that the changes keep cordoned for a while."""
        return tuple(dict.fromkeys(fix.cordoned_node for fix in self.changes if fix.cordoned_node))

    @property
    def raises_priority(self) -> bool:
        """True if the pod is tried with a higher PriorityClass, so that it can preempt other pods."""
        return any(change.kind == FixKind.USE_PRIORITY_CLASS for change in self.changes)

    @property
    def created(self) -> bool:
        """True if the API server already has the pod."""
        return is_stored(self.pod, self.scheduler.cluster)

    @property
    def works(self) -> bool:
        """True if the pod fits, or preemption nominates a node."""
        return self.fits or bool(self.nominated)

    @cached_property
    def feasible_or_nominated_nodes(self) -> tuple[str, ...]:
        """The sorted names of the feasible nodes. If there are none, the nominated node, if any."""
        if self.cycle is None or not self.fits:
            return (self.nominated,) if self.nominated else ()
        names = self.cycle.view.nodes.names
        return tuple(sorted(names[row] for row in self.cycle.feasible.tolist()))


class Trials:
    """The trials of changes for one pod. Each set of changes is replayed once."""

    def __init__(self, scheduler: Scheduler, as_read: Pod) -> None:
        self.scheduler = scheduler
        self.key = ObjectKey.of(as_read)
        self._read = build_object_reader(scheduler.cluster)
        self._as_read = as_read
        self._trials_by_changes: dict[frozenset[Fix], RemedyTrial] = {}
        self._can_preempt_by_changes: dict[tuple[Fix, ...], bool] = {}
        self.replayed = 0
        self.base = self.replay_changes(())

    def replay_changes(self, changes: Iterable[Fix]) -> RemedyTrial:
        """Return the trial of these changes, applied in this order. Trials are cached by their sets of changes."""
        ordered_changes = tuple(changes)
        change_set = frozenset(ordered_changes)
        if change_set not in self._trials_by_changes:
            self._trials_by_changes[change_set] = self._run_cycle(ordered_changes)
        return self._trials_by_changes[change_set]

    def can_preempt(self, changes: tuple[Fix, ...]) -> bool:
        """Return whether preemption can make room for the pod at its priority after the changes. Results are cached."""
        if changes not in self._can_preempt_by_changes:
            trial = self.replay_changes(changes)
            if trial.cycle is not None and not trial.nominated:
                trial = add_preemption(trial, trial.cycle)
            self._can_preempt_by_changes[changes] = bool(trial.nominated)
        return self._can_preempt_by_changes[changes]

    def find_single_trials(self, kind: FixKind) -> list[RemedyTrial]:
        """Return all trials so far that consist of a single change of this kind."""
        single_trials = [trial for trial in self._trials_by_changes.values() if len(trial.changes) == 1]
        return [trial for trial in single_trials if trial.changes[0].kind == kind]

    def read(self, key: ObjectKey) -> Struct | None:
        """Return an object as it was before the changes, or None if there is none with this key."""
        return self._as_read if key == self.key else self._read(key)

    def _run_cycle(self, changes: tuple[Fix, ...]) -> RemedyTrial:
        """Apply the changes, admit the changed pod, and replay its scheduling cycle.

        Preemption is replayed only if the changes raise the pod's priority and the pod fits nowhere. The trial has no
        cycle if admission denies the pod or no profile serves it.
        """
        self.replayed += 1
        edits = apply_fixes(changes, self.read)
        view = fork_with_edits(self.scheduler.view, {key: edit for key, edit in edits.items() if key != self.key})

        # Admit the changed pod. If admission denies it or no profile serves it, there is no cycle.
        target_pod = edits[self.key].after if self.key in edits else self._as_read
        assert isinstance(target_pod, Pod)
        view = _fork_with_changed_replicas(view, self._as_read, target_pod)
        readmitted_pod: Pod | None = target_pod
        if is_stored(target_pod, view.cluster):
            readmitted_pod = readmit_pod(self._as_read, target_pod, view.cluster)
        trial_without_cycle = RemedyTrial(
            self.scheduler, changes, edits, authored_pod=target_pod, pod=target_pod, framework=None, cycle=None
        )
        if readmitted_pod is None:
            return trial_without_cycle
        pod = build_stored_pod(readmitted_pod, view)
        info = PodInfo(pod, view.settings.requests)
        framework, unknown = self.scheduler.find_framework_for(info, view)
        if framework is None:
            return replace(trial_without_cycle, pod=pod)

        # Run the cycle, and note the extenders that were not called but might reject the pod.
        cycle = run_cycle(framework, info, view)
        uncalled_extenders = [
            extender
            for extender in (*unknown, *cycle.consultation.unknown)
            if extender.dependency.effect is Effect.NARROWS
        ]
        trial = replace(
            trial_without_cycle, pod=pod, framework=framework, cycle=cycle, uncalled_extenders=tuple(uncalled_extenders)
        )
        if trial.fits or not trial.raises_priority:
            return trial
        return add_preemption(trial, cycle)


def add_preemption(trial: RemedyTrial, cycle: Cycle) -> RemedyTrial:
    """Replay preemption, and return the trial with the nominated node, its victims and the harm to them.

    The trial is returned unchanged if preemption nominates no node or the cycle ended before PostFilter.
    """
    if cycle.gated or cycle.error is not None or not len(cycle.view.nodes):
        return trial
    for result in run_post_filter(cycle).results.values():
        if result.nominated_node and isinstance(result.report, Preemption):
            return _add_victims_to_trial(trial, cycle.view, result.nominated_node, result.report)
    return trial


def _add_victims_to_trial(trial: RemedyTrial, view: Fork, node: str, preemption: Preemption) -> RemedyTrial:
    """Return the trial with the nominated node, the victims that preemption chose there, and the harm to them."""
    best_candidates = preemption.allowed.tied if preemption.allowed else NO_CANDIDATES
    # There is only one candidate per node
    (chosen,) = best_candidates.select(np.flatnonzero(best_candidates.row == view.nodes.index[node]))
    victims = [view.pods.objects[position] for position in chosen.victims]
    keys = tuple(victim.key for victim in victims)
    living_victims = [victim for victim in victims if victim.metadata.deletion_timestamp is None]
    failed_jobs = find_jobs_failed_by_evictions(view.cluster, living_victims)
    harm = _describe_eviction_harm(living_victims, failed_jobs, chosen.pdb_violations)
    return replace(trial, nominated=node, victims=keys, harm=harm, failed_jobs=failed_jobs)


def _describe_eviction_harm(living_victims: Sequence[Pod], failed_jobs: Sequence[FailedJob], violations: int) -> str:
    """Describe the harm of evicting the victims: pods that nothing recreates, failing Jobs, and violations of PDBs.

    The text is empty if there is no harm. `living_victims` are the victims that are not being deleted already.
    """
    # A pod without a controller is its own owner.
    uncontrolled_pods = [victim.key for victim in living_victims if find_owner(victim).kind == "Pod"]
    harms = []
    if uncontrolled_pods:
        harms.append(f"no controller recreates {', '.join(uncontrolled_pods)}")
    if failure := describe_failing_jobs(failed_jobs):
        harms.append(failure)
    if violations:
        verb = "eviction violates" if violations == 1 else "evictions violate"
        harms.append(f"{violations} {verb} a PodDisruptionBudget")
    return "; ".join(harms)


def is_stored(pod: Pod, cluster: Cluster) -> bool:
    """Return whether the API server already stores the pod: it has a UID, or the cluster has a pod of its name."""
    return bool(pod.metadata.uid) or cluster.pod(pod.metadata.namespace, pod.metadata.name) is not None


def build_stored_pod(pod: Pod, view: Fork) -> Pod:
    """Return the pod as the API server stores it. A pod that does not exist yet goes through admission first."""
    stored = view.build_stored_pod(pod)
    if is_stored(pod, view.cluster):
        return stored
    from kschedctl.replay.controllers.creation import admit_pod  # noqa: PLC0415 - only for pods to be created

    # The API server merges label keys into the selectors of a pod when it creates the pod
    return view.merge_label_keys(view.build_stored_pod(admit_pod(pod, view.cluster)))


def fork_with_edits(view: Fork, edits: Mapping[ObjectKey, EditedObject]) -> Fork:
    """Return a fork of the view with the edits of all kinds of objects applied, or the view if there are no edits."""
    if not edits:
        return view
    view = _fork_with_resized_pods(view, {key: edit for key, edit in edits.items() if is_resized(edit)})

    # Edit nodes and other objects. New nodes are copies of existing ones.
    index = view.nodes.index
    node_edits = [(key, edit) for key, edit in edits.items() if key.kind == "Node"]
    changed_nodes = {index[key.name]: edit.after for key, edit in node_edits if edit.before}
    added_nodes = [(index[edit.like], edit.after) for key, edit in node_edits if not edit.before]
    cluster = apply_edits_to_cluster(view.cluster, edits, with_pods_and_nodes=False)
    if cluster is view.cluster and not node_edits:
        fork = view.fork()
    else:
        fork = view.with_changes(cluster, changed_nodes, added_nodes)  # type: ignore[arg-type]

    for key, edit in edits.items():
        if key.kind == "Pod":
            _apply_pod_edit(fork, key, edit)
    return fork


def is_resized(edit: EditedObject) -> bool:
    """Return whether the edit resizes a pod in place: it changes the pod's spec, and the pod stays on its node."""
    before, after = edit.before, edit.after
    if not isinstance(before, Pod) or not isinstance(after, Pod) or not before.spec.node_name:
        return False
    return before.spec != after.spec and before.spec.node_name == after.spec.node_name


def _fork_with_resized_pods(view: Fork, resized: Mapping[ObjectKey, EditedObject]) -> Fork:
    """Return a fork in which the resized pods request their new amounts on the same nodes.

    The view itself is returned if no pod is resized.
    """
    if not resized:
        return view

    resized_pods = {
        (key.namespace, key.name): edit.after for key, edit in resized.items() if isinstance(edit.after, Pod)
    }

    def build() -> Fork:
        """Build the fork from a cluster with the changed pods."""
        return Fork.from_cluster(change_pods(view.cluster, resized_pods), view.settings)

    # A pod may be resized to different amounts in different trials
    new_specs = frozenset((name, repr(pod.spec)) for name, pod in resized_pods.items())
    return _restore_placements(view.memo(("resized pods", new_specs), build).fork(), view)


def _restore_placements(fork: Fork, view: Fork) -> Fork:
    """Move the fork's pods to the nodes that they have in the view, and return the fork.

    The fork was built from the cluster, so its pods are where the cluster has them.
    """
    for number in np.flatnonzero(fork.node != view.node[: len(fork.node)]).tolist():
        position = Position(number)
        if fork.node[position] >= 0:
            fork.forget(position)
        if view.has_node(position):
            fork.assume(position, Row(int(view.node[position])))
    return fork


def _fork_with_changed_replicas(view: Fork, before: Pod, after: Pod) -> Fork:
    """Return a fork in which the pod's running replicas lose the same required anti-affinity terms as the pod.

    The view itself is returned if `build_changed_replicas` changes no running pod. Only the replay of the rollout shows
    whether a rollout gets that far.
    """
    if not _loses_anti_affinity(before, after):
        return view

    def build() -> Fork | None:
        """Build the fork from a cluster with the changed replicas, or return None if none of them runs."""
        replicas = build_changed_replicas(view.cluster, before, after)
        if not any(pod.spec.node_name for pod in replicas.values()):
            return None
        return Fork.from_cluster(change_pods(view.cluster, replicas), view.settings)

    key = "changed replicas", before.key, repr(get_anti_affinity(before)), repr(get_anti_affinity(after))
    fork = view.memo(key, build)
    return view if fork is None else _restore_placements(fork.fork(), view)


def build_changed_replicas(cluster: Cluster, before: Pod, after: Pod) -> dict[tuple[str, str], Pod]:
    """Return the pod's replicas without the required anti-affinity terms that the pod loses, by namespace and name.

    Changing the template changes every replica, so their anti-affinity no longer keeps the pod away. Replicas whose
    anti-affinity differs from the pod's old one are left out. Return {} if the pod has no workload or loses no terms.
    """
    owner = find_owner(before)
    old_terms = get_anti_affinity(before)
    if owner.kind in ("Pod", "Node") or not _loses_anti_affinity(before, after):
        return {}
    replicas = select_pods(cluster, lambda pod: get_anti_affinity(pod) == old_terms and find_owner(pod) == owner)
    return {
        (pod.metadata.namespace, pod.metadata.name): _with_anti_affinity(pod, after)
        for pod in replicas
        if pod.key != before.key
    }


def _loses_anti_affinity(before: Pod, after: Pod) -> bool:
    """Return whether the changed pod has fewer required anti-affinity terms than before, and no new ones."""
    old_terms, new_terms = get_anti_affinity(before), get_anti_affinity(after)
    return len(new_terms) < len(old_terms) and all(term in old_terms for term in new_terms)


def get_anti_affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    """Return the required terms of the pod's anti-affinity."""
    anti_affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
    return anti_affinity.required_during_scheduling_ignored_during_execution if anti_affinity else ()


def _with_anti_affinity(pod: Pod, source: Pod) -> Pod:
    """Return the pod with the anti-affinity of another pod."""
    anti_affinity = source.spec.affinity.pod_anti_affinity if source.spec.affinity else None
    affinity = structs.replace(pod.spec.affinity or Affinity(), pod_anti_affinity=anti_affinity)
    return structs.replace(pod, spec=structs.replace(pod.spec, affinity=affinity))


def apply_edits_to_cluster(
    cluster: Cluster, edits: Mapping[ObjectKey, EditedObject], *, with_pods_and_nodes: bool
) -> Cluster:
    """Return the cluster with the edits applied: objects are replaced, added, or removed.

    Edits of pods and nodes are ignored unless `with_pods_and_nodes` is True. `fork_with_edits` applies them to the
    fork, which has its own copies of pods and nodes.
    """
    edits_by_kind: dict[str, dict[ObjectKey, EditedObject]] = {}
    for key, edit in edits.items():
        if with_pods_and_nodes or key.kind not in ("Pod", "Node"):
            edits_by_kind.setdefault(key.kind, {})[key] = edit
    edits_of_pods = edits_by_kind.pop("Pod", {})

    for kind, edits_of_kind in edits_by_kind.items():
        objects: list[Any] = list(getattr(cluster, FIELDS[kind]))
        for key, edit in edits_of_kind.items():
            _put_or_remove_object(objects, key, edit.after)
        new_objects: Any = tuple(objects)
        cluster = replace(cluster, **{FIELDS[kind]: new_objects})
    if with_pods_and_nodes:
        changed_pods = {(key.namespace, key.name): edit.after for key, edit in edits_of_pods.items()}
        cluster = change_pods(cluster, changed_pods)  # type: ignore[arg-type]
    return cluster


def _put_or_remove_object(objects: list[Any], key: ObjectKey, after: Struct | None) -> None:
    """Put the object `after` in the place of its key, or remove the object with this key if `after` is None.

    `objects` is sorted by namespace and name, and is changed in place.
    """
    namespaced_name = (key.namespace, key.name)
    index = bisect_left(objects, namespaced_name, key=get_object_key)
    if index < len(objects) and get_object_key(objects[index]) == namespaced_name:
        del objects[index]
    if after is not None:
        objects.insert(index, after)


def _apply_pod_edit(view: Fork, key: ObjectKey, edit: EditedObject) -> None:
    """Place the edited pod in the view where it is after the edit.

    A deleted pod is removed from its node, an existing pod is moved, and a new pod is added as a copy of another pod. A
    pod without a node waits.
    """
    existing_key = f"{key.namespace}/{key.name}" if edit.before else edit.like
    position = view.pods.find_position(existing_key)
    assert position is not None
    if edit.before is None:
        (position,) = view.add_clones(position, 1)
    elif view.has_node(position):
        view.forget(position)

    # Without a node, the pod is deleted or waits.
    after = edit.after
    row = view.nodes.index.get(after.spec.node_name) if isinstance(after, Pod) else None
    if row is not None:
        view.assume(position, row)


def readmit_pod(before: Pod, after: Pod, cluster: Cluster) -> Pod | None:
    """Return the changed pod with what admission adds when the pod is recreated, or None if admission denies the pod.

    `before` is the pod without the change. The pod is returned unchanged if its spec did not change, or if it can be
    updated in place.
    """
    if before.spec == after.spec:
        return after
    if find_owner(before).kind == "Pod" and is_valid_update(before, after):
        return after
    runtime_class = find_runtime_class(after, cluster)
    if runtime_class is not None and contradicts_runtime_class(after, runtime_class):
        return None
    pod = with_runtime_class_fields(after, cluster.runtime_classes)
    if any(limits.metadata.namespace == pod.metadata.namespace for limits in cluster.limit_ranges):
        from kschedctl.replay.controllers.pod_defaults import PodDefaults  # noqa: PLC0415 - only with LimitRanges

        try:
            (pod,) = PodDefaults(cluster).fill_in_pods(f"Pod {pod.key}", [pod])
        except InputError:
            return None
    return pod


def find_runtime_class(pod: Pod, cluster: Cluster) -> RuntimeClass | None:
    """Return the pod's RuntimeClass, or None if the pod names none or the class was not read."""
    name = pod.spec.runtime_class_name
    if not name:
        return None
    return next((class_ for class_ in cluster.runtime_classes if class_.metadata.name == name), None)


def contradicts_runtime_class(pod: Pod, runtime_class: RuntimeClass) -> bool:
    """Return whether admission denies the pod because its nodeSelector conflicts with its RuntimeClass."""
    if runtime_class.scheduling is None:
        return False
    pod_selector = pod.spec.node_selector
    return any(pod_selector.get(key, value) != value for key, value in runtime_class.scheduling.node_selector.items())
