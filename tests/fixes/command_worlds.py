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
    build_attachment,
    build_claim,
    build_claims,
    build_csi_node,
    build_csi_volume,
    build_device_slice,
    build_node,
    build_pod,
    build_pod_volumes,
    build_resource_claim,
    build_storage_class,
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


def iter_worlds() -> Iterator[tuple[str, World]]:
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


def build_tainted_node(name: str, zone: str = "a") -> Json:
    return {**build_node(name, zone), "spec": {"taints": [TEAM]}}


def build_full_node(name: str) -> Json:
    """Build a node with room for two pods."""
    found = build_node(name)
    found["status"]["allocatable"]["cpu"] = "2"
    return found


def build_node_for_one_pod(name: str) -> Json:
    """Build a node whose kubelet takes one pod."""
    found = build_node(name)
    found["status"]["allocatable"]["pods"] = "1"
    return found


def build_workload_pod(kind: str, name: str, on: str = "", hashed: str = "", **spec: Any) -> Json:
    """Build a pod of a workload called web. A Deployment's pod has the hash of its ReplicaSet."""
    owner = {"kind": kind, "name": "web"}
    if kind == "Deployment":
        owner = {"kind": "ReplicaSet", "name": f"web-{hashed or 'new'}"}
    found = build_pod(name, on, None if kind == "Pod" else owner, **spec)
    found["metadata"]["labels"] = {"app": "web"}
    if kind == "Deployment":
        found["metadata"]["labels"]["pod-template-hash"] = hashed or "new"
    return found


def build_pinning_affinity(node_name: str) -> Json:
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [field]}]}}}}


def build_world_without_room(kind: str) -> World:
    """Build a world in which two pods run on the only node that they tolerate, and a third waits."""
    names = ["web-0", "web-1", "web-2"]
    running = [build_workload_pod(kind, name, "n1") for name in names[:2]]
    return World(
        [
            build_full_node("n1"),
            build_tainted_node("n2"),
            build_tainted_node("n3", "b"),
            *running,
            build_workload_pod(kind, names[2]),
        ],
        "d/web-2",
    )


def resize_pod(running: Json, cpu: str) -> Json:
    """Return the running pod with a pending resize to ``cpu``, which its kubelet has deferred."""
    (container,) = running["spec"]["containers"]
    status = {"name": container["name"], "resources": deepcopy(container["resources"])}
    container["resources"]["requests"]["cpu"] = cpu
    pending = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
    return {**running, "status": {**running["status"], "containerStatuses": [status], "conditions": [pending]}}


def build_daemon_set_world() -> World:
    """Build a world in which one of two nodes has a taint that the DaemonSet no longer tolerates."""
    documents = [
        build_node("n1"),
        build_tainted_node("n2"),
        build_workload_pod("DaemonSet", "web-0", "n1", **build_pinning_affinity("n1")),
    ]
    return World([*documents, build_workload_pod("DaemonSet", "web-1", **build_pinning_affinity("n2"))], "d/web-1")


# -- claims that are made for pods -------------------------------------------------------------------------------------


def build_template(*requests: Json, name: str = "t") -> Json:
    spec = {"spec": build_resource_claim("", *requests)["spec"]}
    return {"kind": "ResourceClaimTemplate", "metadata": {"name": name, "namespace": "d"}, "spec": spec}


OF_TEMPLATE = {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}]}
DEPLOYED = build_workload_pod("Deployment", "web-0", **OF_TEMPLATE)


def build_claim_world(own: Json, *found: Json) -> World:
    """Build a world in which the pod knows its claim."""
    asked = deepcopy(own)
    asked["status"]["resourceClaimStatuses"] = [{"name": "g", "resourceClaimName": "web-0-g"}]
    return World([*found, asked], "d/web-0")


def build_generated_claim(*requests: Json) -> Json:
    return build_resource_claim("web-0-g", *requests, owner="web-0")


CSI = build_storage_class("csi", parameters={"tier": "gold"}, reclaimPolicy="Retain")
SCRATCH = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": build_claim(of="csi-")["spec"]}}}
OLD = [build_workload_pod("Deployment", f"web-{name}", name, "old") for name in ("n1", "n2")]
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


def build_affinity(**fields: Any) -> Json:
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": ZONE, **fields}
    return {"affinity": {"podAffinity": {REQUIRED: [term]}}}


def build_node_affinity(key: str, operator: str, *values: str) -> Json:
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


def build_runtime_class(name: str, sandbox: str = "") -> Json:
    """Build a RuntimeClass, maybe with a node selector."""
    found: Json = {"kind": "RuntimeClass", "metadata": {"name": name}, "handler": name}
    if sandbox:
        found["scheduling"] = {"nodeSelector": {"sandbox": sandbox}}
    return found


def build_sandboxed_pod(sandbox: str) -> Json:
    """Build a pod of a Deployment with the fields that admission adds for its RuntimeClass."""
    return build_workload_pod("Deployment", "web-0", runtimeClassName="gvisor", nodeSelector={"sandbox": sandbox})


