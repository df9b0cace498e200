"""What was not read or is uncertain, and which part of an answer it could change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kschedctl.cluster import Cluster, Gap
from kschedctl.reports.unknown import UnknownKind, Unread, undecided
from kschedctl.scheduler.engine import unsure_nominations
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework.dependencies import ALWAYS_NEEDED, Dependency, Effect, Unknown
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from kschedctl.scheduler.plugins.dynamic_resources.step_limit import MAX_STEPS, UNDECIDED
from kschedctl.scheduler.queueing.pods_on_nodes import PodsOnNodes
from kschedctl.scheduler.scheduler import Framework

VERDICT, MESSAGE, SCORES, VICTIMS, REPLACEMENT = "verdict", "message", "scores", "victims", "replacement"
REMEDIES, CREATION = "remedies", "creation"
WEIGHT = {
    affects: weight
    for weight, affects in enumerate((CREATION, REPLACEMENT, REMEDIES, VICTIMS, SCORES, MESSAGE, VERDICT))
}

WHEN_SCHEDULABLE: Mapping[Effect, str] = {
    Effect.REFUSES: VERDICT,
    Effect.REFUSES_MORE: VERDICT,
    Effect.NARROWS: VERDICT,
    Effect.ADMITS: SCORES,
    Effect.EITHER: VERDICT,
    Effect.SCORES: SCORES,
}
"""What of the answer about one pod that fits could be otherwise."""

WHEN_UNSCHEDULABLE: Mapping[Effect, str] = {
    Effect.REFUSES: MESSAGE,
    Effect.REFUSES_MORE: MESSAGE,
    Effect.ADMITS: VERDICT,
    Effect.EITHER: VERDICT,
    Effect.VICTIMS: VICTIMS,
}
"""What of the answer about one pod that does not fit could be otherwise."""

WHEN_WOKEN: Mapping[Effect, str] = dict.fromkeys(
    (Effect.REFUSES, Effect.REFUSES_MORE, Effect.ADMITS, Effect.EITHER), VERDICT
)
"""What of the answer about what wakes a pod could be otherwise: it hangs on who refused it."""

WHEN_GATED: Mapping[Effect, str] = dict.fromkeys(
    (Effect.REFUSES, Effect.REFUSES_MORE, Effect.NARROWS, Effect.ADMITS, Effect.EITHER), MESSAGE
)
"""What of the answer about a pod that is held back could be otherwise once it is released."""

IN_SIMULATIONS: Mapping[Effect, str] = {effect: VERDICT for effect in Effect if effect is not Effect.VICTIMS}
"""What of the answer about several pods could be otherwise: where one goes decides about those after it."""


def unknown_kinds(unknowns: Iterable[Unknown], affected: Mapping[Effect, str]) -> tuple[UnknownKind, ...]:
    """Each kind once, with the most that it could change; kinds that could change nothing are left out."""
    kinds: dict[str, UnknownKind] = {}
    for (kind, effect), gap, _ in unknowns:
        affects = affected.get(effect)
        if affects and (kind not in kinds or WEIGHT[affects] > WEIGHT[kinds[kind].affects]):
            kinds[kind] = UnknownKind(kind, gap.why, affects)
    return tuple(kinds.values())


def of_cluster(cluster: Cluster, *dependencies: Dependency) -> tuple[Unknown, ...]:
    """What every answer about the cluster leans on, and these besides."""
    return tuple(
        Unknown(dependency, gap)
        for dependency in (*ALWAYS_NEEDED, *dependencies)
        if (gap := cluster.gap(dependency.kind))
    )


def of_simulation(simulation: PodsOnNodes, *dependencies: Dependency) -> tuple[UnknownKind, ...]:
    """What the outcome of a simulation leans on; ``dependencies``: besides what its pods do."""
    unknowns = (*of_cluster(simulation.view.cluster, *dependencies), *simulation.unknown)
    victims = {Effect.VICTIMS: VICTIMS} if simulation.preempted else {}
    return unknown_kinds(unknowns, {**IN_SIMULATIONS, **victims})


def unread(unknown: tuple[UnknownKind, ...]) -> Unread:
    """The fields of a report that tell it."""
    return {"unknown": unknown, "undecided": undecided(unknown)}


def together(several: Iterable[Iterable[UnknownKind]]) -> tuple[UnknownKind, ...]:
    """The unknown kinds of several answers, each once, with the most that it could change."""
    kinds: dict[str, UnknownKind] = {}
    for unknown in (unknown for unknowns in several for unknown in unknowns):
        known = kinds.get(unknown.kind)
        if known is None or WEIGHT[unknown.affects] > WEIGHT[known.affects]:
            kinds[unknown.kind] = unknown
    return tuple(kinds.values())


NOT_SEARCHED = "of node {} were not searched to the end ({:,} steps)"


def of_cycle(cycle: Cycle, framework: Framework) -> Iterator[Unknown]:
    """What extenders did not say, which nominations count, and whether devices that were not found could be."""
    yield from cycle.consultation.unknown
    yield from unsure_nominations.in_cycle(cycle, framework.unasked())
    verdict = cycle.filter.verdicts.get(DynamicResources.name)
    for rejection in verdict.rejections if verdict else ():
        if rejection.reason.endswith(UNDECIDED):
            node = cycle.view.nodes.names[int(rejection.mask.argmax())]
            yield Unknown(Dependency("Device", Effect.EITHER), Gap(NOT_SEARCHED.format(node, MAX_STEPS)))
            return


def not_replayed(framework: Framework) -> tuple[str, ...]:
    """What the configuration runs and this answer leaves out."""
    unasked = (f"extender {extender.url}" for extender in framework.extenders if extender.call is None)
    return (*(f"plugin {name}" for name in framework.missing), *unasked)
