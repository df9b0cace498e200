"""One scenario under several seeds, and how much the results differ that only ties tell apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from kschedctl.reports.document import RunReport
from kschedctl.reports.simulation import SimulationReport, Spread, Variation, WorkloadVariation
from kschedctl.studies.basics.parallel import Context, Progress, Results, Task, Workers, run_all

Report = TypeVar("Report", bound=RunReport)


def try_seeds(
    scenario: Callable[[Context, int], Report],
    context: Context,
    seeds: range,
    workers: Workers,
    progress: Progress,
) -> Results[Report]:
    """What comes out under each seed, as far as nobody interrupts."""
    return run_all(partial(uncut, scenario), context, seeds, workers, progress.begin("Runs", len(seeds)))


def uncut(scenario: Callable[[Context, Task], Report], context: Context, task: Task) -> Report:
    """One of several results, which is of no use when it is cut short. Raises KeyboardInterrupt then."""
    result = scenario(context, task)
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def over_runs(numbers: Sequence[Mapping[str, int]]) -> dict[str, Spread]:
    """The least and the most of every number over the runs; nothing of a single one.

    >>> over_runs([{"moved": 1}, {"moved": 3}])
    {'moved': Spread(least=1, most=3)}
    """
    if len(numbers) < 2:
        return {}
    names = dict.fromkeys(name for run in numbers for name in run)
    return {name: spread(run.get(name, 0) for run in numbers) for name in names}


def spread(numbers: Iterable[int]) -> Spread:
    """The least and the most of them."""
    values = list(numbers)
    return Spread(min(values), max(values))


# -- simulations --------------------------------------------------------------------------------------------------


def variation(runs: Sequence[SimulationReport]) -> Variation:
    """How the runs of a simulation differ, also in where the pods of each workload are."""
    return Variation(
        runs=len(runs),
        outcomes=len({_outcome(run) for run in runs}),
        placed=spread(run.placed for run in runs),
        pending=spread(run.unplaced for run in runs),
        evicted=spread(run.evicted_pods for run in runs),
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
        key: {value: spread(one.domains[key].get(value, 0) for one in same) for value in of_key}
        for key, of_key in values.items()
    }
    return WorkloadVariation(same[0].workload, spread(one.running for one in same), domains)
