"""PodDisruptionBudgets: the pods that they select, and the disruptions that they allow while pods are evicted.

The number of allowed disruptions is the number of healthy pods minus the desired number. Upstream:
filterPodsWithPDBViolation in pkg/scheduler/framework/plugins/defaultpreemption,
pkg/registry/core/pod/storage/eviction.go and pkg/controller/disruption (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Bools, Position, Rows
from kschedctl.api.labels import NOTHING, Selector, SelectorError, selector_from_api
from kschedctl.api.objects import PodDisruptionBudget, PodDisruptionBudgetSpec
from kschedctl.scheduler.engine.dry_run_cache import BudgetStatuses
from kschedctl.scheduler.engine.preemption.candidates import Positions, rank_within_runs
from kschedctl.snapshot.fork import Fork


class Budgets:
    """The PDBs of a fork, by `namespace/name`. The fork's objects have the disruptions that they allow now.

    Preemption and evictions differ in the pods that a PDB protects. In preemption, a PDB with an empty selector
    protects no pods, and no PDB protects pods without labels.
    """

    def __init__(self, view: Fork) -> None:
        self.view = view
        self._budgets = {get_budget_key(pdb): pdb for pdb in view.objects.of("PodDisruptionBudget")}
        self._headroom = {name: get_disruption_headroom(pdb) for name, pdb in self._budgets.items()}
        self._selectors: dict[str, Selector] = {}
        self._names_by_namespace: dict[str, list[str]] = {}
        for name, pdb in self._budgets.items():
            self._names_by_namespace.setdefault(pdb.metadata.namespace, []).append(name)
        self._protecting_by_info: dict[int, tuple[str, ...]] = {}
        self._selecting_by_info: dict[int, tuple[str, ...]] = {}
        self._cached_statuses: BudgetStatuses | None = None

    @property
    def has_budgets(self) -> bool:
        """True if there is a PDB."""
        return bool(self._budgets)

    def replace_object(self, budget: PodDisruptionBudget) -> None:
        """Store a PDB whose status changed, in place of the old one."""
        self._budgets[get_budget_key(budget)] = budget
        self._cached_statuses = None

    def find_protecting_budgets(self, position: Position) -> tuple[str, ...]:
        """Return the names of the PDBs that preemption respects for a pod.

        These are the PDBs with a non-empty selector that select the pod. A pod without labels has none. The answer is
        cached by PodInfo.
        """
        number = self.view.pods.get_info_number(position)
        if number not in self._protecting_by_info:
            has_labels = bool(self.view.pods.infos[number].labels)
            budgets = self._list_budgets_selecting_info(number) if has_labels else []
            self._protecting_by_info[number] = tuple(
                name for name in budgets if not self._get_selector(name).selects_everything
            )
        return self._protecting_by_info[number]

    def find_selecting_budgets(self, position: Position) -> tuple[str, ...]:
        """Return the names of the PDBs that an eviction of the pod must respect.

        These are all PDBs that select the pod, even with an empty selector. The answer is cached by PodInfo.
        """
        number = self.view.pods.get_info_number(position)
        if number not in self._selecting_by_info:
            self._selecting_by_info[number] = tuple(self._list_budgets_selecting_info(number))
        return self._selecting_by_info[number]

    def _list_budgets_selecting_info(self, info_number: int) -> list[str]:
        """Return the names of the PDBs that select the pods with this PodInfo."""
        info = self.view.pods.infos[info_number]
        return [
            name
            for name in self._names_by_namespace.get(info.namespace, ())
            if self._get_selector(name).matches(info.labels)
        ]

    def find_selected_pods(self, budget: str) -> Bools:
        """Return a mask over the PodInfos that a PDB selects."""
        namespace = self._budgets[budget].metadata.namespace
        return self.view.pods.match_infos(self._get_selector(budget), frozenset((namespace,)))

    def _get_selector(self, budget: str) -> Selector:
        """Return the parsed selector of a PDB, from a cache if possible. An invalid selector selects nothing."""
        if budget not in self._selectors:
            spec = self._budgets[budget].spec
            key = "selector of a budget", budget
            self._selectors[budget] = self.view.objects.index(key, lambda: parse_budget_selector(spec), of=(spec,))
        return self._selectors[budget]

    def _find_protected_infos(self, budget: str) -> Bools:
        """Return a mask over the PodInfos that a PDB protects from preemption."""
        if self._get_selector(budget).selects_everything:
            return np.zeros(len(self.view.pods.infos), np.bool_)
        return self.find_selected_pods(budget) & self.view.pods.labelled

    def find_violating_pods(self, pods: Positions) -> Bools:
        """Return a mask over `pods` of the pods whose eviction would violate a PDB.

        The pods must be sorted by node and, on each node, by the order of eviction. Nodes are judged independently, as
        if pods were evicted on one node only. A pod whose disruption the API server has already recorded uses up no
        disruption.
        """
        violating = np.zeros(len(pods), np.bool_)
        if not self._budgets:
            return violating
        # Sort the pairs of a pod and one of its PDBs by PDB and node.
        pod_indexes, budget_indexes = self._pair_pods_with_budgets(pods)
        rows = self.view.node[pods[pod_indexes]]
        budget_and_node = budget_indexes * len(self.view.nodes) + rows  # one number for both
        order = np.argsort(budget_and_node, kind="stable")

        # Number the pods of each PDB on each node. A pod whose number reaches the allowed disruptions is a violation.
        numbers = rank_within_runs(budget_and_node[order])
        exceeds = numbers >= self.statuses.allowed[budget_indexes[order]]
        violating[pod_indexes[order][exceeds]] = True
        return violating

    def find_possible_violations(self, pods: Positions, importance: Positions) -> tuple[Bools, Bools]:
        """Return two masks over `pods`: pods whose eviction may violate a PDB, and pods whose eviction always does.

        The pods must be on one node. `importance` (one number per pod) is lower for pods that are more important. Pods
        with the same number are evicted in an arbitrary order, in which they use up the disruptions that their PDBs
        allow. The first mask has the violations in some such order, and the second has the violations in every order. A
        PDB ignores a pod whose disruption it has already recorded.
        """
        in_some_order = np.zeros(len(pods), np.bool_)
        in_every_order = np.zeros(len(pods), np.bool_)

        # Find the pods that use up the disruptions of each PDB.
        indexes_by_budget: dict[str, list[int]] = {}
        for index, position in enumerate(pods.tolist()):
            for budget in self.find_protecting_budgets(position):
                if self.view.pods.objects[position].metadata.name not in self._budgets[budget].status.disrupted_pods:
                    indexes_by_budget.setdefault(budget, []).append(index)

        for budget, indexes in indexes_by_budget.items():
            allowed = self._budgets[budget].status.disruptions_allowed
            ranks = importance[indexes]
            ordered_ranks = np.sort(ranks)
            # A pod exceeds the PDB if at least `allowed` pods go before it. At best, these are only the pods of lower
            # ranks. At worst, all other pods of its rank go before it as well.
            fewest_before = np.searchsorted(ordered_ranks, ranks, side="left")
            most_before = np.searchsorted(ordered_ranks, ranks, side="right") - 1
            in_some_order[indexes] |= most_before >= allowed
            in_every_order[indexes] |= fewest_before >= allowed
        return in_some_order, in_every_order

    def find_units_violating_budgets(
        self, units: Iterable[Sequence[Position]], *, charges_all_pods: bool
    ) -> list[bool]:
        """Return, for each unit of pods, whether evicting it violates a PDB.

        The units are evicted one after another, in this order. With `charges_all_pods`, all pods of a unit use up
        disruptions, as in upstream's FilterVictimsWithPDBViolation. Otherwise, the pods after a unit's first violation
        do not, as in filterVictimsWithPDBViolation.
        """
        allowed = {name: pdb.status.disruptions_allowed for name, pdb in self._budgets.items()}
        violating_units = []
        for unit in units:
            is_violating = False
            for position in unit:
                if self._use_disruptions(position, allowed):
                    is_violating = True
                    if not charges_all_pods:
                        break
            violating_units.append(is_violating)
        return violating_units

    def _use_disruptions(self, position: Position, allowed: dict[str, int]) -> bool:
        """Use up one disruption of each PDB of the pod, and return whether some PDB had none left.

        The remaining disruptions in `allowed` are reduced up to and including the first PDB that had none left. A PDB
        that has already recorded the pod's disruption is skipped.
        """
        name = self.view.pods.objects[position].metadata.name
        for budget in self.find_protecting_budgets(position):
            if name not in self._budgets[budget].status.disrupted_pods:
                allowed[budget] -= 1
                if allowed[budget] < 0:
                    return True
        return False

    def _pair_pods_with_budgets(self, pods: Positions) -> tuple[Rows, Rows]:
        """Return all pairs of a pod and one of its PDBs, as two arrays: the pods' indexes and the PDBs' indexes.

        A pair is left out if the API server has already recorded the pod's disruption.
        """
        # Repeat each pod's index as often as it has PDBs, and number the repetitions to find the PDBs.
        starts, budgets = self._budgets_by_info
        infos = self.view.pods.info[pods]
        first_places = starts[infos]
        budget_counts = starts[infos + 1] - first_places
        pod_indexes = np.repeat(np.arange(len(pods)), budget_counts)
        repetitions = rank_within_runs(pod_indexes)
        budget_indexes = budgets[np.repeat(first_places, budget_counts) + repetitions]

        # Leave out the pairs whose disruption is recorded.
        if not self.statuses.recorded_pods:
            return pod_indexes, budget_indexes
        is_recorded = np.zeros(len(pod_indexes), np.bool_)
        for budget_index, keys in self.statuses.recorded_pods.items():
            recorded = [self.view.pods.index[key] for key in keys if key in self.view.pods.index]
            is_recorded |= (budget_indexes == budget_index) & np.isin(pods[pod_indexes], recorded)
        return pod_indexes[~is_recorded], budget_indexes[~is_recorded]

    @property
    def statuses(self) -> BudgetStatuses:
        """The statuses of all PDBs, cached until a PDB is replaced."""
        if self._cached_statuses is None:
            budgets = self._budgets.values()
            recorded_pods = {
                index: [f"{pdb.metadata.namespace}/{pod}" for pod in pdb.status.disrupted_pods]
                for index, pdb in enumerate(budgets)
                if pdb.status.disrupted_pods
            }
            self._cached_statuses = BudgetStatuses(
                names=tuple(self._budgets),
                allowed=np.array([pdb.status.disruptions_allowed for pdb in budgets], np.int64),
                recorded_pods=recorded_pods,
            )
        return self._cached_statuses

    def find_infos_with_changed_budgets(self, earlier: BudgetStatuses) -> Bools:
        """Return a mask over the distinct PodInfos: True if the status of a PDB that protects their pods has changed.

        `earlier` are the statuses to compare with. If PDBs were added or removed, or if a recorded disruption changed,
        the mask is all True.
        """
        starts, budgets = self._budgets_by_info
        current = self.statuses
        if current is earlier:
            return np.zeros(len(starts) - 1, np.bool_)
        if current.names != earlier.names or current.recorded_pods != earlier.recorded_pods:
            # Which PodInfos this affects is not determined, so all of them count as changed.
            return np.ones(len(starts) - 1, np.bool_)
        is_changed = current.allowed != earlier.allowed
        # The number of changed PDBs among the first n entries of `budgets`, for each n from 0 on.
        changed_before = np.append(0, np.cumsum(is_changed[budgets]))
        return np.diff(changed_before[starts]) > 0

    @property
    def protected_infos(self) -> Bools:
        """A mask over the distinct PodInfos whose pods a PDB protects."""
        starts, _ = self._budgets_by_info
        return np.diff(starts) > 0

    @cached_property
    def _budgets_by_info(self) -> tuple[Rows, Rows]:
        """Two arrays `starts` and `budgets`: the PDBs of the i-th PodInfo are `budgets[starts[i] : starts[i + 1]]`."""
        distinct = self.view.pods.distinct
        return self.view.objects.index(
            "budgets of infos", self._index_budgets_by_info, "PodDisruptionBudget", of=(distinct,)
        )

    def _index_budgets_by_info(self, _: object) -> tuple[Rows, Rows]:
        """Return `(starts, budgets)`: the PDBs of the i-th PodInfo are `budgets[starts[i] : starts[i + 1]]`.

        The numbers in `budgets` are positions in `_budgets`. The argument, a list of all PDBs, is unused: the cache
        passes it to every function that builds an index.
        """
        # List all pairs of a PodInfo and a PDB that protects its pods, PDB by PDB.
        protected = [np.flatnonzero(self._find_protected_infos(name)) for name in self._budgets]
        infos = np.concatenate([np.empty(0, np.int64), *protected])
        budgets = np.repeat(np.arange(len(protected)), [len(protected_infos) for protected_infos in protected])

        # Sort the pairs by PodInfo, and find where the pairs of each PodInfo start.
        order = np.argsort(infos, kind="stable")
        starts = np.searchsorted(infos[order], np.arange(len(self.view.pods.infos) + 1))
        return starts, budgets[order]

    # -- while pods come and go ----------------------------------------------------------------------------------

    def count_allowed_disruptions(self, budget: str) -> int:
        """Return how many disruptions a PDB allows now, after the evictions and starts of pods recorded so far."""
        return max(self._headroom[budget], 0)

    def record_evicted_pods(self, positions: Iterable[Position]) -> None:
        """Record that pods were evicted, so that their PDBs allow fewer disruptions."""
        self._change_headroom(positions, change=-1)

    def record_running_pods(self, positions: Iterable[Position]) -> None:
        """Record that pods run again, so that their PDBs allow more disruptions."""
        self._change_headroom(positions, change=1)

    def _change_headroom(self, positions: Iterable[Position], change: int) -> None:
        """Add `change` to the disruption headroom of the PDBs that protect these pods, once for each pod and PDB.

        Updated copies of these PDBs replace them in the view.
        """
        changed: dict[str, None] = {}
        for position in positions:
            for budget in self.find_protecting_budgets(position):
                self._headroom[budget] += change
                changed[budget] = None
        if changed:
            updated = [self._build_updated_budget(budget) for budget in changed]
            self.view.objects.replace_objects({"PodDisruptionBudget": updated})

    def _build_updated_budget(self, budget: str) -> PodDisruptionBudget:
        """Build the PDB with the number of disruptions that it allows now."""
        pdb: PodDisruptionBudget = self._budgets[budget]
        return replace(pdb, status=replace(pdb.status, disruptions_allowed=self.count_allowed_disruptions(budget)))


def get_budgets(view: Fork) -> Budgets:
    """Return the PDBs of a fork. The PDBs are read when first needed and stored with the fork."""
    return view.objects.get_derived_value(Budgets, lambda: Budgets(view), "PodDisruptionBudget")


def get_budget_key(pdb: PodDisruptionBudget) -> str:
    """Return `namespace/name` of a PDB."""
    return f"{pdb.metadata.namespace}/{pdb.metadata.name}"


def get_disruption_headroom(pdb: PodDisruptionBudget) -> int:
    """Return the number of disruptions that the status of a PDB allows.

    If it allows none, return the shortfall of healthy pods as a negative number, or 0 if enough pods are healthy.
    """
    status = pdb.status
    if status.disruptions_allowed > 0:
        return status.disruptions_allowed
    surplus = status.current_healthy - status.desired_healthy
    return min(surplus, 0)  # a surplus that the status does not allow for disruptions is no headroom


def parse_budget_selector(spec: PodDisruptionBudgetSpec) -> Selector:
    """Parse a PDB's selector. An invalid selector selects nothing."""
    try:
        return selector_from_api(spec.selector)
    except SelectorError:
        return NOTHING
