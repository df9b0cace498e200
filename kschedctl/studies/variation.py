"""How much the results of several runs differ that only ties tell apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from kschedctl.reports.simulation import Simulation, Spread, Variation, WorkloadVariation
from kschedctl.studies.parallel import Results


def with_variation(results: Results[Simulation]) -> Simulation:
    """The first run, and how the others differ from it."""
    runs = results.known
    if not runs:
        return Simulation(seed=0, sampling=False, placed=0, unplaced=0, interrupted=True)
    varied = Variation(
        runs=len(runs),
        outcomes=len({_outcome(run) for run in runs}),
        placed=spread(run.placed for run in runs),
        pending=spread(run.unplaced for run in runs),
        evicted=spread(len(run.evicted) for run in runs),
        workloads=tuple(_workload(runs, i) for i in range(len(runs[0].workloads))),
    )
    return replace(runs[0], variation=varied, interrupted=results.interrupted or runs[0].interrupted)


def spread(numbers: Iterable[int]) -> Spread:
    """The least and the most of them."""
    found = list(numbers)
    return Spread(min(found), max(found))


def _outcome(run: Simulation) -> object:
    """Equal for runs that place as many pods of each workload in each domain, and evict the same pods."""
    placed = tuple((w.running, repr(w.domains)) for w in run.workloads)
    return placed, frozenset(evicted.pod for evicted in run.evicted)


def _workload(runs: Sequence[Simulation], number: int) -> WorkloadVariation:
    same = [run.workloads[number] for run in runs]
    values = {key: sorted({v for one in same for v in one.domains[key]}) for key in same[0].domains}
    domains = {
        key: {value: spread(one.domains[key].get(value, 0) for one in same) for value in found}
        for key, found in values.items()
    }
    return WorkloadVariation(same[0].workload, spread(one.running for one in same), domains)
