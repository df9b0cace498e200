"""Fixes that add nodes: one more like an existing node, or a larger one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Bools
from kschedctl.api.node_pools import find_pool
from kschedctl.api.objects import CSINode, Node, NodeSpec, ObjectMeta, Pod, Resources, ResourceSlice
from kschedctl.api.ownership import find_owner
from kschedctl.api.resource_names import CPU, EPHEMERAL_STORAGE, is_extended, is_pod_level
from kschedctl.api.tolerations import HARD_EFFECTS, UNSCHEDULABLE_TAINT, find_untolerated
from kschedctl.fixes.trial.changes import Fix, ObjectEdit
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.guesses import is_plausible
from kschedctl.fixes.trial.tried_node import TriedNode, collect_label_keys
from kschedctl.fixes.ways.taints import is_fault, is_no_node_initialized, without_condition_taints
from kschedctl.replay.edits import ObjectKey
from kschedctl.scheduler.framework import Rejection
from kschedctl.scheduler.plugins.node_affinity import NodeAffinity
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_order import HOSTNAME, ZONE, get_region_and_zone
from kschedctl.snapshot.nodes import NodeColumns

ADD_NODE, OF_ANOTHER_SHAPE = 70, 75
MOST_MODELS = 12
Amounts = dict[str, int]


def one_more(tried: TriedNode) -> Iterator[Fix]:
    """Yield one more node like the first of each sort, or a larger one if none of these sorts is large enough.

    A new node has the DaemonSets' pods of its model. A model's cordon and faults are left out, and nobody adds nodes in
    a zone that is out, or where no node was ever initialized. A larger node is offered only if a machine of that size
    is plausible, and one with devices only if no sort of nodes has such devices.
    """
    nodes = tried.cycle.view.nodes
    if is_no_node_initialized(nodes):
        return
    view, models = tried.cycle.view, _find_models(tried)
    rows = {node.metadata.name: view.nodes.index[node.metadata.name] for node in models}
    out = _rows_of_zones_out(nodes)
    models = [node for node in models if not out[rows[node.metadata.name]]]
    refused = [rejection.mask for rejection in _find_rejections(tried, NodeAffinity.name)]
    tolerations = tried.cycle.info.spec.tolerations
    fit = [
        node
        for node in models
        if not any(mask[rows[node.metadata.name]] for mask in refused)
        and find_untolerated(_fresh_spec(node).taints, tolerations, HARD_EFFECTS) is None
    ] or models
    for node in sorted(models, key=lambda node: node not in fit)[:MOST_MODELS]:
        yield more_like(view, node, peculiar=_has_peculiar_devices(tried, node))
    lacking = {node.metadata.name: _find_shortage(tried, node) for node in fit}
    if not all(lacking.values()):
        return
    for node in fit[:MOST_MODELS]:
        amounts = lacking[node.metadata.name]
        largest = {name: _largest(view, name) for name in amounts}
        if any(is_extended(name) and largest[name] >= amount for name, amount in amounts.items()):
            continue  # a sort of nodes has these devices: that sort is added
        if all(is_plausible(name, amount, largest[name]) for name, amount in amounts.items()):
            unknown = frozenset(name for name in amounts if is_extended(name) and not largest[name])
            yield more_like(view, node, larger=amounts, unknown=unknown)


def _rows_of_zones_out(nodes: NodeColumns) -> Bools:
    """Return, (N,), which nodes are in a zone all of whose nodes have a fault, if other zones have nodes without."""
    taint_sets, taint_set = nodes.taint_sets
    broken = np.array([any(map(is_fault, taints)) for taints in taint_sets], np.bool_)[taint_set]
    zones = nodes.label(ZONE)
    known = zones.codes >= 0
    out = np.ones(len(zones.values) + 1, np.bool_)
    out[zones.codes[known & ~broken]] = False
    out[-1] = False
    return out[zones.codes] & bool((known & ~broken).any())


def _has_peculiar_devices(tried: TriedNode, model: Node) -> bool:
    """Return whether the pod asks for devices that this node has and most nodes of its pool lack."""
    view, pool = tried.cycle.view, find_pool(model)
    if not pool:
        return False
    pools = view.memo("nodes of pools", lambda: _group_by_pool(view.nodes.objects))
    with_slices = view.memo(
        "nodes with devices", lambda: {each.spec.node_name for each in view.cluster.resource_slices}
    )
    names = [name for name in tried.cycle.info.incoming_requests if is_extended(name)]
    claims = bool(tried.trial.pod.spec.resource_claims)

    def has_devices(node: Node) -> bool:
        published = claims and node.metadata.name in with_slices
        return published or any(node.status.allocatable.get(name, "0") not in ("0", 0) for name in names)

    members = pools[pool]
    return has_devices(model) and 2 * sum(map(has_devices, members)) < len(members)


def _group_by_pool(nodes: Sequence[Node]) -> dict[str, list[Node]]:
    """Return the nodes of each pool."""
    pools: dict[str, list[Node]] = {}
    for node in nodes:
        pools.setdefault(find_pool(node), []).append(node)
    return pools


def _find_models(tried: TriedNode) -> list[Node]:
    """Return the first node of each distinct pool, zone, taints, size, and set of labels that the pod selects by."""
    keys, view = tuple(sorted(collect_label_keys(tried.cycle) - {HOSTNAME})), tried.cycle.view
    return view.memo((_find_models, keys), lambda: list(_find_distinct(view.nodes.objects, keys).values()))


def _find_distinct(nodes: Sequence[Node], keys: Sequence[str]) -> dict[object, Node]:
    """Return the first node of each distinct shape."""
    first: dict[object, Node] = {}
    for node in sorted(nodes, key=lambda node: node.spec.unschedulable):
        chosen = tuple(map(node.metadata.labels.get, keys))
        size = tuple(sorted(node.status.allocatable.items()))
        first.setdefault((find_pool(node), get_region_and_zone(node), _fresh_spec(node).taints, size, chosen), node)
    return first


def _largest(view: Fork, resource: str) -> int:
    """Return the most of the resource that a node offers when it is empty."""
    column = view.resources.get(resource)
    return 0 if column is None else int(view.allocatable[:, column].max(initial=0))


def _find_rejections(tried: TriedNode, plugin: str) -> Sequence[Rejection]:
    """Return the plugin's rejections of nodes."""
    verdict = tried.cycle.filter.verdicts.get(plugin)
    return verdict.rejections if verdict else ()


