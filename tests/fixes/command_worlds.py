"""Clusters for which fixes of every kind are made: recorded, documented, and with workloads of all kinds."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import test_devices
import test_raised_quotas
import test_single_remedies
import test_volumes
import yaml
from claim_documents import (
    GPU,
    HOSTNAME,
    ZONE,
    attachment,
    build_claim,
    build_claims,
    build_csi_node,
    build_node,
    build_pod,
    build_resource_claim,
    build_storage_class,
    csi_volume,
    devices,
    mounts,
    request,
)

from kschedctl import demo

Json = dict[str, Any]
RECORDING = Path(__file__).parents[1] / "recordings" / "pending.json.xz"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class World(NamedTuple):
    """The pod ``asked`` about, and remedies of up to ``most`` changes."""

    documents: list[Json]
    asked: str = "d/asked"
    most: int = 1
    gates: Mapping[str, bool] | None = None
    config: Json | None = None


def worlds() -> Iterator[tuple[str, World]]:
    """Yield the worlds of the demo, the recording and the cases, by name."""
    with lzma.open(RECORDING, "rt", encoding="utf-8") as file:
        recorded = json.load(file)["objects"]
    for documents in (yaml.load(demo.list_files()[0].read_text(), yaml.CSafeLoader)["items"], recorded):
        for each in documents:
            if each["kind"] == "Pod" and not each["spec"].get("nodeName"):
                name = f"{each['metadata']['namespace']}/{each['metadata']['name']}"
                yield name, World(documents, name)
    for cases, asked in ((test_volumes.CASES, test_volumes.ASKED), (test_devices.CASES, test_devices.ASKED)):
        yield from ((name, World([*documents, asked])) for name, (documents, _) in cases.items())
    for name, (_, asked, others) in test_single_remedies.CASES.items():
        yield name, World([*others, asked])
    yield from MADE.items()


# -- workloads of each kind --------------------------------------------------------------------------------------------

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
TEAM = {"key": "team", "value": "data", "effect": "NoSchedule"}


def tainted(name: str, zone: str = "a") -> Json:
    return {**build_node(name, zone), "spec": {"taints": [TEAM]}}


def full(name: str) -> Json:
    """Build a node with room for two pods."""
    found = build_node(name)
    found["status"]["allocatable"]["cpu"] = "2"
    return found


def without_room_for_pods(name: str) -> Json:
    """Build a node whose kubelet takes one pod."""
    found = build_node(name)
    found["status"]["allocatable"]["pods"] = "1"
    return found


def of(kind: str, name: str, on: str = "", hashed: str = "", **spec: Any) -> Json:
    """Build a pod of a workload called web. A Deployment's pod has the hash of its ReplicaSet."""
    owner = {"kind": kind, "name": "web"}
    if kind == "Deployment":
        owner = {"kind": "ReplicaSet", "name": f"web-{hashed or 'new'}"}
    found = build_pod(name, on, None if kind == "Pod" else owner, **spec)
    found["metadata"]["labels"] = {"app": "web"}
    if kind == "Deployment":
        found["metadata"]["labels"]["pod-template-hash"] = hashed or "new"
    return found


def pinned(node_name: str) -> Json:
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [field]}]}}}}


def no_room(kind: str) -> World:
    """Build a world in which two pods run on the only node that they tolerate, and a third waits."""
    names = ["web-0", "web-1", "web-2"]
    running = [of(kind, name, "n1") for name in names[:2]]
    return World([full("n1"), tainted("n2"), tainted("n3", "b"), *running, of(kind, names[2])], "d/web-2")


def resized(running: Json, cpu: str) -> Json:
    """Return the running pod with a pending resize to ``cpu``, which its kubelet has deferred."""
    (container,) = running["spec"]["containers"]
    status = {"name": container["name"], "resources": deepcopy(container["resources"])}
    container["resources"]["requests"]["cpu"] = cpu
    pending = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
    return {**running, "status": {**running["status"], "containerStatuses": [status], "conditions": [pending]}}


def daemons() -> World:
    """Build a world in which one of two nodes has a taint that the DaemonSet no longer tolerates."""
    documents = [build_node("n1"), tainted("n2"), of("DaemonSet", "web-0", "n1", **pinned("n1"))]
    return World([*documents, of("DaemonSet", "web-1", **pinned("n2"))], "d/web-1")


# -- claims that are made for pods -------------------------------------------------------------------------------------


def build_template(*requests: Json, name: str = "t") -> Json:
    spec = {"spec": build_resource_claim("", *requests)["spec"]}
    return {"kind": "ResourceClaimTemplate", "metadata": {"name": name, "namespace": "d"}, "spec": spec}


