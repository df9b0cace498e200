"""NodeClaims that a scheduling run builds up pod by pod, and the capacity reservations that they hold.

A claim keeps the instance types that its requirements, requests and offerings leave. Upstream: nodeclaim.go, from which
the error messages are copied, and reservationmanager.go in pkg/controllers/provisioning/scheduling
(sigs.k8s.io/karpenter v1.14.1).
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
from kschedctl.autoscaling.karpenter.amounts import (
    Amounts,
    compute_largest_amounts,
    compute_smallest_amounts,
    render_quantities,
    sum_quantities,
)
from kschedctl.autoscaling.karpenter.daemons import DaemonGroup
from kschedctl.autoscaling.karpenter.go_order import compute_go_sort_order
from kschedctl.autoscaling.karpenter.instance_types import InstanceType
from kschedctl.autoscaling.karpenter.labels import CAPACITY_TYPE, HOSTNAME, RESERVATION_ID, RESERVED
from kschedctl.autoscaling.karpenter.pod_data import PodData, Port, has_port_conflict
from kschedctl.autoscaling.karpenter.requirements import IN, LabelRequirement, Requirements
from kschedctl.autoscaling.karpenter.templates import ClaimTemplate
from kschedctl.autoscaling.karpenter.topology import RunTopology, TopologyRefusal
from kschedctl.autoscaling.karpenter.type_columns import TypeColumns

NOT_RESERVABLE = (
    "one or more instance types with compatible reserved offerings are available, but could not be reserved"
)
WOULD_LOSE_RESERVED = "satisfying updated nodeclaim constraints would remove all compatible reserved offering options"

_MILLION = 10**9
"""One million CPUs in thousandths. A pod that requests so many probably meant millicores."""
_MET = "met the scheduling requirements"
_MESSAGES = {
    (False, False, False): f"no instance type {_MET} or had enough resources or had a required offering",
    (False, False, True): f"no instance type {_MET} or had enough resources",
    (False, True, False): f"no instance type {_MET} or had a required offering",
    (True, False, False): "no instance type had enough resources or had a required offering",
    (False, True, True): "no instance type met all requirements",
    (True, False, True): "no instance type has enough resources",
    (True, True, False): "no instance type has the required offering",
}
"""Message by whether any type meets the requirements, has enough resources, and has an offering."""


@dataclass(frozen=True)
class ClaimRefusal:
    """A reason why a pod cannot join a NodeClaim."""

    reason: str
    final: bool = False
    """True if the pod waits for reserved capacity, so that relaxing it does not help."""
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
    """True if a pod must not fall back to other capacity when reservations are exhausted."""
    ignores_preferences: bool
    relaxes_min_values: bool
    tolerates_prefer_no_schedule: bool
    """True if relaxed pods finally tolerate PreferNoSchedule taints."""


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

    def check_pod_fits(self, data: PodData, *, relax_min_values: bool = False) -> ClaimAcceptance | ClaimRefusal:
        """Return the state that the claim would have with the pod, or the reason why the pod cannot join.

        The pod's volumes may allow several alternatives. The first that works is taken. If none works, the reason is
        that of the last one. With ``relax_min_values``, unmet minValues are lowered.
        """
        if fault := describe_untolerated_taints(self.template.taints, data.pod):
            return ClaimRefusal(fault)
        well_known = self.template.well_known
        if fault := self.requirements.describe_conflict(data.requirements, well_known):
            return ClaimRefusal(f"incompatible requirements, {fault}")

        combined = self.requirements.combined_with(data.requirements)
        refusals: list[ClaimRefusal] = []
        for volumes in data.volumes or (Requirements(),):  # a pod without volumes has one alternative
            if fault := combined.describe_conflict(volumes, well_known):
                refusals.append(ClaimRefusal(f"incompatible volume requirements, {fault}"))
                continue
            outcome = self._check_pod_fits_with_volumes(
                data, combined.combined_with(volumes), relax_min_values=relax_min_values
            )
            if isinstance(outcome, ClaimAcceptance):
                return outcome
            refusals.append(outcome)
        return refusals[-1]

    def _check_pod_fits_with_volumes(
        self, data: PodData, requirements: Requirements, *, relax_min_values: bool
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
        options = self._filter_instance_types(data, requirements, relax_min_values=relax_min_values)
        if isinstance(options, str):
            return ClaimRefusal(options, requirements=requirements)
        reservations = self._find_holdable_reservations(options, requirements)
        if isinstance(reservations, ClaimRefusal):
            return reservations
        return ClaimAcceptance(requirements, options, reservations)

    def _filter_instance_types(
        self, data: PodData, requirements: Requirements, *, relax_min_values: bool
    ) -> Bools | str:
        """Return a (T,) mask of the instance types that can hold the claim's pods and this pod.

        Return the reason if no type can, or if the types do not meet minValues. With ``relax_min_values``, unmet
        minValues are lowered in ``requirements`` instead.
        """
        option_filter = _OptionFilter(self.template.columns, requirements)
        requests = _add_amounts(self.amounts, data.amounts)
        # Types with other DaemonSets have another overhead, so each group of types is filtered separately.
        for group in _filter_groups_by_ports(self.groups, data.ports, self.ports):
            option_filter.add_daemon_group(
                group.types & self.options, _add_amounts(requests, group.amounts), group.overhead
            )
        if requirements.have_min_values:
            too_few = self.template.columns.find_unmet_min_values(option_filter.remaining, requirements)
            if too_few and not relax_min_values:
                return describe_unmet_min_values(too_few) + option_filter.describe_filter_criteria(data.requests)
            for key, count in too_few.items():
                requirements.set_min_values(key, count)
        if not option_filter.remaining.any():
            return option_filter.describe_failure(data.requests, data.amounts)
        return option_filter.remaining

    def _find_holdable_reservations(self, options: Bools, requirements: Requirements) -> tuple[str, ...] | ClaimRefusal:
        """Return the ids of the free reservations that the claim would hold with these instance types.

        With strict settings, return a refusal if the claim could use reserved capacity but no reservation is free, or
        if the claim would lose the reservations that it holds.
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
        previous_order = self.sorted_options
        if not previous_order:
            previous_order = [row for group in self.groups for row in np.flatnonzero(group.types).tolist()]
        remaining_rows = [row for row in previous_order if self.options[row]]
        price_by_row = self.template.columns.compute_cheapest_prices(self.requirements)
        order = compute_go_sort_order(price_by_row[remaining_rows].tolist())
        self.sorted_options = [remaining_rows[position] for position in order]
        return self.sorted_options

    def finalize_scheduling(self) -> None:
        """Prepare the claim for launching after its last pod has been added.

        Remove the placeholder hostname, require the reservations that the claim holds, and add the requests of
        DaemonSet pods. For each resource, add the smallest amount that the DaemonSet pods request on any remaining
        instance type.
        """
        self.requirements.pop(HOSTNAME, None)
        if self.held_reservations:
            self.requirements[CAPACITY_TYPE] = LabelRequirement.from_operator(CAPACITY_TYPE, IN, (RESERVED,))
            self.requirements.add([LabelRequirement.from_operator(RESERVATION_ID, IN, self.held_reservations)])
        smallest_overhead: Quantities = {}
        for group in self.groups:
            has_remaining_type = (group.types & self.options).any()
            if has_remaining_type:
                smallest_overhead = _find_common_smaller_amounts(smallest_overhead, group.overhead)
        self.requests = sum_quantities(self.requests, smallest_overhead)


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
    """Return the sum of two resource lists. A resource that only one of them has keeps its amount."""
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
        """Make a host hold exactly these reservations.

        The remaining capacity of each gained or lost reservation is adjusted.
        """
        requested = set(reservations)
        previous = self.held.get(host, set())
        for reservation in requested - previous:
            self.remaining[reservation] -= 1
        for reservation in previous - requested:
            self.remaining[reservation] += 1
        self.held[host] = requested


