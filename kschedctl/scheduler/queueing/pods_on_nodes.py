"""Pods that come to nodes and leave them, each with what its plugins reserve for it, while the scheduler goes on.

Upstream: assumeAndReserve, unreserveAndForget in pkg/scheduler/schedule_one.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from kschedctl.api.arrays import NO_ROW, Position, Row
from kschedctl.api.copying import replace
from kschedctl.api.objects import Pod
from kschedctl.api.workloads import made_again
from kschedctl.scheduler.engine.preemption.budgets import find_budgets
from kschedctl.scheduler.engine.reserve import (
    NO_PRE_FILTER_RESULTS,
    find_reserve_plugins,
    has_backed_resources,
    release,
    reserve,
)
from kschedctl.scheduler.framework import SUCCESS, PreEnqueuePlugin, PreFilterResult, ReservePlugin, offers
from kschedctl.scheduler.framework.dependencies import Unknown
from kschedctl.scheduler.queueing.nominations import Nominations
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


class Tied(Protocol):
    """Rows in order; it holds until pods move, its length for good."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> int: ...

    def tolist(self) -> list[int]: ...


class Choice(NamedTuple):
    """Where a pod goes: one of the ``tied`` rows that share the highest score; ``feasible`` counts all that fit.

    ``info`` is what it asks for; ``before``: by plugin, what the PreFilters that read claims said of it. ``evaluated``:
    how many nodes were looked at, where that is counted; ``batched``: the node is one that an earlier pod left over.
    """

    info: PodInfo
    row: Row
    tied: Tied
    feasible: int
    before: Mapping[str, PreFilterResult]
    evaluated: int = 0
    batched: bool = False


class IncomingPods:
    """What the pods of a fork ask for when they come.

    A pod of the snapshot that had a node comes as the pod that its controller makes in its place.
    """

    def __init__(self, view: Fork) -> None:
        self.view = view
        self._incoming: dict[int, PodInfo] = {}
        self._backed: dict[int | None, bool] = {}
        self._latest: tuple[int, PodInfo] | None = None

    def incoming(self, number: int) -> PodInfo:
        """What pods of this info ask for, without a node."""
        info = self._incoming.get(number)
        if info is None:
            info = self.view.pods.infos[number]
            if info.spec.node_name:
                again = len(self.view.pods.infos) + number
                info = PodInfo(made_again(info.pod), info.options, again, info.alike)
            self._incoming[number] = info
        return info

    def arriving(self, position: Position) -> PodInfo:
        """What one pod asks for, by its own name where devices stand for what it requests: a claim is made in it."""
        info = self.incoming(int(self.view.pods.info[position]))
        backed = self._backed.get(info.alike)
        if backed is None:
            backed = self._backed[info.alike] = has_backed_resources(info, self.view)
        if not backed:
            return info
        if self._latest is None or self._latest[0] != position:
            pod = self.view.with_clone_name(position, self.stored(position))
            self._latest = position, PodInfo(pod, info.options, info.number, info.alike)
        return self._latest[1]

    def waiting(self, position: Position) -> Pod:
        """The very pod, with the node that it waits for now."""
        pod, row = self.view.with_clone_name(position, self.stored(position)), self.view.nominated_row(position)
        name = "" if row == NO_ROW else self.view.nodes.names[row]
        known = pod.status.nominated_node_name
        if known == name or (row == NO_ROW and known not in self.view.nodes.index):
            return pod
        return replace(pod, status=replace(pod.status, nominated_node_name=name))

    def stored(self, position: Position) -> Pod:
        """The pod as the API server holds it when it comes."""
        pod: Pod = self.view.pods.objects[position]
        return self.view.stored(made_again(pod) if pod.spec.node_name else pod)


