"""Check findings about priorities on clusters with and without each fault, with victims by hand."""

from __future__ import annotations

import json
import lzma
import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from small import Json, build_node, build_pod

from kschedctl.api.times import format_age
from kschedctl.cluster import Cluster, Gap
from kschedctl.commands.audit.audited_cluster import AuditedCluster, PriorityLimits, Thresholds
from kschedctl.commands.audit.priorities import build_priorities_section
from kschedctl.commands.audit.priorities.report import PrioritiesSection
from kschedctl.commands.audit.priorities.tiers import Tiers
from kschedctl.errors import UsageError
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.scheduler.scheduler import Scheduler

NOW = "2026-05-06T12:00:00Z"
HIGH, MIDDLE, LOW = ("high", 1000), ("middle", 100), ("low", 0)
JOB, WEB = {"kind": "Job", "name": "nightly"}, {"kind": "StatefulSet", "name": "web"}


def build_tier_pod(
    tier: tuple[str, int], name: str, node_name: str = "", owner: Json | None = None, **spec: Any
) -> Json:
    """Build a pod of a tier, with the part of its name before the dash as its label app."""
    made = build_pod(name, node_name, owner=owner, priorityClassName=tier[0], priority=tier[1], **spec)
    made["metadata"]["labels"] = {"app": name.partition("-")[0]}
    return made


def set_times(made: Json, created: str = "", started: str = "") -> Json:
    """Return the pod with its times, given as ``11:00`` of the day."""
    if created:
        made["metadata"]["creationTimestamp"] = f"2026-05-06T{created}:00Z"
    if started:
        made["status"]["startTime"] = f"2026-05-06T{started}:00Z"
    return made


def build_service(name: str, **selector: str) -> Json:
    return {"kind": "Service", "metadata": {"name": name, "namespace": "d"}, "spec": {"selector": selector}}


def audit_priorities(
    *objects: Json, now: str = NOW, gaps: dict[str, Gap] | None = None, **limits: Any
) -> PrioritiesSection:
    cluster = Cluster.from_objects(list(objects))
    if gaps:
        cluster.gaps.update(gaps)  # type: ignore[attr-defined]
    thresholds = Thresholds(priorities=PriorityLimits(**limits))
    return build_priorities_section(AuditedCluster(Scheduler(cluster), now, thresholds))


def list_findings(found: PrioritiesSection) -> list[tuple[str, str, str]]:
    return [(each.rule.removeprefix("audit-priorities-"), each.severity, each.object) for each in found.findings]


SOUND = (
    build_node("n1"),
    build_node("n2"),
    build_tier_pod(HIGH, "web-1", "n1", WEB),
    build_tier_pod(HIGH, "web-2", "n2", WEB),
    build_tier_pod(LOW, "batch-1", "n2", JOB, cpu="500m"),
    build_service("web", app="web"),
)


def test_user_facing_top_tier_with_free_room_is_sound() -> None:
    found = audit_priorities(*SOUND, grow=2)
    assert (found.findings, found.state, found.undecided) == ((), "sound", False)
    growth = (
        "If 2 more pods like d/web-1 (PriorityClass high) arrived, all would get a node and no pod would be preempted"
    )
    assert found.headline == f"2 tiers. {growth}"


def test_growth_says_how_many_pods_a_quota_allows() -> None:
    """Three pods of the namespace exist and one more is allowed, so two of the three additional pods are denied."""
    hard, used = {"count/pods": "4"}, {"count/pods": "3"}
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "d"},
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": used},
    }
    found = audit_priorities(*SOUND, quota, grow=3)
    assert found.grown is not None
    assert (found.grown.placed, found.grown.created) == (3, 1)
    clause = "(but ResourceQuota q allows only 1 of them)"
    assert found.headline.endswith(f"all would get a node and no pod would be preempted {clause}")
    page = " ".join(RENDERERS["table"](found, Style()).split())
    assert f"3 of 3 more pods like d/web-1 (StatefulSet d/web) get a node {clause}" in page
    alone = audit_priorities(*SOUND, quota, grow=1).grown
    assert alone is not None
    assert (alone.created, alone.creation_clause) == (None, "")


