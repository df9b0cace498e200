"""The base class of plugins that preempt, and the calls of extenders that may change the candidates.

Upstream: pkg/scheduler/framework/preemption/preemption.go and ProcessPreemption in pkg/scheduler/extender.go (v1.36).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import msgspec
import numpy as np

from kschedctl.api.arrays import Bools, Position
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.labels import format_aggregate
from kschedctl.api.objects import Pod
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.diagnosis import PostFilterOutcome, format_histogram
from kschedctl.scheduler.engine.extenders import Consultation, ExtenderError, HTTPExtender, MetaVictims, SentVictims
from kschedctl.scheduler.engine.preemption.candidates import (
    NO_CANDIDATES,
    BestCandidates,
    Candidates,
    choose_best_candidates,
)
from kschedctl.scheduler.engine.preemption.dry_run import DryRun, dry_run
from kschedctl.scheduler.engine.preemption.victims import Selection
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.framework import SUCCESS, Code, PluginError, PostFilterResult, Status
from kschedctl.scheduler.framework.declaration import DeclaredPlugin, FilterState, ScoreState
from kschedctl.snapshot.fork import Fork

DEFAULT_PREEMPTION = "DefaultPreemption"
NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
NO_CANDIDATE = "no candidate node for preemption"
NONE_WANTED = (
    "the profile's minCandidateNodesPercentage and minCandidateNodesAbsolute come to 0 of {} potential nodes, so "
    "kube-scheduler keeps no candidate"
)
DROPPED_MAY_HELP = ByVersion(
    "preemption is tried on nodes that extenders removed without a reason", (("", True), ("1.32", False))
)


class Ineligible(msgspec.Struct, frozen=True):
    """The reason why a pod may not preempt."""

    why: str
    """Upstream's message."""
    leaving: tuple[Position, ...] = ()
    """Terminating pods that the pod has to wait for."""


@dataclass(frozen=True)
class Preemption:
    """A preemption plugin's account of an attempt.

    Upstream starts at a random one of the `potential` nodes and stops once it has enough candidates. Here, all nodes
    are tried.
    """

    eligible: bool
    """True if the pod may preempt at all."""
    why: str = ""
    """The reason why it may not preempt, or why no candidate counts."""
    leaving: tuple[Position, ...] = ()
    """Terminating pods on the nominated node that the pod waits for."""
    candidates: Candidates = NO_CANDIDATES
    """Every candidate with victims."""
    run: DryRun | None = None
    """The dry run on all potential nodes."""
    choice: BestCandidates | None = None
    """The best candidates."""
    allowed: BestCandidates | None = None
    """The best candidates that extenders leave, or None if no candidate remains or is wanted."""
    potential: int = 0
    """Number of nodes on which preemption was tried."""
    wanted: int = 0
    """Number of candidates that upstream looks for."""

    @cached_property
    def nodes_by_reason(self) -> Mapping[str, int]:
        """The number of nodes on which preemption does not help, by reason.

        This property must be read before any pod moves.
        """
        return self.run.count_unhelpful_nodes(candidates_wanted=bool(self.wanted)) if self.run else {}


def get_tied_candidates(result: PostFilterResult) -> Candidates:
    """Return the equally good candidates in a PostFilter result. There are none if the plugin does not preempt."""
    report = result.report
    return report.allowed.tied if isinstance(report, Preemption) and report.allowed is not None else NO_CANDIDATES


