"""The search for the fixes of waiting Workloads, which `kschedctl explain` shows beside the reason to wait.

The fixes that change the Workload itself, by fewer pods or a higher WorkloadPriorityClass, are in this module.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.json_values import JsonDict
from kschedctl.api.objects import Struct
from kschedctl.api.ownership import Owner
from kschedctl.api.queueing import KueuePodSet, KueueWorkload, WorkloadPriorityClass, WorkloadPriorityClassRef
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.fixes.kueue.changes import (
    WORKLOAD,
    AdmissionProposal,
    ObjectPatch,
    apply_operations,
    build_metadata_patch,
    build_operation,
    build_workload_target,
    get_last_key,
)
from kschedctl.fixes.kueue.queue_objects import search_queue_corrections
from kschedctl.fixes.kueue.quota import search_quota_raises
from kschedctl.fixes.kueue.trials import AdmissionTrial, AdmissionTrials
from kschedctl.fixes.trial.fix_kinds import Price
from kschedctl.replay.waiting_elsewhere.kueue import find_kinds_preventing_replay, is_waiting, parse_time
from kschedctl.replay.waiting_elsewhere.kueue_jobs import build_new_workloads
from kschedctl.reports.remedy import Remedy
from kschedctl.reports.summary import CostKind, FixCost
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, WaitingState
from kschedctl.text.counts import agreeing, capitalize, counted, first_few, join_first_few

MOST_FIXES, MOST_WORKLOADS = 3, 3
"""The number of fixes of a Workload, and of Workloads for which fixes are searched."""


def add_admission_fixes(
    cluster: Cluster, entries: Sequence[WaitingElsewhere], now: str, manifests: Iterable[Struct] = ()
) -> tuple[WaitingElsewhere, ...]:
    """Return the entries with fixes of Workloads added.

    Only the first ``MOST_WORKLOADS`` entries with a Workload that Kueue does not admit get fixes. ``manifests`` has the
    jobs that are not in the cluster, for which Kueue would create Workloads. If no Workloads can be built from the
    manifests, they are ignored. ``now`` is the RFC 3339 time of the replays, or empty.
    """
    # Find the Workload of each entry by the resource that it names, a Workload or a new job.
    workloads = {
        f"Workload {stored.metadata.namespace}/{stored.metadata.name}": stored for stored in cluster.kueue_workloads
    }
    try:
        new_workloads = build_new_workloads(cluster, manifests, now)
    except InputError:
        new_workloads = {}
    all_new_workloads: list[KueueWorkload] = []
    for job_title, workloads_of_job in new_workloads.items():
        workloads.setdefault(job_title, workloads_of_job[-1])  # of several Workloads, the last one gets quota last
        all_new_workloads += workloads_of_job
    cluster = cluster.with_objects({WORKLOAD: all_new_workloads})

    waiting = [
        entry.resource for entry in entries if entry.resource in workloads and entry.state is WaitingState.NOT_ADMITTED
    ]
    searched = waiting[:MOST_WORKLOADS]
    return tuple(
        replace(entry, fixes=find_admission_fixes(cluster, workloads[entry.resource], now))
        if entry.resource in searched
        else entry
        for entry in entries
    )


def find_admission_fixes(cluster: Cluster, workload: KueueWorkload, now: str) -> tuple[Remedy, ...]:
    """Return up to `MOST_FIXES` fixes for a waiting Workload, best first.

    There are none if the Workload does not wait, if Kueue would admit it anyway, or if Kueue cannot be replayed.
    ``now`` is the RFC 3339 time of the replays, or empty.
    """
    if not is_waiting(workload) or find_kinds_preventing_replay(cluster):
        return ()
    try:
        trials = AdmissionTrials(cluster, workload, parse_time(now))
        outlook = trials.baseline.outlook.workloads.get(trials.key)
        if outlook is None or outlook.admission is not None:
            return ()
        remedies = [_build_remedy(trials, proposal, trial) for proposal, trial in _iter_working_proposals(trials)]
    except InputError:
        return ()
    return tuple(sorted(remedies, key=_build_remedy_rank)[:MOST_FIXES])


def _iter_working_proposals(trials: AdmissionTrials) -> Iterator[tuple[AdmissionProposal, AdmissionTrial | None]]:
    """Yield the changes that get the Workload admitted, with their trials. Advice is yielded without a trial.

    If a queue or flavor has to be corrected, only these corrections are yielded.
    """
    # While a queue is stopped or missing, no other change can help.
    corrections = list(search_queue_corrections(trials))
    if corrections:
        yield from corrections
        return

    yield from search_quota_raises(trials)
    yield from search_min_count_reductions(trials)
    yield from search_higher_priority_classes(trials)


def _build_remedy(trials: AdmissionTrials, proposal: AdmissionProposal, trial: AdmissionTrial | None) -> Remedy:
    """Build the report on a proposed change with its costs. Without a trial, the change is unverified advice.

    The costs include pods that still get no node and harm to other Workloads. Patches of objects that are not in the
    cluster are described in the summary, because no command can apply them.
    """
    if trial is None:
        text = f"not verified until you fill in {', '.join(proposal.needs_values)}"
        effects = _TrialEffects([FixCost(CostKind.NEEDS_VALUES, text)])
    else:
        effects = _determine_trial_effects(trials, trial)

    summary = capitalize(proposal.summary)
    patches_of_new_objects = [patch for patch in proposal.patches if not trials.has_object(patch.target)]
    manifest_edits = [_describe_manifest_edit(patch) for patch in patches_of_new_objects]
    if manifest_edits:
        summary += f" ({'; '.join(manifest_edits)})"
    return Remedy(
        summary=summary,
        by=proposal.by,
        weakens=None,
        opens=(),
        commands=tuple(patch.command for patch in proposal.patches if trials.has_object(patch.target)),
        changes=tuple(patch.to_document() for patch in proposal.patches),
        kinds=(proposal.kind,),
        victims=effects.preempted,
        step=_raise_price_for_costs(proposal, effects.costs).name.lower(),
        holds=None if proposal.needs_values else effects.gives_all_pods_nodes,
        needs_values=proposal.needs_values,
        manifests=proposal.manifests,
        costs=(*effects.costs, *proposal.costs),
    )


class _TrialEffects(NamedTuple):
    """The effects of a change, as shown by its trial."""

    costs: Sequence[FixCost]
    preempted: tuple[str, ...] = ()
    """The Workloads that the change preempts."""
    gives_all_pods_nodes: bool | None = None
    """None without a trial."""


def _determine_trial_effects(trials: AdmissionTrials, trial: AdmissionTrial) -> _TrialEffects:
    """Return the costs of a tried change, the Workloads that it preempts, and whether all pods get nodes.

    If the placement of the pods is unknown, all pods are assumed to get nodes.
    """
    costs: list[FixCost] = []
    placement = trials.place_pods(trial)
    gives_all_pods_nodes = placement is None or placement.placed == placement.pods
    if placement is not None and not gives_all_pods_nodes:
        text = f"not all of its pods get a node then: {placement.placed:,} of {placement.pods:,} fit"
        costs.append(FixCost(CostKind.STILL_WAITS, text))

    harm = trials.compute_harm(trial)
    preempted = tuple(f"Workload {key}" for key in harm.preempted)
    costs += _iter_costs_to_other_workloads(preempted, harm.preempted_pods, [f"Workload {key}" for key in harm.delayed])
    return _TrialEffects(costs, preempted, gives_all_pods_nodes)


def _describe_manifest_edit(patch: ObjectPatch) -> str:
    """Describe what to write into the manifest of a new object instead of patching it."""
    kind, _, name = patch.target
    edits = (f"{get_last_key(operation)}: {json.dumps(operation['value'])}" for operation in patch.operations)
    return f"in the manifest of {kind} {name}, set {', '.join(edits)}"


def _iter_costs_to_other_workloads(preempted: Sequence[str], pods: int, delayed: Sequence[str]) -> Iterator[FixCost]:
    """Yield the costs of a change for other Workloads, which are preempted or delayed.

    `pods` is the number of pods of the preempted Workloads. A cost about several Workloads also has a short text, which
    only gives their number.
    """
    if preempted:
        short = f"preempts {counted(len(preempted), 'Workload')}" if len(preempted) > 1 else ""
        text = f"preempts {first_few(preempted)} with {counted(pods, 'pod')}"
        yield FixCost(CostKind.EVICTS, text, pods=pods, short=short)
    if delayed:
        short = f"{counted(len(delayed), 'other Workload')} wait instead" if len(delayed) > 1 else ""
        text = f"{join_first_few(delayed)} then {agreeing(len(delayed), 'waits', 'wait')} instead"
        yield FixCost(CostKind.DELAYS, text, short=short)


def _raise_price_for_costs(proposal: AdmissionProposal, costs: Iterable[FixCost]) -> Price:
    """Return the price of a change, raised if the change has costs for other Workloads.

    If it preempts Workloads, its price is LOSS. If it delays Workloads, its price is at least GUARANTEE.
    """
    kinds = {cost.kind for cost in costs}
    if CostKind.EVICTS in kinds:
        return Price.LOSS
    if CostKind.DELAYS in kinds:
        return max(proposal.price, Price.GUARANTEE)
    return proposal.price


def _build_remedy_rank(remedy: Remedy) -> tuple[bool, bool, Price, int]:
    """Return a sort key by which the best fix comes first.

    Verified fixes come before advice. Next come fixes with which all pods get nodes, then cheap fixes, then fixes that
    evict few pods.
    """
    evicted_pods = sum(cost.pods for cost in remedy.costs)
    return bool(remedy.needs_values), remedy.holds is False, Price[remedy.step.upper()], evicted_pods


_MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
_PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
_PRIORITY_CLASS = "WorkloadPriorityClass"
_MOST_CLASSES = 4
_LABELLED_BY_POD = "Pod"
"""The kind of owners whose labels Kueue reads only once, when it makes the Workload."""


def search_min_count_reductions(trials: AdmissionTrials) -> Iterator[tuple[AdmissionProposal, AdmissionTrial]]:
    """Yield at most one proposal, with its trial, that lowers a pod set's minCount so that the Workload is admitted.

    A first trial with a minCount of 1 shows how many pods Kueue admits, and the proposal sets this number. A Workload
    whose owner is not a Job gets no proposal. A pod set is skipped if another pod set has a minCount, since only one
    may have it.
    """
    workload, job = trials.workload, trials.job
    if job is not None and job.kind != "Job":
        return
    for index, pod_set in enumerate(workload.spec.pod_sets):
        current_minimum = pod_set.min_count or pod_set.count
        other_pod_sets = [other for other in workload.spec.pod_sets if other is not pod_set]
        if current_minimum <= 1 or any(other.min_count is not None for other in other_pod_sets):
            continue

        # Find out how many pods Kueue would admit.
        minimum_of_one_trial = trials.replay_proposal(_build_fewer_pods_proposal(workload, job, index, count=1))
        if minimum_of_one_trial is None:
            continue
        outlook = trials.get_outlook(minimum_of_one_trial)
        if outlook.admission is None:
            continue
        admitted_counts = {admitted.name: admitted.count for admitted in outlook.admission.pod_sets}

        proposal = _build_fewer_pods_proposal(workload, job, index, admitted_counts.get(pod_set.name, pod_set.count))
        trial = trials.replay_proposal(proposal)
        if trial is not None and trials.is_admitted(trial):
            yield proposal, trial
            return


def _build_fewer_pods_proposal(workload: KueueWorkload, job: Owner | None, index: int, count: int) -> AdmissionProposal:
    """Build the proposal that lets the Workload's pod set with this index start with ``count`` pods.

    A Job gets an annotation, and a Workload without a known job is patched itself. Without a current minCount, the
    proposal is advice, since only the user knows whether fewer pods are of use.
    """
    pod_set = workload.spec.pod_sets[index]
    path = f"/spec/podSets/{index}/minCount"
    operation = build_operation(path, count, is_set=pod_set.min_count is not None)
    if job is None:
        patch = ObjectPatch(build_workload_target(workload), (operation,))
    else:
        patch = build_metadata_patch(job, "annotations", _MIN_PARALLELISM, str(count))
    summary, costs = _describe_fewer_pods(pod_set, job, count)
    is_advice = pod_set.min_count is None
    return AdmissionProposal(
        summary,
        "fewer-pods",
        Price.WISH,
        by="author",
        patches=(patch,),
        edits=((WORKLOAD, apply_operations(workload, (operation,))),),
        costs=costs,
        needs_values=(str(patch.operations[0]["path"]),) if is_advice else (),
    )


def _describe_fewer_pods(pod_set: KueuePodSet, job: Owner | None, count: int) -> tuple[str, tuple[FixCost, ...]]:
    """Return the summary and the costs of letting a pod set start with ``count`` pods.

    Without a current minCount, the summary and the costs ask the user to check that ``count`` pods are enough.
    """
    subject = job or f"pod set {pod_set.name}"
    loss = FixCost(CostKind.GIVES_UP, f"{subject} then runs with {count} of its {pod_set.count:,} pods")
    if pod_set.min_count is not None:
        return f"lower the minimum number of pods of {subject} from {pod_set.min_count} to {count}", (loss,)
    check = f"{subject} can run with {count} pod{'' if count == 1 else 's'}"
    check_cost = FixCost(CostKind.CHECK_FIRST, f"only you know whether {check}")
    return f"let {subject} start with fewer pods, if {check}", (loss, check_cost)


def search_higher_priority_classes(trials: AdmissionTrials) -> Iterator[tuple[AdmissionProposal, AdmissionTrial]]:
    """Yield at most one proposal, with its trial, that raises the Workload's priority class so that it is admitted.

    The lowest classes are tried first, but only a few of them and the highest. Nothing is yielded for a Workload made
    from a pod, since Kueue reads a pod's labels only once.
    """
    job = trials.job
    if job is not None and job.kind == _LABELLED_BY_POD:
        return
    priority = trials.get_outlook(trials.baseline).priority
    higher_classes = sorted(
        (
            priority_class
            for priority_class in trials.cluster.workload_priority_classes
            if priority_class.value > priority
        ),
        key=lambda priority_class: (priority_class.value, priority_class.metadata.name),
    )
    if len(higher_classes) > _MOST_CLASSES:
        higher_classes = [*higher_classes[: _MOST_CLASSES - 1], higher_classes[-1]]
    for priority_class in higher_classes:
        proposal = _build_priority_proposal(trials.workload, job, priority_class)
        trial = trials.replay_proposal(proposal)
        if trial is not None and trials.is_admitted(trial):
            yield proposal, trial
            return


def _build_priority_proposal(
    workload: KueueWorkload, job: Owner | None, priority_class: WorkloadPriorityClass
) -> AdmissionProposal:
    """Build the proposal that gives a Workload another WorkloadPriorityClass.

    The job gets a label, and a Workload without a known job is patched itself.
    """
    name, value = priority_class.metadata.name, priority_class.value
    reference = WorkloadPriorityClassRef("kueue.x-k8s.io", _PRIORITY_CLASS, name)
    spec = replace(workload.spec, priority=value, priority_class_ref=reference, priority_class_name=name)
    if job is not None:
        patch = build_metadata_patch(job, "labels", _PRIORITY_LABEL, name)
    else:
        new_reference: JsonDict = {"group": reference.group, "kind": reference.kind, "name": name}
        operations = (
            build_operation("/spec/priority", value, is_set=workload.spec.priority is not None),
            build_operation("/spec/priorityClassRef", new_reference, is_set=False),
        )
        patch = ObjectPatch(build_workload_target(workload), operations)
    summary = f"give {job or 'the Workload'} the WorkloadPriorityClass {name} (priority {value:,})"
    edits = ((WORKLOAD, replace(workload, spec=spec)),)
    return AdmissionProposal(summary, "priority", Price.WISH, by="author", patches=(patch,), edits=edits)
