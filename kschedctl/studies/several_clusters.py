"""One question about several clusters, each answered by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from kschedctl.api.json_values import JsonObject
from kschedctl.errors import KschedctlError
from kschedctl.reports.answers import Answers, ClusterAnswer
from kschedctl.studies.basics.parallel import ALONE, UNSEEN, Progress, Workers, run_all

Subject = TypeVar("Subject")
Question = Callable[[Subject, Workers, Progress], Any]
"""Gives a report that tells whether it was ``interrupted``. Raises KschedctlError."""


@dataclass(frozen=True)
class _Asked:
    question: Question[Any]
    good: Callable[[Any], bool]
    subjects: JsonObject


def ask_each(
    question: Question[Subject],
    good: Callable[[Any], bool],
    subjects: Mapping[str, Subject],
    workers: Workers = ALONE,
    progress: Progress = UNSEEN,
) -> Answers:
    """The answers, by the names of what they are about; ``good`` tells whether a report is what one hopes for."""
    asked = _Asked(question, good, subjects)
    results = run_all(_answer, asked, list(subjects), workers, progress.begin("Clusters", len(subjects)))
    return Answers(tuple(results.known), len(subjects), results.interrupted)


def _answer(asked: _Asked, name: str) -> ClusterAnswer:
    try:
        report = asked.question(asked.subjects[name], ALONE, UNSEEN)
    except KschedctlError as error:
        raise type(error)(error.what, where=error.where or name, hint=error.hint) from error
    if report.interrupted:
        raise KeyboardInterrupt
    return ClusterAnswer(name, asked.good(report), report)
