"""A replay of the scheduler pod by pod in which callers may dictate where pods go.

Victims are gone at once, and the preemptor keeps its nomination until it is tried again. Upstream: schedulingCycle,
assumeAndReserve and handleSchedulingFailure in pkg/scheduler/schedule_one.go, and prepareCandidate in
pkg/scheduler/framework/preemption/executor.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.arrays import NO_ROW, Position, Row
from kschedctl.api.objects import Pod
from kschedctl.cluster.recreation import recreate_pod
from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.engine.diagnosis import PostFilterOutcome, run_post_filter
from kschedctl.scheduler.engine.preemption.candidates import NO_CANDIDATES, Candidate, Candidates
from kschedctl.scheduler.engine.preemption.evaluator import Preemption, get_tied_candidates
from kschedctl.scheduler.engine.reserve import find_reserve_plugins, release_objects, reserve_objects
from kschedctl.scheduler.engine.sampling import SampledFrom, Sampling
from kschedctl.scheduler.framework import PostFilterResult, ReservePlugin
from kschedctl.scheduler.framework.dependencies import Unknown
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.pod_info import PodInfo


class TriedPod(NamedTuple):
    """A pod with its scheduling cycle."""

    position: Position
    cycle: Cycle | None
    """None if no profile serves the pod."""


class PreemptionResult(NamedTuple):
    """The outcome of preemption for a pod that fits nowhere."""

    outcome: PostFilterOutcome
    tied: Candidates = NO_CANDIDATES
    """Candidates that cost equally little."""
    row: Row = NO_ROW
    """The node for which the pod was nominated, or NO_ROW."""
    victims: Sequence[Position] = ()
    """Pods that were evicted."""
    cleared: Sequence[Position] = ()
    """Pods of lower priority that lost their nomination for the node."""


class StepwiseScheduler:
    """A fork of a scheduler's snapshot on which pods are tried one after another. Positions index `view.pods`.

    While time stands still, nothing is bound, and volumes are only assumed. With `sampling`, only part of the nodes is
    searched.
    """

    def __init__(self, scheduler: Scheduler, *, time_passes: bool = False, sampling: SampledFrom | None = None) -> None:
        self.scheduler = scheduler
        self.view = scheduler.view.fork()
        self.view.time_passes = time_passes
        self.sampling = None if sampling is None else self.start_sampling(sampling)
        self.gone: set[Position] = set()
        """The pods that were preempted."""
        self.unknown: dict[Unknown, None] = {}
        """Unread objects on which answers about the pods tried so far depend."""

    def start_sampling(self, sampled: SampledFrom) -> Sampling:
        """Start sampled searches, each of which examines only as many nodes as kube-scheduler would."""
        return sampled.start_sampling(self.scheduler.configuration, len(self.view.nodes))

    def attempt_pod(self, position: Position) -> TriedPod:
        """Run the pod's scheduling cycle in the current state, without placing the pod.

        The cycle is None if no profile serves the pod. Objects that were not read and might change the choice of the
        profile are recorded in `unknown`.
        """
        info = self.build_incoming_info(position)
        framework, unknown = self.scheduler.find_framework_for(info, self.view)
        self.unknown.update(dict.fromkeys(unknown))
        return TriedPod(position, None if framework is None else run_cycle(framework, info, self.view, self.sampling))

    def build_incoming_info(self, position: Position) -> PodInfo:
        """Build the PodInfo of the pod as it enters the queue: without a node, and with its current nomination."""
        number = self.view.pods.get_info_number(position)
        info = self.view.pods.infos[number]
        row = self.view.get_nominated_row(position)
        name = "" if row == NO_ROW else self.view.nodes.names[row]
        pod = self.get_stored_pod(position)
        if pod.status.nominated_node_name != name:
            pod = replace(pod, status=replace(pod.status, nominated_node_name=name))
        # A pod that had a node now differs from its stored PodInfo, so it gets a number that no stored PodInfo has.
        offset = len(self.view.pods.infos) if info.spec.node_name else 0
        return PodInfo(pod, info.options, offset + number)

    def get_stored_pod(self, position: Position) -> Pod:
        """Return the pod as the API server stores it while it has no node."""
        pod = self.view.pods.objects[position]
        stored: Pod = self.view.build_stored_pod(recreate_pod(pod, self.view.cluster) if pod.spec.node_name else pod)
        return stored

    def assume(self, tried: TriedPod, row: Row) -> None:
        """Place the pod on a node and reserve its volumes and devices there, as upstream does before binding.

        Raises PluginError if a plugin fails.
        """
        assert tried.cycle is not None
        info = tried.cycle.info
        reserve_objects(
            find_reserve_plugins(tried.cycle.framework, info.spec),
            info,
            info.pod,
            self.view,
            row,
            pre_filter_results=tried.cycle.pre_filter.results,
            assumed=not self.view.time_passes,  # while time stands still, the pod is not bound yet
        )
        self.place(tried.position, row)

    def place(self, position: Position, row: Row) -> None:
        """Place a pod on a node without reserving anything."""
        self.view.nominate(position, NO_ROW)
        self.view.assume(position, row)

    def preempt(self, tried: TriedPod) -> PreemptionResult:
        """Evict the victims on the cheapest candidate node, and nominate that node for the pod.

        Ties are broken by the names of nodes. Pods of lower priority that are nominated for the node lose their
        nomination. If there is no candidate, nothing is evicted. If a plugin tried preemption and failed, the pod then
        also loses its nomination.
        """
        assert tried.cycle is not None
        outcome = run_post_filter(tried.cycle)
        results = outcome.results.values()
        cheapest_by_plugin = map(get_tied_candidates, results)
        cheapest = next((candidates for candidates in cheapest_by_plugin if candidates), NO_CANDIDATES)
        if not cheapest:
            if any(_was_preemption_tried(result) for result in results):
                self.view.nominate(tried.position, NO_ROW)
            return PreemptionResult(outcome)

        names = self.view.nodes.names
        chosen: Candidate = min(cheapest, key=lambda candidate: names[candidate.row])
        cleared = self._find_nominated_of_lower_priority(chosen.row, tried.cycle.info.priority)
        for position in cleared:
            self.view.nominate(position, NO_ROW)
        self.evict(chosen.victims)
        self.view.nominate(tried.position, chosen.row)
        return PreemptionResult(outcome, cheapest, chosen.row, victims=chosen.victims, cleared=cleared)

    def _find_nominated_of_lower_priority(self, row: Row, priority: int) -> list[Position]:
        """Return the pods of lower priority that are nominated for the node."""
        rows, positions = self.view.nominations
        waiting = [Position(position) for position in positions[rows == row].tolist()]
        return [p for p in waiting if self.view.pods.get_info(p).priority < priority]

    def evict(self, positions: Sequence[Position]) -> None:
        """Take pods off their nodes, release what they reserved, and record that they are gone."""
        self.remove_from_nodes(positions)
        self.gone.update(positions)

    def remove_from_nodes(self, positions: Sequence[Position]) -> None:
        """Take pods off their nodes and release their volumes and devices.

        The Reserve plugins of all profiles release what they may have reserved.
        """
        for position in positions:
            self.view.forget(position)
        specs = [self.view.pods.get_info(position).spec for position in positions]
        plugins: dict[str, ReservePlugin] = {}
        for name in self.scheduler.configuration.profiles:
            framework = self.scheduler.find_framework(name)
            if framework is not None:
                plugins |= {plugin.name: plugin for plugin in find_reserve_plugins(framework, *specs)}
        release_objects(plugins.values(), self.view, positions)


def _was_preemption_tried(result: PostFilterResult) -> bool:
    """Return whether a plugin tried preemption for the pod.

    Preemption was not tried if the plugin found the pod ineligible to preempt.
    """
    return isinstance(result.report, Preemption) and result.report.eligible
