"""Independent scenarios, seeds or clusters spread over local processes or a Dask cluster, with the same results.

A scenario is a function of a context, which all tasks share, and of a task. Local workers are forked where the system
can do that: they share the memory of the context, with everything that was cached before they started. Elsewhere and on
a Dask cluster, the context travels by pickle, and each process caches for itself. Tasks and results always travel.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from kschedctl.errors import ClusterError, KschedctlError, UsageError
from kschedctl.reports.document import RunReport
from kschedctl.reports.placements import Spread
from kschedctl.reports.report import Answers, ClusterAnswer

Context = TypeVar("Context")
Task = TypeVar("Task")
Result = TypeVar("Result")
Scenario = Callable[[Context, Task], Result]


class Progress(Protocol):
    """Shows the progress of a computation."""

    def begin(self, title: str, total: int) -> Callable[[int], None]:
        """Begin a computation with ``total`` parts, and return a function to call with the number of new parts done."""


class NoProgress:
    """A progress that shows nothing."""

    def begin(self, title: str, total: int) -> Callable[[int], None]:
        """Return a function that does nothing."""
        return lambda done: None


NO_PROGRESS = NoProgress()
PARENT_CHECK_SECONDS = 0.5
"""The interval at which a worker checks that its parent still exists."""
UNKNOWN_PARTS = -1
"""The number of parts of a task if nobody knows it. All parts that the task reports are counted then."""
PROGRESS_SECONDS = 0.2
"""The interval at which the progress inside the tasks of local workers is shown."""


@dataclass(frozen=True)
class Workers:
    """The workers for scenarios: local processes or a Dask cluster."""

    processes: int = 1
    """Number of local processes; 0 for one per core."""
    dask: str = ""
    """The address of a Dask scheduler, empty for local processes."""


ONE_PROCESS = Workers()


@dataclass(frozen=True)
class Results(Generic[Result]):
    """The results of tasks, in the order of the tasks."""

    by_task: list[Result | None]
    """In the order of the tasks; None if the user interrupted before the result existed."""

    @property
    def completed(self) -> list[Result]:
        """The results that exist, in the order of the tasks."""
        return [result for result in self.by_task if result is not None]

    @property
    def interrupted(self) -> bool:
        """True if results are missing, because the user interrupted."""
        return len(self.completed) < len(self.by_task)


def run_tasks(
    scenario: Scenario[Context, Task, Result],
    context: Context,
    tasks: Sequence[Task],
    workers: Workers = ONE_PROCESS,
    on_done: Callable[[int], None] = lambda number: None,
    *,
    parts: Sequence[int] = (),
) -> Results[Result]:
    """Run a scenario for every task, and return the results, which are incomplete if the user interrupts.

    ``on_done`` is called with 1 after each task. If ``parts`` gives the number of parts of each task, running tasks
    report finished parts with `report_parts`. ``on_done`` is then called with the number of newly finished parts.
    Raises UsageError if the Dask cluster in `workers` does not exist, and ClusterError if the connection to it is lost.
    """
    collected: list[Result | None] = [None] * len(tasks)
    processes = min(workers.processes or os.cpu_count() or 1, len(tasks))
    sized_tasks = [_SizedTask(task, size) for task, size in zip(tasks, parts or [1] * len(tasks), strict=True)]
    if workers.dask:
        results = _run_on_dask(scenario, context, sized_tasks, workers.dask, on_done)
    elif processes > 1:
        results = _run_on_processes(scenario, context, sized_tasks, processes, on_done)
    else:
        results = _run_in_this_process(scenario, context, sized_tasks, on_done)
    try:
        for i, result in results:
            collected[i] = result
    except KeyboardInterrupt:
        results.close()
    return Results(collected)


class _SizedTask(NamedTuple, Generic[Task]):
    """A task and the number of its parts, by which progress is counted."""

    task: Task
    parts: int


@dataclass
class _PartCounter:
    """Counts the finished parts of one task, but no more than the task has."""

    remaining: int
    """The number of parts to count, or UNKNOWN_PARTS to count all."""
    on_done: Callable[[int], None]
    """Called with the number of new parts."""

    def add_finished_parts(self, number: int) -> None:
        """Count finished parts, at most as many as remain, and call ``on_done`` with their number if it is not 0.

        If the number of parts is unknown, all finished parts count.
        """
        if self.remaining == UNKNOWN_PARTS:
            new_parts = number
        else:
            new_parts = min(number, self.remaining)
            self.remaining -= new_parts
        if new_parts:
            self.on_done(new_parts)

    def count_remaining_parts(self) -> None:
        """Count all parts that the task did not report, if their number is known."""
        if self.remaining != UNKNOWN_PARTS:
            self.add_finished_parts(self.remaining)


_part_counter: _PartCounter | None = None
"""The counter of the task that this process runs, or None if no task runs."""


def report_parts(number: int) -> None:
    """Report finished parts of the task that runs. More parts than the task has are not counted."""
    if _part_counter is not None:
        _part_counter.add_finished_parts(number)


@contextmanager
def _counting_parts(counter: _PartCounter) -> Iterator[None]:
    """Count the parts that are reported within the block."""
    global _part_counter  # noqa: PLW0603 - a task may be deep in a simulation when it reports parts
    outer_counter, _part_counter = _part_counter, counter
    try:
        yield
    finally:
        _part_counter = outer_counter


def _run_in_this_process(
    scenario: Scenario[Context, Task, Result],
    context: Context,
    tasks: Sequence[_SizedTask[Task]],
    on_done: Callable[[int], None],
) -> Generator[tuple[int, Result], None, None]:
    """Yield the number and the result of each task, computed in this process.

    ``on_done`` is called with the number of parts that finished since its last call.
    """
    for i, (task, parts) in enumerate(tasks):
        counter = _PartCounter(parts, on_done)
        with _counting_parts(counter):
            result = scenario(context, task)
        yield i, result
        counter.count_remaining_parts()


@dataclass(frozen=True)
class WorkerPool(Generic[Task, Result]):
    """Workers that run tasks in rounds and keep their caches between rounds."""

    size: int
    """The number of tasks that run at once."""
    submit: Callable[[Task], Any]
    """Submits a task and returns its future."""

    def run(self, tasks: Sequence[Task]) -> Iterator[Result]:
        """Yield results in the order of the tasks. If the caller stops early, the other tasks are cancelled."""
        futures = [self.submit(task) for task in tasks]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


@contextmanager
def open_worker_pool(
    scenario: Scenario[Context, Task, Result], context: Context, workers: Workers
) -> Iterator[WorkerPool[Task, Result] | None]:
    """Open a pool of workers, or yield None if this process does all work.

    The workers belong to a Dask cluster if `workers` names one, and otherwise are processes on this machine. Raises the
    same errors as `run_tasks`.
    """
    processes = workers.processes or os.cpu_count() or 1
    if workers.dask:
        with _open_dask(scenario, context, workers.dask) as connection:
            threads = sum(connection.client.nthreads().values())
            yield WorkerPool(max(threads, 1), connection.submit)
    elif processes > 1:
        with _start_worker_processes(scenario, context, processes) as submit:
            yield WorkerPool(processes, submit)
    else:
        yield None


# -- local processes ----------------------------------------------------------------------------------------------

_process_state: dict[str, Any] = {}
"""The scenario and the context of this worker process."""


def _run_on_processes(
    scenario: Scenario[Context, Task, Result],
    context: Context,
    tasks: Sequence[_SizedTask[Task]],
    processes: int,
    on_done: Callable[[int], None],
) -> Generator[tuple[int, Result], None, None]:
    """Yield task numbers and results from local processes, as they complete. ``on_done`` gets the finished parts."""
    import multiprocessing  # noqa: PLC0415 - most questions are answered by this process alone

    finished_parts = multiprocessing.Value("q", 0)
    shown_parts = 0
    completed: SimpleQueue[Future[Result]] = SimpleQueue()
    with _start_worker_processes(_run_and_add_parts, (scenario, context, finished_parts), processes) as submit:
        futures: dict[Future[Result], int] = {submit(task): i for i, task in enumerate(tasks)}
        for future in futures:
            future.add_done_callback(completed.put)
        waiting = len(futures)
        while waiting:
            try:
                future = completed.get(timeout=PROGRESS_SECONDS)
                waiting -= 1
                yield futures[future], future.result()
            except Empty:
                pass
            new_parts = finished_parts.value - shown_parts
            shown_parts += new_parts
            on_done(new_parts)


def _run_and_add_parts(
    shared: tuple[Scenario[Context, Task, Result], Context, Any], sized_task: _SizedTask[Task]
) -> Result:
    """Run a task in a worker, and add its finished parts to the number that all workers share."""
    scenario, context, finished_parts = shared

    def add_parts(number: int) -> None:
        """Add finished parts to the shared number."""
        with finished_parts.get_lock():
            finished_parts.value += number

    counter = _PartCounter(sized_task.parts, add_parts)
    with _counting_parts(counter):
        result = scenario(context, sized_task.task)
    counter.count_remaining_parts()
    return result


@contextmanager
def _start_worker_processes(
    scenario: Scenario[Context, Task, Result], context: Context, processes: int
) -> Iterator[Callable[[Task], Future[Result]]]:
    """Start local worker processes, and yield a function that submits a task to them.

    If the block fails, the workers are terminated. Otherwise, the end of the block waits for running tasks, and cancels
    all others.
    """
    import multiprocessing  # noqa: PLC0415 - most questions are answered by this process alone
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415

    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else None
    pool = ProcessPoolExecutor(
        processes, multiprocessing.get_context(method), initializer=_initialize_worker, initargs=(scenario, context)
    )
    try:
        yield lambda task: pool.submit(_run_task_in_worker, task)
    except BaseException:
        for worker in multiprocessing.active_children():  # else the program would wait for them
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)  # complete, as a pool that is still open fails at exit


def _initialize_worker(scenario: Scenario[Any, Any, Any], context: object) -> None:
    """Prepare a worker process: set signal handlers, let it exit with its parent, and store its scenario and context.

    Objects that the parent has built are exempt from garbage collection, which would write to the memory that both
    share.
    """
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets the signal and ends its workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # `watch` installs a handler in the parent
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    _process_state.update(scenario=scenario, context=context)


def _exit_with_parent() -> None:
    """Exit when the parent process is gone, since a killed parent cannot end its workers."""
    import multiprocessing  # noqa: PLC0415

    parent = multiprocessing.parent_process()
    if parent is not None:
        while os.getppid() == parent.pid:
            time.sleep(PARENT_CHECK_SECONDS)
        os._exit(1)


def _run_task_in_worker(task: object) -> Any:
    """Run a task in a worker process, with the scenario and the context that it was initialized with."""
    scenario = _process_state["scenario"]
    return scenario(_process_state["context"], task)


# -- Dask ---------------------------------------------------------------------------------------------------------


def _run_on_dask(
    scenario: Scenario[Context, Task, Result],
    context: Context,
    tasks: Sequence[_SizedTask[Task]],
    address: str,
    on_done: Callable[[int], None],
) -> Generator[tuple[int, Result], None, None]:
    """Yield task numbers and results from a Dask cluster, as they complete. ``on_done`` gets the parts of each task."""
    with _open_dask(scenario, context, address) as connection:
        futures = {connection.submit(sized_task.task): i for i, sized_task in enumerate(tasks)}
        for future in connection.as_completed(futures, loop=connection.client.loop):
            i = futures[future]
            yield i, future.result()
            on_done(max(tasks[i].parts, 0))  # UNKNOWN_PARTS is negative


class _DaskConnection(NamedTuple):
    """An open connection to a Dask cluster."""

    submit: Callable[[Any], Any]
    """Submits a task and returns its future."""
    client: Any
    as_completed: Callable[..., Any]
    """Dask's function of that name."""


