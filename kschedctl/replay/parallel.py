"""Independent scenarios spread across local processes or over a Dask cluster, with the same results.

A scenario is a function of a context, which all share, and of a task. Both travel to other processes by pickle; what a
function keeps with its context is made once in each process.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError, Future, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar

from kschedctl.errors import ClusterError, UsageError

Context = TypeVar("Context")
Task = TypeVar("Task")
Result = TypeVar("Result")
Scenario = Callable[[Context, Task], Result]


class Progress(Protocol):
    """Shows how far something is."""

    def begin(self, what: str, total: int) -> Callable[[int], None]:
        """Something with so many parts begins; call the result with how many more of them are done."""


class NoProgress:
    """Shows nothing."""

    def begin(self, what: str, total: int) -> Callable[[int], None]:
        return lambda done: None


UNSEEN = NoProgress()
PATIENCE_SECONDS = 0.5
"""How long a worker works on for nobody."""


@dataclass(frozen=True)
class Workers:
    """Who works: so many local ``processes``, 0 for as many as there are cores, or the Dask cluster at an address."""

    processes: int = 1
    dask: str = ""


ALONE = Workers()


@dataclass(frozen=True)
class Results(Generic[Result]):
    """In the order of the tasks; None where the user interrupted before it was there."""

    found: list[Result | None]

    @property
    def known(self) -> list[Result]:
        return [result for result in self.found if result is not None]

    @property
    def interrupted(self) -> bool:
        return len(self.known) < len(self.found)


def run_all(
    scenario: Scenario[Context, Task, Result],
    context: Context,
    tasks: Sequence[Task],
    workers: Workers = ALONE,
    done: Callable[[int], None] = lambda number: None,
) -> Results[Result]:
    """Every task's result. Raises UsageError where there is no such Dask cluster, ClusterError where it is lost."""
    answers: list[Result | None] = [None] * len(tasks)
    processes = min(workers.processes or os.cpu_count() or 1, len(tasks))
    if workers.dask:
        results = _on_dask(scenario, context, tasks, workers.dask)
    elif processes > 1:
        results = _on_processes(scenario, context, tasks, processes)
    else:
        results = _here_and_now(scenario, context, tasks)
    try:
        for i, result in results:
            answers[i] = result
            done(1)
    except KeyboardInterrupt:
        results.close()
    return Results(answers)


def _here_and_now(
    scenario: Scenario[Context, Task, Result], context: Context, tasks: Sequence[Task]
) -> Generator[tuple[int, Result], None, None]:
    for i, task in enumerate(tasks):
        yield i, scenario(context, task)


@dataclass(frozen=True)
class Crew(Generic[Task, Result]):
    """Who works off tasks in rounds, ``size`` at once; what they keep with the context stays from round to round."""

    size: int
    submit: Callable[[Task], Any]

    def results(self, tasks: Sequence[Task]) -> Iterator[Result]:
        """In the order of the tasks; those that nobody waits for any more are not begun, if possible."""
        futures = [self.submit(task) for task in tasks]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


@contextmanager
def crew(
    scenario: Scenario[Context, Task, Result], context: Context, workers: Workers
) -> Iterator[Crew[Task, Result] | None]:
    """Those who work side by side; None for nobody but this process. Raises as ``run_all`` does."""
    processes = workers.processes or os.cpu_count() or 1
    if workers.dask:
        with _dask(scenario, context, workers.dask) as (submit, client, _):
            yield Crew(max(sum(client.nthreads().values()), 1), submit)
    elif processes > 1:
        with _processes(scenario, context, processes) as submit:
            yield Crew(processes, submit)
    else:
        yield None


# -- local processes ----------------------------------------------------------------------------------------------

_here: dict[str, Any] = {}


def _on_processes(
    scenario: Scenario[Context, Task, Result], context: Context, tasks: Sequence[Task], processes: int
) -> Generator[tuple[int, Result], None, None]:
    with _processes(scenario, context, processes) as submit:
        futures: dict[Future[Result], int] = {submit(task): i for i, task in enumerate(tasks)}
        for future in as_completed(futures):
            yield futures[future], future.result()


@contextmanager
def _processes(
    scenario: Scenario[Context, Task, Result], context: Context, processes: int
) -> Iterator[Callable[[Task], Future[Result]]]:
    """What submits a task to one of the processes."""
    import multiprocessing  # noqa: PLC0415 - most questions are answered by this process alone
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415

    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else None
    pool = ProcessPoolExecutor(
        processes, multiprocessing.get_context(method), initializer=_enter, initargs=(scenario, context)
    )
    try:
        yield lambda task: pool.submit(_run, task)
    except BaseException:
        for worker in multiprocessing.active_children():  # else the program ends only when they do
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)  # in full: what is left of it would fail while the program ends


def _enter(scenario: Scenario[Any, Any, Any], context: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is told, and ends the others
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # `watch` has a handler of its own
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _here.update(scenario=scenario, context=context)


def _end_with_parent() -> None:
    """A parent that a signal ends, SIGTERM or SIGKILL, has no time to end the others."""
    import multiprocessing  # noqa: PLC0415

    parent = multiprocessing.parent_process()
    if parent is not None:
        while os.getppid() == parent.pid:
            time.sleep(PATIENCE_SECONDS)
        os._exit(1)


def _run(task: object) -> Any:
    return _here["scenario"](_here["context"], task)


# -- Dask ---------------------------------------------------------------------------------------------------------


def _on_dask(
    scenario: Scenario[Context, Task, Result], context: Context, tasks: Sequence[Task], address: str
) -> Generator[tuple[int, Result], None, None]:
    with _dask(scenario, context, address) as (submit, client, completed):
        futures = {submit(task): i for i, task in enumerate(tasks)}
        for future in completed(futures, loop=client.loop):
            yield futures[future], future.result()


@contextmanager
def _dask(
    scenario: Scenario[Context, Task, Result], context: Context, address: str
) -> Iterator[tuple[Callable[[Task], Any], Any, Callable[..., Any]]]:
    """What submits a task to the cluster, its client, and how to wait for what was submitted."""
    try:
        distributed: Any = import_module("distributed")  # an extra
    except ImportError:
        raise UsageError("Dask is not installed", hint="pip install 'kschedctl[distributed]'") from None
    try:
        client = distributed.Client(address, set_as_default=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"no Dask scheduler answers: {error}", where=f"--dask {address}") from None
    with client, _silent("distributed"):  # what it has to say is in the errors
        try:
            shared = client.scatter(context, broadcast=True, hash=False)
            yield partial(_submit, client, scenario, shared), client, distributed.as_completed
        except (CancelledError, OSError):  # of its connections: scenarios read and write nothing
            raise ClusterError("the Dask scheduler is gone", where=f"--dask {address}") from None


def _submit(client: Any, scenario: Scenario[Any, Task, Any], shared: object, task: Task) -> Any:
    return client.submit(scenario, shared, task, pure=False)


@contextmanager
def _silent(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