class PreemptionPlugin(DeclaredPlugin[FilterState, ScoreState], ABC):
    """A plugin whose PostFilter preempts."""

    prefix: ClassVar[str] = ""
    """Precedes all its messages."""
    by_priority: ClassVar[bool] = True
    """True if all victims have a lower priority than the pod."""

    @abstractmethod
    def find_ineligibility(self, cycle: Cycle) -> Ineligible | None:
        """Return why the pod may not preempt, or None if it may. Upstream: PodEligibleToPreemptOthers."""

    @abstractmethod
    def build_selection(self, cycle: Cycle) -> Selection:
        """Build the selection of the pods that may be evicted for this pod. Upstream: SelectVictimsOnNode."""

    def count_candidates_wanted(self, nodes: int) -> int:
        """Return how many candidates upstream looks for among `nodes` potential nodes."""
        return nodes

    def post_filter(self, cycle: Cycle) -> PostFilterResult:
        """Dry-run preemption, let extenders change the candidates, and nominate the best node.

        The result is a rejection if the pod may not preempt or no candidate remains. The result is an error if an
        extender fails, or if the dry run fails on a node and finds no candidate.
        """
        result = self.dry_run_without_extenders(cycle)
        report = result.report
        if result.status.code is not Code.SUCCESS or not isinstance(report, Preemption):
            return result
        try:
            remaining = let_extenders_choose_victims(cycle.consultation, cycle.view, report.candidates)
        except PluginError as failure:
            status = self._build_status(Code.ERROR, str(failure))
            return PostFilterResult(status, report=replace(report, allowed=None))
        if remaining is report.candidates:  # no extender has a preempt verb
            return result
        if not len(remaining):
            status = self._build_status(Code.UNSCHEDULABLE, NO_CANDIDATE)
            return PostFilterResult(status, report=replace(report, allowed=None))
        allowed = choose_best_candidates(cycle.view, remaining)
        return self._build_success(cycle, allowed, replace(report, allowed=allowed))

    def dry_run_without_extenders(self, cycle: Cycle) -> PostFilterResult:
        """Dry-run preemption and nominate the best node, without calling extenders.

        The result is a rejection if the pod may not preempt. If no node can be nominated, the result is an error or a
        rejection, see `_build_failure_status`. The report has the details.
        """
        if ineligible := self.find_ineligibility(cycle):
            report = Preemption(eligible=False, why=ineligible.why, leaving=ineligible.leaving)
            return PostFilterResult(self._build_status(Code.UNSCHEDULABLE, ineligible.why), report=report)

        # Find the best candidates.
        potential = find_potential_nodes(cycle)
        potential_count = int(potential.sum())
        selection = self.build_selection(cycle)
        run = dry_run(cycle, potential, selection)
        wanted_count = self.count_candidates_wanted(potential_count)
        candidates_wanted = wanted_count > 0
        helpful = run.candidates.select(np.flatnonzero(run.candidates.sizes))  # a candidate without victims is an error
        best = choose_best_candidates(cycle.view, helpful) if len(helpful) else None
        allowed = best if candidates_wanted else None
        is_best_unwanted = best is not None and not candidates_wanted
        report = Preemption(
            eligible=True,
            why=NONE_WANTED.format(potential_count) if is_best_unwanted else "",
            candidates=helpful,
            run=run,
            choice=best,
            allowed=allowed,
            potential=potential_count,
            wanted=wanted_count,
        )

        # Nominate a node, or report why there is none.
        if allowed is not None:
            return self._build_success(cycle, allowed, report)
        status = self._build_failure_status(cycle, run, selection, candidates_wanted=candidates_wanted)
        return PostFilterResult(status, report=report)

    def _build_failure_status(
        self, cycle: Cycle, run: DryRun, selection: Selection, *, candidates_wanted: bool
    ) -> Status:
        """Build the status of a pod for which the dry run finds no node to nominate.

        The status is an error if the dry run of some node failed, and otherwise a rejection that counts the nodes by
        reason. In a cycle that does not explain failed preemption, the status is a rejection without a reason.
        """
        if not cycle.explains_failed_preemption:
            return self._build_status(Code.UNSCHEDULABLE, message="")
        if errors := run.collect_error_messages(cycle.view.nodes.names):
            return self._build_status(Code.ERROR, format_aggregate(errors))
        node_counts = run.count_nodes_for_message(selection, candidates_wanted=candidates_wanted)
        return self._build_status(Code.UNSCHEDULABLE, format_histogram(len(cycle.view.nodes), node_counts))

    def format_success_message(self, cycle: Cycle, node: str, victims: int) -> str:
        """Return the message for a nominated node with this many victims, or an empty string for no message."""
        return ""

    def _build_success(self, cycle: Cycle, allowed: BestCandidates, report: Preemption) -> PostFilterResult:
        """Build the result that nominates the node whose name comes first among the `allowed` best nodes."""
        node, victims = _pick_first_node_by_name(allowed, cycle)
        message = self.format_success_message(cycle, node, victims)
        status = self._build_status(Code.SUCCESS, message) if message else SUCCESS
        return PostFilterResult(status, node, report)

    def _build_status(self, code: Code, message: str) -> Status:
        """Build a status whose message has the plugin's prefix."""
        return Status(code, (self.prefix + message,))


