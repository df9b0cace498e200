"""``whatif``: what would these changes to the cluster do to its pods?

The analysis is in this module; the steps are in ``kschedctl/replay/scenarios``. ``fates`` compares the pods before and
after, ``causes`` finds the version changes behind a difference, ``rescheduling`` compares scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kube_version import KubeVersion
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.pending_pods import explain_some_in_full
from kschedctl.commands.simulate import carry_out_changes, find_not_created, prepare_simulation
from kschedctl.commands.versions.report import VersionChange
from kschedctl.commands.whatif.causes import Causes, Fate, Names, TwoVersions, explain_pods
from kschedctl.commands.whatif.fates import (
    collect_fates,
    find_changed_messages,
    group_message_changes,
    iter_pod_changes,
)
from kschedctl.commands.whatif.report import StepReport, WhatIf
from kschedctl.commands.whatif.rescheduling import compare_replacements
from kschedctl.commands.whatif.zones import compare_zones
from kschedctl.errors import KschedctlError, UsageError
from kschedctl.replay import edits as node_edits
from kschedctl.replay.controllers.admissions import Admissions
from kschedctl.replay.controllers.manifests import locate_errors, names_in_errors
from kschedctl.replay.controllers.workload_change import WorkloadChange
from kschedctl.replay.edits import select_pods
from kschedctl.replay.node_drain import NodeDrain
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, Workers
from kschedctl.replay.repeated_runs import run_seeds, spread_over_runs
from kschedctl.replay.scenarios import steps_on_nodes, steps_on_pods
from kschedctl.replay.scenarios import steps_on_nodes as steps_on_node_pools
from kschedctl.replay.scenarios.scenario import (
    FileReader,
    StepResult,
    find_step_nodes,
    get_step,
    load_scenario,
    locate_step_error,
    read_files,
    read_no_files,
)
from kschedctl.replay.settling import (
    SettledCluster,
    explain_settled,
    explain_with_victims,
    find_pending,
    list_victims,
    schedule_with_victims,
    settle,
)
from kschedctl.replay.shared_cluster import SharedCluster, build_cluster_basis, describe_search_start, limit_workers
from kschedctl.replay.unknown import find_simulation_unknowns, merge_unknown_kinds, unknown_fields
from kschedctl.reports import scenario as parts
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation

EDITS: Mapping[str, Callable[[Any, Cluster, FileReader], StepResult]] = {
    "cordon": steps_on_nodes.cordon,
    "uncordon": steps_on_nodes.uncordon,
    "taint": steps_on_nodes.taint,
    "label": steps_on_nodes.label,
    "addNodes": steps_on_nodes.add_nodes,
    "removeNodes": steps_on_nodes.remove_nodes,
    "fail": steps_on_nodes.fail,
    "scale": steps_on_pods.scale,
    "priorityClass": steps_on_pods.set_priority_class,
    "configure": steps_on_pods.configure,
    "nodePool": steps_on_node_pools.edit_node_pool,
    "instanceTypes": steps_on_node_pools.launch,
}
"""The function that performs each step, except ``apply`` and ``drain``."""
CHANGES_WITH_CREATION = frozenset({"Created", "Moved", "NewlyPending"})
"""The changes for which a pod has to be created."""

CHANGES_WITH_REPLACEMENT = frozenset({"Moved", "NewlyPending"})
"""The changes of pods that existed before."""


@dataclass
class ScenarioRun:
    """A scenario taken step by step."""

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
    """Workloads whose pods are denied by admission."""
    counted: dict[str, bool] = field(default_factory=dict)
    """The namespaces whose pods pass admission, and whether all of admission is replayed."""
    admitted: set[str] = field(default_factory=set)
    """Recreated pods that went through admission."""

    def run_steps(self, scenario: parts.Scenario, progress: Progress) -> None:
        """Take the steps until the end or an interruption. Raises KschedctlError that names the step."""
        done = progress.begin("Steps", len(scenario.steps))
        try:
            for step in scenario.steps:
                if not self.settled.interrupted:
                    self.run_step(step)
                    done(1)
        except KeyboardInterrupt:
            self.settled = replace(self.settled, interrupted=True)

    def run_step(self, step: parts.Step) -> None:
        """Take one step and schedule the pending pods. Raises KschedctlError that names the step."""
        name, part = get_step(step)
        try:
            displaced, notes = self._perform(name, part)
        except KschedctlError as error:
            raise locate_step_error(error, len(self.steps) + 1, name, self.where) from None
        rest = self.settled
        self.unknown = merge_unknown_kinds((self.unknown, rest.unknown))
        report = StepReport(name, displaced, rest.placed, len(rest.waiting), rest.evicted, tuple(notes))
        self.steps.append(report)

    def _perform(self, name: str, part: parts.Part) -> tuple[int, Sequence[str]]:
        match part:
            case parts.ApplyManifests():
                return self._apply(part)
            case parts.SomeNodes() if name == "drain":
                return self._drain(part)
        edit = self.build_edit(name, part)
        self.settled = settle(edit.resulting_cluster, self.seed, self.sampling, self.call_extender)
        return edit.displaced_count, edit.notes

    def build_edit(self, name: str, part: parts.Part) -> StepResult:
        """Return the step as an edit, without the pods that the API server would deny. Raises KschedctlError."""
        edit = EDITS[name](part, self.settled.cluster, self.read)
        if isinstance(part, parts.ScaleWorkload):
            self._admit_scaled(part, edit)
        else:
            self._admit_replacements(edit)
        return edit

    def _admit_replacements(self, edit: StepResult) -> None:
        """Remove from the edit the replacements that the API server denies once the old pods are gone."""
        going, coming = edit.find_leaving(self.settled.cluster), edit.find_arriving(self.settled.cluster)
        admissions = Admissions(self.settled.cluster, {})
        refused = admissions.replace_pods(going, coming)
        for pod, _ in refused:
            edit.change_pod(pod, None)
        self.not_created += admissions.report_by_workload(coming, refused)
        self.admitted |= {pod.key for pod in coming}
        edit.cluster = admissions.with_current_quotas(edit.cluster)

    def _admit_scaled(self, part: parts.ScaleWorkload, edit: StepResult) -> None:
        """Remove from the edit the pods that the API server denies. The others count against quotas."""
        cluster, owner = self.settled.cluster, Owner(part.kind, part.namespace, part.name)
        new = {key: pod for key, pod in edit.changed_pods.items() if pod is not None}
        removed = [there for key, pod in edit.changed_pods.items() if pod is None and (there := cluster.pod(*key))]
        kept = select_pods(cluster, lambda pod: find_owner(pod) == owner)[len(removed) :]
        change = WorkloadChange(str(owner), kept=kept, removed=removed, new=list(new.values()))
        admissions = Admissions(cluster, {})
        lacking = admissions.admit_more(owner, change)
        for key in list(new)[len(change.new) :]:
            del edit.changed_pods[key]
        self.not_created += [lacking] if lacking else []
        self.counted.setdefault(part.namespace, False)
        edit.cluster = admissions.with_current_quotas(edit.cluster)

    def _apply(self, part: parts.ApplyManifests) -> tuple[int, Sequence[str]]:
        placed = list(steps_on_pods.iter_manifests(part, self.read))
        if not placed:
            raise UsageError("no manifests", hint="give files or manifests")
        manifests = [manifest for _, manifest in placed]
        with locate_errors({name: place for place, manifest in placed for name in names_in_errors(manifest)}):
            shared = prepare_simulation(
                self.settled.cluster,
                manifests,
                rollout=part.rollout,
                pending=True,
                sampling=self.sampling,
                documents={},
            )
        self.counted.update(shared.admitted_namespaces)
        shared.call_extender = self.call_extender
        simulation, rollouts, outcomes = carry_out_changes(shared, self.seed)
        self.not_created += find_not_created(shared, rollouts, self.seed)
        rest = explain_settled(simulation, explain_with_victims(simulation, outcomes))
        admissions = rollouts[0].creation.admissions if rollouts and rollouts[0].creation else None
        self.settled = replace(rest, cluster=admissions.with_current_quotas(rest.cluster)) if admissions else rest
        notes = (f"{rollout.change.workload}: {rollout.status}" for rollout in rollouts if rollout.status)
        removed = sum(len(rollout.change.removed) - len(rollout.old) for rollout in rollouts)
        return removed, [*shared.assumptions, *notes]

    def _drain(self, part: parts.SomeNodes) -> tuple[int, Sequence[str]]:
        names = find_step_nodes(self.settled.cluster, part)
        scheduler = Scheduler(node_edits.cordon(self.settled.cluster, names), self.call_extender)
        simulation = Simulation(scheduler, seed=self.seed, sampling=self.sampling)
        admissions = Admissions(self.settled.cluster, {})
        draining = NodeDrain(simulation, names, None, admissions)
        draining.run()
        self.not_created += draining.report_not_created()
        pods = simulation.view.pods.objects
        self.admitted |= {pods[position].key for position in (*draining.outcomes, *draining.denied)}
        later = [] if simulation.interrupted else schedule_with_victims(simulation, find_pending(simulation))
        rest = explain_settled(simulation, [*draining.outcomes.values(), *later])
        rest = replace(rest, cluster=admissions.with_current_quotas(rest.cluster))
        waiting = {**self.settled.waiting, **rest.waiting} if simulation.interrupted else rest.waiting
        evicted = len(list_victims([*draining.preemptions, *later]))
        unknown = find_simulation_unknowns(simulation, *draining.dependencies)
        self.settled = replace(rest, waiting=waiting, evicted=evicted, unknown=unknown)
        blocked = [f"{pod.pod} cannot be evicted: {pod.why}" for pod in draining.report_blocked()]
        return len(draining.outcomes) + len(draining.denied) + len(draining.lost), blocked


class SchedulerSetting(TypedDict, total=False):
    configuration: JsonObject
    kube_version: str


Settings = Mapping[str, SchedulerSetting]
"""The settings that replace the cluster's own, by display name."""


