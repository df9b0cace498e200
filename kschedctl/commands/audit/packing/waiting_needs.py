"""Objects that wait for nodes but whose pods the packing search does not place, so that any node may be needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.api.arrays import Position
from kschedctl.replay.waiting_elsewhere import find_waiting_elsewhere
from kschedctl.reports.waiting_elsewhere import WaitingState
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.text.counts import agreeing, first_few

WAITING_STATES = (WaitingState.NOT_ADMITTED, WaitingState.ADMISSIBLE)


def find_uncounted_workloads(scheduler: Scheduler, pending: Sequence[Position]) -> tuple[str, ...]:
    """Return the waiting objects whose need for nodes is not replayed, such as "PodGroup ml/small".

    These are Workloads, PodGroups and jobs in queues, and pending pods of other schedulers. `pending` has the positions
    of the pending pods.
    """
    waiting = find_waiting_elsewhere(scheduler.view.cluster)
    in_queues = (entry.resource for entry in waiting if entry.state in WAITING_STATES)
    return tuple(dict.fromkeys((*in_queues, *_iter_pods_of_other_schedulers(scheduler, pending))))


def _iter_pods_of_other_schedulers(scheduler: Scheduler, pending: Sequence[Position]) -> Iterator[str]:
    """Yield the pending pods that no profile serves, such as "Pod ml/big-t-0"."""
    for position in pending:
        pods = scheduler.view.pods
        if scheduler.framework(pods.infos[pods.info[position]].spec.scheduler_name) is None:
            yield f"Pod {pods.objects[position].key}"


def describe_condition(uncounted: Sequence[str]) -> str:
    """Return the condition that the answer depends on, as a clause that follows the answer, or "".

    >>> describe_condition(("PodGroup ml/small",))
    ', unless PodGroup ml/small needs the room (waiting, not replayed)'
    """
    return (
        f", unless {first_few(uncounted)} {agreeing(len(uncounted), 'needs', 'need')} the room (waiting, not replayed)"
        if uncounted
        else ""
    )
