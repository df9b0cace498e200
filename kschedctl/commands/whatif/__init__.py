"""The command `whatif`: what would these changes to the cluster do to its pods?

The analysis is in this module, and the steps of a scenario are in `kschedctl/replay/scenarios`. `comparison` compares
the pods and zones before and after, `causes` finds the version changes behind a difference, and `rescheduling` compares
scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict

import numpy as np

from kschedctl.api.arrays import NO_ROW, Position
from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kube_version import KubeVersion
from kschedctl.api.node_health import NodeHealth
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.pending_pods import explain_pods_by_node
from kschedctl.commands.simulate import (
    CarriedOutChanges,
    carry_out_changes,
    list_denied_workloads,
    prepare_simulation,
)
from kschedctl.commands.versions.report import VersionChange, VersionChanges
from kschedctl.commands.whatif.causes import CauseSearch, Names, OutcomeLookup, TwoVersions, find_causes_by_pod
from kschedctl.commands.whatif.comparison import (
    collect_outcomes,
    compare_zones,
    find_changed_messages,
    group_message_changes,
    iter_pod_changes,
)
from kschedctl.commands.whatif.report import BLOCKED, PodChange, StepReport, WaitBetweenSteps, WhatIf
from kschedctl.commands.whatif.rescheduling import compare_replacements
from kschedctl.errors import KschedctlError, UsageError
from kschedctl.replay import edits as node_edits
from kschedctl.replay.before_deletion import PodsBeforeDeletion, report_pods_before_deletion
from kschedctl.replay.controllers.admissions import Admissions
from kschedctl.replay.controllers.budget_statuses import with_current_budget_statuses
from kschedctl.replay.controllers.job_failures import JobFailures
from kschedctl.replay.controllers.manifests import build_error_names, locate_errors
from kschedctl.replay.controllers.workload_change import WorkloadChange
from kschedctl.replay.edits import find_pods_on_nodes, select_pods
from kschedctl.replay.eviction_harms import find_eviction_harms
from kschedctl.replay.node_drain import NodeDrain
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, Workers, compute_spreads, run_seeds
from kschedctl.replay.placements import MissingObjects
from kschedctl.replay.scenarios import (
    FileReader,
    StepResult,
    add_step_to_error,
    find_step_nodes,
    get_step_name_and_parameters,
    load_scenario,
    read_step_files,
    reject_file,
)
from kschedctl.replay.scenarios import steps as scenario_steps
from kschedctl.replay.settling import (
    SettledCluster,
    build_settled_cluster,
    enable_pod_recreation,
    explain_with_victims,
    find_pods_still_pending,
    list_displaced_victims,
    schedule_with_victims,
    settle,
    settle_simulation,
)
from kschedctl.replay.shared_cluster import SharedCluster, build_cluster_basis, describe_search_start, limit_workers
from kschedctl.replay.terminating_pods import find_down_nodes
from kschedctl.replay.unknown import build_unknown_fields, find_simulation_unknowns, merge_unknown_kinds
from kschedctl.replay.volumes import explain_confining_volume, find_pinned_volumes
from kschedctl.reports import scenario as parts
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.placements import (
    BlockedPod,
    DownNode,
    EvictedPod,
    PinnedVolume,
    describe_pods_stuck_on_down_nodes,
)
from kschedctl.reports.summary import EvictionHarms, merge_eviction_harms
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import SCHEDULED, UNSCHEDULABLE, Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

EDITS: Mapping[str, Callable[[Any, Cluster, FileReader], StepResult]] = {
    "cordon": scenario_steps.cordon_nodes,
    "uncordon": scenario_steps.uncordon_nodes,
    "taint": scenario_steps.taint_nodes,
    "label": scenario_steps.label_nodes,
    "addNodes": scenario_steps.add_nodes,
    "removeNodes": scenario_steps.remove_nodes,
    "fail": scenario_steps.fail_nodes,
    "scale": scenario_steps.scale_workload,
    "priorityClass": scenario_steps.set_priority_class,
    "configure": scenario_steps.configure_scheduler,
    "nodePool": scenario_steps.edit_node_pool,
    "instanceTypes": scenario_steps.launch_nodes,
}
"""Step -> the function that performs it. `apply` and `drain` are performed by ScenarioRun."""
CHANGES_WITH_CREATION = frozenset({"Created", "Moved", "NewlyPending", "Restarted"})
"""The changes for which a pod has to be created."""
CHANGES_WITH_REPLACEMENT = frozenset({"Moved", "NewlyPending", "Restarted"})
"""The changes of pods that existed before."""

CHANGES_OF_VERDICT = frozenset({"NewlyPending", "NewlyScheduled"})
"""The changes of pods that get a node either only before or only after."""


class StepEffect(NamedTuple):
    """The immediate effect of a step, before it is known how the cluster settles."""

    displaced: int
    """The number of pods that lost their node and that controllers recreate."""
    notes: Sequence[str]
    recreated: Collection[str] = ()
    """The displaced pods that controllers recreate."""
    ending: int = 0
    """The number of pods of DaemonSets and static pods that end."""
    before_deletion: PodsBeforeDeletion = PodsBeforeDeletion()
    """The pods that wait or run late until failed nodes are deleted."""
    blocked: Sequence[BlockedPod] = ()
    """Pods that a drain cannot evict."""
    returned: Sequence[str] = ()
    """Evicted pods that are on a drained node again."""
    not_drained: Sequence[str] = ()
    """The nodes that a drain does not empty."""


@dataclass
class ScenarioRun:
    """A scenario that is being run step by step."""

    settled: SettledCluster
    """The cluster after the latest step."""
    read: FileReader
    """Reads the documents of a file that the scenario names."""
    where: str
    """The file of the scenario."""
    seed: int
    sampling: SampledFrom | None
    call_extender: CallExtender | None = None
    steps: list[StepReport] = field(default_factory=list)
    unknown: tuple[UnknownKind, ...] = ()
    not_created: list[NotCreated] = field(default_factory=list)
    """Workloads with pods that admission denies."""
    eviction_harms: list[EvictionHarms] = field(default_factory=list)
    """The harm that each drain does to pods that are recreated."""
    down_nodes: list[DownNode] = field(default_factory=list)
    """The drained nodes whose pods stay Terminating."""
    pinned_volumes: list[PinnedVolume] = field(default_factory=list)
    """The volumes that can be used only from nodes that the steps delete."""
    admitted_namespaces: dict[str, bool] = field(default_factory=dict)
    """Namespace of pods that pass admission -> whether all of admission is replayed for it."""
    admitted: set[str] = field(default_factory=set)
    """Recreated pods that went through admission."""
    replays_time_before_deletion: bool = True
    """True to find the pods that wait or run late until failed nodes are deleted."""
    restarted: set[str] = field(default_factory=set)
    """The pods that were displaced or preempted in some step and recreated."""
    unplaced_by_step: list[list[str]] = field(default_factory=list)
    """For each step, the pods that wait after it and did not wait before the scenario."""
    workload_by_waiting_pod: dict[str, str] = field(default_factory=dict)
    """The workload of each pod in `unplaced_by_step`."""
    _waiting_at_start: frozenset[str] = frozenset()
    """The pods that wait before the first step."""

    def run_steps(self, scenario: parts.Scenario, progress: Progress) -> None:
        """Run the steps one after the other, until the last step or an interruption.

        An interruption is recorded in `settled`. Raises a KschedctlError that names the step if a step cannot be
        performed.
        """
        on_done = progress.begin("Steps", len(scenario.steps))
        try:
            for step in scenario.steps:
                if not self.settled.interrupted:
                    self.run_step(step)
                    on_done(1)
        except KeyboardInterrupt:
            self.settled = replace(self.settled, interrupted=True)

    def run_step(self, step: parts.Step) -> None:
        """Run one step, schedule the pending pods, and add the step's report to `steps`.

        Unread kinds that matter for the step are added to `unknown`. Raises a KschedctlError that names the step if the
        step cannot be performed.
        """
        name, part = get_step_name_and_parameters(step)
        if not self.steps:
            self._waiting_at_start = frozenset(self.settled.waiting)
        try:
            effect = self._perform_step(name, part)
        except KschedctlError as error:
            raise add_step_to_error(error, len(self.steps) + 1, name, self.where) from None
        settled = self.settled
        self.unknown = merge_unknown_kinds((self.unknown, settled.unknown))
        self.restarted.update(effect.recreated, settled.evicted)

        # Remember the pods that wait now, with their workloads, as they may be gone after later steps
        newly_waiting = [key for key in settled.waiting if key not in self._waiting_at_start]
        self.unplaced_by_step.append(newly_waiting)
        for key in newly_waiting:
            pod = settled.cluster.pod(*key.split("/", 1))
            self.workload_by_waiting_pod[key] = str(find_owner(pod)) if pod else ""

        report = StepReport(
            name,
            effect.displaced,
            placed=settled.placed,
            pending=len(settled.waiting),
            evicted=len(settled.evicted),
            notes=tuple(effect.notes),
            subject=part.subject,
            ending=effect.ending,
            waiting_until_deleted=effect.before_deletion.waiting,
            late_pods=effect.before_deletion.late,
            blocked=tuple(effect.blocked),
            returned=tuple(effect.returned),
            not_drained=tuple(effect.not_drained),
            preempted=settled.preempted,
            violated_budgets=settled.violated_budgets,
        )
        self.steps.append(report)

    def _perform_step(self, name: str, step: parts.Part) -> StepEffect:
        """Perform the step of this name, settle the cluster, and return the immediate effect.

        Raises KschedctlError if the step cannot be performed.
        """
        match step:
            case parts.ApplyManifests():
                return self._apply_manifests(step)
            case parts.SomeNodes() if name == "drain":
                return self._drain_nodes(step)
        cluster_before = self.settled.cluster
        edit = self.build_edit(name, step)
        self.pinned_volumes += _find_volumes_on_deleted_nodes(cluster_before, edit.cluster)
        self._settle_edited_cluster(edit, is_scaled=isinstance(step, parts.ScaleWorkload))

        # Pods of failed nodes are recreated only once the nodes are deleted
        before_deletion = PodsBeforeDeletion()
        if isinstance(step, parts.LostNodes) and edit.recreated and self.replays_time_before_deletion:
            before_deletion = self._replay_time_before_deletion(cluster_before, edit.cluster, edit.recreated)
        return StepEffect(
            displaced=len(edit.recreated),
            notes=edit.notes,
            recreated=[pod.key for pod in edit.recreated],
            ending=edit.ending_count,
            before_deletion=before_deletion,
        )

    def _settle_edited_cluster(self, edit: StepResult, *, is_scaled: bool) -> None:
        """Schedule the pending pods of the edited cluster, and keep the settled cluster.

        `is_scaled` says whether the edit changes how many pods a workload wants.
        """
        # Preemption needs the statuses of PDBs after the edit, and the next step those after all pods got their nodes
        cluster = with_current_budget_statuses(edit.resulting_cluster, self.settled.cluster, is_scaled=is_scaled)
        settled = settle(cluster, self.seed, self.sampling, self.call_extender)
        self.settled = replace(settled, cluster=with_current_budget_statuses(settled.cluster, cluster))

    def _replay_time_before_deletion(
        self, before: Cluster, without_nodes: Cluster, recreated: Sequence[Pod]
    ) -> PodsBeforeDeletion:
        """Find the pods that wait or run late until failed nodes are deleted.

        `before` is the cluster before the step, `without_nodes` lacks the failed nodes, and `recreated` are the pods
        that controllers recreate. `settled` is the cluster after the deletion.
        """
        shared = SharedCluster(before, self.sampling, self.call_extender)
        view = shared.scheduler.view
        remaining_nodes = {node.metadata.name for node in without_nodes.nodes}
        is_lost_node = np.array([name not in remaining_nodes for name in view.nodes.names], np.bool_)
        outcomes = []
        for pod in recreated:
            pod_after = self.settled.cluster.pod(pod.metadata.namespace, pod.metadata.name)
            node_name = pod_after.spec.node_name if pod_after else ""
            row = view.nodes.index[node_name] if node_name else NO_ROW
            outcomes.append(
                Outcome(Position(view.pods.index[pod.key]), SCHEDULED if node_name else UNSCHEDULABLE, row=row)
            )
        positions = [outcome.position for outcome in outcomes]
        return report_pods_before_deletion(shared, is_lost_node, positions, outcomes, self.seed)

    def build_edit(self, name: str, step: parts.Part) -> StepResult:
        """Build the edit of the cluster for a step, without the pods that admission denies.

        The steps `apply` and `drain` are not edits. Raises KschedctlError if the step cannot be performed.
        """
        edit = EDITS[name](step, self.settled.cluster, self.read)
        if isinstance(step, parts.ScaleWorkload):
            self._drop_denied_scaled_pods(step, edit)
        else:
            self._drop_denied_replacements(edit)
        return edit

    def _drop_denied_replacements(self, edit: StepResult) -> None:
        """Remove the replacement pods that admission denies from the edit, and charge the other replacements to quotas.

        The replaced pods leave first, so that they no longer count against the quotas. `not_created` and `admitted` are
        extended.
        """
        leaving_pods = edit.find_leaving_pods(self.settled.cluster)
        arriving_pods = edit.find_arriving_pods(self.settled.cluster)
        admissions = Admissions(self.settled.cluster, manifests={})
        denied_pods = admissions.replace_pods(leaving_pods, arriving_pods)
        for pod, _ in denied_pods:
            edit.change_pod(pod, None)
        self.not_created += admissions.report_by_workload(arriving_pods, denied_pods)
        self.admitted |= {pod.key for pod in arriving_pods}
        edit.cluster = admissions.with_current_quotas(edit.cluster)

    def _drop_denied_scaled_pods(self, step: parts.ScaleWorkload, edit: StepResult) -> None:
        """Remove a scaled workload's pods that admission denies from the edit, and charge its other new pods to quotas.

        All new pods after the first denied pod are removed, since the controller stops there. `not_created` and
        `admitted_namespaces` are extended.
        """
        # Describe the edit as a change of the workload. An edit adds pods or removes pods, but not both.
        cluster = self.settled.cluster
        owner = Owner(step.kind, step.namespace, step.name)
        new_pods = {key: pod for key, pod in edit.changed_pods.items() if pod is not None}
        removed_keys = [key for key, pod in edit.changed_pods.items() if pod is None]
        removed_pods = [pod for pod in (cluster.pod(*key) for key in removed_keys) if pod is not None]
        current_pods = select_pods(cluster, lambda pod: find_owner(pod) == owner)
        kept_pods = current_pods[len(removed_pods) :]  # only their number matters here
        change = WorkloadChange(str(owner), kept=kept_pods, removed=removed_pods, new=list(new_pods.values()))

        # Admission shortens `change.new` to the pods before the first denied one.
        admissions = Admissions(cluster, manifests={})
        if edit.workload is None:
            creation_failure = admissions.admit_more_pods(owner, change)
        else:
            creation_failure = admissions.admit(edit.workload, change)
        denied_keys = list(new_pods)[len(change.new) :]
        for key in denied_keys:
            del edit.changed_pods[key]
        if creation_failure:
            self.not_created.append(creation_failure)
        self.admitted_namespaces.setdefault(step.namespace, False)
        edit.cluster = admissions.with_current_quotas(edit.cluster)

    def _apply_manifests(self, step: parts.ApplyManifests) -> StepEffect:
        """Apply the step's manifests, roll out changed workloads, settle the cluster, and return the effect.

        The effect has the number of removed pods, and notes on assumptions and rollouts. Workloads whose pods are
        denied are added to `not_created`. Raises UsageError if there are no manifests, and KschedctlError if they are
        invalid.
        """
        located_manifests = list(scenario_steps.iter_manifests(step, self.read))
        if not located_manifests:
            raise UsageError("no manifests", hint="give files or manifests")
        manifests = [manifest for _, manifest in located_manifests]
        places = {name: place for place, manifest in located_manifests for name in build_error_names(manifest)}
        with locate_errors(places):
            shared = prepare_simulation(
                self.settled.cluster,
                manifests,
                rollout=step.rollout,
                pending=True,
                sampling=self.sampling,
                documents={},
            )
        self.admitted_namespaces.update(shared.admitted_namespaces)
        shared.call_extender = self.call_extender
        changes = carry_out_changes(shared, self.seed)
        self.not_created += list_denied_workloads(shared, changes.rollouts, self.seed)
        self.settled = _settle_changes(changes, cluster_before=self.settled.cluster)

        notes = (f"{rollout.change.workload}: {rollout.status}" for rollout in changes.rollouts if rollout.status)
        displaced = sum(len(rollout.change.removed) - len(rollout.old) for rollout in changes.rollouts)
        return StepEffect(displaced, [*shared.assumptions, *notes])

    def _drain_nodes(self, step: parts.SomeNodes) -> StepEffect:
        """Drain the step's nodes, settle the cluster, and return the effect.

        The effect has the pods that cannot be evicted or that come back, and notes on them and on nodes that are down.
        Pods that are recreated pass admission. Denied pods are added to `not_created`, and nodes that are down to
        `down_nodes`.
        """
        node_names = find_step_nodes(self.settled.cluster, step)
        cordoned_cluster = node_edits.cordon_nodes(self.settled.cluster, node_names)
        scheduler = Scheduler(node_edits.with_current_priorities(cordoned_cluster, node_names), self.call_extender)
        simulation = Simulation(scheduler, seed=self.seed, sampling=self.sampling)
        admissions = Admissions(self.settled.cluster, manifests={})
        drain = NodeDrain(simulation, node_names, random=None, admissions=admissions)
        evictable = list(drain.evictable)
        drain.run()

        self.not_created += drain.report_workloads_lacking_pods()
        pods = simulation.view.pods.objects
        self.admitted |= {pods[position].key for position in (*drain.outcomes, *drain.denied)}

        evicted_pods = [pods[position] for position in evictable if position not in drain.evictable]
        lost_keys = [pods[position].key for position in drain.lost]
        self.eviction_harms.append(find_eviction_harms(self.settled.cluster, evicted_pods, lost_keys))

        self._settle_drained_cluster(drain, simulation, admissions)
        down_nodes = find_down_nodes(simulation.view, evicted_pods)
        self.down_nodes += down_nodes

        # Report the pods that do not leave their nodes.
        blocked = drain.report_blocked_pods()
        returned_positions = drain.find_returned_pods()
        returned = [pods[position].key for position in returned_positions]
        notes = [*describe_pods_stuck_on_down_nodes(down_nodes)]
        notes += [f"{pod.pod} cannot be evicted: {pod.why}" for pod in blocked]
        notes += [f"{pod} comes back: it tolerates the cordon" for pod in returned]
        occupied_nodes = {
            *(pod.node for pod in blocked),
            *(simulation.view.get_node_name(position) for position in returned_positions),
            *(down.node for down in down_nodes if down.health is NodeHealth.UNREACHABLE),
        }
        displaced = {*drain.outcomes, *drain.denied}.intersection(evictable)  # without preempted pods
        return StepEffect(
            len(displaced),
            notes,
            recreated=[
                pods.get_key(position)
                for position in displaced.intersection(drain.outcomes).difference(returned_positions)
            ],
            blocked=blocked,
            returned=returned,
            not_drained=[name for name in node_names if name in occupied_nodes],
        )

    def _settle_drained_cluster(self, drain: NodeDrain, simulation: Simulation, admissions: Admissions) -> None:
        """Schedule the pods that are pending after the drain, and keep the settled cluster.

        After an interruption, no pods are scheduled, and the pods that waited before still wait.
        """
        later_outcomes = (
            [] if simulation.interrupted else schedule_with_victims(simulation, find_pods_still_pending(simulation))
        )
        settled = build_settled_cluster(simulation, [*drain.outcomes.values(), *later_outcomes])
        cluster = with_current_budget_statuses(settled.cluster, self.settled.cluster)
        displaced_victims = list_displaced_victims(simulation, [*drain.preemptions, *later_outcomes])
        self.settled = replace(
            settled,
            cluster=admissions.with_current_quotas(cluster),
            waiting={**self.settled.waiting, **settled.waiting} if simulation.interrupted else settled.waiting,
            evicted=tuple(map(simulation.view.pods.objects.get_key, displaced_victims)),
            unknown=find_simulation_unknowns(simulation, *drain.dependencies),
        )


def _settle_changes(changes: CarriedOutChanges, cluster_before: Cluster) -> SettledCluster:
    """Build the settled cluster after changes to workloads, with the new statuses of PodDisruptionBudgets and quotas.

    `cluster_before` has the PodDisruptionBudgets' statuses before the changes.
    """
    settled = build_settled_cluster(changes.simulation, explain_with_victims(changes.simulation, changes.outcomes))
    cluster = with_current_budget_statuses(settled.cluster, cluster_before, is_scaled=True)
    # All rollouts share the admissions, which count what the new pods use of their quotas.
    creation = changes.rollouts[0].creation if changes.rollouts else None
    if creation is not None:
        cluster = creation.admissions.with_current_quotas(cluster)
    return replace(settled, cluster=cluster)


def _add_unnamed_causes(changes: Iterable[PodChange], view: Fork) -> Iterator[PodChange]:
    """Yield the changes, and give each change of a newly pending pod the cause that its message omits.

    A message omits volumes that can be used only from some nodes, and objects that do not exist.
    """
    missing_objects = MissingObjects(view.cluster)
    for change in changes:
        if change.change == "NewlyPending":
            pod = view.pods.get_pod(change.pod)
            yield replace(change, cause=explain_confining_volume(view, pod) or missing_objects.explain(pod))
        else:
            yield change


def _find_volumes_on_deleted_nodes(before: Cluster, after: Cluster) -> tuple[PinnedVolume, ...]:
    """Return the volumes of pods on deleted nodes, or of pending pods, that can be used only from deleted nodes."""
    deleted_nodes = {node.metadata.name for node in before.nodes} - {node.metadata.name for node in after.nodes}
    if not deleted_nodes or not before.persistent_volumes:
        return ()
    view = Scheduler(before).view
    rows = np.array([view.nodes.index[name] for name in deleted_nodes], np.int64)
    pods = [*find_pods_on_nodes(before, deleted_nodes), *before.unbound_pods()]
    return find_pinned_volumes(view, rows, [Position(view.pods.index[pod.key]) for pod in pods if not pod.terminated])


class SchedulerSetting(TypedDict, total=False):
    """Fields of Cluster that decide how the scheduler behaves."""

    configuration: JsonObject
    kube_version: str


Settings = Mapping[str, SchedulerSetting]
"""Display name -> the scheduler setting that replaces the cluster's own."""


