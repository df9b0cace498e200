"""One question about several clusters, each answered by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from kschedctl.errors import KschedctlError
from kschedctl.replay.parallel import ALONE, UNSEEN, Progress, Workers, run_all
from kschedctl.reports.answers import Answers, ClusterAnswer
from kschedctl.reports.document import RunReport

Subject = TypeVar("Subject")
Report = TypeVar("Report", bound=RunReport)
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
