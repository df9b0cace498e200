"""One question asked about one cluster, or about each of several snapshots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from kschedctl.cli.answer import Answer
from kschedctl.cli.options import NO_PLACES, Output, Places
from kschedctl.cli.progress import show_progress
from kschedctl.cli.run_options import RunOptions, choose_exit_code
from kschedctl.replay.parallel import Progress, Report, Workers, ask_each_cluster

Subject = TypeVar("Subject")


def _suggest_nothing(subject: object, report: object) -> Sequence[str]:
    """Return no commands to try next."""
    return ()


def ask_and_answer(
    run: RunOptions,
    output: Output,
    subjects: Mapping[str, Subject],
    ask: Callable[[Subject, Workers, Progress], Report],
    is_good: Callable[[Report], bool],
    *,
    suggest_commands: Callable[[Subject, Report], Sequence[str]] = _suggest_nothing,
    places: Places = NO_PLACES,
) -> Answer:
    """Ask about each subject and return the answer with its exit code.

    `ask` answers for one subject, `good` returns whether a report is a success, and `following` returns the commands to
    try after a report. `places` has the places of manifests in files, for findings.
    """
    with show_progress() as progress:
        if len(subjects) == 1:
            (subject,) = subjects.values()
            report = ask(subject, run.workers, progress)
            code = choose_exit_code(is_good(report), report.interrupted, report.undecided)
            return output.answer(report, code, {"": suggest_commands(subject, report)}, places)
        answers = ask_each_cluster(ask, is_good, subjects, run.workers, progress)
        commands = {
            cluster_answer.cluster: suggest_commands(subjects[cluster_answer.cluster], cluster_answer.document)
            for cluster_answer in answers.answers
        }
        code = choose_exit_code(answers.good, answers.interrupted, answers.undecided)
        return output.answer(answers, code, commands, places)
