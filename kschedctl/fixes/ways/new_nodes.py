"""Fixes that add nodes: one more like an existing node, or a larger one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Bools
from kschedctl.api.node_pools import find_node_pool_name
from kschedctl.api.objects import CSINode, Node, NodeSpec, ObjectMeta, Pod, Resources, ResourceSlice
from kschedctl.api.ownership import find_owner
from kschedctl.api.resource_names import CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY, is_extended
from kschedctl.api.tolerations import HARD_EFFECTS, UNSCHEDULABLE_TAINT, find_untolerated_taint
from kschedctl.fixes.trial.changes import Fix, ObjectEdit
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.guesses import is_plausible_machine_size
from kschedctl.fixes.trial.trial_node import TrialNode, collect_scheduling_label_keys
from kschedctl.fixes.ways.taints import is_no_node_initialized, remove_condition_taints, reports_fault
from kschedctl.replay.edits import copy_resource_slice
from kschedctl.scheduler.framework import Rejection
from kschedctl.scheduler.plugins.node_affinity import NodeAffinity
from kschedctl.scheduler.plugins.volume_binding.plugin import VolumeBinding
from kschedctl.scheduler.plugins.volume_zone import VolumeZone
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import HOSTNAME, ZONE, NodeColumns, get_region_and_zone
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.text.counts import counted, join_words

ADD_NODE, OF_ANOTHER_SHAPE = 70, 75
"""The costs of a node like an existing one, and of a larger one."""
MOST_MODELS = 12
"""The most nodes that are copied."""
Amounts = dict[str, int]
"""Resource name -> amount, in milli-CPUs for cpu."""


def iter_added_node_fixes(trial_node: TrialNode) -> Iterator[Fix]:
    """Yield fixes that add a node like an existing one, for each shape of nodes, or larger nodes if all are too small.

    At most MOST_MODELS nodes of either kind are offered. A new node has the DaemonSet pods of its model but neither a
    cordon nor a fault. No node is added in a zone in which all nodes are faulty, or if no node was ever initialized. A
    larger node is offered only if a machine of that size is plausible. A node with more devices is offered only if no
    existing node has enough of them.
    """
    view = trial_node.cycle.view
    if is_no_node_initialized(view.nodes):
        return
    in_failed_zones = _find_nodes_in_failed_zones(view.nodes)
    models = [
        node for node in _find_model_nodes(trial_node) if not in_failed_zones[view.nodes.index[node.metadata.name]]
    ]

    # Copy existing nodes, and first those that accept the pod apart from their size. If none does, treat all alike.
    accepting_models = [node for node in models if _would_new_node_accept_pod(trial_node, node)] or models
    for node in sorted(models, key=lambda node: node not in accepting_models)[:MOST_MODELS]:
        yield build_added_nodes_fix(view, node, has_rare_devices=_has_rare_devices(trial_node, node))
    yield from _iter_larger_node_fixes(trial_node, accepting_models)
    yield from _iter_fixes_in_zones_of_volumes(trial_node, models)


def _iter_fixes_in_zones_of_volumes(trial_node: TrialNode, models: Sequence[Node]) -> Iterator[Fix]:
    """Yield fixes that add a node like a model that accepts the pod, but in a zone in which the pod's volumes are.

    At most MOST_MODELS fixes are yielded, and none if a model that accepts the pod can use the volumes. The zone has a
    node that can use them and is in the region of the model.
    """
    view = trial_node.cycle.view
    is_out_of_reach = np.zeros(len(view.nodes), np.bool_)
    for plugin in (VolumeBinding.name, VolumeZone.name):
        for rejection in _find_rejections(trial_node, plugin):
            is_out_of_reach |= rejection.mask
    if not is_out_of_reach.any():
        return
    accepting_models = [node for node in models if _would_new_node_accept_pod(trial_node, node)]
    if not all(is_out_of_reach[view.nodes.index[node.metadata.name]] for node in accepting_models):
        return
    reachable_rows = np.flatnonzero(~is_out_of_reach).tolist()
    zones = sorted({get_region_and_zone(view.nodes.objects[row]) for row in reachable_rows})
    fixes = (
        build_added_nodes_fix(view, _move_to_zone(node, zone), other_zone=zone)
        for node in accepting_models
        for region, zone in zones
        if zone and region == get_region_and_zone(node)[0]
    )
    yield from islice(fixes, MOST_MODELS)


def _move_to_zone(node: Node, zone: str) -> Node:
    """Return a copy of the node in another zone: all labels that have the node's zone as their value are changed."""
    _, zone_before = get_region_and_zone(node)
    labels = {key: zone if value == zone_before and value else value for key, value in node.metadata.labels.items()}
    return replace(node, metadata=replace(node.metadata, labels={**labels, ZONE: zone}))


