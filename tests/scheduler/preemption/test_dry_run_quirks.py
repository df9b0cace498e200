"""Check how host ports and topology spread keep their state during a dry run.

Host ports are a set: of two pods that hold one port, the first to go frees it. Spreading leaves terminating pods out
when it counts, and pods under an empty selector, but not when a pod comes or goes. So here both are kept in plain
loops, as upstream keeps them (HostPortInfo in framework/types.go, podtopologyspread/filtering.go; v1.36).
"""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given, settings
from hypothesis import strategies as st
from naive_preemption import (
    HOSTNAME,
    PENDING,
    ZONE,
    Json,
    Victims,
    build_node,
    dry_run_all_nodes,
    get_priority,
    select_victims,
)

from kschedctl.api.objects import Node, Pod, TopologySpreadConstraint
from kschedctl.cluster import Cluster
from kschedctl.scheduler.scheduler import Scheduler

NAMES = ["n0", "n1", "n2"]

ports = st.fixed_dictionaries(
    {"containerPort": st.just(1), "hostPort": st.sampled_from([80, 81])},
    optional={"hostIP": st.sampled_from(["10.0.0.1", "0.0.0.0"]), "protocol": st.sampled_from(["TCP", "UDP"])},
)
constraints = st.fixed_dictionaries(
    {
        "maxSkew": st.integers(1, 2),
        "topologyKey": st.sampled_from([ZONE, HOSTNAME]),
        "whenUnsatisfiable": st.just("DoNotSchedule"),
        "labelSelector": st.sampled_from([{}, {"matchLabels": {"app": "a"}}]),
    },
    optional={"minDomains": st.integers(1, 3)},
)


