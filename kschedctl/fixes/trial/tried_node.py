"""A node in a trial: what stands against it, and what remedies know of the plugin that does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kschedctl.api.arrays import Ints, Row
from kschedctl.api.objects import PodSpec
from kschedctl.fixes.trial.changes import Fix
from kschedctl.fixes.trial.trials import RemedyTrial
from kschedctl.scheduler.engine.cycle import Cycle, Verdicts
from kschedctl.scheduler.engine.pre_filter import selected_by_name
from kschedctl.scheduler.framework import Rejection
from kschedctl.scheduler.registry.facts import AnyFact, to_fact
from kschedctl.snapshot.node_order import HOSTNAME

NODE_NAME_FIELD = "metadata.name"


class NodeRefusal(NamedTuple):
    """What a plugin has against a node."""

    plugin: str
    reason: str
    fact: AnyFact | None
    rejection: Rejection | None = None


@dataclass(frozen=True)
class TriedNode:
    """A node, or where there is none to speak of all of them, in a trial; a change is looked for there."""

    trial: RemedyTrial
    row: Row | None

    @property
    def cycle(self) -> Cycle:
        assert self.trial.cycle is not None
        return self.trial.cycle

    @property
    def at(self) -> Row:
        """The row of a tried that is a node."""
        assert self.row is not None
        return self.row

    def refusals(self) -> list[NodeRefusal]:
        """What stands against the node, in the profile's order; what PreFilter says against all nodes comes alone."""
        if self.trial.cycle is None:
            return []
        outcome = self.cycle.pre_filter
        if outcome.status.rejected and outcome.plugin:
            result = outcome.results[outcome.plugin]
            return [NodeRefusal(outcome.plugin, reason, to_fact(result.fact)) for reason in outcome.status.reasons]
        if self.row is None:
            return []
        node_refusals = [
            NodeRefusal(plugin, rejection.reason, _fact(rejection, self.row), rejection)
            for plugin, verdict in self._verdicts(self.row).items()
            for rejection in verdict.rejections
            if rejection.mask[self.row]
        ]
        if not selected_by_name(outcome, self.cycle.view)[self.row]:
            refusing = {refusal.plugin for refusal in node_refusals}
            node_refusals += [NodeRefusal(plugin, "", None) for plugin in outcome.narrowed_by if plugin not in refusing]
        return node_refusals

    def _verdicts(self, row: Row) -> Verdicts:
        outcome = self.cycle.filter
        return outcome.with_nominated if outcome.by_nominated[row] else outcome.verdicts


def _fact(rejection: Rejection, row: Row) -> AnyFact | None:
    return to_fact(rejection.fact(row)) if rejection.fact else None


def label_keys(cycle: Cycle) -> set[str]:
    """The labels of nodes that the pod's own constraints name."""
    spec = cycle.info.spec
    keys = label_keys_of_node_selection(spec)
    keys |= {constraint.topology_key for constraint in spec.topology_spread_constraints}
    for terms in (cycle.info.required_affinity, cycle.info.required_anti_affinity):
        keys |= {term.topology_key for term in terms}
    return keys


def label_keys_of_node_selection(spec: PodSpec) -> set[str]:
    """Return the labels that the pod's nodeSelector and required node affinity name."""
    own = spec.affinity.node_affinity if spec.affinity else None
    required = own.required_during_scheduling_ignored_during_execution if own else None
    terms = required.node_selector_terms if required else ()
    return {*spec.node_selector, *(requirement.key for term in terms for requirement in term.match_expressions)}


def find_missing_host_with_data(trial: RemedyTrial, key: str, values: Iterable[str]) -> str:
    """Return the host that the values name and that is gone, if the pod has files there, empty for none.

    ``key``: the hostname label or the field metadata.name. Only hostPath volumes are looked at: a claim's local volume
    keeps the pod from other hosts by itself.
    """
    if key not in (HOSTNAME, NODE_NAME_FIELD) or trial.cycle is None:
        return ""
    if not any(volume.host_path is not None for volume in trial.pod.spec.volumes):
        return ""
    nodes = trial.scheduler.view.nodes
    known = nodes.index if key == NODE_NAME_FIELD else nodes.label(HOSTNAME).values
    hosts = list(values)
    return hosts[0] if hosts and not any(host in known for host in hosts) else ""


Way = Callable[[TriedNode, NodeRefusal], Iterator[Fix]]
"""What could be done on a node about a refusal."""


def _no_columns(cycle: Cycle) -> Iterable[Ints]:
    return ()


class PluginRemedies(NamedTuple):
    """What can be done about a plugin's refusals, and what the search for remedies has to know of them.

    ``ways`` in the order in which they are tried. ``clears_with``: a change that clears a refusal of this plugin may
    clear at once those of all plugins with the same word. ``indirect``: changes against other plugins may clear it
    besides, as which nodes count for it follows from the pod's node selection. ``facts_tell_all``: a fact that is the
    same after a change tells that the change did nothing. ``columns``, (N,) each: by what nodes that it refuses are
    told apart besides its reasons.
    """

    ways: tuple[Way, ...] = ()
    clears_with: str = ""
    indirect: bool = False
    facts_tell_all: bool = False
    columns: Callable[[Cycle], Iterable[Ints]] = _no_columns


NO_REMEDIES = PluginRemedies()
