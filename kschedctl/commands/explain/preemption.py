"""Report whether preemption could make room for a pod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from kschedctl.api.arrays import Bools, Position, find_distinct
from kschedctl.api.ownership import find_controller
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.report import CandidateReport, NoLowerPriority, PreemptionReport, VictimReport
from kschedctl.replay.pending_pods import describe_overdue_time
from kschedctl.reports.placements import FailedJob
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.diagnosis import PostFilterOutcome
from kschedctl.scheduler.engine.preemption.budgets import get_budgets
from kschedctl.scheduler.engine.preemption.candidates import Candidate
from kschedctl.scheduler.engine.preemption.evaluator import (
    Preemption,
    PreemptionPlugin,
    find_potential_nodes,
    find_preemption_plugins,
)
from kschedctl.scheduler.engine.preemption.victims import (
    find_interchangeable_pods,
    find_pods_with_equal_neighbours,
)
from kschedctl.scheduler.framework import Code, PluginError, PostFilterResult, Status
from kschedctl.scheduler.plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from kschedctl.snapshot.fork import Fork


def report_preemption(outcome: PostFilterOutcome, cycle: Cycle, cluster: Cluster) -> PreemptionReport | None:
    """Report what preemption would do for the pod, or return None if it could not run.

    If several plugins ran, the report is about the last one, which decided the outcome. If the profile has no
    preemption plugin, or if the framework stopped before PostFilter, the report says what a dry run finds.
    """
    view = cycle.view
    called_plugins = [plugin for plugin in find_preemption_plugins(cycle.framework) if plugin.name in outcome.results]
    plugin = called_plugins[-1] if called_plugins else _choose_preemption_plugin(cycle)
    result = outcome.results[plugin.name] if called_plugins else _dry_run_preemption(plugin, cycle)
    if not isinstance(result.report, Preemption):
        return None

    preemption = result.report
    names = view.nodes.names
    leaving = [view.pods.objects[position] for position in preemption.leaving]
    terminating = tuple(pod.key for pod in leaving)
    choice = preemption.choice
    tied = tuple(names[row] for row in choice.tied.row.tolist()) if choice else ()
    # Upstream picks one of the tied nodes at random; without wanted candidates, no node is chosen
    chosen = min(tied) if choice and preemption.wanted else None
    jobs_by_tied_node = _find_failing_jobs(tied, preemption, cycle) if chosen is not None else {}
    may_be_tied = find_pods_with_equal_neighbours(view, preemption.candidates.row)
    return PreemptionReport(
        asked=bool(called_plugins),
        plugin=plugin.name,
        eligible=preemption.eligible,
        why=preemption.why,
        candidates={
            names[candidate.row]: _report_candidate(candidate, view, cycle.info.priority, may_be_tied)
            for candidate in preemption.candidates
        },
        tied=tied,
        chosen=chosen,
        decided_by=choice.decided_by if choice else "",
        unhelpful=dict(preemption.nodes_by_reason),
        limit=preemption.wanted,
        nominated=cycle.info.pod.status.nominated_node_name if terminating else "",
        terminating=terminating,
        overdue=describe_overdue_time(cluster, leaving),
        no_lower_priority=_report_lack_of_lower_priorities(plugin, preemption, cycle),
        failed_jobs=jobs_by_tied_node.get(chosen, ()) if chosen is not None else (),
        failed_jobs_on_tied_nodes={node: jobs for node, jobs in jobs_by_tied_node.items() if node != chosen},
    )


def _find_failing_jobs(nodes: Iterable[str], preemption: Preemption, cycle: Cycle) -> dict[str, tuple[FailedJob, ...]]:
    """Find the Jobs that fail because preemption evicts the victims on a node, for each of the nodes with such Jobs."""
    from kschedctl.replay.controllers.job_failures import find_jobs_failed_by_evictions  # noqa: PLC0415 - only for preempting pods

    view = cycle.view
    victims_by_row = {candidate.row: candidate.victims for candidate in preemption.candidates}
    failed_jobs_by_node = {}
    for node in nodes:
        victims = [view.pods.objects[position] for position in victims_by_row[view.nodes.index[node]]]
        if failed_jobs := find_jobs_failed_by_evictions(view.cluster, victims):
            failed_jobs_by_node[node] = failed_jobs
    return failed_jobs_by_node


def _report_lack_of_lower_priorities(
    plugin: PreemptionPlugin, preemption: Preemption, cycle: Cycle
) -> NoLowerPriority | None:
    """Return the range of the evictable pods' priorities if none of them is lower than the pending pod's priority.

    A pod is evictable if it is on a node where evictions could help. Return None if there is no evictable pod, or if
    one has a lower priority. Also return None if preemption has a candidate or is not allowed, or if the plugin does
    not compare priorities.
    """
    if not preemption.eligible or len(preemption.candidates) or not plugin.by_priority:
        return None
    view = cycle.view

    # The positions of the pods on nodes where evictions could help, and the rows of these nodes
    may_help = find_potential_nodes(cycle)
    placed_pods = np.flatnonzero(view.mask_placed())
    is_evictable = may_help[view.node[placed_pods]]
    evictable_pods = placed_pods[is_evictable]
    if not len(evictable_pods):
        return None
    rows = find_distinct(view.node[evictable_pods], len(view.nodes))

    # Priorities are stored once for all pods with equal specs
    priorities = view.pods.get_priorities(evictable_pods)
    lowest = int(priorities.min())
    if lowest < cycle.info.priority:
        return None
    return NoLowerPriority(
        cycle.info.priority,
        lowest=lowest,
        highest=int(priorities.max()),
        nodes=len(rows),
        such_as=view.nodes.names[int(rows[0])],
    )


def _choose_preemption_plugin(cycle: Cycle) -> PreemptionPlugin:
    """Return the profile's first preemption plugin, or DefaultPreemption if the profile has none."""
    plugins = find_preemption_plugins(cycle.framework)
    if plugins:
        return plugins[0]
    return DefaultPreemption(cycle.framework.profile.args.get(DefaultPreemption.name, DefaultPreemptionArgs()))


