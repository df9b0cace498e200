"""Proofs that pods get a node, or that they get none, no matter where the pods before them go.

A replay decides which node each pod gets. If only the question remains whether each pod gets one, the rest of the queue
need not be replayed once it is certain that these pods fit.

- A pod surely fits if it fits on at least as many nodes as there are other pods to be tried before it, since each of
  them takes at most one node from it.
- If only resources limit the pod, it also fits if the other pods together are too small to fill all of its nodes. A
  node is full for the pod once the others there request more of some resource than the node has free beyond the pod's
  own request. Measured in a common scale, the size of a pod is the largest of its requests, and the price of filling a
  node is the smallest of its free amounts. If the sizes add up to less than the prices, at least one node stays free.
- With a hard spread constraint, the pod has to fit in each domain, since spreading never rejects the domain with the
  fewest pods.

Nothing is evicted, since no pod that might preempt is left without a node.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Amounts, Bools, Counts, Position, Row
from kschedctl.api.labels import EVERYTHING, SelectorError
from kschedctl.api.node_health import UNREACHABLE_TAINT
from kschedctl.api.objects import Taint
from kschedctl.api.tolerations import tolerates
from kschedctl.replay.shared_cluster import SharedCluster
from kschedctl.scheduler.engine.reserve import find_reserve_plugins, has_backed_resources, uses_claims
from kschedctl.scheduler.framework import Code, PluginError
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from kschedctl.scheduler.plugins.inter_pod_affinity.filtering import FilterState
from kschedctl.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kschedctl.scheduler.plugins.inter_pod_affinity.topology_counts import find_infos_matching_term
from kschedctl.scheduler.plugins.node_resources.fit import NodeResourcesFit
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import HARD, SpreadConstraint, tally_matching_pods
from kschedctl.scheduler.plugins.pod_topology_spread.filtering import DomainCounts
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.scheduler.scheduler import Framework
from kschedctl.scheduler.simulation.claim_answers import RejectingPlugin, find_rejected_nodes
from kschedctl.scheduler.simulation.outcome import StopRule
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.delta import NO_CHANGE
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import AffinityTerm, PodInfo

PROOFS = 64
"""The number of times that a replay of many pods tries to prove that the remaining ones fit."""
MIN_PODS_BETWEEN_PROOFS = 256
"""The minimum number of pods that are replayed between two proofs."""
SAFETY_FACTOR = 0.999
"""The factor by which prices are lowered, so that rounding never proves too much."""
NO_SCHEDULE = Taint(UNREACHABLE_TAINT, "", "NoSchedule")
"""The taint that keeps pods off lost nodes."""
Floats = npt.NDArray[np.float64]


class PodKind(NamedTuple):
    """Pods with the same PodInfo, as they arrive in the queue."""

    framework: Framework
    info: PodInfo
    fits: Bools | None = None
    """The nodes (N,) of the whole cluster on which they fit, apart from spreading and affinity.

    The mask is None if they might fit nowhere, which has to be found out for each pod.
    """
    needs: Amounts | None = None
    """The requested amounts (R,), or None if other things than resources limit the number of pods on a node."""
    affinity: RejectingPlugin | None = None
    """The plugin InterPodAffinity, if it may reject nodes."""
    spread: RejectingPlugin | None = None
    """The plugin PodTopologySpread, if it may reject nodes."""
    node_constraints: tuple[SpreadConstraint, ...] = ()
    """Their hard spread constraints for which each node is a domain of its own."""
    domain_constraint: SpreadConstraint | None = None
    """Their hard spread constraint whose domains have several nodes, if there is one."""

    @property
    def spread_key(self) -> str:
        """The topology key of the domain constraint, or "" if there is none."""
        return self.domain_constraint.topology_key if self.domain_constraint else ""


class PodKinds:
    """The kinds of pods in the cluster before any loss, each of which is judged once in each process."""

    def __init__(self, shared: SharedCluster) -> None:
        self._simulation = Simulation(shared.scheduler)
        self._kinds: dict[int, PodKind | None] = {}
        self._kinds_by_incoming_number: dict[int | None, PodKind | None] = {}
        """Number of the incoming PodInfo -> kind. Pods that are recreated alike share the number."""
        self._masks: dict[bytes, Bools] = {}
        """The distinct masks of nodes, which many kinds share."""

    def find_kind(self, position: Position, number: int) -> PodKind | None:
        """Return the kind of a pod, or None if only a replay can tell whether such pods fit.

        `number` is the number of its PodInfo.
        """
        if number in self._kinds:
            return self._kinds[number]
        # Several PodInfos may become the same incoming PodInfo, for which one judgment is enough.
        incoming_number = self._simulation.get_shared_incoming_info(position).number
        if incoming_number not in self._kinds_by_incoming_number:
            try:
                kind = self._judge_kind(position, number)
            except (PluginError, SelectorError):
                kind = None
            self._kinds_by_incoming_number[incoming_number] = kind
        self._kinds[number] = self._kinds_by_incoming_number[incoming_number]
        return self._kinds[number]

    def _judge_kind(self, position: Position, number: int) -> PodKind | None:
        """Judge on which nodes of the whole cluster pods of a kind fit, and which plugins may reject nodes later.

        The pod at `position` stands for the kind, and `number` is the number of its PodInfo. Return None if only a
        replay can tell whether such pods fit. Raises PluginError if a plugin fails, and SelectorError if a selector is
        invalid.
        """
        simulation = self._simulation
        framework = simulation.find_framework(position)
        if framework is None or not self._is_tried_alone(framework, position):
            return None
        info = simulation.get_shared_incoming_info(position)
        if self._reserves_objects(framework, info):
            return PodKind(framework, info)
        alike_pods = simulation.placements.get_alike_pods(framework, info, number)
        if alike_pods.hopeless:
            return PodKind(framework, info)

        # Only two of the plugins that look at other nodes are understood here.
        other_plugins = {type(rejecting.plugin): rejecting for rejecting in alike_pods.changing_filters}
        affinity = other_plugins.pop(InterPodAffinity, None)
        spread = other_plugins.pop(PodTopologySpread, None)
        if other_plugins:
            return None

        # Of the constraints whose domains have several nodes, only a single one without minDomains is understood.
        constraints = [] if spread is None else spread.plugin.settings.get_constraints(info, simulation.view, HARD)
        by_node = [constraint for constraint in constraints if self._separates_nodes(constraint)]
        by_domain = [constraint for constraint in constraints if not self._separates_nodes(constraint)]
        if len(by_domain) > 1 or any(constraint.min_domains > 1 for constraint in by_domain):
            return None

        fits = alike_pods.mask_possible_nodes()
        only_resources = all(isinstance(plugin, NodeResourcesFit) for plugin, _ in alike_pods.local.filters)
        return PodKind(
            framework,
            info,
            fits=self._masks.setdefault(fits.tobytes(), fits),
            needs=self._find_needs(info, number) if only_resources else None,
            affinity=affinity,
            spread=spread,
            node_constraints=tuple(by_node),
            domain_constraint=by_domain[0] if by_domain else None,
        )

    def _reserves_objects(self, framework: Framework, info: PodInfo) -> bool:
        """Return whether the pod has claims, uses devices, or has something reserved for it by another plugin."""
        view = self._simulation.view
        if uses_claims(info, view) or has_backed_resources(info, view):
            return True
        # Without claims and devices, DynamicResources reserves nothing.
        plugins = find_reserve_plugins(framework, info.spec)
        return any(not isinstance(plugin, DynamicResources) for plugin in plugins)

    def _find_needs(self, info: PodInfo, number: int) -> Amounts | None:
        """Return the requested amounts (R,) of a pod, or None if one of them overflows."""
        view = self._simulation.view
        incoming = view.build_matrix([info.incoming_requests])[0]
        counted = view.requests[number]  # of the pod on a node, which has the number of pods, too
        if incoming.min(initial=0) < 0 or counted.min(initial=0) < 0:
            return None
        needs: Amounts = np.maximum(incoming, counted)
        return needs

    def _is_tried_alone(self, framework: Framework, position: Position) -> bool:
        """Return whether the pod is tried without other pods, and no gate, extender or Permit plugin may reject it."""
        simulation = self._simulation
        if framework.extenders or framework.plugins_at("permit"):
            return False
        is_in_group = simulation.gangs.find_group_key(position) is not None
        return not is_in_group and simulation.find_outcome_without_cycle(position, framework) is None

    def _separates_nodes(self, constraint: SpreadConstraint) -> bool:
        """Return whether each node is a domain of its own for the constraint."""
        return self._simulation.view.nodes.label(constraint.topology_key).separates_nodes


class _CompetitorGroups(NamedTuple):
    """Groups of pods with equal requests that fit on the same nodes."""

    requests: Amounts
    """The amounts that a pod of each group requests, (G, R)."""
    counts: Counts
    """The number of pods of each group, (G,)."""
    masks: list[Bools]
    """The nodes (N,) of the whole cluster on which the pods of each group fit. Groups may share a mask."""


class _Competitors:
    """The pods that may take room, grouped by their requests and by the nodes on which they fit.

    `infos` (M,) has the number of each pod's PodInfo, in the order in which the pods are tried.
    """

    def __init__(self, view: Fork, kinds: Mapping[int, PodKind], infos: Counts) -> None:
        self.numbers, self.counts = np.unique(infos, return_counts=True)
        """The numbers (K,) of their PodInfos, and the number of pods of each PodInfo, (K,)."""
        self.total = len(infos)
        self.room_answers: dict[Hashable, bool] = {}
        """Whether they leave room for kinds of pods on masks of nodes, as far as it was proved."""
        self._view, self._kinds, self._infos = view, kinds, infos

    def take_until_last(self, number: int) -> _Competitors:
        """Return the competitors that are tried up to the last pod with this PodInfo, including this pod."""
        last_index = np.flatnonzero(self._infos == number)[-1]
        return _Competitors(self._view, self._kinds, self._infos[: last_index + 1])

    @cached_property
    def anti_affinity_terms(self) -> dict[int, tuple[AffinityTerm, ...]]:
        """The required anti-affinity terms of the pods that have some, by the number of their PodInfo."""
        terms_by_number = {number: kind.info.required_anti_affinity for number, kind in self._kinds.items()}
        return {number: terms for number, terms in terms_by_number.items() if terms}

    @cached_property
    def _groups_of_equal_pods(self) -> _CompetitorGroups:
        """The groups of pods with equal requests and equal masks of nodes."""

        def get_mask(number: int) -> Bools:
            """Return the mask of the nodes on which pods with this PodInfo fit."""
            mask = self._kinds[number].fits
            assert mask is not None  # kinds that may fit nowhere do not compete
            return mask

        # The PodInfos' indexes in `numbers`, grouped by requests and mask. Equal masks are one object
        indexes_by_group: dict[tuple[bytes, int], list[int]] = {}
        numbers, counts = self.numbers.tolist(), self.counts.tolist()
        for index, number in enumerate(numbers):
            group = (self._view.requests[number].tobytes(), id(get_mask(number)))
            indexes_by_group.setdefault(group, []).append(index)

        representatives = [numbers[indexes[0]] for indexes in indexes_by_group.values()]
        pod_counts = [sum(counts[index] for index in indexes) for indexes in indexes_by_group.values()]
        return _CompetitorGroups(
            requests=self._view.requests[representatives],
            counts=np.array(pod_counts, np.int64),
            masks=[get_mask(number) for number in representatives],
        )

    def sum_sizes(self, nodes: Bools, columns: Bools, scale: Floats) -> float:
        """Return the sum of the sizes of the pods that fit on any of the nodes in the mask (N,) of the whole cluster.

        The size of a pod is the largest of its requests for the resources in `columns` (R,), divided by `scale`.
        """
        requests, counts, masks = self._groups_of_equal_pods
        distinct_masks = {id(mask): mask for mask in masks}  # equal masks are one object
        competes_by_mask = {mask_id: (mask & nodes).any() for mask_id, mask in distinct_masks.items()}
        competes = np.array([competes_by_mask[id(mask)] for mask in masks])
        sizes = (requests[:, columns] / scale).max(axis=1)
        return float((sizes * counts)[competes].sum())


class FitProver:
    """Proves that pods fit on the remaining nodes of a simulation, wherever the pods before them go.

    `is_lost_node` is a mask (N,) of the lost nodes in the whole cluster. The simulation either leaves them out, or has
    them as nodes on which no displaced pod can run.
    """

    def __init__(self, shared: SharedCluster, simulation: Simulation, is_lost_node: Bools) -> None:
        self.view = simulation.view
        self._simulation = simulation
        self._kinds = shared.get_cached(PodKinds)
        self._is_remaining = ~is_lost_node
        is_whole = len(self.view.nodes) == len(is_lost_node)
        self._rows = np.arange(len(is_lost_node)) if is_whole else np.flatnonzero(self._is_remaining)
        """The row in the whole cluster of each node of the simulation."""
        self._is_remaining_row = self._is_remaining[self._rows]
        self._trail_length = len(self.view.trail)
        """The length of the trail before the replay."""
        self._masks_in_view: dict[int, Bools] = {}
        self._infos_by_term: dict[AffinityTerm, Bools] = {}
        self._limited_kinds: frozenset[int] = frozenset()
        """The numbers of the PodInfos whose pods are not more than the places that a spread constraint leaves them."""
        self._obstacle: int | None = None
        """The number of the PodInfo that could not be proven to fit the last time."""

    @property
    def is_applicable(self) -> bool:
        """Return whether anything can be proved: all nodes are searched, and no pod is nominated."""
        rows, _ = self.view.nominations
        unsure_rows, _ = self.view.unsure_nominations
        return not (self._simulation.placements.sampling or len(rows) or len(unsure_rows))

    def find_kind(self, position: Position) -> PodKind | None:
        """Return the kind of a pod, or None if only a replay can tell whether such pods fit."""
        return self._kinds.find_kind(position, self.view.pods.get_info_number(position))

    def get_kind(self, position: Position) -> PodKind:
        """Return the kind of a pod that surely fits. Raises KeyError if it has no kind."""
        kind = self.find_kind(position)
        if kind is None:
            raise KeyError(position)
        return kind

    def find_possible_row(self, position: Position) -> Row:
        """Return the first row of the simulation on which a pod that surely fits might fit."""
        return Row(int(self._find_nodes_in_view(self.get_kind(position)).argmax()))

    def build_stop_rule(self, order: Sequence[Position]) -> StopRule:
        """Build a rule that ends a replay once the untried pods surely fit.

        `order` are the pods in the order in which they are tried. The rule never ends a replay in which a pod fits
        nowhere or was evicted.
        """
        interval = max(len(order) // PROOFS, MIN_PODS_BETWEEN_PROOFS)
        next_proof = len(order)

        def do_untried_pods_fit(untried: int, waiting: Collection[Position]) -> bool:
            """Return whether the last `untried` pods surely fit, if it is time to look for a proof."""
            nonlocal next_proof
            if untried > next_proof or waiting or self._simulation.evictions:
                return False
            next_proof = untried - interval
            return self.do_all_fit(order[-untried:])

        return do_untried_pods_fit

    def do_all_fit(self, positions: Sequence[Position]) -> bool:
        """Return whether all of these pods surely get a node if they are tried one after another in this order."""
        kinds_and_competitors = self._find_kinds_and_competitors(positions)
        if kinds_and_competitors is None:
            return False
        kinds, competitors = kinds_and_competitors

        # Try the kind first that was the obstacle the last time, and then the kinds that need room in each domain.
        def get_rank(number: int) -> tuple[bool, bool]:
            return number != self._obstacle, kinds[number].domain_constraint is None

        for number in sorted(kinds, key=get_rank):
            if not self._does_kind_fit(kinds[number], number, competitors):
                self._obstacle = number
                return False
        return True

    def _find_kinds_and_competitors(
        self, positions: Sequence[Position]
    ) -> tuple[dict[int, PodKind], _Competitors] | None:
        """Return the kinds of these pods by the number of their PodInfo, and the pods as competitors.

        Return None if a kind cannot be judged or may fit nowhere.
        """
        infos = self.view.pods.info[np.array(positions, np.int64)].astype(np.int64)
        numbers, first_indexes = np.unique(infos, return_index=True)
        kinds = {}
        for index, number in zip(first_indexes.tolist(), numbers.tolist(), strict=True):
            kind = self._kinds.find_kind(positions[index], number)
            if kind is None or kind.fits is None:
                return None
            kinds[number] = kind
        return kinds, _Competitors(self.view, kinds, infos)

    def _does_kind_fit(self, kind: PodKind, number: int, competitors: _Competitors) -> bool:
        """Return whether pods of this kind surely fit beside the competitors, among which they are themselves."""
        try:
            fits = self._find_fitting_nodes(kind)
            domains = [fits] if kind.domain_constraint is None else self._split_by_domain(kind, number, fits)
        except PluginError:
            return False
        if self._has_room_in_each_domain(kind, number, domains, competitors):
            return True
        # Only the pods that are tried before the last pod of this kind can take its room.
        return self._has_room_in_each_domain(kind, number, domains, competitors.take_until_last(number))

    def _has_room_in_each_domain(
        self, kind: PodKind, number: int, domains: Iterable[Bools], competitors: _Competitors
    ) -> bool:
        """Return whether pods of this kind surely find a free node in each of these masks (N,) of nodes."""
        blocked = self._count_blocking_pods(kind, number, competitors)
        answers = competitors.room_answers
        needs_key = None if kind.needs is None else kind.needs.tobytes()
        for nodes in domains:
            key = (nodes.tobytes(), needs_key, blocked)  # all that the answer depends on for these competitors
            if key not in answers:
                answers[key] = self._has_room(kind, nodes, competitors, blocked)
            if not answers[key]:
                return False
        return True

    def _has_room(self, kind: PodKind, nodes: Bools, competitors: _Competitors, blocked: int) -> bool:
        """Return whether the competitors surely leave room for a pod of this kind on one of the nodes in the mask (N,).

        Up to `blocked` nodes do not count, since the pods there may reject the pod in spite of the room.
        """
        count = np.count_nonzero(nodes)
        if count >= competitors.total:
            return True
        if kind.needs is None or count <= blocked:
            return False

        # The price of filling each node for the kind, as the module's docstring defines it
        columns = kind.needs > 0
        free = self.view.allocatable[nodes][:, columns] - self.view.requested[nodes][:, columns] - kind.needs[columns]
        scale = np.maximum(free.mean(axis=0), 1e-9)  # no division by zero
        ascending_prices = np.sort((free / scale).min(axis=1))
        # The blocked nodes may be any of them: at worst, those with the highest prices
        total_price = float(ascending_prices[: count - blocked].sum())

        whole_mask = np.zeros(len(self._is_remaining), np.bool_)  # the mask of the nodes in the whole cluster
        whole_mask[self._rows[nodes]] = True
        total_size = competitors.sum_sizes(whole_mask, columns, scale)
        return total_size <= SAFETY_FACTOR * total_price

    def _find_fitting_nodes(self, kind: PodKind) -> Bools:
        """Return a mask (N,) of the remaining nodes on which a pod of this kind fits until other pods come there.

        Spread constraints whose domains have several nodes are left out. If pods have come since the prover was built,
        the mask is empty for a kind whose fit depends on more than resources. Raises PluginError if a plugin fails.
        """
        mask = self._find_nodes_in_view(kind)
        if len(self.view.trail) == self._trail_length:
            fits = mask.copy()
        elif kind.needs is None:  # other plugins may count the pods that have come
            return np.zeros(len(mask), np.bool_)
        else:
            fits = mask & (self.view.allocatable - self.view.requested >= kind.needs)[:, kind.needs > 0].all(axis=1)
        if kind.affinity is not None:
            fits &= self._find_nodes_with_lasting_affinity(kind.affinity, kind.info)
        # A node is never rejected for a constraint by node as long as it has no matching pod.
        for constraint in kind.node_constraints:
            counts = tally_matching_pods(constraint, kind.info, self.view).compute_current_sums(self.view.trail)
            fits &= (counts == 0) & self.view.nodes.label(constraint.topology_key).present
        return fits

    def _find_nodes_in_view(self, kind: PodKind) -> Bools:
        """Return a mask (N,) of the remaining nodes on which pods of the kind fit in the cluster before the loss."""
        assert kind.fits is not None
        key = id(kind.fits)  # kinds with equal masks share one object
        if key not in self._masks_in_view:
            self._masks_in_view[key] = kind.fits[self._rows] & self._is_remaining_row
        return self._masks_in_view[key]

    def _find_nodes_with_lasting_affinity(self, plugin: RejectingPlugin, info: PodInfo) -> Bools:
        """Return a mask (N,) of the nodes that required affinity and anti-affinity allow until a pod comes to the node.

        No node is in the mask if pods on other nodes could change the verdict. This is the case if a term of
        anti-affinity has domains of several nodes, or if no pod matches the terms of affinity yet. Raises PluginError
        if the plugin fails.
        """
        view = self.view
        no_nodes = np.zeros(len(view.nodes), np.bool_)
        result = plugin.run_pre_filter(info, view)
        state = result.state
        if isinstance(state, FilterState):
            keys = {term.topology_key for term in state.anti_affinity_terms} | set(state.existing_anti_affinity.counts)
            is_first = bool(state.affinity_terms) and state.affinity.is_empty
            if is_first or not all(view.nodes.label(key).separates_nodes for key in keys):
                return no_nodes
        elif result.status.code is not Code.SKIP:
            return no_nodes
        rejected = np.broadcast_to(find_rejected_nodes(plugin, result, info, view, NO_CHANGE), len(view.nodes))
        return ~rejected

    def _split_by_domain(self, kind: PodKind, number: int, fits: Bools) -> list[Bools]:
        """Return a mask (N,) of the fitting nodes for each domain to which the spread constraint may direct a pod.

        These are all domains that the constraint counts. If a domain of only lost nodes limits the pods of the kind,
        these are only the domains that may take more of the pods. If there is no such domain, the result is one empty
        mask. Raises PluginError if a plugin fails.

        Arguments:
            kind: the kind of pods, which has a hard spread constraint.
            number: the number of the kind's PodInfo.
            fits: the mask (N,) of the fitting nodes.
        """
        spread = self._count_pods_per_domain(kind)
        may_take_pods = spread.exists
        if number in self._limited_kinds:  # a domain of only lost nodes limits the pods of the kind
            may_take_pods = self._count_places_beside_lost_domains(spread) > 0
        domain_of_node = spread.column.codes
        fitting_by_domain = [fits & (domain_of_node == domain) for domain in np.flatnonzero(may_take_pods)]
        if fitting_by_domain:
            return fitting_by_domain

        # The caller looks for room in each of the masks. Without any mask, it would conclude that the pod fits.
        no_nodes = np.zeros_like(fits)
        return [no_nodes]

    def _find_lost_domains(self, spread: DomainCounts) -> Bools:
        """Return a mask (V,) of the domains that count for the constraint although they have only lost nodes."""
        is_lost = spread.exists.copy()
        is_lost[spread.column.codes[self._is_remaining_row & spread.column.present]] = False
        return is_lost

    def _count_pods_per_domain(self, kind: PodKind) -> DomainCounts:
        """Count the pods in each domain of the kind's domain constraint. Raises PluginError if a plugin fails."""
        assert kind.spread is not None
        spreads = cast(list[DomainCounts], kind.spread.run_pre_filter(kind.info, self.view).state)
        return next(spread for spread in spreads if spread.constraint == kind.domain_constraint)

    def find_pods_without_place(self, positions: Sequence[Position]) -> list[Position] | None:
        """Return the pods that hard spread constraints surely keep out if all other pods of `positions` get a node.

        The lost nodes are still there, but no displaced pod can run on them. If a constraint counts a domain of only
        lost nodes, this is the emptiest domain for good, so that each other domain takes a limited number of pods. The
        first pods of a kind in the order of the queue get these places. Return None if it is uncertain which pods are
        kept out. Further proofs assume that the returned pods are not tried.
        """
        kinds_and_competitors = self._find_kinds_and_competitors(positions)
        if kinds_and_competitors is None:
            return None
        kinds, competitors = kinds_and_competitors

        # Count the places of each kind that a lost domain limits.
        places_by_number = {}
        for number, kind in kinds.items():
            if kind.domain_constraint is None:
                continue
            try:
                spread = self._count_pods_per_domain(kind)
                if self._find_lost_domains(spread).any():
                    if not self._is_number_of_places_certain(kind, number, spread, competitors):
                        return None
                    places_by_number[number] = int(self._count_places_beside_lost_domains(spread).sum())
            except PluginError:
                return None
        self._limited_kinds = frozenset(places_by_number)

        kept_out = []
        for position in self._simulation.sort_for_queue(positions):
            number = self.view.pods.get_info_number(position)
            if number in places_by_number:
                places_by_number[number] -= 1
                if places_by_number[number] < 0:
                    kept_out.append(position)
        return kept_out

    def _count_places_beside_lost_domains(self, spread: DomainCounts) -> Counts:
        """Return how many more pods each domain (V,) takes if the emptiest domain has only lost nodes."""
        is_lost = self._find_lost_domains(spread)
        free_places = spread.constraint.max_skew + spread.counts[is_lost].min() - spread.counts
        places: Counts = np.where(spread.exists & ~is_lost, np.maximum(free_places, 0), 0)
        return places

    def _is_number_of_places_certain(
        self, kind: PodKind, number: int, spread: DomainCounts, competitors: _Competitors
    ) -> bool:
        """Return whether only the number of places beside the lost domains decides how many pods of the kind fit.

        Raises PluginError if a plugin fails.
        """
        # The emptiest domain has to be one that no pod can enter.
        info, constraint = kind.info, spread.constraint
        is_lost = self._find_lost_domains(spread)
        if spread.counts[is_lost].min() > spread.counts[spread.exists].min():
            return False
        if any(tolerates(toleration, NO_SCHEDULE) for toleration in info.spec.tolerations):
            return False

        # All displaced pods of the kind count for the constraint, and no others. No pod that counts can be preempted.
        pods = self.view.pods
        counting = np.flatnonzero(pods.match_infos(constraint.selector, frozenset((info.namespace,))))
        displaced = np.intersect1d(counting, competitors.numbers)
        if constraint.selector == EVERYTHING or not constraint.selects(info) or displaced.tolist() != [number]:
            return False
        if any(pods.infos[other].priority < info.priority for other in counting.tolist()):
            return False

        # Without the constraint, there is room for them, so that no other plugin rejects them on all nodes.
        return self._has_room_in_each_domain(kind, number, [self._find_fitting_nodes(kind)], competitors)

    def _count_blocking_pods(self, kind: PodKind, number: int, competitors: _Competitors) -> int:
        """Return how many competitors may make a node reject pods of this kind in spite of its room.

        Each competitor can block only the node on which it is placed. `number` is the number of the kind's PodInfo.
        """
        if kind.affinity is None and not kind.node_constraints:
            return 0  # no other pods can make a node reject the kind

        # Pods that the spread constraints count, and pods that the kind's anti-affinity excludes
        pods = self.view.pods
        is_blocking = np.zeros(len(pods.infos), np.bool_)
        for constraint in kind.node_constraints:
            is_blocking |= pods.match_infos(constraint.selector, frozenset((kind.info.namespace,)))
        for term in kind.info.required_anti_affinity:
            is_blocking |= self._find_matching_infos(term)

        # Pods whose own anti-affinity excludes the kind
        for other_number, terms in competitors.anti_affinity_terms.items():
            if any(self._find_matching_infos(term)[number] for term in terms):
                is_blocking[other_number] = True
        return int(competitors.counts[is_blocking[competitors.numbers]].sum())

    def _find_matching_infos(self, term: AffinityTerm) -> Bools:
        """Return a mask over the PodInfos whose pods the term selects."""
        if term not in self._infos_by_term:
            resolved_term = term.with_selected_namespaces(self.view.namespace_labels, replace_selector=True)
            self._infos_by_term[term] = find_infos_matching_term(resolved_term, self.view)
        return self._infos_by_term[term]