def test_figures_of_tiers() -> None:
    waiting = build_tier_pod(LOW, "batch-2", cpu="8")
    high, low = audit_priorities(*SOUND, waiting, grow=0).tiers
    assert (high.name, high.priority, high.pods, high.pending, high.nodes, high.user_facing) == (
        "high",
        1000,
        2,
        0,
        2,
        2,
    )
    assert (low.name, low.priority, low.pods, low.pending, low.nodes, low.user_facing) == ("low", 0, 1, 1, 1, 0)
    # Two of one core each; the one that waits takes no room.
    assert (high.requests["cpu"], low.requests["cpu"]) == (2000, 500)


# n1 has four cores: two pods of a Job below, two behind a Service above them. n2 is full of the top tier.
FULL = (
    build_node("n1", cpu="4"),
    build_node("n2", cpu="1"),
    build_tier_pod(LOW, "batch-1", "n1", JOB),
    build_tier_pod(LOW, "batch-2", "n1", JOB),
    build_tier_pod(MIDDLE, "web-1", "n1", WEB),
    build_tier_pod(MIDDLE, "web-2", "n1", WEB),
    build_tier_pod(HIGH, "pay-1", "n2", {"kind": "StatefulSet", "name": "pay"}),
    build_service("web", app="web"),
)


def test_lowest_tiers_are_evicted_first_then_user_facing_pods() -> None:
    found = audit_priorities(*FULL, grow=3)
    assert found.grown is not None
    assert (found.grown.tier, found.grown.like, found.grown.placed) == ("high", "d/pay-1", 3)
    assert [(each.workload, each.tier, len(each.pods), each.services) for each in found.victims] == [
        ("Job d/nightly", "low", 2, ()),
        ("StatefulSet d/web", "middle", 1, ("d/web",)),
    ]
    # No core is left anywhere: whoever went waits.
    assert {pod.fate for each in found.victims for pod in each.pods} == {"Pending"}
    assert ("victims", "warning", "StatefulSet d/web") in list_findings(found)
    assert ("victims", "note", "PriorityClass high") in list_findings(found)


@pytest.mark.parametrize(("grow", "evicted"), [(0, 0), (1, 1), (2, 2), (4, 4), (6, 4)])
def test_each_additional_pod_evicts_one_until_none_is_left(grow: int, evicted: int) -> None:
    found = audit_priorities(*FULL, grow=grow)
    assert sum(len(each.pods) for each in found.victims) == evicted
    assert found.grown is None if grow == 0 else found.grown is not None
    assert grow < 5 or found.grown is None or "Insufficient cpu" in found.grown.message


def test_growing_tier_can_be_named_by_class_or_value() -> None:
    for name in ("middle", "100"):
        found = audit_priorities(*FULL, grow=1, tier=name)
        assert [(each.workload, len(each.pods)) for each in found.victims] == [("Job d/nightly", 1)]
    with pytest.raises(UsageError, match="available: high, middle, low"):
        audit_priorities(*FULL, tier="urgent")


def test_pods_that_may_not_preempt_evict_no_pods() -> None:
    gentle = [
        build_tier_pod(HIGH, "pay-1", "n2", preemptionPolicy="Never"),
        *(each for each in FULL if each is not FULL[6]),
    ]
    found = audit_priorities(*gentle, grow=2, tier="high")
    assert found.grown is not None
    assert (found.grown.placed, found.victims) == (0, ())
    assert not found.tiers[0].preempts


def test_highest_preempting_tier_grows_by_default() -> None:
    """Tiers that may not preempt are passed over, unless no tier may preempt."""
    gentle = build_tier_pod(HIGH, "pay-1", "n2", preemptionPolicy="Never")
    found = audit_priorities(gentle, *(each for each in FULL if each is not FULL[6]), grow=1)
    assert found.grown is not None
    assert (found.grown.tier, [each.workload for each in found.victims]) == ("middle", ["Job d/nightly"])
    found = audit_priorities(gentle, *FULL[:2], grow=1)
    assert found.grown is not None
    assert (found.grown.tier, found.victims) == ("high", ())


