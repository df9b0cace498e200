"""What preemption could do for a pod, as users see it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kschedctl.api.arrays import Position
from kschedctl.api.ownership import controller_of
from kschedctl.reports.explanation import CandidateReport, PreemptionReport, VictimReport
from kschedctl.scheduler.configuration.plugin_args import DefaultPreemptionArgs
from kschedctl.scheduler.cycle import Cycle
from kschedctl.scheduler.framework import Code, PluginError, PostFilterResult, Status
from kschedctl.scheduler.plugins.default_preemption import TERMINATING, DefaultPreemption, Preemption
from kschedctl.scheduler.post_filter import PostFilterOutcome
from kschedctl.scheduler.preemption.budgets import budgets
from kschedctl.scheduler.preemption.candidates import Candidate
from kschedctl.snapshot.fork import Fork

NAME = DefaultPreemption.name


def preemption_report(outcome: PostFilterOutcome, cycle: Cycle) -> PreemptionReport | None:
    """What preemption found; None when it could not be tried.

    Where the profile runs no DefaultPreemption, or the framework stopped before it, this is what it would have found.
    """
    view = cycle.view
    asked = NAME in outcome.results
    result = outcome.results[NAME] if asked else _ask(cycle)
    if not isinstance(result.report, Preemption):
        return None
    found = result.report
    names = view.nodes.names
    going = terminating(cycle) if found.why == TERMINATING else ()
    return PreemptionReport(
        asked=asked,
        eligible=found.eligible,
        why=found.why,
        candidates={names[candidate.row]: _candidate(candidate, view) for candidate in found.candidates},
        tied=tuple(names[row] for row in found.choice.tied.row.tolist()) if found.choice else (),
        chosen=min(names[row] for row in found.choice.tied.row.tolist()) if found.choice else None,
        decided_by=found.choice.decided_by if found.choice else "",
        unhelpful=dict(found.unhelpful),
        limit=found.wanted,
        nominated=cycle.info.pod.status.nominated_node_name if going else "",
        terminating=going,
    )


def terminating(cycle: Cycle) -> tuple[str, ...]:
    """The pods of lower priority that are going from the node for which the pod is nominated."""
    view, priority = cycle.view, cycle.info.priority
    row = view.nodes.index[cycle.info.pod.status.nominated_node_name]
    leaving = (p for p in view.pods_on(row) if view.pods.objects[p].metadata.deletion_timestamp is not None)
    return tuple(view.pods.objects[p].key for p in leaving if view.pods.infos[view.pods.info[p]].priority < priority)


def _ask(cycle: Cycle) -> PostFilterResult:
    args = cycle.framework.profile.args.get(NAME, DefaultPreemptionArgs())
    try:
        return DefaultPreemption(args).before_extenders(cycle)
    except PluginError as failure:
        return PostFilterResult(Status(Code.ERROR, (str(failure),)))


def _candidate(candidate: Candidate, view: Fork) -> CandidateReport:
    return CandidateReport(
        victims=tuple(view.pods.objects[position].key for position in candidate.victims),
        pdb_violations=candidate.pdb_violations,
        details=tuple(_victim(position, position in candidate.violating, view) for position in candidate.victims),
        ties=tuple(_ties(candidate, view)),
    )


def _ties(candidate: Candidate, view: Fork) -> Iterator[tuple[str, ...]]:
    """The pods of its node that no rule puts before a victim or behind it, with the victims first."""
    pods, here = view.pods, np.array(view.pods_on(candidate.row), np.int64)
    alike: dict[tuple[int, int], list[int]] = {}
    ranks = zip(pods.priority[pods.info[here]].tolist(), pods.start[here].tolist(), strict=True)
    for position, rank in zip(here.tolist(), ranks, strict=True):
        alike.setdefault(rank, []).append(position)
    victims = frozenset(candidate.victims)
    for same in alike.values():
        if len(same) > 1 and not victims.isdisjoint(same):
            yield tuple(pods.objects[p].key for p in sorted(same, key=lambda p: (p not in victims, p)))


def _victim(position: Position, violating: bool, view: Fork) -> VictimReport:
    pod = view.pods.objects[position]
    owner = controller_of(pod.metadata)
    return VictimReport(
        pod=pod.key,
        priority=view.pods.infos[view.pods.info[position]].priority,
        owner=f"{owner.kind}/{owner.name}" if owner else "",
        start_time=pod.status.start_time,
        budgets=budgets(view).of(position) if violating else (),
    )
