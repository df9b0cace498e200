"""Node shapes: nodes like those of a pool or an instance type, and the pods that each shape can take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.node_pools import find_node_pool_name, is_control_plane
from kschedctl.api.objects import CSINode, Node, ObjectMeta, Pod, Taint
from kschedctl.api.ownership import find_owner
from kschedctl.autoscaling.karpenter.candidates import get_offered_price
from kschedctl.autoscaling.karpenter.instance_types import read_instance_types
from kschedctl.autoscaling.karpenter.labels import INSTANCE_TYPE
from kschedctl.cluster import Cluster
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import HOSTNAME, ZONE

Labels = tuple[tuple[str, str], ...]
Taints = tuple[Taint, ...]
ON_EVERY_NODE = ("DaemonSet", "Node")
"""Owner kinds of pods that come with a node."""


@dataclass(frozen=True, eq=False)
class NodeShape:
    """A kind of node that can be bought."""

    name: str
    models: Mapping[str, Node]
    """A model node per zone; "" is the zone of a node that names none."""
    prices: Mapping[str, float | None]
    """The hourly price per zone, None if unknown."""
    daemons: tuple[Pod, ...] = ()
    """The pods that come with a node."""
    limits: tuple[CSINode, ...] = ()
    """The node's volume limits."""
    like: str = ""
    """A node of the cluster with this shape."""
    peculiarities: tuple[str, ...] = ()
    """The labels and taints in which this shape differs from the other shapes of its pool."""
    base_name: str = ""
    """The shape of which this one is the part in one zone."""

    def limit_to_zone(self, zone: str) -> NodeShape:
        """Return the part of this shape in one zone, as a shape with a name and price of its own."""
        return replace(
            self,
            name=f"{self.name}.{zone}",
            models={zone: self.models[zone]},
            prices={zone: self.prices[zone]},
            base_name=self.name,
        )

    def get_first_node_name(self, zone: str) -> str:
        """Return the name of the first node that goes to this zone."""
        return self.get_node_name(self.zones.index(zone))

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones where nodes of this shape can be bought."""
        return tuple(self.models)

    def get_zone(self, number: int) -> str:
        """Return the zone of the node with this number. Nodes go to the zones in turn."""
        return self.zones[number % len(self.zones)]

    def compute_price(self, nodes: int) -> float | None:
        """Return the hourly price of the first nodes, or None if a price is unknown. The zones take turns."""
        prices = [self.prices[self.get_zone(number)] for number in range(nodes)]
        known_prices = [price for price in prices if price is not None]
        return sum(known_prices) if len(known_prices) == len(prices) else None

    def iter_nodes(self, nodes: int) -> Iterator[Node]:
        """Yield the first `nodes` nodes of this shape, labelled with their names and zones."""
        for number in range(nodes):
            name = self.get_node_name(number)
            zone = self.get_zone(number)
            model = self.models[zone]
            labels = {**model.metadata.labels, HOSTNAME: name}
            if zone:
                labels[ZONE] = zone
            yield replace(model, metadata=ObjectMeta(name, labels=labels))

    def get_node_name(self, number: int) -> str:
        """Return the name of the node with this number."""
        return f"{self.name}-{number + 1}"

    def iter_daemon_pods(self, nodes: int) -> Iterator[Pod]:
        """Yield the daemon pods of the first `nodes` nodes, each bound to its node.

        Every node runs a copy of each daemon pod of the shape.
        """
        for node in map(self.get_node_name, range(nodes)):
            for index, pod in enumerate(self.daemons):
                meta = replace(pod.metadata, name=f"{pod.metadata.name}-{node}-{index}", uid="")
                yield replace(pod, metadata=meta, spec=replace(pod.spec, node_name=node))

    def iter_csi_nodes(self, nodes: int) -> Iterator[CSINode]:
        """Yield the CSINodes of this number of nodes, which hold their volume limits."""
        for node in map(self.get_node_name, range(nodes)):
            for csi_node in self.limits:
                yield replace(csi_node, metadata=ObjectMeta(node))


def build_pool_shapes(cluster: Cluster, label: str = "") -> list[NodeShape]:
    """Build a shape for each kind of worker node in each pool, sorted by pool.

    Nodes of one kind have the same taints and labels, apart from labels that differ by node or zone. `label` is the
    node label that names pools. If it is empty, the well-known labels of clouds and autoscalers are used.
    """
    workers = [node for node in cluster.nodes if _is_worker(node)]
    individual_labels = _find_node_specific_label_keys(workers)

    # pool -> kind, which is shared labels and taints -> its nodes
    kinds_by_pool: dict[str, dict[tuple[Labels, Taints], list[Node]]] = {}
    for node in workers:
        labels = node.metadata.labels
        pool = (labels.get(label, "") if label else find_node_pool_name(node)) or "node"
        shared_labels = tuple(sorted((key, value) for key, value in labels.items() if key not in individual_labels))
        kinds = kinds_by_pool.setdefault(pool, {})
        kinds.setdefault((shared_labels, node.spec.taints), []).append(node)

    # The first node of a kind is the model for the pods that come with a node.
    model_names = {nodes[0].metadata.name for kinds in kinds_by_pool.values() for nodes in kinds.values()}
    daemons_by_model = _group_daemon_pods_by_node(cluster.pods, model_names)

    # A shape has the name of its pool, with a number if the pool has several kinds of nodes.
    shapes = []
    for pool, kinds in sorted(kinds_by_pool.items()):
        for number, (kind, nodes) in enumerate(kinds.items(), 1):
            name = f"{pool}.{number}" if len(kinds) > 1 else pool
            daemons = daemons_by_model.get(nodes[0].metadata.name, ())
            shape = _build_pool_shape(cluster, name, nodes, tuple(daemons))
            other_kinds = [other for other in kinds if other != kind]
            peculiarities = tuple(_iter_distinguishing_marks(*kind, other_kinds))
            shapes.append(replace(shape, peculiarities=peculiarities))
    return shapes


def _group_daemon_pods_by_node(pods: Iterable[Pod], node_names: Container[str]) -> dict[str, list[Pod]]:
    """Group the DaemonSet and static pods that run on the given nodes by the names of their nodes."""
    daemons_by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        node_name = pod.spec.node_name
        if node_name in node_names and not pod.terminated and find_owner(pod).kind in ON_EVERY_NODE:
            daemons_by_node.setdefault(node_name, []).append(pod)
    return daemons_by_node


def _iter_distinguishing_marks(
    labels: Labels, taints: Taints, other_kinds: Sequence[tuple[Labels, Taints]]
) -> Iterator[str]:
    """Yield what distinguishes a kind of nodes from the other kinds in its pool.

    These are the kind's labels and taints that at least one other kind lacks, and the label keys that all other kinds
    have but this kind lacks.
    """
    for key, value in labels:
        if not all((key, value) in other_labels for other_labels, _ in other_kinds):
            yield f"{key}={value}"
    for taint in taints:
        if not all(taint in other_taints for _, other_taints in other_kinds):
            yield f"taint {taint}"
    own_keys = {key for key, _ in labels}
    keys_by_other_kind = [{key for key, _ in other_labels} for other_labels, _ in other_kinds]
    if keys_by_other_kind:
        missing_keys = set.intersection(*keys_by_other_kind) - own_keys
        yield from (f"no label {key}" for key in sorted(missing_keys))


def _is_worker(node: Node) -> bool:
    """Return whether the node is neither cordoned nor part of the control plane."""
    return not (node.spec.unschedulable or is_control_plane(node))


def _find_node_specific_label_keys(nodes: Sequence[Node]) -> set[str]:
    """Return the label keys whose values may differ between nodes of one kind.

    These are the hostname, labels that name a zone, and labels with a different value on every node.
    """
    values: dict[str, set[str]] = {}
    node_counts: Counter[str] = Counter()
    for node in nodes:
        node_counts.update(node.metadata.labels.keys())
        for key, value in node.metadata.labels.items():
            values.setdefault(key, set()).add(value)
    zone_labels = {key for key in values if "zone" in key.rpartition("/")[2]}
    unique_labels = {key for key, node_count in node_counts.items() if node_count == len(values[key]) > 1}
    return {HOSTNAME} | zone_labels | unique_labels


def _build_pool_shape(cluster: Cluster, name: str, nodes: Sequence[Node], daemons: tuple[Pod, ...]) -> NodeShape:
    """Build the shape of a kind of nodes, with the first node of each zone as a model.

    `daemons` are the pods that come with a node. The volume limits are those of the very first node. Prices are
    unknown.
    """
    model_name = nodes[0].metadata.name
    limits = tuple(limit for limit in cluster.csi_nodes if limit.metadata.name == model_name)
    first_by_zone: dict[str, Node] = {}
    for node in nodes:
        first_by_zone.setdefault(node.metadata.labels.get(ZONE, ""), node)
    models = {
        zone: replace(node, spec=replace(node.spec, provider_id="")) for zone, node in sorted(first_by_zone.items())
    }
    return NodeShape(name, models, prices=dict.fromkeys(models), daemons=daemons, limits=limits, like=model_name)


def add_prices_to_shapes(shapes: Sequence[NodeShape], instance_types: Sequence[JsonObject]) -> list[NodeShape]:
    """Return the shapes with prices from a catalogue, by the instance type, zone and capacity type of their nodes.

    A price is None if the catalogue does not have it. Raises InputError if the catalogue is invalid.
    """
    types_by_name = {instance_type.name: instance_type for instance_type in read_instance_types(instance_types).types}

    def find_price(model: Node) -> float | None:
        """Return the price of the node, or None if the catalogue does not have it."""
        labels = model.metadata.labels
        price = get_offered_price(labels, types_by_name.get(labels.get(INSTANCE_TYPE, "")))
        return price or None  # 0 stands for an unknown price

    return [
        replace(shape, prices={zone: find_price(model) for zone, model in shape.models.items()}) for shape in shapes
    ]


def iter_additional_pods(pods: Sequence[Pod], scale: float) -> Iterator[Pod]:
    """Yield the additional pods that bring each workload to `scale` times its number of pods, rounded up.

    The pods are copies of the workload's pods under new names.
    """
    pods_by_owner: dict[object, list[Pod]] = {}
    for pod in pods:
        pods_by_owner.setdefault(find_owner(pod), []).append(pod)
    for workload_pods in pods_by_owner.values():
        new_count = ceil(round(len(workload_pods) * scale, 6))  # rounded first, as 10 * 1.1 is more than 11
        for number in range(new_count - len(workload_pods)):
            pod = workload_pods[number % len(workload_pods)]
            name = f"{pod.metadata.name}-more-{number + 1}"
            yield replace(pod, metadata=replace(pod.metadata, name=name, uid=name))


def has_claims(pod: Pod) -> bool:
    """Return whether the pod uses volume or device claims. A copy of the pod would need claims of its own."""
    if pod.spec.resource_claims:
        return True
    return any(volume.persistent_volume_claim or volume.ephemeral for volume in pod.spec.volumes)


def drop_pod_relations(pod: Pod) -> Pod:
    """Return the pod without pod affinity, pod anti-affinity and spread constraints."""
    affinity = pod.spec.affinity
    if affinity is not None:
        affinity = replace(affinity, pod_affinity=None, pod_anti_affinity=None)
    return replace(pod, spec=replace(pod.spec, affinity=affinity, topology_spread_constraints=()))


Place = tuple[str, str]
"""A shape and one of its zones."""
Places = dict[str, tuple[Place, ...]]
"""The places where each pod can run."""
Takers = dict[str, tuple[str, ...]]
"""The shapes that take each pod."""


def find_places_of_pending_pods(
    view: Fork, shapes: Mapping[str, NodeShape], progress: Progress = NO_PROGRESS
) -> Places:
    """Map the key of each pending pod to the shapes and zones where it can run, judged without other pods.

    `view` has an empty node of each shape in each zone. A pod that fits nowhere only because of its relations to other
    pods gets all places.
    """
    scheduler = Scheduler(view.cluster)
    place_by_node = _map_nodes_to_places(shapes)
    places_by_info: dict[int, tuple[Place, ...]] = {}
    places: Places = {}
    pending_positions = np.flatnonzero(~view.mask_placed())
    on_tried = progress.begin("Trying nodes for each kind of pod", len(np.unique(view.pods.info[pending_positions])))
    for position in pending_positions.tolist():
        number = int(view.pods.info[position])
        if number not in places_by_info:
            on_tried(1)
            places_by_info[number] = _find_pod_places(scheduler, view.pods.infos[number].pod, place_by_node)
        places[view.pods.objects[position].key] = places_by_info[number]
    return places


def _map_nodes_to_places(shapes: Mapping[str, NodeShape]) -> dict[str, Place]:
    """Map the name of the first node of each shape in each zone to this shape and zone."""
    return {
        shape.get_node_name(number): (name, zone)
        for name, shape in shapes.items()
        for number, zone in enumerate(shape.zones)
    }


def _find_pod_places(scheduler: Scheduler, pod: Pod, place_by_node: Mapping[str, Place]) -> tuple[Place, ...]:
    """Return the shapes and zones where one pod can run, judged without other pods.

    All places are returned if the pod fits nowhere only because of its relations to other pods. There are no places for
    a gated pod, or for a pod that no profile serves.
    """
    framework = scheduler.find_framework(pod.spec.scheduler_name)
    if framework is None:
        return ()
    cycle = scheduler.run_cycle(framework.without_extenders(), pod)
    if cycle.gated:
        return ()
    if cycle.schedulable:
        return tuple(place_by_node[name] for name in cycle.passed.names)
    depends_on_other_pods = scheduler.run_cycle(framework.without_extenders(), drop_pod_relations(pod)).schedulable
    return tuple(place_by_node.values()) if depends_on_other_pods else ()


def split_shapes_by_zone(shapes: Mapping[str, NodeShape], places: Places) -> dict[str, NodeShape]:
    """Return the shapes, with an additional part of a shape for each zone to which some pod is bound.

    A pod may be bound to a zone by its volume, for example. All nodes of a part are in its zone, whereas the nodes of a
    whole shape are distributed over all its zones.
    """
    all_zones = {name: frozenset(shape.zones) for name, shape in shapes.items()}
    # Find the zones of each shape that matter to pods that can use only some of its zones.
    needed_zones: dict[str, set[str]] = {}
    for pod_places in frozenset(places.values()):
        zones_by_shape: dict[str, set[str]] = {}
        for name, zone in pod_places:
            zones_by_shape.setdefault(name, set()).add(zone)
        for name, possible_zones in zones_by_shape.items():
            if possible_zones < all_zones[name]:
                needed_zones.setdefault(name, set()).update(possible_zones)

    all_shapes = dict(shapes)
    for name, shape in shapes.items():
        for zone in sorted(needed_zones.get(name, ())):
            zone_shape = shape.limit_to_zone(zone)
            all_shapes[zone_shape.name] = zone_shape
    return all_shapes


def map_pods_to_shapes(places: Places, shapes: Mapping[str, NodeShape]) -> Takers:
    """Map each pod to the names of the shapes on which it fits.

    `places` has the places on which each pod fits: pairs of a shape and a zone. Parts of a shape that are limited to
    one of these zones are included.
    """
    shapes_by_place: dict[Place, list[str]] = {}
    for name, shape in shapes.items():
        for zone in shape.zones:
            place = (shape.base_name or name, zone)
            shapes_by_place.setdefault(place, []).append(name)

    # Many pods have the same places.
    takers_by_places: dict[tuple[Place, ...], tuple[str, ...]] = {}
    for pod_places in set(places.values()):
        names = dict.fromkeys(name for place in pod_places for name in shapes_by_place[place])
        takers_by_places[pod_places] = tuple(names)
    return {pod: takers_by_places[pod_places] for pod, pod_places in places.items()}