def _find_shortage(tried: TriedNode, node: Node) -> Amounts:
    """Return the amounts that an empty node must offer beside its DaemonSet pods, for resources of which this node
    has less.
    """
    view, row = tried.cycle.view, tried.cycle.view.nodes.index[node.metadata.name]
    daemons = [at for at in view.pods_on(row) if find_owner(view.pods.objects[at]).kind == "DaemonSet"]
    taken = view.requests[view.pods.info[daemons]].sum(axis=0) if daemons else np.zeros(len(view.resources), np.int64)
    amounts = {}
    for name, wanted in tried.cycle.info.incoming_requests.items():
        column = view.resources.get(name)
        used = int(taken[column]) if column is not None else 0
        offered = int(view.allocatable[row, column]) if column is not None else 0
        if wanted and used + wanted > offered:
            amounts[name] = used + wanted
    return amounts


def more_like(
    view: Fork,
    model: Node,
    count: int = 1,
    larger: Amounts | None = None,
    *,
    unknown: frozenset[str] = frozenset(),
    peculiar: bool = False,
) -> Fix:
    """Return the fix that adds nodes like a model, with the model's DaemonSet pods, devices and volume limits.

    ``larger``: the amounts of which the new nodes offer more. ``unknown``: those of them that no node offers.
    ``peculiar``: the model's devices are not those of its pool.
    """
    sizes: Resources = {name: _format_amount(name, amount) for name, amount in (larger or {}).items()}
    name, pool = model.metadata.name, find_pool(model)
    numbers = (i for i in range(len(view.nodes) + count) if f"{name}-more-{i}" not in view.nodes.index)
    edits = [
        edit
        for _, i in zip(range(count), numbers, strict=False)
        for edit in _add_node(view, model, f"{name}-more-{i}", sizes)
    ]
    what, where = "a node" if count == 1 else f"{count} nodes", f"like {name}"
    with_more = ", ".join(f"{size} of {resource}" for resource, size in sizes.items())
    if unknown:
        where, known = "", ", ".join(sorted(unknown))
        text = f"add {what} with {with_more}: no node offers {known}, so check its name and its device plugin first"
    elif peculiar:
        text = f"add {what} with the devices of {name}, which most nodes of pool {pool} lack"
    else:
        text = f"add {what} like {name}{f' (pool {pool})' * bool(pool)}{f', but with {with_more}' * bool(sizes)}"
    cost = count * (OF_ANOTHER_SHAPE if sizes else ADD_NODE)
    target = (name, count, with_more)
    return Fix(
        FixKind.ADD_NODE,
        target,
        text,
        "operator",
        tuple(edits),
        cost,
        variant_of="node",
        where=where,
        with_node_count=partial(more_like, view, model, larger=larger, unknown=unknown, peculiar=peculiar),
    )


