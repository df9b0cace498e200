"""NodeClaims that a scheduling run builds up pod by pod, and the capacity reservations that they hold.

Upstream: nodeclaim.go and reservationmanager.go in pkg/controllers/provisioning/scheduling (sigs.k8s.io/karpenter
v1.14.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.objects import Pod, Taint
from kschedctl.api.pod_requests import Quantities
from kschedctl.api.tolerations import is_tolerated
from kschedctl.autoscaling.karpenter.amounts import sum_quantities
from kschedctl.autoscaling.karpenter.daemons import DaemonGroup
from kschedctl.autoscaling.karpenter.go_order import compute_go_sort_order
from kschedctl.autoscaling.karpenter.instance_types import InstanceType
from kschedctl.autoscaling.karpenter.labels import CAPACITY_TYPE, HOSTNAME, RESERVATION_ID, RESERVED
from kschedctl.autoscaling.karpenter.option_filter import OptionFilter, filter_groups_by_ports
from kschedctl.autoscaling.karpenter.pod_data import PodData, Port
from kschedctl.autoscaling.karpenter.requirements import IN, LabelRequirement, Requirements
from kschedctl.autoscaling.karpenter.templates import ClaimTemplate
from kschedctl.autoscaling.karpenter.topology import RunTopology, TopologyRefusal

NOT_RESERVABLE = (
    "one or more instance types with compatible reserved offerings are available, but could not be reserved"
)
WOULD_LOSE_RESERVED = "satisfying updated nodeclaim constraints would remove all compatible reserved offering options"


@dataclass(frozen=True)
class ClaimRefusal:
    """A reason why a pod cannot join a NodeClaim."""

    reason: str
    final: bool = False
    """Whether the pod waits for reserved capacity, so that relaxing it does not help."""
    requirements: Requirements | None = None
    """The requirements that no instance type met, if that is the reason."""
    empty_label: str = ""
    """The topology key, if only the label's empty value keeps the pod away."""


class ClaimAcceptance(NamedTuple):
    """The state of a NodeClaim after a pod joins."""

    requirements: Requirements
    options: Bools
    """(T,) the instance types that remain."""
    reservations: tuple[str, ...]
    """Ids of the capacity reservations that the claim would hold."""


@dataclass(eq=False)
class RunSettings:
    """State and options shared by all NodeClaims of a run."""

    topology: RunTopology
    reservations: Reservations
    reserved_capacity: bool
    strict_reservations: bool
    """Whether a pod must not fall back to other capacity when reservations are exhausted."""
    ignores_preferences: bool
    relaxes_min_values: bool
    tolerates_prefer_no_schedule: bool
    """Whether relaxed pods finally tolerate PreferNoSchedule taints."""