def find_preemption_plugins(framework: FrameworkLike) -> list[PreemptionPlugin]:
    """Return the preemption plugins of a profile in order."""
    return [plugin for plugin in framework.plugins_at("postFilter") if isinstance(plugin, PreemptionPlugin)]


def is_being_preempted(pod: Pod) -> bool:
    """Return whether the pod is terminating because the scheduler preempted it."""
    target = next((c for c in pod.status.conditions if c.type == "DisruptionTarget"), None)
    return (
        pod.metadata.deletion_timestamp is not None
        and target is not None
        and (target.status, target.reason) == ("True", "PreemptionByScheduler")
    )


def _pick_first_node_by_name(best: BestCandidates, cycle: Cycle) -> tuple[str, int]:
    """Return the alphabetically first name among the best nodes, and the number of victims there."""
    names = cycle.view.nodes.names
    # The inverse of the sorting permutation is the rank of each row.
    rank_by_row = cycle.view.memo("rows by name", lambda: np.argsort(np.argsort(np.array(names, dtype=object))))
    rows = best.tied.row
    first = int(rank_by_row[rows].argmin())
    return names[int(rows[first])], int(best.tied.sizes[first])


def find_potential_nodes(cycle: Cycle) -> Bools:
    """Return a mask (N,) of the nodes on which evicting pods could help.

    These are the nodes that filters or extenders reject as Unschedulable. Nodes that were not examined are included if
    their shared status is Unschedulable. In old versions, nodes that an extender dropped without a message are included
    too.
    """
    rejected = cycle.considered & ~cycle.filter.passing & ~cycle.filter.unresolvable
    if cycle.build_unexamined_status().code is Code.UNSCHEDULABLE:
        rejected |= ~cycle.considered
    if DROPPED_MAY_HELP.at(cycle.framework.release):
        rejected |= cycle.silently_dropped
    for row, status in cycle.extender_statuses.items():
        rejected[row] = status.code is Code.UNSCHEDULABLE
    return rejected


def clears_nomination(outcome: PostFilterOutcome) -> bool:
    """Return whether PostFilter clears the pod's nomination.

    The nomination is cleared if preemption was tried without success or if no PostFilter plugin ran.
    """
    reports = [result.report for result in outcome.results.values()]
    tried = any(isinstance(report, Preemption) and report.eligible for report in reports)
    return not reports or (tried and outcome.status.code is Code.UNSCHEDULABLE)


class _Victims(NamedTuple):
    """The pods to evict on a node, and the number of PDB violations."""

    positions: tuple[Position, ...]
    violations: int


def let_extenders_choose_victims(consultation: Consultation, view: Fork, candidates: Candidates) -> Candidates:
    """Send the candidates to the extenders with a preempt verb, and return the candidates that remain.

    The extenders also choose the victims. If no extender has a preempt verb, return `candidates` itself. An extender
    with an unknown answer changes nothing. Raises PluginError if an extender that is not ignorable fails or leaves a
    node without victims.
    """
    extenders = [extender for extender in consultation.extenders if extender.settings.preempt_verb]
    if not extenders:
        return candidates

    # Each extender gets the candidates that the one before it left.
    names = view.nodes.names
    remaining = {
        names[candidate.row]: _Victims(candidate.victims, candidate.pdb_violations) for candidate in candidates
    }
    for extender in extenders:
        try:
            processed = _ask_extender_for_victims(consultation, extender, remaining, view)
        except ExtenderError as error:
            if extender.settings.ignorable:
                continue
            raise PluginError(str(error)) from None
        remaining = remaining if processed is None else _drop_nodes_without_victims(processed, extender)
        if not remaining:
            break
    return _build_candidates(remaining, view)


