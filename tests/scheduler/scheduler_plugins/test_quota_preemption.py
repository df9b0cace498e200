"""Check CapacityScheduling's preemption against upstream's own tables, plain loops, and messages by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from naive_quotas import (
    BOTH,
    EMPTY,
    EXCEEDED,
    GONE_TWICE,
    HOPELESS,
    SCALAR,
    Amounts,
    Asking,
    NaiveNode,
    NaivePod,
    NaiveQuota,
    NaiveVictims,
    add_amounts,
    select_victims_naively,
)

from kschedctl.cluster import Cluster
from kschedctl.replay.run_queue import run_queue
from kschedctl.replay.settling import settle
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.preemption.dry_run import dry_run
from kschedctl.scheduler.engine.preemption.evaluator import NEVER, TERMINATING, Preemption
from kschedctl.scheduler.framework import Code, PostFilterResult
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.scheduler_plugins.capacity_scheduling import NOT_PRE_FILTERED, CapacityScheduling
from kschedctl.scheduler.simulation.reused_answers import MAX_RETURNS, Preemptors
from kschedctl.scheduler.simulation.simulation import Simulation

Json = dict[str, Any]
NAME = CapacityScheduling.name
MID, HIGH = 100, 1000
MEMORY = "memory"
CONFIG: Json = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {
                "preFilter": {"enabled": [{"name": NAME}]},
                "postFilter": {"enabled": [{"name": NAME}], "disabled": [{"name": "*"}]},
                "reserve": {"enabled": [{"name": NAME}]},
            }
        }
    ],
}


def build_node(name: str, **allocatable: int) -> Json:
    amounts = {key.replace("gpu", SCALAR): str(amount) for key, amount in allocatable.items()}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"pods": "50", **amounts}}}


def build_pod(key: str, requests: Amounts, priority: int = MID, on: str = "", **more: Any) -> Json:
    """Build a pod. ``more`` has nominated, started, labels, terminating, and fields of its spec."""
    namespace, name = key.split("/")
    metadata: Json = {"namespace": namespace, "name": name, "labels": more.pop("labels", {})}
    if more.pop("terminating", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = {"nominatedNodeName": more.pop("nominated", ""), "startTime": more.pop("started", None)}
    amounts = {resource: str(amount) for resource, amount in requests.items()}
    container = {"name": "c", "image": "c", "resources": {"requests": amounts}}
    spec = {"containers": [container], "priority": priority, "schedulerName": "default-scheduler", **more}
    if on:
        spec["nodeName"] = on
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": {k: value for k, value in status.items() if value},
    }


def build_quota(namespace: str, least: Amounts | None, most: Amounts | None) -> Json:
    amounts = {"min": least, "max": most}
    spec = {key: {r: str(a) for r, a in found.items()} for key, found in amounts.items() if found is not None}
    return {"kind": "ElasticQuota", "metadata": {"name": "q", "namespace": namespace}, "spec": spec}


def build_budget(namespace: str, allowed: int, **labels: str) -> Json:
    spec = {"selector": {"matchLabels": labels}}
    status = {"disruptionsAllowed": allowed}
    return {"kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": namespace}, "spec": spec} | {
        "status": status
    }


def run_cluster_cycle(key: str, *objects: Json, config: Json = CONFIG) -> Cycle:
    return run_scheduler_cycle(Scheduler(Cluster.from_objects(list(objects), config=config, other_builds=True)), key)


def run_scheduler_cycle(scheduler: Scheduler, key: str) -> Cycle:
    framework = scheduler.find_framework("default-scheduler")
    found = scheduler.cluster.pod(*key.split("/"))
    assert framework is not None
    assert found is not None
    return scheduler.run_cycle(framework, found)


def run_post_filter(cycle: Cycle) -> PostFilterResult:
    """Run PostFilter of the plugin."""
    (plugin,) = cycle.framework.plugins_at("postFilter")
    assert isinstance(plugin, CapacityScheduling)
    return plugin.post_filter(cycle)


def list_candidates(result: PostFilterResult, cycle: Cycle) -> dict[str, list[str]]:
    report: Preemption = result.report
    pods, names = cycle.view.pods.objects, cycle.view.nodes.names
    return {names[each.row]: [pods[p].metadata.name for p in each.victims] for each in report.candidates}


# -- upstream's tables (capacity_scheduling_test.go) ----------------------------------------------------------------

M50 = {MEMORY: 50}
THREE = [
    build_pod("ns1/t1-p1", M50, MID, "node-a"),
    build_pod("ns2/t1-p2", M50, MID, "node-a"),
    build_pod("ns2/t1-p3", M50, MID, "node-a"),
]
IN_NAMESPACE = [build_quota("ns1", {MEMORY: 50}, {MEMORY: 200}), build_quota("ns2", {MEMORY: 200}, {MEMORY: 200})]
ACROSS = [build_quota("ns1", {MEMORY: 150}, {MEMORY: 200}), build_quota("ns2", {MEMORY: 50}, {MEMORY: 200})]


@pytest.mark.parametrize(
    ("quotas", "pods", "expected"),
    [
        (IN_NAMESPACE, THREE, ["t1-p1"]),
        (ACROSS, [THREE[0], build_pod("ns2/t1-p2", M50, HIGH, "node-a"), THREE[2]], ["t1-p3"]),
    ],
    ids=["in-namespace preemption", "cross-namespace preemption"],
)
def test_dry_run_table(quotas: list[Json], pods: list[Json], expected: list[str]) -> None:
    cycle = run_cluster_cycle(
        "ns1/t1-p", build_node("node-a", memory=150), *quotas, *pods, build_pod("ns1/t1-p", M50, HIGH)
    )
    assert list_candidates(run_post_filter(cycle), cycle) == {"node-a": expected}


@pytest.mark.parametrize(
    "quotas",
    [IN_NAMESPACE, ACROSS, []],
    ids=["in-namespace preemption", "cross-namespace preemption", "without elasticQuotas"],
)
def test_post_filter_table(quotas: list[Json]) -> None:
    result = run_post_filter(
        run_cluster_cycle(
            "ns1/t1-p", build_node("node-a", memory=150), *quotas, *THREE, build_pod("ns1/t1-p", M50, HIGH)
        )
    )
    assert (result.nominated_node, result.status.code) == ("node-a", Code.SUCCESS)


OF_NS1, OF_NS2 = (build_quota(each, {MEMORY: 50}, {MEMORY: 150}) for each in ("ns1", "ns2"))
USES_100 = build_pod("ns2/elsewhere", {MEMORY: 100}, MID, "node-b")
TAINTED = build_node("node-a", memory=150) | {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}


@pytest.mark.parametrize(
    ("node_a", "quotas", "here", "policy", "eligible"),
    [
        (TAINTED, [OF_NS1], build_pod("ns1/t1-p0", M50, MID, "node-a"), "Never", False),
        (TAINTED, [OF_NS1], build_pod("ns1/t1-p0", M50, MID, "node-a"), None, True),
        (None, [OF_NS1], build_pod("ns1/t1-p0", {}, MID, "node-a", terminating=True), None, False),
        (None, [OF_NS1, OF_NS2], build_pod("ns2/t1-p0", {}, MID, "node-a", terminating=True), None, False),
        (None, [], build_pod("ns2/t1-p0", {}, MID, "node-a", terminating=True), None, False),
        (None, [OF_NS2], build_pod("ns2/t1-p0", {}, MID, "node-a", terminating=True), None, True),
    ],
    ids=[
        "Pod with PreemptNever preemption policy",
        "Pod with unschedulableAndUnresolvable nominated node",
        "Pod with terminating pod in the same namespace",
        "Pod with terminating pod in another namespace",
        "Pod without elasticQuotas and terminating pod exists in the same namespace",
        "Pod without ElasticQuotas and terminating pod exists in another namespace",
    ],
)
def test_eligible_table(
    node_a: Json | None, quotas: list[Json], here: Json, policy: str | None, eligible: bool
) -> None:
    """The table's usage besides the terminating pod is that of another pod on another node."""
    asking = build_pod("ns1/t1-p1", {}, HIGH, nominated="node-a", preemptionPolicy=policy)
    nodes = [node_a or build_node("node-a", memory=150), build_node("node-b", memory=100)]
    result = run_post_filter(run_cluster_cycle("ns1/t1-p1", *nodes, *quotas, here, USES_100, asking))
    why = NEVER if policy else TERMINATING
    assert (result.report.eligible, result.report.why) == (eligible, "" if eligible else why)