def _iter_larger_node_fixes(trial_node: TrialNode, models: Sequence[Node]) -> Iterator[Fix]:
    """Yield fixes that add a larger node like the first MOST_MODELS models.

    Nothing is yielded if some model is large enough. A model is skipped if an existing node has enough of an extended
    resource that the model lacks, because a copy of that node is offered.
    """
    view = trial_node.cycle.view
    larger_amounts = {node.metadata.name: _find_amounts_of_larger_node(trial_node, node) for node in models}
    if not all(larger_amounts.values()):
        return
    for node in models[:MOST_MODELS]:
        amounts = larger_amounts[node.metadata.name]
        if any(is_extended(name) and _find_largest_allocatable(view, name) >= amounts[name] for name in amounts):
            continue
        larger_node_fix = _build_larger_node_fix(trial_node, node, other_pods=())
        if larger_node_fix is not None:
            yield larger_node_fix


def _build_larger_node_fix(trial_node: TrialNode, model: Node, other_pods: Sequence[PodInfo]) -> Fix | None:
    """Build the fix that adds a node like the model, but with room for the pod and for the other pods.

    Return None if a machine of that size is not plausible.
    """
    view = trial_node.cycle.view
    amounts = _find_amounts_of_larger_node(trial_node, model, other_pods)
    largest = {name: _find_largest_allocatable(view, name) for name in amounts}
    if not all(is_plausible_machine_size(name, amount, largest[name]) for name, amount in amounts.items()):
        return None
    # If pods ahead in the queue take the room, the node is enlarged until it has room for them as well
    build_fix_with_room_for = partial(_build_larger_node_fix, trial_node, model)
    return build_added_nodes_fix(
        view,
        model,
        larger=amounts,
        unoffered_resources=frozenset(name for name in amounts if is_extended(name) and not largest[name]),
        with_room_for=build_fix_with_room_for,
        also_for=_describe_spare_room(trial_node, amounts, len(other_pods)),
    )


def _describe_spare_room(trial_node: TrialNode, amounts: Amounts, pods_ahead: int) -> str:
    """Return a clause about the other pods that fit on the larger node, or "" if it is only as large as the pod needs.

    The other pods are those ahead in the queue, or only DaemonSet pods if none are ahead. `amounts` is what the node
    offers, and `pods_ahead` the number of pods ahead in the queue for which it has room as well.
    """
    requests = trial_node.cycle.info.incoming_requests
    if all(amount <= requests.get(name, 0) for name, amount in amounts.items()):
        return ""
    if not pods_ahead:  # then only the requests of the model's DaemonSet pods are added to those of the pod
        return ", enough for DaemonSet pods as well"
    return f", enough for {counted(pods_ahead, 'pod')} ahead in the queue as well"


def _would_new_node_accept_pod(trial_node: TrialNode, model: Node) -> bool:
    """Return whether the pod's node selection and tolerations allow a new node like the model, whatever its size."""
    row = trial_node.cycle.view.nodes.index[model.metadata.name]
    if any(rejection.mask[row] for rejection in _find_rejections(trial_node, NodeAffinity.name)):
        return False
    taints = _build_new_spec(model).taints
    return find_untolerated_taint(taints, trial_node.cycle.info.spec.tolerations, HARD_EFFECTS) is None


def _find_nodes_in_failed_zones(nodes: NodeColumns) -> Bools:
    """Return a mask of the nodes (N,) in zones that have only faulty nodes.

    If no zone has a node without a fault, no node is marked, because the faults then do not depend on the zone.
    """
    # Nodes (N,) that report a fault. Nodes with the same taints share a taint set.
    taint_sets, set_numbers = nodes.taint_sets
    is_faulty = np.array([any(map(reports_fault, taints)) for taints in taint_sets], np.bool_)[set_numbers]

    # Zones without a working node. Nodes without a zone have code -1, which is the last entry.
    zones = nodes.label(ZONE)
    is_working_in_zone = (zones.codes >= 0) & ~is_faulty
    is_zone_failed = np.ones(len(zones.values) + 1, np.bool_)
    is_zone_failed[zones.codes[is_working_in_zone]] = False
    is_zone_failed[-1] = False
    if not is_working_in_zone.any():
        return np.zeros(len(nodes), np.bool_)
    return is_zone_failed[zones.codes]