@dataclass(frozen=True)
class Question:
    """A scenario for a cluster as it is, or under each of two settings."""

    cluster: Cluster
    scenario: parts.Scenario
    files: Mapping[str, Sequence[JsonObject]]
    """The documents of the files that the scenario names."""
    where: str = ""
    settings: Settings = field(default_factory=dict)
    sampling: SampledFrom | None = None
    call_extender: CallExtender | None = None
    in_full: Mapping[int, int] = field(default_factory=dict)
    """For a seed, how many kinds of newly pending pods are explained node by node."""

    @property
    def compares_versions(self) -> bool:
        return any("kube_version" in settings for settings in self.settings.values())

    def build_clusters(self) -> list[Cluster]:
        """Return the cluster under each of the settings."""
        return [replace(self.cluster, **settings) for settings in self.settings.values()]

    def version_changes(self) -> tuple[VersionChange, ...]:
        """Return the differences between the two versions."""
        from kschedctl.commands.versions.changes import compare_versions  # noqa: PLC0415 - all plugins, for few questions

        return compare_versions(*self.settings).changes

    def settle(self, cluster: Cluster, seed: int) -> SettledCluster:
        """Return the cluster with its pending pods scheduled, before the scenario begins."""
        return settle(cluster, seed, self.sampling, self.call_extender)


