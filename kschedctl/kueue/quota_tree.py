"""The tree of ClusterQueues and cohorts, with quota, usage and the dominant resource share at each node.

A node has local quota, which it does not lend. The rest of its quota is counted at its parent as well, and so is its
usage beyond the local quota. The share says how much a node borrows of its parent's capacity.

Upstream: pkg/cache/scheduler/resource_node.go, pkg/cache/scheduler/fair_sharing.go and pkg/cache/hierarchy.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from kschedctl.api.quantity import parse_quantity
from kschedctl.api.queueing import FairSharing, KueueResourceGroup
from kschedctl.kueue.amounts import FlavorResource, Usage, add_amounts, parse_quota, subtract_amounts

_DEFAULT_WEIGHT = 1.0


class QuotaLimits(NamedTuple):
    """The quota of one resource of a flavor."""

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


_NO_QUOTA = QuotaLimits()


def parse_quotas(groups: Iterable[KueueResourceGroup]) -> dict[FlavorResource, QuotaLimits]:
    """Parse the quotas of all flavors and resources in resource groups. Raises QuantityError if one is malformed."""
    quotas = {}
    for group in groups:
        for flavor in group.flavors:
            for resource in flavor.resources:
                name, borrowing, lending = resource.name, resource.borrowing_limit, resource.lending_limit
                quotas[FlavorResource(flavor.name, name)] = QuotaLimits(
                    parse_quota(name, resource.nominal_quota),
                    None if borrowing is None else parse_quota(name, borrowing),
                    None if lending is None else parse_quota(name, lending),
                )
    return quotas


class QuotaNode:
    """A ClusterQueue or a cohort."""

    __slots__ = ("children", "name", "parent", "quotas", "subtree_quota", "usage", "weight")

    def __init__(self, name: str, quotas: Mapping[FlavorResource, QuotaLimits], weight: float = 1.0) -> None:
        self.name = name
        self.parent: CohortNode | None = None
        self.quotas = quotas
        self.weight = weight
        """The weight of fair sharing."""
        self.subtree_quota: Usage = {key: quota.nominal for key, quota in quotas.items()}
        """The node's own quota and what its children lend."""
        self.usage: Usage = {}

    def iter_ancestors(self) -> Iterator[CohortNode]:
        """Yield the parent, its parent, and so on up to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    @property
    def root(self) -> QuotaNode:
        """The root of the tree."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def get_quota(self, key: FlavorResource) -> QuotaLimits:
        """Return the node's own quota, without the quota that its children lend. The limits are zero if it has none."""
        return self.quotas.get(key, _NO_QUOTA)

    def get_usage(self, key: FlavorResource) -> int:
        """Return how much is used at this node, including the usage of children beyond their local quota."""
        return self.usage.get(key, 0)

    def compute_local_quota(self, key: FlavorResource) -> int:
        """Return the part of the subtree's quota that is not lent to the parent. It is 0 without a lending limit."""
        lending_limit = self.get_quota(key).lending_limit
        if lending_limit is None:
            return 0
        return max(0, subtract_amounts(self.subtree_quota.get(key, 0), lending_limit))

    def compute_locally_available_quota(self, key: FlavorResource) -> int:
        """Return how much of the local quota, which is not lent to the parent, is free."""
        return max(0, subtract_amounts(self.compute_local_quota(key), self.get_usage(key)))

    def compute_available_quota(self, key: FlavorResource) -> int:
        """Return how much more can be used, including quota that can be borrowed. It is negative if too much is in use.

        This is the free local quota plus the quota that is available from the parent. A borrowing limit caps the
        parent's part at the unused quota that this node lends to the parent, plus the limit. Upstream: available.
        """
        subtree_quota = self.subtree_quota.get(key, 0)
        usage = self.get_usage(key)
        if self.parent is None:
            return subtract_amounts(subtree_quota, usage)

        available_from_parent = self.parent.compute_available_quota(key)
        borrowing_limit = self.get_quota(key).borrowing_limit
        if borrowing_limit is not None:
            local_quota = self.compute_local_quota(key)
            quota_at_parent = subtract_amounts(subtree_quota, local_quota)
            usage_at_parent = max(0, subtract_amounts(usage, local_quota))
            unused_at_parent = subtract_amounts(quota_at_parent, usage_at_parent)
            available_from_parent = min(add_amounts(unused_at_parent, borrowing_limit), available_from_parent)
        return add_amounts(self.compute_locally_available_quota(key), available_from_parent)

    def compute_capacity(self, key: FlavorResource) -> int:
        """Return how much could be used, including borrowed quota, if nothing were in use.

        A borrowing limit caps the amount at the subtree's quota plus the limit.
        """
        subtree_quota = self.subtree_quota.get(key, 0)
        if self.parent is None:
            return subtree_quota
        capacity = add_amounts(self.compute_local_quota(key), self.parent.compute_capacity(key))
        borrowing_limit = self.get_quota(key).borrowing_limit
        if borrowing_limit is not None:
            capacity = min(add_amounts(subtree_quota, borrowing_limit), capacity)
        return capacity

    def add_usage(self, key: FlavorResource, amount: int) -> None:
        """Add an amount to the node's usage. Add the part that exceeds its free local quota to the parent's usage.

        The parent does the same, and so on up to the root.
        """
        node: QuotaNode | None = self
        while node is not None:
            used = node.usage.get(key, 0)
            limits = node.quotas.get(key)
            lends_all = limits is None or limits.lending_limit is None

            # Most nodes lend all of their quota and have no local quota. A call for each of them would take too long
            local_available = 0 if lends_all and used >= 0 else node.compute_locally_available_quota(key)
            node.usage[key] = add_amounts(used, amount)
            if amount <= local_available:
                return
            amount = subtract_amounts(amount, local_available)
            node = node.parent

    def remove_usage(self, key: FlavorResource, amount: int) -> None:
        """Subtract an amount from the node's usage, and the part above its local quota from the parent's usage.

        The parent does the same, and so on up to the root.
        """
        node: QuotaNode | None = self
        while node is not None:
            used = node.usage.get(key, 0)
            limits = node.quotas.get(key)
            lends_all = limits is None or limits.lending_limit is None

            # The usage that was carried to the parent, of which the amount is removed as well
            carried = used if lends_all else subtract_amounts(used, node.compute_local_quota(key))
            node.usage[key] = subtract_amounts(used, amount)
            if carried <= 0:
                return
            amount = min(amount, carried)
            node = node.parent

    def would_borrow(self, key: FlavorResource, amount: int = 0) -> bool:
        """Return whether the subtree would use more than its quota with an additional amount, by default 0."""
        return self.subtree_quota.get(key, 0) < add_amounts(self.get_usage(key), amount)

    def is_within_quota(self, keys: Iterable[FlavorResource]) -> bool:
        """Return whether the subtree uses at most its quota of each of these resources."""
        quota, usage = self.subtree_quota, self.usage
        for key in keys:  # noqa: SIM110 - any() takes longer, and this is called very often
            if quota.get(key, 0) < usage.get(key, 0):
                return False
        return True

    def compute_fit_and_excess(self, requests: Usage) -> tuple[bool, Usage]:
        """Return whether requests fit into the subtree's quota, and by how much they exceed the free local quota.

        The parent would have to cover the excess.
        """
        fits = not any(self.would_borrow(key, amount) for key, amount in requests.items())
        excess = {
            key: max(0, subtract_amounts(amount, self.compute_locally_available_quota(key)))
            for key, amount in requests.items()
        }
        return fits, excess


