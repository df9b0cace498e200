"""A list of changes made to the cluster one after the other, and what they do to its pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from typing import Any, NamedTuple

from msgspec.structs import replace

from kschedctl.api.objects import Pod
from kschedctl.api.pod_table import PodTable
from kschedctl.api.resource_names import CPU, MEMORY
from kschedctl.cluster import Cluster
from kschedctl.errors import KschedctlError, UsageError
from kschedctl.reports import scenario as parts
from kschedctl.reports.whatif import DomainBalance, PodChange, StepReport, WhatIf
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation import Simulation
from kschedctl.snapshot.node_order import ZONE
from kschedctl.snapshot.snapshot import Bools, Snapshot
from kschedctl.studies import node_steps, nodes, pod_steps
from kschedctl.studies.drain import Draining
from kschedctl.studies.edit import Edit, Files, chosen_nodes
from kschedctl.studies.edits import workload_of
from kschedctl.studies.parallel import UNSEEN, Progress
from kschedctl.studies.scenario import load_scenario, verb
from kschedctl.studies.scene import left_out
from kschedctl.studies.settling import Settled, settle, settled
from kschedctl.studies.simulate import deploy, prepare

EDITS: Mapping[str, Callable[[Any, Cluster, Files], Edit]] = {
    "cordon": node_steps.cordon,
    "uncordon": node_steps.uncordon,
    "taint": node_steps.taint,
    "label": node_steps.label,
    "addNodes": node_steps.add_nodes,
    "removeNodes": node_steps.remove_nodes,
    "fail": node_steps.fail,
    "scale": pod_steps.scale,
    "priorityClass": pod_steps.set_priority_class,
    "configure": pod_steps.configure,
}
"""A step's name -> the edit that it is. ``apply`` and ``drain`` are more than that."""


def no_files(name: str) -> Sequence[Mapping[str, Any]]:
    """For scenarios that come without files. Raises UsageError."""
    raise UsageError(f'"{name}" cannot be read here', hint="put its documents into the scenario")


@dataclass
class Run:
    """A scenario taken step by step; ``rest`` is the cluster after the latest of ``steps``.

    ``read`` reads the documents of a file that the scenario names.
    """

    rest: Settled
    read: Files
    seed: int
    sampling: bool
    steps: list[StepReport] = field(default_factory=list)

    def take_all(self, scenario: parts.Scenario, progress: Progress) -> None:
        """Take the steps, fewer when the user interrupts. Raises KschedctlError that names the step."""
        done = progress.begin("Steps", len(scenario.steps))
        for step in scenario.steps:
            if not self.rest.interrupted:
                self.take(step)
                done(1)

    def take(self, step: parts.Step) -> None:
        """Take one step, and let the pending pods pass the queue. Raises KschedctlError that names the step."""
        name, part = verb(step)
        try:
            displaced, notes = self._take(name, part)
        except KschedctlError as error:
            where = f"step {len(self.steps) + 1} ({name})"
            raise UsageError(str(error), where=where) from None
        rest = self.rest
        report = StepReport(name, displaced, rest.placed, len(rest.waiting), rest.evicted, tuple(notes))
        self.steps.append(report)

    def _take(self, name: str, part: parts.Part) -> tuple[int, Sequence[str]]:
        match part:
            case parts.Apply():
                return self._apply(part)
            case parts.SomeNodes() if name == "drain":
                return self._drain(part)
        edit = EDITS[name](part, self.rest.cluster, self.read)
        self.rest = settle(edit.result, self.seed, self.sampling)
        return edit.displaced, edit.notes

    def _apply(self, part: parts.Apply) -> tuple[int, Sequence[str]]:
        manifests = list(pod_steps.manifests_of(part, self.read))
        scene = prepare(self.rest.cluster, manifests, rollout=part.rollout, pending=True, sampling=self.sampling)
        simulation, rollouts, outcomes = deploy(scene, self.seed)
        self.rest = settled(simulation, outcomes)
        told = (f"{rollout.change.workload}: {rollout.said}" for rollout in rollouts if rollout.said)
        return sum(len(rollout.change.removed) - len(rollout.old) for rollout in rollouts), [*scene.assumed, *told]

    def _drain(self, part: parts.SomeNodes) -> tuple[int, Sequence[str]]:
        names = chosen_nodes(self.rest.cluster, part)
        scheduler = Scheduler(nodes.cordoned(self.rest.cluster, names))
        draining = Draining(Simulation(scheduler, seed=self.seed, sampling=self.sampling), names)
        draining.run()
        before = self.rest.waiting
        rest = settled(draining.simulation, list(draining.outcomes.values()))
        self.rest = changed(rest, waiting={**before, **rest.waiting})
        blocked = [f"{pod.pod} cannot be evicted: {pod.why}" for pod in draining.blocked()]
        return len(draining.outcomes) + len(draining.lost), blocked


