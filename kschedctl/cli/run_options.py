"""Options of the commands that run the scheduler forward, and the run itself for one or several clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from kschedctl.cli.output_options import DOES_NOT_SCHEDULE, NO_PLACES, SCHEDULES, UNDECIDED, Answer, Output, Places
from kschedctl.errors import UsageError
from kschedctl.scheduler.engine.sampling import SampledFrom, SearchOptions

if TYPE_CHECKING:
    from kschedctl.replay.parallel import Progress, Report, Workers

INTERRUPTED = 130
Subject = TypeVar("Subject")


class RunChoices(SearchOptions):
    """Options of a run, for commands that run several times."""

    runs: int


@dataclass(frozen=True)
class Sampled:
    """Options that choose how many nodes are looked at."""

    sampling: Annotated[
        bool,
        typer.Option(
            "--sampling",
            help="Evaluate only as many nodes as kube-scheduler would (percentageOfNodesToScore), instead of all "
            "nodes.",
        ),
    ] = False
    start_index: Annotated[
        int | None,
        typer.Option(
            "--start-index", metavar="NUMBER", help="With --sampling: index of the node at which the search starts."
        ),
    ] = None

    @property
    def sampling_start(self) -> SampledFrom | None:
        """The start of node sampling, or None if all nodes are searched.

        Raises UsageError if a start index is negative or given without sampling.
        """
        if self.start_index is None:
            return SampledFrom() if self.sampling else None
        if not self.sampling:
            raise UsageError("--start-index needs --sampling")
        if self.start_index < 0:
            raise UsageError(f"--start-index {self.start_index}: must be 0 or more")
        return SampledFrom(self.start_index)


@dataclass(frozen=True)
class WorkOptions:
    """Options that choose where independent scenarios run."""

    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            metavar="NUMBER",
            help="Number of processes that run independent scenarios in parallel. 0 means one per core.",
        ),
    ] = 0
    dask: Annotated[
        str,
        typer.Option(
            "--dask",
            metavar="ADDRESS",
            help="Run independent scenarios on the Dask cluster whose scheduler listens at ADDRESS.",
        ),
    ] = ""

    @property
    def workers(self) -> Workers:
        """The processes or Dask cluster to use. Raises UsageError if the number of processes is negative."""
        from kschedctl.replay.parallel import Workers  # noqa: PLC0415 - not for one pod

        if self.jobs < 0:
            raise UsageError(f"--jobs {self.jobs}: must be 0 or more")
        return Workers(self.jobs, self.dask)


@dataclass(frozen=True)
class RunOptions(WorkOptions, Sampled):
    """Options of a run: seeds, sampling and workers."""

    seed: Annotated[
        int, typer.Option("--seed", metavar="NUMBER", help="Random seed for choosing between nodes with equal scores.")
    ] = 0
    runs: Annotated[
        int,
        typer.Option(
            "--runs",
            metavar="NUMBER",
            help="Number of runs, each with a different seed. The report shows how the results differ.",
        ),
    ] = 1

    def options(self) -> RunChoices:
        """Return the options as keyword arguments for the library.

        Raises UsageError if the number of runs is less than 1, or node sampling is not set up correctly.
        """
        if self.runs < 1:
            raise UsageError(f"--runs {self.runs}: must be 1 or more")
        return {"seed": self.seed, "runs": self.runs, "sampling": self.sampling_start, "call_extender": None}

    def to_cli_options(self) -> list[str]:
        """Return the command-line options that make another command reproduce this run, without defaults."""
        options = []
        if self.seed:
            options += ["--seed", str(self.seed)]
        if self.sampling:
            options.append("--sampling")
        if self.start_index is not None:
            options += ["--start-index", str(self.start_index)]
        return options


def choose_exit_code(good: bool, interrupted: bool, undecided: bool = False) -> int:
    """Return the exit code for an answer. Interrupted and undecided answers have their own exit codes."""
    if interrupted:
        return INTERRUPTED
    if undecided:
        return UNDECIDED
    return SCHEDULES if good else DOES_NOT_SCHEDULE


def _suggest_nothing(subject: object, report: object) -> Sequence[str]:
    """Suggest no commands."""
    return ()


def answer_about_subjects(
    run: RunOptions,
    output: Output,
    subjects: Mapping[str, Subject],
    ask: Callable[[Subject, Workers, Progress], Report],
    is_good: Callable[[Report], bool],
    *,
    suggest_commands: Callable[[Subject, Report], Sequence[str]] = _suggest_nothing,
    places: Places = NO_PLACES,
) -> Answer:
    """Ask about each subject, and build the answer with its exit code.

    `ask` builds the report about one subject, `is_good` returns whether a report counts as success, and
    `suggest_commands` returns commands to try next. `places` maps objects to their manifests in files, for findings.
    """
    from kschedctl.cli.progress import show_progress  # noqa: PLC0415 - not for one pod
    from kschedctl.replay.parallel import ask_each_cluster  # noqa: PLC0415 - not for one pod

    with show_progress() as progress:
        if len(subjects) == 1:
            (subject,) = subjects.values()
            report = ask(subject, run.workers, progress)
            code = choose_exit_code(is_good(report), report.interrupted, report.undecided)
            commands_for_report = {"": suggest_commands(subject, report)}  # "" stands for the whole report
            return output.build_answer(report, code, commands_for_report, places)
        answers = ask_each_cluster(ask, is_good, subjects, run.workers, progress)
        commands = {
            cluster_answer.cluster: suggest_commands(subjects[cluster_answer.cluster], cluster_answer.document)
            for cluster_answer in answers.answers
        }
        code = choose_exit_code(answers.good, answers.interrupted, answers.undecided)
        return output.build_answer(answers, code, commands, places)
