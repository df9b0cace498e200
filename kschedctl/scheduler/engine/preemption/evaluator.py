"""What preemption could do for a pod, whichever plugin decides whom to evict.

Upstream: pkg/scheduler/framework/preemption/preemption.go (v1.36).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import msgspec
import numpy as np

from kschedctl.api.arrays import Bools, Position
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.labels import format_aggregate
from kschedctl.api.objects import Pod
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.messages import format_histogram
from kschedctl.scheduler.engine.post_filter import PostFilterOutcome
from kschedctl.scheduler.engine.preemption.candidates import NO_CANDIDATES, BestCandidates, Candidates, choose
from kschedctl.scheduler.engine.preemption.dry_run import DryRun, dry_run
from kschedctl.scheduler.engine.preemption.extenders import call_extenders
from kschedctl.scheduler.engine.preemption.selection import Selection
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.framework import SUCCESS, Code, PluginError, PostFilterResult, Status
from kschedctl.scheduler.framework.declaration import DeclaredPlugin, FilterState, ScoreState

DEFAULT_PREEMPTION = "DefaultPreemption"
NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
NO_CANDIDATE = "no candidate node for preemption"
NONE_WANTED = "the profile's minCandidateNodes… come to 0 candidates of {}, and so many kube-scheduler keeps"
DROPPED_MAY_HELP = ByVersion(
    "whether preemption is tried on nodes that extenders left out without a word", (("", True), ("1.32", False))
)


class Ineligible(msgspec.Struct, frozen=True):
    """Why a pod may not preempt: ``why`` in upstream's words, and the pods that go, if it is to wait for these."""

    why: str
    leaving: tuple[Position, ...] = ()


@dataclass(frozen=True)
class Preemption:
    """The plugin's account: whether the pod may preempt at all, every candidate, and the choice among them.

    ``leaving``: the pods on its nominated node for which it has to wait. ``allowed``: the choice among those that
    extenders leave, None where they leave none, and where none is ``wanted``.

    Of ``potential`` nodes upstream, which starts at a random one, looks at no more than it needs for ``wanted``
    candidates; here all are tried, in the dry ``run``.
    """

    eligible: bool
    why: str = ""
    leaving: tuple[Position, ...] = ()
    candidates: Candidates = NO_CANDIDATES
    run: DryRun | None = None
    choice: BestCandidates | None = None
    allowed: BestCandidates | None = None
    potential: int = 0
    wanted: int = 0

    @cached_property
    def unhelpful(self) -> Mapping[str, int]:
        """Reason -> nodes that preemption does not help; to be asked for before anything moves."""
        return self.run.reason_counts(kept=bool(self.wanted)) if self.run else {}


def tied_candidates(result: PostFilterResult) -> Candidates:
    """The equally good candidates, where this is what the plugin said."""
    report = result.report
    return report.allowed.tied if isinstance(report, Preemption) and report.allowed is not None else NO_CANDIDATES


