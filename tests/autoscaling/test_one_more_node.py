"""Check that a pod whose node group would grow is scheduled to a node like the group's template."""

from __future__ import annotations

import json

from golden_cases import Json, iter_family_lines
from msgspec import to_builtins

import kschedctl
from kschedctl.autoscaling.cluster_autoscaler.loop import AutoscalerLoop
from kschedctl.autoscaling.cluster_autoscaler.options import read_autoscaled_groups, read_autoscaler_options


def build_loop(case: Json) -> AutoscalerLoop:
    given = case["input"]
    cluster = kschedctl.Cluster.from_objects(given["objects"])
    options, _ = read_autoscaler_options(given.get("options") or {})
    return AutoscalerLoop.from_cluster(cluster, read_autoscaled_groups(given["nodeGroups"]), options, given["now"], {})


def is_pod_placed_on_new_node(case: Json, loop: AutoscalerLoop, group: str, pod: str) -> bool:
    """Return whether the scheduler would place the pod on one more node of the group."""
    template = loop.templates[group]
    node = {"apiVersion": "v1", "kind": "Node", **to_builtins(template.node)}
    pods = [{"apiVersion": "v1", "kind": "Pod", **to_builtins(each)} for each in template.pods]
    grown = kschedctl.Cluster.from_objects([*case["input"]["objects"], node, *pods])
    return template.node.metadata.name in kschedctl.explain(grown, pod).feasible


def test_one_more_node_takes_only_pods_that_trigger_growth() -> None:
    """The expected answers are those of the real autoscaler, for cases without pods that are placed before."""
    asked = {True: 0, False: 0}
    for line in iter_family_lines("autoscaling/scaleup"):
        case = json.loads(line)
        answer = case["answer"]
        if answer.get("filteredOut") or answer.get("upcoming"):
            continue
        loop = build_loop(case)
        questions = [(answer["best"], pod, True) for pod in answer.get("triggered", ())[:1]]
        for pod, told in list(answer.get("remaining", {}).items())[:1]:
            rejected = told.get("rejected") or {}
            questions += [(group, pod, False) for group, refusal in rejected.items() if refusal.get("plugin")]
        for group, pod, wanted in questions:
            assert is_pod_placed_on_new_node(case, loop, group, pod) == wanted, (case["id"], pod, group)
            asked[wanted] += 1
    assert min(asked.values()) > 20
