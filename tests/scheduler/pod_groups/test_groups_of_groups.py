"""Check groups of groups in 1.37: upstream's integration tests by name, and its rules one by one.

Upstream: test/integration/scheduler/podgroup (TestCPG...), pkg/scheduler/schedule_one_podgroup.go and
pkg/scheduler/framework/preemption/types.go. Where those tests are older than the rule that pods have the priority of
their root, the root has theirs.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple

import pytest
from group_clusters import Json, build_gang, build_node, build_pod
from hypothesis import given, settings
from hypothesis import strategies as st
from plugin_cases import parametrize_cases

from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import explain
from kschedctl.replay.run_queue import run_queue

GATES = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True}
PRIORITY = 100


def build_composite_group(name: str, parent: str = "", least: int = 0, **spec: Any) -> Json:
    policy = {"gang": {"minGroupCount": least}} if least else {"basic": {}}
    above = {"parentCompositePodGroupName": parent} if parent else {}
    meta = {"name": name, "namespace": "a"}
    spec = {"schedulingPolicy": policy, "priority": PRIORITY, **above, **spec}
    return {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup", "metadata": meta, "spec": spec}


def build_group(name: str, parent: str = "", least: int = 0, **spec: Any) -> Json:
    made = build_gang(name, least, priority=PRIORITY, **spec)
    above = {"parentCompositePodGroupName": parent} if parent else {}
    policy = {} if least else {"schedulingPolicy": {"basic": {}}}
    return {**made, "apiVersion": "scheduling.k8s.io/v1beta1", "spec": {**made["spec"], **above, **policy}}


def build_pods(of: str, count: int, cpu: int = 1, **fields: Any) -> list[Json]:
    return [build_pod(f"{of}-{i}", of, cpu, PRIORITY, **fields) for i in range(count)]


def build_cluster(*objects: Json | list[Json], **gates: bool) -> Cluster:
    flat = [one for each in objects for one in (each if isinstance(each, list) else [each])]
    return Cluster.from_objects(flat, kube_version="1.37", feature_gates={**GATES, **gates}, assume_complete=True)


def get_bound_groups(cluster: Cluster, *, closed_loop: bool = False) -> set[str]:
    """Return the groups whose pods get nodes."""
    cycles = run_queue(cluster, closed_loop=closed_loop).cycles
    return {name.partition("/")[2].rpartition("-")[0] for cycle in cycles for name in cycle.bound}


# -- upstream's integration tests ------------------------------------------------------------------------------------

HIERARCHY = [
    build_composite_group("root", least=2),
    build_composite_group("s1", "root", 2),
    build_composite_group("s2", "root"),
    build_composite_group("s3", "root", 2),
]
HIERARCHY += [build_group(name, "s1", 3) for name in ("pg1", "pg2", "pg3")] + [
    build_group("pg4", "s2"),
    build_group("pg5", "s2", 3),
]
HIERARCHY += [build_group("pg6", "s3", 3), build_group("pg7", "s3", 3)]
TESTS: dict[str, tuple[list[Json], int, dict[str, tuple[int, int]], set[str]]] = {
    "TestCPGHierarchicalScheduling": (
        HIERARCHY,
        20,
        {**{f"pg{i}": (3, 1) for i in (1, 2, 4, 5, 6)}, "pg3": (3, 100), "pg7": (3, 100)},
        {"pg1", "pg2", "pg4", "pg5"},
    ),
    "TestCPGMinGroupCount": (
        [build_composite_group("root", least=2), *(build_group(name, "root", 3) for name in ("pg1", "pg2", "pg3"))],
        20,
        {"pg1": (3, 1), "pg2": (3, 1), "pg3": (3, 100)},
        {"pg1", "pg2"},
    ),
    "TestCPGBasicWithGangChildren": (
        [build_composite_group("root"), build_group("pg1", "root", 3), build_group("pg2", "root", 3)],
        20,
        {"pg1": (3, 1), "pg2": (3, 100)},
        {"pg1"},
    ),
    "TestCPGBasicWithBasicChildren": (
        [build_composite_group("root"), build_group("pg1", "root"), build_group("pg2", "root")],
        20,
        {"pg1": (2, 1), "pg2": (2, 1)},
        {"pg1", "pg2"},
    ),
    "TestCPGGangWithBasicChildren": (
        [build_composite_group("root", least=2), *(build_group(name, "root") for name in ("pg1", "pg2", "pg3"))],
        8,
        {"pg1": (3, 1), "pg2": (3, 1), "pg3": (3, 10)},
        {"pg1", "pg2"},
    ),
    "TestCPGBasicWithUnschedulableBasicChildren": (
        [build_composite_group("root"), build_group("pg1", "root"), build_group("pg2", "root")],
        20,
        {"pg1": (2, 50), "pg2": (2, 50)},
        set(),
    ),
}


@pytest.mark.parametrize("name", TESTS)
def test_integration(name: str) -> None:
    groups, cpu, wanted, placed = TESTS[name]
    waiting = [each for of, (count, cpus) in wanted.items() for each in build_pods(of, count, cpus)]
    tried = build_cluster(groups, build_node("node1", cpu), waiting)
    assert get_bound_groups(tried) == placed
    for of in wanted:
        report = explain(tried, f"a/{of}-0")
        undecided = name == "TestCPGHierarchicalScheduling"  # in 144 orders, of which not all are tried
        assert (report.verdict == "Schedulable", report.undecided) == (of in placed, undecided)


@pytest.mark.parametrize(("subs", "placed"), [(1, False), (2, True)])
def test_groups_added_to_a_composite_group(subs: int, placed: bool) -> None:
    """Upstream's TestCPGDynamicChildAddition.

    A composite group that lacks a child waits, although its siblings have nodes.
    """
    there = [
        build_composite_group("root"),
        build_group("pg1", "root"),
        build_group("pg2", "root"),
        build_composite_group("sub", "root", 2),
    ]
    running = [*build_pods("pg1", 1, bound="n"), *build_pods("pg2", 1, bound="n")]
    added = [each for i in range(subs) for each in (build_group(f"sub{i}", "sub"), *build_pods(f"sub{i}", 1))]
    tried = build_cluster(there, build_node("n", 20), running, added)
    assert get_bound_groups(tried) == ({"sub0", "sub1"} if placed else set())
    report = explain(tried, "a/sub0-0")
    if not placed:
        assert report.pod_group is not None
        assert "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining" in (report.message or "")


# -- rules -----------------------------------------------------------------------------------------------------------


def test_all_groups_are_placed_in_one_domain() -> None:
    """Zone a has room for the workers only, zone b for all groups.

    The workers by themselves would be placed in zone a.
    """
    there = [build_composite_group("root", least=2, schedulingConstraints={"topology": [{"key": "zone"}]})]
    there += [build_group("driver", "root"), build_group("workers", "root", 2)]
    nodes = [
        {**build_node(name, cpu), "metadata": {"name": name, "labels": {"zone": name}}}
        for name, cpu in (("a", 2), ("b", 3))
    ]
    tried = build_cluster(there, nodes, build_pods("workers", 2), build_pods("driver", 1))
    (cycle,) = run_queue(tried).cycles
    assert set(cycle.bound.values()) == {"b"}
    assert (cycle.group, sorted(cycle.groups)) == ("a/root", ["a/driver", "a/workers"])


def test_child_group_is_placed_within_its_parents_domain() -> None:
    """The root needs one zone, and each child one rack within the zone.

    In zone a, no rack has room for the second child.
    """
    there = [build_composite_group("root", least=2, schedulingConstraints={"topology": [{"key": "zone"}]})]
    rack = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    there += [build_group("x", "root", 2, **rack), build_group("y", "root", 2, **rack)]
    shape = [("a", "a1", 2), ("a", "a2", 1), ("a", "a3", 1), ("b", "b1", 2), ("b", "b2", 2)]
    nodes = [
        {**build_node(name, cpu), "metadata": {"name": name, "labels": {"zone": zone, "rack": name}}}
        for zone, name, cpu in shape
    ]
    (cycle,) = run_queue(build_cluster(there, nodes, build_pods("x", 2), build_pods("y", 2))).cycles
    assert sorted(cycle.bound.values()) == ["b1", "b1", "b2", "b2"]


def test_messages_if_the_root_does_not_fit() -> None:
    """A child that fits by itself gets the root's status.

    Both groups that share the status append their reason to it.
    """
    there = [build_composite_group("root", least=2), build_group("x", "root", 1), build_group("y", "root", 2)]
    (cycle,) = run_queue(build_cluster(there, build_node("n", 2), build_pods("x", 1), build_pods("y", 2))).cycles
    nowhere = "pod group is unschedulable, 0/1 placements are available, first placement status: "
    few = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    none = ", pod group preemption: No preemption victims found for incoming preemptor"
    assert cycle.groups["a/y"].status.message == nowhere + few + none
    assert cycle.status is not None
    assert cycle.status.message == nowhere + few + 2 * none
    assert cycle.groups["a/x"].status == cycle.status
    assert cycle.failed["a/x-0"].message == nowhere + few
    condition = cycle.groups["a/x"].condition
    assert condition is not None
    assert (condition.type, condition.status) == ("PodGroupInitiallyScheduled", "False")


BROKEN: dict[str, tuple[list[Json], str]] = {
    "no group": ([], "pod group object not found in state for podgroup/a/g"),
    "no parent": ([build_group("g", "c1")], "composite pod group object not found in state for compositepodgroup/a/c1"),
    "a gap": (
        [build_group("g", "c1"), build_composite_group("c1", "c2"), build_composite_group("c2", "c3")],
        "composite pod group object not found in state for compositepodgroup/a/c3",
    ),
    "a circle": (
        [build_group("g", "c1"), build_composite_group("c1", "c2"), build_composite_group("c2", "c1")],
        "cycle detected in composite pod group hierarchy: compositepodgroup/a/c2",
    ),
    "too deep": (
        [
            build_group("g", "c1"),
            *(build_composite_group(f"c{i}", f"c{i + 1}") for i in range(1, 5)),
            build_composite_group("c5"),
        ],
        "composite pod group object not found in state for compositepodgroup/a/c1",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_invalid_trees_are_rejected(name: str) -> None:
    objects, said = BROKEN[name]
    report = explain(build_cluster(objects, build_node("n", 4), build_pods("g", 1)), "a/g-0")
    assert report.verdict == "Gated"
    assert report.headline == f"failed to build hierarchy snapshot: {said}"


def test_pods_must_have_the_priority_of_the_root() -> None:
    there = [build_composite_group("root", priority=7), build_group("g", "root")]
    (cycle,) = run_queue(build_cluster(there, build_node("n", 4), build_pods("g", 1))).cycles
    said = "all pods in a single pod group should have the same priority as the pod group's priority, got 100 and 7"
    assert cycle.failed["a/g-0"].message == said
    assert explain(build_cluster(there, build_node("n", 4), build_pods("g", 1)), "a/g-0").message == said


def test_parent_is_ignored_without_the_feature_gate() -> None:
    there = [build_group("g", "nowhere", 1)]
    tried = build_cluster(there, build_node("n", 4), build_pods("g", 1), CompositePodGroup=False)
    assert explain(tried, "a/g-0").verdict == "Schedulable"


@pytest.mark.parametrize(("least", "undecided"), [(1, True), (2, False)])
def test_answer_is_undecided_if_the_order_of_groups_decides(least: int, undecided: bool) -> None:
    """One of the two groups fits. If both must have nodes, none fits in any order."""
    there = [build_composite_group("root", least=least), build_group("x", "root", 2), build_group("y", "root", 2)]
    tried = build_cluster(there, build_node("n", 3), build_pods("x", 2), build_pods("y", 2))
    for of in ("x", "y"):
        report = explain(tried, f"a/{of}-0")
        assert report.undecided is undecided
        assert [each.kind for each in report.unknown] == ["CompositePodGroup"] * undecided
        tree = report.pod_group and report.pod_group.tree
        assert tree is not None
        assert (tree.by_chance, tree.all_orders) == (undecided, True)


def test_answer_is_undecided_if_not_all_orders_are_tried() -> None:
    there = [build_composite_group("root"), *(build_group(f"g{i}", "root") for i in range(5))]
    report = explain(build_cluster(there, build_node("n", 9), *(build_pods(f"g{i}", 1) for i in range(5))), "a/g0-0")
    tree = report.pod_group and report.pod_group.tree
    assert tree is not None
    assert (tree.by_chance, tree.all_orders, report.undecided) == (False, False, True)


def test_simulations_with_composite_groups_are_undecided() -> None:
    import kschedctl  # noqa: PLC0415

    there = [build_composite_group("root"), build_group("g", "root")]
    assert kschedctl.whatif(build_cluster(there, build_node("n", 4), build_pods("g", 1)), None).undecided


def test_headline_of_a_group_that_would_fit_by_itself() -> None:
    there = [build_composite_group("root", least=2), build_group("x", "root", 1), build_group("y", "root", 2)]
    tried = build_cluster(there, build_node("n", 2), build_pods("x", 1), build_pods("y", 2))
    assert explain(tried, "a/x-0").headline == (
        "its CompositePodGroup root needs nodes for 2 groups at once, but fewer fit"
    )
    assert explain(tried, "a/y-0").headline == "its gang y needs nodes for 2 pods at once, but only 1 fits"


# -- preemption ------------------------------------------------------------------------------------------------------


def test_tree_preempts_as_a_whole() -> None:
    """There is room for one of the two groups. One victim makes room for the other, and both are nominated."""
    there = [build_composite_group("root", least=2), build_group("x", "root"), build_group("y", "root")]
    lower = [build_pod(f"low{i}", cpu=1, priority=0, bound="n") for i in range(2)]
    (cycle,) = run_queue(build_cluster(there, build_node("n", 3), build_pods("x", 1), build_pods("y", 1), lower)).cycles
    assert len(cycle.victims) == 1
    assert {failure.nominated for failure in cycle.failed.values()} == {"n"}
    assert cycle.waiting_on_preemption
    report = explain(build_cluster(there, build_node("n", 3), build_pods("x", 1), build_pods("y", 1), lower), "a/x-0")
    assert report.headline == "its CompositePodGroup root fits once 1 pod has made room for it"


@pytest.mark.parametrize(
    ("root", "sub", "gone"),
    [
        ({}, {}, {"v2", "v3"}),
        ({"all": {}}, {}, {"v1", "v2", "v3"}),
        ({}, {"all": {}}, {"v1", "v2"}),
        ({"all": {}}, {"all": {}}, {"v1", "v2", "v3"}),
        ({"single": {}}, {}, {"v2", "v3"}),
    ],
)
def test_victims_that_are_evicted_as_a_whole(root: Json, sub: Json, gone: set[str]) -> None:
    """The preemptor needs the room of two pods.

    The highest group that is disrupted as a whole decides which pods are victims.
    """
    victims = [build_composite_group("v", priority=0, **({"disruptionMode": root} if root else {}))]
    victims += [build_composite_group("w", "v", priority=0, **({"disruptionMode": sub} if sub else {}))]
    victims += [build_group("v1", "w"), build_group("v2", "w"), build_group("v3", "v")]
    running = [build_pod(f"{of}-0", of, 1, 0, bound="n") for of in ("v1", "v2", "v3")]
    tried = build_cluster(victims, build_group("g"), running, build_pods("g", 1, 2), build_node("n", 3))
    (cycle,) = run_queue(tried).cycles
    assert {name.removeprefix("a/").removesuffix("-0") for name in cycle.victims} == gone


def test_priority_of_the_root_protects_its_pods() -> None:
    """A pod of a lower priority than its tree is not evicted."""
    there = [build_composite_group("v", priority=200), build_group("v1", "v"), build_group("g")]
    running = [build_pod("v1-0", "v1", 1, 0, bound="n")]
    (cycle,) = run_queue(build_cluster(there, running, build_pods("g", 1), build_node("n", 1))).cycles
    assert not cycle.victims


@parametrize_cases("grouppreemption137", "grouppreemption")
def test_victims_of_groups_in_upstreams_table(case: Json) -> None:
    """The cases are upstream's integration tests. Each is one cycle of a group whose pods all exist."""
    objects = [*case["objects"], *case["running"], *case["preemptors"]]
    gates = case["featureGates"]
    tried = Cluster.from_objects(objects, kube_version="1.37", feature_gates=gates, assume_complete=True)
    cycle = run_queue(tried).cycles[0]
    assert sorted(name.removeprefix("default/") for name in cycle.victims) == case["want"]["preempted"]
    nominated = sorted(name.removeprefix("default/") for name, failed in cycle.failed.items() if failed.nominated)
    assert case["want"]["nominated"] in (None, nominated)
    assert not cycle.bound


