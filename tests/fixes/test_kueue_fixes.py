"""Check that each fix for a Workload waiting in Kueue admits it after its commands ran, and names whom it harms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from control_plane import kubectl
from control_plane.store import Store
from kueue_objects import (
    NOW,
    build_admitted_workload,
    build_flavor,
    build_local_queue,
    build_manifest,
    build_node,
    build_priority_class,
    build_queue,
    build_workload,
)

from kschedctl.api.json_values import JsonObject
from kschedctl.api.workloads import decode_workload
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.pending_page import build_pending_page
from kschedctl.commands.explain.pending_report import PendingPods
from kschedctl.fixes.kueue import search, trials
from kschedctl.kueue.installation import KueueInstallation
from kschedctl.kueue.outlook import Outlook, predict_outlook, start_replay
from kschedctl.kueue.replay import KueueReplay
from kschedctl.render.page import Style
from kschedctl.render.terminal import render_text
from kschedctl.replay.waiting_elsewhere import find_objects_waiting_elsewhere
from kschedctl.replay.waiting_elsewhere.kueue import parse_time
from kschedctl.replay.waiting_elsewhere.kueue_jobs import predict_manifest_outlooks
from kschedctl.reports.remedy import Remedy
from kschedctl.reports.summary import CostKind

NODES = [build_node("a", 8), build_node("b", 8)]
QUOTA, BORROWING, FEWER, PRIORITY = "quota", "borrowing", "fewer-pods", "priority"


def _find_fixes(*objects: JsonObject, name: str = "w") -> dict[str, Remedy]:
    """Return the fixes for a Workload by their kind, in their order."""
    cluster = Cluster.from_objects(objects)
    workload = next(workload for workload in cluster.kueue_workloads if workload.metadata.name == name)
    return {fix.kinds[0]: fix for fix in search.find_admission_fixes(cluster, workload, NOW)}


def _find_admitted(objects: Sequence[JsonObject]) -> set[str]:
    """Return the names of the waiting Workloads that Kueue admits."""
    replay = start_replay(Cluster.from_objects(objects), parse_time(NOW), KueueInstallation())
    return {key.partition("/")[2] for key in predict_outlook(replay).order}


def _run_commands(fix: Remedy, objects: Sequence[JsonObject]) -> list[Any]:
    """Run the commands of a fix. Return the objects that exist afterwards."""
    store = Store([dict(document) for document in objects])
    for command in fix.commands:
        kubectl.run(store, command)
    documents: list[Any] = store.documents()
    return documents


def _check(fix: Remedy, objects: Sequence[JsonObject], name: str = "w") -> None:
    """Check that the Workload waits, and that Kueue admits it after the commands of the fix."""
    assert name not in _find_admitted(objects)
    assert name in _find_admitted(_run_commands(fix, objects))


def _set_quota(queue: Any, **fields: Any) -> JsonObject:
    """Set fields of the quota of a ClusterQueue."""
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0] |= fields
    changed: JsonObject = queue
    return changed


def test_nominal_quota_is_raised_by_the_missing_amount() -> None:
    objects = [build_flavor("gpu"), build_queue(), build_local_queue(), build_workload("w", 6, 2), *NODES]
    fix = _find_fixes(*objects)[QUOTA]
    assert fix.summary == "Raise nominalQuota of nvidia.com/gpu in flavor gpu from 8 to 12 in ClusterQueue cq"
    assert fix.holds
    assert not fix.all_costs
    _check(fix, objects)
    less = [build_flavor("gpu"), build_queue(quota=11), build_local_queue(), build_workload("w", 6, 2)]
    assert "w" not in _find_admitted(less)


def test_workload_that_is_next_needs_no_fix() -> None:
    assert not _find_fixes(build_flavor("gpu"), build_queue(), build_local_queue(), build_workload("w", 8), *NODES)


def test_raised_quota_includes_workloads_ahead() -> None:
    workloads = [build_workload("old", 10, created="2026-01-01"), build_workload("w", 10)]
    objects = [build_flavor("gpu"), build_queue(), build_local_queue(), *workloads]
    fix = _find_fixes(*objects)[QUOTA]
    assert "from 8 to 20" in fix.summary
    _check(fix, objects)


def test_flavor_that_lacks_least_is_raised() -> None:
    queue: Any = build_queue()
    resources = [{"name": "nvidia.com/gpu", "nominalQuota": 10}]
    queue["spec"]["resourceGroups"][0]["flavors"].append({"name": "big", "resources": resources})
    objects = [build_flavor("gpu"), build_flavor("big"), queue, build_local_queue(), build_workload("w", 12)]
    fix = _find_fixes(*objects)[QUOTA]
    assert "in flavor big from 10 to 12" in fix.summary
    assert "/flavors/1/resources/0/nominalQuota" in fix.commands[0]
    _check(fix, objects)


def test_quota_without_nodes_is_not_called_enough() -> None:
    objects = [build_flavor("gpu"), build_queue(), build_local_queue(), build_workload("w", 12), *NODES]
    fix = _find_fixes(*objects)[QUOTA]
    assert fix.holds is False
    assert fix.drawbacks == ("not all of its pods get a node then: 0 of 1 fit",)


def test_borrowing_limit_is_raised_if_the_cohort_has_enough() -> None:
    queue = _set_quota(build_queue(cohortName="all"), borrowingLimit=0)
    idle = build_queue("idle", 8, cohortName="all")
    objects = [build_flavor("gpu"), queue, idle, build_local_queue(), build_workload("w", 12)]
    fixes = _find_fixes(*objects)
    assert next(iter(fixes)) == BORROWING
    assert "from 0 to 4" in fixes[BORROWING].summary
    _check(fixes[BORROWING], objects)
    without = [build_flavor("gpu"), queue, build_queue("idle", 3, cohortName="all"), build_local_queue()]
    assert BORROWING not in _find_fixes(*without, build_workload("w", 12))


def test_workloads_that_lose_their_quota_are_named() -> None:
    workloads = [build_workload("rival", 6, created="2026-01-01"), build_workload("w", 6, created="2026-01-02")]
    queues = [build_queue(), build_local_queue()]
    objects = [build_flavor("gpu"), *queues, *workloads, build_priority_class("high", 100)]
    fixes = _find_fixes(*objects)
    assert list(fixes) == [QUOTA, PRIORITY]
    assert not fixes[QUOTA].all_costs
    fix = fixes[PRIORITY]
    assert fix.drawbacks == ("Workload ai/rival then waits instead",)
    _check(fix, objects)
    assert "rival" in _find_admitted(objects)
    assert "rival" not in _find_admitted(_run_commands(fix, objects))


def test_minimum_of_pods_is_lowered_to_what_fits() -> None:
    workload: Any = build_workload("w", 2, 8)
    workload["spec"]["podSets"][0]["minCount"] = 6
    objects = [build_flavor("gpu"), build_queue(), build_local_queue(), workload, *NODES]
    fix = _find_fixes(*objects)[FEWER]
    assert fix.summary == "Lower the minimum number of pods of pod set main from 6 to 4"
    assert fix.drawbacks == ("pod set main then runs with 4 of its 8 pods",)
    assert fix.holds
    _check(fix, objects)


def test_workload_without_a_minimum_is_advised_to_use_fewer_pods() -> None:
    objects = [build_flavor("gpu"), build_queue(), build_local_queue(), build_workload("w", 2, 8), *NODES]
    fixes = _find_fixes(*objects)
    fix = fixes[FEWER]
    assert list(fixes)[-1] == FEWER
    assert fix.summary == "Let pod set main start with fewer pods, if pod set main can run with 4 pods"
    assert fix.needs_values
    assert fix.holds is None
    _check(fix, objects)


def _build_workload_of_job() -> JsonObject:
    """Build a Workload of eight pods that Kueue made for Job ai/train."""
    workload: Any = build_workload("w", 2, 8)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "1", "controller": True}
    workload["metadata"]["ownerReferences"] = [owner]
    document: JsonObject = workload
    return document


JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "ai"}, "spec": {}}


def test_annotation_lets_a_job_start_with_fewer_pods() -> None:
    objects = [build_flavor("gpu"), build_queue(), build_local_queue(), _build_workload_of_job()]
    (job,) = _run_commands(_find_fixes(*objects)[FEWER], [JOB])
    assert job["metadata"]["annotations"] == {"kueue.x-k8s.io/job-min-parallelism": "4"}


def test_label_of_a_job_raises_its_workloads_priority() -> None:
    queue = build_queue(quota=16, preemption={"withinClusterQueue": "LowerPriority"})
    objects = [build_flavor("gpu"), queue, build_local_queue(), build_admitted_workload("run", 8)]
    (job,) = _run_commands(
        _find_fixes(*objects, _build_workload_of_job(), build_priority_class("high", 100))[PRIORITY], [JOB]
    )
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/priority-class": "high"}


def test_higher_priority_names_its_victims_and_comes_last() -> None:
    queue = build_queue(preemption={"withinClusterQueue": "LowerPriority"})
    classes = [build_priority_class("low", 0), build_priority_class("high", 100), build_priority_class("mid", 10)]
    running = build_admitted_workload("run", 8)
    objects = [build_flavor("gpu"), queue, build_local_queue(), running, build_workload("w", 4), *classes, *NODES]
    fixes = _find_fixes(*objects)
    assert list(fixes) == [QUOTA, PRIORITY]
    fix = fixes[PRIORITY]
    assert fix.summary == "Give the Workload the WorkloadPriorityClass mid (priority 10)"
    assert fix.victims == ("Workload ai/run",)
    assert fix.drawbacks == ("preempts Workload ai/run with 1 pod",)
    assert fix.to_short_fix().costs[0].kind is CostKind.EVICTS
    assert not fixes[QUOTA].all_costs
    _check(fix, objects)


@pytest.mark.parametrize("kind", ["ClusterQueue", "LocalQueue"])
def test_stopped_queue_is_resumed(kind: str) -> None:
    cluster_queue, local_queue = build_queue(), build_local_queue()
    stopped: Any = cluster_queue if kind == "ClusterQueue" else local_queue
    stopped["spec"]["stopPolicy"] = "Hold"
    objects = [build_flavor("gpu"), cluster_queue, local_queue, build_workload("w", 4), *NODES]
    fixes = _find_fixes(*objects)
    assert list(fixes) == ["resume-queue"]
    fix = fixes["resume-queue"]
    assert fix.summary == f"Resume {kind} {'cq' if kind == 'ClusterQueue' else 'ai/lq'}"
    _check(fix, objects)


@pytest.mark.parametrize(
    ("objects", "summary"),
    [
        (
            [build_flavor("gpu"), build_queue(), build_local_queue("batch"), build_workload("w", 4, queue="batsh")],
            "Use LocalQueue ai/batch instead of batsh, which does not exist",
        ),
        (
            [build_flavor("gpu"), build_queue("team-a"), build_local_queue(queue="team-aa"), build_workload("w", 4)],
            "Recreate LocalQueue ai/lq for ClusterQueue team-a instead of team-aa, which does not exist",
        ),
        (
            [build_flavor("gpu-a"), build_queue(flavor="gpua"), build_local_queue(), build_workload("w", 4)],
            "Let ClusterQueue cq name ResourceFlavor gpu-a instead of gpua, which does not exist",
        ),
    ],
)
def test_misspelled_name_is_corrected(objects: list[JsonObject], summary: str) -> None:
    (fix,) = _find_fixes(*objects).values()
    assert fix.summary == summary
    assert fix.holds
    _check(fix, objects)


@pytest.mark.parametrize(
    ("objects", "missing", "value"),
    [
        ([build_queue(), build_workload("w", 4)], "LocalQueue", "spec.clusterQueue"),
        ([build_local_queue(queue="gone"), build_workload("w", 4)], "ClusterQueue", "spec.resourceGroups"),
        (
            [build_queue(flavor="gone"), build_local_queue(), build_workload("w", 4)],
            "ResourceFlavor",
            "spec.nodeLabels",
        ),
    ],
)
def test_missing_object_is_advice_that_needs_a_value(objects: list[JsonObject], missing: str, value: str) -> None:
    (fix,) = _find_fixes(*objects).values()
    assert fix.needs_values == (value,)
    assert fix.holds is None
    assert not fix.commands
    assert fix.manifests[0]["kind"] == missing
    assert fix.drawbacks == (f"not verified until you fill in {value}",)


def test_number_of_replays_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    replays: list[KueueReplay] = []

    def count_and_predict(replay: KueueReplay) -> Outlook:
        """Record a replay and run it."""
        replays.append(replay)
        return predict_outlook(replay)

    monkeypatch.setattr(trials, "predict_outlook", count_and_predict)
    classes = [build_priority_class(f"class-{value}", value) for value in range(1, 40)]
    queue = build_queue(preemption={"withinClusterQueue": "LowerPriority"})
    _find_fixes(build_flavor("gpu"), queue, build_local_queue(), build_workload("w", 400, 9), *classes)
    assert 2 < len(replays) <= trials.MOST_REPLAYS + 1


def test_large_cluster_is_replayed_without_other_cohorts(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = [
        _set_quota(build_queue(cohortName="all"), borrowingLimit=0),
        build_queue("idle", 8, cohortName="all"),
        build_queue("apart"),
        build_local_queue(),
        build_local_queue("aside", "idle"),
        build_local_queue("other", "apart"),
    ]
    workloads = [
        build_workload("w", 4, 3, created="2026-02-02"),
        build_workload("rival", 6, queue="lq"),
        build_workload("neighbour", 3, queue="aside"),
        build_workload("stranger", 8, queue="other"),
        build_admitted_workload("run", 8, cluster_queue="apart", queue="other"),
    ]
    objects = [build_flavor("gpu"), *queues, *workloads, build_priority_class("high", 100)]
    expected = _find_fixes(*objects)
    assert expected
    monkeypatch.setattr(trials, "_MOST_OF_ALL_TREES", 0)
    assert _find_fixes(*objects) == expected
    cluster = Cluster.from_objects(objects)
    workload = next(workload for workload in cluster.kueue_workloads if workload.metadata.name == "w")
    replayed = trials.AdmissionTrials(cluster, workload, parse_time(NOW)).cluster.kueue_workloads
    assert {workload.metadata.name for workload in replayed} == {"w", "rival", "neighbour"}


def test_page_shows_each_fix_with_its_cost_and_command() -> None:
    queue = build_queue(preemption={"withinClusterQueue": "LowerPriority"})
    running = build_admitted_workload("run", 8)
    objects = [build_flavor("gpu"), queue, build_local_queue(), running, build_workload("w", 4)]
    cluster = Cluster.from_objects([*objects, build_priority_class("high", 100)])
    entries = search.add_admission_fixes(cluster, find_objects_waiting_elsewhere(cluster, None, NOW), NOW)
    report = PendingPods(scope="", waiting_elsewhere=entries, asked_about=("Workload ai/w",))
    style = Style(width=400)
    text = render_text(build_pending_page(report, style), style)
    assert "Fix: Give the Workload the WorkloadPriorityClass high (priority 100), but preempts Workload ai/run" in text
    assert "kubectl patch workload.kueue.x-k8s.io -n ai w --type=json" in text
    assert [fix.but for fix in report.summary(()).fixes] == ["", "preempts Workload ai/run with 1 pod"]


def _find_job_fixes(*objects: JsonObject, **job: Any) -> dict[str, Remedy]:
    """Return the fixes for a new job, by their kind."""
    cluster = Cluster.from_objects([*objects, *NODES])
    manifest = decode_workload(build_manifest(**job))
    entries = tuple(outlook.report for outlook in predict_manifest_outlooks(cluster, [manifest], NOW))
    (entry,) = search.add_admission_fixes(cluster, entries, NOW, [manifest])
    return {fix.kinds[0]: fix for fix in entry.fixes}


def test_a_job_that_is_not_created_yet_has_fixes() -> None:
    fixes = _find_job_fixes(build_flavor("gpu"), build_queue(quota=2), build_local_queue(), gpus=1, pods=3)
    assert fixes[QUOTA].summary == "Raise nominalQuota of nvidia.com/gpu in flavor gpu from 2 to 3 in ClusterQueue cq"
    assert len(fixes[QUOTA].commands) == 1
    assert fixes[FEWER].commands == ()
    assert 'in the manifest of Job train, set kueue.x-k8s.io/job-min-parallelism: "2"' in fixes[FEWER].summary


def test_a_queue_label_that_is_nearly_right_is_corrected_in_the_manifest() -> None:
    queues = (build_flavor("gpu"), build_queue(), build_local_queue("team-a"))
    (fix,) = _find_job_fixes(*queues, gpus=1, pods=1, queue="teem-a").values()
    assert fix.commands == ()
    assert 'set kueue.x-k8s.io/queue-name: "team-a"' in fix.summary


def test_admitted_job_needs_no_fix() -> None:
    assert _find_job_fixes(build_flavor("gpu"), build_queue(), build_local_queue(), gpus=1, pods=1) == {}
