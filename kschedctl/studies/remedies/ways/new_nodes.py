"""More nodes: one more like one that the cluster has, of each pool, or a larger one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from msgspec.structs import replace

from kschedctl.api.node_pools import pool_of
from kschedctl.api.objects import CSINode, Node, NodeSpec, ObjectMeta, Pod, Resources, ResourceSlice
from kschedctl.api.ownership import owner_of
from kschedctl.api.resource_names import CPU, EPHEMERAL_STORAGE, is_extended, is_pod_level
from kschedctl.api.tolerations import UNSCHEDULABLE
from kschedctl.scheduler.framework import Rejection
from kschedctl.scheduler.plugins.node_affinity import NodeAffinity
from kschedctl.scheduler.plugins.taint_toleration import TaintToleration
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_order import HOSTNAME, zone_key
from kschedctl.studies.basics.object_keys import ObjectKey
from kschedctl.studies.remedies.fixes.changes import Fix, ObjectEdit
from kschedctl.studies.remedies.fixes.tried_node import TriedNode, label_keys
from kschedctl.studies.remedies.ways.unready_nodes import in_order, is_no_node_initialized

ADD_NODE, OF_ANOTHER_SHAPE = 70, 75
MOST_MODELS = 12
OF_NODES = frozenset({TaintToleration.name, NodeAffinity.name})
"""The plugins that refuse a node for what it is, whatever runs there."""
Amounts = dict[str, int]


def one_more(tried: TriedNode) -> Iterator[Fix]:
    """A node like the first of each sort, with what runs on each node; where none is large enough, a larger one.

    Nobody adds a node that takes no pods: like one that is cordoned the new one is in all else. Nor one of another sort
    with devices that a sort of nodes has.
    """
    if is_no_node_initialized(tried.cycle.view.nodes):
        return  # nor would a new one be
    view, models = tried.cycle.view, _models(tried)
    refused = [refusal.mask for name in OF_NODES for refusal in _rejections(tried, name)]
    rows = {node.metadata.name: view.nodes.index[node.metadata.name] for node in models}
    fit = [node for node in models if not any(mask[rows[node.metadata.name]] for mask in refused)] or models
    for node in sorted(models, key=lambda node: node not in fit)[:MOST_MODELS]:
        yield more_like(view, node)
    lacking = {node.metadata.name: _lacking(tried, node) for node in fit}
    if all(lacking.values()):
        for node in fit[:MOST_MODELS]:
            amounts = lacking[node.metadata.name]
            if not any(is_extended(name) and _is_offered(view, name, amount) for name, amount in amounts.items()):
                yield more_like(view, node, larger=amounts)


def _models(tried: TriedNode) -> list[Node]:
    """The first node of each sort: these differ in pool, zone, taints, size and the labels by which the pod chooses."""
    keys, view = tuple(sorted(label_keys(tried.cycle) - {HOSTNAME})), tried.cycle.view
    return view.memo((_models, keys), lambda: list(_first_of_each_sort(view.nodes.objects, keys).values()))


def _first_of_each_sort(nodes: Sequence[Node], keys: Sequence[str]) -> dict[object, Node]:
    first: dict[object, Node] = {}
    for node in sorted(nodes, key=lambda node: node.spec.unschedulable):
        chosen = tuple(map(node.metadata.labels.get, keys))
        size = tuple(sorted(node.status.allocatable.items()))
        first.setdefault((pool_of(node), zone_key(node), _empty(node).taints, size, chosen), node)
    return first


def _is_offered(view: Fork, resource: str, amount: int) -> bool:
    """Whether a node that is there has as much when it is empty."""
    column = view.resources.get(resource)
    return column is not None and bool((view.allocatable[:, column] >= amount).any())


def _rejections(tried: TriedNode, plugin: str) -> Sequence[Rejection]:
    verdict = tried.cycle.filter.verdicts.get(plugin)
    return verdict.rejections if verdict else ()


def _lacking(tried: TriedNode, node: Node) -> Amounts:
    """How much of each resource an empty node has to offer, where this one has less: beside what runs on each node."""
    view, row = tried.cycle.view, tried.cycle.view.nodes.index[node.metadata.name]
    daemons = [at for at in view.pods_on(row) if owner_of(view.pods.objects[at]).kind == "DaemonSet"]
    taken = view.requests[view.pods.info[daemons]].sum(axis=0) if daemons else np.zeros(len(view.resources), np.int64)
    amounts = {}
    for name, wanted in tried.cycle.info.incoming_requests.items():
        column = view.resources.get(name)
        used = int(taken[column]) if column is not None else 0
        offered = int(view.allocatable[row, column]) if column is not None else 0
        if wanted and used + wanted > offered:
            amounts[name] = used + wanted
    return amounts


def more_like(view: Fork, model: Node, count: int = 1, larger: Amounts | None = None) -> Fix:
    """Add nodes like one that there is, with DaemonSets' pods, devices and limits of volumes like it.

    ``larger``: what they offer more of.
    """
    sizes: Resources = {name: _written(name, amount) for name, amount in (larger or {}).items()}
    name, pool = model.metadata.name, pool_of(model)
    numbers = (i for i in range(len(view.nodes) + count) if f"{name}-more-{i}" not in view.nodes.index)
    edits = [
        edit
        for _, i in zip(range(count), numbers, strict=False)
        for edit in _one(view, model, f"{name}-more-{i}", sizes)
    ]
    of_pool = f" (pool {pool})" if pool else ""
    text = f"add a node like {name}{of_pool}" if count == 1 else f"add {count} nodes like {name}{of_pool}"
    with_more = ", ".join(f"{size} of {resource}" for resource, size in sizes.items())
    text += f", but with {with_more}" * bool(sizes)
    cost = count * (OF_ANOTHER_SHAPE if sizes else ADD_NODE)
    target, where = (name, count, with_more), f"like {name}"
    return Fix(
        "AddNode",
        target,
        text,
        "operator",
        tuple(edits),
        cost,
        variant_of="node",
        where=where,
        times=partial(more_like, view, model, larger=larger),
    )


def _written(resource: str, amount: int) -> str:
    """The least that people would write which is as much."""
    if resource == CPU:
        return str(-(-amount // 1000))
    if is_pod_level(resource) or resource == EPHEMERAL_STORAGE:
        return f"{-(-amount // 2**30)}Gi" if amount > 2**30 else f"{-(-amount // 2**20)}Mi"
    return str(amount)


def _one(view: Fork, model: Node, new: str, sizes: Resources) -> Iterator[ObjectEdit]:
    name = model.metadata.name
    status = replace(model.status, allocatable={**model.status.allocatable, **sizes})
    labels = {**model.metadata.labels, **({HOSTNAME: new} if HOSTNAME in model.metadata.labels else {})}
    node = replace(model, metadata=ObjectMeta(new, labels=labels), spec=_empty(model), status=status)
    yield ObjectEdit(ObjectKey.of(node), lambda _: node, name)
    for csi in view.cluster.csi_nodes:
        if csi.metadata.name == name:
            yield _copy(replace(csi, metadata=ObjectMeta(new)))
    yield from (_devices(slice_, new) for slice_ in view.cluster.resource_slices if slice_.spec.node_name == name)
    for position in view.pods_on(view.nodes.index[name]):
        pod = view.pods.objects[position]
        if owner_of(pod).kind == "DaemonSet":
            yield _daemon(pod, new)


def _empty(node: Node) -> NodeSpec:
    """A new node: neither cordoned nor with a fault."""
    taints = tuple(taint for taint in in_order(node).spec.taints if taint.key != UNSCHEDULABLE.key)
    return replace(node.spec, unschedulable=False, taints=taints, provider_id="")


def _copy(csi_node: CSINode) -> ObjectEdit:
    return ObjectEdit(ObjectKey.of(csi_node), lambda _: csi_node)


def _devices(slice_: ResourceSlice, node: str) -> ObjectEdit:
    """The devices of the node that it is like, in pools of its own."""
    pool = replace(slice_.spec.pool, name=f"{slice_.spec.pool.name}-{node}")
    spec = replace(slice_.spec, node_name=node, pool=pool)
    own = replace(slice_, metadata=ObjectMeta(f"{slice_.metadata.name}-{node}"), spec=spec)
    return ObjectEdit(ObjectKey.of(own), lambda _: own)


def _daemon(pod: Pod, node: str) -> ObjectEdit:
    meta = replace(pod.metadata, name=f"{pod.metadata.name}-{node}", uid="")
    own = replace(pod, metadata=meta, spec=replace(pod.spec, node_name=node))
    return ObjectEdit(ObjectKey.of(own), lambda _: own, pod.key)
