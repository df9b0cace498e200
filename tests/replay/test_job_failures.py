"""Check when evictions make a Job fail, in every command that evicts pods.

Upstream: exceedsBackoffLimit and matchPodFailurePolicy in pkg/controller/job (v1.36).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from small import Json, build_budget, build_node, build_pod

from kschedctl.api.ownership import find_owner
from kschedctl.cluster import Cluster
from kschedctl.commands.drain import drain_nodes
from kschedctl.commands.explain.one_pod import explain
from kschedctl.commands.failures import simulate_failures
from kschedctl.commands.remedies import pending_remedies, remedies
from kschedctl.commands.simulate import simulate
from kschedctl.commands.whatif import whatif
from kschedctl.fixes.document import _build_eviction_cost
from kschedctl.fixes.rollout_results import RolloutResult
from kschedctl.fixes.trial.trials import RemedyTrial
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.replay.controllers.job_failures import JobFailures
from kschedctl.replay.scenarios import load_scenario
from kschedctl.reports.placements import EvictionChain, FailedJob, JobFailureReason
from kschedctl.scheduler.scheduler import Scheduler

OWNER = {"kind": "Job", "name": "run", "controller": True}
IGNORE_EVICTIONS = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
FAIL_ON_EVICTION = {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}]}


def build_job(failed: int = 0, **spec: Any) -> Json:
    meta = {"name": "run", "namespace": "d"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec, "status": {"failed": failed}}


def run_cluster(job_object: Json) -> list[Json]:
    """Build three nodes, with two pods of a Job on n1 and one on n2."""
    pods = [build_pod(name, on, "1", OWNER) for name, on in (("a", "n1"), ("b", "n1"), ("c", "n2"))]
    return [*(build_node(name, cpu="8") for name in ("n1", "n2", "n3")), job_object, *pods]


@pytest.mark.parametrize(
    ("job_object", "lost"),
    [
        (build_job(backoffLimit=2), ()),
        (build_job(backoffLimit=1), ("d/a", "d/b", "d/c")),
        (build_job(failed=1, backoffLimit=2), ("d/a", "d/b", "d/c")),
        (build_job(failed=4), ()),
        (build_job(failed=5), ("d/a", "d/b", "d/c")),
        (build_job(backoffLimit=0, podFailurePolicy=IGNORE_EVICTIONS), ()),
        (build_job(backoffLimit=6, podFailurePolicy=FAIL_ON_EVICTION), ("d/a", "d/b", "d/c")),
        (build_job(backoffLimitPerIndex=1), ()),
        (build_job(backoffLimitPerIndex=0), ("d/a", "d/b")),
    ],
)
def test_drain_counts_its_evictions_against_the_limit(job_object: Json, lost: tuple[str, ...]) -> None:
    report = drain_nodes(Cluster.from_objects(run_cluster(job_object)), ["n1"])
    assert tuple(sorted(report.lost)) == lost
    assert len(report.moved) == (0 if lost else 2)
    assert report.safe is not bool(lost)
    # kubectl asks for --force only for pods without a controller
    assert "--force" not in RENDERERS["table"](report, Style())


def test_drain_names_the_job_that_fails() -> None:
    report = drain_nodes(Cluster.from_objects(run_cluster(build_job(backoffLimit=0))), ["n1"])
    assert [failed.job for failed in report.failed_jobs] == ["Job d/run"]
    assert "Job d/run fails" in RENDERERS["brief"](report, Style())


def test_lost_node_counts_as_the_eviction_of_its_pods() -> None:
    losses = simulate_failures(Cluster.from_objects(run_cluster(build_job(backoffLimit=1))), "node").failures
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
        cluster = Cluster.from_objects(run_cluster(build_job(backoffLimit=limit)))
        report = whatif(cluster, load_scenario({"steps": steps}))
        lost[limit] = sorted(change.pod for change in report.changes if change.lost)
    assert lost == {1: ["d/a", "d/b", "d/c"], 2: []}


def test_no_fix_moves_a_pod_whose_eviction_fails_its_job() -> None:
    kinds = {}
    for limit in (0, 1):
        objects = [
            build_node("n1", cpu="4"),
            build_node("n2", cpu="2", unschedulable=False),
            build_job(backoffLimit=limit),
            build_pod("a", "n1", "2", OWNER),
            build_pod("big", cpu="3"),
        ]
        report = remedies(Cluster.from_objects(objects), "d/big")
        kinds[limit] = "MovePod" in {kind for remedy in report.remedies for kind in remedy.kinds}
    assert kinds == {0: False, 1: True}


FAIL_INDEX_ON_EVICTION = {"rules": [{"action": "FailIndex", "onPodConditions": [{"type": "DisruptionTarget"}]}]}


@pytest.mark.parametrize(
    ("job_object", "reason"),
    [
        (build_job(backoffLimit=0), JobFailureReason.BACKOFF_LIMIT_EXCEEDED),
        (build_job(backoffLimit=9, podFailurePolicy=FAIL_ON_EVICTION), JobFailureReason.POD_FAILURE_POLICY),
        (
            build_job(
                backoffLimitPerIndex=3, maxFailedIndexes=0, completions=9, podFailurePolicy=FAIL_INDEX_ON_EVICTION
            ),
            JobFailureReason.MAX_FAILED_INDEXES_EXCEEDED,
        ),
        (build_job(backoffLimitPerIndex=0, maxFailedIndexes=3, completions=2), JobFailureReason.FAILED_INDEXES),
        # An explicit limit of the Job is checked before its indexes
        (
            build_job(backoffLimit=1, backoffLimitPerIndex=0, maxFailedIndexes=0),
            JobFailureReason.MAX_FAILED_INDEXES_EXCEEDED,
        ),
        (
            build_job(backoffLimit=0, backoffLimitPerIndex=0, maxFailedIndexes=0),
            JobFailureReason.BACKOFF_LIMIT_EXCEEDED,
        ),
    ],
)
def test_failed_job_has_the_reason_of_its_controller(job_object: Json, reason: JobFailureReason) -> None:
    cluster = Cluster.from_objects(run_cluster(job_object))
    job_failures = JobFailures.of_cluster(cluster)
    for name in ("a", "b"):
        pod_object = cluster.pod("d", name)
        assert pod_object is not None
        job_failures.record_eviction(pod_object)
    (changed_job,) = job_failures.list_changed_jobs()
    assert [(condition.type, condition.reason) for condition in changed_job.status.conditions] == [("Failed", reason)]
    report = drain_nodes(cluster, ["n1"])
    assert [failed.reason for failed in report.failed_jobs] == [reason]


def test_indexes_that_failed_before_count() -> None:
    """Five indexes failed already. With the two of the evictions, there are seven."""
    job_object = build_job(backoffLimitPerIndex=0, maxFailedIndexes=6, completions=20)
    job_object["status"]["failedIndexes"] = "1,3-5,7"
    lost = sorted(drain_nodes(Cluster.from_objects(run_cluster(job_object)), ["n1"]).lost)
    assert lost == ["d/a", "d/b", "d/c"]
    job_object["spec"]["maxFailedIndexes"] = 7
    assert sorted(drain_nodes(Cluster.from_objects(run_cluster(job_object)), ["n1"]).lost) == ["d/a", "d/b"]


def test_failures_of_an_index_before_the_eviction_count() -> None:
    objects = run_cluster(build_job(backoffLimitPerIndex=2, completions=20))
    failures = {"a": "2", "b": "1"}
    for pod_object in objects:
        count = failures.get(pod_object["metadata"]["name"])
        if count:
            pod_object["metadata"]["annotations"] = {"batch.kubernetes.io/job-index-failure-count": count}
    report = drain_nodes(Cluster.from_objects(objects), ["n1"])
    assert report.lost == ("d/a",)
    assert [moved.pod for moved in report.moved] == ["d/b"]


def test_no_fix_moves_a_pod_whose_index_is_not_retried() -> None:
    kinds = {}
    for limit in (0, 1):
        objects = [
            build_node("n1", cpu="4"),
            build_node("n2", cpu="2", unschedulable=False),
            build_job(backoffLimitPerIndex=limit, completions=9),
            build_pod("a", "n1", "2", OWNER),
            build_pod("big", cpu="3"),
        ]
        report = remedies(Cluster.from_objects(objects), "d/big")
        kinds[limit] = "MovePod" in {kind for remedy in report.remedies for kind in remedy.kinds}
    assert kinds == {0: False, 1: True}


def build_preempted_cluster(limit: int, *waiting: Json) -> Cluster:
    """Build a full node with two pods of a Job, a full node with one, and a pending pod of higher priority."""
    return Cluster.from_objects(
        [
            build_node("n1", cpu="4"),
            build_node("n2", cpu="2"),
            build_job(backoffLimit=limit),
            build_pod("a", "n1", "2", OWNER),
            build_pod("b", "n1", "2", OWNER),
            build_pod("c", "n2", "2", OWNER),
            build_pod("big", cpu="3", priority=10),
            *waiting,
        ]
    )


def test_drain_does_not_evict_the_preempted_pods_of_a_failed_job() -> None:
    """The moved pod preempts a pod of the Job on n2. The eviction of `kept` is denied, and no other pod is on n1."""
    moving = build_pod("big", "n1", "3", {"kind": "ReplicaSet", "name": "big"}, priority=10)
    kept = build_pod("kept", "n1", "1", {"kind": "ReplicaSet", "name": "web"})
    moving["metadata"]["labels"] = {}
    job_pod = build_pod("a", "n2", "3", OWNER)
    job_pod["metadata"]["labels"] = {}
    nodes = [build_node("n1"), build_node("n2")]
    report = drain_nodes(
        Cluster.from_objects([*nodes, build_job(backoffLimit=0), moving, kept, job_pod, build_budget(0)]), ["n1"]
    )
    assert report.failed_jobs
    assert report.blocked
    (kubectl,) = report.describe_blocked_kubectl_drain()
    assert "evict 1 other pod, " in kubectl


def test_pending_pods_that_end_with_their_job_get_no_node() -> None:
    """Pod `big` gets a node by preempting pods of the Job, which ends the pending pod of the Job."""
    report = pending_remedies(build_preempted_cluster(1, build_pod("last", cpu="9", owner=OWNER)))
    assert (report.fitting, report.ended, report.waiting) == (1, ("d/last",), 0)


def test_jobs_that_fail_on_an_equally_good_node_are_named() -> None:
    """The scheduler picks n1 or n2 at random, and only the victim on n2 belongs to a Job."""
    victims = [build_pod("a", "n1", "3", {"kind": "ReplicaSet", "name": "web"}), build_pod("b", "n2", "3", OWNER)]
    objects = [build_node("n1"), build_node("n2"), *victims, build_job(backoffLimit=0)]
    cluster = Cluster.from_objects([*objects, build_pod("big", cpu="3", priority=10)])
    report = explain(cluster, "d/big")
    assert report.preemption is not None
    assert (report.preemption.chosen, report.preemption.failed_jobs) == ("n1", ())
    for form in ("table", "brief"):
        text = " ".join(RENDERERS[form](report, Style()).split())
        assert "if it picks n2, Job d/run fails, which ends its 1 pod" in text, form


@pytest.mark.parametrize(("limit", "ended"), [(1, ("d/a", "d/b", "d/c")), (2, ())])
def test_preemption_that_fails_a_job_is_named_everywhere(limit: int, ended: tuple[str, ...]) -> None:
    """Preemption evicts two pods of the Job, whose controller accepts `limit` failed pods."""
    cluster = build_preempted_cluster(limit)
    explanation = explain(cluster, "d/big")
    assert explanation.preemption is not None
    assert set(explanation.preemption.chosen_victims) == {"d/a", "d/b"}
    assert tuple(key for failed in explanation.preemption.failed_jobs for key in failed.pods) == ended
    reports = [explanation, remedies(cluster, "d/big"), pending_remedies(cluster), simulate(cluster, [], pending=True)]
    for report in reports:
        for style in ("table", "brief"):
            text = " ".join(RENDERERS[style](report, Style()).split())
            assert ("Job d/run fails" in text) is bool(ended), (report.kind, style)


def test_pending_pods_get_the_room_of_a_failed_job() -> None:
    """Pod c ends with its Job, which leaves room on n2 for the pod that has to wait otherwise."""
    waiting = {}
    for limit in (1, 2):
        report = pending_remedies(build_preempted_cluster(limit, build_pod("low", cpu="2")))
        waiting[limit] = report.waiting
    assert waiting == {1: 0, 2: 1}


def test_simulated_pods_get_the_room_of_a_failed_job() -> None:
    """Preemption for `big` makes the Job fail. Its pod c ends, which leaves room on n2 for `low`."""
    placements = {}
    for limit in (1, 2):
        cluster = build_preempted_cluster(limit, build_pod("low", cpu="2"))
        placements[limit] = simulate(cluster, [], pending=True).placements
    assert placements == {1: {"d/big": "n1", "d/low": "n2"}, 2: {"d/big": "n1"}}


def test_fix_by_a_higher_priority_names_the_failing_job() -> None:
    objects = [
        build_node("n1", cpu="4"),
        build_job(backoffLimit=0),
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10},
        build_pod("a", "n1", "2", OWNER),
        build_pod("big", cpu="3"),
    ]
    report = remedies(Cluster.from_objects(objects), "d/big")
    (fix,) = (remedy for remedy in report.remedies if "UsePriorityClass" in remedy.kinds)
    assert any("Job d/run fails, which ends its 1 pod" in cost.text for cost in fix.costs)


def test_fix_names_the_jobs_that_fail_because_of_its_rollout() -> None:
    """The trial itself evicts no pod, so that its harm does not name the Job."""
    scheduler = Scheduler(Cluster.from_objects([build_node("n1"), build_pod("p")]))
    pod = scheduler.view.pods.objects[0]
    trial = RemedyTrial(scheduler, (), {}, authored_pod=pod, pod=pod, framework=None, cycle=None)
    chain = EvictionChain(evicted=1, moved=0, returned=0, pending=0, lost=1)
    failed = FailedJob("Job d/run", ("d/a", "d/b"))
    rollout = RolloutResult(find_owner(pod), victims=("d/a",), chain=chain, failed_jobs=(failed,))
    cost = _build_eviction_cost(trial, rollout.victims, rollout)
    assert cost.text == "evicts d/a, which is gone for good, so that Job d/run fails, which ends its 2 pods"
    harmful = replace(trial, victims=("d/a",), failed_jobs=(failed,), harm="Job d/run fails")
    assert _build_eviction_cost(harmful, rollout.victims, rollout).text == "evicts d/a (Job d/run fails)"
