"""Check the quota that `kschedctl queues` reports, and what each waiting Workload waits for."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from kueue_objects import (
    build_admitted_workload,
    build_flavor,
    build_local_queue,
    build_node,
    build_queue,
    build_workload,
)
from msgspec.structs import replace

import kschedctl
from kschedctl.api.json_values import JsonObject
from kschedctl.api.queueing import KueueRelease
from kschedctl.cli.main import main
from kschedctl.commands.queues.report import KueueQueues, QuotaUsage
from kschedctl.errors import InputError
from kschedctl.kueue.installation import KueueInstallation, detect_installation
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS

GPU = "nvidia.com/gpu"
NOW = "2026-03-01T00:00:00Z"
CREATED = "2026-02-01T00:00:00Z"


def _build_object(kind: str, name: str, spec: JsonObject, namespace: str = "") -> JsonObject:
    """Build an object of Kueue."""
    metadata = {"name": name, "uid": f"{kind}-{name}", "creationTimestamp": CREATED}
    metadata |= {"namespace": namespace} if namespace else {}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}


def _build_queue(name: str, quota: int, flavor: str = "gpu", **spec: Any) -> list[JsonObject]:
    """Build a ClusterQueue of one flavor, and a LocalQueue with the same name."""
    flavors = [{"name": flavor, "resources": [{"name": GPU, "nominalQuota": quota}]}]
    groups = [{"coveredResources": [GPU], "flavors": flavors}]
    return [
        _build_object("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": groups, **spec}),
        _build_object("LocalQueue", name, {"clusterQueue": name}, "ai"),
    ]


def _build_workload(name: str, queue: str, gpus: int, *, admitted: bool = False) -> JsonObject:
    """Build a Workload with one pod."""
    container = {"name": "c", "resources": {"requests": {GPU: str(gpus)}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    workload = _build_object("Workload", name, {"queueName": queue, "podSets": [pod_set]}, "ai")
    if admitted:
        usage = {"name": "main", "count": 1, "flavors": {GPU: "gpu"}, "resourceUsage": {GPU: str(gpus)}}
        conditions = [
            {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": CREATED}
            for kind in ("QuotaReserved", "Admitted")
        ]
        workload["status"] = {
            "admission": {"clusterQueue": queue, "podSetAssignments": [usage]},
            "conditions": conditions,
        }
    return workload


OBJECTS = [
    _build_object("ResourceFlavor", "gpu", {}),
    _build_object("Cohort", "team", {"parentName": "org"}),
    *_build_queue("lender", 8, cohort="team"),
    *_build_queue("borrower", 4, cohort="team"),
    *_build_queue("broken", 4, flavor="missing"),
    _build_workload("one", "lender", 5, admitted=True),
    _build_workload("two", "borrower", 6, admitted=True),
    _build_workload("next", "lender", 1),
    _build_workload("stuck", "broken", 1),
    _build_workload("too-big", "borrower", 13),
]


def _report_queues(*names: str, installation: KueueInstallation | None = None) -> KueueQueues:
    """Report on the queues of the test's cluster."""
    return kschedctl.queues(kschedctl.Cluster.from_objects(OBJECTS), names, now=NOW, installation=installation)


def _find_quota(report: KueueQueues, queue: str) -> QuotaUsage:
    """Return the quota of a queue with a single flavor and resource."""
    return next(quota for quota in report.quotas if quota.queue == queue)


def test_lent_and_borrowed_amounts_of_a_cohort_are_equal() -> None:
    report = _report_queues()
    borrower, lender = _find_quota(report, "borrower"), _find_quota(report, "lender")
    assert (borrower.nominal, borrower.reserved, borrower.admitted, borrower.borrowed) == ("4", "6", "6", "2")
    assert (lender.nominal, lender.reserved, lender.borrowed, lender.free) == ("8", "5", "0", "1")
    team = _find_quota(report, "Cohort team")
    assert (team.nominal, team.reserved, team.lent, team.free) == ("12", "11", "2", "1")


