"""The scheduler followed pod by pod: each is tried once more on its own, where it goes may be given from outside.

Upstream: schedulingCycle, assumeAndReserve and handleSchedulingFailure in pkg/scheduler/schedule_one.go, and
prepareCandidate in pkg/scheduler/framework/preemption/executor.go (v1.36). Victims go at once, and the pod waits for
the node that it was nominated for until it is tried again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.arrays import NO_ROW, Position, Row
from kschedctl.api.objects import Pod
from kschedctl.api.workloads import made_again
from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.engine.post_filter import PostFilterOutcome, run_post_filter
from kschedctl.scheduler.engine.preemption.candidates import NO_CANDIDATES, Candidate, Candidates
from kschedctl.scheduler.engine.preemption.evaluator import Preemption, tied_candidates
from kschedctl.scheduler.engine.reserve import find_reserve_plugins, release, reserve
from kschedctl.scheduler.engine.sampling import SampledFrom, Sampling
from kschedctl.scheduler.framework import PostFilterResult, ReservePlugin
from kschedctl.scheduler.framework.dependencies import Unknown
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.pod_info import PodInfo


class Tried(NamedTuple):
    """One pod's cycle, None where no profile serves it."""

    position: Position
    cycle: Cycle | None


class Preempted(NamedTuple):
    """What was done for a pod that fits nowhere.

    ``tied``: the candidates that cost equally little. The pod was nominated for ``row``, NO_ROW for none; ``victims``
    went for it, and pods of lower priority that waited for the node do so no longer: ``cleared``.
    """

    outcome: PostFilterOutcome
    tied: Candidates = NO_CANDIDATES
    row: Row = NO_ROW
    victims: Sequence[Position] = ()
    cleared: Sequence[Position] = ()


class Following:
    """A fork of a scheduler's snapshot on which pods are tried one after the other. Positions are into ``view.pods``.

    While time stands still nothing is bound, and volumes are assumed. ``sampling``: a part of the nodes is looked at.
    ``gone``: the pods that were preempted; ``unknown``: what the pods tried so far lean on that was not read.
    """

    def __init__(self, scheduler: Scheduler, *, time_passes: bool = False, sampling: SampledFrom | None = None) -> None:
        self.scheduler, self.view = scheduler, scheduler.view.fork()
        self.view.time_passes = time_passes
        self.sampling = None if sampling is None else self.searches(sampling)
        self.gone: set[Position] = set()
        self.unknown: dict[Unknown, None] = {}

    def searches(self, sampled: SampledFrom) -> Sampling:
        """How nodes are searched where a part of them is looked at."""
        return sampled.start_sampling(self.scheduler.configuration, len(self.view.nodes))

    def attempt(self, position: Position) -> Tried:
        """The pod's cycle as things are now."""
        info = self.incoming(position)
        framework, unknown = self.scheduler.framework_for(info, self.view)
        self.unknown.update(dict.fromkeys(unknown))
        return Tried(position, None if framework is None else run_cycle(framework, info, self.view, self.sampling))

    def incoming(self, position: Position) -> PodInfo:
        """What the pod asks for, with the node that it is nominated for now."""
        info = self.view.pods.infos[int(self.view.pods.info[position])]
        row = self.view.nominated_row(position)
        name = "" if row == NO_ROW else self.view.nodes.names[row]
        pod = self.stored(position)
        if pod.status.nominated_node_name != name:
            pod = replace(pod, status=replace(pod.status, nominated_node_name=name))
        number = int(self.view.pods.info[position])
        again = len(self.view.pods.infos) if info.spec.node_name else 0
        return PodInfo(pod, info.options, again + number)

    def stored(self, position: Position) -> Pod:
        """The pod as the API server holds it while it has no node."""
        pod = self.view.pods.objects[position]
        stored: Pod = self.view.stored(made_again(pod) if pod.spec.node_name else pod)
        return stored

    def assume(self, tried: Tried, row: Row) -> None:
        """Put it on a node, with what is reserved for it there. Raises PluginError."""
        assert tried.cycle is not None
        plugins = find_reserve_plugins(tried.cycle.framework, tried.cycle.info.spec)
        before, assumed = tried.cycle.pre_filter.results, not self.view.time_passes
        reserve(
            plugins, tried.cycle.info, tried.cycle.info.pod, self.view, row, pre_filter_results=before, assumed=assumed
        )
        self.put(tried.position, row)

    def put(self, position: Position, row: Row) -> None:
        """Put a pod on a node without what would be reserved for it."""
        self.view.nominate(position, NO_ROW)
        self.view.assume(position, row)

    def preempt(self, tried: Tried) -> Preempted:
        """Nominate it for the first by name of the candidates that cost equally little, whose victims go."""
        assert tried.cycle is not None
        outcome = run_post_filter(tried.cycle)
        tied = next(filter(len, map(tied_candidates, outcome.results.values())), NO_CANDIDATES)
        if not tied:
            if any(_in_vain(result) for result in outcome.results.values()):
                self.view.nominate(tried.position, NO_ROW)
            return Preempted(outcome)
        names = self.view.nodes.names
        chosen: Candidate = min(tied, key=lambda candidate: names[candidate.row])
        cleared = self._outdone(chosen.row, tried.cycle.info.priority)
        for position in cleared:
            self.view.nominate(position, NO_ROW)
        self.evict(chosen.victims)
        self.view.nominate(tried.position, chosen.row)
        return Preempted(outcome, tied, chosen.row, chosen.victims, cleared)

    def _outdone(self, row: Row, priority: int) -> list[Position]:
        """The pods of lower priority that wait for a node."""
        rows, positions = self.view.nominations
        waiting = [Position(position) for position in positions[rows == row].tolist()]
        return [p for p in waiting if self.view.pods.infos[self.view.pods.info[p]].priority < priority]

    def evict(self, positions: Sequence[Position]) -> None:
        """Take pods off their nodes for good."""
        self.take_off(positions)
        self.gone.update(positions)

    def take_off(self, positions: Sequence[Position]) -> None:
        """Take pods off their nodes; their devices are free again."""
        for position in positions:
            self.view.forget(position)
        profiles = map(self.scheduler.framework, self.scheduler.configuration.profiles)
        specs = [self.view.pods.infos[self.view.pods.info[position]].spec for position in positions]
        plugins: dict[str, ReservePlugin] = {
            plugin.name: plugin
            for framework in profiles
            if framework
            for plugin in find_reserve_plugins(framework, *specs)
        }
        release(plugins.values(), self.view, positions)


def _in_vain(result: PostFilterResult) -> bool:
    """Preemption was tried: then the pod waits for no node any more."""
    return isinstance(result.report, Preemption) and result.report.eligible
