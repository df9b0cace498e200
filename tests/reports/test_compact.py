"""Check that the compact form of explanations holds everything, as `kschedctl help output` describes."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

import kschedctl
from kschedctl.commands.explain import one_pod as of_one_pod
from kschedctl.commands.explain.compact import to_compact_form
from kschedctl.commands.explain.one_pod import combine_explanations
from kschedctl.commands.schema import DOCUMENTS, build_schema
from kschedctl.render.data import to_json

Json = dict[str, Any]


def build_node(i: int) -> Json:
    """Build a node in one of three zones. A fifth of the nodes is tainted, a seventh cordoned."""
    labels = {"topology.kubernetes.io/zone": f"zone-{i % 3}", "kubernetes.io/hostname": f"node-{i}"}
    taints = [{"key": "own", "value": "a", "effect": "NoSchedule"}] if i % 5 == 0 else []
    room = {"cpu": str(1 + i % 4), "memory": "16Gi", "pods": "110"}
    spec = {"taints": taints, "unschedulable": i % 7 == 0}
    return {
        "kind": "Node",
        "metadata": {"name": f"node-{i:04}", "labels": labels},
        "spec": spec,
        "status": {"allocatable": room},
    }


def build_pod(cpu: str, **spec: Any) -> Json:
    containers = [{"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}}]
    return {"kind": "Pod", "metadata": {"name": "p", "namespace": "d"}, "spec": {"containers": containers, **spec}}


ELSEWHERE = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-0001"]}]}
            ]
        }
    }
}
PODS = {
    "fits on some": build_pod("3"),
    "fits nowhere": build_pod("64"),
    "gated": build_pod("1", schedulingGates=[{"name": "wait"}]),
    "on one node alone": build_pod("64", affinity=ELSEWHERE),
}


def build_cluster(nodes: int) -> kschedctl.Cluster:
    return kschedctl.Cluster.from_objects(list(map(build_node, range(nodes))))


def expand_groups(short: Json) -> Json:
    """Return each list of {"nodes", "answer"} as {name: answer}, with ``nodes`` one by one."""
    names = [*short["nodeOrder"], *short["otherNodes"]]

    def by_node(alike: list[Json]) -> Json:
        return {names[at]: group["answer"] for group in alike for at in group["nodes"]}

    full = {key: value for key, value in short.items() if key != "otherNodes"} | {"kind": "Explanation"}
    for key in ("filter", "firstFail", "total", "volumes", "allocations", "diagnosis"):
        full[key] = by_node(short[key])
    for key in ("score", "normalized", "weighted", "extenderRefusals", "extenderScores"):
        full[key] = {each: by_node(alike) for each, alike in short[key].items()}
    full["feasible"] = [names[at] for at in short["feasible"]]
    columns = {key: by_node(value) for key, value in short["nodes"].items() if key != "order"}
    order = [names[at] for at in short["nodes"]["order"]]
    full["nodes"] = [{"name": name} | {key: column[name] for key, column in columns.items()} for name in order]
    return full


@pytest.mark.parametrize("case", PODS)
def test_compact_form_expands_to_the_full_form(case: str) -> None:
    report = of_one_pod.explain(build_cluster(60), PODS[case])
    short = to_compact_form(report).to_dict()
    assert expand_groups(short) == report.to_dict()
    jsonschema.validate(short, build_schema(DOCUMENTS["compact-explanation"]))
    assert (short["apiVersion"], short["kind"]) == ("kschedctl.dev/v1", "CompactExplanation")


def test_compact_form_of_several_pods() -> None:
    report = combine_explanations([of_one_pod.explain(build_cluster(20), incoming) for incoming in PODS.values()])
    short = to_compact_form(report).to_dict()
    full = report.to_dict()
    assert [expand_groups(each) for each in short.pop("explanations")] == full.pop("explanations")
    assert short == full | {"kind": "CompactExplanations"}
    jsonschema.validate(to_compact_form(report).to_dict(), build_schema(DOCUMENTS["compact-explanations"]))


def test_compact_form_is_an_eighth_for_equal_nodes() -> None:
    report = of_one_pod.explain(build_cluster(3_000), PODS["fits nowhere"])
    short, full = (to_json(document.to_dict()) for document in (to_compact_form(report), report))
    assert len(short) * 8 < len(full)
    assert json.loads(short) == to_compact_form(report).to_dict()
    assert max(map(len, short.splitlines())) < 600  # positions fill lines; kube-scheduler's message is one