# -- against a naive replay ------------------------------------------------------------------------------------------


class Naive(NamedTuple):
    """A naive cycle of a tree: each pod is asked for its node separately.

    ``waiting`` has the waiting pods of each PodGroup.
    """

    nodes: list[Json]
    children: dict[str, list[str]]
    least: dict[str, int]
    waiting: dict[str, list[Json]]

    def placed(self, name: str, there: list[Json]) -> dict[str, str] | None:
        """Return the node of each placed pod, given the existing pods, or None if too few pods of the group fit."""
        found: dict[str, str] = {}
        if name in self.waiting:
            for member in self.waiting[name]:
                alone = deepcopy(member)
                del alone["spec"]["schedulingGroup"]
                report = explain(build_cluster(self.nodes, there, alone), f"a/{alone['metadata']['name']}")
                if report.feasible:
                    found[report.pod] = min(report.best) if len(report.feasible) > 1 else report.feasible[0]
                    there = [*there, {**alone, "spec": {**alone["spec"], "nodeName": found[report.pod]}}]
            return found if len(found) >= self.least[name] else None
        fitting = 0
        for child in self.children[name]:
            below = self.placed(child, [*there, *self.bound(found)])
            fitting += below is not None
            found |= below or {}
        return found if fitting >= self.least[name] else None

    def bound(self, found: dict[str, str]) -> list[Json]:
        every = [each for pods_of in self.waiting.values() for each in pods_of]
        return [
            {
                **each,
                "spec": {**{k: v for k, v in each["spec"].items() if k != "schedulingGroup"}, "nodeName": found[key]},
            }
            for each in every
            if (key := f"a/{each['metadata']['name']}") in found
        ]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.tuples(st.sampled_from("rst"), st.integers(0, 2), st.lists(st.integers(1, 3), max_size=3)), max_size=4),
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2)),
)
def test_trees_are_placed_as_by_a_naive_cycle(cpus: list[int], leaves: list[Any], least: tuple[int, int, int]) -> None:
    """The root ``r`` has two composite groups, ``s`` and ``t``. Each PodGroup belongs to one of these three."""
    nodes = [build_node(f"n{i}", cpu) for i, cpu in enumerate(cpus)]
    composites = [
        build_composite_group("r", least=least[0]),
        build_composite_group("s", "r", least[1]),
        build_composite_group("t", "r", least[2]),
    ]
    groups = [build_group(f"g{i}", parent, count) for i, (parent, count, _) in enumerate(leaves)]
    waiting = {
        f"g{i}": [build_pod(f"g{i}-{k}", f"g{i}", cpu, PRIORITY) for k, cpu in enumerate(each[2])]
        for i, each in enumerate(leaves)
    }
    children = {name: [f"g{i}" for i, each in enumerate(leaves) if each[0] == name] for name in "rst"}
    children["r"] += ["s", "t"]
    needed = {f"g{i}": max(count, 1) for i, (_, count, _) in enumerate(leaves)}
    needed |= {name: max(count, 1) for name, count in zip("rst", least, strict=True)}
    cycles = run_queue(build_cluster(nodes, composites, groups, *waiting.values())).cycles
    if not cycles:
        assert not any(waiting.values()) or not is_ready("r", children, needed, waiting)
        return
    turn = {name: place for place, name in enumerate(cycles[0].order)}
    for of_group in waiting.values():
        of_group.sort(key=lambda each: turn[f"a/{each['metadata']['name']}"])
    assert dict(cycles[0].bound) == (Naive(nodes, children, needed, waiting).placed("r", []) or {})


def is_ready(name: str, children: dict[str, list[str]], needed: dict[str, int], waiting: dict[str, list[Json]]) -> bool:
    there = waiting.get(name, [below for below in children.get(name, []) if is_ready(below, children, needed, waiting)])
    return len(there) >= needed[name]