def whatif(
    cluster: Cluster,
    scenario: parts.Scenario | Mapping[str, Any],
    *,
    read: Files = no_files,
    seed: int = 0,
    sampling: bool = False,
    progress: Progress = UNSEEN,
) -> WhatIf:
    """The difference that the scenario, or the document that is one, makes.

    Pods that are pending and fit are scheduled before it begins. ``read`` reads the documents of a file that the
    scenario names. Raises UsageError and InputError that name the step.
    """
    if not isinstance(scenario, parts.Scenario):
        scenario = load_scenario(scenario)
    before = settle(cluster, seed, sampling)
    run = Run(before, read, seed, sampling)
    run.take_all(scenario, progress)
    return _report(scenario.name, seed, before, run)


def compare(
    cluster: Cluster,
    scenario: parts.Scenario | None,
    configurations: Mapping[str, Mapping[str, Any]],
    *,
    read: Files = no_files,
    seed: int = 0,
    sampling: bool = False,
    progress: Progress = UNSEEN,
) -> WhatIf:
    """The difference between two configurations, by name, for the scenario and the pending pods."""
    found = []
    for configuration in configurations.values():
        start = settle(changed(cluster, configuration=configuration), seed, sampling)
        found.append(Run(start, read, seed, sampling))
        found[-1].take_all(scenario or parts.Scenario(steps=()), progress)
    first, second = found
    name = scenario.name if scenario else ""
    report = _report(name, seed, first.rest, second)
    return replace(report, compared=tuple(configurations))


# -- the difference -----------------------------------------------------------------------------------------------


def _report(name: str, seed: int, before: Settled, run: Run) -> WhatIf:
    after = run.rest
    return WhatIf(
        name=name,
        seed=seed,
        pending=(len(before.waiting), len(after.waiting)),
        steps=tuple(run.steps),
        changes=tuple(_changes(before, after)),
        balance=tuple(_balance(before.cluster, after.cluster)),
        not_replayed=left_out(Scheduler(changed(after.cluster, pods=()))),
        interrupted=after.interrupted,
    )


def _changes(before: Settled, after: Settled) -> Iterator[PodChange]:
    then, now = _nodes(before.cluster), _nodes(after.cluster)
    for key in sorted(then.keys() | now.keys()):
        source, target = then.get(key), now.get(key)
        change = _change(source, target)
        if change:
            pod = _pod(after.cluster if target is not None else before.cluster, key)
            message = after.waiting.get(key, "") if not target else ""
            yield PodChange(key, workload_of(pod), change, source or "", target or "", message)


def _change(source: str | None, target: str | None) -> str:
    """Nodes, empty for none; None where there is no such pod."""
    if source == target:
        return ""
    if source is None:
        return "Created" if target else "NewlyPending"
    if target is None:
        return "Gone"
    if source and target:
        return "Moved"
    return "NewlyPending" if source else "NewlyScheduled"


def _nodes(cluster: Cluster) -> dict[str, str]:
    """Pod -> its node."""
    pods = cluster.pods
    if isinstance(pods, PodTable):
        return dict(zip(pods.keys(), pods.node.texts(), strict=True))
    return {pod.key: pod.spec.node_name for pod in pods}


def _pod(cluster: Cluster, key: str) -> Pod:
    namespace, name = key.split("/", 1)
    found = cluster.pod(namespace, name)
    assert found is not None
    return found


def _balance(before: Cluster, after: Cluster) -> Iterator[DomainBalance]:
    """Every zone that nodes are in, before or after."""
    then, now = Scheduler(before).view, Scheduler(after).view
    for zone in sorted({*then.nodes.label(ZONE).values, *now.nodes.label(ZONE).values}):
        old, new = _zone(then, zone), _zone(now, zone)
        requested = {name: (old.requested[name], new.requested[name]) for name in old.requested}
        yield DomainBalance(zone, (old.nodes, new.nodes), (old.pods, new.pods), requested)


class _Zone(NamedTuple):
    nodes: int
    pods: int
    requested: dict[str, float]


def _zone(view: Snapshot, zone: str) -> _Zone:
    column = view.nodes.label(ZONE)
    there = column.codes == (column.values.index(zone) if zone in column.values else -2)
    bound = view.pods.node[view.pods.node >= 0]
    return _Zone(int(there.sum()), int(there[bound].sum()), {name: _share(view, there, name) for name in (CPU, MEMORY)})


def _share(view: Snapshot, there: Bools, name: str) -> float:
    """How much of what these nodes (N,) offer is requested, in percent."""
    column = view.resources[name]
    offered = int(view.allocatable[there, column].sum())
    return round(100 * int(view.requested[there, column].sum()) / offered, 1) if offered else 0.0