@dataclass(eq=False)
class NewClaim:
    """A NodeClaim of a scheduling run with its pods."""

    template: ClaimTemplate
    groups: Sequence[DaemonGroup]
    host: str
    settings: RunSettings
    requirements: Requirements
    options: Bools
    """(T,) the instance types that it may still become."""
    requests: Quantities = field(default_factory=dict)
    """Summed requests of its pods."""
    amounts: dict[str, int] = field(default_factory=dict)
    """Summed requests of its pods in thousandths."""
    pods: list[Pod] = field(default_factory=list)
    ports: list[Port] = field(default_factory=list)
    held_reservations: tuple[str, ...] = ()
    """Ids of the capacity reservations that it holds."""
    min_values_relaxed: bool = False
    sorted_options: list[int] = field(default_factory=list)
    """Its instance types as they were last sorted by price."""

    @classmethod
    def from_template(
        cls, template: ClaimTemplate, groups: Sequence[DaemonGroup], host: str, settings: RunSettings, options: Bools
    ) -> NewClaim:
        """Create an empty NodeClaim from a template, with a placeholder hostname."""
        requirements = Requirements(template.requirements)
        requirements.add([LabelRequirement.from_operator(HOSTNAME, IN, (host,))])
        return cls(template, groups, host, settings=settings, requirements=requirements, options=options)

    def check_pod_fits(self, data: PodData, relax_min_values: bool = False) -> ClaimAcceptance | ClaimRefusal:
        """Return the state that the claim would have with the pod, or the reason why the pod cannot join.

        The pod's volumes may allow several alternatives, of which the first that works is taken. With
        ``relax_min_values``, unmet minValues are lowered.
        """
        if fault := describe_untolerated_taints(self.template.taints, data.pod):
            return ClaimRefusal(fault)
        well_known = self.template.well_known
        if fault := self.requirements.describe_conflict(data.requirements, well_known):
            return ClaimRefusal(f"incompatible requirements, {fault}")

        combined = self.requirements.combined_with(data.requirements)
        outcome: ClaimAcceptance | ClaimRefusal = ClaimRefusal("")
        for volumes in data.volumes or (Requirements(),):  # a pod without volumes has one alternative
            if fault := combined.describe_conflict(volumes, well_known):
                outcome = ClaimRefusal(f"incompatible volume requirements, {fault}")
                continue
            outcome = self._check_pod_fits_with_volumes(data, combined.combined_with(volumes), relax_min_values)
            if isinstance(outcome, ClaimAcceptance):
                return outcome
        return outcome

    def _check_pod_fits_with_volumes(
        self, data: PodData, requirements: Requirements, relax_min_values: bool
    ) -> ClaimAcceptance | ClaimRefusal:
        """Return the state that the claim would have with the pod, or the reason why the pod cannot join.

        ``requirements`` combine the requirements of the claim, the pod and its volumes.
        """
        topology = self.settings.topology
        narrowed = topology.narrow_requirements(data.pod, self.template.taints, data.strict, requirements)
        if isinstance(narrowed, TopologyRefusal):
            return ClaimRefusal(narrowed.message, empty_label=narrowed.empty_label)
        if fault := requirements.describe_conflict(narrowed, self.template.well_known):
            return ClaimRefusal(fault)
        requirements = requirements.combined_with(narrowed)
        options = self._filter_instance_types(data, requirements, relax_min_values)
        if isinstance(options, str):
            return ClaimRefusal(options, requirements=requirements)
        reservations = self._find_holdable_reservations(options, requirements)
        if isinstance(reservations, ClaimRefusal):
            return reservations
        return ClaimAcceptance(requirements, options, reservations)

    def _filter_instance_types(self, data: PodData, requirements: Requirements, relax_min_values: bool) -> Bools | str:
        """Return a (T,) mask of the instance types that can hold the claim's pods and this pod.

        If no type can, return the reason. With ``relax_min_values``, unmet minValues are lowered in ``requirements``.
        """
        option_filter = OptionFilter(self.template.columns, requirements)
        requests = _add_amounts(self.amounts, data.amounts)
        # Types with other DaemonSets have another overhead, so that each group of types is filtered by itself.
        for group in filter_groups_by_ports(self.groups, data.ports, self.ports):
            option_filter.add_daemon_group(
                group.types & self.options, _add_amounts(requests, group.amounts), group.overhead
            )
        if requirements.have_min_values:
            too_few = self.template.columns.find_unmet_min_values(option_filter.remaining, requirements)
            if too_few and not relax_min_values:
                return describe_unmet_min_values(too_few) + option_filter.describe_details(data.requests)
            for key, count in too_few.items():
                requirements.set_min_values(key, count)
        if not option_filter.remaining.any():
            return option_filter.describe_failure(data.requests, data.amounts)
        return option_filter.remaining

    def _find_holdable_reservations(self, options: Bools, requirements: Requirements) -> tuple[str, ...] | ClaimRefusal:
        """Return the ids of the reservations that the claim would hold with these instance types.

        With strict settings, return a refusal if the claim would lose the reservations that it holds, or if it could
        use reserved capacity but no capacity is left.
        """
        columns, settings = self.template.columns, self.settings
        if not settings.reserved_capacity or not columns.reserved.any():
            return ()
        chosen = columns.find_matching_offerings(requirements) & columns.reserved & options[columns.type_of]
        ids = [columns.offerings[index].reservation for index in np.flatnonzero(chosen).tolist()]
        free = tuple(id_ for id_ in ids if settings.reservations.can_reserve(self.host, id_))
        if settings.strict_reservations and not free:
            if ids:
                return ClaimRefusal(NOT_RESERVABLE, final=True)
            if self.held_reservations:
                return ClaimRefusal(WOULD_LOSE_RESERVED, final=True)
        return free

    def add_pod(self, data: PodData, acceptance: ClaimAcceptance) -> None:
        """Add an accepted pod, and account for its requests, topology, ports and reservations."""
        self.pods.append(data.pod)
        self.requirements, self.options = acceptance.requirements, acceptance.options
        self.requests = sum_quantities(self.requests, data.requests)
        self.amounts = _add_amounts(self.amounts, data.amounts)
        self.settings.topology.register_hosts((self.host,))
        self.settings.topology.record_placement(data.pod, self.template.taints, self.requirements)
        self.ports.extend(data.ports)
        self.settings.reservations.set_held_reservations(self.host, acceptance.reservations)
        self.held_reservations = acceptance.reservations

    def sort_options_by_price(self) -> list[int]:
        """Sort the remaining instance types by price, store them in ``sorted_options`` and return them.

        The order of equal prices depends on the previous order, because Go's sort is not stable.
        """
        initial_order = [index for group in self.groups for index in np.flatnonzero(group.types).tolist()]
        previous_order = self.sorted_options or initial_order
        remaining = [index for index in previous_order if self.options[index]]
        prices = self.template.columns.find_cheapest_prices(self.requirements)[remaining].tolist()
        self.sorted_options = [remaining[index] for index in compute_go_sort_order(prices)]
        return self.sorted_options

    def finalize_scheduling(self) -> None:
        """Prepare the claim for launching after its last pod was added.

        Remove the placeholder hostname, require the reservations that the claim holds, and add the requests of
        DaemonSet pods. These requests are the smallest among the claim's instance types.
        """
        self.requirements.pop(HOSTNAME, None)
        if self.held_reservations:
            self.requirements[CAPACITY_TYPE] = LabelRequirement.from_operator(CAPACITY_TYPE, IN, (RESERVED,))
            self.requirements.add([LabelRequirement.from_operator(RESERVATION_ID, IN, self.held_reservations)])
        overhead: Quantities = {}
        for group in self.groups:
            if (group.types & self.options).any():
                overhead = _find_common_smaller_amounts(overhead, group.overhead)
        self.requests = sum_quantities(self.requests, overhead)


