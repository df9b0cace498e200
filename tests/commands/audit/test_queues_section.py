"""Check the section `queues`: Workloads waiting in Kueue, idle queues and flavors, and admitted jobs without nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

import kschedctl
from kschedctl.api.json_values import JsonObject
from kschedctl.api.times import format_age
from kschedctl.cli.main import main
from kschedctl.cluster import Cluster, Gap
from kschedctl.commands.audit import queues as section_module
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.queues import build_queues_section
from kschedctl.commands.audit.queues.report import QueuesSection
from kschedctl.scheduler.scheduler import Scheduler

GPU = "nvidia.com/gpu"
NOW, EARLY, LATE = "2026-03-01T12:00:00Z", "2026-03-01T08:00:00Z", "2026-03-01T11:50:00Z"


def build_object(kind: str, name: str, spec: JsonObject, namespace: str = "", created: str = EARLY) -> JsonObject:
    metadata = {"name": name, "uid": f"{kind}-{name}", "creationTimestamp": created}
    metadata |= {"namespace": namespace} if namespace else {}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}


def build_queue(name: str, quota: int, flavor: str = "gpu", **spec: Any) -> list[JsonObject]:
    """Build a ClusterQueue of one flavor, and a LocalQueue with the same name."""
    flavors = [{"name": flavor, "resources": [{"name": GPU, "nominalQuota": quota}]}]
    groups = [{"coveredResources": [GPU], "flavors": flavors}]
    return [
        build_object("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": groups, **spec}),
        build_object("LocalQueue", name, {"clusterQueue": name}, "ai"),
    ]


def build_workload(name: str, queue: str, gpus: int, created: str = EARLY, admitted: str = "") -> JsonObject:
    """Build a Workload with one pod, and the time of its admission if it is admitted."""
    container = {"name": "c", "resources": {"requests": {GPU: str(gpus)}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    workload = build_object("Workload", name, {"queueName": queue, "podSets": [pod_set]}, "ai", created)
    workload["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name, "controller": True}
    ]
    if admitted:
        usage = {"name": "main", "count": 1, "flavors": {GPU: "gpu"}, "resourceUsage": {GPU: str(gpus)}}
        conditions = [
            {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": admitted}
            for kind in ("QuotaReserved", "Admitted")
        ]
        admission = {"clusterQueue": queue, "podSetAssignments": [usage]}
        workload["status"] = {"admission": admission, "conditions": conditions}
    return workload


def build_pod(name: str, job: str, node: str = "") -> JsonObject:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job, "controller": True}
    spec = {"containers": [{"name": "c"}], **({"nodeName": node} if node else {})}
    metadata = {"name": name, "namespace": "ai", "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


FLAVOR = build_object("ResourceFlavor", "gpu", {})
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}


def build_section(*objects: JsonObject, now: str = NOW, gaps: Iterable[str] = ()) -> QueuesSection:
    cluster = Cluster.from_objects([NODE, *objects])
    cluster = replace(cluster, gaps={kind: Gap("could not be read: forbidden") for kind in gaps})
    return build_queues_section(AuditedCluster(Scheduler(cluster), now))


def list_findings(section: QueuesSection) -> list[tuple[str, str]]:
    """Return the subject of the rule and the object of each finding."""
    return [(finding.rule.removeprefix("audit-queues-"), finding.object) for finding in section.findings]


def test_cluster_without_queues_is_sound_and_not_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section_module, "queues", None)
    section = build_section()
    assert (section.state, section.headline, section.findings) == ("sound", "no ClusterQueues", ())


def test_the_section_is_left_out_without_queues_unless_it_is_selected() -> None:
    without, with_queues = (Cluster.from_objects([NODE, *objects]) for objects in ((), (FLAVOR, *build_queue("a", 8))))

    def list_sections(cluster: Cluster, *names: str) -> list[str]:
        return [section.name for section in kschedctl.audit(cluster, names, now=NOW).sections]

    assert "queues" not in list_sections(without)
    assert "queues" in list_sections(with_queues)
    assert list_sections(without, "queues") == ["queues"]


def test_queues_in_use_are_sound() -> None:
    section = build_section(FLAVOR, *build_queue("a", 8), build_workload("w", "a", 8, admitted=EARLY))
    assert (section.state, section.findings) == ("sound", ())
    assert section.headline == "no Workload waits in 1 ClusterQueue"


def test_long_waits_are_reported_by_queue_with_the_reason() -> None:
    section = build_section(
        FLAVOR,
        *build_queue("a", 8),
        build_workload("running", "a", 8, admitted=EARLY),
        build_workload("new", "a", 2, LATE),
        build_workload("old", "a", 4, "2026-03-01T09:00:00Z"),
        build_workload("lost", "absent", 4),
    )
    assert [(w.workload, w.queue, w.age) for w in section.waiting] == [
        ("ai/lost", "", "4h"),
        ("ai/old", "a", "3h"),
        ("ai/new", "a", "10m"),
    ]
    assert list_findings(section) == [("waiting", "Workload ai/lost"), ("waiting", "ClusterQueue a")]
    assert section.findings[0].message == "pending for 4 hours: LocalQueue ai/absent does not exist"
    assert section.findings[1].message.startswith("1 Workload waits long, ai/old for 3 hours: pod set main needs 4 ")
    assert section.headline == "3 Workloads wait in 1 ClusterQueue, ai/lost for 4 hours"


def test_waiting_time_counts_from_the_last_eviction() -> None:
    workload = build_workload("w", "a", 9)
    evicted = {"type": "Evicted", "status": "True", "reason": "Preempted", "lastTransitionTime": LATE}
    section = build_section(FLAVOR, *build_queue("a", 8), {**workload, "status": {"conditions": [evicted]}})
    assert [w.age for w in section.waiting] == ["10m"]
    assert ("waiting", "ClusterQueue a") not in list_findings(section)


def test_workloads_that_wait_for_checks_are_listed_and_deactivated_ones_are_not() -> None:
    reserved = build_workload("w", "a", 1, admitted=EARLY)
    reserved["status"]["conditions"] = reserved["status"]["conditions"][:1]
    reserved["status"]["admissionChecks"] = [{"name": "prov", "state": "Pending", "message": "no room"}]
    inactive = build_workload("off", "a", 1)
    inactive["spec"]["active"] = False
    section = build_section(FLAVOR, *build_queue("a", 8), reserved, inactive)
    why = "has quota and waits for admission checks: prov is Pending: no room"
    assert [(w.workload, w.queue, w.why) for w in section.waiting] == [("ai/w", "a", why)]


def test_inactive_queues_are_reported_unless_the_missing_kind_was_not_read() -> None:
    objects = (FLAVOR, *build_queue("broken", 8, "h100"), *build_queue("held", 8, stopPolicy="Hold"))
    section = build_section(*objects, build_workload("w", "broken", 1, LATE))
    assert list_findings(section)[:2] == [("inactive", "ClusterQueue broken"), ("stopped", "ClusterQueue held")]
    assert [finding.severity for finding in section.findings[:2]] == ["warning", "note"]
    assert section.findings[0].message.endswith("missing ResourceFlavor(s): h100; 1 Workload waits in it")
    unread = build_section(*objects, gaps=["ResourceFlavor"])
    assert list_findings(unread)[:1] == [("stopped", "ClusterQueue held")]
    assert (unread.state, unread.undecided) == ("unknown", True)


def test_queue_starves_while_others_borrow_its_resources() -> None:
    objects = (
        FLAVOR,
        build_object("ResourceFlavor", "other", {}),
        *build_queue("starving", 4, cohortName="team"),
        *build_queue("borrower", 4, cohortName="team"),
        *build_queue("elsewhere", 4, "other", cohortName="team"),
        build_workload("large", "borrower", 8, admitted=EARLY),
        build_workload("w", "starving", 2),
        build_workload("x", "elsewhere", 5),
    )
    section = build_section(*objects)
    assert [(q.queue, q.cohort, q.waiting, q.borrowers) for q in section.starving] == [
        ("starving", "team", 1, ("borrower",))
    ]
    finding = next(finding for finding in section.findings if finding.rule == "audit-queues-starving")
    assert finding.message == (
        "1 Workload waits, the oldest for 4 hours, and the queue borrows nothing, while borrower borrows from "
        "cohort team"
    )
    assert build_section(*objects, now="2026-03-01T08:30:00Z").starving == ()


def test_flavors_without_workloads_are_notes() -> None:
    unused, without_quota = (build_object("ResourceFlavor", name, {}) for name in ("h100", "l4"))
    running = build_workload("w", "a", 8, admitted=EARLY)
    section = build_section(FLAVOR, unused, without_quota, *build_queue("a", 8), *build_queue("b", 8, "h100"), running)
    assert [(f.object, f.severity, f.message) for f in section.findings] == [
        ("ResourceFlavor h100", "note", "b has quota in it, but no Workload holds any"),
        ("ResourceFlavor l4", "note", "no ClusterQueue has quota in it"),
    ]
    assert section.state == "sound"


def test_admitted_workloads_with_pods_without_nodes_are_reported_after_a_while() -> None:
    objects = (
        *(FLAVOR, *build_queue("a", 8), build_workload("slow", "a", 2, admitted=EARLY)),
        *(build_workload("fresh", "a", 2, admitted=LATE), build_workload("placed", "a", 2, admitted=EARLY)),
        *(build_pod("slow-1", "slow"), build_pod("slow-2", "slow", "n1")),
        *(build_pod("fresh-1", "fresh"), build_pod("placed-1", "placed", "n1")),
    )
    section = build_section(*objects)
    assert [(w.workload, w.age, w.pods, w.count) for w in section.unplaced] == [("ai/slow", "4h", ("ai/slow-1",), 1)]
    assert list_findings(section) == [("unplaced", "Workload ai/slow")]
    assert section.headline.endswith("; 1 admitted Workload has pods without a node")


def test_pods_are_found_through_the_jobs_of_a_job_set() -> None:
    workload = build_workload("set", "a", 2, admitted=EARLY)
    workload["metadata"]["ownerReferences"][0] |= {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "set-0", "namespace": "ai"}, "spec": {}}
    job["metadata"]["ownerReferences"] = workload["metadata"]["ownerReferences"]
    section = build_section(FLAVOR, *build_queue("a", 8), workload, job, build_pod("p", "set-0"))
    assert [w.pods for w in section.unplaced] == [("ai/p",)]


def test_without_the_time_ages_are_those_of_today() -> None:
    """No finding depends on such an age."""
    section = build_section(FLAVOR, *build_queue("a", 8), build_workload("w", "a", 9), now="")
    created = section.waiting[0].since
    assert section.waiting[0].age == format_age(created, datetime.now(UTC).isoformat(timespec="seconds"))
    assert section.headline.endswith(" as of today")
    assert section.undecided
    assert ("waiting", "ClusterQueue a") not in list_findings(section)


def test_unread_kinds_matter_only_if_they_are_referenced() -> None:
    running = build_workload("w", "a", 8, admitted=EARLY)
    gaps = ["Cohort", "Topology", "AdmissionCheck"]
    assert build_section(FLAVOR, *build_queue("a", 8), running, gaps=gaps).unknown == ()
    section = build_section(FLAVOR, *build_queue("a", 8, cohortName="team"), running, gaps=gaps)
    assert [unknown.kind for unknown in section.unknown] == ["Cohort"]


def test_page_shows_the_evidence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = [NODE, FLAVOR, *build_queue("a", 8), build_workload("old", "a", 9)]
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(objects))
    arguments = ["-f", str(tmp_path / "cluster.yaml"), "--assume-complete", "--now", NOW]
    assert main(["audit", "--section", "queues", *arguments]) == 1
    out = capsys.readouterr().out
    assert "Workloads that wait longest" in out
    assert "kschedctl queues -f" in out
