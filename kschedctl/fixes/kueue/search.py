"""The search for the fixes of waiting Workloads, which `kschedctl explain` shows beside the reason to wait."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from kschedctl.api.objects import Struct
from kschedctl.api.queueing import KueueWorkload
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.fixes.kueue.changes import WORKLOAD, AdmissionProposal, ObjectPatch, get_last_key
from kschedctl.fixes.kueue.queue_objects import search_queue_corrections
from kschedctl.fixes.kueue.quota import search_quota_raises
from kschedctl.fixes.kueue.trials import AdmissionTrial, AdmissionTrials
from kschedctl.fixes.kueue.workload import search_fewer_pods, search_higher_priorities
from kschedctl.fixes.trial.fix_kinds import Price
from kschedctl.replay.waiting_elsewhere.kueue import find_unread_kinds, is_waiting, parse_time
from kschedctl.replay.waiting_elsewhere.kueue_jobs import build_new_workloads
from kschedctl.reports.remedy import Remedy
from kschedctl.reports.summary import CostKind, FixCost
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, WaitingState
from kschedctl.text.counts import counted, first_few

MOST_FIXES, MOST_WORKLOADS = 3, 3
"""The number of fixes of a Workload, and of Workloads for which fixes are searched."""


def add_admission_fixes(
    cluster: Cluster, entries: Sequence[WaitingElsewhere], now: str, manifests: Iterable[Struct] = ()
) -> tuple[WaitingElsewhere, ...]:
    """Return the entries with fixes for the first Workloads of Kueue among them, and for the first new jobs.

    ``manifests`` are the jobs that the cluster does not have. ``now`` is the RFC 3339 time of the replays, or empty.
    """
    titles = {f"Workload {w.metadata.namespace}/{w.metadata.name}": w for w in cluster.kueue_workloads}
    try:
        new_workloads = build_new_workloads(cluster, manifests, now)
    except InputError:
        new_workloads = {}
    for title, of_job in new_workloads.items():
        titles.setdefault(title, of_job[-1])  # of several Workloads, the last one gets quota last
    cluster = cluster.with_objects({WORKLOAD: [w for of_job in new_workloads.values() for w in of_job]})
    waiting = [e.resource for e in entries if e.resource in titles and e.state is WaitingState.NOT_ADMITTED]
    return tuple(
        replace(entry, fixes=find_admission_fixes(cluster, titles[entry.resource], now))
        if entry.resource in waiting[:MOST_WORKLOADS]
        else entry
        for entry in entries
    )


def find_admission_fixes(cluster: Cluster, workload: KueueWorkload, now: str) -> tuple[Remedy, ...]:
    """Return the best fixes for a waiting Workload, best first.

    There are none if Kueue would admit the Workload anyway, or if Kueue cannot be replayed.
    """
    if not is_waiting(workload) or find_unread_kinds(cluster):
        return ()
    try:
        trials = AdmissionTrials(cluster, workload, parse_time(now))
        outlook = trials.baseline.outlook.workloads.get(trials.key)
        if outlook is None or outlook.admission is not None:
            return ()
        remedies = [_build_remedy(trials, *result) for result in _search(trials)]
    except InputError:
        return ()
    return tuple(sorted(remedies, key=_build_sort_key)[:MOST_FIXES])


def _search(trials: AdmissionTrials) -> Iterator[tuple[AdmissionProposal, AdmissionTrial | None]]:
    """Yield the changes with which the Workload is admitted, with their trials, and advice without a trial."""
    # While a queue is stopped or missing, no other change can help
    has_correction = False
    for result in search_queue_corrections(trials):
        has_correction = True
        yield result
    if has_correction:
        return

    yield from search_quota_raises(trials)
    yield from search_fewer_pods(trials)
    yield from search_higher_priorities(trials)


def _build_remedy(trials: AdmissionTrials, proposal: AdmissionProposal, trial: AdmissionTrial | None) -> Remedy:
    """Build the report on a change. Without a trial it is advice."""
    costs: list[FixCost] = []
    holds: bool | None = None
    preempted: tuple[str, ...] = ()
    if trial is None:
        text = f"not verified: fill in {', '.join(proposal.needs_values)} first"
        costs.append(FixCost(CostKind.NEEDS_VALUES, text))
    else:
        placement = trials.place_pods(trial)
        holds = placement is None or placement.placed == placement.pods
        if placement is not None and not holds:
            text = f"its pods do not all get a node then: {placement.placed:,} of {placement.pods:,} fit"
            costs.append(FixCost(CostKind.STILL_WAITS, text))
        harm = trials.find_harm(trial)
        preempted = tuple(f"Workload {key}" for key in harm.preempted)
        costs += _iter_harm_costs(preempted, harm.preempted_pods, [f"Workload {key}" for key in harm.delayed])
    summary = proposal.summary[:1].upper() + proposal.summary[1:]
    if edits := [text for patch in proposal.patches if (text := _describe_edit(trials, patch))]:
        summary += f" ({'; '.join(edits)})"
    return Remedy(
        summary=summary,
        by=proposal.by,
        weakens=None,
        opens=(),
        commands=tuple(patch.command for patch in proposal.patches if trials.has_object(patch.target)),
        changes=tuple(patch.to_document() for patch in proposal.patches),
        kinds=(proposal.kind,),
        victims=preempted,
        step=_get_step(proposal, costs).name.lower(),
        holds=None if proposal.needs_values else holds,
        needs_values=proposal.needs_values,
        manifests=proposal.manifests,
        costs=(*costs, *proposal.costs),
    )


def _describe_edit(trials: AdmissionTrials, patch: ObjectPatch) -> str:
    """Describe what to write into the manifest of a new job, or return "" for an object that exists."""
    if trials.has_object(patch.target):
        return ""
    kind, _, name = patch.target
    edits = (f"{get_last_key(operation)}: {json.dumps(operation['value'])}" for operation in patch.operations)
    return f"in the manifest of {kind} {name}, set {', '.join(edits)}"


def _iter_harm_costs(preempted: Sequence[str], pods: int, delayed: Sequence[str]) -> Iterator[FixCost]:
    """Yield the costs of a change for other Workloads."""
    if preempted:
        short = f"preempts {counted(len(preempted), 'Workload')}"
        text = f"preempts {first_few(preempted)} with {counted(pods, 'pod')}"
        yield FixCost(CostKind.EVICTS, text, pods, short if len(preempted) > 1 else "")
    if delayed:
        verb = "waits" if len(delayed) == 1 else "wait"
        short = f"{counted(len(delayed), 'other Workload')} {verb} instead"
        text = f"{first_few(delayed)} then {verb} instead"
        yield FixCost(CostKind.DELAYS, text, 0, short if len(delayed) > 1 else "")


def _get_step(proposal: AdmissionProposal, costs: Iterable[FixCost]) -> Price:
    """Return the price of a change with what it does to other Workloads."""
    kinds = {cost.kind for cost in costs}
    if CostKind.EVICTS in kinds:
        return Price.LOSS
    return max(proposal.price, Price.GUARANTEE) if CostKind.DELAYS in kinds else proposal.price


def _build_sort_key(remedy: Remedy) -> tuple[bool, bool, Price, int]:
    """Return the sort key of a fix: verified ones first, then those that harm nobody."""
    pods = sum(cost.pods for cost in remedy.costs)
    return bool(remedy.needs_values), remedy.holds is False, Price[remedy.step.upper()], pods