def _format_amount(resource: str, amount: int) -> str:
    """Return the smallest amount in a common unit that is at least as large."""
    if resource == CPU:
        return str(-(-amount // 1000))
    if is_pod_level(resource) or resource == EPHEMERAL_STORAGE:
        return f"{-(-amount // 2**30)}Gi" if amount > 2**30 else f"{-(-amount // 2**20)}Mi"
    return str(amount)


def _add_node(view: Fork, model: Node, new: str, sizes: Resources) -> Iterator[ObjectEdit]:
    """Yield the edits that add one node with its CSINode, ResourceSlices, and DaemonSet pods."""
    name = model.metadata.name
    status = replace(model.status, allocatable={**model.status.allocatable, **sizes})
    labels = {**model.metadata.labels, **({HOSTNAME: new} if HOSTNAME in model.metadata.labels else {})}
    node = replace(model, metadata=ObjectMeta(new, labels=labels), spec=_fresh_spec(model), status=status)
    yield ObjectEdit(ObjectKey.of(node), lambda _: node, name)
    for csi in view.cluster.csi_nodes:
        if csi.metadata.name == name:
            yield _add_csi_node(replace(csi, metadata=ObjectMeta(new)))
    yield from (_copy_slice(slice_, new) for slice_ in view.cluster.resource_slices if slice_.spec.node_name == name)
    for position in view.pods_on(view.nodes.index[name]):
        pod = view.pods.objects[position]
        if find_owner(pod).kind == "DaemonSet":
            yield _copy_daemon_pod(pod, new)


def _fresh_spec(node: Node) -> NodeSpec:
    """Return the spec of a new node like this one: neither cordoned nor faulty."""
    taints = tuple(
        taint for taint in without_condition_taints(node).spec.taints if taint.key != UNSCHEDULABLE_TAINT.key
    )
    return replace(node.spec, unschedulable=False, taints=taints, provider_id="")


def _add_csi_node(csi_node: CSINode) -> ObjectEdit:
    """Return the edit that adds a CSINode."""
    return ObjectEdit(ObjectKey.of(csi_node), lambda _: csi_node)


def _copy_slice(slice_: ResourceSlice, node: str) -> ObjectEdit:
    """Return the edit that copies a ResourceSlice to the new node, in a pool of its own."""
    pool = replace(slice_.spec.pool, name=f"{slice_.spec.pool.name}-{node}")
    spec = replace(slice_.spec, node_name=node, pool=pool)
    own = replace(slice_, metadata=ObjectMeta(f"{slice_.metadata.name}-{node}"), spec=spec)
    return ObjectEdit(ObjectKey.of(own), lambda _: own)


def _copy_daemon_pod(pod: Pod, node: str) -> ObjectEdit:
    """Return the edit that runs a copy of the DaemonSet pod on the new node."""
    meta = replace(pod.metadata, name=f"{pod.metadata.name}-{node}", uid="")
    own = replace(pod, metadata=meta, spec=replace(pod.spec, node_name=node))
    return ObjectEdit(ObjectKey.of(own), lambda _: own, pod.key)
