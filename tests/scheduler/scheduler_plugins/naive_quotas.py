"""CapacityScheduling's preemption on one node in plain loops, the reference for all nodes.

Upstream: SelectVictimsOnNode and elasticquota.go in pkg/capacityscheduling of kubernetes-sigs/scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

from go_sort import sort_by_insertion

Amounts = dict[str, int]
NEVER_STARTED = 10**6
SCALAR = "example.com/gpu"
BOTH = ("cpu", SCALAR)
EMPTY, HOPELESS, EXCEEDED = "no victims", "does not fit without them", "global quota max exceeded"
GONE_TWICE = "gone twice"


@dataclass(frozen=True)
class NaivePod:
    """A pod.

    ``started`` is in seconds, or None if it has not started. ``protected`` pods are selected by the only PDB.
    """

    name: str
    namespace: str
    priority: int
    requests: tuple[int, int]
    started: int | None = None
    protected: bool = False

    @property
    def amounts(self) -> Amounts:
        return dict(zip(BOTH, self.requests, strict=True))


@dataclass
class NaiveQuota:
    """A quota. ``most`` is None without a max. An extended resource that is missing has a min of 0, but no max."""

    least: Amounts
    most: Amounts | None
    used: Amounts

    def over_max_with(self, more: Amounts) -> bool:
        return self.most is not None and is_exceeding(more, self.used, self.most, 2**63 - 1)

    def over_min_with(self, more: Amounts) -> bool:
        return is_exceeding(more, self.used, self.least, 0)

    def over_min(self) -> bool:
        return is_exceeding(self.used, {}, self.least, 0)


class NaiveVictims(NamedTuple):
    names: list[str]
    violations: int


class Asking(NamedTuple):
    """The pending pod, and the additional usage of nominated pods, in its own quota and in the others."""

    pod: NaivePod
    ours: Amounts
    others: Amounts


def is_exceeding(some: Amounts, others: Amounts, limits: Amounts, unnamed: int) -> bool:
    """Return whether the amounts exceed the limits, like upstream's cmp2."""
    if some.get("cpu", 0) + others.get("cpu", 0) > limits.get("cpu", 0):
        return True
    return SCALAR in some and some[SCALAR] + others.get(SCALAR, 0) > limits.get(SCALAR, unnamed)


def add_amounts(*amounts: Amounts) -> Amounts:
    return {name: sum(each.get(name, 0) for each in amounts) for name in BOTH}


def is_sum_over_min(quotas: dict[str, NaiveQuota], more: Amounts) -> bool:
    used = add_amounts(*(quota.used for quota in quotas.values()), more)
    least = add_amounts(*(quota.least for quota in quotas.values()))
    return is_exceeding(used, {}, least, 0)


def make_importance_comparison(now: count[int]) -> Callable[[NaivePod, NaivePod], bool]:
    """Return a comparison like upstream's MoreImportantPod. A pod without start time starts at each comparison."""

    def more(left: NaivePod, right: NaivePod) -> bool:
        if left.priority != right.priority:
            return left.priority > right.priority
        first = next(now) if left.started is None else left.started
        second = next(now) if right.started is None else right.started
        return first < second

    return more


class NaiveNode:
    """One node: its capacity of both resources, its pods, and the usage of the quotas while some pods are removed."""

    def __init__(self, capacity: Amounts, pods: Sequence[NaivePod], quotas: dict[str, NaiveQuota]) -> None:
        self.capacity, self.pods = capacity, list(pods)
        self.quotas = {namespace: replace(quota) for namespace, quota in quotas.items()}

    def remove(self, pod: NaivePod) -> None:
        """Remove a pod from the node. Raises ValueError if it is not there."""
        if pod not in self.pods:
            raise ValueError(GONE_TWICE)
        self.pods.remove(pod)
        self._use(pod, -1)

    def add(self, pod: NaivePod) -> None:
        self.pods.append(pod)
        self._use(pod, 1)

    def _use(self, pod: NaivePod, sign: int) -> None:
        if quota := self.quotas.get(pod.namespace):
            quota.used = {name: quota.used[name] + sign * amount for name, amount in pod.amounts.items()}

    def fits(self, pod: NaivePod, nominated: Sequence[NaivePod]) -> bool:
        """Return whether the pod fits with the nominated pods of at least its priority, and without them."""
        taken = add_amounts(*(each.amounts for each in (*self.pods, *nominated)), pod.amounts)
        return all(taken[name] <= self.capacity[name] for name in BOTH if pod.amounts[name] > 0)


def select_victims_naively(
    node: NaiveNode, asking: Asking, nominated: Sequence[NaivePod], allowed: int
) -> NaiveVictims | str:
    """Select the victims on a node with these nominated pods, while the budget allows this many disruptions."""
    pod, quotas = asking.pod, node.quotas
    more = make_importance_comparison(count(NEVER_STARTED))
    ours, everyone = add_amounts(asking.ours, pod.amounts), add_amounts(asking.ours, asking.others, pod.amounts)
    own = quotas.get(pod.namespace)
    potential: list[NaivePod] = []
    borrows = own is not None and own.over_min_with(ours)
    for each in sort_by_insertion(node.pods, lambda left, right: not more(left, right)):
        theirs = quotas.get(each.namespace)
        lower = each.priority < pod.priority
        if own is None:
            goes = theirs is None and lower
        elif theirs is None:
            goes = False
        elif borrows:
            goes = each.namespace == pod.namespace and lower
        else:
            goes = each.namespace != pod.namespace and theirs.over_min()
        if goes:
            potential.append(each)
            node.remove(each)
    if not potential:
        return EMPTY
    if not node.fits(pod, nominated):
        return HOPELESS
    if own is not None and (own.over_max_with(pod.amounts) or is_sum_over_min(quotas, pod.amounts)):
        return EXCEEDED
    victims: list[NaivePod] = []

    def reprieve(each: NaivePod) -> bool:
        node.add(each)
        fits = node.fits(pod, nominated)
        if not fits:
            node.remove(each)
            victims.append(each)
        if own is not None and (own.over_max_with(ours) or is_sum_over_min(quotas, everyone)):
            node.remove(each)
            victims.append(each)
        return fits

    violating, others = split_by_budget(sort_by_insertion(potential, more), allowed)
    violations = 0
    try:
        violations = sum(not reprieve(each) for each in violating)
        for each in others:
            reprieve(each)
    except ValueError:
        return GONE_TWICE
    if violating and others:
        victims = sort_by_insertion(victims, more)
    return NaiveVictims([each.name for each in victims], violations)


def split_by_budget(pods: Sequence[NaivePod], allowed: int) -> tuple[list[NaivePod], list[NaivePod]]:
    """Split the pods into those whose eviction, in this order, violates the budget, and the others."""
    violating: list[NaivePod] = []
    others: list[NaivePod] = []
    for pod in pods:
        allowed -= pod.protected
        (violating if pod.protected and allowed < 0 else others).append(pod)
    return violating, others
