"""The planned change of one workload's pods, and the limits and order of its rollout.

Upstream: pkg/controller/deployment/util, pkg/controller/statefulset, pkg/controller/daemon/util (v1.36).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from enum import Enum

from kschedctl.api.objects import Pod, Struct
from kschedctl.api.ownership import find_owner
from kschedctl.api.workloads import DaemonSet, Deployment, RollingUpdate, StatefulSet
from kschedctl.errors import InputError

DEFAULT_SHARE = "25%"
ORDINAL_LABELS = frozenset({"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"})
"""Labels that hold the ordinal of a StatefulSet's pod."""


class Pace(Enum):
    """The order in which new pods replace old ones."""

    AT_ONCE = 0
    """All old pods are removed before any new pod is created."""
    ROLLING = 1
    """Old pods are removed while new ones are created, within the limits."""
    IN_PLACE = 2
    """Each old pod is removed before the new pod that takes its place is created."""


@dataclass
class WorkloadChange:
    """The planned change of one workload's pods."""

    workload: str
    """The workload's title."""
    kept: list[Pod] = field(default_factory=list)
    """Pods that stay."""
    removed: list[Pod] = field(default_factory=list)
    """Pods that are removed."""
    new: list[Pod] = field(default_factory=list)
    """Pods that are created, in this order."""
    pace: Pace = Pace.AT_ONCE
    surge: int = 0
    """The number of pods above the desired number that may exist."""
    unavailable: int = 1
    """The number of pods below the desired number that may run. It does not matter if all are replaced at once."""
    ordered: bool = False
    """True if each new pod waits until all existing ones run."""
    rolling: bool = False
    """True if new pods replace old ones by a rollout."""
    note: str = ""
    """A note for users about the change."""
    may_be_unchanged: bool = False
    """True if the rollout was requested although the pods have the template already, as far as scheduling reads it."""
    denied: int = 0
    """The number of additional desired pods that the API server does not create."""

    @property
    def desired(self) -> int:
        """The number of pods that the workload wants."""
        return len(self.kept) + len(self.new) + self.denied


def set_rollout_limits(change: WorkloadChange, workload: Struct) -> None:
    """Set the pace, the limits and the order of new pods in the change according to the workload's strategy.

    Only Deployments, StatefulSets and DaemonSets have a rollout. The change is marked as rolling for these. New pods
    for empty slots come first. A StatefulSet then replaces its pods from the last one on, and a DaemonSet first
    replaces pods without a node. Raises InputError if a limit such as maxSurge is malformed.
    """
    match workload:
        case Deployment():
            change.rolling = True
            if workload.spec.strategy.type == "Recreate":
                return  # all old pods are removed at once, which is the default pace
            change.pace = Pace.ROLLING
            _set_deployment_limits(change, workload.spec.strategy.rolling_update)
        case StatefulSet():
            change.rolling = True
            change.pace = Pace.IN_PLACE
            _sort_new_stateful_set_pods(change)
        case DaemonSet():
            change.rolling = True
            change.pace = Pace.IN_PLACE
            _set_daemon_set_limits(change, workload.spec.update_strategy.rolling_update)
            _sort_new_daemon_set_pods(change)


def get_slot(pod: Pod) -> str:
    """Return the slot that only one pod of the workload can occupy.

    It is the node for a DaemonSet's pod, or an empty string if the pod names no node. It is the name for any other pod.
    """
    if find_owner(pod).kind != "DaemonSet":
        return pod.metadata.name
    if pod.spec.node_name:
        return pod.spec.node_name
    # The DaemonSet controller names the node in the required node affinity
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    terms = required.node_selector_terms if required else ()
    fields = [field for term in terms for field in term.match_fields]
    names = (name for field in fields for name in field.values or ())
    return next(names, "")


def get_ordinal(pod: Pod) -> int:
    """Return the number at the end of the pod's name, or 0 if there is none of up to nine digits."""
    name = pod.metadata.name
    name_without_number = name.rstrip("0123456789")
    digits = name.removeprefix(name_without_number)
    return int(digits) if 0 < len(digits) < 10 else 0


def _set_deployment_limits(change: WorkloadChange, update: RollingUpdate) -> None:
    """Set how many surplus and unavailable pods a Deployment's rollout may have.

    If both limits would be 0, one pod may be unavailable.
    """
    max_surge = DEFAULT_SHARE if update.max_surge is None else update.max_surge
    max_unavailable = DEFAULT_SHARE if update.max_unavailable is None else update.max_unavailable
    change.surge = resolve_share(max_surge, change.desired, round_up=True)
    change.unavailable = resolve_share(max_unavailable, change.desired, round_up=False)
    if not change.surge and not change.unavailable:
        change.unavailable = 1


def _sort_new_stateful_set_pods(change: WorkloadChange) -> None:
    """Put new pods for empty slots first, then the pods that replace removed ones, in reverse order."""
    replaced_slots = {get_slot(pod) for pod in change.removed}
    for_empty_slots = [pod for pod in change.new if get_slot(pod) not in replaced_slots]
    from_last = [pod for pod in reversed(change.new) if get_slot(pod) in replaced_slots]
    change.new = [*for_empty_slots, *from_last]


def _set_daemon_set_limits(change: WorkloadChange, update: RollingUpdate) -> None:
    """Set how many surplus and unavailable pods a DaemonSet's rollout may have.

    No pod may be unavailable if there is a surplus. Otherwise, at least one pod may be unavailable.
    """
    change.surge = resolve_share(update.max_surge or 0, change.desired, round_up=True)
    max_unavailable = 1 if update.max_unavailable is None else update.max_unavailable
    unavailable = resolve_share(max_unavailable, change.desired, round_up=True)
    # maxSurge and maxUnavailable exclude each other, and without both nothing would move
    change.unavailable = 0 if change.surge else max(unavailable, 1)


def _sort_new_daemon_set_pods(change: WorkloadChange) -> None:
    """Sort the new pods: first those for empty slots, then those that replace a pod without a node, then the others."""
    rank_by_slot = {get_slot(pod): 2 if pod.spec.node_name else 1 for pod in change.removed}
    change.new.sort(key=lambda pod: rank_by_slot.get(get_slot(pod), 0))


def resolve_share(amount: int | str, total: int, round_up: bool) -> int:
    """Return an absolute amount as it is, or a percentage of ``total`` rounded up or down.

    Raises InputError for a malformed percentage.

    >>> resolve_share("25%", 10, round_up=True), resolve_share("25%", 10, round_up=False)
    (3, 2)
    """
    if isinstance(amount, int):
        return amount
    if not re.fullmatch(r"[0-9]{1,9}%", amount):
        raise InputError(f'expected a number or a percentage, not "{amount}"')
    hundredths = int(amount.removesuffix("%")) * total
    return math.ceil(hundredths / 100) if round_up else hundredths // 100
