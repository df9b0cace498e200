"""More nodes: one more like one that the cluster has, of each pool."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kschedctl.api.node_pools import pool_of
from kschedctl.api.objects import CSINode, Node, NodeSpec, ObjectMeta, Pod, ResourceSlice
from kschedctl.api.ownership import owner_of
from kschedctl.api.tolerations import UNSCHEDULABLE
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_order import HOSTNAME, zone_key
from kschedctl.studies.remedies.changes import Fix, ObjectEdit, ObjectKey
from kschedctl.studies.remedies.targets import Site

ADD_NODE = 70
MOST_MODELS = 12


def one_more(site: Site) -> Iterator[Fix]:
    """A node like the first of each sort, with what runs on each node: sorts differ in pool, zone, taints and size.

    Nobody adds a node that takes no pods: like one that is cordoned the new one is in all else.
    """
    models: dict[object, Node] = {}
    for node in sorted(site.cycle.view.nodes.objects, key=lambda node: node.spec.unschedulable):
        taints = _uncordoned(node).taints
        sort = (pool_of(node), zone_key(node), taints, tuple(sorted(node.status.allocatable.items())))
        models.setdefault(sort, node)
    for node in list(models.values())[:MOST_MODELS]:
        yield more_like(site.cycle.view, node)


def more_like(view: Fork, model: Node, count: int = 1) -> Fix:
    """So many nodes more like one that there is, with DaemonSets' pods, devices and limits of volumes like it."""
    name, pool = model.metadata.name, pool_of(model)
    numbers = (i for i in range(len(view.nodes) + count) if f"{name}-more-{i}" not in view.nodes.index)
    edits = [
        edit for _, i in zip(range(count), numbers, strict=False) for edit in _one(view, model, f"{name}-more-{i}")
    ]
    of_pool = f" (pool {pool})" if pool else ""
    text = f"add a node like {name}{of_pool}" if count == 1 else f"add {count} nodes like {name}{of_pool}"
    where = f"like {name}"
    return Fix("AddNode", (name, count), text, "operator", tuple(edits), ADD_NODE, variant_of="node", where=where)


def _one(view: Fork, model: Node, new: str) -> Iterator[ObjectEdit]:
    name = model.metadata.name
    labels = {**model.metadata.labels, **({HOSTNAME: new} if HOSTNAME in model.metadata.labels else {})}
    node = replace(model, metadata=ObjectMeta(new, labels=labels), spec=_uncordoned(model))
    yield ObjectEdit(ObjectKey.of(node), lambda _: node, name)
    for csi in view.cluster.csi_nodes:
        if csi.metadata.name == name:
            yield _copy(replace(csi, metadata=ObjectMeta(new)))
    yield from (_devices(each, new) for each in view.cluster.resource_slices if each.spec.node_name == name)
    for position in view.pods_on(view.nodes.index[name]):
        pod = view.pods.objects[position]
        if owner_of(pod).kind == "DaemonSet":
            yield _daemon(pod, new)


def _uncordoned(node: Node) -> NodeSpec:
    taints = tuple(taint for taint in node.spec.taints if taint.key != UNSCHEDULABLE.key)
    return replace(node.spec, unschedulable=False, taints=taints, provider_id="")


def _copy(found: CSINode) -> ObjectEdit:
    return ObjectEdit(ObjectKey.of(found), lambda _: found)


def _devices(found: ResourceSlice, node: str) -> ObjectEdit:
    """The devices of the node that it is like, in pools of its own."""
    pool = replace(found.spec.pool, name=f"{found.spec.pool.name}-{node}")
    spec = replace(found.spec, node_name=node, pool=pool)
    own = replace(found, metadata=ObjectMeta(f"{found.metadata.name}-{node}"), spec=spec)
    return ObjectEdit(ObjectKey.of(own), lambda _: own)


def _daemon(pod: Pod, node: str) -> ObjectEdit:
    meta = replace(pod.metadata, name=f"{pod.metadata.name}-{node}", uid="")
    own = replace(pod, metadata=meta, spec=replace(pod.spec, node_name=node))
    return ObjectEdit(ObjectKey.of(own), lambda _: own, pod.key)
