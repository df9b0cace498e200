"""NodeOverlays, which adjust prices and add resources to the instance types of pools.

Upstream: pkg/controllers/nodeoverlay/controller.go, store.go, pkg/apis/v1alpha1/nodeoverlay.go (sigs.k8s.io/karpenter
v1.14.1). Overlays are applied by descending weight and then by descending name. The first overlay that sets a price or
a resource wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kschedctl.api.karpenter import NodeOverlay, NodePool
from kschedctl.api.pod_requests import Quantities, parse_quantities
from kschedctl.autoscaling.karpenter.instance_types import InstanceType, Offering
from kschedctl.autoscaling.karpenter.labels import NODE_POOL
from kschedctl.autoscaling.karpenter.requirements import IN, LabelRequirement, Requirements
from kschedctl.autoscaling.karpenter.validation import iter_requirement_errors

SUCCEEDED, CONFLICT, INVALID = "ValidationSucceeded", "Conflict", "RuntimeValidation"
CONFLICT_MESSAGE = "conflict with another overlay"
PROTECTED_RESOURCES = frozenset(("cpu", "memory", "ephemeral-storage", "pods"))
"""Resources that overlays may not set."""


class OverlayResult(NamedTuple):
    """The condition that Karpenter sets on an overlay."""

    reason: str
    message: str


class _PoolType(NamedTuple):
    """An instance type in one pool, by name."""

    pool: str
    instance_type: str


class _PriceChange(NamedTuple):
    """A change of an offering's price."""

    change: str
    """A new price, a signed amount or a signed percentage. The first overlay decides."""
    weight: int
    """Weight of the last overlay that changes this price."""


@dataclass(eq=False)
class _TypeChange:
    """Adjustments of one instance type in one pool."""

    prices: dict[str, _PriceChange] = field(default_factory=dict)
    """Requirements of an offering as text -> the change of its price."""
    capacity: Quantities = field(default_factory=dict)
    """Resources that overlays add."""
    last_resources: frozenset[str] = frozenset()
    """Names of the resources that the last overlay adds."""
    last_weight: int = 0
    """Weight of the last overlay that adds resources."""


@dataclass(eq=False)
class AppliedOverlays:
    """The effects of all overlays on the pools' instance types."""

    results: dict[str, OverlayResult]
    """Overlay -> its result, sorted by name."""
    _changes: dict[_PoolType, _TypeChange]

    @classmethod
    def apply_overlays(
        cls,
        overlays: Sequence[NodeOverlay],
        pools: Sequence[NodePool],
        types: Sequence[InstanceType],
        well_known: frozenset[str],
    ) -> AppliedOverlays:
        """Apply all overlays by descending weight, then by descending name, and record the result of each.

        An overlay that is invalid or conflicts with an applied overlay is not applied.
        """
        applied = cls({}, {})
        by_name = sorted(overlays, key=lambda overlay: overlay.metadata.name, reverse=True)
        for overlay in sorted(by_name, key=lambda overlay: -(overlay.spec.weight or 0)):
            applied.results[overlay.metadata.name] = applied._apply_overlay(overlay, pools, types, well_known)
        applied.results = dict(sorted(applied.results.items()))
        return applied

    def adjust_instance_types(self, pool: str, types: Sequence[InstanceType]) -> tuple[InstanceType, ...]:
        """Return the instance types with the changes that the overlays make for a pool."""
        return tuple(self._adjust_instance_type(pool, instance_type) for instance_type in types)

    def _apply_overlay(
        self, overlay: NodeOverlay, pools: Sequence[NodePool], types: Sequence[InstanceType], well_known: frozenset[str]
    ) -> OverlayResult:
        """Apply one overlay, unless it is invalid or conflicts with an applied overlay, and return its result.

        Its changes are recorded for each pool and instance type, and take effect when a type is adjusted.
        """
        if faults := list(_iter_validation_errors(overlay, well_known)):
            return OverlayResult(INVALID, "; ".join(faults))
        spec = overlay.spec
        required = Requirements.from_list(
            LabelRequirement.from_operator(term.key, term.operator, term.values) for term in spec.requirements
        )
        affected: dict[_PoolType, list[Offering]] = {}
        for pool in pools:
            for instance_type in types:
                offerings = _find_affected_offerings(pool, instance_type, required, well_known)
                if offerings:
                    affected[_PoolType(pool.metadata.name, instance_type.name)] = offerings

        price = spec.price if spec.price is not None else spec.price_adjustment
        weight = spec.weight or 0
        capacity = parse_quantities(spec.capacity)
        for pool_type, offerings in affected.items():
            if self._conflicts_with_applied_overlay(pool_type, offerings, price, capacity, weight):
                return OverlayResult(CONFLICT, CONFLICT_MESSAGE)
        for pool_type, offerings in affected.items():
            self._record_type_change(pool_type, offerings, price, capacity, weight)
        return OverlayResult(SUCCEEDED, message="")

    def _conflicts_with_applied_overlay(
        self, pool_type: _PoolType, offerings: Sequence[Offering], price: str | None, capacity: Quantities, weight: int
    ) -> bool:
        """Return whether the last overlay that set one of these prices or resources has the same weight."""
        change = self._changes.get(pool_type)
        if change is None:
            return False
        if capacity and change.last_weight == weight and not change.last_resources.isdisjoint(capacity):
            return True
        if price is None:
            return False
        price_changes = (change.prices.get(str(offering.requirements)) for offering in offerings)
        return any(price_change is not None and price_change.weight == weight for price_change in price_changes)

    def _record_type_change(
        self, pool_type: _PoolType, offerings: Sequence[Offering], price: str | None, capacity: Quantities, weight: int
    ) -> None:
        """Record the price and capacity that an overlay sets.

        Values that earlier overlays set are kept, but the weight of this overlay is recorded for them.
        """
        if price is None and not capacity:
            return
        change = self._changes.setdefault(pool_type, _TypeChange())
        if price is not None:
            for offering in offerings:
                offering_key = str(offering.requirements)
                existing = change.prices.get(offering_key)
                # As in upstream, only the weight of the last overlay decides whether a later overlay conflicts
                change.prices[offering_key] = _PriceChange(existing.change if existing else price, weight)
        if capacity:
            change.capacity = {**capacity, **change.capacity}
            change.last_resources = frozenset(capacity)
            change.last_weight = weight

    def _adjust_instance_type(self, pool: str, instance_type: InstanceType) -> InstanceType:
        """Return the instance type as overlays change it for a pool, or unchanged if no overlay does."""
        change = self._changes.get(_PoolType(pool, instance_type.name))
        if change is None:
            return instance_type
        changed = instance_type.with_capacity(change.capacity) if change.capacity else instance_type
        offerings = tuple(_adjust_offering_price(offering, change.prices) for offering in instance_type.offerings)
        return replace(changed, offerings=offerings)


