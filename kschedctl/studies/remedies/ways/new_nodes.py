"""More nodes: one more like one that the cluster has, of each pool."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kschedctl.api.node_pools import pool_of
from kschedctl.api.objects import CSINode, Node, ObjectMeta, Pod
from kschedctl.api.ownership import owner_of
from kschedctl.snapshot.node_order import HOSTNAME, zone_key
from kschedctl.studies.remedies.changes import Fix, ObjectEdit, ObjectKey
from kschedctl.studies.remedies.targets import Site

ADD_NODE = 70
MOST_MODELS = 12


def one_more(site: Site) -> Iterator[Fix]:
    """A node like the first of each sort, with what runs on each node: sorts differ in pool, zone, taints and size."""
    view = site.cycle.view
    models: dict[object, Node] = {}
    for node in view.nodes.objects:
        if not node.spec.unschedulable:
            sort = (pool_of(node), zone_key(node), node.spec.taints, tuple(sorted(node.status.allocatable.items())))
            models.setdefault(sort, node)
    for node in list(models.values())[:MOST_MODELS]:
        yield _like(site, node)


def _like(site: Site, model: Node) -> Fix:
    view = site.cycle.view
    name = model.metadata.name
    new = next(each for i in range(len(view.nodes) + 1) if (each := f"{name}-more-{i}") not in view.nodes.index)
    labels = {**model.metadata.labels, **({HOSTNAME: new} if HOSTNAME in model.metadata.labels else {})}
    node = replace(model, metadata=ObjectMeta(new, labels=labels), spec=replace(model.spec, provider_id=""))
    edits = [ObjectEdit(ObjectKey.of(node), lambda _: node, name)]
    for csi in view.cluster.csi_nodes:
        if csi.metadata.name == name:
            edits.append(_copy(replace(csi, metadata=ObjectMeta(new))))
    for position in view.pods_on(view.nodes.index[name]):
        pod = view.pods.objects[position]
        if owner_of(pod).kind == "DaemonSet":
            edits.append(_daemon(pod, new))
    pool = pool_of(model)
    text = f"add a node like {name}{f' (pool {pool})' if pool else ''}"
    return Fix("AddNode", name, text, "operator", tuple(edits), ADD_NODE, variant_of="node", where=f"like {name}")


def _copy(found: CSINode) -> ObjectEdit:
    return ObjectEdit(ObjectKey.of(found), lambda _: found)


def _daemon(pod: Pod, node: str) -> ObjectEdit:
    meta = replace(pod.metadata, name=f"{pod.metadata.name}-{node}", uid="")
    own = replace(pod, metadata=meta, spec=replace(pod.spec, node_name=node))
    return ObjectEdit(ObjectKey.of(own), lambda _: own, pod.key)
