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
from kschedctl.fixes.trial.guesses import is_plausible_machine_size
from kschedctl.fixes.trial.tried_node import TriedNode, collect_label_keys
from kschedctl.fixes.ways.taints import is_no_node_initialized, remove_condition_taints, reports_fault
from kschedctl.replay.edits import ObjectKey
from kschedctl.scheduler.framework import Rejection
from kschedctl.scheduler.plugins.node_affinity import NodeAffinity
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_order import HOSTNAME, ZONE, get_region_and_zone
from kschedctl.snapshot.nodes import NodeColumns

ADD_NODE, OF_ANOTHER_SHAPE = 70, 75
MOST_MODELS = 12
Amounts = dict[str, int]
"""Resource name -> amount, in milli-CPUs for cpu."""


def iter_added_node_fixes(tried: TriedNode) -> Iterator[Fix]:
    """Yield fixes that add one node like an existing one of each shape, or a larger one if all are too small.

    A new node has the DaemonSet pods of its model but neither a cordon nor a fault. No node is added in a zone that is
    out, or if no node was ever initialized. A larger node is offered only if a machine of that size is plausible, and
    one with devices only if no node shape has such devices.
    """
    nodes = tried.cycle.view.nodes
    if is_no_node_initialized(nodes):
        return
    view = tried.cycle.view
    models = _find_models(tried)
    rows = {node.metadata.name: view.nodes.index[node.metadata.name] for node in models}
    in_failed_zones = _find_nodes_in_failed_zones(nodes)
    models = [node for node in models if not in_failed_zones[rows[node.metadata.name]]]
    rejected_masks = [rejection.mask for rejection in _find_rejections(tried, NodeAffinity.name)]
    tolerations = tried.cycle.info.spec.tolerations
    fitting_models = [
        node
        for node in models
        if not any(mask[rows[node.metadata.name]] for mask in rejected_masks)
        and find_untolerated(_build_new_spec(node).taints, tolerations, HARD_EFFECTS) is None
    ] or models
    for node in sorted(models, key=lambda node: node not in fitting_models)[:MOST_MODELS]:
        yield build_added_nodes_fix(view, node, has_rare_devices=_has_rare_devices(tried, node))
    shortages = {node.metadata.name: _find_shortage(tried, node) for node in fitting_models}
    if not all(shortages.values()):
        return
    for node in fitting_models[:MOST_MODELS]:
        amounts = shortages[node.metadata.name]
        largest = {name: _find_largest_allocatable(view, name) for name in amounts}
        if any(is_extended(name) and largest[name] >= amount for name, amount in amounts.items()):
            continue  # a sort of nodes has these devices: that sort is added
        if all(is_plausible_machine_size(name, amount, largest[name]) for name, amount in amounts.items()):
            unoffered_resources = frozenset(name for name in amounts if is_extended(name) and not largest[name])
            yield build_added_nodes_fix(view, node, larger=amounts, unoffered_resources=unoffered_resources)


def _find_nodes_in_failed_zones(nodes: NodeColumns) -> Bools:
    """Return the nodes, (N,), whose zone has only faulty nodes, if another zone has a node without a fault."""
    taint_sets, taint_set = nodes.taint_sets
    is_faulty = np.array([any(map(reports_fault, taints)) for taints in taint_sets], np.bool_)[taint_set]
    zones = nodes.label(ZONE)
    has_zone = zones.codes >= 0
    is_zone_failed = np.ones(len(zones.values) + 1, np.bool_)
    is_zone_failed[zones.codes[has_zone & ~is_faulty]] = False
    is_zone_failed[-1] = False
    return is_zone_failed[zones.codes] & bool((has_zone & ~is_faulty).any())


def _has_rare_devices(tried: TriedNode, model: Node) -> bool:
    """Return whether the pod requests devices that this node has but most nodes of its pool do not have."""
    view = tried.cycle.view
    pool = find_pool(model)
    if not pool:
        return False
    pools = view.memo("nodes of pools", lambda: _group_by_pool(view.nodes.objects))
    with_slices = view.memo(
        "nodes with devices", lambda: {each.spec.node_name for each in view.cluster.resource_slices}
    )
    names = [name for name in tried.cycle.info.incoming_requests if is_extended(name)]
    claims = bool(tried.trial.pod.spec.resource_claims)

    def has_devices(node: Node) -> bool:
        """Return whether the node has devices that the pod requests."""
        published = claims and node.metadata.name in with_slices
        return published or any(node.status.allocatable.get(name, "0") not in ("0", 0) for name in names)

    members = pools[pool]
    return has_devices(model) and 2 * sum(map(has_devices, members)) < len(members)


