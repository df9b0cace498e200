"""Which nodes match the selectors by which storage says where it can be reached, each selector evaluated once.

Upstream: CheckNodeAffinity in staging/src/k8s.io/component-helpers/storage/volume/helpers.go and
MatchTopologySelectorTerms in pkg/apis/core/v1/helper/helpers.go (v1.36).
"""

from __future__ import annotations

import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.labels import IN, Requirement, Selector, build_selector, validate_requirement
from kschedctl.api.node_selector import compile_node_selector
from kschedctl.api.objects import TopologySelectorTerm, VolumeNodeAffinity
from kschedctl.snapshot.nodes import NodeColumns

_EQUALITY = frozenset(("in", "=", "=="))


class Topology:
    """Selectors against N nodes. There may be as many as nodes (local volumes), so none may cost Python work a node."""

    def __init__(self, nodes: NodeColumns) -> None:
        self.nodes = nodes
        self._codes: dict[str, dict[str, int]] = {}
        self._rows: dict[VolumeNodeAffinity | None, Rows] = {}

    def reach(self, affinity: VolumeNodeAffinity | None) -> Rows:
        """The rows from which a volume of this affinity can be used; without one, all.

        Upstream gives no name to the node that it matches, so ``matchFields`` always hold.
        """
        if affinity not in self._rows:
            mask = np.ones(len(self.nodes), np.bool_)
            if affinity is not None and affinity.required is not None:
                terms = compile_node_selector(affinity.required).terms
                mask = self._any([term.selector for term in terms if not term.errors])
            self._rows[affinity] = np.flatnonzero(mask)
        return self._rows[affinity]

    def reachable(self, affinity: VolumeNodeAffinity | None) -> Bools:
        """(N,): the same as a mask."""
        mask = np.zeros(len(self.nodes), np.bool_)
        mask[self.reach(affinity)] = True
        return mask

    def allowed(self, terms: tuple[TopologySelectorTerm, ...]) -> Bools:
        """(N,): the nodes in the topologies that a class allows: any where it names none, empty terms allow none."""
        if not terms:
            return np.ones(len(self.nodes), np.bool_)
        alternatives = []
        for term in terms:
            requirements = [Requirement(r.key, IN, r.values) for r in term.match_label_expressions]
            if requirements and not any(validate_requirement(r.key, r.operator, r.values) for r in requirements):
                alternatives.append(build_selector(requirements))
        return self._any(alternatives)

    def selected(self, wanted: Selector) -> Bools:
        """(N,): the nodes whose labels the selector matches."""
        mask = np.full(len(self.nodes), not wanted.matches_nothing)
        for requirement in wanted.requirements:
            mask &= self._met(requirement)
        return mask

    def _any(self, alternatives: list[Selector]) -> Bools:
        mask = np.zeros(len(self.nodes), np.bool_)
        for alternative in alternatives:
            mask |= self.selected(alternative)
        return mask

    def _met(self, requirement: Requirement) -> Bools:
        """(N,): judged once for each value of the label; the last entry, where code -1 leads, is for its absence."""
        column = self.nodes.label(requirement.key)
        met = np.zeros(len(column.values) + 1, np.bool_)
        if requirement.operator in _EQUALITY:
            codes = self._codes.setdefault(requirement.key, {})
            if len(codes) < len(column.values):
                codes.update({value: code for code, value in enumerate(column.values)})
            met[[codes[value] for value in requirement.values if value in codes]] = True
        else:
            met[:-1] = [requirement.matches({requirement.key: value}) for value in column.values]
            met[-1] = requirement.matches({})
        return met[column.codes]
