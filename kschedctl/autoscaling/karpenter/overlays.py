"""NodeOverlays, which adjust prices and add resources to the instance types of pools.

Upstream: pkg/controllers/nodeoverlay/controller.go, store.go, pkg/apis/v1alpha1/nodeoverlay.go (sigs.k8s.io/karpenter
v1.14.1). Overlays are applied by descending weight and then by descending name. The first overlay that sets a price or
a resource wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kschedctl.api.karpenter import NodeOverlay, NodePool
from kschedctl.api.pod_requests import Quantities, parse_quantities
from kschedctl.autoscaling.karpenter.instance_types import InstanceType, Offering
from kschedctl.autoscaling.karpenter.labels import NODE_POOL
from kschedctl.autoscaling.karpenter.requirements import IN, LabelRequirement, Requirements
from kschedctl.autoscaling.karpenter.validation import iter_requirement_errors

SUCCEEDED, CONFLICT, INVALID = "ValidationSucceeded", "Conflict", "RuntimeValidation"
CONFLICTS = "conflict with another overlay"
PROTECTED_RESOURCES = frozenset(("cpu", "memory", "ephemeral-storage", "pods"))
"""Resources that overlays may not set."""


@dataclass(eq=False)
class _Change:
    """Adjustments of one instance type in one pool."""

    prices: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Requirements of an offering as text -> price change, and weight of the last overlay that named it."""
    capacity: Quantities = field(default_factory=dict)
    last: tuple[frozenset[str], int] = (frozenset(), 0)
    """Resources and weight of the last overlay."""


@dataclass(eq=False)
class AppliedOverlays:
    """The effects of all overlays on the pools' instance types."""

    verdicts: dict[str, tuple[str, str]]
    """Overlay -> reason and message, sorted by name."""
    _changes: dict[tuple[str, str], _Change]

    @classmethod
    def apply_overlays(
        cls,
        overlays: Sequence[NodeOverlay],
        pools: Sequence[NodePool],
        types: Sequence[InstanceType],
        well_known: frozenset[str],
    ) -> AppliedOverlays:
        """Apply all overlays. An overlay that is invalid or conflicts with another one is not applied."""
        applied = cls({}, {})
        by_name = sorted(overlays, key=lambda overlay: overlay.metadata.name, reverse=True)
        for overlay in sorted(by_name, key=lambda overlay: -(overlay.spec.weight or 0)):
            applied.verdicts[overlay.metadata.name] = applied._apply_overlay(overlay, pools, types, well_known)
        applied.verdicts = dict(sorted(applied.verdicts.items()))
        return applied

    def adjust_types(self, pool: str, types: Sequence[InstanceType]) -> tuple[InstanceType, ...]:
        """Return the instance types with the changes that the overlays make for a pool."""
        return tuple(self._adjust_type(pool, instance_type) for instance_type in types)

    def _apply_overlay(
        self, overlay: NodeOverlay, pools: Sequence[NodePool], types: Sequence[InstanceType], well_known: frozenset[str]
    ) -> tuple[str, str]:
        """Apply one overlay, and return its verdict as a reason and a message."""
        if faults := list(_iter_validation_errors(overlay, well_known)):
            return INVALID, "; ".join(faults)
        spec = overlay.spec
        required = Requirements.from_list(
            LabelRequirement.from_operator(r.key, r.operator, r.values) for r in spec.requirements
        )
        affected = [
            ((pool.metadata.name, instance_type.name), offerings)
            for pool in pools
            for instance_type in types
            if (offerings := _find_affected_offerings(pool, instance_type, required, well_known))
        ]
        price = spec.price if spec.price is not None else spec.price_adjustment
        weight = spec.weight or 0
        capacity = parse_quantities(spec.capacity)
        if any(
            self._conflicts_with_applied_overlay(key, offerings, price, capacity, weight) for key, offerings in affected
        ):
            return CONFLICT, CONFLICTS
        for key, offerings in affected:
            self._store_change(key, offerings, price, capacity, weight)
        return SUCCEEDED, ""

    def _conflicts_with_applied_overlay(
        self, key: tuple[str, str], offerings: Sequence[Offering], price: str | None, capacity: Quantities, weight: int
    ) -> bool:
        """Return whether an applied overlay of the same weight has set one of the prices or resources."""
        change = self._changes.get(key)
        if change is None:
            return False
        names, last = change.last
        if capacity and last == weight and not names.isdisjoint(capacity):
            return True
        texts = [str(offering.requirements) for offering in offerings] if price is not None else []
        return any(text in change.prices and change.prices[text][1] == weight for text in texts)

    def _store_change(
        self, key: tuple[str, str], offerings: Sequence[Offering], price: str | None, capacity: Quantities, weight: int
    ) -> None:
        """Record the price and capacity that an overlay sets, without replacing recorded ones."""
        if price is None and not capacity:
            return
        change = self._changes.setdefault(key, _Change())
        if price is not None:
            for text in (str(offering.requirements) for offering in offerings):
                first, _ = change.prices.get(text, (price, weight))
                change.prices[text] = (first, weight)
        if capacity:
            change.capacity = {**capacity, **change.capacity}
            change.last = frozenset(capacity), weight

    def _adjust_type(self, pool: str, instance_type: InstanceType) -> InstanceType:
        """Return the instance type with the changes that overlays make in a pool."""
        change = self._changes.get((pool, instance_type.name))
        if change is None:
            return instance_type
        changed = instance_type.with_capacity(change.capacity) if change.capacity else instance_type
        return replace(changed, offerings=tuple(_adjust_offering(o, change.prices) for o in instance_type.offerings))