# -- against plain loops ---------------------------------------------------------------------------------------------

NAMESPACES = ("a", "b", "c", "d")
amounts = st.fixed_dictionaries({"cpu": st.integers(0, 4), SCALAR: st.integers(0, 1)})
limits = st.fixed_dictionaries({"cpu": st.integers(0, 12)}, optional={SCALAR: st.integers(0, 4)})
naive_quotas = st.builds(lambda least, most: NaiveQuota(least, most, {}), limits, st.one_of(st.none(), limits))
priorities = st.integers(0, 2)
naive_pods = st.builds(
    lambda namespace, priority, cpu, gpu, started, protected: NaivePod(
        "", namespace, priority, (cpu, gpu), started, protected
    ),
    st.sampled_from(NAMESPACES),
    priorities,
    st.integers(0, 4),
    st.integers(0, 1),
    st.one_of(st.none(), st.integers(0, 2)),
    st.booleans(),
)
clusters = st.fixed_dictionaries(
    {
        "quotas": st.dictionaries(st.sampled_from(NAMESPACES[:3]), naive_quotas),
        "nodes": st.lists(st.lists(naive_pods, min_size=2, max_size=6), min_size=1, max_size=3),
        "nominated": st.lists(st.tuples(st.integers(0, 2), naive_pods), max_size=2),
        "asking": naive_pods,
        "allowed": st.integers(0, 1),
    }
)
CAPACITY = {"cpu": 6, SCALAR: 2}
PROTECTED_IN = "b"