class CohortNode(QuotaNode):
    """A cohort."""

    __slots__ = ("_height", "cohorts", "queues")

    def __init__(self, name: str, quotas: Mapping[FlavorResource, QuotaLimits], weight: float = 1.0) -> None:
        super().__init__(name, quotas, weight)
        self.cohorts: list[CohortNode] = []
        """The cohorts directly below, by name."""
        self.queues: list[QuotaNode] = []
        """The ClusterQueues directly below, by name."""
        self._height: int | None = None

    @property
    def height(self) -> int:
        """The number of levels below the cohort.

        It is computed once, so nothing may be added to the tree afterwards.
        """
        if self._height is None:
            height_without_cohorts = 1 if self.queues else 0
            self._height = max((cohort.height + 1 for cohort in self.cohorts), default=height_without_cohorts)
        return self._height

    def iter_queues(self) -> Iterator[QuotaNode]:
        """Yield all ClusterQueues of the subtree."""
        yield from self.queues
        for cohort in self.cohorts:
            yield from cohort.iter_queues()

    def list_queues_over_quota(self, keys: Collection[FlavorResource]) -> list[QuotaNode]:
        """Return the ClusterQueues directly below that use more than their quota of one of these resources.

        Without `keys`, the list is empty.
        """
        if len(keys) > 1:
            return [node for node in self.queues if not node.is_within_quota(keys)]

        # One resource is the usual case, for which a call for each queue takes too long
        key = next(iter(keys), None)
        if key is None:
            return []
        return [node for node in self.queues if node.subtree_quota.get(key, 0) < node.usage.get(key, 0)]

    def recompute_subtree(self) -> None:
        """Recompute the quota and usage of all cohorts in the subtree.

        The quota of a cohort is its own nominal quota plus what its children lend. Its usage is the part of its
        children's usage that exceeds their local quota.
        """
        self.subtree_quota = {key: quota.nominal for key, quota in self.quotas.items()}
        self.usage = {}
        for cohort in self.cohorts:
            cohort.recompute_subtree()
        for child in (*self.cohorts, *self.queues):
            for key, quota in child.subtree_quota.items():
                lent = subtract_amounts(quota, child.compute_local_quota(key))
                self.subtree_quota[key] = add_amounts(self.subtree_quota.get(key, 0), lent)
            for key, amount in child.usage.items():
                carried = max(0, subtract_amounts(amount, child.compute_local_quota(key)))
                self.usage[key] = add_amounts(self.usage.get(key, 0), carried)


