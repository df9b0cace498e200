"""Check findings about leases, elections, unserved scheduler names and instances with different settings."""

from __future__ import annotations

from typing import Any

import pytest

from kschedctl.cluster import Cluster, Provenance, SchedulerInstance
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.leader import build_leader_section
from kschedctl.commands.audit.leader.report import LeaderSection
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.sources.anonymize.cluster import anonymize_cluster

Json = dict[str, Any]
NOW = "2026-01-31T12:00:00Z"


def format_time(minute: int, second: int = 0) -> str:
    """Return a time before noon."""
    return f"2026-01-31T11:{minute:02}:{second:02}Z"


def build_lease(name: str, renewed: str, holder: str = "cp1_aa", namespace: str = "kube-system", **spec: Any) -> Json:
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 15,
        "acquireTime": format_time(0),
        "renewTime": renewed,
        **spec,
    }
    metadata = {"name": name, "namespace": namespace}
    return {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": metadata, "spec": spec}


def build_scheduled_event(pod: str, instance: str, time: str, scheduler: str = "default-scheduler") -> Json:
    """Build the event of a placement by an instance of the scheduler."""
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": f"{pod}.1", "namespace": "d"},
        "involvedObject": {"kind": "Pod", "namespace": "d", "name": pod},
        "reason": "Scheduled",
        "message": f"Successfully assigned d/{pod} to n1",
        "eventTime": time,
        "reportingComponent": scheduler,
        "reportingInstance": f"{scheduler}-{instance}",
    }


def build_election_event(number: int, name: str = "kube-scheduler", words: str = "became leader") -> Json:
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": f"{name}.{number}", "namespace": "kube-system"},
        "involvedObject": {"kind": "Lease", "namespace": "kube-system", "name": name},
        "reason": "LeaderElection",
        "message": f"cp{number}_aa {words}",
        "source": {"component": "default-scheduler"},
        "firstTimestamp": format_time(number),
        "lastTimestamp": format_time(number),
    }


def build_pod(name: str, scheduler: str, on: str = "") -> Json:
    spec = {"containers": [{"name": "c"}], "schedulerName": scheduler, **({"nodeName": on} if on else {})}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "d"}, "spec": spec}


def audit_leader(*objects: Json, now: str = NOW, earlier: tuple[Json, ...] = (), **settings: Any) -> LeaderSection:
    before = Scheduler(Cluster.from_objects(earlier)) if earlier else None
    return build_leader_section(
        AuditedCluster(Scheduler(Cluster.from_objects(objects, **settings)), now, earlier=before)
    )


def get_severities(made: LeaderSection) -> dict[str, str]:
    """Return the severity of each rule that was found."""
    return {finding.rule.removeprefix("audit-leader-"): finding.severity for finding in made.findings}


FRESH = build_lease("kube-scheduler", format_time(59, 58), leaseTransitions=4)
OTHER = build_lease("kube-controller-manager", format_time(59, 59))


def test_leader_that_renews_its_lease() -> None:
    made = audit_leader(FRESH, OTHER, build_election_event(1), build_pod("a", "default-scheduler", "n1"))
    assert (made.state, get_severities(made), made.undecided) == ("sound", {}, False)
    assert made.headline == "cp1_aa has led for 60m; 4 leader changes in total"
    (told,) = made.leases  # the other one is no scheduler's
    assert (told.lease, told.holder, told.leads_for, told.silent_for) == (
        "kube-system/kube-scheduler",
        "cp1_aa",
        "60m",
        "2s",
    )
    assert (told.transitions, told.elections, told.stale) == (4, 1, False)
    (name,) = made.names
    assert (name.name, name.served, name.waiting, name.bound) == ("default-scheduler", "profile", 0, 1)


