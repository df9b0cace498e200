"""Random small clusters and Kubernetes' predicates in plain Python, for naive loops over nodes.

Nothing here uses the code that is tested: objects are JSON documents, a predicate is a function of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from plugin_cases import SUCCESS, build_snapshot, compute_scores, find_pod_info, run_filter, run_pre_filter

from kschedctl.snapshot.delta import NO_CHANGE, Delta
from kschedctl.snapshot.fork import Fork

Json = dict[str, Any]
HOSTNAME = "kubernetes.io/hostname"
NAMESPACES = ["a", "b"]
MOSTLY_ONE_NAMESPACE = ["a", "a", "a", "b"]
UNRESOLVABLE, UNSCHEDULABLE = "UnschedulableAndUnresolvable", "Unschedulable"


class Change(NamedTuple):
    """A pod of the cluster that is added to a node (1) or removed from it (-1)."""

    node: str
    pod: str
    sign: int


@dataclass
class SmallCluster:
    """A cluster in which ``pods`` run, and ``nominated`` pods have no node and may be added by ``changes``.

    ``feasible`` are the nodes to score.
    """

    nodes: list[Json]
    pods: list[Json]
    nominated: list[Json]
    pending: Json
    namespaces: list[Json]
    changes: list[Change]
    feasible: list[str]

    def view(self) -> Fork:
        """Return the cluster as a fork."""
        parts = {"nodes": self.nodes, "pods": self.pods + self.nominated, "namespaces": self.namespaces}
        return build_snapshot({part: documents for part, documents in parts.items() if documents})

    def delta(self, view: Fork) -> Delta:
        """Return the changes as a delta of the view."""
        if not self.changes:
            return NO_CHANGE
        rows = [view.nodes.index[change.node] for change in self.changes]
        infos = [view.pods.info[[p.metadata.name for p in view.pods.objects].index(c.pod)] for c in self.changes]
        signs = [change.sign for change in self.changes]
        return Delta.from_changes(np.array(rows, np.int32), np.array(infos, np.int32), np.array(signs, np.int64))

    def pods_if_changed(self, node: str) -> list[Json]:
        """Return all running pods as if only the changes of this node had taken place."""
        known = {get_name(pod): pod for pod in self.pods + self.nominated}
        running = {get_name(pod): pod for pod in self.pods}
        for change in self.changes:
            if change.node == node and change.sign < 0:
                del running[change.pod]
            elif change.node == node:
                running[change.pod] = {**known[change.pod], "spec": {**known[change.pod]["spec"], "nodeName": node}}
        return list(running.values())


# -- making them --------------------------------------------------------------------------------------------------

Maker = Callable[[Random], Json]


def draw_nothing(random: Random) -> Json:
    return {}


def draw_clusters(
    pending: Maker = draw_nothing,
    running: Maker = draw_nothing,
    node: Maker = draw_nothing,
    changing: bool = False,
    terminating: bool = False,
) -> st.SearchStrategy[SmallCluster]:
    """Draw a cluster. ``pending`` and ``running`` draw pod specs, and ``node`` draws a node's spec and status."""

    def make(seed: int) -> SmallCluster:
        random = Random(seed)
        nodes = [_build_node(random, f"n{i}", node) for i in range(random.randint(1, 5))]
        names = [get_name(node) for node in nodes]
        pods = [_build_pod(random, f"p{i}", running, random.choice(names)) for i in range(random.randint(0, 8))]
        for pod in pods if terminating else ():
            if random.random() < 0.2:
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        nominated = [_build_pod(random, f"m{i}", running) for i in range(random.randint(1, 2) if changing else 0)]
        return SmallCluster(
            nodes=nodes,
            pods=pods,
            nominated=nominated,
            pending=_build_pod(random, "pending", pending),
            namespaces=[_build_namespace(name, build_labels(random)) for name in NAMESPACES if random.random() < 0.7],
            changes=[c for name in names for c in _changes(random, name, pods, nominated)] if changing else [],
            feasible=random.sample(names, random.randint(1, len(names))),
        )

    return st.integers(0, 2**32 - 1).map(make)


def build_labels(random: Random) -> Json:
    return dict(random.choice([{"app": "x"}, {"app": "x"}, {"app": "x", "tier": "x"}, {"app": "y"}, {"tier": "y"}, {}]))


def draw_some(random: Random, **parts: Any) -> Json:
    """Draw a subset with even odds for each part."""
    return {key: part for key, part in parts.items() if random.random() < 0.5}


def draw_many(random: Random, most: int, make: Maker, least: int = 0) -> list[Json]:
    return [make(random) for _ in range(random.randint(least, most))]


def draw_requirement(random: Random, keys: Sequence[str], values: Sequence[str], numbers: bool = False) -> Json:
    """Draw a requirement of a label or node selector, with Gt or Lt only if ``numbers``."""
    operator = random.choice(["In", "NotIn", "Exists", "DoesNotExist", *(["Gt", "Lt"] if numbers else [])])
    found = {"key": random.choice(keys), "operator": operator}
    if operator in ("In", "NotIn"):
        found["values"] = random.sample(values, random.randint(1, 2))
    elif operator in ("Gt", "Lt"):
        found["values"] = [random.choice([value for value in values if value.isdigit()])]
    return found


def build_selector(random: Random) -> Json:
    """Draw a LabelSelector."""
    if random.random() < 0.4:
        return {"matchLabels": {"app": "x"}}
    expressions = draw_many(random, 2, lambda r: draw_requirement(r, ["app", "tier"], ["x", "y"]), least=1)
    return draw_some(random, matchLabels=build_labels(random), matchExpressions=expressions)


