"""TODO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from kschedctl.errors import KschedctlError
from kschedctl.replay.parallel import ALONE, UNSEEN, Context, Progress, Results, Task, Workers, run_all
from kschedctl.reports.answers import Answers, ClusterAnswer
from kschedctl.reports.document import RunReport
from kschedctl.reports.placements import Spread

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


Subject = TypeVar("Subject")
Question = Callable[[Subject, Workers, Progress], Report]
"""Gives a report that tells whether it was ``interrupted``. Raises KschedctlError."""


@dataclass(frozen=True)
class _Asked(Generic[Subject, Report]):
    question: Question[Subject, Report]
    good: Callable[[Report], bool]
    subjects: Mapping[str, Subject]


def ask_each(
    question: Question[Subject, Report],
    good: Callable[[Report], bool],
    subjects: Mapping[str, Subject],
    workers: Workers = ALONE,
    progress: Progress = UNSEEN,
) -> Answers:
    """The answers, by the names of what they are about; ``good`` tells whether a report is what one hopes for."""
    asked = _Asked(question, good, subjects)
    results = run_all(_answer, asked, list(subjects), workers, progress.begin("Clusters", len(subjects)))
    return Answers(tuple(results.known), len(subjects), results.interrupted)


def _answer(asked: _Asked[Subject, Report], name: str) -> ClusterAnswer:
    try:
        report = asked.question(asked.subjects[name], ALONE, UNSEEN)
    except KschedctlError as error:
        raise type(error)(error.what, where=error.where or name, hint=error.hint) from error
    if report.interrupted:
        raise KeyboardInterrupt
    return ClusterAnswer(name, asked.good(report), report)