@dataclass(frozen=True)
class Question:
    """A scenario for a cluster, as it is or under each of two scheduler settings."""

    cluster: Cluster
    scenario: parts.Scenario
    files: Mapping[str, Sequence[JsonObject]]
    """The documents of the files that the scenario names."""
    where: str = ""
    settings: Settings = field(default_factory=dict)
    sampling: SampledFrom | None = None
    call_extender: CallExtender | None = None
    in_full: Mapping[int, int] = field(default_factory=dict)
    """Seed -> the number of kinds of newly pending pods that are explained node by node."""
    replays_time_before_deletion: bool = True
    """True to find the pods that wait or run late until failed nodes are deleted."""

    @property
    def compares_versions(self) -> bool:
        """True if two versions of kube-scheduler are compared."""
        return any("kube_version" in settings for settings in self.settings.values())

    def build_clusters(self) -> list[Cluster]:
        """Build a copy of the cluster for each of the scheduler settings, in their order."""
        return [replace(self.cluster, **settings) for settings in self.settings.values()]

    def compare_versions(self) -> VersionChanges:
        """Return the report on the differences between the two versions of kube-scheduler that are compared."""
        from kschedctl.commands.versions import compare_versions  # noqa: PLC0415 - all plugins, for few questions

        return compare_versions(*self.settings)

    def list_version_changes(self) -> tuple[VersionChange, ...]:
        """List the changes between the two versions of kube-scheduler that are compared."""
        return self.compare_versions().changes

    def settle(self, cluster: Cluster, seed: int) -> StartingPoint:
        """Settle the cluster before the scenario begins, by scheduling its pending pods.

        Controllers recreate the pods that this preempts. The statuses of PodDisruptionBudgets are updated, and the
        result names the pods of Jobs that fail.
        """
        # Schedule the pending pods, while controllers recreate the pods that they preempt.
        scheduler = Scheduler(cluster, self.call_extender)
        simulation = enable_pod_recreation(Simulation(scheduler, seed=seed, sampling=self.sampling))
        settled = settle_simulation(simulation)

        # Drains of the scenario depend on the budgets, to which newly placed and preempted pods make a difference.
        cluster_with_budgets = with_current_budget_statuses(settled.cluster, before=cluster)
        settled = replace(settled, cluster=cluster_with_budgets)

        # The preemption of a pod can make its Job fail, which ends the Job's other pods, too.
        ended_pods = JobFailures.of(simulation.view.objects).list_pods_of_failed_jobs(cluster)
        return StartingPoint(settled, evicted=settled.preempted, ended=tuple(pod.key for pod in ended_pods))