def collect_reservation_capacities(types: Iterable[InstanceType]) -> dict[str, int]:
    """Return the capacity of each reservation by id. If offerings state different capacities, the smallest counts."""
    capacities: dict[str, int] = {}
    for instance_type in types:
        for offering in instance_type.offerings:
            if offering.capacity_type == RESERVED:
                smallest = capacities.get(offering.reservation, offering.reservation_capacity)
                capacities[offering.reservation] = min(smallest, offering.reservation_capacity)
    return capacities


@dataclass(eq=False)
class _OptionFilter:
    """A filter of instance types that is applied per DaemonGroup and remembers why no type remains."""

    columns: TypeColumns
    requirements: Requirements
    remaining: Bools = field(init=False)
    """(T,) the instance types that meet everything."""
    any_compatible: bool = False
    """True if any type so far met the requirements."""
    any_fits: bool = False
    """True if any type so far was offered and had enough resources."""
    any_offered: bool = False
    """True if any type so far was offered."""
    any_only_incompatible: bool = False
    """True if any type so far failed only because of the requirements."""
    any_only_too_small: bool = False
    """True if any type so far failed only because of its resources."""
    overheads: list[Quantities] = field(default_factory=list)
    """Overhead of each DaemonGroup that has some."""

    def __post_init__(self) -> None:
        self.remaining = np.zeros(len(self.columns), np.bool_)

    def add_daemon_group(self, types: Bools, requests: Amounts, overhead: Quantities) -> None:
        """Filter the instance types of one DaemonGroup, and add the types that meet all criteria to ``remaining``.

        ``types`` is a (T,) mask. ``requests`` are in thousandths and include the group's ``overhead``. The overhead and
        the criteria that some type meets are recorded for the message about a failure.
        """
        if overhead:
            self.overheads.append(overhead)
        compatible = self.columns.find_compatible_types(self.requirements) & types
        offered = self.columns.find_offered_types(self.requirements) & types
        fits = self.columns.find_fitting_types(requests) & offered
        self.remaining |= compatible & fits
        self.any_compatible |= bool(compatible.any())
        self.any_fits |= bool(fits.any())
        self.any_offered |= bool(offered.any())
        self.any_only_incompatible |= bool((fits & ~compatible).any())
        self.any_only_too_small |= bool((compatible & offered & ~fits).any())

    def describe_failure(self, requests: Quantities, amounts: Amounts) -> str:
        """Describe in Karpenter's words why no instance type remains for a pod with these requests.

        ``amounts`` are the requests in thousandths.
        """
        criteria = self.any_compatible, self.any_fits, self.any_offered
        text = _MESSAGES.get(criteria) or self._describe_combined_failure()
        text += self.describe_filter_criteria(requests)
        is_only_too_large = self.any_compatible and self.any_offered and not self.any_fits
        if is_only_too_large and amounts.get("cpu", 0) >= _MILLION:
            text += " (CPU request >= 1 Million, m vs M typo?)"
        return text

    def _describe_combined_failure(self) -> str:
        """Describe in Karpenter's words that no type meets all criteria.

        This is used if each criterion is met by some types.
        """
        if self.any_only_incompatible:
            return f"no instance type which had enough resources and the required offering {_MET}"
        if self.any_only_too_small:
            return f"no instance type which {_MET} and the required offering had the required resources"
        return "no instance type met the requirements/resources/offering tuple"

    def describe_filter_criteria(self, requests: Quantities) -> str:
        """Describe the requirements and resources that the instance types were checked against."""
        return f", requirements={self.requirements}, resources={self._render_requests_with_overhead(requests)}"

    def _render_requests_with_overhead(self, requests: Quantities) -> str:
        """Render the requests plus the DaemonSets' overhead.

        The text has a minimum and a maximum if the overhead differs between instance types. The overhead is left out
        if no resource is part of every overhead.
        """
        smallest_overhead = compute_smallest_amounts(self.overheads) if self.overheads else {}
        if not smallest_overhead:  # like upstream, do not show the largest overhead without the smallest
            return render_quantities(requests)
        minimum = render_quantities(sum_quantities(smallest_overhead, requests))
        maximum = render_quantities(sum_quantities(compute_largest_amounts(self.overheads), requests))
        return minimum if minimum == maximum else f"min={minimum}, max={maximum}"


def _filter_groups_by_ports(
    groups: Iterable[DaemonGroup], ports: Sequence[Port], taken: Sequence[Port]
) -> list[DaemonGroup]:
    """Return the groups whose DaemonSets do not use the pod's host ports.

    ``taken`` are the host ports of the claim's other pods. If they conflict with the pod's ports, no group is returned.
    """
    groups = list(groups)
    if not ports:
        return groups
    if has_port_conflict(ports, taken):
        return []
    return [group for group in groups if not has_port_conflict(ports, group.ports)]