def compare_configurations(documents: Mapping[str, JsonObject]) -> Settings:
    """Return the settings of two configurations."""
    return {name: {"configuration": document} for name, document in documents.items()}


def compare_two_versions(names: tuple[str, str]) -> Settings:
    """Return the settings of two versions. Raises ConfigurationError for an unsupported one, UsageError for equal
    ones.
    """
    if len(set(map(KubeVersion.parse_supported, names))) == 1:
        raise UsageError("two different versions can be compared", where=" ".join(names))
    return {name: {"kube_version": name} for name in names}


def whatif(
    cluster: Cluster,
    scenario: parts.Scenario | JsonObject | None,
    under: Settings | None = None,
    *,
    read: FileReader = read_no_files,
    where: str = "",
    seed: int = 0,
    runs: int = 1,
    sampling: SampledFrom | None = None,
    call_extender: CallExtender | None = None,
    in_full: int = 0,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> WhatIf:
    """Return the difference that a scenario makes; of several runs, that of the first.

    With two settings in ``under``: the difference between them for the scenario and for pending pods; for versions also
    changed messages and running pods that would go elsewhere. Pending pods that fit are scheduled before the scenario
    begins. ``read`` reads files that the scenario names, ``where`` is the scenario's own name. ``call_extender`` is as
    for ``simulate``. ``in_full`` is the number of kinds of newly pending pods that are explained node by node.

    Raises UsageError and InputError that name the step.

    >>> str(whatif(Cluster.from_objects([]), None))
    'No pod ends up elsewhere'
    """
    if scenario is None:
        scenario = parts.Scenario(steps=())
    elif not isinstance(scenario, parts.Scenario):
        scenario = load_scenario(scenario, where)
    files, workers = read_files(scenario, read, where), limit_workers(workers, call_extender)
    question = Question(cluster, scenario, files, where, under or {}, sampling, call_extender, {seed: in_full})
    report = _run_seeds(question, seed, runs, workers, progress)
    if not question.compares_versions or report.interrupted:
        return report
    before, after = (SharedCluster(cluster, call_extender=call_extender) for cluster in question.build_clusters())
    replaced = compare_replacements(before, after, question.version_changes(), workers, progress)
    unknown = merge_unknown_kinds((report.unknown, replaced.unknown))
    return replace(report, replacement=replaced.report, interrupted=replaced.interrupted, **unknown_fields(unknown))


def _run_seeds(question: Question, seed: int, runs: int, workers: Workers, progress: Progress) -> WhatIf:
    if runs == 1:
        return answer_seed(question, seed, progress)
    results = run_seeds(answer_seed, question, range(seed, seed + runs), workers, progress)
    what_ifs = results.completed
    if not what_ifs:
        raise KeyboardInterrupt
    numbers = [Counter(change.change for change in report.changes) for report in what_ifs]
    unknown = merge_unknown_kinds(report.unknown for report in what_ifs)
    return replace(
        what_ifs[0],
        runs=len(what_ifs),
        over_runs=spread_over_runs(numbers),
        interrupted=results.interrupted,
        **unknown_fields(unknown),
    )


def answer_seed(question: Question, seed: int, progress: Progress = NO_PROGRESS) -> WhatIf:
    """Return the result for one seed."""
    if not question.settings:
        before = question.settle(question.cluster, seed)
        return _build_report(question, seed, before, _run(question, seed, before, progress))
    settling = (question.settle(cluster, seed) for cluster in question.build_clusters())
    first = _run(question, seed, next(settling), progress)
    if first.settled.interrupted:
        return _build_report(question, seed, first.settled, first)
    second = _run(question, seed, next(settling), progress)
    report = _build_report(question, seed, first.settled, second)
    return (
        _add_causes(question, seed, report, (first.settled, second.settled), progress)
        if question.compares_versions
        else report
    )


def _add_causes(
    question: Question, seed: int, report: WhatIf, rests: tuple[SettledCluster, SettledCluster], progress: Progress
) -> WhatIf:
    """Return the comparison with changed messages and, for the first seed, the version changes behind each
    difference.
    """
    before, after = rests
    messages = find_changed_messages(before, after)
    because: dict[str, tuple[str, ...]] = {}
    if seed in question.in_full and not after.interrupted and question.call_extender is None:
        pods = sorted({*messages, *(change.pod for change in report.changes)})
        first, second = question.build_clusters()
        versions = TwoVersions(first, second, question.version_changes())

        def replay(names: Names) -> Fate:
            rest = _run(question, seed, question.settle(versions.mix(names), seed), NO_PROGRESS).settled
            if rest.interrupted:
                raise KeyboardInterrupt
            return collect_fates(rest).get

        causes = Causes(versions.describe_changes(), collect_fates(before), replay)
        because = explain_pods(pods, causes, progress.begin("Causes", len(pods)))
        report = replace(report, interrupted=len(because) < len(pods))
    changes = tuple(replace(change, because=because.get(change.pod, ())) for change in report.changes)
    return replace(report, changes=changes, messages=tuple(group_message_changes(messages, because)))


def _run(question: Question, seed: int, start: SettledCluster, progress: Progress) -> ScenarioRun:
    run = ScenarioRun(
        start, question.files.__getitem__, question.where, seed, question.sampling, question.call_extender
    )
    run.unknown = start.unknown
    run.run_steps(question.scenario, progress)
    return run


def _find_owned_pod(cluster: Cluster, key: str) -> Pod | None:
    """Return the pod if it has an owner that would recreate it."""
    namespace, _, name = key.partition("/")
    pod = cluster.pod(namespace, name)
    return pod if pod is not None and pod.metadata.owner_references else None


def _build_report(question: Question, seed: int, before: SettledCluster, run: ScenarioRun) -> WhatIf:
    after, changes = run.settled, tuple(iter_pod_changes(before, run.settled))
    schedulers = [Scheduler(shared.cluster, question.call_extender) for shared in (before, after)]
    waiting = (change.pod for change in changes if change.change == "NewlyPending")
    created = [change.pod for change in changes if change.change in CHANGES_WITH_CREATION and question.scenario.steps]
    remade = [
        pod
        for change in changes
        if change.change in CHANGES_WITH_REPLACEMENT and (pod := _find_owned_pod(before.cluster, change.pod))
    ]
    others = [pod for pod in remade if question.scenario.steps and pod.key not in run.admitted]
    not_created = [*run.not_created, *Admissions(after.cluster, {}).report_denied_replacements(others)]
    created += [refused.workload.partition(" ")[2] for refused in run.not_created]
    judged = {key.partition("/")[0] for key in (*run.admitted, *(pod.key for pod in remade))}
    counted = {**dict.fromkeys(judged, False), **run.counted}
    in_full = 0 if after.interrupted else question.in_full.get(seed, 0)
    return WhatIf(
        name=question.scenario.name,
        seed=seed,
        pending=(len(before.waiting), len(after.waiting)),
        steps=tuple(run.steps),
        changes=changes,
        balance=tuple(compare_zones(before.cluster, after.cluster)),
        compared=tuple(question.settings),
        explained=explain_some_in_full(schedulers[1], waiting, in_full),
        search_start=describe_search_start(question.sampling, len(question.cluster.nodes), seed),
        interrupted=after.interrupted,
        not_created=tuple(not_created),
        **build_cluster_basis(
            merge_unknown_kinds((before.unknown, run.unknown)), *schedulers, created_pods=created, replayed=counted
        ),
    )