def build_naive_pod(found: NaivePod, name: str) -> NaivePod:
    protected = found.protected and found.namespace == PROTECTED_IN
    return NaivePod(name, found.namespace, found.priority, found.requests, found.started, protected)


def build_pod_document(found: NaivePod, on: str = "", nominated: str = "") -> Json:
    started = None if found.started is None else f"2026-01-01T00:00:0{found.started}Z"
    labels = {"app": "protected"} if found.protected else {"app": "free"}
    key = f"{found.namespace}/{found.name}"
    return build_pod(key, found.amounts, found.priority, on, nominated=nominated, started=started, labels=labels)


@given(clusters)
def test_victims_agree_with_plain_loops(cluster: Json) -> None:
    names = [f"n{i}" for i in range(len(cluster["nodes"]))]
    there = {
        name: [build_naive_pod(each, f"{name}-{i}") for i, each in enumerate(pods)]
        for name, pods in zip(names, cluster["nodes"], strict=True)
    }
    nominated = [
        (names[where], build_naive_pod(each, f"w{i}"))
        for i, (where, each) in enumerate(cluster["nominated"])
        if where < len(names)
    ]
    asking = build_naive_pod(cluster["asking"], "asking")
    quotas = build_naive_quotas(cluster["quotas"], [each for pods in there.values() for each in pods])
    objects = [
        *(build_node(name, cpu=CAPACITY["cpu"], gpu=CAPACITY[SCALAR]) for name in names),
        *(build_quota(namespace, each.least, each.most) for namespace, each in quotas.items()),
        *(build_pod_document(each, name) for name, pods in there.items() for each in pods),
        *(build_pod_document(each, nominated=name) for name, each in nominated),
        build_pod_document(asking),
        build_budget(PROTECTED_IN, cluster["allowed"], app="protected"),
    ]
    cycle = run_cluster_cycle(f"{asking.namespace}/asking", *objects)
    claim = build_asking(asking, quotas, [each for _, each in nominated])
    expected = {}
    for name, pods in there.items():
        yielding_to = [each for where, each in nominated if where == name and each.priority >= asking.priority]
        came = sorted(pods, key=lambda each: cycle.view.pods.index[f"{each.namespace}/{each.name}"])
        expected[name] = select_victims_naively(
            NaiveNode(CAPACITY, came, quotas), claim, yielding_to, cluster["allowed"]
        )
    for found in expected.values():
        event(found if isinstance(found, str) else "victims")
    assert dry_run_all_nodes(cycle) == expected


def build_naive_quotas(quotas: dict[str, NaiveQuota], pods: list[NaivePod]) -> dict[str, NaiveQuota]:
    return {
        namespace: NaiveQuota(
            each.least, each.most, add_amounts(*(p.amounts for p in pods if p.namespace == namespace))
        )
        for namespace, each in quotas.items()
    }


def build_asking(asking: NaivePod, quotas: dict[str, NaiveQuota], nominated: list[NaivePod]) -> Asking:
    ours, others = dict.fromkeys(BOTH, 0), dict.fromkeys(BOTH, 0)
    for each in nominated:
        if each.namespace not in quotas or asking.namespace not in quotas:
            continue
        if each.namespace == asking.namespace and each.priority >= asking.priority:
            ours = add_amounts(ours, each.amounts)
        elif each.namespace != asking.namespace and not quotas[each.namespace].over_min():
            others = add_amounts(others, each.amounts)
    return Asking(asking, ours, others)