def test_tiers_of_daemon_sets_and_of_the_system_do_not_grow() -> None:
    daemon = build_tier_pod(HIGH, "agent-1", "n1", {"kind": "DaemonSet", "name": "agent"})
    system = build_tier_pod(("system-node-critical", 2_000_001_000), "proxy-1", "n1")
    found = audit_priorities(build_node("n1"), daemon, system, build_tier_pod(LOW, "batch-1", "n1", JOB), grow=1)
    assert found.grown is not None
    assert found.grown.tier == "low"


def test_user_facing_pods_below_other_tiers_are_exposed() -> None:
    found = audit_priorities(*FULL, grow=0)
    (web,) = found.exposed
    assert (web.workload, web.pods, web.tiers_above, web.pods_above, web.jobs_above, web.budgets) == (
        "StatefulSet d/web",
        2,
        ("high",),
        1,
        0,
        (),
    )
    assert list_findings(found) == [("exposed", "note", "PriorityClass middle")]
    found = audit_priorities(*FULL, build_tier_pod(HIGH, "report-1", "n1", JOB, cpu="0"), grow=0)
    assert found.exposed[0].jobs_above == 1
    assert list_findings(found) == [("exposed", "warning", "PriorityClass middle")]


def test_system_and_non_preempting_tiers_expose_no_pods() -> None:
    above = (
        build_tier_pod(HIGH, "pay-1", "n1", preemptionPolicy="Never"),
        build_tier_pod(("system-cluster-critical", 2_000_000_000), "dns-1", "n1"),
    )
    found = audit_priorities(
        build_node("n1"), *above, build_tier_pod(LOW, "web-1", "n1"), build_service("web", app="web"), grow=0
    )
    assert found.exposed == ()


def test_budget_is_reported() -> None:
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "d"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1},
        "status": {"disruptionsAllowed": 1},
    }
    found = audit_priorities(*FULL, budget, grow=0)
    assert found.exposed[0].budgets == ("d/web",)
    (exposed,) = [each for each in found.findings if each.rule == "audit-priorities-exposed"]
    assert exposed.message.endswith("; the workload has a PodDisruptionBudget")
    (unprotected,) = [
        each for each in audit_priorities(*FULL, grow=0).findings if each.rule == "audit-priorities-exposed"
    ]
    assert unprotected.message.endswith("; 1 of these workloads has no PodDisruptionBudget")


# n1 is full of two pods of the lower tier, one of which came after the pod that waits.
STARVING = (
    build_node("n1", cpu="2"),
    set_times(build_tier_pod(LOW, "old-1", "n1"), started="09:00"),
    set_times(build_tier_pod(LOW, "new-1", "n1"), started="11:00"),
    set_times(build_tier_pod(HIGH, "pay-1", preemptionPolicy="Never"), created="10:00"),
)


def test_pod_that_waits_while_lower_tiers_run_starves() -> None:
    found = audit_priorities(*STARVING, grow=0)
    (starving,) = found.starving
    assert (starving.pods, starving.seconds, starving.lower_pods, starving.lower_started) == (("d/pay-1",), 7200, 2, 1)
    assert starving.preemption == "does not help: not eligible due to preemptionPolicy=Never."
    assert list_findings(found) == [("starving", "warning", "Pod d/pay-1")]
    assert found.headline == "2 tiers; 1 pod is starving (pending while pods of lower tiers run)"


def test_pods_that_starve_for_one_cause_share_a_finding() -> None:
    """The report has each of them; the finding is about the first and names the other."""
    other = set_times(build_tier_pod(HIGH, "pay-2", preemptionPolicy="Never"), created="10:30")
    found = audit_priorities(*STARVING, other, grow=0)
    assert [starving.pods for starving in found.starving] == [("d/pay-1",), ("d/pay-2",)]
    assert list_findings(found) == [("starving", "warning", "Pod d/pay-1")]
    (finding,) = found.findings
    assert "2 pods of tier high are pending, the oldest for 120 min (also Pod d/pay-2)" in finding.message


