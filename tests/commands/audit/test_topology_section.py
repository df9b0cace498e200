"""Check workloads against their topology constraints: planted faults, arithmetic by hand, and replays."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from small import HOSTNAME, ZONE, Json, build_node, build_pod

import kschedctl
from kschedctl.api.ownership import Owner
from kschedctl.cluster import Gap
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.topology import EVERYTHING, TopologyScope, build_topology_section
from kschedctl.commands.audit.topology.report import SpreadPromise, TopologySection
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation

NODES = [build_node(f"{zone}{i}", zone, pods="110", cpu="100") for zone in "abc" for i in (1, 2)]
NONE_CONCENTRATED = "1 workload with two or more pods; none has all its pods on one node or in one zone"
DOWN = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}


def build_pods(name: str, *where: str, kind: str = "StatefulSet", **spec: Any) -> list[Json]:
    """Build the pods of a workload, one for each node. An empty name is a pod without a node."""
    made = [
        build_pod(f"{name}-{i}", node_name, "100m", {"kind": kind, "name": name}, **spec)
        for i, node_name in enumerate(where)
    ]
    for each in made:
        each["metadata"]["labels"] = {"app": name}
    return made


def build_spread(app: str, max_skew: int = 1, key: str = ZONE, **fields: Any) -> Json:
    constraint = {"maxSkew": max_skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**constraint, "labelSelector": {"matchLabels": {"app": app}}, **fields}]}


def audit_topology(*documents: Json, asked: TopologyScope = EVERYTHING, nodes: list[Json] = NODES) -> TopologySection:
    cluster = kschedctl.Cluster.from_objects([*nodes, *documents])
    return build_topology_section(AuditedCluster(Scheduler(cluster)), asked)


def list_findings(found: TopologySection) -> list[tuple[str, str, str]]:
    """Return the rule, severity and object of each finding."""
    return [(each.rule.removeprefix("audit-topology-"), each.severity, each.object) for each in found.findings]


def audit_spread_promise(name: str, *documents: Json, nodes: list[Json] = NODES) -> SpreadPromise:
    asked = TopologyScope(workloads=frozenset((Owner("StatefulSet", "d", name),)))
    [found] = audit_topology(*documents, asked=asked, nodes=nodes).promises
    return found


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        (build_pods("web", "a1", "a1", "a1"), [("one-node", "warning", "StatefulSet d/web")]),
        (build_pods("web", "a1", "a2", "a1"), [("one-zone", "warning", "StatefulSet d/web")]),
        (build_pods("web", "a1", "a2", nodeSelector={ZONE: "a"}), [("one-zone", "note", "StatefulSet d/web")]),
        (build_pods("web", "a1", "b1"), []),
        (build_pods("web", "a1"), []),  # one replica
        (build_pods("web", "a1", "a1", kind="DaemonSet"), []),
        (build_pods("web", "a1", "a1", kind="Job"), []),
        ([build_pod("p", "a1"), build_pod("q", "a1")], []),  # nobody's
        (build_pods("web", "a1", "a2", "", ""), [("one-zone", "warning", "StatefulSet d/web")]),
    ],
)
def test_workloads_in_one_domain(documents: list[Json], expected: list[tuple[str, str, str]]) -> None:
    found = audit_topology(*documents)
    assert list_findings(found) == expected
    assert found.state == ("findings" if [each for each in expected if each[1] == "warning"] else "sound")


def test_deleted_pods_do_not_count() -> None:
    documents = build_pods("web", "a1", "a2", "b1")
    documents[2]["metadata"]["deletionTimestamp"] = "2026-05-06T09:00:00Z"
    assert list_findings(audit_topology(*documents)) == [("one-zone", "warning", "StatefulSet d/web")]


def test_single_zone_is_no_finding() -> None:
    assert list_findings(audit_topology(*build_pods("web", "a1", "a2"), nodes=NODES[:2])) == []


def test_racks_are_judged_on_request_or_if_a_constraint_names_them() -> None:
    nodes = [build_node(f"n{i}", "abc"[i % 3]) for i in range(6)]
    for i, each in enumerate(nodes):
        each["metadata"]["labels"]["rack"] = f"r{i // 3}"
    documents = build_pods("web", "n0", "n1", "n2")  # three zones, one rack
    assert list_findings(audit_topology(*documents, nodes=nodes)) == []
    expected = [("one-domain", "note", "StatefulSet d/web")]
    assert list_findings(audit_topology(*documents, nodes=nodes, asked=TopologyScope(("rack",)))) == expected
    assert (
        list_findings(
            audit_topology(*documents, *build_pods("db", "n0", "n4", **build_spread("db", key="rack")), nodes=nodes)
        )[:1]
        == expected
    )


def test_skew_now_and_after_each_loss_by_hand() -> None:
    """Zone a has three pods, b one and c none: the skew is 3.

    Without a, the zones have 1 and 0 pods. Without b, they have 3 and 0.
    """
    asked = TopologyScope(workloads=frozenset((Owner("StatefulSet", "d", "web"),)))
    [placed] = audit_topology(*build_pods("web", "a1", "a1", "a2", "b1"), asked=asked).placed
    hosts, zones = placed.by_key
    assert (zones.key, zones.domains, zones.used, zones.skew, zones.most, zones.most_pods) == (ZONE, 3, 2, 3, "a", 3)
    assert [(loss.domain, loss.lost, loss.skew) for loss in zones.losses] == [("a", 3, 1), ("b", 1, 3)]
    assert (hosts.key, hosts.domains, hosts.used, hosts.skew, hosts.most, hosts.most_pods) == (
        HOSTNAME,
        6,
        3,
        2,
        "a1",
        2,
    )


def test_constraint_that_no_longer_holds() -> None:
    found = audit_topology(*build_pods("web", "a1", "a2", "a1", "b1", "c1", **build_spread("web")))  # 3, 1, 1
    assert list_findings(found)[0] == ("skew", "warning", "StatefulSet d/web")
    message = f"the skew is 2 now, but maxSkew is 1 (DoNotSchedule over {ZONE}): a has 3 pods, and c has 1"
    assert found.findings[0].message == message
    assert found.headline == f"{NONE_CONCENTRATED}; 1 of 1 spread constraint is not met (DoNotSchedule)"


def test_min_domains_decides_the_minimum() -> None:
    """Three domains have 2, 1 and 1 pods. With minDomains 4, the minimum is 0."""
    placed = build_pods("web", "a1", "a2", "b1", "c1", **build_spread("web", minDomains=3))
    assert audit_spread_promise("web", *placed).skew == 1
    assert (
        audit_spread_promise(
            "web", *build_pods("web", "a1", "a2", "b1", "c1", **build_spread("web", minDomains=4))
        ).skew
        == 2
    )


def test_soft_constraint_is_uneven_but_not_violated() -> None:
    soft = build_spread("web", whenUnsatisfiable="ScheduleAnyway")
    found = audit_topology(*build_pods("web", "a1", "a2", "a1", "b1", "c1", **soft))
    assert ("skew", "note", "StatefulSet d/web") in list_findings(found)
    uneven = "1 of 1 spread constraint is not met (ScheduleAnyway)"
    assert found.headline == f"{NONE_CONCENTRATED}; {uneven}"
    assert found.state == "sound"


def test_constraint_that_holds() -> None:
    found = audit_topology(*build_pods("web", "a1", "a2", "b1", "c1", **build_spread("web")))
    assert not [each for each in list_findings(found) if each[1] != "note"]
    assert found.headline == f"{NONE_CONCENTRATED}; the only spread constraint is met"
    assert (found.promises, found.state) == ((), "sound")


@pytest.mark.parametrize(
    ("fields", "spec", "skew", "domains"),
    [
        ({}, {}, 2, 3),  # a 2, b 2, c 0
        ({}, {"nodeSelector": {"pool": "p"}}, 2, 3),
        ({}, {"nodeSelector": {"zoned": "ab"}}, 0, 2),  # nodeAffinityPolicy: Honor is the default
        ({"nodeAffinityPolicy": "Ignore"}, {"nodeSelector": {"zoned": "ab"}}, 2, 3),
        ({"nodeTaintsPolicy": "Honor"}, {}, 0, 2),  # c is tainted
        ({"nodeTaintsPolicy": "Honor"}, {"tolerations": [{"operator": "Exists"}]}, 2, 3),
        ({"minDomains": 3, "nodeTaintsPolicy": "Honor"}, {}, 2, 2),  # two of three domains: the fewest count as 0
    ],
)
def test_pods_are_counted_as_by_the_plugin(fields: Json, spec: Json, skew: int, domains: int) -> None:
    nodes = [build_node(name, name[0], **({"taints": [DOWN]} if name[0] == "c" else {})) for name in ("a1", "b1", "c1")]
    for each in nodes[:2]:
        each["metadata"]["labels"]["zoned"] = "ab"
    found = audit_spread_promise(
        "web", *build_pods("web", "a1", "a1", "b1", "b1", **build_spread("web", **fields), **spec), nodes=nodes
    )
    assert (found.skew, found.domains, found.holds) == (skew, domains, skew <= 1)


def test_revisions_are_counted_separately_with_match_label_keys() -> None:
    documents = build_pods("web", "a1", "a1", "b1", "b1", **build_spread("web", matchLabelKeys=["rev"]))
    for each, revision in zip(documents, ("old", "old", "new", "new"), strict=True):
        each["metadata"]["labels"]["rev"] = revision
    found = audit_topology(*documents)
    assert [(each.most, each.most_pods, each.skew) for each in found.promises] == [("a", 2, 2), ("b", 2, 2)]


@pytest.mark.parametrize(
    ("where", "fields", "gone", "down"),
    [
        (("a1", "a2", "b1", "b2", "c1", "c2"), {}, 0, 2),  # 2, 2, 2: the other two have more than 1 already
        (("a1", "a2", "b1", "b2", "c1", "c2"), {"maxSkew": 3}, 0, 0),  # each of the others takes one more
        (("a1", "a2", "b1", "b2", "c1", "c2"), {"nodeTaintsPolicy": "Honor"}, 0, 0),
        (("a1", "a2", "b1", "b2", "c1", "c2"), {"minDomains": 3}, 2, 2),
        (("a1", "b1", "c1"), {"minDomains": 3}, 1, 1),
        (("a1", "a2", "a1", "b1"), {"maxSkew": 3}, 0, 0),  # c has none: b takes two more, c three
        (("a1", "a2", "a1", "b1"), {"maxSkew": 3, "minDomains": 4}, 0, 0),
    ],
)
def test_pods_that_cannot_return_by_hand(where: tuple[str, ...], fields: Json, gone: int, down: int) -> None:
    loss = audit_spread_promise("web", *build_pods("web", *where, **build_spread("web", **fields))).losses[0]
    assert (loss.domain, loss.stranded, loss.stranded_while_down) == ("a", gone, down)


def count_pending_after_loss(nodes: list[Json], running: list[Json], lost: str) -> int:
    """Count the pods of a zone that kube-scheduler would leave pending if they had to go elsewhere."""
    waiting = [
        {**each, "spec": {**each["spec"], "nodeName": ""}} for each in running if each["spec"]["nodeName"][0] == lost
    ]
    kept = [each for each in running if each["spec"]["nodeName"][0] != lost]
    simulation = Simulation(Scheduler(kschedctl.Cluster.from_objects([*nodes, *kept, *waiting])), preemption=False)
    outcomes = [simulation.attempt_pod(simulation.view.pods.index[f"d/{each['metadata']['name']}"]) for each in waiting]
    return sum(outcome is None or outcome.row < 0 for outcome in outcomes)


@pytest.mark.parametrize("seed", range(30))
def test_pods_that_cannot_return_equal_a_replay(seed: int) -> None:
    random = Random(seed)
    fields: Json = {"max_skew": random.choice([1, 1, 2, 3])}
    fields |= {"minDomains": random.choice([2, 3, 4])} if random.random() < 0.5 else {}
    fields |= {"nodeTaintsPolicy": "Honor"} if random.random() < 0.3 else {}
    where = [random.choice(["a1", "a1", "b1", "c1"]) for _ in range(random.randint(2, 9))]
    running = build_pods("web", *where, **build_spread("web", **fields))
    for loss in audit_spread_promise("web", *running).losses:
        others = [each for each in NODES if each["metadata"]["name"][0] != loss.domain]
        down = [{**each, "spec": {"taints": [DOWN]}} for each in NODES if each not in others]
        assert loss.stranded == count_pending_after_loss(others, running, loss.domain)
        assert loss.stranded_while_down == count_pending_after_loss([*others, *down], running, loss.domain)


def test_pods_that_cannot_return_are_a_finding() -> None:
    documents = build_pods("web", "a1", "b1", "c1", **build_spread("web", minDomains=3))
    found = audit_topology(*documents)
    assert list_findings(found) == [("stranded", "warning", "StatefulSet d/web")]
    message = (
        "whichever of a, b and c is lost, 1 of 1 pod cannot come back: the minimum counts as 0 with 2 domains, fewer "
        "than minDomains 3"
    )
    assert message in found.findings[0].message
    assert found.findings[0].fix == "Lower minDomains to 2, or raise maxSkew"


def test_loss_of_the_only_domain_is_an_outage() -> None:
    """Zone a is the only zone for the pods, so they cannot return after its loss, whatever minDomains is."""
    selected = {"nodeSelector": {ZONE: "a"}}
    (found,) = audit_topology(*build_pods("web", "a1", "a2", **selected, **build_spread("web"))).findings
    assert (found.rule, found.severity) == ("audit-topology-one-zone", "warning")
    assert found.message.endswith("the only one that taints and node selection allow: losing it is an outage")
    assert found.fix == "Add nodes in a second zone that they may use, and set minDomains: 2 in the constraint"
    (wide,) = audit_topology(*build_pods("web", "a1", "a2", **selected, **build_spread("web", max_skew=2))).findings
    assert wide.fix.endswith("set maxSkew: 1 and minDomains: 2 in the constraint")
    found = audit_topology(*build_pods("web", "a1", "a2", **selected, **build_spread("web", minDomains=2))).findings
    assert [each.fix for each in found if each.rule == "audit-topology-one-zone"] == [
        "Add nodes in a second zone that they may use"
    ]
    (skewed,) = (each for each in found if each.rule == "audit-topology-skew")
    assert skewed.message.endswith(
        "a has 2 pods, and the minimum counts as 0, since 1 domain is fewer than minDomains 2"
    )
    assert "until then, each domain takes only 1 pod after a restart" in skewed.fix


@pytest.mark.parametrize(
    ("kind", "match_label_keys", "fix"),
    [
        (
            "Deployment",
            [],
            "Set matchLabelKeys: [pod-template-hash] in the constraint; the rollout of this change spreads the new "
            "pods evenly, since old pods no longer count",
        ),
        ("Deployment", ["pod-template-hash"], "kubectl rollout restart deployment/web -n d"),
        ("StatefulSet", [], "kubectl rollout restart statefulset/web -n d"),
        ("Machine", [], "Let a descheduler move pods (RemovePodsViolatingTopologySpreadConstraint)"),
    ],
)
def test_a_restart_is_advised_only_if_old_pods_do_not_count(kind: str, match_label_keys: list[str], fix: str) -> None:
    """A Deployment's old pods count while its new ones are placed, unless matchLabelKeys tells them apart."""
    spread = build_spread("web", matchLabelKeys=match_label_keys)
    (skewed,) = audit_topology(*build_pods("web", "a1", "a2", "a1", "b1", "c1", kind=kind, **spread)).findings[:1]
    assert (skewed.rule, skewed.fix) == ("audit-topology-skew", fix)