def test_each_waiting_workload_has_a_reason_and_a_possible_assignment() -> None:
    waiting = {workload.workload: workload for workload in _report_queues().waiting}
    assert waiting["ai/next"].flavors == ("gpu",)
    assert waiting["ai/stuck"].waits == (
        "ClusterQueue broken is inactive: references missing ResourceFlavor(s): missing"
    )
    too_big = waiting["ai/too-big"]
    assert "needs 13 nvidia.com/gpu, but flavor gpu has 1 of 12 free" in too_big.waits
    assert too_big.holders[0].startswith("Workload ai/two")
    assert (too_big.queue, too_big.place, too_big.flavors) == ("borrower", 1, ())


def test_inactive_queue_shows_kueues_reason() -> None:
    broken = next(queue for queue in _report_queues().queues if queue.queue == "broken")
    assert not broken.active
    assert broken.reason == "FlavorNotFound"
    assert broken.message == "Can't admit new workloads: references missing ResourceFlavor(s): missing."


def test_the_summary_counts_queues_and_workloads() -> None:
    figures = _report_queues().summary().figures
    assert figures == {"queues": 3, "inactiveQueues": 1, "waiting": 3, "wouldGetQuota": 1}


def test_the_short_forms_name_the_workloads_and_the_victims() -> None:
    report = _report_queues()
    assert {pods.workload for pods in report.summary().pods} == {
        "Workload ai/next",
        "Workload ai/stuck",
        "Workload ai/too-big",
    }
    assert str(report).endswith("; 1 would get quota now")
    preempting = [replace(workload, victims=("ai/one",)) for workload in report.waiting]
    by_preemption = replace(report, waiting=tuple(preempting))
    assert str(by_preemption).endswith("; 1 would get quota by preempting ai/one")


def test_a_narrow_page_keeps_amounts_in_their_columns() -> None:
    """At 80 columns, no amount is under a queue's name, and an inactive queue has nothing free."""
    page = RENDERERS["table"](_report_queues(), Style(width=80))
    words_beneath = ("priority ", "pods ", "reserving ", "admitted ")
    assert not any(line.strip().startswith(words_beneath) for line in page.splitlines())
    assert "PRIORITY  PODS  REASON, WOULD GET" in page
    assert "would get gpu" in page


def test_names_select_queues_and_cohorts() -> None:
    assert [queue.queue for queue in _report_queues("org").queues] == ["borrower", "lender"]
    assert [workload.workload for workload in _report_queues("broken").waiting] == ["ai/stuck"]
    with pytest.raises(InputError, match="there is no ClusterQueue or cohort nothing"):
        _report_queues("nothing")


def test_shares_follow_fair_sharing() -> None:
    fair = KueueInstallation(configuration={"fairSharing": {}})
    shares = {queue.queue: queue.share for queue in _report_queues(installation=fair).queues}
    # 2 of the 12 GPUs in the cohort are borrowed: 2 * 1000 / 12
    assert shares == {"broken": "0", "borrower": "166.667", "lender": "0"}
    assert {queue.share for queue in _report_queues().queues} == {""}


def test_cyclic_cohorts_are_reported_and_other_queues_answered() -> None:
    circle = [
        _build_object("Cohort", "a", {"parentName": "b"}),
        _build_object("Cohort", "b", {"parentName": "a"}),
        *_build_queue("turning", 4, cohort="a"),
    ]
    report = kschedctl.queues(kschedctl.Cluster.from_objects([*OBJECTS, *circle]), now=NOW)
    turning = next(queue for queue in report.queues if queue.queue == "turning")
    assert turning.message == "the parents of cohort a form a cycle"
    assert _find_quota(report, "turning").free == ""
    assert _find_quota(report, "Cohort team").reserved == "11"