def _iter_validation_errors(overlay: NodeOverlay, well_known: frozenset[str]) -> Iterator[str]:
    """Yield, in Karpenter's words, the errors in an overlay's requirements and capacity."""
    for requirement in overlay.spec.requirements:
        faults = list(iter_requirement_errors(requirement.key, requirement.operator, requirement.values, well_known))
        if faults:
            yield f"invalid value: {'; '.join(faults)} in requirements, restricted"
        if requirement.operator == "NotIn" and not requirement.values:
            yield f"key {requirement.key} with operator {requirement.operator} must have a value defined"
    for name in sorted(PROTECTED_RESOURCES & overlay.spec.capacity.keys()):
        yield f"invalid capacity: {name} in resource, restricted"


def _find_affected_offerings(
    pool: NodePool, instance_type: InstanceType, required: Requirements, well_known: frozenset[str]
) -> list[Offering]:
    """Return the offerings of an instance type that an overlay with these requirements adjusts in a pool.

    The list is empty if the pool or the type does not meet the requirements.
    """
    pool_and_type = Requirements.from_list([LabelRequirement.from_operator(NODE_POOL, IN, (pool.metadata.name,))])
    pool_and_type.add(Requirements.from_labels(pool.spec.template.metadata.labels).values())
    pool_and_type.add(instance_type.requirements.values())
    if not pool_and_type.is_compatible_with(required):
        return []
    return [
        offering
        for offering in instance_type.offerings
        if required.is_compatible_with(offering.requirements, well_known)
    ]


def _adjust_offering_price(offering: Offering, prices: Mapping[str, _PriceChange]) -> Offering:
    """Return the offering with the price change of the overlays applied, or unchanged if there is none."""
    price_change = prices.get(str(offering.requirements))
    if price_change is None or not price_change.change:
        return offering
    return replace(offering, price=adjust_price(offering.price, price_change.change), overlaid=True)


def adjust_price(price: float, change: str) -> float:
    """Return the price after a change, which is a new price, a signed amount or a signed percentage.

    An amount or percentage never makes the price negative.

    >>> adjust_price(2.0, "-50%"), adjust_price(2.0, "-3"), adjust_price(2.0, "0.5")
    (1.0, 0, 0.5)
    """
    if not change.startswith(("+", "-")):
        return float(change)
    adjusted = price * (1 + float(change[:-1]) / 100) if change.endswith("%") else price + float(change)
    return adjusted if adjusted >= 0 else 0