def _iter_validation_errors(overlay: NodeOverlay, well_known: frozenset[str]) -> Iterator[str]:
    """Yield the validation errors of an overlay."""
    for requirement in overlay.spec.requirements:
        faults = list(iter_requirement_errors(requirement.key, requirement.operator, requirement.values, well_known))
        if faults:
            yield f"invalid value: {'; '.join(faults)} in requirements, restricted"
        if requirement.operator == "NotIn" and not requirement.values:
            yield f"key {requirement.key} with operator {requirement.operator} must have a value defined"
    for name in sorted(PROTECTED_RESOURCES & overlay.spec.capacity.keys()):
        yield f"invalid capacity: {name} in resource, restricted"


def _find_affected_offerings(
    pool: NodePool, instance_type: InstanceType, wanted: Requirements, well_known: frozenset[str]
) -> list[Offering]:
    """Return the offerings of an instance type that an overlay with these requirements adjusts in a pool."""
    pool_and_type = Requirements.from_list([LabelRequirement.from_operator(NODE_POOL, IN, (pool.metadata.name,))])
    pool_and_type.add(Requirements.from_labels(pool.spec.template.metadata.labels).values())
    pool_and_type.add(instance_type.requirements.values())
    if not pool_and_type.compatible(wanted):
        return []
    return [o for o in instance_type.offerings if wanted.compatible(o.requirements, well_known)]


def _adjust_offering(offering: Offering, prices: Mapping[str, tuple[str, int]]) -> Offering:
    """Return the offering with the price that overlays give it."""
    change, _ = prices.get(str(offering.requirements), ("", 0))
    if not change:
        return offering
    return replace(offering, price=adjust_price(offering.price, change), overlaid=True)


def adjust_price(price: float, change: str) -> float:
    """Apply a price change, which is a new price, a signed amount or a signed percentage.

    The result is never negative.

    >>> adjust_price(2.0, "-50%"), adjust_price(2.0, "-3"), adjust_price(2.0, "0.5")
    (1.0, 0, 0.5)
    """
    if not change.startswith(("+", "-")):
        return float(change)
    adjusted = price * (1 + float(change[:-1]) / 100) if change.endswith("%") else price + float(change)
    return adjusted if adjusted >= 0 else 0
