"""Volumes that can be used only from some nodes, and what that means for their pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kschedctl.api.arrays import Position, Rows
from kschedctl.api.objects import PersistentVolume, PersistentVolumeClaim, Pod, VolumeNodeAffinity
from kschedctl.reports.placements import PinnedVolume
from kschedctl.scheduler.plugins.helper.volumes.listers import format_claim_key, get_listers, iter_claim_volumes
from kschedctl.snapshot.fork import Fork
from kschedctl.text.counts import agreeing, first_few


def find_pinned_volumes(view: Fork, rows: Rows, positions: Iterable[Position]) -> tuple[PinnedVolume, ...]:
    """Return the volumes of these pods that can be used from some of the nodes at `rows`, but from no other node.

    `view` contains all nodes, including those at `rows`. Claims that are not bound to a volume are left out.
    """
    return tuple(volume for position in positions for volume in _iter_pinned_volumes(view, rows, position))


def _iter_pinned_volumes(view: Fork, rows: Rows, position: Position) -> Iterator[PinnedVolume]:
    """Yield the bound volumes of a pod that can be used only from the nodes at `rows`.

    Volumes that no node can use are left out.
    """
    pod = view.pods.objects[position]
    for claim, volume in _iter_bound_volumes(view, pod):
        reachable = get_listers(view).topology.find_reachable_rows(volume.spec.node_affinity).tolist()
        if reachable and set(reachable).issubset(rows.tolist()):
            yield PinnedVolume(
                volume=volume.metadata.name,
                claim=format_claim_key(claim),
                pod=pod.key,
                nodes=tuple(view.nodes.names[row] for row in reachable),
                local=volume.spec.local is not None or volume.spec.host_path is not None,
                domain=_describe_domain(volume.spec.node_affinity),
            )


def explain_confining_volume(view: Fork, pod: Pod) -> str:
    """Return a clause on the first bound volume of the pod that can be used only from some nodes, or "" without one.

    Room on the other nodes does not help the pod.
    """
    for _, volume in _iter_bound_volumes(view, pod):
        rows = get_listers(view).topology.find_reachable_rows(volume.spec.node_affinity).tolist()
        if len(rows) == len(view.nodes):
            continue
        nodes = first_few([view.nodes.names[row] for row in rows])
        domain = _describe_domain(volume.spec.node_affinity)
        if domain and not rows:
            return f"its volume can be used only from {domain}, where there is no node"
        if rows:
            place = f"{domain} ({nodes})" if domain else nodes
            return f"its volume can be used only from {place}, so room on other nodes does not help"
    return ""


def _iter_bound_volumes(view: Fork, pod: Pod) -> Iterator[tuple[PersistentVolumeClaim, PersistentVolume]]:
    """Yield the claims of the pod that are bound to a volume, with their volumes."""
    storage = get_listers(view)
    for claim_volume in iter_claim_volumes(pod):
        claim = storage.claims.get((pod.metadata.namespace, claim_volume.claim_name))
        volume = storage.volumes.get(claim.spec.volume_name) if claim else None
        if claim is not None and volume is not None:
            yield claim, volume


def _describe_domain(affinity: VolumeNodeAffinity | None) -> str:
    """Describe the zones, or the values of another node label, from which a volume can be used, such as `zone a`.

    Return "" if the volume names nodes, or if its node affinity has other forms.
    """
    terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
    if len(terms) != 1 or terms[0].match_fields:
        return ""
    values_by_key = {
        requirement.key: requirement.values or ()
        for requirement in terms[0].match_expressions
        if requirement.operator == "In" and not requirement.key.endswith("/region")
    }
    has_other_operators = any(requirement.operator != "In" for requirement in terms[0].match_expressions)
    if has_other_operators or len(values_by_key) != 1:
        return ""
    [(key, values)] = values_by_key.items()
    if key.endswith("/hostname"):
        return ""
    label = agreeing(len(values), "zone", "zones") if key.endswith("/zone") else key
    return f"{label} {first_few(values)}"