@pytest.mark.parametrize(
    ("rule", "severity", "objects"),
    [
        (
            "stale",
            "error",
            (build_lease("kube-scheduler", format_time(59, 40)), OTHER),
        ),  # 19 s behind the other one, lasts 15 s
        (
            "stale",
            "warning",
            (build_lease("kube-scheduler", format_time(59, 40)),),
        ),  # 20 s, by a clock that may be another
        ("stale", "error", (build_lease("kube-scheduler", format_time(59, 58), holder=""), OTHER)),
        ("no-lease", "note", (OTHER,)),
        ("left-behind", "warning", (FRESH, build_lease("my-scheduler", format_time(10)))),
        ("left-behind", "note", (FRESH, build_lease("my-scheduler", "2026-01-29T12:00:00Z"))),
        ("frequent", "warning", (FRESH, *map(build_election_event, (1, 2, 3)))),
    ],
)
def test_each_fault_is_found_alone(rule: str, severity: str, objects: tuple[Json, ...]) -> None:
    assert get_severities(audit_leader(*objects)) == {rule: severity}


@pytest.mark.parametrize(
    "objects",
    [
        (build_lease("kube-scheduler", format_time(59, 46)), OTHER),  # 14 s
        (build_lease("kube-scheduler", format_time(59, 10), leaseDurationSeconds=60), OTHER),
        (
            FRESH,
            build_election_event(1),
            build_election_event(2),
            build_election_event(3, words="stopped leading"),
            build_election_event(4, "kube-controller-manager"),
        ),
        (FRESH, build_pod("a", "mine"), build_lease("mine", format_time(1), namespace="mine")),
        (FRESH, build_pod("a", "mine"), build_scheduled_event("b", "x", format_time(1), "mine")),
        (FRESH, build_pod("a", "mine", "n1")),
        (FRESH, build_lease("my-scheduler", format_time(59, 50))),
    ],
)
def test_harmless_settings_are_no_findings(objects: tuple[Json, ...]) -> None:
    assert get_severities(audit_leader(*objects)) == {}


def test_age_without_a_time_is_judged_by_other_leases() -> None:
    behind = audit_leader(build_lease("kube-scheduler", format_time(30)), OTHER, now="")
    assert (get_severities(behind), behind.undecided) == ({"stale": "error"}, False)
    alone = audit_leader(FRESH, now="")
    assert (alone.state, [each.kind for each in alone.unknown]) == ("unknown", ["Age"])


def test_changes_since_an_earlier_snapshot() -> None:
    earlier = (build_lease("kube-scheduler", format_time(1), leaseTransitions=1),)
    assert get_severities(audit_leader(FRESH, OTHER, earlier=earlier)) == {"frequent": "warning"}  # from 1 to 4
    assert (
        get_severities(
            audit_leader(FRESH, OTHER, earlier=(build_lease("kube-scheduler", format_time(1), leaseTransitions=2),))
        )
        == {}
    )


def test_instances_that_alternate_as_leader() -> None:
    """The leaders are cp1, cp2, cp1 and cp2, which are three changes but only one election."""
    turns = [build_scheduled_event(f"p{i}", f"cp{i % 2 + 1}", format_time(20, i)) for i in range(4)]
    made = audit_leader(FRESH, OTHER, build_election_event(1), *turns)
    assert get_severities(made) == {"two-serve": "error"}
    (name,) = made.names
    assert name.turns == 3
    assert [(each.instance, each.placed, each.first) for each in name.instances] == [
        ("default-scheduler-cp1", 2, format_time(20, 0)),
        ("default-scheduler-cp2", 2, format_time(20, 1)),
    ]
    handed_over = [build_scheduled_event(f"p{i}", "cp1" if i < 2 else "cp2", format_time(20, i)) for i in range(4)]
    assert get_severities(audit_leader(FRESH, OTHER, *handed_over)) == {}
    back_and_forth = [build_scheduled_event(f"p{i}", ("cp1", "cp2", "cp1")[i], format_time(20, i)) for i in range(3)]
    assert (
        get_severities(audit_leader(FRESH, OTHER, build_election_event(1), build_election_event(2), *back_and_forth))
        == {}
    )
    others = [
        build_scheduled_event(f"p{i}", f"cp{i % 2 + 1}", format_time(20, i), f"scheduler-{i % 2}") for i in range(4)
    ]
    assert get_severities(audit_leader(FRESH, OTHER, *others)) == {}


