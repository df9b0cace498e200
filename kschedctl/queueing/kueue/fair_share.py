"""The dominant resource share of a ClusterQueue or a cohort: how much it borrows of its parent's capacity.

Upstream: pkg/cache/scheduler/fair_sharing.go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from kschedctl.api.quantity import parse
from kschedctl.api.queueing import FairSharing
from kschedctl.queueing.kueue.amounts import FlavorResource, add_amounts, subtract_amounts
from kschedctl.queueing.kueue.quota_tree import QuotaNode

_DEFAULT_WEIGHT = 1.0


class DominantShare(NamedTuple):
    """The largest share that a node borrows of any resource."""

    ratio: float = 0.0
    """The borrowed amount in thousandths of the parent's capacity, not divided by the weight."""
    weight: float = _DEFAULT_WEIGHT
    borrowed: frozenset[FlavorResource] = frozenset()
    """The resources of which the node uses more than its quota."""

    @property
    def is_borrowing(self) -> bool:
        """Return whether the node uses more than its quota."""
        return bool(self.borrowed)

    @property
    def weighted(self) -> float:
        """Return the ratio divided by the weight. A borrower of weight 0 has an infinite share."""
        if self.ratio == 0:
            return 0.0
        return math.inf if self.weight == 0 else self.ratio / self.weight

    @property
    def sort_key(self) -> tuple[bool, float]:
        """Return the key by which shares are compared. Borrowers of weight 0 come last, ordered by their ratio."""
        has_no_weight = self.weight == 0 and self.ratio != 0
        return has_no_weight, self.ratio if has_no_weight else self.weighted

    def is_borrowing_any(self, requests: Mapping[FlavorResource, int]) -> bool:
        """Return whether the node borrows any of the requested resources. Requests for 0 do not count."""
        return any(requests.get(key, 0) > 0 for key in self.borrowed)


LOWEST_SHARE = DominantShare(ratio=-1.0)
"""A share below every other."""


def compute_share(node: QuotaNode) -> DominantShare:
    """Compute the dominant share of a node. It is 0 if the node has no parent or borrows nothing."""
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
    """Return the weight that a ClusterQueue or cohort has in fair sharing, 1 if none is set.

    Raises QuantityError if it is malformed.
    """
    if fair_sharing is None or fair_sharing.weight is None:
        return _DEFAULT_WEIGHT
    quantity = parse(fair_sharing.weight)
    return float(quantity.mantissa) * 10.0**quantity.scale