@st.composite
def draw_pod(draw: st.DrawFn, name: str, node_name: str | None) -> Json:
    cpu = {"requests": {"cpu": str(draw(st.integers(0, 2)))}}
    container = {"name": "c", "resources": cpu, "ports": draw(st.lists(ports, max_size=2))}
    metadata: Json = {"namespace": draw(st.sampled_from(["default", "default", "other"])), "name": name}
    metadata["labels"] = draw(st.sampled_from([{}, {"app": "a"}, {"app": "a"}]))
    if draw(st.integers(0, 3)) == 0:
        metadata["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    spec: Json = {"containers": [container], "priority": draw(st.sampled_from([0, 1, 1, 10]))}
    found: Json = {"kind": "Pod", "metadata": metadata, "spec": spec}
    if node_name:
        return found | {"spec": spec | {"nodeName": node_name}}
    return found | {"status": {"nominatedNodeName": draw(st.sampled_from(NAMES))}}


@st.composite
def draw_cluster(draw: st.DrawFn) -> Cluster:
    zones = [draw(st.sampled_from(["x", "y", None])) for _ in NAMES]
    nodes = [build_node(name, zone, draw(st.integers(2, 4))) for name, zone in zip(NAMES, zones, strict=True)]
    waiting = draw(draw_pod("pending", None)) | {"status": {}}
    waiting["metadata"] = {"namespace": "default", "name": "pending", "labels": waiting["metadata"]["labels"]}
    waiting["spec"] |= {"priority": 5, "topologySpreadConstraints": draw(st.lists(constraints, max_size=2))}
    bound = [draw(draw_pod(f"p{name}{i}", name)) for name in NAMES for i in range(draw(st.integers(0, 5)))]
    promised = [draw(draw_pod(f"promised{i}", None)) for i in range(draw(st.integers(0, 1)))]
    return Cluster.from_objects([*nodes, waiting, *bound, *promised])


class Books:
    """A naive model of one node for NodeResourcesFit, NodePorts and PodTopologySpread, with the node's domains."""

    def __init__(self, cluster: Cluster, pod: Pod, here: Node) -> None:
        self.pod, self.here = pod, here
        self.constraints = pod.spec.topology_spread_constraints
        self.cpu = int(here.status.allocatable["cpu"])
        self.ports: set[tuple[str, str, int]] = set()
        self.counts: list[dict[str, int]] = [{} for _ in self.constraints]
        for other in filter(self.has_all_keys, cluster.nodes):
            for counts, constraint in zip(self.counts, self.constraints, strict=True):
                value = other.metadata.labels[constraint.topology_key]
                number = sum(
                    self.counted(constraint, p) for p in cluster.pods if p.spec.node_name == other.metadata.name
                )
                counts[value] = counts.get(value, 0) + number
        for other_pod in cluster.pods:
            if other_pod.spec.node_name == here.metadata.name:
                self.cpu -= get_cpu(other_pod)
                self.ports |= list_host_ports(other_pod)
        self.promised = [
            p
            for p in cluster.pods
            if p.status.nominated_node_name == here.metadata.name and get_priority(p) >= get_priority(pod)
        ]

    def has_all_keys(self, other: Node) -> bool:
        return all(c.topology_key in other.metadata.labels for c in self.constraints)

    def counted(self, constraint: TopologySpreadConstraint, other: Pod) -> bool:
        assert constraint.label_selector is not None
        leaving = other.metadata.deletion_timestamp is not None
        return bool(constraint.label_selector.match_labels) and not leaving and self.selected(constraint, other)

    def selected(self, constraint: TopologySpreadConstraint, other: Pod) -> bool:
        assert constraint.label_selector is not None
        wanted = constraint.label_selector.match_labels.items()
        return other.metadata.namespace == self.pod.metadata.namespace and wanted <= other.metadata.labels.items()

    def remove(self, other: Pod) -> None:
        self.cpu += get_cpu(other)
        self.ports -= list_host_ports(other)
        self.count(other, -1)

    def add(self, other: Pod) -> None:
        self.cpu -= get_cpu(other)
        self.ports |= list_host_ports(other)
        self.count(other, +1)

    def count(self, other: Pod, change: int) -> None:
        for counts, constraint in zip(self.counts, self.constraints, strict=True):
            if self.has_all_keys(self.here) and self.selected(constraint, other):
                counts[self.here.metadata.labels[constraint.topology_key]] += change

    def fits(self) -> bool:
        if not self.promised:
            return self.fits_now()
        crowded = deepcopy(self)
        for other in self.promised:
            crowded.add(other)
        return self.fits_now() and crowded.fits_now()

    def fits_now(self) -> bool:
        room = get_cpu(self.pod) == 0 or get_cpu(self.pod) <= self.cpu
        free = not any(is_conflict(a, b) for a in list_host_ports(self.pod) for b in self.ports)
        return room and free and all(self.even(*found) for found in zip(self.counts, self.constraints, strict=True))

    def even(self, counts: dict[str, int], constraint: TopologySpreadConstraint) -> bool:
        if constraint.topology_key not in self.here.metadata.labels:
            return False
        domains = len(counts)
        smallest = 0 if domains < (constraint.min_domains or 1) else min(counts.values(), default=2**31 - 1)
        here = counts.get(self.here.metadata.labels[constraint.topology_key], 0)
        return here + self.selected(constraint, self.pod) - smallest <= constraint.max_skew


def get_cpu(pod: Pod) -> int:
    return int(pod.spec.containers[0].resources.requests["cpu"])


def list_host_ports(pod: Pod) -> set[tuple[str, str, int]]:
    return {(p.host_ip or "0.0.0.0", p.protocol or "TCP", p.host_port) for p in pod.spec.containers[0].ports}


def is_conflict(left: tuple[str, str, int], right: tuple[str, str, int]) -> bool:
    return left[1:] == right[1:] and (left[0] == right[0] or "0.0.0.0" in (left[0], right[0]))


@settings(max_examples=100)
@given(draw_cluster())
def test_dry_run_agrees_with_a_model_of_each_node(cluster: Cluster) -> None:
    scheduler = Scheduler(cluster)
    pod = next(scheduler.view.build_stored_pod(p) for p in cluster.pods if p.key == PENDING)
    want: dict[str, Victims | str] = {}
    for here in cluster.nodes:
        books = Books(cluster, pod, here)
        bound = [p for p in cluster.pods if p.spec.node_name == here.metadata.name]
        want[here.metadata.name] = select_victims(books, bound, get_priority(pod), ())
    assert dry_run_all_nodes(scheduler, pod) == want
