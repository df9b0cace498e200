"""TODO."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from kschedctl.api.objects import Pod, Struct
from kschedctl.api.ownership import find_owner
from kschedctl.api.workloads import DaemonSet, Deployment, RollingUpdate, StatefulSet
from kschedctl.errors import InputError

DEFAULT_SHARE = "25%"


class Pace(Enum):
    """How old pods give way: all before any new one comes, some by some, or each to the one that takes its place."""

    AT_ONCE = 0
    ROLLING = 1
    IN_PLACE = 2


@dataclass
class Change:
    """What becomes of a workload: ``kept`` and ``removed`` are pods that it has, ``new`` come, in this order.

    There are at most ``surge`` pods more than desired and at most ``unavailable`` fewer that run, unless all go
    at once. ``ordered``: each new pod waits until all that there are run. ``rolling``: old ones are rolled over.
    ``note``: what to know of it; ``refused``: how many more pods are wanted, which the API server does not create.
    """

    workload: str
    kept: list[Pod] = field(default_factory=list)
    removed: list[Pod] = field(default_factory=list)
    new: list[Pod] = field(default_factory=list)
    pace: Pace = Pace.AT_ONCE
    surge: int = 0
    unavailable: int = 1
    ordered: bool = False
    rolling: bool = False
    note: str = ""
    refused: int = 0

    @property
    def desired(self) -> int:
        return len(self.kept) + len(self.new) + self.refused


def set_pace(change: Change, workload: Struct) -> None:
    """The limits of a rollout, and the order in which its pods come. Raises InputError."""
    match workload:
        case Deployment():
            change.rolling = True
            if workload.spec.strategy.type != "Recreate":
                change.pace = Pace.ROLLING
                change.surge, change.unavailable = _limits(workload.spec.strategy.rolling_update, change.desired)
        case StatefulSet():
            change.pace, change.rolling = Pace.IN_PLACE, True
            there = {slot(pod) for pod in change.removed}
            from_last = [pod for pod in reversed(change.new) if slot(pod) in there]
            change.new = [*(pod for pod in change.new if slot(pod) not in there), *from_last]
        case DaemonSet():
            change.pace, change.rolling = Pace.IN_PLACE, True
            update = workload.spec.update_strategy.rolling_update
            change.surge = share(update.max_surge or 0, change.desired, up=True)
            unavailable = share(
                1 if update.max_unavailable is None else update.max_unavailable, change.desired, up=True
            )
            change.unavailable = 0 if change.surge else max(unavailable, 1)
            bound = {slot(pod): bool(pod.spec.node_name) for pod in change.removed}
            change.new.sort(key=lambda pod: (slot(pod) in bound, bound.get(slot(pod))))


def slot(pod: Pod) -> str:
    """What at most one pod of a workload can have: a DaemonSet's pod its node, a StatefulSet's its name."""
    if find_owner(pod).kind != "DaemonSet":
        return pod.metadata.name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    terms = required.node_selector_terms if required else ()
    names = [name for term in terms for field in term.match_fields for name in field.values or ()]
    return pod.spec.node_name or next(iter(names), "")


def ordinal(pod: Pod) -> int:
    """The number at the end of a pod's name, 0 where there is none of up to nine digits."""
    name = pod.metadata.name
    digits = name[len(name.rstrip("0123456789")) :]
    return int(digits) if 0 < len(digits) < 10 else 0


def _limits(update: RollingUpdate, desired: int) -> tuple[int, int]:
    """How many pods more than desired, and how many fewer, a rollout may have."""
    surge = share(DEFAULT_SHARE if update.max_surge is None else update.max_surge, desired, up=True)
    unavailable = share(DEFAULT_SHARE if update.max_unavailable is None else update.max_unavailable, desired, up=False)
    return surge, unavailable if surge or unavailable else 1


def share(amount: int | str, of: int, up: bool) -> int:
    """A number, or a percentage of one, rounded up or down.

    >>> share("25%", 10, up=True), share("25%", 10, up=False), share(3, 10, up=True)
    (3, 2, 3)

    Raises InputError for what is neither.
    """
    if isinstance(amount, int):
        return amount
    if not re.fullmatch(r"[0-9]{1,9}%", amount):
        raise InputError(f'expected a number or a percentage, not "{amount}"')
    percent = int(amount.removesuffix("%"))
    return -(-percent * of // 100) if up else percent * of // 100