class CoveringSubtree(NamedTuple):
    """The lowest subtree around a node whose quota covers an amount."""

    height: int
    """0 for the node itself, which then need not borrow."""
    has_parent: bool
    """True if the subtree is part of a larger one, from which quota may be reclaimed."""


def find_covering_subtree(node: QuotaNode, key: FlavorResource, amount: int) -> CoveringSubtree:
    """Return the lowest subtree that contains the node and whose quota covers the amount.

    If no subtree covers the amount, the result is the whole tree. Upstream: FindHeightOfLowestSubtreeThatFits of
    pkg/scheduler/preemption/classical/hierarchical_preemption.go.
    """
    if node.parent is None or not node.would_borrow(key, amount):
        return CoveringSubtree(0, has_parent=node.parent is not None)

    # Each level covers what is available there. The next level has to cover the remaining amount.
    remaining = subtract_amounts(amount, node.compute_locally_available_quota(key))
    root = node.parent
    for cohort in node.iter_ancestors():
        if not cohort.would_borrow(key, remaining):
            return CoveringSubtree(cohort.height, has_parent=cohort.parent is not None)
        remaining = subtract_amounts(remaining, cohort.compute_locally_available_quota(key))
        root = cohort
    return CoveringSubtree(root.height, has_parent=False)


class DominantShare(NamedTuple):
    """The largest share that a node borrows of any resource."""

    ratio: float = 0.0
    """The borrowed amount in thousandths of the parent's capacity, not divided by the weight."""
    weight: float = _DEFAULT_WEIGHT
    borrowed: frozenset[FlavorResource] = frozenset()
    """The resources of which the node uses more than its quota."""

    @property
    def is_borrowing(self) -> bool:
        """True if the node uses more than its quota."""
        return bool(self.borrowed)

    @property
    def weighted(self) -> float:
        """The ratio divided by the weight. A borrower of weight 0 has an infinite share."""
        if self.ratio == 0:
            return 0.0
        return math.inf if self.weight == 0 else self.ratio / self.weight

    @property
    def sort_key(self) -> tuple[bool, float]:
        """The key by which shares are compared. Borrowers of weight 0 come last, ordered by their ratio."""
        has_no_weight = self.weight == 0 and self.ratio != 0
        return has_no_weight, self.ratio if has_no_weight else self.weighted

    def is_borrowing_any(self, requests: Mapping[FlavorResource, int]) -> bool:
        """Return whether the node borrows any of the requested resources. Requests for 0 do not count."""
        return any(requests.get(key, 0) > 0 for key in self.borrowed)


LOWEST_SHARE = DominantShare(ratio=-1.0)


"""A share below every other."""


def compute_dominant_share(node: QuotaNode) -> DominantShare:
    """Compute the dominant share of a node: the highest ratio of borrowed amount to capacity among its resources.

    Ratios are in thousandths. The capacity is what the parent could use in all flavors. The share is 0 if the node has
    no parent or borrows nothing.
    """
    if node.parent is None:
        return DominantShare(weight=node.weight)
    borrowed_by_resource: dict[str, int] = {}
    borrowed_keys = []
    for key, quota in node.subtree_quota.items():
        borrowed = subtract_amounts(node.get_usage(key), quota)
        if borrowed > 0:
            borrowed_by_resource[key.resource] = add_amounts(borrowed_by_resource.get(key.resource, 0), borrowed)
            borrowed_keys.append(key)
    if not borrowed_keys:
        return DominantShare(weight=node.weight)

    capacity_by_resource = _sum_capacity_by_resource(node.parent)
    ratios = [
        amount * 1000.0 / capacity_by_resource[resource]
        for resource, amount in borrowed_by_resource.items()
        if capacity_by_resource.get(resource, 0) > 0
    ]
    return DominantShare(max(ratios, default=0.0), node.weight, frozenset(borrowed_keys))


def _sum_capacity_by_resource(node: QuotaNode) -> dict[str, int]:
    """Return how much a node could use in all flavors, by resource, including what it can borrow.

    The root of the tree determines the flavors, because it may have quota for more flavors than the node.
    """
    capacity_by_resource: dict[str, int] = {}
    for key in node.root.subtree_quota:
        sum_of_others = capacity_by_resource.get(key.resource, 0)
        capacity_by_resource[key.resource] = add_amounts(sum_of_others, node.compute_capacity(key))
    return capacity_by_resource


def parse_weight(fair_sharing: FairSharing | None) -> float:
    """Return the weight of a ClusterQueue or cohort in fair sharing, or 1 if no weight is set.

    Raises QuantityError if the weight is malformed.
    """
    if fair_sharing is None or fair_sharing.weight is None:
        return _DEFAULT_WEIGHT
    quantity = parse_quantity(fair_sharing.weight)
    return float(quantity.mantissa) * 10.0**quantity.scale