def describe_untolerated_taints(taints: Sequence[Taint], pod: Pod) -> str:
    """Describe in Karpenter's words the taints that the pod does not tolerate, or return "" if it tolerates all."""
    tolerations = pod.spec.tolerations
    return "; ".join(
        f"did not tolerate taint (taint={taint})"
        for taint in taints
        if not is_tolerated(tolerations, taint, comparison_operators=True)
    )


def describe_unmet_min_values(too_few: Mapping[str, int]) -> str:
    """Describe in Karpenter's words the labels whose minValues are not met."""
    return f"minValues requirement is not met for label(s) (label(s)=[{' '.join(sorted(too_few))}])"


def _add_amounts(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    """Return the sum of two resource lists in thousandths."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
    return total


def _find_common_smaller_amounts(left: Quantities, right: Quantities) -> Quantities:
    """Return the smaller amount of each resource that is in both lists, or ``right`` if ``left`` is empty."""
    if not left:
        return right
    return {name: min(amount, right[name]) for name, amount in left.items() if name in right}


class Reservations:
    """The remaining capacity of each reservation in a run, and the reservations that each host holds."""

    def __init__(self, capacities: Mapping[str, int]) -> None:
        self.remaining = dict(capacities)
        self.held: dict[str, set[str]] = {}

    def can_reserve(self, host: str, reservation: str) -> bool:
        """Return whether the host already holds the reservation or the reservation has capacity left."""
        return reservation in self.held.get(host, ()) or self.remaining[reservation] > 0

    def set_held_reservations(self, host: str, reservations: Iterable[str]) -> None:
        """Make a host hold exactly these reservations, and adjust the remaining capacity of all that change."""
        requested = set(reservations)
        previous = self.held.get(host, set())
        for reservation in requested - previous:
            self.remaining[reservation] -= 1
        for reservation in previous - requested:
            self.remaining[reservation] += 1
        self.held[host] = requested


def find_reservation_capacities(types: Iterable[InstanceType]) -> dict[str, int]:
    """Return the capacity of each reservation by id. If offerings state different capacities, the smallest counts."""
    capacities: dict[str, int] = {}
    for instance_type in types:
        for offering in instance_type.offerings:
            if offering.capacity_type == RESERVED:
                smallest = capacities.get(offering.reservation, offering.reservation_capacity)
                capacities[offering.reservation] = min(smallest, offering.reservation_capacity)
    return capacities
