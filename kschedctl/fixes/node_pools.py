"""Fixes of Karpenter's NodePools and node classes: a higher limit, a missing or empty label, or a zone's subnet.

A pool that lacks what a pod asks for is corrected before the pod asks for less.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.copying import replace as copy_with
from kschedctl.api.json_values import JsonObject
from kschedctl.api.karpenter import NodeClass, NodeClassSubnet, NodePool
from kschedctl.api.objects import Pod
from kschedctl.autoscaling.karpenter.node_classes import NodeClasses, find_class_kind, get_class_reference
from kschedctl.autoscaling.karpenter.state_nodes import derive_instance_types
from kschedctl.cluster import Cluster
from kschedctl.fixes.node_groups import MOST_TRIED, is_kubernetes_label, iter_required_node_labels
from kschedctl.fixes.trial.fix_kinds import PoolFixKind, Price
from kschedctl.fixes.trial.guesses import find_image_platform
from kschedctl.replay import kubectl
from kschedctl.reports.new_node import NewNode
from kschedctl.reports.remedy import Remedy
from kschedctl.snapshot.nodes import ZONE
from kschedctl.text.counts import join_words

KARPENTER = "karpenter.sh"
SOME_VALUE = "true"
"""The value for an empty label; any value will do."""
Replay = Callable[[Cluster, Sequence[JsonObject] | None], NewNode]
"""Returns Karpenter's answer for the pod in another cluster and, if not None, with other instance types."""


class PoolCorrection(NamedTuple):
    """A change that may let a NodePool launch a node for the pod."""

    pool: str
    kind: PoolFixKind
    summary: str
    command: str
    cluster: Cluster
    """The cluster with the change."""
    types: Sequence[JsonObject] | None = None
    """Karpenter's instance types after the change, or None if they stay."""


def find_node_pool_fixes(
    cluster: Cluster, pod: Pod, current_answer: NewNode, replay: Replay, types: Sequence[JsonObject] | None
) -> tuple[Remedy, ...]:
    """Return changes of NodePools and node classes that make Karpenter launch a node for the pod in a replay.

    At most MOST_TRIED changes are replayed. The result is empty if the pod gets a node anyway, as `current_answer` for
    the unchanged cluster says. `types` are the known instance types, or None for the types of the existing nodes.
    """
    if current_answer.would_launch or current_answer.existing_node:
        return ()
    limits_by_pool = {verdict.pool: verdict.sufficient_limits for verdict in current_answer.pools}
    corrections = islice(_iter_pool_corrections(cluster, pod, types, limits_by_pool), MOST_TRIED)
    return tuple(
        _build_pool_remedy(correction) for correction in corrections if _lets_pool_launch_node(correction, replay)
    )


def _lets_pool_launch_node(correction: PoolCorrection, replay: Replay) -> bool:
    """Replay Karpenter with the correction, and return whether the changed pool would launch a node for the pod."""
    after = replay(correction.cluster, correction.types)
    return any(pool.pool == correction.pool and pool.takes for pool in after.pools)


def _build_pool_remedy(correction: PoolCorrection) -> Remedy:
    """Build the remedy that reports a correction of a NodePool, with its command."""
    return Remedy(
        summary=correction.summary,
        by="operator",
        weakens=None,  # no guarantee is given up
        opens=(f"a new node of NodePool {correction.pool}",),
        commands=(correction.command,),
        changes=(),  # the command makes the correction
        kinds=(correction.kind.value,),
        step=Price.CORRECTION.name.lower(),
    )


