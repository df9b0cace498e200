"""``whatif``: what would these changes to the cluster do to its pods?

The analysis is in this module; the steps are in ``kschedctl/replay/scenarios``. ``fates`` compares the pods before and
after, ``causes`` says which step is to blame, ``rescheduling`` compares scores.
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
from kschedctl.commands.explain.pending_pods import explained_in_full
from kschedctl.commands.simulate import deploy, find_not_created, prepare
from kschedctl.commands.versions.report import VersionChange
from kschedctl.commands.whatif.causes import Causes, Fate, Names, TwoVersions, explained
from kschedctl.commands.whatif.fates import fates, message_changes, new_messages, pod_changes
from kschedctl.commands.whatif.report import StepReport, WhatIf
from kschedctl.commands.whatif.rescheduling import replacement
from kschedctl.commands.whatif.zones import zone_balance
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
"""A step's name -> the edit that it is. ``apply`` and ``drain`` are more than that."""
MADE_ANEW = frozenset({"Created", "Moved", "NewlyPending"})
"""The changes of pods that somebody has to create first."""

REMADE = frozenset({"Moved", "NewlyPending"})
"""Pods that were there before, or of a workload of which others were."""


@dataclass
class Run:
    """A scenario taken step by step; ``rest`` is the cluster after the latest of ``steps``.

    ``read`` reads the documents of a file that the scenario names, ``where`` is the scenario's own file;
    ``not_created``: of which workloads pods are refused; ``counted``: the namespaces whose pods pass admission, and
    whether all of admission; ``judged``: the pods made anew that passed it, or not, as they came.
    """

    rest: SettledCluster
    read: FileReader
    where: str
    seed: int
    sampling: SampledFrom | None
    call_extender: CallExtender | None = None
    steps: list[StepReport] = field(default_factory=list)
    unknown: tuple[UnknownKind, ...] = ()
    not_created: list[NotCreated] = field(default_factory=list)
    counted: dict[str, bool] = field(default_factory=dict)
    judged: set[str] = field(default_factory=set)

    def take_all(self, scenario: parts.Scenario, progress: Progress) -> None:
        """Take the steps, fewer when the user interrupts. Raises KschedctlError that names the step."""
        done = progress.begin("Steps", len(scenario.steps))
        try:
            for step in scenario.steps:
                if not self.rest.interrupted:
                    self.take(step)
                    done(1)
        except KeyboardInterrupt:
            self.rest = replace(self.rest, interrupted=True)

    def take(self, step: parts.Step) -> None:
        """Take one step, and let the pending pods pass the queue. Raises KschedctlError that names the step."""
        name, part = get_step(step)
        try:
            displaced, notes = self._take(name, part)
        except KschedctlError as error:
            raise locate_step_error(error, len(self.steps) + 1, name, self.where) from None
        rest = self.rest
        self.unknown = merge_unknown_kinds((self.unknown, rest.unknown))
        report = StepReport(name, displaced, rest.placed, len(rest.waiting), rest.evicted, tuple(notes))
        self.steps.append(report)

    def _take(self, name: str, part: parts.Part) -> tuple[int, Sequence[str]]:
        match part:
            case parts.Apply():
                return self._apply(part)
            case parts.SomeNodes() if name == "drain":
                return self._drain(part)
        edit = self.edited(name, part)
        self.rest = settle(edit.build_cluster, self.seed, self.sampling, self.call_extender)
        return edit.displaced_count, edit.notes

    def edited(self, name: str, part: parts.Part) -> StepResult:
        """The step as an edit, less the pods that the API server does not create. Raises KschedctlError."""
        edit = EDITS[name](part, self.rest.cluster, self.read)
        if isinstance(part, parts.Scale):
            self._scale(part, edit)
        else:
            self._come_again(edit)
        return edit

    def _come_again(self, edit: StepResult) -> None:
        """Take out of the edit the pods that the API server does not create anew, once those that go are gone."""
        going, coming = edit.find_leaving(self.rest.cluster), edit.find_arriving(self.rest.cluster)
        admissions = Admissions(self.rest.cluster, {})
        refused = admissions.replace_pods(going, coming)
        for pod, _ in refused:
            edit.change_pod(pod, None)
        self.not_created += admissions.report_by_workload(coming, refused)
        self.judged |= {pod.key for pod in coming}
        edit.cluster = admissions.with_current_quotas(edit.cluster)

    def _scale(self, part: parts.Scale, edit: StepResult) -> None:
        """Take out of the edit the pods that the API server does not create; the others count."""
        cluster, owner = self.rest.cluster, Owner(part.kind, part.namespace, part.name)
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

    def _apply(self, part: parts.Apply) -> tuple[int, Sequence[str]]:
        placed = list(steps_on_pods.iter_manifests(part, self.read))
        if not placed:
            raise UsageError("no manifests", hint="give files or manifests")
        manifests = [manifest for _, manifest in placed]
        with locate_errors({name: place for place, manifest in placed for name in names_in_errors(manifest)}):
            shared = prepare(
                self.rest.cluster, manifests, rollout=part.rollout, pending=True, sampling=self.sampling, counting={}
            )
        self.counted.update(shared.counted)
        shared.call_extender = self.call_extender
        simulation, rollouts, outcomes = deploy(shared, self.seed)
        self.not_created += find_not_created(shared, rollouts, self.seed)
        rest = explain_settled(simulation, explain_with_victims(simulation, outcomes))
        admissions = rollouts[0].creation.admissions if rollouts and rollouts[0].creation else None
        self.rest = replace(rest, cluster=admissions.with_current_quotas(rest.cluster)) if admissions else rest
        notes = (f"{rollout.change.workload}: {rollout.status}" for rollout in rollouts if rollout.status)
        return sum(len(rollout.change.removed) - len(rollout.old) for rollout in rollouts), [*shared.assumed, *notes]

    def _drain(self, part: parts.SomeNodes) -> tuple[int, Sequence[str]]:
        names = find_step_nodes(self.rest.cluster, part)
        scheduler = Scheduler(node_edits.cordon(self.rest.cluster, names), self.call_extender)
        simulation = Simulation(scheduler, seed=self.seed, sampling=self.sampling)
        admissions = Admissions(self.rest.cluster, {})
        draining = NodeDrain(simulation, names, None, admissions)
        draining.run()
        self.not_created += draining.report_not_created()
        pods = simulation.view.pods.objects
        self.judged |= {pods[position].key for position in (*draining.outcomes, *draining.denied)}
        later = [] if simulation.interrupted else schedule_with_victims(simulation, find_pending(simulation))
        rest = explain_settled(simulation, [*draining.outcomes.values(), *later])
        rest = replace(rest, cluster=admissions.with_current_quotas(rest.cluster))
        waiting = {**self.rest.waiting, **rest.waiting} if simulation.interrupted else rest.waiting
        evicted = len(list_victims([*draining.preemptions, *later]))
        unknown = find_simulation_unknowns(simulation, *draining.dependencies)
        self.rest = replace(rest, waiting=waiting, evicted=evicted, unknown=unknown)
        blocked = [f"{pod.pod} cannot be evicted: {pod.why}" for pod in draining.report_blocked()]
        return len(draining.outcomes) + len(draining.denied) + len(draining.lost), blocked


