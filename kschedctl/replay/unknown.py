"""From what was not read to what of an answer it could change, and the words for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kschedctl.cluster import Cluster
from kschedctl.reports.unknown import UnknownKind, Unread, undecided
from kschedctl.scheduler.framework.dependencies import EVERYTHING, Dependency, Effect, Unknown
from kschedctl.scheduler.queueing.pods_on_nodes import PodsOnNodes

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
        Unknown(dependency, gap) for dependency in (*EVERYTHING, *dependencies) if (gap := cluster.gap(dependency.kind))
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
