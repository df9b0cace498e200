"""What can be bought: nodes like those of a pool, or of an instance type, in their zones, with what runs on each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.node_pools import find_pool, is_control_plane
from kschedctl.api.objects import CSINode, Node, ObjectMeta, Pod
from kschedctl.api.ownership import find_owner
from kschedctl.autoscaling.karpenter.candidates import price_of
from kschedctl.autoscaling.karpenter.instance_types import read_instance_types
from kschedctl.autoscaling.karpenter.labels import INSTANCE_TYPE
from kschedctl.cluster import Cluster
from kschedctl.snapshot.node_order import HOSTNAME, ZONE

ON_EVERY_NODE = ("DaemonSet", "Node")
"""Kinds of owners of pods that come with a node."""


@dataclass(frozen=True, eq=False)
class NodeShape:
    """``models``: what a node is in each of its zones, "" for one that names none; ``prices``: an hour in each of them,
    None where it is not known.

    ``daemons``: the pods that come with a node; ``limits``: of volumes; ``like``: a node of the cluster; ``of``: the
    shape of which it is what there is in one zone.
    """

    name: str
    models: Mapping[str, Node]
    prices: Mapping[str, float | None]
    daemons: tuple[Pod, ...] = ()
    limits: tuple[CSINode, ...] = ()
    like: str = ""
    of: str = ""

    def only_in(self, zone: str) -> NodeShape:
        """Its nodes of one zone."""
        name, models, prices = f"{self.name}.{zone}", {zone: self.models[zone]}, {zone: self.prices[zone]}
        return replace(self, name=name, models=models, prices=prices, of=self.name)

    def first_in(self, zone: str) -> str:
        """The name of the first node of a zone, where nodes go to zones in turn."""
        return self.node_name(self.zones.index(zone))

    @property
    def zones(self) -> tuple[str, ...]:
        return tuple(self.models)

    def zone(self, number: int) -> str:
        """Nodes go to its zones in turn."""
        return self.zones[number % len(self.zones)]

    def price(self, nodes: int) -> float | None:
        """What so many cost an hour; None where that is not known."""
        prices = [self.prices[self.zone(number)] for number in range(nodes)]
        known = [price for price in prices if price is not None]
        return sum(known) if len(known) == len(prices) else None

    def nodes(self, nodes: int) -> Iterator[Node]:
        for number in range(nodes):
            name, zone = self.node_name(number), self.zone(number)
            model = self.models[zone]
            labels = {**model.metadata.labels, HOSTNAME: name, **({ZONE: zone} if zone else {})}
            yield replace(model, metadata=ObjectMeta(name, labels=labels))

    def node_name(self, number: int) -> str:
        return f"{self.name}-{number + 1}"

    def with_nodes(self, nodes: int) -> Iterator[Pod]:
        """The pods that come with so many of its nodes."""
        for node in map(self.node_name, range(nodes)):
            for at, pod in enumerate(self.daemons):
                meta = replace(pod.metadata, name=f"{pod.metadata.name}-{node}-{at}", uid="")
                yield replace(pod, metadata=meta, spec=replace(pod.spec, node_name=node))

    def volume_limits(self, nodes: int) -> Iterator[CSINode]:
        for node in map(self.node_name, range(nodes)):
            yield from (replace(limit, metadata=ObjectMeta(node)) for limit in self.limits)


def shapes_of_pools(cluster: Cluster, label: str = "") -> list[NodeShape]:
    """One for each kind of worker node of each pool, in all zones of the kind. ``label``: names pools instead."""
    workers = [node for node in cluster.nodes if _is_worker(node)]
    own = _own_labels(workers)
    kinds: dict[tuple[object, ...], list[Node]] = {}
    for node in workers:
        labels = node.metadata.labels
        pool = labels.get(label, "") if label else find_pool(node)
        shared = tuple(sorted((key, value) for key, value in labels.items() if key not in own))
        kinds.setdefault((pool or "node", shared, node.spec.taints), []).append(node)
    of_pool = Counter(pool for pool, *_ in kinds)
    seen: Counter[object] = Counter()
    shapes = []
    for (name, *_), nodes in sorted(kinds.items(), key=lambda kind: str(kind[0][0])):
        seen[name] += 1
        shapes.append(_of_kind(cluster, f"{name}.{seen[name]}" if of_pool[name] > 1 else str(name), nodes))
    return shapes


def _is_worker(node: Node) -> bool:
    return not (node.spec.unschedulable or is_control_plane(node))


def _own_labels(nodes: Sequence[Node]) -> set[str]:
    """The labels that tell nodes of a kind apart: those that name a zone, or have another value on every node."""
    values: dict[str, set[str]] = {}
    having: Counter[str] = Counter()
    for node in nodes:
        having.update(node.metadata.labels.keys())
        for key, value in node.metadata.labels.items():
            values.setdefault(key, set()).add(value)
    of_zones = {key for key in values if "zone" in key.rpartition("/")[2]}
    return {HOSTNAME} | of_zones | {key for key, number in having.items() if number == len(values[key]) > 1}


def _of_kind(cluster: Cluster, name: str, nodes: Sequence[Node]) -> NodeShape:
    model = nodes[0]
    own = model.metadata.name
    on_it = (pod for pod in cluster.pods if pod.spec.node_name == own and not pod.terminated)
    daemons = tuple(pod for pod in on_it if find_owner(pod).kind in ON_EVERY_NODE)
    limits = tuple(limit for limit in cluster.csi_nodes if limit.metadata.name == own)
    first = {node.metadata.labels.get(ZONE, ""): node for node in reversed(nodes)}
    models = {zone: replace(node, spec=replace(node.spec, provider_id="")) for zone, node in sorted(first.items())}
    return NodeShape(name, models, dict.fromkeys(models), daemons, limits, own)


def priced(shapes: Sequence[NodeShape], instance_types: Sequence[JsonObject]) -> list[NodeShape]:
    """The shapes with what their nodes cost, where a type tells that for a node's zone and capacity type.

    Raises InputError.
    """
    types = {sold.name: sold for sold in read_instance_types(instance_types).types}
    return [
        replace(
            shape,
            prices={
                zone: price_of(model.metadata.labels, types.get(model.metadata.labels.get(INSTANCE_TYPE, ""))) or None
                for zone, model in shape.models.items()
            },
        )
        for shape in shapes
    ]


def more_of_each(pods: Sequence[Pod], scale: float) -> Iterator[Pod]:
    """The pods that are lacking for so many times those of each workload, rounded up, each like one that there is."""
    by_owner: dict[object, list[Pod]] = {}
    for pod in pods:
        by_owner.setdefault(find_owner(pod), []).append(pod)
    for alike in by_owner.values():
        for number in range(ceil(round(len(alike) * scale, 6)) - len(alike)):
            pod = alike[number % len(alike)]
            name = f"{pod.metadata.name}-more-{number + 1}"
            yield replace(pod, metadata=replace(pod.metadata, name=name, uid=name))


def has_claims(pod: Pod) -> bool:
    """Whether a pod more like it would need claims that nobody has made."""
    volumes = any(volume.persistent_volume_claim or volume.ephemeral for volume in pod.spec.volumes)
    return volumes or bool(pod.spec.resource_claims)


def without_others(pod: Pod) -> Pod:
    """The pod as if it did not care where others are."""
    affinity = pod.spec.affinity
    alone = replace(affinity, pod_affinity=None, pod_anti_affinity=None) if affinity else None
    return replace(pod, spec=replace(pod.spec, affinity=alone, topology_spread_constraints=()))