def test_no_pod_starves_before_the_threshold() -> None:
    found = audit_priorities(*STARVING, grow=0, starving_seconds=3 * 3600.0)
    assert (found.starving, found.state, found.undecided) == ((), "sound", False)


def test_starvation_is_unknown_without_a_time() -> None:
    """The pods are shown with their ages as of today, but they are no finding."""
    found = audit_priorities(*STARVING, grow=0, now="")
    assert (found.starving, found.findings, found.state, found.undecided) == ((), (), "unknown", True)
    assert "starving" not in found.headline
    (waiting,) = found.starving_as_of_today
    assert waiting.pods == ("d/pay-1",)
    assert waiting.age == format_age("2026-05-06T10:00:00Z", datetime.now(UTC).isoformat(timespec="seconds"))
    text = RENDERERS["table"](found, Style())
    assert "Waiting too long (waits are measured until today)" in text
    assert waiting.age in text

    dated = audit_priorities(*STARVING, grow=0)
    assert [starving.pods for starving in dated.starving] == [("d/pay-1",)]
    assert dated.starving_as_of_today == ()
    assert "as of today" not in RENDERERS["table"](dated, Style())


def test_pod_that_matches_no_node_does_not_starve() -> None:
    lost = set_times(build_tier_pod(HIGH, "pay-1", nodeSelector={"pool": "none"}), created="10:00")
    assert audit_priorities(*STARVING[:3], lost, grow=0).starving == ()


@pytest.mark.parametrize(("started", "overtaken"), [("11:00", [1]), ("09:00", [])])
def test_lowest_tier_is_overtaken_by_later_pods(started: str, overtaken: list[int]) -> None:
    waiting = set_times(build_tier_pod(LOW, "batch-1", owner=JOB), created="10:00")
    found = audit_priorities(
        build_node("n1", cpu="1"), set_times(build_tier_pod(HIGH, "pay-1", "n1"), started=started), waiting, grow=0
    )
    assert [each.higher_started for each in found.starving] == overtaken
    assert list_findings(found) == [("overtaken", "note", "Job d/nightly")] * len(overtaken)


def build_event(pod_name: str, count: int = 1, last: str = "11:00") -> Json:
    return {
        "kind": "Event",
        "metadata": {"name": f"{pod_name}.{last}", "namespace": "d"},
        "involvedObject": {"kind": "Pod", "namespace": "d", "name": pod_name},
        "reason": "Preempted",
        "count": count,
        "lastTimestamp": f"2026-05-06T{last}:00Z",
    }


REPLICA_SET = {
    "kind": "ReplicaSet",
    "metadata": {
        "name": "bulk-5f",
        "namespace": "d",
        "ownerReferences": [{"kind": "Deployment", "name": "bulk", "controller": True}],
    },
    "spec": {"selector": {"matchLabels": {"app": "bulk"}}},
}
STATEFUL_SET = {"kind": "StatefulSet", "metadata": {"name": "db", "namespace": "d"}, "spec": {}}


def build_bulk_pod(name: str, **more: Any) -> Json:
    made = build_tier_pod(LOW, name, "n1", {"kind": "ReplicaSet", "name": "bulk-5f"}, cpu="0", **more)
    made["metadata"]["labels"]["pod-template-hash"] = "5f"
    return made


def test_workload_that_lost_more_pods_than_it_has_is_repeatedly_preempted() -> None:
    events = [
        build_event("bulk-5f-aaaaa"),
        build_event("bulk-5f-bbbbb"),
        build_event("bulk-5f-ccccc", last="11:30"),
        build_event("db-0", 2),
    ]
    others = [build_event("lone", 1), {**build_event("bulk-5f-ddddd"), "reason": "FailedScheduling"}]
    pods = [build_bulk_pod("bulk-5f-eeeee"), build_bulk_pod("bulk-5f-fffff")]
    found = audit_priorities(*SOUND, *pods, REPLICA_SET, STATEFUL_SET, *events, *others, grow=0)
    assert [(each.workload, each.times, each.pods) for each in found.preempted] == [
        ("Deployment d/bulk", 3, 2),
        ("StatefulSet d/db", 2, 0),
        ("Pod d/lone", 1, 0),
    ]
    assert found.preempted[0].last == "2026-05-06T11:30:00Z"
    assert {object_ for rule, _, object_ in list_findings(found) if rule == "preempted"} == {
        "Deployment d/bulk",
        "StatefulSet d/db",
    }