MADE: dict[str, World] = {
    **{
        f"no room for a {kind}": build_world_without_room(kind)
        for kind in ("Deployment", "StatefulSet", "ReplicaSet", "Job", "Pod")
    },
    "no room for a DaemonSet": build_daemon_set_world(),
    "a deferred resize": World(
        [build_full_node("n1"), resize_pod(build_workload_pod("Deployment", "web-0", "n1"), "2"), build_pod("asked")],
        "d/asked",
    ),
    "a template asks for too much": build_claim_world(
        DEPLOYED,
        build_node("n1"),
        GPU,
        build_device_slice("n1", {}),
        build_template(request(count=2)),
        build_generated_claim(request(count=2)),
    ),
    "a template and a taint": build_claim_world(
        DEPLOYED,
        build_tainted_node("n1"),
        GPU,
        build_device_slice("n1", {}),
        build_template(request(count=2)),
        build_generated_claim(request(count=2)),
    )._replace(most=2),
    "a template of a bare pod": build_claim_world(
        build_pod("web-0", **OF_TEMPLATE),
        build_node("n1"),
        GPU,
        build_device_slice("n1", {}),
        build_template(request(count=2)),
        build_generated_claim(request(count=2)),
    ),
    "a template that is gone": build_claim_world(
        DEPLOYED, build_node("n1"), GPU, build_device_slice("n1", {}), build_generated_claim(request(count=2))
    ),
    "a generated claim that is gone": build_claim_world(
        DEPLOYED, build_node("n1"), GPU, build_device_slice("n1", {}), build_template(request())
    ),
    "a generated claim and its template that are gone": build_claim_world(
        DEPLOYED, build_node("n1"), GPU, build_device_slice("n1", {})
    ),
    "a template that is not there": World([build_node("n1"), GPU, build_device_slice("n1", {}), DEPLOYED], "d/web-0"),
    "a template that is misspelled": World(
        [build_node("n1"), GPU, build_device_slice("n1", {}), build_template(request(), name="tt"), DEPLOYED], "d/web-0"
    ),
    "the claim is another's": build_claim_world(
        DEPLOYED,
        build_node("n1"),
        GPU,
        build_device_slice("n1", {}),
        build_template(request()),
        build_resource_claim("web-0-g", request(), owner="before"),
    ),
    "a pod preempts less than its class now does": World(
        [
            build_full_node("n1"),
            build_workload_pod("Deployment", "web-0", "n1"),
            build_workload_pod("Deployment", "web-1", "n1"),
            {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000},
            build_workload_pod("Pod", "asked", priorityClassName="high", priority=1000, preemptionPolicy="Never"),
        ]
    ),
    "a kubelet takes no more pods": World(
        [
            build_node_for_one_pod("n1"),
            build_workload_pod("Deployment", "web-0", "n1"),
            build_workload_pod("Pod", "asked"),
        ]
    ),
    "no controller makes the claim": World(
        [build_node("n1"), GPU, build_device_slice("n1", {}), build_template(request()), DEPLOYED], "d/web-0"
    ),
    "an ephemeral volume of a misspelled class": World(
        [build_node("n1"), CSI, build_workload_pod("Deployment", "web-0", volumes=[SCRATCH])], "d/web-0"
    ),
    "a device has too little": World(
        [
            build_node("n1"),
            GPU,
            build_device_slice("n1", ONE_GIGABYTE),
            build_resource_claim("want", MANY_BYTES),
            build_pod(**build_claims(g="want")),
        ]
    ),
    "a resource that devices could stand for": World([build_node("n1"), GPU, build_device_slice("n1", {}), BACKED]),
    "a rule taints devices": World(
        [
            build_node("n1"),
            GPU,
            build_device_slice("n1", {}),
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
            build_csi_volume("w", "theirs"),
            build_claim("theirs", of="csi", volume="w"),
            build_attachment("w", "n1"),
            build_csi_volume("v", "data"),
            build_claim(of="csi", volume="v"),
            build_pod(**build_pod_volumes("data")),
        ]
    ),
    "a rollout that spreads over zones": World(
        [
            build_node("n1"),
            build_node("n2"),
            {**build_tainted_node("n3", "b")},
            *OLD,
            build_workload_pod("Deployment", "web-2", topologySpreadConstraints=[SPREAD]),
        ],
        "d/web-2",
    ),
    "a rollout whose pods keep apart": World(
        [build_node("n1"), OLD[0], build_workload_pod("Deployment", "web-2", **APART)],
        "d/web-2",
    ),
    "a misspelled topology": World(
        [
            build_node("n1"),
            DATABASE,
            SHOP,
            build_pod(**build_affinity(namespaces=["shop"], topologyKey="topology.kubernetes.io/zones")),
        ]
    ),
    "a misspelled selector of namespaces": World(
        [
            build_node("n1"),
            DATABASE,
            SHOP,
            build_pod(**build_affinity(namespaceSelector={"matchLabels": {"team": "shpo"}})),
        ]
    ),
    "a misspelled label of nodes": World(
        [build_node("n1", disktype="ssd"), build_pod(**build_node_affinity("disktyp", "In", "ssd"))]
    ),
    "a RuntimeClass for nodes that are not there": World(
        [
            build_node("n1"),
            build_runtime_class("gvisor", "gvisor"),
            build_runtime_class("kata"),
            build_sandboxed_pod("gvisor"),
        ],
        "d/web-0",
    ),
    "a RuntimeClass with a misspelled label": World(
        [build_node("n1", sandbox="gvisor"), build_runtime_class("gvisor", "gvsior"), build_sandboxed_pod("gvsior")],
        "d/web-0",
    ),
    "the volume on a tainted node is too small": World(
        [
            build_tainted_node("n1"),
            test_volumes.LOCAL,
            build_claim(size="500Gi"),
            test_volumes.build_volume("v", on=test_volumes.ON_N1),
            test_volumes.ASKED,
        ],
        most=2,
    ),
    "a node that is not ready": World([{**build_node("n1"), "spec": {"taints": [NOT_READY]}}, build_pod()]),
    "nodes without a label": World(
        [build_node("n1", spot="true"), build_pod(**build_node_affinity("spot", "DoesNotExist"))]
    ),
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