@contextmanager
def _open_dask(scenario: Scenario[Context, Task, Result], context: Context, address: str) -> Iterator[_DaskConnection]:
    """Connect to a Dask cluster for a scenario, and yield the connection.

    Raises UsageError if Dask is not installed or no scheduler answers, and ClusterError if the connection is lost.
    """
    try:
        distributed: Any = import_module("distributed")  # an optional dependency
    except ImportError:
        raise UsageError("Dask is not installed", hint="pip install 'kschedctl[distributed]'") from None
    try:
        client = distributed.Client(address, set_as_default=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot connect to the Dask scheduler: {error}", where=f"--dask {address}") from None
    with client, _silence_logger("distributed"):  # its messages are part of our errors
        try:
            shared = client.scatter(context, broadcast=True, hash=False)
            submit = partial(_submit_to_dask, client, scenario, shared)
            yield _DaskConnection(submit, client, distributed.as_completed)
        except (CancelledError, OSError):  # connection errors, as scenarios do no I/O
            raise ClusterError("the connection to the Dask scheduler was lost", where=f"--dask {address}") from None


def _submit_to_dask(client: Any, scenario: Scenario[Any, Task, Any], shared: object, task: Task) -> Any:
    """Submit a task to the Dask cluster, and return its future. ``shared`` is the scattered context."""
    return client.submit(scenario, shared, task, pure=False)


@contextmanager
def _silence_logger(name: str) -> Iterator[None]:
    """Silence a logger while the context is open."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


Report = TypeVar("Report", bound=RunReport)


def run_seeds(
    scenario: Callable[[Context, int], Report],
    context: Context,
    seeds: range,
    workers: Workers,
    progress: Progress,
) -> Results[Report]:
    """Run a scenario with each seed. Results are missing if the user interrupts."""
    on_done = progress.begin("Runs", len(seeds))
    return run_tasks(partial(run_to_completion, scenario), context, seeds, workers, on_done)


def run_to_completion(scenario: Callable[[Context, Task], Report], context: Context, task: Task) -> Report:
    """Run one task of a scenario. Raises KeyboardInterrupt if its report is partial because the user interrupted."""
    result = scenario(context, task)
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def compute_spreads(numbers_by_run: Sequence[Mapping[str, int]]) -> dict[str, Spread]:
    """Return the lowest and highest value of each number over the runs, or {} for a single run.

    A number that a run does not have counts as 0.

    >>> compute_spreads([{"moved": 1}, {"moved": 3}])
    {'moved': Spread(least=1, most=3)}
    """
    if len(numbers_by_run) < 2:
        return {}
    keys = dict.fromkeys(name for run in numbers_by_run for name in run)
    return {name: build_spread(run.get(name, 0) for run in numbers_by_run) for name in keys}


def build_spread(numbers: Iterable[int]) -> Spread:
    """Return the lowest and highest of the numbers. There must be at least one number."""
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
    """Ask the question about each cluster, and return the answers. ``is_good`` decides if a report is a good result."""
    cluster_question = _ClusterQuestion(question, is_good, subjects)
    on_done = progress.begin("Clusters", len(subjects))
    results = run_tasks(_answer_for_cluster, cluster_question, list(subjects), workers, on_done)
    return Answers(tuple(results.completed), len(subjects), results.interrupted)


def _answer_for_cluster(cluster_question: _ClusterQuestion[Subject, Report], name: str) -> ClusterAnswer:
    """Answer the question for the cluster of this name.

    Raises KschedctlError, with the cluster's name if the error names no place. Raises KeyboardInterrupt if the user
    interrupts.
    """
    try:
        report = cluster_question.question(cluster_question.subjects[name], ONE_PROCESS, NO_PROGRESS)
    except KschedctlError as error:
        raise type(error)(error.what, where=error.where or name, hint=error.hint) from error
    if report.interrupted:
        raise KeyboardInterrupt
    return ClusterAnswer(name, cluster_question.is_good(report), report)
