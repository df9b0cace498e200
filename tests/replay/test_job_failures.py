"""Check when evictions make a Job fail, in every command that evicts pods.

Upstream: exceedsBackoffLimit and matchPodFailurePolicy in pkg/controller/job (v1.36).
"""

from __future__ import annotations

from typing import Any

import pytest
from small import Json, node, pod

from kschedctl.cluster import Cluster
from kschedctl.commands.drain import drain_nodes
from kschedctl.commands.failures import simulate_failures
from kschedctl.commands.remedies import remedies
from kschedctl.commands.whatif import whatif
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.replay.scenarios import load_scenario

OWNER = {"kind": "Job", "name": "run", "controller": True}
IGNORE_EVICTIONS = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
FAIL_ON_EVICTION = {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}]}


def job(failed: int = 0, **spec: Any) -> Json:
    meta = {"name": "run", "namespace": "d"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec, "status": {"failed": failed}}


def run_cluster(job_object: Json) -> list[Json]:
    """Build three nodes, with two pods of a Job on n1 and one on n2."""
    pods = [pod(name, on, "1", OWNER) for name, on in (("a", "n1"), ("b", "n1"), ("c", "n2"))]
    return [*(node(name, cpu="8") for name in ("n1", "n2", "n3")), job_object, *pods]


@pytest.mark.parametrize(
    ("job_object", "lost"),
    [
        (job(backoffLimit=2), ()),
        (job(backoffLimit=1), ("d/a", "d/b", "d/c")),
        (job(failed=1, backoffLimit=2), ("d/a", "d/b", "d/c")),
        (job(failed=4), ()),
        (job(failed=5), ("d/a", "d/b", "d/c")),
        (job(backoffLimit=0, podFailurePolicy=IGNORE_EVICTIONS), ()),
        (job(backoffLimit=6, podFailurePolicy=FAIL_ON_EVICTION), ("d/a", "d/b", "d/c")),
        (job(backoffLimitPerIndex=1), ()),
        (job(backoffLimitPerIndex=0), ("d/a", "d/b")),
    ],
)
def test_a_drain_counts_its_evictions_against_the_limit(job_object: Json, lost: tuple[str, ...]) -> None:
    report = drain_nodes(Cluster.from_objects(run_cluster(job_object)), ["n1"])
    assert tuple(sorted(report.lost)) == lost
    assert len(report.moved) == (0 if lost else 2)
    assert report.safe is not bool(lost)
    # kubectl asks for --force only for pods without a controller
    assert "--force" not in RENDERERS["table"](report, Style())


def test_a_drain_names_the_job_that_fails() -> None:
    report = drain_nodes(Cluster.from_objects(run_cluster(job(backoffLimit=0))), ["n1"])
    assert [failed.job for failed in report.failed_jobs] == ["Job d/run"]
    assert "Job d/run fails" in RENDERERS["brief"](report, Style())


def test_a_lost_node_counts_as_the_eviction_of_its_pods() -> None:
    losses = simulate_failures(Cluster.from_objects(run_cluster(job(backoffLimit=1))), "node").failures
    assert {loss.name: loss.lost for loss in losses} == {"n1": 3, "n2": 0, "n3": 0}
    assert not any(loss.unplaced for loss in losses)


@pytest.mark.parametrize(
    "steps",
    [
        [{"drain": {"nodes": ["n1"]}}],
        [{"fail": {"nodes": ["n1"]}}],
        [{"taint": {"nodes": ["n1"], "add": [{"key": "k", "effect": "NoExecute"}]}}],
        [{"drain": {"nodes": ["n2"]}}, {"uncordon": {"nodes": ["n2"]}}, {"drain": {"nodes": ["n3"]}}],
    ],
)
def test_what_if_adds_up_the_evictions_of_all_steps(steps: list[Json]) -> None:
    """In the last scenario, n3 gets the pod from n2, and loses it again."""
    lost = {}
    for limit in (1, 2):
        cluster = Cluster.from_objects(run_cluster(job(backoffLimit=limit)))
        report = whatif(cluster, load_scenario({"steps": steps}))
        lost[limit] = sorted(change.pod for change in report.changes if change.lost)
    assert lost == {1: ["d/a", "d/b", "d/c"], 2: []}


def test_no_fix_moves_a_pod_whose_eviction_makes_its_job_fail() -> None:
    kinds = {}
    for limit in (0, 1):
        objects = [
            node("n1", cpu="4"),
            node("n2", cpu="2", unschedulable=False),
            job(backoffLimit=limit),
            pod("a", "n1", "2", OWNER),
            pod("big", cpu="3"),
        ]
        report = remedies(Cluster.from_objects(objects), "d/big")
        kinds[limit] = "MovePod" in {kind for remedy in report.remedies for kind in remedy.kinds}
    assert kinds == {0: False, 1: True}
