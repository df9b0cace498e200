"""Compare workload-aware preemption with a naive loop over single pods.

Upstream: selectVictimsOnDomain in pkg/scheduler/framework/preemption/podgrouppreemption.go (v1.36).
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple

from group_clusters import GATES, Json, build_cluster, build_gang, build_node, build_pod
from hypothesis import given, settings
from hypothesis import strategies as st

from kschedctl.commands.explain.one_pod import explain
from kschedctl.replay.run_queue import run_queue

WORKLOAD_AWARE = {**GATES, "WorkloadAwarePreemption": True}
PRIORITY = 5
"""Of the group that preempts. ``h`` goes as a whole, ``i`` pod by pod."""
GROUPS = [
    build_gang("h", 1, priority=0, disruptionMode="PodGroup"),
    build_gang("i", 1, priority=20, disruptionMode="Pod"),
]
running_pods = st.lists(
    st.tuples(
        st.integers(0, 1),  # node
        st.integers(1, 2),  # cpu
        st.sampled_from(("", "", "h", "h", "i", "g")),
        st.sampled_from((-10, -1, 0, 3, 30)),
        st.sampled_from(("", "x", "y")),  # by which budgets select
    ),
    max_size=5,
)
waiting_pods = st.lists(st.tuples(st.integers(1, 3), st.sampled_from((0, 10))), min_size=1, max_size=3)
budgets = st.dictionaries(st.sampled_from(("x", "y")), st.integers(0, 1))


class Unit(NamedTuple):
    """Pods that are evicted together."""

    priority: int
    grouped: bool
    pods: list[Json]

    @property
    def importance(self) -> tuple[Any, ...]:
        size = len(self.pods) if self.grouped else 0
        return -self.priority, not self.grouped, -size, self.pods[0]["status"]["startTime"]


class Naive(NamedTuple):
    """A naive group cycle: of the group's pods, ``seq`` wait, in order, ``own`` have a node, and ``count`` need one."""

    nodes: list[Json]
    seq: list[Json]
    own: int
    count: int

    def placed(self, running: list[Json]) -> dict[str, str]:
        """Place the members one by one beside the running pods. Return {} if too few fit."""
        there, found = list(running), {}
        for member in self.seq:
            alone = deepcopy(member)
            del alone["spec"]["schedulingGroup"]
            report = explain(build_cluster([*self.nodes, *there, alone], {}), f"a/{member['metadata']['name']}")
            if report.feasible:
                found[report.pod] = min(report.best) if len(report.feasible) > 1 else report.feasible[0]
                there.append({**alone, "spec": {**alone["spec"], "nodeName": found[report.pod]}})
        return found if self.own + len(found) >= self.count else {}

    def victims(self, running: list[Json], allowed: dict[str, int]) -> list[str]:
        below = [unit for unit in list_units(running) if unit.priority < PRIORITY]
        gone = [each["metadata"]["name"] for unit in below for each in unit.pods]
        left = [each for each in running if each["metadata"]["name"] not in gone]
        if not below or not self.placed(left):
            return []
        protected: list[Unit] = []
        others: list[Unit] = []
        for unit in sorted(below, key=lambda unit: unit.importance):
            (protected if breaks_budget(unit, allowed) else others).append(unit)
        evicted = []
        for unit in protected + others:
            if self.placed(left + unit.pods):
                left += unit.pods
            else:
                evicted.append(unit)
        evicted.sort(key=lambda unit: unit.importance)
        return [f"a/{each['metadata']['name']}" for unit in evicted for each in unit.pods]


def list_units(running: list[Json]) -> list[Unit]:
    """Return the units of victims, node by node."""
    found: dict[str, Unit] = {}
    for each in sorted(running, key=lambda each: str(each["spec"]["nodeName"])):
        group = each["spec"].get("schedulingGroup", {}).get("podGroupName", "")
        if group == "h":
            found.setdefault("h", Unit(0, True, [])).pods.append(each)
        else:
            found[f"/{each['metadata']['name']}"] = Unit(each["spec"]["priority"], bool(group), [each])
    return list(found.values())


def breaks_budget(unit: Unit, allowed: dict[str, int]) -> bool:
    """Return whether the unit's budget allows no further disruption. Later units do not count."""
    for each in unit.pods:
        budget = each["metadata"]["labels"]["app"]
        if budget in allowed:
            allowed[budget] -= 1
            if allowed[budget] < 0:
                return True
    return False


def build_budget(app: str, allowed: int) -> Json:
    spec = {"selector": {"matchLabels": {"app": app}}}
    meta = {"name": app, "namespace": "a"}
    status = {"disruptionsAllowed": allowed}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec, "status": status}


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), running_pods, waiting_pods, budgets)
def test_victims_of_group_preemption(count: int, wanted: list, waiting: list, allowed: dict[str, int]) -> None:
    nodes = [build_node("n0", 4), build_node("n1", 3)]
    running: list[Json] = []
    for i, (on, cpu, group, priority, app) in enumerate(wanted):
        found = build_pod(f"r{i}", group, cpu, priority, bound=f"n{on}")
        found["metadata"]["labels"] = {"app": app}
        running.append({**found, "status": {"startTime": f"2026-01-{20 - i:02d}T00:00:00Z"}})
    members = {f"a/m{i}": build_pod(f"m{i}", "g", *each) for i, each in enumerate(waiting)}
    own = sum(each["spec"].get("schedulingGroup", {}).get("podGroupName") == "g" for each in running)
    objects = [*nodes, *GROUPS, build_gang("g", count, priority=PRIORITY), *running, *members.values()]
    objects += [build_budget(*each) for each in allowed.items()]
    cycles = run_queue(build_cluster(objects, WORKLOAD_AWARE)).to_dict()["cycles"]
    if own + len(members) < count:
        assert not cycles
        return
    naive = Naive(nodes, [members[name] for name in cycles[0]["order"]], own, count)
    bound = naive.placed(running)
    victims = [] if bound else naive.victims(running, dict(allowed))
    assert cycles[0].get("bound", {}) == bound
    assert (cycles[0].get("victims", []), cycles[0].get("waitingOnPreemption", False)) == (victims, bool(victims))