def test_tainted_domain_that_counts_as_empty_is_named() -> None:
    """Zones a and b have 2 pods each, tainted zone c has none: the skew is 2, and a restart would not lower it."""
    nodes = [*NODES[:4], build_node("c1", "c", taints=[{"key": "sick", "effect": "NoSchedule"}])]
    found = audit_topology(*build_pods("web", "a1", "a2", "b1", "b2", **build_spread("web")), nodes=nodes)
    (skewed,) = (each for each in found.findings if each.rule == "audit-topology-skew")
    why = "nodeTaintsPolicy: Ignore makes c count despite node c1's taint sick:NoSchedule"
    assert skewed.message.endswith(why)
    assert skewed.fix == "Set nodeTaintsPolicy: Honor in the constraint; until then, a restart leaves pods Pending"
    (told_promise,) = found.promises
    assert (told_promise.least, told_promise.least_policy, told_promise.least_why) == ("c", "nodeTaintsPolicy", why)


def test_a_soft_constraint_leaves_no_pod_pending() -> None:
    nodes = [*NODES[:4], build_node("c1", "c", taints=[{"key": "sick", "effect": "NoSchedule"}])]
    soft = build_spread("web", whenUnsatisfiable="ScheduleAnyway")
    found = audit_topology(*build_pods("web", "a1", "a2", "b1", "b2", **soft), nodes=nodes)
    (skewed,) = (each for each in found.findings if each.rule == "audit-topology-skew")
    assert skewed.fix.startswith("Set nodeTaintsPolicy: Honor in the constraint, so that only domains")
    assert "Pending" not in skewed.fix


def test_constraint_shows_its_min_domains() -> None:
    assert not audit_spread_promise("web", *build_pods("web", "a1", "b1", **build_spread("web"))).min_domains_set
    assert audit_spread_promise(
        "web", *build_pods("web", "a1", "b1", **build_spread("web", minDomains=2))
    ).min_domains_set
    [note] = audit_topology(*build_pods("web", "a1", "b1", "c1", **build_spread("web"))).findings
    assert (note.rule, note.severity) == ("audit-topology-stranded-while-down", "note")


def test_nothing_is_called_sound_without_all_pods() -> None:
    cluster = replace(kschedctl.Cluster.from_objects(NODES), gaps={"Pod": Gap("could not be read")})
    found = build_topology_section(AuditedCluster(Scheduler(cluster)))
    assert (found.state, found.undecided) == ("unknown", True)