class PreemptionPlugin(DeclaredPlugin[FilterState, ScoreState], ABC):
    """A plugin whose PostFilter preempts. ``prefix`` stands before all that it says.

    ``by_priority``: whoever it evicts has a lower priority than the pod that it is for.
    """

    prefix: ClassVar[str] = ""
    by_priority: ClassVar[bool] = True

    @abstractmethod
    def ineligible(self, cycle: Cycle) -> Ineligible | None:
        """Why the pod may not preempt; upstream's PodEligibleToPreemptOthers."""

    @abstractmethod
    def selection(self, cycle: Cycle) -> Selection:
        """Whom it would evict, node by node; upstream's SelectVictimsOnNode."""

    def wanted(self, nodes: int) -> int:
        """How many candidates are enough, of so many nodes that may become one."""
        return nodes

    def post_filter(self, cycle: Cycle) -> PostFilterResult:
        post_filter_result = self.before_extenders(cycle)
        if post_filter_result.status.code is not Code.SUCCESS or not isinstance(post_filter_result.report, Preemption):
            return post_filter_result
        try:
            left = call_extenders(cycle.consultation, cycle.view, post_filter_result.report.candidates)
        except PluginError as failure:
            return PostFilterResult(self._status(Code.ERROR, str(failure)), report=_allowing(post_filter_result, None))
        if left is post_filter_result.report.candidates:
            return post_filter_result
        if not len(left):
            return PostFilterResult(
                self._status(Code.UNSCHEDULABLE, NO_CANDIDATE), report=_allowing(post_filter_result, None)
            )
        allowed = choose(cycle.view, left)
        return self._hope(cycle, allowed, _allowing(post_filter_result, allowed))

    def before_extenders(self, cycle: Cycle) -> PostFilterResult:
        """The answer if there were no extenders."""
        if not_now := self.ineligible(cycle):
            report = Preemption(eligible=False, why=not_now.why, leaving=not_now.leaving)
            return PostFilterResult(self._status(Code.UNSCHEDULABLE, not_now.why), report=report)
        potential = potential_nodes(cycle)
        selection = self.selection(cycle)
        run = dry_run(cycle, potential, selection)
        wanted = self.wanted(int(potential.sum()))
        helpful = run.candidates.take(np.flatnonzero(run.candidates.sizes))
        best = choose(cycle.view, helpful) if len(helpful) else None
        allowed = best if wanted else None
        report = Preemption(
            eligible=True,
            why="" if wanted or best is None else NONE_WANTED.format(int(potential.sum())),
            candidates=helpful,
            run=run,
            choice=best,
            allowed=allowed,
            potential=int(potential.sum()),
            wanted=wanted,
        )
        if allowed is not None:
            return self._hope(cycle, allowed, report)
        if errors := run.errors(cycle.view.nodes.names):
            return PostFilterResult(self._status(Code.ERROR, format_aggregate(errors)), report=report)
        message = format_histogram(len(cycle.view.nodes), run.told_counts(selection, kept=bool(wanted)))
        return PostFilterResult(self._status(Code.UNSCHEDULABLE, message), report=report)

    def found(self, cycle: Cycle, node: str, victims: int) -> str:
        """What is said of a node that so many victims would leave; "" is nothing."""
        return ""

    def _hope(self, cycle: Cycle, allowed: BestCandidates, report: Preemption) -> PostFilterResult:
        node, victims = _first_by_name(allowed, cycle)
        words = self.found(cycle, node, victims)
        return PostFilterResult(self._status(Code.SUCCESS, words) if words else SUCCESS, node, report)

    def _status(self, code: Code, message: str) -> Status:
        return Status(code, (self.prefix + message,))


def preemption_plugins(framework: FrameworkLike) -> list[PreemptionPlugin]:
    """The preemption plugins that a profile asks, in order."""
    return [plugin for plugin in framework.plugins_at("postFilter") if isinstance(plugin, PreemptionPlugin)]


def being_preempted(pod: Pod) -> bool:
    """Whether it leaves because the scheduler evicted it."""
    target = next((c for c in pod.status.conditions if c.type == "DisruptionTarget"), None)
    return (
        pod.metadata.deletion_timestamp is not None
        and target is not None
        and (target.status, target.reason) == ("True", "PreemptionByScheduler")
    )


def _allowing(post_filter_result: PostFilterResult, allowed: BestCandidates | None) -> Preemption:
    assert isinstance(post_filter_result.report, Preemption)
    return replace(post_filter_result.report, allowed=allowed)


def _first_by_name(best: BestCandidates, cycle: Cycle) -> tuple[str, int]:
    """The first node of those that are equally good, and how many pods it loses."""
    names = cycle.view.nodes.names
    by_name = cycle.view.memo("rows by name", lambda: np.argsort(np.argsort(np.array(names, dtype=object))))
    rows = best.tied.row
    first = int(by_name[rows].argmin())
    return names[int(rows[first])], int(best.tied.sizes[first])


def potential_nodes(cycle: Cycle) -> Bools:
    """(N,): the nodes that fewer pods could make fit: refused as Unschedulable."""
    refused = cycle.considered & ~cycle.filter.passing & ~cycle.filter.unresolvable
    if cycle.absent_status().code is Code.UNSCHEDULABLE:
        refused |= ~cycle.considered
    if DROPPED_MAY_HELP.at(cycle.framework.release):
        refused |= cycle.silently_dropped
    for row, status in cycle.extender_statuses.items():
        refused[row] = status.code is Code.UNSCHEDULABLE
    return refused


def takes_back(outcome: PostFilterOutcome) -> bool:
    """Whether PostFilter took back what the pod was promised: preemption was tried, and helps nowhere."""
    reports = [result.report for result in outcome.results.values()]
    tried = any(isinstance(report, Preemption) and report.eligible for report in reports)
    return not reports or (tried and outcome.status.code is Code.UNSCHEDULABLE)
