"""Fixes that change the Workload: fewer pods, or a higher WorkloadPriorityClass."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kschedctl.api.json_values import JsonDict
from kschedctl.api.ownership import Owner
from kschedctl.api.queueing import KueueWorkload, WorkloadPriorityClass, WorkloadPriorityClassRef
from kschedctl.fixes.kueue.changes import (
    WORKLOAD,
    AdmissionProposal,
    ObjectPatch,
    apply_operations,
    build_metadata_patch,
    build_operation,
    build_workload_target,
)
from kschedctl.fixes.kueue.trials import AdmissionTrial, AdmissionTrials
from kschedctl.fixes.trial.fix_kinds import Price
from kschedctl.reports.summary import CostKind, FixCost

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
        minimum_of_one_trial = trials.replay_proposal(_build_fewer_pods_proposal(workload, job, index, 1))
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
    subject = job or f"pod set {pod_set.name}"
    costs = [FixCost(CostKind.GIVES_UP, f"{subject} then runs with {count} of its {pod_set.count:,} pods")]
    if pod_set.min_count is not None:
        summary = f"lower the minimum number of pods of {subject} from {pod_set.min_count} to {count}"
        needs_values: tuple[str, ...] = ()
    else:
        check = f"{subject} can run with {count} pod{'' if count == 1 else 's'}"
        summary = f"let {subject} start with fewer pods, if {check}"
        costs.append(FixCost(CostKind.CHECK_FIRST, f"only you know whether {check}"))
        needs_values = (str(patch.operations[0]["path"]),)
    edits = ((WORKLOAD, apply_operations(workload, (operation,))),)
    return AdmissionProposal(summary, "fewer-pods", Price.WISH, "author", (patch,), edits, tuple(costs), needs_values)


def search_higher_priority_classes(trials: AdmissionTrials) -> Iterator[tuple[AdmissionProposal, AdmissionTrial]]:
    """Yield at most one proposal, with its trial: a WorkloadPriorityClass above the Workload's that gets it admitted.

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
    return AdmissionProposal(summary, "priority", Price.WISH, "author", (patch,), edits)
