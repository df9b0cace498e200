"""PodDisruptionBudgets: which pods they are about, and how many disruptions each allows while pods are evicted and come
back.

Upstream: filterPodsWithPDBViolation in pkg/scheduler/framework/plugins/defaultpreemption,
pkg/registry/core/pod/storage/eviction.go, and pkg/controller/disruption (v1.36): what is allowed is by how much the
healthy pods exceed those desired.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Bools, Position, Rows
from kschedctl.api.labels import NOTHING, Selector, SelectorError, selector_from_api
from kschedctl.api.objects import PodDisruptionBudget, PodDisruptionBudgetSpec
from kschedctl.scheduler.engine.preemption.candidates import Positions, turn
from kschedctl.snapshot.fork import Fork


class Budgets:
    """The budgets of a fork, by ``namespace/name``. What they allow stands in their status, kept in the fork's objects.

    Preemption and evictions do not agree about which pods a budget is about: to preemption an empty selector selects
    none, and no selector selects pods without labels.
    """

    def __init__(self, view: Fork) -> None:
        self.view = view
        self._budgets = {key_of(pdb): pdb for pdb in view.objects.of("PodDisruptionBudget")}
        self._spare = {name: spare(pdb) for name, pdb in self._budgets.items()}
        self._selectors: dict[str, Selector] = {}
        self._in_namespace: dict[str, list[str]] = {}
        for name, pdb in self._budgets.items():
            self._in_namespace.setdefault(pdb.metadata.namespace, []).append(name)
        self._of: dict[int, tuple[str, ...]] = {}
        self._selecting: dict[int, tuple[str, ...]] = {}

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return bool(self._budgets)

    def replaced(self, budget: PodDisruptionBudget) -> None:
        """Take a budget whose status changed."""
        self._budgets[key_of(budget)] = budget

    def of(self, position: Position) -> tuple[str, ...]:
        """The budgets that preemption heeds for a pod."""
        number = int(self.view.pods.info[position])
        if number not in self._of:
            labelled = bool(self.view.pods.infos[number].labels)
            self._of[number] = tuple(
                name for name in self._about(number) if labelled and not self._selector(name).selects_everything
            )
        return self._of[number]

    def selecting(self, position: Position) -> tuple[str, ...]:
        """The budgets that an eviction of a pod has to heed."""
        number = int(self.view.pods.info[position])
        if number not in self._selecting:
            self._selecting[number] = tuple(self._about(number))
        return self._selecting[number]

    def _about(self, number: int) -> list[str]:
        """The budgets that select the pods of an info."""
        info = self.view.pods.infos[number]
        return [
            name for name in self._in_namespace.get(info.namespace, ()) if self._selector(name).matches(info.labels)
        ]

    def selected(self, budget: str) -> Bools:
        """(T,): the infos that a budget selects; a selector that cannot be read selects nothing."""
        namespace = self._budgets[budget].metadata.namespace
        return self.view.pods.matching(self._selector(budget), frozenset((namespace,)))

    def _selector(self, budget: str) -> Selector:
        """One that cannot be read selects nothing. It stays while the status changes."""
        if budget not in self._selectors:
            spec = self._budgets[budget].spec
            key = "selector of a budget", budget
            self._selectors[budget] = self.view.objects.index(key, lambda: _selector_of(spec), of=(spec,))
        return self._selectors[budget]

    def _protected(self, budget: str) -> Bools:
        """(T,): those that it protects from preemption."""
        if self._selector(budget).selects_everything:
            return np.zeros(len(self.view.pods.infos), np.bool_)
        return self.selected(budget) & self.view.pods.labelled

    def violations(self, pods: Positions) -> Bools:
        """For pods sorted by node, each node's in the order of eviction: whether evicting it would break a budget.

        Each node starts with every budget's status.disruptionsAllowed; pods whose disruption the API server has
        recorded already are free.
        """
        violating = np.zeros(len(pods), np.bool_)
        if not self._budgets:
            return violating
        which, budget = self._guarded(pods)
        place = budget * len(self.view.nodes) + self.view.node[pods[which]]
        order = np.argsort(place, kind="stable")
        allowed = np.array([pdb.status.disruptions_allowed for pdb in self._budgets.values()], np.int64)
        over = turn(place[order]) >= allowed[budget[order]]
        violating[which[order[over]]] = True
        return violating

    def violated_by(self, units: Iterable[Sequence[Position]], *, whole: bool) -> list[bool]:
        """For pods that are evicted together, unit after unit: whether some budget does not allow that.

        Of a unit that breaks one the rest is not counted either, as upstream's filterVictimsWithPDBViolation has it,
        unless they are counted as a ``whole``, as its FilterVictimsWithPDBViolation has it.
        """
        allowed = {name: pdb.status.disruptions_allowed for name, pdb in self._budgets.items()}
        breaking = ((self._breaks(position, allowed) for position in unit) for unit in units)
        return [any(list(broken)) if whole else any(broken) for broken in breaking]

    def _breaks(self, position: Position, allowed: dict[str, int]) -> bool:
        name = self.view.pods.objects[position].metadata.name
        for budget in self.of(position):
            if name not in self._budgets[budget].status.disrupted_pods:
                allowed[budget] -= 1
                if allowed[budget] < 0:
                    return True
        return False

    def _guarded(self, pods: Positions) -> tuple[Rows, Rows]:
        """Which of the pods, in their order, is protected by which budget, but for those whose disruption is known."""
        starts, budgets = self._of_info
        info = self.view.pods.info[pods]
        number = starts[info + 1] - starts[info]
        which = np.repeat(np.arange(len(pods)), number)
        within = np.arange(len(which)) - np.repeat(np.cumsum(number) - number, number)
        budget = budgets[np.repeat(starts[info], number) + within]
        known = np.zeros(len(which), np.bool_)
        for place, pdb in enumerate(self._budgets.values()):
            keys = (f"{pdb.metadata.namespace}/{pod}" for pod in pdb.status.disrupted_pods)
            gone = [position for key in keys if (position := self.view.pods.index.get(key)) is not None]
            if gone:
                known |= (budget == place) & np.isin(pods[which], gone)
        return which[~known], budget[~known]

    @cached_property
    def _of_info(self) -> tuple[Rows, Rows]:
        """The budgets that protect each info: those of the i-th are between ``starts[i]`` and ``starts[i + 1]``."""
        distinct = self.view.pods.distinct
        return self.view.objects.index("budgets of infos", self._by_info, "PodDisruptionBudget", of=(distinct,))

    def _by_info(self, _: object) -> tuple[Rows, Rows]:
        protected = [np.flatnonzero(self._protected(name)) for name in self._budgets]
        infos = np.concatenate([np.empty(0, np.int64), *protected])
        budgets = np.repeat(np.arange(len(protected)), [len(of_template) for of_template in protected])
        order = np.argsort(infos, kind="stable")
        starts = np.searchsorted(infos[order], np.arange(len(self.view.pods.infos) + 1))
        return starts, budgets[order]

    # -- while pods come and go ----------------------------------------------------------------------------------

    def allowed(self, budget: str) -> int:
        return max(self._spare[budget], 0)

    def gone(self, positions: Iterable[Position]) -> None:
        """Count these pods as evicted."""
        self._change(positions, -1)

    def back(self, positions: Iterable[Position]) -> None:
        """Count these pods as running again."""
        self._change(positions, 1)

    def _change(self, positions: Iterable[Position], by: int) -> None:
        changed: dict[str, None] = {}
        for position in positions:
            for budget in self.of(position):
                self._spare[budget] += by
                changed[budget] = None
        if changed:
            self.view.objects.replace({"PodDisruptionBudget": [self._written(budget) for budget in changed]})

    def _written(self, budget: str) -> PodDisruptionBudget:
        pdb: PodDisruptionBudget = self._budgets[budget]
        return replace(pdb, status=replace(pdb.status, disruptions_allowed=self.allowed(budget)))


def budgets(view: Fork) -> Budgets:
    """The budgets of a fork, made on first use."""
    return view.objects.follow(Budgets, lambda: Budgets(view), "PodDisruptionBudget")


def key_of(pdb: PodDisruptionBudget) -> str:
    """``namespace/name``."""
    return f"{pdb.metadata.namespace}/{pdb.metadata.name}"


def spare(pdb: PodDisruptionBudget) -> int:
    """By how many the healthy pods exceed those that the budget needs; negative when there are too few."""
    status = pdb.status
    return max(status.disruptions_allowed, 0) or min(status.current_healthy - status.desired_healthy, 0)


def _selector_of(spec: PodDisruptionBudgetSpec) -> Selector:
    try:
        return selector_from_api(spec.selector)
    except SelectorError:
        return NOTHING
