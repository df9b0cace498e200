"""Whether pods fit on a node as far as the descheduler looks, against its own table (v0.36), by name."""

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


def amounts(requests: list[int]) -> Case:
    return {"cpu": f"{requests[0]}m", "memory": str(requests[1])}


def pod(name: str, row: Case, on: str) -> Case:
    """``repels``: it has these labels, and is against others that do."""
    made: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": amounts(row["requests"])}}]}
    labels = row.get("repels", {})
    if labels:
        term = {"topologyKey": "region", "labelSelector": {"matchLabels": labels}}
        made["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if "sidecar" in row:
        sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": amounts(row["sidecar"])}}
        made["initContainers"] = [sidecar]
    if "overhead" in row:
        made["overhead"] = amounts(row["overhead"])
    meta = {"name": name, "namespace": row.get("namespace", "default"), "labels": labels}
    return {"kind": "Pod", "metadata": meta, "spec": {**made, "nodeName": on}}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_node_fit(row: Case) -> None:
    offers = {"cpu": "64", "memory": str(128 * 10**9), "pods": "2"}
    labels = {} if row.get("bare") else {"region": "main-region"}
    node = {"kind": "Node", "metadata": {"name": "node", "labels": labels}, "status": {"allocatable": offers}}
    others = [pod(f"other-{number}", other, "node") for number, other in enumerate(row.get("others", ()))]
    view = Fork.of(Cluster.from_objects([node, *others, pod("p1", row, row.get("on", ""))]))
    position = np.array([view.pods.index["default/p1"]])
    fits = NodeFit(SeenPods(view, 0)).anywhere(position, np.ones(1, np.bool_))
    assert bool(fits[0]) == row["fits"]
