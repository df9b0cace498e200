"""Instance types of a pool as columns, to check requirements, resources and offerings of all types at once.

Upstream: pkg/controllers/provisioning/scheduling/nodeclaim.go, pkg/cloudprovider/types.go (sigs.k8s.io/karpenter
v1.14.1), which check one type after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools
from kschedctl.api.pod_requests import Quantities
from kschedctl.autoscaling.karpenter.amounts import AmountColumns, Amounts, convert_to_thousandths
from kschedctl.autoscaling.karpenter.instance_types import InstanceType, Offering
from kschedctl.autoscaling.karpenter.labels import RESERVED
from kschedctl.autoscaling.karpenter.requirements import LabelRequirement, Requirements


class RequirementColumns:
    """R sets of requirements, stored so that sets that agree with other requirements are found quickly."""

    def __init__(self, rows: Sequence[Requirements]) -> None:
        self._count = len(rows)
        self._by_key: dict[str, dict[LabelRequirement, list[int]]] = {}
        for index, row in enumerate(rows):
            for key, requirement in row.items():
                self._by_key.setdefault(key, {}).setdefault(requirement, []).append(index)
        self._agreeing: dict[LabelRequirement, Bools] = {}

    def mask_agreeing_rows(self, requirements: Mapping[str, LabelRequirement]) -> Bools:
        """Return an (R,) mask of the rows whose requirements can be met together with ``requirements``.

        Labels on which only one side has a requirement are ignored.
        """
        agreeing = np.ones(self._count, np.bool_)
        for key, requirement in requirements.items():
            if key in self._by_key:
                agreeing &= self._mask_rows_agreeing_with_requirement(requirement)
        return agreeing

    def _mask_rows_agreeing_with_requirement(self, requirement: LabelRequirement) -> Bools:
        """Return an (R,) mask of the rows that agree with one requirement. The result is cached."""
        if requirement not in self._agreeing:
            agreeing = np.ones(self._count, np.bool_)
            for row_requirement, rows in self._by_key[requirement.key].items():
                if not row_requirement.agrees_with(requirement):
                    agreeing[rows] = False
            self._agreeing[requirement] = agreeing
        return self._agreeing[requirement]


class TypeColumns:
    """T instance types in order, with their O available offerings."""

    def __init__(self, types: Sequence[InstanceType]) -> None:
        self.types = tuple(types)
        self._requirements = RequirementColumns([instance_type.requirements for instance_type in self.types])
        self.allocatable = AmountColumns(
            [convert_to_thousandths(instance_type.allocatable) for instance_type in self.types]
        )
        self.capacity = AmountColumns([convert_to_thousandths(instance_type.capacity) for instance_type in self.types])
        offerings = []
        type_indexes = []
        for index, instance_type in enumerate(self.types):
            available = [offering for offering in instance_type.offerings if offering.available]
            offerings += available
            type_indexes += [index] * len(available)
        self.offerings: tuple[Offering, ...] = tuple(offerings)
        self.type_of: npt.NDArray[np.int64] = np.array(type_indexes, np.int64)
        """(O,) the row of the type that each offering belongs to."""
        self.prices: npt.NDArray[np.float64] = np.array([offering.price for offering in self.offerings], np.float64)
        self._terms = RequirementColumns([offering.requirements for offering in self.offerings])
        self._value_tables: dict[str, Bools] = {}

    def __len__(self) -> int:
        return len(self.types)

    @cached_property
    def row_by_name(self) -> dict[str, int]:
        """The row of each type, by the type's name."""
        return {instance_type.name: row for row, instance_type in enumerate(self.types)}

    @cached_property
    def reserved(self) -> Bools:
        """The offerings of reserved capacity, as an (O,) mask."""
        return np.array([offering.capacity_type == RESERVED for offering in self.offerings], np.bool_)

    def find_compatible_types(self, requirements: Mapping[str, LabelRequirement]) -> Bools:
        """Return a (T,) mask of the types whose labels agree with the requirements.

        Labels that a type does not have are ignored, and offerings are not checked.
        """
        return self._requirements.mask_agreeing_rows(requirements)

    def find_matching_offerings(self, requirements: Mapping[str, LabelRequirement]) -> Bools:
        """Return an (O,) mask of the offerings that meet the requirements."""
        return self._terms.mask_agreeing_rows(requirements)

    def find_offered_types(self, requirements: Mapping[str, LabelRequirement]) -> Bools:
        """Return a (T,) mask of the types with an offering that meets the requirements."""
        is_offered = np.zeros(len(self), np.bool_)
        is_offered[self.type_of[self.find_matching_offerings(requirements)]] = True
        return is_offered

    def find_fitting_types(self, requests: Amounts) -> Bools:
        """Return a (T,) mask of the types whose nodes have room for the requests."""
        return self.allocatable.mask_fitting_rows(requests)

    def compute_cheapest_prices(self, requirements: Mapping[str, LabelRequirement]) -> npt.NDArray[np.float64]:
        """Return each type's lowest price among the offerings that meet the requirements, as an array (T,).

        The price is infinite for types without such an offering.
        """
        prices = np.full(len(self), np.inf)
        chosen = self.find_matching_offerings(requirements)
        np.minimum.at(prices, self.type_of[chosen], self.prices[chosen])
        return prices

    def sort_types_by_price(self, mask: Bools, requirements: Mapping[str, LabelRequirement]) -> list[int]:
        """Return the rows of the types in ``mask``, sorted by lowest matching price, then by name."""
        prices = self.compute_cheapest_prices(requirements)
        return sorted(np.flatnonzero(mask).tolist(), key=lambda index: (prices[index], self.types[index].name))

    def count_distinct_label_values(self, mask: Bools, key: str) -> int:
        """Return how many distinct values of a label the types in ``mask`` have. The values of all types are cached."""
        if key not in self._value_tables:
            self._value_tables[key] = self._build_value_table(key)
        has_value = self._value_tables[key][mask].any(axis=0)
        return int(has_value.sum())

    def _build_value_table(self, key: str) -> Bools:
        """Build a boolean table (types, values) that says which values of a label each type allows."""
        values_by_type = [instance_type.requirements.get_requirement(key).values for instance_type in self.types]
        all_values = sorted(frozenset().union(*values_by_type))
        column_by_value = {value: column for column, value in enumerate(all_values)}
        table = np.zeros((len(self), len(all_values)), np.bool_)
        for row, type_values in enumerate(values_by_type):
            table[row, [column_by_value[value] for value in type_values]] = True
        return table

    def find_unmet_min_values(self, mask: Bools, requirements: Mapping[str, LabelRequirement]) -> dict[str, int]:
        """Return, by label, how many distinct values the types in ``mask`` have, if minValues is higher.

        Labels whose minValues is met are left out. The result is empty if ``mask`` contains no type.
        """
        if not mask.any():
            return {}
        min_values = {
            key: requirement.min_values
            for key, requirement in requirements.items()
            if requirement.min_values is not None
        }
        counts = {key: self.count_distinct_label_values(mask, key) for key in sorted(min_values)}
        return {key: count for key, count in counts.items() if count < min_values[key]}

    def compute_largest_capacity(self, mask: Bools) -> Quantities:
        """Return, for each resource, the largest capacity among the types in ``mask``, or {} if there is no type."""
        largest: Quantities = {}
        rows = np.flatnonzero(mask)
        if not len(rows):
            return largest
        for name in self.capacity.names:
            capacities = self.capacity.get_column(name)[rows]
            largest_type = self.types[rows[np.argmax(capacities)]]
            # The column has 0 for types without the resource. Exact quantities are read from the type itself
            if name in largest_type.capacity:
                largest[name] = largest_type.capacity[name]
        return largest


def find_capacity_types(columns: TypeColumns, mask: Bools, requirements: Requirements) -> frozenset[str]:
    """Return the known capacity types of the offerings that ``find_offerings`` returns."""
    offerings = find_offerings(columns, mask, requirements)
    return frozenset(offering.capacity_type for offering in offerings if offering.capacity_type)


def find_offerings(columns: TypeColumns, mask: Bools, requirements: Requirements) -> list[Offering]:
    """Return the offerings that belong to a type in ``mask`` and meet the requirements."""
    chosen = columns.find_matching_offerings(requirements) & mask[columns.type_of]
    return [columns.offerings[index] for index in np.flatnonzero(chosen).tolist()]