def dry_run_all_nodes(cycle: Cycle) -> dict[str, NaiveVictims | str]:
    """Return the answer under test for each node, in the same form."""
    (plugin,) = cycle.framework.plugins_at("postFilter")
    assert isinstance(plugin, CapacityScheduling)
    view = cycle.view
    result = dry_run(cycle, np.ones(len(view.nodes), np.bool_), plugin.build_selection(cycle))
    found: dict[str, NaiveVictims | str] = dict.fromkeys(view.nodes.names, EXCEEDED)
    for row, name in enumerate(view.nodes.names):
        if result.without_evictable_pods[row]:
            found[name] = EMPTY
        elif result.rejected_by_filters[row]:
            found[name] = HOPELESS
        elif row in result.put_back_errors:
            found[name] = GONE_TWICE
    for each in result.candidates:
        victims = [view.pods.objects[p].metadata.name for p in each.victims]
        found[view.nodes.names[each.row]] = NaiveVictims(victims, each.pdb_violations)
    assert result.rejected_by_selection.get(EXCEEDED, 0) == sum(each == EXCEEDED for each in found.values())
    return found


# -- its words, by hand ----------------------------------------------------------------------------------------------


def test_each_node_without_victims_is_named() -> None:
    """Upstream's Preempt has nothing before the message, and every node has its own reason."""
    quotas = [build_quota("a", {"cpu": 9}, None)]
    full = [build_pod(f"other/{name}", {"cpu": 2}, 1, name) for name in ("n1", "n2")]
    objects = [build_node("n1", cpu=2), build_node("n2", cpu=2), *quotas, *full, build_pod("a/web", {"cpu": 2})]
    status = run_post_filter(run_cluster_cycle("a/web", *objects)).status
    told = [f"1 No victims found on node {name} for preemptor pod web" for name in ("n1", "n2")]
    assert status.reasons == (f"0/2 nodes are available: {', '.join(told)}.",)


def test_max_that_evictions_cannot_satisfy() -> None:
    """The pod needs 3 of a max of 4, of which a more important pod on the other node uses 2."""
    objects = [
        build_node("n1", cpu=4),
        build_node("n2", cpu=4),
        build_quota("a", {"cpu": 1}, {"cpu": 4}),
        build_quota("b", {"cpu": 9}, None),
        build_pod("a/less", {"cpu": 1}, 1, "n1"),
        build_pod("a/more", {"cpu": 2}, 9, "n2"),
        build_pod("a/web", {"cpu": 3}, 5),
    ]
    status = run_post_filter(run_cluster_cycle("a/web", *objects)).status
    told = "1 No victims found on node n2 for preemptor pod web, 1 global quota max exceeded"
    assert (status.code, status.reasons) == (Code.UNSCHEDULABLE, (f"0/2 nodes are available: {told}.",))


def test_evicting_twice_fails() -> None:
    """The nominated pod first/a leaves no quota, so the victim that still does not fit would be removed twice."""
    objects = [
        build_node("n1", cpu=2),
        build_node("n2", cpu=9),
        build_quota("a", {"cpu": 1}, {"cpu": 4}),
        build_quota("b", {"cpu": 99}, None),
        build_pod("a/less", {"cpu": 1}, 1, "n1"),
        build_pod("a/first", {"cpu": 3}, 5, nominated="n2"),
        build_pod("a/web", {"cpu": 2}, 5, nodeSelector={"kubernetes.io/hostname": "n1"}),
    ]
    objects[0]["metadata"]["labels"] = {"kubernetes.io/hostname": "n1"}
    status = run_post_filter(run_cluster_cycle("a/web", *objects)).status
    assert (status.code, status.reasons) == (Code.ERROR, ("no corresponding pod less in pods of node n1",))


def test_preemption_needs_the_pre_filter_state() -> None:
    plugins = {"postFilter": {"enabled": [{"name": NAME}], "disabled": [{"name": "*"}]}}
    objects = [build_node("n1", cpu=1), build_pod("a/less", {"cpu": 1}, 1, "n1"), build_pod("a/web", {"cpu": 1}, 5)]
    cycle = run_cluster_cycle("a/web", *objects, config={**CONFIG, "profiles": [{"plugins": plugins}]})
    assert run_post_filter(cycle).status.reasons == (NOT_PRE_FILTERED,)


