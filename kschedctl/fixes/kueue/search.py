"""The search for the fixes of waiting Workloads, which `kschedctl explain` shows beside the reason to wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from kschedctl.api.queueing import KueueWorkload
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.fixes.kueue.changes import AdmissionProposal
from kschedctl.fixes.kueue.queue_objects import search_queue_corrections
from kschedctl.fixes.kueue.quota import search_quota_raises
from kschedctl.fixes.kueue.trials import AdmissionTrial, AdmissionTrials
from kschedctl.fixes.kueue.workload import search_fewer_pods, search_higher_priorities
from kschedctl.fixes.trial.fix_kinds import Price
from kschedctl.queueing.kueue.outlook import NEEDED_KINDS
from kschedctl.replay.waiting_elsewhere.kueue import is_waiting, parse_time
from kschedctl.reports.remedy import Remedy
from kschedctl.reports.summary import CostKind, FixCost
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere
from kschedctl.text.counts import counted, first_few

MOST_FIXES, MOST_WORKLOADS = 3, 3
"""The number of fixes of a Workload, and of Workloads for which fixes are searched."""


def add_admission_fixes(
    cluster: Cluster, entries: Sequence[WaitingElsewhere], now: str
) -> tuple[WaitingElsewhere, ...]:
    """Return the entries with the fixes of the first Workloads of Kueue among them.

    ``now`` is the RFC 3339 time of the replays, or empty.
    """
    titles = {f"Workload {w.metadata.namespace}/{w.metadata.name}": w for w in cluster.kueue_workloads}
    workloads = [entry.resource for entry in entries if entry.resource in titles][:MOST_WORKLOADS]
    return tuple(
        replace(entry, fixes=find_admission_fixes(cluster, titles[entry.resource], now))
        if entry.resource in workloads
        else entry
        for entry in entries
    )


def find_admission_fixes(cluster: Cluster, workload: KueueWorkload, now: str) -> tuple[Remedy, ...]:
    """Return the best fixes for a waiting Workload, best first.

    There are none if Kueue would admit the Workload anyway, or if Kueue cannot be replayed.
    """
    if not is_waiting(workload) or any(cluster.gap(kind) is not None for kind in NEEDED_KINDS):
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
    corrected = False
    for result in search_queue_corrections(trials):
        corrected = True
        yield result
    if corrected:
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
    return Remedy(
        summary=proposal.summary[:1].upper() + proposal.summary[1:],
        by=proposal.by,
        weakens=None,
        opens=(),
        commands=tuple(patch.command for patch in proposal.patches),
        changes=tuple(patch.to_document() for patch in proposal.patches),
        kinds=(proposal.kind,),
        victims=preempted,
        step=_get_step(proposal, costs).name.lower(),
        holds=None if proposal.needs_values else holds,
        needs_values=proposal.needs_values,
        manifests=proposal.manifests,
        costs=(*costs, *proposal.costs),
    )


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