def _dry_run_preemption(plugin: PreemptionPlugin, cycle: Cycle) -> PostFilterResult:
    """Dry-run preemption with a plugin that the cycle did not call. A plugin error becomes an error status."""
    try:
        return plugin.dry_run_without_extenders(cycle)
    except PluginError as failure:
        return PostFilterResult(Status(Code.ERROR, (str(failure),)))


def _report_candidate(candidate: Candidate, view: Fork, preemptor_priority: int, may_be_tied: Bools) -> CandidateReport:
    """Report on a candidate node: its victims, the violated PDBs, and groups of equally good victims.

    `may_be_tied` is a mask (P,) of the pods that may be as good victims as another pod of their node.
    """
    return CandidateReport(
        victims=tuple(view.pods.objects.get_key(position) for position in candidate.victims),
        pdb_violations=candidate.pdb_violations,
        details=tuple(
            _build_victim_report(position, position in candidate.violating, view) for position in candidate.victims
        ),
        ties=tuple(_iter_victim_ties(candidate, view, preemptor_priority, may_be_tied)),
    )


def _iter_victim_ties(
    candidate: Candidate, view: Fork, preemptor_priority: int, may_be_tied: Bools
) -> Iterator[tuple[str, ...]]:
    """Yield the groups of interchangeable pods on the node that contain a victim in the mask `may_be_tied` (P,).

    The dry run chooses among the pods of a group arbitrarily, so that any of them might be evicted instead. Victims
    come first in each group.
    """
    victims = frozenset(candidate.victims)
    named_pods: set[Position] = set()
    for victim in sorted(victims):
        if victim in named_pods or not may_be_tied[victim]:
            continue
        equal_pods = find_interchangeable_pods(view, victim, preemptor_priority).tolist()
        named_pods.update(equal_pods)
        if len(equal_pods) > 1:
            equal_pods.sort(key=lambda position: (position not in victims, position))
            yield tuple(view.pods.objects.get_key(position) for position in equal_pods)


def _build_victim_report(position: Position, violating: bool, view: Fork) -> VictimReport:
    """Build the report on a victim. If `violating`, it lists the PodDisruptionBudgets that the eviction violates."""
    pods = view.pods
    table = pods.objects.table  # building the Pod itself would take longer
    table_row = int(pods.objects.rows[position])
    info_number = pods.info[position]
    owner = find_controller(table.get_template(table_row).metadata)
    return VictimReport(
        pod=table.get_key(table_row),
        priority=int(pods.priority[info_number]),
        owner=f"{owner.kind}/{owner.name}" if owner else "",
        start_time=table.started.get_text(table_row) or None,
        budgets=get_budgets(view).find_protecting_budgets(position) if violating else (),
    )