def _has_rare_devices(trial_node: TrialNode, model: Node) -> bool:
    """Return whether the pod requests devices that this node has but most nodes of its pool do not have.

    The result is False for a node without a pool.
    """
    view = trial_node.cycle.view
    pool = find_node_pool_name(model)
    if not pool:
        return False
    pools = view.memo("nodes of pools", lambda: _group_nodes_by_pool(view.nodes.objects))
    nodes_with_slices = view.memo(
        "nodes with devices", lambda: {resource_slice.spec.node_name for resource_slice in view.cluster.resource_slices}
    )
    requested_names = [name for name in trial_node.cycle.info.incoming_requests if is_extended(name)]
    has_claims = bool(trial_node.trial.pod.spec.resource_claims)

    def has_devices(node: Node) -> bool:
        """Return whether the node has devices that the pod requests."""
        if has_claims and node.metadata.name in nodes_with_slices:
            return True
        return any(node.status.allocatable.get(name, "0") not in ("0", 0) for name in requested_names)

    # Rare means: less than half of the pool's nodes have them
    members = pools[pool]
    return has_devices(model) and 2 * sum(map(has_devices, members)) < len(members)


def _group_nodes_by_pool(nodes: Sequence[Node]) -> dict[str, list[Node]]:
    """Return the nodes of each pool, by the pool's name and in the given order."""
    pools: dict[str, list[Node]] = {}
    for node in nodes:
        pools.setdefault(find_node_pool_name(node), []).append(node)
    return pools


def _find_model_nodes(trial_node: TrialNode) -> list[Node]:
    """Return one node of each shape, to model new nodes on. Nodes of one shape are alike for the pod."""
    keys = tuple(sorted(collect_scheduling_label_keys(trial_node.cycle) - {HOSTNAME}))
    view = trial_node.cycle.view
    return view.memo(
        (_find_model_nodes, keys), lambda: list(_find_first_node_of_each_shape(view.nodes.objects, keys).values())
    )


def _find_first_node_of_each_shape(nodes: Sequence[Node], keys: Sequence[str]) -> dict[object, Node]:
    """Return the first node of each shape, by shape. Nodes that are not cordoned come before cordoned ones.

    A shape consists of the node's pool, zone, size, lasting taints, and values of the labels `keys`.
    """
    first_nodes: dict[object, Node] = {}
    for node in sorted(nodes, key=lambda node: node.spec.unschedulable):
        selected_labels = tuple(map(node.metadata.labels.get, keys))
        size = tuple(sorted(node.status.allocatable.items()))
        taints = _build_new_spec(node).taints
        shape = find_node_pool_name(node), get_region_and_zone(node), taints, size, selected_labels
        first_nodes.setdefault(shape, node)
    return first_nodes


def _find_largest_allocatable(view: Fork, resource: str) -> int:
    """Return the largest amount of the resource that any node offers when it is empty."""
    column = view.resources.get(resource)
    return 0 if column is None else int(view.allocatable[:, column].max(initial=0))


def _find_rejections(trial_node: TrialNode, plugin: str) -> Sequence[Rejection]:
    """Return the rejections of nodes by this Filter plugin in the trial, or nothing if the plugin did not run."""
    verdict = trial_node.cycle.filter.verdicts.get(plugin)
    return verdict.rejections if verdict else ()


def _find_amounts_of_larger_node(trial_node: TrialNode, node: Node, other_pods: Sequence[PodInfo] = ()) -> Amounts:
    """Return how much a larger node must offer of each resource of which this node has too little.

    An amount covers the pod, the other pods and the node's DaemonSet pods. The result is empty if the node is large
    enough.
    """
    view = trial_node.cycle.view
    row = view.nodes.index[node.metadata.name]
    daemon_pods = [
        position for position in view.pods_on(row) if find_owner(view.pods.objects[position]).kind == "DaemonSet"
    ]
    daemon_requests = np.zeros(len(view.resources), np.int64)
    if daemon_pods:
        daemon_requests = view.get_requests(daemon_pods).sum(axis=0)
    requests: Counter[str] = Counter()
    for info in (trial_node.cycle.info, *other_pods):
        requests.update(info.incoming_requests)
    amounts = {}
    for name, requested in requests.items():
        column = view.resources.get(name)
        if column is None:  # no node offers the resource
            used = offered = 0
        else:
            used, offered = int(daemon_requests[column]), int(view.allocatable[row, column])
        if requested and used + requested > offered:
            amounts[name] = used + requested
    return amounts