def audit_leader_with_two_leases(*instances: SchedulerInstance) -> LeaderSection:
    cluster = Cluster.from_objects([FRESH, OTHER])
    from dataclasses import replace  # noqa: PLC0415

    cluster = replace(cluster, provenance=Provenance(server="https://api", read_at=NOW, instances=instances))
    return build_leader_section(AuditedCluster(Scheduler(cluster), NOW))


def test_instances_with_different_settings() -> None:
    one = SchedulerInstance("kube-scheduler-cp1", "v1.36.2", {"feature-gates": "A=true"})
    two = SchedulerInstance("kube-scheduler-cp2", "v1.36.1", {})
    assert get_severities(audit_leader_with_two_leases(one)) == {}
    assert (
        get_severities(
            audit_leader_with_two_leases(
                one, SchedulerInstance("kube-scheduler-cp3", "v1.36.2", {"feature-gates": "A=true"})
            )
        )
        == {}
    )
    made = audit_leader_with_two_leases(one, two)
    assert get_severities(made) == {"instances-differ": "warning"}
    assert [(each.setting, each.values) for each in made.differences] == [
        ("version", {"v1.36.2": ("kube-scheduler-cp1",), "v1.36.1": ("kube-scheduler-cp2",)}),
        ("feature-gates", {"A=true": ("kube-scheduler-cp1",), "": ("kube-scheduler-cp2",)}),
    ]


def test_several_instances_without_an_election() -> None:
    alone = {"leader-elect": "false"}
    one, two = (SchedulerInstance(f"kube-scheduler-cp{n}", "v1.36.2", alone) for n in (1, 2))
    assert get_severities(audit_leader_with_two_leases(one)) == {}
    assert get_severities(audit_leader_with_two_leases(one, two)) == {"no-election": "error"}


def test_lease_of_another_name_and_no_election() -> None:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    named = head | {"leaderElection": {"leaderElect": True, "resourceName": "mine", "resourceNamespace": "team"}}
    mine = build_lease("mine", format_time(59, 57), "me_1", "team")
    assert audit_leader(mine, config=named).headline.startswith("me_1 has led for 60m")
    off = head | {"leaderElection": {"leaderElect": False}}
    made = audit_leader(OTHER, config=off)
    assert (get_severities(made), made.headline) == ({}, "leader election is off in the configuration")


def test_anonymized_lease_is_recognized() -> None:
    cluster = anonymize_cluster(
        Cluster.from_objects([build_lease("kube-scheduler", format_time(59, 40)), OTHER, build_election_event(1)])
    ).cluster
    made = build_leader_section(AuditedCluster(Scheduler(cluster), NOW))
    assert get_severities(made) == {"stale": "error"}
    assert made.leases[0].elections == 1


def test_unread_kinds_make_the_answer_unknown() -> None:
    made = audit_leader(build_pod("a", "mine"), assume_complete=False)
    assert {each.kind for each in made.unknown} == {"Lease", "Event", "Pod"}
    assert (get_severities(made), made.undecided) == ({}, True)


def test_scheduler_name_without_a_known_scheduler_is_reported() -> None:
    """The pods that wait for this scheduler are a finding of the pending section."""
    made = audit_leader(FRESH, build_pod("a", "mine"))
    assert get_severities(made) == {}
    assert made.headline.endswith("; 1 pod names an unknown scheduler")
    assert {each.name: each.served for each in made.names} == {"mine": "", "default-scheduler": "profile"}


def test_volcano_is_known_by_its_pod_groups() -> None:
    """Pods must name the group. A missing group and a group in another namespace prove nothing."""
    of_group = build_pod("a", "volcano")
    of_group["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "train"}
    for namespace, served in ((of_group["metadata"].get("namespace", "default"), "podGroups"), ("other", "")):
        meta = {"name": "train", "namespace": namespace}
        group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta}
        made = audit_leader(FRESH, of_group, {**group, "spec": {"minMember": 1}})
        assert {each.name: each.served for each in made.names}["volcano"] == served


def test_held_lease_without_a_renew_time_is_not_sound() -> None:
    silent = audit_leader(build_lease("kube-scheduler", ""), OTHER)
    assert (silent.state, silent.undecided, silent.findings) == ("unknown", True, ())
