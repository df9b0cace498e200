"""Repeated runs: one scenario under several seeds, and one question about several clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from kschedctl.errors import KschedctlError
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Context, Progress, Results, Task, Workers, run_all
from kschedctl.reports.document import RunReport
from kschedctl.reports.placements import Spread
from kschedctl.reports.report import Answers, ClusterAnswer

Report = TypeVar("Report", bound=RunReport)


def run_seeds(
    scenario: Callable[[Context, int], Report],
    context: Context,
    seeds: range,
    workers: Workers,
    progress: Progress,
) -> Results[Report]:
    """Run a scenario under each seed; results are missing if the user interrupts."""
    return run_all(partial(run_uninterrupted, scenario), context, seeds, workers, progress.begin("Runs", len(seeds)))


def run_uninterrupted(scenario: Callable[[Context, Task], Report], context: Context, task: Task) -> Report:
    """Run a task of a scenario. Raises KeyboardInterrupt if its result is incomplete."""
    result = scenario(context, task)
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def spread_over_runs(numbers_by_run: Sequence[Mapping[str, int]]) -> dict[str, Spread]:
    """Return the lowest and highest value of every number over the runs; empty for a single run.

    >>> spread_over_runs([{"moved": 1}, {"moved": 3}])
    {'moved': Spread(least=1, most=3)}
    """
    if len(numbers_by_run) < 2:
        return {}
    keys = dict.fromkeys(name for run in numbers_by_run for name in run)
    return {name: build_spread(run.get(name, 0) for run in numbers_by_run) for name in keys}


def build_spread(numbers: Iterable[int]) -> Spread:
    """Return the lowest and highest of the numbers."""
    values = list(numbers)
    return Spread(min(values), max(values))


# -- simulations --------------------------------------------------------------------------------------------------


Subject = TypeVar("Subject")
Question = Callable[[Subject, Workers, Progress], Report]
"""A function that returns a report on a subject. Raises KschedctlError."""


@dataclass(frozen=True)
class _ClusterQuestion(Generic[Subject, Report]):
    """A question and the clusters that it is asked about."""

    question: Question[Subject, Report]
    is_good: Callable[[Report], bool]
    subjects: Mapping[str, Subject]


def ask_each_cluster(
    question: Question[Subject, Report],
    is_good: Callable[[Report], bool],
    subjects: Mapping[str, Subject],
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> Answers:
    """Ask the question about each cluster; ``is_good`` tells whether a report is a good result."""
    cluster_question = _ClusterQuestion(question, is_good, subjects)
    results = run_all(_answer_for, cluster_question, list(subjects), workers, progress.begin("Clusters", len(subjects)))
    return Answers(tuple(results.completed), len(subjects), results.interrupted)


def _answer_for(cluster_question: _ClusterQuestion[Subject, Report], name: str) -> ClusterAnswer:
    """Answer the question for one cluster. Raises KschedctlError."""
    try:
        report = cluster_question.question(cluster_question.subjects[name], ONE_PROCESS, NO_PROGRESS)
    except KschedctlError as error:
        raise type(error)(error.what, where=error.where or name, hint=error.hint) from error
    if report.interrupted:
        raise KeyboardInterrupt
    return ClusterAnswer(name, cluster_question.is_good(report), report)
