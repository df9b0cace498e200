"""A replay that follows real placements: each pod goes where it really went if that is one of its best nodes."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Literal

from kschedctl.api.arrays import NO_ROW, Position, Row
from kschedctl.cluster import Cluster
from kschedctl.commands.simulate.following_report import FollowedStep, FollowingReport
from kschedctl.errors import UsageError
from kschedctl.replay.shared_cluster import build_cluster_basis
from kschedctl.replay.unknown import IN_SIMULATIONS, find_unread_dependencies, summarize_unknowns
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.diagnosis import fit_error
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.following import StepwiseScheduler, TriedPod

MAX_TRIES = 3
Retry = Literal["now", "end"]


def follow(
    cluster: Cluster, pods: Sequence[str], choices: Sequence[str | None] = (), retry: Retry = "end"
) -> FollowingReport:
    """Schedule pods (``namespace/name``) of the cluster one after the other, on all nodes, each with the effects of
    those before.

    Each pod gets one of its best nodes: that of ``choices``, one per step, if it is among them, else the first by name.
    Reserved pods are assumed, never bound. If nothing fits, preemption runs, its victims leave at once, and the pod is
    tried again, at most three times: next (``now``) or after all others (``end``).

    Raises UsageError for unknown pods and nodes, and ConfigurationError.

    >>> follow(Cluster.from_objects([]), []).steps
    ()
    """
    following = StepwiseScheduler(Scheduler(cluster))
    view = following.view
    if retry not in ("now", "end"):
        raise UsageError(f'retry "{retry}": now or end')
    for pod in pods:
        if pod not in view.pods.index:
            raise UsageError(f'pod "{pod}" not found')
    steps = tuple(_iter_steps(following, deque(view.pods.index[pod] for pod in pods), choices, retry))
    unknown = (*find_unread_dependencies(cluster), *following.unknown)
    basis = build_cluster_basis(summarize_unknowns(unknown, IN_SIMULATIONS), following.scheduler)
    return FollowingReport(steps, basis["not_replayed"], basis["unknown"], basis["undecided"])


def _iter_steps(
    following: StepwiseScheduler, queue: deque[Position], choices: Sequence[str | None], retry: Retry
) -> Iterator[FollowedStep]:
    tries: Counter[Position] = Counter()
    number = 0
    while queue:
        position = queue.popleft()
        tries[position] += 1
        step = _follow_pod(following, position, choices[number] if number < len(choices) else None)
        number += 1
        yield step
        if step.nominated and tries[position] < MAX_TRIES:
            (queue.appendleft if retry == "now" else queue.append)(position)


def _follow_pod(following: StepwiseScheduler, position: Position, choice: str | None) -> FollowedStep:
    pod = following.view.pods.objects[position].key
    if position in following.gone:
        return FollowedStep(pod, gone=True)
    tried = following.attempt(position)
    cycle = tried.cycle
    if cycle is None:
        return FollowedStep(pod, error="no profile serves its schedulerName")
    gates = [name for name, status in cycle.queue.items() if status.rejected]
    if gates:
        return FollowedStep(pod, gated=gates[0])
    if cycle.error is not None:
        return FollowedStep(pod, error=cycle.error)
    if len(cycle.feasible):
        return _place_pod(following, tried, cycle, choice)
    return _reject_pod(following, tried, cycle)


def _place_pod(following: StepwiseScheduler, tried: TriedPod, cycle: Cycle, choice: str | None) -> FollowedStep:
    names = cycle.view.nodes.names
    best = {names[row]: Row(row) for row in cycle.scores.best.tolist()}
    node = choice if choice is not None and choice in best else min(best)
    pod = cycle.info.pod.key
    try:
        following.assume(tried, best[node])
    except PluginError as failure:
        return FollowedStep(pod, feasible=len(cycle.feasible), error=str(failure))
    if len(cycle.feasible) == 1:
        return FollowedStep(pod, feasible=1, node=node)
    rows, total = cycle.scores.rows.tolist(), cycle.scores.total.tolist()
    return FollowedStep(
        pod,
        feasible=len(rows),
        total={names[row]: score for row, score in zip(rows, total, strict=True)},
        best=tuple(sorted(best)),
        node=node,
    )


def _reject_pod(following: StepwiseScheduler, tried: TriedPod, cycle: Cycle) -> FollowedStep:
    names, pods = cycle.view.nodes.names, cycle.view.pods.objects
    plugins = tuple(sorted(cycle.unschedulable_plugins))
    done = following.preempt(tried)
    return FollowedStep(
        cycle.info.pod.key,
        feasible=0,
        fit_error_message=fit_error(cycle, done.outcome.message),
        unschedulable_plugins=plugins,
        tied_candidates=tuple(sorted(names[row] for row in done.tied.row.tolist())),
        nominated="" if done.row == NO_ROW else names[done.row],
        victims=tuple(pods[victim].key for victim in done.victims),
        nominations_cleared=tuple(pods[position].key for position in done.cleared),
    )
