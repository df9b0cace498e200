"""Evaluation of the node selectors of volumes and storage classes on all nodes, cached per selector."""

from __future__ import annotations

import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.labels import IN, Requirement, Selector, build_selector, validate_requirement
from kschedctl.api.node_selector import compile_node_selector
from kschedctl.api.objects import TopologySelectorTerm, VolumeNodeAffinity
from kschedctl.snapshot.nodes import NodeColumns

_EQUALITY = frozenset(("in", "=", "=="))


class VolumeReachability:
    """Evaluator of selectors on N nodes.

    There may be as many selectors as nodes (local volumes), so a selector must not cost Python work per node.
    """

    def __init__(self, nodes: NodeColumns) -> None:
        self.nodes = nodes
        self._codes_by_value: dict[str, dict[str, int]] = {}
        """The code of each value of a label, by label key."""
        self._rows_by_affinity: dict[VolumeNodeAffinity | None, Rows] = {}

    def find_reachable_rows(self, affinity: VolumeNodeAffinity | None) -> Rows:
        """Return the rows of the nodes from which a volume with this node affinity can be used. They are cached.

        A volume without an affinity (None) can be used from all nodes. As in upstream, matchFields are ignored.
        """
        if affinity not in self._rows_by_affinity:
            mask = np.ones(len(self.nodes), np.bool_)
            if affinity is not None and affinity.required is not None:
                # A term with an error matches no node. The `selector` of a term has only its matchExpressions.
                valid_terms = [term for term in compile_node_selector(affinity.required).terms if not term.errors]
                mask = self._find_nodes_selected_by_any([term.selector for term in valid_terms])
            self._rows_by_affinity[affinity] = np.flatnonzero(mask)
        return self._rows_by_affinity[affinity]

    def find_reachable_nodes(self, affinity: VolumeNodeAffinity | None) -> Bools:
        """Return a mask (N,) of the nodes from which a volume with this affinity can be used."""
        mask = np.zeros(len(self.nodes), np.bool_)
        mask[self.find_reachable_rows(affinity)] = True
        return mask

    def find_allowed_nodes(self, terms: tuple[TopologySelectorTerm, ...]) -> Bools:
        """Return a mask (N,) of the nodes that a storage class allows by the topologies in its `terms`.

        If there are no terms, all nodes are allowed. An empty or invalid term allows no node.
        """
        if not terms:
            return np.ones(len(self.nodes), np.bool_)
        alternatives = []
        for term in terms:
            requirements = [Requirement(r.key, IN, r.values) for r in term.match_label_expressions]
            if requirements and not any(validate_requirement(r.key, r.operator, r.values) for r in requirements):
                alternatives.append(build_selector(requirements))
        return self._find_nodes_selected_by_any(alternatives)

    def find_selected_nodes(self, selector: Selector) -> Bools:
        """Return a mask (N,) of the nodes whose labels the selector matches."""
        mask = np.full(len(self.nodes), not selector.matches_nothing)
        for requirement in selector.requirements:
            mask &= self._find_nodes_meeting_requirement(requirement)
        return mask

    def _find_nodes_selected_by_any(self, alternatives: list[Selector]) -> Bools:
        """Return a mask (N,) of the nodes that any of the selectors matches."""
        mask = np.zeros(len(self.nodes), np.bool_)
        for alternative in alternatives:
            mask |= self.find_selected_nodes(alternative)
        return mask

    def _find_nodes_meeting_requirement(self, requirement: Requirement) -> Bools:
        """Return a mask (N,) of the nodes whose labels meet the requirement.

        The requirement is evaluated once for each value of the label, and once for nodes without the label.
        """
        key = requirement.key
        column = self.nodes.label(key)
        is_met_by_code = np.zeros(len(column.values) + 1, np.bool_)  # the last entry is for code -1, without the label
        if requirement.operator in _EQUALITY:  # looked up, since there may be as many values as nodes
            if key not in self._codes_by_value:
                self._codes_by_value[key] = {value: code for code, value in enumerate(column.values)}
            codes = self._codes_by_value[key]
            is_met_by_code[[codes[value] for value in requirement.values if value in codes]] = True
        else:
            is_met_by_code[:-1] = [requirement.matches({key: value}) for value in column.values]
            is_met_by_code[-1] = requirement.matches({})
        return is_met_by_code[column.codes]
