"""The inputs that were not read or are uncertain, and the parts of an answer that they could change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import structs

from kschedctl.api.objects import Pod
from kschedctl.cluster import FIELDS, Cluster, Gap
from kschedctl.reports.unknown import UnknownKind, Unread, is_undecided
from kschedctl.scheduler.engine import unsure_nominations
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework.dependencies import ALWAYS_NEEDED, Dependency, Effect, Unknown
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from kschedctl.scheduler.scheduler import Framework

if TYPE_CHECKING:
    from kschedctl.scheduler.queueing.pods_on_nodes import PodsOnNodes

VERDICT, MESSAGE, SCORES, VICTIMS, REPLACEMENT = "verdict", "message", "scores", "victims", "replacement"
REMEDIES, CREATION = "remedies", "creation"
IMPORTANCE = {
    affects: weight
    for weight, affects in enumerate((CREATION, REPLACEMENT, REMEDIES, VICTIMS, SCORES, MESSAGE, VERDICT))
}
"""The importance of the parts of an answer, least first."""

WHEN_SCHEDULABLE: Mapping[Effect, str] = {
    Effect.REFUSES: VERDICT,
    Effect.REFUSES_MORE: VERDICT,
    Effect.NARROWS: VERDICT,
    Effect.ADMITS: SCORES,
    Effect.EITHER: VERDICT,
    Effect.SCORES: SCORES,
}
"""Effect of an unread object -> the part of the answer that it could change, for a pod that fits."""

WHEN_UNSCHEDULABLE: Mapping[Effect, str] = {
    Effect.REFUSES: MESSAGE,
    Effect.REFUSES_MORE: MESSAGE,
    Effect.ADMITS: VERDICT,
    Effect.EITHER: VERDICT,
    Effect.VICTIMS: VICTIMS,
}
"""Effect of an unread object -> the part of the answer that it could change, for a pod that does not fit."""

WHEN_WOKEN: Mapping[Effect, str] = dict.fromkeys(
    (Effect.REFUSES, Effect.REFUSES_MORE, Effect.ADMITS, Effect.EITHER), VERDICT
)
"""Effect of an unread object -> the part of the answer that it could change, for events that wake a pod."""

WHEN_GATED: Mapping[Effect, str] = dict.fromkeys(
    (Effect.REFUSES, Effect.REFUSES_MORE, Effect.NARROWS, Effect.ADMITS, Effect.EITHER), MESSAGE
)
"""Effect of an unread object -> the part of the answer that it could change, for a pod whose gate is removed."""

IN_SIMULATIONS: Mapping[Effect, str] = {effect: VERDICT for effect in Effect if effect is not Effect.VICTIMS}
"""Effect of an unread object -> the part of the answer that it could change, for pods placed one after another."""


def summarize_unknowns(unknowns: Iterable[Unknown], affected: Mapping[Effect, str]) -> tuple[UnknownKind, ...]:
    """Merge unknowns by kind, and name for each kind the most important part of the answer that it could change.

    ``affected`` maps an effect, such as a change of the victims, to a part of the answer. IMPORTANCE ranks the parts.
    Unknowns that could change no part are left out.
    """
    unknown_kinds = []
    for unknown in unknowns:
        part = affected.get(unknown.dependency.effect)
        if part:
            unknown_kinds.append(UnknownKind(kind=unknown.dependency.kind, why=unknown.gap.why, affects=part))
    # Of the entries of a kind, only the entry with the most important part is kept
    return merge_unknown_kinds([unknown_kinds])


def find_unread_dependencies(cluster: Cluster, *dependencies: Dependency) -> tuple[Unknown, ...]:
    """Return the unread kinds of objects among these dependencies and the dependencies that every answer has."""
    unread = []
    for dependency in (*ALWAYS_NEEDED, *dependencies):
        gap = cluster.find_gap(dependency.kind)
        if gap:
            unread.append(Unknown(dependency, gap))
    return tuple(unread)


def find_simulation_unknowns(simulation: PodsOnNodes, *dependencies: Dependency) -> tuple[UnknownKind, ...]:
    """Return the unknown kinds that could change the outcome of a simulation.

    ``dependencies`` are the kinds on which the answer depends in addition to what scheduling reads. Kinds that could
    change only the choice of victims count only if pods were preempted.
    """
    unknowns = (*find_unread_dependencies(simulation.view.cluster, *dependencies), *simulation.unknown)
    affected = dict(IN_SIMULATIONS)
    if simulation.preempted:
        affected[Effect.VICTIMS] = VICTIMS
    return summarize_unknowns(unknowns, affected)


def build_unknown_fields(unknown: tuple[UnknownKind, ...]) -> Unread:
    """Build the report fields that list what was not read."""
    return {"unknown": unknown, "undecided": is_undecided(unknown)}


def merge_unknown_kinds(answers: Iterable[Iterable[UnknownKind]]) -> tuple[UnknownKind, ...]:
    """Merge the unknown kinds of several answers, so that each kind occurs once.

    If a kind occurs several times, the entry that affects the most important part of an answer is kept.
    """
    merged: dict[str, UnknownKind] = {}
    for unknown in chain.from_iterable(answers):
        previous = merged.get(unknown.kind)
        if previous is None or IMPORTANCE[unknown.affects] > IMPORTANCE[previous.affects]:
            merged[unknown.kind] = unknown
        if previous is not None and previous.named_objects != unknown.named_objects:
            named_objects = tuple(dict.fromkeys((*previous.named_objects, *unknown.named_objects)))
            merged[unknown.kind] = structs.replace(merged[unknown.kind], named_objects=named_objects)
    return tuple(merged.values())


def add_objects_named_by_pod(unknown: Iterable[UnknownKind], pod: Pod, cluster: Cluster) -> tuple[UnknownKind, ...]:
    """Return the unread kinds with the objects that the pod names and the cluster does not have."""
    return tuple(
        structs.replace(entry, named_objects=_list_unread_objects(entry.kind, pod, cluster)) for entry in unknown
    )


def _list_unread_objects(kind: str, pod: Pod, cluster: Cluster) -> tuple[str, ...]:
    """Return, as namespace/name, the objects of the kind that the pod names and the cluster does not have.

    The kind may be PersistentVolumeClaim or ResourceClaim. For any other kind, the result is ().
    """
    spec, namespace = pod.spec, pod.metadata.namespace
    names_by_kind = {
        "PersistentVolumeClaim": [
            volume.persistent_volume_claim.claim_name for volume in spec.volumes if volume.persistent_volume_claim
        ],
        "ResourceClaim": [claim.resource_claim_name for claim in spec.resource_claims if claim.resource_claim_name],
    }
    names = dict.fromkeys(names_by_kind.get(kind, ()))
    if not names:
        return ()
    read_names = {stored.metadata.name for stored in cluster.list_in_namespace(FIELDS[kind], namespace)}
    return tuple(f"{namespace}/{name}" for name in names if name not in read_names)


SEARCH_UNFINISHED = "on node {} were not searched to the end (limit: {:,} steps)"


def iter_cycle_uncertainties(cycle: Cycle, framework: Framework) -> Iterator[Unknown]:
    """Yield the uncertainties of a cycle: uncalled extenders, doubtful nominations and unfinished device searches.

    Of the nodes on which a search for devices reached its step limit, only the first is named.
    """
    yield from cycle.consultation.unknown
    nominations_unknown = unsure_nominations.find_cycle_unknown(cycle, framework.without_extenders())
    if nominations_unknown is not None:
        yield nominations_unknown
    unfinished_search = _find_unfinished_device_search(cycle)
    if unfinished_search is not None:
        yield unfinished_search


def _find_unfinished_device_search(cycle: Cycle) -> Unknown | None:
    """Return the unknown about the first node on which a device search reached its step limit, or None."""
    verdict = cycle.filter.verdicts.get(DynamicResources.name)
    if verdict is None:
        return None
    from kschedctl.scheduler.plugins.dynamic_resources.step_limit import (  # noqa: PLC0415 - only with devices
        MAX_STEPS,
        UNDECIDED,
    )

    for rejection in verdict.rejections:
        if rejection.reason.endswith(UNDECIDED):
            node = cycle.view.nodes.names[int(rejection.mask.argmax())]
            return Unknown(Dependency("Device", Effect.EITHER), Gap(SEARCH_UNFINISHED.format(node, MAX_STEPS)))
    return None


def find_unreplayed_parts(framework: Framework) -> tuple[str, ...]:
    """Return a line for each plugin and extender of the profile that the replay leaves out."""
    plugins = [f"plugin {name}" for name in framework.missing]
    extenders = [f"extender {extender.url}" for extender in framework.extenders if extender.call is None]
    return (*plugins, *extenders)
