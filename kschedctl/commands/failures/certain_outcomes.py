"""A replay of a failure that stops as soon as it is certain which of the remaining pods get a node.

A replay decides which node each pod gets. Most reports need to know only whether it gets one. `kschedctl/replay/
certain_fits.py` has the proofs. They hold for any order of the pods.

A proof at the start of the replay also holds before the lost nodes are deleted, unless a spread constraint has a domain
in which only lost nodes are left. Terminating pods take no room on other nodes, are not counted for spreading, and only
help required affinity. Their anti-affinity matters only on the lost nodes, since anti-affinity in larger domains proves
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Position
from kschedctl.replay.certain_fits import FitProver
from kschedctl.replay.parallel import report_parts
from kschedctl.replay.settling import explain_with_victims, schedule_with_victims
from kschedctl.replay.shared_cluster import SharedCluster
from kschedctl.scheduler.engine.cycle import run_pre_filter
from kschedctl.scheduler.framework import Code, PluginError, Reads, get_answer_dependency
from kschedctl.scheduler.simulation.outcome import NOT_TRIED, SCHEDULED, UNSCHEDULABLE, Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork


class LossOutcomes(NamedTuple):
    """The outcomes of all pods of a failure, in the order of the queue, with the pods that fit nowhere last."""

    outcomes: list[Outcome]
    has_all_places: bool
    """True if all pods were replayed. Otherwise, some outcomes have any node on which the pod might fit."""
    hold_before_deletion: bool = False
    """True if the same pods surely get a node before the lost nodes are deleted."""


def schedule_until_certain(
    shared: SharedCluster,
    simulation: Simulation,
    is_lost_node: Bools,
    recreated: Sequence[Position],
    *,
    needs_places: bool = False,
) -> LossOutcomes:
    """Schedule the recreated pods until the other pods surely get a node or surely get none, and return all outcomes.

    `simulation` is the cluster after the loss of the nodes in the mask (N,). With `needs_places`, all pods that may get
    a node are scheduled.
    """
    prover = FitProver(shared, simulation, is_lost_node)
    if not prover.is_applicable:
        return LossOutcomes(schedule_with_victims(simulation, recreated, report_parts), has_all_places=True)

    order = simulation.sort_for_queue(recreated)
    for position in order:
        simulation.find_framework(position)  # records what is unknown about the profile, as an attempt does

    # Pods that are rejected for good need no attempt.
    rejected = [position for position in order if _is_rejected_for_good(prover, simulation, position)]
    rejected_outcomes = [Outcome(position, UNSCHEDULABLE) for position in rejected]
    rejected_set = frozenset(rejected)
    candidates = [position for position in recreated if position not in rejected_set]
    is_certain = None
    if not needs_places:
        is_certain = prover.build_stop_rule([position for position in order if position not in rejected_set])
    latest = simulation.schedule(candidates, report_parts, is_certain)
    untried = [outcome.position for outcome in latest if outcome.verdict == NOT_TRIED]
    if not untried or simulation.interrupted:
        latest += rejected_outcomes
        return LossOutcomes(explain_with_victims(simulation, _sort_unplaced_pods(latest, order)), has_all_places=True)

    # The untried pods get a node.
    outcomes = [outcome for outcome in latest if outcome.verdict != NOT_TRIED]
    outcomes += [Outcome(position, SCHEDULED, row=prover.find_possible_row(position)) for position in untried]
    report_parts(len(untried))
    outcomes += simulation.explain(rejected_outcomes)
    is_none_tried = len(untried) == len(candidates)
    spread_keys = {key for position in untried if (key := prover.get_kind(position).spread_key)}
    hold_before_deletion = is_none_tried and _has_every_domain(shared.scheduler.view, is_lost_node, spread_keys)
    return LossOutcomes(outcomes, has_all_places=False, hold_before_deletion=hold_before_deletion)


def _sort_unplaced_pods(outcomes: Sequence[Outcome], order: Sequence[Position]) -> list[Outcome]:
    """Return the outcomes with the Unschedulable pods last, in the `order` of the queue."""
    unschedulable = {outcome.position: outcome for outcome in outcomes if outcome.verdict == UNSCHEDULABLE}
    other_outcomes = [outcome for outcome in outcomes if outcome.verdict != UNSCHEDULABLE]
    return other_outcomes + [unschedulable[position] for position in order if position in unschedulable]


def _has_every_domain(view: Fork, is_lost_node: Bools, keys: Iterable[str]) -> bool:
    """Return whether each domain of these topology keys still has a node without the nodes in the mask (N,)."""
    for key in keys:
        domains = view.nodes.label(key)
        remaining = (domains.present & ~is_lost_node).nonzero()[0]
        if np.count_nonzero(domains.count_rows(remaining)) < domains.occupied:
            return False
    return True


def _is_rejected_for_good(prover: FitProver, simulation: Simulation, position: Position) -> bool:
    """Return whether a PreFilter plugin rejects the pod, no matter which pods run where."""
    kind = prover.find_kind(position)
    fits_some_node = kind is not None and kind.fits is not None
    if kind is None or fits_some_node:
        return False
    plugins = kind.framework.plugins_at("preFilter")
    try:
        pre_filter = run_pre_filter(plugins, simulation.build_arriving_info(position), simulation.view)
    except PluginError:
        return False
    if pre_filter.status.code is not Code.UNRESOLVABLE:  # preemption might help then
        return False
    deciding = next((plugin for plugin in plugins if plugin.name == pre_filter.plugin), None)
    return deciding is not None and get_answer_dependency(deciding, pre_filter.results[deciding.name]) is Reads.NODES