class OneSetting(TypedDict, total=False):
    configuration: JsonObject
    kube_version: str


Settings = Mapping[str, OneSetting]
"""What is to be another than the cluster's own, by the name under which it is told."""


@dataclass(frozen=True)
class Question:
    """A scenario for a cluster as it is, or under each of two ``settings``, with the ``files`` that it names.

    ``in_full``: seed -> how many kinds of newly pending pods are explained to the single node, if any.
    """

    cluster: Cluster
    scenario: parts.Scenario
    files: Mapping[str, Sequence[JsonObject]]
    where: str = ""
    settings: Settings = field(default_factory=dict)
    sampling: SampledFrom | None = None
    call_extender: CallExtender | None = None
    in_full: Mapping[int, int] = field(default_factory=dict)

    @property
    def of_versions(self) -> bool:
        return any("kube_version" in settings for settings in self.settings.values())

    def clusters(self) -> list[Cluster]:
        """The cluster under each of the settings."""
        return [replace(self.cluster, **settings) for settings in self.settings.values()]

    def rows(self) -> tuple[VersionChange, ...]:
        """What the two versions changed."""
        from kschedctl.commands.versions.changes import compare_versions  # noqa: PLC0415 - all plugins, for few questions

        return compare_versions(*self.settings).changes

    def settle(self, cluster: Cluster, seed: int) -> SettledCluster:
        """The cluster at rest before the scenario begins."""
        return settle(cluster, seed, self.sampling, self.call_extender)


def configurations(documents: Mapping[str, JsonObject]) -> Settings:
    """The settings of two configurations."""
    return {name: {"configuration": document} for name, document in documents.items()}