def _ask_extender_for_victims(
    consultation: Consultation, extender: HTTPExtender, victims: Mapping[str, _Victims], view: Fork
) -> dict[str, _Victims] | None:
    """Send the victims of each node to one extender, and return the victims in its answer, by node.

    Return None if the extender cannot be called, so that its answer is unknown. Raises ExtenderError if it fails, or if
    a node or pod in its answer does not exist.
    """
    sent = {}
    for name, node_victims in victims.items():
        pods = [_convert_pod_to_json(position, view) for position in node_victims.positions]
        sent[name] = SentVictims(pods, node_victims.violations)
    answer = consultation.preempt(extender, sent)
    if answer is None:
        return None
    return {name: _find_victims_by_uid(name, answer[name], extender, view) for name in sorted(answer)}


def _find_victims_by_uid(name: str, answer: MetaVictims, extender: HTTPExtender, view: Fork) -> _Victims:
    """Find the pods on a node that have the UIDs in an extender's answer.

    Raises ExtenderError if the node or a pod is missing.
    """
    row = view.nodes.index.get(name)
    if row is None:
        raise ExtenderError(f'nodeinfo not found for node name "{name}"')
    pods_by_uid: dict[str, Position] = {}
    for position in view.pods_on(row):
        pods_by_uid.setdefault(get_pod_uid(view.pods.objects[position]), position)
    for victim in answer.uids:
        if victim not in pods_by_uid:
            claim = f"claims to preempt pod (UID: &{{{victim}}}) on node: {name}, but the pod is not found on that node"
            raise ExtenderError(f"extender: {extender.url} {claim}")
    return _Victims(tuple(pods_by_uid[victim] for victim in answer.uids), answer.violations)


def _drop_nodes_without_victims(candidates: dict[str, _Victims], extender: HTTPExtender) -> dict[str, _Victims]:
    """Drop the nodes for which an extender returns no victims.

    Raises PluginError for such a node unless the extender is ignorable.
    """
    for name, victims in candidates.items():
        if not victims.positions and not extender.settings.ignorable:
            raise PluginError(f'expected at least one victim pod on node "{name}"')
    return {name: victims for name, victims in candidates.items() if victims.positions}


def _build_candidates(victims_by_node: Mapping[str, _Victims], view: Fork) -> Candidates:
    """Build candidates in node order from victims by node name.

    PDB violations are taken from the extenders, which report only their number.
    """
    in_order = sorted((view.nodes.index[name], victims) for name, victims in victims_by_node.items())
    positions: list[Position] = []
    for _, victims in in_order:
        positions += victims.positions
    sizes = [len(victims.positions) for _, victims in in_order]
    return Candidates(
        row=np.array([row for row, _ in in_order], np.int64),
        starts=np.append(0, np.cumsum(np.array(sizes, np.int64))),
        victims=np.array(positions, np.int64),
        violating=np.zeros(len(positions), np.bool_),  # extenders do not report which victims violate a PDB
        reported_violations=np.array([victims.violations for _, victims in in_order], np.int64),
    )


def _convert_pod_to_json(position: Position, view: Fork) -> dict[str, object]:
    """Return the pod as JSON for extenders. A pod without a UID gets its key as UID."""
    pod = view.pods.objects[position]
    metadata = {**msgspec.to_builtins(pod.metadata), "uid": get_pod_uid(pod)}
    return {**msgspec.to_builtins(pod), "metadata": metadata}


def get_pod_uid(pod: Pod) -> str:
    """Return the pod's UID, or its key if it was never stored."""
    return pod.metadata.uid or pod.key