def _describe_added_nodes(
    model: Node, count: int, sizes_text: str, *, is_offered: bool, has_rare_devices: bool, other_zone: str
) -> str:
    """Describe the addition of `count` nodes like a model.

    `sizes_text` names the amounts that exceed the model's, or is empty. If no node offers these resources (`is_offered`
    is False), the model is not named. `has_rare_devices` says that most nodes of the model's pool lack the model's
    devices. `other_zone` is the zone of the new nodes if the model is in another one, or "".
    """
    nodes_text = "a node" if count == 1 else f"{count} nodes"
    pool = find_node_pool_name(model)
    if not is_offered:
        return f"add {nodes_text} with {sizes_text}, but check the resource name and the device plugin first"
    text = f"add {nodes_text} like {model.metadata.name}"
    if has_rare_devices:
        return f"{text} (most nodes of pool {pool} lack its devices)"
    if pool:
        text += f" (pool {pool})"
    if sizes_text:
        text += f" but with {sizes_text}{' each' if count > 1 else ''}"
    if other_zone:
        text += f" but in zone {other_zone}"
    return text


def build_added_nodes_fix(
    view: Fork,
    model: Node,
    count: int = 1,
    larger: Amounts | None = None,
    *,
    unoffered_resources: frozenset[str] = frozenset(),
    has_rare_devices: bool = False,
    with_room_for: Callable[[Sequence[PodInfo]], Fix | None] | None = None,
    also_for: str = "",
    other_zone: str = "",
) -> Fix:
    """Build the fix that adds `count` nodes like a model, with its DaemonSet pods, devices and volume limits.

    `larger` are the amounts of some resources of which the new nodes offer more than the model. `unoffered_resources`
    are the resources in `larger` that no node offers, and `has_rare_devices` says that most nodes of the model's pool
    lack the model's devices. Both change the fix's text. `with_room_for` becomes a field of the fix.
    `also_for` is a clause that says for which other pods the nodes are larger than the pod needs. `other_zone` is the
    zone of the new nodes if the node of the model's name is in another one. The labels of `model` name this zone.
    """
    name = model.metadata.name
    sizes: Resources = {
        resource: _format_amount_rounded_up(resource, amount) for resource, amount in (larger or {}).items()
    }

    # Add the nodes under names that are free.
    suffix = "larger" if sizes else "more"  # so that nodes of both kinds can be added together
    candidate_names = (f"{name}-{suffix}-{number}" for number in range(len(view.nodes) + count))
    free_names = (candidate for candidate in candidate_names if candidate not in view.nodes.index)
    edits: list[ObjectEdit] = []
    for new_name in islice(free_names, count):
        edits += _iter_node_creation_edits(view, model, new_name, sizes)

    row = view.nodes.index[name]
    offered = {
        resource: int(view.allocatable[row, view.resources[resource]]) if resource in view.resources else 0
        for resource in larger or {}
    }

    def needs_special_node(info: PodInfo) -> bool:
        """Return whether the pod requests more than the model offers, or the devices that most nodes lack."""
        requests = info.incoming_requests
        if offered:
            return any(requests.get(resource, 0) > amount for resource, amount in offered.items())
        return bool(info.spec.resource_claims) or any(map(is_extended, requests))

    size_texts = [_describe_size(resource, size) for resource, size in sizes.items()]
    sizes_text = join_words(size_texts) if size_texts else ""
    text = _describe_added_nodes(
        model,
        count,
        sizes_text,
        is_offered=not unoffered_resources,
        has_rare_devices=has_rare_devices,
        other_zone=other_zone,
    )
    if not unoffered_resources:
        text += also_for
    return Fix(
        kind=FixKind.ADD_NODE,
        target=(name, count, sizes_text, other_zone),
        text=text,
        by="operator",
        edits=tuple(edits),
        cost=count * (OF_ANOTHER_SHAPE if sizes or other_zone else ADD_NODE),
        variant_of="node",
        where="" if unoffered_resources else f"like {name}{f' in zone {other_zone}' if other_zone else ''}",
        needs_special_node=needs_special_node if sizes or has_rare_devices else None,
        larger_amounts=larger or {},
        with_room_for=with_room_for,
        with_node_count=partial(
            build_added_nodes_fix,
            view,
            model,
            larger=larger,
            unoffered_resources=unoffered_resources,
            has_rare_devices=has_rare_devices,
            also_for=also_for,
            other_zone=other_zone,
        ),
    )


