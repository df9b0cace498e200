"""One question about the cluster that the options name, or about each of several snapshots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from kschedctl.cli.answer import Answer
from kschedctl.cli.options import NO_PLACES, Output, Places
from kschedctl.cli.progress import bars
from kschedctl.cli.run_options import RunOptions, exit_code
from kschedctl.replay.parallel import Progress, Workers
from kschedctl.replay.repeated_runs import Report, ask_each_cluster

Subject = TypeVar("Subject")


def _nothing(subject: object, report: object) -> Sequence[str]:
    """No command is tried after this."""
    return ()


def answer(
    run: RunOptions,
    output: Output,
    subjects: Mapping[str, Subject],
    ask: Callable[[Subject, Workers, Progress], Report],
    good: Callable[[Report], bool],
    *,
    following: Callable[[Subject, Report], Sequence[str]] = _nothing,
    places: Places = NO_PLACES,
) -> Answer:
    """What ``ask`` says of the only subject, or of each; ``good`` tells whether that is what one hopes for, and
    ``following`` which commands to try after a report; ``places``: where the manifests stand.
    """
    with bars() as progress:
        if len(subjects) == 1:
            (subject,) = subjects.values()
            report = ask(subject, run.workers, progress)
            code = exit_code(good(report), report.interrupted, report.undecided)
            return output.answer(report, code, {"": following(subject, report)}, places)
        answers = ask_each_cluster(ask, good, subjects, run.workers, progress)
        commands = {
            cluster_answer.cluster: following(subjects[cluster_answer.cluster], cluster_answer.document)
            for cluster_answer in answers.answers
        }
        code = exit_code(answers.good, answers.interrupted, answers.undecided)
        return output.answer(answers, code, commands, places)