def _group_by_pool(nodes: Sequence[Node]) -> dict[str, list[Node]]:
    """Group the nodes by pool."""
    pools: dict[str, list[Node]] = {}
    for node in nodes:
        pools.setdefault(find_pool(node), []).append(node)
    return pools


def _find_models(tried: TriedNode) -> list[Node]:
    """Return the first node of each shape: pool, zone, taints, size, and the labels that the pod selects by."""
    keys = tuple(sorted(collect_label_keys(tried.cycle) - {HOSTNAME}))
    view = tried.cycle.view
    return view.memo((_find_models, keys), lambda: list(_find_first_of_shapes(view.nodes.objects, keys).values()))


def _find_first_of_shapes(nodes: Sequence[Node], keys: Sequence[str]) -> dict[object, Node]:
    """Return the first node of each shape, preferring nodes that are not cordoned."""
    first_nodes: dict[object, Node] = {}
    for node in sorted(nodes, key=lambda node: node.spec.unschedulable):
        selected_labels = tuple(map(node.metadata.labels.get, keys))
        size = tuple(sorted(node.status.allocatable.items()))
        first_nodes.setdefault(
            (find_pool(node), get_region_and_zone(node), _build_new_spec(node).taints, size, selected_labels), node
        )
    return first_nodes


def _find_largest_allocatable(view: Fork, resource: str) -> int:
    """Return the largest amount of the resource that any node offers when it is empty."""
    column = view.resources.get(resource)
    return 0 if column is None else int(view.allocatable[:, column].max(initial=0))


def _find_rejections(tried: TriedNode, plugin: str) -> Sequence[Rejection]:
    """Return the plugin's rejections of nodes in the trial."""
    verdict = tried.cycle.filter.verdicts.get(plugin)
    return verdict.rejections if verdict else ()


def _find_shortage(tried: TriedNode, node: Node) -> Amounts:
    """Return, for each resource that this node has too little of, the amount that a larger node must offer.

    The amount covers the pod and the node's DaemonSet pods.
    """
    view = tried.cycle.view
    row = tried.cycle.view.nodes.index[node.metadata.name]
    daemons = [at for at in view.pods_on(row) if find_owner(view.pods.objects[at]).kind == "DaemonSet"]
    daemon_requests = (
        view.requests[view.pods.info[daemons]].sum(axis=0) if daemons else np.zeros(len(view.resources), np.int64)
    )
    amounts = {}
    for name, requested in tried.cycle.info.incoming_requests.items():
        column = view.resources.get(name)
        used = int(daemon_requests[column]) if column is not None else 0
        offered = int(view.allocatable[row, column]) if column is not None else 0
        if requested and used + requested > offered:
            amounts[name] = used + requested
    return amounts


def build_added_nodes_fix(
    view: Fork,
    model: Node,
    count: int = 1,
    larger: Amounts | None = None,
    *,
    unoffered_resources: frozenset[str] = frozenset(),
    has_rare_devices: bool = False,
) -> Fix:
    """Build the fix that adds nodes like a model, with its DaemonSet pods, devices and volume limits.

    `larger` holds the amounts of which the new nodes offer more than the model. `unoffered_resources` are the resources
    among these that no node offers. `has_rare_devices` says that most nodes of the model's pool do not have the model's
    devices. Both change the fix's text.
    """
    sizes: Resources = {name: _format_amount(name, amount) for name, amount in (larger or {}).items()}
    name = model.metadata.name
    pool = find_pool(model)
    free_numbers = (i for i in range(len(view.nodes) + count) if f"{name}-more-{i}" not in view.nodes.index)
    edits = [
        edit
        for _, i in zip(range(count), free_numbers, strict=False)
        for edit in _iter_node_edits(view, model, f"{name}-more-{i}", sizes)
    ]
    what = "a node" if count == 1 else f"{count} nodes"
    where = f"like {name}"
    larger_text = ", ".join(f"{size} of {resource}" for resource, size in sizes.items())
    if unoffered_resources:
        where = ""
        names = ", ".join(sorted(unoffered_resources))
        text = f"add {what} with {larger_text}: no node offers {names}, so check its name and its device plugin first"
    elif has_rare_devices:
        text = f"add {what} with the devices of {name}, which most nodes of pool {pool} lack"
    else:
        text = f"add {what} like {name}{f' (pool {pool})' * bool(pool)}{f', but with {larger_text}' * bool(sizes)}"
    cost = count * (OF_ANOTHER_SHAPE if sizes else ADD_NODE)
    target = (name, count, larger_text)
    return Fix(
        FixKind.ADD_NODE,
        target,
        text,
        by="operator",
        edits=tuple(edits),
        cost=cost,
        variant_of="node",
        where=where,
        with_node_count=partial(
            build_added_nodes_fix,
            view,
            model,
            larger=larger,
            unoffered_resources=unoffered_resources,
            has_rare_devices=has_rare_devices,
        ),
    )