def versions(names: tuple[str, str]) -> Settings:
    """The settings of two versions. Raises ConfigurationError for one that is not replayed, UsageError for the same."""
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
    """The difference that the scenario, or the document that is one, makes; of several runs that of the first.

    ``under`` two settings: the difference that these make for it, and for the pending pods; of versions also that for
    messages and for pods that run. Pods that are pending and fit are scheduled before it begins. ``read`` reads the
    documents of a file that the scenario names, ``where`` is the name of the scenario's own; ``call_extender``: as for
    simulate; ``in_full``: of how many kinds of newly pending pods each node is told.
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
    report = _over(question, seed, runs, workers, progress)
    if not question.of_versions or report.interrupted:
        return report
    before, after = (SharedCluster(cluster, call_extender=call_extender) for cluster in question.clusters())
    replaced = replacement(before, after, question.rows(), workers, progress)
    unknown = merge_unknown_kinds((report.unknown, replaced.unknown))
    return replace(report, replacement=replaced.report, interrupted=replaced.interrupted, **unknown_fields(unknown))


def _over(question: Question, seed: int, runs: int, workers: Workers, progress: Progress) -> WhatIf:
    if runs == 1:
        return answer(question, seed, progress)
    results = run_seeds(answer, question, range(seed, seed + runs), workers, progress)
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


def answer(question: Question, seed: int, progress: Progress = NO_PROGRESS) -> WhatIf:
    """What comes out under one seed."""
    if not question.settings:
        before = question.settle(question.cluster, seed)
        return _report(question, seed, before, _run(question, seed, before, progress))
    settling = (question.settle(cluster, seed) for cluster in question.clusters())
    first = _run(question, seed, next(settling), progress)
    if first.rest.interrupted:
        return _report(question, seed, first.rest, first)
    second = _run(question, seed, next(settling), progress)
    report = _report(question, seed, first.rest, second)
    return _with_causes(question, seed, report, (first.rest, second.rest), progress) if question.of_versions else report


def _with_causes(
    question: Question, seed: int, report: WhatIf, rests: tuple[SettledCluster, SettledCluster], progress: Progress
) -> WhatIf:
    """The comparison with texts that differ, and under the first seed with the changes behind all differences."""
    before, after = rests
    messages = new_messages(before, after)
    because: dict[str, tuple[str, ...]] = {}
    if seed in question.in_full and not after.interrupted and question.call_extender is None:
        pods = sorted({*messages, *(change.pod for change in report.changes)})
        first, second = question.clusters()
        versions = TwoVersions(first, second, question.rows())

        def replay(names: Names) -> Fate:
            rest = _run(question, seed, question.settle(versions.mixed(names), seed), NO_PROGRESS).rest
            if rest.interrupted:
                raise KeyboardInterrupt
            return fates(rest).get

        causes = Causes(versions.changes(), fates(before), replay)
        because = explained(pods, causes, progress.begin("Causes", len(pods)))
        report = replace(report, interrupted=len(because) < len(pods))
    changes = tuple(replace(change, because=because.get(change.pod, ())) for change in report.changes)
    return replace(report, changes=changes, messages=tuple(message_changes(messages, because)))


def _run(question: Question, seed: int, start: SettledCluster, progress: Progress) -> Run:
    run = Run(start, question.files.__getitem__, question.where, seed, question.sampling, question.call_extender)
    run.unknown = start.unknown
    run.take_all(question.scenario, progress)
    return run


def _pod(cluster: Cluster, key: str) -> Pod | None:
    """A pod of a workload that its controller makes anew."""
    namespace, _, name = key.partition("/")
    pod = cluster.pod(namespace, name)
    return pod if pod is not None and pod.metadata.owner_references else None


def _report(question: Question, seed: int, before: SettledCluster, run: Run) -> WhatIf:
    after, changes = run.rest, tuple(pod_changes(before, run.rest))
    schedulers = [Scheduler(shared.cluster, question.call_extender) for shared in (before, after)]
    waiting = (change.pod for change in changes if change.change == "NewlyPending")
    created = [change.pod for change in changes if change.change in MADE_ANEW and question.scenario.steps]
    remade = [pod for change in changes if change.change in REMADE and (pod := _pod(before.cluster, change.pod))]
    others = [pod for pod in remade if question.scenario.steps and pod.key not in run.judged]
    not_created = [*run.not_created, *Admissions(after.cluster, {}).report_denied_replacements(others)]
    created += [refused.workload.partition(" ")[2] for refused in run.not_created]
    judged = {key.partition("/")[0] for key in (*run.judged, *(pod.key for pod in remade))}
    counted = {**dict.fromkeys(judged, False), **run.counted}
    in_full = 0 if after.interrupted else question.in_full.get(seed, 0)
    return WhatIf(
        name=question.scenario.name,
        seed=seed,
        pending=(len(before.waiting), len(after.waiting)),
        steps=tuple(run.steps),
        changes=changes,
        balance=tuple(zone_balance(before.cluster, after.cluster)),
        compared=tuple(question.settings),
        explained=explained_in_full(schedulers[1], waiting, in_full),
        search_start=describe_search_start(question.sampling, len(question.cluster.nodes), seed),
        interrupted=after.interrupted,
        not_created=tuple(not_created),
        **build_cluster_basis(
            merge_unknown_kinds((before.unknown, run.unknown)), *schedulers, created_pods=created, replayed=counted
        ),
    )
