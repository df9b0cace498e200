"""Options of the commands that run the scheduler forward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from kschedctl.cli.answer import DOES_NOT_SCHEDULE, SCHEDULES, UNDECIDED
from kschedctl.errors import UsageError
from kschedctl.replay.parallel import Workers
from kschedctl.scheduler.engine.sampling import SampledFrom, SearchOptions

INTERRUPTED = 130


def choose_exit_code(good: bool, interrupted: bool, undecided: bool = False) -> int:
    """Return the exit code of an answer; interrupted and undecided answers have their own."""
    if interrupted:
        return INTERRUPTED
    if undecided:
        return UNDECIDED
    return SCHEDULES if good else DOES_NOT_SCHEDULE


class RunChoices(SearchOptions):
    """Options of a run, for commands that run several times."""

    runs: int


@dataclass(frozen=True)
class Sampled:
    """Options that choose how many nodes are looked at."""

    sampling: Annotated[
        bool, typer.Option("--sampling", help="Look at as many nodes as kube-scheduler does, not at all of them.")
    ] = False
    start_index: Annotated[
        int | None,
        typer.Option("--start-index", metavar="NUMBER", help="With --sampling: where the first search begins."),
    ] = None

    @property
    def sampled_from(self) -> SampledFrom | None:
        """Where node sampling starts, or None to look at all nodes. Raises UsageError."""
        if self.start_index is None:
            return SampledFrom() if self.sampling else None
        if not self.sampling:
            raise UsageError("--start-index needs --sampling")
        if self.start_index < 0:
            raise UsageError(f"--start-index {self.start_index}: 0 or more")
        return SampledFrom(self.start_index)


@dataclass(frozen=True)
class WorkOptions:
    """Options that choose where independent scenarios run."""

    jobs: Annotated[
        int, typer.Option("--jobs", metavar="NUMBER", help="Processes for independent scenarios; 0: one for each core.")
    ] = 0
    dask: Annotated[
        str, typer.Option("--dask", metavar="ADDRESS", help="Spread them over the Dask cluster of this scheduler.")
    ] = ""

    @property
    def workers(self) -> Workers:
        """The processes or Dask cluster to use. Raises UsageError."""
        if self.jobs < 0:
            raise UsageError(f"--jobs {self.jobs}: a number of processes, or 0")
        return Workers(self.jobs, self.dask)


@dataclass(frozen=True)
class RunOptions(WorkOptions, Sampled):
    """Options of a run: seeds, sampling and workers."""

    seed: Annotated[int, typer.Option("--seed", metavar="NUMBER", help="Decides between nodes that are equal.")] = 0
    runs: Annotated[
        int, typer.Option("--runs", metavar="NUMBER", help="Number of seeds to try; tells how the results differ.")
    ] = 1

    def options(self) -> RunChoices:
        """Return the options as keyword arguments for the library. Raises UsageError."""
        if self.runs < 1:
            raise UsageError(f"--runs {self.runs}: at least one")
        return {"seed": self.seed, "runs": self.runs, "sampling": self.sampled_from, "call_extender": None}