class StartingPoint(NamedTuple):
    """The cluster before a scenario begins, in which pending pods that fit have a node."""

    settled: SettledCluster
    evicted: tuple[EvictedPod, ...]
    """The pods that these pods preempted."""
    ended: tuple[str, ...]
    """The pods of Jobs that fail because one of their pods was preempted."""


def build_configuration_settings(documents: Mapping[str, JsonObject]) -> Settings:
    """Build the settings that compare scheduler configurations. `documents` maps display names to configurations."""
    return {name: {"configuration": document} for name, document in documents.items()}


def build_version_settings(versions: tuple[str, str]) -> Settings:
    """Build the settings that compare two versions of kube-scheduler.

    Raises ConfigurationError for an unsupported version, and UsageError if both are the same.
    """
    if len(set(map(KubeVersion.parse_supported, versions))) == 1:
        raise UsageError("the two versions are the same", where=" ".join(versions))
    return {name: {"kube_version": name} for name in versions}


def whatif(
    cluster: Cluster,
    scenario: parts.Scenario | JsonObject | None,
    under: Settings | None = None,
    *,
    read: FileReader = reject_file,
    where: str = "",
    seed: int = 0,
    runs: int = 1,
    sampling: SampledFrom | None = None,
    call_extender: CallExtender | None = None,
    in_full: int = 0,
    replays_time_before_deletion: bool = True,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> WhatIf:
    """Simulate a scenario and report how pod placements change. With several runs, the report describes the first.

    Pending pods that fit are scheduled before the scenario begins.

    Arguments:
        cluster: the cluster.
        scenario: the steps, or None for no steps.
        under: two scheduler settings to compare. The report then describes the differences between them, for the
            scenario, for pending pods, and for running pods if they were recreated. When comparing two kube-scheduler
            versions, it also lists changed messages.
        read: reads the files that the scenario names.
        where: the name of the scenario in error messages.
        seed: decides between equally good nodes.
        runs: the number of runs with different seeds.
        sampling: how the scheduler samples nodes, as for `simulate`.
        call_extender: calls the configuration's extenders, as for `explain`.
        in_full: the number of kinds of newly pending pods that are explained node by node.
        replays_time_before_deletion: whether to find the pods that wait or run late until failed nodes are deleted.
        workers: the processes that share the work.
        progress: receives the progress of the work.

    Raises UsageError or InputError, which name the faulty step of the scenario.

    >>> str(whatif(Cluster.from_objects([]), None))
    'No pod ends up elsewhere'
    """
    if scenario is None:
        scenario = parts.Scenario(steps=())
    elif not isinstance(scenario, parts.Scenario):
        scenario = load_scenario(scenario, where)
    files = read_step_files(scenario, read, where)
    workers = limit_workers(workers, call_extender)
    question = Question(
        cluster,
        scenario,
        files=files,
        where=where,
        settings=under or {},
        sampling=sampling,
        call_extender=call_extender,
        in_full={seed: in_full},
        replays_time_before_deletion=replays_time_before_deletion,
    )
    report = _answer_question_for_seeds(question, seed, runs, workers, progress)
    if not question.settings or report.interrupted:
        return report

    # Compare where running pods would go under the two schedulers. Differences are attributed to changed versions.
    before, after = (SharedCluster(cluster, call_extender=call_extender) for cluster in question.build_clusters())
    version_changes = question.list_version_changes() if question.compares_versions else ()
    replaced = compare_replacements(before, after, version_changes, workers, progress)
    unknown = merge_unknown_kinds((report.unknown, replaced.unknown))
    return replace(
        report, replacement=replaced.report, interrupted=replaced.interrupted, **build_unknown_fields(unknown)
    )


def _answer_question_for_seeds(
    question: Question, seed: int, runs: int, workers: Workers, progress: Progress
) -> WhatIf:
    """Answer the question once per seed, beginning with `seed`, and return the first seed's report.

    With several runs, the report also has the smallest and largest numbers of changes over all seeds. Raises
    KeyboardInterrupt if the user interrupts before any run has finished.
    """
    if runs == 1:
        return answer_question_for_seed(question, seed, progress)
    results = run_seeds(answer_question_for_seed, question, range(seed, seed + runs), workers, progress)
    reports = results.completed
    if not reports:
        raise KeyboardInterrupt
    numbers_of_changes = [
        Counter([*(change.outcome for change in report.changes), *(BLOCKED for _ in report.pods_not_leaving)])
        for report in reports
    ]
    unknown = merge_unknown_kinds(report.unknown for report in reports)
    return replace(
        reports[0],
        runs=len(reports),
        over_runs=compute_spreads(numbers_of_changes),
        interrupted=results.interrupted,
        **build_unknown_fields(unknown),
    )


def answer_question_for_seed(question: Question, seed: int, progress: Progress = NO_PROGRESS) -> WhatIf:
    """Answer the question for one seed.

    Without scheduler settings, the report compares the cluster before and after the scenario. With two settings, it
    compares the cluster after the scenario under the first and under the second setting. If versions are compared, the
    report also has changed messages, and the version changes that cause each difference. After an interruption under
    the first setting, there is nothing to compare, so the report has no changes.
    """
    if question.settings:
        return _compare_settings_after_scenario(question, seed, progress)
    return _compare_before_and_after_scenario(question, seed, progress)


def _compare_before_and_after_scenario(question: Question, seed: int, progress: Progress) -> WhatIf:
    """Compare the settled cluster before the scenario with the cluster after it."""
    start = question.settle(question.cluster, seed)
    run = _run_scenario(question, seed, start.settled, progress)
    report = _build_what_if_report(question, seed, start.settled, run)
    return replace(
        report,
        evicted_before=start.evicted,
        violated_budgets_before=start.settled.violated_budgets,
        ended_before=start.ended,
        waits_between_steps=_report_waits_between_steps(run),
    )


def _compare_settings_after_scenario(question: Question, seed: int, progress: Progress) -> WhatIf:
    """Compare the cluster after the scenario under the first setting with that under the second setting.

    If versions are compared, also report changed messages and the version changes that cause each difference.
    """
    first_cluster, second_cluster = question.build_clusters()
    first = _run_scenario(question, seed, question.settle(first_cluster, seed).settled, progress)
    if first.settled.interrupted:
        return _build_what_if_report(question, seed, first.settled, first)
    second = _run_scenario(question, seed, question.settle(second_cluster, seed).settled, progress)
    report = replace(_build_what_if_report(question, seed, first.settled, second), steps_before=tuple(first.steps))
    if not question.compares_versions:
        return report
    report = replace(report, unverified=question.compare_versions().unverified)
    return _add_messages_and_causes(question, seed, report, first.settled, second.settled, progress=progress)


def _add_messages_and_causes(
    question: Question, seed: int, report: WhatIf, before: SettledCluster, after: SettledCluster, *, progress: Progress
) -> WhatIf:
    """Add the changed messages of waiting pods, and the version changes that cause each difference, to the report.

    Causes are searched for only if the newly pending pods of this seed are explained. They are not searched for after
    an interruption, or if extenders are called. If the user interrupts the search, the report is marked as interrupted.
    """
    messages = find_changed_messages(before, after)
    causes_by_pod: dict[str, tuple[str, ...]] = {}
    if seed in question.in_full and not after.interrupted and question.call_extender is None:
        pods = sorted({*messages, *(change.pod for change in report.changes)})
        first, second = question.build_clusters()
        versions = TwoVersions(first, second, question.list_version_changes())
        # For a pod that gets a node only under one version, it does not matter which node that is.
        compared_by_verdict = {change.pod for change in report.changes if change.change in CHANGES_OF_VERDICT}

        def replay(names: Names) -> OutcomeLookup:
            """Run the scenario under the second version with these changes reverted, and return the pods' outcomes."""
            start = question.settle(versions.build_mix(names), seed)
            settled = _run_scenario(question, seed, start.settled, NO_PROGRESS).settled
            if settled.interrupted:
                raise KeyboardInterrupt
            return collect_outcomes(settled, compared_by_verdict).get

        outcomes_before = collect_outcomes(before, compared_by_verdict)
        search = CauseSearch(versions.describe_changes(), outcomes_before, replay)
        causes_by_pod = find_causes_by_pod(pods, search, progress.begin("Causes", len(pods)))
        report = replace(report, interrupted=len(causes_by_pod) < len(pods))
    changes = tuple(replace(change, because=causes_by_pod.get(change.pod, ())) for change in report.changes)
    return replace(report, changes=changes, messages=tuple(group_message_changes(messages, causes_by_pod)))


def _run_scenario(question: Question, seed: int, start: SettledCluster, progress: Progress) -> ScenarioRun:
    """Run the question's scenario from a settled cluster, and return the run with the state after the last step."""
    run = ScenarioRun(
        start,
        question.files.__getitem__,
        where=question.where,
        seed=seed,
        sampling=question.sampling,
        call_extender=question.call_extender,
        replays_time_before_deletion=question.replays_time_before_deletion,
    )
    run.unknown = start.unknown
    run.run_steps(question.scenario, progress)
    return run


def _report_waits_between_steps(run: ScenarioRun) -> tuple[WaitBetweenSteps, ...]:
    """Report, by workload, the pods that have no node after some steps, although they have one or are gone in the end.

    Pods that already wait before the scenario are left out.
    """
    steps_by_pod: dict[str, list[int]] = {}
    for number, pods in enumerate(run.unplaced_by_step, 1):
        for pod in pods:
            steps_by_pod.setdefault(pod, []).append(number)
    pods_by_workload: dict[str, list[str]] = {}
    for key in steps_by_pod:
        if key not in run.settled.waiting:
            pods_by_workload.setdefault(run.workload_by_waiting_pod[key], []).append(key)
    reports = []
    for workload, keys in pods_by_workload.items():
        waiting_by_step = Counter(number for key in keys for number in steps_by_pod[key])
        reports.append(
            WaitBetweenSteps(
                workload,
                pods=tuple(keys),
                steps=tuple(sorted(waiting_by_step)),
                most=max(waiting_by_step.values()),
            )
        )
    return tuple(reports)


def _find_owned_pod(cluster: Cluster, key: str) -> Pod | None:
    """Return the pod with this key, or None if it does not exist or has no owner that could recreate it."""
    namespace, _, name = key.partition("/")
    pod = cluster.pod(namespace, name)
    if pod is None or not pod.metadata.owner_references:
        return None
    return pod


def _has_node(cluster: Cluster, pod: Pod) -> bool:
    """Return whether the pod exists in the cluster and has a node there."""
    current_pod = cluster.pod(pod.metadata.namespace, pod.metadata.name)
    return current_pod is not None and bool(current_pod.spec.node_name)


class _CreatedPods(NamedTuple):
    """The pods that a run creates or recreates. Such pods pass admission."""

    keys: list[str]
    """Keys of the created pods, and of the workloads with pods that admission denies."""
    not_created: list[NotCreated]
    """The workloads with pods that admission denies."""
    admitted_namespaces: dict[str, bool]
    """Namespace of the pods -> whether all of admission is replayed for it."""


def _collect_created_pods(
    question: Question, changes: Sequence[PodChange], before: SettledCluster, run: ScenarioRun
) -> _CreatedPods:
    """Collect the pods that the run creates or recreates.

    Recreated pods are checked for admission unless a step already did so. Without steps in the scenario, pods differ
    only because of the scheduler settings, and none is created.
    """
    recreated_pods: list[Pod] = []
    for change in changes:
        pod = _find_owned_pod(before.cluster, change.pod) if change.change in CHANGES_WITH_REPLACEMENT else None
        if pod is not None:
            recreated_pods.append(pod)

    keys: list[str] = []
    unchecked_pods: list[Pod] = []
    if question.scenario.steps:
        keys += [change.pod for change in changes if change.change in CHANGES_WITH_CREATION]
        unchecked_pods += [pod for pod in recreated_pods if pod.key not in run.admitted]
    keys += [failure.workload_key for failure in run.not_created]

    denied_now = Admissions(run.settled.cluster, manifests={}).report_denied_replacements(unchecked_pods)
    namespaces = {key.partition("/")[0] for key in (*run.admitted, *(pod.key for pod in recreated_pods))}
    admitted_namespaces = {**dict.fromkeys(namespaces, False), **run.admitted_namespaces}
    return _CreatedPods(keys, [*run.not_created, *denied_now], admitted_namespaces)


def _build_what_if_report(question: Question, seed: int, before: SettledCluster, run: ScenarioRun) -> WhatIf:
    """Build the report on how the run changed the settled cluster `before`.

    Some newly pending pods are explained node by node if the question asks for that for this seed.
    """
    after = run.settled
    scheduler_before = Scheduler(before.cluster, question.call_extender)
    scheduler_after = Scheduler(after.cluster, question.call_extender)
    waiting_before_run = [
        pod for pod in question.cluster.unbound_pods() if not pod.terminated and pod.metadata.deletion_timestamp is None
    ]
    waiting_keys = {pod.key for pod in waiting_before_run}

    # The changes of the pods
    restarted = frozenset() if question.settings else frozenset(run.restarted)
    changes_without_causes = tuple(iter_pod_changes(before, after, scheduler_before.view.objects, restarted))
    created = _collect_created_pods(question, changes_without_causes, before, run)
    changes = tuple(
        replace(change, waits_now=True) if change.pod in waiting_keys else change
        for change in _add_unnamed_causes(changes_without_causes, scheduler_after.view)
    )

    newly_pending = (change.pod for change in changes if change.change == "NewlyPending")
    explained_kinds = 0 if after.interrupted else question.in_full.get(seed, 0)
    return WhatIf(
        name=question.scenario.name,
        seed=seed,
        pending=(len(before.waiting), len(after.waiting)),
        waiting=len(waiting_before_run),
        waiting_placed=sum(_has_node(before.cluster, pod) for pod in waiting_before_run),
        steps=tuple(run.steps),
        changes=changes,
        balance=tuple(compare_zones(before.cluster, after.cluster)),
        compared=tuple(question.settings),
        explained=explain_pods_by_node(scheduler_after, newly_pending, explained_kinds),
        search_start=describe_search_start(question.sampling, len(question.cluster.nodes), seed),
        interrupted=after.interrupted,
        not_created=tuple(created.not_created),
        down_nodes=tuple(run.down_nodes),
        **merge_eviction_harms(run.eviction_harms)._asdict(),
        pinned_volumes=tuple(run.pinned_volumes),
        **build_cluster_basis(
            merge_unknown_kinds((before.unknown, run.unknown)),
            scheduler_before,
            scheduler_after,
            created_pods=created.keys,
            replayed=created.admitted_namespaces,
        ),
    )
