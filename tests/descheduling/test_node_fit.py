"""Check the descheduler's node fit against its own tables (v0.36), by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml
from descheduler_cases import GOLDEN, Case

from kschedctl.cluster import Cluster
from kschedctl.descheduling.node_fit import NodeFit
from kschedctl.descheduling.seen_pods import SeenPods
from kschedctl.snapshot.fork import Fork

ROWS: list[Case] = yaml.safe_load((GOLDEN / "node_fit.yaml").read_text())


def build_amounts(requests: list[int]) -> Case:
    return {"cpu": f"{requests[0]}m", "memory": str(requests[1])}


def build_pod(name: str, row: Case, on: str) -> Case:
    """Build a pod. With ``repels`` it has these labels and an anti-affinity to them."""
    made: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": build_amounts(row["requests"])}}]}
    labels = row.get("repels", {})
    if labels:
        term = {"topologyKey": "region", "labelSelector": {"matchLabels": labels}}
        made["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if "sidecar" in row:
        sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": build_amounts(row["sidecar"])}}
        made["initContainers"] = [sidecar]
    if "overhead" in row:
        made["overhead"] = build_amounts(row["overhead"])
    meta = {"name": name, "namespace": row.get("namespace", "default"), "labels": labels}
    return {"kind": "Pod", "metadata": meta, "spec": {**made, "nodeName": on}}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_node_fit(row: Case) -> None:
    offers = {"cpu": "64", "memory": str(128 * 10**9), "pods": "2"}
    labels = {} if row.get("bare") else {"region": "main-region"}
    node = {"kind": "Node", "metadata": {"name": "node", "labels": labels}, "status": {"allocatable": offers}}
    others = [build_pod(f"other-{number}", other, "node") for number, other in enumerate(row.get("others", ()))]
    view = Fork.from_cluster(Cluster.from_objects([node, *others, build_pod("p1", row, row.get("node", ""))]))
    position = np.array([view.pods.index["default/p1"]])
    fits = NodeFit(SeenPods(view, 0)).find_pods_fitting_anywhere(position, np.ones(1, np.bool_))
    assert bool(fits[0]) == row["fits"]


ANY_OTHER: list[Case] = yaml.safe_load((GOLDEN / "any_other_node.yaml").read_text())
LABEL = "kubernetes.io/desiredNode"
GB = 10**9


def build_resources(amounts: list[int]) -> Case:
    cpu, memory, *more = amounts
    named = zip(("ephemeral-storage", "example.com/custom-resource"), more, strict=False)
    scaled = {name: str(amount * GB if name == "ephemeral-storage" else amount) for name, amount in named}
    return {"cpu": f"{cpu}m", "memory": str(memory * GB), **scaled}


def build_row_node(name: str, row: Case) -> Case:
    cpu, memory, pods, *more = row["offers"]
    spec: Case = {"unschedulable": row.get("cordoned", False)}
    if row.get("tainted"):
        spec["taints"] = [{"key": "hardware", "value": "gpu", "effect": "NoSchedule"}]
    offers = {**build_resources([cpu, memory, *more]), "pods": str(pods)}
    labels = {LABEL: row["label"]} if "label" in row else {}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": offers},
    }


def build_row_pod(name: str, row: Case, **spec: Any) -> Case:
    if "overhead" in row:
        spec["overhead"] = build_resources(row["overhead"])
    containers = [{"name": "c", "resources": {"requests": build_resources(row["requests"])}}]
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "d"}, "spec": {"containers": containers, **spec}}


@pytest.mark.parametrize("row", ANY_OTHER, ids=lambda row: row["name"])
def test_any_other_node(row: Case) -> None:
    """The other pod, if any, is on node2."""
    objects = [build_row_node(name, offered) for name, offered in row["nodes"].items()]
    objects += [build_row_pod("other", row["other"], nodeName="node2")] if "other" in row else []
    objects.append(build_row_pod("p1", row["pod"], nodeName=row["pod"]["node"], nodeSelector={LABEL: "yes"}))
    view = Fork.from_cluster(Cluster.from_objects(objects))
    position = np.array([view.pods.index["d/p1"]])
    fits = NodeFit(SeenPods(view, 0)).find_pods_fitting_elsewhere(position, np.ones(len(view.nodes), np.bool_))
    assert bool(fits[0]) == row["fits"]


def test_number_of_compared_cases() -> None:
    assert (len(ROWS), len(ANY_OTHER)) == (12, 15)