def _iter_pool_corrections(
    cluster: Cluster,
    pod: Pod,
    types: Sequence[JsonObject] | None,
    limits_by_pool: Mapping[str, Mapping[str, str]],
) -> Iterator[PoolCorrection]:
    """Yield corrections of each NodePool or of its node class. A single correction may be enough for the pod.

    `limits_by_pool` maps the names of pools to the limits, by resource, with which they would take the pod.
    """
    for pool in cluster.karpenter_node_pools:
        corrections = [
            _build_limit_correction(cluster, pool, limits_by_pool.get(pool.metadata.name, {})),
            *_iter_missing_label_corrections(cluster, pool, pod),
            _build_empty_label_correction(cluster, pool, pod),
            _build_zone_correction(cluster, pool, pod, types),
        ]
        yield from filter(None, corrections)


def _build_limit_correction(
    cluster: Cluster, pool: NodePool, sufficient_limits: Mapping[str, str]
) -> PoolCorrection | None:
    """Build the correction that raises the pool's limits to `sufficient_limits`, or return None if these are empty."""
    if not sufficient_limits:
        return None
    limits = pool.spec.limits or {}
    raises = [f"{name} from {limits[name]} to {amount}" for name, amount in sufficient_limits.items()]
    noun = "limit" if len(raises) == 1 else "limits"
    changed_pool = replace(pool, spec=replace(pool.spec, limits={**limits, **sufficient_limits}))
    summary = f"Raise the {noun} of NodePool {pool.metadata.name}: {', '.join(raises)}"
    return _build_pool_correction(cluster, pool, changed_pool, summary, {"spec": {"limits": dict(sufficient_limits)}})


def _iter_missing_label_corrections(cluster: Cluster, pool: NodePool, pod: Pod) -> Iterator[PoolCorrection]:
    """Yield corrections, one for each affinity term, that add the pod's required labels to the pool's template.

    Labels are not added if the template has them, if it restricts them by a requirement, or if they belong to
    Kubernetes or Karpenter. There are no corrections for a pool whose nodes have another platform than the pod's image.
    """
    template = pool.spec.template
    requirements = {requirement.key: requirement for requirement in template.spec.requirements}
    for key, value in find_image_platform(pod).items():
        requirement = requirements.get(key)
        if requirement is not None and requirement.operator == "In" and value not in requirement.values:
            return  # the pool's nodes cannot run the image

    labels = template.metadata.labels
    for required_labels in iter_required_node_labels(pod):
        missing = {}
        for key, values in required_labels.items():
            is_defined = key in labels or key in requirements
            is_reserved = is_kubernetes_label(key) or KARPENTER in key
            if not is_defined and not is_reserved:
                missing[key] = values
        if missing and all(missing.values()):
            added = {key: values[0] for key, values in missing.items()}
            words = " and ".join(f"{key}={value}" for key, value in added.items())
            label_noun, pronoun = ("label", "it") if len(added) == 1 else ("labels", "them")
            summary = f"Add the {label_noun} {words} to NodePool {pool.metadata.name}, whose nodes lack {pronoun}"
            yield _build_label_correction(cluster, pool, added, summary)


def _build_empty_label_correction(cluster: Cluster, pool: NodePool, pod: Pod) -> PoolCorrection | None:
    """Build the correction that gives a value to empty labels of the pool that the pod's spread constraints use.

    Karpenter treats an empty label as missing. Return None if there is no such label.
    """
    labels = pool.spec.template.metadata.labels
    keys = dict.fromkeys(constraint.topology_key for constraint in pod.spec.topology_spread_constraints)
    empty_keys = [key for key in keys if labels.get(key) == ""]
    if not empty_keys:
        return None
    label_noun = "label" if len(empty_keys) == 1 else "labels"
    names = " and ".join(empty_keys)
    instruction = f"Set a value, such as {SOME_VALUE}, for the {label_noun} {names} of NodePool {pool.metadata.name}"
    summary = f"{instruction}, since Karpenter treats an empty label as missing"
    return _build_label_correction(cluster, pool, dict.fromkeys(empty_keys, SOME_VALUE), summary)