def test_terminating_victim_counts_once() -> None:
    leaving = build_bulk_pod("bulk-5f-aaaaa")
    leaving["metadata"]["deletionTimestamp"] = NOW
    leaving["status"]["conditions"] = [
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    ]
    for events in ([], [build_event("bulk-5f-aaaaa")]):
        (found,) = audit_priorities(
            *SOUND, leaving, build_bulk_pod("bulk-5f-bbbbb"), REPLICA_SET, *events, grow=0
        ).preempted
        assert (found.workload, found.times, found.pods) == ("Deployment d/bulk", 1, 1)


def test_preempted_pods_are_unknown_without_events_and_several_tiers() -> None:
    gaps = {"Event": Gap("were not read")}
    assert audit_priorities(*SOUND, grow=0, gaps=gaps).undecided
    assert not audit_priorities(build_node("n1"), build_tier_pod(LOW, "web-1", "n1"), grow=0, gaps=gaps).undecided


def test_unread_services_make_the_answer_undecided() -> None:
    found = audit_priorities(*SOUND, grow=0, gaps={"Service": Gap("were not read")})
    assert (found.state, found.undecided) == ("unknown", True)


def test_services_of_pods_equal_a_naive_loop() -> None:
    chance = random.Random(7)
    values = {"app": ["a", "b", "c"], "part": ["x", "y"], "track": ["s", "t"]}

    def labels(most: int) -> dict[str, str]:
        keys = chance.sample(sorted(values), chance.randint(0, most))
        return {key: chance.choice(values[key]) for key in keys}

    pods = [build_pod(f"p{i}", "n1", cpu="0") for i in range(40)]
    for each in pods:
        each["metadata"] |= {"labels": labels(3), "namespace": chance.choice("de")}
    services = [build_service(f"s{i}", **labels(2)) for i in range(12)]
    tiers = Tiers(Scheduler(Cluster.from_objects([build_node("n1"), *pods, *services])).view)
    for each in pods:
        meta = each["metadata"]
        position = tiers.pods.index[f"{meta['namespace']}/{meta['name']}"]
        expected = {
            f"d/{found['metadata']['name']}"
            for found in services
            if (selector := found["spec"]["selector"])
            and meta["namespace"] == "d"
            and all(meta["labels"].get(key) == value for key, value in selector.items())
        }
        assert set(tiers.services[int(tiers.pods.info[position])]) == expected


def test_recorded_cluster() -> None:
    file = Path(__file__).parents[2] / "recordings" / "pending.json.xz"
    objects = json.loads(lzma.decompress(file.read_bytes()))["objects"]
    found = audit_priorities(*objects, grow=0)
    pods = [each for each in objects if each["kind"] == "Pod"]
    bound = Counter(each["spec"]["priority"] for each in pods if each["spec"].get("nodeName"))
    waiting = Counter(each["spec"]["priority"] for each in pods if not each["spec"].get("nodeName"))
    assert {tier.priority: tier.pods for tier in found.tiers if tier.pods} == bound
    assert {tier.priority: tier.pending for tier in found.tiers if tier.pending} == waiting
    # Its scheduler wrote an event Preempted for each of these three.
    assert {each.workload: each.times for each in found.preempted} == {
        "Deployment batch/batch-low": 2,
        "Deployment batch/unguarded": 1,
    }


def test_lowest_possible_priority_has_a_tier() -> None:
    """The negated value does not fit an int64."""
    pods = [
        build_pod("low", "n1", priority=-(2**63)),
        build_pod("high", priority=5),
        build_pod("top", priority=2**63 - 1),
    ]
    tiers = Tiers(Scheduler(Cluster.from_objects([build_node("n1"), *pods])).view)
    assert tiers.priorities.tolist() == [2**63 - 1, 5, -(2**63)]
    assert tiers.priorities[tiers.tier_by_pod].tolist() == tiers.pods.priority[tiers.pods.info].tolist()
