"""A node in a trial, with its rejections, and what the search knows about the rejecting plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kschedctl.api.arrays import Ints, Row
from kschedctl.api.objects import PodSpec
from kschedctl.fixes.trial.changes import Fix
from kschedctl.fixes.trial.trials import RemedyTrial
from kschedctl.scheduler.engine.cycle import Cycle, Verdicts, mask_allowed_nodes
from kschedctl.scheduler.framework import Rejection
from kschedctl.scheduler.in_tree_plugins import AnyFact, to_fact
from kschedctl.snapshot.nodes import HOSTNAME

NODE_NAME_FIELD = "metadata.name"


class NodeRejection(NamedTuple):
    """A plugin's rejection of a node, or PreFilter's rejection of all nodes."""

    plugin: str
    reason: str
    """The plugin's reason as upstream words it; empty if PreFilter only left out the node."""
    fact: AnyFact | None
    """The figures behind the reason, or None if there are none."""


@dataclass(frozen=True)
class TrialNode:
    """A node of a trial, or the trial without a particular node, for which fixes are proposed."""

    trial: RemedyTrial
    row: Row | None
    """The row of the node, None for no particular node."""

    @property
    def stands_for_all_nodes(self) -> bool:
        """True if the rejections hold for all nodes, because PreFilter rejected the pod."""
        return self.row is None

    @property
    def cycle(self) -> Cycle:
        """The trial's cycle, which must exist."""
        assert self.trial.cycle is not None
        return self.trial.cycle

    @property
    def known_row(self) -> Row:
        """The row of the node, which must exist."""
        assert self.row is not None
        return self.row

    def find_rejections(self) -> list[NodeRejection]:
        """Return the node's rejections in the profile's order, or PreFilter's rejection if it rejects all nodes.

        Plugins that only left the node out in PreFilter come last, with an empty reason. The list is empty if no cycle
        was replayed or there is no particular node.
        """
        if self.trial.cycle is None:
            return []
        outcome = self.cycle.pre_filter
        if outcome.status.rejected and outcome.plugin:
            result = outcome.results[outcome.plugin]
            return [NodeRejection(outcome.plugin, reason, to_fact(result.fact)) for reason in outcome.status.reasons]
        if self.row is None:
            return []

        # Filter's rejections of the node, and plugins whose PreFilter left it out without another rejection.
        node_rejections = [
            NodeRejection(plugin, rejection.reason, _build_fact(rejection, self.row))
            for plugin, verdict in self._get_verdicts(self.row).items()
            for rejection in verdict.rejections
            if rejection.mask[self.row]
        ]
        if not mask_allowed_nodes(outcome, self.cycle.view)[self.row]:
            rejecting_plugins = {rejection.plugin for rejection in node_rejections}
            narrowing_plugins = [plugin for plugin in outcome.narrowed_by if plugin not in rejecting_plugins]
            node_rejections += [NodeRejection(plugin, reason="", fact=None) for plugin in narrowing_plugins]
        return node_rejections

    def _get_verdicts(self, row: Row) -> Verdicts:
        """Return the Filter verdicts that decided about the node. They consider nominated pods if these matter."""
        outcome = self.cycle.filter
        return outcome.with_nominated if outcome.by_nominated[row] else outcome.verdicts


def _build_fact(rejection: Rejection, row: Row) -> AnyFact | None:
    """Return the fact that explains the rejection of the node, or None if there is none."""
    return to_fact(rejection.fact(row)) if rejection.fact else None


def collect_scheduling_label_keys(cycle: Cycle) -> set[str]:
    """Collect the node label keys in the pod's node selection, spread constraints and required pod (anti-)affinity."""
    spec = cycle.info.spec
    keys = collect_node_selection_keys(spec)
    keys |= {constraint.topology_key for constraint in spec.topology_spread_constraints}
    for terms in (cycle.info.required_affinity, cycle.info.required_anti_affinity):
        keys |= {term.topology_key for term in terms}
    return keys


def collect_node_selection_keys(spec: PodSpec) -> set[str]:
    """Collect the keys of the node labels that the pod's nodeSelector and required node affinity name."""
    node_affinity = spec.affinity.node_affinity if spec.affinity else None
    required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    terms = required.node_selector_terms if required else ()
    return {*spec.node_selector, *(requirement.key for term in terms for requirement in term.match_expressions)}


def find_missing_host_with_files(trial: RemedyTrial, key: str, values: Iterable[str]) -> str:
    """Return the first of the required hosts if none of them exists and the pod has hostPath volumes, otherwise "".

    `key` and `values` are a required label or field of nodes. Only the hostname label and the field metadata.name can
    name a host. A claim's local volume is not considered, as it pins the pod by itself.
    """
    names_hosts = key in (HOSTNAME, NODE_NAME_FIELD)
    if not names_hosts or trial.cycle is None:  # without a cycle, nothing was scheduled
        return ""
    if not any(volume.host_path is not None for volume in trial.pod.spec.volumes):
        return ""
    nodes = trial.scheduler.view.nodes
    existing_hosts = nodes.index if key == NODE_NAME_FIELD else nodes.label(HOSTNAME).values
    hosts = list(values)
    if not hosts or any(host in existing_hosts for host in hosts):
        return ""
    return hosts[0]


ProposeFixes = Callable[[TrialNode, NodeRejection], Iterator[Fix]]
"""Proposes fixes for a rejection of a node."""


def _iter_no_columns(cycle: Cycle) -> Iterable[Ints]:
    """Return no columns."""
    return ()


class PluginRemedies(NamedTuple):
    """The functions that propose fixes for a plugin's rejections, and what the search must know about the plugin."""

    proposers: tuple[ProposeFixes, ...] = ()
    """Functions that propose fixes, in the order in which they are tried."""
    clears_with: str = ""
    """A word shared by plugins whose rejections one change may clear together; empty for this plugin alone."""
    indirect: bool = False
    """True if changes for other plugins may also clear its rejections."""
    facts_reveal_every_effect: bool = False
    """True if an unchanged fact shows that a change had no effect."""
    columns: Callable[[Cycle], Iterable[Ints]] = _iter_no_columns
    """Returns columns (N,) that tell rejected nodes apart beyond the reasons."""


NO_REMEDIES = PluginRemedies()