def _build_label_correction(cluster: Cluster, pool: NodePool, labels: dict[str, str], summary: str) -> PoolCorrection:
    """Build the correction that sets labels in the pool's template, with the command and the changed cluster.

    `summary` describes the correction in one line.
    """
    template = pool.spec.template
    metadata = replace(template.metadata, labels={**template.metadata.labels, **labels})
    changed_pool = replace(pool, spec=replace(pool.spec, template=replace(template, metadata=metadata)))
    patch = {"spec": {"template": {"metadata": {"labels": labels}}}}
    return _build_pool_correction(cluster, pool, changed_pool, summary, patch)


def _build_pool_correction(
    cluster: Cluster, pool: NodePool, changed_pool: NodePool, summary: str, patch: JsonObject
) -> PoolCorrection:
    """Build the correction that changes the pool by a merge patch, with the command and the changed cluster.

    `changed_pool` is the pool after the patch, and `summary` describes the correction in one line.
    """
    pools = tuple(changed_pool if other is pool else other for other in cluster.karpenter_node_pools)
    name = pool.metadata.name
    command = kubectl.render_command("patch", f"nodepools.{KARPENTER}", name, "--type=merge", "-p", json.dumps(patch))
    return PoolCorrection(
        name,
        PoolFixKind.CHANGE_NODE_POOL,
        summary,
        command=command,
        cluster=copy_with(cluster, karpenter_node_pools=pools),
    )


def _build_zone_correction(
    cluster: Cluster, pool: NodePool, pod: Pod, types: Sequence[JsonObject] | None
) -> PoolCorrection | None:
    """Build the correction that adds a subnet to the pool's node class, in the first zone that the pod selects.

    If the instance types are known only from nodes, all of them are assumed to be available in the zone. Return None if
    the pod selects no zone, or if the node class is unknown, has no known zones, or already has a subnet in a selected
    zone.
    """
    kind = find_class_kind(pool)
    node_class = NodeClasses(cluster).find_node_class(pool)
    if kind is None or node_class is None or not node_class.zones:
        return None
    wanted_zones = list(
        dict.fromkeys(zone for labels in iter_required_node_labels(pod) for zone in labels.get(ZONE, ()))
    )
    if not wanted_zones or any(zone in node_class.zones for zone in wanted_zones):
        return None

    # Add a subnet in the first selected zone.
    zone = wanted_zones[0]
    subnets = (*node_class.status.subnets, NodeClassSubnet(zone))
    changed_class = replace(node_class, status=replace(node_class.status, subnets=subnets))
    node_classes: Sequence[NodeClass] = getattr(cluster, kind.field)
    changed_classes = tuple(changed_class if other is node_class else other for other in node_classes)
    if types is None:
        types = [_add_zone_offerings(instance_type, zone) for instance_type in derive_instance_types(cluster)]

    reference = get_class_reference(pool)
    zones = join_words(sorted(node_class.zones))
    class_name = f"{reference.kind} {reference.name}"
    return PoolCorrection(
        pool.metadata.name,
        PoolFixKind.CHANGE_NODE_CLASS,
        f"Give {class_name} a subnet in {zone}: the subnets that it selects are in {zones}",
        command=f"# tag a subnet in {zone} so that the subnetSelectorTerms of {class_name} select it",
        cluster=copy_with(cluster, **{kind.field: changed_classes}),
        types=types,
    )


def _add_zone_offerings(instance_type: JsonObject, zone: str) -> JsonObject:
    """Return the instance type with a copy of each of its offerings added for the zone."""
    offerings = instance_type.get("offerings")
    if not isinstance(offerings, list):
        offerings = []
    in_zone = {"key": ZONE, "operator": "In", "values": [zone]}
    zone_offerings = []
    for offering in offerings:
        other_requirements = [requirement for requirement in offering["Requirements"] if requirement["key"] != ZONE]
        zone_offerings.append({**offering, "Requirements": [*other_requirements, in_zone]})
    return {**instance_type, "offerings": [*offerings, *zone_offerings]}
