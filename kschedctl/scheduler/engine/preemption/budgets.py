"""PodDisruptionBudgets: the pods that they select, and the disruptions that they allow while pods are evicted.

Upstream: filterPodsWithPDBViolation in pkg/scheduler/framework/plugins/defaultpreemption,
pkg/registry/core/pod/storage/eviction.go and pkg/controller/disruption (v1.36). The number of allowed disruptions is
the number of healthy pods minus the desired number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Bools, Position, Rows
from kschedctl.api.labels import NOTHING, Selector, SelectorError, selector_from_api
from kschedctl.api.objects import PodDisruptionBudget, PodDisruptionBudgetSpec
from kschedctl.scheduler.engine.preemption.candidates import Positions, rank_within_runs
from kschedctl.snapshot.fork import Fork


class Budgets:
    """The PDBs of a fork, by `namespace/name`. Allowed disruptions are in their status, in the fork's objects.

    Preemption and evictions differ in which pods a PDB selects: in preemption, an empty selector selects no pods, and
    no selector selects pods without labels.
    """

    def __init__(self, view: Fork) -> None:
        self.view = view
        self._budgets = {budget_key(pdb): pdb for pdb in view.objects.of("PodDisruptionBudget")}
        self._spare = {name: count_spare_pods(pdb) for name, pdb in self._budgets.items()}
        self._selectors: dict[str, Selector] = {}
        self._in_namespace: dict[str, list[str]] = {}
        for name, pdb in self._budgets.items():
            self._in_namespace.setdefault(pdb.metadata.namespace, []).append(name)
        self._of: dict[int, tuple[str, ...]] = {}
        self._selecting: dict[int, tuple[str, ...]] = {}

    @property
    def any(self) -> bool:
        """Whether there is a PDB."""
        return bool(self._budgets)

    def replaced(self, budget: PodDisruptionBudget) -> None:
        """Replace a PDB whose status changed."""
        self._budgets[budget_key(budget)] = budget

    def protecting(self, position: Position) -> tuple[str, ...]:
        """Return the PDBs that preemption respects for a pod."""
        number = int(self.view.pods.info[position])
        if number not in self._of:
            labelled = bool(self.view.pods.infos[number].labels)
            self._of[number] = tuple(
                name
                for name in self._find_selecting(number)
                if labelled and not self._selector(name).selects_everything
            )
        return self._of[number]

    def selecting(self, position: Position) -> tuple[str, ...]:
        """Return the PDBs that an eviction of a pod has to respect."""
        number = int(self.view.pods.info[position])
        if number not in self._selecting:
            self._selecting[number] = tuple(self._find_selecting(number))
        return self._selecting[number]

    def _find_selecting(self, number: int) -> list[str]:
        """Return the PDBs that select the pods of a distinct pod."""
        info = self.view.pods.infos[number]
        return [
            name for name in self._in_namespace.get(info.namespace, ()) if self._selector(name).matches(info.labels)
        ]

    def selected(self, budget: str) -> Bools:
        """Return the distinct pods that a PDB selects, (T,)."""
        namespace = self._budgets[budget].metadata.namespace
        return self.view.pods.matching(self._selector(budget), frozenset((namespace,)))

    def _selector(self, budget: str) -> Selector:
        """Return the parsed selector of a PDB; an invalid one selects nothing."""
        if budget not in self._selectors:
            spec = self._budgets[budget].spec
            key = "selector of a budget", budget
            self._selectors[budget] = self.view.objects.index(key, lambda: _parse_selector(spec), of=(spec,))
        return self._selectors[budget]

    def _protected(self, budget: str) -> Bools:
        """Return the distinct pods that a PDB protects from preemption, (T,)."""
        if self._selector(budget).selects_everything:
            return np.zeros(len(self.view.pods.infos), np.bool_)
        return self.selected(budget) & self.view.pods.labelled

    def find_violations(self, pods: Positions) -> Bools:
        """Return for each pod whether evicting it would violate a PDB, (V,).

        The pods are sorted by node and then in the order of eviction. Each node starts with status.disruptionsAllowed
        of every PDB. Pods whose disruption the API server has recorded do not count.
        """
        violating = np.zeros(len(pods), np.bool_)
        if not self._budgets:
            return violating
        which, budget = self._find_protected(pods)
        place = budget * len(self.view.nodes) + self.view.node[pods[which]]
        order = np.argsort(place, kind="stable")
        allowed = np.array([pdb.status.disruptions_allowed for pdb in self._budgets.values()], np.int64)
        over = rank_within_runs(place[order]) >= allowed[budget[order]]
        violating[which[order[over]]] = True
        return violating

    def find_violating_units(self, units: Iterable[Sequence[Position]], *, whole: bool) -> list[bool]:
        """Return for each unit of pods, evicted one unit after another, whether a PDB does not allow its eviction.

        After a violation, the rest of the unit is not counted, as in upstream's filterVictimsWithPDBViolation, unless
        units count as a `whole`, as in FilterVictimsWithPDBViolation.
        """
        allowed = {name: pdb.status.disruptions_allowed for name, pdb in self._budgets.items()}
        breaking = ((self._violates(position, allowed) for position in unit) for unit in units)
        return [any(list(broken)) if whole else any(broken) for broken in breaking]

    def _violates(self, position: Position, allowed: dict[str, int]) -> bool:
        """Count the eviction of a pod, and return whether it violates a PDB."""
        name = self.view.pods.objects[position].metadata.name
        for budget in self.protecting(position):
            if name not in self._budgets[budget].status.disrupted_pods:
                allowed[budget] -= 1
                if allowed[budget] < 0:
                    return True
        return False

    def _find_protected(self, pods: Positions) -> tuple[Rows, Rows]:
        """Return pairs of a pod's index and the PDB that protects it, without recorded disruptions."""
        starts, budgets = self._budgets_by_pod
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
    def _budgets_by_pod(self) -> tuple[Rows, Rows]:
        """The PDBs that protect each distinct pod: those of the i-th are between `starts[i]` and `starts[i + 1]`."""
        distinct = self.view.pods.distinct
        return self.view.objects.index("budgets of infos", self._index_by_pod, "PodDisruptionBudget", of=(distinct,))

    def _index_by_pod(self, _: object) -> tuple[Rows, Rows]:
        """Build the index of `_budgets_by_pod`."""
        protected = [np.flatnonzero(self._protected(name)) for name in self._budgets]
        infos = np.concatenate([np.empty(0, np.int64), *protected])
        budgets = np.repeat(np.arange(len(protected)), [len(of_template) for of_template in protected])
        order = np.argsort(infos, kind="stable")
        starts = np.searchsorted(infos[order], np.arange(len(self.view.pods.infos) + 1))
        return starts, budgets[order]

    # -- while pods come and go ----------------------------------------------------------------------------------

    def allowed(self, budget: str) -> int:
        """Return how many disruptions a PDB allows now."""
        return max(self._spare[budget], 0)

    def count_evicted(self, positions: Iterable[Position]) -> None:
        """Count these pods as evicted."""
        self._change_spare(positions, -1)

    def count_running(self, positions: Iterable[Position]) -> None:
        """Count these pods as running again."""
        self._change_spare(positions, 1)

    def _change_spare(self, positions: Iterable[Position], by: int) -> None:
        """Change the spare pods of the PDBs that protect these pods."""
        changed: dict[str, None] = {}
        for position in positions:
            for budget in self.protecting(position):
                self._spare[budget] += by
                changed[budget] = None
        if changed:
            self.view.objects.replace(
                {"PodDisruptionBudget": [self._with_current_status(budget) for budget in changed]}
            )

    def _with_current_status(self, budget: str) -> PodDisruptionBudget:
        """Return the PDB with its current number of allowed disruptions."""
        pdb: PodDisruptionBudget = self._budgets[budget]
        return replace(pdb, status=replace(pdb.status, disruptions_allowed=self.allowed(budget)))


def find_budgets(view: Fork) -> Budgets:
    """Return the PDBs of a fork, built on first use."""
    return view.objects.follow(Budgets, lambda: Budgets(view), "PodDisruptionBudget")


def budget_key(pdb: PodDisruptionBudget) -> str:
    """Return `namespace/name` of a PDB."""
    return f"{pdb.metadata.namespace}/{pdb.metadata.name}"


def count_spare_pods(pdb: PodDisruptionBudget) -> int:
    """Return by how many the healthy pods exceed the desired number; negative if there are too few."""
    status = pdb.status
    return max(status.disruptions_allowed, 0) or min(status.current_healthy - status.desired_healthy, 0)


def _parse_selector(spec: PodDisruptionBudgetSpec) -> Selector:
    """Parse a PDB's selector; an invalid one selects nothing."""
    try:
        return selector_from_api(spec.selector)
    except SelectorError:
        return NOTHING
