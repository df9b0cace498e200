"""Filter of a claim's instance types by requirements, resources and offerings, with Karpenter's error messages.

Upstream: filterInstanceTypesByRequirements, InstanceTypeFilterError in
pkg/controllers/provisioning/scheduling/nodeclaim.go (sigs.k8s.io/karpenter v1.14.1), from which the messages are
copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.pod_requests import Quantities
from kschedctl.autoscaling.karpenter.amounts import (
    Amounts,
    find_largest_amounts,
    find_smallest_amounts,
    render_quantities,
    sum_quantities,
)
from kschedctl.autoscaling.karpenter.daemons import DaemonGroup
from kschedctl.autoscaling.karpenter.pod_data import Port, has_port_conflict
from kschedctl.autoscaling.karpenter.requirements import Requirements
from kschedctl.autoscaling.karpenter.type_columns import TypeColumns

MILLION = 10**9
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


@dataclass(eq=False)
class OptionFilter:
    """A filter of instance types that is applied per DaemonGroup and remembers why no type remains."""

    columns: TypeColumns
    requirements: Requirements
    remaining: Bools = field(init=False)
    """(T,) the instance types that meet everything."""
    any_compatible: bool = False
    """Whether any type so far met the requirements."""
    any_fits: bool = False
    """Whether any type so far was offered and had enough resources."""
    any_offered: bool = False
    """Whether any type so far was offered."""
    any_only_incompatible: bool = False
    """Whether any type so far failed only because of the requirements."""
    any_only_too_small: bool = False
    """Whether any type so far failed only because of its resources."""
    overheads: list[Quantities] = field(default_factory=list)
    """Overhead of each DaemonGroup that has some."""

    def __post_init__(self) -> None:
        self.remaining = np.zeros(len(self.columns), np.bool_)

    def add_daemon_group(self, types: Bools, requests: Amounts, overhead: Quantities) -> None:
        """Filter the instance types of one DaemonGroup, and add the types that meet everything to ``remaining``.

        ``types`` is a (T,) mask. ``requests`` include the group's overhead.
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
        text += self.describe_details(requests)
        is_only_too_large = self.any_compatible and self.any_offered and not self.any_fits
        if is_only_too_large and amounts.get("cpu", 0) >= MILLION:
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

    def describe_details(self, requests: Quantities) -> str:
        """Describe the requirements and resources that the instance types were checked against."""
        return f", requirements={self.requirements}, resources={self._render_requests_with_overhead(requests)}"

    def _render_requests_with_overhead(self, requests: Quantities) -> str:
        """Render the requests plus the DaemonSets' overhead, as min and max if the overhead differs between types."""
        if not self.overheads:
            return render_quantities(requests)
        smallest_overhead = find_smallest_amounts(self.overheads)
        if not smallest_overhead:
            return render_quantities(requests)
        minimum = render_quantities(sum_quantities(smallest_overhead, requests))
        maximum = render_quantities(sum_quantities(find_largest_amounts(self.overheads), requests))
        return minimum if minimum == maximum else f"min={minimum}, max={maximum}"


def filter_groups_by_ports(
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