def test_victims_are_sorted_by_importance_since_1_31() -> None:
    """Before 1.31, victims that violate a PDB came first regardless of their importance, here b/low.

    Both pods must be evicted.
    """
    objects = [
        build_node("n1", cpu=2),
        build_pod("b/low", {"cpu": 1}, 1, "n1", labels={"app": "x"}),
        build_pod("b/mid", {"cpu": 1}, 2, "n1"),
        build_pod("b/web", {"cpu": 2}, 5),
        build_budget("b", 0, app="x"),
    ]
    for version, expected in {"1.30": ["low", "mid"], "1.31": ["mid", "low"]}.items():
        cluster = Cluster.from_objects(objects, config=CONFIG, other_builds=True, kube_version=version)
        scheduler = Scheduler(cluster)
        cycle = run_scheduler_cycle(scheduler, "b/web")
        assert list_candidates(run_post_filter(cycle), cycle) == {"n1": expected}


# -- while pods are placed -------------------------------------------------------------------------------------------

TWO = [build_quota("a", {"cpu": 4}, {"cpu": 8}), build_quota("b", {"cpu": 4}, {"cpu": 8})]


BORROWED = [build_pod(f"b/p{i}", {"cpu": 2}, HIGH + i, "n1") for i in range(3)]
LENT = [build_node("n1", cpu=6), *TWO, build_pod("a/web", {"cpu": 2}, -5)]


def set_owner(document: Json) -> Json:
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True, "apiVersion": "apps/v1"}
    return document | {"metadata": {**document["metadata"], "ownerReferences": [owner]}}


def build_simulation(*objects: Json) -> Simulation:
    return Simulation(Scheduler(Cluster.from_objects(list(objects), config=CONFIG, other_builds=True)))


def test_borrowed_quota_is_reclaimed_at_any_priority() -> None:
    """b uses 6 of 8 CPUs, 2 more than its min.

    The pod of a has the lowest priority and still gets its 2, from the least important pod of b.
    """
    simulation = build_simulation(*LENT, *BORROWED)
    (outcome,) = simulation.run([simulation.view.pods.index["a/web"]])
    victims = [simulation.view.pods.objects[p].key for p in outcome.victims]
    assert (outcome.row, victims) == (0, ["b/p0"])


def test_preempted_pod_may_not_borrow_again() -> None:
    """The recreated b/p0 would make b use 6 CPUs again, while a uses no more than its min."""
    lent = [*LENT[:-1], build_pod("a/web", {"cpu": 2}, 2 * HIGH)]
    cluster = Cluster.from_objects([*lent, *map(set_owner, BORROWED)], config=CONFIG, other_builds=True)
    found = settle(cluster)
    assert (found.placed, found.evicted, set(found.waiting)) == (1, ("b/p0",), {"b/p0"})


def test_borrower_of_higher_priority_takes_the_room_again() -> None:
    """With a/web (2 CPUs) nominated and b/p0 recreated, the quotas use exactly the sum of their mins, 8.

    A nomination reserves no room against pods of higher priority, so b/p0 is back before a/web each time, and a/web
    waits.
    """
    cluster = Cluster.from_objects([*LENT, *map(set_owner, BORROWED)], config=CONFIG, other_builds=True)
    assert set(settle(cluster).waiting) == {"a/web"}


def test_pod_that_was_preempted_often_may_not_preempt() -> None:
    """Preemption by priority ends by itself, but preemption by quota needs this limit."""
    simulation = build_simulation(*LENT, *BORROWED)
    web = simulation.view.pods.index["a/web"]
    framework, preemptors = simulation.find_framework(web), Preemptors(simulation.view)
    info = simulation.placements.build_arriving_info(web)
    assert framework is not None
    assert preemptors.may_preempt(framework, web, info)
    preemptors.preemption_counts[web] = MAX_RETURNS
    assert not preemptors.may_preempt(framework, web, info)


def test_queue_retries_the_pod_once_its_victim_is_gone() -> None:
    """The pod waits for n1 meanwhile, without being gated, because these evictions are not asynchronous."""
    found = run_queue(Cluster.from_objects([*LENT, *BORROWED], config=CONFIG, other_builds=True), closed_loop=True)
    first, second = found.cycles
    assert (first.victims, first.failed["a/web"].nominated) == (("b/p0",), "n1")
    assert (second.bound, found.gated) == ({"a/web": "n1"}, {})