def _describe_size(resource: str, size: object) -> str:
    """Describe an amount of a resource in words.

    >>> _describe_size("cpu", "17"), _describe_size("memory", "64Gi"), _describe_size("nvidia.com/gpu", "8")
    ('17 CPUs', '64 GiB of memory', '8 nvidia.com/gpu')
    """
    if resource == CPU:
        return "1 CPU" if size == "1" else f"{size} CPUs"
    if is_extended(resource):
        return f"{size} {resource}"
    spelled_size = str(size).replace("Gi", " GiB").replace("Mi", " MiB")
    return f"{spelled_size} of {resource}"


def _format_amount_rounded_up(resource: str, amount: int) -> str:
    """Format an amount as a quantity in whole CPUs, Gi or Mi, rounded up. Other resources stay exact."""
    if resource == CPU:
        return str(_divide_rounding_up(amount, 1000))  # from millicores
    is_in_bytes = resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith(HUGE_PAGES_PREFIX)
    if not is_in_bytes:
        return str(amount)
    if amount > 2**30:
        return f"{_divide_rounding_up(amount, 2**30)}Gi"
    return f"{_divide_rounding_up(amount, 2**20)}Mi"


def _divide_rounding_up(amount: int, divisor: int) -> int:
    """Return the quotient rounded up, exactly for integers of any size."""
    return -(-amount // divisor)


def _iter_node_creation_edits(view: Fork, model: Node, new_name: str, sizes: Resources) -> Iterator[ObjectEdit]:
    """Yield the edits that add one node like the model, with its own CSINode, ResourceSlices and DaemonSet pods.

    `sizes` are quantities of some resources that the new node offers instead of the model's.
    """
    name = model.metadata.name
    status = replace(model.status, allocatable={**model.status.allocatable, **sizes})
    labels = dict(model.metadata.labels)
    if HOSTNAME in labels:
        labels[HOSTNAME] = new_name
    node = replace(model, metadata=ObjectMeta(new_name, labels=labels), spec=_build_new_spec(model), status=status)
    yield ObjectEdit.create(node, like=name)
    for csi_node in view.cluster.csi_nodes:
        if csi_node.metadata.name == name:
            yield _build_csi_node_edit(replace(csi_node, metadata=ObjectMeta(new_name)))
    for resource_slice in view.cluster.resource_slices:
        if resource_slice.spec.node_name == name:
            yield _build_slice_edit(resource_slice, new_name)
    for position in view.pods_on(view.nodes.index[name]):
        pod = view.pods.objects[position]
        if find_owner(pod).kind == "DaemonSet":
            yield _build_daemon_pod_edit(pod, new_name)


def _build_new_spec(node: Node) -> NodeSpec:
    """Return the spec of a new node like this one.

    It has no cordon, no provider ID, and no taints that report a condition.
    """
    taints = tuple(taint for taint in remove_condition_taints(node).spec.taints if taint.key != UNSCHEDULABLE_TAINT.key)
    return replace(node.spec, unschedulable=False, taints=taints, provider_id="")


def _build_csi_node_edit(csi_node: CSINode) -> ObjectEdit:
    """Return the edit that creates this CSINode."""
    return ObjectEdit.create(csi_node)


def _build_slice_edit(resource_slice: ResourceSlice, node_name: str) -> ObjectEdit:
    """Return the edit that creates a copy of the ResourceSlice for the new node."""
    new_slice = copy_resource_slice(resource_slice, node_name)
    return ObjectEdit.create(new_slice)


def _build_daemon_pod_edit(pod: Pod, node_name: str) -> ObjectEdit:
    """Return the edit that creates a copy of the DaemonSet pod on the new node."""
    meta = replace(pod.metadata, name=f"{pod.metadata.name}-{node_name}", uid="")
    new_pod = replace(pod, metadata=meta, spec=replace(pod.spec, node_name=node_name))
    return ObjectEdit.create(new_pod, like=pod.key)