@pytest.mark.parametrize(
    ("kind", "path", "value", "problem"),
    [
        ("ClusterQueue", ("resourceGroups", 0, "flavors", 0, "resources", 0, "nominalQuota"), "8 GPUs", "8 GPUs"),
        ("ClusterQueue", ("namespaceSelector",), {"matchExpressions": [{"key": "a", "operator": "Most"}]}, "Most"),
        ("Cohort", ("fairSharing",), {"weight": "heavy"}, "heavy"),
        ("Workload", ("podSets", 0, "template", "spec", "containers", 0, "resources", "requests", GPU), "x", "x"),
    ],
)
def test_malformed_object_is_reported_in_one_line_and_others_are_answered(
    kind: str, path: tuple[str | int, ...], value: object, problem: str
) -> None:
    objects = copy.deepcopy(OBJECTS)
    malformed = next(thing for thing in reversed(objects) if thing["kind"] == kind)
    target: Any = malformed["spec"]
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    report = kschedctl.queues(kschedctl.Cluster.from_objects(objects), now=NOW)
    (line,) = report.problems
    assert malformed["metadata"]["name"] in line
    assert problem in line
    assert report.undecided
    assert "ai/next" in {workload.workload for workload in report.waiting}


@pytest.mark.parametrize(
    ("image", "release", "doubt"),
    [
        ("registry.k8s.io/kueue/kueue:v0.19.2", KueueRelease.V0_19, ""),
        ("example.com/kueue:v0.21.0", KueueRelease.V0_20, ""),
        ("registry.k8s.io/kueue/kueue:v0.12.3", KueueRelease.V0_19, "Kueue 0.12 is installed, and is replayed as 0.19"),
        ("example.com/other:v0.19.2", KueueRelease.V0_20, ""),
    ],
)
def test_release_is_read_from_the_deployments_image(image: str, release: KueueRelease, doubt: str) -> None:
    template = {"spec": {"containers": [{"name": "manager", "image": image}]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "kueue-controller-manager", "namespace": "kueue-system"},
        "spec": {"selector": {}, "template": template},
    }
    installation = detect_installation(kschedctl.Cluster.from_objects([deployment]))
    assert (installation.release, installation.doubt) == (release, doubt)


def test_the_command_reads_the_configuration_from_a_config_map(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, config = tmp_path / "cluster.yaml", tmp_path / "config.yaml"
    cluster.write_text(yaml.safe_dump_all(OBJECTS))
    configuration = yaml.safe_dump({"kind": "Configuration", "fairSharing": {}})
    config.write_text(yaml.safe_dump({"kind": "ConfigMap", "data": {"controller_manager_config.yaml": configuration}}))
    arguments = ["queues", "-f", str(cluster), "--kueue-config", str(config), "-o", "json"]
    assert main(arguments) == 0
    assert {queue["share"] for queue in json.loads(capsys.readouterr().out)["queues"]} == {"0", "166.667"}


@pytest.mark.parametrize("text", ["kind: Pod", "kind: ConfigMap\ndata: {controller_manager_config.yaml: '['}", "[]"])
def test_file_without_a_configuration_is_an_error_of_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(text)
    assert main(["queues", "--demo", "--kueue-config", str(config)]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert config.name in message


def test_features_that_are_not_replayed_make_the_answer_uncertain() -> None:
    gated, running = build_workload("a", 4), build_admitted_workload("b", 2)
    gated["spec"]["preemptionGates"] = [{"name": "example.com/gate"}]
    running["status"]["unhealthyNodes"] = [{"name": "n1"}]
    sliced = build_workload("c", 1)
    sliced["metadata"]["annotations"] = {"kueue.x-k8s.io/workload-slice-replacement-for": "ai/old"}
    objects = [build_flavor("gpu"), build_queue(), build_local_queue(), gated, running, sliced, build_node("n1", 8)]
    report = kschedctl.queues(kschedctl.Cluster.from_objects(objects), now=NOW)
    assert report.undecided
    assert report.doubts[-3:] == (
        "preemption gates are not replayed (Workload ai/a)",
        "the replacement of failed nodes is not replayed (Workload ai/b)",
        "the replacement of Workload slices is not replayed (Workload ai/c)",
    )


def test_files_without_a_list_of_cluster_queues_leave_the_answer_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(yaml.safe_dump(build_node("n1", 8)))
    assert main(["queues", "-f", str(cluster)]) == 5
    assert "Not certain: the files may lack ClusterQueues" in capsys.readouterr().out
    assert main(["queues", "-f", str(cluster), "--assume-complete"]) == 0
    assert capsys.readouterr().out == "The cluster has no ClusterQueues\n"
