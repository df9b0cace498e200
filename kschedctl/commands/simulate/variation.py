"""Comparison of the runs of a simulation that differ in their seed."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.commands.simulate.report import SimulationReport
from kschedctl.replay.parallel import build_spread
from kschedctl.reports.placements import Variation, WorkloadVariation


def compare_runs(runs: Sequence[SimulationReport]) -> Variation:
    """Compare runs by their numbers of placed, pending and evicted pods and by where each workload's pods are."""
    return Variation(
        runs=len(runs),
        outcomes=len({_build_outcome_key(run) for run in runs}),
        placed=build_spread(run.placed for run in runs),
        pending=build_spread(run.unplaced for run in runs),
        evicted=build_spread(run.evicted_pods for run in runs),
        workloads=tuple(_compare_workload(runs, i) for i in range(len(runs[0].workloads))),
    )


def _build_outcome_key(run: SimulationReport) -> object:
    """Return a key that is equal for runs with the same pods per workload and domain, and the same evicted pods."""
    placed = tuple((workload.running, repr(workload.domains)) for workload in run.workloads)
    return placed, frozenset(evicted.pod for evicted in run.evicted)


def _compare_workload(runs: Sequence[SimulationReport], index: int) -> WorkloadVariation:
    """Compare the placements of the workload at `index` in all runs: its running pods, and its pods per domain."""
    placements = [run.workloads[index] for run in runs]
    domains = {}
    for key in placements[0].domains:
        values = sorted({value for placement in placements for value in placement.domains[key]})
        domains[key] = {
            value: build_spread(placement.domains[key].get(value, 0) for placement in placements) for value in values
        }
    running = build_spread(placement.running for placement in placements)
    return WorkloadVariation(placements[0].workload, running, domains)
