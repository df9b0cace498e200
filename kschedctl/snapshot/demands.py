"""The resources that nodes offer and pods request, as matrices with one column per resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from kschedctl.api import resource_names as names
from kschedctl.api.arrays import Amounts
from kschedctl.api.objects import Node
from kschedctl.api.pod_requests import parse_quantities
from kschedctl.api.quantity import QuantityError
from kschedctl.errors import InputError
from kschedctl.snapshot.nodes import NodeColumns
from kschedctl.snapshot.pod_info import PodInfo, to_amounts
from kschedctl.snapshot.pods import PodColumns


class Demands:
    """R resources of the nodes and pods of a snapshot, in millicores, bytes or units. Properties raise InputError."""

    def __init__(self, nodes: NodeColumns, pods: PodColumns) -> None:
        self._nodes, self._pods = nodes, pods

    @cached_property
    def resources(self) -> dict[str, int]:
        """Resource name -> column."""
        resource_names = dict.fromkeys((names.CPU, names.MEMORY, names.EPHEMERAL_STORAGE, names.PODS))
        for offer in self._offers:
            resource_names.update(dict.fromkeys(offer))
        for info in self._distinct:
            resource_names.update(dict.fromkeys(info.requests))
        return {name: column for column, name in enumerate(resource_names)}

    @cached_property
    def allocatable(self) -> Amounts:
        """(N, R): what each node offers."""
        return self.build_matrix(self._offers)

    @cached_property
    def requests(self) -> Amounts:
        """(T, R): what each distinct pod requests, with 1 in the column of pods."""
        matrix = self.build_matrix([info.requests for info in self._distinct])
        matrix[:, self.resources[names.PODS]] = 1
        return matrix[self._pods.distinct.demand]

    @cached_property
    def nonzero_requests(self) -> Amounts:
        """(T, R): requests with a default for containers without CPU or memory requests."""
        return self.build_matrix([info.nonzero_requests for info in self._distinct])[self._pods.distinct.demand]

    def build_matrix(self, rows: Sequence[Mapping[str, int]]) -> Amounts:
        """Convert amounts by resource name, one mapping per row, to an int64 matrix with R columns."""
        matrix = np.zeros((len(rows), len(self.resources)), np.int64)
        for i, row in enumerate(rows):
            for name, amount in row.items():
                matrix[i, self.resources[name]] = amount
        return matrix

    def build_offers(self, nodes: Sequence[Node]) -> Amounts:
        """Return the amounts of the known resources that these nodes offer, (K, R). Raises InputError."""
        rows = []
        for node in nodes:
            offer = compute_offer(node)
            rows.append({name: amount for name, amount in offer.items() if name in self.resources})
        return self.build_matrix(rows)

    @property
    def _distinct(self) -> list[PodInfo]:
        """One PodInfo for each distinct set of requests."""
        return self._pods.distinct.demands

    @cached_property
    def _offers(self) -> list[dict[str, int]]:
        """The amounts that each node offers, by resource name."""
        offer_by_amounts: dict[tuple[tuple[str, object], ...], dict[str, int]] = {}
        offers = []
        for node in self._nodes.objects:  # nodes of the same shape offer the same
            key = tuple(node.status.allocatable.items())
            if key not in offer_by_amounts:
                offer_by_amounts[key] = compute_offer(node)
            offers.append(offer_by_amounts[key])
        return offers


def compute_offer(node: Node) -> dict[str, int]:
    """Return the amounts that a node offers, in millicores, bytes or units. Raises InputError."""
    try:
        return to_amounts(parse_quantities(node.status.allocatable))
    except QuantityError as error:
        location = f"Node {node.metadata.name}, status.allocatable"
        raise InputError(error.what, where=location, hint=error.hint) from None
