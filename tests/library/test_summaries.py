"""Check `report.summary()`: the decisive parts of an answer, without loading a renderer."""

from __future__ import annotations

import json
import subprocess
import sys
from inspect import isfunction
from typing import Any, get_type_hints

import jsonschema
import pytest

import kschedctl
from kschedctl.commands.schema import build_schema
from kschedctl.reports.report import PlainReport
from kschedctl.reports.summary import MOST_BYTES, ShortFix, Summary

MANY = 5_000
EVENT = {
    "action": "Add",
    "new": {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "9"}}},
}


def build_node(i: int) -> dict[str, Any]:
    """Build a node with one of 13 amounts of CPU. A fifth of the nodes is tainted."""
    labels = {"topology.kubernetes.io/zone": f"zone-{i % 3}", "kubernetes.io/hostname": f"node-{i}"}
    taints = [{"key": "own", "value": "a", "effect": "NoSchedule"}] if i % 5 == 0 else []
    room = {"cpu": f"{1000 + i % 1000 * 12}m", "memory": "16Gi", "pods": "110"}
    metadata = {"name": f"node-{i:05}.eu-west-1.compute.internal", "labels": labels}
    return {"kind": "Node", "metadata": metadata, "spec": {"taints": taints}, "status": {"allocatable": room}}


def build_pod(name: str, cpu: str) -> dict[str, Any]:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "shop"}, "spec": {"containers": containers}}


def build_small_cluster() -> kschedctl.Cluster:
    return kschedctl.Cluster.from_objects(
        [*map(build_node, range(3)), build_pod("large", "64"), build_pod("fits", "1015m")]
    )


def test_summary_of_thousands_of_nodes_fits_in_12_kilobytes() -> None:
    cluster = kschedctl.Cluster.from_objects([*map(build_node, range(MANY)), build_pod("large", "64")])
    summary = kschedctl.explain(cluster, "shop/large").summary()
    assert len(json.dumps(summary.to_dict()).encode()) <= MOST_BYTES
    jsonschema.validate(summary.to_dict(), build_schema(Summary))
    assert (summary.subject, summary.verdict) == ("shop/large", "Unschedulable")
    (cause,) = summary.causes
    assert (cause.reason, cause.nodes, cause.of_nodes) == ("Insufficient cpu", MANY * 4 // 5, MANY * 4 // 5)
    # 1000m + 999 * 12m is about 13 CPUs
    assert cause.fact.startswith("the pod needs 64 CPUs, but the node has only ")
    assert summary.figures == {"feasibleNodes": 0, "nodes": MANY}


def test_commands_are_kept_if_one_entry_of_each_list_fits() -> None:
    fix = ShortFix("a", "app", commands=("x" * (MOST_BYTES * 2 // 3),))
    shortened = Summary("Explanation", "shop/large", "Unschedulable", "", fixes=(fix, fix)).shorten()
    assert (shortened.fixes, shortened.left_out) == ((fix,), {"fixes": 1})


def test_summary_of_a_schedulable_pod_names_the_best_node() -> None:
    summary = kschedctl.explain(build_small_cluster(), "shop/fits").summary()
    assert summary.verdict == "Schedulable"
    assert list(summary.best) == ["node-00002.eu-west-1.compute.internal"]  # of three one is tainted, one too small
    assert summary.headline.startswith("shop/fits Schedulable: ")


@pytest.mark.parametrize(
    ("ask", "kind", "words"),
    [
        (lambda c: kschedctl.remedies(c, "shop/large"), "Remedies", "shop/large Unschedulable: "),
        (kschedctl.run_queue, "QueueRun", "1 pod bound in 2 cycles, 1 pod left in the queue"),
        (lambda c: kschedctl.wakes(c, "shop/large", EVENT), "Wakes", "shop/large "),
        (lambda c: kschedctl.sampling(c, ["shop/fits"]), "Sampling", "1 pod tried on 3 nodes"),
        (lambda c: kschedctl.follow(c, ["shop/fits"]), "Following", "1 of 1 pod placed"),
    ],
    ids=["remedies", "run_queue", "wakes", "sampling", "follow"],
)
def test_every_report_has_a_summary(ask: Any, kind: str, words: str) -> None:
    summary = ask(build_small_cluster()).summary()
    assert summary.summarizes == kind
    assert summary.headline.startswith(words)
    assert summary.headline
    jsonschema.validate(summary.to_dict(), build_schema(Summary))


def test_summary_loads_no_renderer() -> None:
    code = (
        "import sys, kschedctl; c = kschedctl.Cluster.from_objects([]);"
        "p = {'kind': 'Pod', 'metadata': {'name': 'a'}, 'spec': {'containers': [{'name': 'c', 'image': 'i'}]}};"
        "kschedctl.explain(c, p).summary(); sys.exit(any(m.startswith('kschedctl.render') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_result_of_a_library_function_has_a_summary() -> None:
    functions = [thing for name in kschedctl.__all__ if isfunction(thing := getattr(kschedctl, name))]
    returned = {function.__name__: get_type_hints(function)["return"] for function in functions}
    assert {"explain", "admit", "scale_up"} <= returned.keys()
    assert [name for name, kind in returned.items() if not issubclass(kind, PlainReport)] == []


FIELDS = (
    "summarizes subject verdict headline message undecided causes closest best nominated victims pods fixes advice "
    "figures doubts next leftOut apiVersion kind"
)


def test_fields_of_the_summary_are_never_removed() -> None:
    definition = build_schema(Summary)["$defs"]["Summary"]
    assert set(FIELDS.split()) <= definition["properties"].keys()
    assert set(definition["required"]) <= {"summarizes", "subject", "verdict", "headline"}