OF_TEMPLATE = {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}]}
DEPLOYED = of("Deployment", "web-0", **OF_TEMPLATE)


def with_claim(own: Json, *found: Json) -> World:
    """Build a world in which the pod knows its claim."""
    asked = deepcopy(own)
    asked["status"]["resourceClaimStatuses"] = [{"name": "g", "resourceClaimName": "web-0-g"}]
    return World([*found, asked], "d/web-0")


def generated(*requests: Json) -> Json:
    return build_resource_claim("web-0-g", *requests, owner="web-0")


CSI = build_storage_class("csi", parameters={"tier": "gold"}, reclaimPolicy="Retain")
SCRATCH = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": build_claim(of="csi-")["spec"]}}}
OLD = [of("Deployment", f"web-{name}", name, "old") for name in ("n1", "n2")]
SPREAD = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}

APART = {
    "affinity": {
        "podAntiAffinity": {
            REQUIRED: [{"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOSTNAME}],
        }
    }
}


def near(**fields: Any) -> Json:
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": ZONE, **fields}
    return {"affinity": {"podAffinity": {REQUIRED: [term]}}}


def selecting(key: str, operator: str, *values: str) -> Json:
    expression = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}}


MANY_BYTES = request(capacity={"requests": {"memory": "80Gi"}})
ONE_GIGABYTE = {"capacity": {"memory": {"value": "40Gi"}}}
RESOURCE = {"requests": {"a.b/gpu": "1"}, "limits": {"a.b/gpu": "1"}}
BACKED: Json = build_pod()
BACKED["spec"]["containers"][0]["resources"] = RESOURCE
SHOP = {"kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "shop"}}}
DATABASE = build_pod("db-1", "n1")
DATABASE["metadata"]["namespace"] = "shop"
QUOTAS = [
    test_raised_quotas.NODE,
    test_raised_quotas.build_quota("a", {"cpu": "3"}, {"cpu": "4"}),
    test_raised_quotas.build_quota("b", {"cpu": "4"}),
]


def runtime_class(name: str, sandbox: str = "") -> Json:
    """Build a RuntimeClass, maybe with a node selector."""
    found: Json = {"kind": "RuntimeClass", "metadata": {"name": name}, "handler": name}
    if sandbox:
        found["scheduling"] = {"nodeSelector": {"sandbox": sandbox}}
    return found


def sandboxed(sandbox: str) -> Json:
    """Build a pod of a Deployment with the fields that admission adds for its RuntimeClass."""
    return of("Deployment", "web-0", runtimeClassName="gvisor", nodeSelector={"sandbox": sandbox})


MADE: dict[str, World] = {
    **{f"no room for a {kind}": no_room(kind) for kind in ("Deployment", "StatefulSet", "ReplicaSet", "Job", "Pod")},
    "no room for a DaemonSet": daemons(),
    "a deferred resize": World(
        [full("n1"), resized(of("Deployment", "web-0", "n1"), "2"), build_pod("asked")], "d/asked"
    ),
    "a template asks for too much": with_claim(
        DEPLOYED,
        build_node("n1"),
        GPU,
        devices("n1", {}),
        build_template(request(count=2)),
        generated(request(count=2)),
    ),
    "a template and a taint": with_claim(
        DEPLOYED, tainted("n1"), GPU, devices("n1", {}), build_template(request(count=2)), generated(request(count=2))
    )._replace(most=2),
    "a template of a bare pod": with_claim(
        build_pod("web-0", **OF_TEMPLATE),
        build_node("n1"),
        GPU,
        devices("n1", {}),
        build_template(request(count=2)),
        generated(request(count=2)),
    ),
    "a template that is gone": with_claim(
        DEPLOYED, build_node("n1"), GPU, devices("n1", {}), generated(request(count=2))
    ),
    "a generated claim that is gone": with_claim(
        DEPLOYED, build_node("n1"), GPU, devices("n1", {}), build_template(request())
    ),
    "a generated claim and its template that are gone": with_claim(DEPLOYED, build_node("n1"), GPU, devices("n1", {})),
    "a template that is not there": World([build_node("n1"), GPU, devices("n1", {}), DEPLOYED], "d/web-0"),
    "a template that is misspelled": World(
        [build_node("n1"), GPU, devices("n1", {}), build_template(request(), name="tt"), DEPLOYED], "d/web-0"
    ),
    "the claim is another's": with_claim(
        DEPLOYED,
        build_node("n1"),
        GPU,
        devices("n1", {}),
        build_template(request()),
        build_resource_claim("web-0-g", request(), owner="before"),
    ),
    "a pod preempts less than its class now does": World(
        [
            full("n1"),
            of("Deployment", "web-0", "n1"),
            of("Deployment", "web-1", "n1"),
            {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000},
            of("Pod", "asked", priorityClassName="high", priority=1000, preemptionPolicy="Never"),
        ]
    ),
    "a kubelet takes no more pods": World(
        [without_room_for_pods("n1"), of("Deployment", "web-0", "n1"), of("Pod", "asked")]
    ),
    "no controller makes the claim": World(
        [build_node("n1"), GPU, devices("n1", {}), build_template(request()), DEPLOYED], "d/web-0"
    ),
    "an ephemeral volume of a misspelled class": World(
        [build_node("n1"), CSI, of("Deployment", "web-0", volumes=[SCRATCH])], "d/web-0"
    ),
    "a device has too little": World(
        [
            build_node("n1"),
            GPU,
            devices("n1", ONE_GIGABYTE),
            build_resource_claim("want", MANY_BYTES),
            build_pod(**build_claims(g="want")),
        ]
    ),
    "a resource that devices could stand for": World([build_node("n1"), GPU, devices("n1", {}), BACKED]),
    "a rule taints devices": World(
        [
            build_node("n1"),
            GPU,
            devices("n1", {}),
            build_resource_claim("want", request()),
            test_devices.RULE,
            build_pod(**build_claims(g="want")),
        ],
        gates={"DRADeviceTaintRules": True},
    ),
    "a volume that nobody uses is attached": World(
        [
            build_node("n1"),
            build_csi_node("n1", 1),
            CSI,
            csi_volume("w", "theirs"),
            build_claim("theirs", of="csi", volume="w"),
            attachment("w", "n1"),
            csi_volume("v", "data"),
            build_claim(of="csi", volume="v"),
            build_pod(**mounts("data")),
        ]
    ),
    "a rollout that spreads over zones": World(
        [
            build_node("n1"),
            build_node("n2"),
            {**tainted("n3", "b")},
            *OLD,
            of("Deployment", "web-2", topologySpreadConstraints=[SPREAD]),
        ],
        "d/web-2",
    ),
    "a rollout whose pods keep apart": World(
        [build_node("n1"), OLD[0], of("Deployment", "web-2", **APART)],
        "d/web-2",
    ),
    "a misspelled topology": World(
        [
            build_node("n1"),
            DATABASE,
            SHOP,
            build_pod(**near(namespaces=["shop"], topologyKey="topology.kubernetes.io/zones")),
        ]
    ),
    "a misspelled selector of namespaces": World(
        [build_node("n1"), DATABASE, SHOP, build_pod(**near(namespaceSelector={"matchLabels": {"team": "shpo"}}))]
    ),
    "a misspelled label of nodes": World(
        [build_node("n1", disktype="ssd"), build_pod(**selecting("disktyp", "In", "ssd"))]
    ),
    "a RuntimeClass for nodes that are not there": World(
        [build_node("n1"), runtime_class("gvisor", "gvisor"), runtime_class("kata"), sandboxed("gvisor")], "d/web-0"
    ),
    "a RuntimeClass with a misspelled label": World(
        [build_node("n1", sandbox="gvisor"), runtime_class("gvisor", "gvsior"), sandboxed("gvsior")], "d/web-0"
    ),
    "the volume on a tainted node is too small": World(
        [
            tainted("n1"),
            test_volumes.LOCAL,
            build_claim(size="500Gi"),
            test_volumes.build_volume("v", on=test_volumes.ON_N1),
            test_volumes.ASKED,
        ],
        most=2,
    ),
    "a node that is not ready": World([{**build_node("n1"), "spec": {"taints": [NOT_READY]}}, build_pod()]),
    "nodes without a label": World([build_node("n1", spot="true"), build_pod(**selecting("spot", "DoesNotExist"))]),
    "a quota's max": World(
        [
            *QUOTAS,
            test_raised_quotas.build_pod("a/old", {"cpu": "3"}, "n1"),
            test_raised_quotas.build_pod("a/web", {"cpu": "2"}),
        ],
        "a/web",
        config=test_raised_quotas.CONFIG,
    ),
    "a quota's min": World(
        [
            *QUOTAS,
            test_raised_quotas.build_pod("b/old", {"cpu": "6"}, "n1"),
            test_raised_quotas.build_pod("a/web", {"cpu": "2"}),
        ],
        "a/web",
        config=test_raised_quotas.CONFIG,
    ),
}
