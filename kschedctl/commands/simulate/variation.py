"""How the runs of a simulation differ."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.commands.simulate.report import SimulationReport
from kschedctl.replay.repeated_runs import build_spread
from kschedctl.reports.placements import Variation, WorkloadVariation


def variation(runs: Sequence[SimulationReport]) -> Variation:
    """How the runs of a simulation differ, also in where the pods of each workload are."""
    return Variation(
        runs=len(runs),
        outcomes=len({_outcome(run) for run in runs}),
        placed=build_spread(run.placed for run in runs),
        pending=build_spread(run.unplaced for run in runs),
        evicted=build_spread(run.evicted_pods for run in runs),
        workloads=tuple(_workload(runs, i) for i in range(len(runs[0].workloads))),
    )


def _outcome(run: SimulationReport) -> object:
    """Equal for runs that place as many pods of each workload in each domain, and evict the same pods."""
    placed = tuple((w.running, repr(w.domains)) for w in run.workloads)
    return placed, frozenset(evicted.pod for evicted in run.evicted)


def _workload(runs: Sequence[SimulationReport], number: int) -> WorkloadVariation:
    same = [run.workloads[number] for run in runs]
    values = {key: sorted({v for one in same for v in one.domains[key]}) for key in same[0].domains}
    domains = {
        key: {value: build_spread(one.domains[key].get(value, 0) for one in same) for value in of_key}
        for key, of_key in values.items()
    }
    return WorkloadVariation(same[0].workload, build_spread(one.running for one in same), domains)