def _format_amount(resource: str, amount: int) -> str:
    """Format an amount in a common unit, rounded up."""
    if resource == CPU:
        return str(-(-amount // 1000))
    if is_pod_level(resource) or resource == EPHEMERAL_STORAGE:
        return f"{-(-amount // 2**30)}Gi" if amount > 2**30 else f"{-(-amount // 2**20)}Mi"
    return str(amount)


def _iter_node_edits(view: Fork, model: Node, new_name: str, sizes: Resources) -> Iterator[ObjectEdit]:
    """Yield the edits that add one node with its CSINode, ResourceSlices and DaemonSet pods."""
    name = model.metadata.name
    status = replace(model.status, allocatable={**model.status.allocatable, **sizes})
    labels = {**model.metadata.labels, **({HOSTNAME: new_name} if HOSTNAME in model.metadata.labels else {})}
    node = replace(model, metadata=ObjectMeta(new_name, labels=labels), spec=_build_new_spec(model), status=status)
    yield ObjectEdit(ObjectKey.of(node), lambda _: node, name)
    for csi in view.cluster.csi_nodes:
        if csi.metadata.name == name:
            yield _build_csi_node_edit(replace(csi, metadata=ObjectMeta(new_name)))
    yield from (
        _build_slice_edit(slice_, new_name) for slice_ in view.cluster.resource_slices if slice_.spec.node_name == name
    )
    for position in view.pods_on(view.nodes.index[name]):
        pod = view.pods.objects[position]
        if find_owner(pod).kind == "DaemonSet":
            yield _build_daemon_pod_edit(pod, new_name)


def _build_new_spec(node: Node) -> NodeSpec:
    """Return the spec of a new node like this one, neither cordoned nor faulty."""
    taints = tuple(taint for taint in remove_condition_taints(node).spec.taints if taint.key != UNSCHEDULABLE_TAINT.key)
    return replace(node.spec, unschedulable=False, taints=taints, provider_id="")


def _build_csi_node_edit(csi_node: CSINode) -> ObjectEdit:
    """Return the edit that adds a CSINode."""
    return ObjectEdit(ObjectKey.of(csi_node), lambda _: csi_node)


def _build_slice_edit(slice_: ResourceSlice, node_name: str) -> ObjectEdit:
    """Return the edit that copies a ResourceSlice to the new node, with a device pool of its own."""
    pool = replace(slice_.spec.pool, name=f"{slice_.spec.pool.name}-{node_name}")
    spec = replace(slice_.spec, node_name=node_name, pool=pool)
    new_slice = replace(slice_, metadata=ObjectMeta(f"{slice_.metadata.name}-{node_name}"), spec=spec)
    return ObjectEdit(ObjectKey.of(new_slice), lambda _: new_slice)


def _build_daemon_pod_edit(pod: Pod, node_name: str) -> ObjectEdit:
    """Return the edit that adds a copy of the DaemonSet pod on the new node."""
    meta = replace(pod.metadata, name=f"{pod.metadata.name}-{node_name}", uid="")
    new_pod = replace(pod, metadata=meta, spec=replace(pod.spec, node_name=node_name))
    return ObjectEdit(ObjectKey.of(new_pod), lambda _: new_pod, pod.key)