class PodsOnNodes:
    """The pods of a fork of a scheduler's snapshot. Positions are into ``view.pods``.

    ``incoming``: what they ask for. ``gone``: those that left for good, and of which nobody waits for another node;
    ``unknown``: what the pods tried so far lean on that was not read.
    """

    def __init__(self, scheduler: Scheduler, incoming: IncomingPods, unknown: dict[Unknown, None]) -> None:
        self.scheduler, self.view, self.unknown = scheduler, incoming.view, unknown
        self.arriving = incoming.arriving
        self._incoming = incoming.incoming
        self.budgets = find_budgets(self.view)
        self.nominations = Nominations(self.view)
        self.profiles = ServingProfiles(scheduler, self.view, unknown)
        self.gone: set[Position] = set()
        self.preempted = False
        """Whether some left for others."""
        self.taken_back = 0
        """How many moves of pods were undone."""
        self._reserving: dict[int | None, list[ReservePlugin]] = {}

    @property
    def moves(self) -> int:
        """How often a pod came or went for good."""
        return len(self.view.trail) - self.taken_back

    def incoming(self, position: Position) -> PodInfo:
        """What a pod asks for when it comes."""
        return self._incoming(int(self.view.pods.info[position]))

    def framework(self, position: Position) -> Framework | None:
        """The profile that serves a pod."""
        return self.profiles.of(self.incoming(position))

    def serving(self, position: Position) -> Framework:
        """The profile of a pod that one is known to serve."""
        framework = self.framework(position)
        if framework is None:
            raise KeyError(position)
        return framework

    def bind(self, position: Position, row: Row, before: Mapping[str, PreFilterResult] = NO_PRE_FILTER_RESULTS) -> None:
        """Put a pod on a node, with the volumes and devices that it gets there. Raises PluginError.

        ``before``: by plugin, what its PreFilter says of the pod now, as far as that is known.
        """
        pods, info = self.view.pods, self.arriving(position)
        plugins = self._reserving.get(info.alike)
        if plugins is None:
            plugins = self._reserving[info.alike] = find_reserve_plugins(self.serving(position), info.spec)
        if plugins:
            like_others = info is self.incoming(position)
            pod = pods.objects[position] if like_others else info.pod
            reserve(plugins, info, pod, self.view, row, pre_filter_results=before)
        self.nominations.keep(position)
        self.view.assume(position, row)

    def leave(self, position: Position) -> None:
        """Take a pod off its node again; its devices are free."""
        self.view.forget(position)
        self.release([position])
        self.taken_back += 2

    def evict(self, positions: Sequence[Position]) -> None:
        """Take pods off their nodes for good; their devices are free again, their disruption budgets spent."""
        self.budgets.count_evicted(positions)
        self.take_down(positions)

    def take_down(self, positions: Sequence[Position]) -> None:
        """Take pods off their nodes for good, as their owner does, which no budget restrains."""
        for position in positions:
            self.view.forget(position)
        self.release(positions)
        self.gone.update(positions)

    def release(self, positions: Sequence[Position]) -> None:
        """Give back what was reserved for pods that have no node any more."""
        infos, numbers = self.view.pods.infos, self.view.pods.info
        specs = [infos[number].spec for number in {int(numbers[position]) for position in positions}]
        profiles = map(self.scheduler.framework, self.scheduler.configuration.profiles)
        plugins = {p.name: p for framework in profiles if framework for p in find_reserve_plugins(framework, *specs)}
        if plugins:
            release(plugins.values(), self.view, positions)


class ServingProfiles:
    """The profiles of a scheduler for pods of a view; ``unknown``: what that leans on and is not known.

    Where all was read it is the same for pods that differ in their claims alone.
    """

    def __init__(self, scheduler: Scheduler, view: Fork, unknown: dict[Unknown, None]) -> None:
        self.scheduler, self.view, self.unknown = scheduler, view, unknown
        self._frameworks: dict[int | None, Framework | None] = {}
        self._gates: dict[Framework, list[PreEnqueuePlugin]] = {}

    def of(self, info: PodInfo) -> Framework | None:
        """The profile for such a pod, None where none serves it."""
        key = info.number if self.view.objects.gaps else info.alike
        if key not in self._frameworks:
            self._frameworks[key], unknown = self.scheduler.framework_for(info, self.view)
            self.unknown.update(dict.fromkeys(unknown))
        return self._frameworks[key]

    def serving_none(self, info: PodInfo) -> str:
        """What is said of a pod that none serves."""
        known = ", ".join(self.scheduler.configuration.profiles)
        return f'no profile serves scheduler name "{info.spec.scheduler_name}" (served: {known})'

    def gated(self, framework: Framework, info: PodInfo) -> str:
        """Why a PreEnqueue plugin keeps the pod out of the queue; empty where none does."""
        plugins = self._gates.get(framework)
        if plugins is None:
            plugins = [p for p in framework.plugins_at("preEnqueue") if offers(p, PreEnqueuePlugin)]
            self._gates[framework] = plugins
        for plugin in plugins:
            status = plugin.pre_enqueue(info, self.view)
            if status is not SUCCESS and status.rejected:
                return ", ".join(status.reasons)
        return ""