def draw_topology_key(random: Random) -> str:
    return random.choice(["zone", "rack", HOSTNAME])


def _build_node(random: Random, name: str, rest: Maker) -> Json:
    """Draw a node with labels."""
    found = {"zone": random.choice("xyz"), HOSTNAME: name, **draw_some(random, rack=random.choice("12"))}
    if random.random() < 0.2:
        del found[random.choice(["zone", HOSTNAME])]
    return {"kind": "Node", "metadata": {"name": name, "labels": found}, **rest(random)}


def _build_pod(random: Random, name: str, spec: Maker, node: str | None = None) -> Json:
    metadata = {"name": name, "namespace": random.choice(MOSTLY_ONE_NAMESPACE), "labels": build_labels(random)}
    return {"kind": "Pod", "metadata": metadata, "spec": {**spec(random), **({"nodeName": node} if node else {})}}


def _build_namespace(name: str, labels: Json) -> Json:
    return {"kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _changes(random: Random, node: str, pods: list[Json], nominated: list[Json]) -> list[Change]:
    """Draw changes as preemption makes them: nominated pods come, some pods go, some of those come back."""
    there = [get_name(pod) for pod in pods if pod["spec"]["nodeName"] == node]
    gone = random.sample(there, random.randint(0, len(there)))
    back = random.sample(gone, random.randint(0, len(gone)))
    added = random.sample(nominated, random.randint(0, len(nominated)))
    return [
        *(Change(node, get_name(pod), 1) for pod in added),
        *(Change(node, pod, -1) for pod in gone),
        *(Change(node, pod, 1) for pod in back),
    ]


# -- predicates ---------------------------------------------------------------------------------------------------


def get_name(document: Json) -> str:
    return str(document["metadata"]["name"])


def get_labels(document: Json) -> Json:
    return document["metadata"].get("labels", {})


def is_met(requirement: Json, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet a requirement."""
    key, values = requirement["key"], requirement.get("values", [])
    match requirement["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case operator:
            if not labels.get(key, "").isdigit():
                return False
            found, bound = int(labels[key]), int(values[0])
            return found > bound if operator == "Gt" else found < bound


def is_selected(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """Return whether a LabelSelector matches the labels.

    None matches nothing, and an empty selector matches everything.
    """
    if selector is None:
        return False
    wanted = selector.get("matchLabels", {}).items() <= labels.items()
    return wanted and all(is_met(requirement, labels) for requirement in selector.get("matchExpressions", []))


def is_node_wanted(spec: Json, node: Json) -> bool:
    """Return whether the pod's node selector and required node affinity match. An empty term matches no node."""
    if not spec.get("nodeSelector", {}).items() <= get_labels(node).items():
        return False
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(is_term_matching(term, node) for term in required["nodeSelectorTerms"])


def is_term_matching(term: Json, node: Json) -> bool:
    """Return whether a node selector term matches. An empty term matches no node."""
    expressions, fields = term.get("matchExpressions", []), term.get("matchFields", [])
    return bool(expressions or fields) and (
        all(is_met(requirement, get_labels(node)) for requirement in expressions)
        and all(is_met(requirement, {"metadata.name": get_name(node)}) for requirement in fields)
    )


def is_tolerated(tolerations: Iterable[Json], taint: Json) -> bool:
    """Return whether a toleration matches the taint."""
    return any(
        toleration.get("effect", "") in ("", taint["effect"])
        and toleration.get("key", "") in ("", taint["key"])
        and (toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", ""))
        for toleration in tolerations
    )


# -- comparing ----------------------------------------------------------------------------------------------------

Refusal = tuple[str, list[str]]
NaiveFilter = Callable[[SmallCluster, Json, list[Json]], Refusal | None]
NaiveScores = Callable[[SmallCluster], tuple[dict[str, int], dict[str, int]] | None]


def check_filter(plugin: Any, cluster: SmallCluster, naive: NaiveFilter) -> None:
    """Check that Filter agrees with ``naive(cluster, node, pods)``, which returns one node's rejection."""
    view = cluster.view()
    info, state = find_pod_info({"pod": cluster.pending}, view), None
    if hasattr(plugin, "pre_filter"):
        status, state = run_pre_filter(plugin, info, view)
        if status["skip"]:
            assert cluster.changes or not any(naive(cluster, node, cluster.pods) for node in cluster.nodes)
            return
        assert {part: status[part] for part in SUCCESS} == SUCCESS
    found = run_filter(plugin, info, view, state, cluster.delta(view))
    for node in cluster.nodes:
        refusal = naive(cluster, node, cluster.pods_if_changed(get_name(node)))
        expected = {"code": refusal[0], "reasons": sorted(refusal[1])} if refusal else SUCCESS
        assert found[get_name(node)] == expected, get_name(node)


def check_scores(plugin: Any, cluster: SmallCluster, naive: NaiveScores) -> None:
    """Check that scores agree with ``naive(cluster)``: raw and normalized scores, or None if PreScore skips."""
    view = cluster.view()
    found = compute_scores(plugin, find_pod_info({"pod": cluster.pending}, view), view, cluster.feasible)
    expected = naive(cluster)
    if expected is None:
        assert found == {"prescore": {"code": "Skip", "reasons": []}}
    else:
        assert (found["rawScores"], found["scores"]) == expected
