"""Small random clusters with an unschedulable pod, one family for each obstacle.

Documents are as users write them: requests defaulted from limits, fields left out, lists empty.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, NamedTuple

from kschedctl.cluster import Cluster

Json = dict[str, Any]
ZONE, HOSTNAME, DISK, GPU = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "disktype", "example.com/gpu"
ASKED = "d/asked"


class World(NamedTuple):
    """A cluster's documents; the asked pod, d/asked, is one of them.

    ``admit``: pods without a node are yet to be created, so that their label keys count.
    """

    documents: list[Json]
    admit: bool

    def cluster(self, documents: Iterable[Json] | None = None) -> Cluster:
        """Build the cluster of the documents, or of changed ones."""
        return Cluster.from_objects(list(self.documents if documents is None else documents), admit=self.admit)

    def of_kind(self, kind: str) -> list[Json]:
        return [each for each in self.documents if each["kind"] == kind]


Maker = Callable[[Random, "Draft"], None]


class Draft:
    """A cluster in the making: roomy nodes with some replicas on them, and a pod that asks for little."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.nodes = [self._node(i) for i in range(random.randint(2, 4))]
        self.asked: Json = {"containers": [build_container(random, "c", cpu="500m", memory="256Mi")]}
        self.labels: Json = {"app": "web", "pod-template-hash": "new"}
        self.pods: list[Json] = []
        self.others: list[Json] = [build_namespace("d", team="shop"), build_namespace("other", team="data")]

    def _node(self, number: int) -> Json:
        """Draw a node."""
        name = f"n{number}"
        labels = {ZONE: self.random.choice("ab"), HOSTNAME: name, **draw_parts(self.random, **{DISK: "ssd"})}
        allocatable = {"cpu": "8", "memory": "16Gi", "ephemeral-storage": "50Gi", "pods": "20"}
        found: Json = {"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}}
        return {**found, "status": {"allocatable": allocatable}}

    def run(self, node: Json, *, app: str = "", where: str = "d", owner: str = "Deployment", **spec: Any) -> Json:
        """Add a running pod of some workload to the node."""
        random = self.random
        app = app or random.choice(["web", "api"])
        name = f"{app}-{len(self.pods)}"
        labels = {"app": app, **draw_parts(random, tier="front")}
        owners = {
            "Deployment": {"kind": "ReplicaSet", "name": f"{app}-old"},
            "StatefulSet": {"kind": "StatefulSet", "name": app},
            "DaemonSet": {"kind": "DaemonSet", "name": app},
        }
        metadata: Json = {"name": name, "namespace": where, "uid": f"uid-{name}", "labels": labels}
        if owner == "Deployment":
            labels["pod-template-hash"] = "old"
        if owner in owners:
            metadata["ownerReferences"] = [{"apiVersion": "apps/v1", "uid": app, "controller": True, **owners[owner]}]
        own = {"containers": [build_container(random, "c", cpu="100m")], **spec, "nodeName": node["metadata"]["name"]}
        status = {"phase": "Running", "startTime": f"2026-01-01T00:00:{len(self.pods):02}Z"}
        self.pods.append({"kind": "Pod", "metadata": metadata, "spec": own, "status": status})
        return self.pods[-1]

    def made(self) -> World:
        """Build the world of the draft."""
        metadata: Json = {"name": "asked", "namespace": "d", "uid": "asked", "labels": self.labels}
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-new", "uid": "web", "controller": True}
        asked = {"kind": "Pod", "metadata": {**metadata, "ownerReferences": [owner]}, "spec": self.asked, "status": {}}
        return World([*self.nodes, *self.pods, *self.others, asked], admit=self.random.random() < 0.3)


def build_world(family: str, seed: int) -> World:
    """Build a cluster of a family, or of a mix of two families."""
    random = Random(f"{family} {seed}")
    draft = Draft(random)
    for name in (family, *random.sample(sorted(FAMILIES), random.choice([0, 0, 1]))):
        FAMILIES[name](random, draft)
    found = draft.made()
    return found._replace(documents=json.loads(json.dumps(found.documents)))  # no part is shared


# -- parts -------------------------------------------------------------------------------------------------------------


def draw_parts(random: Random, **parts: Any) -> Json:
    """Draw each part with even odds."""
    return {key: part for key, part in parts.items() if random.random() < 0.5}


def build_container(random: Random, name: str, **requests: str) -> Json:
    """Build a container whose requests are explicit or left to be taken from the limits."""
    field = random.choice(["requests", "requests", "limits"])
    return {"name": name, "image": "i", "resources": {field: requests}}


def build_namespace(name: str, **labels: str) -> Json:
    return {"kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def build_budget(app: str, allowed: int) -> Json:
    """Build a PodDisruptionBudget of an app."""
    spec = {"selector": {"matchLabels": {"app": app}}}
    status = {"disruptionsAllowed": allowed}
    metadata = {"name": f"{app}-budget", "namespace": "d"}
    return {"kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec, "status": status}


def build_priority_class(name: str, value: int, **fields: str) -> Json:
    return {"kind": "PriorityClass", "metadata": {"name": name}, "value": value, **fields}


# -- families ----------------------------------------------------------------------------------------------------------


def add_taints(random: Random, draft: Draft) -> None:
    """Add taints of users, of Kubernetes and of control planes, and tolerations that nearly match."""
    known = [
        {"key": "team", "value": "data", "effect": "NoSchedule"},
        {"key": "team", "value": "ml", "effect": "NoExecute"},
        {"key": "dedicated", "effect": "NoSchedule"},
        {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        {"key": "team", "value": "soft", "effect": "PreferNoSchedule"},
    ]
    for node in draft.nodes:
        node["spec"]["taints"] = random.sample(known, random.choice([1, 1, 2, 3]))
    if random.random() < 0.5:
        near = [{"key": "team", "value": "dta", "effect": "NoSchedule"}, {"key": "team", "operator": "Exists"}]
        draft.asked["tolerations"] = [{**random.choice(near), **draw_parts(random, effect="NoExecute")}]


def add_cordons(random: Random, draft: Draft) -> None:
    """Add cordoned nodes, with or without the taint."""
    for node in draft.nodes:
        node["spec"]["unschedulable"] = True
        if random.random() < 0.5:
            taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
            node["spec"]["taints"] = [*node["spec"].get("taints", []), taint]


def add_selectors(random: Random, draft: Draft) -> None:
    """Add node selectors with a typo in a key or a value, or for labels that no node has."""
    wanted = [
        ("disk-type", "ssd"),
        (DISK, "SSD"),
        (DISK, "nvme"),
        ("failure-domain.beta.kubernetes.io/zone", "a"),
        (ZONE, "c"),
        (ZONE, "a"),
        ("pool", "gpu"),
    ]
    draft.asked["nodeSelector"] = dict(random.sample(wanted, random.choice([1, 1, 2])))


def add_node_affinity(random: Random, draft: Draft) -> None:
    """Add required terms: several terms, terms with several expressions, terms with fields."""
    expressions = [
        {"key": DISK, "operator": "In", "values": ["SSD"]},
        {"key": DISK, "operator": "DoesNotExist"},
        {"key": ZONE, "operator": "NotIn", "values": ["a", "b"]},
        {"key": ZONE, "operator": "In", "values": ["b", "c"]},
        {"key": "pool", "operator": "Exists"},
        {"key": "cores", "operator": "Gt", "values": ["4"]},
    ]
    fields = [
        {"key": "metadata.name", "operator": "In", "values": ["n0"]},
        {"key": "metadata.name", "operator": "In", "values": ["gone"]},
        {"key": "metadata.name", "operator": "NotIn", "values": ["n0", "n1"]},
    ]
    terms = []
    for _ in range(random.choice([1, 1, 2])):
        term: Json = {"matchExpressions": random.sample(expressions, random.choice([1, 2]))}
        if random.random() < 0.4:
            term["matchFields"] = random.sample(fields, random.choice([1, 1, 2]))
        terms.append(term)
    required = {"nodeSelectorTerms": terms}
    draft.asked.setdefault("affinity", {})["nodeAffinity"] = {
        "requiredDuringSchedulingIgnoredDuringExecution": required
    }


def add_requests(random: Random, draft: Draft) -> None:
    """Add requests that exceed the free amounts, full nodes that pods could leave, and pod-level resources."""
    large = {"cpu": "6", "memory": "12Gi", "ephemeral-storage": "40Gi", GPU: "2", "example.com/none": "1"}
    asked = {name: large[name] for name in random.sample(sorted(large), random.choice([1, 1, 2]))}
    parts = [build_container(random, "c", **asked)]
    if random.random() < 0.4:
        parts.append(build_container(random, "d", cpu=random.choice(["1", "1500m"]), memory="1Gi"))
    draft.asked["containers"] = parts
    plain = {name: amount for name, amount in asked.items() if name in ("cpu", "memory")}
    if plain and random.random() < 0.25:
        draft.asked["resources"] = {"requests": plain}
        draft.asked["containers"] = [{"name": "c", "image": "i"}, *parts[1:]]
    if random.random() < 0.3:
        draft.asked["initContainers"] = [build_container(random, "i", cpu="7")]
    for node in draft.nodes:
        if random.random() < 0.5:
            node["status"]["allocatable"][GPU] = random.choice(["1", "4"])
        for _ in range(random.randint(0, 3)):
            held = build_container(
                random, "c", cpu=random.choice(["1", "2", "3"]), memory=random.choice(["1Gi", "4Gi"])
            )
            if GPU in node["status"]["allocatable"] and random.random() < 0.5:
                next(iter(held["resources"].values()))[GPU] = "1"
            owner = random.choice(["Deployment", "StatefulSet", "DaemonSet", "Pod"])
            draft.run(node, app=random.choice(["web", "api"]), owner=owner, containers=[held])
    if random.random() < 0.3:
        draft.others.append(build_budget("api", random.choice([0, 1])))


def add_crowded_nodes(random: Random, draft: Draft) -> None:
    """Add nodes full of pods, of which some could go elsewhere."""
    for node in draft.nodes:
        running = random.randint(1, 3)
        for _ in range(running):
            draft.run(node, owner=random.choice(["Deployment", "StatefulSet", "Pod"]))
        node["status"]["allocatable"]["pods"] = str(running)
    if random.random() < 0.7:
        extra = draft.nodes[0]
        extra["status"]["allocatable"]["pods"] = "9"
        extra["spec"]["taints"] = [{"key": "team", "value": "web", "effect": "NoSchedule"}]
        for pod in draft.pods:
            if random.random() < 0.5:
                pod["spec"]["tolerations"] = [{"key": "team", "operator": "Exists"}]
    if random.random() < 0.5:
        draft.others.append(build_budget("api", random.choice([0, 1])))


def add_host_ports(random: Random, draft: Draft) -> None:
    """Add host ports that pods of the nodes hold, on one address or on all."""
    ports = [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 53, "hostPort": 53, "protocol": "UDP"}]
    draft.asked["containers"][0]["ports"] = random.sample(ports, random.choice([1, 1, 2]))
    if random.random() < 0.2:
        draft.asked["hostNetwork"] = True
        draft.asked["containers"][0]["ports"] = [{"containerPort": 8080, "hostPort": 8080}]
    for node in draft.nodes:
        for port in random.sample(ports, random.choice([1, 2])):
            part = {
                **build_container(random, "c", cpu="100m"),
                "ports": [{**port, **draw_parts(random, hostIP="10.0.0.1")}],
            }
            draft.run(node, owner=random.choice(["Deployment", "DaemonSet", "StatefulSet"]), containers=[part])


def add_spread_constraints(random: Random, draft: Draft) -> None:
    """Add hard constraints over zones and hosts, with each of their fields."""
    constraints = []
    for key in random.sample([ZONE, HOSTNAME, "rack", "topology.kubernetes.io/Zone"], random.choice([1, 1, 2])):
        constraint: Json = {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": random.choice([{"matchLabels": {"app": "web"}}, {"matchExpressions": []}]),
            **draw_parts(random, nodeTaintsPolicy=random.choice(["Honor", "Ignore"]), nodeAffinityPolicy="Ignore"),
        }
        if random.random() < 0.3:
            constraint["minDomains"] = random.choice([2, 3, 5])
        if random.random() < 0.2:
            constraint["matchLabelKeys"] = ["pod-template-hash"]
        constraints.append(constraint)
    draft.asked["topologySpreadConstraints"] = constraints
    closed = draft.nodes[0]
    closed["metadata"]["labels"][ZONE] = random.choice("bc")
    closed["spec"]["taints"] = [{"key": "team", "value": "data", "effect": "NoSchedule"}]
    for node in draft.nodes[1:]:
        for _ in range(random.randint(1, 3)):
            draft.run(node, app=random.choice(["web", "web", "api"]))
    if random.random() < 0.3:
        draft.others.append(build_budget("web", random.choice([0, 1])))


def add_affinity_to_pods(random: Random, draft: Draft) -> None:
    """Add required terms for pods that are elsewhere, in other namespaces or nowhere."""
    scopes: list[Json] = [
        {},
        {},
        {"namespaces": ["other"]},
        {"namespaces": ["othre"]},
        {"namespaceSelector": {"matchLabels": {"team": "dta"}}},
        {"namespaceSelector": {}},
    ]
    terms = []
    for _ in range(random.choice([1, 1, 2])):
        wanted = random.choice([{"app": "ap"}, {"app": "API"}, {"App": "api"}, {"app": "api"}, {"app": "cache"}])
        key = random.choice([ZONE, HOSTNAME, "failure-domain.beta.kubernetes.io/zone", "zone"])
        term = {"labelSelector": {"matchLabels": wanted}, "topologyKey": key, **random.choice(scopes)}
        terms.append(term | (draw_parts(random, matchLabelKeys=["pod-template-hash"]) if terms else {}))
    own = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    draft.asked.setdefault("affinity", {})["podAffinity"] = own
    for node in draft.nodes[:-1]:
        if random.random() < 0.6:
            draft.run(node, app="api", where=random.choice(["d", "other"]))
    if random.random() < 0.5:
        node["spec"]["taints"] = [{"key": "team", "value": "data", "effect": "NoSchedule"}]


def add_anti_affinity(random: Random, draft: Draft) -> None:
    """Add anti-affinity of the pod, and of running pods against it."""
    key = random.choice([ZONE, HOSTNAME])
    both = [{"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": key}]
    both[0] |= draw_parts(random, matchLabelKeys=["pod-template-hash"])
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": both}}
    mine = random.random() < 0.6
    if mine:
        draft.asked["affinity"] = {**draft.asked.get("affinity", {}), **apart}
    for node in draft.nodes:
        for _ in range(random.choice([1, 1, 2]) if random.random() < 0.9 else 0):
            theirs = {} if mine and random.random() < 0.7 else {"affinity": apart}
            draft.run(node, app="web", owner=random.choice(["Deployment", "StatefulSet", "Pod"]), **theirs)


def add_priorities(random: Random, draft: Draft) -> None:
    """Add nodes full of pods of several priorities, classes above and below them, and budgets."""
    draft.others += [
        build_priority_class("low", -10),
        build_priority_class("high", 1000),
        build_priority_class("higher", 2000),
    ]
    draft.others.append(build_priority_class("polite", 3000, preemptionPolicy="Never"))
    draft.asked |= random.choice([{}, {"priorityClassName": "low", "priority": -10}])
    if random.random() < 0.2:
        draft.asked |= {"priorityClassName": "polite", "priority": 3000, "preemptionPolicy": "Never"}
    for node in draft.nodes:
        for _ in range(2):
            cpu = random.choice(["3", "3800m"])
            owner = random.choice(["Deployment", "StatefulSet", "DaemonSet", "Pod"])
            part = build_container(random, "c", cpu=cpu)
            draft.run(node, owner=owner, containers=[part], priority=random.choice([0, 1000, 2000, 5000]))
    draft.asked["containers"] = [build_container(random, "c", cpu="4")]
    if random.random() < 0.5:
        draft.others.append(build_budget("api", random.choice([0, 1])))


def add_nominated_pods(random: Random, draft: Draft) -> None:
    """Add pods of higher priority that are nominated for the room."""
    draft.others += [build_priority_class("high", 1000), build_priority_class("higher", 5000)]
    for node in draft.nodes:
        metadata = {"name": f"promised-{node['metadata']['name']}", "namespace": "d", "labels": {"app": "api"}}
        spec = {"containers": [build_container(random, "c", cpu="6")], "priority": random.choice([1000, 2000])}
        status = {"nominatedNodeName": node["metadata"]["name"]}
        draft.pods.append({"kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
        if random.random() < 0.5:
            draft.run(node, containers=[build_container(random, "c", cpu="1")])
    draft.asked["containers"] = [build_container(random, "c", cpu="4")]


FAMILIES: dict[str, Maker] = {
    "taints": add_taints,
    "cordons": add_cordons,
    "selectors": add_selectors,
    "node affinity": add_node_affinity,
    "requests": add_requests,
    "room": add_crowded_nodes,
    "host ports": add_host_ports,
    "spread": add_spread_constraints,
    "affinity to pods": add_affinity_to_pods,
    "apart from pods": add_anti_affinity,
    "priorities": add_priorities,
    "nominated": add_nominated_pods,
}
